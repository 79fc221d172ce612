"""The sample of rows behind the chart of predicted against measured (`data/accuracy_points.json`)."""

import json
import math
from pathlib import Path

import pytest

from rooflab.measure import endtoend, points

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "data" / "accuracy_points.json"


@pytest.fixture(scope="module")
def shipped():
    return json.loads(FILE.read_text(encoding="utf-8"))


def test_the_file_is_small_and_every_point_can_be_drawn(shipped):
    """A-061: positive finite numbers, ends in order, a unit for every family."""
    assert FILE.stat().st_size < 60_000
    assert len(shipped["points"]) > 200
    for point in shipped["points"]:
        assert set(point) - {"fit"} == {"family", "system", "label", "measured", "predicted", "low", "high"}
        values = [point[name] for name in ("measured", "predicted", "low", "high")]
        assert all(value > 0.0 and math.isfinite(value) for value in values), point
        assert point["low"] <= point["high"]
        assert point["family"] in shipped["units"]


def test_rows_that_a_fit_has_seen_are_marked(shipped):
    """A-061, A-065: both kinds among runs and kernels; of runs those of the model that constants were fitted on."""
    for family in ("tpot", "gemm"):
        assert {point.get("fit", False) for point in shipped["points"] if point["family"] == family} == {True, False}
    runs = [point for point in shipped["points"] if point["family"] in ("tpot", "ttft", "throughput")]
    assert all(point.get("fit", False) == ("Qwen3-32B," in point["label"]) for point in runs)


def test_families_say_how_far_all_their_rows_are_off(shipped):
    """A-061: every family drawn has its figures, and shares are nested."""
    rows = {row["family"]: row for row in shipped["families"]}
    assert set(rows) == {point["family"] for point in shipped["points"]}
    for row in rows.values():
        assert 0.0 <= row["within_10"] <= row["within_20"] <= 1.0
        assert row["median"] <= row["p90"]
        assert (row["median"] <= 0.1) == (row["within_10"] >= 0.5)


def test_the_sample_knows_measured_times_only():
    """Ranks by hand: four rows of six at (0.5, 1.5, 2.5, 3.5) · 6/4 = 0, 2, 3, 5 in order of time."""
    measured = [50.0, 10.0, 60.0, 20.0, 40.0, 30.0]
    assert [measured[i] for i in points.at_even_steps(measured, 4)] == [10.0, 30.0, 40.0, 60.0]
    assert points.at_even_steps(measured[:2], 4) == [1, 0]


def test_the_shipped_engine_rows_are_rows_of_the_tables(shipped):
    """A-061: what the chart calls measured is in the table, to three digits."""
    runs, _ = endtoend.read(ROOT / "data" / "endtoend" / "inferencex_h100.csv")
    found = {f"{run.tpot:.3g}" for run in runs}
    drawn = [
        p
        for p in shipped["points"]
        if p["family"] == "tpot" and p["system"] == "h100-sxm" and "llama2" not in p["label"]
    ]
    assert drawn
    assert all(f"{p['measured']:.3g}" in found for p in drawn)
