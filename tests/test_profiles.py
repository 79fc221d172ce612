"""The four named profiles and what ties them together.

What each profile switches on is the table of conflicts in the requirements, row by row.
"""

import math

import msgspec
import pytest
from builders import ALIGNED, BF16, TINY, link, machine, operators, published, switched, total

from rooflab import catalog, chip, graph, hf
from rooflab.estimate import Workload, estimate
from rooflab.price import Roofline, step_time
from rooflab.profiles import PROFILES, Profile, profile
from rooflab.units import InputError
from rooflab.work import Layout, Step

TABLE = {
    # row: switches of (operator, sharded, classroom, envelope)
    "E-02 launch": ("launch_time", (2.5e-6, 0.0, 0.0, 0.0)),
    "E-02 pass": ("pass_time", (0.0, 0.0, 1e-4, 0.0)),
    "E-02 hop": ("link_latency", (True, True, False, None)),
    "E-03 compute": ("compute_efficiency", (None, 0.8, 0.5, 1.0)),
    "E-03 memory": ("memory_efficiency", (None, 1.0, 0.7, 1.0)),
    "E-04 combine": ("combine", ("max", "max", "max", "sum")),
    "E-04 grain": ("group", ("op", "stage", "two_stage", "step")),
    "E-05 padding": ("tiles", (True, False, False, False)),
    "E-06 pairs": ("causal", ("exact", "half", "exact", None)),
    "E-07 algorithm": ("collective", ("auto", "flat", "ring", "none")),
    "E-07 overlap": ("overlap", (False, True, False, False)),
    "E-09 workspace": ("workspace", ("engine", "sharded", "eight_buffers", None)),
    "E-09 reserve": ("reserve", (0.10, 0.0, 2e9, 0.0)),
    "E-10 metadata": ("metadata", (0.0, 0.0, 0.05, 0.0)),
    "E-10 rates": ("rate_by_dtype", (True, False, False, True)),
    "E-12 context": ("tpot", ("mean_growing", "fixed", "mean_growing", "fixed")),
    "E-16 axes": ("axes", (None, None, ("tp",), None)),
    "E-01 models": ("dense_only", (False, False, True, False)),
}
LAB = published()
NAMES = ("operator", "sharded", "classroom", "envelope")


@pytest.mark.parametrize("row", TABLE)
def test_switches_follow_the_table_of_conflicts(row):
    """E-01, E-02, E-03, E-04, E-05, E-06, E-07, E-09, E-10, E-12, E-16, E-26: each reference design is a record of switches.

    None where the row of the table does not say.
    """
    switch, values = TABLE[row]
    for name, expected in zip(NAMES, values, strict=True):
        if expected is not None:
            assert getattr(profile(name), switch) == expected, name


def test_there_are_four_profiles_and_each_says_what_it_leaves_out():
    """E-26: envelope, classroom, sharded, operator; a result can name its profile and its limits."""
    assert set(PROFILES) == set(NAMES)
    for name, used in PROFILES.items():
        assert used.name == name
        assert used.title
        assert used.leaves_out


def test_assumed_efficiencies_lie_in_the_stated_ranges():
    """A-014: without a measurement 0.5–0.7 of the compute rate and 0.7–0.85 of the bandwidth."""
    used = profile("operator")
    assert 0.5 <= used.compute_efficiency <= 0.7
    assert 0.7 <= used.memory_efficiency <= 0.85


def test_an_unknown_profile_is_named_and_a_near_one_offered():
    """F-02: the error shows the value, the choices and the nearest of them."""
    with pytest.raises(InputError, match=r"'operater' is not one of operator, sharded, classroom, envelope.*operator"):
        profile("operater")


def test_a_profile_is_plain_data():
    """E-26: any switch can be replaced; unknown ones are refused; a profile survives JSON."""
    assert switched("operator", tiles=False).tiles is False
    with pytest.raises(TypeError):
        switched("operator", tile=False)
    for used in PROFILES.values():
        assert msgspec.json.decode(msgspec.json.encode(used), type=Profile) == used
    with pytest.raises(msgspec.ValidationError, match="tile"):
        msgspec.convert({"name": "x", "tile": 1}, Profile)


def test_all_profiles_answer_the_same_question_side_by_side():
    """E-26: a dense model on one device has an answer under every profile; the times are of one order."""
    system = machine(link())
    work = Workload(batch=8, prompt=512, output=64)
    found = {name: estimate(published(), BF16, Layout(), system, work, used).mid for name, used in PROFILES.items()}
    for figure in ("ttft", "tpot"):
        times = [getattr(mid, figure) for mid in found.values()]
        assert max(times) < 3 * min(times), figure


# ------------------------------------------------------------------------------------------------------- what N means


def test_which_parameters_count():
    """E-11: the step of a chip counts attention and feed-forward weights, the calculator all parameters, the kernels every
    matrix that is multiplied, head included and table left out."""
    llama, step = hf.load("llama-3.1-8b"), Step(decode_sequences=1, decode_context=1)

    def flop(counting: str) -> float:
        return math.fsum(
            op.flop * op.count
            for op in operators(llama, step, counting=counting)
            if op.kind in ("gemm", "grouped_gemm")
        )

    # 32 layers of 4,096·(4,096 + 2·1,024 + 4,096) and 3·4,096·14,336 weights; table and head 128,256·4,096 each.
    layers, table = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336), 128256 * 4096
    assert flop("weights") == 2 * layers == 2 * graph.linear_params(llama)
    assert flop("published") == 2 * 8030261248  # requirement A-037
    assert flop("kernels") == 2 * (layers + table)


def test_fixed_and_growing_contexts():
    """E-12: one step at the prompt's length, or the mean over the answer, which a longer answer makes slower."""
    system = machine()

    def tpot(name: str, output: int) -> float:
        work = Workload(batch=4, prompt=100, output=output)
        return estimate(published(), BF16, Layout(), system, work, profile(name)).mid.tpot

    for name in ("sharded", "envelope"):
        assert tpot(name, 2) == tpot(name, 500)
    for name in ("operator", "classroom"):
        assert tpot(name, 2) < tpot(name, 500)


def test_the_quantised_rate_switch():
    """E-10, B-039: fp8 products run at the fp8 rate, or at the 16-bit one where the profile says so."""
    system = machine().replace({"flop_rate.fp8": "200 TFLOP/s"})
    work = Workload(batch=1, prompt=2048, output=1)
    for name, faster in (("operator", True), ("sharded", False)):
        times = []
        for weights in ("bf16", "fp8"):
            precision = msgspec.structs.replace(BF16, attention=weights, ffn=weights)
            used = switched(name, **{k: v for k, v in ALIGNED.items() if k != "vector_units"})
            times.append(estimate(LAB, precision, Layout(), system, work, used).prefill.compute)
        assert (times[1] < times[0]) is faster, name


# --------------------------------------------------------------------------------------------------- where views agree


@pytest.mark.parametrize(("rate", "bandwidth"), [(989e12, 3.35e12), (8e12, 256e9)])
def test_one_critical_batch_ties_three_views(rate, bandwidth):
    """E-29: the chip's B* = C·b/2W is the batch at which the sharded stages' arithmetic and traffic totals cross (peak, no
    communication, no context, weights only), and, at two bytes, the calculator's knee C/W."""
    what = published()
    system = machine(rate=rate, bandwidth=bandwidth)
    critical = chip.critical_batch(chip.of(what, BF16, system.device, 1))
    assert critical == pytest.approx(rate * 2 / (2 * bandwidth), rel=1e-12)

    def ratio(batch: float) -> float:
        """Arithmetic over weight traffic of the sharded model's matrix products."""
        ops = operators(what, Step(decode_sequences=batch, decode_context=0), counting="stages", outside=False)
        products = [op for op in ops if op.kind == "gemm"]
        flop = math.fsum(op.flop * op.count for op in products)
        weights = math.fsum(op.weight_bytes * op.count for op in products)
        return (flop / rate) / (weights / bandwidth)

    # The ratio is linear in the batch and 1 at B*.
    assert ratio(1.0) * critical == pytest.approx(1.0, rel=1e-12)
    used = switched("classroom", **ALIGNED)
    (linear, _attention) = operators(what, Step(decode_sequences=1, decode_context=1), counting="published")
    priced = Roofline(system, Layout(), used).cost(linear)
    knee = rate / bandwidth
    weight_time = linear.weight_bytes / bandwidth
    assert priced.compute / weight_time * knee == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("name", catalog.model_names())
def test_the_envelope_is_the_chip_view(name):
    """E-31, C-007, C-017: a step under this profile is the chip roofline's step, for every model of the catalog."""
    what, system, used = hf.load(name), machine(rate=989e12, bandwidth=3.35e12), profile("envelope")
    for batch, context in ((1, 1), (32, 5000), (300, 100)):
        ops = operators(what, Step(decode_sequences=batch, decode_context=context), counting="weights")
        time = step_time(ops, Roofline(system, Layout(), used), used).time
        view = chip.step_latency(chip.of(what, BF16, system.device, context), batch, context)
        assert time == pytest.approx(view.total, rel=1e-12)


def test_a_sum_of_terms_is_one_to_three_times_the_largest():
    """E-27: the chip's weight, compute and cache terms, added."""
    system, used = machine(), profile("envelope")
    for batch, context in ((1, 1), (100, 1000), (300, 10), (64, 100000)):
        ops = operators(TINY, Step(decode_sequences=batch, decode_context=context), counting="weights")
        terms = [total(ops, "weight_bytes") / 1e12, total(ops, "flop") / 100e12, total(ops, "kv_bytes") / 1e12]
        time = step_time(ops, Roofline(system, Layout(), used), used).time
        assert time == pytest.approx(math.fsum(terms), rel=1e-12)
        assert max(terms) <= time <= 3 * max(terms)
