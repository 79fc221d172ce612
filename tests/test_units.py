"""Units: every quantity is read with its dimension and written for people (D-005, D-104, E-21, F-02, F-06)."""

import math
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import units
from rooflab.units import InputError, dimension_of, format, number, parse, parse_count

# What the text means is the definition of its unit: SI prefixes, IEC prefixes, 8 bits a byte, 3,600 s an hour.
READ = [
    ("3.35 TB/s", "byte/s", 3.35e12),
    ("80 GiB", "byte", 80 * 2**30),
    ("80 GB", "byte", 80e9),
    ("80GB", "byte", 80e9),
    ("256 KiB", "byte", 262144),
    ("85,899,345,920 B", "byte", 85899345920),
    ("400 Gb/s", "byte/s", 50e9),
    ("400 Gbps", "byte/s", 50e9),
    ("50 GB/s", "byte/s", 50e9),
    ("64 GBps", "byte/s", 64e9),
    ("1 GiB/s", "byte/s", 2**30),
    ("989 TFLOP/s", "FLOP/s", 989e12),
    ("989 TFLOPS", "FLOP/s", 989e12),
    ("989 TFLOPs", "FLOP/s", 989e12),
    ("1979 TOPS", "FLOP/s", 1979e12),
    ("1,979 TOP/s", "FLOP/s", 1979e12),
    ("2 POP/s", "FLOP/s", 2e15),
    ("16 GFLOP", "FLOP", 16e9),
    ("16 GFLOPs", "FLOP", 16e9),
    ("700 W", "W", 700.0),
    ("23 kW", "W", 23e3),
    ("1 kWh", "J", 3.6e6),
    ("3.6 USD/h", "USD/s", 0.001),
    ("$3.6/h", "USD/s", 0.001),
    ("$ 3.6 / hour", "USD/s", 0.001),
    ("0.36 USD/kWh", "USD/J", 1e-7),
    ("0.6 USD/Mtoken", "USD/token", 0.6e-6),
    ("3 us", "s", 3e-6),
    ("3 µs", "s", 3e-6),  # the micro sign
    ("3 μs", "s", 3e-6),  # the Greek letter
    ("20 ns", "s", 20e-9),
    ("1.5 ms", "s", 1.5e-3),
    ("2 min", "s", 120.0),
    ("1.98 GHz", "Hz", 1.98e9),
    ("128k", "token", 128_000),
    ("128K", "token", 128_000),
    ("128Ki", "token", 131_072),
    ("1M tokens", "token", 1e6),
    ("2048", "token", 2048),
    ("10 request/s", "request/s", 10.0),
    ("295 FLOP/B", "FLOP/byte", 295.0),
    ("128 KiB/token", "byte/token", 131072),
    ("70 %", "1", 0.7),
    ("0.7", "1", 0.7),
    ("1e3 GB", "byte", 1e12),
    ("  80   GiB ", "byte", 80 * 2**30),
    (3.35e12, "byte/s", 3.35e12),
    (7, "s", 7.0),
    ("0 us", "s", 0.0),
]


@pytest.mark.parametrize("text, dimension, value", READ)
def test_E21_text_means_what_its_unit_says(text, dimension, value):
    assert parse(text, dimension) == pytest.approx(value, rel=1e-15, abs=0)


# (input, dimension, what the message must contain besides the field and an example)
REFUSED = [
    ("", "byte", "empty"),
    ("   ", "byte", "empty"),
    ("80", "byte", "no unit"),
    ("GB", "byte", "not a number"),
    ("80 GB/s", "byte", "byte/s, not byte"),
    ("80 GB", "byte/s", "byte, not byte/s"),
    ("989 TFLOPS", "FLOP", "FLOP/s, not FLOP"),
    ("3 us", "byte", "s, not byte"),
    ("-80 GB", "byte", "zero or more"),
    ("−80 GB", "byte", "zero or more"),
    (-1, "byte", "zero or more"),
    ("nan", "byte", "not a number"),
    ("nan GB", "byte", "not a number"),
    ("inf", "s", "not a number"),
    (float("nan"), "byte", "not a finite number"),
    (float("inf"), "byte", "not a finite number"),
    (10**400, "byte", "not a finite number"),
    ("1e999 GB", "byte", "not a finite number"),
    ("80 gb", "byte", "write B for bytes"),
    ("4 tb/s", "byte/s", "write B for bytes"),
    ("5 mB", "byte", "did you mean MB?"),
    ("989 tflops", "FLOP/s", "did you mean TFLOPS?"),
    ("80 furlong", "byte", "unknown unit"),
    ("3,35 TB/s", "byte/s", "not a number"),
    ("1.5.2 GB", "byte", "not a number"),
    ("0x10 GB", "byte", "unknown unit"),
    ("1 GB/s/s", "byte/s", "unknown unit"),
    ("9" * 200 + " GB", "byte", "not a number"),
    ("80 GB\nand more", "byte", "unknown unit"),
    (True, "byte", "not a quantity"),
    (None, "byte", "not a quantity"),
    ([80], "byte", "not a quantity"),
    (1j, "byte", "not a quantity"),
    ("٣ GB", "byte", "not a number"),
]


@pytest.mark.parametrize("value, dimension, what", REFUSED)
def test_F02_bad_quantities_are_refused_with_field_value_and_example(value, dimension, what):
    with pytest.raises(InputError) as caught:
        parse(value, dimension, "memory")
    message = str(caught.value)
    assert message.startswith("memory: ")
    assert what in message
    assert units.EXAMPLES[dimension] in message
    assert "\n" not in message
    assert len(message) < 250


def test_zero_is_refused_only_where_it_must_be():
    assert parse("0 GB", "byte") == 0.0
    with pytest.raises(InputError, match="memory: '0 GB' must be above zero"):
        parse("0 GB", "byte", "memory", positive=True)


@given(st.text(max_size=120), st.sampled_from(sorted(units.EXAMPLES)))
def test_F02_any_text_is_a_number_or_a_one_line_refusal(text, dimension):
    try:
        answer = parse(text, dimension, "field")
    except InputError as problem:
        answer = str(problem)
    assert "\n" not in answer if isinstance(answer, str) else 0 <= answer < math.inf


def test_arrays_pass_through_checked():
    values = np.array([1e12, 2e12])
    assert parse(values, "byte/s") is values
    for bad in ([1.0, np.nan], [1.0, np.inf], [-1.0, 2.0]):
        with pytest.raises(InputError, match="bandwidth: the array"):
            parse(np.array(bad), "byte/s", "bandwidth")
    with pytest.raises(InputError, match="above zero"):
        parse(np.array([0.0, 1.0]), "byte/s", "bandwidth", positive=True)
    assert parse(np.float64(3.0), "s") == 3.0


@pytest.mark.parametrize("text", ["many", "", "-1", "nan", "4 GB"])
def test_what_is_no_count_asks_for_a_whole_number(text):
    """The advice must itself be right: no share such as 0.8 where only whole numbers are."""
    with pytest.raises(InputError, match=r"^batch: .*; write a whole number, for example 8$"):
        units.parse_count(text, "batch")


def test_counts_are_whole_and_bounded():
    assert parse_count("128Ki", "prompt", dimension="token") == 131_072
    assert parse_count(8.0, "batch") == 8
    assert isinstance(parse_count("8", "batch"), int)
    for bad in ("8.5", 0, "-1", "many", 1e30):
        with pytest.raises(InputError, match=r"^batch: "):
            parse_count(bad, "batch")


# ------------------------------------------------------------------------------------------- reading exactly

DECIMALS = st.decimals(min_value="0.001", max_value="9999", places=3).map(str)
PREFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}


@given(DECIMALS, st.sampled_from(sorted(PREFIXES)))
def test_decimal_prefixes_round_once(digits, prefix):
    """ "3.35 TB/s" is the float nearest to 3.35e12, not 3.35 times 1e12 rounded again."""
    assert parse(f"{digits} {prefix}B/s", "byte/s") == float(f"{digits}e{PREFIXES[prefix]}")


@given(st.floats(min_value=1e-3, max_value=1e3), st.integers(0, 4), st.integers(0, 4))
def test_F06_a_prefix_is_a_factor_of_a_thousand_or_1024(x, low, high):
    """Moving n prefixes up multiplies by 1,000**n, or 1,024**n for the binary ones."""
    names = ["k", "M", "G", "T", "P"]
    ratio = parse(f"{x:.6f} {names[high]}B", "byte"), parse(f"{x:.6f} {names[low]}B", "byte")
    assert ratio[0] == pytest.approx(ratio[1] * 1000.0 ** (high - low), rel=1e-12)
    names[0] = "K"
    binary = parse(f"{x:.6f} {names[high]}iB", "byte"), parse(f"{x:.6f} {names[low]}iB", "byte")
    assert binary[0] == pytest.approx(binary[1] * 1024.0 ** (high - low), rel=1e-12)


# ------------------------------------------------------------------------------------------- writing

# D-104: 0; below 1 µs in ns (1 decimal); below 1 ms in µs (2); below 1 s in ms (2); then s.
TIMES = [
    (0, "0"),
    (2.5e-8, "25.0 ns"),
    (999e-9, "999.0 ns"),
    (999.99e-9, "1.00 µs"),  # 1,000.0 ns would be longer and no truer
    (1.445e-6, "1.45 µs"),
    (131.076e-6, "131.08 µs"),
    (0.999999999e-3, "1.00 ms"),
    (8.7e-3, "8.70 ms"),
    (68.838e-3, "68.84 ms"),
    (1.87198, "1.87 s"),
    (4000.0, "4,000.00 s"),
    (-3e-3, "−3.00 ms"),
]


@pytest.mark.parametrize("seconds, text", TIMES)
def test_D104_time_for_people(seconds, text):
    assert format(seconds, "s") == text


WRITTEN = [
    (85899345920, "byte", "85.9 GB"),
    (147456, "byte/token", "147 kB/token"),
    (999.9, "byte", "1.00 kB"),
    (999.99e9, "byte", "1.00 TB"),
    (3.35e12, "byte/s", "3.35 TB/s"),
    (989e12, "FLOP/s", "989 TFLOP/s"),
    (1979e12, "FLOP/s", "1,979 TFLOP/s"),
    (15.6e15, "FLOP/s", "15.6 PFLOP/s"),
    (295.2, "FLOP/byte", "295 FLOP/byte"),
    (2.99 / 3600, "USD/s", "2.99 USD/h"),
    (6e-7, "USD/token", "0.600 USD/Mtoken"),
    (5.25, "USD", "5.25 USD"),
    (0.0051, "J/token", "5.10 mJ/token"),
    (700, "W", "700 W"),
    (1.98e9, "Hz", "1.98 GHz"),
    (131072, "token", "131,072 tokens"),
    (1, "token", "1 token"),
    (136.75, "token/s", "137 token/s"),
    (8, "1", "8"),
    (0.5, "1", "0.500"),
    (9.996, "1", "10.0"),
    (0, "byte", "0 B"),
    (None, "s", "–"),
    (float("nan"), "byte", "–"),
    (float("inf"), "s", "–"),
]


@pytest.mark.parametrize("x, dimension, text", WRITTEN)
def test_three_significant_digits_with_a_readable_prefix(x, dimension, text):
    assert format(x, dimension) == text


def test_the_unit_and_the_digits_can_be_fixed():
    assert format(0.00123, "s", unit="µs") == "1,230 µs"
    assert format(0.00123, "s", unit="ms", digits=2) == "1.2 ms"
    assert format(0.5, "1", unit="%") == "50.0 %"
    assert format(68.838e-3, "s", digits=4) == "68.84 ms"
    with pytest.raises(InputError):
        format(0.5, "s", unit="GB")


ROUND_TRIP = sorted(set(units.EXAMPLES) - {"token", "request", "1"})


@given(st.floats(min_value=1e-12, max_value=1e20), st.sampled_from(ROUND_TRIP))
def test_what_is_written_can_be_read_back(x, dimension):
    """Seven significant digits survive the trip to text and back, whatever prefix was chosen."""
    assert parse(format(x, dimension, digits=7), dimension) == pytest.approx(x, rel=1e-6)


@given(st.integers(0, 10**12), st.sampled_from(["token", "request", "1"]))
def test_whole_counts_are_written_in_full(count, dimension):
    assert parse(format(count, dimension), dimension) == count


@given(st.floats(min_value=1e-9, max_value=1e14), st.integers(1, 6))
def test_numbers_keep_their_significant_digits(x, digits):
    text = number(x, digits)
    assert float(text.replace(",", "")) == pytest.approx(x, rel=0.51 * 10 ** (1 - digits))
    mantissa = re.sub(r"e.*|[,.]", "", text).lstrip("0")
    assert len(mantissa) >= digits


# ------------------------------------------------------------------------------------------- nouns and markers


def test_every_noun_has_a_unit_that_can_be_read():
    for noun, dimension in units.NOUNS.items():
        assert dimension in units.EXAMPLES, noun
        parse(units.EXAMPLES[dimension], dimension)


def test_nouns_carry_statistics():
    assert dimension_of("ttft") == "s"
    assert dimension_of("ttft_p99") == "s"
    assert dimension_of("throughput_per_device_mean") == "token/s"
    with pytest.raises(InputError, match="did you mean 'tpot'"):
        dimension_of("tpots")


def test_fields_carry_their_unit_into_the_schema():
    class Row(msgspec.Struct):
        size: units.Bytes
        rate: units.FlopPerSecond | None = None

    properties = msgspec.json.schema(Row)["$defs"]["Row"]["properties"]
    assert properties["size"]["x-unit"] == "byte"
    assert units.unit_of(units.Bytes) == ("byte", False)
    assert units.unit_of(units.FlopPerSecond | None) == ("FLOP/s", False)
    assert units.unit_of(float) is None
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"size": -1.0}, Row)


@pytest.mark.parametrize("count, text", [(1, "1"), (512, "512"), (1023, "1,023"), (1024, "1 Ki"), (2304, "2.25 Ki"),
                                         (131072, "128 Ki"), (1048576, "1 Mi")])  # fmt: skip
def test_a_count_in_few_characters(count, text):
    """Ki is 1,024 and Mi 1,048,576."""
    assert units.short(count) == text
