"""Fitting: known parameters come back from synthetic measurements (A-063), bad rows are refused by line."""

import msgspec
import numpy as np
import pandas as pd
import pytest

from rooflab import catalog, kernels
from rooflab.fitted import Fitted
from rooflab.kernels import attention, exchange, gemm
from rooflab.measure import calibrate, filing, operators, spelling, tables
from rooflab.parameters import read
from rooflab.units import InputError

H100 = catalog.system("h100-sxm")
TRUE = gemm.Parameters(compute=0.74, memory=0.79, launch=4.1e-6, fill=0.62e-6, feed=70.0, throttle=0.12, split=2.5e-6)


def gemm_rows(count=3000, seed=3):
    rng = np.random.default_rng(seed)
    sizes = np.array([64, 128, 256, 512, 1024, 2048, 4096, 5120, 8192, 14336])
    rows = {
        "system": "h100_sxm",
        "backend": "vllm",
        "gemm_dtype": "bfloat16",
        "m": np.exp2(rng.uniform(0, 14, count)).round().astype(int),
        "n": rng.choice(sizes, count),
        "k": rng.choice(sizes, count),
        "latency_ms": 1.0,
    }
    return pd.DataFrame(rows)


def timed(frame, parameters, noise=0.0, seed=5):
    """The frame with the times these parameters give, spread by a log-normal factor."""
    (batch,), _ = operators.batches(tables.check(frame))
    seconds = calibrate.predict(batch, H100, parameters)
    spread = np.exp(np.random.default_rng(seed).normal(0.0, noise, len(frame)))
    return frame.assign(latency_ms=seconds * spread * 1e3)


def saved(frame, tmp_path, name="gemm.csv"):
    path = tmp_path / name
    frame.to_csv(path, index=False)
    return path


def test_known_parameters_come_back(tmp_path):
    """A-063, without noise: what the data determine returns within 5 %, and held-out shapes are predicted within 1 %."""
    found = calibrate.run(saved(timed(gemm_rows(), TRUE), tmp_path), "h100", ["gemm"])["fits"][0]
    for name in ("compute", "memory", "launch"):
        assert found["parameters"][name] == pytest.approx(getattr(TRUE, name), rel=0.05), name
    assert found["parameters"]["fill"] == pytest.approx(TRUE.fill, rel=0.2)
    assert found["held_error"] < 0.01
    assert found["rows"] + found["held_rows"] == 3000
    assert found["held_rows"] == pytest.approx(750, abs=300)


def test_known_parameters_come_back_through_noise(tmp_path):
    """A-063, with 10 % noise: parameters within 10 %; the error seen is the noise's median, 0.6745 of its deviation."""
    found = calibrate.run(saved(timed(gemm_rows(), TRUE, 0.10), tmp_path), "h100", ["gemm"])["fits"][0]
    for name in ("compute", "memory", "launch"):
        assert found["parameters"][name] == pytest.approx(getattr(TRUE, name), rel=0.10), name
    assert found["held_error"] == pytest.approx(0.0675, abs=0.012)
    assert found["band"][0] == pytest.approx(np.exp(-1.2816 * 0.10), rel=0.04)
    assert found["band"][1] == pytest.approx(np.exp(1.2816 * 0.10), rel=0.04)
    assert found["coverage"] == pytest.approx(0.80, abs=0.06)


def test_decode_attention_comes_back(tmp_path):
    """A-063 for another family: floor, cost of a wave and bandwidth."""
    rng = np.random.default_rng(2)
    layouts = [(32, 8), (64, 8), (16, 4), (8, 8), (28, 4), (40, 8), (12, 2), (96, 8)]
    picks = [layouts[i] for i in rng.integers(0, len(layouts), 2000)]
    frame = pd.DataFrame(
        {
            "system": "h100_sxm",
            "backend": "sglang",
            "attn_dtype": "bfloat16",
            "kv_cache_dtype": "bfloat16",
            "batch_size": np.exp2(rng.integers(0, 10, 2000)).astype(int),
            "isl": 1,
            "num_heads": [h for h, _ in picks],
            "num_key_value_heads": [kv for _, kv in picks],
            "head_dim": 128,
            "step": np.exp2(rng.uniform(1, 15, 2000)).astype(int),
            "latency_ms": 1.0,
        }
    )
    true = attention.DecodeParameters(launch=7e-6, wave=1.5e-6, memory=0.81, split=0.9e-6)
    found = calibrate.run(saved(timed(frame, true), tmp_path), "h100")["fits"][0]
    for name in ("launch", "wave", "memory"):
        assert found["parameters"][name] == pytest.approx(getattr(true, name), rel=0.06), name


def prefill_frame(kv_heads, window=0):
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "system": "h100_sxm",
            "backend": "sglang",
            "attn_dtype": "bfloat16",
            "kv_cache_dtype": "bfloat16",
            "batch_size": np.exp2(rng.integers(0, 7, 900)).astype(int),
            "isl": np.exp2(rng.uniform(3, 13, 900)).astype(int),
            "num_heads": rng.choice([8, 12, 16, 24, 32, 40, 48, 64], 900),
            "num_key_value_heads": kv_heads,
            "head_dim": 128,
            "step": 0,
            "window_size": window,
            "latency_ms": 1.0,
        }
    )


@pytest.mark.parametrize("tiles", [attention.SHARED, attention.APART, attention.WHOLE])
def test_how_a_kernel_cuts_its_work_is_found_out(tiles):
    """A-063: tiles shared by the heads of a KV head, tiles apart, or tiles that a window does not skip come back."""
    true = attention.PrefillParameters(
        launch=9e-6, compute=0.7, softmax=30.0, memory=0.75, wave=2e-6, tail=0.3, tiles=tiles
    )
    batches = []
    for window in (0, 128):
        frame = prefill_frame(4, window)
        (batch,), _ = operators.batches(tables.check(frame))
        batches.append(msgspec.structs.replace(batch, seconds=calibrate.predict(batch, H100, true)))
    found = calibrate.fit_parameters(batches, H100, "bf16")
    assert found.tiles == tiles
    assert found.launch == pytest.approx(true.launch, rel=0.06)


def test_wide_groups_are_fitted_after_the_others(tmp_path):
    """A-063: rows of more than sixteen query heads a KV head add their further seconds, and change nothing else."""
    frame = prefill_frame(1).assign(isl=1, step=np.exp2(np.random.default_rng(6).uniform(1, 15, 900)).astype(int))
    true = attention.DecodeParameters(launch=7e-6, wave=1.5e-6, memory=0.81, split=0.9e-6, growth=0.25, wide=3e-6)
    rows = []
    for part in (frame[frame["num_heads"] <= 16], frame[frame["num_heads"] > 16]):
        (batch,), _ = operators.batches(tables.check(part))
        rows.append(part.assign(latency_ms=calibrate.predict(batch, H100, true) * 1e3))
    report = calibrate.run(saved(pd.concat(rows), tmp_path), "h100")
    (fit,) = report["fits"]
    assert fit["family"] == "decode_attention"
    assert fit["parameters"]["wide"] == pytest.approx(3e-6, rel=0.06)
    assert fit["parameters"]["launch"] == pytest.approx(7e-6, rel=0.06)
    assert report["skipped"] == []


def test_a_kernel_nobody_names_is_the_one_that_ran_most(tmp_path):
    """Two kernels of one version: the price without a name is the usual one's, and its band covers both."""
    usual, other = timed(gemm_rows(1200), TRUE), timed(gemm_rows(600, seed=8), TRUE)
    frame = pd.concat(
        [usual.assign(kernel_source="usual"), other.assign(kernel_source="other", latency_ms=other["latency_ms"] * 1.5)]
    ).assign(version="1.0")
    fits = {fit["kernel"]: fit for fit in calibrate.run(saved(frame, tmp_path), "h100", ["gemm"])["fits"]}
    assert set(fits) == {"", "usual", "other"}
    assert fits[""]["parameters"] == fits["usual"]["parameters"]
    assert fits["usual"]["band"][1] < 1.05
    assert fits[""]["band"][1] == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize(
    ("name", "device"),
    [("h100_sxm", "h100-sxm"), ("RTX4090", "rtx-4090"), ("H200", "h200-sxm"), ("gb200", "gb200"), ("abacus", None)],
)
def test_a_tables_device_is_found_however_it_is_spelled(name, device):
    """One reading of names for kernels, engine runs and serving runs."""
    found = calibrate.system_of(name)
    assert (found and found.device.name) == device
    if device is None:
        with pytest.raises(InputError, match="abacus"):
            spelling.machine(name)
    else:
        assert spelling.machine(name).device.name == device


def test_a_collective_comes_back(tmp_path):
    """A-063 for collectives: latency, per-rank latency and long-message bandwidth."""
    sizes = [2.0**e for e in range(8, 30)]
    frame = pd.DataFrame(
        [
            {"system": "h100_sxm", "backend": "nccl", "nccl_dtype": "half", "op_name": "all_reduce", "num_gpus": g,
             "message_bytes": int(s * f), "latency_ms": 1.0}
            for g in (2, 4, 8) for s in sizes for f in (1.0, 1.4)
        ]
    )  # fmt: skip
    true = exchange.Parameters(short=8e-6, hop=1.3e-6, short_link=0.25, long=30e-6, long_link=0.68, sharpness=4.0)
    found = calibrate.run(saved(timed(frame, true), tmp_path), "h100")["fits"][0]
    for name in ("short", "long_link"):
        assert found["parameters"][name] == pytest.approx(getattr(true, name), rel=0.06), name
    assert found["held_error"] < 0.02


def test_few_rows_stay_near_the_priors():
    """A fit is not believed more than its data say: thirty thin rows do not move the compute plateau far."""
    frame = gemm_rows(30).assign(m=1)
    (batch,), _ = operators.batches(tables.check(timed(frame, TRUE)))
    found = calibrate.fit_parameters([batch], H100, "bf16")
    assert found.compute == pytest.approx(kernels.PRIORS["gemm"]["compute"][0], rel=0.05)


def test_what_is_written_is_what_is_read(tmp_path):
    """A file of fits is a datasheet: times in microseconds, read back to four digits."""
    report = calibrate.run(saved(timed(gemm_rows(600), TRUE), tmp_path), "h100")
    path = filing.write("h100-sxm", report, ["aiconfigurator"], "2026-01-01", tmp_path)
    assert 'launch = "' in path.read_text()
    (fit,) = read(path).fits
    for name, value in report["fits"][0]["parameters"].items():
        assert fit.parameters.get(name, 0.0) == pytest.approx(value, rel=2e-3), name
    assert fit.band == pytest.approx(report["fits"][0]["band"], abs=0.006)


# ---------------------------------------------------------------------------------------------------------- bad rows


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("latency_ms", -0.1, "above zero"),
        ("latency_ms", 0.0, "above zero"),
        ("latency_ms", float("nan"), "above zero"),
        ("latency_ms", float("inf"), "above zero"),
        ("latency_ms", 7e8, "milliseconds"),
        ("latency_ms", "fast", "above zero"),
        ("m", -4, "above zero"),
        ("n", 0, "above zero"),
        ("backend", None, "missing"),
    ],
)
def test_bad_rows_are_refused_by_line(column, value, what):
    """Negative, zero, NaN, words, absent values and absurd units: the line and the reason; the rest is kept."""
    frame = gemm_rows(20)
    frame[column] = frame[column].astype(object)
    frame.loc[6, column] = value
    table = tables.check(frame)
    assert [line for line, _ in table.refused] == [8]
    assert what in table.refused[0][1]
    assert len(table.frame) == 19


def test_rows_faster_than_light_are_refused_by_line(tmp_path):
    """Seconds in a column of milliseconds are below the peak roofline by three orders: refused, not fitted."""
    frame = timed(gemm_rows(200), TRUE)
    frame.loc[3, "latency_ms"] *= 1e-3
    report = calibrate.run(saved(frame, tmp_path), "h100")
    assert [(row["line"], "milliseconds" in row["reason"]) for row in report["refused"]] == [(5, True)]
    with pytest.raises(InputError, match="is the unit milliseconds"):
        calibrate.run(saved(frame.assign(latency_ms=frame["latency_ms"] * 1e-3), tmp_path, "wrong.csv"), "h100")


def test_microseconds_in_a_column_of_milliseconds_are_refused_by_line(tmp_path):
    """A thousand times slower than the others of its kind: each row of such a table, so nothing is left to fit."""
    frame = timed(gemm_rows(60), TRUE)
    assert calibrate.run(saved(frame, tmp_path), "h100")["refused"] == []
    with pytest.raises(InputError, match=r"line 2 of wrong\.csv.*is the unit milliseconds"):
        calibrate.run(saved(frame.assign(latency_ms=frame["latency_ms"] * 1e3), tmp_path, "wrong.csv"), "h100")


def test_unknown_and_missing_columns_are_named():
    with pytest.raises(InputError, match="line 1: unknown column colour"):
        tables.check(gemm_rows(5).assign(colour="red"))
    with pytest.raises(InputError, match="line 1: the gemm table lacks the column latency_ms"):
        tables.check(gemm_rows(5).rename(columns={"latency_ms": "latency_us"}))
    with pytest.raises(InputError, match="not a table of kernels"):
        tables.check(pd.DataFrame({"a": [1]}))
    assert tables.check(gemm_rows(5).assign(colour="red"), strict=False).unknown == ("colour",)


def test_what_cannot_be_fitted_is_said(tmp_path):
    path = saved(timed(gemm_rows(100), TRUE), tmp_path)
    with pytest.raises(InputError, match="no rows of b200-sxm"):
        calibrate.run(path, "b200")
    with pytest.raises(InputError, match="family"):
        calibrate.run(path, "h100", ["gem"])
    with pytest.raises(InputError, match="does not exist"):
        calibrate.run(tmp_path / "none", "h100")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="holds no"):
        calibrate.run(empty, "h100")
    (tmp_path / "bad.json").write_text("3")
    with pytest.raises(InputError, match="no list of rows"):
        calibrate.run(tmp_path / "bad.json", "h100")


def test_a_table_prices_an_estimate(tmp_path):
    """One's own rows price the operators they cover, in JSON as in CSV."""
    from rooflab.measure.mine import measured_prices
    from rooflab.profiles import profile
    from rooflab.work import Layout

    frame = timed(gemm_rows(400), TRUE)
    path = tmp_path / "mine.json"
    frame.to_json(path, orient="records")
    pricer, notes = measured_prices(str(path), Fitted(H100, Layout(), profile("operator")))
    assert sum(len(points) for points in pricer.points.values()) == 400
    assert "400 rows" in notes[0]
