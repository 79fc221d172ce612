"""Laws of fitted prices on every device of the catalog, measured or not, far inside and far outside what was measured."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab import catalog, graph, hf
from rooflab.fitted import Fitted
from rooflab.model import Model
from rooflab.price import Rates, Roofline, step_time
from rooflab.profiles import profile
from rooflab.system import System
from rooflab.work import Layout, Precision, Step

OPERATOR = profile("operator")
PEAK = Rates(compute=1.0, memory=1.0, link=1.0, launch_time=0.0, pass_time=0.0, tiles=False)
MODELS = ["llama-3.1-8b", "gpt-oss-20b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b", "qwen3-next-80b-a3b"]
FORMATS = [
    Precision(),
    Precision(attention="fp8", ffn="fp8", expert="fp8", kv="fp8"),
    Precision(ffn="nvfp4", expert="nvfp4", attention="nvfp4"),
    Precision(attention="int4", ffn="int4", expert="mxfp4"),
]
DROP = 0.995
"""A step of tiles or splits may save so much; more would be a price that falls with the work."""
FURTHEST = 20.0
"""Times its peak roofline that a step of a tenth of a second or more takes at most: beyond what was measured prices follow the
roofline. Furthest, at 9 to 15 times, are long caches of latents in eight bits where SGLang rewrites them for every token."""


class Point(msgspec.Struct, frozen=True):
    """One thing to price."""

    system: System
    model: Model
    precision: Precision
    layout: Layout
    engine: str

    def time(self, system: System | None = None, **step: float) -> float:
        system = system or self.system
        pricer = Fitted(system, self.layout, OPERATOR, self.engine)
        return float(step_time(self.operators(**step), pricer, OPERATOR).time)

    def peak(self, **step: float) -> float:
        return float(
            step_time(self.operators(**step), Roofline(self.system, self.layout, OPERATOR, PEAK), OPERATOR).time
        )

    def operators(self, **step: float):
        return graph.operators(self.model, self.precision, self.layout, Step(**step))


@st.composite
def points(draw) -> Point:
    system = catalog.system(draw(st.sampled_from(catalog.device_names())))
    tp = draw(st.sampled_from([degree for degree in (1, 2, 4, 8) if degree <= min(system.capacity, 8)]))
    model, precision = hf.load(draw(st.sampled_from(MODELS))), draw(st.sampled_from(FORMATS))
    return Point(system, model, precision, Layout(tp=tp), draw(st.sampled_from(["vllm", "sglang", "trtllm"])))


def counts(most: int):
    """Whole numbers spread evenly over orders of magnitude."""
    return st.floats(0.0, math.log2(most)).map(lambda power: int(2.0**power))


@settings(max_examples=60, deadline=None)
@given(points(), counts(4096), counts(1 << 18), st.sampled_from(["batch", "one more", "context"]))
def test_more_work_to_decode_never_takes_less(point, batch, context, what):
    """A-023 on fitted prices: more sequences, or longer ones, never make a step shorter."""
    more = {"batch": (2 * batch, context), "one more": (batch + 1, context), "context": (batch, 2 * context)}[what]
    before = point.time(decode_sequences=batch, decode_context=context)
    assert point.time(decode_sequences=more[0], decode_context=more[1]) >= before * DROP


@settings(max_examples=60, deadline=None)
@given(points(), counts(1 << 17), st.sampled_from([2.0, 1.0]))
def test_a_longer_prompt_never_takes_less(point, tokens, growth):
    """A-023 on fitted prices: a prompt twice as long, or one token longer, is not worked in less time."""
    before = point.time(prefill_sequences=1, prefill_tokens=tokens)
    assert point.time(prefill_sequences=1, prefill_tokens=max(growth * tokens, tokens + 1)) >= before * DROP


@settings(max_examples=60, deadline=None)
@given(
    points(), counts(1024), counts(1 << 17), counts(1 << 15), st.sampled_from([1.05, 1.5, 4.0, 100.0]), st.booleans()
)
def test_a_faster_device_is_never_slower(point, batch, context, tokens, times, memory):
    """D-084 on fitted prices: more bandwidth never lengthens a decode step, more arithmetic never a prompt, however much."""
    device = point.system.device
    if memory:
        faster = msgspec.structs.replace(device, memory_bandwidth=device.memory_bandwidth * times)
        step = {"decode_sequences": batch, "decode_context": context}
    else:
        rates = {name: rate * times for name, rate in device.flop_rate.items()}
        faster = msgspec.structs.replace(device, flop_rate=rates)
        step = {"prefill_sequences": 1, "prefill_tokens": tokens}
    system = msgspec.structs.replace(point.system, device=faster)
    assert point.time(system, **step) <= point.time(**step) * (1.0 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(points(), counts(1 << 14), counts(1 << 22), st.booleans())
def test_prices_follow_the_roofline_beyond_what_was_measured(point, batch, length, decodes):
    """E-03: never faster than the peak roofline; and steps of a tenth of a second or more stay within a multiple of it."""
    step = {"prefill_sequences": 1, "prefill_tokens": length}
    if decodes:
        step = {"decode_sequences": batch, "decode_context": length}
    time, peak = point.time(**step), point.peak(**step)
    assert math.isfinite(time)
    assert time >= peak * (1.0 - 1e-9)
    if time > 0.1:
        assert time <= FURTHEST * peak


@pytest.mark.parametrize("name", catalog.device_names())
def test_the_least_step_is_launches(name):
    """One sequence of one token: its weights once, and launches of less than a tenth of a second."""
    system = catalog.system(name)
    point = Point(system, hf.load("qwen3-0.6b"), Precision(), Layout(), "vllm")
    time, peak = (each(decode_sequences=1, decode_context=1) for each in (point.time, point.peak))
    assert peak < time < 2.0 * peak + 0.1
