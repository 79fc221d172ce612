"""The catalog: every file loads, agrees with the gathered datasheet figures, and is found by the names people type.

Expected values are vendors' published figures, from data/specs/hardware_specs.csv or as cited at the test.
"""

import csv
import math
import os
import tomllib
from pathlib import Path

import pytest

from rooflab import catalog, load
from rooflab.units import InputError

ROOT = Path(__file__).resolve().parent.parent
TABLE = (ROOT / "data/specs/hardware_specs.csv").read_text(encoding="utf-8")
ROWS = {row["name"]: row for row in csv.DictReader(TABLE.splitlines())}

STEMS = {
    "A100-SXM4-40GB": "a100-sxm-40gb", "A100-SXM4-80GB": "a100-sxm-80gb", "A100-PCIe-80GB": "a100-pcie-80gb",
    "H100-SXM5-80GB": "h100-sxm", "H100-PCIe-80GB": "h100-pcie", "H100-NVL-94GB": "h100-nvl",
    "H200-SXM-141GB": "h200-sxm", "H200-NVL-141GB": "h200-nvl", "GH200-96GB": "gh200", "H20-96GB": "h20",
    "H800-SXM-80GB": "h800-sxm", "B200-SXM-180GB": "b200-sxm", "B300-SXM-288GB": "b300-sxm",
    "GB200-NVL72 (per GPU)": "gb200", "GB300-NVL72 (per GPU)": "gb300", "L4-24GB": "l4", "L40S-48GB": "l40s",
    "A10-24GB": "a10", "A10G-24GB (AWS)": "a10g", "RTX 3090": "rtx-3090", "RTX 4090": "rtx-4090",
    "RTX 5090": "rtx-5090", "RTX PRO 6000 Blackwell Server": "rtx-pro-6000", "A40-48GB": "a40", "MI250X": "mi250x",
    "MI300X": "mi300x", "MI325X": "mi325x", "MI355X": "mi355x", "Gaudi2": "gaudi2", "Gaudi3": "gaudi3",
    "Trainium2": "trainium2", "Intel Arc Pro B60": "arc-pro-b60", "T4-16GB": "t4", "V100-SXM2-32GB": "v100",
    "TPU v5e": "tpu-v5e", "TPU v5p": "tpu-v5p", "TPU v6e (Trillium)": "tpu-v6e", "TPU7x (Ironwood)": "tpu7x",
    "GroqChip1 (LPU v1)": "groq-lpu", "Cerebras WSE-3": "cerebras-wse3", "Apple M2 Ultra (76-core GPU)": "m2-ultra",
    "Apple M3 Ultra (80-core GPU)": "m3-ultra", "Apple M4 Max (40-core GPU)": "m4-max",
}  # fmt: skip

MODULE = "software sees each of a module's two dies as a device: half the module's figure"
BINARY = "memory stacks are binary and the driver reports GiB; see the file's notes and refs.toml"
MATRIX = "the table's fp32 column holds the matrix engines' rate; it is in flop_rate, not in vector_rate"
DERATED = "the rate of one bridge, not the line rate of the PCIe port the table falls back to"
COHERENT = "its host is joined by a coherent link, not by the PCIe port of the table"
UNSAID = "the vendor says nothing of it; the table assumes a PCIe port"

# (device, quantity) -> why the catalog departs from the table.
DEPARTURES = {
    ("mi250x", "memory"): MODULE, ("mi250x", "memory_bandwidth"): MODULE, ("mi250x", "bf16"): MODULE,
    ("mi250x", "fp16"): MODULE, ("mi250x", "int8"): MODULE, ("mi250x", "vector"): MODULE,
    ("mi250x", "on_chip"): MODULE, ("mi250x", "power"): MODULE, ("mi250x", "link"): MODULE,
    ("a100-sxm-40gb", "memory"): BINARY, ("h100-nvl", "memory"): BINARY, ("h200-nvl", "memory"): BINARY,
    ("gh200", "memory"): BINARY,
    ("h800-sxm", "memory"): BINARY, ("h20", "memory"): BINARY, ("a10", "memory"): BINARY, ("a10g", "memory"): BINARY,
    ("a40", "memory"): BINARY, ("rtx-3090", "memory"): BINARY, ("rtx-5090", "memory"): BINARY,
    ("v100", "memory"): BINARY, ("mi300x", "memory"): BINARY, ("mi325x", "memory"): BINARY,
    ("mi355x", "memory"): BINARY, ("trainium2", "memory"): BINARY, ("tpu-v5p", "memory"): BINARY,
    ("tpu-v6e", "memory"): BINARY,
    ("h20", "power"): "nvidia-smi shows a cap of 500 W; the table's 400 W is from memory",
    ("a10g", "power"): "nvidia-smi shows a cap of 300 W; the table's 150 W is the A10's",
    ("a40", "link"): DERATED,
    ("gaudi3", "bf16"): "Intel presented 1,835 TFLOP/s; 1,677 is the rate at a lower clock",
    ("gaudi3", "fp8"): "Intel presented 1,835 TFLOP/s; 1,677 is the rate at a lower clock",
    ("gaudi3", "vector"): MATRIX, ("trainium2", "vector"): MATRIX,
    ("cerebras-wse3", "fp16"): "the table's 125 PFLOP/s counts sparsity worth 8 times; dense is 125 / 8",
    ("gh200", "host_bandwidth"): COHERENT, ("gb200", "host_bandwidth"): COHERENT, ("gb300", "host_bandwidth"): COHERENT,
    ("tpu-v5e", "host_bandwidth"): UNSAID, ("tpu-v5p", "host_bandwidth"): UNSAID, ("tpu-v6e", "host_bandwidth"): UNSAID,
    ("tpu7x", "host_bandwidth"): UNSAID, ("trainium2", "host_bandwidth"): UNSAID, ("groq-lpu", "host_bandwidth"): UNSAID,
    ("mi250x", "host_bandwidth"): UNSAID,
    ("gh200", "link"): "one GPU a domain: there is no peer to link to",
    ("gaudi2", "on_chip"): "48 MiB, as the table's caveat says",
    ("trainium2", "on_chip"): "8 cores of 28 MiB",
}  # fmt: skip

RATES = {"tf32": "tf32_tflops", "bf16": "bf16_tflops", "fp16": "fp16_tflops", "fp8": "fp8_tflops", "int8": "int8_tops",
         "fp4": "fp4_tflops"}  # fmt: skip


def table_figures(row: dict[str, str]) -> dict[str, float]:
    """The row in SI units, only the cells that are filled."""
    cells = {name: (row[column], 1e12) for name, column in RATES.items()}
    cells |= {
        "memory": (row["mem_usable_bytes"], 1.0) if row["mem_usable_bytes"] else (row["mem_GB"], 1e9),
        "memory_bandwidth": (row["mem_bw_GBps"], 1e9),
        "vector": (row["fp32_vec_tflops"], 1e12),
        "host_bandwidth": (row["pcie_GBps_per_dir"], 1e9),
        "on_chip": (row["L2_or_LLC_MB"], 1e6),
        "link": (row["scaleup_GBps_per_dir"], 1e9),
        "power": (row["tdp_W"], 1.0),
        "price": (row["usd_h_observed"] or row["usd_h_rental_3yr"], 1 / 3600),
    }
    return {name: float(cell) * factor for name, (cell, factor) in cells.items() if cell}


def catalog_figures(stem: str) -> dict[str, float | None]:
    device, scale_up = catalog.part(stem)
    plain = {
        name: getattr(device, name)
        for name in ("memory", "memory_bandwidth", "host_bandwidth", "on_chip", "power", "price")
    }
    rates = {name: device.rate(name) for name in RATES if name in device.flop_rate or name in ("bf16", "fp8")}
    return {**plain, **rates, "vector": device.vector_rate, "link": scale_up.bandwidth if scale_up else None}


def test_every_row_of_the_table_is_in_the_catalog():
    assert set(STEMS) == set(ROWS)
    assert len(ROWS) == 43
    assert set(catalog.device_names()) == {*STEMS.values(), "sip-pe"}


@pytest.mark.parametrize("name", ROWS)
def test_the_catalog_agrees_with_the_table_or_says_why_not(name):
    """Every filled cell: equal to 0.1 %, or listed in DEPARTURES and then really different."""
    stem = STEMS[name]
    ours = catalog_figures(stem)
    for quantity, theirs in table_figures(ROWS[name]).items():
        mine = ours.get(quantity)
        same = mine is not None and math.isclose(mine, theirs, rel_tol=1e-3)
        assert same != ((stem, quantity) in DEPARTURES), (stem, quantity, mine, theirs)


@pytest.mark.parametrize("stem", STEMS.values())
def test_binary_capacities_stay_within_the_printed_size(stem):
    """A printed GB is between 1e9 and 2**30 bytes; a driver may keep up to 4 % for itself."""
    row = next(row for name, row in ROWS.items() if STEMS[name] == stem)
    printed = float(row["mem_GB"]) / (2 if stem == "mi250x" else 1)
    assert 0.99 * printed * 1e9 <= catalog.device(stem).memory <= printed * 2**30


def test_departures_name_real_devices():
    assert {stem for stem, _ in DEPARTURES} <= set(STEMS.values())


# ------------------------------------------------------------------------------------------- published facts


@pytest.mark.parametrize("name, bf16, fp8", [("h100-sxm", 989.5e12, 1979e12), ("h100-pcie", 756.5e12, 1513e12)])
def test_rates_are_dense(name, bf16, fp8):
    """Datasheets print 1,979 and 1,513 TFLOP/s for bf16 with 2:4 sparsity; dense is half."""
    device = catalog.device(name)
    assert device.rate("bf16") == pytest.approx(bf16, rel=1e-3)
    assert device.rate("fp8") == pytest.approx(fp8, rel=1e-3)


def test_links_are_one_way():
    """NVLink 4 carries 450 GB/s one way (vendors print 900), PCIe 5 x16 64: a ratio of 7, not 14."""
    one_way = {name: catalog.part(name).scale_up.bandwidth for name in ("h100-sxm", "h100-pcie", "h800-sxm", "h20")}
    assert one_way == {"h100-sxm": 450e9, "h100-pcie": 64e9, "h800-sxm": 200e9, "h20": 450e9}
    assert 7 <= one_way["h100-sxm"] / one_way["h100-pcie"] < 7.1


def test_A_067_t4():
    """65 TFLOP/s fp16, 320 GB/s, 16 GB: ridge 203 FLOP/byte; bf16 runs in fp16."""
    t4 = catalog.device("t4")
    assert (t4.rate("fp16"), t4.memory_bandwidth, t4.memory) == (65e12, 320e9, 16e9)
    assert t4.rate("fp16") / t4.memory_bandwidth == pytest.approx(203, abs=0.5)
    assert "fp16" in t4.rate_note("bf16")


def test_C060_the_h100_ridge_is_295():
    h100 = catalog.device("h100")
    assert abs(h100.rate("bf16") / h100.memory_bandwidth - 295) < 1


def test_80_gb_cards_hold_80_gib():
    for name in ("a100", "h100", "h100-pcie", "h800"):
        assert catalog.device(name).memory == 80 * 2**30


def test_A070_A074_the_lpu_keeps_everything_in_230_mb_on_chip():
    """8.03e9 parameters need 70 chips in bf16 and 35 in int8; 70.6e9 in bf16 need 614: at 230 MB a chip."""
    chip = catalog.device("groq-lpu")
    assert chip.kind == "lpu"
    assert chip.memory == chip.on_chip == 230e6
    assert math.ceil(8.03e9 * 2 / chip.memory) == 70
    assert math.ceil(8.03e9 / chip.memory) == 35
    assert math.ceil(70.6e9 * 2 / chip.memory) == 614


def test_B062_link_presets_are_effective_one_way_rates():
    rates = {
        name: load.link({"link": name, "size": 2}, name, catalog.link_table).bandwidth for name in catalog.link_names()
    }
    wanted = {"nvlink4": 450e9, "nvlink3": 300e9, "pcie5-effective": 50e9, "pcie4-effective": 25e9}
    assert wanted.items() <= rates.items()


def test_E21_one_preset_for_400_gigabit_is_the_sip_link_too():
    preset = catalog.link_table("network-400g")
    assert preset["bandwidth"] == "400 Gb/s"
    for name in ("sip", "dgx-h100", "gb200-nvl72"):
        assert catalog.system(name).links[-1].bandwidth == 50e9


@pytest.mark.parametrize("stem", [s for s in STEMS.values() if catalog.device(s).compute_units])
def test_rates_follow_from_units_and_clock(stem):
    """Peak = compute units × boost clock × a power of two FLOP per clock, to a quarter: a wrong count stands out.

    Tensor peaks are quoted at a clock up to 12 % below the highest boost.
    """
    device = catalog.device(stem)
    per_clock = device.rate("bf16") / (device.compute_units * device.clock)
    nearest = 2 ** round(math.log2(per_clock))
    assert 0.8 < per_clock / nearest < 1.25, per_clock


# ------------------------------------------------------------------------------------------- the files themselves


def test_every_device_and_system_loads_and_says_where_it_is_from():
    refs = catalog.refs()
    for name in catalog.device_names():
        device, scale_up = catalog.part(name)
        assert device.sources, name
        assert set(device.sources) <= set(refs), name
        assert device.price is None or device.price_basis, name
        assert scale_up is None or set(scale_up.sources) <= set(refs), name
    for name in (*catalog.system_names(), *catalog.device_names()):
        system = catalog.system(name)
        assert system.sources, name
        assert set(system.sources) <= set(refs), name
        assert system.devices == system.capacity, name
        for link in system.links:
            assert link.sources, (name, link.name)
            assert set(link.sources) <= set(refs), (name, link.name)


def test_latencies_are_marked_as_assumed():
    """No vendor publishes latency per message step, so every link of the catalog says that it is assumed."""
    for name in catalog.link_names():
        assert any("latency" in note and "assumed" in note for note in catalog.link_table(name)["notes"]), name


def test_systems_take_their_devices_own_link():
    """The innermost level of a multi-device system is what the device brings, unless the file says otherwise."""
    for name in set(catalog.system_names()) - {"rtx-3090-x2", "groq-rack", "sip"}:
        system = catalog.system(name)
        scale_up = catalog.part(system.device.name).scale_up
        assert system.links[0].bandwidth == scale_up.bandwidth, name


def test_outer_levels_are_never_faster_than_inner_ones():
    for name in catalog.system_names():
        rates = [link.bandwidth for link in catalog.system(name).links]
        assert rates == sorted(rates, reverse=True), name


def test_the_alias_file_is_up_to_date():
    """Regenerate it with `python -m rooflab.catalog`."""
    assert catalog._aliases() == catalog.alias_table()


def test_no_name_means_two_things():
    table = catalog.alias_table()  # which itself refuses an alias claimed twice on one shelf
    devices, systems = set(catalog.device_names()), set(catalog.system_names())
    names = [*devices, *systems, *table["devices"], *table["systems"]]
    assert len(names) == len(set(names))
    assert all(name == "-".join(name.lower().split()) for name in names)


# ------------------------------------------------------------------------------------------- looking up


@pytest.mark.parametrize(
    "typed, stem",
    [
        ("H100", "h100-sxm"), ("h100_sxm", "h100-sxm"), (" H100 SXM ", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"), ("a100", "a100-sxm-80gb"),
        ("a100-sxm", "a100-sxm-80gb"), ("h200", "h200-sxm"), ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("Tesla T4", "t4"),
        ("AMD Instinct MI300X", "mi300x"), ("trillium", "tpu-v6e"), ("NVIDIA L40S", "l40s"), ("NVIDIA A10G", "a10g"),
    ],
)  # fmt: skip
def test_names_people_type(typed, stem):
    assert catalog.device(typed).name == stem
    assert catalog.system(typed).device.name == stem


def test_a_device_is_a_system_on_its_own_link():
    system = catalog.system("h100-sxm")
    assert (system.devices, system.level_sizes) == (8, (8,))
    assert catalog.system("gb200").level_sizes == (72,)
    assert catalog.system("m2-ultra").links == ()
    assert catalog.system("rtx-4090").devices == 1
    assert catalog.system("2x rtx-4090").devices == 2
    assert catalog.system("4x h100").devices == 4
    assert catalog.system("dgx-h100").level_sizes == (8, 256)
    with pytest.raises(InputError, match="joins at most 8, not 16; take 'dgx-h100'"):
        catalog.system("16x h100")


def test_a_count_goes_before_a_file_too_and_only_once(tmp_path):
    """A machine by path, counted like one of the catalog; two counts would leave open how many are meant."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'device = "h100-sxm"\n[[links]]\nname = "bridge"\nsize = 4\nbandwidth = "50 GB/s"\nlatency = "5 us"\n'
    )
    assert catalog.system(str(file)).devices == 4
    assert catalog.system(f"2x {file}").devices == 2
    with pytest.raises(InputError, match="does not exist"):
        catalog.system(f"2x {tmp_path / 'other.toml'}")
    with pytest.raises(InputError, match="two counts"):
        catalog.system("8x8x h100-sxm")


@pytest.mark.parametrize(
    "name, what",
    [
        ("h1000", "did you mean 'h100'"),
        ("dgx-h1000", "did you mean 'dgx-h100'"),
        ("", "is not in the catalog"),
        ("nothing like it", "known systems"),
        ("h100\n", None),  # white space is forgiven
        ("\0", "is not in the catalog"),
        ("x" * 10_000, "is not in the catalog"),
        (5, "is not a name"),
        (None, "is not a name"),
        ([], "is not a name"),
        ({}, "device is missing"),
        ("0x h100", "must be between"),
        ("h100/../../secret", "does not exist"),
    ],
)
def test_F02_unknown_names_are_answered_with_near_ones(name, what):
    if what is None:
        assert catalog.system(name).device.name == "h100-sxm"
        return
    with pytest.raises(InputError, match=what) as caught:
        catalog.system(name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_system_is_not_a_device():
    with pytest.raises(InputError, match="is a system, not a device; its device is 'h100-sxm'"):
        catalog.device("dgx-h100")


def test_one_lookup_reads_only_the_files_it_needs(monkeypatch):
    """A device and the link it names are two files; a system adds its own."""
    for cached in (catalog._catalog_part, catalog._catalog_link, catalog._catalog_system):
        cached.cache_clear()
    read = []
    monkeypatch.setattr(load, "read_toml", lambda path, real=load.read_toml: (read.append(path.name), real(path))[1])
    catalog.system("h100")
    assert sorted(read) == ["h100-sxm.toml", "nvlink4.toml"]
    catalog.system("dgx-h100")
    assert sorted(read) == ["dgx-h100.toml", "h100-sxm.toml", "network-400g.toml", "nvlink4.toml"]
    catalog.system("dgx-h100")
    assert len(read) == 4


def test_models_are_listed_and_found_by_id_short_id_and_alias():
    """Every file of the shelf is in its index; an id works with and without its owner, in any case."""
    shelf = tomllib.loads((catalog.FOLDER / "models" / "index.toml").read_text(encoding="utf-8"))
    assert set(catalog.model_names()) == set(shelf)
    for stem, entry in shelf.items():
        for name in (stem, stem.upper(), entry["id"], *entry.get("aliases", ())):
            assert catalog.model_path(name).name == f"{stem}.json", name
    assert catalog.model_path("Qwen3-8B") == catalog.model_path("Qwen/Qwen3-8B")
    with pytest.raises(InputError, match="is not in the catalog"):
        catalog.model_path("no-such-model")
    with pytest.raises(InputError, match="did you mean 'qwen3-8b'"):
        catalog.model_path("qwen3-8bb")


# ------------------------------------------------------------------------------------------- users' own files

DEVICE = """
memory = "48 GB"
memory_bandwidth = "1 TB/s"
[flop_rate]
bf16 = "100 TFLOP/s"
"""


def test_a_device_file_of_your_own(tmp_path):
    path = tmp_path / "mybox.toml"
    path.write_text(DEVICE + '[scale_up]\nlink = "pcie4-x16"\nsize = 2\n')
    system = catalog.system(str(path))
    assert (system.name, system.devices, system.device.memory) == ("mybox", 2, 48e9)
    assert system.links[0].bandwidth == 32e9
    assert catalog.device(str(path)) == system.device


def test_a_system_file_of_your_own_with_a_named_or_an_inline_device(tmp_path):
    path = tmp_path / "mysystem.toml"
    level = '[[links]]\nname = "wire"\nbandwidth = "10 Gb/s"\nlatency = "20 us"\nsize = 3\n'
    path.write_text('device = "rtx-3090"\n' + level)
    assert catalog.system(str(path)).devices == 3
    path.write_text("[device]\n" + DEVICE.replace("[flop_rate]", "[device.flop_rate]") + level)
    system = catalog.system(str(path))
    assert (system.device.memory_bandwidth, system.links[0].bandwidth, system.capacity) == (1e12, 1.25e9, 3)


BAD_FILES = {
    "not TOML": ("{{{", "cannot be read as TOML"),
    "empty": ("", "memory is missing; write for example memory = '80 GiB'"),
    "negative": (DEVICE.replace("48 GB", "-48 GB"), "memory: '-48 GB' must be above zero"),
    "zero": (DEVICE.replace("48 GB", "0 GB"), "memory: '0 GB' must be above zero"),
    "no unit": (DEVICE.replace('"48 GB"', "48"), "memory: 48 has no unit"),
    "not a number": (DEVICE.replace('"48 GB"', "nan"), "memory: nan has no unit"),
    "wrong dimension": (DEVICE.replace("48 GB", "48 W"), "memory: '48 W' is in W, not byte"),
    "wrong type": (DEVICE.replace('"48 GB"', '["48 GB"]'), "memory: "),
    "unknown field": ('memry = "1 GB"\n' + DEVICE, "unknown field 'memry'; did you mean 'memory'"),
    "unknown format": (DEVICE + 'bf17 = "1 TFLOP/s"\n', "flop_rate: 'bf17' is not known; use fp64"),
    "no rates": (DEVICE.partition("[")[0] + "[flop_rate]\n", "flop_rate is empty"),
    "unknown kind": ('kind = "toaster"\n' + DEVICE, "kind: 'toaster' is not known; use gpu"),
    "unknown link": (DEVICE + '[scale_up]\nlink = "nvlink9"\nsize = 8\n', "did you mean 'nvlink"),
    "link without a size": (DEVICE + '[scale_up]\nlink = "nvlink4"\n', "scale_up: size is missing"),
    "link of nobody": (DEVICE + '[scale_up]\nlink = "nvlink4"\nsize = 0\n', "scale_up: size: 0 is not right"),
    "link that is a number": ("scale_up = 3\n" + DEVICE, "scale_up: 3 is not a table"),
    "unknown device": ('device = "h1000"\n', "did you mean 'h100'"),
    "device that is a number": ("device = 5\n", "device: 5 is not a device"),
    "links without a device": ('[[links]]\nlink = "nvlink4"\nsize = 8\n', "device is missing"),
    "links that are a number": ('device = "h100"\nlinks = 3\n', "links must be a list"),
    "too many devices": ('device = "h100"\ndevices = 99\n', "joins at most 8, not 99"),
    "too big": ("#" * 100_000, "is larger than 64.0 kB"),
    "a key of a thousand parts": ("a" + ".a" * 1000 + " = 1", "more than 200 dots"),
    "nested too deeply": ("x = " + "[" * 20_000 + "]" * 20_000, "cannot be read as TOML"),
    "a number of 6,000 digits": ("x = " + "9" * 6000, "cannot be read as TOML"),
}


@pytest.mark.parametrize("text, what", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_F02_a_bad_file_is_one_line_that_says_what_to_do(tmp_path, text, what):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        catalog.system(str(path))
    message = str(caught.value)
    assert what in message
    assert "bad.toml" in message
    assert "\n" not in message
    assert len(message) < 500


def test_F02_what_is_not_a_text_file_is_refused(tmp_path):
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    for name, what in [
        ("binary.toml", "cannot be read as TOML"),
        ("folder.toml", "is a folder"),
        ("loop.toml", "cannot be read"),
        ("missing.toml", "does not exist"),
        ("null\0.toml", "cannot be read"),
        ("n" * 5000 + ".toml", "cannot be read"),
    ]:
        with pytest.raises(InputError, match=what) as caught:
            catalog.system(str(tmp_path / name))
        assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_F02_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match="is not a regular file"):
        catalog.system(str(tmp_path / "pipe.toml"))


def test_plain_data_may_hold_si_numbers_or_text():
    plain = {"device": {"memory": 48e9, "memory_bandwidth": "1 TB/s", "flop_rate": {"bf16": 1e14}}}
    assert catalog.system(plain).device.memory_bandwidth == 1e12
    with pytest.raises(InputError, match=r"device: flop_rate.bf16: -1 must be above zero"):
        catalog.system({"device": {**plain["device"], "flop_rate": {"bf16": -1}}})
