"""From steps to what is asked: TTFT, TPOT, throughput, cost and energy.

Times of steps are tested elsewhere; here is how they combine, by hand and by brute force.
"""

import functools
import math

import msgspec
import numpy as np
import pytest
from builders import ALIGNED, BF16, KINDS, TINY, link, machine, published, switched
from hypothesis import given
from hypothesis import strategies as st

from rooflab import catalog, hf
from rooflab import estimate as est
from rooflab.estimate import Figures, Scene, Workload, estimate
from rooflab.price import Cost, rates_of
from rooflab.profiles import PROFILES, profile
from rooflab.work import Layout, Step

OPERATOR = profile("operator")
MACHINE = machine(link(size=64), power=700.0, price=2.0 / 3600.0)
load = functools.cache(hf.load)


def ask(what=TINY, layout=None, system=MACHINE, used=OPERATOR, **how):
    more = {key: how.pop(key) for key in ("ignore_memory", "band", "pricer") if key in how}
    return estimate(what, BF16, layout or Layout(), system, Workload(**how), used, **more)


def decode_times(what, layout, system, used, batch, contexts):
    """Seconds of decode steps at these contexts, one for each."""
    scene = Scene(model=what, precision=BF16, layout=layout, system=system, profile=used)
    rates = rates_of(used, system.device.launch_time)["mid"]
    step = Step(decode_sequences=batch, decode_context=contexts)
    return scene.time(scene.operators(step), rates).time


# ------------------------------------------------------------------------------------------------------ combining times


def test_figures_from_two_times():
    """A-044, B-052, B-053, B-054, E-14: 4 sequences on each of 3 replicas of 2 devices, 10 tokens out."""
    found = ask(layout=Layout(tp=2, dp=3), batch=4, prompt=50, output=10)
    mid = found.mid
    assert mid.e2e == pytest.approx(mid.ttft + 9 * mid.tpot, rel=1e-12)
    assert mid.output_throughput == pytest.approx(4 * 3 * 10 / mid.e2e, rel=1e-12)
    assert mid.decode_throughput == pytest.approx(4 * 3 / mid.tpot, rel=1e-12)
    assert mid.throughput_per_device == pytest.approx(mid.output_throughput / 6, rel=1e-12)


def test_replicas_multiply_throughput_and_nothing_else():
    """D-085, E-14: dp changes no latency."""
    one, four = ask(batch=4).mid, ask(layout=Layout(dp=4), batch=4).mid
    assert (four.ttft, four.tpot, four.e2e) == (one.ttft, one.tpot, one.e2e)
    assert four.output_throughput == pytest.approx(4 * one.output_throughput)
    assert four.throughput_per_device == pytest.approx(one.throughput_per_device)


def test_cost_and_energy_by_hand():
    """E-14: 2 USD an hour and 700 W a device, two devices: rent while a phase runs over the tokens it handles."""
    for replicas in (1, 3):  # as many more devices as tokens
        found = ask(layout=Layout(tp=2, dp=replicas), batch=4, prompt=50, output=10)
        mid, rent = found.mid, 2 * 2.0 / 3600.0 * 1e6
        assert found.cost["input"] == pytest.approx(rent * mid.ttft / (4 * 50), rel=1e-12)
        assert found.cost["output"] == pytest.approx(rent * mid.tpot / 4, rel=1e-12)
        assert found.cost["all"] == pytest.approx(rent * mid.e2e / (4 * 60), rel=1e-12)
        assert found.energy == pytest.approx(2 * 700 * mid.e2e / (4 * 10), rel=1e-12)


def test_what_is_not_known_is_not_shown():
    """A-066, B-051: no price, no power, no second token: None, never zero."""
    found = ask(system=machine(), output=1)
    assert (found.cost, found.energy, found.mid.tpot, found.mid.decode_throughput) == (None,) * 4
    assert "output" not in ask(output=1).cost


def test_out_of_memory_and_refused_layouts_have_no_figures():
    """B-040, F-02: memory is always there, figures only where they mean something."""
    large = ask(batch=10**7)
    assert (large.feasible, large.fits, large.mid) == (True, False, None)
    assert ask(batch=10**7, ignore_memory=True).mid is not None
    refused = ask(layout=Layout(tp=3), ignore_memory=True)
    assert (refused.feasible, refused.fits, refused.mid) == (False, False, None)
    assert any("tp=3" in reason for reason in refused.reasons)
    assert refused.memory.used > 0


def test_a_cached_prefix_saves_prefill_and_nothing_of_decode():
    """A-017, E-13: 900 of 1,000 prompt tokens cached: TTFT is that of 100 tokens after 900, TPOT unchanged."""
    whole, cached = ask(published(), prompt=1000, output=50), ask(published(), prompt=1000, output=50, cached=900)
    assert cached.mid.ttft < whole.mid.ttft
    assert cached.mid.tpot == whole.mid.tpot
    assert cached.memory.kv == whole.memory.kv
    shorter = ask(published(), prompt=100, output=50).mid.ttft
    assert cached.mid.ttft > shorter  # its 100 queries also see the 900


def test_pricers_of_ones_own_replace_the_roofline():
    """E-31: anything with a cost is priced with; one second an operator."""

    class Second:
        def cost(self, op):
            return Cost(1.0, 0.0, 0.0, 0.0, "measured")

    found = ask(pricer=Second())
    assert found.mid.ttft == math.fsum(op.count for op in found.prefill_operators)
    assert {item.basis for item in found.prefill.priced} == {"measured"}


def test_a_pricer_may_bring_its_own_band():
    """E-22: every operator from half of its second to twice. Kernels of one kind err together, so a step of n seconds whose kinds
    take n₁, n₂ … of them is short by (Σ (nᵢ/2)^(4/3))^(3/4) at most, and late by twice that; throughput goes the other way round.
    """

    class Second:
        def cost(self, op):
            return Cost(1.0, 0.0, 0.0, 0.0, "fitted", 0.5, 2.0)

    found = ask(pricer=Second(), prompt=50, output=3)
    for figure, operators in (("ttft", found.prefill_operators), ("tpot", found.decode_operators)):
        seconds: dict[str, float] = {}
        for op in operators:
            seconds[op.kind] = seconds.get(op.kind, 0.0) + op.count
        assert len(seconds) > 2
        mid, short = getattr(found.mid, figure), sum((n / 2) ** (4 / 3) for n in seconds.values()) ** 0.75
        assert getattr(found.low, figure) == pytest.approx(mid - short)
        assert getattr(found.high, figure) == pytest.approx(mid + 2 * short)
        assert mid / 2 < getattr(found.low, figure) < mid < getattr(found.high, figure) < 2 * mid
    assert found.high.output_throughput == pytest.approx(found.mid.output_throughput * found.mid.e2e / found.low.e2e)


# ------------------------------------------------------------------------------------------------------------ pipelines


def test_a_pipeline_fills_and_drains():
    """D-405: (m + P − 1) slots of a stage each: 4 stages of 3 s, one microbatch 12 s, 5 microbatches 8 slots, 24 s."""
    assert est.pipeline_prefill(12.0, 4, 1) == 12.0
    assert est.pipeline_prefill(12.0, 4, 5) == 24.0
    # The idle share is (P − 1)/(m + P − 1): 3/8 of the slots of each stage.
    assert 1 - 5 * 3.0 / est.pipeline_prefill(12.0, 4, 5) == pytest.approx(3 / 8)


def test_microbatches_take_turns_in_decode():
    """D-085: up to as many microbatches as stages a token takes one traverse; beyond, they queue."""
    assert [est.pipeline_decode(12.0, 4, m) for m in (1, 4, 8)] == [12.0, 12.0, 24.0]


def test_microbatches_cut_the_batch():
    """D-405: eight sequences in four pieces over two stages: prefill is 5/2 traverses of two sequences, decode two."""
    layout = Layout(pp=2, microbatches=4)
    found = ask(layout=layout, batch=8, prompt=64, output=2)
    piece = ask(layout=Layout(pp=2), batch=2, prompt=64, output=2)
    assert found.mid.ttft == pytest.approx(piece.mid.ttft * 5 / 2, rel=1e-12)
    assert found.mid.tpot == pytest.approx(piece.mid.tpot * 2, rel=1e-12)


@pytest.mark.parametrize("wrap", [int, lambda x: np.array([x])])
def test_there_are_no_more_pieces_than_sequences(wrap):
    """F-02: a batch of two cannot be cut into eight; empty pieces are not priced."""
    two, eight = (ask(layout=Layout(pp=2, microbatches=wrap(m)), batch=2).mid for m in (2, 8))
    assert (eight.ttft, eight.tpot) == (two.ttft, two.tpot)


# ------------------------------------------------------------------------------------------------- the growing context


@pytest.mark.parametrize("name", catalog.model_names())
def test_mean_decode_step_is_the_mean_of_all_steps(name):
    """E-12, B-051: for every model, TPOT is the mean of output − 1 steps at their own contexts, priced one by one."""
    what = load(name)
    for batch, prompt, output in ((1, 500, 1201), (64, 3000, 3001), (7, 1, 2)):
        mid = ask(what, system=MACHINE, batch=batch, prompt=prompt, output=output, ignore_memory=True, band=False).mid
        contexts = np.arange(prompt + 1.0, prompt + output)
        times = decode_times(what, Layout(), MACHINE, OPERATOR, batch, contexts)
        # A bound may change inside a stretch; everything else is affine and exact.
        assert mid.tpot == pytest.approx(float(np.mean(np.broadcast_to(times, contexts.shape))), rel=1e-3)


@pytest.mark.parametrize("output", [2, 3, 100, 1001])
def test_affine_steps_are_averaged_exactly(output):
    """B-051: full attention that one resource binds throughout: exact, odd and even answers alike."""
    what = published()
    for name in ("operator", "classroom"):
        mid = ask(what, used=profile(name), batch=3, prompt=77, output=output, band=False).mid
        contexts = np.arange(78.0, 77 + output)
        times = decode_times(what, Layout(), MACHINE, profile(name), 3, contexts)
        assert mid.tpot == pytest.approx(float(np.mean(times)), rel=1e-12)


@given(
    window=st.integers(1, 60),
    prompt=st.integers(1, 60),
    output=st.integers(2, 60),
    cp=st.sampled_from([1, 2]),
)
def test_windows_break_the_mean_where_they_fill(window, prompt, output, cp):
    """E-12: a window that fills before, in or after the answer: exact on one rank, within half a token on two."""
    what = msgspec.structs.replace(
        KINDS["windowed"],
        blocks=tuple(
            msgspec.structs.replace(b, mixer=msgspec.structs.replace(b.mixer, window=b.mixer.window and window))
            for b in KINDS["windowed"].blocks
        ),
    )
    used = switched("operator", **ALIGNED)
    layout = Layout(cp=cp)
    mid = ask(what, layout, used=used, batch=50, prompt=prompt, output=output, band=False).mid
    times = decode_times(what, layout, MACHINE, used, 50, np.arange(prompt + 1.0, prompt + output))
    assert mid.tpot == pytest.approx(float(np.mean(times)), rel=1e-12 if cp == 1 else 5e-2)


def test_weights_of_the_stretches_add_up():
    """E-12: however the windows lie, the stretches together are the whole answer, in numbers and arrays."""
    what = load("gemma-3-27b")
    assert est.breakpoints(what) == [1024.0]
    for prompt, output in ((1, 2), (1000, 100), (1023, 3), (1024, 3), (5000, 10), (1, 5000)):
        pairs = est.decode_contexts(what, Workload(prompt=prompt, output=output), OPERATOR)
        assert math.fsum(weight for _, weight in pairs) == pytest.approx(1.0)
        mean = math.fsum(context * weight for context, weight in pairs)
        assert mean == pytest.approx(prompt + output / 2)  # of prompt + 1 … prompt + output − 1
        arrays = est.decode_contexts(what, Workload(prompt=np.array([prompt]), output=output), OPERATOR)
        assert float(sum(context * weight for context, weight in arrays)[0]) == pytest.approx(mean)


# -------------------------------------------------------------------------------------------------- arrays and the band


FIGURES = Figures.__struct_fields__


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_an_array_answer_is_its_points(name):
    """F-01, E-14: every figure, memory and cost of a grid equals the same point asked alone."""
    used = PROFILES[name]
    batch, output = np.array([1, 7, 64]), np.array([[1], [2], [300]])
    tp = 2 if name != "envelope" else 1
    grid = ask(layout=Layout(tp=np.array(tp)), used=used, batch=batch, prompt=90, output=output)
    assert grid.mid.ttft.shape == (3, 3)
    for i in range(3):
        for j in range(3):
            work = {"batch": int(batch[j]), "prompt": 90, "output": int(output[i, 0])}
            one = ask(layout=Layout(tp=tp), used=used, band=False, **work)
            for figure in FIGURES:
                alone = getattr(one.mid, figure)
                together = float(getattr(grid.mid, figure)[i, j])
                assert together == pytest.approx(math.nan if alone is None else alone, rel=1e-12, nan_ok=True), figure
            for kind in one.memory.__struct_fields__:
                assert getattr(grid.memory, kind)[i, j] == pytest.approx(getattr(one.memory, kind), rel=1e-12), kind
            for phase, figure in one.cost.items():
                assert grid.cost[phase][i, j] == pytest.approx(figure, rel=1e-12), phase
            assert grid.energy[i, j] == pytest.approx(one.energy, rel=1e-12)


def test_large_arrays_are_cut_into_chunks(monkeypatch):
    """F-01: chunks change nothing, whatever axes have length one."""
    tp, batch, prompt = np.array([[[1]], [[2]], [[4]]]), np.arange(1, 6).reshape(1, 5, 1), np.arange(10, 17)
    what = {"layout": Layout(tp=tp), "batch": batch, "prompt": prompt, "output": 20}
    whole = ask(**what)
    monkeypatch.setattr(est, "CHUNK", 8)
    pieces = ask(**what)
    assert whole.mid.ttft.shape == pieces.mid.ttft.shape == (3, 5, 7)
    for figure in FIGURES:
        assert np.array_equal(getattr(whole.mid, figure), getattr(pieces.mid, figure))


def test_hardware_may_be_arrays():
    """D-160: a sweep over the machine: bandwidth, rate, link, memory and launch."""
    knobs = {
        "memory_bandwidth": np.array([1e12, 2e12]),
        "flop_rate": np.array([[100e12], [200e12]]),
        "links.0.bandwidth": np.array([[50e9], [100e9]]),
        "memory": np.array([1e6, 80e9]),
    }
    layout = Layout(tp=2)
    grid = ask(layout=layout, system=MACHINE.replace(knobs), batch=4, prompt=50)
    for i in range(2):
        for j in range(2):
            point = {key: float(np.broadcast_to(value, (2, 2))[i, j]) for key, value in knobs.items()}
            one = ask(layout=layout, system=MACHINE.replace(point), batch=4, prompt=50, ignore_memory=True)
            assert grid.mid.e2e[i, j] == pytest.approx(one.mid.e2e, rel=1e-12)
            assert grid.fits[i, j] == one.fits


def test_infeasible_points_of_an_array_are_masked_with_reasons():
    """F-02: nothing is dropped; masks say which points to trust."""
    grid = ask(layout=Layout(tp=np.array([1, 2, 3])), batch=np.array([[4], [10**7]]))
    assert grid.feasible.tolist() == [[True, True, False]] * 2
    assert grid.fits.tolist() == [[True] * 3, [False] * 3]
    assert any("does not divide the 8 heads" in reason for reason in grid.reasons)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_band_of_an_estimate(name):
    """E-22: low ≤ mid ≤ high for every figure; times at the fast end are those of the bare peak roofline."""
    used = PROFILES[name]
    found = ask(used=used, layout=Layout(tp=2) if name != "envelope" else Layout(), batch=4, prompt=100)
    for figure in FIGURES:
        values = [getattr(getattr(found, end), figure) for end in ("low", "mid", "high")]
        assert values == sorted(values), figure
    peak = msgspec.structs.replace(used, **{k: v for k, v in ALIGNED.items() if k != "vector_units"})
    bare = ask(used=peak, layout=Layout(tp=2) if name != "envelope" else Layout(), batch=4, prompt=100, band=False)
    assert found.low.ttft == pytest.approx(bare.mid.ttft, rel=1e-12)
    assert found.low.tpot == pytest.approx(bare.mid.tpot, rel=1e-12)
    # The smaller value, so the slow end of a throughput belongs to the slow end of the times.
    assert found.high.output_throughput == pytest.approx(bare.mid.output_throughput, rel=1e-12)
