"""The one door: what every report promises, whatever is asked (requirements B-040, B-050–B-054, D-012, E-22, E-31, F-02, F-04).

Nothing here compares with figures of the code's own: reports must decode into their records, name their units, add up,
agree with one another, and explain every number by a formula that evaluates to it.
"""

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from calculator import by_hand

from rooflab import api, catalog, explain
from rooflab.document import words
from rooflab.profiles import PROFILES
from rooflab.units import InputError
from rooflab.work import FORMATS

PLACED: dict[str, dict[str, Any]] = {
    "dense": {"model": "llama-3.1-8b", "on": "h100-sxm", "batch": 8},
    "dense tp": {"model": "llama-3.1-70b", "on": "dgx-h100", "tp": 8, "batch": 16, "prompt": 2048},
    "dense pp": {"model": "llama-3.1-70b", "on": "dgx-h100", "tp": 4, "pp": 2, "batch": 8, "microbatches": 4},
    "dense cp": {"model": "qwen3-8b", "on": "dgx-h100", "tp": 2, "cp": 4, "batch": 2, "prompt": 8192},
    "dense dp": {"model": "mistral-7b", "on": "dgx-h100", "dp": 4, "batch": 4, "prompt": 6000},
    "replicated heads": {"model": "qwen3-30b-a3b", "on": "dgx-h100", "tp": 8, "batch": 4},
    "split heads": {"model": "qwen3-8b", "on": "dgx-h100", "tp": 16, "kv_shard": "split", "batch": 4},
    "tied": {"model": "llama-3.2-1b", "on": "rtx-4090", "prompt": 300, "output": 20},
    "windows": {"model": "gemma-3-27b", "on": "h200-sxm", "batch": 3, "prompt": 900, "output": 400},
    "sinks": {"model": "gpt-oss-20b", "on": "l40s", "batch": 2, "prompt": 100, "output": 100},
    "experts": {"model": "mixtral-8x7b", "on": "mi300x-x8", "tp": 2, "batch": 16},
    "latent": {"model": "deepseek-v3", "on": "16x dgx-h100", "tp": 8, "ep": 16, "batch": 32},
    "latent dp": {"model": "deepseek-v3", "on": "hgx-h200", "tp": 1, "attention_dp": 8, "ep": 8, "batch": 32},
    "dedicated": {"model": "qwen3-235b-a22b", "on": "dgx-b200", "tp": 2, "ep": 4, "ep_mode": "dedicated", "batch": 8},
    "indexed": {"model": "deepseek-v3.2", "on": "hgx-h200", "tp": 8, "batch": 4, "prompt": 4096, "output": 64},
    "hybrid": {"model": "qwen3.5-27b", "on": "h200-sxm", "batch": 4},
    "hybrid experts": {"model": "qwen3-next-80b-a3b", "on": "dgx-h100", "tp": 4, "batch": 4},
    "chunked": {"model": "llama-4-scout", "on": "dgx-b200", "tp": 8, "batch": 2, "prompt": 16000, "cached": 4000},
    "4 bit": {"model": "llama-3.1-8b", "on": "rtx-4090", "weights": "q4_k", "kv": "q8_0", "prompt": 3000},
    "one token": {"model": "llama-3.1-8b", "on": "h100-sxm", "output": 1},
    "tiles": {"model": "phi-2", "on": "t4", "prompt": 77, "output": 33, "batch": 5},
    "fitted": {"model": "llama-3.1-70b", "on": "dgx-h100", "tp": 4, "batch": 16, "prices": "fitted"},
    "fitted experts": {"model": "gpt-oss-120b", "on": "dgx-b200", "tp": 2, "batch": 8, "prices": "fitted"},
    "sharded": {"model": "qwen3-8b", "on": "sip", "tp": 8, "cp": 2, "profile": "sharded", "prompt": 4096},
    "sharded prefill": {"model": "llama-3.1-8b", "on": "dgx-h100", "tp": 4, "profile": "sharded", "batch": 8},
    "classroom": {"model": "llama-3.1-8b", "on": "dgx-h100", "tp": 4, "profile": "classroom", "batch": 8},
    "envelope": {"model": "qwen3-8b", "on": "h100-sxm", "profile": "envelope", "batch": 8},
    "content": {
        "model": {
            "model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
        },
        "on": {
            "device": {"memory": "8 GB", "memory_bandwidth": "100 GB/s", "flop_rate": {"fp16": "10 TFLOP/s"}},
            "links": [{"name": "wire", "bandwidth": "5 GB/s", "latency": "10 us", "size": 2}],
        },
        "tp": 2, "prompt": 50, "output": 10,
    },
}  # fmt: skip
MODELS = (
    "llama-3.1-8b",
    "deepseek-v3.2",
    "gpt-oss-120b",
    "qwen3.5-35b-a3b",
    "gemma-3-27b",
    "gpt2",
    "kimi-k2.6",
    "phi-2",
)
EVERY_KIND = [
    *({"kind": "inspect", "model": name, "context": 9000, "batch": 3} for name in MODELS),
    *({"kind": "step", "phase": phase, **{k: v for k, v in PLACED[name].items() if k in ("model", "on", "tp", "profile")}}
      for name in ("dense tp", "windows", "latent dp", "hybrid", "envelope") for phase in ("prefill", "decode", "mixed")),
    *({"kind": "chip", "model": name, "on": on} for name in MODELS for on in ("h100-sxm", "sip", "tpu-v5e")),
    *({"kind": "catalog", "what": what} for what in ("models", "systems", "devices", "links", "formats", "profiles")),
    *({"kind": kind, **PLACED[name]} for name in PLACED for kind in ("estimate", "fit")),
    *({"kind": "explain", "op": op, **PLACED[name]} for name in ("dense", "latent", "hybrid") for op in ("ttft", "tpot", "kv")),
    {"kind": "estimate", "prices": "fitted", "detail": True, **PLACED["dense tp"]},
    {"kind": "sweep", "model": "llama-3.1-8b", "on": "dgx-h100", "vary": {"tp": [1, 2, 3], "batch": "1..16"}},
    {"kind": "sweep", "model": "qwen3-30b-a3b", "on": "dgx-h100", "layouts": 4, "also_on": ["mi300x-x8"], "rows": "pareto"},
    {"kind": "suggest", "model": "llama-3.1-8b", "on": "dgx-h100", "users": 32, "tpot": "30 ms"},
    {"kind": "plan", "model": "llama-3.1-70b", "on": "dgx-h100", "users": 100},
    {"kind": "sharded", "model": "qwen3-8b", "on": "sip", "axes": {"tp": [1, 2], "cp": [1, 2], "pp": [1]}, "context": 32_768},
    {"kind": "codesign", "model": "qwen3-8b", "on": "sip", "depth": "two_stage", "context": 32_768},
    {"kind": "rules", "model": "llama-3.1-70b", "on": "dgx-h100", "tp": 8, "batch": 32},
    {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 50, "rate": 2.0},
    {"kind": "compare", "cases": [{"name": name, "scenario": PLACED[name]} for name in ("dense", "latent", "hybrid", "content")]},
    {"kind": "compare", "cases": [{"name": "one", "scenario": PLACED["dense tp"]}], "profiles": ["operator", "classroom"]},
    {"kind": "snapshot", "scenario": PLACED["latent dp"]},
    {"kind": "unpack", "text": json.dumps({"rooflab": "scenarios", "format": 1, "scenarios": [
        {"name": "a", "ask": PLACED["dense"], "digest": {}, "version": "0.1.0", "time": "2026-01-31T12:00:00Z"}]})},
    {"kind": "shorten", "model": {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 128, "vocab_size": 256, "bos_token_id": 1}},
    {"kind": "document", "scenario": PLACED["experts"], "baseline": PLACED["dense"], "title": "Two models"},
    {"kind": "board", "answers": [3, 1, 2], "slots": 2},
]  # fmt: skip


def test_links_have_the_rates_their_makers_print():
    """B-020: one direction of each; 900 and 1,800 GB/s both ways for NVLink 4 and 5, 64 GB/s for PCIe 5 x16, 400 Gb/s."""
    rows = {row["name"]: row for row in api.answer({"kind": "catalog", "what": "links"})["rows"]}
    for name, want in (("nvlink4", 450e9), ("nvlink5", 900e9), ("pcie5-x16", 64e9), ("network-400g", 50e9)):
        assert rows[name]["bandwidth"] == want
        assert 0 < rows[name]["latency"] < 1e-4


def name_of(ask: dict[str, Any]) -> str:
    return " ".join(str(v if not isinstance(v, dict) else "…") for v in ask.values())


@cache
def estimate(name: str, **more: Any) -> dict[str, Any]:
    return api.answer({"kind": "estimate", **PLACED[name], **more})


def numbers(value: Any, path: str = ""):
    """Every number of a report with the path of its field, list positions left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from numbers(inner, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


# ------------------------------------------------------------------------------------------------ every kind


@pytest.mark.parametrize("ask", EVERY_KIND, ids=name_of)
def test_every_kind_of_question_is_answered_in_json(ask: dict[str, Any]):
    """A report is plain JSON, decodes into its record, is the same each time, and its ask gives it again (E-31)."""
    report = api.answer(ask)
    assert report["kind"] == ask["kind"]
    assert all(math.isfinite(number) for _, number in numbers(report))
    text = json.dumps(report, allow_nan=False)
    assert json.loads(text) == report  # lists, not tuples; text keys; nothing that JSON cannot say
    record = msgspec.convert(report, api.Report)
    assert json.loads(msgspec.json.encode(record)) == report
    assert api.answer(report["ask"]) == report
    assert api.answer(ask) == report
    assert all(note == note.strip() and note and "\n" not in note for note in report["notes"])
    assert len(set(report["notes"])) == len(report["notes"])


COUNTS = {  # numbers without a unit: how many there are of something
    "inspect": "params|active_params|active_params_without_embedding|other_params.*|layers|blocks.(count|params)|dimensions.*",
    "estimate": r"devices|(prefill|decode)_step\.(sequences|tokens|ops\.(count|shape\..*)|parts\.\w+)",
    "step": "ops.count|ops.shape.*",
    "explain": r"value|lines.(value|inputs|parts).*",  # each carries its unit beside it
    "fit": "devices|max_batch|changes.ask.*",
    "chip": r"chip.(.*\.)?(batch|layers|params|active_params|multiplier|ratio)|chip.formulas.value",
    "catalog": "rows.(params|active_params|layers|devices|levels.size)",
    "sweep": r"totals\..*|reasons\..*|table\.columns\..*|pareto|best\..*",  # a table carries its own units
    "suggest": r"tried|fitting|reasons\..*|layouts\.(layout\..*|devices|batch)",
    "plan": "axes.value|devices_per_replica|replicas|total|batch_at_limit|batch_in_memory|users_per_replica|"
    r"fleets\.(layout\..*|devices_per_replica|replicas|total|batch_at_limit|users_per_replica)|templates\..*|targets\..*",
    "sharded": r"totals\..*|reasons\..*|(table|sensitivities\.\w+)\.columns\..*|pareto|fastest|smallest|top_by_memory",
    "codesign": r"totals\..*|machines\.columns\..*|pareto|baseline|doublings\.(layout\..*|baseline_value|doubled_value)",
    "rules": r"checks\.(value|limit)|copies\.copies|ranks\.rank|shapes\.(params|layers)(_per_device)?|glossary\.value"
    r"|guidance\..*",
    "compare": r"columns\.scenario\..*|rows\.(values|best)|stages\.best|switches\.(first|second)",  # a row carries its own unit
    "document": "none",
    "unpack": r"scenarios\.ask\..*",
    "shorten": r"model\..*",
    "snapshot": r"(scenario|question|digest)\..*",  # a digest is what is kept, not what is shown
    "board": r"policies\.\w+\.(iterations|slots|start|finish)",
    "simulate": r"devices|replicas|limits\..*|kv_tokens|run\.(\w+\.)?(count|requests|served|refused|unfinished|running)|"
    r"run\.(preemptions|swaps|iterations|events)|iterations\.(decode|prompt)(_sequences|_tokens)?",
}


@pytest.mark.parametrize("ask", EVERY_KIND, ids=name_of)
def test_every_quantity_has_its_unit(ask: dict[str, Any]):
    """A number that is not a count is in the report's table of units (E-22)."""
    report = api.answer(ask)
    units = report["units"]
    for path, _ in numbers({key: value for key, value in report.items() if key not in ("ask", "units")}):
        parts = path.split(".")
        shorter = (".".join(parts[:i] + parts[i + 1 :]) for i in range(1, len(parts)))
        near = (path, *shorter)  # keys of a table are left out of the paths
        known = any(each == name or each.startswith(name + ".") for name in units for each in near)
        assert known or re.fullmatch(COUNTS[ask["kind"]], path), f"{path} has no unit"
    for table in (report[name] for name in ("table", "machines") if name in report):
        shares = {
            name for name, column in table["columns"].items() if any(isinstance(x, float) and x % 1 for x in column)
        }
        assert shares <= set(table["units"]), shares
    allowed = {"byte", "s", "token/s", "token", "1", "USD", "J", "FLOP", "FLOP/s", "byte/s", "FLOP/byte", "request/s",
               "byte/token", "W", "USD/s"}  # fmt: skip
    assert set(units.values()) <= allowed


def test_the_schema_is_json_schema_and_names_units():
    schema = api.schema()
    assert json.loads(json.dumps(schema)) == schema
    definitions = schema["$defs"]
    references = re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))
    assert references
    for reference in references:
        assert reference.startswith("#/$defs/")
        assert reference.rpartition("/")[2] in definitions
    assert definitions["EstimateReport"]["properties"]["ttft"]["anyOf"][0]["x-unit"] == "s"
    assert definitions["MemoryReport"]["properties"]["free"]["x-unit"] == "byte"
    kinds = [choice["$ref"].rpartition("/")[2] for choice in schema["properties"]["ask"]["anyOf"]]
    assert {definitions[kind]["properties"]["kind"]["enum"][0] for kind in kinds} == {ask["kind"] for ask in EVERY_KIND}
    for kind in kinds:
        assert kind.removesuffix("Ask") + "Report" in definitions


def valid(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether a value meets the parts of JSON Schema that the contract uses."""
    if "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return valid(value, found, root)
    if "anyOf" in schema:
        return any(valid(value, each, root) for each in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
    }
    wanted = schema.get("type")
    if wanted and (not isinstance(value, kinds[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        return False
    if isinstance(value, dict):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        if not set(schema.get("required", ())) <= set(value):
            return False
        for key, inner in value.items():
            if key in properties:
                if not valid(inner, properties[key], root):
                    return False
            elif rest is False or (isinstance(rest, dict) and not valid(inner, rest, root)):
                return False
    if isinstance(value, list) and "items" in schema:
        return all(valid(inner, schema["items"], root) for inner in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        above = value >= schema.get("minimum", -math.inf) and value > schema.get("exclusiveMinimum", -math.inf)
        return above and value <= schema.get("maximum", math.inf)
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 30)
    return True


@pytest.mark.parametrize("ask", EVERY_KIND, ids=name_of)
def test_real_reports_meet_the_schema(ask: dict[str, Any]):
    schema = api.schema()
    report = api.answer(ask)
    assert valid(report, schema["properties"]["report"], schema)
    assert valid(report["ask"], schema["properties"]["ask"], schema)
    assert not valid({**report, "notes": 3}, schema["properties"]["report"], schema)
    assert not valid({**report["ask"], "colour": "red"}, schema["properties"]["ask"], schema)


# ------------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("name", PLACED)
def test_memory_adds_up(name: str):
    """B-021: the kinds fill the device exactly; what is missing is over, never a negative free (D-012)."""
    for more in ({}, {"batch": 3000, "ignore_memory": True}):
        memory = estimate(name, **more)["memory"]
        kinds = math.fsum(memory[kind] for kind in ("weights", "kv", "workspace", "reserve"))
        assert memory["used"] == pytest.approx(kinds, rel=1e-12)
        assert memory["used"] + memory["free"] == pytest.approx(memory["capacity"] + memory["over"], rel=1e-12)
        assert min(memory["free"], memory["over"]) == 0.0
        assert 0 <= memory["state"] <= memory["kv"]
        assert estimate(name, **more)["fits"] == (memory["over"] == 0.0)


@pytest.mark.parametrize("name", [n for n in PLACED if n not in ("one token",)])
def test_no_figures_where_it_does_not_fit(name: str):
    """B-040: no performance without memory; `ignore_memory` shows it with a note that says so."""
    report = estimate(name, batch=200_000)
    assert not report["fits"]
    for field in ("ttft", "tpot", "e2e", "output_throughput", "low", "high", "bound", "shares", "energy_per_token",
                  "cost_per_million_tokens", "tokens_per_second_per_user"):  # fmt: skip
        assert report[field] is None
    assert any("does not fit" in note for note in report["notes"])
    shown = estimate(name, batch=200_000, ignore_memory=True)
    assert shown["ttft"] > 0
    assert not shown["fits"]
    assert any("ignore memory" in note for note in shown["notes"])
    assert report["would_bound"] == shown["bound"]  # in words only
    assert shown["would_bound"] is None
    assert any("if it fitted, prefill would wait most for " in note for note in report["notes"])


@pytest.mark.parametrize("name", PLACED)
def test_the_largest_batch_and_context_are_the_largest(name: str):
    """max_batch and max_context fit when asked for; one more does not."""
    ask = {"kind": "fit", **PLACED[name]}
    fit = api.answer(ask)
    assert fit["fits"] == estimate(name)["fits"]
    assert fit["memory"] == estimate(name)["memory"]
    if fit["max_batch"]:
        assert api.answer({**ask, "batch": fit["max_batch"]})["fits"]
        assert (fit["max_batch"] >= ask.get("batch", 1)) == fit["fits"]
    assert not api.answer({**ask, "batch": fit["max_batch"] + 1})["fits"]
    limit = api.answer({"kind": "inspect", "model": ask["model"]})["max_context"] or 2**31
    assert 0 <= fit["max_context"] <= limit
    prompt, output = ask.get("prompt", 1024), ask.get("output", 256)
    if fit["max_context"] > prompt + output:  # the workspace is that of the ask's own prompt
        assert api.answer({**ask, "output": fit["max_context"] - prompt})["fits"]
        if fit["max_context"] < limit:
            assert not api.answer({**ask, "output": fit["max_context"] - prompt + 1})["fits"]


OVER: dict[str, dict[str, Any]] = {
    "long and many": {"model": "llama-3.1-8b", "on": "h100-sxm", "batch": 200, "prompt": 7000, "output": 1000},
    "large model": {"model": "llama-3.1-70b", "on": "dgx-h100", "batch": 4},
    "experts": {"model": "deepseek-v3", "on": "dgx-h100", "tp": 8, "batch": 64, "prompt": 4000},
    "windows": {"model": "gemma-3-27b", "on": "h100-sxm", "batch": 64, "prompt": 9000, "cached": 8000},
    "small card": {"model": "qwen3-14b", "on": "rtx-4090", "prompt": 30_000},
    "hybrid": {"model": "qwen3.5-27b", "on": "l40s-x8", "batch": 16, "prompt": 20_000},
    "classroom": {"model": "llama-3.1-8b", "on": "dgx-h100", "batch": 400, "prompt": 4000, "profile": "classroom"},
    "sharded": {"model": "qwen3-8b", "on": "sip", "tp": 2, "prompt": 100_000, "profile": "sharded"},
    "two changes": {"model": "deepseek-v3", "on": "h100-sxm"},
    "nothing helps": {"model": "llama-3.1-405b", "on": "rtx-4090", "prompt": 30_000},
}


def allowed_and_fits(ask: dict[str, Any]) -> bool:
    try:
        return api.answer(ask)["fits"]
    except InputError:
        return False


@pytest.mark.parametrize("name", OVER)
def test_changes_that_would_help_do_help(name: str):
    """Each listed change fits when the question is asked with it, uses what it says, and is the smallest of its kind."""
    ask = {"kind": "fit", **OVER[name]}
    report = api.answer(ask)
    assert not report["fits"]
    for change in report["changes"]:
        changed = api.answer({**ask, **change["ask"]})
        assert changed["fits"], change["change"]
        assert changed["memory"]["used"] == change["used"]
        assert changed["memory"]["free"] == change["free"]
        assert api.answer({**ask, **change["ask"], "kind": "estimate"})["ttft"] > 0
    single = {next(iter(c["ask"])): c["ask"] for c in report["changes"] if len(c["ask"]) == 1}
    for field in ("batch", "prompt"):
        if field in single:
            assert single[field][field] < ask[field]
            assert not api.answer({**ask, field: single[field][field] + 1})["fits"]
    for axis in ("tp", "pp", "cp", "ep", "attention_dp"):
        degree = single.get(axis, {}).get(axis, 0) // 2
        while degree > ask.get(axis, 1):  # a smaller power of two is refused or does not fit
            assert not allowed_and_fits({**ask, axis: degree})
            degree //= 2
    for both in (c["ask"] for c in report["changes"] if len(c["ask"]) > 1):  # more than is needed is not offered
        assert not any(single.get(field) == {field: value} for field, value in both.items())
    if not report["changes"]:
        assert any("no change of" in note for note in report["notes"])


def test_two_changes_where_one_is_not_enough():
    """DeepSeek-V3 needs 674 GB and eight 80 GB devices leave 618 GB: eight of them and 4-bit weights do."""
    report = api.answer({"kind": "fit", **OVER["two changes"]})
    assert {"tp": 8, "weights": "int4"} in [change["ask"] for change in report["changes"]]
    assert not any(len(change["ask"]) == 1 for change in report["changes"])
    assert not api.answer({"kind": "fit", **OVER["nothing helps"]})["changes"]


def test_what_could_help_is_found():
    """Llama-3.1-70B in bf16 (141 GB) on one 80 GB H100 of eight: two devices by any of the axes, or narrower weights."""
    report = api.answer({"kind": "fit", "model": "llama-3.1-70b", "on": "dgx-h100", "batch": 4})
    asks = [change["ask"] for change in report["changes"]]
    assert {"tp": 2} in asks
    assert {"pp": 2} in asks
    # One byte a weight and two for table and head: 72.7 GB, 8.6 GB reserve, 4 × 1,280 × 327,680 B of cache: 83.0 of 85.9 GB.
    assert {"weights": "fp8"} in asks
    assert {"kv": "fp8"} not in asks


# ------------------------------------------------------------------------------------------------ files


def tensors(folder: Path, name: str, shapes: dict[str, tuple[str, list[int]]]) -> None:
    """A safetensors file with that header and zeros."""
    header, end = {}, 0
    for key, (dtype, shape) in shapes.items():
        size = math.prod(shape) * {"BF16": 2, "F32": 4, "U8": 1}[dtype]
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    (folder / name).write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(end))


def test_weights_beside_a_config_are_weighed(tmp_path: Path):
    """A folder with safetensors gives the files' own bytes and formats beside the counts, and says whether they agree."""
    config = {**PLACED["content"]["model"], "num_hidden_layers": 1, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    layer = 2 * 512 * 512 + 2 * 512 * 128 + 3 * 512 * 1408 + 2 * 512
    whole = 1000 * 512 + layer + 512
    assert api.answer({"kind": "inspect", "model": str(tmp_path)})["checkpoint"] is None
    tensors(tmp_path, "a.safetensors", {"table": ("BF16", [1000, 512]), "norm": ("F32", [512])})
    tensors(tmp_path, "b.safetensors", {"layer": ("BF16", [layer])})
    for source in (tmp_path, tmp_path / "config.json"):
        report = api.answer({"kind": "inspect", "model": str(source)})
        found = report["checkpoint"]
        assert report["params"] == whole == found["elements"]
        assert found["bytes"] == 2 * whole + 2 * 512
        assert found["bytes_by_format"] == {"BF16": 2 * (whole - 512), "F32": 4 * 512}
        assert (found["files"], found["basis"]) == (2, "headers")
        assert report["units"]["checkpoint.bytes"] == "byte"
        assert any("exactly" in note for note in report["notes"])
        assert msgspec.convert(report, api.Report)
    tensors(tmp_path, "c.safetensors", {"head": ("BF16", [1000, 512])})
    report = api.answer({"kind": "inspect", "model": str(tmp_path)})
    assert report["checkpoint"]["elements"] == whole + 512_000
    assert any("second copy" in note for note in report["notes"])
    (tmp_path / "d.safetensors").write_bytes(b"not tensors")
    report = api.answer({"kind": "inspect", "model": str(tmp_path)})
    assert report["checkpoint"] is None
    assert any("not a whole safetensors file" in note for note in report["notes"])


def test_a_file_that_changed_is_read_again(tmp_path: Path):
    """Neither a model nor a machine is remembered beyond its file."""
    config, machine = tmp_path / "config.json", tmp_path / "machine.toml"
    ask = {"kind": "estimate", "model": str(config), "on": str(machine), "prompt": 20, "output": 5}
    rates = "memory_bandwidth = '100 GB/s'\nflop_rate = { bf16 = '10 TFLOP/s' }\n"
    found = []
    for layers, memory in ((2, "4 GB"), (3, "4 GB"), (3, "80 GB")):
        config.write_text(json.dumps({**PLACED["content"]["model"], "num_hidden_layers": layers}))
        machine.write_text(f"memory = '{memory}'\n{rates}")
        report = api.answer(ask)
        found.append((report["memory"]["weights"], report["memory"]["capacity"]))
    assert found[0][0] < found[1][0] == found[2][0]
    assert found[0][1] == found[1][1] < found[2][1]


# ------------------------------------------------------------------------------------------------ identities


@pytest.mark.parametrize("name", PLACED)
def test_headline_identities(name: str):
    """B-052…B-054: end-to-end time and throughputs follow from TTFT and TPOT."""
    report, ask = estimate(name, ignore_memory=True), PLACED[name]
    batch, output, dp = ask.get("batch", 1), ask.get("output", 256), ask.get("dp", 1)
    layout = [ask.get(axis, 1) for axis in ("tp", "pp", "cp", "dp")]
    devices = math.prod(layout) * ask.get("attention_dp", 1)
    if ask.get("ep_mode") == "dedicated":
        devices *= ask["ep"]
    elif name == "latent":
        devices *= 2  # 16 expert ranks on tp 8: two groups of attention
    assert report["devices"] == devices
    tpot = report["tpot"] or 0.0
    e2e = report["ttft"] + (output - 1) * tpot
    assert report["e2e"] == pytest.approx(e2e, rel=1e-12)
    assert report["output_throughput"] == pytest.approx(batch * dp * output / e2e, rel=1e-12)
    assert report["throughput_per_device"] == pytest.approx(batch * dp * output / e2e / devices, rel=1e-12)
    if output > 1:
        assert report["decode_throughput"] == pytest.approx(batch * dp / tpot, rel=1e-12)
        assert report["tokens_per_second_per_user"] == pytest.approx(1 / tpot, rel=1e-12)
    for field in ("ttft", "tpot", "e2e", "output_throughput", "decode_throughput", "throughput_per_device"):
        if report[field] is not None:
            assert report["low"][field] <= report[field] <= report["high"][field]
    for phase, shares in report["shares"].items():
        assert math.fsum(shares.values()) == pytest.approx(1.0, rel=1e-9)
        assert report["bound"][phase] in ("compute", "weight", "kv", "activation", "comm", "overhead", "trivial")


@pytest.mark.parametrize("name", ["dense", "dense tp", "latent", "classroom"])
def test_money_and_energy(name: str):
    """Cost is rent over tokens, energy is power over output tokens, for all devices of the layout."""
    report, ask = estimate(name), PLACED[name]
    system = catalog.system(ask["on"])
    batch, output, prompt = ask["batch"], ask.get("output", 256), ask.get("prompt", 1024)
    rent = system.device_price * report["devices"]
    million = 10**6
    cost = report["cost_per_million_tokens"]
    assert cost["input"] == pytest.approx(rent * report["ttft"] / (batch * prompt) * million, rel=1e-12)
    assert cost["output"] == pytest.approx(rent * report["tpot"] / batch * million, rel=1e-12)
    assert cost["all"] == pytest.approx(rent * report["e2e"] / (batch * (prompt + output)) * million, rel=1e-12)
    energy = system.device.power * report["devices"] * report["e2e"] / (batch * output)
    assert report["energy_per_token"] == pytest.approx(energy, rel=1e-12)


def test_one_token_answers_have_no_time_per_token():
    """B-051: n/a, not zero; the answer is done when its first token is."""
    report = estimate("one token")
    assert report["tpot"] is None
    assert report["decode_throughput"] is None
    assert report["tokens_per_second_per_user"] is None
    assert report["e2e"] == report["ttft"]
    assert report["output_throughput"] == pytest.approx(1 / report["ttft"], rel=1e-12)
    assert set(report["shares"]) == set(report["bound"]) == {"prefill"}
    assert "output" not in report["cost_per_million_tokens"]
    assert report["low"]["tpot"] is None
    with pytest.raises(InputError, match="one-token answer"):
        api.answer({"kind": "explain", "op": "tpot", **PLACED["one token"]})


# ------------------------------------------------------------------------------------------------ steps


STEPS = [(name, phase) for name in PLACED if name != "one token" for phase in ("prefill", "decode")]


@cache
def step(name: str, phase: str) -> dict[str, Any]:
    placed = {k: v for k, v in PLACED[name].items() if k not in ("prompt", "output", "cached")}
    context = PLACED[name].get("prompt", 1024)
    return api.answer({"kind": "step", "phase": phase, "context": context, **placed})


@pytest.mark.parametrize("name, phase", STEPS)
def test_a_step_is_the_sum_of_its_operators(name: str, phase: str):
    """A-007, A-022: operators add up to the step, shares to one, and none beats its own roofline."""
    report = step(name, phase)
    peak, bandwidth = max(report["roofs"]["flop_rate"].values()), report["roofs"]["memory_bandwidth"]
    assert math.fsum(op["time"] for op in report["ops"]) == pytest.approx(report["time"], rel=1e-9)
    assert math.fsum(op["share"] for op in report["ops"]) == pytest.approx(1.0, rel=1e-9)
    assert math.fsum(report["shares"].values()) == pytest.approx(1.0, rel=1e-9)
    assert report["low"] <= report["time"] <= report["high"]
    assert len({op["name"] for op in report["ops"]}) == len(report["ops"])
    for op in report["ops"]:
        assert op["bytes"] == pytest.approx(op["weight_bytes"] + op["activation_bytes"] + op["kv_bytes"], rel=1e-12)
        assert op["memory_time"] >= op["bytes"] / bandwidth * (1 - 1e-12)
        assert op["compute_time"] >= op["flop"] / peak * (1 - 1e-12)
        assert op["intensity"] is None or op["intensity"] == pytest.approx(op["flop"] / op["bytes"], rel=1e-12)
    slowest = max(report["ops"], key=lambda op: op["time"])
    assert slowest["share"] == pytest.approx(slowest["time"] / report["time"], rel=1e-12)
    assert report["bound"] in {op["bound"] for op in report["ops"]}


def test_a_mixed_step_carries_both_phases():
    """A step with prompt and decode tokens together is no faster than either and no slower than both apart."""
    ask = {"kind": "step", "model": "llama-3.1-8b", "on": "h100-sxm"}
    decode = api.answer({**ask, "phase": "decode", "batch": 32, "context": 2000})
    prefill = api.answer({**ask, "phase": "prefill", "batch": 1, "context": 512})
    mixed = api.answer(
        {**ask, "phase": "mixed", "batch": 32, "context": 2000, "prefill_batch": 1, "prefill_tokens": 512}
    )
    assert max(decode["time"], prefill["time"]) <= mixed["time"] <= decode["time"] + prefill["time"]


# ------------------------------------------------------------------------------------------------ explanations


def explained(name: str, op: str, **more: Any) -> dict[str, Any]:
    return api.answer({"kind": "explain", "op": op, **PLACED[name], **more})


def assert_evaluates(report: dict[str, Any]):
    """F-04: every line's text with its numbers in it evaluates to the value shown beside it."""
    assert report["lines"]
    for line in report["lines"]:
        assert explain.evaluate(line["substituted"]) == pytest.approx(line["value"], rel=1e-9, abs=1e-300)
        assert line["means"], line["quantity"]
        assert line["counts"], line["quantity"]
        assert line["source"], line["quantity"]
        assert line["holds"], line["quantity"]
        assert line["unit"], line["quantity"]
    assert report["value"] == report["lines"][-1]["value"]
    assert report["unit"] == report["lines"][-1]["unit"]


RAW = re.compile(r"\b[a-z\d]+_[a-z_\d]+\b|[@`]|\b[SFC]\d+\b")
"""What only the engine calls so: names of operators, stages and variables."""


def assert_read_by_people(report: dict[str, Any]):
    """F-04, D-103: names as the views have them, and numbers from which the figure beside them can be worked out."""
    for line in report["lines"]:
        assert set(line["names"]) == set(line["units"]) == set(line["inputs"])
        assert set(line["parts"]) <= set(line["inputs"])
        if line["parts"]:
            assert math.fsum(line["parts"].values()) == pytest.approx(line["value"], rel=1e-12, abs=1e-300)
        said = [
            line["title"],
            *line["names"].values(),
            words.in_words(line),
            line["means"],
            line["counts"],
            line["holds"],
        ]
        assert not [text for text in said if RAW.search(text)], line["quantity"]
        # Three digits of the figure: half a unit of the third, and what is lost by five digits of its inputs.
        assert by_hand(words.in_numbers(line)) == pytest.approx(line["value"], rel=3e-4, abs=1e-300), line["quantity"]


@pytest.mark.parametrize("name, phase", STEPS)
def test_every_operator_is_explained_by_formulas_that_evaluate_to_it(name: str, phase: str):
    """F-04: for every operator of a step, work and time; the last line is the time in the step report."""
    context = PLACED[name].get("prompt", 1024)
    more = {"cached": 0} if phase == "prefill" else {}
    for op in step(name, phase)["ops"]:
        report = explained(name, op["name"], phase=phase, context=context, **more)
        assert_evaluates(report)
        assert_read_by_people(report)
        assert report["value"] == pytest.approx(op["time"], rel=1e-9, abs=1e-300), op["name"]
        shown = {line["quantity"]: line["value"] for line in report["lines"]}
        for quantity in ("flop", "weight_bytes", "activation_bytes", "kv_bytes", "message_bytes"):
            if quantity in shown:
                assert shown[quantity] * op["count"] == pytest.approx(op[quantity], rel=1e-9), (op["name"], quantity)
            else:
                assert op[quantity] == 0.0, (op["name"], quantity)


@pytest.mark.parametrize(
    ("subject", "basis"),
    [
        ("kv", "exact"),
        ("weights", "exact"),
        ("memory", "assumed"),
        ("tpot", "fitted"),
        ("ttft", "fitted"),
        ("cost", "fitted"),
    ],
)
def test_a_total_says_its_basis(subject: str, basis: str):
    """E-22, A-066: counts are exact, totals with a rule of thumb in them assumed, times what their operators are."""
    ask = {"kind": "explain", "model": "llama-3.1-8b", "on": "h100-sxm", "op": subject}
    assert api.answer(ask)["basis"] == basis
    if basis == "fitted":
        assert api.answer({**ask, "prices": "roofline"})["basis"] == "roofline"


def test_what_does_not_fit_says_nothing_of_its_price():
    """F-02: no cost and no energy are given, so where they would come from is not said either."""
    ask = {"kind": "estimate", "model": "llama-3.1-70b", "on": "h100-sxm"}
    assert not any("price:" in note or "energy" in note for note in api.answer(ask)["notes"])
    assert any("energy" in note for note in api.answer({**ask, "on": "dgx-h100", "tp": 4})["notes"])


def test_where_prices_come_from_is_said():
    """A-066: measured here, carried over, or shares of the peak; never one for the other."""
    said = {}
    for device in ("h100-sxm", "h200-sxm", "mi300x"):
        ask = {"kind": "estimate", "model": "llama-3.1-8b", "on": device}
        said[device] = next(note for note in api.answer(ask)["notes"] if note.startswith("prices"))
    assert said["h100-sxm"] == "prices fitted on kernels of vllm measured on h100-sxm"
    assert "carried over from kernels of vllm measured on h100-sxm" in said["h200-sxm"]
    assert "no kernels measured" in said["mi300x"]
    assert "fitted" not in said["mi300x"]


def test_the_whole_model_is_counted_once():
    """D-121: weights of 70.6 B parameters in 16 bits and 320 KiB of cache a token, whatever the layout; copies only add."""
    ask = {"kind": "fit", "model": "llama-3.1-70b", "on": "dgx-h100", "batch": 16, "prompt": 2048, "output": 256}
    for layout in ({"tp": 8}, {"tp": 4, "pp": 2}, {"tp": 16}, {"tp": 2, "dp": 3}):
        found = api.answer({**ask, **layout})
        assert found["whole"]["weights"] == pytest.approx(2 * 70.554e9, rel=1e-3)
        assert found["whole"]["kv"] == 2 * 80 * 8 * 128 * 2 * 2304 * 16 * layout.get("dp", 1)
        assert found["whole"]["total"] == found["whole"]["weights"] + found["whole"]["kv"]
        assert found["held"] >= found["whole"]["total"] * (1 - 1e-9)
    copied = api.answer({**ask, "tp": 16})["held"] - api.answer({**ask, "tp": 8})["held"]
    assert copied > found["whole"]["kv"] / 3  # eight KV heads on sixteen ranks: each is held twice


def test_the_halves_of_the_layers_add_up():
    """D-101, D-123: every operator is attention's, the feed-forward's or neither's; per layer is the mean over the layers."""
    for ask in (
        {"model": "llama-3.1-8b", "on": "dgx-h100", "tp": 8},
        {"model": "llama-3.1-8b", "on": "dgx-h100", "tp": 2, "pp": 4, "microbatches": 2},  # through every stage
        {"model": "deepseek-v3", "on": "hgx-h200", "tp": 8},
        {"model": "mixtral-8x7b", "on": "sip", "tp": 8, "cp": 2, "profile": "sharded"},
    ):
        question = {"kind": "estimate", "batch": 8, "prompt": 1000, "output": 100, "ignore_memory": True}
        step = api.answer({**question, "detail": True, **ask})["decode_step"]
        halves = {each["scope"]: each for each in step["scopes"]}
        assert math.fsum(each["time"] for each in halves.values()) == pytest.approx(step["time"], rel=1e-12)
        layers = {"llama-3.1-8b": 32, "deepseek-v3": 61, "mixtral-8x7b": 32}[ask["model"]]
        for name in ("attention", "ffn"):
            assert halves[name]["per_layer"] * layers == pytest.approx(halves[name]["time"], rel=1e-12)
            assert halves[name]["time"] > 0.02 * step["time"]
        assert halves["rest"]["per_layer"] is None
        for op in step["ops"]:
            if op["part"] == "collective":
                reduced = op["name"].partition("@")[0].removeprefix("all_reduce_")
                assert reduced not in ("attention", "ffn") or op["scope"] == reduced


def test_a_context_parallel_prefill_says_both_lengths():
    """D-906: the caption's tokens are the prompt's; the rows a device computes are its share of them."""
    ask = {"kind": "estimate", "model": "llama-3.1-8b", "on": "dgx-h100", "prompt": 8192, "output": 16, "detail": True}
    for cp in (1, 4):
        step = api.answer({**ask, "cp": cp})["prefill_step"]
        assert step["tokens"] == 8192
        qkv = next(op for op in step["ops"] if op["name"] == "qkv")
        assert qkv["shape"]["m"] == 8192 / cp


def test_achievable_roofs_are_those_of_the_prices():
    """A-014: shares of the profile for the roofline, what large products were measured to reach for fitted prices."""
    ask = {"kind": "step", "model": "llama-3.1-8b", "on": "h100-sxm", "phase": "prefill", "context": 8192}
    plain, fitted = api.answer({**ask, "prices": "roofline"}), api.answer(ask)
    rate = plain["roofs"]["flop_rate"]["bf16"]
    assert plain["roofs"]["achievable_flop_rate"]["bf16"] == 0.65 * rate
    reached = fitted["roofs"]["achievable_flop_rate"]["bf16"]
    assert max(op["achieved"] for op in fitted["ops"] if op["kind"] == "gemm") <= reached * 1.001
    assert 0.7 * rate < reached < rate


@pytest.mark.parametrize("name", PLACED)
def test_every_total_is_explained(name: str):
    """F-04: the last line of a total's explanation is the number of the estimate."""
    report = estimate(name, ignore_memory=True)
    memory, cost = report["memory"], report["cost_per_million_tokens"]
    shown = {
        "ttft": report["ttft"], "tpot": report["tpot"], "e2e": report["e2e"], "output_throughput": report["output_throughput"],
        "energy": report["energy_per_token"], "kv": memory["kv"], "weights": memory["weights"], "workspace": memory["workspace"],
        "cost": cost and (cost["output"] if "output" in cost else cost["input"]),
    }  # fmt: skip
    for subject, value in shown.items():
        if value is None:
            with pytest.raises(InputError, match=rf"^{subject}: "):
                explained(name, subject)
            continue
        found = explained(name, subject)
        assert_evaluates(found)
        assert_read_by_people(found)
        assert found["value"] == pytest.approx(value, rel=1e-9), subject
        assert found["leaves_out"] == list(PROFILES[report["profile"]].leaves_out)


@pytest.mark.parametrize("name", ["dense", "latent", "hybrid", "sharded", "classroom"])
def test_references_of_explanations_are_on_record(name: str):
    """E-22: what a formula cites in back quotes is a key of refs.toml, and the report carries its title."""
    known = catalog.refs()
    for op in step(name, "decode")["ops"]:
        report = explained(name, op["name"])
        cited = {key for line in report["lines"] for key in re.findall(r"`([^`]+)`", line["source"])}
        assert cited <= set(known)
        assert set(report["refs"]) == cited


# ------------------------------------------------------------------------------------------------ refusals


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kind": "estimat"}, r"^kind: 'estimat' is not a question; ask one of inspect, estimate"),
    ({}, r"^kind: None is not a question"),
    ({"kind": "estimate", "on": "h100-sxm"}, r"^model: is missing"),
    ({"kind": "estimate", "model": "gpt2"}, r"^on: is missing"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "bacth": 3}, r"^bacth: .* no such field; did you mean 'batch'"),
    ({"kind": "estimate", "model": "lama-3.1-8b", "on": "h100"}, r"^model: .*did you mean 'llama-3.1-8b'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100-sx"}, r"did you mean 'h100-sxm'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "profile": "operators"}, r"^profile: .*did you mean 'operator'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "weights": "fp88"}, r"^weights: .*did you mean 'fp8'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "kv": "q8"}, None),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "kv": "8bit"}, r"^kv: '8bit' is not a number format"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "weights": {"atention": "fp8"}}, r"^weights: 'atention' is not a "),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "switches": {"compute_eficiency": 0.5}},
     r"^switches: .*did you mean 'compute_efficiency'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "changes": {"memory_bandwith": "2x"}}, r"'memory_bandwidth'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "changes": {"memory": "2 TB/s"}}, r"^memory: .* is in byte/s, not byte"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "batch": 0}, r"^batch: .* of at least 1 \(it is 0\)$"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "prompt": 5, "cached": 5}, r"^cached: 5 must be below prompt \(5\)"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "tp": 5}, r"^layout: tp=5 .* 12 heads.*; tp may be 1, 2, 3, 4, 6$"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "pp": 13}, r"^layout: pp=13 exceeds the model's 12 layers"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "ep": 2}, r"no experts to spread"),
    ({"kind": "estimate", "model": "llama-3.1-8b", "on": "rtx-4090", "tp": 2}, r"needs 2 devices; rtx-4090 has 1"),
    ({"kind": "explain", "model": "gpt2", "on": "h100", "op": "lm_heat"}, r"^op: 'lm_heat' is not in the decode step.*'lm_head'"),
    ({"kind": "catalog", "what": "model"}, r"^what: 'model' is not one of .*did you mean 'models'"),
    ({"kind": "step", "model": "gpt2", "on": "h100", "phase": "decoding"}, r"^phase: 'decoding' is not one of .*'decode'"),
    ({"kind": "estimate", "model": "gpt2", "on": "h100", "reserve": "100%"}, r"^reserve: .*leaves no memory"),
]  # fmt: skip


@pytest.mark.parametrize("ask, message", REFUSED, ids=lambda value: str(value)[:70])
def test_refusals_name_the_field_and_say_what_to_do(ask: dict[str, Any], message: str | None):
    """F-02: one line, with a suggestion where there is one."""
    if message is None:  # an abbreviation that is understood
        assert api.answer(ask)["kind"] == ask["kind"]
        return
    with pytest.raises(InputError, match=message) as refused:
        api.answer(ask)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) <= 400


@pytest.mark.parametrize("name", ["experts", "latent", "hybrid", "windows"])
def test_the_classroom_refuses_what_it_does_not_cover(name: str):
    """B-090: dense causal models only; the reason says which profile to use instead."""
    placed = {key: PLACED[name][key] for key in ("model", "on")}
    for kind in ("estimate", "step", "fit", "explain"):
        more = {"op": "ttft"} if kind == "explain" else {}
        with pytest.raises(InputError, match=r"classroom.*take another profile"):
            api.answer({"kind": kind, **placed, "profile": "classroom", **more})


def test_the_classroom_knows_only_tensor_parallelism():
    """B-060: other axes, and uneven heads, are refused."""
    ask = {"kind": "estimate", "model": "llama-3.1-8b", "on": "dgx-h100", "profile": "classroom"}
    for axis in ("pp", "cp", "dp"):
        with pytest.raises(InputError, match=f"{axis}=2: the classroom profile has no {axis}"):
            api.answer({**ask, axis: 2})
    with pytest.raises(InputError, match="KV heads"):
        api.answer({**ask, "tp": 16})


def test_a_profile_s_name_and_rates_are_in_the_notes():
    """A-066, E-26: estimates say which profile made them, and that rates are assumed."""
    for name in PROFILES:
        ask = {"kind": "estimate", "model": "llama-3.1-8b", "on": "h100-sxm", "profile": name, "prices": "roofline"}
        report = api.answer(ask)
        assert report["profile"] == name
        assert any(f"profile {name}" in note for note in report["notes"])
    assert any("assumed" in note for note in api.answer({**ask, "profile": "operator"})["notes"])


# ------------------------------------------------------------------------------------------------ notes


def notes(**ask: Any) -> str:
    return " | ".join(api.answer({"kind": "estimate", "ignore_memory": True, **ask})["notes"])


def test_notes_say_what_was_done_on_the_way():
    """E-22: whatever the answer assumes about layout, formats and lengths is said."""
    assert "each is held 2 times" in notes(**PLACED["replicated heads"])
    assert "split over 2 ranks" in notes(**PLACED["split heads"])
    assert "attention_dp=2" in notes(**PLACED["latent"])
    assert re.search(r"latent cache is held whole by every one of the 8", notes(**PLACED["indexed"]))
    assert "latent cache" not in notes(**PLACED["latent dp"])
    assert "exceed the model's longest context of 1,024" in notes(model="gpt2", on="h100-sxm")
    assert "fp16 rate" in notes(model="llama-3.1-8b", on="t4")
    assert "no price is known for t4, so no cost: set the price of a device" in notes(model="llama-3.1-8b", on="t4")
    assert "price: given" in notes(model="llama-3.1-8b", on="t4", changes={"price": "1 USD/h"})


def test_what_if_changes_change_the_machine():
    """C-022, D-231: absolute values and multiples reach the estimate and the report's roofs."""
    ask = {"kind": "step", "model": "llama-3.1-8b", "on": "h100-sxm"}
    plain, doubled = api.answer(ask), api.answer({**ask, "changes": {"memory_bandwidth": "2x"}})
    assert doubled["roofs"]["memory_bandwidth"] == 2 * plain["roofs"]["memory_bandwidth"]
    assert plain["time"] / 2 < doubled["time"] < plain["time"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_weights_and_cache(name: str):
    """Weights and cache scale with the format's bytes per element, scales included (B07, B27)."""
    ask = {"kind": "inspect", "model": "llama-3.1-8b", "context": 1000}
    found = api.answer({**ask, "weights": name, "kv": name})
    linear = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    rest = 8_030_261_248 - linear
    sixteen = FORMATS[name].size if name in ("fp32", "bf16", "fp16") else 2.0
    expected = (
        linear * FORMATS[name].size + rest * sixteen
    )  # a plain float is what all is served in; else 16 bit remain
    assert found["weight_bytes"] == pytest.approx(expected, rel=1e-12)
    assert found["precision"]["activation"] == (name if name in ("fp32", "fp16") else "bf16")
    assert found["kv_bytes"] == pytest.approx(65_536 * FORMATS[name].size * 1000, rel=1e-12)


def test_work_per_byte_of_each_phase():
    """B-022: one decode step of one sequence moves each 16-bit weight once for one multiply-add: 1 FLOP a byte, nearly.

    A prefill of T tokens does T times the work on the same weights, so its products lie far above; sums are of the operators.
    """
    ask = {
        "kind": "estimate",
        "model": "llama-3.1-8b",
        "on": "h100-sxm",
        "batch": 1,
        "prompt": 2048,
        "output": 16,
        "detail": True,
    }
    report = api.answer(ask)
    for phase, low, high in (("decode_step", 0.9, 1.0), ("prefill_step", 300, 2048)):
        step = report[phase]
        work = {each["name"]: each for each in step["work"]}
        assert low < work["matmul"]["intensity"] <= high
        for field in ("flop", "bytes", "time"):
            assert work["all"][field] == pytest.approx(math.fsum(op[field] for op in step["ops"]), rel=1e-12)
        assert work["all"]["flop"] >= work["matmul"]["flop"] + work["attention"]["flop"]


def test_a_count_before_a_system_is_of_devices_and_says_so():
    """ "4x dgx-h100" could be read as four of them; it is four devices, which is said where it runs and where it is refused."""
    given = {"kind": "estimate", "model": "llama-3.1-8b", "on": "4x dgx-h100"}
    assert (
        "'4x dgx-h100' is 4 devices of dgx-h100: a count is always of devices"
        in api.answer({**given, "tp": 4})["notes"]
    )
    for plain in ("dgx-h100", "4x h100-sxm"):
        assert not any("count is" in note for note in api.answer({**given, "on": plain, "tp": 4})["notes"])
    with pytest.raises(InputError, match="needs 8 devices; dgx-h100 has 4; '4x dgx-h100' is 4 devices"):
        api.answer({**given, "tp": 8})
