"""Frontiers and frames: A-046, D-142 and the exports; brute force is the measure."""

import csv
import io
import math
import random
import sys

import numpy as np
import pytest

from rooflab.sweep.frame import Frame
from rooflab.sweep.fronts import frontier
from rooflab.units import InputError


def _brute(rows: list[tuple[float, ...]]) -> list[int]:
    """Positions no other row dominates: by the definition."""

    def beats(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))

    return [i for i, row in enumerate(rows) if not any(beats(other, row) for other in rows)]


@pytest.mark.parametrize("vectorised", [True, False])
def test_frontier_equals_brute_force(vectorised):
    """A-046: 1,000 random sets of 1 to 5 objectives, many with ties, some with infinities."""
    dice = random.Random(7)
    for _ in range(1000):
        objectives, count = dice.randint(1, 5), dice.randint(1, 60)
        levels = dice.choice([2, 5, 1000])
        rows = [tuple(float(dice.randrange(levels)) for _ in range(objectives)) for _ in range(count)]
        if dice.random() < 0.2:
            rows[0] = (math.inf, *rows[0][1:])
        columns = [list(column) for column in zip(*rows, strict=True)]
        if vectorised:
            columns = [np.array(column) for column in columns]
        expected = _brute(rows)
        assert sorted(frontier(columns, ["min"] * objectives, ties="all")) == expected
        first = frontier(columns, ["min"] * objectives)
        assert len({rows[i] for i in first}) == len(first)
        assert {rows[i] for i in first} == {rows[i] for i in expected}
        assert all(i == rows.index(rows[i]) for i in first)
        assert [rows[i] for i in first] == sorted(rows[i] for i in first)


@pytest.mark.parametrize("count", [3000])
def test_large_frontier(count):
    """A curve on which every point is on the frontier, and points just above it that are not; three objectives."""
    angle = np.linspace(0.01, 1.5, count)
    good = np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
    table = np.vstack([good + np.array([1e-6, 1e-6, 0.5]), good])
    found = frontier([-table[:, 0], -table[:, 1], table[:, 2]], ["max", "max", "min"])
    assert sorted(found) == list(range(count, 2 * count))


def test_masks_goals_and_gaps():
    """Only rows of the mask count; "max" turns an objective; a missing value is never on the frontier."""
    cost, speed = np.array([1.0, 2.0, 3.0, 0.5]), np.array([1.0, 5.0, 4.0, np.nan])
    assert frontier([cost, speed], ["min", "max"]) == [0, 1]
    assert frontier([cost, speed], ["min", "max"], among=np.array([False, True, True, True])) == [1]
    assert frontier([list(cost), list(speed)], ["min", "max"]) == [0, 1]
    assert frontier([cost], ["min"], among=np.zeros(4, dtype=bool)) == []
    with pytest.raises(InputError, match="min or max"):
        frontier([cost], ["least"])
    with pytest.raises(InputError, match="ties"):
        frontier([cost], ["min"], ties="some")


@pytest.fixture(params=["lists", "arrays"])
def frame(request):
    columns = {
        "tp": [1, 2, 4, 8], "system": ["a", "b", "b", "b"], "ttft": [0.4, 0.2, 0.1, float("nan")],
        "throughput": [10.0, 15.0, 25.0, float("nan")],
    }  # fmt: skip
    feasible, reason = [True, True, True, False], ["", "", "", "needs more memory than the device has"]
    if request.param == "arrays":
        columns = {name: np.array(values) for name, values in columns.items()}
        feasible, reason = np.array(feasible), np.array(reason, dtype=object)
    units = {"ttft": "s", "throughput": "token/s", "system": "text"}
    return Frame(columns=columns, units=units, feasible=feasible, reason=reason)


def test_conditions(frame):
    """Conditions read units, compare text, and never pass a missing value."""
    assert frame.positions("ttft < 300 ms") == [1, 2]
    assert frame.positions("ttft<0.3") == [1, 2]
    assert frame.positions("system = b", "tp >= 4") == [2]
    assert frame.positions("system != b") == [0]
    assert len(frame.where("tp > 1")) == 2
    for bad, word in (("ttft", "not a condition"), ("ttft < 3 GB", "ttft"), ("tpp < 3", "no such column")):
        with pytest.raises(InputError, match=word):
            frame.positions(bad)


def test_best_and_pareto(frame):
    assert frame.best("ttft") == 2
    assert frame.best("max:throughput", where=["tp < 4"]) == 1
    assert frame.best("ttft", where=["ttft < 0.05"]) is None
    assert frame.pareto(["ttft", "max:throughput"]) == [2]
    assert frame.pareto({"tp": "min", "throughput": "max"}, "tp <= 2") == [0, 1]
    assert [row["tp"] for row in frame.sort("max:throughput").records()] == [4, 2, 1, 8]


def test_exports(frame, tmp_path):
    """CSV, Parquet and pandas keep every row, its reason and its units."""
    text = frame.to_csv(tmp_path / "out.csv")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["tp", "system", "ttft [s]", "throughput [token/s]", "feasible", "reason"]
    assert rows[4] == ["8", "b", "", "", "False", "needs more memory than the device has"]
    assert rows[1][2] == "0.4"
    assert (tmp_path / "out.csv").read_text() == text
    pandas = pytest.importorskip("pandas")
    table = frame.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert table.attrs["units"]["ttft"] == "s"
    parquet = pytest.importorskip("pyarrow.parquet")
    frame.to_parquet(tmp_path / "out.parquet")
    back = parquet.read_table(tmp_path / "out.parquet")
    assert back.num_rows == 4
    assert back.schema.field("ttft").metadata == {b"unit": b"s"}
    assert back.column("reason").to_pylist()[3].startswith("needs more memory")


def test_polars_holds_every_row(frame):
    """A polars frame: every row in order with its types, missing numbers as NaN, feasible flags and reasons."""
    polars = pytest.importorskip("polars")
    table = frame.to_polars()
    assert isinstance(table, polars.DataFrame)
    assert table.columns == ["tp", "system", "ttft", "throughput", "feasible", "reason"]
    assert table["tp"].to_list() == [1, 2, 4, 8]
    assert table["tp"].dtype.is_integer()
    assert table["ttft"][0] == 0.4
    assert table["ttft"].is_nan().to_list() == [False, False, False, True]
    assert table.filter("feasible").height == 3
    assert table["reason"][3] == "needs more memory than the device has"


def test_a_missing_library_is_named(frame, monkeypatch):
    """With how to install it."""
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match=r"polars is not installed; pip install 'rooflab\[data\]'"):
        frame.to_polars()
