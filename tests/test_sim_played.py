"""A run over time, where its iterations went, and one request's way through it: by hand on steps of one second (B-074)."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab import api
from rooflab.api import played, serving
from rooflab.sim.cluster import simulate as play
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import LineSurface
from rooflab.sim.traffic import Traffic
from rooflab.units import InputError

ASK = {"kind": "simulate", "model": "llama-3.1-8b", "on": "h100-sxm", "requests": 400, "rate": 12, "seed": 7}


def run(arrival, prompt, output, *, slots=1, budget=64, blocks=100, per_token=0.0):
    """Every iteration takes a second, and `per_token` for each prompt token it computes."""
    traffic = Traffic(arrival=arrival, prompt=prompt, output=output)
    limits = Limits(blocks=blocks, block_tokens=1, slots=slots, budget=budget)
    return play(traffic, LineSurface(1.0, per_prompt_token=per_token), limits)


def test_occupancy_over_time_by_hand():
    """Two requests of one prompt token and four answer tokens, one slot: the second waits four seconds, then runs four.

    A request's cache is one block in its first second and one more a second, four at its end; the pool is 100. The three
    seconds of plain decoding are one stretch, which shows its mean.
    """
    found = played.timeline(run([0.0, 0.0], [1, 1], [4, 4]), 8)
    assert found.span == 1.0
    assert found.start == [0, 1, 2, 3, 4, 5, 6, 7]
    assert found.running == [1.0] * 8
    assert found.waiting == [1.0] * 4 + [0.0] * 4
    assert found.kv == [0.01, 0.03, 0.03, 0.03] * 2
    assert played.timeline(run([0.0, 0.0], [1, 1], [4, 4]), 2).kv == [0.025, 0.025]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=20),
    st.integers(1, 4),
    st.integers(1, 50),
)
@settings(max_examples=60, deadline=None)
def test_time_integrals_are_the_requests_own_times(rows, slots, spans):
    """Little's law: the area under `waiting` is all waiting time, that under `running` all time in a slot where the cache
    holds every sequence to its end: a preempted one is in neither until it runs again."""
    rows = sorted(rows)
    found = run(
        [float(at) for at, _, _ in rows], [p for _, p, _ in rows], [o for _, _, o in rows], slots=slots, blocks=1000
    )
    seen, scale = played.timeline(found, spans), math.ldexp(1.0, -found.bits)
    waited = math.fsum(a - c for a, c in zip(found.admitted, found.arrival, strict=True)) * scale
    held = math.fsum(f - a for f, a in zip(found.finish, found.admitted, strict=True)) * scale
    assert math.fsum(seen.waiting) * seen.span == pytest.approx(waited, abs=1e-9)
    assert math.fsum(seen.running) * seen.span == pytest.approx(held, abs=1e-9)


def test_a_request_s_way_by_hand():
    """20 prompt tokens in iterations of at most 8: chunks of 8, 8 and 4, of 1 + 0.1 s a token; then 2 tokens more.

    It comes at 0 behind a request that holds the only slot for 1.1 + 1 s; its first token is there 2.1 + 1.8 + 1.8 + 1.4 s
    after it came, and the last one 2 s later.
    """
    found = played.path(run([0.0, 0.0], [1, 20], [2, 3], budget=8, per_token=0.1), 1)
    assert found.queue_time == pytest.approx(2.1)
    assert [chunk.prompt_tokens for chunk in found.chunks] == [8, 8, 4]
    assert [chunk.time for chunk in found.chunks] == pytest.approx([1.8, 1.8, 1.4])
    assert found.chunks[0].start == pytest.approx(2.1)
    assert found.ttft == pytest.approx(2.1 + 5.0)
    assert found.tpot == pytest.approx(1.0)
    assert found.decoded.decode == 2
    assert found.decoded.decode_time == pytest.approx(1.0)
    assert found.decoded.prompt == 0
    assert found.decoded.prompt_time is None


def test_where_the_iterations_went_by_hand():
    """One request decodes alone for three of its seven tokens; the other's 12 prompt tokens come in two chunks, 7 and 5,
    beside it (a decoding sequence takes a token of the 8), and its two answer tokens after the first are decoded beside it."""
    found = played.iterations(run([0.0, 4.0], [1, 12], [7, 2], slots=2, budget=8))
    assert (found.decode, found.prompt) == (4, 3)
    assert found.prompt_tokens == pytest.approx((1 + 7 + 5) / 3)
    assert found.prompt_sequences == pytest.approx((0 + 1 + 1) / 3)
    assert found.decode_time == found.prompt_time == pytest.approx(1.0)


def test_the_report_carries_what_was_asked_for_and_no_more():
    plain = api.answer(ASK)
    assert plain["timeline"] is plain["request"] is plain["saturated_rate"] is plain["requests_table"] is None
    told = api.answer(
        {**ASK, "timeline": 40, "request": 5, "saturated": True, "requests_table": True, "columns": ["first", "prompt"]}
    )
    assert list(told["requests_table"]) == ["first", "prompt"]
    assert told["requests_table"]["first"][5] == told["request"]["first"]
    assert len(told["timeline"]["running"]) == 40
    assert told["run"] == plain["run"]
    rows = told["iterations"]
    assert rows["decode"] + rows["prompt"] == told["run"]["iterations"]
    chunks = told["request"]["chunks"]
    assert sum(chunk["prompt_tokens"] for chunk in chunks) >= 1024
    waited = math.fsum([told["request"]["queue_time"], *(chunk["time"] for chunk in chunks)])
    assert waited == pytest.approx(told["request"]["ttft"], rel=1e-9)


def test_the_saturated_rate_is_what_a_burst_is_served_at():
    """By hand from a run of the same requests, all there at the start."""
    found = api.answer({**ASK, "saturated": True})["saturated_rate"]
    burst = api.answer({**ASK, "rate": None, "arrivals": [[0.0, 1024, 256]] * 400})["run"]
    assert found == pytest.approx(400 / burst["makespan"])
    trace = api.answer(
        {**ASK, "rate": None, "arrivals": [[float(i), 1024, 256] for i in range(400)], "saturated": True}
    )
    assert trace["saturated_rate"] == pytest.approx(found)


def test_a_trace_as_text_is_the_trace_as_a_file(tmp_path):
    text = "arrival,prompt,output\n" + "".join(f"{i * 0.1},{500 + i},{20 + i}\n" for i in range(50))
    (tmp_path / "t.csv").write_text(text)
    plain = {key: value for key, value in ASK.items() if key != "rate"}
    as_file = api.answer({**plain, "trace": str(tmp_path / "t.csv")})
    as_text = api.answer({**plain, "trace_text": text})
    assert as_text["run"] == as_file["run"]
    for bad, said in (("", "empty"), ("a,b\n1,2\n", "line 1"), ("arrival,prompt,output\n1,x,3\n", "line 2")):
        with pytest.raises(InputError, match=said):
            api.answer({**plain, "trace_text": bad})
    with pytest.raises(InputError, match="beside"):
        api.answer({**ASK, "trace_text": text})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"request": 400}, "0 to 399"),
        ({"request": -1}, "request"),
        ({"timeline": 10**9}, "timeline"),
        ({"requests_table": True, "columns": ["frist"]}, "columns"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_words(more, said):
    with pytest.raises(InputError, match=said):
        api.answer({**ASK, **more})


def test_what_was_priced_before_changes_nothing():
    """A-054: the same seed gives the same bytes, whatever was asked before."""
    serving._SURFACES.clear()
    fresh = api.answer(ASK)
    for same in ({"rate": 3}, {"policy": "static"}, {"seed": 1}):
        api.answer({**ASK, **same})
    assert len(serving._SURFACES) == 1  # the machine is the same: priced once, and not by another's prices
    assert api.answer({**ASK, "prices": "roofline"})["run"] != api.answer({**ASK, "prices": "fitted"})["run"]
    for other in (
        {"rate": 3},
        {"policy": "static"},
        {"tp": 2, "on": "2x h100-sxm"},
        {"draft_tokens": 3},
        {"weights": "fp8"},
    ):
        assert api.answer({**ASK, **other})["run"] != fresh["run"]
    assert api.answer(ASK) == fresh
