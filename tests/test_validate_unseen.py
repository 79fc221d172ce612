"""Tables of unseen devices, engines and models: every row is predicted or counted with its reason (A-061)."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from rooflab import catalog
from rooflab.measure import endtoend, spelling, tables, validate
from rooflab.show.accuracy import validate_page
from rooflab.units import InputError

ROOT = Path(__file__).resolve().parent.parent
HEAD = "mode,system,backend,backend_version,model_path,precision,isl,osl,concurrency,tp_size,moe_ep_size,ttft_ms,tpot_ms,note"


def closed(system="h200_sxm", backend="vllm", model="Qwen/Qwen3-32B", **more) -> str:
    row = {
        "mode": "agg", "system": system, "backend": backend, "backend_version": "", "model_path": model, "precision": "",
        "isl": 1024, "osl": 128, "concurrency": 8, "tp_size": 4, "moe_ep_size": 1, "ttft_ms": 100, "tpot_ms": 10, "note": "x",
    }  # fmt: skip
    return ",".join(str({**row, **more}[name]) for name in HEAD.split(","))


def runs(tmp_path: Path, *rows: str) -> dict:
    (tmp_path / "runs.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    return validate.run(tmp_path)


@pytest.mark.parametrize(
    ("name", "engine", "version"),
    [
        ("vLLM 0.6.3", "vllm", "0.6.3"),
        ("vllm==0.11.0rc2", "vllm", "0.11.0rc2"),
        ("TensorRT-LLM", "trtllm", ""),
        ("dynamo-trt", "trtllm", ""),
        ("SGLang v0.5.5.post1", "sglang", "0.5.5.post1"),
        ("tgi 3.1", "vllm", ""),  # nobody fitted it: the stand-in, without that one's version
    ],
)
def test_engines_as_tables_name_them(name, engine, version):
    assert spelling.engine(name) == (engine, version)


def test_unseen_devices_engines_and_formats_are_predicted(tmp_path):
    """A-061: GPUs nobody measured here, engines by any spelling, a checkpoint of another owner and format, an extra column."""
    rows = [
        closed(system=system, backend=backend)
        for system in ("h200_sxm", "B200", "mi300x", "NVIDIA L40S", "gb200")
        for backend in ("vllm", "SGLang", "TensorRT-LLM", "tgi", "vllm 0.6.3")
    ]
    rows += [closed(model="QWEN/qwen3-32b"), closed(model="nobody/Qwen3-32B-FP8-dynamic", precision="FP8")]
    report = runs(tmp_path, *rows)
    assert report["skipped"] == []
    assert sum(row["predicted"] for row in report["endtoend"]) == len(rows)
    assert {row["backend"] for row in report["endtoend"]} >= {"tgi", "vllm 0.6.3", "TensorRT-LLM"}


def test_more_devices_than_a_node_and_a_dense_model_with_expert_ranks(tmp_path):
    report = runs(
        tmp_path, closed(system="h100_sxm", tp_size=16, model="meta-llama/Llama-3.1-405B"), closed(moe_ep_size=8)
    )
    assert report["skipped"] == []


def test_what_cannot_be_predicted_is_counted_once_with_its_reason(tmp_path):
    """A-061: no row is lost: two of one reason are two, and the sum is the table's length."""
    rows = [
        closed(mode="disagg"),
        closed(mode="disagg"),
        closed(system="unheard-of"),
        closed(model="nobody/nothing"),
        closed(ttft_ms=""),
        closed(backend=""),
        closed(model="meta-llama/Llama-3.1-405B", tp_size=1),
        closed(),
    ]
    report = runs(tmp_path, *rows)
    reasons = {each["reason"]: each["n"] for each in report["skipped"]}
    assert sum(reasons.values()) == report["overall"]["skipped"] == 7
    assert next(count for reason, count in reasons.items() if "disagg" in reason) == 2
    for word in ("unheard-of", "nobody/nothing", "ttft_ms", "backend", "no room"):
        assert any(word in reason for reason in reasons), word


def test_models_only_a_folder_has_in_any_case(tmp_path):
    """A-061: ids resolve from DIR by owner and name, in any case, as org__name.json or org/name/config.json."""
    configs, source = tmp_path / "configs", catalog.model_path("qwen3-8b")
    (configs / "acme" / "Other-8B").mkdir(parents=True)
    shutil.copy(source, configs / "Acme__Mind-8B.json")
    shutil.copy(source, configs / "acme" / "Other-8B" / "config.json")
    for name in ("acme/mind-8b", "ACME/Mind-8B-FP8", "acme/other-8b", "someone/Other-8B"):
        assert spelling.model(name, configs).hidden == 4096
    with pytest.raises(InputError, match="acme/third"):
        spelling.model("acme/third", configs)
    with pytest.raises(InputError, match="no folder"):
        spelling.model("acme/third", tmp_path / "absent")


def test_a_measured_table_of_another_kind_is_counted(tmp_path):
    (tmp_path / "strange.csv").write_text("gpu,thing,ttft_ms\na,b,1\nc,d,2\n")
    (tmp_path / "prices.csv").write_text("gpu,usd\na,1\n")
    report = validate.run(tmp_path)
    assert report["overall"]["skipped"] == 2
    assert "strange.csv" in report["skipped"][0]["reason"]


def serving(tmp_path: Path, changes: list[dict], most: int = 40) -> dict:
    """Runs like the shipped one, each with its changes, of its first requests."""
    with (ROOT / "data/serving/vllm_runs.csv").open(newline="") as stream:
        first = next(csv.DictReader(stream))
    with (ROOT / "data/serving/vllm_requests.csv").open(newline="") as stream:
        requests = list(csv.DictReader(stream))[:most]
    for name, rows in (
        ("runs", [{**first, **change, "run": f"r{i}"} for i, change in enumerate(changes)]),
        ("requests", [{**row, "run": f"r{i}"} for i in range(len(changes)) for row in requests]),
    ):
        with (tmp_path / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return validate.run(tmp_path)


def test_serving_runs_of_other_machines(tmp_path):
    """A-061: another GPU, a mixture with shared experts on two replicas, limits missing from the log, an older engine."""
    changes = [
        {"gpu": "H100", "model": "qwen/qwen3-32b", "tp": 2},
        {"gpu": "RTXPRO6000", "model": "Qwen/Qwen3-30B-A3B", "dp": 2, "ep": "True"},
        {"gpu": "L40S", "dp": 2},
        {"gpu": "RTX4090", "kv_tokens": "", "block_size": "", "max_num_seqs": ""},
        {"vllm": "0.9.1"},
        {"gpu": "unheard-of"},
    ]
    report = serving(tmp_path, changes)
    assert [row["run"] for row in report["serving"]] == ["r0", "r1", "r2", "r3", "r4"]
    for row in report["serving"]:
        assert row["n"] == 40
        assert set(row) == {"run", "n", "tpot", "ttft", "e2e", "makespan_error"}
        assert {"mean_error", "median_error"} <= set(row["tpot"])
    assert [(each["n"], "unheard-of" in each["reason"]) for each in report["skipped"]] == [(40, True)]
    json.dumps(report, allow_nan=False)


def test_two_replicas_share_the_load_and_older_engines_wait_for_their_host(tmp_path):
    """Law: the run's overload clears sooner on two cards; scheduling between iterations never makes it shorter."""
    report = serving(tmp_path, [{}, {"dp": 2}, {"vllm": "0.9.1"}])
    one, two, old = (row["makespan_error"] for row in report["serving"])
    assert two < one < old


def test_requests_that_cannot_be_read_do_not_take_their_run_along(tmp_path):
    serving(tmp_path, [{}])
    lines = (tmp_path / "requests.csv").read_text().splitlines()
    at = lines[0].split(",").index("input_toks")
    bad = lines[5].split(",")
    bad[at] = "many"
    (tmp_path / "requests.csv").write_text("\n".join([*lines[:5], ",".join(bad), *lines[6:]]) + "\n")
    report = validate.run(tmp_path)
    assert report["serving"][0]["n"] == 39
    assert [(each["n"], "many" in each["reason"]) for each in report["skipped"]] == [(1, True)]


def test_files_that_cannot_be_read_are_counted_and_traces_left_alone(tmp_path):
    """A-061: a broken Parquet file, bytes that are no text, a byte-order mark; arrivals without times are nobody's to predict."""
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "noise.csv").write_bytes(bytes(range(256)))
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + "\n".join([HEAD, closed()]).encode())
    (tmp_path / "trace.jsonl").write_text('{"timestamp": 1, "input_length": 5}\n')
    report = validate.run(tmp_path)
    assert [row["predicted"] for row in report["endtoend"]] == [1]
    assert [each["n"] for each in report["skipped"]] == [1]
    assert "broken.parquet" in report["skipped"][0]["reason"]


def test_a_renamed_checkpoint_runs_in_the_format_its_name_says():
    """DeepSeek-R1 is published in blocks of fp8; its NVFP4 twin has four-bit experts, its FP8 twin stays as it is."""
    original = spelling.model("deepseek-ai/DeepSeek-R1")
    assert endtoend.precision_in({}, original, "nvidia/DeepSeek-R1-NVFP4").expert == "nvfp4"
    assert endtoend.precision_in({}, original, "nvidia/DeepSeek-R1-NVFP4").attention == "fp8_block"
    assert endtoend.precision_in({}, original, "someone/DeepSeek-R1-FP8").expert == "fp8_block"
    assert endtoend.precision_in({}, spelling.model("openai/gpt-oss-20b"), "openai/gpt-oss-20b").expert == "mxfp4"


def test_a_run_that_measured_first_tokens_alone(tmp_path):
    """A-061: times that a table lacks are absent in the report, and a dash on the screen."""
    serving(tmp_path, [{}], most=20)
    with (tmp_path / "requests.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    kept = ("run", "input_toks", "output_toks", "arrival_s", "ttft_ms")
    lines = [",".join(kept), *(",".join(row[name] for name in kept) for row in rows)]
    (tmp_path / "requests.csv").write_text("\n".join(lines) + "\n")
    report = validate.run(tmp_path)
    (run,) = report["serving"]
    assert run["tpot"] is None
    assert run["makespan_error"] is None
    assert run["ttft"]["mean_error"] > -1.0
    table = validate_page(report).blocks[1]
    assert list(table.rows[0])[2:] == ["–", f"{run['ttft']['mean_error'] * 100:+.1f} %".replace("-", "−"), "–", "–"]


def test_hostile_cells_are_refused_by_line_and_every_row_is_counted(tmp_path):
    """A-061, A-063: cells no kernel has, lines cut short and blank lines: each row is predicted or refused where it stands."""
    sizes = "num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size"
    header = f"system,backend,moe_dtype,{sizes},distribution,latency_ms"
    good = ["h100_sxm", "vllm", "bf16", "64", "4096", "14336", "2", "8", "1", "1", "balanced", "1.0"]
    changes = [
        {},
        {3: "1e300"},
        {7: "1e9"},
        {6: "1.5"},
        {11: "1e-300"},
        {10: "power_law_1.0"},
        {10: "zigzag"},
        {9: "0"},
    ]
    lines = [",".join(change.get(at, cell) for at, cell in enumerate(good)) for change in changes]
    file = tmp_path / "experts.csv"
    file.write_text("\n".join([header, "", *lines, "h100_sxm,vllm"]))
    found = validate.run(file)
    assert [row["predicted"] for row in found["operators"]] == [1]
    assert found["overall"]["skipped"] == 8
    refused = dict(tables.check(tables.load(file), strict=False).refused)
    assert sorted(refused) == [4, 5, 6, 7, 8, 9, 10, 11]  # 1 is the header, 2 blank, 3 the row that can be trusted
    assert refused[5].startswith("num_experts")
    assert "16384 at most" in refused[5]


def test_text_that_is_no_table_never_stops_the_rest(tmp_path):
    """A-061: a cell too long, a line cut short, records that are none, requests without their run: counted, not raised."""
    header = "system,backend,model_path,isl,osl,concurrency,tp_size,ttft_ms,tpot_ms"
    good = "h100_sxm,vllm,Qwen/Qwen3-32B,1024,128,8,2,400,15"
    (tmp_path / "short.csv").write_text(
        "\n".join([header, good, "h100_sxm", good + ",7", "", good.replace(",2,", ",0.5,")])
    )
    (tmp_path / "long.csv").write_text("\n".join([header, good.replace("vllm", "v" * 200_000)]))
    (tmp_path / "none.jsonl").write_text('{"gemm_dtype": "fp8", "latency_ms": 1}\n[1]\n')
    (tmp_path / "orphans.csv").write_text("run,input_toks,output_toks,arrival_s\na,5,5,0.000\n")
    found = validate.run(tmp_path)
    assert [row["n"] for row in found["endtoend"]] == [1]
    reasons = {each["reason"]: each["n"] for each in found["skipped"]}
    assert reasons.pop("requests of a run that no table of runs has") == 1
    assert any(reason.startswith("short.csv line 3") and n == 2 for reason, n in reasons.items())
    assert any(reason.startswith("short.csv line 6: tp_size: '0.5'") for reason in reasons)
    assert any("long.csv: line 2" in reason for reason in reasons)
    assert sum(reasons.values()) == 6


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "system,backend,model_path,isl,osl,concurrency,tp_size,ttft_ms,tpot_ms\n"]
)
def test_a_file_without_measured_rows_is_said_to_be_one(tmp_path, text):
    """A-061."""
    file = tmp_path / "nothing.csv"
    file.write_text(text)
    with pytest.raises(InputError, match="holds no measured rows"):
        validate.run(file)
