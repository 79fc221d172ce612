"""The sharded sweep and hardware co-design: D-140–D-153, D-160–D-171, D-084, D-100, D-900–D-903, D-911, C-016's neighbours.

Best latencies, smallest fits and counts are the reference's published tables (requirements D-153, D-171).
"""

import math

import numpy as np
import pytest

from rooflab import catalog, sweep
from rooflab.fits import layout_rules
from rooflab.model import Attention, Block, Dense, Model
from rooflab.sweep import joint
from rooflab.sweep import layouts as grid
from rooflab.units import InputError

SIP = catalog.system("sip")


def _dense(name: str, hidden: int, ffn: int, heads: int, layers: int) -> Model:
    mixer = Attention(heads=heads, kv_heads=8, head_dim=128, value_dim=128)
    block = Block(count=layers, mixer=mixer, ffn=Dense(width=ffn))
    return Model(name=name, hidden=hidden, vocab=151936, blocks=(block,))


QWEN = _dense("Qwen 3 8B", 4096, 12288, 32, 36)
LLAMA = _dense("Llama 3.1 70B", 8192, 28672, 64, 80)
MIXTRAL = _dense("Mixtral 8x7B, active experts as one dense layer", 4096, 28672, 32, 32)


@pytest.mark.parametrize(
    ("model", "context", "feasible", "front", "best", "best_devices", "small", "small_devices"),
    [
        # requirement D-153: decode, batch 1, default PE; milliseconds
        (QWEN, 1048576, 10736, 5, 6.449, 256, 30.09, 32),
        (QWEN, 131072, 15584, 12, 2.061, 128, 16.27, 8),
        (LLAMA, 1048576, 4928, 2, 19.87, 256, 95.9, 128),
        (LLAMA, 131072, 8236, 8, 11.75, 128, 31.17, 32),
        (MIXTRAL, 1048576, 10736, 6, 5.929, 256, 28.32, 32),
        (MIXTRAL, 131072, 14704, 14, 2.225, 128, 20.76, 8),
    ],
)
def test_reference_table(model, context, feasible, front, best, best_devices, small, small_devices):
    """D-141, D-145, D-153, D-100: 27,648 layouts, the reference's feasible counts, frontier sizes and latencies."""
    frame = sweep.sharded(model, system=SIP, context=context)
    assert len(frame) == 27648
    assert frame.totals["feasible"] == feasible
    assert len(sweep.pareto(frame)) == front
    fast, least = sweep.fastest(frame), sweep.smallest_fit(frame)
    digits = len(f"{best}".split(".")[1])
    assert round(frame.column("latency")[fast] * 1e3, digits) == best
    assert frame.column("devices")[fast] == best_devices
    digits = len(f"{small}".split(".")[1])
    assert round(frame.column("latency")[least] * 1e3, digits) == small
    assert frame.column("devices")[least] == small_devices


@pytest.mark.parametrize("reserve", [0.1, 1e9])
def test_a_reserve_is_memory_that_no_layout_may_use(reserve):
    """D-026: with a tenth, or a GB, of 6 GB kept, what held just inside no longer does; nothing else changes."""
    free = sweep.study(QWEN, system=SIP, context=131072)
    kept = sweep.study(QWEN, system=SIP, context=131072, reserve=reserve)
    axes = {"cp": (1, 2, 4), "tp": (1, 2, 4, 8), "pp": (1, 2), "dp": (1,)}
    before, after = (grid.sweep_layouts(each, axes) for each in (free, kept))
    room = 5.4e9 if reserve == 0.1 else 5e9
    used = before.column("used")
    assert list(after.feasible) == [bool(ok and x <= room) for ok, x in zip(before.feasible, used, strict=True)]
    assert sum(map(bool, after.feasible)) < sum(map(bool, before.feasible))
    assert any("reserve" in str(text) for text in after.reason)


@pytest.mark.parametrize("mode", ["decode", "prefill"])
def test_without_numpy_the_same(mode):
    """D-151: the scalar engine gives the vector engine's rows, reasons and frontier."""
    axes = {"cp": (1, 4, 32), "tp": (1, 8, 32), "pp": (1, 4), "dp": (1, 4)}
    fast = sweep.sharded(QWEN, system=SIP, context=131072, batch=2, mode=mode, axes=axes)
    slow = sweep.sharded(QWEN, system=SIP, context=131072, batch=2, mode=mode, axes=axes, vectorise=False)
    assert list(fast.feasible) == slow.feasible
    assert list(fast.reason) == slow.reason
    for name, column in slow.columns.items():
        if isinstance(column[0], str):
            assert list(fast.column(name)) == column
        else:
            np.testing.assert_allclose(fast.column(name), column, rtol=1e-12)
    assert sweep.pareto(fast) == sweep.pareto(slow)


def test_halves_add_up():
    """D-151: attention and feed-forward latencies add up to the whole layer's, for every layout."""
    whole, attention, ffn = (sweep.sharded(LLAMA, system=SIP, context=65536, scope=s) for s in grid.SCOPES)
    np.testing.assert_allclose(whole.column("latency"), attention.column("latency") + ffn.column("latency"), rtol=1e-12)


def test_single_layout_agrees():
    """One path: a row equals the same layout evaluated alone by the suggestion, which shares no code with the grid."""
    found = sweep.auto_suggest(QWEN, SIP, 131072)
    axes = {"cp": (found.cp,), "tp": (found.tp,), "pp": (found.pp,), "dp": (1,), "kv_shard": ("split",)}
    axes |= {
        "ffn_scope": ("tp_cp",),
        "tp_placement": ("inner",),
        "cp_placement": (found.cp_placement,),
        "ring": ("kv",),
    }
    row = sweep.sharded(QWEN, system=SIP, context=131072, axes=axes).row(0)
    assert row["latency"] == pytest.approx(found.latency, rel=1e-12)
    assert SIP.device.memory - row["used"] == pytest.approx(found.slack, rel=1e-12)


@pytest.mark.parametrize(("mode", "context"), [("decode", 131072), ("prefill", 16384)])
def test_frontier_laws(mode, context):
    """D-142, D-151: frontier rows do not dominate each other and every feasible row is matched by one of them."""
    frame = sweep.sharded(QWEN, system=SIP, context=context, mode=mode)
    table = np.stack([frame.column("latency"), frame.column("devices"), -frame.column("efficiency")], axis=1)
    front = table[sweep.pareto(frame)]
    covered = np.zeros(len(frame), dtype=bool)
    for row in front:
        covered |= (row <= table).all(axis=1)
        assert ((front <= row).all(axis=1)).sum() == 1
    assert covered[np.asarray(frame.feasible)].all()
    efficiency = frame.column("efficiency")
    assert ((efficiency > 0) & (efficiency <= 1)).all()


@pytest.mark.parametrize("mode", ["decode", "prefill"])
def test_duplicates_cannot_differ(mode):
    """D-903: a row says which earlier row it equals, and equals it in every figure; kept rows point to themselves."""
    frame = sweep.sharded(QWEN, system=SIP, context=131072, mode=mode)
    same = np.asarray(frame.column("same_as"))
    assert (same <= np.arange(len(frame))).all()
    assert (same[same] == same).all()
    for name in ("latency", "devices", "efficiency", "used", "units", "weights", "kv"):
        column = np.asarray(frame.column(name))
        np.testing.assert_array_equal(column, column[same])
    ring = np.asarray(frame.column("ring"))[same]
    if mode == "decode":
        assert set(ring.tolist()) == {"kv"}


def test_more_never_hurts():
    """D-084, D-170: doubling any resource never slows a layout, never takes one away, never worsens the best."""
    base = sweep.sharded(QWEN, system=SIP, context=262144)
    best = base.column("latency")[sweep.fastest(base)]
    changes = ["memory", "memory_bandwidth", "flop_rate", *[f"links.{i}.bandwidth" for i in range(3)]]
    for name in changes:
        frame = sweep.sharded(QWEN, system=SIP.replace({name: "2x"}), context=262144)
        assert (frame.column("latency") <= base.column("latency") * (1 + 1e-12)).all(), name
        assert not (np.asarray(base.feasible) & ~np.asarray(frame.feasible)).any(), name
        assert frame.column("latency")[sweep.fastest(frame)] <= best * (1 + 1e-12), name


def test_reasons_of_refused_layouts():
    """D-908: refused rows stay, each with a reason; allowed ones have none."""
    frame = sweep.sharded(_dense("28 heads", 3584, 18944, 28, 3), system=SIP, context=4096)
    assert all(bool(reason) != bool(flag) for reason, flag in zip(frame.reason, frame.feasible, strict=True))
    reasons = set(frame.reason)
    assert "tp does not divide the 28 heads" in reasons
    assert "pp exceeds the 3 layers" in reasons
    assert "tp and cp inside one unit need more than its 8 devices" in reasons
    assert "needs more memory than the device has" in set(sweep.sharded(LLAMA, system=SIP, context=4096).reason)


def test_top_ten_and_loading_a_row():
    """D-148, D-150: ten rows by memory share, devices, latency; a row's fields are a layout the rules admit."""
    frame = sweep.sharded(QWEN, system=SIP, context=131072)
    top = sweep.top_by_memory(frame)
    keys = [tuple(frame.column(n)[i] for n in ("memory_share", "devices", "latency")) for i in top]
    assert len(top) == 10
    assert keys == sorted(keys)
    assert keys[0][0] == min(np.asarray(frame.column("memory_share"))[np.asarray(frame.feasible)])
    asked = grid.study(QWEN, system=SIP, context=131072)
    row = frame.row(sweep.fastest(frame))
    layout = asked.layout(**{name: row[name] for name in grid.AXES})
    assert layout.devices() == row["devices"]
    assert [r.reason for r in layout_rules(QWEN, layout, SIP, asked.profile) if not r.holds] == []


def test_sensitivities():
    """D-149: five knobs; each holds the baseline's own value with the baseline's latency, also where it does not fit."""
    asked = grid.study(QWEN, system=SIP, context=131072)
    frame = sweep.sharded(QWEN, system=SIP, context=131072)
    row = frame.row(sweep.fastest(frame))
    found = sweep.sensitivities(asked, row)
    assert list(found) == ["cp", "tp", "pp", "dp", "batch"]
    for name in ("cp", "tp", "pp", "dp"):
        values = list(found[name].column(name))
        assert found[name].column("latency")[values.index(row[name])] == pytest.approx(row["latency"], rel=1e-12)
    latencies = found["batch"].column("latency")
    assert latencies[0] == pytest.approx(row["latency"], rel=1e-12)
    assert latencies == sorted(latencies)


def test_embedding_and_head_can_be_counted():
    """D-911: with everything outside the layers counted, weights grow by the table and the head, and latency grows."""
    axes = {"cp": (1,), "tp": (8,), "pp": (1, 2), "dp": (1,)}
    bare = sweep.sharded(QWEN, system=SIP, context=131072, axes=axes)
    full = sweep.sharded(QWEN, system=SIP, context=131072, axes=axes, outside=True)
    table = 2.0 * 151936 * 4096 / 8  # bytes: one 16-bit table, an eighth of it per rank
    more = full.column("weights") - bare.column("weights")
    pp = np.asarray(full.column("pp"))
    np.testing.assert_allclose(more[pp == 1], 2 * table, rtol=1e-3)  # norms are less than a thousandth
    np.testing.assert_allclose(more[pp == 2], table, rtol=1e-3)  # first and last stage hold one each
    assert (full.column("latency") > bare.column("latency")).all()
    assert any("left out" in note for note in bare.notes)


def test_expert_ranks_multiply_devices():
    """D-006, D-902: expert ranks multiply the devices and stay what they are; a dense model has none."""
    with pytest.raises(InputError, match="no experts"):
        sweep.sharded(QWEN, system=SIP, context=4096, ep=4)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"mode": "train"}, "mode"),
        ({"scope": "both"}, "scope"),
        ({"context": 0}, "context"),
        ({"axes": {"xp": (1,)}}, "axes"),
        ({"axes": {"tp": ()}}, "at least one"),
        ({"system": "sip"}, "System"),
    ],
)
def test_bad_questions(changes, word):
    with pytest.raises(InputError, match=word):
        sweep.sharded(QWEN, **{"system": SIP, "context": 4096, **changes})


@pytest.mark.parametrize(
    ("depth", "machines", "front", "costs"), [("balanced", 64, 5, (6.0, 10.0)), ("coarse", 729, 11, (3.0, 9.0))]
)
def test_codesign_reference(depth, machines, front, costs):
    """D-161–D-163, D-171: 64 and 729 machines, frontiers of 5 and 11, cost 6 at the defaults, 3.450 → 2.184 ms."""
    found = sweep.codesign(QWEN, system=SIP, context=131072, depth=depth)
    assert len(found.machines) == machines
    assert found.machines.totals["feasible"] == machines
    assert len(found.pareto) == front
    cost, latency = found.machines.column("cost"), found.machines.column("latency")
    assert (cost[found.pareto[0]], cost[found.pareto[-1]]) == costs
    assert round(latency[found.pareto[-1]] * 1e3, 3) == 2.184
    defaults = [i for i in range(machines) if all(found.machines.column(f"{k} ×")[i] == 1 for k in joint.knobs_of(SIP))]
    assert [cost[i] for i in defaults] == [6.0]
    assert round(latency[defaults[0]] * 1e3, 3) == 3.450
    falling = [latency[i] for i in found.pareto]
    assert falling == sorted(falling, reverse=True)
    assert len(set(falling)) == len(falling)


def test_codesign_laws():
    """D-164, D-170: doubling never raises the best, coarse is no worse than balanced, kept layouts gain no more."""
    balanced = sweep.codesign(LLAMA, system=SIP, context=131072)
    coarse = sweep.codesign(LLAMA, system=SIP, context=131072, depth="coarse")
    best = [found.machines.column("latency")[found.baseline] for found in (balanced, coarse)]
    assert best[1] <= best[0]
    speedups = [row["speedup"] for row in balanced.doublings]
    assert speedups == sorted(speedups, reverse=True)
    assert min(speedups) >= -1e-12
    kept = sweep.codesign(LLAMA, system=SIP, context=131072, refit=False)
    refit = {row["knob"]: row["speedup"] for row in balanced.doublings}
    assert all(row["speedup"] <= refit[row["knob"]] + 1e-12 for row in kept.doublings)
    assert {row["knob"] for row in kept.doublings} == set(joint.knobs_of(SIP))


def test_codesign_choices():
    """D-160: a machine's latency is the least over the layouts that fit it, found again by the plain sweep."""
    found = sweep.codesign(QWEN, system=SIP, context=131072, multiples=(0.5, 2.0))
    for at in (0, 17, 63):
        row = found.machines.row(at)
        machine = joint.machine(SIP, {name: row[f"{name} ×"] for name in joint.knobs_of(SIP)})
        axes = {"dp": (1,), "tp_placement": ("inner",), "ring": ("kv",)}
        frame = sweep.sharded(QWEN, system=machine, context=131072, axes=axes)
        assert row["latency"] == pytest.approx(frame.column("latency")[sweep.fastest(frame)], rel=1e-12)


def test_codesign_without_numpy_and_weights():
    """D-163: weights change the cost alone; without NumPy the same answer."""
    small = {"system": SIP, "context": 131072, "multiples": (1.0, 2.0)}
    weighted = sweep.codesign(QWEN, weights={"memory": 3.0}, **small)
    plain = sweep.codesign(QWEN, **small)
    assert weighted.machines.column("latency") == plain.machines.column("latency")
    assert min(weighted.machines.column("cost")) == 8.0  # five knobs at 1 and one at 3
    with pytest.raises(InputError, match="knob"):
        sweep.codesign(QWEN, weights={"colour": 1.0}, **small)
    study = grid.study(QWEN, system=SIP, context=131072)
    knobs = dict.fromkeys(joint.knobs_of(SIP), (1.0,)) | {"memory_bandwidth": (1.0, 2.0)}
    fast = joint.best_layouts(study, knobs, joint.LAYOUT_AXES)
    slow = joint.best_layouts(study, knobs, joint.LAYOUT_AXES, vectorise=False)
    assert [c.layout for c in fast] == [c.layout for c in slow]
    assert all(math.isclose(a.latency, b.latency, rel_tol=1e-12) for a, b in zip(fast, slow, strict=True))


def test_two_stage():
    """D-161: one machine with the suggested layout."""
    found = sweep.codesign(QWEN, system=SIP, context=131072, depth="two_stage")
    suggested = sweep.auto_suggest(QWEN, SIP, 131072)
    row = found.machines.row(0)
    assert (row["cp"], row["tp"], row["pp"]) == (suggested.cp, suggested.tp, suggested.pp)
    assert row["latency"] == pytest.approx(suggested.latency, rel=1e-12)


def test_nothing_fits():
    """A machine too small for every layout has no latency and says so."""
    tiny = SIP.replace({"memory": "1 MB"})
    frame = sweep.sharded(QWEN, system=tiny, context=4096)
    assert sweep.fastest(frame) is None
    assert sweep.pareto(frame) == []
    found = sweep.codesign(QWEN, system=tiny, context=4096, multiples=(1.0,))
    assert found.baseline is None
    assert math.isnan(found.machines.column("latency")[0])
    assert found.machines.reason == ["no layout fits this machine"]
