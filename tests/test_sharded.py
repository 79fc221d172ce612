"""The stages of one device of a hierarchy (profile `sharded`).

Golden rows are requirements D-086 and D-087. The further points come from an independent calculator of the same definitions
(the reference oracle `sip.py`), read once and written down here; it has one flat link between SIPs.
"""

import math
import re

import msgspec
import numpy as np
import pytest
from builders import BF16, KINDS, TINY, machine, operators, switched, total
from hypothesis import given
from hypothesis import strategies as st

from rooflab import catalog, fits
from rooflab.document.words import operator_name
from rooflab.estimate import Workload, estimate
from rooflab.model import Attention, Block, Dense, Model
from rooflab.placement import groups_used, units_used
from rooflab.price import Roofline, step_time
from rooflab.profiles import profile
from rooflab.work import Layout, Step

SIP = catalog.system("sip")
SHARDED = profile("sharded")
BARE = switched("sharded", outside=False)


def dense(name: str, hidden: int, width: int, heads: int, layers: int) -> Model:
    """The attention and feed-forward weights of a model, without norms (requirement D-003)."""
    mixer = Attention(heads=heads, kv_heads=8, head_dim=128, value_dim=128)
    block = Block(count=layers, mixer=mixer, ffn=Dense(width=width))
    return Model(name=name, hidden=hidden, vocab=151936, blocks=(block,))


QWEN = dense("Qwen 3 8B", 4096, 12288, 32, 36)
LLAMA = dense("Llama 3.1 70B", 8192, 28672, 64, 80)


def cut(**changes) -> Layout:
    """The sharded model's defaults: a head may be split, the feed-forward is over TP·CP, CP sits on cubes."""
    return Layout(**{"kv_shard": "split", "ffn_scope": "tp_cp", "cp_placement": "outer"} | changes)


def decode(context: int, batch: int = 1) -> Step:
    return Step(decode_sequences=batch, decode_context=context)


def prefill(prompt: int, batch: int = 1) -> Step:
    return Step(prefill_sequences=batch, prefill_tokens=prompt)


def timed(what: Model, layout: Layout, step: Step, used=BARE, system=SIP):
    """The step's time in detail."""
    ops = operators(what, step, layout, counting="stages", causal=used.causal, outside=used.outside)
    return step_time(ops, Roofline(system, layout, used), used, detail=True)


def stages(what: Model, layout: Layout, step: Step, **how) -> dict[str, float]:
    """Visible microseconds of every stage of one layer."""
    found: dict[str, float] = {}
    for item in timed(what, layout, step, **how).priced:
        found[item.op.stage] = found.get(item.op.stage, 0.0) + item.time / what.layers * 1e6
    found.pop("norms")
    return found


def memory(what: Model, layout: Layout, context: int, batch: int = 1, phase: str = "decode", used=BARE):
    return fits.memory(what, BF16, layout, SIP, used, batch=batch, context=context, prompt=context, phase=phase)


# ----------------------------------------------------------------------------------------------------------- the machine


def test_the_machine_of_the_reference():
    """D-001, D-002, D-005, E-21: a PE has 6 GB, 256 GB/s and 8 TFLOP/s; 8 to a cube, 16 cubes to a SIP; links 512, 128 and
    50 GB/s with 20 ns, 100 ns and 1 µs; 0.8 of the compute rate, all of the bandwidth."""
    pe = SIP.device
    assert (pe.memory, pe.memory_bandwidth, pe.rate("bf16")) == (6e9, 256e9, 8e12)
    assert [(each.size, each.bandwidth, each.latency) for each in SIP.links[:2]] == [
        (8, 512e9, pytest.approx(20e-9)),
        (16, 128e9, pytest.approx(100e-9)),
    ]
    assert (SIP.links[2].bandwidth, SIP.links[2].latency) == (50e9, pytest.approx(1e-6))
    assert (SHARDED.compute_efficiency, SHARDED.memory_efficiency, SHARDED.link_efficiency) == (0.8, 1.0, 1.0)


# ----------------------------------------------------------------------------------------------------------- golden rows


def test_the_golden_row_of_the_reference():
    """D-006, D-008, D-086: Qwen 3 8B, decode at 1,048,576, batch 1, CP8 on cubes, TP8 on PEs: µs a layer,
    memory, and 12.1 ms a token."""
    layout = cut(cp=8, tp=8)
    found = stages(QWEN, layout, decode(1048576))
    expected = {
        "S1": 0.064, "S2": 16.42, "S3": 8.226, "S4": 0.002, "S5": 131.076, "S6": 0.410, "S7": 131.076, "S8": 1.445,
        "S9": 0.008, "S10": 16.42, "C2": 0.308,
        "F1": 0.064, "F2": 6.177, "F3": 6.177, "F4": 0.004, "F5": 6.177, "CF1": 12.726,
    }  # fmt: skip
    # C3 is 0 because TP does not exceed the KV heads: the stage is absent.
    assert found == {name: pytest.approx(value, abs=0.0006) for name, value in expected.items()}
    assert timed(QWEN, layout, decode(1048576)).time == pytest.approx(12.1e-3, abs=0.05e-3)
    m = memory(QWEN, layout, 1048576)
    assert m.weights == pytest.approx(0.547e9, abs=0.0005e9)
    assert m.kv == pytest.approx(2.416e9, abs=0.0005e9)
    assert m.used / m.capacity == pytest.approx(0.494, abs=0.0005)
    assert (layout.devices(), units_used(SIP, layout), groups_used(SIP, layout)) == (64, 8, 1)


@pytest.mark.parametrize(
    ("mode", "scores", "reduce", "latency", "cache"),
    [("split", 65.5, 4.1, 8.5, 1.208), ("replicate", 131.1, 0.0, 13.2, 2.416)],
)
def test_more_ranks_than_heads(mode, scores, reduce, latency, cache):
    """D-087, D-014, D-031: TP = 16 over 8 KV heads at 131,072: split heads halve S5 and the cache and add C3; whole heads
    are held twice. Two cubes: not a valid placement, and priced over the link between them."""
    layout = cut(tp=16, kv_shard=mode)
    found = stages(QWEN, layout, decode(131072))
    assert found["S5"] == pytest.approx(scores, abs=0.05)
    assert found.get("C3", 0.0) == pytest.approx(reduce, abs=0.05)
    assert timed(QWEN, layout, decode(131072)).time == pytest.approx(latency * 1e-3, abs=0.05e-3)
    assert memory(QWEN, layout, 131072).kv == pytest.approx(cache * 1e9, abs=0.0005e9)


POINTS = {
    # name: (model, layout, step, visible µs a layer, weights, cache, bytes; zeros left out)
    "prefill of 128k": (
        QWEN, cut(cp=4, tp=8), prefill(131072),
        {
            "S1": 2097.15, "S2": 21474.8, "S3": 10737.4, "S4": 65.536, "S5": 343597.0, "S6": 6710.89, "S7": 343597.0,
            "S8": 1597.44, "S9": 262.144, "S10": 21474.8, "C2": 917.784, "F1": 2097.15, "F2": 64424.5, "F3": 64424.5,
            "F4": 1179.65, "F5": 64424.5, "CF1": 16259.1,
        },
        717225984, 603979776,
    ),
    "prefill whose ring shows": (
        QWEN, cut(cp=32, tp=8), prefill(2048),
        {
            "S1": 4.096, "S2": 41.943, "S3": 20.9715, "S4": 0.128, "S5": 10.4858, "S6": 0.2048, "S7": 10.4858,
            "S8": 32.24, "S9": 0.512, "S10": 41.943, "C1": 30.1398, "C2": 2.072, "F1": 4.096, "F2": 125.829,
            "F3": 125.829, "F4": 2.304, "F5": 125.829, "CF1": 1178.47,
        },
        419954688, 1179648,
    ),
    "the same with queries travelling": (
        QWEN, cut(cp=32, tp=8, ring="qoml"), prefill(2048),
        {
            "S1": 4.096, "S2": 41.943, "S3": 20.9715, "S4": 0.128, "S5": 10.4858, "S6": 0.2048, "S7": 10.4858,
            "S8": 32.24, "S9": 0.512, "S10": 41.943, "C1": 132.99, "C2": 2.072, "F1": 4.096, "F2": 125.829,
            "F3": 125.829, "F4": 2.304, "F5": 125.829, "CF1": 1178.47,
        },
        419954688, 1179648,
    ),
    "two replicas share the feed-forward": (
        QWEN, cut(cp=4, tp=8, dp=2, ffn_scope="tp_cp_dp"), decode(131072, 8),
        {
            "S1": 0.512, "S2": 16.672, "S3": 8.464, "S4": 0.016, "S5": 262.176, "S6": 0.8192, "S7": 262.176,
            "S8": 0.925, "S9": 0.064, "S10": 16.672, "C2": 0.504, "F1": 0.512, "F2": 6.68, "F3": 6.68, "F4": 0.072,
            "F5": 6.68, "CF1": 14.616,
        },
        547356672, 4831838208,
    ),
    "tp on cubes": (
        QWEN, cut(tp=8, tp_placement="outer", ffn_scope="tp", cp_placement="inner"), decode(32768, 16),
        {
            "S1": 1.024, "S2": 16.96, "S3": 8.736, "S4": 0.032, "S5": 524.352, "S6": 1.6384, "S7": 524.352, "S9": 0.128,
            "S10": 16.96, "C2": 3.192, "F1": 1.024, "F2": 49.856, "F3": 49.856, "F4": 0.576, "F5": 49.856, "CF1": 3.192,
        },
        1736441856, 9663676416,
    ),
    "cp beside tp in one cube": (
        QWEN, cut(cp=4, tp=2, cp_placement="inner"), decode(65536, 2),
        {
            "S1": 0.128, "S2": 65.632, "S3": 32.848, "S4": 0.016, "S5": 131.104, "S6": 0.4096, "S7": 131.104,
            "S8": 0.29875, "S9": 0.064, "S10": 65.632, "C2": 0.072, "F1": 0.128, "F2": 49.24, "F3": 49.24, "F4": 0.072,
            "F5": 49.24, "CF1": 0.336,
        },
        2868903936, 2415919104,
    ),
    "a pipeline of two": (
        LLAMA, cut(cp=8, tp=8, pp=2), decode(1048576),
        {
            "S1": 0.128, "S2": 65.608, "S3": 16.45, "S4": 0.002, "S5": 131.08, "S6": 0.8192, "S7": 131.08, "S8": 1.48938,
            "S9": 0.016, "S10": 65.608, "C2": 0.336, "F1": 0.128, "F2": 28.7395, "F3": 28.7395, "F4": 0.0105,
            "F5": 28.7395, "CF1": 12.852,
        },
        2390753280, 2684354560,
    ),
    "split heads over two SIPs": (
        LLAMA, cut(tp=32, tp_placement="outer", ffn_scope="tp"), decode(131072, 4),
        {
            "S1": 0.512, "S2": 16.648, "S3": 4.354, "S4": 0.002, "S5": 131.08, "S6": 3.2768, "S7": 131.08, "S9": 0.016,
            "S10": 16.648, "C2": 64.5395, "C3": 197.208, "F1": 0.512, "F2": 57.628, "F3": 57.628, "F4": 0.084,
            "F5": 57.628, "CF1": 64.5395,
        },
        4278190080, 5368709120,
    ),
    "prefill with split heads": (
        QWEN, cut(cp=2, tp=16, ffn_scope="tp"), prefill(8192, 2),
        {
            "S1": 524.288, "S2": 2684.35, "S3": 1342.18, "S4": 8.192, "S5": 2684.35, "S6": 104.858, "S7": 2684.35,
            "S8": 66.56, "S9": 32.768, "S10": 2684.35, "C2": 986.04, "C3": 1048.62, "F1": 524.288, "F2": 8053.06,
            "F3": 8053.06, "F4": 147.456, "F5": 8053.06, "CF1": 986.04,
        },
        868220928, 75497472,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POINTS)
def test_points_of_the_independent_calculator(name):
    """D-009, D-060, D-061, D-062, D-063, D-064, D-065, D-066, D-067, D-068, D-069, D-070, D-071, D-072, D-073, D-080, D-081,
    D-082, D-085: every stage at further layouts, in both phases, for all placements and scopes."""
    what, layout, step, expected, weights, cache = POINTS[name]
    found = {stage: time for stage, time in stages(what, layout, step).items() if time > 1e-9}
    sent = found.pop("pipeline_send", 0.0)  # D-085 leaves it out of one token's latency, which is why it is apart here
    assert (sent > 0) == (layout.pp > 1)
    assert found == {stage: pytest.approx(value, rel=1e-5) for stage, value in expected.items()}
    m = memory(
        what, layout, max(step.decode_context, step.prefill_tokens), step.decode_sequences or step.prefill_sequences
    )
    assert (m.weights, m.kv) == (pytest.approx(weights), pytest.approx(cache))


def test_titles_name_every_stage():
    """D-103, D-105: each stage of the points above has a name for people, alone and in one of several kinds of layers."""
    named = {stage for *_, expected, _w, _c in POINTS.values() for stage in expected}
    assert {"S1", "S10", "C1", "C2", "C3", "F1", "F5", "CF1"} <= named
    for stage in named:
        assert not re.match(r"C?[SFC]\d", operator_name(stage)), stage
    assert operator_name("S5@w4096") == "Attention scores, window 4,096"
    assert operator_name("F1@moe") == "Norm before FFN, MoE layers"
    assert operator_name("S2@full.2") == "Query projection, full (2)"


# ----------------------------------------------------------------------------------------------------- stages by hand


# Hidden 64, 8 query and 4 KV heads of 16, feed-forwards of 160; tp = 2, cp = 2; 3 sequences at a context of 10.
SMALL = cut(tp=2, cp=2)


def counted(step: Step, layout: Layout = SMALL, what: Model = TINY, causal: str = "half") -> dict[str, object]:
    ops = operators(what, step, layout, counting="stages", causal=causal, outside=False)
    return {op.name: op for op in ops}


def test_decode_stages_by_hand():
    """D-011, D-060, D-061, D-062, D-063, D-064, D-065, D-066, D-067, D-068, D-069, D-071, D-080, D-081: N_t = B = 3 rows;
    S_local = 5 keys; 4 heads and 2 KV heads of 16 a rank."""
    ops = counted(decode(10, 3))
    expected = {
        # name: (FLOP, bytes)
        "S1": (4 * 3 * 64, 2 * 3 * 64 * 2),
        "S2": (2 * 3 * 64 * 64, 2 * (64 * 64 + 3 * 64 + 3 * 64)),
        "S3": (2 * 2 * 3 * 64 * 32, 2 * (2 * 64 * 32 + 3 * 64 + 2 * 3 * 32)),
        "S4": (0, 2 * 3 * 32 * 2),
        "S5": (2 * 3 * 5 * 64, 2 * (3 * 5 * 32 + 3 * 64)),
        "S6": (5 * 3 * 5 * 4, 0),
        "S7": (2 * 3 * 5 * 64, 2 * (3 * 5 * 32 + 3 * 64)),
        # partial outputs of 16 + 2 numbers of 4 bytes, two of them read: 2·4·3·4·18
        "S8": (3 * 3 * 64, 2 * 4 * 3 * 4 * 18),
        "S9": (3 * 64, 2 * 3 * 64 * 2),
        "S10": (2 * 3 * 64 * 64, 2 * (64 * 64 + 3 * 64 + 3 * 64)),
        # the feed-forward over TP·CP = 4 ranks: 40 columns, and every cp rank holds the same three tokens
        "F1": (4 * 3 * 64, 2 * 3 * 64 * 2),
        "F2": (2 * 3 * 64 * 40, 2 * (64 * 40 + 3 * 64 + 3 * 40)),
        "F3": (2 * 3 * 64 * 40, 2 * (64 * 40 + 3 * 64 + 3 * 40)),
        "F4": (4 * 3 * 40, 3 * 2 * 3 * 40),
        "F5": (2 * 3 * 64 * 40, 2 * (64 * 40 + 3 * 64 + 3 * 40)),
    }
    for name, (flop, moved) in expected.items():
        assert (ops[name].flop, ops[name].bytes()) == (flop, moved), name
    # D-067, D-071, D-081: O/m/l all-reduce over cp, output over tp, feed-forward over both.
    for name, peers, payload in [("S8 all-reduce", 2, 4 * 3 * 4 * 18), ("C2", 2, 3 * 64 * 2), ("CF1", 4, 3 * 64 * 2)]:
        assert (ops[name].peers, ops[name].message_bytes) == (peers, payload), name
    assert "C1" not in ops  # D-070: prefill only


def test_prefill_stages_by_hand():
    """D-011, D-030, D-064, D-070, D-082: prompts of 10 over two cp ranks: S_local = T_q = 5, N_t = 15, S_att = 10/2."""
    ops = counted(prefill(10, 3))
    assert ops["S2"].m == 15
    assert ops["S5"].flop == 2 * 15 * 5 * 4 * 16
    # every hop reads a rank's 5 keys: 3 sequences · 5 · 2 hops · 2 heads · 16, beside the queries' 15 · 64
    assert ops["S5"].bytes() == 2 * (3 * 5 * 2 * 32 + 15 * 64)
    assert ops["S8"].flop == 3 * 15 * 64 * (2 - 1)
    assert (ops["C1"].peers, ops["C1"].message_bytes) == (2, 2 * 3 * 5 * 2 * 16 * 2)
    assert ops["C1"].hides_under == ("S5", "S6", "S7")
    qoml = counted(prefill(10, 3), cut(tp=2, cp=2, ring="qoml"))["C1"]
    assert qoml.message_bytes == 15 * 4 * (16 * 2 + 4 * 16 + 8)
    # every rank in scope brings its own 15 tokens: widening the scope saves memory, not FLOP
    assert (ops["F2"].m, ops["F2"].n) == (30, 40)
    assert (ops["CF1"].peers, ops["CF1"].message_bytes) == (4, 30 * 64 * 2)


def test_causal_pairs_have_three_conventions():
    """E-06, D-064: half of the prompt a query, the whole prompt, or exactly the visible pairs: 10·11/2 of 10·10."""
    flops = {c: counted(prefill(10, 3), cut(tp=2), causal=c)["S5"].flop for c in ("half", "full", "exact")}
    per_pair = 2 * 3 * 4 * 16
    assert flops == {"half": 10 * 5 * per_pair, "full": 10 * 10 * per_pair, "exact": 55 * per_pair}


def test_split_heads_reduce_their_scores():
    """D-014, D-065, D-072: tp = 8 over 4 KV heads: two ranks a head, fp32 scores of its two query heads, 4·3·10·2."""
    ops = counted(decode(10, 3), cut(tp=8))
    assert (ops["C3"].peers, ops["C3"].axis, ops["C3"].message_bytes) == (2, "split", 4 * 3 * 10 * 2)
    assert ops["S6"].flop == 5 * 3 * 10 * 2  # a rank sees the full scores of H_q/H_kv heads
    assert ops["S5"].kv_bytes == 3 * 10 * 0.5 * 16 * 2  # and half a head of keys
    whole = counted(decode(10, 3), cut(tp=8, kv_shard="replicate"))
    assert "C3" not in whole
    assert whole["S6"].flop == 5 * 3 * 10 * 1
    assert whole["S5"].kv_bytes == 3 * 10 * 16 * 2


@pytest.mark.parametrize(("scope", "ranks", "tokens"), [("tp", 2, 3), ("tp_cp", 4, 3), ("tp_cp_dp", 12, 9)])
def test_scopes_of_the_feed_forward(scope, ranks, tokens):
    """D-013, D-028, D-081, D-082: TP, TP·CP or TP·CP·DP ranks share the width; other replicas bring their tokens."""
    ops = counted(decode(10, 3), cut(tp=2, cp=2, dp=3, ffn_scope=scope))
    assert (ops["F2"].m, ops["F2"].n, ops["CF1"].peers) == (tokens, 160 / ranks, ranks)


@pytest.mark.parametrize("scope", ["tp", "tp_cp", "tp_cp_dp"])
def test_prefill_work_does_not_depend_on_the_scope(scope):
    """E-25, D-082: FLOP of the feed-forward over all ranks are the same for every scope."""
    ops = counted(prefill(12, 2), cut(tp=2, cp=2, dp=2, ffn_scope=scope))
    assert ops["F2"].flop * 8 == 2 * (2 * 2 * 12) * 64 * 160  # two replicas' tokens


def test_experts_of_dedicated_ranks():
    """D-013, D-083: expert weights ÷ EP; dispatch and combine of N·k·d·b each, (EP − 1)/EP of it on the wire."""
    layout = cut(ep=4, ep_mode="dedicated")
    ops = counted(decode(10, 3), layout, KINDS["moe"])
    assert ops["experts_up"].resident_bytes == 8 / 4 * 96 * 64 * 2
    times = {item.name: item for item in timed(KINDS["moe"], layout, decode(10, 3)).priced}
    # Expert ranks have cubes of their own (D-008): two layers of 100 ns and 3/4 · 3·2·64·2 bytes over 128 GB/s, each way.
    for name in ("dispatch", "combine"):
        assert times[name].comm == pytest.approx(2 * (100e-9 + 0.75 * 768 / 128e9), rel=1e-12)


def test_what_binds_a_stage():
    """D-074: compute, memory (weight, kv, activation), comm or trivial."""
    bounds = {item.name: item.bound for item in timed(QWEN, cut(cp=8, tp=8), decode(1048576)).priced}
    assert (bounds["S2"], bounds["S5"], bounds["S6"], bounds["CF1"]) == ("weight", "kv", "compute", "comm")
    assert timed(QWEN, cut(), decode(1024)).priced[-2].bound == "trivial"  # CF1 with one rank


# ------------------------------------------------------------------------------------------------------ memory layout


def test_memory_of_one_device_by_hand():
    """D-050, D-051, D-052, D-055: hidden 64, TP = 2, CP = 2, one of two layers: W_Q and W_O 64·128/2 each, W_K and W_V
    64·64/2, gate, up and down 64·160/4; cache 2·3·5·2·16 entries of a layer."""
    m = memory(TINY, cut(tp=2, cp=2, pp=2), 10, batch=3)
    matrices = 2 * 64 * 128 / 2 + 2 * 64 * 64 / 2 + 3 * 64 * 160 / 4
    assert m.weights == pytest.approx(2 * (matrices + 128), rel=1e-12)  # and the layer's two norms
    assert m.kv == 2 * 3 * 5 * 2 * 16 * 2


def test_whole_heads_are_held_where_ranks_exceed_them():
    """D-050, D-057: replicate: W_K and W_V of one whole head, 64·16 each, and a cache constant past H_kv; split halves."""

    def held(tp, mode):
        m = memory(TINY, cut(tp=tp, ffn_scope="tp", kv_shard=mode), 10)
        return m.kv, m.weights

    assert held(8, "replicate")[0] == held(4, "replicate")[0]
    assert held(8, "split")[0] == held(4, "split")[0] / 2
    # Replicate keeps one head of keys and values where split keeps a half: 2·64·16/2 more weights in each of two layers.
    assert held(8, "replicate")[1] - held(8, "split")[1] == 2 * 2 * (2 * 64 * 16 / 2)


@given(tp=st.sampled_from([1, 2, 4]), cp=st.sampled_from([1, 2, 4]), pp=st.sampled_from([1, 2]))
def test_shards_add_up_to_the_whole(tp, cp, pp):
    """D-056, D-057: over all devices, cache and feed-forward are whole once; attention weights once a cp rank."""
    layout, devices = cut(tp=tp, cp=cp, pp=pp), tp * cp * pp
    m = memory(TINY, layout, 16, batch=2)
    attention, ffn, norms = 2 * 24576, 2 * 30720, 2 * 128
    assert m.kv * devices == pytest.approx(2 * 2 * 16 * 2 * 64 * 2)
    assert m.weights * devices == pytest.approx(2 * (attention * cp + ffn + norms * tp * cp))


# ---------------------------------------------------------------------------------------------------------------- laws


LAYOUTS = st.fixed_dictionaries(
    {
        "tp": st.sampled_from([1, 2, 4, 8, 16]),
        "cp": st.sampled_from([1, 2, 4, 8, 32]),
        "pp": st.sampled_from([1, 2]),
        "dp": st.sampled_from([1, 2]),
        "kv_shard": st.sampled_from(["split", "replicate"]),
        "ffn_scope": st.sampled_from(["tp", "tp_cp", "tp_cp_dp"]),
        "tp_placement": st.sampled_from(["inner", "outer"]),
        "cp_placement": st.sampled_from(["inner", "outer"]),
        "ring": st.sampled_from(["kv", "qoml"]),
    }
)
STEPS = st.one_of(
    st.builds(decode, st.sampled_from([1000, 131072]), st.sampled_from([1, 8])),
    st.builds(prefill, st.sampled_from([1000, 32768]), st.sampled_from([1, 2])),
)


@given(degrees=LAYOUTS, step=STEPS)
def test_visible_stages_add_up_to_the_total(degrees, step):
    """D-084, D-085: Σ visible of stages is the step's time; tp = 1 has no C2 or C3, cp = 1 no C1 and no all-reduce in S8."""
    layout = Layout(**degrees)
    found = timed(QWEN, layout, step)
    assert math.fsum(item.time for item in found.priced) == pytest.approx(found.time, rel=1e-12)
    exchanges = {item.op.stage: item.comm for item in found.priced if item.op.collective}
    if layout.tp == 1:
        assert exchanges["C2"] == exchanges.get("C3", 0.0) == 0.0
    if layout.cp == 1:
        assert "C1" not in exchanges
        assert "S8" not in exchanges


@given(degrees=LAYOUTS, step=STEPS)
def test_doubling_a_resource_never_costs_time(degrees, step):
    """D-084: twice the rate, the bandwidth or a link is never slower, and faster where a stage waits for it."""
    layout = Layout(**degrees)
    plain = timed(QWEN, layout, step)
    bounds = {item.bound for item in plain.priced if item.time > 0}
    waits = {"memory_bandwidth": {"weight", "kv", "activation"}, "flop_rate": {"compute"}, "links.0.bandwidth": set()}
    for knob, causes in waits.items():
        faster = timed(QWEN, layout, step, system=SIP.replace({knob: "2x"})).time
        assert faster < plain.time if bounds & causes else faster <= plain.time, knob


@given(degrees=LAYOUTS, context=st.sampled_from([1000, 131072]))
def test_what_rotates_does_not_matter_in_decode(degrees, context):
    """D-030, D-084, D-903: the ring runs in prefill only."""
    times = [timed(QWEN, Layout(**degrees | {"ring": ring}), decode(context)).time for ring in ("kv", "qoml")]
    assert times[0] == times[1]


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    cp=st.sampled_from([1, 2, 4]),
    scope=st.sampled_from(["tp", "tp_cp"]),
    step=st.sampled_from([prefill(64, 2), decode(64, 2)]),
)
def test_work_over_all_devices_does_not_depend_on_the_sharding(tp, cp, scope, step):
    """D-084: FLOP of projections, scores and feed-forward over all devices are those of one, within replication: in decode
    every cp rank projects the same token, and so does its feed-forward unless it is cut over cp too."""
    whole = {op.name: op for op in operators(QWEN, step, cut(ffn_scope=scope), counting="stages", outside=False)}
    parts = {
        op.name: op
        for op in operators(QWEN, step, cut(tp=tp, cp=cp, ffn_scope=scope), counting="stages", outside=False)
    }
    twice = cp if step.has_decode else 1
    for name in ("S2", "S3", "S5", "S7", "S10", "F2", "F3", "F5"):
        copies = 1 if name in ("S5", "S7") or (name[0] == "F" and scope == "tp_cp") else twice
        assert parts[name].flop * tp * cp == pytest.approx(whole[name].flop * copies, rel=1e-12), name


def test_replicas_do_not_change_latency():
    """D-085: dp changes no step; pp adds only the sends between stages, and shortens nothing."""
    layout = cut(tp=8, cp=2)
    plain = timed(QWEN, layout, decode(4096)).time
    assert timed(QWEN, msgspec.structs.replace(layout, dp=4), decode(4096)).time == plain
    piped = timed(QWEN, msgspec.structs.replace(layout, pp=4), decode(4096))
    sends = math.fsum(item.time for item in piped.priced if item.op.stage == "pipeline_send")
    # three sends of 4,096 · 2 bytes between cubes
    assert sends == pytest.approx(3 * (100e-9 + 8192 / 128e9))
    assert piped.time - sends == pytest.approx(plain, rel=1e-12)


# ------------------------------------------------------------------------------------------------------ whole requests


TTFT_128K, TPOT_128K = 34.75232126208, 0.0054396369


def test_latency_of_a_whole_request():
    """D-114, D-115: TPOT is one decode step at S_kv = prompt, TTFT one prefill, E2E = TTFT + (N − 1)·TPOT, throughput
    B/TPOT. Qwen 3 8B, 131,072 tokens, CP4·TP8, 100 tokens out; both times from the independent calculator."""
    work = Workload(batch=1, prompt=131072, output=100)
    found = estimate(QWEN, BF16, cut(cp=4, tp=8), SIP, work, BARE)
    assert found.mid.ttft == pytest.approx(TTFT_128K, rel=1e-9)
    assert found.mid.tpot == pytest.approx(TPOT_128K, rel=1e-9)
    assert found.mid.e2e == pytest.approx(TTFT_128K + 99 * TPOT_128K, rel=1e-9)
    assert found.mid.decode_throughput == pytest.approx(1 / TPOT_128K, rel=1e-9)


def test_attention_and_feed_forward_make_up_the_step():
    """D-116: contributions per layer and over all layers, in both phases."""
    for step in (decode(131072), prefill(131072)):
        by_layer = stages(QWEN, cut(cp=4, tp=8), step)
        ffn = math.fsum(time for name, time in by_layer.items() if name.startswith(("F", "CF")))
        attention = math.fsum(time for name, time in by_layer.items() if not name.startswith(("F", "CF")))
        whole = timed(QWEN, cut(cp=4, tp=8), step).time
        assert 36 * (attention + ffn) * 1e-6 == pytest.approx(whole, rel=1e-12)


def test_embedding_and_head_come_on_top_by_default():
    """D-911: by default the head's 151,936 × 4,096 weights are read too: 4.86 ms of 256 GB/s; the switch leaves them out."""
    layout, step = cut(), decode(4096)
    head = timed(QWEN, layout, step, SHARDED).time - timed(QWEN, layout, step).time
    weights = 151936 * 4096 * 2
    assert head == pytest.approx(weights / 256e9, rel=1e-3)
    ops = operators(QWEN, step, layout, counting="stages", causal="half")
    bare = operators(QWEN, step, layout, counting="stages", causal="half", outside=False)
    assert total(ops, "resident_bytes") - total(bare, "resident_bytes") == 2 * weights


def test_arrays_of_layouts_are_the_layouts_one_by_one():
    """D-151: every stage of a grid of degrees equals the same degrees alone."""
    tp, cp = np.meshgrid([1, 2, 8, 16], [1, 4, 32])
    for step in (decode(131072, 4), prefill(8192, 2)):
        grid = cut(tp=tp.ravel(), cp=cp.ravel())
        ops = operators(QWEN, step, grid, counting="stages", causal="half", outside=False)
        together = step_time(ops, Roofline(SIP, grid, BARE), BARE).time
        apart = [timed(QWEN, cut(tp=int(t), cp=int(c)), step).time for t, c in zip(tp.ravel(), cp.ravel(), strict=True)]
        assert together == pytest.approx(apart, rel=1e-12)


def test_hardware_may_be_arrays_too():
    """D-160: a sweep over hardware knobs prices each point as it would be alone."""
    bandwidths, rates = np.array([128e9, 256e9]), np.array([8e12, 16e12])
    system = SIP.replace({"memory_bandwidth": bandwidths, "flop_rate": rates})
    layout, step = cut(tp=8), decode(4096, 64)
    ops = operators(QWEN, step, layout, counting="stages", causal="half", outside=False)
    together = step_time(ops, Roofline(system, layout, BARE), BARE).time
    for i in range(2):
        one = SIP.replace({"memory_bandwidth": float(bandwidths[i]), "flop_rate": float(rates[i])})
        assert together[i] == pytest.approx(timed(QWEN, layout, step, system=one).time, rel=1e-12)


def test_a_machine_without_links_runs_one_device():
    """D-084: on a single PE nothing is exchanged."""
    alone = machine(rate=8e12, bandwidth=256e9)
    found = timed(QWEN, cut(), decode(4096), system=alone)
    assert found.comm == 0
    assert found.time == timed(QWEN, cut(), decode(4096)).time
