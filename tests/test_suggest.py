"""Suggestions and serving layouts: A-040–A-047; only layouts that an engine would start; the command says what was meant."""

import csv
import math
import re
import shlex
from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np
import pytest

from rooflab import catalog, hf
from rooflab.catalog import rules
from rooflab.estimate import Workload, estimate
from rooflab.fits import feasible, layout_rules, memory
from rooflab.fitted import USUAL, pricer_of
from rooflab.profiles import profile
from rooflab.sweep.engines import command, refusals
from rooflab.sweep.evaluate import run
from rooflab.sweep.serving import BATCHES, OBJECTIVES, serving_layouts, serving_space
from rooflab.sweep.suggest import suggest
from rooflab.units import InputError
from rooflab.work import Layout, Precision

ENGINES = rules.engines()
OPERATOR = profile("operator")
MODELS = {
    name: hf.load(name) for name in ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b")
}


def _alone(model, layout, system, work):
    pricer = pricer_of(USUAL, system, layout, OPERATOR, "vllm")
    return estimate(model, Precision(), layout, system, work, OPERATOR, band=False, pricer=pricer)


def _ask(model, on, **more):
    asked = {"users": 64, "prompt": 2048, "output": 256, "engines": ENGINES, "name": "m", **more}
    return suggest(MODELS[model], system=catalog.system(on), **asked)


@pytest.mark.parametrize(
    ("model", "on", "users", "formats"),
    [
        ("llama-3.1-8b", "8x h100-sxm", 64, Precision()),
        ("llama-3.1-70b", "dgx-h100", 300, Precision()),
        ("mixtral-8x7b", "8x h100-sxm", 32, Precision()),
        ("deepseek-v3", "hgx-h200", 128, Precision(attention="fp8", ffn="fp8", expert="fp8")),
        ("gpt-oss-20b", "h100-sxm", 16, Precision(expert="mxfp4")),
    ],
)
def test_every_suggestion_would_start(model, on, users, formats):
    """A layout that would not boot is never suggested: rules, memory with each engine's own reserve, degrees it has."""
    system, found = catalog.system(on), _ask(model, on, users=users, precision=formats)
    assert found.layouts
    for one in found.layouts:
        layout = one.layout
        assert feasible(layout_rules(MODELS[model], layout, system, OPERATOR))[0]
        assert one.devices == layout.devices() <= system.devices
        assert one.batch * layout.dp >= users
        assert one.commands
        work = {"batch": one.batch, "context": 2304, "prompt": 2048}
        for engine in one.commands:
            own = msgspec.structs.replace(OPERATOR, reserve=max(ENGINES[engine].reserve, 0.10))
            assert memory(MODELS[model], formats, layout, system, own, **work).fits
        assert set(one.commands) | set(one.refused) == set(ENGINES)
        assert one.why


def test_figures_are_the_estimates():
    """What is said of a layout is what the estimate says of it."""
    model, system = MODELS["llama-3.1-70b"], catalog.system("8x h100-sxm")
    for one in _ask("llama-3.1-70b", "8x h100-sxm", tpot=0.05).layouts:
        work = Workload(batch=one.batch, prompt=2048, output=256)
        found = _alone(model, one.layout, system, work)
        assert one.tpot == pytest.approx(found.mid.tpot, rel=1e-12)
        assert one.ttft_together == pytest.approx(found.mid.ttft, rel=1e-12)
        assert one.throughput_per_device == pytest.approx(found.mid.throughput_per_device, rel=1e-12)
        alone = _alone(model, one.layout, system, msgspec.structs.replace(work, batch=1))
        assert one.ttft == pytest.approx(alone.mid.ttft, rel=1e-12)
        assert one.tpot_loaded >= one.tpot


def test_limits_come_first():
    """Layouts that meet both limits come before those that do not; where none can, the tightest reachable is said."""
    loose = _ask("llama-3.1-70b", "8x h100-sxm", ttft=0.2, tpot=0.03)
    assert loose.limits_met
    assert loose.layouts[0].meets
    assert loose.layouts[0].ttft <= 0.2
    assert loose.layouts[0].tpot <= 0.03
    flags = [one.meets for one in loose.layouts]
    assert flags == sorted(flags, reverse=True)
    best = [one.throughput_per_device for one in loose.layouts if one.meets]
    assert best == sorted(best, reverse=True)
    tight = _ask("llama-3.1-70b", "8x h100-sxm", tpot=1e-4)
    assert not tight.limits_met
    assert tight.layouts[0].tpot == pytest.approx(tight.tightest["tpot"])
    fast = _ask("llama-3.1-70b", "8x h100-sxm", goal="latency")
    assert [one.tpot for one in fast.layouts] == sorted(one.tpot for one in fast.layouts)
    few = _ask("llama-3.1-70b", "8x h100-sxm", goal="devices")
    assert [one.devices for one in few.layouts] == sorted(one.devices for one in few.layouts)


def test_the_best_is_the_best_of_all_that_boot():
    """Brute force: no layout that some engine starts has more tokens per device."""
    system, model = catalog.system("8x h100-sxm"), MODELS["mixtral-8x7b"]
    best = 0.0
    for degrees in serving_layouts(model, 8, axes={"cp": (1,)}):
        for dp in (1, 2, 4, 8):
            layout = Layout(**degrees, dp=dp)
            work = Workload(batch=math.ceil(64 / dp), prompt=2048, output=256)
            if layout.devices() > 8 or all(
                refusals(e, model, layout, system, Precision(), work, OPERATOR) for e in ENGINES.values()
            ):
                continue
            found = _alone(model, layout, system, work)
            best = max(best, found.mid.throughput_per_device)
    assert _ask("mixtral-8x7b", "8x h100-sxm").layouts[0].throughput_per_device == pytest.approx(best, rel=1e-12)


def test_more_hardware_never_suggests_worse():
    """More memory, bandwidth or rate: the best has no fewer tokens per device."""
    system, model = catalog.system("8x h100-sxm"), MODELS["llama-3.1-70b"]
    asked = {"users": 64, "prompt": 2048, "output": 256, "engines": ENGINES}
    base = suggest(model, system=system, **asked).layouts[0].throughput_per_device
    for name in ("memory", "memory_bandwidth", "flop_rate", "links.0.bandwidth"):
        better = suggest(model, system=system.replace({name: "2x"}), **asked)
        assert better.layouts[0].throughput_per_device >= base * (1 - 1e-12), name


def test_nothing_fits():
    """No suggestion where nothing fits; every refusal has its reason."""
    found = _ask("deepseek-v3", "h100-sxm")
    assert found.layouts == ()
    assert found.frame.totals["feasible"] == 0
    assert set(found.frame.reason) == {"needs more memory than the device has"}


WORK = Workload(batch=64, prompt=2048, output=256)


@pytest.mark.parametrize(
    ("engine", "layout", "flags"),
    [
        ("vllm", Layout(tp=4), {"--tensor-parallel-size": "4", "--max-model-len": "2304", "--max-num-seqs": "64"}),
        (
            "vllm",
            Layout(tp=2, pp=2, dp=2),
            {"--tensor-parallel-size": "2", "--pipeline-parallel-size": "2", "--data-parallel-size": "2"},
        ),
        (
            "vllm",
            Layout(attention_dp=8, ep=8),
            {"--data-parallel-size": "8", "--max-num-seqs": "8", "--enable-expert-parallel": None},
        ),
        (
            "sglang",
            Layout(tp=2, attention_dp=4, ep=8),
            {"--tp-size": "8", "--dp-size": "4", "--enable-dp-attention": None, "--ep-size": "8"},
        ),
        ("sglang", Layout(tp=8), {"--tp-size": "8", "--mem-fraction-static": "0.88", "--context-length": "2304"}),
        ("tensorrt-llm", Layout(tp=4, ep=4), {"--tp_size": "4", "--ep_size": "4", "--max_batch_size": "64"}),
        ("tensorrt-llm", Layout(attention_dp=8, ep=8), {"--tp_size": "8", "--ep_size": "8", "--max_batch_size": "8"}),
    ],
)
def test_commands_say_the_layout(engine, layout, flags):
    """The command of each engine, by its documentation: what its flags count differs."""
    text = command(ENGINES[engine], "org/model", layout, WORK)
    words = shlex.split(text.split("#")[0])
    assert "org/model" in words
    for flag, value in flags.items():
        assert flag in words
        if value is not None:
            assert words[words.index(flag) + 1] == value
    if engine == "tensorrt-llm" and layout.attention_dp > 1:
        assert "enable_attention_dp: true" in text
        assert "--extra_llm_api_options options.yaml" in text


# What the engines' own documents list, by engine; see `source` in engines.toml. vLLM: engine arguments (parallel_config,
# cache_config, scheduler_config, model_config); SGLang: server arguments; TensorRT-LLM: `trtllm-serve serve`, where
# --tp_size, --pp_size, --ep_size and --kv_cache_free_gpu_memory_fraction are second names of longer ones, and attention
# parallelism and the cache's format are keys of the options file (`enable_attention_dp`, `kv_cache_config.dtype`).
DOCUMENTED = {
    "vllm": {
        "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--enable-expert-parallel",
        "--max-model-len", "--max-num-seqs", "--gpu-memory-utilization", "--quantization", "--kv-cache-dtype",
    },
    "sglang": {
        "--model-path", "--tp-size", "--pp-size", "--dp-size", "--enable-dp-attention", "--ep-size", "--context-length",
        "--max-running-requests", "--mem-fraction-static", "--quantization", "--kv-cache-dtype",
    },
    "tensorrt-llm": {
        "--backend", "--tp_size", "--pp_size", "--ep_size", "--max_batch_size", "--max_seq_len",
        "--kv_cache_free_gpu_memory_fraction", "--extra_llm_api_options",
    },
}  # fmt: skip
CHOICES = {
    "--backend": {"pytorch"}, "--quantization": {"fp8"}, "--kv-cache-dtype": {"fp8", "fp8_e4m3"},
}  # fmt: skip
"""Values that are words, as documented."""


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_flag_is_documented(engine):
    """Whatever the layout and formats, commands hold nothing but flags that the engine's document lists, each with a value."""
    assert ENGINES[engine].source.startswith("https://")
    seen = set()
    layouts = [
        Layout(tp=tp, pp=pp, dp=dp, ep=ep, attention_dp=groups)
        for tp in (1, 2) for pp in (1, 2) for dp in (1, 2) for groups in (1, 8) for ep in (1, 8)
    ]  # fmt: skip
    for layout in layouts:
        for weights in (None, "fp8", "int4"):
            for kv in (None, "fp8", "bf16"):
                text = command(ENGINES[engine], "org/model", layout, WORK, weights=weights, kv=kv)
                text = text.split("&&")[-1].split("  #")[0]
                words = shlex.split(text)
                flags = {word for word in words if word.startswith("--")}
                assert flags <= DOCUMENTED[engine], text
                assert len(flags) == sum(word.startswith("--") for word in words), text
                for flag in flags & CHOICES.keys():
                    assert words[words.index(flag) + 1] in CHOICES[flag], text
                seen |= flags
    assert seen == DOCUMENTED[engine]


def test_commands_say_formats_and_replicas():
    vllm = command(ENGINES["vllm"], "m", Layout(), WORK, weights="fp8", kv="fp8")
    assert "--quantization fp8" in vllm
    assert "--kv-cache-dtype fp8" in vllm
    assert "serve a checkpoint quantised to int4" in command(ENGINES["vllm"], "m", Layout(), WORK, weights="int4")
    assert "start 4 such servers" in command(ENGINES["sglang"], "m", Layout(dp=4), WORK)
    assert "kv_cache_config" in command(ENGINES["tensorrt-llm"], "m", Layout(), WORK, kv="fp8")


@pytest.mark.parametrize(
    ("engine", "layout", "word"),
    [
        ("vllm", Layout(tp=2, attention_dp=4, ep=4), "all 8 ranks"),
        ("tensorrt-llm", Layout(tp=2, attention_dp=4, ep=8), "each alone"),
        ("vllm", Layout(cp=2), "no cp"),
        ("sglang", Layout(tp=3), "does not divide"),
        ("vllm", Layout(tp=1), "does not fit"),
    ],
)
def test_refusals(engine, layout, word):
    system = catalog.system("8x h100-sxm")
    why = refusals(ENGINES[engine], MODELS["mixtral-8x7b"], layout, system, Precision(), WORK, OPERATOR)
    assert word in why


@pytest.mark.parametrize("bad", [{"users": 0}, {"prompt": 0}, {"tpot": -1.0}, {"goal": "beauty"}])
def test_bad_suggestions(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        _ask("llama-3.1-8b", "h100-sxm", **bad)


def test_serving_frontier():
    """A-040–A-046: every layout at batch 1–512 for 2,048/256; a frontier that dominates the rest; rules decide who is in."""
    model = MODELS["mixtral-8x7b"]
    systems = {name: catalog.system(name) for name in ("dgx-h100", "dgx-b200")}
    asked = serving_space(model, systems, most=8, weights=("bf16", "fp8"))
    frame = run(asked)
    layouts = serving_layouts(model, 8)
    assert BATCHES == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    assert len(frame) == len(layouts) * 10 * 2 * 2
    assert {"tp": 8, "pp": 1, "cp": 1, "attention_dp": 1, "ep": 8} in layouts
    assert all(d["tp"] * d["pp"] * d["cp"] * d["attention_dp"] <= 8 for d in layouts)
    front = frame.pareto(OBJECTIVES)
    speed, rate = frame.column("interactivity"), frame.column("throughput_per_device")
    for i in front:
        better = (speed >= speed[i]) & (rate >= rate[i]) & ((speed > speed[i]) | (rate > rate[i]))
        assert not better[np.asarray(frame.feasible)].any()
    covered = np.zeros(len(frame), dtype=bool)
    for i in front:
        covered |= (speed[i] >= speed) & (rate[i] >= rate)
    assert covered[np.asarray(frame.feasible)].all()


def test_throughput_by_hand():
    """A-044: tokens per device = batch × answer / (TTFT + steps) / devices; interactivity is 1/TPOT."""
    frame = run(serving_space(MODELS["llama-3.1-8b"], {"h": catalog.system("8x h100-sxm")}, most=8))
    for i in frame.positions()[::37]:
        row = frame.row(i)
        total = row["ttft"] + 255 * row["tpot"]
        assert row["throughput_per_device"] == pytest.approx(row["batch"] * 256 / total / row["devices"], rel=1e-9)
        assert row["interactivity"] == pytest.approx(1 / row["tpot"], rel=1e-12)


def _measured() -> Path | None:
    folder = Path(__file__).parents[1] / "data"
    return next(iter(folder.rglob("inferencex_h100.csv")), None) if folder.is_dir() else None


@pytest.mark.skipif(_measured() is None, reason="the measured serving rows are not in data/")
def test_measured_best_is_near_the_top():
    """The configuration measured best per (model, engine, lengths) is among the top two predicted in 85 % of groups."""
    names = {
        "Qwen/Qwen3-32B": "qwen3-32b",
        "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
        "openai/gpt-oss-120b": "gpt-oss-120b",
    }
    models = {key: hf.load(name) for key, name in names.items()}
    system, groups = catalog.system("8x h100-sxm"), defaultdict(list)
    with _measured().open() as file:
        for row in csv.DictReader(file):
            groups[tuple(row[k] for k in ("model_path", "backend", "isl", "osl"))].append(row)
    hits = 0
    for (path, _engine, prompt, output), rows in groups.items():
        points = []
        for row in rows:
            tp, users = int(float(row["tp_size"])), int(row["concurrency"])
            ep = 1 if "32B" in path else int(float(row["moe_ep_size"] or 1))
            form = {"attention": "fp8", "ffn": "fp8", "expert": "fp8"} if row["precision"] == "fp8" else {}
            formats = Precision(expert="mxfp4") if "oss" in path else Precision(**form)
            work = Workload(batch=users, prompt=int(prompt), output=int(output))
            found = estimate(
                models[path], formats, Layout(tp=tp, ep=ep), system, work, OPERATOR, band=False, ignore_memory=True
            )
            seconds = float(row["ttft_ms"]) / 1e3 + (int(output) - 1) * float(row["tpot_ms"]) / 1e3
            points.append((users * int(output) / seconds / tp, found.mid.throughput_per_device))
        best = max(points)
        hits += sum(point[1] > best[1] for point in points) < 2
    assert hits / len(groups) >= 0.85


def test_engine_data_reads():
    """Every engine has a command with a place for the model, flags for its degrees, and a reserve below one."""
    assert set(ENGINES) == {"vllm", "sglang", "tensorrt-llm"}
    for engine in ENGINES.values():
        assert "{model}" in engine.command
        assert 0 < engine.reserve < 1
        assert all(re.search(r"\{value\}", flag) or flag.count("-") > 1 for flag in engine.flags.values())
        for axis in engine.axes:
            assert axis in engine.flags or axis in engine.options
