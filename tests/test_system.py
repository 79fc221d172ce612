"""Machines as values: rates by format, levels of links, and changes to them (D-001..005, D-032..034, C-060, C-070)."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import catalog
from rooflab.system import DTYPES, Device, Link, System
from rooflab.units import InputError


def device(**changes) -> Device:
    plain = {"name": "chip", "memory": 80e9, "memory_bandwidth": 2e12, "flop_rate": {"bf16": 100e12}}
    return Device(**{**plain, **changes})


def link(size: int, **changes) -> Link:
    return Link(**{"name": f"level-of-{size}", "bandwidth": 100e9, "latency": 1e-6, "size": size, **changes})


def machine(*sizes: int, extensible: bool = False, **changes) -> System:
    links = [link(size) for size in sizes]
    if links and extensible:
        links[-1] = link(sizes[-1], extensible=True)
    return System(name="box", device=device(), links=tuple(links), devices=math.prod(sizes), **changes)


# ------------------------------------------------------------------------------------------- rates

# What runs as what is the documented rule: 16-bit formats stand in for each other, narrower operands are widened to
# the next format there are units for, fp4 without units is storage only as engines run it (W4A16), and so is int4; fp32
# falls to the vector units.
FULL = {"tf32": 1.0, "bf16": 2.0, "fp16": 2.0, "fp8": 4.0, "int8": 4.0, "fp4": 8.0}
RUNS = [
    (FULL, "bf16", "bf16"),
    (FULL, "nvfp4", "fp4"),
    (FULL, "mxfp4", "fp4"),
    (FULL, "fp8_block", "fp8"),
    (FULL, "int4", "bf16"),
    (FULL, "fp32", "vector"),
    ({"bf16": 2.0, "fp8": 4.0}, "nvfp4", "bf16"),
    ({"bf16": 2.0}, "nvfp4", "bf16"),
    ({"bf16": 2.0}, "fp16", "bf16"),
    ({"fp16": 2.0}, "bf16", "fp16"),
    ({"fp16": 2.0}, "fp8", "fp16"),
    ({"fp16": 2.0}, "int8", "fp16"),
    ({"bf16": 2.0, "fp16": 3.0}, "fp8", "bf16"),
    ({"bf16": 2.0}, "tf32", "vector"),
    ({"bf16": 2.0, "fp32": 1.0}, "fp32", "fp32"),
]


@pytest.mark.parametrize("rates, dtype, runs", RUNS)
def test_a_format_without_units_runs_as_the_next_wider_one_and_says_so(rates, dtype, runs):
    chip = device(flop_rate=rates, vector_rate=0.5)
    assert chip.runs_as(dtype) == runs
    assert chip.rate(dtype) == {**rates, "vector": 0.5}[runs]
    stands_in = (
        runs not in (dtype, "vector") and {"nvfp4": "fp4", "mxfp4": "fp4", "fp8_block": "fp8"}.get(dtype) != runs
    )
    if stands_in:
        assert dtype in chip.rate_note(dtype)
        assert runs in chip.rate_note(dtype)
    if runs == dtype or (dtype, runs) == ("fp32", "vector"):
        assert chip.rate_note(dtype) is None


def test_a_rate_that_cannot_be_had_is_an_error_not_a_guess():
    chip = device(flop_rate={"int8": 1.0})
    with pytest.raises(InputError, match=r"flop_rate: chip has no rate for 'bf16' \(it has int8\)"):
        chip.rate("bf16")
    with pytest.raises(InputError, match="no rate for 'fp32'"):
        chip.rate("fp32")
    with pytest.raises(InputError, match="no rate for 'fp8'"):
        chip.rate("fp8")  # integers do not stand in for floats
    with pytest.raises(InputError, match="no rate for 'fp64'"):
        device().rate("fp64")
    with pytest.raises(InputError, match="'fp6' is not a format"):
        device().rate("fp6")


@given(st.sets(st.sampled_from(DTYPES), min_size=1), st.sampled_from([*DTYPES, "nvfp4", "mxfp4", "int4", "fp8_e4m3"]))
def test_a_rate_is_one_of_the_devices_own(present, dtype):
    """Whatever falls back, the figure comes from the datasheet: nothing is scaled or invented."""
    chip = device(flop_rate={name: float(i + 1) for i, name in enumerate(sorted(present))}, vector_rate=0.5)
    try:
        rate = chip.rate(dtype)
    except InputError:
        assert not {"bf16", "fp16"} & present or dtype == "fp64"
    else:
        assert rate in {*chip.flop_rate.values(), 0.5}
        assert (chip.rate_note(dtype) is None) or chip.name in chip.rate_note(dtype)


def test_rates_may_be_arrays():
    chip = device(flop_rate={"bf16": np.array([1.0, 2.0])}, memory=np.array([1.0, 2.0]))
    assert (chip.rate("fp8") == np.array([1.0, 2.0])).all()


# ------------------------------------------------------------------------------------------- levels


def test_D001_levels_multiply_from_the_inside_out():
    assert machine(8, 16, 4).level_sizes == (8, 128, 512)
    assert machine(8, 16, 4).capacity == 512
    assert machine().level_sizes == ()
    assert machine().capacity == 1


def test_D002_D005_the_pe_cube_sip_machine_has_the_defaults_of_part_d():
    """8 PEs a cube, 16 cubes a SIP; eight PEs are one stack of 48 GB and 2,048 GB/s (D-002)."""
    sip = catalog.system("sip")
    assert sip.level_sizes[:2] == (8, 128)
    assert 8 * sip.device.memory == 48e9
    assert 8 * sip.device.memory_bandwidth == 2048e9
    assert sip.device.rate("bf16") == sip.device.rate("fp8") == sip.device.rate("fp32") == 8e12
    assert [each.bandwidth for each in sip.links] == [512e9, 128e9, 50e9]
    assert [each.latency for each in sip.links] == [20e-9, 100e-9, 1000e-9]
    assert [each.topology for each in sip.links][2] == "ring"


def test_C070_the_default_pe_has_intensity_31_25():
    pe = catalog.device("sip-pe")
    assert pe.rate("bf16") / pe.memory_bandwidth == 31.25


KNOBS = {  # D-032, D-033, D-034: the values the controls offer
    "memory": ([3, 6, 12, 24, 48, 96], "GB", 1e9),
    "memory_bandwidth": ([128, 256, 512, 1024, 2048], "GB/s", 1e9),
    "flop_rate": ([2, 4, 8, 16, 32, 64], "TFLOP/s", 1e12),
    "links.intra-cube.bandwidth": ([128, 256, 512, 1024, 2048, 4096], "GB/s", 1e9),
    "links.inter-cube.bandwidth": ([32, 64, 128, 256, 512, 900], "GB/s", 1e9),
    "links.inter-sip.bandwidth": ([12.5, 25, 50, 100, 200, 400], "GB/s", 1e9),
    "links.0.latency": ([5, 10, 20, 50, 100], "ns", 1e-9),
    "links.1.latency": ([50, 100, 200, 500, 1000], "ns", 1e-9),
    "links.2.latency": ([500, 1000, 2000, 5000, 10000], "ns", 1e-9),
}


def value_of(system: System, key: str):
    head, _, rest = key.partition(".")
    if head != "links":
        return system.device.rate("bf16") if key == "flop_rate" else getattr(system.device, key)
    which, field = rest.split(".")
    found = [each for i, each in enumerate(system.links) if which in (str(i), each.name)]
    return getattr(found[0], field)


@pytest.mark.parametrize("key", KNOBS)
def test_D032_D033_D034_every_offered_value_can_be_set(key):
    choices, unit, factor = KNOBS[key]
    sip = catalog.system("sip")
    for choice in choices:
        changed = sip.replace({key: f"{choice} {unit}"})
        assert value_of(changed, key) == pytest.approx(choice * factor, rel=1e-12)
        assert changed.level_sizes == sip.level_sizes


# ------------------------------------------------------------------------------------------- changes


def test_devices_can_be_fewer_and_an_extensible_level_grows():
    assert machine(8).with_devices(2).devices == 2
    with pytest.raises(InputError, match="joins at most 8, not 9"):
        machine(8).with_devices(9)
    grown = machine(8, 2, extensible=True).with_devices(33)
    assert (grown.devices, grown.level_sizes) == (33, (8, 40))  # 33 devices need ceil(33 / 8) = 5 nodes
    with pytest.raises(InputError, match="joins at most 1, not 2"):
        machine().with_devices(2)
    for bad in (0, -1, 1.5, "many", float("nan")):
        with pytest.raises(InputError, match=r"^devices: "):
            machine(8).with_devices(bad)


def test_changes_are_absolute_multiples_or_arrays():
    box = machine(8)
    assert box.replace({"memory_bandwidth": "4 TB/s"}).device.memory_bandwidth == 4e12
    assert box.replace({"memory_bandwidth": "1.5x"}).device.memory_bandwidth == 3e12
    assert box.replace({"memory_bandwidth": 3e12}).device.memory_bandwidth == 3e12
    array = np.array([1e12, 2e12])
    assert box.replace({"memory_bandwidth": array}).device.memory_bandwidth is array
    assert box.replace({"flop_rate.fp8": "200 TFLOP/s"}).device.flop_rate == {"bf16": 100e12, "fp8": 200e12}
    assert box.replace({"links.0.size": 4}).devices == 4
    assert box.replace({"price": "3.6 USD/h"}).device_price == pytest.approx(0.001)
    assert box.replace({"devices": 2, "memory": "2x"}).device.memory == 160e9
    assert box == machine(8)  # the original stays as it was


def test_one_compute_knob_keeps_the_ratio_between_formats():
    """C-048: a compute multiplier scales the chip, so fp8 stays twice bf16."""
    box = machine(8).replace({"flop_rate.fp8": "200 TFLOP/s"})
    assert box.replace({"flop_rate": "2x"}).device.flop_rate == {"bf16": 200e12, "fp8": 400e12}
    assert box.replace({"flop_rate": "50 TFLOP/s"}).device.flop_rate == {"bf16": 50e12, "fp8": 100e12}


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"memory_bandwith": "4 TB/s"}, "did you mean 'memory_bandwidth'"),
        ({"memory": "4 TB/s"}, "memory: '4 TB/s' is in byte/s, not byte"),
        ({"memory": 0}, "memory: 0 must be above zero"),
        ({"memory": "-1x"}, "memory: '-1' must be zero or more|above zero"),
        ({"memory_bandwidth": float("nan")}, "not a finite number"),
        ({"vector_rate": "2x"}, "no figure to multiply"),
        ({"flop_rate.bf17": "1 TFLOP/s"}, "no such rate"),
        ({"links.3.bandwidth": "1 GB/s"}, "no such link level in box"),
        ({"links.0.colour": "1 GB/s"}, "not 'colour'"),
        ({"links.0.bandwidth": 0}, "above zero"),
        ({"links": "1 GB/s"}, "no such field"),
        ({"name": "x"}, "no such field"),
        ({"": "x"}, "no such field"),
        ({"devices": 9}, "joins at most 8, not 9"),
    ],
)
def test_F02_a_change_that_makes_no_sense_is_refused(changes, what):
    with pytest.raises(InputError, match=what) as caught:
        machine(8).replace(changes)
    assert "\n" not in str(caught.value)


def test_values_are_frozen_and_survive_json():
    box = catalog.system("dgx-h100")
    with pytest.raises(AttributeError):
        box.device.memory = 1.0
    assert msgspec.json.decode(msgspec.json.encode(box), type=System) == box
    assert catalog.system(msgspec.to_builtins(box)) == box


def test_the_schema_carries_units():
    fields = msgspec.json.schema(System)["$defs"]
    assert fields["Device"]["properties"]["memory_bandwidth"]["x-unit"] == "byte/s"
    assert fields["Link"]["properties"]["latency"]["x-unit"] == "s"
