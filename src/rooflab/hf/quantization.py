"""The quantisation section of a config → number format of each class of tensor (see `work.Precision`).

A section names a method, a format, and modules it leaves alone. Each class of tensor (attention, feed-forward, routed
experts, head) is looked up by the names its modules have; where a class is mixed the format of most of its weights stands
and a note says so. The KV cache is quantised only where the section says it, never because the weights are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache
from typing import Any

from rooflab.hf.facts import Facts
from rooflab.hf.keys import Keys
from rooflab.model import Block, LatentAttention, MoE, Recurrent
from rooflab.units import InputError

Section = dict[str, Any]
Module = tuple[str, tuple[str, ...], int]
"""Class of tensor, names a module may have, its weight in the class."""

LEFT_ALONE = (
    "ignore",
    "exclude_modules",
    "modules_to_not_convert",
    "exclude",
    "ignored_layers",
    "llm_int8_skip_modules",
)
WEIGHT_ONLY = {2: "int2", 3: "int3", 4: "int4", 5: "q5_k", 6: "q6_k", 8: "int8_weight"}
ALGORITHMS = (
    ("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("mxfp8", "mxfp8"), ("w4a16", "int4"), ("w4a8", "int4"), ("int4", "int4"),
    ("fp8_pb", "fp8_block"), ("fp8_block", "fp8_block"), ("w8a8", "int8"), ("w8a16", "int8_weight"), ("fp8", "fp8"),
    ("int8", "int8"),
)  # fmt: skip
"""Parts of algorithm names → formats, the first that fits."""


def quantization(outer: Keys, text: Keys, facts: Facts, layers: list[Block]) -> dict[str, str]:
    """Class of tensor → format, for the classes a config quantises; empty for an unquantised model."""
    section = next(
        (
            s
            for k in (outer, text)
            for key in ("quantization_config", "compression_config", "quantization")
            if isinstance(s := k.data.get(key), dict) and s
        ),
        None,
    )
    experts = _expert_format(outer, text, section)
    if section is None:
        return experts
    method = str(section.get("quant_method") or section.get("quant_algo") or section.get("method") or "").lower()
    try:
        choose = READERS.get(method.replace("-", "_"), _by_bits)(section)
    except InputError as error:
        outer.note(f"quantisation {method[:40]!r}: {error}; its weights are counted in 16 bit")
        return {}
    found = _majorities(outer, section, choose, modules(facts, layers))
    cache = _cache_format(section)
    return {**found, **experts, "kv": cache} if cache else {**found, **experts}


def _expert_format(outer: Keys, text: Keys, section: Section | None) -> dict[str, str]:
    """The experts' own format where the config says it beside the quantisation of the rest."""
    said = [
        x.get("expert_dtype") for x in (section or {}, text.data, outer.data) if isinstance(x.get("expert_dtype"), str)
    ]
    own_groups = section is not None and "config_groups" in section
    if not said or own_groups:
        return {}
    return {"expert": {"fp4": "mxfp4", "fp8": "fp8_block"}[said[0]]} if said[0] in ("fp4", "fp8") else {}


LEAVES = {
    "attention": ("q_proj qkv_proj wqkv wq_b q_b_proj", "k_proj qkv_proj wqkv fused_wqa_wkv", "v_proj qkv_proj wqkv",
                  "o_proj out_proj wo_b dense"),
    "latent": ("q_a_proj q_proj", "q_b_proj q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"),
    "linear": ("in_proj_qkvz in_proj_qkv qkv_proj", "in_proj in_proj_z", "out_proj o_proj"),
}  # fmt: skip
"""Last parts of module names, one entry a module, with the names other checkpoints give it."""


def modules(facts: Facts, layers: list[Block]) -> list[Module]:
    """The linear modules of every layer, by the names that checkpoints give them."""
    named: list[Module] = []
    i = -1
    for layer in layers:
        i += 0 if layer.half else 1
        if layer.mixer is not None:
            kind = "latent" if isinstance(layer.mixer, LatentAttention) else "attention"
            path = facts.mixer_path
            if isinstance(layer.mixer, Recurrent):
                kind, path = "linear", facts.linear_path
            named += [
                ("attention", tuple(f"layers.{i}.{path}.{leaf}" for leaf in leaves.split()), 1)
                for leaves in LEAVES[kind]
            ]
        if isinstance(layer.ffn, MoE):
            named.append(("expert", _names(i, f"{facts.expert_path}.0", "down_proj w2"), 1))
            if layer.ffn.shared_width:
                shared = f"{facts.ffn_path}.{facts.shared_path}".rstrip(".")
                named.append(("ffn", _names(i, shared, "down_proj w2"), layer.ffn.shared_width))
        elif layer.ffn is not None:
            leaves = ("up_proj gate_up_proj w3 fc1", "down_proj w2 fc2")
            named += [("ffn", _names(i, facts.ffn_path, leaf), layer.ffn.width) for leaf in leaves]
    return named


def _names(i: int, path: str, leaves: str) -> tuple[str, ...]:
    return tuple(f"layers.{i}.{path}.{leaf}" for leaf in leaves.split())


def _majorities(outer: Keys, section: Section, choose: Choice, named: list[Module]) -> dict[str, str]:
    """The format that most weights of each class have."""
    alone = Patterns(_patterns(section), outer)
    votes: dict[str, dict[str, int]] = {}
    for name_class, names, weight in named:
        form = (
            "" if any(map(alone.match, names)) else next(filter(None, (choose(name_class, name) for name in names)), "")
        )
        votes.setdefault(name_class, {})
        votes[name_class][form] = votes[name_class].get(form, 0) + weight
    if section.get("lm_head") is True:
        votes["head"] = {choose("head", "lm_head"): 1}
    found: dict[str, str] = {}
    for name_class, counts in votes.items():
        form = max(counts, key=lambda each: counts[each])
        if len(counts) > 1:
            share = round(100 * counts[form] / sum(counts.values()))  # ints
            outer.note(
                f"quantisation: about {share} % of the {name_class} weights are {form or '16 bit'}, the rest "
                f"{' and '.join(sorted(each or '16 bit' for each in counts if each != form))}; counted as {form or '16 bit'}"
            )
        if form:
            found[name_class] = form
    return found


def _patterns(section: Section) -> list[str]:
    return [
        each
        for key in LEFT_ALONE
        if isinstance(section.get(key), list)
        for each in section[key]
        if isinstance(each, str)
    ]


# --------------------------------------------------------------------------------------- module patterns


class Patterns:
    """Module names a section leaves alone: plain names, globs and `re:` expressions, under any prefix."""

    def __init__(self, patterns: list[str], outer: Keys) -> None:
        self.by_layer: dict[str, list[str]] = {}
        self.general: list[str] = []
        self.expressions: list[re.Pattern[str]] = []
        for pattern in patterns[:20_000]:
            if pattern.startswith("re:"):
                self._expression(pattern[3:], outer)
                continue
            bare = _bare(pattern)
            layer = re.match(r"layers\.(\d+)\.", bare)
            (self.by_layer.setdefault(layer[1], []) if layer else self.general).append(bare)
        self.seen: dict[str, bool] = {}
        texts = (*self.general, *(expression.pattern for expression in self.expressions))
        self.numbered = any("layers" in text or re.search(r"\d|\[", text) for text in texts)

    def _expression(self, text: str, outer: Keys) -> None:
        simple = re.sub(r"(\.\*)+", ".*", text)
        risky = len(simple) > 300 or len(re.findall(r"[*+{]", simple)) > 4
        risky = risky or re.search(r"[)\]][*+{].*[)\]][*+{]", simple) or re.search(r"[*+}][^()]*\)[*+{]", simple)
        try:
            if risky:
                raise re.error("too many wildcards")
            self.expressions.append(re.compile(simple))
        except (re.error, OverflowError, RecursionError):
            outer.note(f"quantisation: the pattern {text[:60]!r} is not understood and excludes nothing here")

    def match(self, name: str) -> bool:
        """True when a module of this name is left alone."""
        _, layer, rest = (*name.split(".", 2), "", "")[:3]
        if self.numbered or layer in self.by_layer:
            return self._match(name, layer)
        if rest not in self.seen:  # no pattern tells this layer from the next
            self.seen[rest] = self._match(name, layer)
        return self.seen[rest]

    def _match(self, name: str, layer: str) -> bool:
        if any(_matches(pattern, name) for pattern in (*self.general, *self.by_layer.get(layer, ()))):
            return True
        full = (name, f"model.{name}", f"language_model.model.{name}", f"model.language_model.{name}")
        return any(expression.match(each) for expression in self.expressions for each in full)


def _bare(name: str) -> str:
    """A module name without the prefixes that wrappers add."""
    return re.sub(r"^(?:(?:model|language_model|backbone|transformer|decoder|text_model|llm)\.)+", "", name)


def _matches(pattern: str, name: str) -> bool:
    stem = pattern.removesuffix("*")
    if not _WILD.search(stem):
        if stem != pattern:
            return name.startswith(stem)
        return name == stem or name.startswith(stem + ".") or name.endswith("." + stem) or f".{stem}." in name
    glob = _glob(pattern)
    return bool(glob.match(name) or glob.match(f"model.{name}"))


_WILD = re.compile(r"[*?\[]")


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    """A glob as an expression that may end at any part of a name; stars do not backtrack."""
    return re.compile(translate(pattern).replace(r"\Z", r"(?:\..*)?\Z").replace(r"\z", r"(?:\..*)?\z"))


# -------------------------------------------------------------------------------------- methods → formats

Choice = Callable[[str, str], str]


def _always(form: str) -> Choice:
    return lambda name_class, name: form


def _only_experts(form: str) -> Choice:
    return lambda name_class, name: form if name_class == "expert" else ""


def _bits(section: Section, *keys: str) -> int:
    for key in keys or ("bits", "w_bit", "wbits", "num_bits", "nbits", "weight_bits"):
        value = section.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value:
            return int(value) if abs(value) < 64 else 0
    return 0


def _weight_only(bits: int, group: object) -> str:
    if bits not in WEIGHT_ONLY:
        raise InputError(f"{bits or 'an unknown number of'} bits per weight have no format here")
    return "int4_g32" if bits == 4 and group == 32 else WEIGHT_ONLY[bits]


def _by_bits(section: Section) -> Choice:
    """Weight-only integers (AWQ, GPTQ and their like), or an unknown method that says its bits."""
    return _always(_weight_only(_bits(section), section.get("group_size", section.get("q_group_size"))))


def _fp8(section: Section) -> Choice:
    return _always("fp8_block" if section.get("weight_block_size") else "fp8")


def _bitsandbytes(section: Section) -> Choice:
    if section.get("load_in_4bit") or section.get("_load_in_4bit"):
        return _always("int4")
    return _always("int8")


def _algorithm(text: object) -> str:
    name = str(text).lower()
    for part, form in ALGORITHMS:
        if part in name:
            return form
    raise InputError(f"the algorithm {str(text)[:40]!r} has no format here")


def _inner(section: Section) -> Section:
    """The part with the algorithm: some files wrap it once more."""
    wrapped = section.get("quantization")
    return wrapped if isinstance(wrapped, dict) else section


def _modelopt(section: Section) -> Choice:
    """NVIDIA's section: one algorithm, config groups, or one algorithm a layer."""
    inner = _inner(section)
    algorithm = inner.get("quant_algo") or section.get("quant_algo")
    layers = inner.get("quantized_layers")
    if isinstance(layers, dict) and layers:
        forms = {
            _bare(name): _algorithm(entry.get("quant_algo"))
            for name, entry in layers.items()
            if isinstance(name, str) and isinstance(entry, dict)
        }
        return lambda name_class, name: _nearest_form(forms, name_class, name)
    if isinstance(section.get("config_groups"), dict):
        return _compressed(section)
    return _always(_algorithm(algorithm))


def _nearest_form(forms: dict[str, str], name_class: str, name: str) -> str:
    """The format of the listed module that this one stands for (fused or split differently)."""
    parent = name.rpartition(".")[0]
    for key, form in forms.items():
        if key == name or key.startswith(parent + ".") or name.startswith(key + "."):
            return form
    return ""


def _compressed(section: Section) -> Choice:
    """compressed-tensors: groups of targets with their weights' type, bits and strategy."""
    groups = section.get("config_groups")
    chosen: list[tuple[list[str], str]] = []
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict) and isinstance(group.get("weights"), dict):
            said = group.get("targets")
            targets = [each for each in said if isinstance(each, str)] if isinstance(said, list) else ["Linear"]
            chosen.append((targets, _scheme(group["weights"], group.get("input_activations"))))
    if not chosen:
        raise InputError("no config_groups with weights")
    if len(chosen) == 1 and "Linear" in chosen[0][0]:
        return _always(chosen[0][1])
    matchers = [
        (Patterns([t for t in targets if t != "Linear"], Keys({})), "Linear" in targets, form)
        for targets, form in chosen
    ]

    def choose(name_class: str, name: str) -> str:
        exact = next((form for patterns, _, form in matchers if patterns.match(name)), "")
        return exact or next((form for _, everything, form in matchers if everything), "")

    return choose


def _scheme(weights: Section, activations: object) -> str:
    bits, group = _bits(weights, "num_bits"), weights.get("group_size")
    if weights.get("type") == "float":
        if bits == 8:
            if weights.get("strategy") == "block":
                return "fp8_block"
            return ("mxfp8" if group == 32 else "fp8") if activations else "fp8_weight"
        if bits == 4:
            return "mxfp4" if group == 32 else "nvfp4"
    if bits == 8 and activations:
        return "int8"
    return _weight_only(bits, group)


def _quark(section: Section) -> Choice:
    """AMD's section: one scheme for all weights."""
    found = section.get("global_quant_config")
    everything: Section = found if isinstance(found, dict) else {}
    weight = everything.get("weight")
    if not isinstance(weight, dict):
        raise InputError("no global_quant_config with weights")
    name = str(weight.get("dtype")).lower()
    if "fp4" in name:
        return _always("mxfp4" if weight.get("group_size", 32) == 32 else "nvfp4")
    if "fp8" in name:
        return _always("fp8" if everything.get("input_tensors") else "fp8_weight")
    digits = re.search(r"int(\d)", name)
    if digits and digits[1] == "8" and everything.get("input_tensors"):
        return _always("int8")
    return _always(_weight_only(int(digits[1]) if digits else 0, weight.get("group_size")))


def _torchao(section: Section) -> Choice:
    name = str(section.get("quant_type")).lower().replace("_", "")
    if "float8" in name:
        return _always("fp8" if "dynamic" in name else "fp8_weight")
    if "int8weightonly" in name:
        return _always("int8_weight")
    return _always("int4" if "int4" in name else _algorithm(name))


def _nested_bits(section: Section) -> Choice:
    inner = section.get("quant_config", {})
    inner = inner.get("weight_quant_params", inner) if isinstance(inner, dict) else {}
    return _always(_weight_only(_bits(inner if isinstance(inner, dict) else {}) or _bits(section), None))


def _quanto(section: Section) -> Choice:
    name = str(section.get("weights")).lower()
    return _always(
        "fp8_weight" if "float8" in name else {"int8": "int8_weight", "int4": "int4", "int2": "int2"}.get(name, "int4")
    )


def _w4afp8(section: Section) -> Choice:
    return lambda name_class, name: "int4" if name_class == "expert" else "fp8"


READERS: dict[str, Callable[[Section], Choice]] = {
    "fp8": _fp8, "fbgemm_fp8": _fp8, "ptpc_fp8": _fp8, "deepgemm_fp8": _fp8, "finegrained_fp8": _fp8,
    "bitsandbytes": _bitsandbytes, "bitnet": lambda section: _always("int2"), "aqlm": lambda section: _always("int2"),
    "mxfp4": lambda section: _only_experts("mxfp4"), "experts_int8": lambda section: _only_experts("int8_weight"),
    "modelopt": _modelopt, "modelopt_fp4": _modelopt, "nvfp4": lambda section: _always("nvfp4"), "modelopt_mixed": _modelopt,
    "mixed_precision": _modelopt, "compressed_tensors": _compressed, "quark": _quark, "torchao": _torchao,
    "hqq": _nested_bits, "eetq": lambda section: _always("int8_weight"), "quanto": _quanto, "w4afp8": _w4afp8,
    "marlin": lambda section: _always("int4"), "squeezellm": lambda section: _always("int4"),
    "w8a8_int8": lambda section: _always("int8"), "w8a8_fp8": lambda section: _always("fp8"),
}  # fmt: skip


def _cache_format(section: Section) -> str:
    """Format of the KV cache where the section names one."""
    inner = _inner(section)
    name = inner.get("kv_cache_quant_algo") or section.get("kv_cache_quant_algo")
    if isinstance(name, str):
        return {"FP8": "fp8", "NVFP4": "nvfp4", "INT8": "int8_weight"}.get(name.upper(), "")
    scheme = section.get("kv_cache_scheme")
    if isinstance(scheme, dict):
        bits = _bits(scheme, "num_bits")
        return {8: "fp8" if scheme.get("type") == "float" else "int8_weight", 4: "nvfp4"}.get(bits, "")
    return ""
