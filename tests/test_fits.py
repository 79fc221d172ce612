"""Which layouts a model admits, and memory by kind.

Expected bytes are worked out by hand. The tiny models have hidden width 64, 8 query and 4 KV heads of 16, feed-forwards of
160, two layers and a vocabulary of 1,000; numbers are BF16, 2 bytes.
"""

import math

import msgspec
import numpy as np
import pytest
from builders import (
    BF16,
    DENSE,
    GQA,
    INDEXER,
    KINDS,
    LATENT,
    TINY,
    layers,
    link,
    machine,
    model,
    operators,
    published,
    switched,
)

from rooflab import catalog, fits, graph, hf
from rooflab.estimate import Workload, estimate
from rooflab.profiles import profile
from rooflab.units import InputError
from rooflab.work import Layout, Precision, Step

OPERATOR = profile("operator")
BIG = machine(link(size=512))


def refused(what, used=OPERATOR, system=BIG, **degrees) -> list[str]:
    """Reasons a layout is refused."""
    return fits.feasible(fits.layout_rules(what, Layout(**degrees), system, used))[1]


def memory(what, used=OPERATOR, layout=None, precision=BF16, batch=1, context=10, prompt=10, **how):
    return fits.memory(
        what, precision, layout or Layout(), BIG, used, batch=batch, context=context, prompt=prompt, **how
    )


# --------------------------------------------------------------------------------------------------------- layout rules


@pytest.mark.parametrize(
    ("kind", "degrees", "says"),
    [
        ("dense", {"tp": 3}, "tp=3 does not divide the 8 heads"),
        ("dense", {"tp": 16}, "tp=16 does not divide the 8 heads"),
        ("dense", {"pp": 3}, "pp=3 exceeds the model's 2 layers"),
        ("dense", {"ep": 2}, "ep=2: the model has no experts to spread"),
        ("dense", {"tp": 8, "cp": 3, "ffn_scope": "tp_cp"}, "24 ranks do not divide the feed-forward width 160"),
        ("dense", {"dp": 1024}, "the layout needs 1024 devices; round has 512"),
        ("moe", {"ep": 3, "ep_mode": "dedicated"}, "ep=3 does not divide the 8 experts"),
        ("moe", {"ep": 4}, "ep=4 must divide tp × attention_dp × ffn ranks"),
        ("latent", {"tp": 3}, "tp=3 does not divide the 4 heads"),
        ("recurrent", {"tp": 8}, "tp=8 does not divide the 4 heads"),
    ],
)
def test_layouts_that_do_not_divide_are_refused_with_the_reason(kind, degrees, says):
    """F-02, D-908: the axis, its value and what it does not divide."""
    assert any(reason.startswith(says) for reason in refused(KINDS[kind], **degrees)), refused(KINDS[kind], **degrees)


def test_a_spread_that_leaves_no_whole_ranks_says_only_that():
    """F-02: 8 ranks over 3 groups of experts are no ranks to cut a width by, so no such number is shown."""
    reasons = refused(KINDS["moe"], tp=8, ep=3)
    assert any(reason.startswith("ep=3 must divide") for reason in reasons)
    assert not any("2.66" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("kind", "degrees"),
    [
        ("dense", {"tp": 8, "pp": 2}),  # more ranks than the 4 KV heads, but a multiple of them
        ("dense", {"tp": 4, "cp": 8, "dp": 4}),
        ("moe", {"tp": 2, "attention_dp": 4, "ep": 8}),
        ("moe", {"ep": 8, "ep_mode": "dedicated"}),
        ("latent", {"tp": 4}),
    ],
)
def test_layouts_that_divide_are_allowed(kind, degrees):
    """D-908: nothing that can be evaluated is refused."""
    assert refused(KINDS[kind], **degrees) == []


@pytest.mark.parametrize("kind", ["dense", "moe"])
@pytest.mark.parametrize("axis", fits.DEGREES)
@pytest.mark.parametrize("degree", [0, -1, 1.5, math.nan])
def test_degrees_that_are_none_are_refused_and_never_priced(kind, axis, degree):
    """F-02: zero, negative, broken or NaN degrees: a reason from the rules, an error of one line from an estimate."""
    assert f"{axis}={degree:g} must be a whole number of at least 1" in refused(KINDS[kind], **{axis: degree})
    with pytest.raises(InputError, match=f"^{axis}: {degree:g} is not a whole number of at least 1$"):
        estimate(KINDS[kind], BF16, Layout(**{axis: degree}), BIG, Workload(), OPERATOR)
    with pytest.raises(InputError, match=f"^{axis}: "):
        estimate(KINDS[kind], BF16, Layout(**{axis: np.array([1, degree])}), BIG, Workload(), OPERATOR)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch", 0),
        ("batch", math.nan),
        ("prompt", 0),
        ("prompt", -5),
        ("prompt", math.inf),
        ("output", 0),
        ("cached", -1),
        ("cached", 1024),
    ],
)
def test_empty_requests_are_refused(name, value):
    """F-02: zero sizes and NaN never give a number; a cached prefix leaves at least one token to compute."""
    with pytest.raises(InputError, match=f"^{name}: "):
        estimate(TINY, BF16, Layout(), BIG, Workload(**{name: value}), OPERATOR)
    with pytest.raises(InputError, match=f"^{name}: "):
        estimate(TINY, BF16, Layout(), BIG, Workload(**{name: np.array([1.0, value])}), OPERATOR)


def test_the_calculator_shards_heads_evenly_only():
    """B-060: tp must divide query and KV heads alike; other axes are unknown there."""
    classroom = profile("classroom")
    lab = published()
    for degree in (1, 2, 4, 8):
        assert refused(lab, classroom, tp=degree) == []
    assert refused(lab, classroom, tp=16) == ["tp=16 does not divide the 8 KV heads evenly"]
    assert refused(lab, OPERATOR, tp=16) == []
    assert refused(lab, classroom, pp=2) == ["pp=2: the classroom profile has no pp; take 1 or another profile"]


@pytest.mark.parametrize("kind", ["moe", "latent", "recurrent", "windowed", "indexed"])
def test_the_calculator_covers_dense_full_attention_only(kind):
    """B-090, E-01: models outside its limits are refused, not priced as something else."""
    reasons = refused(KINDS[kind], profile("classroom"))
    assert len(reasons) == 1
    assert "the classroom profile covers dense" in reasons[0]


def test_rules_are_masks_over_arrays():
    """F-02: a sweep keeps its points; each is refused or not as it is alone."""
    degrees = {"tp": np.array([1, 2, 3, 8, 16]), "pp": np.array([[1], [2], [3]])}
    mask, reasons = fits.feasible(fits.layout_rules(TINY, Layout(**degrees), BIG, OPERATOR))
    assert mask.shape == (3, 5)
    for i, pp in enumerate((1, 2, 3)):
        for j, tp in enumerate((1, 2, 3, 8, 16)):
            assert mask[i, j] == (not refused(TINY, tp=tp, pp=pp))
    assert [reason.partition("…")[0] for reason in reasons] == ["pp=", "tp=", "tp=", ""]


# --------------------------------------------------------------------------------------------------------------- memory


def test_weights_by_tensor_class():
    """B-025, E-10: each class of tensor in its own format. Per layer 24,576 attention and 30,720 feed-forward weights,
    table and head 64,000 each, norms 128 a layer and 64 at the end."""
    precision = Precision(attention="fp8", ffn="int8", embedding="bf16", head="fp32")
    by_hand = 2 * 24576 * 1 + 2 * 30720 * 1 + 64000 * 2 + 64000 * 4 + (2 * 128 + 64) * 2
    assert graph.total_weight_bytes(TINY, precision) == by_hand
    assert memory(TINY, precision=precision).weights == by_hand


def test_metadata_is_a_share_of_quantised_weights():
    """B-025: INT8 and INT4 take 5 % more; formats of 16 bits and wider take nothing."""
    for name, size in (("bf16", 2.0), ("int8", 1.05), ("int4", 0.525), ("fp32", 4.0)):
        precision = Precision(**dict.fromkeys(("attention", "ffn", "embedding", "head"), name), metadata=0.05)
        assert precision.weight_size(name) == pytest.approx(size)
        weights = 2 * (24576 + 30720) + 2 * 64000
        assert graph.total_weight_bytes(TINY, precision) == pytest.approx(weights * size + (2 * 128 + 64) * 2)


def test_cache_is_reserved_for_prompt_and_answer():
    """B-026, E-08: 2 × L × H_kv × width × context × batch × bytes: 2·2·4·16·10·3·2 = 15,360; fp8 halves it."""
    assert memory(TINY, batch=3).kv == 15360
    assert memory(TINY, batch=3, precision=Precision(kv="fp8")).kv == 7680


@pytest.mark.parametrize(
    ("layout", "bytes_"),
    [
        # 2·B·S·(H_kv/tp)·d·b·L = 15,360 bytes on one device.
        ({"tp": 2}, 7680),
        ({"tp": 4}, 3840),
        # beyond the four KV heads: whole heads are held twice, or a head is split
        ({"tp": 8}, 3840),
        ({"tp": 8, "kv_shard": "split"}, 1920),
        # positions over cp: ⌈10/4⌉ = 3 of 10 (D-011)
        ({"cp": 4}, 4608),
        # one of two layers; sequences ⌈3/2⌉ = 2 of 3
        ({"pp": 2}, 7680),
        ({"attention_dp": 2}, 10240),
        # replicas have requests of their own
        ({"dp": 2}, 15360),
    ],
)
def test_cache_per_device(layout, bytes_):
    """D-011, D-012, D-052: heads by tp, positions by cp, layers by pp, sequences by attention groups."""
    assert memory(TINY, layout=Layout(**layout), batch=3).kv == bytes_


def test_caches_of_other_mixers():
    """A-034, D-052: a latent is held whole by every rank; a window stops growing; a recurrence keeps a state; index keys
    come on top."""
    latent = model(layers(2, LATENT, DENSE))
    # 2 layers · 3 · 10 · (32 + 8) · 2 bytes, whatever tp
    assert memory(latent, batch=3).kv == memory(latent, batch=3, layout=Layout(tp=4)).kv == 4800
    indexed = model(layers(2, msgspec.structs.replace(LATENT, indexer=INDEXER), DENSE))
    assert memory(indexed, batch=3).kv == 4800 + 2 * 3 * 10 * 8 * 2
    # in fp8 an index key carries one fp32 scale for every 128 elements, a latent none
    narrow = memory(indexed, batch=3, precision=Precision(kv="fp8")).kv
    assert narrow == 2 * 3 * 10 * (40 + 8 * (1 + 4 / 128))
    # one layer of two sees 8 of 10 tokens: 3·(8 + 10)·128·2
    assert memory(KINDS["windowed"], batch=3).kv == 3 * 18 * 128 * 2
    recurrent = memory(KINDS["recurrent"], batch=3, context=10)
    # two layers · 1,024 elements · 3 sequences · 2 bytes; the context does not matter
    assert recurrent.kv == recurrent.state == 2 * 1024 * 3 * 2
    assert memory(KINDS["recurrent"], batch=3, context=10**6).kv == recurrent.kv


def test_workspace_of_the_calculator():
    """B-027, B-029: eight BF16 buffers over batch × prompt × (heads × width), evenly divided by tp."""
    used = profile("classroom")
    assert memory(TINY, used, batch=3, prompt=5, context=10).workspace == 8 * 3 * 5 * 128 * 2
    assert memory(TINY, used, Layout(tp=4), batch=3, prompt=5, context=10).workspace == 8 * 3 * 5 * 128 * 2 / 4


def test_reserve_is_per_device():
    """B-028, E-09: bytes when given as bytes, a share of the device below 1; never divided by tp."""
    for tp in (1, 4):
        assert memory(TINY, profile("classroom"), Layout(tp=tp)).reserve == 2e9
        assert memory(TINY, layout=Layout(tp=tp)).reserve == 0.10 * 80e9
    assert memory(TINY, switched("operator", reserve=0.0)).reserve == 0
    shares = fits.reserve_bytes(switched("operator", reserve=np.array([0.25, 3e9])), 80e9)
    assert list(shares) == [20e9, 3e9]


def test_workspace_of_the_sharded_model():
    """D-053: b·T_c·(2d + (H_q + 2·H_kv)·d_h/TP + 2f/div) with T_c at most 4,096, and the ring's double buffer."""
    used = profile("sharded")
    layout = Layout(tp=2, cp=2, kv_shard="split", ffn_scope="tp_cp")
    width = 2 * 64 + (8 + 2 * 4) * 16 / 2 + 2 * 160 / 4
    # Decode: one token each. Prefill of 100 tokens over two ranks: 50 rows, and 2 × (2·50·2·16·2 bytes) in flight.
    assert memory(TINY, used, layout, batch=3, phase="decode").workspace == 2 * 3 * width
    assert memory(TINY, used, layout, prompt=100, context=100).workspace == 2 * 50 * width + 2 * (2 * 50 * 2 * 16 * 2)
    # A layer's buffer is the same on every stage of a pipeline.
    piped = memory(TINY, used, msgspec.structs.replace(layout, pp=2), prompt=100, context=100)
    assert piped.workspace == 2 * 50 * width + 2 * (2 * 50 * 2 * 16 * 2)
    long = memory(TINY, used, Layout(), prompt=10**6, context=10**6).workspace
    assert long == 2 * 4096 * (2 * 64 + 16 * 16 + 2 * 160)


@pytest.mark.parametrize(
    ("kind", "tp", "width"),
    [
        # Two hidden vectors of 64; queries 8·16, keys and values 4·32; gate and up 2·160.
        ("dense", 1, 128 + 128 + 128 + 320),
        ("dense", 2, 128 + 64 + 64 + 160),
        # Latent: 4 heads of 16 + 8 query and 16 value columns; two experts of 48 and a shared part of 32, twice.
        ("latent", 1, 128 + 4 * 40 + 2 * (2 * 48 + 32)),
        ("latent", 2, 128 + 2 * 40 + 2 * (2 * 24 + 16)),
        # A recurrence of 200 columns in and 64 out.
        ("recurrent", 1, 128 + 264 + 320),
        ("recurrent", 4, 128 + 66 + 80),
    ],
)
def test_workspace_of_an_engine(kind, tp, width):
    """E-09, D-053: the widest layer's activations of at most 8,192 tokens, and a row of fp32 scores for each sequence."""
    layout = Layout(tp=tp)
    found = memory(KINDS[kind], layout=layout, batch=3, prompt=10, context=20)
    assert found.workspace == 2 * 30 * width + 3 * 1000 / tp * 4
    found = memory(KINDS[kind], layout=layout, batch=3, prompt=10**5, context=10**5)
    assert found.workspace == 2 * 8192 * width + 3 * 1000 / tp * 4


def test_used_free_and_over():
    """D-054: used is the sum; slack and excess are never negative, one of them is zero; it fits iff nothing is over."""
    for context in (10, 10**6, 10**9):
        m = memory(TINY, batch=8, context=context, prompt=10)
        assert m.used == m.weights + m.kv + m.workspace + m.reserve
        assert (m.free, m.over) == (max(80e9 - m.used, 0), max(m.used - 80e9, 0))
        assert m.fits == (m.over == 0) == (m.used <= m.capacity)
    assert not m.fits


def test_stages_of_a_pipeline():
    """D-012: the busiest stage holds ⌈L/PP⌉ layers, and the larger of table and head."""
    five = model(layers(5, GQA, DENSE))
    # per layer 24,576 + 30,720 + 128 = 55,424 weights; table 64,000; head 64,000 and the final norm 64
    assert memory(five).weights == 2 * (5 * 55424 + 64000 + 64064)
    for pp, held in ((2, 3), (3, 2), (5, 1)):
        assert memory(five, layout=Layout(pp=pp)).weights == pytest.approx(2 * (held * 55424 + 64064), rel=1e-12)
    several = memory(five, layout=Layout(pp=np.array([1, 2, 5])))
    singles = [memory(five, layout=Layout(pp=pp)).weights for pp in (1, 2, 5)]
    assert several.weights == pytest.approx(singles, rel=1e-12)


def test_refused_layouts_count_what_the_profile_counts():
    """D-911: memory of a refused layout leaves out embedding and head exactly where the profile's steps do."""
    bare = switched("sharded", outside=False)
    # Two layers on one device, without table, head and final norm.
    assert memory(TINY, bare).weights == 2 * 2 * 55424
    assert memory(TINY, profile("sharded")).weights == 2 * TINY.params()
    found = estimate(TINY, BF16, Layout(tp=1, ep=2), BIG, Workload(), bare)
    assert not found.feasible
    assert found.memory.weights == 2 * 2 * 55424


def test_the_chip_view_still_holds_the_whole_model():
    """C-017: a step of the chip roofline leaves out embedding and head; its memory does not."""
    assert memory(TINY, profile("envelope")).weights == 2 * TINY.params()


# --------------------------------------------------------------------------------------------------- reference figures


def test_cache_and_room_of_the_load_sweep():
    """A-055: Llama 3.1 8B: 131,072 B per token, 167.8 MB for 1,280 tokens, about 333 requests in 90 % of 80 GB."""
    llama = hf.load("llama-3.1-8b")
    one = memory(llama, context=1).kv
    request = memory(llama, context=1280).kv
    weights = memory(llama).weights
    assert one == 131072
    assert request == pytest.approx(167.8e6, rel=1e-3)
    assert weights == pytest.approx(16.06e9, rel=1e-4)
    assert (0.9 * 80e9 - weights) / request == pytest.approx(333, abs=1)
    assert weights / 3.35e12 == pytest.approx(4.79e-3, abs=0.005e-3)


@pytest.mark.parametrize(
    ("name", "megabytes"),
    # requirement A-081: KV of 2,048 tokens
    [("llama-3.1-8b", 268.4), ("llama-3.1-70b", 671.1), ("llama-3.1-405b", 1057), ("deepseek-v3", 143.9)],
)
def test_cache_of_a_prompt(name, megabytes):
    """A-081: 2,048 tokens: 8B 268.4 MB; 70B 671.1 MB; 405B 1,057 MB; DeepSeek-V3's latent 143.9 MB."""
    assert memory(hf.load(name), context=2048, prompt=2048).kv == pytest.approx(megabytes * 1e6, rel=5e-4)


def test_a_layout_is_kept_only_if_everything_fits():
    """A-045: weights, cache of B sequences of 2,304 tokens and workspace; the largest batch that fits is a bound."""
    llama, system = hf.load("llama-3.1-8b"), catalog.system("h100-sxm")

    def found(batch):
        work = Workload(batch=batch, prompt=2048, output=256)
        return estimate(llama, BF16, Layout(), system, work, OPERATOR, band=False)

    # 80 GiB = 85,899 MB, less a tenth, 16,061 MB of weights and the workspace: 8,192 tokens of activations,
    # 2·8,192·(2·4,096 + 48·128 + 2·14,336) = 705 MB, and 200 rows of 128,256 scores in fp32 = 103 MB.
    # 60,441 MB are left for sequences of 2,304 · 131,072 B = 302 MB: 200 of them.
    assert [batch for batch in (1, 199, 200, 201, 256) if found(batch).fits] == [1, 199, 200]
    assert found(256).mid is None
    assert found(256).memory.over > 0


def test_memory_of_an_estimate_is_that_of_its_workload():
    """B-026, D-054: the whole prompt and answer of every sequence, found from the step's own operators."""
    work = Workload(batch=3, prompt=6, output=4)
    for name in ("operator", "sharded", "classroom"):
        used = profile(name)
        alone = memory(TINY, used, batch=3, context=10, prompt=6)
        assert estimate(TINY, BF16, Layout(), BIG, work, used).memory == alone
    ops = operators(TINY, Step(decode_sequences=3, decode_context=10))
    assert memory(TINY, batch=3, operators=ops) == memory(TINY, batch=3)
