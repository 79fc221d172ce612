"""Bad input of every kind gives one line that helps, or a sound answer: never a traceback, a hang or nonsense (F-02).

Mutations come from fixed seeds, so a failure can be repeated: the id of a case is its seed.
"""

import copy
import json
import math
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflab import api, catalog
from rooflab.profiles import Profile
from rooflab.system import Device
from rooflab.units import InputError

LONGEST = 400
PATIENCE = 5.0


class Hang(BaseException):
    """An answer took too long; not an Exception, so that nothing catches it."""


@pytest.fixture(autouse=True)
def _no_hangs() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from numbers(inner, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def outcome(ask: Any, least: float = 0.0) -> str | None:
    """The refusal's line, or None after a sound answer; anything else fails."""
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        report = api.answer(ask)
    except InputError as refusal:
        text = str(refusal)
        assert text
        assert "\n" not in text
        assert len(text) <= LONGEST, text
        return text
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    json.dumps(report, allow_nan=False)
    for path, number in numbers({key: value for key, value in report.items() if key != "ask"}):
        assert math.isfinite(number), path
        assert number >= least, (path, number)
    return None


def refused(ask: Any, *words: str) -> None:
    text = outcome(ask)
    assert text is not None
    for word in words:
        assert word in text, text


# ------------------------------------------------------------------------------------------------ configs


CONFIGS = Path(__file__).parent / "configs"
BASES = {
    **{name: catalog.model_path(name) for name in (
        "llama-3.1-8b", "deepseek-v3.2", "gpt-oss-20b", "qwen3.5-35b-a3b", "gemma-3-27b", "mixtral-8x7b", "dbrx", "falcon-40b",
        "kimi-k2.6", "minimax-m3", "llama-4-scout", "opt-125m", "llama-3.2-11b-vision", "step-3", "gemma-4-26b-a4b",
    )},
    **{path.stem: path for path in sorted((CONFIGS / "reports").glob("*.json"))},
    "kimi-linear": CONFIGS / "moonshotai__Kimi-Linear-48B-A3B-Instruct.RECON.json",
    "granite-hybrid": CONFIGS / "ibm-granite__granite-4.0-h-tiny.RECON.json",
    "gemma-3n": CONFIGS / "google__gemma-3n-E2B-it.RECON.json",
}  # fmt: skip
MISSING = "(missing)"
WRONG: tuple[Any, ...] = (
    MISSING, None, -1, 0, 1, 3, 7, 2**31, 2**63, 10**30, 0.5, 1.5, -0.0, 1e300, math.nan, math.inf, True, False, "", "8", "abc",
    "x" * 10_000, [], [1], [None] * 3, ["full_attention"], {}, {"a": 1}, [[[[]]]],
)  # fmt: skip


def places(table: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key of a table and of the tables in it."""
    for key, value in table.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from places(value, (*before, key))


def changed(table: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy with one value replaced or removed."""
    result = copy.deepcopy(table)
    inner: Any = result
    for key in place[:-1]:
        inner = inner.get(key) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner[place[-1]] = value
        if value is MISSING:
            del inner[place[-1]]
    return result


def config_of(name: str) -> dict[str, Any]:
    return json.loads(BASES[name].read_text(encoding="utf-8"))


def ask_both(config: Any) -> None:
    outcome({"kind": "inspect", "model": config})
    outcome({"kind": "estimate", "model": config, "on": "dgx-b200", "ignore_memory": True})


@pytest.mark.parametrize("seed", range(220))
def test_a_damaged_config_is_refused_or_read_soundly(seed: int):
    """Missing, null, wrong type, negative, zero, huge, not a number, nested: one to three damages of a published config."""
    dice = random.Random(seed)
    name = dice.choice(sorted(BASES))
    config = config_of(name)
    for _ in range(dice.choice((1, 1, 2, 3))):
        config = changed(config, dice.choice(list(places(config))), dice.choice(WRONG))
    ask_both(config)


@pytest.mark.parametrize("name", sorted(BASES))
def test_every_size_may_be_damaged(name: str):
    """Each key in turn, with the damages that most often slip through."""
    config = config_of(name)
    for place in places(config):
        for value in (MISSING, None, -1, 0, 10**30, math.nan, "8", [], {}):
            outcome({"kind": "inspect", "model": changed(config, place, value)})


@pytest.mark.parametrize("key, value", [
    ("hidden_size", -4096), ("hidden_size", 0), ("hidden_size", 1e300), ("hidden_size", math.nan), ("hidden_size", math.inf),
    ("hidden_size", True), ("hidden_size", "4096"), ("hidden_size", [4096]), ("hidden_size", None), ("hidden_size", 4096.5),
    ("num_hidden_layers", 0), ("num_hidden_layers", 2**63), ("num_hidden_layers", 1e9), ("num_attention_heads", 0),
    ("num_attention_heads", -32), ("num_attention_heads", 10**9), ("num_key_value_heads", 7), ("num_key_value_heads", -1),
    ("vocab_size", 0), ("vocab_size", 2**62), ("intermediate_size", -1), ("head_dim", -128), ("head_dim", {"a": 1}),
    ("max_position_embeddings", -1), ("tie_word_embeddings", "yes"), ("tie_word_embeddings", 7),
])  # fmt: skip
def test_a_size_no_model_has_is_refused_by_name(key: str, value: Any):
    """The line names the key and shows the value."""
    refused({"kind": "inspect", "model": {**config_of("llama-3.1-8b"), key: value}}, key)


@pytest.mark.parametrize("config", [
    {}, {"a": 1}, {"model_type": None}, {"model_type": 3}, {"model_type": "llama"}, {"model_type": "t5"}, {"architectures": 3},
    {"model_type": "bert", "is_encoder_decoder": True}, {"_class_name": "StableDiffusionPipeline"}, {"text_config": {}},
    {"text_config": {"text_config": {"text_config": {"text_config": {}}}}}, {"text_config": []}, {"llm_config": None},
    {"model_type": "llama", "quantization_config": 7}, {"": ""}, {"model_type": "x" * 5000},
])  # fmt: skip
def test_what_is_no_model_is_refused(config: dict[str, Any]):
    refused({"kind": "inspect", "model": config})
    refused({"kind": "estimate", "model": config, "on": "h100-sxm"})


def nested(depth: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for _ in range(depth):
        table = {"text_config": table, "a": 1}
    return table


@pytest.mark.parametrize("depth", [3, 50, 500, 5000, 50_000])
def test_deep_nesting_is_no_trouble(depth: int):
    refused({"kind": "inspect", "model": nested(depth)})
    refused(
        {"kind": "inspect", "model": {**config_of("llama-3.1-8b"), "rope_scaling": nested(depth)}}
    ) if depth > 100 else None
    refused({"kind": "estimate", "model": "gpt2", "on": nested(depth)})


# ------------------------------------------------------------------------------------------------ files


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def unreadable(folder: Path, what: str, ending: str) -> Path:
    """A path to something that is no file of ours."""
    path = folder / f"{what}.{ending}"
    good = catalog.model_path("gpt2").read_text(encoding="utf-8")
    contents: dict[str, bytes | str] = {
        "empty": b"", "spaces": b"\n" * 1000, "binary": bytes(range(256)) * 100, "zeros": b"\0" * 1000, "word": "hello",
        "null": "null",
        "number": "9" * 100_000, "not a number": "NaN", "list": "[1, 2]", "text": '"x"', "nested": "[" * 100_000,
        "nested tables": '{"a":' * 100_000, "utf-16": good.encode("utf-16"), "half": good[: len(good) // 2],
        "twice": good + good,
        "comment": "// a comment\n" + good, "dots": "a." * 10_000 + "a = 1", "python": "{'hidden_size': 4096}",
    }  # fmt: skip
    if what in contents:
        return write(path, contents[what])
    if what == "large":
        return write(path, b'{"a": "' + b"x" * 50_000_000 + b'"}')
    if what == "many keys":
        return write(path, "{" + ",".join(f'"k{i}": {i}' for i in range(100_000)) + "}")
    if what == "folder":
        path.mkdir()
    elif what == "link to itself":
        path.symlink_to(path)
    elif what == "link to nothing":
        path.symlink_to(folder / "nowhere")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "endless":
        path.symlink_to("/dev/zero")
    elif what == "locked":
        write(path, good).chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("this user reads every file")
    elif what == "folder with a pipe":
        path.mkdir()
        os.mkfifo(path / "config.json")
    elif what == "folder with a folder":
        (path / "config.json").mkdir(parents=True)
    return path


KINDS_OF_FILE = (
    "empty", "spaces", "binary", "zeros", "word", "null", "number", "not a number", "list", "text", "nested", "nested tables",
    "utf-16", "half", "twice", "comment", "dots", "large", "many keys", "python", "folder", "link to itself", "link to nothing",
    "pipe", "endless", "locked", "folder with a pipe", "folder with a folder", "nothing",
)  # fmt: skip


@pytest.mark.parametrize("what", [kind for kind in KINDS_OF_FILE if kind != "utf-16"])  # a config may be in any of Unicode's
def test_a_file_that_is_no_config_is_refused(what: str, tmp_path: Path):
    path = str(unreadable(tmp_path, what, "json"))
    refused({"kind": "inspect", "model": path})
    refused({"kind": "estimate", "model": path, "on": "h100-sxm"})


@pytest.mark.parametrize("what", KINDS_OF_FILE)
def test_a_file_that_is_no_machine_is_refused(what: str, tmp_path: Path):
    path = str(unreadable(tmp_path, what, "toml"))
    refused({"kind": "estimate", "model": "gpt2", "on": path})
    refused({"kind": "chip", "model": "gpt2", "on": path})


@pytest.mark.parametrize("name", [
    "/dev/zero", "/dev/null", "/dev/random", "/dev/tty", "/proc/self/mem", "/proc/self/environ", "/", "", " ", ".", "..", "~",
    "~nobody",
    "~/no.json", "\0", "a\0b", "x" * 4096, "x" * 5000, "/" + "x" * 300, "../../etc/passwd", "C:\\x.json", "http://x/y",
    "file:///etc/passwd",
    "\ud800", "é", "2x", "8x", "0x h100", "-1x h100", "9999999999x h100", "999999999x h100-sxm", "8x 8x h100 x", "%s%n",
    "{}", "gpt2\ngpt2", "*", "h100.toml.", "not-a-thing", "lama", "H10O",
])  # fmt: skip
def test_a_name_that_means_nothing_is_refused(name: str):
    refused({"kind": "estimate", "model": name, "on": "h100-sxm"})
    refused({"kind": "estimate", "model": "gpt2", "on": name})


# ------------------------------------------------------------------------------------------------ machines


MACHINE: dict[str, Any] = {
    "name": "x",
    "device": {
        "name": "d", "memory": "80 GB", "memory_bandwidth": "3 TB/s", "flop_rate": {"bf16": "900 TFLOP/s",
        "fp8": "1800 TFLOP/s"},
        "vector_rate": "60 TFLOP/s", "on_chip": "50 MB", "launch_time": "3 us", "power": "700 W", "price": "2 USD/h",
        "tile": [64, 64, 32], "kind": "gpu",
    },
    "links": [
        {"name": "l", "bandwidth": "450 GB/s", "latency": "2 us", "size": 8, "topology": "switch", "in_network_reduce": True},
        {"name": "n", "bandwidth": "50 GB/s", "latency": "5 us", "size": 4, "extensible": True},
    ],
    "devices": 16, "price": "3 USD/h",
}  # fmt: skip
WRONG_MACHINE: tuple[Any, ...] = (
    MISSING, None, -1, 0, 1, 3, 2**31, 2**63, 10**30, 0.5, 1e300, 1e-300, math.nan, math.inf, True, "", "8", "abc",
    "1e300 TB/s",
    "0 GB", "-3 GB", "80 GB", "3 TB/s", "1 us", "2x", "x" * 10_000, [], [1], [None] * 3, {}, {"a": 1}, [0, 0, 0], [1e300] * 3,
    ["64", "64", "32"], "torus2d", "a\nb",
)  # fmt: skip


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {as_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(as_toml(inner) for inner in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, str) else "nothing" if value is None else repr(value)


def everywhere(table: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield (*before, key)
        if isinstance(value, (dict, list)):
            yield from everywhere(value, (*before, key))


@pytest.mark.parametrize("place", list(everywhere(MACHINE)), ids=lambda place: ".".join(map(str, place)))
def test_a_damaged_machine_is_refused_or_read_soundly(place: tuple[Any, ...], tmp_path: Path):
    """Every field of a machine, given as content and as a TOML file, with every damage."""
    for value in WRONG_MACHINE:
        machine = copy.deepcopy(MACHINE)
        inner: Any = machine
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        if value is MISSING:
            del inner[place[-1]]
        outcome({"kind": "estimate", "model": "qwen3-30b-a3b", "on": machine, "tp": 2, "ignore_memory": True})
        outcome({"kind": "chip", "model": "qwen3-30b-a3b", "on": machine})
        file = write(tmp_path / "machine.toml", "\n".join(f"{key} = {as_toml(each)}" for key, each in machine.items()))
        outcome({"kind": "estimate", "model": "gpt2", "on": str(file), "ignore_memory": True})


@pytest.mark.parametrize("machine, words", [
    ({}, ["device is missing"]),
    ({"device": None}, ["device"]),
    ({"device": {"memory": "80 GB", "memory_bandwidth": "3 TB/s", "flop_rate": {}}}, ["flop_rate"]),
    ({"device": {"memory": "80 GB", "memory_bandwidth": "3 TB/s", "flop_rate": {"bf16": 0}}}, ["flop_rate.bf16", "above zero"]),
    ({"device": {"memory": "80 TB/s", "memory_bandwidth": "3 TB/s", "flop_rate": {"bf16": 1}}}, ["memory", "byte/s"]),
    ({"device": {"memory": "80 gb", "memory_bandwidth": "3 TB/s", "flop_rate": {"bf16": 1}}}, ["memory"]),
    ({"device": {"memory": "80 GB", "memory_bandwidht": "3 TB/s", "flop_rate": {"bf16": 1}}}, ["memory_bandwidth"]),
    ({"device": "h100-sxm", "devices": 0}, ["devices"]),
    ({"device": "h100-sxm", "devices": 9, "links": []}, ["devices", "at most 1"]),
    ({"device": "h100-sxm", "links": [{"link": "nvlink4"}]}, ["size is missing"]),
    ({"device": "h100-sxm", "links": [{"link": "nvlink44", "size": 8}]}, ["nvlink4"]),
    ({"device": "h100-sxm", "links": [{"name": "l", "bandwidth": "0 GB/s", "latency": "1 us", "size": 8}]}, ["bandwidth"]),
    ({"device": "h100-sxm", "links": [{"name": "l", "bandwidth": "1 GB/s", "latency": "1 us", "size": 0}]}, ["size"]),
    ({"device": "h100-sxm", "links": {"l": 1}}, ["links must be a list"]),
    ({"device": "h100-sxm", "colour": "red"}, ["colour"]),
])  # fmt: skip
def test_a_wrong_machine_is_refused_by_field(machine: dict[str, Any], words: list[str]):
    refused({"kind": "estimate", "model": "gpt2", "on": machine}, *words)


# ------------------------------------------------------------------------------------------------ asks


VALUES: tuple[Any, ...] = (
    None, -1, 0, 1, 2, 3, 8, 64, 2**20, 2**20 + 1, 2**31, 2**31 + 1, 2**63, 10**30, 0.5, 1.0, 2.0, 1e300, math.nan, math.inf,
    True, False,
    "", "8", "abc", "-1", "1e400", "100%", "99.9%", "200%", "-5%", "1e308 GB", "2x", "0x", "x" * 10_000, [], [1], {},
    {"a": 1}, b"x",
    object(), {1: 2}, "a\nb", "\u2028x", ("a",),
)  # fmt: skip
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "inspect", "model": "gpt2"},
    {"kind": "estimate", "model": "deepseek-v3.2", "on": "16x dgx-h100", "tp": 8, "ignore_memory": True},
    {"kind": "estimate", "model": "qwen3.5-27b", "on": "sip", "profile": "sharded", "ignore_memory": True},
    {"kind": "estimate", "model": "llama-3.1-8b", "on": "dgx-h100", "profile": "classroom", "ignore_memory": True},
    {"kind": "estimate", "model": "qwen3-30b-a3b", "on": "dgx-b200", "profile": "envelope", "ignore_memory": True},
    {"kind": "step", "model": "gpt-oss-20b", "on": "dgx-h100", "phase": "mixed"},
    {"kind": "fit", "model": "gemma-3-27b", "on": "rtx-4090"},
    {"kind": "explain", "op": "tpot", "model": "qwen3-30b-a3b", "on": "dgx-h100"},
    {"kind": "explain", "op": "kv", "model": "deepseek-v3.2", "on": "dgx-h100"},
    {"kind": "chip", "model": "qwen3-30b-a3b", "on": "sip"},
    {"kind": "catalog", "what": "formats"},
)
FIELDS = [(i, field) for i, ask in enumerate(QUESTIONS) for field in api._KINDS[ask["kind"]].__struct_fields__]


@pytest.mark.parametrize("question, field", FIELDS)
def test_every_field_takes_any_value_soundly(question: int, field: str):
    for value in VALUES:
        outcome({**QUESTIONS[question], field: value})


@pytest.mark.parametrize("question", [1, 2, 3, 5, 6, 7])
def test_every_switch_and_change_takes_any_value_soundly(question: int):
    """What-if changes and switches of the profile: a value is used, or refused with its name."""
    changes = (
        *Device.__struct_fields__, "devices", "price", "flop_rate.bf16", "flop_rate.fp8", "flop_rate.", "links.0.bandwidth",
        "links.0.latency", "links.0.size", "links.1.bandwidth", "links.x", "links.0", "links.99999999999999999999.size", "",
        ".",
    )  # fmt: skip
    for value in VALUES:
        for name in Profile.__struct_fields__:
            outcome({**QUESTIONS[question], "switches": {name: value}})
        for name in changes:
            outcome({**QUESTIONS[question], "changes": {name: value}})


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_layout_or_workload_is_refused_or_priced_soundly(seed: int):
    """Several fields at once, most of them plausible: degrees that do not divide, lengths beyond reason, mixed placements."""
    dice = random.Random(1000 + seed)
    ask = dict(dice.choice(QUESTIONS[1:10]))
    fields = [f for f in api._KINDS[ask["kind"]].__struct_fields__ if f not in ("model", "on")]
    plausible: dict[str, tuple[Any, ...]] = {
        "ep_mode": ("overlay", "dedicated"), "kv_shard": ("split", "replicate"), "ffn_scope": ("tp", "tp_cp", "tp_cp_dp"),
        "ring": ("kv", "qoml"), "tp_placement": ("inner", "outer", "pe", "cube"), "cp_placement": ("inner", "outer"),
        "profile": ("operator", "sharded", "classroom", "envelope"), "weights": ("fp8", "int4", "q4_k", {"expert": "mxfp4"}),
        "kv": ("fp8", "int4", "q8_0"), "reserve": (0, "10%", "2 GB", 0.99, "1 TB"), "phase": ("prefill", "decode"),
    }  # fmt: skip
    sizes = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 61, 64, 128, 1000, 4096, 2**17, 2**20, 2**31)
    for field in dice.sample(fields, min(5, len(fields))):
        choice = plausible.get(field) or (
            sizes if field not in ("changes", "switches", "op", "ignore_memory") else None
        )
        if choice:
            ask[field] = dice.choice(choice if dice.random() < 0.9 else VALUES)
    outcome(ask)


DESIGNS: tuple[dict[str, Any], ...] = (
    {"kind": "sweep", "model": "llama-3.1-8b", "on": "dgx-h100", "vary": {"tp": [1, 2]}},
    {"kind": "suggest", "model": "deepseek-v3", "on": "rtx-4090", "users": 4},
    {"kind": "plan", "model": "qwen3.5-27b", "on": "sip", "users": 10},
    {
        "kind": "sharded",
        "model": "qwen3-8b",
        "on": "sip",
        "axes": {"tp": [1, 2], "cp": [1, 2], "pp": [1]},
        "context": 32_768,
    },
    {"kind": "codesign", "model": "qwen3-8b", "on": "sip", "depth": "two_stage", "context": 32_768},
    {"kind": "rules", "model": "deepseek-v3.2", "on": "dgx-h100", "tp": 8, "batch": 32},
    {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 5, "rate": 2.0},
    {"kind": "board", "answers": [3, 1, 2]},
    {"kind": "compare", "cases": [{"name": "a", "scenario": {"model": "gpt2", "on": "t4"}}]},
    {"kind": "snapshot", "scenario": {"model": "gpt2", "on": "t4"}},
    {"kind": "unpack", "text": '{"rooflab": "scenarios", "format": 1, "scenarios": []}'},
    {"kind": "shorten", "model": {"model_type": "llama"}},
    {"kind": "document", "scenario": {"model": "gpt2", "on": "t4"}, "baseline": {"model": "gpt2", "on": "l4"}},
)
STRANGE: tuple[Any, ...] = (
    None,
    -1,
    0,
    3,
    2**31 + 1,
    0.5,
    1e300,
    math.nan,
    True,
    "",
    "abc",
    "-1",
    "1 ns",
    [],
    [1],
    [None],
    {},
    {"tp": []},
    {"tp": [0]},
    {"tp": "8..1"},
    {"tp": ["x"]},
    {"batch": "1..1000000000"},
    {"tp": [1] * 5000, "batch": list(range(1, 5000))},
    {"x": [1]},
    {"kv": ["fp8", "zz"]},
    {"memory_bandwidth": ["2x", "4 TB/s"]},
    ["ttft < x"],
    ["foo > 1"],
    ["max:x"],
    object(),
    {1: 2},
)


def signed(ask: dict[str, Any]) -> bool:
    """Whether a kind of report has differences in it, which may be negative."""
    return ask["kind"] in ("rules", "codesign")


@pytest.mark.parametrize("question", range(len(DESIGNS)))
def test_design_questions_take_any_value_soundly(question: int):
    """Sweeps, plans, suggestions and runs: values that are no lists, lists without end, conditions on nothing."""
    ask = DESIGNS[question]
    for field in api._KINDS[ask["kind"]].__struct_fields__:
        for value in STRANGE:
            outcome({**ask, field: value}, least=-math.inf if signed(ask) else 0.0)


@pytest.mark.parametrize("field, values", [
    ("tp", (0, -1, 2**20 + 1, 2**63, 1.5, "8", None, True, [8], 3, 7, 10**6)), ("pp", (0, -1, 33, 10**6, 2.5, None)),
    ("cp", (0, -1, None, "2", 10**6)), ("dp", (0, 10**6, False)), ("ep", (0, 2, 8)), ("attention_dp", (0, 10**6)),
    ("microbatches", (0, -1, 1.5, None)), ("batch", (0, -1, 2**31 + 1, 1.5, "many", None, True, [])),
    ("prompt", (0, -5, 2**31 + 1, math.nan, None)), ("output", (0, -5, 2**63, "long")), ("cached", (-1, 1024, 5000, 0.5)),
    ("profile", ("", "x", None, 3)), ("kv", ("", "fp9", 8)), ("weights", ("", "4bit", 4, {"experts": "fp8"}, {"ffn": "x"},
    {"ffn": 1})),
    ("reserve", ("100%", 1e-9j, "120%", -0.1, "-2 GB", "2 s", "x", math.nan, True, [])), ("ring", ("q", None, 1)),
    ("switches", ({"x": 1}, {"compute_efficiency": 0}, {"compute_efficiency": 1.1}, {"memory_efficiency": "x"}, {"tiles": 1},
    [], 3)),
    ("changes", ({"x": 1}, {"memory": 0}, {"memory": "-1 GB"}, {"memory": "1 TB/s"}, {"memory": "x x"}, {"power": "1 GB"},
    {"tile": 3},
                 {"links.7.bandwidth": "1 GB/s"}, {"links.0.colour": 1}, {"devices": 0}, {"devices": 10**6},
                 {"flop_rate.fp5": "1 TFLOP/s"},
                 [], 3)),
])  # fmt: skip
def test_a_wrong_value_is_refused(field: str, values: tuple[Any, ...]):
    """Degrees, lengths, formats, reserves, switches and changes outside their range; the line names the field."""
    for value in values:
        ask = {"kind": "estimate", "model": "llama-3.1-8b", "on": "dgx-a100" if field == "ring" else "8x h100-sxm"}
        text = outcome({**ask, field: value})
        assert text is not None, value
        name = next(iter(value), field) if isinstance(value, dict) else field
        assert field in text or str(name).split(".")[0] in text or "layout" in text, text


@pytest.mark.parametrize("ask", [None, [], 3, "estimate", {}, {"kind": None}, {"kind": []}, {"kind": {}}, {1: 2},
{"kind": "inspect", 1: 2},
                                 {"kind": "inspect", None: 2}, {"kind": "inspect"}, {"kind": "INSPECT", "model": "gpt2"},
                                 b"{}"])  # fmt: skip
def test_what_is_no_question_is_refused(ask: Any):
    refused(ask)


@pytest.mark.parametrize("context", [2**31 - 512, 2**31])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3.2", "qwen3.5-27b", "gemma-3-27b", "gpt-oss-20b"])
def test_the_longest_contexts_are_priced_soundly(model: str, context: int):
    """Two thousand million tokens are within the contract: counted, said to exceed the model, and not in its memory."""
    ask = {"model": model, "on": "dgx-h100", "prompt": context - 256, "output": 256}
    assert outcome({"kind": "estimate", **ask}) is None
    report = api.answer({"kind": "estimate", **ask})
    assert not report["fits"]
    assert any("longest context" in note for note in report["notes"])
    assert outcome({"kind": "estimate", **ask, "ignore_memory": True}) is None
    assert outcome({"kind": "step", "model": model, "on": "dgx-h100", "context": context, "batch": 2**31}) is None
    assert outcome({"kind": "inspect", "model": model, "context": context, "batch": 2**31}) is None
