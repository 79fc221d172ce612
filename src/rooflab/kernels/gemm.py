"""Dense matrix products: tiles in waves over the multiprocessors, split along the depth where that fills them."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab import num
from rooflab.kernels.machine import Machine, Parts, soft_maximum

Number = Any

TILES = ((16, 128), (64, 64), (128, 128), (128, 256))
"""Rows and columns of the output tile one thread block computes."""
STANDARD_TILE = 128.0 * 128.0
SPLIT_DEPTH = 256.0
"""Least depth of one part of a split product."""
MOST_SPLITS = 16.0
SHARPNESS = 2.0
SUSTAINED = 1.0e-3
"""Seconds of work after which half of the sustained-power slowdown is felt."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What a device, format and library decide about a matrix product; eight at most are fitted."""

    compute: Number
    """Share of the peak rate a full wave reaches."""
    memory: Number
    """Share of the peak bandwidth a stream of weights reaches."""
    launch: Number
    """Seconds before and after the work."""
    fill: Number
    """Seconds to fill and drain the pipeline of a wave of standard tiles."""
    feed: Number
    """Operand bytes a multiprocessor takes in per clock."""
    throttle: Number
    """Slowdown of long products under sustained power."""
    split: float = 0.0
    """Seconds to add up the parts of a product split along its depth; 0 where the library does not split."""
    quantise: float = 0.0
    """Share of the bandwidth at which activations are quantised first; 0 where they are not."""
    row: float = 0.0
    """Elements that each row of a quantisation costs beside its own."""


PRIORS: dict[str, tuple[float, float]] = {
    "compute": (0.85, 0.15),
    "memory": (0.85, 0.10),
    "launch": (3.0e-6, 0.4),
    "fill": (0.5e-6, 0.4),
    "feed": (80.0, 0.4),
    "throttle": (0.1, 0.5),
    "split": (3.0e-6, 0.5),
}
QUANTISED_PRIORS: dict[str, tuple[float, float]] = {
    **{name: prior for name, prior in PRIORS.items() if name != "split"},
    "quantise": (0.5, 0.5),
    "row": (2000.0, 1.0),
}
"""Formats whose activations are quantised in line: their libraries do not split."""


def seconds(
    m: Number,
    n: Number,
    k: Number,
    activation: float,
    weight: float,
    output: float,
    machine: Machine,
    p: Parameters,
    groups: Number = 1.0,
) -> Parts:
    """Time of C[m, n] = A[m, k] · B[k, n] with the bytes per element of the three, `groups` such products at once.

    Counts: idle lanes of edge tiles, idle units of the last wave, operand supply, pipeline fill, one pass over each operand.
    Source: docs/accuracy.md, matrix products.
    Holds: tiled matrix units with many independent processors; with one unit and no fill, any device.
    """
    pace = 2.0 * machine.units / (machine.rate * p.compute)
    supply = p.feed * machine.clock
    compute: Number = None
    for rows, columns in TILES:
        step = num.maximum(rows * columns * pace, (rows * activation + columns * weight) / supply)
        fill = p.fill * (rows * columns / STANDARD_TILE) ** 0.5
        tiles = num.ceil(m / rows) * num.ceil(n / columns) * groups
        depth = step * k
        best = num.ceil(tiles / machine.units) * (depth + fill)
        if p.split:
            most = num.minimum(num.floor(k / SPLIT_DEPTH), MOST_SPLITS)
            splits = num.minimum(num.floor(machine.units / num.maximum(tiles, 1.0)), most)
            divided = depth / num.maximum(splits, 1.0) + (fill + p.split)
            best = num.minimum(best, num.where(splits > 1.0, divided, best))
        compute = best if compute is None else num.minimum(compute, best)
    compute = compute * (1.0 + p.throttle * compute / (compute + SUSTAINED))
    moved = (m * k * activation + k * n * weight + m * n * output) * groups
    compute, memory = soft_maximum(compute, moved / (machine.bandwidth * p.memory), SHARPNESS)
    overhead = p.launch
    if p.quantise:
        overhead = overhead + (2.0 + activation) * m * groups * (k + p.row) / (machine.bandwidth * p.quantise)
    return compute, memory, overhead
