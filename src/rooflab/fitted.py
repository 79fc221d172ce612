"""Prices from measurement: kernels' formulas with parameters fitted per device, format and engine (`Fitted`).

Which parameters apply is said in `parameters`; whatever they say, an operator is never faster than its peak roofline.
"""

from __future__ import annotations

import math
from typing import Any

from rooflab import kernels, num
from rooflab.collectives import exchange_time
from rooflab.kernels.machine import Machine
from rooflab.parameters import LATEST, Chosen, dtype_keys, fits_for
from rooflab.placement import units_touched
from rooflab.price import Cost, Rates, Roofline
from rooflab.profiles import Profile
from rooflab.system import System
from rooflab.units import parse
from rooflab.work import Layout, Op

Number = Any
PRICES = ("roofline", "fitted")
"""What prices operators by name; a table of one's own prices single points too."""
USUAL = "fitted"
"""What prices them unless asked otherwise, where the profile counts kernels; coarser profiles keep their roofline."""
RATES = frozenset(
    {
        "compute_efficiency",
        "memory_efficiency",
        "link_efficiency",
        "launch_time",
        "tiles",
        "vector_units",
        "rate_by_dtype",
    }
)
"""Switches of a profile that say how fast its roofline is; fitted prices have their own."""
PEAK = Rates(compute=1.0, memory=1.0, link=1.0, launch_time=0.0, pass_time=0.0, tiles=False)
USUAL_UNITS, USUAL_CLOCK = 128, parse("1.8 GHz", "Hz")
"""Multiprocessors and boost clock of a device that states none: about what every measured one has."""
_WHOLE = 1.0


class Fitted:
    """Prices operators by the formulas of `kernels` with fitted parameters; a `Pricer`.

    `launch_scale` is the share of a kernel's stand-alone fixed cost that remains when an engine launches kernels back to
    back. `kernel` and `dtype` name one measured kernel and the format it is filed under. `fits` replaces the catalog's:
    anything with `choose`.
    """

    def __init__(
        self,
        system: System,
        layout: Layout,
        profile: Profile,
        backend: str = "vllm",
        *,
        kernel: str = "",
        dtype: str = "",
        version: str = LATEST,
        launch_scale: Number = _WHOLE,
        fits: Any = None,
    ):
        self.system, self.layout, self.profile = system, layout, profile
        self.backend, self.kernel, self.dtype, self.launch_scale = backend, kernel, dtype, launch_scale
        self.version = version
        self.fits = fits if fits is not None else fits_for(system)
        self.peak = Roofline(system, layout, profile, PEAK)
        self._found: dict[tuple[str, str, str], tuple[Chosen | None, Machine | None]] = {}

    def chosen(self, family: str, op: Op) -> tuple[Chosen | None, Machine | None]:
        """The parameters of an operator and the device as its kernel sees it; looked up once per family and format."""
        key = (family, op.format, op.dtype)
        if key not in self._found:
            self._found[key] = self._choose(family, op)
        return self._found[key]

    def _choose(self, family: str, op: Op) -> tuple[Chosen | None, Machine | None]:
        device, group = self.system.device, getattr(self.fits, "group", None)
        if group is not None and group.plain and not getattr(self.fits, "shelves", ()):
            return None, None
        runs_as = device.runs_as(op.dtype) if op.dtype != "vector" else "vector"
        dtypes = dtype_keys(family, op, runs_as, self.backend)
        if self.dtype:
            dtypes = (self.dtype, *(each for each in dtypes if each != self.dtype))
        chosen = self.fits.choose(family, dtypes, self.backend, self.kernel, self.version)
        if chosen is None or family in (*kernels.COLLECTIVES, *kernels.CUSTOM):
            return chosen, None
        rate = device.rate("bf16")
        if family in ("gemm", "batched_gemm", "experts", "scan") and op.dtype != "vector":
            rate = device.rate(op.dtype)
        if family in ("prefill_attention", "latent_prefill") and chosen.dtype == "fp8":
            rate = device.rate("fp8") if family == "prefill_attention" else rate
        units = USUAL_UNITS if device.compute_units is None else device.compute_units
        clock = USUAL_CLOCK if device.clock is None else device.clock
        return chosen, Machine(bandwidth=device.memory_bandwidth, rate=rate, units=units, clock=clock)

    def reach(self, dtype: str) -> tuple[float, float]:
        """Shares of the peak rate and of the peak bandwidth that large matrix products of a format reach."""
        chosen = self.chosen("gemm", Op(name="", kind="gemm", part="", format=dtype, dtype=dtype))[0]
        if chosen is not None:
            return chosen.parameters.compute, chosen.parameters.memory
        group = getattr(self.fits, "group", None)
        plain = group.plain if group is not None and group.plain else _UNMEASURED
        return plain["compute"], plain["memory"]

    def cost(self, op: Op) -> Cost:
        """Seconds of one execution by cause, with basis and band."""
        if op.collective:
            return self._exchange(op)
        peak = self.peak.cost(op)
        family = kernels.family(op)
        if not family:
            return Cost(peak.compute, peak.memory, 0.0, 0.0, self._rest(op))
        chosen, machine = self.chosen(family, op)
        if chosen is None or machine is None:
            return self._plain(op, peak)
        compute, memory, fixed = kernels.parts(family, op, machine, chosen.parameters)
        compute, memory = num.maximum(compute, peak.compute), num.maximum(memory, peak.memory)
        floor = num.maximum(peak.compute, peak.memory)
        return Cost(compute, memory, 0.0, fixed * self.launch_scale, chosen.basis, chosen.low, chosen.high, floor)

    def _rest(self, op: Op) -> str:
        """Basis of work without a formula: part of a fitted layer, or the roofline's."""
        group = getattr(self.fits, "group", None)
        if "fused" not in op.shape:
            return "roofline"
        return "fitted" if group is None or self.system.device.name in group.parents[:1] else "assumed"

    def _plain(self, op: Op, peak: Cost) -> Cost:
        """Shares of the peak and a launch, where nothing comparable was measured."""
        group = getattr(self.fits, "group", None)
        plain = group.plain if group is not None and group.plain else _UNMEASURED
        low, high = group.band.get(kernels.family(op), group.band["other"]) if group is not None else (0.7, 1.7)
        launch = parse(plain["launch"], "s", "launch") * self.launch_scale
        floor = num.maximum(peak.compute, peak.memory)
        return Cost(
            peak.compute / plain["compute"], peak.memory / plain["memory"], 0.0, launch, "assumed", low, high, floor
        )

    def exchange(self, op: Op, family: str) -> Cost:
        """A collective by one library: fitted inside the innermost link domain, wire formula plus a floor beyond it."""
        system, profile = self.system, self.profile
        floor = self.peak.cost(op).comm
        chosen = self.chosen(family, op)[0] if family else None
        if chosen is None:
            launch = num.where(op.peers > 1, profile.launch_time, 0.0)
            return Cost(0.0, 0.0, num.maximum(self._wire(op), floor), launch, "assumed", 0.6, 1.8, floor)
        peers, message = num.maximum(op.peers, 1.0), num.maximum(op.message_bytes, 1.0)
        time = kernels.exchange_seconds(family, message, peers, system.links[0].bandwidth, chosen.parameters)
        if self.launch_scale is not _WHOLE:
            time = time - (1.0 - self.launch_scale) * num.minimum(chosen.parameters.short, time)
        basis = chosen.basis
        if len(system.links) > 1:
            outside = units_touched(system, self.layout, op.axis, peers) > 1
            time = num.where(outside, self._wire(op) + chosen.parameters.short, time)
            basis = "assumed" if isinstance(outside, bool) and outside else basis
        time = num.where(op.peers > 1, num.maximum(time, floor), 0.0)
        return Cost(0.0, 0.0, time, 0.0, basis, chosen.low, chosen.high, floor)

    def _wire(self, op: Op) -> Number:
        """Seconds by the wire formulas at the profile's link efficiency."""
        profile = self.profile
        return exchange_time(
            op,
            self.system,
            self.layout,
            algorithm=profile.collective,
            efficiency=profile.link_efficiency,
            latency=profile.link_latency,
        )

    def _exchange(self, op: Op) -> Cost:
        """A collective as an engine runs it: an all-reduce takes the faster of the library's and the engine's own."""
        if not self.system.links or self.profile.collective == "none":
            return Cost(0.0, 0.0, self.peak.cost(op).comm, 0.0, "roofline")
        cost = self.exchange(op, kernels.family(op))
        if op.collective != "all_reduce" or self.chosen("custom_all_reduce", op)[0] is None:
            return cost
        own = self.exchange(op, "custom_all_reduce")
        group = getattr(self.fits, "group", None)
        joins = op.peers <= (group.own_exchange if group is not None else math.inf)
        time = num.where(joins, num.minimum(cost.comm, own.comm), cost.comm)
        faster = own if not num.is_array(time) and joins and own.comm <= cost.comm else cost
        return Cost(0.0, 0.0, time, 0.0, faster.basis, faster.low, faster.high, cost.floor)


def counts_kernels(profile: Profile) -> bool:
    """Whether a profile's operators are kernels, so that kernels' prices apply."""
    return profile.counting == "kernels" and profile.group == "op"


def pricer_of(prices: str, system: System, layout: Layout, profile: Profile, engine: str) -> Fitted | None:
    """What prices operators; None for the profile's roofline, which coarser profiles always keep."""
    return Fitted(system, layout, profile, engine) if prices == "fitted" and counts_kernels(profile) else None


_UNMEASURED = {"compute": 0.6, "memory": 0.75, "launch": "4 us"}
