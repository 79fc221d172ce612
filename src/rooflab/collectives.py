"""Wire formulas: how long ranks take to exchange a payload over the levels of a system.

Every function takes ranks, a payload [byte], a link's latency [s] per message step and its rate [byte/s, one way, per
device], and returns seconds; with one rank nothing moves. `exchange_time` places a layout's ranks on the levels and picks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflab import num
from rooflab.placement import units_touched
from rooflab.system import Link, System
from rooflab.work import Layout, Op

Number = Any


def ring_all_reduce(ranks: Number, payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time of a ring all-reduce: 2(ranks − 1) steps that each move its share of the payload.

    Counts: latency of every step and the bytes each rank sends.
    Source: requirement A-020.
    Holds: equal links around the ring.
    """
    return 2.0 * (ranks - 1.0) * latency + 2.0 * (ranks - 1.0) / ranks * payload / link_rate


def one_shot_all_reduce(ranks: Number, payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time of a one-shot all-reduce: every rank sends its whole payload to every other at once.

    Counts: one latency and (ranks − 1) payloads per rank.
    Source: requirement A-020.
    Holds: a switch or full mesh between the ranks.
    """
    return latency + (ranks - 1.0) * payload / link_rate


def in_network_all_reduce(payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time of an all-reduce whose sums are formed in the switch: one payload up, one down, at the same time.

    Counts: two latencies and one payload per direction.
    Source: refs.toml `in_network_reduction`.
    Holds: links with in-network reduction.
    """
    return 2.0 * latency + payload / link_rate


def all_gather(ranks: Number, payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time to gather (or reduce-scatter) a payload spread over ranks, ring.

    Counts: (ranks − 1) steps of a rank's share of the payload.
    Source: refs.toml `collectives`.
    Holds: equal links around the ring.
    """
    return (ranks - 1.0) * latency + (ranks - 1.0) / ranks * payload / link_rate


def all_to_all(ranks: Number, payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time for every rank to send its share of the payload to each other rank.

    Counts: one latency (messages are concurrent) and (ranks − 1)/ranks of the payload.
    Source: requirement D-083.
    Holds: balanced destinations.
    """
    return latency + (ranks - 1.0) / ranks * payload / link_rate


def ring_pass(ranks: Number, payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time of a ring in which every rank's block visits all others: ranks − 1 hops.

    Counts: each hop's latency and bytes.
    Source: requirement D-070.
    Holds: hops one after another; overlap is decided by the profile.
    """
    return (ranks - 1.0) * (latency + payload / link_rate)


def send(payload: Number, latency: Number, link_rate: Number) -> Number:
    """Time to send a payload to a neighbour.

    Counts: one latency and the payload.
    Source: the α–β model.
    Holds: always.
    """
    return latency + payload / link_rate


def grid_steps(rows: Number, columns: Number) -> Number:
    """Latency steps of an all-reduce on a mesh or torus: reduce and broadcast along both dimensions.

    Counts: rows − 1 and columns − 1 hops, twice.
    Source: requirement D-015.
    Holds: rectangular grids.
    """
    return 2.0 * ((rows - 1.0) + (columns - 1.0))


def grid_rows(units: Number) -> Number:
    """Rows of the squarest full grid of that many units: the largest factor not above its square root."""
    if num.is_array(units):
        import numpy

        values, inverse = numpy.unique(units, return_inverse=True)
        return numpy.array([grid_rows(float(v)) for v in values])[inverse].reshape(units.shape)
    count = max(int(units), 1)
    return float(next(rows for rows in range(math.isqrt(count), 0, -1) if count % rows == 0))


DIRECT = ("switch", "full_mesh")
"""Topologies on which every rank reaches every other at once, as a one-shot all-reduce needs."""


class Reach:
    """The levels a group of ranks spans: the slowest link it uses, and its ranks on the inner level."""

    __slots__ = ("alpha", "beta", "direct", "inner_ranks", "level", "outer_units", "units")

    def __init__(self, system: System, layout: Layout, axis: str, peers: Number, efficiency: Number, latency: bool):
        links = system.links
        self.units = units_touched(system, layout, axis, peers)
        self.alpha: Number = 0.0
        self.beta: Number = 0.0
        self.level: Number = 0
        bounds = _outer_bounds(links)
        alphas = [link.latency if latency else 0.0 for link in links]
        betas = [link.bandwidth * efficiency for link in links]
        self.alpha, self.beta = alphas[0], betas[0]
        self.direct: Number = links[0].topology in DIRECT
        for index in range(1, len(links)):
            beyond = self.units > bounds[index - 1]
            self.alpha = num.where(beyond, alphas[index], self.alpha)
            self.beta = num.where(beyond, betas[index], self.beta)
            self.level = num.where(beyond, index, self.level)
            self.direct = num.where(beyond, links[index].topology in DIRECT, self.direct)
        self.inner_ranks = num.maximum(peers / self.units, 1.0)
        self.outer_units = num.ceil(self.units / bounds[-2]) if len(links) > 2 else self.units


def _outer_bounds(links: tuple[Link, ...]) -> list[float]:
    """Units of the second level that one unit of each level holds: [1, nodes per rack, …]."""
    bounds = [1.0]
    for link in links[1:]:
        bounds.append(bounds[-1] * link.size)
    return bounds


def exchange_time(
    op: Op,
    system: System,
    layout: Layout,
    *,
    algorithm: str = "auto",
    efficiency: Number = 1.0,
    latency: bool = True,
) -> Number:
    """Seconds one execution of a collective takes, 0 where it has one rank.

    algorithm: auto takes the fastest of ring, hierarchical, and one-shot and in-network where the level offers them; flat and
    ring use one ring at the slowest level the ranks touch; hierarchical reduces inside the inner level first.
    """
    if not system.links or algorithm == "none":
        return 0.0 * op.peers * op.message_bytes
    p, n = op.peers, op.message_bytes
    safe = num.maximum(p, 1.0)
    reach = Reach(system, layout, op.axis, safe, efficiency, latency)
    alpha, beta = reach.alpha, reach.beta
    if op.collective == "all_reduce":
        time = _all_reduce(safe, n, reach, system, layout, algorithm, efficiency, latency)
    elif op.collective == "all_to_all":
        time = all_to_all(safe, n, alpha, beta)
    elif op.collective in ("all_gather", "reduce_scatter"):
        time = all_gather(safe, n, alpha, beta)
    elif op.collective == "ring":
        time = ring_pass(safe, n, alpha * _ring_wrap(reach, system), beta)
    else:
        time = send(n, alpha, beta)
    return num.where(p > 1, time, 0.0 * time)


def _ring_wrap(reach: Reach, system: System) -> Number:
    """Hops of a ring's closing link at the outermost level: one, or rows − 1 on a mesh, which has no wrap (D-015)."""
    outer = system.links[-1]
    if outer.topology != "mesh2d":
        return 1.0
    at_outer = reach.level == len(system.links) - 1
    return num.where(at_outer, num.maximum(grid_rows(reach.outer_units) - 1.0, 1.0), 1.0)


def _all_reduce(
    p: Number,
    n: Number,
    reach: Reach,
    system: System,
    layout: Layout,
    algorithm: str,
    efficiency: Number,
    latency: bool,
) -> Number:
    """All-reduce by the chosen algorithm over the levels a group spans."""
    alpha, beta = reach.alpha, reach.beta
    flat = ring_all_reduce(p, n, alpha, beta)
    first, outer = system.links[0], system.links[-1]
    if outer.topology in ("mesh2d", "torus2d") and len(system.links) > 1:
        rows = grid_rows(reach.outer_units)
        steps = grid_steps(rows, reach.outer_units / rows) * alpha + 2.0 * (p - 1.0) / p * n / beta
        flat = num.where(reach.level == len(system.links) - 1, steps, flat)
    if algorithm in ("ring", "flat"):
        return flat
    hierarchical = _hierarchical(p, n, reach, system, efficiency, latency)
    if algorithm == "hierarchical":
        return hierarchical
    best = num.where(reach.direct, num.minimum(flat, one_shot_all_reduce(p, n, alpha, beta)), flat)
    if first.in_network_reduce:
        alone = in_network_all_reduce(n, first.latency if latency else 0.0, first.bandwidth * efficiency)
        best = num.where(reach.units > 1, best, num.minimum(best, alone))
    return num.minimum(best, hierarchical)


def _hierarchical(p: Number, n: Number, reach: Reach, system: System, efficiency: Number, latency: bool) -> Number:
    """Reduce-scatter inside the inner level, all-reduce its shares across units, all-gather inside (requirement D-073)."""
    first = system.links[0]
    inner = reach.inner_ranks
    alpha, beta = (first.latency if latency else 0.0), first.bandwidth * efficiency
    inside = 2.0 * all_gather(inner, n, alpha, beta)
    across = num.maximum(p / inner, 1.0)
    outside = ring_all_reduce(across, n / inner, reach.alpha, reach.beta)
    return inside + num.where(across > 1, outside, 0.0 * outside)


_FORMS: dict[str, tuple[Callable[..., Number], ...]] = {
    "all_reduce": (ring_all_reduce, one_shot_all_reduce, in_network_all_reduce),
    "all_to_all": (all_to_all,),
    "all_gather": (all_gather,),
    "reduce_scatter": (all_gather,),
    "ring": (ring_pass,),
    "send": (send,),
}
"""Formulas of a collective over one level of links."""


def closed_form(
    op: Op, system: System, layout: Layout, seconds: float, *, efficiency: Number, latency: bool
) -> tuple[Callable[..., Number], tuple[float, ...]] | None:
    """The formula of one level of links that gives these seconds, with its arguments; None where levels are combined."""
    if not system.links or not seconds:
        return None
    reach = Reach(system, layout, op.axis, op.peers, efficiency, latency)
    ends = (float(op.message_bytes), float(reach.alpha), float(reach.beta))
    for form in _FORMS.get(op.collective, ()):
        arguments = ends if form in (in_network_all_reduce, send) else (float(op.peers), *ends)
        if math.isclose(float(form(*arguments)), seconds, rel_tol=1e-9):
            return form, arguments
    return None
