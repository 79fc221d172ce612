"""The chip roofline. Expected values are published, or derived by hand in the comments; laws hold from reason alone."""

import math
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import catalog, chip, explain, graph
from rooflab.api import answer
from rooflab.chip import formulas
from rooflab.chip.roofline import _weights_by_class
from rooflab.model import Attention, Block, Dense, Indexer, LatentAttention, Model, MoE, Recurrent
from rooflab.system import Device, System
from rooflab.units import InputError
from rooflab.work import Layout, Precision, Step

BF16 = Precision()


def one_kind(name: str, layers: int, mixer, ffn, hidden: int = 4096, vocab: int = 151936, **more) -> Model:
    """A model of equal layers."""
    block = Block(count=layers, mixer=mixer, ffn=ffn, norm_params=2 * hidden)
    return Model(name=name, hidden=hidden, vocab=vocab, blocks=(block,), other_params=hidden, **more)


def gqa(heads: int = 32, kv_heads: int = 8, head_dim: int = 128, **more) -> Attention:
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_dim=head_dim, **more)


# 36 layers, hidden 4,096, 32 query and 8 KV heads of 128, gated feed-forward of 12,288; query and key norms of 128.
QWEN = one_kind("8b", 36, gqa(other_params=256), Dense(width=12288))
# 32 layers, hidden 4,096, 8 experts of 14,336, two a token.
MIXTURE = one_kind("8x7b", 32, gqa(), MoE(experts=8, topk=2, width=14336), vocab=32000)
STATES = one_kind(
    "states",
    4,
    Recurrent(form="mamba2", heads=8, key_dim=16, value_dim=64, in_width=1024, out_width=512),
    Dense(width=64),
)


def machine(rate: float = 8e12, bandwidth: float = 256e9, memory: float = 6e9, **more) -> System:
    device = Device(name="pe", memory=memory, memory_bandwidth=bandwidth, flop_rate={"bf16": rate}, **more)
    return System(name="pe", device=device)


PE = machine()
PE_QWEN = chip.of(QWEN, BF16, PE.device, 4096)


def close(value, expected, rel=1e-9):
    return value == pytest.approx(expected, rel=rel, abs=0.0)


def a_chip(**changes) -> chip.Chip:
    """A round chip: C = 100 FLOP/s, W = 10 byte/s, b = 2, N = 1,000, 5 byte of cache per token."""
    numbers = {"params": 1000.0, "active_params": 1000.0, "kv_per_token": 5.0}
    numbers |= {name: changes.pop(name) for name in tuple(changes) if name in numbers}
    fields = {"flop_rate": 100.0, "memory_bandwidth": 10.0, "weight_size": 2.0} | changes
    return chip.Chip(**fields, model=chip.ModelNumbers(**numbers))


# --------------------------------------------------------------------------------------------------- reference values


@pytest.mark.parametrize("rate", [989e12, 989.5e12])
def test_C_060_critical_batch_of_an_h100_is_295(rate):
    """989/3.35 = 295.2 and 989.5/3.35 = 295.4, for any dense model in bf16."""
    h100 = machine(rate, 3.35e12, 80 * 2.0**30).device
    assert abs(chip.critical_batch(chip.of(QWEN, BF16, h100, 1)) - 295) < 1


def test_C_060_of_the_h100_in_the_catalog():
    report = chip.report(QWEN, catalog.system("h100-sxm"), batch=1, context=4096)
    assert abs(report.critical_batch - 295) < 1


def test_C_070_reference_values_of_the_processing_element():
    """C-070, C-013: 8 TFLOP/s and 256 GB/s with 36 × (2·4096·(32+8)·128 + 3·4096·12288) weights in bf16."""
    assert chip.arithmetic_intensity(PE_QWEN) == 31.25
    assert chip.critical_batch(PE_QWEN) == 31.25
    assert PE_QWEN.model.params == 36 * (2 * 4096 * 40 * 128 + 3 * 4096 * 12288) == 6_945_767_424
    assert PE_QWEN.model.active_params == PE_QWEN.model.params
    assert PE_QWEN.model.kv_per_token == PE_QWEN.model.kv_growth == 2 * 8 * 128 * 2 * 36 == 147_456
    assert round(chip.balance_context(PE_QWEN), 2) == 3014.66
    assert f"{chip.utilization_at(PE_QWEN, 131072):.2%}" == "2.25%"
    step = chip.step_latency(PE_QWEN, 1, 0)
    assert round(step.weight * 1e3, 2) == 54.26
    assert round(step.compute * 1e3, 3) == 1.736


def test_C_070_in_the_report():
    """C-030, C-031: intensity, B*, L* and regime; good batch 2 × B*, good context L*, utilisation there."""
    report = chip.report(QWEN, PE, batch=1, context=131072)
    assert (report.intensity, report.critical_batch, report.good_batch) == (31.25, 31.25, 62.5)
    assert round(report.balance_context, 2) == round(report.good_context, 2) == 3014.66
    assert round(report.utilization, 4) == 0.0225
    assert report.regime == "kv-bound"
    assert report.knee_batch is None
    assert close(report.context_ratio, 131072 / 3014.656)


def test_round_numbers():
    """C-002–C-012 with C = 100, W = 10, b = 2, N = 1,000, kv = 5.

    AI = 100/10; B* = 100·2/20 = 10; L* = 2·1,000·10/(100·5) = 40; at S = 20 the knee is 10/(1 − 20/40) = 20.
    Step at B = 4, S = 20: weights 2,000/10 = 200, compute 2·4,000/100 = 80, cache 4·20·5/10 = 40.
    """
    x = a_chip()
    assert chip.arithmetic_intensity(x) == chip.critical_batch(x) == 10
    assert chip.balance_context(x) == 40
    assert chip.knee_batch(x, 20) == 20
    step = chip.step_latency(x, 4, 20)
    assert (step.weight, step.compute, step.kv, step.memory, step.total) == (200, 80, 40, 240, 320)
    token = chip.per_token_latency(x, 4, 20)
    assert (token.weight, token.compute, token.kv, token.memory, token.total) == (50, 20, 10, 60, 80)
    assert (chip.t_com(x), chip.t_mem_short(x, 4), chip.t_mem_long(x, 20)) == (20, 50, 10)
    assert chip.bound_regime(x, 4, 20) == "memory-bound"
    assert chip.bound_regime(x, 11, 0) == "compute-bound"
    assert chip.bound_regime(x, 11, 50) == "kv-bound"  # 200, 220, 275
    good = chip.good_batch(x)
    assert (good.dense, good.sparsity, good.effective) == (20, 1, 20)
    assert "B*" in good.reason
    reach = chip.good_context(x, 40)
    assert (reach.ceiling, reach.utilization) == (40, 0.5)


def test_D_237_sparsity_multiplies_the_critical_batch():
    """D-237, C-010: 32 of 256 experts, nothing else: a token uses an eighth of the weights, so 8 × B*."""
    dense = a_chip(params=8000.0, active_params=8000.0)
    sparse = a_chip(params=8000.0, active_params=1000.0)
    assert chip.critical_batch(sparse) == 8 * chip.critical_batch(dense) == 8 * chip.dense_critical_batch(sparse)
    assert chip.good_batch(sparse).effective == 2 * 8 * 10
    assert (chip.good_batch(sparse).dense, chip.good_batch(sparse).sparsity) == (20, 8)


def test_D_905_real_counts_of_a_mixture():
    """D-905, C-032: attention 41,943,040, an expert 176,160,768, router 32,768 weights a layer; 32 layers.

    N_total = 32 × 1,451,261,952 = 46,440,382,464; N_active = 32 × 394,297,344 = 12,617,515,008; ratio 3.6806.
    """
    x = chip.of(MIXTURE, BF16, PE.device, 4096)
    assert x.model.params == 46_440_382_464
    assert x.model.active_params == 12_617_515_008
    assert close(chip.critical_batch(x), 31.25 * 46_440_382_464 / 12_617_515_008)
    hint = chip.report(MIXTURE, PE, batch=1, context=4096).sparsity_hint
    assert "3.68" in hint
    assert "115" in hint  # 31.25 × 3.6806
    assert chip.report(QWEN, PE, batch=1, context=4096).sparsity_hint is None


@pytest.mark.parametrize("model", [QWEN, MIXTURE, STATES])
def test_C_013_classes_of_weights_add_up(model):
    classes = _weights_by_class(model).values()
    assert sum(total for total, _ in classes) == graph.linear_params(model)
    assert sum(used for _, used in classes) == graph.linear_params(model, active=True)


def test_mixed_formats():
    """256 attention weights (4·8·8) in bf16 and 256 of the feed-forward (2·8·16) in fp8 at twice the rate.

    Bytes per weight (2 + 1)/2 = 1.5; time per FLOP (1 + 1/2)/2 of bf16's, so the rate is 4/3 of it.
    """
    model = one_kind("small", 1, gqa(1, 1, 8), Dense(width=16, gated=False), hidden=8, vocab=10)
    device = Device(name="d", memory=1e9, memory_bandwidth=1e9, flop_rate={"bf16": 3e9, "fp8": 6e9})
    mixed = chip.of(model, Precision(ffn="fp8"), device, 1)
    assert mixed.weight_size == 1.5
    assert close(mixed.flop_rate, 4e9)
    narrow = chip.of(model, Precision(attention="fp8", ffn="fp8"), device, 1)
    assert (narrow.weight_size, narrow.flop_rate) == (1.0, 6e9)
    # half the bytes at twice the rate: the same critical batch, 3e9·2/(2·1e9) = 3
    assert chip.critical_batch(narrow) == chip.critical_batch(chip.of(model, BF16, device, 1)) == 3


def test_cache_of_windows_and_selections():
    """Entries of 2 × 8 elements of 2 bytes: 32 bytes. One layer sees all, one 100 tokens."""
    blocks = tuple(Block(count=1, mixer=gqa(1, 1, 8, window=window), ffn=Dense(width=8)) for window in (0, 100))
    model = Model(name="windows", hidden=8, vocab=10, blocks=blocks)
    assert chip.kv_per_token(model, BF16, 50) == chip.kv_growth(model, BF16, 50) == 64
    assert chip.kv_read(model, BF16, 1000) == 32 * 1000 + 32 * 100
    assert close(chip.kv_per_token(model, BF16, 1000), 35.2)
    assert chip.kv_growth(model, BF16, 1000) == 32
    # a latent of 6 + 2 elements, of which 10 tokens are read, and 4-element index keys, all read: 16·10 + 8·1,000
    latent = LatentAttention(
        heads=2, query_rank=4, kv_rank=6, nope_dim=4, rope_dim=2, value_dim=4,
        indexer=Indexer(heads=2, head_dim=4, topk=10, query_width=4),
    )  # fmt: skip
    sparse = one_kind("sparse", 1, latent, Dense(width=8), hidden=8, vocab=10)
    assert chip.kv_read(sparse, BF16, 1000) == 16 * 10 + 8 * 1000
    assert chip.kv_growth(sparse, BF16, 1000) == 16 + 8
    notes = " ".join(chip.report(model, PE, batch=1, context=1000).notes)
    assert "35.2 B" in notes
    assert "32.0 B" in notes


def test_a_model_without_a_cache_has_no_balance_context():
    """C-004, C-005: nothing grows with the context, so there is no limit, and the knee is B* at any context."""
    x = chip.of(STATES, BF16, PE.device, 1000)
    assert math.isinf(chip.balance_context(x))
    assert chip.knee_batch(x, 10**6) == chip.critical_batch(x)
    assert chip.utilization_at(x, 10**6) == 1
    report = chip.report(STATES, PE, batch=1, context=1000)
    assert report.balance_context is None
    assert report.curves.cost_at_context == ()
    assert {row.symbol: row.text for row in report.formulas}["L*"] == "unlimited"
    assert "recurrent state" in " ".join(report.notes)
    # memory: 4 layers × 8 heads × 16 × 64 elements of 2 bytes a sequence, whatever the context
    assert report.memory.kv == 4 * 8 * 16 * 64 * 2
    msgspec.json.encode(report)


# --------------------------------------------------------------------------------------------------------------- laws

positive = st.floats(1e-2, 1e3)


@st.composite
def chips(draw):
    """Any machine, from far below to far above real ones, with any model."""
    active = draw(st.floats(1e6, 1e12))
    return chip.Chip(
        flop_rate=draw(st.floats(1e11, 1e18)),
        memory_bandwidth=draw(st.floats(1e9, 1e14)),
        weight_size=draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])),
        model=chip.ModelNumbers(
            params=active * draw(st.floats(1.0, 64.0)), active_params=active, kv_per_token=draw(st.floats(1.0, 1e7))
        ),
    )


DEVICES = [name for name in catalog.device_names() if {"bf16", "fp16"} & set(catalog.device(name).flop_rate)]
catalog_chips = st.builds(
    lambda name, model: chip.of(model, BF16, catalog.device(name), 4096),
    st.sampled_from(DEVICES),
    st.sampled_from([QWEN, MIXTURE]),
)
any_chip = chips() | catalog_chips
batches = st.floats(1.0, 1e5)
contexts = st.integers(0, 10**7).map(float)


@given(any_chip, positive, positive)
def test_C_061_068_scaling_of_the_critical_batch_and_the_balance_context(x, k, share):
    """C-061, C-068: B* scales with sparsity and with C, inversely with W; L* with W, inversely with C; AI likewise."""
    sparser = msgspec.structs.replace(x, model=msgspec.structs.replace(x.model, params=x.model.params * k))
    assert close(chip.critical_batch(sparser), k * chip.critical_batch(x))
    assert close(chip.good_batch(sparser).effective, k * chip.good_batch(x).effective)
    faster, wider = x.scaled(flops=k), x.scaled(bandwidth=k)
    assert close(chip.critical_batch(faster), k * chip.critical_batch(x))
    assert close(chip.arithmetic_intensity(faster), k * chip.arithmetic_intensity(x))
    assert close(chip.arithmetic_intensity(wider), chip.arithmetic_intensity(x) / k)
    assert close(chip.balance_context(wider), k * chip.balance_context(x))
    assert close(chip.balance_context(faster), chip.balance_context(x) / k)


@given(any_chip, st.floats(0.0, 0.999), st.floats(1.0, 100.0))
def test_C_062_the_knee_diverges_at_the_balance_context(x, below, past):
    balance, critical = chip.balance_context(x), chip.critical_batch(x)
    knee = chip.knee_batch(x, below * balance)
    assert close(knee, critical / (1 - below), rel=1e-6)
    assert close(chip.knee_batch(x, 0), critical)
    assert chip.knee_batch(x, past * balance) is None
    # there compute equals weights and cache together
    step = chip.step_latency(x, knee, below * balance)
    assert close(step.compute, step.memory, rel=1e-6)


@given(any_chip, batches, contexts, st.floats(1.001, 100.0))
def test_C_063_cost_falls_with_the_batch_towards_its_floor(x, batch, context, k):
    few, many = chip.per_token_latency(x, batch, context), chip.per_token_latency(x, k * batch, context)
    floor = chip.t_com(x) + chip.t_mem_long(x, context)
    assert many.total <= few.total
    assert many.weight < few.weight
    assert close(chip.per_token_latency(x, 1e30, context).total, floor)
    assert few.total >= floor * (1 - 1e-12)


@given(any_chip)
def test_C_064_weights_and_compute_meet_at_the_critical_batch(x):
    """C-064, C-008, C-021: and the regime flips there."""
    critical = chip.critical_batch(x)
    step = chip.step_latency(x, critical, 0)
    assert close(step.weight, step.compute)
    assert chip.bound_regime(x, critical * 0.999, 0) == "memory-bound"
    assert chip.bound_regime(x, critical * 1.001, 0) == "compute-bound"
    assert chip.bound_regime(x, 1e12 * critical, 1.001 * chip.balance_context(x)) == "kv-bound"


@given(any_chip, batches, contexts)
def test_C_065_times_per_token(x, batch, context):
    balance = chip.balance_context(x)
    assert close(chip.t_mem_long(x, balance), chip.t_com(x))
    assert close(chip.t_mem_short(x, 2 * batch), chip.t_mem_short(x, batch) / 2)
    assert close(chip.utilization_at(x, 0), 1)
    assert close(chip.utilization_at(x, balance), 1 / 2)
    assert close(chip.utilization_at(x, 2 * balance), 1 / 3)
    assert chip.utilization_at(x, 1.1 * context + 0.1 * balance) < chip.utilization_at(x, context)


@given(any_chip, batches, contexts, positive)
def test_C_066_a_step_is_its_tokens(x, batch, context, k):
    step, token = chip.step_latency(x, batch, context), chip.per_token_latency(x, batch, context)
    larger = chip.step_latency(x, k * batch, context)
    assert larger.weight == step.weight
    assert close(larger.compute, k * step.compute)
    assert close(larger.kv, k * step.kv)
    assert close(step.total, token.total * batch)
    assert close(chip.step_latency(x, 1, context).total, chip.per_token_latency(x, 1, context).total)


@given(any_chip, contexts, st.floats(0.01, 10000.0))
def test_C_016_largest_batch_within_a_limit(x, context, room):
    """The batch meets the limit and one more misses it; 0 where one sequence misses it."""
    one = chip.step_latency(x, 1, context)
    slo = one.weight + room * (one.compute + one.kv)
    batch = chip.max_batch_within_slo(x, slo, context)
    assert batch == math.floor(batch) >= 0
    assert chip.step_latency(x, batch + 1, context).total > slo
    assert batch == 0 or chip.step_latency(x, batch, context).total <= slo
    assert chip.max_batch_within_slo(x, 0.5 * one.weight, context) == 0


def test_C_016_by_hand():
    """Weights 54.26 ms, a sequence of 1,000 tokens 1.736 + 1,000·147,456/256e9 = 0.576: (100 − 54.26)/2.31 = 19.8."""
    assert chip.max_batch_within_slo(PE_QWEN, 0.100, 1000) == 19
    assert chip.max_batch_within_slo(PE_QWEN, 0.030, 1000) == 0


def test_C_015_sensitivity_axes():
    """C-015, C-048, C-049, C-068, D-236: for bf16 B* = AI = 31.25 at 1×; a wrong axis says which there are."""
    rows = chip.ai_sensitivity(PE_QWEN, "flops")
    assert [row.multiplier for row in rows] == [0.25, 0.5, 1, 2, 4, 8]
    assert [row.intensity for row in rows] == [row.critical_batch for row in rows]
    assert [row.intensity for row in rows] == [31.25 * m for m in (0.25, 0.5, 1, 2, 4, 8)]
    assert [row.intensity for row in chip.ai_sensitivity(PE_QWEN, "bw")] == [31.25 / m for m in (0.25, 0.5, 1, 2, 4, 8)]
    with pytest.raises(InputError, match=r"axis: 'flop' .* flops, bw"):
        chip.ai_sensitivity(PE_QWEN, "flop")


def test_E_29_three_views_meet_at_one_batch():
    """E-29: C's B*; the batch where the sharded stages' products and weights take equal time; a matmul's roofline knee.

    8 TFLOP/s over 250 GB/s in bf16, and twice the rate at half the bytes in fp8: 32 both times.
    """
    for precision, rate in ((BF16, "bf16"), (Precision(attention="fp8", ffn="fp8"), "fp8")):
        device = Device(name="d", memory=6e9, memory_bandwidth=250e9, flop_rate={"bf16": 8e12, "fp8": 16e12})
        critical = chip.critical_batch(chip.of(QWEN, precision, device, 1))
        assert critical == 32
        for counting in ("stages", "weights"):
            step = Step(decode_sequences=critical, decode_context=0)
            ops = graph.operators(QWEN, precision, Layout(), step, counting=counting, outside=False)
            products = [op for op in ops if op.kind == "gemm"]
            compute = math.fsum(op.count * op.flop for op in products) / device.rate(rate)
            memory = math.fsum(op.count * op.weight_bytes for op in products) / device.memory_bandwidth
            assert close(compute, memory)
        knee = device.rate(rate) / device.memory_bandwidth  # FLOP/byte where a matrix product leaves the memory roof
        weight = precision.weight_size(precision.ffn)
        assert close(critical, knee * weight / 2)  # a product does 2·B FLOP for each weight's bytes


# ----------------------------------------------------------------------------------------------------- scalar = array


def same(one, many, index):
    """An array's element equals the scalar; None is NaN; a term that no array touched is one number."""
    value = many[index] if isinstance(many, np.ndarray) and many.ndim else many
    return np.isnan(value) if one is None else value == one


def test_arrays_give_what_scalars_give():
    """C-001: one formula for a point and a million."""
    batch, context = np.array([1.0, 7.0, 31.25, 4000.0]), np.array([0.0, 1500.0, 3014.656, 1e6])
    for i, (b, s) in enumerate(zip(batch, context, strict=True)):
        for call in (
            chip.knee_batch, chip.t_mem_long, chip.utilization_at,
            lambda x, s: chip.max_batch_within_slo(x, 0.1, s),
        ):  # fmt: skip
            assert same(call(PE_QWEN, float(s)), call(PE_QWEN, context), i)
        assert chip.bound_regime(PE_QWEN, batch, context)[i] == chip.bound_regime(PE_QWEN, float(b), float(s))
        for call in (chip.step_latency, chip.per_token_latency):
            one, many = call(PE_QWEN, float(b), float(s)), call(PE_QWEN, batch, context)
            assert all(same(getattr(one, field), getattr(many, field), i) for field in one.__struct_fields__)


def test_arrays_of_machines():
    """A sweep over hardware: every figure of chip i of the array is that of chip i alone."""
    rates, bandwidths = np.array([1e12, 8e12, 989e12]), np.array([1e12, 256e9, 3.35e12])
    device = msgspec.structs.replace(PE.device, flop_rate={"bf16": rates}, memory_bandwidth=bandwidths)
    many = chip.of(QWEN, BF16, device, 4096)
    for i, (rate, bandwidth) in enumerate(zip(rates, bandwidths, strict=True)):
        one = chip.of(QWEN, BF16, machine(float(rate), float(bandwidth)).device, 4096)
        for call in (chip.arithmetic_intensity, chip.critical_batch, chip.balance_context, chip.t_com):
            assert same(call(one), call(many), i)
        assert same(chip.knee_batch(one, 4096), chip.knee_batch(many, 4096), i)
        assert chip.bound_regime(one, 64, 4096) == chip.bound_regime(many, 64, 4096)[i]


@pytest.mark.parametrize("model", [QWEN, MIXTURE, STATES])
def test_arrays_of_budgets(model):
    layout = Layout(tp=4)
    batch, context = np.array([1.0, 8.0, 256.0]), np.array([128.0, 1000.0, 1e6])
    many = chip.memory_budget(model, BF16, layout, PE, batch=batch, context=context)
    for i, (b, s) in enumerate(zip(batch, context, strict=True)):
        one = chip.memory_budget(model, BF16, layout, PE, batch=float(b), context=float(s))
        assert all(same(getattr(one, field), getattr(many, field), i) for field in one.__struct_fields__)


# ------------------------------------------------------------------------------------------------------------- memory


def test_C_014_memory_by_hand():
    """C-014, D-053, D-054: 8,190,735,360 parameters of 2 bytes; 147,456 bytes of cache a token; 80 GiB.

    Buffers of 4 tokens: 2·4·(2·4,096 + (32 + 2·8)·128 + 2·12,288) = 8·38,912.
    """
    budget = chip.memory_budget(QWEN, BF16, Layout(), machine(memory=80 * 2.0**30), batch=4, context=1000)
    assert budget.weights == 2 * 8_190_735_360
    assert budget.kv == 4 * 1000 * 147_456
    assert budget.transient == 8 * 38_912
    assert budget.used == budget.weights + budget.kv + budget.transient
    assert budget.free == 80 * 2**30 - budget.used
    assert budget.over_budget is False
    shared = chip.memory_budget(QWEN, BF16, Layout(tp=8), PE, batch=4, context=1000)
    assert shared.kv == budget.kv / 8


@given(
    st.floats(1.0, 1e4).map(round), st.integers(1, 10**6), st.sampled_from([Layout(), Layout(tp=8), Layout(tp=2, pp=3)])
)
def test_C_067_memory_laws(batch, context, layout):
    """C-067, C-046, C-047: cache linear in both, weights fixed, a flag when it is too much, free never negative."""
    along = chip.memory_budget_vs_context(QWEN, BF16, layout, PE, batch=batch, contexts=(context, 3 * context))
    across = chip.memory_budget_vs_batch(QWEN, BF16, layout, PE, context=context, batches=(batch, 3 * batch))
    for first, second in (along, across):
        assert close(second.kv, 3 * first.kv)
        assert second.weights == first.weights
    for each in (*along, *across):
        assert each.over_budget == (each.used > each.budget)
        assert each.free == max(0, each.budget - each.used)


def test_C_067_the_flag_flips_once():
    budgets = chip.memory_budget_vs_context(QWEN, BF16, Layout(tp=8), PE, batch=1)
    flags = [each.over_budget for each in budgets]
    # (6e9 − 2.05e9)/18,432 bytes of cache a token: 214,000 tokens
    assert flags == [False] * 6 + [True] * 2
    assert [each.free == 0 for each in budgets] == flags


def test_D_239_batch_that_memory_allows():
    """(80 GiB − 16,381,470,720)/(8,192 · 147,456) = 69,517,875,200/1,207,959,552 = 57.5."""
    system = machine(989e12, 3.35e12, 80 * 2.0**30)
    assert chip.memory_batch(QWEN, BF16, Layout(), system, 8192) == 57
    assert chip.memory_batch(QWEN, BF16, Layout(), PE, 8192) == 0
    assert chip.memory_batch(QWEN, BF16, Layout(attention_dp=2), system, 8192) == 2 * 57


@pytest.mark.parametrize("profile", ["operator", "sharded", "envelope"])
@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("llama-3.1-70b", {"tp": 8}),
        ("llama-3.1-70b", {"tp": 2, "pp": 2}),
        ("qwen3-30b-a3b", {"tp": 2, "attention_dp": 4, "ep": 8}),
        ("qwen3-next-80b-a3b", {"tp": 2, "pp": 2, "reserve": "2 GB"}),
    ],
)
def test_C_014_memory_is_counted_as_the_fit_counts_it(model, layout, profile):
    """C-046, C-047, E-09: one answer to how many sequences a device holds, whoever asks; an extra one is too many."""
    asked = {"model": model, "on": "8x h100-sxm", "profile": profile, "batch": 8, **layout}
    fit = answer({"kind": "fit", **asked, "prompt": 4000, "output": 96})
    limits = answer({"kind": "chip", **asked, "context": 4096, "prompt": 4000})["chip"]
    assert limits["memory"]["used"] == pytest.approx(fit["memory"]["used"], rel=1e-12)
    assert limits["memory"]["reserve"] == fit["memory"]["reserve"]
    assert limits["memory_batch"] == fit["max_batch"] > 8
    for batch, over in ((fit["max_batch"], False), (fit["max_batch"] + 1, True)):
        asked["batch"] = batch
        assert (
            answer({"kind": "chip", **asked, "context": 4096, "prompt": 4000})["chip"]["memory"]["over_budget"] is over
        )


# ------------------------------------------------------------------------------------------------------------- report


def evaluated(line: str) -> float:
    return explain.evaluate(line.replace("·", "*").replace("−", "-"))


@pytest.mark.parametrize("model", [QWEN, MIXTURE])
@pytest.mark.parametrize("context", [1000, 131072])
def test_C_035_formula_table(model, context):
    """C-035, D-238: five rows; the line with numbers evaluates to the value; no knee past L*."""
    report = chip.report(model, PE, batch=8, context=context)
    rows = {row.symbol: row for row in report.formulas}
    assert list(rows) == ["AI", "B*", "B*_moe", "L*", "B_knee"]
    for row in rows.values():
        assert row.meaning
        if row.value is not None:
            assert close(evaluated(row.with_numbers), row.value)
    shown = [rows[symbol].value for symbol in rows]
    assert shown == [
        report.intensity, report.dense_critical_batch, report.critical_batch, report.balance_context, report.knee_batch
    ]  # fmt: skip
    assert (rows["B_knee"].text == "no knee") == (context >= report.balance_context)


def test_C_035_symbols_are_the_formulas():
    """The printed symbols, with the formulas' own arguments in their place, give the same as the functions."""
    values = {"C": 7.0, "W": 3.0, "b": 2.0, "N_total": 40.0, "N_active": 10.0, "kv": 11.0, "S": 0.1}
    x = a_chip(flop_rate=7.0, memory_bandwidth=3.0, weight_size=2.0, params=40.0, active_params=10.0, kv_per_token=11.0)
    for row in chip.formula_table(x, 0.1):
        text = row.formula.replace("·", "*").replace("−", "-").replace("B*_moe", "critical")
        for star, name in (("B*", "dense"), ("L*", "balance")):
            text = text.replace(f"{star} *", f"{name} *").replace(f"/{star}", f"/{name}")
        names = values | {"dense": chip.dense_critical_batch(x), "critical": chip.critical_batch(x)}
        assert close(eval(text, {}, names | {"balance": chip.balance_context(x)}), row.value)


@given(any_chip, batches, contexts)
def test_every_formula_explains_its_number(x, batch, context):
    """The expression each formula prints, with its numbers, evaluates to what the view shows."""
    step, token = chip.step_latency(x, batch, context), chip.per_token_latency(x, batch, context)
    shown = {
        "arithmetic_intensity": chip.arithmetic_intensity(x), "sparsity": x.model.sparsity,
        "dense_critical_batch": chip.dense_critical_batch(x), "critical_batch": chip.critical_batch(x),
        "good_batch": chip.good_batch(x).effective, "weight_time": step.weight, "compute_time": step.compute,
        "kv_time": step.kv, "step_time": step.total, "t_com": token.compute, "t_mem_short": token.weight,
        "t_mem_long": token.kv, "balance_context": chip.balance_context(x), "knee_batch": chip.knee_batch(x, context),
        "utilization": chip.utilization_at(x, context),
    }  # fmt: skip
    reasons = chip.reasons(x, batch, context)
    assert {reason.quantity for reason in reasons} == {name for name, value in shown.items() if value is not None}
    for reason in reasons:
        # twelve digits go in; close to L* the knee loses most of them
        rel = (
            1e-9 * (1 + chip.knee_batch(x, context) / chip.critical_batch(x))
            if reason.quantity == "knee_batch"
            else 1e-9
        )
        assert close(
            explain.evaluate(explain.substitute(reason.formula, reason.arguments)), shown[reason.quantity], rel
        )


def test_every_formula_says_what_it_is():
    functions = [each for each in vars(formulas).values() if getattr(each, "__module__", "") == formulas.__name__]
    assert len(functions) >= 15
    for function in functions:
        said = explain.describe(function)
        assert all(said[field] for field in ("means", "counts", "source", "holds")), function.__name__
        explain.expression(function)


def test_C_033_regime_table():
    """C-033: at B = 8, S = 1,000 a token takes 1.74 ms of compute, 54.26/8 = 6.78 ms of weights, 0.576 ms of cache."""
    report = chip.report(QWEN, PE, batch=8, context=1000)
    assert [row.name for row in report.regimes] == ["compute (t_com)", "weight fetch", "KV fetch", "bottleneck"]
    assert [row.text for row in report.regimes] == ["1.74 ms", "6.78 ms", "576.00 µs", "memory-bound"]
    assert all(row.short_context and row.long_context for row in report.regimes)


def test_C_034_guidance_has_the_numbers():
    """C-034, D-239: 2 × B*, B*, 3 × B*, L*, what memory holds; past L* it says so."""
    h100 = machine(989e12, 3.35e12, 80 * 2.0**30)
    text = chip.report(QWEN, h100, batch=8, context=1024).guidance  # L* = 2·6.95e9·3.35e12/(989e12·147,456) = 319
    assert all(number in text for number in ("590", "295", "886", "319.1 tokens", "past L*"))
    assert "460 sequences of 1,024 tokens" in text  # 69,517,875,200/(1,024 · 147,456) = 460.4
    assert "limits the batch" in text
    short = chip.report(QWEN, h100, batch=8, context=100).guidance
    assert "below L*" in short
    assert "2 × B* fits" in short
    assert "weights alone exceed" in chip.report(QWEN, PE, batch=8, context=1024).guidance
    assert "fewer than the batch of 8" in chip.report(QWEN, h100, batch=8, context=131072).guidance


def test_D_900_another_machine_changes_every_number():
    """D-900, D-904: nothing comes from a default machine, and no slider's end limits what can be asked."""
    one = chip.report(QWEN, PE, batch=8, context=1000, layout=Layout(tp=8))
    two = chip.report(QWEN, machine(200e12, 3e12, 60e9), batch=8, context=1000, layout=Layout(tp=8))
    figures = (
        "intensity", "critical_batch", "dense_critical_batch", "balance_context", "context_ratio", "knee_batch",
        "good_batch", "good_context", "utilization", "step", "token", "memory", "memory_batch", "regimes", "formulas",
        "caption", "guidance",
    )  # fmt: skip
    assert [name for name in figures if getattr(one, name) == getattr(two, name)] == []
    for name in one.curves.__struct_fields__:
        assert getattr(one.curves, name) != getattr(two.curves, name), name
    assert chip.report(QWEN, machine(2e15, 20e12, 1e12), batch=4096, context=4 * 10**6).context == 4e6


def test_C_022_multipliers_change_rates_and_not_the_memory():
    """C-022, D-231–D-233: a doubled rate and a quadrupled bandwidth are the machine with those rates; memory stays."""
    scaled = chip.report(QWEN, PE, batch=8, context=1000, flops_multiplier=2, bandwidth_multiplier="4")
    real = chip.report(QWEN, machine(16e12, 1024e9), batch=8, context=1000)  # rates, not scales
    for name in ("intensity", "critical_batch", "balance_context", "knee_batch", "step", "utilization", "formulas"):
        assert getattr(scaled, name) == getattr(real, name)
    assert (scaled.base_intensity, scaled.base_critical_batch) == (31.25, 31.25)
    assert scaled.memory == chip.report(QWEN, PE, batch=8, context=1000).memory
    assert "×2" in scaled.caption
    assert "(31.3)" in scaled.caption
    for curve in (scaled.curves.flops_sensitivity, scaled.curves.bandwidth_sensitivity):
        assert [point.intensity for point in curve if point.multiplier == 1] == [31.25]  # the unscaled chip's curve


def test_C_040_045_curves_are_at_the_standard_points():
    """C-036, C-040–C-049, D-234–D-236: each curve is the function at its points."""
    report = chip.report(QWEN, PE, batch=8, context=1000)
    curves, doubling = report.curves, [1, 2, 4, 8, 16, 32, 64, 128, 256]
    contexts = [128, 512, 2048, 8192, 32768, 131072, 524288, 1048576]
    assert [point.batch for point in curves.step_latency] == [point.batch for point in curves.token_latency] == doubling
    assert [point.batch for point in curves.memory_vs_batch] == doubling
    assert [point.context for point in curves.memory_vs_context] == sorted([*contexts, 1000])
    assert {point.context for point in curves.knee} > {*contexts, 1000}  # and some near L* = 3,014.66, where it grows
    assert sum(0.8 * 3014.66 < point.context < 3014.66 for point in curves.knee) == 2
    assert curves.step_latency[3] == report.step
    assert curves.token_latency[3] == report.token
    assert curves.memory_vs_batch[3] == report.memory
    assert [curve.ratio for curve in curves.cost_at_context] == [0.25, 0.5, 1, 2, 5]
    for curve in curves.cost_at_context:  # the cache takes S/L* of the compute time
        assert close(curve.points[0].kv, curve.ratio * curve.points[0].compute)
    assert all((point.batch is None) == (point.context >= 3014.656) for point in curves.knee)
    assert report.step_formula.startswith("t_step = N·b/W")


def test_C_043_curves_reach_the_batch_that_the_chip_wants():
    """A mixture of 8 times its active weights: B* = 31.25 · N_total / N_active is past 100, and curves go on to twice that."""
    report = chip.report(MIXTURE, machine(64e12, 256e9, 200e9), batch=3000, context=1000)
    assert report.good_batch > 1024
    for curve in (report.curves.step_latency, *(each.points for each in report.curves.cost_at_context)):
        assert curve[-1].batch >= report.good_batch
        assert 3000 in [point.batch for point in curve]
    below, past = report.curves.cost_at_context[0], report.curves.cost_at_context[-1]
    assert below.points[-1].compute > below.points[-1].memory  # past L* no batch brings compute level
    assert all(point.compute < point.memory for point in past.points)


def test_C_017_notes_state_the_convention():
    notes = " ".join(chip.report(QWEN, PE, batch=1, context=1000).notes)
    assert "no efficiency factor" in notes
    assert "Communication" in notes
    device = Device(name="old", memory=1e11, memory_bandwidth=1e12, flop_rate={"bf16": 1e14})
    fp8 = Precision(attention="fp8", ffn="fp8")
    notes = " ".join(chip.report(QWEN, System(name="old", device=device), batch=1, context=1000, precision=fp8).notes)
    assert "old has no fp8 matrix rate" in notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, "batch"),
        ({"batch": 1.5}, "batch"),
        ({"context": -1}, "context"),
        ({"context": math.nan}, "context"),
        ({"flops_multiplier": 0}, "flops_multiplier"),
        ({"bandwidth_multiplier": "fast"}, "bandwidth_multiplier"),
        ({"flops_multiplier": np.array([1.0, 2.0])}, "flops_multiplier"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        chip.report(QWEN, PE, **({"batch": 1, "context": 1000} | arguments))


def test_bad_input_of_the_functions_is_named():
    for call, name in (
        (lambda: chip.step_latency(PE_QWEN, 0, 1), "batch"),
        (lambda: chip.per_token_latency(PE_QWEN, 1, -1), "context"),
        (lambda: chip.max_batch_within_slo(PE_QWEN, 0, 1), "slo"),
        (lambda: a_chip(flop_rate=-1.0), "flop_rate"),
        (lambda: a_chip(active_params=0.0), "active_params"),
    ):
        with pytest.raises(InputError, match=name):
            call()


def test_there_are_as_many_tests_as_the_reference_has():
    """C-071: about 41 on the reference's module for the chip's roofline; it names nothing that they cover beyond this part."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", __file__]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.count("::test_") >= 41
