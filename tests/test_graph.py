"""What work a step is: operators, FLOP, bytes and messages.

Every expected count is worked out by hand, in the comments or from a requirement. The tiny models have hidden width 64,
8 query and 4 KV heads of 16, feed-forwards of 160 and a vocabulary of 1,000; numbers are BF16, 2 bytes.
"""

import math
from typing import get_args

import msgspec
import numpy as np
import pytest
from builders import (
    BF16,
    COMPRESSED,
    DENSE,
    GQA,
    INDEXER,
    KINDS,
    LATENT,
    MIXTURE,
    RECURRENT,
    TINY,
    by_name,
    layers,
    model,
    operators,
    published,
    total,
)
from hypothesis import given
from hypothesis import strategies as st

from rooflab import catalog, graph, hf
from rooflab.graph import formulas as f
from rooflab.graph.feedforward import ffn_operators
from rooflab.graph.mixers import mixer_operators
from rooflab.model import Attention, Block, Dense, FeedForward, LatentAttention, Mixer, Model, MoE, Recurrent
from rooflab.work import Layout, Precision, Step

DECODE = Step(decode_sequences=3, decode_context=10)
PREFILL = Step(prefill_sequences=3, prefill_tokens=5)

# One layer of each kind at three sequences that each add one token after nine cached ones (a context of ten):
# name -> (FLOP, weight bytes, activation bytes, cache bytes).
BY_HAND: dict[type, tuple[object, dict[str, tuple[float, float, float, float]]]] = {
    Attention: (
        GQA,
        {
            # 3 × (8 + 2·4)·16 = 256 columns × 64: 2·3·256·64; 256·64·2; 3·(64 + 256)·2
            "qkv": (98304, 32768, 1920, 0),
            # queries and keys, (8 + 4)·16 = 192 columns, read and written, 3 FLOP each; writes 3 × 2·4·16 entries
            "rope_append": (1728, 0, 2304, 768),
            # 4·B·S·H·d = 4·3·10·8·16; Q and O: 3·8·(16 + 16)·2; cache: 3·10·128·2
            "attention_decode": (15360, 0, 1536, 7680),
            # 3 × 64 × 128: 2·3·64·128; 64·128·2; 3·(128 + 64)·2
            "o_proj": (49152, 16384, 1152, 0),
        },
    ),
    LatentAttention: (
        LATENT,
        {
            # query latent 24 and cache latent 32 + 8: 64 columns
            "qkv_down": (24576, 8192, 768, 0),
            # 4 heads × (16 + 8) = 96 columns from 24
            "q_up": (13824, 4608, 720, 0),
            # 4·8 query and 8 key columns rotated; 40 latent entries written
            "rope_append": (360, 0, 480, 240),
            # per head 3 × 32 × 16: 2·4·3·32·16; 4·32·16·2; rows 12: 12·(16 + 32)·2
            "absorb_q": (12288, 4096, 1152, 0),
            # over the latent: 2·30 pairs·4 heads·(40 + 32); Q and O 3·4·72·2; cache 3·10·40·2, once for all heads
            "attention_decode": (17280, 0, 1728, 2400),
            # per head 3 × 16 × 32
            "absorb_v": (12288, 4096, 1152, 0),
            # 4·16 = 64 rows of the output projection
            "o_proj": (24576, 8192, 768, 0),
        },
    ),
    Recurrent: (
        RECURRENT,
        {
            # 200 columns: 2·3·200·64; 200·64·2; 3·264·2
            "in_proj": (76800, 25600, 1584, 0),
            # 640 weights = 10 columns of 64
            "inner_proj": (3840, 1280, 444, 0),
            # 128 channels, a multiply and an add for each of 4 taps
            "conv": (3072, 0, 1536, 0),
            # state 4·8·16 = 512 elements × 5 FLOP × 3; q, k, v, o: 4·(2·8 + 2·16) = 192 columns;
            # state and convolution inputs, 512 + 128·4 = 1,024, read and written
            "recurrence_decode": (7680, 0, 1152, 12288),
            "o_proj": (24576, 8192, 768, 0),
        },
    ),
    Dense: (
        DENSE,
        {
            # up and gate in one product of 320 columns
            "gate_up": (122880, 40960, 2304, 0),
            # reads 320 columns, writes 160, 4 FLOP on each
            "activation": (5760, 0, 2880, 0),
            "down": (61440, 20480, 1344, 0),
            "all_reduce_ffn": (0, 0, 0, 0),
        },
    ),
    MoE: (
        MIXTURE,
        {
            "router": (3072, 1024, 432, 0),
            # the shared part of 32: 64 columns up, 32 down
            "shared_up": (24576, 8192, 768, 0),
            "shared_activation": (1152, 0, 576, 0),
            "shared_down": (12288, 4096, 576, 0),
            # 3 tokens × 2 experts = 6 pairs; they touch 8·(1 − (3/4)³) = 4.625 experts
            "experts_up": (73728, 56832, 1920, 0),
            "experts_activation": (3456, 0, 1728, 0),
            "experts_down": (36864, 28416, 1344, 0),
            # rows gathered and scattered: two reads, two writes
            "permute": (384, 0, 3072, 0),
            "all_reduce_ffn": (0, 0, 0, 0),
        },
    ),
}


# ------------------------------------------------------------------------------------------- one row for every kind


@pytest.mark.parametrize(("union", "function"), [(Mixer, mixer_operators), (FeedForward, ffn_operators)])
def test_every_kind_is_counted_and_has_a_row_by_hand(union, function):
    """A-010: a new mixer or feed-forward needs a counting function and a row of hand-derived counts above."""
    for kind in get_args(union):
        assert function.dispatch(kind) is not function.dispatch(object), f"no operators function for {kind.__name__}"
        assert kind in BY_HAND, f"no row of hand-derived counts for {kind.__name__}"
        assert type(BY_HAND[kind][0]) is kind


@pytest.mark.parametrize("function", [mixer_operators, ffn_operators])
def test_an_unknown_kind_is_refused_by_name(function):
    """F-02: nothing is counted as if it were something else."""
    with pytest.raises(TypeError, match="Block"):
        function(Block(count=1, mixer=None, ffn=None), graph.cut(TINY, BF16, Layout(), DECODE), 1.0, "")


@pytest.mark.parametrize("kind", BY_HAND, ids=lambda kind: kind.__name__)
def test_counts_of_one_layer(kind):
    """A-016, A-017, A-018, A-033, A-034, A-035: FLOP and bytes of every operator, by hand."""
    what, expected = BY_HAND[kind]
    mixer, ffn = (what, None) if isinstance(what, get_args(Mixer)) else (None, what)
    ops = by_name(operators(model(layers(1, mixer, ffn)), DECODE, outside=False))
    assert ops.pop("norm") is not None
    found = {n: (op.flop, op.weight_bytes, op.activation_bytes, op.kv_bytes) for n, op in ops.items()}
    assert found == expected


def test_counts_scale_with_layers_and_not_with_names():
    """A-010: seven equal layers in two blocks are the same operators, each run seven times."""
    once = by_name(operators(model(layers(1, GQA, DENSE)), DECODE))
    apart = by_name(operators(model(layers(3, GQA, DENSE), layers(4, GQA, DENSE)), DECODE))
    for name, op in apart.items():
        outside = name in ("embedding", "final_norm", "lm_head")
        assert op.count == once[name].count * (1 if outside else 7), name
        assert op.flop == once[name].flop, name


# ------------------------------------------------------------------------------------- dense layers under tp = 2


def test_shapes_and_bytes_per_rank():
    """A-010, A-016: M, N, K per tensor-parallel rank; bytes b·(MK + KN + MN). 3 prompts of 5 tokens, two ranks."""
    ops = by_name(operators(TINY, PREFILL, Layout(tp=2)))
    shapes = {name: (ops[name].m, ops[name].n, ops[name].k) for name in ("qkv", "o_proj", "gate_up", "down", "lm_head")}
    assert shapes == {
        "qkv": (15, (8 + 2 * 4) * 16 / 2, 64),
        "o_proj": (15, 64, 8 * 16 / 2),
        "gate_up": (15, 2 * 160 / 2, 64),
        "down": (15, 64, 160 / 2),
        "lm_head": (3, 1000 / 2, 64),  # last tokens only
    }
    for name, (m, n, k) in shapes.items():
        assert ops[name].flop == 2 * m * n * k
        assert ops[name].bytes() == 2 * (m * k + k * n + m * n), name
        assert ops[name].count == (1 if name == "lm_head" else 2)


def test_attention_of_prompts_and_answers():
    """A-017: prefill 2·B·T(T+1)·H/TP·d FLOP, decode 4·B·S·H/TP·d; the cache is read once, Q read and O written."""
    prefill = by_name(operators(TINY, PREFILL, Layout(tp=2)))["attention_prefill"]
    assert prefill.flop == 2 * 3 * 5 * 6 * (8 / 2) * 16
    # 3 prompts × 5 entries × 2 KV heads × (16 + 16), and 15 rows × 4 heads × (16 + 16), 2 bytes each
    assert (prefill.kv_bytes, prefill.activation_bytes) == (3 * 5 * 64 * 2, 15 * 128 * 2)
    decode = by_name(operators(TINY, DECODE, Layout(tp=2)))["attention_decode"]
    assert decode.flop == 4 * 3 * 10 * (8 / 2) * 16
    assert (decode.kv_bytes, decode.activation_bytes) == (3 * 10 * 64 * 2, 3 * 128 * 2)


def test_elementwise_operators():
    """A-018: two norms with their residual adds, rotary embedding and activation per layer; bytes are reads and writes."""
    ops = by_name(operators(TINY, PREFILL, Layout(tp=2)))
    # Norm and residual add in one kernel: input and residual read, residual and output written.
    assert (ops["norm"].count, ops["norm"].activation_bytes) == (4, 15 * 64 * 4 * 2)
    # Rotary: 4 query and 2 key heads of 16, read and written.
    assert ops["rope_append"].activation_bytes == 15 * 96 * 2 * 2
    # SiLU·mul: two halves of 80 read, one written.
    assert ops["activation"].activation_bytes == 15 * 240 * 2
    assert {op.kind for op in ops.values()} == {"gemm", "attention", "elementwise", "embedding", "collective"}


def test_two_all_reduces_a_layer():
    """A-021: after the attention output and after the down projection, payload T·d·b; none at tp = 1."""
    ops = [op for op in operators(TINY, PREFILL, Layout(tp=2)) if op.collective == "all_reduce" and op.count > 1]
    assert [(op.count, op.peers, op.message_bytes) for op in ops] == [(2, 2, 15 * 64 * 2)] * 2
    alone = [op for op in operators(TINY, PREFILL) if op.collective and op.peers > 1]
    assert alone == []


@pytest.mark.parametrize(
    ("step", "layout", "expected"),
    [
        # Three sequences, 4 heads and 2 KV heads of 16 a rank: vectors of 64, fp32 partial outputs of 16 + 2.
        (
            DECODE,
            {"tp": 2, "cp": 2, "pp": 2},
            {
                "all_reduce_embedding": ("all_reduce", 1, 2, 3 * 64 * 2),
                "merge_attention": ("all_reduce", 2, 2, 4 * 3 * 4 * 18),
                "all_reduce_attention": ("all_reduce", 2, 2, 3 * 64 * 2),
                "all_reduce_ffn": ("all_reduce", 2, 2, 3 * 64 * 2),
                "pipeline_send": ("send", 1, 2, 3 * 64 * 2),
                "gather_logits": ("all_gather", 1, 2, 3 * 1000 * 2),
            },
        ),
        # ⌈5/2⌉ tokens of three prompts a rank; keys and values of 2·2·16 travel.
        (
            PREFILL,
            {"tp": 2, "cp": 2, "pp": 2, "ffn_scope": "tp_cp"},
            {
                "all_reduce_embedding": ("all_reduce", 1, 2, 9 * 64 * 2),
                "ring": ("ring", 2, 2, 9 * 64 * 2),
                "all_reduce_attention": ("all_reduce", 2, 2, 9 * 64 * 2),
                "all_reduce_ffn": ("all_reduce", 2, 4, 18 * 64 * 2),
                "pipeline_send": ("send", 1, 2, 9 * 64 * 2),
                "gather_logits": ("all_gather", 1, 2, 3 * 1000 * 2),
            },
        ),
        # Queries travel with running outputs and their maximum and sum: 4 heads of 16·2 + 16·4 + 8 bytes.
        (PREFILL, {"tp": 2, "cp": 2, "ring": "qoml"}, {"ring": ("ring", 2, 2, 9 * 4 * 104)}),
        # Two ranks a KV head add fp32 scores of its two query heads: 4·30·2.
        (DECODE, {"tp": 8, "kv_shard": "split"}, {"all_reduce_scores_decode": ("all_reduce", 2, 2, 4 * 30 * 2)}),
    ],
)
def test_every_exchange_of_a_step(step, layout, expected):
    """A-021, D-067, D-070, D-072: what is exchanged, how often, by how many ranks, and its payload."""
    ops = [op for op in operators(TINY, step, Layout(**layout)) if op.collective]
    found = {op.name: (op.collective, op.count, op.peers, op.message_bytes) for op in ops}
    assert {name: found.get(name) for name in (found if len(expected) > 1 else expected)} == expected


def test_parallel_blocks_add_their_outputs_first():
    """A-021: attention and feed-forward that read the same input share one all-reduce and one norm."""
    ops = operators(KINDS["parallel"], PREFILL, Layout(tp=2), outside=False)
    assert [op.name for op in ops if op.collective] == ["all_reduce_ffn"]
    assert by_name(ops)["norm"].count == 2


@pytest.mark.parametrize("counting", ["kernels", "stages"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_a_pass_are_the_parameters_of_the_model(kind, counting):
    """D-911: with embedding and head, resident weights are exactly the model's parameters, 2 bytes each."""
    for step in (DECODE, PREFILL, mixed()):
        resident = total(operators(KINDS[kind], step, counting=counting), "resident_bytes")
        assert resident == pytest.approx(2 * KINDS[kind].params(), rel=1e-12)


def mixed() -> Step:
    return msgspec.structs.replace(DECODE, prefill_sequences=2, prefill_tokens=7)


def test_embedding_and_head_are_counted_unless_switched_off():
    """D-911: the reference leaves out embedding and head: Qwen 3 8B is 6.95 B modelled of 8.19 B real."""
    qwen = hf.load("qwen3-8b")
    whole, reference = operators(qwen, DECODE), operators(qwen, DECODE, outside=False)
    assert total(whole, "resident_bytes") / 2 == qwen.params() == 8190735360  # requirement A-037
    assert {op.name for op in whole} - {op.name for op in reference} == {"embedding", "final_norm", "lm_head"}
    stages = operators(qwen, DECODE, counting="stages", outside=False)
    weights = total(stages, "weight_bytes") / 2
    assert weights == graph.linear_params(qwen) == 6945767424  # requirement C-070
    assert weights / qwen.params() == pytest.approx(1 - 0.15, abs=0.003)


def test_a_tied_head_is_the_token_table():
    """A-016: the head reads vocab × hidden weights, tied or not; tied ones are resident once, or at both ends of a pipeline."""
    tied, untied = KINDS["parallel"], msgspec.structs.replace(KINDS["parallel"], tied=False)
    for what, resident in ((tied, 0), (untied, 1000 * 64 * 2)):
        head = by_name(operators(what, DECODE))["lm_head"]
        assert (head.weight_bytes, head.resident_bytes) == (1000 * 64 * 2, resident)
    formats = Precision(embedding="fp8", head="fp32")
    for what, size in ((tied, 1), (untied, 4)):  # in the format of the table, or in its own
        head = by_name(operators(what, DECODE, precision=formats))["lm_head"]
        assert head.weight_bytes == 1000 * 64 * size
    assert by_name(operators(tied, DECODE, Layout(pp=2)))["lm_head"].resident_bytes == 1000 * 64 * 2
    array = by_name(operators(tied, DECODE, Layout(pp=np.array([1, 2]))))["lm_head"]
    assert list(array.resident_bytes) == [0, 1000 * 64 * 2]


# ----------------------------------------------------------------------------------------------- variants of attention


def attention_of(mixer, step=DECODE, layout=None):
    """Operators of one layer of this mixer alone."""
    return by_name(operators(model(layers(1, mixer, None)), step, layout, outside=False))


def test_windows_limit_what_is_seen():
    """A-017 with a window of 4: decode sees 4 keys; five causal queries see 1 + 2 + 3 + 4 + 4 = 14 pairs."""
    windowed = msgspec.structs.replace(GQA, window=4)
    decode = attention_of(windowed)["attention_decode"]
    assert (decode.flop, decode.kv_bytes) == (4 * 3 * 4 * 8 * 16, 3 * 4 * 128 * 2)
    assert attention_of(windowed, PREFILL)["attention_prefill"].flop == 4 * 3 * 14 * 8 * 16


@given(new=st.integers(1, 60), cached=st.integers(0, 60), window=st.integers(1, 80))
def test_pairs_by_looking_at_every_query(new, cached, window):
    """A-017, E-06: the formulas count exactly the visible pairs; an unlimited window sees causal pairs."""
    seen = [min(cached + i + 1, window) for i in range(new)]
    assert f.windowed_pairs(new, cached, window) == sum(seen)
    assert f.causal_pairs(new, cached) == sum(cached + i + 1 for i in range(new))


@given(first=st.integers(1, 40), second=st.integers(1, 40), cached=st.integers(0, 40), window=st.integers(1, 50))
def test_a_prompt_in_two_chunks_sees_the_pairs_of_one(first, second, cached, window):
    """A-017, A-053: the second chunk finds the first in the cache."""
    whole = f.causal_pairs(first + second, cached)
    assert f.causal_pairs(first, cached) + f.causal_pairs(second, cached + first) == whole
    limited = f.windowed_pairs(first, cached, window) + f.windowed_pairs(second, cached + first, window)
    assert limited == f.windowed_pairs(first + second, cached, window)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_in_two_chunks_does_the_work_of_one(kind):
    """A-017, A-053: FLOP of prompts in chunks of 3 and 5 tokens add up, the head's rows apart."""

    def flop(tokens, cached):
        step = Step(prefill_sequences=2, prefill_tokens=tokens, prefill_context=cached)
        ops = [op for op in operators(KINDS[kind], step) if op.part != "head" and not op.name.startswith("kv_up")]
        return total(ops, "flop")

    # A latent is expanded again for every chunk, so that operator is left out.
    assert flop(3, 0) + flop(5, 3) == pytest.approx(flop(8, 0), rel=1e-12)


def test_gates_ranks_and_shared_caches():
    """A-016 with variants: a gate doubles the query columns; a low-rank query goes through its rank; layers that read
    another's cache project and write nothing."""
    gated = attention_of(msgspec.structs.replace(GQA, gate=True))
    assert gated["qkv"].n == (2 * 8 + 2 * 4) * 16
    ranked = attention_of(msgspec.structs.replace(GQA, query_rank=24))
    assert [(ranked[n].n, ranked[n].k) for n in ("qkv_down", "q_up")] == [(24 + 2 * 4 * 16, 64), (8 * 16, 24)]
    shared = attention_of(msgspec.structs.replace(GQA, shares_kv=True))
    assert (shared["qkv"].n, shared["rope_append"].kv_bytes) == (8 * 16, 0)
    assert shared["attention_decode"].kv_bytes == 7680  # it still reads the other layer's entries
    one = attention_of(msgspec.structs.replace(GQA, keys_are_values=True))
    assert (one["qkv"].n, one["rope_append"].kv_bytes) == ((8 + 4) * 16, 768)
    crossed = attention_of(msgspec.structs.replace(GQA, cross=True))
    assert "attention_decode" not in crossed
    assert crossed["rope_append"].kv_bytes == 0


def test_compressed_caches():
    """A-017, A-034 with a window of 4 plain keys and one entry for every two older tokens; key and value are one vector.

    Queries go through a rank of 24, outputs through two groups of rank 12."""
    ops = attention_of(COMPRESSED)
    found = {n: (op.flop, op.weight_bytes, op.activation_bytes, op.kv_bytes) for n, op in ops.items() if n != "norm"}
    assert found == {
        # 24 + 16 = 40 columns of 64
        "qkv_down": (15360, 5120, 624, 0),
        "q_up": (18432, 6144, 912, 0),
        # 8·16 + 16 = 144 columns; one entry a token and half a compressed one: 3·16·1.5·2
        "rope_append": (1296, 0, 1728, 144),
        # 4 + ⌊10/2⌋ = 9 entries: 2·27·8·32; Q and O 3·8·32·2; cache 3·9·16·2
        "attention_decode": (13824, 0, 1536, 864),
        # per group 3 × 12 × 64: 2·2·3·12·64; 2·12·64·2; 6·(64 + 12)·2
        "o_down": (9216, 3072, 912, 0),
        # 24 rows of the output projection
        "o_proj": (9216, 3072, 528, 0),
    }
    # Five queries: 14 pairs in the window, 15/2 with entries; 5 keys and ⌊5/2⌋ entries are read.
    prefill = attention_of(COMPRESSED, PREFILL)["attention_prefill"]
    assert (prefill.flop, prefill.kv_bytes) == (2 * 3 * 21.5 * 8 * 32, 3 * 7 * 16 * 2)
    # An indexer that keeps 3 scores all five entries: 2·15·2·8; attention reads 4 + 3.
    chosen = attention_of(msgspec.structs.replace(COMPRESSED, indexer=msgspec.structs.replace(INDEXER, topk=3)))
    assert (chosen["index_score_decode"].flop, chosen["index_score_decode"].kv_bytes) == (2 * 15 * 2 * 8, 3 * 5 * 8 * 2)
    assert chosen["attention_decode"].kv_bytes == 3 * 7 * 16 * 2
    cached = graph.kv_bytes_per_device(KINDS["compressed"], BF16, Layout(), 10, 3)
    assert cached == 3 * (2 * 9 * 16 + 5 * 8) * 2


def test_layers_that_share_weights_hold_them_once():
    """D-056: three uses of one set of weights read it three times and hold it once; extras of the layers too."""
    ops = by_name(operators(KINDS["shared"], DECODE))
    for name in ("qkv@full", "o_proj@full", "gate_up", "down"):
        assert ops[name].count == 3
        assert ops[name].resident_bytes * 3 == pytest.approx(ops[name].weight_bytes)
    assert total([ops["layer_extra"]], "flop") == 2 * 3 * 3 * 640
    assert total([ops["layer_extra"]], "resident_bytes") == pytest.approx(640 * 2)
    assert graph.total_weight_bytes(KINDS["shared"], BF16) == 2 * KINDS["shared"].params()


def test_experts_that_no_token_chooses_are_only_held():
    """F-02: six experts of 3·64·48 weights, none chosen: bytes to keep, nothing to do and nothing to divide by."""
    ops = by_name(operators(KINDS["idle"], DECODE))
    idle = ops["experts_up@moe"]
    assert (idle.flop, idle.bytes(), idle.resident_bytes) == (0, 0, 6 * 3 * 64 * 48 * 2)
    assert ops["router@moe"].n == 6


def test_sparse_attention_scores_everything_and_reads_its_selection():
    """A-034 with an indexer of 2 heads of 8 that keeps 6 keys: it scores all 10, attention reads 6."""
    indexed = attention_of(msgspec.structs.replace(LATENT, indexer=INDEXER))
    score = indexed["index_score_decode"]
    # scores only: 2·30 pairs·2 heads·8; keys: 3·10·8·2 bytes
    assert (score.flop, score.kv_bytes) == (2 * 30 * 2 * 8, 3 * 10 * 8 * 2)
    # query 2·8, key 8 and head weights 2: 26 columns of 64
    assert indexed["index_projection"].weight_bytes == 26 * 64 * 2
    attention = indexed["attention_decode"]
    assert (attention.flop, attention.kv_bytes) == (2 * 3 * 6 * 4 * (40 + 32), 3 * 6 * 40 * 2)
    # A prompt of five: all 15 causal pairs are scored by two heads of 8, over five keys; queries are read.
    prompt = attention_of(msgspec.structs.replace(LATENT, indexer=INDEXER), PREFILL)["index_score_prefill"]
    assert (prompt.flop, prompt.kv_bytes, prompt.activation_bytes) == (2 * 45 * 16, 3 * 5 * 8 * 2, 15 * 16 * 2)
    half = attention_of(msgspec.structs.replace(COMPRESSED, indexer=INDEXER), PREFILL)["index_score_prefill"]
    assert (half.flop, half.kv_bytes, half.activation_bytes) == (45 * 16, 3 * 2.5 * 8 * 2, 15 * 16 * 2)
    reused = msgspec.structs.replace(INDEXER, owns_keys=False)
    again = attention_of(msgspec.structs.replace(LATENT, indexer=reused))
    assert {name for name in again if name.startswith("index")} == set()


def test_latent_prefill_expands_keys_and_values():
    """A-036: un-absorbed, (16 + 8)-wide queries and keys and 16-wide values; 15 rows are expanded to 4·(16 + 16)."""
    ops = attention_of(LATENT, PREFILL)
    assert (ops["kv_up"].m, ops["kv_up"].n, ops["kv_up"].k) == (15, 128, 32)
    # 3 prompts × 15 pairs: 2·45·4·(24 + 16)
    assert ops["attention_prefill"].flop == 2 * 45 * 4 * 40
    assert "absorb_q" not in ops


def test_latent_decode_of_the_reference():
    """A-034, A-035: DeepSeek-V3: 576-wide latent, 278,528 FLOP per cached token and layer, intensity 241.8 in BF16."""
    deepseek = hf.load("deepseek-v3")
    step = Step(decode_sequences=1, decode_context=4096)
    attention = by_name(operators(deepseek, step))["attention_decode"]
    assert attention.kind == "latent_attention"
    assert attention.kv_bytes == 576 * 4096 * 2
    assert attention.flop / 4096 == 128 * (2 * 576 + 2 * 512) == 278528
    assert attention.flop / attention.kv_bytes == pytest.approx(241.8, abs=0.05)
    # tp cuts the heads and leaves the cache whole on every rank.
    split = by_name(operators(deepseek, step, Layout(tp=8)))["attention_decode"]
    assert (split.flop, split.kv_bytes) == (attention.flop / 8, attention.kv_bytes)
    for name in ("absorb_q", "absorb_v"):
        assert by_name(operators(deepseek, step))[name].flop == 2 * 128 * 128 * 512


def test_chunked_recurrence_of_a_prompt():
    """A-010: per token and head 2·chunk·(key + value) + 4·key·value = 2·64·24 + 4·8·16 = 3,584; 15 tokens, 4 heads."""
    op = attention_of(RECURRENT, PREFILL)["recurrence_prefill"]
    assert op.flop == 15 * 4 * 3584
    assert op.kv_bytes == 3 * 1024 * 2 * 2  # the state is read and written once a sequence


# --------------------------------------------------------------------------------------------------------- experts


@pytest.mark.parametrize(
    ("experts", "topk", "tokens", "distinct"),
    [
        # requirement A-033
        (256, 8, 1, 8.00),
        (256, 8, 8, 57.42),
        (256, 8, 32, 163.31),
        (256, 8, 64, 222.44),
        (256, 8, 128, 251.60),
        (256, 8, 512, 256.00),
        (8, 2, 1, 2.0),
        (8, 2, 8, 7.2),
        (8, 2, 32, 8.0),
    ],
)
def test_distinct_experts_of_the_reference(experts, topk, tokens, distinct):
    """A-032, A-033: E·(1 − (1 − k/E)^T) at the listed points."""
    assert f.distinct_experts(experts, topk, tokens) == pytest.approx(distinct, abs=0.05 if experts == 8 else 0.005)


@given(experts=st.integers(1, 512), share=st.floats(0, 1), tokens=st.integers(1, 4096))
def test_distinct_experts_grow_from_topk_to_all(experts, share, tokens):
    """A-038: k at one token, never more than all, never fewer with more tokens."""
    topk = max(1, round(share * experts))
    assert f.distinct_experts(experts, topk, 1) == pytest.approx(topk)
    assert f.distinct_experts(experts, topk, 10**6) == pytest.approx(experts)
    here = f.distinct_experts(experts, topk, tokens)
    assert here <= f.distinct_experts(experts, topk, tokens + 1) * (1 + 1e-12)
    assert here <= min(experts, topk * tokens) * (1 + 1e-12)


@pytest.mark.parametrize("step", [DECODE, PREFILL], ids=["decode", "prefill"])
def test_one_expert_of_one_is_a_dense_feed_forward(step):
    """A-038: E = k = 1 multiplies and reads what the dense network of that width does; router and permute come on top."""
    dense = by_name(operators(model(layers(2, GQA, Dense(width=160))), step))
    single = by_name(operators(model(layers(2, GQA, MoE(experts=1, topk=1, width=160))), step))
    for plain, routed in (("gate_up", "experts_up"), ("activation", "experts_activation"), ("down", "experts_down")):
        for field in ("flop", "weight_bytes", "activation_bytes", "resident_bytes", "m", "n", "k"):
            assert getattr(single[routed], field) == getattr(dense[plain], field), (routed, field)
    extra = set(single) - {"experts_up", "experts_activation", "experts_down"}
    assert extra - set(dense) == {"router", "permute"}


def test_experts_keep_all_weights_and_read_those_touched():
    """A-033: all eight experts are resident; three tokens read 4.625 of them; mean rows are pairs over touched experts."""
    op = by_name(operators(KINDS["moe"], DECODE))["experts_up"]
    assert op.resident_bytes == 8 * 96 * 64 * 2
    assert op.weight_bytes == 4.625 * 96 * 64 * 2
    assert (op.groups, op.m) == (4.625, 6 / 4.625)
    assert {r.formula for r in op.why if r.quantity == "distinct_experts"} == {f.distinct_experts}


@pytest.mark.parametrize(
    ("layout", "touched", "pairs", "columns", "held"),
    [
        # tp alone: every rank has a half of every expert.
        ({"tp": 2}, 4.625, 6, 48, 8),
        # experts over the tp ranks: four whole experts each, half the pairs.
        ({"tp": 2, "ep": 2}, 4.625 / 2, 3, 96, 4),
        # two attention groups of two sequences (⌈3/2⌉): four tokens reach 8·(1 − (3/4)⁴) = 5.46875 experts.
        ({"attention_dp": 2, "ep": 2}, 5.46875 / 2, 4, 96, 4),
        # ranks of their own for experts: each holds a half, whole in width.
        ({"ep": 2, "ep_mode": "dedicated"}, 4.625 / 2, 3, 96, 4),
        # two groups with such ranks each: two tokens of one group reach 8·(1 − (3/4)²) = 3.5 experts.
        ({"attention_dp": 2, "ep": 2, "ep_mode": "dedicated"}, 3.5 / 2, 2, 96, 4),
    ],
)
def test_experts_over_ranks(layout, touched, pairs, columns, held):
    """A-033, D-083, E-17: how tp, ep and attention groups cut the experts' product."""
    op = by_name(operators(KINDS["moe"], DECODE, Layout(**layout)))["experts_up"]
    assert op.groups == pytest.approx(touched)
    assert op.flop == pytest.approx(2 * pairs * columns * 64)
    assert op.resident_bytes == pytest.approx(held * columns * 64 * 2)


def test_dispatch_and_combine():
    """D-083: dispatch and combine each move N·k·d·b per rank; an all-to-all sends (EP − 1)/EP of it."""
    ops = by_name(operators(KINDS["moe"], DECODE, Layout(ep=4, ep_mode="dedicated")))
    for name in ("dispatch", "combine"):
        op = ops[name]
        assert (op.collective, op.peers, op.count, op.message_bytes) == ("all_to_all", 4, 2, 3 * 2 * 64 * 2)
    overlaid = operators(KINDS["moe"], DECODE, Layout(tp=2, ep=2))
    assert [op.name for op in overlaid if op.collective == "all_to_all"] == []  # every rank already has every token


# ---------------------------------------------------------------------------------------------- the coarser grains


def test_linear_parameters():
    """C-013, E-11: attention and feed-forward only: per layer 64·128·2 + 2·64·64 + 3·64·160 = 55,296 weights."""
    assert graph.linear_params(TINY) == 2 * (2 * 64 * 128 + 2 * 64 * 64 + 3 * 64 * 160) == 110592
    # Experts: router 8·64, shared 3·64·32, and 8 (or 2 active) of 3·64·48.
    rest = 2 * 64 * 128 + 2 * 64 * 64 + 8 * 64 + 3 * 64 * 32
    assert graph.linear_params(KINDS["moe"]) == 2 * (rest + 8 * 3 * 64 * 48)
    assert graph.linear_params(KINDS["moe"], active=True) == 2 * (rest + 2 * 3 * 64 * 48)


def test_the_step_of_a_chip():
    """C-007, E-04: weights once, 2·N FLOP a token, the cache once; classes of weights in their own formats."""
    ops = operators(TINY, DECODE, counting="weights")
    assert [op.name for op in ops] == ["attention weights", "feed-forward weights", "cache"]
    assert (total(ops, "flop"), total(ops, "weight_bytes")) == (2 * 110592 * 3, 110592 * 2)
    assert ops[-1].kv_bytes == 3 * 10 * 2 * (2 * 4 * 16) * 2
    # Two layers of 24,576 attention and 30,720 feed-forward weights, in one byte and in two.
    mixed_formats = by_name(operators(TINY, DECODE, precision=Precision(attention="fp8"), counting="weights"))
    assert mixed_formats["attention weights"].weight_bytes == 2 * 24576
    assert mixed_formats["attention weights"].dtype == "fp8"
    assert mixed_formats["feed-forward weights"].weight_bytes == 2 * 30720 * 2
    # Windows read what they see: 8 and 10 tokens of 3 sequences, 2·4·16 elements.
    assert operators(KINDS["windowed"], DECODE, counting="weights")[-1].kv_bytes == 3 * 18 * 128 * 2


def test_the_step_of_a_chip_is_shared_evenly():
    """C-017, D-085: every device of a stage does an even share once, however the layout is made up; pp shortens nothing."""
    one = operators(KINDS["moe"], Step(decode_sequences=8, decode_context=10), counting="weights")
    for degrees in ({"tp": 4}, {"cp": 2, "tp": 2}, {"attention_dp": 4, "ep": 2}, {"ep": 4, "ep_mode": "dedicated"}):
        for pp in (1, 2):
            layout = Layout(pp=pp, **degrees)
            part = operators(KINDS["moe"], Step(decode_sequences=8, decode_context=10), layout, counting="weights")
            for field in ("flop", "weight_bytes", "kv_bytes"):
                assert total(part, field) == pytest.approx(total(one, field) / 4), (degrees, field)


def test_the_two_stages_of_the_calculator():
    """B-032, B-034: two operators, from all parameters and all layers (more in test_classroom)."""
    linear, attention = operators(published(), DECODE, counting="published")
    assert linear.flop == 2 * 8.03e9 * 3
    assert attention.flop == 4 * 32 * 3 * 10 * 4096


@pytest.mark.parametrize("counting", ["kernels", "stages"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_mixed_step_is_its_prefill_and_its_decode(kind, counting):
    """A-053: linear in the phases: FLOP, activations and cache bytes of a mixed step are the sums of both steps."""
    what = KINDS[kind]
    step = Step(prefill_sequences=2, prefill_tokens=7, prefill_context=4, decode_sequences=3, decode_context=10)
    prefill = msgspec.structs.replace(step, decode_sequences=0, decode_context=0)
    decode = msgspec.structs.replace(step, prefill_sequences=0, prefill_tokens=0, prefill_context=0)
    parts = [operators(what, each, counting=counting) for each in (prefill, decode)]
    whole = operators(what, step, counting=counting)
    for field in ("flop", "activation_bytes", "kv_bytes"):
        expected = total(parts[0], field) + total(parts[1], field)
        assert total(whole, field) == pytest.approx(expected, rel=1e-12), field
    # Weights are read once, so a mixed step reads fewer than both and no fewer than either.
    weights = [total(ops, "weight_bytes") for ops in parts]
    assert total(whole, "resident_bytes") == pytest.approx(total(parts[0], "resident_bytes"), rel=1e-12)
    assert max(weights) <= total(whole, "weight_bytes") < sum(weights)


def test_operators_carry_where_their_numbers_came_from():
    """F-04: every recorded reason gives the operator's own number."""
    for what in KINDS.values():
        for counting in ("kernels", "stages", "published", "weights"):
            for op in operators(what, mixed(), Layout(tp=2, cp=2), counting=counting):
                for reason in op.why:
                    if hasattr(op, reason.quantity):
                        value = reason.formula(*reason.arguments)
                        assert value == getattr(op, reason.quantity), (op.name, reason.quantity)


# --------------------------------------------------------------------------------------------------------- formulas

BY_FORMULA = [
    (f.matmul_flop, (3, 5, 7), 2 * 3 * 5 * 7),
    (f.grouped_matmul_flop, (3, 5, 7), 2 * 3 * 5 * 7),
    (f.batched_matmul_flop, (2, 3, 5, 7), 2 * 2 * 3 * 5 * 7),
    (f.weight_bytes, (5, 7, 2), 70),
    (f.grouped_weight_bytes, (3, 5, 7, 2), 210),
    (f.matmul_activation_bytes, (3, 5, 7, 2), 2 * (3 * 7 + 3 * 5)),
    (f.distinct_experts, (4, 1, 2), 4 * (1 - 9 / 16)),
    (f.causal_pairs, (3, 10), 11 + 12 + 13),
    (f.windowed_pairs, (5, 2, 4), 3 + 4 + 4 + 4 + 4),
    (f.compressed_pairs, (10, 6, 4), 11.5),
    (f.attention_flop, (7, 2, 3, 5), 2 * 7 * 2 * (3 + 5)),
    (f.cache_bytes, (2, 3, 5, 0.5), 15),
    (f.query_output_bytes, (3, 2, 5, 7, 2), 3 * 2 * (5 + 7) * 2),
    (f.elementwise_bytes, (3, 5, 2, 2), 60),
    (f.elementwise_flop, (3, 5, 4), 60),
    (f.recurrence_flop, (3, 7, 5), 105),
    (f.chunked_recurrence_flop, (3, 2, 4, 5, 7), 3 * 2 * (2 * 4 * (5 + 7) + 4 * 5 * 7)),
    (f.vector_message, (3, 5, 2), 30),
    (f.partial_output_message, (3, 2, 5), 4 * 3 * 2 * (5 + 2)),
    (f.score_message, (3, 5, 2), 4 * 3 * 5 * 2),
    (f.routed_message, (3, 2, 5, 2), 60),
    (f.weights_step_flop, (7, 3), 42),
    (f.published_weight_bytes, (7, 2, 4), 3.5),
    (f.residual_traffic, (2, 3, 5), 4 * 2 * 3 * 5 * 2),
]


@pytest.mark.parametrize(("formula", "arguments", "by_hand"), BY_FORMULA, ids=[row[0].__name__ for row in BY_FORMULA])
def test_formulas_by_hand(formula, arguments, by_hand):
    """F-06: every counting formula at small unequal numbers, each written out; arrays give the same."""
    assert formula(*arguments) == pytest.approx(by_hand, rel=1e-15)
    arrays = formula(*[np.array([x, x]) for x in arguments])
    assert arrays == pytest.approx([by_hand] * 2, rel=1e-15)


# ------------------------------------------------------------------------------------------- whole published models


@pytest.mark.parametrize("name", catalog.model_names())
def test_resident_weights_are_the_published_parameters(name):
    """A-037, D-911: over all operators, resident weights are exactly the model's parameters."""
    what: Model = hf.load(name)
    for step in (PREFILL, DECODE):
        for counting in ("kernels", "stages"):
            resident = total(operators(what, step, counting=counting), "resident_bytes")
            assert resident == pytest.approx(2 * what.params(), rel=1e-12), counting
    assert graph.total_weight_bytes(what, Precision()) == pytest.approx(2 * what.params(), rel=1e-12)


@pytest.mark.parametrize("name", [*catalog.model_names(), *KINDS])
def test_every_stage_lies_within_attention_or_the_rest(name):
    """E-27: grains nest, which is what orders them: no stage mixes attention with matrix products."""
    what = KINDS[name] if name in KINDS else hf.load(name)
    for counting in ("kernels", "stages"):
        halves: dict[str, set[bool]] = {}
        for op in operators(what, mixed(), Layout(tp=2, cp=2), counting=counting):
            if not op.collective:
                halves.setdefault(op.stage, set()).add(op.part == "attention")
        assert {stage for stage, parts in halves.items() if len(parts) > 1} == set()


@pytest.mark.parametrize("name", catalog.model_names())
def test_products_of_one_token_use_the_active_parameters(name):
    """A-016, A-032, E-11: FLOP of one decode token's products are two per active matrix weight, head included."""
    what: Model = hf.load(name)
    ops = operators(what, Step(decode_sequences=1, decode_context=1))
    products = [op for op in ops if op.kind in ("gemm", "grouped_gemm")]
    extra = sum(block.count * block.extra_matmul_params for block in what.blocks)
    weights = graph.linear_params(what, active=True) + extra + what.vocab * what.hidden
    assert math.isclose(total(products, "flop"), 2 * weights, rel_tol=1e-9)
