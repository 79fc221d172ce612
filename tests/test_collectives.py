"""Wire formulas and where ranks sit: A-019, A-020, A-024, B-061, D-007, D-009, D-015, D-073, D-083.

Expected times are worked out in the comments from the formulas of the requirements.
"""

import math

import msgspec
import numpy as np
import pytest
from builders import link, machine
from hypothesis import given
from hypothesis import strategies as st

from rooflab import catalog, collectives
from rooflab.placement import (
    devices_per_unit_used,
    groups_used,
    placement_valid,
    ring_hops,
    units_touched,
    units_used,
)
from rooflab.work import Layout, Op

SIP = catalog.system("sip")
ALPHA, BETA = 5e-6, 450e9


def exchange(kind: str, peers, payload, system, layout=None, axis="tp", **how):
    """Seconds of one collective among `peers` ranks of an axis."""
    op = Op(
        name="x", kind="collective", part="collective", collective=kind, peers=peers, message_bytes=payload, axis=axis
    )
    return collectives.exchange_time(
        op, system, layout or Layout(**{axis: peers} if axis in ("tp", "cp") else {}), **how
    )


# -------------------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize(("ranks", "crossover"), [(4, 7.5e6), (8, 5.57e6)])
def test_ring_and_one_shot_cross_where_the_reference_says(ranks, crossover):
    """A-020: α = 5 µs, β = 450 GB/s: equal at 7.5 MB for four ranks and 5.57 MB for eight."""

    def gap(payload):
        ring = collectives.ring_all_reduce(ranks, payload, ALPHA, BETA)
        return ring - collectives.one_shot_all_reduce(ranks, payload, ALPHA, BETA)

    # One-shot wins below, ring above; the reference figures carry three digits.
    assert gap(crossover * 0.999) > 0
    assert gap(crossover * 1.001) < 0


def test_two_ranks_always_use_one_shot():
    """A-020: with two ranks both move n/β once, and one-shot has one latency instead of two."""
    for payload in (1.0, 1e6, 1e12):
        ring = collectives.ring_all_reduce(2, payload, ALPHA, BETA)
        shot = collectives.one_shot_all_reduce(2, payload, ALPHA, BETA)
        assert ring - shot == pytest.approx(ALPHA, rel=1e-3 if payload < 1e9 else 1.0)
        assert shot < ring


def test_formulas_by_hand():
    """A-019, A-020, D-070, D-083: p = 4, n = 1 MB, α = 2 µs, β = 100 GB/s, so that n/β = 10 µs."""
    p, n, alpha, beta = 4, 1e6, 2e-6, 100e9
    close = pytest.approx
    # ring: 2·3·2 + 2·(3/4)·10 = 12 + 15
    assert collectives.ring_all_reduce(p, n, alpha, beta) == close(27e-6)
    # one-shot: 2 + 3·10
    assert collectives.one_shot_all_reduce(p, n, alpha, beta) == close(32e-6)
    # in the network: 2·2 + 10
    assert collectives.in_network_all_reduce(n, alpha, beta) == close(14e-6)
    # gather: 3·2 + (3/4)·10
    assert collectives.all_gather(p, n, alpha, beta) == close(13.5e-6)
    # all-to-all: 2 + (3/4)·10
    assert collectives.all_to_all(p, n, alpha, beta) == close(9.5e-6)
    # ring pass: 3·(2 + 10)
    assert collectives.ring_pass(p, n, alpha, beta) == close(36e-6)
    # send: 2 + 10
    assert collectives.send(n, alpha, beta) == close(12e-6)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather():
    """A-020: the ring all-reduce costs exactly twice the ring gather."""
    for ranks in (2, 3, 8):
        twice = 2.0 * collectives.all_gather(ranks, 3e5, ALPHA, BETA)
        assert collectives.ring_all_reduce(ranks, 3e5, ALPHA, BETA) == pytest.approx(twice)


# ------------------------------------------------------------------------------------------------ choice over links


@given(
    ranks=st.sampled_from([1, 2, 3, 4, 8]),
    payload=st.integers(0, 10**9),
    alpha=st.sampled_from([0.0, 1e-7, 5e-6, 1e-4]),
    beta=st.floats(1e9, 1e12),
)
def test_automatic_choice_is_the_cheaper_of_the_two_candidates(ranks, payload, alpha, beta):
    """A-019, A-024: inside one level the choice is the minimum of ring and one-shot, and one rank costs nothing."""
    system = machine(link(beta, alpha, 8))
    time = exchange("all_reduce", ranks, payload, system)
    candidates = (
        collectives.ring_all_reduce(ranks, payload, alpha, beta),
        collectives.one_shot_all_reduce(ranks, payload, alpha, beta),
    )
    assert time == pytest.approx(min(candidates) if ranks > 1 else 0.0, rel=1e-12, abs=0)


def test_in_network_reduction_competes_where_the_link_has_it():
    """A-024: a third candidate, 2α + n/β, on links that reduce; only while the group stays on that link."""
    inner = link(100e9, 2e-6, 4, in_network_reduce=True)
    # p = 4, n = 1 MB: ring 27 µs, one-shot 32 µs, in the network 14 µs.
    assert exchange("all_reduce", 4, 1e6, machine(inner)) == pytest.approx(14e-6)
    # Eight ranks leave the node over a 10 GB/s network: n/β outside is at least 10⁶/4/10e9 = 25 µs.
    two_nodes = machine(inner, link(10e9, 5e-6, 2))
    assert exchange("all_reduce", 8, 1e6, two_nodes) > 25e-6


@pytest.mark.parametrize(
    ("topology", "shot"), [("switch", True), ("full_mesh", True), ("ring", False), ("torus2d", False)]
)
def test_one_shot_needs_a_way_to_every_rank(topology, shot):
    """A-019, A-020: a small payload over eight ranks, α = 2 µs: one-shot takes one α, the ring 14."""
    time = exchange("all_reduce", 8, 8.0, machine(link(100e9, 2e-6, 8, topology=topology)))
    assert time == pytest.approx((2e-6 if shot else 28e-6), rel=1e-3)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "ring", "send"])
def test_one_peer_sends_nothing(kind):
    """A-024, B-064: whatever the collective, with one rank nothing moves, in scalars and arrays."""
    assert exchange(kind, 1, 1e6, SIP) == 0.0
    times = exchange(kind, np.array([1, 2, 1, 8]), 1e6, SIP)
    assert list(times == 0.0) == [True, False, True, False]


def test_a_device_alone_has_no_links():
    """A-024: a system without links exchanges nothing."""
    assert exchange("all_reduce", 1, 1e6, machine()) == 0.0


@given(
    ranks=st.lists(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 256, 1024]), min_size=1, max_size=5),
    payload=st.integers(0, 10**8),
    kind=st.sampled_from(["all_reduce", "all_gather", "all_to_all", "ring", "send"]),
    algorithm=st.sampled_from(["auto", "ring", "flat", "hierarchical", "none"]),
    name=st.sampled_from(["sip", "dgx-h100", "tpu-v5e-pod", "gb200-nvl72"]),
)
def test_arrays_and_numbers_agree(ranks, payload, kind, algorithm, name):
    """A-019: one array call equals one call a point, for every system shape and algorithm."""
    system = catalog.system(name)
    together = exchange(kind, np.array(ranks), payload, system, algorithm=algorithm)
    apart = [exchange(kind, p, payload, system, algorithm=algorithm) for p in ranks]
    assert np.broadcast_to(together, len(ranks)) == pytest.approx(apart, rel=1e-12, abs=0)


@given(
    ranks=st.sampled_from([2, 8, 16, 64, 512]),
    payload=st.floats(1, 1e9),
    kind=st.sampled_from(["all_reduce", "all_gather", "all_to_all", "ring", "send"]),
    algorithm=st.sampled_from(["auto", "flat", "hierarchical"]),
)
def test_more_bytes_or_slower_links_never_cost_less(ranks, payload, kind, algorithm):
    """A-024: times are non-decreasing in the payload, in latency and in 1/bandwidth, on a hierarchy."""

    def system(slower):
        return machine(link(400e9 / slower, 1e-6 * slower, 8), link(50e9 / slower, 5e-6 * slower, 64))

    plain = exchange(kind, ranks, payload, system(1.0), algorithm=algorithm)
    assert exchange(kind, ranks, payload * 2, system(1.0), algorithm=algorithm) >= plain
    assert exchange(kind, ranks, payload, system(2.0), algorithm=algorithm) == pytest.approx(2 * plain, rel=1e-12)
    assert exchange(kind, ranks, payload, system(1.0), algorithm=algorithm, latency=False) <= plain
    assert exchange(kind, ranks, payload, system(1.0), algorithm=algorithm, efficiency=0.5) >= plain


@given(ranks=st.sampled_from([2, 4, 8, 16, 64, 512]), payload=st.floats(1, 1e9))
def test_automatic_is_never_slower_than_a_named_algorithm(ranks, payload):
    """A-024, E-07: auto takes the fastest of flat, hierarchical, one-shot and in-network."""
    system = machine(link(400e9, 1e-6, 8), link(50e9, 5e-6, 64))
    best = exchange("all_reduce", ranks, payload, system)
    for algorithm in ("flat", "ring", "hierarchical"):
        assert best <= exchange("all_reduce", ranks, payload, system, algorithm=algorithm)


# ------------------------------------------------------------------------------------------------------- placement


@pytest.mark.parametrize(
    ("layout", "axis", "peers", "units"),
    [
        # Eight PEs a cube. tp ranks fill a cube: ⌈8/8⌉ = 1, ⌈16/8⌉ = 2; on cubes each has one of its own.
        ({"tp": 8}, "tp", 8, 1),
        ({"tp": 16}, "tp", 16, 2),
        ({"tp": 4, "tp_placement": "outer"}, "tp", 4, 4),
        # cp beside tp in one cube: 2 × 4 = 8 PEs; 4 × 4 = 16 PEs spill into two.
        ({"tp": 4, "cp": 2}, "cp", 2, 1),
        ({"tp": 4, "cp": 4}, "cp", 4, 2),
        # cp on cubes: each cp rank takes the cubes of its tp group.
        ({"tp": 8, "cp": 8, "cp_placement": "outer"}, "cp", 8, 8),
        ({"tp": 16, "cp": 4, "cp_placement": "outer"}, "cp", 4, 8),
        # The feed-forward's group follows its scope.
        ({"tp": 8, "cp": 8, "cp_placement": "outer"}, "ffn", 8, 1),
        ({"tp": 8, "cp": 8, "cp_placement": "outer", "ffn_scope": "tp_cp"}, "ffn", 64, 8),
        ({"tp": 8, "cp": 8, "dp": 2, "cp_placement": "outer", "ffn_scope": "tp_cp_dp"}, "ffn", 128, 16),
        # Ranks that share one KV head: tp = 16 over 8 heads, two ranks a head, inside one cube.
        ({"tp": 16, "kv_shard": "split"}, "split", 2, 1),
        # Experts are exchanged over everything a stage holds: 2 · 2 · 8 = 32 PEs, or 2 · 4 groups of cubes.
        ({"tp": 2, "cp": 2, "attention_dp": 8, "ep": 16}, "ep", 16, 4),
        ({"tp": 8, "cp": 2, "cp_placement": "outer", "attention_dp": 4, "ep": 4}, "ep", 4, 8),
        # Pipeline stages follow each other: tp = 8 and pp = 4 are 32 PEs.
        ({"tp": 8, "pp": 4}, "pp", 4, 4),
    ],
)
def test_units_that_an_axis_touches(layout, axis, peers, units):
    """D-007, D-009, D-027: cubes touched by a group of ranks decide the link it uses."""
    assert units_touched(SIP, Layout(**layout), axis, peers) == units


def test_the_link_follows_the_units_touched():
    """D-073: inside a cube 512 GB/s and 20 ns, between cubes 128 GB/s and 100 ns, between SIPs 50 GB/s and 1 µs."""
    payload = 8192.0
    for layout, peers, alpha, beta in [
        ({"tp": 8}, 8, 20e-9, 512e9),
        ({"tp": 16}, 16, 100e-9, 128e9),
        ({"tp": 16, "tp_placement": "outer"}, 16, 100e-9, 128e9),
        ({"tp": 32, "tp_placement": "outer"}, 32, 1e-6, 50e9),
    ]:
        time = exchange("all_reduce", peers, payload, SIP, Layout(**layout), algorithm="flat")
        by_hand = 2 * (peers - 1) * alpha + 2 * (peers - 1) / peers * payload / beta
        assert time == pytest.approx(by_hand)


def test_hierarchical_all_reduce_by_hand():
    """D-073: reduce-scatter in the cube, all-reduce of the shares across, all-gather in the cube.

    64 ranks in 8 cubes of 8, n = 64,000 B. Inside, twice: 7·20 ns + 7/8·64,000/512e9 = 140 + 109.375 ns; across: 8 ranks,
    8,000 B: 14·100 ns + 14/8·8,000/128e9 = 1,400 + 109.375 ns. Together 2·249.375 + 1,509.375 = 2,008.125 ns.
    """
    layout = Layout(tp=8, cp=8, cp_placement="outer", ffn_scope="tp_cp")
    time = exchange("all_reduce", 64, 64000.0, SIP, layout, "ffn", algorithm="hierarchical")
    assert time == pytest.approx(2008.125e-9)


@pytest.mark.parametrize(("units", "rows"), [(1, 1), (4, 2), (6, 2), (7, 1), (12, 3), (16, 4), (36, 6)])
def test_grids_are_as_square_as_their_factors_allow(units, rows):
    """D-015: r is the largest factor not above √n."""
    assert collectives.grid_rows(units) == rows
    assert list(collectives.grid_rows(np.array([units, 16.0]))) == [rows, 4]


def test_meshes_and_tori_reduce_along_both_dimensions():
    """D-015: n SIPs as r × c: latency steps 2(n−1) on a ring, 2[(r−1)+(c−1)] on a grid; the bytes are the same."""
    assert collectives.grid_steps(3, 4) == 10
    layout = Layout(tp=16 * 16, tp_placement="outer")  # 256 cubes: 16 SIPs, a grid of 4 × 4
    ring = exchange("all_reduce", 256, 0.0, SIP, layout, algorithm="flat")
    assert ring == pytest.approx(2 * 255 * 1e-6)
    for topology in ("mesh2d", "torus2d"):
        grid = outer(topology)
        assert exchange("all_reduce", 256, 0.0, grid, layout, algorithm="flat") == pytest.approx(2 * 6 * 1e-6)
        more = exchange("all_reduce", 256, 1e6, grid, layout, algorithm="flat")
        assert more == pytest.approx(12e-6 + 2 * 255 / 256 * 1e6 / 50e9)


def outer(topology: str):
    """The SIP system with its outermost level in another shape."""
    *inside, last = SIP.links
    return msgspec.structs.replace(SIP, links=(*inside, msgspec.structs.replace(last, topology=topology)))


def test_a_mesh_has_no_wrap_link():
    """D-015, D-029: the closing hop of a ring costs r − 1 hops on a mesh and one on a ring or torus."""
    layout = Layout(cp=256, cp_placement="outer")  # 256 cubes, 16 SIPs, 4 rows
    times = {shape: exchange("ring", 256, 0.0, outer(shape), layout, "cp") for shape in ("ring", "torus2d", "mesh2d")}
    assert times["ring"] == times["torus2d"] == pytest.approx(255 * 1e-6)
    # Every step costs its slowest link (D-010), so each of the 255 steps waits for the closing hop.
    assert times["mesh2d"] == pytest.approx(255 * 3e-6)


@pytest.mark.parametrize(
    ("layout", "cubes", "live", "sips"),
    [
        ({}, 1, 1, 1),
        ({"tp": 8}, 1, 8, 1),
        ({"tp": 4, "cp": 4}, 2, 8, 1),
        ({"tp": 8, "cp": 8, "cp_placement": "outer"}, 8, 8, 1),
        ({"tp": 4, "tp_placement": "outer", "cp": 2}, 4, 2, 1),
        # ⌈16/8⌉ · PP · DP: 2 · 3 · 4 cubes, of sixteen in a SIP
        ({"tp": 16, "pp": 3, "dp": 4}, 24, 8, 2),
        ({"tp": 8, "ep": 4, "ep_mode": "dedicated", "pp": 5}, 20, 8, 2),
        ({"tp": 2, "attention_dp": 3}, 3, 2, 1),
    ],
)
def test_cubes_and_sips_a_layout_occupies(layout, cubes, live, sips):
    """D-008: ⌈intra/8⌉ × TP and CP on cubes × PP × DP × EP; PEs at work in a cube; sixteen cubes a SIP."""
    chosen = Layout(**layout)
    assert (units_used(SIP, chosen), devices_per_unit_used(SIP, chosen), groups_used(SIP, chosen)) == (
        cubes,
        live,
        sips,
    )


@pytest.mark.parametrize(
    ("layout", "hops"),
    [
        ({}, (0, 0)),
        # Eight cp ranks on eight cubes stay in one SIP of sixteen.
        ({"cp": 8, "tp": 8, "cp_placement": "outer"}, (8, 0)),
        # 32 ranks on 32 cubes are two SIPs: one link across, and the closing one.
        ({"cp": 32, "tp": 8, "cp_placement": "outer"}, (30, 2)),
        # 48, 64 and 96 ranks are 3, 4 and 6 SIPs (D-002).
        ({"cp": 48, "tp": 8, "cp_placement": "outer"}, (45, 3)),
        ({"cp": 96, "tp": 8, "cp_placement": "outer"}, (90, 6)),
    ],
)
def test_ring_hops_inside_and_across(layout, hops):
    """D-010: links of the ring that cross a SIP, the closing one included; all links together are CP."""
    assert ring_hops(SIP, Layout(**layout)) == hops


def test_ranks_beyond_a_cube_are_an_invalid_placement():
    """D-007: a placement is valid while the ranks on PEs fit a cube."""
    assert placement_valid(SIP, Layout(tp=8, cp=8, cp_placement="outer"))
    assert not placement_valid(SIP, Layout(tp=16))
    assert not placement_valid(SIP, Layout(tp=4, cp=4))


def test_times_are_finite_over_every_system_of_the_catalog():
    """F-02: no system of the catalog makes a collective infinite, negative or NaN."""
    for name in (*catalog.system_names(), *catalog.device_names()):
        system = catalog.system(name)
        for peers in (1, 2, 8, 64):
            if peers <= system.devices:
                time = exchange("all_reduce", peers, 1e6, system)
                assert math.isfinite(time), name
                assert (time > 0) == (peers > 1), name


def test_the_formula_behind_an_exchange_is_named():
    """D-083, D-103: one level of links has a formula with the time that was priced; levels that combine have none.

    Eight ranks, 100 MB, 5 µs and 450 GB/s: a ring takes 2·7·5 µs + 2·7/8·100 MB / 450 GB/s = 70 + 388.9 µs.
    """
    op = Op(
        name="x", kind="collective", part="collective", collective="all_reduce", peers=8, message_bytes=1e8, axis="tp"
    )
    flat = machine(link(BETA, ALPHA, 8, topology="ring"))
    layout, ends = Layout(tp=8), {"efficiency": 1.0, "latency": True}
    seconds = 70e-6 + 1.75 * 1e8 / BETA
    form, arguments = collectives.closed_form(op, flat, layout, seconds, **ends)
    assert form is collectives.ring_all_reduce
    assert arguments == (8.0, 1e8, ALPHA, BETA)
    assert collectives.exchange_time(op, flat, layout) == pytest.approx(seconds)
    assert collectives.closed_form(op, flat, layout, 1.5 * seconds, **ends) is None
    assert collectives.closed_form(op, flat, layout, 0.0, **ends) is None
