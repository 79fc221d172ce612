"""Reports as people read them: each kind of report becomes one page; `cli.terminal` and `show.html` draw pages."""

from __future__ import annotations

from collections.abc import Callable

from rooflab.show import chips, compared, designs, explained, performance, points, serving, shelves
from rooflab.show.elements import Page, Report
from rooflab.units import InputError

__all__ = ["Page", "page"]

_PAGES: dict[str, Callable[[Report], Page]] = {
    "inspect": shelves.inspect_page,
    "estimate": performance.estimate_page,
    "step": performance.step_page,
    "explain": explained.explain_page,
    "fit": performance.fit_page,
    "chip": chips.chip_page,
    "catalog": shelves.catalog_page,
    "compare": compared.compare_page,
    "points": points.points_page,
    **designs.PAGES,
    **serving.PAGES,
}


def page(report: Report) -> Page:
    """The page of a report (`api.answer`'s dict).

    Raises InputError for a report that is data for programs.
    """
    if report["kind"] not in _PAGES:
        raise InputError(f"{report['kind']}: its report is data for programs and has no page; add --json")
    return _PAGES[report["kind"]](report)
