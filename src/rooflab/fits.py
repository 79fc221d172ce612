"""Does it fit: which layouts a model admits, and the memory of the busiest device by kind.

Layout rules come as masks with reasons, so a sweep keeps the points it refuses; memory is exact for weights and cache and
an assumption for workspace and reserve, as the profile says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from rooflab import graph, num
from rooflab.model import Attention, Block, Dense, LatentAttention, Model, MoE, Recurrent
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.units import Bytes, InputError
from rooflab.work import Layout, Op, Precision, Reason, Step, size_of

Number = Any
ENGINE_CHUNK = 8192.0
"""Tokens an engine processes at once at most when it sizes its activation memory (assumed)."""
SHARDED_CHUNK = 4096.0
"""The same in the sharded model (requirement D-053)."""
DEGREES = ("tp", "pp", "cp", "dp", "ep", "attention_dp", "microbatches")
"""The numbers of a layout."""


class Rule(msgspec.Struct, frozen=True):
    """One condition of a layout: where it holds, and what to say where it does not."""

    holds: Number
    reason: str


def _whole(a: Number, b: Number) -> Number:
    """True where b divides a."""
    return a % b == 0


def _counts(degree: Number) -> Number:
    """True where a degree is a whole number of at least 1 (NaN is not)."""
    return (degree >= 1) & (degree % 1 == 0)


def _mended(layout: Layout) -> Layout:
    """The layout with 1 in the place of every degree that is none, so that the other rules can be evaluated."""
    degrees = {axis: getattr(layout, axis) for axis in DEGREES}
    return msgspec.structs.replace(layout, **{axis: num.where(_counts(x), x, 1) for axis, x in degrees.items()})


def check_numbers(layout: Layout, batch: Number, prompt: Number, output: Number, cached: Number) -> None:
    """Refuses what no formula can be evaluated for: degrees below 1 or broken, empty requests, NaN (requirement F-02).

    Raises InputError naming the number.
    """
    for axis in DEGREES:
        if not num.all_true(_counts(getattr(layout, axis))):
            raise InputError(f"{axis}: {_shown(layout, axis)} is not a whole number of at least 1")
    for name, value in (("batch", batch), ("prompt", prompt), ("output", output)):
        if not num.all_true((value >= 1) & (value < math.inf)):
            raise InputError(f"{name}: {_shown_value(value)} must be at least 1 and finite")
    if not num.all_true((cached >= 0) & (cached < prompt)):
        raise InputError(f"cached: {_shown_value(cached)} must be at least 0 and below prompt ({_shown_value(prompt)})")


def layout_rules(model: Model, layout: Layout, system: System | None, profile: Profile) -> list[Rule]:
    """Everything a layout must satisfy for this model, system and profile; degrees may be arrays.

    Requirements B-060, D-908, F-02.
    """
    rules = [
        Rule(_counts(getattr(layout, axis)), f"{axis}={_shown(layout, axis)} must be a whole number of at least 1")
        for axis in DEGREES
    ]
    if not all(num.all_true(rule.holds) for rule in rules):
        layout = _mended(layout)
    for axis in ("tp", "pp", "cp", "dp", "ep", "attention_dp"):
        if axis not in profile.axes:
            holds = getattr(layout, axis) == 1
            rules.append(
                Rule(
                    holds,
                    f"{axis}={_shown(layout, axis)}: the {profile.name} profile has no {axis}; take 1 or another profile",
                )
            )
    rules.append(
        Rule(layout.pp <= model.layers, f"pp={_shown(layout, 'pp')} exceeds the model's {model.layers} layers")
    )
    rules += _head_rules(model, layout, profile)
    rules += _width_rules(model, layout)
    if system is not None:
        need = f"the layout needs {_shown_value(layout.devices())} devices; {system.name} has {system.devices}"
        rules.append(Rule(layout.devices() <= system.devices, need))
    return rules


def _shown(layout: Layout, axis: str) -> str:
    return _shown_value(getattr(layout, axis))


def _shown_value(value: Number) -> str:
    if num.is_array(value):
        return f"{value.item():g}" if value.size == 1 else "…"
    return f"{value:g}"


def _head_rules(model: Model, layout: Layout, profile: Profile) -> list[Rule]:
    """Heads must divide evenly over tp; more ranks than KV heads must be a multiple of them."""
    rules: list[Rule] = []
    tp, shown = layout.tp, _shown(layout, "tp")
    for mixer in {block.mixer: None for block in model.blocks}:
        if isinstance(mixer, (Attention, LatentAttention, Recurrent)) and mixer.heads:
            rules.append(Rule(_whole(mixer.heads, tp), f"tp={shown} does not divide the {mixer.heads} heads"))
        if isinstance(mixer, Attention):
            kv = mixer.kv_heads
            even = _whole(kv, tp) if profile.dense_only else (_whole(kv, tp) | _whole(tp, kv))
            rules.append(Rule(even, f"tp={shown} does not divide the {kv} KV heads evenly"))
    if profile.dense_only:
        covered = all(_plain_block(block, model.max_context) for block in model.blocks)
        only = f"the {profile.name} profile covers dense layers with full softmax attention only; take another profile"
        rules.append(Rule(covered, only))
    return rules


def _plain_block(block: Block, longest: int) -> bool:
    """Whether a layer is softmax attention over all tokens, with a cache of its own, and a dense feed-forward (B-090)."""
    mixer = block.mixer
    if not isinstance(mixer, Attention) or not isinstance(block.ffn, Dense):
        return False
    windowed = bool(mixer.window) and (mixer.window < longest or not longest)
    return not (windowed or mixer.indexer or mixer.cross or mixer.shares_kv)


def _width_rules(model: Model, layout: Layout) -> list[Rule]:
    """Feed-forward widths and experts must divide evenly over their ranks."""
    rules: list[Rule] = []
    share = graph.cut(model, Precision(), layout, Step(decode_sequences=1, decode_context=1))
    ranks, shown = share.ffn_ranks(), _shown_value(share.ffn_ranks())
    mixtures = 0
    for ffn in {block.ffn: None for block in model.blocks}:
        if isinstance(ffn, Dense):
            rules.append(
                Rule(_whole(ffn.width, ranks), f"{shown} ranks do not divide the feed-forward width {ffn.width:,}")
            )
        elif isinstance(ffn, MoE):
            mixtures += 1
            width_ranks, spread = share.expert_ranks()
            ep = _shown(layout, "ep")
            rules.append(Rule(_whole(ffn.experts, spread), f"ep={ep} does not divide the {ffn.experts} experts"))
            group = (
                f"ep={ep} must divide tp × attention_dp × ffn ranks; raise attention_dp or tp, "
                "or give the experts devices of their own (ep_mode dedicated)"
            )
            whole = (width_ranks >= 1) & (width_ranks % 1 == 0)
            rules.append(Rule(whole, group))
            safe = num.where(whole, width_ranks, 1)
            split = f"{_shown_value(width_ranks)} ranks do not divide the expert width {ffn.width:,}"
            rules.append(Rule(_whole(ffn.width, safe), split))
            if ffn.shared_width:
                rules.append(
                    Rule(
                        _whole(ffn.shared_width, ranks),
                        f"{shown} ranks do not divide the shared width {ffn.shared_width:,}",
                    )
                )
    if not mixtures:
        rules.append(Rule(layout.ep == 1, f"ep={_shown(layout, 'ep')}: the model has no experts to spread"))
    return rules


def feasible(rules: Sequence[Rule]) -> tuple[Number, list[str]]:
    """Where every rule holds, and the reasons of those that fail somewhere."""
    mask: Number = True
    reasons: list[str] = []
    for rule in rules:
        mask = num.logical_and(mask, rule.holds)
        if not num.all_true(rule.holds) and rule.reason not in reasons:
            reasons.append(rule.reason)
    return mask, reasons


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the busiest device; arrays where the question was."""

    capacity: Bytes
    weights: Bytes
    kv: Bytes
    """Cache of all sequences at their full length, recurrent state included."""
    state: Bytes
    """Of which recurrent state."""
    workspace: Bytes
    reserve: Bytes
    used: Bytes
    free: Bytes
    """Never negative: what is missing is `over`."""
    over: Bytes
    fits: bool


def weights_per_device(model: Model, layout: Layout, operators: Sequence[Op]) -> Number:
    """Weight bytes of the busiest device: its layers, and the embedding or head where they live (requirement D-012)."""
    layers: Number = 0.0
    ends: dict[str, Number] = {"embedding": 0.0, "head": 0.0}
    for op in operators:
        if op.part in ends:
            ends[op.part] = ends[op.part] + op.resident_bytes * op.count
        else:
            layers = layers + op.resident_bytes * op.count
    one = ends["embedding"] + ends["head"]
    if graph.is_one(layout.pp):
        return layers + one
    apart = num.maximum(ends["embedding"], ends["head"])
    return layers * graph.stage_share(model, layout) + num.where(layout.pp > 1, apart, one)


def _activation_width(model: Model, layout: Layout, precision: Precision) -> Number:
    """Widest set of activations of one layer: two hidden vectors, projections and feed-forward (requirement D-053)."""
    share = graph.cut(model, precision, layout, Step(decode_sequences=1, decode_context=1))
    widest: Number = 0.0
    for block in model.blocks:
        mixer, ffn = block.mixer, block.ffn
        width: Number = 0.0
        if isinstance(mixer, Attention):
            kv_heads = share.kv_heads(mixer) if layout.kv_shard == "replicate" else mixer.kv_heads / layout.tp
            width = mixer.heads * mixer.head_dim / layout.tp + kv_heads * (mixer.head_dim + mixer.value_dim)
        elif isinstance(mixer, LatentAttention):
            width = mixer.heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim) / layout.tp
        elif isinstance(mixer, Recurrent):
            width = (mixer.in_width + mixer.out_width) / layout.tp
        if isinstance(ffn, Dense):
            width = width + 2.0 * ffn.width / share.ffn_ranks()
        elif isinstance(ffn, MoE):
            ranks, spread = share.expert_ranks()
            width = width + 2.0 * (ffn.topk * ffn.width / ranks / spread + ffn.shared_width / share.ffn_ranks())
        widest = num.maximum(widest, width)
    return 2.0 * model.hidden + widest


def live_activations(tokens: Number, chunk: Number, width: Number, size: Number) -> Number:
    """Bytes of the widest layer's activations for the tokens an engine handles at once.

    Counts: two hidden vectors, projections and feed-forward of one layer; at most one chunk of tokens.
    Source: requirement D-053.
    Holds: an assumption, not an allocator; layers reuse the same memory.
    """
    return size * num.minimum(tokens, chunk) * width


def logits(rows: Number, chunk: Number, vocab: Number, size: Number) -> Number:
    """Bytes of the output head's scores, in 32 bit, for the sequences that produce a token.

    Counts: one row a sequence, at most one chunk of them.
    Source: requirement D-053.
    Holds: an assumption, not an allocator; sampling buffers are left out.
    """
    return num.minimum(rows, chunk) * vocab * size


def eight_buffers(batch: Number, prompt: Number, width: Number, ranks: Number) -> Number:
    """Bytes of eight 16-bit buffers over all prompt tokens, evenly divided.

    Counts: 8 × batch × prompt × width × 2 bytes.
    Source: requirement B-027.
    Holds: the two-stage calculator.
    """
    return 8.0 * batch * prompt * width * 2.0 / ranks


def workspace_parts(
    model: Model, precision: Precision, layout: Layout, profile: Profile, batch: Number, prompt: Number, phase: str
) -> list[Reason]:
    """The formulas whose values add up to the activation memory, by the profile's rule (requirements B-027, D-053).

    phase: prefill (batch × prompt tokens at once, at most one chunk) or decode (one token per sequence).
    """
    share = num.ceil_div(batch, layout.attention_dp)
    tokens = share * (num.ceil_div(prompt, layout.cp) if phase == "prefill" else 1.0)
    if profile.workspace == "eight_buffers":
        widths = [b.mixer.heads * b.mixer.head_dim for b in model.blocks if isinstance(b.mixer, Attention)]
        width = max(widths, default=model.hidden)
        return [Reason("workspace", eight_buffers, (batch, prompt, width, layout.tp))]
    chunk = ENGINE_CHUNK if profile.workspace == "engine" else SHARDED_CHUNK
    width = _activation_width(model, layout, precision)
    live = Reason("activations", live_activations, (tokens, chunk, width, size_of(precision.activation)))
    if profile.workspace == "engine":
        return [live, Reason("logits", logits, (share, chunk, model.vocab / layout.tp, size_of("fp32")))]
    if phase != "prefill" or graph.is_one(layout.cp):
        return [live]
    local = graph.kv_bytes_per_device(model, precision, layout, prompt, share) / graph.stage_share(model, layout)
    return [live, Reason("ring", ring_buffers, (local, float(model.layers), layout.cp))]


def ring_buffers(cache: Number, layers: Number, ranks: Number) -> Number:
    """Bytes of the double-buffered ring payload of context-parallel prefill: one layer's share of the cache, twice.

    Counts: nothing without context parallelism.
    Source: requirement D-053.
    Holds: prefill with keys and values travelling.
    """
    return num.where(ranks > 1, 2.0 * cache / layers, 0.0 * cache)


def workspace_bytes(
    model: Model, precision: Precision, layout: Layout, profile: Profile, batch: Number, prompt: Number, phase: str
) -> Number:
    """Activation memory beside weights and cache; see `workspace_parts`."""
    total: Number = 0.0
    for part in workspace_parts(model, precision, layout, profile, batch, prompt, phase):
        total = total + part.formula(*part.arguments)
    return total


def reserve_bytes(profile: Profile, capacity: Number) -> Number:
    """Memory kept for the runtime: a share of the device, or bytes as given."""
    reserve = profile.reserve
    return (
        num.where(reserve < 1.0, reserve * capacity, reserve * 1.0)
        if not isinstance(reserve, float)
        else (reserve * capacity if reserve < 1.0 else reserve)
    )


def memory(
    model: Model,
    precision: Precision,
    layout: Layout,
    system: System,
    profile: Profile,
    *,
    batch: Number,
    context: Number,
    prompt: Number,
    phase: str = "prefill",
    operators: Sequence[Op] | None = None,
) -> Memory:
    """Bytes by kind on the busiest device when `batch` sequences reach `context` tokens after prompts of `prompt`.

    The cache is reserved for the full context (requirement B-026). `operators` may be the step's own list, to save counting.
    """
    if operators is None or profile.counting == "weights":
        # The chip's single step leaves out embedding and head; its memory does not (requirement C-017).
        chip = profile.counting == "weights"
        step = Step(decode_sequences=batch, decode_context=context)
        operators = graph.operators(
            model,
            precision,
            layout,
            step,
            counting="kernels" if chip else profile.counting,
            outside=chip or profile.outside,
        )
    capacity = system.device.memory
    weights = weights_per_device(model, layout, operators)
    state = graph.state_bytes_per_device(model, precision, layout, batch)
    kv = graph.kv_bytes_per_device(model, precision, layout, context, batch) + state
    workspace = workspace_bytes(model, precision, layout, profile, batch, prompt, phase)
    reserve = reserve_bytes(profile, capacity)
    used = weights + kv + workspace + reserve
    return Memory(
        capacity=capacity,
        weights=weights,
        kv=kv,
        state=state,
        workspace=workspace,
        reserve=reserve,
        used=used,
        free=num.maximum(capacity - used, 0.0),
        over=num.maximum(used - capacity, 0.0),
        fits=used <= capacity,
    )
