"""Options of the command line, made from the fields of the questions: a field of an ask is an option of its command.

`FLAGS` adds what a field does not know: words for people, a placeholder, a panel of the help. A test holds the two together.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_origin

import msgspec
import typer

from rooflab.cli.reading import hints, plain, reader
from rooflab.units import InputError, shown

MACHINE, WORK, LAYOUT, FORMATS, PRICING = "Machine", "Workload", "Layout", "Number formats", "Pricing"
ENGINE, STUDY, TRAFFIC = "Engine", "Study", "Simulated traffic"


class Flag(msgspec.Struct, frozen=True):
    """What an option says beside its name."""

    help: str
    metavar: str = "N"
    panel: str | None = WORK
    complete: Callable[[str], list[str]] | None = None


def _complete_models(typed: str) -> list[str]:
    from rooflab.catalog import model_names

    return [name for name in model_names() if name.startswith(typed.lower())]


def _complete_systems(typed: str) -> list[str]:
    from rooflab.catalog import device_names, system_names

    return [name for name in (*system_names(), *device_names()) if name.startswith(typed.lower())]


def _complete_formats(typed: str) -> list[str]:
    from rooflab.work import FORMATS as known

    return [name for name in known if name.startswith(typed.lower())]


FLAGS: dict[str, Flag] = {
    "model": Flag(
        "A catalog name, a config.json or its folder, or a Hugging Face id.", "MODEL", None, _complete_models
    ),
    "what": Flag("The shelf to show.", "SHELF", None),
    "op": Flag(
        "ttft, tpot, e2e, output_throughput, cost, energy, weights, kv, workspace, state or an operator.", "NAME"
    ),
    "on": Flag('A system or device: h100-sxm, "8x h100-sxm", or a TOML file.', "SYSTEM", MACHINE, _complete_systems),
    "changes": Flag('Change the hardware: --set "memory_bandwidth=4 TB/s". Again for more.', "KEY=VALUE", MACHINE),
    "flops_multiplier": Flag("Times the compute of the device.", "X", MACHINE),
    "bandwidth_multiplier": Flag("Times the memory bandwidth of the device.", "X", MACHINE),
    "phase": Flag("The kind of pass."),
    "batch": Flag("Sequences at once, in each replica."),
    "prompt": Flag("Tokens of each prompt: 1024, 128k, 1M, 128Ki."),
    "output": Flag("Tokens of each answer."),
    "context": Flag("Tokens of context of each sequence; in a prefill, those of its prompt."),
    "cached": Flag("Prompt tokens that are in the cache already."),
    "prefill_batch": Flag("Mixed step: prompts beside the decoding sequences."),
    "prefill_tokens": Flag("Mixed step: new tokens of each prompt."),
    "tp": Flag("Tensor parallelism: devices that share every matrix.", panel=LAYOUT),
    "pp": Flag("Pipeline parallelism: stages of layers.", panel=LAYOUT),
    "cp": Flag("Context parallelism: devices that share the sequence.", panel=LAYOUT),
    "dp": Flag("Data parallelism: replicas.", panel=LAYOUT),
    "ep": Flag("Expert parallelism: devices that share the experts.", panel=LAYOUT),
    "attention_dp": Flag("Groups that run attention on different sequences.", panel=LAYOUT),
    "ep_mode": Flag("Experts on the other axes' devices, or on their own.", panel=LAYOUT),
    "kv_shard": Flag("KV heads under a larger tp: split in width, or copied.", panel=LAYOUT),
    "ffn_scope": Flag("Axes that share the feed-forward.", panel=LAYOUT),
    "ring": Flag("What travels round a context ring.", panel=LAYOUT),
    "tp_placement": Flag("Level of the machine that tp is laid on.", panel=LAYOUT),
    "cp_placement": Flag("Level of the machine that cp is laid on.", panel=LAYOUT),
    "microbatches": Flag("Parts a batch is cut into for a pipeline.", panel=LAYOUT),
    "weights": Flag("fp8, or attention=fp8,expert=int4; else the checkpoint's.", "FORMAT", FORMATS, _complete_formats),
    "kv": Flag("Format of the cache; else the checkpoint's.", "FORMAT", FORMATS, _complete_formats),
    "profile": Flag("How work is counted and priced: see `rooflab catalog profiles`.", "NAME", PRICING),
    "switches": Flag("Change the profile: --switch compute_efficiency=0.7. Again for more.", "KEY=VALUE", PRICING),
    "reserve": Flag('Memory kept for the runtime: "2 GB" or 10%.', "SIZE", PRICING),
    "prices": Flag("roofline, fitted (on measured kernels), or a table of your own kernels.", "PRICES", PRICING),
    "engine": Flag("Engine whose kernels and host work are meant.", panel=PRICING),
    "concurrency": Flag("Requests always in flight: continuous batching in a closed loop, priced on measured kernels."),
    "max_batched_tokens": Flag("With --concurrency: tokens of one iteration at most; else the engine's."),
    "varied": Flag("With --concurrency: lengths vary at random about these means."),
    "ignore_memory": Flag("Show the speed even where the memory is too small.", panel=PRICING),
    "requests": Flag("Requests to simulate; of a trace, the first so many."),
    "rate": Flag("Mean arrivals per second."),
    "load": Flag("Arrivals as a share of what the engine can serve: 0.7.", "SHARE"),
    "trace": Flag("A file of arrivals and lengths: .csv or .jsonl.", "FILE"),
    "speed": Flag("Times as fast as the trace.", "X"),
    "variation": Flag("Variation of the gaps between arrivals: 1 is Poisson, 0 even."),
    "turns": Flag("Turns of each conversation."),
    "think": Flag("Mean pause before a user's next request: 2s.", "TIME"),
    "spread": Flag("How far users' equal answers differ, so that users fall out of step: 0.05.", "SHARE"),
    "policy": Flag("Who is served next.", panel=ENGINE),
    "paging": Flag("Cache by pages as tokens come, or reserved whole.", panel=ENGINE),
    "slots": Flag("Sequences at once, per replica.", panel=ENGINE),
    "budget": Flag("Tokens of an iteration at most.", panel=ENGINE),
    "block_tokens": Flag("Tokens of a block of cache.", panel=ENGINE),
    "kv_tokens": Flag("Tokens of cache of a replica; else what the memory holds.", panel=ENGINE),
    "caching": Flag("Find prefixes in the cache.", panel=ENGINE),
    "swap": Flag(
        'Host memory per device for the cache of preempted requests: "64 GB"; else computed again.', "SIZE", ENGINE
    ),
    "host_link": Flag('Between a device and its host: "25 GB/s"; else the device\'s own.', "RATE", ENGINE),
    "replicas": Flag("Equal engines behind one router.", panel=ENGINE),
    "routing": Flag("Which replica a request goes to.", panel=ENGINE),
    "disaggregate": Flag("Prefill and decode replicas: 1:3.", "P:D", ENGINE),
    "link": Flag('Between prefill and decode, per replica: "50 GB/s".', "RATE", ENGINE),
    "draft_tokens": Flag("Tokens drafted per step.", panel=ENGINE),
    "acceptance": Flag("Chance that a drafted token is accepted.", "SHARE", ENGINE),
    "ttft": Flag("A limit on the time to the first token: 500ms.", "TIME"),
    "tpot": Flag("A limit on the time per token: 30ms.", "TIME"),
    "slo": Flag('Limits: "ttft=500ms,tpot=50ms".', "LIMITS", STUDY),
    "at": Flag("Statistic the limits are held to.", panel=STUDY),
    "find": Flag("Look for the highest load, the fewest replicas, or the best division.", panel=STUDY),
    "loads": Flag('A load curve: rates such as "2,4,8".', "LIST", STUDY),
    "replications": Flag("Runs at each load of a curve.", panel=STUDY),
    "policies": Flag('Policies on the same traffic: "chunked,static" or all.', "LIST", STUDY),
    "warmup": Flag("First requests left out of the times.", panel=STUDY),
    "seed": Flag("Seed of the random numbers.", panel=STUDY),
    "loop": Flag("Python, or compiled by Numba; both give the same run.", panel=STUDY),
    "users": Flag("Users at once."),
    "goal": Flag("What layouts that meet the limits are ranked by.", panel=STUDY),
    "count": Flag("Layouts to show.", panel=STUDY),
    "layouts": Flag("Every serving layout of at most this many devices, at batch 1 to 512.", panel=STUDY),
    "largest": Flag("Devices of one replica at most.", panel=STUDY),
    "rates": Flag("Rates of a step: a whole replica's, or one device's.", panel=PRICING),
    "layers_only": Flag("Leave embedding and output head out.", panel=PRICING),
    "seeds": Flag("Runs of each candidate.", panel=TRAFFIC),
    "divide": Flag("Also divide replicas into prefill and decode.", panel=TRAFFIC),
    "mode": Flag("The kind of pass."),
    "scope": Flag("Which weights and caches count."),
    "depth": Flag("This machine; each part as it is or doubled (64); halved, as it is, doubled (729).", panel=STUDY),
    "outside": Flag("Also embedding, output head and sends between pipeline stages."),
    "detail": Flag("Add the steps behind the times, operator by operator.", panel="Output"),
}
SPELLED = {"changes": "--set", "switches": "--switch"}
UNHEEDED: dict[Any, tuple[str, ...]] = {"chip": ("prices", "engine")}
"""Fields that a question shares with others and that change nothing of its answer."""
ORDER = tuple(FLAGS)
EMPTY = inspect.Parameter.empty


def spelling(field: str) -> str:
    """A field as it is typed: `attention_dp` is `--attention-dp`."""
    return SPELLED.get(field, "--" + field.replace("_", "-"))


def fields(kind: type[msgspec.Struct]) -> dict[str, tuple[Any, Any]]:
    """Field of an ask → (its annotation, its default), in the order of the help."""
    found = {field.name: EMPTY if field.required else field.default for field in msgspec.structs.fields(kind)}
    ordered = sorted(found, key=lambda name: ORDER.index(name) if name in FLAGS else len(ORDER))
    return {name: (hints(kind)[name], found[name]) for name in ordered}


def parameters(kind: type[msgspec.Struct], said: Mapping[str, Flag] | None = None) -> list[inspect.Parameter]:
    """The parameters that Typer reads a command's options from; `said` are words of its own for some of them."""
    flags = {**FLAGS, **(said or {})}
    left_out = UNHEEDED.get(kind.__struct_config__.tag, ())
    return [
        _parameter(name, flags.get(name, Flag("")), annotation, default)
        for name, (annotation, default) in fields(kind).items()
        if name not in left_out
    ]


def _parameter(name: str, flag: Flag, annotation: Any, default: Any) -> inspect.Parameter:
    needed = default is EMPTY
    typed = _typed(annotation)
    text = flag.help if needed else f"{flag.help}{_default(default)}"
    shared: dict[str, Any] = {"help": text, "show_default": False}
    if flag.complete:
        shared["autocompletion"] = flag.complete
    if get_origin(typed) is not Literal and typed is not bool:
        shared["metavar"] = flag.metavar
    if flag.panel is None:
        how = typer.Argument(**shared)
    else:
        how = typer.Option(spelling(name), rich_help_panel=flag.panel, **shared)
    start = EMPTY if needed else False if typed is bool else None
    wanted = typed if needed or typed is bool else typed | None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=start, annotation=Annotated[wanted, how])


def _typed(annotation: Any) -> Any:
    """What Typer checks itself: choices and switches; the rest comes as text."""
    wanted = plain(annotation)
    if get_origin(wanted) is Literal or wanted is bool:
        return wanted
    return list[str] if get_origin(wanted) is dict else str


def _default(default: Any) -> str:
    """What an option is when it is not given, as the end of its help."""
    if isinstance(default, bool) or not isinstance(default, str | int | float):
        return ""
    text = f"{default:,}" if isinstance(default, int) else f"{default:g}" if isinstance(default, float) else default
    return f" [dim]\\[{text}][/]"


# ------------------------------------------------------------------------------------------- from text to values


def ask(kind: type[msgspec.Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """The question that the options given amount to; what was not given is left out."""
    values = {name: _read(kind, name, value) for name, value in given.items() if value not in (None, [], False)}
    return {"kind": kind.__struct_config__.tag, **values}


def _read(kind: type[msgspec.Struct], name: str, value: Any) -> Any:
    """An option's text as the field wants it: numbers, pairs, or the text itself."""
    if isinstance(value, list):
        return _pairs(value, spelling(name))
    if not isinstance(value, str):
        return value
    read = reserve if name == "reserve" else reader(kind, name, spelling(name))
    return read(value) if read else value


def reserve(text: str) -> str | float:
    """A share such as 0.1 is a number; the rest is read where its unit is known, and needs one."""
    return float(text) if re.fullmatch(r"\s*0*(\.[0-9]*)?\s*", text) and any(map(str.isdigit, text)) else text


def _pairs(texts: list[str], option: str) -> dict[str, Any]:
    """KEY=VALUE: switches are numbers or true and false where they read as one; figures of hardware need their unit."""
    pairs: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{option}: {shown(text)} is not KEY=VALUE; for example {option} {_EXAMPLES[option]}")
        pairs[key.strip()] = _scalar(value.strip()) if option == "--switch" else value.strip()
    return pairs


_EXAMPLES = {"--set": '"memory_bandwidth=4 TB/s"', "--switch": "compute_efficiency=0.7"}


def _scalar(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, bool | int | float) else text
