"""`rooflab measure`: the cases, the loop that takes them, tables that calibrate reads, refusals (A-060, A-061, A-063).

Nothing here needs a GPU. What measures is a pretended device with known times; the parts that need PyTorch run on the processor
where it is installed.
"""

import contextlib
import json
import shlex
import sys
import types
from pathlib import Path

import msgspec
import pytest

from rooflab import catalog, hf, kernels
from rooflab.cli import main
from rooflab.measure import calibrate, depths, plan_of, taking, validate
from rooflab.measure.taking import Spread, Taken, Unsupported, spread
from rooflab.units import InputError

ROOT = Path(__file__).parent.parent
T4 = plan_of.target_of(catalog.device("t4"))
FIXED = 12e-6
TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False,
}  # fmt: skip


class Pretended:
    """A device that takes 1.3 times the roofline and 12 µs for anything."""

    def __init__(self, system="t4", stop_after=None, fail=None):
        self.system, self.stop_after, self.fail, self.seen = system, stop_after, fail, []

    def facts(self):
        return {
            "system": self.system,
            "device_name": "Tesla T4",
            "backend": "torch",
            "version": "2.13.0",
            "cache": "cold",
        }

    def state(self):
        return {"clock": 1.59e9}

    def measure(self, case, budget):
        if self.stop_after is not None and len(self.seen) >= self.stop_after:
            raise KeyboardInterrupt
        self.seen.append(case.key)
        if self.fail is not None:
            raise self.fail
        time = 1.3 * plan_of.floor(case, T4) + FIXED
        samples = [time * share for share in (0.99, 1.0, 1.0, 1.01, 1.5)]
        if case.family == "steps":
            return Taken(samples={"prefill": samples, "decode": [each / 10 for each in samples]})
        return Taken(samples={"kernel": samples}, kernel="pretended")


# ----------------------------------------------------------------------------------------------------- the cases


def test_quick_cases_are_few_and_each_case_is_there_once():
    quick, whole = plan_of.plan(T4, quick=True), plan_of.plan(T4)
    assert 100 < len(quick.cases) < len(whole.cases) / 5
    assert len({case.key for case in whole.cases}) == len(whole.cases)
    assert 0 < quick.seconds() < whole.seconds() < 3600
    assert {case.family for case in quick.cases} == {"gemm", "decode_attention", "prefill_attention", "elementwise"}


def test_cases_too_large_are_left_out_and_counted():
    """By hand: 128 sequences of 32,768 tokens, 32 KV heads of 128, K and V in 2 bytes: 68.7 GB of cache."""
    plan = plan_of.plan(T4, ["decode_attention"])
    assert sum(plan.left_out.values()) > 0
    assert max(case.footprint for case in plan.cases) <= 0.7 * 16e9
    shape = {"batch_size": 128, "num_key_value_heads": 32, "step": 32767}
    assert not any(shape.items() <= case.columns.items() for case in plan.cases)
    large = plan_of.plan(msgspec.structs.replace(T4, memory=1e12), ["decode_attention"])
    found = [case for case in large.cases if shape.items() <= case.columns.items()]
    assert [case.traffic for case in found] == [128 * 32768 * 32 * 128 * 2 * 2.0]


def test_formats_follow_the_device():
    def formats(name):
        plan = plan_of.plan(plan_of.target_of(catalog.device(name)), ["gemm"])
        return {case.columns["gemm_dtype"] for case in plan.cases}

    assert formats("t4") == {"float16"}
    assert formats("a100-sxm-80gb") == {"bfloat16"}
    assert formats("h100-sxm") == {"bfloat16", "fp8"}


def test_work_of_a_case_is_counted_as_it_is_priced():
    """A product of 16 × 896 × 4864 by hand, and its bytes in 16 bits."""
    shape = {"m": 16, "n": 896, "k": 4864}
    case = next(each for each in plan_of.plan(T4, ["gemm"]).cases if shape.items() <= each.columns.items())
    assert case.flop == 2 * 16 * 896 * 4864
    assert case.traffic == 2 * (896 * 4864 + 16 * 4864 + 16 * 896)
    assert plan_of.floor(case, T4) == pytest.approx(case.traffic / 320e9)


def test_families_that_cannot_be_run_are_refused():
    for families, words in (["conv"], "not one of"), (["steps"], "needs a model"), (["collectives"], "two GPUs"):
        with pytest.raises(InputError, match=words):
            plan_of.plan(T4, families)
    two = plan_of.plan(msgspec.structs.replace(T4, gpus=4), ["collectives"])
    assert {case.columns["num_gpus"] for case in two.cases} == {2, 4}


@pytest.mark.parametrize(
    "reported, memory, name",
    [
        ("Tesla T4", 15.8e9, "t4"),
        ("NVIDIA A100-SXM4-80GB", 85.0e9, "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", 42.4e9, "a100-sxm-40gb"),
        ("NVIDIA H100 80GB HBM3", 85.0e9, "h100-sxm"),
        ("NVIDIA H100 PCIe", 85.0e9, "h100-pcie"),
        ("NVIDIA H200", 150.0e9, "h200-sxm"),
        ("NVIDIA L40S", 47.7e9, "l40s"),
        ("NVIDIA GeForce RTX 4090", 25.3e9, "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 17.1e9, "nvidia-geforce-rtx-4090-laptop-gpu"),
        ("NVIDIA A100-PCIE-40GB", 42.4e9, "nvidia-a100-pcie-40gb"),
    ],
)
def test_devices_are_found_by_the_name_their_driver_reports(reported, memory, name):
    """A laptop's GPU is not the desktop's, and a smaller memory is another device."""
    assert plan_of.system_name(reported, memory) == name


# ------------------------------------------------------------------------------------------------- the loop


def take(folder, device=None, families=("elementwise",), **more):
    plan = plan_of.plan(T4, list(families), quick=True, stacks=more.get("stacks", ()))
    return taking.run(plan, device or Pretended(), folder, **more)


def test_median_and_spread():
    assert spread([3.0, 1.0, 2.0]) == Spread(median=2.0, low=1.0, high=3.0, n=3)
    assert spread([4.0, 1.0, 2.0, 3.0]).median == 2.5
    assert spread([float(n) for n in range(1, 12)]) == Spread(median=6.0, low=2.0, high=10.0, n=11)
    for bad in [], [0.0], [-1.0, 1.0], [float("nan")]:
        with pytest.raises(Unsupported):
            spread(bad)


def test_an_interrupted_run_keeps_what_it_has_and_goes_on_from_there(tmp_path):
    first = take(tmp_path, Pretended(stop_after=5))
    assert (first["families"][0]["measured"], first["interrupted"]) == (5, True)
    assert "keyboard" in first["stopped"]
    assert len((tmp_path / "operators/elementwise.csv").read_text().splitlines()) == 6
    again = Pretended()
    report = take(tmp_path, again)
    assert (report["resumed"], len(again.seen)) == (5, 43)
    assert report["families"][0]["measured"] == report["families"][0]["planned"] == 48
    third = Pretended()
    take(tmp_path, third)
    assert third.seen == []


def test_a_torn_last_line_is_measured_again(tmp_path):
    take(tmp_path)
    path = tmp_path / taking.JOURNAL
    path.write_bytes(path.read_bytes()[:-30])
    again = Pretended()
    assert take(tmp_path, again)["families"][0]["measured"] == 48
    assert len(again.seen) == 1


def test_a_folder_of_another_device_or_of_something_else_is_refused(tmp_path):
    take(tmp_path)
    with pytest.raises(InputError, match="another folder"):
        take(tmp_path, Pretended(system="l4"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / taking.JOURNAL).write_text("shopping list\n")
    with pytest.raises(InputError, match="line 1"):
        take(tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        take(tmp_path / "file")


def test_failures_are_counted_and_tried_again(tmp_path):
    report = take(tmp_path, Pretended(fail=MemoryError()))
    assert report["failed"] == [{"reason": "elementwise: out of memory", "n": 48}]
    assert report["stopped"] == ""
    report = take(tmp_path, Pretended(fail=Unsupported("no such kernel")))
    assert report["failed"] == [{"reason": "elementwise: no such kernel", "n": 48}]
    broken = Pretended(fail=RuntimeError("illegal memory access\nmore"))
    report = take(tmp_path, broken)
    assert len(broken.seen) == taking.BROKEN
    assert "RuntimeError: illegal memory access more" in report["stopped"]
    assert take(tmp_path)["families"][0]["measured"] == 48


def test_progress_is_told_of_every_case(tmp_path):
    told = []
    take(tmp_path, progress=lambda done, total, family: told.append((done, total)))
    assert told == [(n, 48) for n in range(49)]


@pytest.mark.parametrize("form", taking.FORMATS)
def test_tables_are_what_calibrate_and_validate_read(tmp_path, form):
    """A-063: known times come back through the journal, the table and the reader, and a fit finds them."""
    pytest.importorskip("pandas")
    take(tmp_path, families=("gemm",), form=form)
    report = validate.run(tmp_path)
    assert [(row["family"], row["system"], row["backend"], row["n"]) for row in report["operators"]] == [
        ("gemm", "t4", "torch", 48)
    ]
    assert report["skipped"] == []
    system = catalog.system("t4")
    (batch,), refused, skipped = calibrate.gather(tmp_path, "t4", system)
    assert (refused, skipped) == ([], {})
    m, n, k = batch.op.m, batch.op.n, batch.op.k
    least = [max(*pair) for pair in zip(2 * m * n * k / 65e12, 2 * (m * k + k * n + m * n) / 320e9, strict=True)]
    assert list(batch.seconds) == pytest.approx([1.3 * each + FIXED for each in least])
    assert 0 < batch.held.sum() < 48


FAMILIES = ("gemm", "decode_attention", "prefill_attention", "elementwise")


class Lawful(Pretended):
    """A device whose kernels follow the formulas, with parameters a third from where a fit starts."""

    def __init__(self, folder):
        super().__init__()
        taking.run(plan_of.plan(T4, FAMILIES, quick=True), Pretended(), folder)
        self.times, system = {}, catalog.system("t4")
        for batch in calibrate.gather(folder, "t4", system)[0]:
            values = {name: value * 1.3 for name, (value, _) in kernels.priors(batch.family, batch.dtype).items()}
            shares = {name: min(value / 1.5, 1.0) for name, value in values.items() if name in kernels.SHARES}
            known = kernels.PARAMETERS[batch.family](**values | shares)
            seconds = calibrate.predict(batch, system, known)
            self.times.update({(batch.family, int(n)): float(t) for n, t in zip(batch.lines, seconds, strict=True)})
        self.lines = dict.fromkeys(FAMILIES, 1)

    def measure(self, case, budget):
        self.lines[case.family] += 1
        return Taken(samples={"kernel": [self.times[case.family, self.lines[case.family]]]})


def test_a_quick_run_is_enough_to_recover_known_parameters(tmp_path):
    """A-061, A-063: every family has rows to fit and rows of other shapes held out; a fit explains both."""
    pytest.importorskip("scipy")
    take(tmp_path / "t4", Lawful(tmp_path / "first"), families=FAMILIES)
    report = calibrate.run(tmp_path / "t4", "t4")
    assert {fit["family"] for fit in report["fits"]} == set(FAMILIES)
    assert report["refused"] == []
    for fit in report["fits"]:
        assert fit["rows"] >= 24, fit["family"]
        assert fit["held_rows"] >= 4, fit["family"]
        assert fit["held_error"] < 0.05, fit["family"]


def test_format_is_checked_and_leaves_no_second_table(tmp_path):
    with pytest.raises(InputError, match="not one of"):
        take(tmp_path, form="xlsx")
    take(tmp_path, form="jsonl")
    take(tmp_path, form="csv")
    assert [path.name for path in (tmp_path / "operators").iterdir()] == ["elementwise.csv"]


# ------------------------------------------------------------------------------------------------- whole models


def tiny(tmp_path, **changes):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps({**TINY, **changes}))
    return depths.named(str(path), "float16")


def test_the_whole_follows_from_two_depths(tmp_path):
    """By hand: 3 ms outside the layers and 2 ms a layer are 19 ms over 8 layers."""
    stack = tiny(tmp_path)
    assert (stack.layers, stack.depths) == (8, (2, 4))
    found = stack.whole({2: 7.0, 4: 11.0})
    assert found == {"per_layer": 2.0, "outside": 3.0, "whole": 19.0}
    assert stack.whole({2: 7.0, 4: 7.0}) == {}  # noise


def test_a_shallow_config_is_the_same_model_with_fewer_layers():
    """Leading dense layers, patterns and unfinished patterns stay in proportion; quantisation goes."""
    expected = {"deepseek-v3": (5, 7), "gemma-3-1b": (8, 14), "qwen3-32b-fp8": (2, 4), "qwen3-next-80b-a3b": (4, 8)}
    for name, pair in expected.items():
        stack, full = depths.named(name, "bfloat16"), hf.load(name)
        assert stack.depths == pair, name
        low, high = (hf.read(stack.configs[depth], name) for depth in pair)
        assert low.layers == pair[0]
        assert high.quantization == {}
        rest = (full.layers - pair[0]) / (pair[1] - pair[0])
        assert low.params() + rest * (high.params() - low.params()) == full.params(), name


def test_a_model_that_does_not_repeat_is_measured_whole(tmp_path):
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"] + ["sliding_attention"] * 4
    stack = tiny(tmp_path, layer_types=kinds, sliding_window=128)
    assert stack.depths == (8,)
    assert stack.whole({8: 19.0}) == {"whole": 19.0}


def test_steps_are_predicted_by_validate(tmp_path):
    """Steps at the measured depths are batches that start together; the configs of those depths are beside them."""
    stack = depths.named("qwen2.5-0.5b", "float16")
    report = take(tmp_path, families=("steps",), stacks=(stack,))
    assert {(row["phase"], row["layers"], tuple(row["depths"])) for row in report["steps"]} == {
        ("prefill", 24, (2, 4)), ("decode", 24, (2, 4)),
    }  # fmt: skip
    found = validate.run(tmp_path, tmp_path / "configs")
    assert [(row["model"], row["backend"], row["n"]) for row in found["endtoend"]] == [
        ("qwen2.5-0.5b-2-layers", "transformers", 2), ("qwen2.5-0.5b-4-layers", "transformers", 2),
    ]  # fmt: skip
    assert found["skipped"] == []


# ------------------------------------------------------------------------------------------------- the command


def said(capsys, *words):
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_dry_run_needs_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    status, out, err = said(capsys, "measure", "--dry-run", "--quick", "--model", "qwen2.5-0.5b")
    assert (status, err) == (0, "")
    assert "172 cases" in out
    report = json.loads(said(capsys, "measure", "--dry-run", "--on", "h100-sxm", "--gpus", "8", "--json")[1])
    assert report["system"] == "h100-sxm"
    assert report["cases"] == len(report["rows"]) == sum(each["cases"] for each in report["families"])
    assert "collectives" in {each["family"] for each in report["families"]}
    assert list(tmp_path.iterdir()) == []


def test_without_pytorch_or_a_gpu_it_says_so_in_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    status, out, err = said(capsys, "measure")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'rooflab[measure]'" in err
    blind = types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_available=lambda: False), version=types.SimpleNamespace(cuda=None)
    )
    monkeypatch.setitem(sys.modules, "torch", blind)
    status, out, err = said(capsys, "measure")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "no GPU" in err
    assert "CPUs only" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--family", "gem"], "did you mean 'gemm'"),
        (["--family", "steps"], "--model"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--on", "toaster"], "toaster"),
        (["--format", "xlsx"], "xlsx"),
    ],
)
def test_bad_options_are_refused(capsys, words, complaint):
    status, out, err = said(capsys, "measure", "--dry-run", *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert complaint in err


def test_the_command_measures_shows_and_says_what_is_next(capsys, tmp_path, monkeypatch):
    from rooflab.measure.bench import kernels as timing

    made = []

    class Device(Pretended):
        def __init__(self, system, warm, cpu):
            super().__init__(stop_after=30 if not made else None)
            made.append((system, warm, cpu))

        def facts(self):
            return {**super().facts(), "memory": 15.8e9, "half": "float16", "gpus": 1, "driver": "580.65"}

        def close(self):
            made.append("closed")

    monkeypatch.setattr(timing, "TorchDevice", Device)
    words = ["measure", "--quick", "--family", "elementwise", "--out", str(tmp_path / "t4"), "--warm-cache"]
    status, out, _ = said(capsys, *words)
    assert status == 130
    assert "30 of 48" in out
    status, out, err = said(capsys, *words)
    assert (status, err) == (0, "")
    assert "48 of 48 cases measured, 30 of them before" in out
    assert "driver 580.65" in out
    assert "rooflab calibrate --data" in out
    assert made == [(None, True, False), "closed"] * 2
    report = json.loads(said(capsys, *words, "--json")[1])
    assert report["families"][0]["spread"] == pytest.approx(0.51)  # (1.5 − 0.99) ÷ 1, five runs


def test_the_drivers_figures_are_read():
    from rooflab.measure.bench.kernels import read_state

    text = "580.65.06, 1590, 5000, 1590, 64, 69.50, [N/A]\n"
    assert read_state(text) == {
        "driver": "580.65.06", "clock": 1.59e9, "memory_clock": 5.0e9, "clock_limit": 1.59e9, "temperature": 64.0, "power": 69.5,
    }  # fmt: skip
    assert read_state("") == {}


def test_the_notebook_is_one_and_its_commands_parse():
    """A-060: measure → calibrate → validate on a T4."""
    from typer.main import get_command

    from rooflab.cli.commands import application

    book = json.loads((ROOT / "examples/t4.ipynb").read_text(encoding="utf-8"))
    assert (book["nbformat"], len({cell["id"] for cell in book["cells"]})) == (4, len(book["cells"]))
    lines = [line.strip() for cell in book["cells"] if cell["cell_type"] == "code" for line in cell["source"]]
    assert all(line.startswith(("!rooflab ", "%pip install")) for line in lines)
    commands = [shlex.split(line[1:])[1:] for line in lines if line.startswith("!")]
    known = get_command(application()).commands
    for name, *words in commands:
        known[name].make_context(name, list(words))
    order = [words[0] for words in commands if "--dry-run" not in words]
    assert order == ["measure", "validate", "calibrate", "validate", "estimate"]


# ---------------------------------------------------------------------------------------------- a pretended GPU


class Gpu:
    """What the clock needs of PyTorch: time passes as calls run, a captured graph runs them again without a launch."""

    LAUNCH = 7e-6

    def __init__(self, capture=True):
        gpu = self
        self.now, self.capturing, self.capture = 0.0, None, capture

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = gpu.now

            def synchronize(self):
                pass

            def elapsed_time(self, end):
                return (end.at - self.at) * 1000

        class Graph:
            def replay(self):
                gpu.now += sum(self.work)

        class Capture:
            def __init__(self, graph):
                self.graph = graph

            def __enter__(self):
                gpu.capturing = []

            def __exit__(self, kind, *_):
                self.graph.work, gpu.capturing = gpu.capturing, None

        stream = types.SimpleNamespace(wait_stream=lambda other: None)
        self.cuda = types.SimpleNamespace(
            Event=Event, CUDAGraph=Graph, graph=Capture, synchronize=lambda: None, Stream=lambda: stream,
            current_stream=lambda: stream, stream=lambda _: contextlib.nullcontext(), OutOfMemoryError=NoRoom,
        )  # fmt: skip

    def kernel(self, seconds):
        def call():
            if self.capturing is None:
                self.now += seconds + self.LAUNCH
            elif self.capture is True:
                self.capturing.append(seconds)
            else:
                raise self.capture

        return call


class NoRoom(RuntimeError):
    pass


def clocked(capture, *seconds):
    from rooflab.measure.bench.kernels import Clock

    gpu = Gpu(capture)
    return Clock(gpu).samples([gpu.kernel(each) for each in seconds], 0.02)


def test_graphs_time_the_device_alone(monkeypatch):
    """Runs in a graph cost no launch; copies of operands are used in turn, so a sample is their mean."""
    monkeypatch.setattr("rooflab.measure.bench.kernels.WAKE", 0.001)
    samples, graph = clocked(True, 3e-6)
    assert (graph, samples) == (True, [pytest.approx(3e-6)] * len(samples))
    assert 10 <= len(samples) <= 100
    samples, graph = clocked(True, 2e-6, 4e-6, 6e-6)
    assert (graph, samples) == (True, [pytest.approx(4e-6)] * len(samples))
    samples, graph = clocked(RuntimeError("not while capturing"), 3e-6)
    assert (graph, samples) == (False, [pytest.approx(3e-6 + Gpu.LAUNCH)] * len(samples))
    with pytest.raises(NoRoom):
        clocked(NoRoom("out of memory"), 3e-6)


# ------------------------------------------------------------------------------------------------- with PyTorch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_folded_decode_attention_is_attention(torch, monkeypatch):
    """Query heads as rows of one query give what repeating the cache's heads gives."""
    from rooflab.measure.bench.kernels import TorchDevice

    device = TorchDevice(cpu=True)
    kept = []
    monkeypatch.setattr(device, "random", lambda *shape, dtype: kept.append(torch.randn(*shape)) or kept[-1])
    columns = {
        "attn_dtype": "float16",
        "batch_size": 2,
        "num_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "step": 32,
    }
    folded = device._decode(columns)()
    q, k, v = kept
    plain = torch.nn.functional.scaled_dot_product_attention(
        q.reshape(2, 8, 1, 16), k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)
    )
    assert k.shape == (2, 2, 33, 16)
    assert torch.allclose(folded.reshape(2, 8, 1, 16), plain, atol=1e-5)


def test_kernels_run_on_the_processor(torch):
    from rooflab.measure.bench.kernels import TorchDevice

    device = TorchDevice(cpu=True)
    target = plan_of.target_from(device.facts())
    for family in ("gemm", "decode_attention", "prefill_attention", "elementwise"):
        case = min(plan_of.plan(target, [family], quick=True).cases, key=lambda each: each.traffic)
        assert spread(device.measure(case, 0.01).samples["kernel"]).median > 0


def test_a_decode_step_repeats_the_same_token(torch, tmp_path):
    """Its logits are those of the whole sequence without a cache, each time it is run."""
    pytest.importorskip("transformers")
    from rooflab.measure.bench.models import Models

    stack = tiny(tmp_path)
    models = Models([stack])
    model = models.model(stack.named(2), torch, "cpu").float()
    assert sum(each.numel() for each in model.parameters()) == stack.params[2]
    tokens = torch.randint(0, 256, (2, 37))
    with torch.inference_mode():
        whole = model(input_ids=torch.cat([tokens, tokens[:, -1:]], 1), use_cache=False).logits[:, -1]
        step = models._decode(model, tokens, torch)
        for _ in range(3):
            assert torch.allclose(step().logits[:, -1], whole, atol=1e-4)


def test_a_model_transformers_does_not_know_is_counted(torch, tmp_path):
    pytest.importorskip("transformers")
    from rooflab.measure.bench.models import Models

    stack = tiny(tmp_path)
    unknown = {depth: {**config, "model_type": "none"} for depth, config in stack.configs.items()}
    models = Models([msgspec.structs.replace(stack, configs=unknown)])
    with pytest.raises(Unsupported, match="'none'"):
        models.model(stack.named(2), torch, "cpu")
