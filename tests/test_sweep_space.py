"""Spaces and their evaluation: D-903, D-901, A-046 with large studies; one process, several, and a cluster give one result."""

import math
import os
import random
import signal

import msgspec
import numpy as np
import pytest

from rooflab import catalog, hf
from rooflab.estimate import Workload, estimate
from rooflab.fitted import USUAL, pricer_of
from rooflab.profiles import profile
from rooflab.sweep import evaluate, gather, journal, spaces
from rooflab.sweep.spaces import FORMAT_FIELDS
from rooflab.units import InputError
from rooflab.work import Layout, Precision

LLAMA = hf.load("llama-3.1-8b")
MIXTRAL = hf.load("mixtral-8x7b")
DGX = catalog.system("dgx-h100")
OPERATOR = profile("operator")
VARY = {
    "system": ("dgx-h100", "dgx-a100"), "weights": ("bf16", "fp8"), "tp": (1, 2, 3, 8), "pp": (1, 2), "cp": (1, 2),
    "kv_shard": ("replicate", "split"), "batch": (1, 8, 64), "memory_bandwidth": ("1x", "2x"),
}  # fmt: skip


def _small(**more):
    systems = {name: catalog.system(name) for name in ("dgx-h100", "dgx-a100")}
    return spaces.space(LLAMA, on=systems, **{"vary": VARY, **more})


def _alone(row):
    """The same point asked one at a time."""
    system = catalog.system(row["system"])
    system = system.replace({"memory_bandwidth": row["memory_bandwidth"]})
    layout = Layout(**{name: row[name] for name in ("tp", "pp", "cp", "kv_shard")})
    precision = Precision(attention=row["weights"], ffn=row["weights"], expert=row["weights"])
    work = Workload(batch=row["batch"], prompt=2048, output=256)
    pricer = pricer_of(USUAL, system, layout, OPERATOR, "vllm")
    return estimate(LLAMA, precision, layout, system, work, OPERATOR, band=False, pricer=pricer)


def test_rows_are_the_single_estimates():
    """One path: every row equals its own estimate, refused ones included; 8 KV heads make kv_shard idle up to tp 8 (D-903)."""
    frame = evaluate.run(_small())
    assert frame.totals["enumerated"] == 2 * 2 * 4 * 2 * 2 * 2 * 3 * 2
    assert len(frame) == frame.totals["distinct"] == frame.totals["enumerated"] / 2
    dice = random.Random(3)
    for at in dice.sample(range(len(frame)), 60):
        row = frame.row(at)
        found = _alone(row)
        assert row["feasible"] == found.fits
        assert bool(row["reason"]) != row["feasible"]
        if row["tp"] == 3:
            assert row["reason"] == "tp does not divide the 32 heads"
        if found.fits:
            expected = {name: getattr(found.mid, name) for name in ("ttft", "tpot", "throughput_per_device")}
            assert math.isnan(row["cost"]) == (found.cost is None)  # no price is known for the A100 here
            expected |= {"cost": found.cost["all"]} if found.cost else {}
            expected |= {"energy": found.energy, "used": found.memory.used}
            for name, value in expected.items():
                assert row[name] == pytest.approx(value, rel=1e-12), name
        elif found.feasible:
            assert row["used"] == pytest.approx(found.memory.used, rel=1e-12)
            assert math.isnan(row["ttft"])


def _equal(a, b):
    assert list(a.columns) == list(b.columns)
    for name in a.columns:
        left, right = list(a.column(name)), list(b.column(name))
        assert len(left) == len(right)
        if isinstance(left[0], str):
            assert left == right
        else:
            np.testing.assert_allclose(np.array(left, float), np.array(right, float), rtol=1e-12)
    assert list(a.feasible) == list(b.feasible)
    assert list(a.reason) == list(b.reason)
    assert a.totals == b.totals


def test_a_list_of_layouts_and_a_product_agree():
    """The two ways to name layouts give the same rows."""
    product = {"tp": (1, 2, 3), "pp": (1, 2), "batch": (1, 16)}
    listed = [{"tp": tp, "pp": pp} for tp in (1, 2, 3) for pp in (1, 2)]
    a = evaluate.run(spaces.space(MIXTRAL, on=DGX, vary=product))
    b = evaluate.run(spaces.space(MIXTRAL, on=DGX, vary={"batch": (1, 16)}, layouts=listed))
    _equal(a, b)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_chunks_do_not_matter(chunk):
    _equal(evaluate.run(_small()), evaluate.run(_small(), chunk=chunk))


def test_without_numpy_the_same(monkeypatch):
    """The browser's path: the same rows, reasons and order from plain Python."""
    asked = _small(vary={**VARY, "system": ("dgx-h100",), "pp": (1,)})
    expected = evaluate.run(asked)
    for module in (evaluate, gather, spaces, journal):
        monkeypatch.setattr(module, "numpy_or_none", lambda: None)
    evaluate._planned.cache_clear()
    plain = evaluate.run(asked, chunk=50)
    evaluate._planned.cache_clear()
    assert isinstance(plain.columns["ttft"], list)
    _equal(expected, plain)


def test_frontier_of_chunks_is_the_frontier():
    """A-046: keeping each chunk's own frontier loses no point of the whole one, whatever the chunks."""
    goals = ("tpot", "max:throughput_per_device", "cost")
    full = evaluate.run(_small())
    expected = [full.row(i) for i in sorted(full.pareto(goals, ties="all"))]
    for chunk in (5, 100, 100000):
        kept = evaluate.run(_small(), keep=goals, chunk=chunk)
        assert len(kept) < len(full)
        assert kept.totals["feasible"] == full.totals["feasible"]
        found = [kept.row(i) for i in sorted(kept.pareto(goals, ties="all"))]
        assert found == expected


def test_progress_and_cancel():
    """Progress ends at the whole; a cancelled run returns what is done, and says so."""
    seen = []
    frame = evaluate.run(_small(), chunk=50, progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 0
    assert seen[-1] == (len(frame), len(frame))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    calls = iter(range(100))
    part = evaluate.run(_small(), chunk=50, cancel=lambda: next(calls) >= 3)
    assert 0 < len(part) < len(frame)
    assert any("cancelled" in note for note in part.notes)
    row = part.row(len(part) - 1)
    assert row == {**frame.row(len(part) - 1)} or math.isnan(row["ttft"])


def test_a_stopped_run_continues(tmp_path):
    """A journal remembers chunks, drops a torn record, and belongs to one question (D-901)."""
    path = tmp_path / "study.rooflab"
    whole = evaluate.run(_small(), chunk=50)
    calls = iter(range(100))
    evaluate.run(_small(), chunk=50, journal=path, cancel=lambda: next(calls) >= 4)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-5])
    counted = []
    again = evaluate.run(_small(), chunk=50, journal=path, progress=lambda done, _total: counted.append(done))
    _equal(whole, again)
    assert counted[0] > 0
    assert path.stat().st_size > size
    _equal(whole, evaluate.run(_small(), chunk=50, journal=path))
    (tmp_path / "cut").write_bytes(path.read_bytes().replace(b"figures", b"xigures", 1))
    with pytest.raises(InputError, match="is damaged"):
        evaluate.run(_small(), chunk=50, journal=tmp_path / "cut")
    with pytest.raises(InputError, match="another question"):
        evaluate.run(_small(work=Workload(prompt=100, output=10)), chunk=50, journal=path)


def test_everything_is_part_of_the_key():
    """D-901: a change of any input changes the key."""
    base = _small()
    changed = [
        _small(work=Workload(batch=2, prompt=2048, output=256)), _small(precision=Precision(kv="fp8")),
        _small(layout=Layout(dp=2)), _small(used=msgspec.structs.replace(OPERATOR, reserve=0.2)),
        _small(vary={**VARY, "batch": (1, 8, 65)}),
    ]  # fmt: skip
    assert len({each.digest() for each in (base, *changed)}) == 6
    assert base.digest() == _small().digest()


@pytest.mark.parametrize(
    ("vary", "word"),
    [
        ({"tpp": (1,)}, "field of a scenario"),
        ({"tp": ()}, "at least one"),
        ({"tp": (0,)}, "at least 1"),
        ({"tp": (1.5,)}, "whole number"),
        ({"tp": (True,)}, "whole number"),
        ({"ring": ("square",)}, "kv, qoml"),
        ({"weights": ("fp7",)}, "weights"),
        ({"system": ("nothing",)}, "system"),
        ({"memory": ("80 furlong",)}, "memory"),
        ({"links.7.bandwidth": ("2x",)}, "links.7"),
    ],
)
def test_bad_spaces(vary, word):
    with pytest.raises(InputError, match=word):
        spaces.space(LLAMA, on=DGX, vary=vary)
    assert set(vary) <= set(spaces.fields({"a": DGX})) or word in ("field of a scenario", "links.7")
    assert "weights" in FORMAT_FIELDS


def test_hardware_that_is_better_never_makes_the_best_worse():
    """More memory, bandwidth or rate: no feasible point is lost and the best figures do not worsen."""
    vary = {"tp": (1, 2, 4, 8), "batch": (1, 16, 128)}
    base = evaluate.run(spaces.space(LLAMA, on=DGX, vary=vary))
    for name in ("memory", "memory_bandwidth", "flop_rate", "links.0.bandwidth", "links.1.bandwidth"):
        better = evaluate.run(spaces.space(LLAMA, on=DGX.replace({name: "2x"}), vary=vary))
        assert not (np.asarray(base.feasible) & ~np.asarray(better.feasible)).any()
        for goal, sign in (("tpot", 1.0), ("ttft", 1.0), ("throughput_per_device", -1.0)):
            before, after = (np.nanmin(sign * frame.column(goal)) for frame in (base, better))
            assert after <= before + 1e-12 * abs(before), (name, goal)


def test_processes_give_the_same():
    """The same frame from two processes."""
    _equal(evaluate.run(_small(), chunk=100), evaluate.run(_small(), chunk=100, workers=2))


def test_a_process_that_dies_only_delays():
    """One of two processes is killed: the pool starts anew, nothing is lost and nothing counts twice."""
    import multiprocessing

    expected, killed, counted = evaluate.run(_small(), chunk=20), [], []

    def progress(done, _total):
        counted.append(done)
        if done > 50 and not killed:
            killed.extend(child.pid for child in multiprocessing.active_children()[:1])
            os.kill(killed[0], signal.SIGKILL)

    found = evaluate.run(_small(), chunk=20, workers=2, progress=progress)
    assert killed
    assert counted[-1] == len(expected)
    _equal(expected, found)


@pytest.mark.filterwarnings("ignore")
def test_cluster_survives_a_killed_worker():
    """Two Dask workers, one killed during the run: nothing lost, nothing twice, the same frame."""
    distributed = pytest.importorskip("distributed")
    expected = evaluate.run(_small(), chunk=20)
    killed = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        counted = []

        def progress(done, total):
            counted.append(done)
            if done > total / 4 and not killed:
                killed.append(cluster.workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)

        found = evaluate.run(_small(), chunk=20, cluster=cluster.scheduler_address, progress=progress)
    assert killed
    assert counted[-1] == len(expected)
    _equal(expected, found)


def test_cluster_address_without_a_scheduler():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        evaluate.run(_small(), cluster="tcp://127.0.0.1:9")
