"""How long single operators and whole steps take.

Expected times are worked out in the comments; the round device does 100 TFLOP/s and 1 TB/s.
"""

import msgspec
import numpy as np
import pytest
from builders import ALIGNED, TINY, link, machine, operators, switched
from hypothesis import given
from hypothesis import strategies as st

from rooflab import price
from rooflab.price import Cost, Roofline, rates_of, step_time
from rooflab.profiles import PROFILES, profile
from rooflab.work import Layout, Op, Step

ONE = Layout()


def an_op(**fields) -> Op:
    """An operator of 10⁹ FLOP and 10⁷ bytes unless said otherwise."""
    plain = {"name": "op", "kind": "gemm", "part": "ffn", "flop": 1e9, "weight_bytes": 1e7}
    return Op(**(plain | fields))


def cost(op: Op, used=None, **parts) -> Cost:
    """One operator on the round device, with no switch on unless given."""
    return Roofline(machine(**parts), ONE, used or switched("operator", **ALIGNED)).cost(op)


# ---------------------------------------------------------------------------------------------------------- operators


def test_time_is_the_larger_of_arithmetic_and_traffic_plus_launch():
    """A-012, B-030: 10⁹/100e12 = 10 µs of arithmetic, 10⁷/1e12 = 10 µs of traffic; twice the FLOP takes 20 µs."""
    assert cost(an_op()).compute == pytest.approx(10e-6)
    assert cost(an_op()).memory == pytest.approx(10e-6)
    used = switched("operator", **ALIGNED | {"launch_time": 3e-6})
    for flop, moved, seconds in [(2e9, 1e7, 20e-6), (1e9, 4e7, 40e-6)]:
        op = an_op(flop=flop, weight_bytes=moved)
        whole = step_time([op], Roofline(machine(), ONE, used), used)
        assert whole.time == pytest.approx(seconds + 3e-6)


def test_intensity_is_flop_per_byte():
    """A-011: weights, activations and cache all count; 10⁹ FLOP over 2 + 3 + 5 MB is 100 FLOP/byte."""
    op = an_op(weight_bytes=2e6, activation_bytes=3e6, kv_bytes=5e6)
    assert op.flop / op.bytes() == 100


def test_achievable_rates_are_shares_of_the_peak():
    """A-014, E-03: η_c = 0.5 doubles the arithmetic, η_m = 0.8 stretches the traffic by 1/0.8."""
    used = switched("operator", **ALIGNED | {"compute_efficiency": 0.5, "memory_efficiency": 0.8})
    priced = cost(an_op(), used)
    assert (priced.compute, priced.memory) == (pytest.approx(20e-6), pytest.approx(12.5e-6))


@pytest.mark.parametrize(
    ("rows", "padded"),
    # Below a tile of 64, rows round up to 16; from there on to whole tiles.
    [(1, 16), (16, 16), (17, 32), (60, 64), (64, 64), (65, 128), (128, 128), (129, 192)],
)
def test_rows_round_up_to_tiles(rows, padded):
    """A-013: decode rows round up to 16, larger ones to 64."""
    assert price.padded_rows(rows, 64.0) == padded
    assert list(price.padded_rows(np.array([float(rows)]), 64.0)) == [padded]


def test_padding_costs_arithmetic_and_no_bytes():
    """A-013: 2·⌈M⌉·⌈N⌉·⌈K⌉ with M, N, K = 1, 100, 40 on tiles of 64 × 64 × 32 is 2·16·128·64 = 262,144 FLOP, not 8,000."""
    op = an_op(m=1, n=100, k=40, flop=8000.0)
    used = switched("operator", **ALIGNED | {"tiles": True})
    priced = cost(op, used, tile=(64, 64, 32))
    assert priced.compute == pytest.approx(262144 / 100e12)
    assert priced.memory == cost(op).memory
    # Eight experts pad one by one; attention kernels and devices without tiles do not pad.
    assert cost(
        an_op(kind="grouped_gemm", m=1, n=100, k=40, groups=8), used, tile=(64, 64, 32)
    ).compute == pytest.approx(8 * 262144 / 100e12)
    assert (
        cost(an_op(kind="attention", m=1, n=100, k=40, flop=8000.0), used, tile=(64, 64, 32)).compute == 8000 / 100e12
    )
    assert cost(op, used).compute == 8000 / 100e12
    # The sum of a whole pass has no shape and stays as it is.
    assert cost(an_op(), used, tile=(64, 64, 32)).compute == pytest.approx(10e-6)


def test_every_operator_pays_its_launch_and_a_lone_rank_none_for_a_collective():
    """A-015, A-024: launch is per execution; two layers of three operators are six launches."""
    used = switched("operator", **ALIGNED | {"launch_time": 5e-6})
    ops = [an_op(name=f"op{i}", flop=1e-9, weight_bytes=0.0, count=2) for i in range(3)]
    exchange = an_op(
        name="c", flop=0.0, weight_bytes=0.0, collective="all_reduce", peers=1, message_bytes=1e6, axis="tp"
    )
    timed = step_time([*ops, exchange], Roofline(machine(link()), ONE, used), used)
    assert timed.time == pytest.approx(6 * 5e-6)


def test_launch_time_of_the_device_goes_before_the_profile():
    """A-015: a calibrated device says what a launch costs; a profile without launches keeps none."""
    assert rates_of(profile("operator"), 7e-6)["mid"].launch_time == 7e-6
    assert rates_of(profile("operator"), None)["mid"].launch_time == profile("operator").launch_time
    assert rates_of(profile("sharded"), 7e-6)["mid"].launch_time == 0.0


def test_number_formats_choose_the_rate():
    """E-10, B-039: fp8 runs at its own rate, except where a profile prices every format alike."""
    fast = machine().replace({"flop_rate.fp8": "200 TFLOP/s"})
    op = an_op(dtype="fp8")
    used = switched("operator", **ALIGNED)
    assert Roofline(fast, ONE, used).cost(op).compute == pytest.approx(5e-6)
    alike = msgspec.structs.replace(used, rate_by_dtype=False)
    assert Roofline(fast, ONE, alike).cost(op).compute == pytest.approx(10e-6)


def test_elementwise_work_runs_on_the_vector_units():
    """A-018: work outside the matrix units runs at the vector rate where the device has one and the profile uses it."""
    op = an_op(kind="elementwise", dtype="vector")
    used = switched("operator", **ALIGNED | {"vector_units": True})
    assert cost(op, used, vector_rate=10e12).compute == pytest.approx(100e-6)
    assert cost(op, used).compute == pytest.approx(10e-6)
    assert cost(op, switched("operator", **ALIGNED), vector_rate=10e12).compute == pytest.approx(10e-6)


@given(
    flop=st.floats(1.0, 1e15),
    moved=st.floats(1.0, 1e12),
    compute=st.floats(0.05, 1.0),
    memory=st.floats(0.05, 1.0),
    launch=st.floats(0.0, 1e-3),
)
def test_no_operator_beats_its_roofline(flop, moved, compute, memory, launch):
    """A-022: achieved FLOP/s ≤ min(F_ach, I·W_ach) whatever the inputs."""
    rates = {"compute_efficiency": compute, "memory_efficiency": memory, "launch_time": launch}
    used = switched("operator", **ALIGNED | rates)
    op = an_op(flop=flop, weight_bytes=moved)
    time = step_time([op], Roofline(machine(), ONE, used), used).time
    assert flop / time <= min(100e12 * compute, flop / moved * 1e12 * memory) * (1 + 1e-12)


# ---------------------------------------------------------------------------------------------------------------- steps


def three() -> list[Op]:
    """Arithmetic 10, 30 and 5 µs; traffic 20, 10 and 15 µs; the first two share a stage, the last is attention."""
    return [
        an_op(name="a", stage="s", flop=1e9, weight_bytes=2e7),
        an_op(name="b", stage="s", flop=3e9, weight_bytes=1e7),
        an_op(name="c", stage="t", flop=0.5e9, weight_bytes=1.5e7, part="attention"),
    ]


@pytest.mark.parametrize(
    ("group", "combine", "seconds"),
    [
        # max: op 20 + 30 + 15; stage max(40, 30) + 15; two stages the same here; step max(45, 45)
        ("op", "max", 65e-6),
        ("stage", "max", 55e-6),
        ("two_stage", "max", 55e-6),
        ("step", "max", 45e-6),
        # sum: everything once, however it is grouped
        ("op", "sum", 90e-6),
        ("stage", "sum", 90e-6),
        ("step", "sum", 90e-6),
    ],
)
def test_groups_over_which_the_maximum_is_taken(group, combine, seconds):
    """E-04: the grain of the maximum, or a plain sum."""
    used = switched("operator", **ALIGNED | {"group": group, "combine": combine})
    pricer = Roofline(machine(), ONE, used)
    assert step_time(three(), pricer, used).time == pytest.approx(seconds)
    assert step_time(three(), pricer, used, pass_time=1e-4).time == pytest.approx(seconds + 1e-4)
    detailed = step_time(three(), pricer, used, detail=True)
    assert detailed.time == pytest.approx(seconds)
    assert sum(item.time for item in detailed.priced) == pytest.approx(seconds)


def hidden_step(payload: float) -> float:
    """A ring of four ranks under two stages of 20 and 30 µs, in microseconds."""
    ops = [
        an_op(name="a", stage="S5", flop=2e9, weight_bytes=0.0, part="attention"),
        an_op(name="b", stage="S7", flop=3e9, weight_bytes=0.0, part="attention"),
        an_op(
            name="ring",
            stage="C1",
            flop=0.0,
            weight_bytes=0.0,
            collective="ring",
            peers=4,
            axis="cp",
            message_bytes=payload,
            hides_under=("S5", "S7"),
        ),
    ]
    used = switched("operator", **ALIGNED | {"group": "stage", "overlap": True})
    system = machine(link(100e9, 0.0, 4))
    return step_time(ops, Roofline(system, Layout(cp=4), used), used).time * 1e6


def test_communication_shows_only_what_exceeds_its_cover():
    """D-070: three hops of n/β each under 50 µs of work: 3 · 10 = 30 µs are hidden, of 3 · 20 = 60 µs ten show."""
    assert hidden_step(1e6) == pytest.approx(50)
    assert hidden_step(2e6) == pytest.approx(60)


def bound(**fields) -> str:
    used = switched("operator", **ALIGNED | {"launch_time": fields.pop("launch", 0.0)})
    system = machine(link())
    return step_time([an_op(**fields)], Roofline(system, Layout(tp=8), used), used, detail=True).priced[0].bound


def test_what_binds_an_operator_has_one_name():
    """E-24, D-074: compute, weight, kv, activation, comm, overhead or trivial."""
    assert bound(flop=2e9) == "compute"
    assert bound(weight_bytes=2e7) == "weight"
    assert bound(weight_bytes=1e6, kv_bytes=2e7) == "kv"
    assert bound(weight_bytes=1e6, activation_bytes=2e7) == "activation"
    assert bound(launch=1e-3) == "overhead"
    assert bound(flop=0.0, weight_bytes=0.0) == "trivial"
    wire = {"flop": 0.0, "weight_bytes": 0.0, "collective": "all_reduce", "axis": "tp", "message_bytes": 1e6}
    assert bound(**wire, peers=8) == "comm"
    assert bound(**wire, peers=1) == "trivial"


def test_shares_of_a_step_add_up_to_one():
    """A-005, A-007: shares by part and by bound are shares of the step's time."""
    used = profile("operator")
    step = Step(decode_sequences=4, decode_context=100)
    timed = step_time(operators(TINY, step), Roofline(machine(), ONE, used), used, detail=True)
    for of in ("part", "bound"):
        shares = timed.share(of)
        assert sum(shares.values()) == pytest.approx(1.0)
        assert list(shares.values()) == sorted(shares.values(), reverse=True)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_detail_changes_no_total(name):
    """F-04: the table of operators adds up to the time that is shown without it."""
    used = PROFILES[name]
    system = machine(link(), vector_rate=10e12, tile=(64, 64, 32))
    layout = Layout(tp=2)
    step = Step(prefill_sequences=2, prefill_tokens=30)
    ops = operators(TINY, step, layout, counting=used.counting)
    pricer = Roofline(system, layout, used)
    plain = step_time(ops, pricer, used, pass_time=used.pass_time)
    detailed = step_time(ops, pricer, used, pass_time=used.pass_time, detail=True)
    assert detailed.time == pytest.approx(plain.time, rel=1e-12)
    assert sum(item.time for item in detailed.priced) == pytest.approx(plain.time, rel=1e-12)


def test_a_pricer_of_ones_own():
    """E-31: anything that prices an operator can take the roofline's place; its basis is kept."""

    class Constant:
        def cost(self, op):
            return Cost(1.0, 2.0, 0.0, 0.5, "measured")

    used = switched("operator", **ALIGNED)
    timed = step_time(three(), Constant(), used, detail=True)
    assert timed.time == pytest.approx(3 * 2.5)
    assert {item.basis for item in timed.priced} == {"measured"}


def test_ends_of_the_band():
    """E-22: the fast end has the better, the slow end the worse of the profile's and the band's own figures."""
    ends = {"launch_time": 3e-6, "launch_band": (1e-6, 4e-6), "worst": (0.4, 0.6, 0.5), "pass_time": 1e-4}
    rates = rates_of(switched("operator", **ends))
    assert [rates[end].launch_time for end in ("low", "mid", "high")] == [1e-6, 3e-6, 4e-6]
    assert [rates[end].pass_time for end in ("low", "mid", "high")] == [0.0, 1e-4, 2e-4]
    assert [getattr(rates["high"], field) for field in ("compute", "memory", "link")] == [0.4, 0.6, 0.5]
    # A launch outside the band widens it.
    assert rates_of(switched("operator", **ends | {"launch_time": 0.5e-6}))["low"].launch_time == 0.5e-6
    assert rates_of(switched("operator", **ends | {"launch_time": 9e-6}))["high"].launch_time == 9e-6


def test_a_price_may_bring_its_own_band():
    """E-22: from 8 to 15 µs around 10, and never below the peak roofline."""
    assert Cost(10e-6, 0.0, 0.0, 0.0, low=0.8, high=1.5).ends(10e-6) == (pytest.approx(8e-6), pytest.approx(15e-6))
    assert Cost(10e-6, 0.0, 0.0, 0.0, low=0.8, floor=9e-6).ends(10e-6) == (9e-6, 10e-6)
    assert Cost(10e-6, 0.0, 0.0, 0.0).ends(10e-6) == (10e-6, 10e-6)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_band_brackets_the_middle(name):
    """E-22, E-28: the fast end is the peak roofline, the slow end is slower than the middle, whatever the switches."""
    for used in (
        PROFILES[name],
        msgspec.structs.replace(PROFILES[name], compute_efficiency=0.2, memory_efficiency=0.99),
    ):
        rates = rates_of(used)
        assert (rates["low"].compute, rates["low"].memory, rates["low"].link) == (1.0, 1.0, 1.0)
        assert (rates["low"].launch_time, rates["low"].pass_time, rates["low"].tiles) == (0.0, 0.0, False)
        for field in ("compute", "memory", "link"):
            values = [getattr(rates[end], field) for end in ("low", "mid", "high")]
            assert values == sorted(values, reverse=True), field
        for field in ("launch_time", "pass_time"):
            values = [getattr(rates[end], field) for end in ("low", "mid", "high")]
            assert values == sorted(values), field
