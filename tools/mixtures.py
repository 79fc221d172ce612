"""src/rooflab/catalog/mixtures.toml: how far expert layers are from the kernel taken for them where none is named.

python tools/mixtures.py    write it (half a minute)

Bands are the 10th and 90th percentile of measured over predicted time on the rows that kernels were fitted on; errors and
coverage are of the rows held out. Run it after `rooflab calibrate` has changed the experts' fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from rooflab import parameters
from rooflab.fitted import Fitted
from rooflab.measure import calibrate, compare
from rooflab.measure.operators import Batch
from rooflab.profiles import profile
from rooflab.system import System

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "data" / "operators" / "moe.parquet"
OUT = ROOT / "src" / "rooflab" / "catalog" / "mixtures.toml"
HEAD = """\
# Expert layers whose kernel is not named, as in every estimate: measured over predicted time between the 10th and the 90th
# percentile of the rows of any kernel the engine ran on that device, predicted by the one it runs most. With a version: of
# what ran in it. Written by tools/mixtures.py; fitted on the rows of the fits, errors and coverage on rows held out.
"""


def ratios(batches: list[tuple[Batch, System]], version: str, held: bool) -> Any:
    """Measured over predicted of the rows held out, or of the others, with no kernel named."""
    found = []
    for batch, system in batches:
        part = calibrate.take(batch, batch.held if held else ~batch.held)
        if len(part.seconds):
            layout, used = calibrate.layout_of(part), profile("operator")
            pricer = Fitted(system, layout, used, part.backend, dtype=part.dtype, version=version)
            found.append(part.seconds / calibrate.seconds(part, pricer))
    return numpy.concatenate(found) if found else numpy.zeros(0)


def entry(key: tuple[str, str, str], version: str, batches: list[tuple[Batch, System]]) -> str:
    """One record of the file."""
    inside, outside = ratios(batches, version, held=False), ratios(batches, version, held=True)
    outside = outside if len(outside) else inside
    low, high = (float(value) for value in numpy.quantile(inside, (0.1, 0.9)))
    covered = numpy.mean((outside >= low) & (outside <= high))
    lines = [f'device = "{key[0]}"', f'dtype = "{key[1]}"', f'backend = "{key[2]}"']
    lines += [f'version = "{version}"'] if version else []
    lines += [
        f"kernels = {len({batch.kernel for batch, _ in batches})}",
        f"rows = {len(inside)}",
        f"held_error = {float(numpy.median(numpy.abs(1.0 / outside - 1.0))):.3g}",
        f"coverage = {float(covered):.3g}",
        f"band = [{low:.3g}, {high:.3g}]",
    ]
    return "[[mixture]]\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Write the file anew."""
    groups: dict[tuple[str, str, str], list[tuple[Batch, System]]] = {}
    for batch, system in compare.operators_of([TABLE])[0]:
        groups.setdefault((system.device.name, batch.dtype, batch.backend), []).append((batch, system))
    entries = []
    for key, members in sorted(groups.items()):
        if len({batch.kernel for batch, _ in members}) < 2:
            continue
        entries.append(entry(key, "", members))
        versions, last = calibrate.versions([batch for batch, _ in members]), []
        for version in versions if len(versions) > 1 else []:
            ran = [(batch, system) for batch, system in members if version in batch.version.split(", ")]
            if [batch.kernel for batch, _ in ran] != [batch.kernel for batch, _ in last]:
                entries.append(entry(key, version, ran))
            last = ran
    OUT.write_text(HEAD + "\n" + "\n".join(entries), encoding="utf-8")
    parameters.mixtures.cache_clear()


if __name__ == "__main__":
    main()
