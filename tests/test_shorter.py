"""A config in fewer words (A-030, E-23): the catalog's name, or what is left without what makes no difference."""

import json
from pathlib import Path

import pytest

from rooflab import hf
from rooflab.api import answer
from rooflab.units import InputError

CATALOG = Path(__file__).resolve().parent.parent / "src/rooflab/catalog/models"
SOME = (
    "llama-3.1-8b",
    "deepseek-v3.1",
    "granite-3.3-8b-fp8",
    "llama-3.2-11b-vision",
    "glm-4.1v-9b",
    "qwen3-next-80b-a3b",
)


def config(name):
    return json.loads((CATALOG / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SOME)
def test_a_file_of_the_catalog_is_its_name(name):
    """Word for word, or by the id that it says itself; a name of its own stays."""
    assert hf.shorter(config(name)) == name
    assert hf.shorter({"_name_or_path": name, **config(name), "transformers_version": "9.9"}) == name
    mine = hf.shorter({**config(name), "_name_or_path": "me/mine"})
    assert mine["_name_or_path"] == "me/mine"


@pytest.mark.parametrize("name", SOME)
def test_what_is_left_out_makes_no_difference(name):
    """The same model to the last figure and note, in fewer words; and nothing that is left could go, too."""
    long = {**config(name), "_name_or_path": "me/mine", "notes": ["word"] * 5000, "sampling": {"top_k": 5}}
    short = hf.shorter(long)
    assert hf.read(short) == hf.read(long)
    assert not {"notes", "sampling", "transformers_version", "bos_token_id"} & short.keys()
    assert len(json.dumps(short)) < len(json.dumps(config(name)))
    assert hf.shorter(short) == short


def test_figures_that_differ_are_another_model():
    """One layer fewer is not the published one; a changed catalog model is short already."""
    other = {**config("llama-3.1-8b"), "num_hidden_layers": 31}
    short = hf.shorter(other)
    assert short["num_hidden_layers"] == 31
    changed = {"like": "llama-3.1-8b", "num_hidden_layers": 31}
    assert answer({"kind": "shorten", "model": changed})["model"] == changed
    assert answer({"kind": "shorten", "model": other})["model"] == short


def test_what_is_no_model_is_refused():
    with pytest.raises(InputError, match="hidden_size"):
        hf.shorter({"model_type": "llama"})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_file_is_read_in_its_own_encoding(tmp_path, encoding):
    """RFC 8259 knows UTF-8; Windows' shells write UTF-16 with a mark, editors a mark before UTF-8."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config("llama-3.1-8b"), "note": "größer"}, ensure_ascii=False), encoding=encoding)
    assert hf.load(str(path)).params() == hf.load("llama-3.1-8b").params()


def test_a_name_that_stands_twice_is_refused(tmp_path):
    """Readers of JSON take the last without a word (RFC 8259 §4: "the behaviour is unpredictable")."""
    path = tmp_path / "config.json"
    text = (CATALOG / "llama-3.1-8b.json").read_text(encoding="utf-8")
    path.write_text(text.replace("{", '{"num_hidden_layers": 4,', 1), encoding="utf-8")
    with pytest.raises(InputError, match="'num_hidden_layers' twice"):
        hf.load(str(path))
