"""A table of one's own kernels as prices."""

from __future__ import annotations

from rooflab.fitted import Fitted
from rooflab.measure import calibrate
from rooflab.measured import Measured


def measured_prices(path: str, fallback: Fitted) -> tuple[Measured, list[str]]:
    """The prices of a table, or of a folder of tables, for the device that `fallback` prices, and what to say about them.

    Raises InputError where the table cannot be read.
    """
    device = fallback.system.device.name
    batches, refused, _skipped = calibrate.gather(path, device, fallback.system)
    rows = [(batch.op, batch.seconds) for batch in batches if batch.backend in (fallback.backend, "nccl", "any")]
    rows = rows or [(batch.op, batch.seconds) for batch in batches]
    count = sum(len(seconds) for _, seconds in rows)  # int
    notes = [f"prices measured: {count:,} rows of {device}; kernels outside them are fitted"]
    if refused:
        notes.append(f"{len(refused):,} rows refused, first line {refused[0]['line']}: {refused[0]['reason']}")
    return Measured(fallback, rows), notes
