"""The two-stage calculator (profile `classroom`).

The reference figures are requirement B-056: a model of exactly 8.03e9 parameters, 32 layers, 32 query and 8 KV heads of 128,
prompt 2,048, output 256, 989 TFLOP/s at one half, 3.35 TB/s at seven tenths.
"""

import math

import numpy as np
import pytest
from builders import BF16, link, machine, operators, published, switched

from rooflab import hf
from rooflab.estimate import Workload, estimate
from rooflab.price import Roofline, step_time
from rooflab.profiles import profile
from rooflab.work import Layout, Precision, Step

CLASSROOM = profile("classroom")
LAB = published(8.03e9)
WIDTH, LAYERS, PARAMS = 4096, 32, 8.03e9
FLOPS, BANDWIDTH = 989e12 * 0.5, 3.35e12 * 0.7


def h100(links: float = 450e9, memory: float = 80e9):
    return machine(link(links, 0.0, 8), rate=989e12, bandwidth=3.35e12, memory=memory)


def ask(batch=1, tp=1, links=450e9, precision=BF16, prompt=2048, output=256, memory=80e9, **how):
    work = Workload(batch=batch, prompt=prompt, output=output)
    used = how.pop("used", CLASSROOM)
    return estimate(LAB, precision, Layout(tp=tp), h100(links, memory), work, used, **how)


def weights(name: str) -> Precision:
    """All weights in one format, 5 % metadata on the narrow ones."""
    named = dict.fromkeys(("attention", "ffn", "expert", "embedding", "head"), name)
    return Precision(**named, metadata=CLASSROOM.metadata)


def one_pass(step: Step, tp: int = 1, links: float = 450e9) -> float:
    """Seconds of one pass without the fixed 0.1 ms."""
    layout = Layout(tp=tp)
    ops = operators(LAB, step, layout, counting="published")
    return step_time(ops, Roofline(h100(links), layout, CLASSROOM), CLASSROOM).time


# ---------------------------------------------------------------------------------------------------- reference figures


def test_the_model_is_the_reference_one():
    """B-056: 8.03e9 parameters exactly."""
    assert LAB.params() == 8.03e9


def test_one_request():
    """B-056, B-054, B-052: batch 1 in BF16: TTFT 68.838 ms, TPOT 7.0711 ms, E2E 1,871.98 ms, 136.75 token/s."""
    mid = ask().mid
    assert mid.ttft == pytest.approx(68.838e-3, abs=0.0005e-3)
    assert mid.tpot == pytest.approx(7.0711e-3, abs=0.00005e-3)
    assert mid.e2e == pytest.approx(1871.98e-3, abs=0.005e-3)
    assert mid.output_throughput == pytest.approx(136.75, abs=0.005)


def test_thirty_two_requests():
    """B-056: batch 32: TTFT 2,199.7 ms, TPOT 10.869 ms, 1,647.8 token/s."""
    mid = ask(batch=32).mid
    assert mid.ttft == pytest.approx(2199.7e-3, abs=0.05e-3)
    assert mid.tpot == pytest.approx(10.869e-3, abs=0.0005e-3)
    assert mid.output_throughput == pytest.approx(1647.8, abs=0.05)


@pytest.mark.parametrize(("name", "gigabytes", "milliseconds"), [("int8", 8.4315, 7.616), ("int4", 4.21575, 5.818)])
def test_quantised_weights(name, gigabytes, milliseconds):
    """B-056, B-025, B-039: batch 32: INT8 8.4315 GB and 7.616 ms a token, INT4 4.21575 GB and 5.818 ms."""
    found = ask(batch=32, precision=weights(name))
    (linear, *_) = found.decode_operators
    assert linear.weight_bytes == pytest.approx(gigabytes * 1e9, rel=1e-9)
    assert found.mid.tpot == pytest.approx(milliseconds * 1e-3, abs=0.0005e-3)
    # Storage and traffic only: a compute-bound prefill does not change (B-039).
    assert found.mid.ttft == pytest.approx(ask(batch=32).mid.ttft, rel=1e-12)


def test_eight_devices():
    """B-056, B-061: batch 1, TP 8 at 450 GB/s: TTFT 12.868 ms, TPOT 0.9734 ms."""
    mid = ask(tp=8).mid
    assert mid.ttft == pytest.approx(12.868e-3, abs=0.0005e-3)
    assert mid.tpot == pytest.approx(0.9734e-3, abs=0.00005e-3)


def test_a_slow_link():
    """B-061, B-062: the same over a PCIe-class 50 GB/s link: TTFT 45.941 ms, TPOT 1.0467 ms (oracle/anchors.py `lab`)."""
    mid = ask(tp=8, links=50e9).mid
    # One pass moves 2·32·2(7/8)·tokens·4,096·2 B: 1.879 GB for the prompt, 0.917 MB for a token; at 450 GB/s that is
    # 4.176 ms and 0.00204 ms, at 50 GB/s 37.581 ms and 0.01835 ms, so 33.405 ms and 0.01631 ms more than above.
    fast = ask(tp=8).mid
    assert mid.ttft - fast.ttft == pytest.approx(33.405e-3, rel=1e-4)
    assert mid.tpot - fast.tpot == pytest.approx(0.01631e-3, rel=1e-3)


# ---------------------------------------------------------------------------------------------------- counts and stages


def test_prefill_by_hand():
    """B-030, B-031, B-032, B-033, B-035, B-036: two stages and 0.1 ms.

    2·P·T FLOP against weights and 4·L·T·width·2 bytes; 2·L·T(T+1)·width FLOP
    against the cache written once and as many activation bytes."""
    tokens = 2 * 100
    linear, attention = operators(LAB, Step(prefill_sequences=2, prefill_tokens=100), counting="published")
    traffic = 4 * LAYERS * tokens * WIDTH * 2
    assert linear.flop == 2 * PARAMS * tokens
    assert linear.bytes() == PARAMS * 2 + traffic
    assert attention.flop == 2 * LAYERS * 2 * 100 * 101 * WIDTH
    assert attention.bytes() == 2 * 100 * 131072 + traffic
    by_hand = max(linear.flop / FLOPS, linear.bytes() / BANDWIDTH) + max(
        attention.flop / FLOPS, attention.bytes() / BANDWIDTH
    )
    assert one_pass(Step(prefill_sequences=2, prefill_tokens=100)) == pytest.approx(by_hand, rel=1e-12)
    assert ask(batch=2, prompt=100, output=1).mid.ttft == pytest.approx(by_hand + 1e-4, rel=1e-12)


def test_a_cached_prefix_by_hand():
    """B-033, B-036: 100 new tokens after 50 cached ones see 100·50 + 100·101/2 pairs and move 150 entries."""
    step = Step(prefill_sequences=2, prefill_tokens=100, prefill_context=50)
    linear, attention = operators(LAB, step, counting="published")
    assert linear.flop == 2 * PARAMS * 200
    assert attention.flop == 4 * LAYERS * 2 * (5000 + 5050) * WIDTH
    assert attention.kv_bytes == 2 * 150 * 131072


def test_decode_by_hand():
    """B-034, B-036: at a context of c a step moves c entries a request: 4·L·B·c·width FLOP, B·c·131,072 bytes of cache."""
    linear, attention = operators(LAB, Step(decode_sequences=3, decode_context=500), counting="published")
    traffic = 4 * LAYERS * 3 * WIDTH * 2
    assert (linear.flop, linear.bytes()) == (2 * PARAMS * 3, PARAMS * 2 + traffic)
    assert attention.flop == 4 * LAYERS * 3 * 500 * WIDTH
    assert attention.bytes() == 3 * 500 * 131072 + traffic


def test_intensity_and_knee():
    """B-037: intensity is FLOP over bytes; the knee 494.5e12 / 2.345e12 = 210.9 FLOP/byte decides which stage binds."""
    knee = FLOPS / BANDWIDTH
    assert knee == pytest.approx(210.9, abs=0.05)
    linear, _ = operators(LAB, Step(prefill_sequences=1, prefill_tokens=2048), counting="published")
    assert linear.flop / linear.bytes() > knee
    linear, attention = operators(LAB, Step(decode_sequences=1, decode_context=2048), counting="published")
    assert max(linear.flop / linear.bytes(), attention.flop / attention.bytes()) < knee


@pytest.mark.parametrize(
    "step", [Step(prefill_sequences=2, prefill_tokens=64), Step(decode_sequences=4, decode_context=99)]
)
def test_tensor_parallelism_divides_all_work(step):
    """B-038, B-060: FLOP, weight, cache and activation bytes all divide by tp."""
    whole = operators(LAB, step, counting="published")
    for tp in (2, 4, 8):
        shared = operators(LAB, step, Layout(tp=tp), counting="published")
        assert [op.name for op in shared] == ["linear", "attention", "communication"]
        for one, part in zip(whole, shared, strict=False):
            for field in ("flop", "weight_bytes", "activation_bytes", "kv_bytes"):
                assert getattr(part, field) == pytest.approx(getattr(one, field) / tp, rel=1e-12)


def test_communication_by_hand():
    """B-061: L × 2 × 2(TP−1)/TP × tokens × d × 2 / link, no latency, no overlap: 64 · 2·(3/4) · 100·4,096·2 / 300e9."""
    step = Step(prefill_sequences=1, prefill_tokens=100)
    priced = one_pass(step, tp=4, links=300e9) - one_pass(step, tp=4, links=math.inf)
    assert priced == pytest.approx(64 * 1.5 * 100 * 4096 * 2 / 300e9, rel=1e-9)
    slow = machine(link(300e9, 1e-3, 8), rate=989e12, bandwidth=3.35e12)
    ops = operators(LAB, step, Layout(tp=4), counting="published")
    assert step_time(ops, Roofline(slow, Layout(tp=4), CLASSROOM), CLASSROOM).time == one_pass(step, 4, 300e9)


def test_a_faster_link_speeds_only_the_exchange():
    """B-063: ten times the link leaves what one device reads and computes as it was."""
    slow, fast = ask(tp=8, links=50e9), ask(tp=8, links=500e9)
    for phase in ("prefill", "decode"):
        assert getattr(slow, phase).memory == getattr(fast, phase).memory
        assert getattr(slow, phase).compute == getattr(fast, phase).compute
        assert getattr(slow, phase).comm == pytest.approx(10 * getattr(fast, phase).comm)


@pytest.mark.parametrize("batch", [1, 32])
def test_sharding_never_beats_an_even_share(batch):
    """B-064: at tp = 1 nothing is exchanged; under tp both times are at least a tp-th of one device's stages."""
    alone = ask(batch=batch)
    assert alone.prefill.comm == alone.decode.comm == 0
    for tp in (2, 4, 8):
        mid = ask(batch=batch, tp=tp).mid
        assert mid.ttft >= (alone.mid.ttft - 1e-4) / tp
        assert mid.tpot >= (alone.mid.tpot - 1e-4) / tp


# -------------------------------------------------------------------------------------------------------------- metrics


def test_tpot_is_the_mean_over_a_growing_context():
    """B-051: the mean of output − 1 steps at contexts prompt + 1 … prompt + output − 1, one by one."""
    steps = [one_pass(Step(decode_sequences=5, decode_context=100 + i)) + 1e-4 for i in range(1, 40)]
    assert ask(batch=5, prompt=100, output=40).mid.tpot == pytest.approx(math.fsum(steps) / 39, rel=1e-12)


def test_a_single_token_has_no_tpot():
    """B-050, B-051, B-054: one-token answers end with the first token."""
    mid = ask(output=1).mid
    assert mid.tpot is None
    assert mid.decode_throughput is None
    assert mid.e2e == mid.ttft
    arrays = ask(output=np.array([1, 256])).mid
    assert list(np.isnan(arrays.tpot)) == [True, False]
    assert arrays.e2e[0] == arrays.ttft[0] == pytest.approx(mid.ttft, rel=1e-12)


def test_throughputs_and_end_to_end():
    """B-052, B-053, B-054, B-055: equal requests that arrive together."""
    mid = ask(batch=8).mid
    assert mid.e2e == pytest.approx(mid.ttft + 255 * mid.tpot, rel=1e-12)
    assert mid.output_throughput == pytest.approx(8 * 256 / mid.e2e, rel=1e-12)
    assert mid.decode_throughput == pytest.approx(8 / mid.tpot, rel=1e-12)


def test_out_of_memory_shows_no_times():
    """B-040: what does not fit has memory and no performance figures, unless memory is ignored."""
    found = ask(batch=512)
    assert found.memory.over > 0
    assert not found.fits
    assert (found.mid, found.low, found.high, found.prefill, found.decode, found.cost, found.energy) == (None,) * 7
    assert ask(batch=512, ignore_memory=True).mid is not None


@pytest.mark.parametrize("batch", [1, 7, 32])
def test_memory_by_kind(batch):
    """B-021, B-025, B-026, B-027, B-028, B-029: weights of 16.06 GB, a cache of 131,072 B × 2,304
    tokens, eight buffers, and 2 GB of reserve."""
    m = ask(batch=batch, ignore_memory=True).memory
    assert m.weights == 16.06e9
    assert m.kv == batch * 2304 * 131072
    assert m.workspace == 8 * batch * 2048 * 4096 * 2
    assert m.reserve == 2e9
    halves = ask(batch=batch, tp=2, ignore_memory=True).memory
    assert (halves.weights, halves.kv, halves.workspace) == (m.weights / 2, m.kv / 2, m.workspace / 2)
    assert halves.reserve == m.reserve


def test_two_devices_exchange_what_the_sharded_model_exchanges():
    """E-30: at tp = 2, in one cube, α = 0 and the cube's bandwidth the link's, both profiles exchange for as long."""
    layout, step = Layout(tp=2), Step(decode_sequences=4, decode_context=300)
    system = machine(link(300e9, 0.0, 8))
    llama = hf.load("llama-3.1-8b")
    times = []
    for name, counting in (("classroom", "published"), ("sharded", "stages")):
        used = switched(name, outside=False)
        ops = operators(llama, step, layout, counting=counting, outside=False)
        times.append(step_time(ops, Roofline(system, layout, used), used, detail=True).comm)
    assert times[0] == pytest.approx(times[1], rel=1e-12)
    # 2 · 32 layers · 2·(1/2) · 4·4,096·2 bytes / 300 GB/s
    assert times[0] == pytest.approx(64 * 4 * 4096 * 2 / 300e9, rel=1e-12)
