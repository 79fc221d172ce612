"""The simulator against queueing theory: expected values are formulas, inside intervals from batch means (A-054).

Each case turns the engine into a textbook queue by its limits and a surface of one line.
"""

import math

import pytest

from rooflab.sim.cluster import simulate
from rooflab.sim.measure import BATCHES, half_width
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import LineSurface
from rooflab.sim.traffic import Traffic, lengths, open_loop

ROOM = 10**9


def times(run, first, last):
    """Seconds between two columns, in order of arrival."""
    a, b = getattr(run, first), getattr(run, last)
    return [math.ldexp(b[r] - a[r], -run.bits) for r in run.served()]


def mean_of(values):
    """Mean and its half width at 95 % from 20 batches, widened to 99.9 % so that one run in a thousand fails by chance."""
    size = len(values) // BATCHES
    parts = [math.fsum(values[i * size : (i + 1) * size]) / size for i in range(BATCHES)]
    return math.fsum(values) / len(values), half_width(parts) * 3.883 / 2.093


def agrees(values, expected):
    mean, width = mean_of(values)
    assert abs(mean - expected) <= width, f"{mean} ± {width} against {expected}"
    assert width < 0.25 * expected, "the interval is too wide to say anything"


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_server_with_constant_service_is_m_d_1(load):
    """M/D/1: one slot, one token, service D: TTFT = D (1 + ρ / (2 (1 − ρ)))."""
    service = 0.020
    traffic = open_loop(60_000, load / service, lengths(1, "prompt"), lengths(1, "output"), seed=11)
    run = simulate(traffic, LineSurface(service), Limits(blocks=ROOM, slots=1, budget=1))
    agrees(times(run, "arrival", "first"), service * (1.0 + load / (2.0 * (1.0 - load))))


def test_one_server_with_two_service_times_is_m_g_1():
    """M/G/1 (Pollaczek–Khinchine): one slot, steps of 10 ms, 10 tokens (90 %) or 200 (10 %): Wq = λ E[S²] / (2 (1 − ρ))."""
    step, load = 0.010, 0.3
    mean, square = step * (0.9 * 10 + 0.1 * 200), step * step * (0.9 * 100 + 0.1 * 40_000)
    rate = load / mean
    traffic = open_loop(60_000, rate, lengths(1, "prompt"), lengths("choice:10@0.9,200@0.1", "output"), seed=5)
    run = simulate(traffic, LineSurface(step), Limits(blocks=ROOM, slots=1))
    wait = rate * square / (2.0 * (1.0 - load))
    agrees(times(run, "arrival", "first"), wait + step)
    agrees(times(run, "arrival", "finish"), wait + mean)


@pytest.mark.parametrize("asynchronous, ahead", [(False, 1.5), (True, 2.5)])
def test_unlimited_slots_with_a_constant_step_are_gated(asynchronous, ahead):
    """Gated boundary: an arrival waits half a step for the boundary and one step for its token; one more when decided ahead."""
    step, answer, rate = 0.010, 50, 100.0
    traffic = open_loop(40_000, rate, lengths(1, "prompt"), lengths(answer, "output"), seed=2)
    limits = Limits(blocks=ROOM, slots=4096, budget=8192, asynchronous=asynchronous)
    run = simulate(traffic, LineSurface(step), limits)
    busy = [r for r in run.served() if run.arrival[r] > run.arrival[0]]
    first = times(run, "arrival", "first")
    assert math.fsum(first) / len(first) == pytest.approx(ahead * step, rel=0.01)
    sojourn = times(run, "arrival", "finish")
    expected = (ahead - 1.0) * step + answer * step
    assert math.fsum(sojourn) / len(sojourn) == pytest.approx(expected, rel=0.001)
    assert len(busy) == len(first) - 1


def test_littles_law_is_exact_on_a_finite_run():
    """Little: the integral of requests in the system is the sum of their sojourns; in ticks both are whole numbers."""
    traffic = open_loop(3000, 15.0, lengths("geometric:300", "prompt"), lengths("geometric:60", "output"), seed=9)
    run = simulate(traffic, LineSurface(5e-3, 1e-4, 1e-8, 1e-5), Limits(blocks=5000, slots=32))
    edges = sorted([(at, 1) for at in run.arrival] + [(at, -1) for at in run.finish])
    area = inside = last = 0
    for at, change in edges:
        area += inside * (at - last)
        inside, last = inside + change, at
    assert area == sum(run.finish) - sum(run.arrival)
    held = sum(row[2] * row[6] for row in run.logs[0])
    assert not any(run.preempted)
    assert held == sum(run.finish) - sum(run.admitted)


@pytest.mark.parametrize("output", ["256", "geometric:256", "choice:56@0.5,456@0.5"])
def test_a_shared_step_is_generalised_processor_sharing(output):
    """The batching law: a step of α + β n shared by n is processor sharing whose mean does not depend on the lengths' shape.

    π(n) ∝ (λ E[O])^n ∏_{k≤n} (α + β k) / k; a sojourn is E[N] / λ, and half a step for the boundary.
    """
    alpha, beta, rate, mean = 0.005, 0.0001, 20.0, 256.0
    weights, weight = [1.0], 1.0
    for n in range(1, 2000):
        weight *= rate * mean * (alpha + beta * n) / n
        weights.append(weight)
    total = math.fsum(weights)
    count = math.fsum(n * w for n, w in enumerate(weights)) / total
    expected = count / rate + (alpha + beta * count) / 2.0
    assert count / rate == pytest.approx(2.6754, rel=1e-3)  # λ = 20: 2675.4 ms, worked out apart
    traffic = open_loop(30_000, rate, lengths(1, "prompt"), lengths(output, "output"), seed=7)
    run = simulate(traffic, LineSurface(alpha, beta), Limits(blocks=ROOM, slots=4096, budget=8192))
    sojourns = times(run, "arrival", "finish")[2000:]
    mean_sojourn, width = mean_of(sojourns)
    assert abs(mean_sojourn - expected) <= width + 0.002 * expected, f"{mean_sojourn} ± {width} against {expected}"


def test_a_burst_adds_up_by_hand():
    """64 requests of 1,024 / 256 at once: O a + b B (255 × 1025 + 255 × 254 / 2) with prompts free, to the tick."""
    a, b = 0.005, 50e-9
    surface = LineSurface(a, 0.0, b)
    traffic = Traffic(arrival=[0.0] * 64, prompt=[1024] * 64, output=[256] * 64)
    run = simulate(traffic, surface, Limits(blocks=ROOM, budget=64 * 1024))
    fixed, slope = round(math.ldexp(a, run.bits)), round(math.ldexp(b, run.bits))
    context = 64 * (255 * 1025 + 255 * 254 // 2)
    assert max(run.finish) == 256 * fixed + slope * context
    assert run.makespan() == pytest.approx(256 * a + b * context, rel=1e-6)


def test_the_best_order_for_the_mean_is_shortest_first():
    """Shortest job first has the smallest mean wait of all orders that do not interrupt, when all are there at the start."""
    prompts = [900, 100, 500, 300, 700]
    surface = LineSurface(0.001, 0.0, 0.0, 1e-4)
    traffic = Traffic(arrival=[0.0] * 5, prompt=prompts, output=[1] * 5)
    limits = Limits(blocks=ROOM, slots=1, budget=8192)
    waits = {}
    for name in ("chunked", "shortest_first"):
        run = simulate(traffic, surface, limits, policy_name=name)
        waits[name] = math.fsum(times(run, "arrival", "first"))
    fixed, token = round(math.ldexp(0.001, 44)), round(math.ldexp(1e-4, 44))

    def by_hand(order):
        end = total = 0
        for prompt in order:
            end += fixed + token * prompt
            total += end
        return math.ldexp(total, -44)

    assert waits["shortest_first"] == by_hand(sorted(prompts))
    assert waits["chunked"] == by_hand(prompts)


def test_priorities_go_first():
    """The smallest priority number first, arrivals among equals."""
    traffic = Traffic(arrival=[0.0] * 4, prompt=[10] * 4, output=[3] * 4, priority=[2, 1, 2, 0])
    run = simulate(traffic, LineSurface(0.01), Limits(blocks=ROOM, slots=1), policy_name="priority")
    assert sorted(range(4), key=lambda r: run.first[r]) == [3, 1, 0, 2]


def test_priority_admits_by_number_but_pushes_nobody_out_while_there_is_room():
    """vLLM's priority policy: an urgent request waits for a slot like any other; it only goes first when one is free."""
    traffic = Traffic(arrival=[0.0, 1.5, 1.5], prompt=[1] * 3, output=[4] * 3, priority=[9, 5, 0])
    run = simulate(traffic, LineSurface(1.0), Limits(blocks=ROOM, slots=1), policy_name="priority")
    assert [math.ldexp(at, -run.bits) for at in run.admitted] == [0.0, 8.0, 4.0]
    assert not any(run.preempted)


@pytest.mark.parametrize("policy, ends", [("priority", [6.0, 4.0]), ("chunked", [4.0, 6.0])])
def test_when_blocks_run_out_the_least_urgent_goes(policy, ends):
    """Two requests of four blocks in five: the third token's iteration has one block for two. Priority pushes out the larger
    number, first come first served the latest; who is pushed out computes its three tokens again when the other has ended."""
    traffic = Traffic(arrival=[0.0, 0.0], prompt=[1, 1], output=[4, 4], priority=[9, 0])
    run = simulate(traffic, LineSurface(1.0), Limits(blocks=5, block_tokens=1), policy_name=policy)
    run.check()
    assert [math.ldexp(at, -run.bits) for at in run.finish] == ends
    assert run.preempted == ([1, 0] if policy == "priority" else [0, 1])


@pytest.mark.parametrize("room, ends, swapped", [(2, [4.5, 7.0], 1), (1, [4.0, 6.0], 0)])
def test_a_swap_costs_its_blocks_twice(room, ends, swapped):
    """The same two requests, a block takes 0.25 s to the host or back: two blocks leave in the third iteration (1.5 s) and return
    in the fifth; a host with room for one block alone takes none, and the request is computed again."""
    traffic = Traffic(arrival=[0.0, 0.0], prompt=[1, 1], output=[4, 4])
    run = simulate(traffic, LineSurface(1.0), Limits(blocks=5, block_tokens=1, host_blocks=room, swap_time=0.25))
    run.check()
    assert [math.ldexp(at, -run.bits) for at in run.finish] == ends
    assert (run.preempted, run.swapped) == ([0, 1], [0, swapped])
    assert run.host == [(2 * swapped, 0)]
