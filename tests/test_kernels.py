"""Formulas of kernels: scalar equals array, monotone, never faster than their peak roofline (E-03, A-012, A-014)."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import kernels, num
from rooflab.kernels import attention, exchange, experts, gemm, latent, recurrence
from rooflab.kernels.machine import Machine, soft_maximum, total

MACHINE = Machine(bandwidth=3.35e12, rate=989e12, units=132.0, clock=1.98e9)


def prior(record, priors):
    return record(**{name: value for name, (value, _) in priors.items()})


GEMM = prior(gemm.Parameters, gemm.PRIORS)
QUANTISED = prior(gemm.Parameters, gemm.QUANTISED_PRIORS)
DECODE = prior(attention.DecodeParameters, attention.DECODE_PRIORS)
PREFILL = prior(attention.PrefillParameters, attention.PREFILL_PRIORS)
LATENT = prior(latent.Parameters, latent.PRIORS)
EXPERTS = prior(experts.Parameters, experts.PRIORS)
EXCHANGE = prior(exchange.Parameters, exchange.PRIORS)

sizes = st.integers(1, 65536).map(float)


def test_at_most_eight_parameters_a_family():
    """Fitted ones and choices together, in every format; decode attention's wide groups add one."""
    for name in kernels.PARAMETERS:
        for form in ("bf16", "fp8", "nvfp4", "bf16+fp8"):
            found = {*kernels.priors(name, form), *kernels.CHOICES.get(name, {})}
            assert len(found) + (name == "decode_attention") <= 8, name
            assert found <= set(kernels.PARAMETERS[name].__struct_fields__), name


@given(sizes, sizes, sizes)
def test_a_product_is_never_faster_than_its_arithmetic_or_its_bytes(m, n, k):
    """Efficiencies are at most one, tiles only add work: 2mnk FLOP and each operand once are a floor (E-03)."""
    for p in (GEMM, QUANTISED):
        time = total(gemm.seconds(m, n, k, 2.0, 2.0, 2.0, MACHINE, p))
        assert time >= 2.0 * m * n * k / MACHINE.rate
        assert time >= (m * k + k * n + m * n) * 2.0 / MACHINE.bandwidth


def test_a_large_product_reaches_its_plateau_and_a_thin_one_its_stream():
    """8192³ in bf16 is 1.1 PFLOP: at 85 % of 989 TFLOP/s about 1.3 ms, some tenths more under sustained power.

    One row times 16384² reads 537 MB: at 85 % of 3.35 TB/s 189 µs, and 3 µs of launch.
    """
    square = total(gemm.seconds(8192.0, 8192.0, 8192.0, 2.0, 2.0, 2.0, MACHINE, GEMM))
    assert 1.25e-3 < square < 1.65e-3
    row = total(gemm.seconds(1.0, 16384.0, 16384.0, 2.0, 2.0, 2.0, MACHINE, GEMM))
    assert 185e-6 < row < 230e-6


def test_scalars_and_arrays_agree():
    """Every family gives the same number for a scalar and for the array that holds it."""
    rng = np.random.default_rng(1)
    a, b, c = (np.exp2(rng.integers(0, 13, 40)).astype(float) for _ in range(3))
    cases = {
        "gemm": lambda x, y, z: gemm.seconds(x, y, z, 2.0, 2.0, 2.0, MACHINE, GEMM),
        "quantised": lambda x, y, z: gemm.seconds(x, y, z, 1.0, 1.0, 2.0, MACHINE, QUANTISED),
        "decode": lambda x, y, z: attention.decode_seconds(x, 32.0, 8.0, 128.0, 128.0, y + z, 2.0, MACHINE, DECODE),
        "prefill": lambda x, y, z: attention.prefill_seconds(
            x, 32.0, 8.0, 128.0, 128.0, y, z, 512.0, 2.0, MACHINE, PREFILL
        ),
        "latent": lambda x, y, z: latent.seconds(x, 128.0, 576.0, 512.0, y + z, 1.0, MACHINE, LATENT),
        "experts": lambda x, y, z: experts.seconds(
            experts.even_load(x * 8.0, num.minimum(x * 8.0, 128.0)), 4096.0, 2.0 * y, y, 2.0, 2.0, MACHINE, EXPERTS
        ),
        "scan": lambda x, y, z: recurrence.scan_seconds(
            x * y, x, 32.0, 128.0, 128.0, MACHINE, prior(recurrence.Parameters, recurrence.SCAN_PRIORS)
        ),
    }
    for name, formula in cases.items():
        many = total(formula(a, b, c))
        for i in range(len(a)):
            one = total(formula(float(a[i]), float(b[i]), float(c[i])))
            assert one == pytest.approx(float(many[i]), rel=1e-12), name


@given(st.integers(1, 512), st.sampled_from([(8, 1), (32, 8), (64, 64), (96, 8)]), st.integers(1, 131072))
def test_decode_attention_reads_its_cache(sequences, heads, context):
    """The cache once at the peak bandwidth is a floor, and more context never takes less time by more than a split's step."""
    h, kv = (float(x) for x in heads)
    parts = attention.decode_seconds(float(sequences), h, kv, 128.0, 128.0, float(context), 2.0, MACHINE, DECODE)
    assert total(parts) >= sequences * kv * context * 256.0 * 2.0 / MACHINE.bandwidth
    assert total(parts) >= DECODE.launch


@given(st.integers(1, 32), st.integers(1, 16384), st.integers(0, 16384))
def test_prefill_attention_does_its_pairs(sequences, new, cached):
    """4·heads·head_dim FLOP per visible pair is a floor."""
    parts = attention.prefill_seconds(
        float(sequences), 32.0, 8.0, 128.0, 128.0, float(new), float(cached), 0.0, 2.0, MACHINE, PREFILL
    )
    pairs = sequences * (new * cached + new * (new + 1) / 2.0)
    assert total(parts) >= 4.0 * 32.0 * 128.0 * pairs / MACHINE.rate


def prefill(new, heads=32.0, kv_heads=8.0, window=0.0, sequences=1.0, cache=2.0, **more):
    p = msgspec.structs.replace(PREFILL, **more)
    return total(
        attention.prefill_seconds(sequences, heads, kv_heads, 128.0, 128.0, new, 0.0, window, cache, MACHINE, p)
    )


def test_few_new_tokens_fill_tiles_only_where_heads_share_them():
    """16 new tokens of 256 sequences, 64 heads over 1 KV head: 16·64/128 = 8 tiles a sequence shared, 64 apart."""
    shared = prefill(16.0, 64.0, 1.0, sequences=256.0, tiles=attention.SHARED)
    apart = prefill(16.0, 64.0, 1.0, sequences=256.0, tiles=attention.APART)
    waves = 256.0 * (64.0 - 8.0) / MACHINE.units
    assert apart - shared >= PREFILL.wave * waves
    alone = [prefill(512.0, 8.0, 8.0, tiles=each) for each in (attention.SHARED, attention.APART)]
    assert alone[0] == pytest.approx(alone[1])


def test_a_window_saves_work_only_where_its_tiles_are_skipped():
    """8192 tokens behind a window of 128 see a thirtieth of the keys; a kernel that skips no tile works as without one."""
    full = prefill(8192.0, tiles=attention.APART)
    assert prefill(8192.0, window=128.0, tiles=attention.APART) < 0.2 * full
    assert prefill(8192.0, window=128.0, tiles=attention.WHOLE) == pytest.approx(full)
    assert prefill(100.0, window=4096.0) == pytest.approx(prefill(100.0))


def test_a_change_of_format_is_a_pass_over_the_new_tokens():
    """4096 tokens, 128·32 of queries and 256·8 of keys and values each, three bytes an element: 75 MB, 22.5 µs a pass."""
    moved = 4096.0 * (128.0 * 32.0 + 256.0 * 8.0) * 3.0
    assert prefill(4096.0, recast=2.0) - prefill(4096.0) == pytest.approx(2.0 * moved / MACHINE.bandwidth)
    parts = [
        latent.seconds(8.0, 16.0, 576.0, 512.0, 4096.0, 1.0, MACHINE, msgspec.structs.replace(LATENT, recast=each))
        for each in (0.0, 1.0)
    ]
    assert total(parts[1]) - total(parts[0]) == pytest.approx(8.0 * 4096.0 * 576.0 * 3.0 / MACHINE.bandwidth)


def test_every_product_of_a_group_quantises_its_rows():
    """Sixteen products of 4096 rows: fifteen more passes than one, of 3 bytes an element and the rows' own."""
    one, many = (gemm.seconds(4096.0, 128.0, 512.0, 1.0, 1.0, 2.0, MACHINE, QUANTISED, each)[2] for each in (1.0, 16.0))
    passed = 3.0 * 4096.0 * (512.0 + QUANTISED.row) / (MACHINE.bandwidth * QUANTISED.quantise)
    assert many - one == pytest.approx(15.0 * passed)


def test_a_scan_keeps_its_state_on_chip():
    """Bytes of a scan are its activations and each state once in and once out, however many chunks there are."""
    p = prior(recurrence.Parameters, recurrence.SCAN_PRIORS)
    fast = msgspec.structs.replace(MACHINE, rate=1e30)
    short, long = (recurrence.scan_seconds(x, 1.0, 32.0, 128.0, 128.0, fast, p)[1] for x in (1024.0, 65536.0))
    token = 32.0 * 2.0 * (2.0 * 128.0 + 2.0 * 128.0)
    assert long - short == pytest.approx((65536.0 - 1024.0) * token / (MACHINE.bandwidth * p.memory))


def test_a_lone_block_draws_more_than_its_even_share():
    """33 blocks on 132 multiprocessors cannot be split below 128 entries: at twice the even share each, half the time."""
    machine = msgspec.structs.replace(MACHINE, rate=1e30)
    even, double = (
        attention.decode_seconds(
            33.0, 8.0, 1.0, 128.0, 128.0, 128.0, 2.0, machine, msgspec.structs.replace(DECODE, draw=each)
        )[1]
        for each in (1.0, 2.0)
    )
    assert even == pytest.approx(2.0 * double, rel=0.02)
    assert double == pytest.approx(128.0 * 256.0 * 2.0 * 132.0 / (2.0 * MACHINE.bandwidth * DECODE.memory), rel=0.02)


def test_wide_groups_of_decode_cost_once_more():
    """Sixteen query heads of a KV head fill a row block; the seventeenth needs another way."""
    p = msgspec.structs.replace(DECODE, wide=4e-6)

    def seconds(heads, parameters):
        return total(attention.decode_seconds(1.0, heads, 1.0, 128.0, 128.0, 64.0, 2.0, MACHINE, parameters))

    assert seconds(16.0, p) == seconds(16.0, DECODE)
    assert seconds(17.0, p) - seconds(17.0, DECODE) == pytest.approx(4e-6)


@pytest.mark.parametrize("rows", [1.0, 4.0, 16.0])
@pytest.mark.parametrize("cut", [1.0, 3.0, 7.0])
def test_few_rows_stream_their_weights_on_devices_of_little_arithmetic(rows, cut):
    """A seventh of H100's rate leaves 42 FLOP a byte: 1 to 16 rows still take about the time of their weights.

    134 MB at 85 % of 3.35 TB/s are 47 µs, and 3 µs of launch; idle rows of a tile must not count beyond a sixth.
    """
    machine = msgspec.structs.replace(MACHINE, rate=MACHINE.rate / cut)
    time = total(gemm.seconds(rows, 8192.0, 8192.0, 2.0, 2.0, 2.0, machine, GEMM))
    stream = 8192.0 * 8192.0 * 2.0 / machine.bandwidth / 0.85
    assert stream < time < 1.17 * stream + 3.5e-6


def test_a_ranks_own_part_of_a_long_message_counts_a_little():
    """Between two ranks half a gathered gigabyte is sent; the other half costs four tenths of that, as measured: 0.7 GB."""
    link, message = 450e9, 1e9
    time = kernels.exchange_seconds("all_gather", message, 2.0, link, EXCHANGE)
    assert time == pytest.approx(0.7 * message / (link * EXCHANGE.long_link), rel=0.02)


def test_soft_maximum_is_a_norm():
    """3 and 4 at exponent 2 make 5; a large exponent approaches the maximum; equal halves keep their proportion."""
    assert soft_maximum(3.0, 4.0, 2.0)[1] == pytest.approx(5.0)
    assert soft_maximum(3.0, 4.0, 2.0)[0] == pytest.approx(5.0 * 3.0 / 4.0)
    assert soft_maximum(1.0, 10.0, 12.0)[1] == pytest.approx(10.0)


def test_collectives_follow_the_better_protocol():
    """Far below the crossing the short protocol's latency, far above it the long one's bandwidth."""
    link = 450e9
    short = exchange.library_seconds(8.0, 8.0, link, EXCHANGE)
    assert short == pytest.approx(EXCHANGE.short + 7.0 * EXCHANGE.hop, rel=0.02)
    traffic = 8e9
    assert exchange.library_seconds(traffic, 8.0, link, EXCHANGE) == pytest.approx(
        traffic / (link * EXCHANGE.long_link), rel=0.02
    )


@given(
    st.integers(1, 20000),
    st.sampled_from([(8, 2), (64, 6), (128, 8), (256, 8), (512, 10)]),
    st.sampled_from([1.01, 1.2]),
)
def test_skewed_routing_places_every_pair(tokens, shape, exponent):
    """Counts are whole, fall with popularity, and add up to tokens × topk."""
    count, topk = shape
    counts = experts.skewed_counts(float(tokens), count, float(topk), exponent)
    assert math.fsum(counts) == tokens * topk
    assert all(value >= 0 and value == int(value) for value in counts)
    assert counts[0] == max(counts)


@given(st.sampled_from([1, 2, 8, 32]), st.integers(1, 4096))
def test_the_heaviest_rank_has_at_least_its_share(ranks, tokens):
    load = experts.skewed_load(float(tokens), 128, 8.0, ranks, 1.2)
    assert load.pairs >= tokens * 8.0 / ranks - 1e-9
    assert load.distinct <= 128 / ranks
    assert all(a >= b for a, b in zip(load.tiles, load.tiles[1:], strict=False))


def test_fewer_distinct_experts_read_fewer_weights():
    """At few tokens time is weights: half the experts, half the bytes."""
    few = experts.seconds(experts.even_load(8.0, 8.0), 4096.0, 3072.0, 1536.0, 2.0, 2.0, MACHINE, EXPERTS)
    many = experts.seconds(experts.even_load(16.0, 16.0), 4096.0, 3072.0, 1536.0, 2.0, 2.0, MACHINE, EXPERTS)
    assert many[1] / few[1] == pytest.approx(2.0, rel=0.1)
