"""The counting formulas: one short function each, the text behind every "why this number?".

Each body is a single expression over its parameters, so the displayed formula is the evaluated one: `explain` prints the
expression, puts the numbers in, and a test evaluates the printed line. Arguments are per device and per execution;
numbers or arrays. Products start with a float because NumPy integers wrap silently,
and the factor most often an array (rows) comes last, so that the rest is computed once.
"""

from __future__ import annotations

from typing import Any

from rooflab.num import clip

Number = Any


def matmul_flop(m: Number, n: Number, k: Number) -> Number:
    """FLOP of a matrix product: a multiply and an add for each of m × n × k terms.

    Counts: the product only; tile padding is priced, not counted.
    Source: requirement A-016.
    Holds: always.
    """
    return 2.0 * n * k * m


def grouped_matmul_flop(pairs: Number, n: Number, k: Number) -> Number:
    """FLOP of the experts' products: every (token, expert) pair multiplies one n × k matrix.

    Counts: pairs this device computes, balanced routing; the routing itself is another operator.
    Source: requirement A-033.
    Holds: balanced routing.
    """
    return 2.0 * n * k * pairs


def batched_matmul_flop(groups: Number, m: Number, n: Number, k: Number) -> Number:
    """FLOP of separate products of m × n × k (one a head).

    Counts: the products only.
    Source: requirement A-035.
    Holds: always.
    """
    return 2.0 * groups * m * n * k


def weight_bytes(n: Number, k: Number, size: Number) -> Number:
    """Bytes of one n × k weight matrix, read once per execution.

    Counts: scales where the number format has them.
    Source: requirement A-016.
    Holds: the matrix does not stay on chip between executions.
    """
    return 1.0 * n * k * size


def grouped_weight_bytes(groups: Number, n: Number, k: Number, size: Number) -> Number:
    """Bytes of the distinct expert (or per-head) matrices one execution reads.

    Counts: each touched matrix once, however many tokens use it.
    Source: requirement A-033.
    Holds: tokens of one expert are grouped.
    """
    return 1.0 * groups * n * k * size


def matmul_activation_bytes(m: Number, n: Number, k: Number, size: Number) -> Number:
    """Bytes of activations a matrix product reads (m × k) and writes (m × n).

    Counts: one read and one write; re-reads between tiles are left out.
    Source: requirement A-016.
    Holds: inputs and outputs do not stay on chip.
    """
    return 1.0 * (k + n) * size * m


def distinct_experts(experts: Number, topk: Number, tokens: Number) -> Number:
    """Expected number of different experts that the tokens touch under uniform routing.

    Counts: experts with at least one token.
    Source: requirement A-033.
    Holds: uniform, independent routing; skewed routing touches fewer.
    """
    return experts * (1.0 - (1.0 - topk / experts) ** tokens)


def causal_pairs(new: Number, cached: Number) -> Number:
    """Query–key pairs of new causal queries after cached tokens: each query sees the cache, its predecessors and itself.

    Counts: exactly the visible pairs.
    Source: requirement A-017.
    Holds: full causal attention.
    """
    return 1.0 * new * cached + new * (new + 1.0) / 2.0


def windowed_pairs(new: Number, cached: Number, window: Number) -> Number:
    """Query–key pairs of new causal queries after cached tokens when each sees at most a window of keys.

    Counts: exactly the visible pairs: the first queries see less than the window, the rest exactly the window.
    Source: requirement A-017 with a window; hand derivation in the tests.
    Holds: sliding windows, sparse selection of so many keys; an upper bound for chunked attention.
    """
    return (
        1.0 * clip(window - cached, 0.0, new) * cached
        + clip(window - cached, 0.0, new) * (clip(window - cached, 0.0, new) + 1.0) / 2.0
        + (new - clip(window - cached, 0.0, new)) * window
    )


def compressed_pairs(near: Number, far: Number, ratio: Number) -> Number:
    """Query–entry pairs where older tokens are cached as one entry for several, beside the window's own keys.

    Counts: near pairs with plain keys, and one for several of the far pairs with tokens seen through entries.
    Source: requirement A-017 with a compressed cache.
    Holds: an upper bound by less than one entry a query, since an entry exists only once its tokens are complete.
    """
    return 1.0 * near + far / ratio


def attention_flop(pairs: Number, heads: Number, head_dim: Number, value_dim: Number) -> Number:
    """FLOP of scores and of the weighted sum: twice its two widths per visible pair and head.

    Counts: both products; softmax is left out (a few per cent).
    Source: requirements A-017, A-035.
    Holds: fused kernels that skip masked tiles.
    """
    return 2.0 * pairs * heads * (head_dim + value_dim)


def cache_bytes(sequences: Number, tokens: Number, elements: Number, size: Number) -> Number:
    """Bytes of cache entries read or written: every sequence's tokens, each of so many elements.

    Counts: keys and values (or the latent) of one layer on one device, each once.
    Source: requirements A-017, B-026.
    Holds: one pass over the cache per query block; prefill re-reads are left out.
    """
    return 1.0 * sequences * tokens * elements * size


def query_output_bytes(tokens: Number, heads: Number, head_dim: Number, value_dim: Number, size: Number) -> Number:
    """Bytes of queries read and outputs written by attention.

    Counts: one read, one write; scores never reach memory.
    Source: requirement A-017.
    Holds: fused attention.
    """
    return 1.0 * tokens * heads * (head_dim + value_dim) * size


def elementwise_bytes(tokens: Number, width: Number, passes: Number, size: Number) -> Number:
    """Bytes of an elementwise kernel that moves so many vectors per token.

    Counts: each read and each write once.
    Source: requirement A-018.
    Holds: vectors do not stay on chip.
    """
    return 1.0 * tokens * width * passes * size


def elementwise_flop(tokens: Number, width: Number, operations: Number) -> Number:
    """FLOP of an elementwise kernel, so many per element.

    Counts: adds, multiplies and one per transcendental.
    Source: requirements A-018, D-060.
    Holds: always; small beside the bytes.
    """
    return 1.0 * tokens * width * operations


def recurrence_flop(tokens: Number, state: Number, per_element: Number) -> Number:
    """FLOP of a recurrence stepped token by token: decay, update and read-out of every state element.

    Counts: so many FLOP per state element and token.
    Source: the recurrences' definitions (refs.toml `mamba2`, `gated_delta_net`).
    Holds: decode.
    """
    return 1.0 * tokens * state * per_element


def chunked_recurrence_flop(tokens: Number, heads: Number, chunk: Number, key_dim: Number, value_dim: Number) -> Number:
    """FLOP of a recurrence in chunked form: attention inside chunks and one state update and read-out per token.

    Counts: 2·chunk·(key + value) inside the chunk and 4·key·value with the state, per token and head.
    Source: refs.toml `mamba2` (state-space duality), `gated_delta_net`.
    Holds: prefill with chunks shorter than the prompt.
    """
    return 1.0 * tokens * heads * (2.0 * chunk * (key_dim + value_dim) + 4.0 * key_dim * value_dim)


def vector_message(tokens: Number, width: Number, size: Number) -> Number:
    """Payload of a collective over one vector a token.

    Counts: the tensor's own bytes; the algorithm's factor is priced.
    Source: requirement A-021.
    Holds: always.
    """
    return 1.0 * tokens * width * size


def partial_output_message(tokens: Number, heads: Number, value_dim: Number) -> Number:
    """Payload that merges partial attention over context-parallel ranks: output, running maximum and sum in fp32.

    Counts: the value width and 2 more numbers of 4 bytes per token and head.
    Source: requirement D-067.
    Holds: exact merging of partial softmax.
    """
    return 4.0 * tokens * heads * (value_dim + 2.0)


def score_message(tokens: Number, keys: Number, heads: Number) -> Number:
    """Payload that adds partial scores when ranks split a KV head's width: fp32 scores.

    Counts: 4 bytes per token, visible key and query head of the group.
    Source: requirement D-072.
    Holds: KV heads split over ranks, with tp above them.
    """
    return 4.0 * tokens * keys * heads


def routed_message(tokens: Number, topk: Number, width: Number, size: Number) -> Number:
    """Payload of dispatching (or combining) tokens to their experts.

    Counts: topk copies of each token; copies to experts on one device are not merged (an upper bound).
    Source: requirement D-083.
    Holds: all-to-all over the expert-parallel ranks.
    """
    return 1.0 * tokens * topk * width * size


def weights_step_flop(params: Number, tokens: Number) -> Number:
    """FLOP of all linear layers together: two per active parameter and token.

    Counts: linear layers; attention over the cache is apart.
    Source: requirements B-032, C-007.
    Holds: dense products; MoE with active parameters.
    """
    return 2.0 * params * tokens


def published_weight_bytes(params: Number, size: Number, devices: Number) -> Number:
    """Bytes of all weights, evenly divided over the devices.

    Counts: every parameter once per pass.
    Source: requirements B-025, B-038.
    Holds: no weight stays on chip.
    """
    return 1.0 * params * size / devices


def residual_traffic(layers: Number, tokens: Number, width: Number) -> Number:
    """Activation bytes of the calculator's stages: four BF16 vectors per layer and token.

    Counts: 4 × layers × tokens × width × 2 bytes.
    Source: requirements B-035, B-036.
    Holds: the two-stage calculator.
    """
    return 4.0 * layers * tokens * width * 2.0
