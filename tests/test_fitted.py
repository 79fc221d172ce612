"""Fitted and measured prices over catalog models and devices: never faster than peak, scalar equals array, tagged, banded."""

import math
import random
import tomllib

import msgspec
import numpy as np
import pytest

from rooflab import api, catalog, graph, hf, kernels, parameters
from rooflab.estimate import Workload, estimate
from rooflab.fitted import Fitted
from rooflab.measure import calibrate, compare
from rooflab.measured import Measured
from rooflab.parameters import classes, fits_for, measured_devices, read
from rooflab.price import Cost, Rates, Roofline, step_time
from rooflab.profiles import profile
from rooflab.units import InputError
from rooflab.work import Layout, Op, Precision, Reason, Step

PEAK = Rates(compute=1.0, memory=1.0, link=1.0, launch_time=0.0, pass_time=0.0, tiles=False)
OPERATOR = profile("operator")
SHAPES = ["llama-2-70b", "deepseek-v3", "gpt-oss-20b", "mixtral-8x7b", "qwen3-next-80b-a3b", "gemma-3-27b"]
MODELS = [name for name in SHAPES if name in catalog.model_names()]
FORMATS = [
    Precision(),
    Precision(attention="fp8", ffn="fp8", expert="fp8", kv="fp8"),
    Precision(attention="fp8_block", ffn="fp8_block", expert="fp8_block"),
    Precision(ffn="nvfp4", expert="nvfp4", attention="nvfp4"),
    Precision(expert="mxfp4"),
    Precision(attention="int4", ffn="int4", expert="int4"),
]


def visible(cost: Cost):
    return max(cost.compute, cost.memory) + cost.comm + cost.overhead


def steps(draw: random.Random) -> Step:
    return Step(
        prefill_sequences=draw.choice([0, 1, 3]),
        prefill_tokens=draw.randint(1, 5000),
        prefill_context=draw.choice([0, 0, 700]),
        decode_sequences=draw.choice([1, 7, 64, 300]),
        decode_context=draw.randint(1, 60000),
    )


@pytest.mark.parametrize("name", catalog.device_names())
def test_nothing_beats_its_peak_roofline(name):
    """E-03, the law: on every device, for random models, formats, layouts, engines and steps, operator by operator."""
    system = catalog.system(name)
    draw = random.Random(name)
    for _ in range(12):
        model = hf.load(draw.choice(MODELS))
        most = min(system.capacity, 8)
        layout = Layout(tp=draw.choice([x for x in (1, 2, 4, 8) if x <= most]))
        pricer = Fitted(system, layout, OPERATOR, draw.choice(["vllm", "sglang", "trtllm"]))
        peak = Roofline(system, layout, OPERATOR, PEAK)
        operators = graph.operators(model, draw.choice(FORMATS), layout, steps(draw))
        for op in operators:
            cost, least = pricer.cost(op), peak.cost(op)
            floor = max(least.compute, least.memory) + least.comm
            assert visible(cost) >= floor * (1.0 - 1e-12), op.name
            assert math.isfinite(visible(cost))
            low, high = cost.ends(visible(cost))
            assert floor * (1.0 - 1e-12) <= low <= visible(cost) * (1.0 + 1e-12)
            assert high >= visible(cost)
        total = step_time(operators, pricer, OPERATOR)
        assert total.time >= step_time(operators, peak, OPERATOR).time * (1.0 - 1e-12)


def test_ten_thousand_random_shapes_on_the_measured_devices():
    """E-03: products of any size in every format, as arrays, against 2mnk FLOP and each operand once."""
    rng = np.random.default_rng(7)
    m, n, k = (np.exp2(rng.uniform(0, 16, 10_000)).round() for _ in range(3))
    for name in measured_devices():
        system = catalog.system(name)
        for form in ("bf16", "fp8", "fp8_block", "nvfp4", "int4"):
            for backend in ("vllm", "sglang"):
                op = product(m, n, k, form)
                cost = Fitted(system, Layout(), OPERATOR, backend).cost(op)
                time = np.maximum(cost.compute, cost.memory) + cost.overhead
                assert np.all(time >= op.flop / system.device.rate(op.dtype) * (1 - 1e-12))
                assert np.all(time >= op.bytes() / system.device.memory_bandwidth * (1 - 1e-12))


def product(m, n, k, form="bf16"):
    from rooflab.work import FORMATS as known

    return Op(
        name="product",
        kind="gemm",
        part="ffn",
        dtype=known[form].rate,
        format=form,
        m=m,
        n=n,
        k=k,
        flop=2.0 * m * n * k,
        weight_bytes=n * k * known[form].size,
        activation_bytes=2.0 * (m * k + m * n),
        why=(Reason("flop", min, (0.0,)),),
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", ["h100-sxm", "b200-sxm", "rtx-4090", "mi300x"])
def test_a_point_equals_its_place_in_an_array(name, device):
    """One path for one point and a million: batches, prompts, answers and tensor parallelism as arrays."""
    model, system = hf.load(name), catalog.system(device)
    batch, prompt = np.array([1, 5, 33, 200]), np.array([17, 900, 4000, 1])
    output, tp = np.array([2, 100, 513, 40]), np.array([1, 2, 4, 8])
    tp = np.where(tp <= system.capacity, tp, 1)
    many = estimate(
        model, Precision(), Layout(tp=tp), system, Workload(batch=batch, prompt=prompt, output=output), OPERATOR,
        pricer=Fitted(system, Layout(tp=tp), OPERATOR),
    )  # fmt: skip
    for i in range(4):
        layout = Layout(tp=int(tp[i]))
        work = Workload(batch=int(batch[i]), prompt=int(prompt[i]), output=int(output[i]))
        one = estimate(
            model, Precision(), layout, system, work, OPERATOR, ignore_memory=True, band=False,
            pricer=Fitted(system, layout, OPERATOR),
        )  # fmt: skip
        if one.mid is None:
            continue
        assert many.mid.ttft[i] == pytest.approx(one.mid.ttft, rel=1e-9)
        assert many.mid.tpot[i] == pytest.approx(one.mid.tpot, rel=1e-9)


def test_every_device_has_a_class_and_a_band():
    """A-066: each device of the catalog is priced with a stated band: its own quantiles, or its class's."""
    named = [name for one in classes() for name in one.devices]
    assert len(named) == len(set(named))
    for name in catalog.device_names():
        group = fits_for(catalog.system(name)).group
        assert group.parents or group.plain, name
        for low, high in group.band.values():
            assert 0.3 <= low < 1.0 < high <= 3.0, name
        assert "other" in group.band


def test_every_fit_is_documented_and_physical():
    """Each fit names its rows, versions and errors; shares are at most one; its sources are in refs.toml."""
    for name in measured_devices():
        text = (parameters.FOLDER / f"{name}.toml").read_text()
        for source in tomllib.loads(text)["sources"]:
            assert source in catalog.refs()
        for fit in read(parameters.FOLDER / f"{name}.toml").fits:
            where = (name, fit.family, fit.dtype, fit.backend, fit.kernel)
            assert fit.rows > 0, where
            assert fit.fit_error > 0, where
            assert 0.1 < fit.band[0] < fit.band[1] < 10.0, where
            for parameter, value in fit.parameters.items():
                assert value > 0, (*where, parameter)
                assert parameter not in kernels.SHARES or value <= 1.0, (*where, parameter)


def test_basis_says_what_was_measured():
    """A-066: fitted on a measured device, assumed where parameters are carried over or nothing is known."""
    model = hf.load("llama-2-70b")
    for device, basis in (("h100-sxm", "fitted"), ("h200-sxm", "assumed"), ("tpu-v5p", "assumed")):
        system, layout = catalog.system(device), Layout()
        operators = graph.operators(model, Precision(), layout, Step(decode_sequences=4, decode_context=900))
        found = step_time(operators, Fitted(system, layout, OPERATOR), OPERATOR, detail=True)
        assert max(found.share("basis"), key=found.share("basis").get) == basis


def test_fixed_costs_carry_over_in_cycles():
    """H20 has H100's clock, so its launches are H100's; L40S borrows A100's at 2.52 instead of 1.41 GHz."""
    own = fits_for(catalog.system("h100-sxm")).choose("gemm", ("bf16",), "vllm")
    cut = fits_for(catalog.system("h20")).choose("gemm", ("bf16",), "vllm")
    assert cut.parameters.launch == pytest.approx(own.parameters.launch)
    assert cut.parameters.compute == 0.95
    assert (own.basis, cut.basis) == ("fitted", "assumed")
    old = fits_for(catalog.system("a100-sxm-80gb")).choose("gemm", ("bf16",), "vllm")
    card = fits_for(catalog.system("l40s")).choose("gemm", ("bf16",), "vllm")
    assert card.parameters.launch == pytest.approx(old.parameters.launch * 1.41 / 2.52, rel=1e-3)


def test_a_class_scales_what_its_devices_do_otherwise():
    """B300 doubles the exponentials of B200: half the softmax; its fp4 rate is reached in part; shares stay below one."""
    own, ultra = (fits_for(catalog.system(name)) for name in ("b200-sxm", "b300-sxm"))
    prompts = [each.choose("prefill_attention", ("bf16",), "vllm").parameters for each in (own, ultra)]
    assert prompts[1].softmax == pytest.approx(prompts[0].softmax / 2.0)
    assert prompts[1].compute == prompts[0].compute
    products = [each.choose("gemm", ("nvfp4",), "vllm").parameters for each in (own, ultra)]
    assert products[1].compute < products[0].compute
    for name in catalog.device_names():
        for form in ("bf16", "fp8", "nvfp4"):
            found = fits_for(catalog.system(name)).choose("gemm", (form, "bf16"), "vllm")
            if found is not None:
                assert 0.3 <= found.parameters.compute <= 1.0, name
                assert 0.5 <= found.parameters.memory <= 1.0, name
                assert 1e-6 <= found.parameters.launch <= 10e-6, name


def test_products_look_for_their_format_before_their_architecture():
    """Cards that borrow from A100, which has no eight bits, take them from H100 and four from B200; attention stays."""
    fits = fits_for(catalog.system("rtx-pro-6000"))
    for form, device in (("bf16", "a100"), ("fp8", "h100"), ("nvfp4", "b200")):
        found = fits.choose("gemm", (form, "bf16"), "vllm")
        assert found.dtype == form
        assert device in found.source
    assert "a100" in fits.choose("decode_attention", ("fp8", "bf16"), "vllm").source


def test_an_engines_own_all_reduce_needs_links_beyond_two_devices():
    """vLLM leaves more than two devices that only meet over PCIe to NCCL; over NVLink its own is the faster for decode."""

    def seconds(name, peers):
        system = catalog.system(name)
        op = Op(
            name="a",
            kind="collective",
            part="ffn",
            collective="all_reduce",
            message_bytes=16384.0,
            peers=peers,
            axis="tp",
        )
        pricer = Fitted(system, Layout(tp=8), OPERATOR)
        return (
            pricer.cost(op).comm,
            pricer.exchange(op, "all_reduce").comm,
            pricer.exchange(op, "custom_all_reduce").comm,
        )

    for name, peers, own in (
        ("h100-sxm", 8.0, True),
        ("l40s", 2.0, True),
        ("l40s", 4.0, False),
        ("h100-pcie", 8.0, False),
    ):
        time, library, engine = seconds(name, peers)
        assert engine < library
        assert time == (engine if own else library), (name, peers)
    many = seconds("l40s", np.array([2.0, 4.0]))
    assert list(many[0]) == [many[2][0], many[1][1]]


def test_bands_follow_the_format_and_widen_with_distance():
    """A measured device is surer than its sibling, a sibling surer than another architecture."""

    def width(name, form="bf16"):
        found = fits_for(catalog.system(name)).choose("gemm", (form,), "vllm")
        return found.high / found.low

    assert width("h100-sxm") < width("h200-sxm") < width("l40s") < width("l4")
    assert width("h200-sxm") < width("h200-sxm", "fp8")


def test_one_engines_prompts_over_latents_are_not_anothers():
    """SGLang's kernel on H100 works on the latents; engines without such a row expand keys for every head, at less work."""
    system, model = catalog.system("h100-sxm"), hf.load("deepseek-v3")
    step = Step(prefill_sequences=1, prefill_tokens=4096)
    operators = graph.operators(model, Precision(), Layout(tp=8), step)
    op = next(op for op in operators if kernels.family(op) == "latent_prefill")
    measured, expanded = (Fitted(system, Layout(tp=8), OPERATOR, name) for name in ("sglang", "vllm"))
    assert visible(expanded.cost(op)) < 0.6 * visible(measured.cost(op))
    assert expanded.cost(op).high / expanded.cost(op).low > measured.cost(op).high / measured.cost(op).low


def test_an_accelerator_keeps_plain_shares():
    """Nothing like it was measured: shares of the peak and a launch, with a wider band where GPUs are far from those."""
    system = catalog.system("tpu-v6e")
    op, pricer = product(1.0, 8192.0, 8192.0), Fitted(system, Layout(), OPERATOR)
    assert pricer.chosen("gemm", op)[0] is None
    assert pricer.cost(op).memory == pytest.approx(op.bytes() / system.device.memory_bandwidth / 0.8)
    step = Step(decode_sequences=8, decode_context=4096)
    read = next(
        o for o in graph.operators(hf.load("llama-3.1-8b"), Precision(), Layout(), step) if o.kind == "attention"
    )
    assert pricer.cost(read).high > pricer.cost(op).high


@pytest.mark.parametrize("fits", ["h100-sxm", ""])
def test_a_gpu_that_counts_no_multiprocessors_is_priced_like_one_that_does(fits):
    """H100's peaks in a datasheet without multiprocessors or clock, with H100's fits by name or none: within a third of H100."""
    known = catalog.system("h100-sxm")
    bare = msgspec.structs.replace(known.device, name="mine", compute_units=None, clock=None)
    mine = msgspec.structs.replace(known, name="mine", device=bare, fits=fits or None)
    work, model = Workload(batch=16, prompt=1024, output=64), hf.load("llama-3.1-8b")
    times = []
    for system in (known, mine):
        pricer = Fitted(system, Layout(), OPERATOR)
        times.append(estimate(model, Precision(), Layout(), system, work, OPERATOR, pricer=pricer).mid)
    assert times[1].ttft == pytest.approx(times[0].ttft, rel=1 / 3)
    assert times[1].tpot == pytest.approx(times[0].tpot, rel=1 / 3)


@pytest.mark.parametrize("device", ["a100_sxm", "h100_sxm", "b200_sxm"])
def test_a_gpu_nobody_measured_pays_what_attention_and_experts_cost(device):
    """A-066: each measured device priced as a GPU without rows of its own: the usual error is inside ±40 % of measured, where
    shares of the peak and a launch came out at 0.2 to 0.7; and the band holds most rows."""
    other = next(one for one in classes() if one.name == "other-gpus")
    for table in ("generation_attention", "moe"):
        found, _ = compare.operators_of([f"data/operators/{table}.parquet"])
        own = [(b, s) for b, s in found if b.system == device and b.dtype == "bf16" and "wide" not in b.family]
        fits = parameters.Fits("nobody", "gpu", own[0][1].device.clock)
        assert fits.group == other
        fits.shelves = [read(parameters.FOLDER / f"{n}.toml") for n in other.parents if n != own[0][1].device.name]
        rows = [compare.predict(calibrate.sample(batch, 500), system, fits) for batch, system in own]
        summary = compare.summary(rows, 0)
        assert 0.7 < summary["bias"] < 1.4, table
        assert summary["coverage"] > 0.7, table


def test_an_untuned_kernel_stands_for_nobody_else():
    """vLLM's fp8 experts on H100 reach a fifth of the bandwidth: true on its architecture under vLLM, not elsewhere."""
    op = Op(name="experts_up", kind="grouped_gemm", part="ffn", format="fp8", dtype="fp8", shape={"pairs": 1.0})
    for device, engine, expected in (
        ("h100-sxm", "vllm", "fp8"),
        ("h200-sxm", "vllm", "fp8"),
        ("h100-sxm", "trtllm", "fp8_block"),
        ("mi300x", "vllm", "fp8_block"),
    ):
        chosen = Fitted(catalog.system(device), Layout(), OPERATOR, engine).chosen("experts", op)[0]
        assert chosen.dtype == expected, (device, engine)
        assert (chosen.parameters.memory < 0.25) == (expected == "fp8")


def test_a_cache_rewritten_each_step_is_one_engines_way():
    """SGLang on H100 turns a whole cache of eight-bit latents into sixteen bits for every token; others need not."""
    op = Op(name="decode", kind="latent_attention", part="attention", format="fp8", dtype="bf16")
    passes = {
        (device, engine): Fitted(catalog.system(device), Layout(), OPERATOR, engine)
        .chosen("latent_decode", op)[0]
        .parameters.recast
        for device in ("h100-sxm", "h200-sxm", "l40s")
        for engine in ("sglang", "vllm")
    }
    assert passes.pop(("h100-sxm", "sglang")) == passes.pop(("h200-sxm", "sglang")) > 1.0
    assert set(passes.values()) == {0.0}


@pytest.mark.parametrize("rows", [1.0, 8.0, 16.0])
def test_little_arithmetic_does_not_slow_a_thin_product(rows):
    """H20 has H100's memory or better and a seventh of its arithmetic: decode's products are not slower there."""
    times = []
    for name in ("h100-sxm", "h20"):
        system = catalog.system(name)
        cost = Fitted(system, Layout(), OPERATOR).cost(product(rows, 8192.0, 8192.0))
        times.append(visible(cost) * system.device.memory_bandwidth)
    assert times[1] < 1.25 * times[0]


def test_an_expert_layer_is_its_parts():
    """Up, down, activation and permutation together cost what the layer's formula says, not more."""
    model, system = hf.load("mixtral-8x7b"), catalog.system("h100-sxm")
    pricer = Fitted(system, Layout(), OPERATOR)
    operators = graph.operators(model, Precision(), Layout(), Step(decode_sequences=64, decode_context=100))
    mine = [op for op in operators if op.part == "experts" or "fused" in op.shape]
    assert len(mine) == 4
    op = next(op for op in mine if op.kind == "grouped_gemm")
    chosen, machine = pricer.chosen("experts", op)
    s = op.shape
    whole = kernels.experts.seconds(
        kernels.load_of(op), s["hidden"], s["up"], s["inter"], 2.0, 2.0, machine, chosen.parameters, s["routed"]
    )
    together = math.fsum(visible(pricer.cost(each)) for each in mine)
    assert together == pytest.approx(max(whole[0], whole[1]) + whole[2], rel=0.05)


def test_launch_scale_shrinks_fixed_costs_only():
    system, op = catalog.system("h100-sxm"), product(16.0, 4096.0, 4096.0)
    full = Fitted(system, Layout(), OPERATOR).cost(op)
    half = Fitted(system, Layout(), OPERATOR, launch_scale=0.5).cost(op)
    assert half.overhead == pytest.approx(full.overhead / 2.0)
    assert (half.compute, half.memory) == (full.compute, full.memory)


# ------------------------------------------------------------------------------------------------------- measured


def test_measured_points_are_returned_and_interpolated():
    """A-060: a measured size gives its own time; halfway between two in log space, the geometric mean of their ratios."""
    system = catalog.system("h100-sxm")
    fallback = Fitted(system, Layout(), OPERATOR)
    m = np.array([16.0, 64.0])
    rows = product(m, np.array([4096.0, 4096.0]), np.array([4096.0, 4096.0]))
    times = np.array([30e-6, 40e-6])
    pricer = Measured(fallback, [(rows, times)])
    at = pricer.cost(product(16.0, 4096.0, 4096.0))
    assert (visible(at), at.basis) == (pytest.approx(30e-6), "measured")
    middle = pricer.cost(product(32.0, 4096.0, 4096.0))
    peak = [fallback.peak.cost(product(x, 4096.0, 4096.0)) for x in (16.0, 32.0, 64.0)]
    floor = [max(p.compute, p.memory) for p in peak]
    expected = floor[1] * math.sqrt(30e-6 / floor[0] * 40e-6 / floor[2])
    assert visible(middle) == pytest.approx(expected)


def test_outside_the_table_the_fit_answers_and_says_so():
    """Beyond the rows, the size or the family measured, the price and its tag are the fitted ones."""
    system = catalog.system("h100-sxm")
    fallback = Fitted(system, Layout(), OPERATOR)
    rows = product(np.array([16.0, 64.0]), np.array([4096.0] * 2), np.array([4096.0] * 2))
    pricer = Measured(fallback, [(rows, np.array([30e-6, 40e-6]))])
    for other in (product(128.0, 4096.0, 4096.0), product(32.0, 200.0, 64.0), product(32.0, 4096.0, 4096.0, "fp8")):
        assert pricer.cost(other) == fallback.cost(other)
        assert pricer.cost(other).basis == "fitted"


def test_measured_arrays_equal_their_scalars():
    system = catalog.system("h100-sxm")
    fallback = Fitted(system, Layout(), OPERATOR)
    rows = product(np.array([1.0, 16.0, 64.0]), np.array([4096.0] * 3), np.array([4096.0] * 3))
    pricer = Measured(fallback, [(rows, np.array([20e-6, 30e-6, 40e-6]))])
    m = np.array([1.0, 3.0, 20.0, 64.0, 100.0, 3.0])
    many = pricer.cost(product(m, np.full(6, 4096.0), np.full(6, 4096.0)))
    for i, rows_of in enumerate(m):
        one = pricer.cost(product(float(rows_of), 4096.0, 4096.0))
        assert max(many.compute[i], many.memory[i]) + many.overhead[i] == pytest.approx(visible(one), rel=1e-12)


# ----------------------------------------------------------------------------------------------------------- asks

ASK = {"kind": "estimate", "model": "llama-2-70b", "on": "h100-sxm", "tp": 8, "batch": 4, "prompt": 500, "output": 50}


def test_asks_choose_prices():
    """A-066: an estimate says whether it is roofline or fitted, and brackets itself; kernels' prices are the usual ones."""
    plain, priced = api.answer({**ASK, "prices": "roofline"}), api.answer({**ASK, "prices": "fitted"})
    assert api.answer(ASK)["tpot"] == priced["tpot"]
    rated = api.answer({**ASK, "switches": {"compute_efficiency": 0.65}})
    assert rated["tpot"] == plain["tpot"]
    assert any("because compute_efficiency is given" in note for note in rated["notes"])
    with pytest.raises(InputError, match=r"switches.compute_efficiency: 0.5 is a rate of the roofline"):
        api.answer({**ASK, "prices": "fitted", "switches": {"compute_efficiency": 0.5}})
    assert (plain["basis"], priced["basis"]) == ("roofline", "fitted")
    assert priced["low"]["tpot"] < priced["tpot"] < priced["high"]["tpot"]
    assert priced["tpot"] != plain["tpot"]
    assert any("fitted on kernels of vllm" in note for note in priced["notes"])
    other = api.answer({**ASK, "prices": "fitted", "engine": "sglang"})
    assert other["tpot"] != priced["tpot"]


def test_asks_refuse_what_cannot_be_priced():
    with pytest.raises(InputError, match="coarser"):
        api.answer({**ASK, "prices": "fitted", "profile": "sharded"})
    with pytest.raises(InputError, match="not 'roofline', 'fitted' or the path"):
        api.answer({**ASK, "prices": "fited"})
    with pytest.raises(InputError, match="does not exist"):
        api.answer({**ASK, "prices": "./none.parquet"})
    with pytest.raises(InputError, match="engine"):
        api.answer({**ASK, "prices": "fitted", "engine": "llamacpp"})


def test_a_broken_fits_file_is_refused_by_name(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text('device = "odd"\n[[fit]]\nfamily = 3\n')
    with pytest.raises(InputError, match=r"odd\.toml"):
        read(path)


def test_fits_are_read_only_when_a_device_is_priced():
    """Importing the library reads no fits and no tables."""
    import subprocess
    import sys

    code = "import rooflab.api, sys; from rooflab.parameters import read; print(read.cache_info().currsize, %s)"
    code = code % "'pandas' in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]
