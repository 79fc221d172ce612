"""Scenarios kept, compared and turned into commands: by the engine's questions and on the command line.

Expected numbers are those of an estimate of the same question; orders follow from physics (fewer bytes, less time).
"""

import csv
import io
import json
import shlex

import pytest

from rooflab import api
from rooflab.api import findings, snapshots
from rooflab.cli import main
from rooflab.units import InputError
from rooflab.units import format as shown

FP8 = {"model": "llama-3.1-70b", "on": "4x h100-sxm", "tp": 4, "batch": 128, "prompt": 2048, "weights": "fp8"}
BF16 = {**FP8, "weights": None}
OVER = {"model": "llama-3.1-70b", "on": "h100-sxm"}


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("ROOFLAB_STORE", str(tmp_path / "scenarios.sqlite3"))

    def command(*args):
        status = main([str(arg) for arg in args])
        caught = capsys.readouterr()
        return status, caught.out, caught.err

    return command


def side_by_side(**scenarios):
    return api.answer({"kind": "compare", "cases": [{"name": n, "scenario": s} for n, s in scenarios.items()]})


def row(report, key):
    return next(each for each in report["rows"] if each["key"] == key)


# ------------------------------------------------------------------------------------------------ comparing


def test_a_column_is_its_estimate_and_the_best_is_the_best():
    """D-132: lowest latency and memory, highest slack; a row says whether the columns differ."""
    report = side_by_side(fp8=FP8, bf16=BF16)
    for index, scenario in enumerate((FP8, BF16)):
        want = api.answer({"kind": "estimate", **scenario})
        for key in ("ttft", "tpot", "e2e", "output_throughput", "throughput_per_device"):
            assert row(report, key)["values"][index] == want[key]
        for key in ("weights", "kv", "used", "free"):
            assert row(report, key)["values"][index] == want["memory"][key]
    for key in ("tpot", "ttft", "weights", "used", "free", "output_throughput"):  # half the bytes of the weights
        assert row(report, key)["best"] == [0], key
    assert row(report, "kv")["best"] == []
    assert row(report, "kv")["differs"] is False
    assert row(report, "tp")["differs"] is False
    assert row(report, "ffn")["values"] == ["fp8", "bf16"]


def test_a_snapshot_has_what_a_comparison_needs():
    """D-131, D-907: batch, every bandwidth and latency, utilisation and dimensions are in the rows."""
    keys = {each["key"] for each in side_by_side(one=FP8)["rows"]}
    assert {"batch", "prompt", "output", "tp", "pp", "cp", "dp", "ep", "memory_bandwidth", "bandwidth_0", "latency_0",
            "compute_efficiency", "memory_efficiency", "layers", "params", "weights", "kv", "workspace", "used", "free",
            "attention_layer", "ffn_layer", "layer"} <= keys  # fmt: skip


def test_a_layer_is_its_halves_whatever_the_pipeline():
    """D-131, D-123: what the layers repeat, over the model's 80 layers; stages of a pipeline make no layer slower."""
    two = {**FP8, "tp": 2, "batch": 8}
    report = side_by_side(one=FP8, pipelined={**two, "pp": 2}, short={**two, "on": "2x h100-sxm"})
    outside = {"embedding", "all_reduce_embedding", "norm", "final_norm", "lm_head", "gather_logits"}
    step = api.answer({"kind": "estimate", **FP8, "detail": True})["decode_step"]
    inside = [op["time"] for op in step["ops"] if op["name"] not in outside]
    layer = row(report, "layer")["values"]
    assert layer[0] == pytest.approx(sum(inside) / 80, rel=1e-12)
    assert layer[1] == pytest.approx(layer[2], rel=1e-12)
    halves = [row(report, key)["values"][0] for key in ("attention_layer", "ffn_layer")]
    assert layer[0] == pytest.approx(sum(halves), rel=1e-12)


def test_operators_side_by_side_add_up_to_the_step():
    """D-133: every operator of every column, nothing where a column has no such operator."""
    moe = {"model": "mixtral-8x7b", "on": "4x h100-sxm", "tp": 4}
    report = side_by_side(dense=FP8, experts=moe)
    for index, scenario in enumerate((FP8, moe)):
        want = api.answer({"kind": "estimate", **scenario, "detail": True})["decode_step"]["time"]
        times = [each["times"][index] for each in report["stages"] if each["phase"] == "decode"]
        assert sum(time for time in times if time) == pytest.approx(want, rel=1e-9)
    only = [each for each in report["stages"] if None in each["times"]]
    assert only
    assert all(each["differs"] and not each["best"] for each in only)


def test_the_same_operator_of_two_models_is_one_row():
    """D-133: experts of every layer beside experts of some layers; what a model has twice stays two rows."""
    report = side_by_side(
        some={"model": "deepseek-v3", "on": "hgx-h200", "tp": 8},
        every={"model": "qwen3-next-80b-a3b", "on": "4x h100-sxm", "tp": 4},
    )
    rows = {each["name"]: each["times"] for each in report["stages"] if each["phase"] == "decode"}
    for name in ("experts_up", "shared_down", "router"):
        assert None not in rows[name]
        assert f"{name}@moe" not in rows
    assert {"gate_up@dense", "all_reduce_ffn@dense", "all_reduce_ffn@moe", "all_reduce_ffn"} <= set(rows)


def test_a_refused_column_says_why_and_leaves_the_others():
    """F-02: nothing is priced silently; D-902: a stale degree is refused, not carried along."""
    report = side_by_side(good=FP8, bad={**FP8, "tp": 3}, odd={**FP8, "colour": 1}, over=OVER)
    assert [column["fits"] for column in report["columns"]] == [True, None, None, False]
    assert "64 heads" in report["columns"][1]["error"]
    assert "colour" in report["columns"][2]["error"]
    assert row(report, "tpot")["values"][1:] == [None, None, None]
    assert row(report, "tp")["values"][:2] == [4, 3]
    assert row(report, "over")["values"][3] > 0
    assert row(report, "tpot")["best"] == []


@pytest.mark.parametrize(
    "values, better, want",
    [
        ([3.0, 1.0, None, 1.0], "down", [1, 3]), ([3.0, 1.0, 2.0], "up", [0]), ([1.0, 1.0], "down", []),
        ([1.0, None], "down", []), ([1.0, 2.0], "none", []), (["a", "b"], "down", []), ([True, False], "up", []),
    ],
)  # fmt: skip
def test_best_values(values, better, want):
    assert findings.best(values, better) == want


def test_two_profiles_side_by_side_and_the_switches_between_them():
    """E-26: any two can be shown side by side; each differing switch is evaluated alone."""
    report = api.answer(
        {"kind": "compare", "cases": [{"name": "x", "scenario": FP8}], "profiles": ["operator", "envelope"]}
    )
    assert [column["name"] for column in report["columns"]] == ["operator", "envelope"]
    for index, name in enumerate(("operator", "envelope")):
        assert row(report, "tpot")["values"][index] == api.answer({"kind": "estimate", **FP8, "profile": name})["tpot"]
    switches = {each["key"]: each for each in report["switches"]}
    fitted, plain = (api.answer({"kind": "estimate", **FP8, "prices": prices})["tpot"] for prices in (None, "roofline"))
    assert next(iter(switches)) == "prices"  # leaving measured kernels is a step of its own
    assert (switches["prices"]["tpot_before"], switches["prices"]["tpot"]) == (fitted, plain)
    want = api.answer({"kind": "estimate", **FP8, "prices": "roofline", "switches": {"memory_efficiency": 1.0}})
    assert switches["memory_efficiency"]["tpot"] == want["tpot"]
    assert switches["memory_efficiency"]["tpot_before"] == plain
    assert switches["tiles"]["tpot"] == plain  # every dimension fills its tiles here
    assert (switches["memory_efficiency"]["first"], switches["memory_efficiency"]["second"]) == (0.8, 1.0)
    assert switches["reserve"]["used"] == api.answer({"kind": "estimate", **FP8, "reserve": 0.0})["memory"]["used"]
    assert "rate_by_dtype" not in switches  # the same in both
    assert side_by_side(fp8=FP8, bf16=BF16)["switches"] == []


def test_the_finding_names_the_best_and_what_has_no_figures():
    """ux §1: a sentence with the answer; its numbers are the estimates' own."""
    report = side_by_side(**{"slow": BF16, "quick & <b>": FP8, "over": OVER, "x" * 60: {**FP8, "tp": 3}})
    fast, slow = (api.answer({"kind": "estimate", **each})["tpot"] for each in (FP8, BF16))
    lead = f"“quick & <b>” takes the least time a token, {shown(fast, 's', 3)} against {shown(slow, 's', 3)} of “slow”"
    assert report["finding"] == (
        f"{lead}, with the most from each device. “over” does not fit. “{'x' * 39}…” cannot be evaluated."
    )
    assert side_by_side(one=FP8, two=FP8)["finding"] == f"All take {shown(fast, 's', 3)} a token."
    other = {**FP8, "batch": 1}
    assert "The most from each device comes from “many”" in side_by_side(many=FP8, one=other)["finding"]
    assert "stands alone" in side_by_side(one=FP8)["finding"]
    assert side_by_side(one=OVER, two={"model": "x"})["finding"].startswith("“one” does not fit.")
    both = api.answer(
        {"kind": "compare", "cases": [{"name": "it", "scenario": FP8}], "profiles": ["operator", "envelope"]}
    )
    times = [row(both, "tpot")["values"][at] for at in (0, 1)]
    said = " and ".join(
        f"{shown(t, 's', 3)} under {name}" for t, name in zip(times, ("operator", "envelope"), strict=True)
    )
    assert both["finding"].startswith(f"A token takes {said}. The switch that moves it most is ")
    moves = {each["means"]: abs(each["tpot"] - each["tpot_before"]) for each in both["switches"]}
    assert max(moves, key=lambda means: moves[means]).partition(";")[0] in both["finding"]


def test_what_moved_since_it_was_saved_is_said():
    """D-134: a saved scenario replays, and says where an older engine's figures were others."""
    digest = api.answer({"kind": "snapshot", "scenario": FP8})["digest"]
    case = {"name": "x", "scenario": FP8, "version": "0.0.1", "digest": digest}
    assert api.answer({"kind": "compare", "cases": [case]})["columns"][0]["moved"] == []
    older = {**digest, "tpot": 2 * digest["tpot"], "fits": False, "ttft": "soon", "cost": [], "junk": {"x": 1}}
    said = api.answer({"kind": "compare", "cases": [{**case, "digest": older}]})["columns"][0]["moved"]
    assert len(said) == 2
    assert said[0] == "it did not fit, and does"
    assert said[1].startswith("TPOT was ")


@pytest.mark.parametrize(
    "ask, says",
    [
        ({"cases": []}, "cases"),
        ({"cases": [{"name": "x", "scenario": {}}] * 13}, "cases"),
        ({"cases": [{"name": "x", "scenario": FP8}] * 7, "profiles": ["operator", "envelope"]}, "14 columns"),
        ({"cases": [{"name": "x"}]}, "scenario"),
        ({"cases": [{"name": "x", "scenario": FP8, "colour": 1}]}, "colour"),
    ],
)
def test_bad_comparisons_are_refused(ask, says):
    with pytest.raises(InputError, match=says):
        api.answer({"kind": "compare", **ask})


# ------------------------------------------------------------------------------------------------ snapshots and commands

SCENARIOS = [
    FP8,
    OVER,
    {**FP8, "changes": {"memory_bandwidth": 4e12, "memory": "100 GB", "links.nvlink4.bandwidth": 3e11, "price": 0.001}},
    {**FP8, "switches": {"tiles": False, "compute_efficiency": 0.7, "collective": "ring"}, "reserve": 0.2},
    {
        **FP8,
        "weights": {"attention": "fp8", "ffn": "int4"},
        "kv": "fp8",
        "reserve": "2 GB",
        "varied": True,
        "concurrency": 8,
    },
    {"model": "deepseek-v3", "on": "hgx-h200", "tp": 1, "attention_dp": 8, "ep": 8, "microbatches": 2, "pp": 1},
    {"model": "qwen3-8b", "on": "sip", "tp": 8, "cp": 2, "profile": "sharded", "cp_placement": "outer"},
    {**OVER, "ignore_memory": True},
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_command_asks_the_same(scenario, run):
    """The command to reproduce gives the very same figures."""
    command = api.answer({"kind": "snapshot", "scenario": scenario})["command"]
    words = shlex.split(command)
    assert words[:2] == ["rooflab", "estimate"]
    status, out, err = run(*words[1:], "--json")
    assert (status, err) == (0, "")
    want = api.answer({"kind": "estimate", **scenario})
    drop = ("ask", "notes")
    assert {k: v for k, v in json.loads(out).items() if k not in drop} == {
        k: v for k, v in want.items() if k not in drop
    }


def test_options_are_spelled_as_the_command_line_spells_them():
    from rooflab.cli import options

    assert snapshots.SPELLED == options.SPELLED


def test_a_scenario_is_kept_without_this_machine_s_files(tmp_path):
    """D-134: it replays elsewhere; the content of a config.json and of a machine's file is in it."""
    config = {
        "model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
    }  # fmt: skip
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.json").write_text(json.dumps(config))
    (tmp_path / "box.toml").write_text(
        'device = "h100-sxm"\n[[links]]\nname = "wire"\nbandwidth = "50 GB/s"\nlatency = "2 us"\nsize = 4\n'
    )
    here = {"model": str(tmp_path / "mine"), "on": str(tmp_path / "box.toml"), "tp": 2}
    report = api.answer({"kind": "snapshot", "scenario": here})
    assert str(tmp_path) not in json.dumps(report["scenario"])
    assert report["scenario"]["model"]["hidden_size"] == 512
    want, found = api.answer({"kind": "estimate", **here}), api.answer({"kind": "estimate", **report["scenario"]})
    assert found["name"] == want["name"] == "mine"
    for key in ("ttft", "tpot", "memory"):
        assert found[key] == want[key]
    again = api.answer({"kind": "snapshot", "scenario": report["scenario"]})
    assert again["scenario"] == report["scenario"]
    assert again["command"] == "rooflab ask scenario.json"


def test_only_an_estimate_can_be_kept():
    with pytest.raises(InputError, match="'step' cannot be kept"):
        api.answer({"kind": "snapshot", "scenario": {**FP8, "kind": "step"}})
    with pytest.raises(InputError, match="colour"):
        api.answer({"kind": "snapshot", "scenario": {**FP8, "colour": 1}})


# ------------------------------------------------------------------------------------------------ the command line

SAVE = ["llama-3.1-70b", "--on", "4x h100-sxm", "--tp", "4", "--batch", "128", "--prompt", "2048"]


def test_save_and_compare(run):
    """D-130, D-132: saved under names, compared by them, only where they differ."""
    assert run("save", "fp8", *SAVE, "--weights", "fp8")[0] == 0
    assert run("save", "bf16", *SAVE)[0] == 0
    status, out, err = run("compare", "fp8", "bf16", "--only-differences", "--json")
    assert (status, err) == (0, "")
    report = json.loads(out)
    assert all(each["differs"] for each in report["rows"] + report["stages"])
    assert row(report, "tpot")["values"] == row(side_by_side(fp8=FP8, bf16=BF16), "tpot")["values"]
    text = run("compare", "fp8", "bf16")[1]
    assert "Latency" in text
    assert "TPOT" in text
    shorter = run("compare", "fp8", "bf16", "--only-differences")[1]
    assert "KV cache" in text
    assert "KV cache" not in shorter


def test_comparison_as_csv_is_exact_and_runs_nothing(run):
    run("save", "=cmd|' /C calc'!A0", *SAVE)
    run("save", "bf16", *SAVE)
    status, out, _ = run("compare", "=cmd|' /C calc'!A0", "bf16", "--csv", "--operators")
    assert status == 0
    rows = list(csv.reader(io.StringIO(out)))
    assert rows[0] == ["group", "quantity", "unit", "'=cmd|' /C calc'!A0", "bf16"]
    tpot = next(line for line in rows if line[1] == "TPOT")
    assert float(tpot[3]) == api.answer({"kind": "estimate", **BF16})["tpot"]
    assert any(line[0] == "decode" and line[1] == "gate_up" for line in rows)


def test_estimates_in_quotes_are_compared_with_what_is_saved(run):
    run("save", "here", *SAVE)
    report = json.loads(run("compare", "here", "rooflab estimate llama-3.1-70b --on '4x h200-sxm' --tp 4", "--json")[1])
    assert row(report, "device")["values"] == ["h100-sxm", "h200-sxm"]
    assert run("compare", "here", "llama-3.1-70b --onn x")[0] == 2


def test_two_profiles_on_the_command_line(run):
    run("save", "here", *SAVE)
    status, out, _ = run("compare", "here", "--profiles", "operator, envelope")
    assert status == 0
    assert "operator with one switch as in envelope" in out


def test_saved_ones_are_listed_renamed_deleted(run):
    assert "Nothing is saved yet" in run("saved")[1]
    run("save", "a", *SAVE)
    assert run("saved", "rename", "a", "b")[0] == 0
    assert [each["name"] for each in json.loads(run("saved", "--json")[1])] == ["b"]
    shown = json.loads(run("saved", "show", "b", "--json")[1])
    assert shown["tpot"] == api.answer({"kind": "estimate", **BF16})["tpot"]
    assert "b " in run("saved")[1]
    assert run("saved", "delete", "b")[0] == 0
    assert json.loads(run("saved", "--json")[1]) == []


def test_export_and_import_go_round(run, tmp_path):
    """D-134: export and import of JSON; a name that is taken gets a number."""
    run("save", "a", *SAVE)
    file = tmp_path / "out.json"
    assert run("saved", "export", file)[0] == 0
    assert run("saved", "export", "-")[1] == file.read_text()
    assert run("saved", "import", file)[1] == "imported 'a 2'\n"
    other = tmp_path / "other.sqlite3"
    run("saved", "import", file, "--store", other)
    records = [json.loads(run("saved", "--json", *more)[1]) for more in ((), ("--store", other))]
    assert records[0][0] == records[1][0]


BAD = {
    "taken": (["save", "a", *SAVE], "saved already"),
    "no such name": (["compare", "a", "zzz"], "'zzz' is not saved"),
    "alone": (["compare", "a"], "--profiles"),
    "no such profile": (["compare", "a", "a", "--profiles", "oprator"], "oprator"),
    "bad scenario": (["save", "c", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "3"], "64 heads"),
    "bad name": (["save", "", *SAVE], "is not a name"),
    "unbalanced": (["compare", "a", 'x --on "y'], "cannot be read"),
    "rename": (["saved", "rename", "a"], "OLD NEW"),
    "no file": (["saved", "import", "nowhere.json"], "nowhere.json"),
    "not json": (["saved", "import", "{text}"], "is not JSON"),
    "bad ask": (["saved", "import", "{odd}"], "odd.json: 'x': colour"),
    "bad store": (["saved", "--store", "{text}"], "holds no saved scenarios"),
    "nowhere to write": (["saved", "export", "/nowhere/at/all.json"], "cannot be written"),
}


@pytest.mark.parametrize("args, says", BAD.values(), ids=BAD)
def test_bad_input_is_one_line(run, tmp_path, args, says):
    run("save", "a", *SAVE)
    text, odd = tmp_path / "text", tmp_path / "odd.json"
    text.write_text("certainly no JSON at all")
    record = {"name": "x", "ask": {**FP8, "colour": 1}, "version": "1", "time": "t"}
    odd.write_text(json.dumps({"rooflab": "scenarios", "format": 1, "scenarios": [record]}))
    status, out, err = run(*(arg.format(text=text, odd=odd) if "{" in arg else arg for arg in args))
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
