"""Traffic: the same bytes from the same seed, distributions with the moments they are named for, and traces refused by line
(A-054, B-072, B-079)."""

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.sim import streams, traces
from rooflab.sim.cluster import simulate
from rooflab.sim.measure import measure
from rooflab.sim.schedule import Limits
from rooflab.sim.surface import LineSurface
from rooflab.sim.traffic import Lengths, burst, closed_loop, conversations, lengths, open_loop
from rooflab.units import InputError

TRACES = Path(__file__).parent.parent / "data" / "traces"
FIXED = Lengths(form="fixed", a=10.0)


@given(st.floats(1e-300, 1e300))
def test_the_logarithm_is_the_logarithm(x):
    assert streams.log(x) == pytest.approx(math.log(x), rel=4e-16, abs=4e-16)


@given(st.floats(-100, 100))
def test_the_exponential_is_the_exponential(x):
    assert streams.exp(x) == pytest.approx(math.exp(x), rel=1e-14)


def moments(values):
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)) / mean


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0, 3.0])
def test_gaps_have_the_rate_and_variation_asked_for(variation):
    """B-072: Poisson (1), gamma (others) and even (0) gaps; 60,000 gaps leave a percent or two."""
    arrival = open_loop(60_000, 20.0, FIXED, FIXED, seed=3, variation=variation).arrival
    mean, spread = moments([b - a for a, b in zip([0.0, *arrival], arrival, strict=False)])
    assert mean == pytest.approx(1 / 20.0, rel=0.05 if variation > 1 else 0.02)
    assert spread == pytest.approx(variation, rel=0.05, abs=1e-9)


@pytest.mark.parametrize(
    "text, mean, spread",
    [
        ("1024", 1024, 0),
        ("128k", 128_000, 0),
        ("uniform:100:300", 200, 201 / math.sqrt(12) / 200),
        ("geometric:256", 256, 1.0),
        ("normal:500:100", 500, 0.2),
        ("lognormal:1000:0.8", 1000, 0.8),
        ("choice:100@1,300@3", 250, math.sqrt(0.25 * 150**2 + 0.75 * 50**2) / 250),
    ],
)
def test_lengths_have_their_mean_and_spread(text, mean, spread):
    """B-072: by the formulas of each distribution."""
    draw = lengths(text, "prompt").sampler(streams.stream(1, "test"))
    values = [draw() for _ in range(40_000)]
    found = moments(values)
    assert found[0] == pytest.approx(mean, rel=0.02)
    assert found[1] == pytest.approx(spread, rel=0.06, abs=1e-12)
    assert all(isinstance(value, int) and value >= 1 for value in values)
    assert lengths(text, "prompt").mean() == pytest.approx(mean)


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "abc", "uniform:5", "uniform:9:3", "lognormal:10:0", "choice:", "normal:1:2:3", "1e99", "nan"],
)
def test_bad_lengths_are_refused_by_name(text):
    with pytest.raises(InputError, match="output"):
        lengths(text, "output")


def test_the_same_seed_gives_the_same_bytes():
    """B-079: written down once; streams are named, so answers do not change when prompts are drawn differently."""
    first = open_loop(3, 10.0, lengths("lognormal:100:1", "p"), lengths("geometric:50", "o"), seed=42)
    assert [value.hex() for value in first.arrival] == [value.hex() for value in open_loop(
        3, 10.0, lengths("lognormal:100:1", "p"), lengths("geometric:50", "o"), seed=42
    ).arrival]  # fmt: skip
    other = open_loop(3, 10.0, lengths("uniform:1:9", "p"), lengths("geometric:50", "o"), seed=42)
    assert other.output == first.output
    assert other.arrival == first.arrival
    assert open_loop(3, 10.0, FIXED, FIXED, seed=43).arrival != first.arrival


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_a_rate_of_nothing_is_refused(rate):
    with pytest.raises(InputError, match="rate"):
        open_loop(10, rate, FIXED, FIXED)


def test_counts_beyond_reason_are_refused():
    with pytest.raises(InputError, match="requests"):
        burst(10**8, FIXED, FIXED)
    with pytest.raises(InputError, match="concurrency"):
        closed_loop(10, 0, FIXED, FIXED)


def test_a_conversation_grows_and_finds_itself_in_the_cache():
    """Each prompt is all that was said and the new text; with room, all whole blocks said before are hits."""
    traffic = conversations(1, 4, 1.0, lengths(100, "p"), lengths(50, "o"), think=1.0)
    assert traffic.prompt == [100, 250, 400, 550]
    run = simulate(traffic, LineSurface(0.01), Limits(blocks=10_000, caching=True))
    run.check()
    # all but the last answer token are in the cache: 149, 299, 449 tokens, in whole blocks of 16
    assert run.cached == [0, 149 // 16 * 16, 299 // 16 * 16, 449 // 16 * 16]


# --------------------------------------------------------------------------- traces

GOOD = "arrival_s,input_tokens,output_tokens\n0.5,10,2\n1.5,20,3\n"


def test_a_trace_starts_at_zero_and_is_sorted():
    traffic = traces.parse("arrived_at,num_prefill_tokens,num_decode_tokens\n7,20,3\n5,10,2\n", "t.csv")
    assert (traffic.arrival, traffic.prompt, traffic.output) == ([0.0, 2.0], [10, 20], [2, 3])


@pytest.mark.parametrize(
    "text, arrivals",
    [
        (GOOD, [0.0, 1.0]),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
         [0.0, 4.314579]),
        ('{"timestamp": 3000, "input_length": 5, "output_length": 2, "hash_ids": [1]}\n'
         '{"timestamp": 4500, "input_length": 6, "output_length": 2, "hash_ids": [1, 2]}\n', [0.0, 1.5]),
        ('{"arrival": 3, "prompt_tokens": 5, "completion_tokens": 2}\n\n{"arrival": 4.5, "prompt_tokens": 6, '
         '"completion_tokens": 2}\n', [0.0, 1.5]),
        ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,log\n45,GPT-4,3,230,1,x\n",
         [0.0, 40.0]),
    ],
)  # fmt: skip
def test_the_usual_formats_are_read(text, arrivals):
    """Plain seconds, Azure's dates, Mooncake's milliseconds with hashes, JSONL, BurstGPT."""
    assert traces.parse(text, "trace").arrival == pytest.approx(arrivals, abs=1e-6)


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "empty"),
        ("arrival_s,input_tokens\n0,1\n", "output"),
        ("arrival_s,input_tokens,output_tokens\n", "no requests"),
        (GOOD + "2,x,5\n", "line 4"),
        (GOOD + "2,10,0\n", "line 4"),
        (GOOD + "2,10,1.5\n", "line 4"),
        (GOOD + "-2,10,1\n", "line 4"),
        (GOOD + "nan,10,1\n", "line 4"),
        (GOOD + "soon,10,1\n", "line 4"),
        (GOOD + "2,10\n", "line 4"),
        (GOOD + "2,1e30,1\n", "line 4"),
        (GOOD + "1e300,10,1\n", "seconds"),
        (GOOD + "1e18,10,1\n", "seconds"),
        (GOOD + "1e999,10,1\n", "line 4"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2}\n[1]\n', "line 2"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2}\n{"a": 1}\n', "line 2"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2}\n{broken\n', "line 2"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2, "hash_ids": ["a"]}\n', "line 1"),
        ('{"timestamp": 1, "input_length": true, "output_length": 2}\n', "line 1"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_with_its_line(text, said):
    with pytest.raises(InputError, match=said) as caught:
        traces.parse(text, "trace.csv")
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00\x80")
    for path in (tmp_path / "none.csv", tmp_path / "b.csv", tmp_path):
        with pytest.raises(InputError, match="trace"):
            traces.read(path)


def test_requests_of_one_name_are_still_so_many_requests():
    """A column of names is not ours to judge: equal ones are three requests, and equal moments keep the file's order."""
    traffic = traces.parse("request_id,arrival,prompt,output\n7,1,10,5\n7,0,20,5\n7,1,30,5\n", "t.csv")
    assert (traffic.arrival, traffic.prompt) == ([0.0, 1.0, 1.0], [20, 10, 30])


@pytest.mark.parametrize("names", [[], [1], [1, 1, 1, 1], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_hashes_may_name_less_or_more_than_a_prompt(names):
    """A-054: what they do not name is nobody else's; no block is lost, and nothing is found that was not there."""
    row = '{"timestamp": %d, "input_length": 2100, "output_length": 5, "hash_ids": %s}\n'
    traffic = traces.parse("".join(row % (1000 * i, names) for i in range(4)), "t.jsonl")
    run = simulate(traffic, LineSurface(0.01), Limits(blocks=400, caching=True))
    run.check()
    assert run.cached == [0, *[min(len(names), 4) * 512] * 3]


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InputError):
        traces.parse(text, "x")


def test_the_prefix_hits_of_a_trace_are_those_counted_directly():
    """With room for everything, a hit is a leading whole block that an earlier request had: counted from the file itself."""
    file = TRACES / "mooncake_conversation_first500.jsonl"
    seen, hits, tokens = set(), 0, 0
    for line in file.read_text().splitlines():
        row = json.loads(line)
        for name in row["hash_ids"][: (row["input_length"] - 1) // 512]:
            if name not in seen:
                break
            hits += 512
        seen.update(row["hash_ids"][: row["input_length"] // 512])
        tokens += row["input_length"]
    run = simulate(traces.read(file), LineSurface(0.001), Limits(blocks=10**7, caching=True))
    run.check()
    assert sum(run.cached) == hits > 0
    assert measure(run).cache_hit_rate == hits / tokens


@pytest.mark.parametrize(
    "name, rows", [("azure_2023_conv_first2000.csv", 2000), ("azure_2023_code_first1000.csv", 1000)]
)
def test_production_traces_replay_whole(name, rows):
    traffic = traces.read(TRACES / name)
    assert len(traffic) == rows
    run = simulate(traffic, LineSurface(0.005, 1e-5, 2e-8, 1e-5), Limits(blocks=25_000))
    run.check()
    assert measure(run).served == rows
