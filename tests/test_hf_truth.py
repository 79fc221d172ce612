"""A-030…A-037: every published configuration gives its true counts. Source of the expected values: data/truth.csv, where
the reference implementations instantiated each config (see data/README.md). Nothing here is excused."""

from functools import cache

import published
import pytest

from rooflab import hf
from rooflab.model import Model

ROWS = {row["file"]: row for row in published.rows()}
CONTEXTS = (4096, 32768, 131072)


@cache
def model(file: str) -> Model:
    return hf.read(published.config(file))


def cache_bytes(found: Model, context: int) -> float:
    """KV cache of one sequence in bf16, index keys included."""
    return 2 * (found.kv_elements(float(context)) + found.index_elements(float(context)))


def test_the_table_is_whole():
    assert len(ROWS) == 124
    assert all(path.is_file() for path in published.paths().values())


@pytest.mark.parametrize("file", ROWS)
def test_parameters_a037(file: str):
    row = ROWS[file]
    assert model(file).params() == int(row["calc_text_total"])
    assert model(file).active_params() == int(row["calc_active"])
    assert model(file).active_params_without_embedding() == int(row["calc_active_no_input_embed"])
    assert model(file).tied == (row["tied"] == "True")
    assert model(file).layers == int(row["layers"])


@pytest.mark.parametrize("file", ROWS)
def test_cache_bytes(file: str):
    row, found = ROWS[file], model(file)
    for context in CONTEXTS:
        assert cache_bytes(found, context) == int(row[f"kv_bytes_{context}"])
    assert cache_bytes(found, 1) == int(row["kv_bytes_first_token"])
    far = 1 << 30  # beyond every window: what one more token costs
    assert cache_bytes(found, far + 1) - cache_bytes(found, far) == int(row["kv_bytes_per_token_long"])
    assert found.state_elements() == int(row["recurrent_state_elems"])


@pytest.mark.parametrize("file", [file for file in ROWS if ROWS[file]["mtp_params"]])
def test_prediction_modules(file: str):
    assert model(file).mtp_params == int(ROWS[file]["mtp_params"])


@pytest.mark.parametrize("file", [file for file in ROWS if not ROWS[file]["mtp_params"]])
def test_no_prediction_modules_are_invented(file: str):
    assert model(file).mtp_params is None


@pytest.mark.parametrize("file", [file for file in ROWS if ROWS[file]["gold_vision_audio"]])
def test_vision_towers(file: str):
    assert model(file).vision_params == int(ROWS[file]["gold_vision_audio"])


@pytest.mark.parametrize(
    "file, published_total",
    [  # published totals of the whole checkpoint where the table has no count of the tower alone
        ("OpenGVLab__InternVL2-2B.json", 2_205_754_368),
        ("OpenGVLab__InternVL2-4B.json", 4_146_855_936),
    ],
)
def test_towers_by_published_totals(file: str, published_total: int):
    found = model(file)
    assert found.params() + found.vision_params == published_total
