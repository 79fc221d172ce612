"""Laws that hold from reason alone, over every published model of the catalog, every system and every profile:
A-022, A-023, A-024, A-038, A-053, A-075, A-091, B-064, D-057, D-084, E-22, E-27, E-28, F-02, F-06.

No number here was computed by the code under test: each law compares two of its answers, or one with zero.
"""

import functools
import itertools
import math
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from builders import ALIGNED, BF16, KINDS, total
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab import catalog, fits, graph, hf, num
from rooflab.estimate import Figures, Workload, estimate
from rooflab.model import Attention, Block, Dense, FeedForward, LatentAttention, Mixer, Model, MoE
from rooflab.price import Roofline, rates_of, step_time
from rooflab.profiles import PROFILES, Profile
from rooflab.system import System
from rooflab.work import FORMATS, Layout, Op, Precision, Step

system_of = functools.cache(catalog.system)
NAMES = catalog.model_names()
SYSTEMS = (*catalog.system_names(), *(name for name in catalog.device_names()))
AXES = ("tp", "pp", "cp", "dp", "attention_dp", "ep")
DOWN, UP = 1 - 1e-12, 1 + 1e-12
FEWER = settings(max_examples=60)

models = st.sampled_from([*NAMES, *KINDS])
systems = st.sampled_from(SYSTEMS)
profiles = st.sampled_from(sorted(PROFILES))
degrees = st.fixed_dictionaries(
    {axis: st.sampled_from([1, 1, 2, 4, 8]) for axis in AXES}
    | {
        "microbatches": st.sampled_from([1, 1, 4]),
        "ep_mode": st.sampled_from(["overlay", "dedicated"]),
        "kv_shard": st.sampled_from(["replicate", "split"]),
        "ffn_scope": st.sampled_from(["tp", "tp_cp", "tp_cp_dp"]),
        "ring": st.sampled_from(["kv", "qoml"]),
        "tp_placement": st.sampled_from(["inner", "outer"]),
        "cp_placement": st.sampled_from(["inner", "outer"]),
    }
)
formats = st.sampled_from(sorted(set(FORMATS) - {"fp32"}))  # some devices multiply nothing in 32 bit
precisions = st.builds(
    Precision,
    attention=formats,
    ffn=formats,
    expert=formats,
    embedding=formats,
    head=formats,
    kv=st.sampled_from(["bf16", "fp8", "int4", "fp32"]),
    state=st.sampled_from(["bf16", "fp32"]),
    metadata=st.sampled_from([0.0, 0.05]),
)
steps = st.builds(
    Step,
    prefill_sequences=st.integers(0, 4),
    prefill_tokens=st.integers(1, 3000),
    prefill_context=st.integers(0, 3000),
    decode_sequences=st.integers(1, 300),
    decode_context=st.integers(1, 10000),
)


@functools.cache
def load(name: str) -> Model:
    """A published model, or a small hand-made one of a kind."""
    return KINDS[name] if name in KINDS else hf.load(name)


def legal(what: Model, system: System | None, used: Profile, wanted: dict[str, Any]) -> Layout | None:
    """The wanted layout, every degree that is refused set back to 1; None where the model itself is."""
    layout = Layout(**{key: value for key, value in wanted.items() if key not in AXES})
    if not fits.feasible(fits.layout_rules(what, layout, system, used))[0]:
        return None
    for axis in AXES:
        trial = msgspec.structs.replace(layout, **{axis: wanted[axis]})
        if fits.feasible(fits.layout_rules(what, trial, system, used))[0]:
            layout = trial
    return layout


def operators(what: Model, layout: Layout, step: Step, used: Profile, precision: Precision = BF16) -> list[Op]:
    return graph.operators(
        what, precision, layout, step, counting=used.counting, causal=used.causal, outside=used.outside
    )


def seconds(ops: list[Op], system: System, layout: Layout, used: Profile) -> Any:
    pricer = Roofline(system, layout, used)
    return step_time(ops, pricer, used, pass_time=used.pass_time).time


def numbers(op: Op) -> dict[str, Any]:
    fields = (
        "count",
        "m",
        "n",
        "k",
        "groups",
        "flop",
        "weight_bytes",
        "activation_bytes",
        "kv_bytes",
        "resident_bytes",
    )
    return {name: getattr(op, name) for name in (*fields, "message_bytes", "peers")}


# ------------------------------------------------------------------------------------------------------ no magic speed


@given(models, systems, profiles, degrees, steps, precisions)
def test_nothing_is_negative_infinite_or_faster_than_its_roof(name, machine, profile, wanted, step, precision):
    """A-022, F-02: counts and times are finite and not negative; achieved FLOP/s stay below min(F_ach, I·W_ach), with
    the profile's own rates and with the datasheet's."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, wanted)
    if layout is None:
        return
    ends = rates_of(used, system.device.launch_time)
    for op in operators(what, layout, step, used, precision):
        for field, value in numbers(op).items():
            assert math.isfinite(value), (op.name, field)
            assert value >= 0, (op.name, field)
        for end in ("low", "mid", "high"):
            pricer = Roofline(system, layout, used, ends[end])
            cost = pricer.cost(op)
            parts = (cost.compute, cost.memory, cost.comm, cost.overhead)
            assert all(math.isfinite(part) and part >= 0 for part in parts), (op.name, parts)
            time = max(cost.compute, cost.memory) + cost.comm + cost.overhead
            peak, bandwidth = pricer.peak(op.dtype), system.device.memory_bandwidth
            assert op.flop <= peak * ends[end].compute * time * UP, (op.name, end)
            assert op.bytes() <= bandwidth * ends[end].memory * time * UP, (op.name, end)
            if op.collective and op.peers > 1:
                links = max((link.bandwidth for link in system.links), default=math.inf)
                least = op.message_bytes * (op.peers - 1) / op.peers
                if used.collective != "none":
                    assert least <= links * ends[end].link * time * UP, (op.name, end)
            if op.peers == 1 and op.collective:
                assert time == 0, op.name  # one peer sends nothing


@given(models, systems, profiles, degrees, st.integers(1, 64), st.integers(1, 4000), st.integers(1, 700))
@FEWER
def test_the_band_holds_the_middle_and_no_figure_is_nonsense(name, machine, profile, wanted, batch, prompt, output):
    """E-22, E-28, F-02: low ≤ mid ≤ high for every figure, all finite and positive; memory adds up."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, wanted)
    if layout is None:
        return
    work = Workload(batch=batch, prompt=prompt, output=output)
    found = estimate(what, BF16, layout, system, work, used, ignore_memory=True)
    for figure in Figures.__struct_fields__:
        values = [getattr(getattr(found, end), figure) for end in ("low", "mid", "high")]
        if values[1] is None:
            assert output == 1
            continue
        assert all(math.isfinite(value) and value > 0 for value in values), figure
        assert values[0] <= values[1] * UP, figure
        assert values[1] <= values[2] * UP, figure
    m = found.memory
    assert m.used == pytest.approx(m.weights + m.kv + m.workspace + m.reserve)
    assert min(m.weights, m.kv, m.workspace, m.free, m.over) >= 0
    if layout.devices() == 1:
        assert (found.prefill.comm, getattr(found.decode, "comm", 0.0)) == (0.0, 0.0)


# ------------------------------------------------------------------------------------------------------------- monotone


BATCHES = np.arange(1, 601)


@given(models, systems, profiles, degrees)
@FEWER
def test_latency_never_falls_with_the_batch(name, machine, profile, wanted):
    """A-023: TTFT and TPOT are non-decreasing in the batch, across tiles, experts, attention groups and microbatches."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, wanted)
    if layout is None:
        return
    mid = estimate(what, BF16, layout, system, Workload(batch=BATCHES, prompt=300, output=20), used).mid
    for times in (mid.ttft, mid.tpot):
        assert np.all(np.diff(times) >= -1e-12 * times[1:])


@given(models, systems, profiles, degrees, st.sampled_from(["prompt", "output", "cached"]))
@FEWER
def test_latency_and_memory_follow_the_tokens(name, machine, profile, wanted, axis):
    """A-023: longer prompts never shorten TTFT or TPOT; longer answers never shorten E2E; a cached prefix never lengthens
    TTFT; cache and workspace never shrink with the context."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, wanted)
    if layout is None:
        return
    lengths = np.arange(0, 4001, 40) if axis == "cached" else np.arange(40, 9000, 40)
    work = Workload(**{"batch": 3, "prompt": 4096, "output": 64} | {axis: lengths})
    found = estimate(what, BF16, layout, system, work, used)
    sign = -1 if axis == "cached" else 1
    rising = [sign * found.mid.ttft, found.mid.e2e * sign] if axis != "output" else [found.mid.e2e]
    rising += [found.mid.tpot] if axis != "cached" else []
    for values in (*rising, found.memory.kv, found.memory.workspace):
        assert np.all(np.diff(values) >= -1e-12 * np.abs(values[1:]))


@given(models, systems, profiles, degrees, steps)
def test_faster_hardware_is_never_slower(name, machine, profile, wanted, step):
    """D-084, A-075: more bandwidth, rate or link, or less link latency, never lengthens a step."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, wanted)
    if layout is None:
        return
    ops = operators(what, layout, step, used)
    plain = seconds(ops, system, layout, used)
    knobs: dict[str, str] = {"memory_bandwidth": "1.5x", "flop_rate": "1.5x"}
    for level in range(len(system.links)):
        knobs |= {f"links.{level}.bandwidth": "1.5x", f"links.{level}.latency": "0.5x"}
    for knob, change in knobs.items():
        assert seconds(ops, system.replace({knob: change}), layout, used) <= plain * UP, knob


@given(models, systems, profiles, degrees, steps)
def test_tensor_parallelism_never_beats_an_even_share(name, machine, profile, wanted, step):
    """B-064: a step over tp devices takes at least a tp-th of the step on one."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, {**wanted, "cp": 1, "dp": 1, "attention_dp": 1, "ep": 1, "pp": 1})
    if layout is None:
        return
    alone = msgspec.structs.replace(layout, tp=1)
    one = seconds(operators(what, alone, step, used), system, alone, used) - used.pass_time
    many = seconds(operators(what, layout, step, used), system, layout, used)
    assert many >= one / layout.tp * DOWN


# ------------------------------------------------------------------------------------------------------------- switches


@given(models, systems, degrees, steps)
def test_coarser_maxima_are_never_larger(name, machine, wanted, step):
    """E-27: with all switches aligned operator ≥ stage ≥ two stages ≥ step, because a sum of maxima is at least the
    maximum of sums; and the sum of the terms is between one and two times the larger (arithmetic or traffic)."""
    what, system = load(name), system_of(machine)
    aligned = msgspec.structs.replace(PROFILES["operator"], **ALIGNED, collective="flat")
    layout = legal(what, system, aligned, {**wanted, "tp": 1, "cp": 1, "pp": 1, "attention_dp": 1, "ep": 1})
    ops = operators(what, layout, step, aligned)
    times = [
        seconds(ops, system, layout, msgspec.structs.replace(aligned, group=group))
        for group in ("op", "stage", "two_stage", "step")
    ]
    for finer, coarser in itertools.pairwise(times):
        assert finer >= coarser * DOWN, times
    added = seconds(ops, system, layout, msgspec.structs.replace(aligned, group="step", combine="sum"))
    assert times[-1] * DOWN <= added <= 2 * times[-1] * UP
    chip = msgspec.structs.replace(PROFILES["envelope"], tpot="fixed")
    ops = operators(what, Layout(), step, chip)
    peak, bandwidth = Roofline(system, Layout(), chip).peak("bf16"), system.device.memory_bandwidth
    terms = [total(ops, "flop") / peak, total(ops, "weight_bytes") / bandwidth, total(ops, "kv_bytes") / bandwidth]
    three = seconds(ops, system, Layout(), chip)
    assert max(terms) * DOWN <= three <= 3 * max(terms) * UP


SWITCHES = [
    # (what it adds, a cheaper setting, a dearer setting)
    ("launches", {"launch_time": 0.0}, {"launch_time": 1e-6}),
    ("pass overhead", {"pass_time": 0.0}, {"pass_time": 1e-4}),
    ("compute derate", {"compute_efficiency": 1.0}, {"compute_efficiency": 0.6}),
    ("memory derate", {"memory_efficiency": 1.0}, {"memory_efficiency": 0.6}),
    ("link derate", {"link_efficiency": 1.0}, {"link_efficiency": 0.6}),
    ("padding", {"tiles": False}, {"tiles": True}),
    ("vector units", {"vector_units": False}, {"vector_units": True}),
    ("link latency", {"link_latency": False}, {"link_latency": True}),
    ("communication", {"collective": "none"}, {"collective": "auto"}),
    ("one ring", {"collective": "auto"}, {"collective": "flat"}),
    ("one hierarchy", {"collective": "auto"}, {"collective": "hierarchical"}),
    ("no overlap", {"overlap": True}, {"overlap": False}),
    ("no overlap of causes", {"combine": "max"}, {"combine": "sum"}),
    ("embedding and head", {"outside": False}, {"outside": True}),
    ("all pairs", {"causal": "exact"}, {"causal": "full"}),
    ("the diagonal", {"causal": "half"}, {"causal": "exact"}),
]


@pytest.mark.parametrize(("what_for", "cheap", "dear"), SWITCHES, ids=[row[0] for row in SWITCHES])
@given(name=models, machine=systems, profile=profiles, wanted=degrees, step=steps)
@settings(max_examples=12)
def test_no_overhead_padding_or_derate_saves_time(what_for, cheap, dear, name, machine, profile, wanted, step):
    """E-28: each switch is monotone: adding what it stands for never lowers a latency."""
    what, system, base = load(name), system_of(machine), PROFILES[profile]
    # Half of the prompt a query is an average over causal attention after nothing, whole on every rank.
    if what_for == "the diagonal":
        step = msgspec.structs.replace(step, prefill_context=0, prefill_tokens=8 * step.prefill_tokens)
    layout = legal(what, system, base, wanted)
    if layout is None:
        return
    times = []
    for setting in (cheap, dear):
        used = msgspec.structs.replace(base, **setting)
        times.append(seconds(operators(what, layout, step, used), system, layout, used))
    assert times[0] <= times[1] * UP


@given(models, systems, profiles, degrees, st.sampled_from([1, 5, 64]))
@FEWER
def test_metadata_and_reserve_never_free_memory(name, machine, profile, wanted, batch):
    """E-28, B-025: a share on top of narrow weights and a reserve for the runtime only add."""
    what, system, base = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, base, wanted)
    if layout is None:
        return
    used = [
        fits.memory(what, p, layout, system, u, batch=batch, context=900, prompt=800).used
        for p, u in [
            (Precision(ffn="int8", expert="int8"), msgspec.structs.replace(base, reserve=0.0)),
            (Precision(ffn="int8", expert="int8", metadata=0.05), msgspec.structs.replace(base, reserve=0.0)),
            (Precision(ffn="int8", expert="int8", metadata=0.05), msgspec.structs.replace(base, reserve=0.1)),
        ]
    ]
    assert used == sorted(used)


def slower(system: System, factor: float) -> System:
    """The same machine with every time constant larger: rates and bandwidths divided, latencies multiplied."""
    device = msgspec.structs.replace(
        system.device,
        flop_rate={key: rate / factor for key, rate in system.device.flop_rate.items()},
        vector_rate=None if system.device.vector_rate is None else system.device.vector_rate / factor,
        memory_bandwidth=system.device.memory_bandwidth / factor,
        launch_time=None if system.device.launch_time is None else system.device.launch_time * factor,
    )
    links = tuple(
        msgspec.structs.replace(link, bandwidth=link.bandwidth / factor, latency=link.latency * factor)
        for link in system.links
    )
    return msgspec.structs.replace(system, device=device, links=links)


@given(models, systems, profiles, degrees, st.sampled_from([0.25, 2.0, 1024.0]))
@FEWER
def test_results_are_linear_in_the_time_base(name, machine, profile, wanted, factor):
    """F-06: all time constants doubled double every time and halve every rate."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout = legal(what, system, used, wanted)
    if layout is None:
        return
    scaled = msgspec.structs.replace(
        used,
        launch_time=used.launch_time * factor,
        launch_band=tuple(time * factor for time in used.launch_band),
        pass_time=used.pass_time * factor,
    )
    work = Workload(batch=5, prompt=700, output=40)
    one = estimate(what, BF16, layout, system, work, used, ignore_memory=True)
    other = estimate(what, BF16, layout, slower(system, factor), work, scaled, ignore_memory=True)
    for end in ("low", "mid", "high"):
        for figure in Figures.__struct_fields__:
            power = -1 if "throughput" in figure else 1
            expected = getattr(getattr(one, end), figure) * factor**power
            assert getattr(getattr(other, end), figure) == pytest.approx(expected, rel=1e-9), (end, figure)
    if one.energy is not None:
        assert other.energy == pytest.approx(one.energy * factor, rel=1e-9)


# ------------------------------------------------------------------------------------------------- numbers and arrays


def spread(draw: Any, values: list[int]) -> Any:
    """A number, a row or a column of numbers: together they make a grid."""
    count = draw(st.integers(0, 2))
    chosen = draw(st.lists(st.sampled_from(values), min_size=3, max_size=3))
    return chosen[0] if count == 0 else np.array(chosen) if count == 1 else np.array(chosen[:2]).reshape(2, 1)


@st.composite
def grids(draw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    layout = {axis: spread(draw, [1, 2, 4]) for axis in AXES}
    layout["microbatches"] = spread(draw, [1, 2, 8])
    for key, choices in {
        "ep_mode": ["overlay", "dedicated"],
        "kv_shard": ["replicate", "split"],
        "ffn_scope": ["tp", "tp_cp", "tp_cp_dp"],
        "ring": ["kv", "qoml"],
        "tp_placement": ["inner", "outer"],
        "cp_placement": ["inner", "outer"],
    }.items():
        layout[key] = draw(st.sampled_from(choices))
    work = {
        "batch": spread(draw, [1, 3, 64]),
        "prompt": spread(draw, [100, 1000, 5001]),
        "output": spread(draw, [1, 2, 300]),
        "cached": spread(draw, [0, 0, 99]),
    }
    return layout, work


def at(value: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> Any:
    """A plain number from a grid."""
    return value if not num.is_array(value) else np.broadcast_to(value, shape)[index].item()


@given(models, systems, profiles, grids(), precisions)
def test_an_array_is_its_points(name, machine, profile, grid, precision):
    """F-01, E-14: estimates over grids of degrees and workloads equal the same points asked alone, masks and all."""
    what, system, used = load(name), system_of(machine), PROFILES[profile]
    layout, work = grid
    arrays = [value for value in (*layout.values(), *work.values()) if num.is_array(value)]
    if not arrays:
        return
    shape = np.broadcast_shapes(*[value.shape for value in arrays])
    together = estimate(what, precision, Layout(**layout), system, Workload(**work), used)
    for index in np.ndindex(*shape):
        point = Layout(**{key: at(value, shape, index) for key, value in layout.items()})
        asked = Workload(**{key: at(value, shape, index) for key, value in work.items()})
        alone = estimate(what, precision, point, system, asked, used, ignore_memory=True, band=False)
        assert bool(together.feasible[index]) == alone.feasible, alone.reasons
        if not alone.feasible:
            continue
        for kind in alone.memory.__struct_fields__:
            value = at(getattr(together.memory, kind), shape, index)
            assert value == pytest.approx(getattr(alone.memory, kind), rel=1e-12), kind
        for figure in Figures.__struct_fields__:
            expected = getattr(alone.mid, figure)
            value = at(getattr(together.mid, figure), shape, index)
            assert value == pytest.approx(math.nan if expected is None else expected, rel=1e-12, nan_ok=True), figure


@given(models, profiles, grids(), st.sampled_from(["prefill", "decode", "mixed"]))
@FEWER
def test_operators_of_arrays_are_operators_of_their_points(name, profile, grid, phase):
    """E-31: counting a grid counts each point: same totals by name, and what a point lacks is idle in the grid."""
    what, used = load(name), PROFILES[profile]
    layout, work = grid
    fields: dict[str, Any] = {}
    if phase != "decode":
        fields |= {
            "prefill_sequences": work["batch"],
            "prefill_tokens": work["prompt"],
            "prefill_context": work["cached"],
        }
    if phase != "prefill":
        fields |= {"decode_sequences": work["batch"], "decode_context": work["prompt"]}
    arrays = [value for value in (*layout.values(), *fields.values()) if num.is_array(value)]
    shape = np.broadcast_shapes(*[value.shape for value in arrays]) if arrays else ()
    together = operators(what, Layout(**layout), Step(**fields), used)
    assert len({op.name for op in together}) == len(together)
    for index in list(np.ndindex(*shape))[:4]:
        point = Layout(**{key: at(value, shape, index) for key, value in layout.items()})
        step = Step(**{key: at(value, shape, index) for key, value in fields.items()})
        alone = {op.name: op for op in operators(what, point, step, used)}
        for op in together:
            if op.name not in alone:
                idle = op.flop + op.bytes() if not op.collective else op.count * (op.peers - 1)
                assert at(idle, shape, index) == 0, op.name
                continue
            expected = numbers(alone.pop(op.name))
            for field, value in numbers(op).items():
                assert at(value, shape, index) == pytest.approx(expected[field], rel=1e-12), (op.name, field)
        assert alone == {}


# --------------------------------------------------------------------------------------------- shards make up the whole


SHARED_BY_EVERY_RANK = {"norm", "router", "embedding", "final_norm", "layer_extra"}
"""Operators that every tensor-parallel rank runs in full."""
CUT_UNEVENLY = {"qkv_down", "rope_append", "index_projection", "index_score_prefill", "index_score_decode", "permute"}
"""Operators of which a latent, an index or whole rows are not cut by tp; tested by hand in test_graph."""


def copies_of_work(op: Op, layout: Layout, decode: bool) -> float | None:
    """How many times the devices of a replica do the work of an operator, None where it is not to be said simply."""
    base = op.name.partition("@")[0]
    dedicated = layout.ep if layout.ep_mode == "dedicated" else 1
    scope = 1 if layout.ffn_scope == "tp" or not decode else layout.cp
    if base in SHARED_BY_EVERY_RANK:
        same = layout.tp * dedicated * (layout.cp if decode or base == "final_norm" else 1)
        # Ranks that bring their tokens to a shared feed-forward run the router for all of them.
        return None if base == "router" and layout.ffn_scope != "tp" else same
    if op.part == "experts":
        return layout.cp / scope if decode else 1.0
    if op.part == "ffn" or base in ("activation", "shared_activation", "experts_activation"):
        return dedicated * (layout.cp / scope if decode else 1.0) if base != "experts_activation" else None
    if base in ("attention_decode", "attention_prefill", "kv_up"):
        return dedicated
    if base in ("lm_head", "gather_logits"):
        return dedicated * layout.cp
    return dedicated * (layout.cp if decode else 1)


def copies_of_weights(op: Op, layout: Layout) -> float | None:
    """How many times the devices of a replica hold the weights of an operator."""
    base = op.name.partition("@")[0]
    dedicated = layout.ep if layout.ep_mode == "dedicated" else 1
    groups, scope = layout.attention_dp, 1 if layout.ffn_scope == "tp" else layout.cp
    if base in SHARED_BY_EVERY_RANK:
        return (
            None
            if base == "norm"
            else layout.tp * layout.cp * groups * dedicated / (layout.tp if base == "embedding" else 1)
        )
    if op.part == "experts":
        return layout.cp / scope * (groups if layout.ep_mode == "dedicated" else 1)
    if op.part == "ffn":
        return layout.cp / scope * groups * dedicated
    return layout.cp * groups * dedicated


def even(what: Model, layout: Layout) -> bool:
    """Whether heads divide evenly, so that nothing but what is named below is held twice."""
    mixers = [block.mixer for block in what.blocks if isinstance(block.mixer, Attention)]
    return all(mixer.kv_heads % layout.tp == 0 for mixer in mixers)


def limits(what: Model) -> list[int]:
    """Windows and selections of keys."""
    mixers = [b.mixer for b in what.blocks if isinstance(b.mixer, Attention | LatentAttention)]
    return [x for m in mixers for x in (m.window, m.indexer.topk if m.indexer else 0) if x]


@given(models, degrees, st.booleans())
@settings(max_examples=150)
def test_shards_add_up_to_the_whole(name, wanted, decode):
    """D-057, D-084: FLOP, resident weights and cache over all ranks of TP·PP·CP·EP and attention groups are those of one
    device, except what is replicated, which is named: attention weights and decode projections over cp and expert ranks,
    norms, routers and tables over tp, a latent over tp, attention and shared experts over attention groups."""
    what, used = load(name), PROFILES["operator"]
    if wanted["ffn_scope"] == "tp_cp_dp":
        wanted = {**wanted, "ffn_scope": "tp_cp"}
    layout = legal(what, None, used, {**wanted, "kv_shard": "replicate"})
    if not even(what, layout):
        layout = legal(what, None, used, {**wanted, "tp": 1, "kv_shard": "replicate"})
    if any(limit % layout.cp for limit in limits(what)):  # windows and selections of keys divide over cp too
        layout = msgspec.structs.replace(layout, cp=1)
    ranks = layout.replica_devices() / layout.pp
    sequences, tokens = 8 * layout.attention_dp, 128 * layout.cp
    step = (
        Step(decode_sequences=sequences, decode_context=tokens)
        if decode
        else Step(prefill_sequences=sequences, prefill_tokens=tokens)
    )
    plain = msgspec.structs.replace(layout, **dict.fromkeys(AXES, 1))
    whole = {op.name: op for op in operators(what, plain, step, used)}
    for op in operators(what, layout, step, used):
        if op.collective or op.name.partition("@")[0] in CUT_UNEVENLY:
            continue
        one, work = whole[op.name], copies_of_work(op, layout, decode)
        if work is not None:
            assert op.flop * ranks == pytest.approx(one.flop * work, rel=1e-9), op.name
            if op.part == "attention" and op.kind == "attention" and decode:
                assert op.kv_bytes * ranks == pytest.approx(one.kv_bytes * work, rel=1e-9), op.name
        held = copies_of_weights(op, layout)
        if held is not None and not (what.tied and op.name == "lm_head"):
            assert op.resident_bytes * ranks == pytest.approx(one.resident_bytes * held, rel=1e-9), op.name
            if op.part != "experts" and op.kind == "gemm":
                assert op.weight_bytes * ranks == pytest.approx(one.weight_bytes * held, rel=1e-9), op.name


@given(models, degrees, st.sampled_from(["bf16", "fp32"]))
@settings(max_examples=150)
def test_cache_over_all_devices_is_the_cache(name, wanted, kv):
    """D-056, D-057: over TP·PP·CP ranks and attention groups the cache is whole once; a latent and index keys once a tp
    rank, everything once an expert rank of its own."""
    what, used = load(name), PROFILES["operator"]
    layout = legal(what, None, used, {**wanted, "kv_shard": "replicate"})
    if not even(what, layout):
        layout = msgspec.structs.replace(layout, tp=1, ep=1)
    if any(limit % layout.cp for limit in limits(what)):
        layout = msgspec.structs.replace(layout, cp=1)
    ratios = [getattr(block.mixer, "compression", 0) or 1 for block in what.blocks]
    sequences, context = 8 * layout.attention_dp, 3 * layout.cp * max(ratios) * max([1, *limits(what)])
    elements = 0.0
    for block, ratio in zip(what.blocks, ratios, strict=True):
        if block.mixer is not None:
            window, older = getattr(block.mixer, "window", 0), context // ratio if ratio > 1 else 0
            copies = layout.tp if isinstance(block.mixer, LatentAttention) else 1
            own = block.mixer.kv_elements() * copies * ((min(context, window) if window else context) + older)
            elements += block.count * (own + block.mixer.index_elements() * layout.tp * (older or context))
    per_device = graph.kv_bytes_per_device(what, Precision(kv=kv), layout, context, sequences)
    busiest = math.ceil(what.layers / layout.pp) * layout.pp / what.layers
    dedicated = layout.ep if layout.ep_mode == "dedicated" else 1
    expected = elements * sequences * (2 if kv == "bf16" else 4) * busiest * dedicated
    assert per_device * layout.replica_devices() == pytest.approx(expected, rel=1e-12)
    state = graph.state_bytes_per_device(what, BF16, layout, sequences) * layout.replica_devices()
    assert state == pytest.approx(what.state_elements() * sequences * 2 * busiest * dedicated * layout.cp, rel=1e-12)


# ------------------------------------------------------------------------------------------------------- steps add up


@pytest.mark.parametrize("counting", ["kernels", "stages", "published", "weights"])
@pytest.mark.parametrize("name", NAMES)
def test_a_mixed_step_is_its_parts(name, counting):
    """A-053: FLOP, activations and cache bytes of a mixed step are those of its prefill and its decode; experts read no
    more than both and no less than either."""
    what = load(name)
    used = msgspec.structs.replace(PROFILES["operator"], counting=counting)
    step = Step(prefill_sequences=2, prefill_tokens=700, prefill_context=50, decode_sequences=9, decode_context=3000)
    prefill = msgspec.structs.replace(step, decode_sequences=0, decode_context=0)
    decode = msgspec.structs.replace(step, prefill_sequences=0, prefill_tokens=0, prefill_context=0)
    whole, first, second = (operators(what, Layout(), each, used) for each in (step, prefill, decode))
    for field in ("flop", "activation_bytes", "kv_bytes"):
        assert total(whole, field) == pytest.approx(total(first, field) + total(second, field), rel=1e-12), field
    weights = [total(ops, "weight_bytes") for ops in (first, second)]
    assert max(weights) * DOWN <= total(whole, "weight_bytes") <= (weights[0] + weights[1]) * UP
    assert total(whole, "resident_bytes") == pytest.approx(total(first, "resident_bytes"), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_two_chunks_do_the_work_of_one(name):
    """A-017, A-053: a prompt in two chunks, the first found in the cache by the second, sees the pairs of one."""
    what = load(name)

    def flop(tokens: int, cached: int) -> float:
        step = Step(prefill_sequences=3, prefill_tokens=tokens, prefill_context=cached)
        ops = operators(what, Layout(), step, PROFILES["operator"])
        return total([op for op in ops if op.part != "head" and not op.name.startswith("kv_up")], "flop")

    assert flop(700, 0) + flop(1500, 700) == pytest.approx(flop(2200, 0), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_one_expert_of_one_costs_what_a_dense_network_costs(name):
    """A-038: every model with its feed-forwards as one expert of one: FLOP and weights as with the dense network of that
    width, beside routers and moved rows."""
    what = load(name)
    dense, routed = [], []
    for block in what.blocks:
        if block.ffn is None:
            continue
        width, gated = block.ffn.width, block.ffn.gated
        single = MoE(experts=1, topk=1, width=width, gated=gated)
        dense.append(msgspec.structs.replace(block, ffn=_dense(width, gated)))
        routed.append(msgspec.structs.replace(block, ffn=single))
    for step in (Step(decode_sequences=5, decode_context=100), Step(prefill_sequences=2, prefill_tokens=64)):
        sums = []
        for blocks in (dense, routed):
            other = msgspec.structs.replace(what, blocks=tuple(blocks))
            ops = operators(other, Layout(), step, PROFILES["operator"])
            kept = [op for op in ops if op.name.partition("@")[0] not in ("router", "permute")]
            sums.append([total(kept, field) for field in ("flop", "weight_bytes", "activation_bytes")])
        assert sums[0] == pytest.approx(sums[1], rel=1e-12)


def _dense(width: int, gated: bool) -> Any:
    return Dense(width=width, gated=gated)


def test_every_kind_of_layer_is_in_the_catalog():
    """A-031, A-032, A-034: the laws above see every mixer and feed-forward there is."""
    blocks: list[Block] = [block for name in NAMES for block in load(name).blocks]
    assert {type(b.mixer) for b in blocks if b.mixer is not None} == set(get_args(Mixer))
    assert {type(b.ffn) for b in blocks if b.ffn is not None} == set(get_args(FeedForward))
