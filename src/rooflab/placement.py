"""Where ranks sit: units of a hierarchy that a layout's axes touch, and the ring hops that cross them.

The first level of a system joins devices (PEs in a cube, GPUs in a node), the second joins those units, and so on. Ranks fill
the innermost level in the order tp, cp, attention_dp; an axis placed "outer" gives each of its ranks a unit of its own.
"""

from __future__ import annotations

from typing import Any

from rooflab import num
from rooflab.system import System
from rooflab.work import Layout

Number = Any


def unit_size(system: System) -> float:
    """Devices of one unit of the first level."""
    return float(system.links[0].size) if system.links else 1.0


def units_touched(system: System, layout: Layout, axis: str, peers: Number = 1) -> Number:
    """Units of the second level (nodes, cubes) that the ranks of an axis touch, at most.

    Ranks fill the innermost level in the order tp, cp, attention_dp; an axis placed "outer" gives each rank a unit of its
    own. Requirements D-007–D-009.
    """
    inner = unit_size(system)
    tp, cp = layout.tp, layout.cp
    tp_out, cp_out = layout.tp_placement == "outer", layout.cp_placement == "outer"
    tp_units = tp if tp_out else num.ceil_div(tp, inner)
    if axis == "tp":
        return tp_units
    if axis == "split":
        return num.ceil(tp_units * peers / tp)
    cp_units = cp * tp_units if cp_out else num.ceil_div(cp * (1 if tp_out else tp), inner)
    if axis == "cp":
        return cp_units
    if axis == "ffn":
        if layout.ffn_scope == "tp":
            return tp_units
        return cp_units if layout.ffn_scope == "tp_cp" else cp_units * layout.dp
    packed = not (tp_out or cp_out)
    dedicated = layout.ep if layout.ep_mode == "dedicated" else 1
    group = layout.attention_dp * dedicated
    stage = num.ceil_div(tp * cp * group, inner) if packed else cp_units * group
    if axis in ("ep", "attention_dp"):
        return stage
    return num.ceil_div(tp * cp * group * layout.pp, inner) if packed else stage * layout.pp


def inner_ranks(layout: Layout) -> Number:
    """Ranks that share one unit of the first level: the product of the axes placed "inner" among tp and cp (D-007)."""
    tp = 1 if layout.tp_placement == "outer" else layout.tp
    cp = 1 if layout.cp_placement == "outer" else layout.cp
    return tp * cp


def placement_valid(system: System, layout: Layout) -> Number:
    """Where the inner ranks fit one unit; where not, they spill into further units and pay its link (D-007)."""
    return inner_ranks(layout) <= unit_size(system)


def units_used(system: System, layout: Layout) -> Number:
    """Units of the first level a layout occupies, all replicas together (D-008)."""
    spill = num.ceil_div(inner_ranks(layout) * 1.0, unit_size(system))
    tp = layout.tp if layout.tp_placement == "outer" else 1
    cp = layout.cp if layout.cp_placement == "outer" else 1
    dedicated = layout.ep if layout.ep_mode == "dedicated" else 1
    return spill * tp * cp * layout.pp * layout.dp * layout.attention_dp * dedicated


def devices_per_unit_used(system: System, layout: Layout) -> Number:
    """Devices of a unit that work (D-008)."""
    return num.minimum(inner_ranks(layout) * 1.0, unit_size(system))


def groups_used(system: System, layout: Layout) -> Number:
    """Units of the second level (SIPs, racks) a layout occupies (D-008)."""
    size = float(system.links[1].size) if len(system.links) > 1 else 1.0
    return num.ceil_div(units_used(system, layout), size)


def ring_hops(system: System, layout: Layout) -> tuple[int, int]:
    """(links inside, links across) a second-level unit of the context-parallel ring, the closing link included (D-010).

    Scalars only. Their sum is cp, or 0 without a ring.
    """
    cp = int(layout.cp)
    if cp <= 1:
        return 0, 0
    per_rank = float(units_touched(system, layout, "cp")) / cp
    group = float(system.links[1].size) if len(system.links) > 1 else float("inf")
    places = [int(rank * per_rank // group) for rank in range(cp)]
    across = sum(places[rank] != places[(rank + 1) % cp] for rank in range(cp))  # int
    return cp - across, across
