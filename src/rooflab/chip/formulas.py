"""The formulas of the chip roofline: one short function each, the text behind every number of the report.

Each body is a single expression over its parameters, as in `graph.formulas`. Everything is at peak rates, for one
device that holds the whole model; numbers or arrays in SI units. Products start with a float where counts meet.
"""

from __future__ import annotations

from typing import Any

from rooflab.num import floor, maximum

Number = Any


def arithmetic_intensity(flop_rate: Number, memory_bandwidth: Number) -> Number:
    """FLOP a chip can do in the time it reads one byte: the ridge of its roofline.

    Counts: peak rate over peak bandwidth, nothing of the model.
    Source: requirement C-002.
    Holds: always.
    """
    return flop_rate / memory_bandwidth


def sparsity(params: Number, active_params: Number) -> Number:
    """Weights a step reads for each weight a token multiplies: 1 for dense models.

    Counts: attention and feed-forward weights of all layers.
    Source: requirements C-003, C-013.
    Holds: batches large enough to touch every expert.
    """
    return params / active_params


def critical_batch(flop_rate: Number, weight_size: Number, memory_bandwidth: Number, sparsity: Number) -> Number:
    """Batch at which reading the weights takes as long as multiplying by them.

    Counts: weights and their products; the cache is left out.
    Source: requirement C-003.
    Holds: short contexts.
    """
    return flop_rate * weight_size / (2.0 * memory_bandwidth) * sparsity


def balance_context(active_params: Number, memory_bandwidth: Number, flop_rate: Number, kv_per_token: Number) -> Number:
    """Context at which reading one sequence's cache takes as long as computing its token.

    Counts: two FLOP per active weight against the cache's bytes.
    Source: requirement C-004.
    Holds: a cache that is read in proportion to the context.
    """
    return 2.0 * active_params * memory_bandwidth / (flop_rate * kv_per_token)


def knee_batch(critical_batch: Number, context: Number, balance_context: Number) -> Number:
    """Batch at which compute catches up with all memory traffic, weights and cache together.

    Counts: weights, cache and products.
    Source: requirement C-005.
    Holds: contexts below the balance context; past it there is no such batch.
    """
    return critical_batch / (1.0 - context / balance_context)


def weight_time(params: Number, weight_size: Number, memory_bandwidth: Number) -> Number:
    """Time one step takes to read the weights, whatever the batch.

    Counts: every weight of all layers once.
    Source: requirement C-007.
    Holds: batches large enough to touch every expert.
    """
    return 1.0 * params * weight_size / memory_bandwidth


def compute_time(active_params: Number, batch: Number, flop_rate: Number) -> Number:
    """Time one step takes to multiply by the weights.

    Counts: two FLOP per active weight and sequence; attention scores are left out.
    Source: requirement C-007.
    Holds: peak rate.
    """
    return 2.0 * active_params * batch / flop_rate


def kv_time(batch: Number, context: Number, kv_per_token: Number, memory_bandwidth: Number) -> Number:
    """Time one step takes to read the caches of all sequences.

    Counts: the bytes a decode step reads per cached token.
    Source: requirement C-007.
    Holds: every sequence has the same context.
    """
    return 1.0 * batch * context * kv_per_token / memory_bandwidth


def step_time(weight_time: Number, compute_time: Number, kv_time: Number) -> Number:
    """Time of one decode step: the three terms one after the other.

    Counts: no overlap of memory and compute, no communication.
    Source: requirement C-007.
    Holds: the back-of-envelope view, at most twice the overlapped time.
    """
    return weight_time + compute_time + kv_time


def t_com(active_params: Number, flop_rate: Number) -> Number:
    """Compute time per token.

    Counts: two FLOP per active weight.
    Source: requirement C-009.
    Holds: peak rate.
    """
    return 2.0 * active_params / flop_rate


def t_mem_short(params: Number, weight_size: Number, memory_bandwidth: Number, batch: Number) -> Number:
    """Weight-reading time per token: one read shared by the batch.

    Counts: every weight of all layers once a step.
    Source: requirement C-009.
    Holds: batches large enough to touch every expert.
    """
    return 1.0 * params * weight_size / (memory_bandwidth * batch)


def t_mem_long(context: Number, kv_per_token: Number, memory_bandwidth: Number) -> Number:
    """Cache-reading time per token, which no batch makes smaller.

    Counts: the bytes a decode step reads per cached token.
    Source: requirement C-009.
    Holds: a cache that is not shared between sequences.
    """
    return 1.0 * context * kv_per_token / memory_bandwidth


def good_batch(critical_batch: Number) -> Number:
    """Batch worth aiming for: twice the critical one.

    Counts: weights and their products; the weights then cost half as much as the products.
    Source: requirement C-010.
    Holds: contexts well below the balance context.
    """
    return 2.0 * critical_batch


def utilization(context: Number, balance_context: Number) -> Number:
    """Share of the peak rate that large batches approach at a context.

    Counts: products against products and cache; weights are spread over the batch.
    Source: requirement C-012.
    Holds: large batches.
    """
    return 1.0 / (1.0 + context / balance_context)


def max_batch(slo: Number, weight_time: Number, compute_time: Number, kv_time: Number) -> Number:
    """Largest batch whose step stays within a limit; the last two times are those of a batch of one.

    Counts: the three terms of the step.
    Source: requirement C-016.
    Holds: 0 where even one sequence takes longer.
    """
    return maximum(floor((slo - weight_time) / (compute_time + kv_time)), 0.0)


def memory_batch(memory: Number, weights: Number, sequence_bytes: Number) -> Number:
    """Sequences whose caches fit beside the weights in one device's memory.

    Counts: weights and caches of one device; working buffers are left out.
    Source: requirement D-239.
    Holds: every sequence has the same context.
    """
    return maximum(floor((memory - weights) / sequence_bytes), 0.0)
