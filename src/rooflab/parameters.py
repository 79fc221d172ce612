"""Which fitted parameters an operator takes: how they are filed, which of them apply, and what carries over.

Parameters live in `catalog/fits`, one file per measured device, and `transfer.toml` says which of them stand in on every
other device and how far off they may be. Files are read when a device is first priced.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from rooflab import kernels, num
from rooflab.kernels import attention, experts
from rooflab.system import System
from rooflab.units import InputError, parse
from rooflab.work import FORMATS, Op

FOLDER = Path(__file__).parent / "catalog" / "fits"
BACKENDS = ("vllm", "sglang", "trtllm")
STOCK = "torch"
"""PyTorch's own kernels, as `rooflab measure` times them: they stand in where no engine's were measured."""
CYCLES = frozenset({"launch", "fill", "wave", "split", "step"})
CLOCKED = frozenset({"gemm", "batched_gemm", "decode_attention", "latent_decode", "experts", "convolution", "update"})
"""Parameters that are cycles rather than seconds, and the families where that was seen from device to device."""
LATEST = "9999"
"""The version of an engine as it is today: newer than any measured. "" is one that nobody knows."""
LEAST_STREAM = 0.25
"""Share of the bandwidth below which an expert kernel is no guide to another engine's, or to another architecture's."""
FEW = 400
"""Rows below which a newer expert kernel is taken for a special case."""
STAND_IN = (0.8, 1.3)
"""How much wider a band gets, down and up, where another format's or engine's parameters stand in."""
STAND_INS = {
    "gemm": (0.85, 1.1),
    "decode_attention": (0.8, 1.25),
    "prefill_attention": (0.7, 1.65),
    "experts": (0.8, 1.9),
    "scan": (0.35, 2.5),
    "convolution": (0.9, 1.6),
    "update": (0.95, 1.05),
    "custom_all_reduce": (0.9, 1.1),
    "custom_all_reduce_eager": (0.9, 1.1),
}
"""The same by family where several engines' kernels were measured: one left out and priced by another, eight in ten inside."""
SHARED = frozenset({("gemm", "bf16"), ("batched_gemm", "bf16")})
"""Work that engines leave to the same library: another engine's rows scatter no more than one's own."""


class Fit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of one family on one device, format and engine, with what they were fitted on and how well."""

    family: str
    dtype: str
    backend: str
    parameters: dict[str, Any]
    kernel: str = ""
    """Name of the kernel measured; empty where the engine's choice of kernel, in its newest version, is meant."""
    version: str = ""
    rows: int = 0
    held_rows: int = 0
    fit_error: float = 0.0
    """Median of |predicted / measured − 1| on the rows fitted."""
    held_error: float = 0.0
    """The same on rows of shapes held out."""
    held_p90: float = 0.0
    coverage: float = 0.0
    """Share of held-out rows inside the band."""
    band: tuple[float, float] = (0.7, 1.5)
    """Measured over predicted time, eight in ten."""
    basis: str = "fitted"
    note: str = ""


class Class(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices that borrow another's parameters, what is changed for them, and the bands that then hold."""

    name: str
    title: str
    devices: list[str] = []
    kinds: list[str] = []
    parents: list[str] = []
    """Devices whose fits stand in, in order."""
    same_kernels: bool = False
    """Whether the devices are of the first parent's architecture, so that engines run the very kernels measured there."""
    band: dict[str, tuple[float, float]]
    """Band by family, or by family and format ("gemm bf16"); "other" for the rest."""
    change: dict[str, dict[str, Any]] = {}
    """Parameters replaced, by family."""
    scale: dict[str, dict[str, float]] = {}
    """Factors on the parent's parameters, by family, or by family and format."""
    own_exchange: float = math.inf
    """Most devices that an engine's own all-reduce joins: two where they meet over the host's bus alone."""
    plain: dict[str, Any] = {}
    """For devices whose kernels nobody measured, or whose multiprocessors nobody counted: shares of peak compute, memory
    and link, and a launch time."""

    def adapted(self, fit: Fit, values: dict[str, Any]) -> dict[str, Any]:
        """A parent's parameters as they hold on the class's devices."""
        found = {**values, **_seconds(self.change.get(fit.family, {}))}
        for key in (fit.family, f"{fit.family} {fit.dtype}"):
            for name, factor in self.scale.get(key, {}).items():
                if name in found:
                    scaled = found[name] * factor
                    found[name] = min(scaled, 1.0) if name in kernels.SHARES else scaled
        return found

    def spread(self, fit: Fit) -> tuple[float, float]:
        """The band that a fit of a parent gets."""
        return self.band.get(f"{fit.family} {fit.dtype}", self.band.get(fit.family, self.band["other"]))


class _Transfer(msgspec.Struct, forbid_unknown_fields=True, rename={"classes": "class"}):
    classes: list[Class]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    device: str
    fit: list[Fit]
    clock: str = ""
    """Boost clock of the device measured: fixed costs are cycles, so they carry over in proportion."""
    sources: list[str] = []
    date: str = ""
    notes: list[str] = []


def _seconds(parameters: dict[str, Any]) -> dict[str, Any]:
    """Times as they are written ("2.9 us") -> seconds."""
    return {
        name: parse(value, "s", name) if name in kernels.SECONDS and isinstance(value, str) else value
        for name, value in parameters.items()
    }


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """The fits of one device, and its clock."""

    device: str
    clock: float | None
    fits: tuple[Fit, ...]
    sources: tuple[str, ...] = ()
    date: str = ""


@lru_cache(maxsize=64)
def read(path: Path) -> Shelf:
    """The fits in a file.

    Raises InputError naming what is wrong.
    """
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"fits: {path.name} cannot be read: {error}") from None
    fits = tuple(msgspec.structs.replace(fit, parameters=_seconds(fit.parameters)) for fit in found.fit)
    clock = parse(found.clock, "Hz", "clock") if found.clock else None
    return Shelf(device=path.stem, clock=clock, fits=fits, sources=tuple(found.sources), date=found.date)


@cache
def measured_devices() -> tuple[str, ...]:
    """Devices with fits of their own."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "transfer"))


@cache
def classes() -> tuple[Class, ...]:
    """Every class of `transfer.toml`."""
    data = tomllib.loads((FOLDER / "transfer.toml").read_text(encoding="utf-8"))
    return tuple(msgspec.convert(data, _Transfer).classes)


def class_of(device: str, kind: str) -> Class:
    """The class of devices a device borrows from: the one that names it, else the one for its kind."""
    for one in classes():
        if device in one.devices:
            return one
    return next((one for one in classes() if kind in one.kinds), classes()[-1])


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters an operator is priced with, and how far they can be trusted."""

    parameters: Any
    low: float
    high: float
    basis: str
    dtype: str
    """Format the parameters were fitted on."""
    source: str
    """Where they come from, for people."""


def _numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, for order: "0.19.0" before "0.24.0"; a release candidate counts as its release."""
    pieces = version.strip().lstrip("v").replace("rc", ".").replace("post", ".").split(".")
    return tuple(int(piece) for piece in pieces[:3] if piece.isdecimal())


def _pick(filed: list[Fit], kernel: str, version: str) -> Fit | None:
    """Of the fits of one family, format and engine: the kernel named, one of its make, or what that version runs."""
    named = [fit for fit in filed if fit.kernel]
    usual = next((fit for fit in filed if not fit.kernel), None)
    if kernel:
        exact = next((fit for fit in named if fit.kernel == kernel), None)
        if exact is not None:
            return exact
        make = experts.make(kernel)
        alike = [fit for fit in named if make and experts.make(fit.kernel) == make]
        if alike:
            return max(alike, key=lambda fit: (_newest(fit), _seen(fit)))
    if usual is None or usual.family != "experts" or not named:
        return usual
    return _usual_experts(named, version)


def _special(fit: Fit) -> bool:
    """Whether an expert kernel hardly streams its weights: untuned for the device measured, which says nothing of others."""
    return fit.family == "experts" and fit.parameters.get("memory", 1.0) < LEAST_STREAM


def _without_recast(fit: Fit) -> Fit:
    """A fit without the passes over the whole cache in which one engine's latent kernel turns eight bits into sixteen."""
    if fit.family != "latent_decode" or fit.parameters.get("recast", 0.0) < 1.0:
        return fit
    return msgspec.structs.replace(fit, parameters={**fit.parameters, "recast": 0.0})


def _over_latents(fit: Fit) -> bool:
    """Whether a prompt's kernel works on the latents themselves: one engine's choice, which others do not share."""
    return fit.family == "latent_prefill" and fit.parameters.get("tiles", attention.SHARED) == attention.SHARED


def _newest(fit: Fit) -> tuple[int, ...]:
    return max((_numbers(each) for each in fit.version.split(",")), default=())


def _oldest(fit: Fit) -> tuple[int, ...]:
    return min((_numbers(each) for each in fit.version.split(",")), default=())


def _seen(fit: Fit) -> int:
    return fit.rows + fit.held_rows


def _usual_experts(named: list[Fit], version: str) -> Fit:
    """The expert kernel that ran most shapes: in the version asked for, else in the newest that ran enough of them."""
    asked = _numbers(version)
    known = named
    if asked:
        first = min(_oldest(fit) for fit in named)
        known = [fit for fit in named if _oldest(fit) <= max(asked, first)]
    enough = [fit for fit in known if _seen(fit) >= FEW] or known
    latest = max(_newest(fit) for fit in enough)
    return max((fit for fit in enough if _newest(fit) == latest), key=_seen)


class Mixture(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far rows of any kernel are from the one taken where none is named."""

    device: str
    dtype: str
    backend: str
    version: str = ""
    """Version the rows ran in; empty where any may have run."""
    kernels: int
    rows: int
    held_error: float
    coverage: float
    band: tuple[float, float]


@cache
def mixtures() -> dict[tuple[str, str, str], list[Mixture]]:
    """Bands of expert kernels that are not named, by device, format and engine; the newest version first."""
    data = tomllib.loads((FOLDER.parent / "mixtures.toml").read_text(encoding="utf-8"))
    found: dict[tuple[str, str, str], list[Mixture]] = {}
    for one in sorted(msgspec.convert(data["mixture"], list[Mixture]), key=lambda m: _numbers(m.version), reverse=True):
        found.setdefault((one.device, one.dtype, one.backend), []).append(one)
    return found


def mixture(device: str, fit: Fit, version: str) -> tuple[float, float] | None:
    """The band of a kernel that was not named: of what ran in that version or the one before it, else of all versions."""
    known = mixtures().get((device, fit.dtype, fit.backend), [])
    asked = _numbers(version)
    ran = [one for one in known if one.version and asked and _numbers(one.version) <= asked]
    ran = ran or [one for one in known if not one.version]
    return ran[0].band if ran and fit.family == "experts" else None


def _without_engine(shelf: Shelf, engine: str) -> Shelf:
    return msgspec.structs.replace(shelf, fits=tuple(fit for fit in shelf.fits if fit.backend != engine))


class Fits:
    """The fits that apply to one device, its own first; without those put away, as had nobody measured that device or engine."""

    def __init__(self, device: str, kind: str, clock: float | None = None, *, without: str = ""):
        self.device, self.clock, self.group = device, clock, class_of(device, kind)
        names = dict.fromkeys((device, *self.group.parents))
        known = [read(FOLDER / f"{name}.toml") for name in names if name in measured_devices() and name != without]
        self.shelves = [_without_engine(shelf, without) if without in BACKENDS else shelf for shelf in known]

    def said(self, backend: str) -> str:
        """Where the prices come from, for people."""
        if not self.shelves:
            return f"prices of {self.device}: {self.group.title}"
        parent = self.shelves[0].device
        if parent == self.device:
            return f"prices fitted on kernels of {backend} measured on {parent}"
        return f"prices carried over from kernels of {backend} measured on {parent}; {self.device}: {self.group.title}"

    def choose(
        self, family: str, dtypes: tuple[str, ...], backend: str, kernel: str = "", version: str = ""
    ) -> Chosen | None:
        """The nearest fit of a family: on this device before elsewhere, in the format asked for before a stand-in's.

        Matrix products look for their format first, on any device: how activations are quantised weighs more.

        A kernel asked for by name is preferred on the same device, then one of the same make; without a name, what the
        engine runs in that version, or in its newest.
        """
        backends = (backend, *(b for b in (*BACKENDS, STOCK, "any") if b != backend))
        places = [(shelf, step) for shelf in self.shelves for step in range(len(dtypes))]
        if family in ("gemm", "batched_gemm"):
            places.sort(key=lambda place: place[1])
        for shelf, step in places:
            for name in backends:
                filed = [f for f in shelf.fits if (f.family, f.dtype, f.backend) == (family, dtypes[step], name)]
                asked = version if name == backend else LATEST
                fit = _pick(filed, kernel, asked)
                foreign = name != backend or not (shelf.device == self.device or self._same_kernels(shelf))
                if fit is not None and foreign and _special(fit):
                    continue
                fit = _without_recast(fit) if fit is not None and foreign else fit
                if fit is not None and name != backend and _over_latents(fit):
                    return self._expanded(backend, version)
                if fit is not None:
                    any_of = mixture(shelf.device, fit, asked) if fit.kernel != kernel else None
                    shared = step == 0 and (fit.family, fit.dtype) in SHARED
                    stand_in = (step > 0 or name != backend) and not shared and fit.backend != "any"
                    return self._chosen(fit, shelf, stand_in, any_of)
        return None

    def _same_kernels(self, shelf: Shelf) -> bool:
        return self.group.same_kernels and shelf.device == self.group.parents[0]

    def _expanded(self, backend: str, version: str) -> Chosen | None:
        """Prompts over keys expanded for every head: plain attention, each head with tiles of its own."""
        found = self.choose("prefill_attention", ("bf16",), backend, version=version)
        if found is None:
            return None
        values = msgspec.structs.replace(found.parameters, tiles=attention.APART)
        low, high = found.low * STAND_IN[0], found.high * STAND_IN[1]
        return msgspec.structs.replace(found, parameters=values, low=low, high=high)

    def _chosen(self, fit: Fit, shelf: Shelf, stand_in: bool, any_of: tuple[float, float] | None = None) -> Chosen:
        low, high = any_of or fit.band
        values, borrowed = dict(fit.parameters), shelf.device != self.device
        if borrowed:
            fast, slow = self.group.spread(fit)
            low, high = min(fast, low), max(slow, high)  # no more certain than where it was measured
            if self.clock and shelf.clock and fit.family in CLOCKED:
                values = {n: v * shelf.clock / self.clock if n in CYCLES else v for n, v in values.items()}
            values = self.group.adapted(fit, values)
        if stand_in:
            down, up = STAND_INS.get(fit.family, STAND_IN)
            low, high = low * down, high * up
        known = kernels.PARAMETERS[fit.family]
        values = {name: value for name, value in values.items() if name in known.__struct_fields__}
        what = f"{fit.family} {fit.dtype} of {fit.backend} on {shelf.device}"
        return Chosen(
            parameters=known(**values),
            low=low,
            high=high,
            basis=fit.basis if not borrowed else "assumed",
            dtype=fit.dtype,
            source=what if not borrowed else f"{what}, carried over ({self.group.title})",
        )


@lru_cache(maxsize=128)
def _fits(device: str, kind: str, clock: float | None) -> Fits:
    return Fits(device, kind, clock)


def fits_for(system: System) -> Fits:
    """The fits that apply to a system's device: those its key names, else those filed under its name."""
    device = system.device
    return _fits(system.fits or device.name, device.kind, None if num.is_array(device.clock) else device.clock)


# ---------------------------------------------------------------------------------- which parameters an operator takes

_GEMM_KEYS = {"fp8_block": ("fp8_block", "fp8"), "mxfp8": ("fp8_block", "fp8"), "mxfp4": ("nvfp4", "fp8")}
_EXPERT_KEYS = {
    "mxfp4": ("w4a16_mxfp4", "nvfp4", "int4_wo"),
    "nvfp4": ("nvfp4", "w4a16_mxfp4", "int4_wo"),
    "fp8_block": ("fp8_block", "fp8"),
    "mxfp8": ("fp8_block", "fp8"),
}


def dtype_keys(family: str, op: Op, runs_as: str, backend: str) -> tuple[str, ...]:
    """Formats under which an operator's fit is filed, the best first; `runs_as` is what the device multiplies in."""
    name = op.format
    if family in ("gemm", "batched_gemm"):
        if runs_as in ("bf16", "fp16", "fp32", "vector"):
            return ("bf16",)
        return (*_GEMM_KEYS.get(name, (name, "fp8")), "bf16")
    if family == "experts":
        if name in ("bf16", "fp16", "fp32"):
            return ("bf16",)
        if FORMATS[name].rate == "bf16":
            return ("int4_wo", "w4a16_mxfp4", "bf16")
        if runs_as not in ("fp8", "fp4", "int8") or (FORMATS[name].rate == "fp4" and runs_as != "fp4"):
            return ("w4a16_mxfp4", "int4_wo", "bf16") if FORMATS[name].rate == "fp4" else ("bf16",)
        return (*_EXPERT_KEYS.get(name, (name, "fp8", "fp8_block")), "bf16")
    if family == "prefill_attention":
        keys = ("bf16+fp8", "fp8", "bf16") if backend == "vllm" else ("fp8", "bf16+fp8", "bf16")
        return keys if name.startswith("fp8") else ("bf16",)
    if family in ("decode_attention", "latent_decode", "latent_prefill"):
        return ("fp8", "bf16") if name.startswith("fp8") else ("bf16",)
    return ("any",)
