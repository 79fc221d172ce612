"""Safetensors headers and indices: what is counted, and that damaged files are refused. Expected sizes are made by hand."""

import json
import struct
from pathlib import Path

import pytest

from rooflab import hf
from rooflab.checkpoint import compare, scan, sizes
from rooflab.units import InputError

TINY = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 10,
    "tie_word_embeddings": True,
}
# by hand: table 10·8, attention 4·8·8, network 3·8·16, norms 3·8
PARAMETERS = 80 + 256 + 384 + 24


def write(
    path: Path, tensors: dict[str, tuple[str, list[int], int]], header: bytes | None = None, room: int = 0
) -> None:
    """A safetensors file with this header and as many zero bytes as it promises (plus `room`)."""
    described, end = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **described}).encode() if header is None else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end + room))


def test_two_files_are_added_up_by_format(tmp_path: Path):
    write(tmp_path / "model-00001-of-00002.safetensors", {"a": ("BF16", [10, 8], 160), "b": ("F32", [3], 12)})
    write(tmp_path / "model-00002-of-00002.safetensors", {"c": ("BF16", [664], 1328), "d": ("F8_E4M3", [], 1)})
    found = scan(tmp_path)
    assert (found.basis, found.files, found.bytes) == ("headers", 2, 160 + 12 + 1328 + 1)
    assert found.elements == 80 + 3 + 664 + 1
    assert (found.dtypes["BF16"].tensors, found.dtypes["BF16"].elements, found.dtypes["BF16"].bytes) == (2, 744, 1488)


def test_a_whole_checkpoint_agrees_with_its_config(tmp_path: Path):
    write(tmp_path / "model.safetensors", {"all": ("BF16", [PARAMETERS], 2 * PARAMETERS)})
    model = hf.read(TINY)
    assert model.params() == PARAMETERS
    (note,) = compare(scan(tmp_path), model)
    assert f"exactly the {PARAMETERS} parameters" in note


def test_differences_are_explained(tmp_path: Path):
    model = hf.read(TINY)
    for name, shape, words in [
        ("head", {"all": ("BF16", [PARAMETERS + 80], 2 * PARAMETERS + 160)}, "second copy of the tied table"),
        ("packed", {"all": ("U8", [PARAMETERS // 2], PARAMETERS // 2)}, "pack several weights"),
        ("buffers", {"all": ("BF16", [PARAMETERS + 7], 2 * PARAMETERS + 14)}, "7 more"),
        ("half", {"all": ("BF16", [PARAMETERS - 7], 2 * PARAMETERS - 14)}, "7 fewer; the folder may not be whole"),
    ]:
        folder = tmp_path / name
        folder.mkdir()
        write(folder / "model.safetensors", shape)
        (note,) = compare(scan(folder), model)
        assert words in note


def test_other_bytes_than_computed_are_said(tmp_path: Path):
    """Twice the parameters in bf16 is what the config gives; the files hold four bytes of each."""
    write(tmp_path / "model.safetensors", {"all": ("F32", [PARAMETERS], 4 * PARAMETERS)})
    (note,) = sizes(scan(tmp_path), 2.0 * PARAMETERS)
    assert "2.98 kB (F32)" in note  # 4 × 744
    assert "1.49 kB" in note  # 2 × 744
    assert sizes(scan(tmp_path), 4.0 * PARAMETERS) == ()


def test_the_index_alone_gives_bytes(tmp_path: Path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"metadata": {"total_size": 16_060_522_496}, "weight_map": {"a": "1", "b": "2", "c": "1"}})
    )
    for path in (tmp_path, index):
        found = scan(path)
        assert (found.basis, found.bytes, found.files, found.elements) == ("index", 16_060_522_496, 2, 0)
    assert 2 * hf.load("llama-3.1-8b").params() == 16_060_522_496  # the published size of that checkpoint
    assert "16060522496 bytes" in compare(found, hf.load("llama-3.1-8b"))[0]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 7,
        struct.pack("<Q", 10**12) + b"{}",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 40_000) + b"[" * 40_000,
    ],
)
def test_what_is_no_safetensors_file_is_refused(raw: bytes, tmp_path: Path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(raw)
    with pytest.raises(InputError, match="safetensors"):
        scan(tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        "text",
        {},
        {"dtype": "BF16", "shape": [2], "data_offsets": [0, 3]},
        {"dtype": "BF16", "shape": [2], "data_offsets": [4, 0]},
        {"dtype": "BF16", "shape": [-2], "data_offsets": [0, 4]},
        {"dtype": "BF16", "shape": [2.0], "data_offsets": [0, 4]},
        {"dtype": "Q3", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "BF16", "shape": [10**12], "data_offsets": [0, 2 * 10**12]},
        {"dtype": "BF16", "shape": "2", "data_offsets": [0, 4]},
    ],
)
def test_damaged_tensors_are_refused_by_name(entry: object, tmp_path: Path):
    write(tmp_path / "model.safetensors", {}, json.dumps({"layer.weight": entry}).encode(), room=16)
    with pytest.raises(InputError, match=r"layer\.weight"):
        scan(tmp_path / "model.safetensors")


@pytest.mark.parametrize("metadata", [None, [], {}, {"total_size": -1}, {"total_size": "big"}, {"total_size": True}])
def test_an_index_without_a_size_is_refused(metadata: object, tmp_path: Path):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": metadata, "weight_map": {}}))
    with pytest.raises(InputError, match="total_size"):
        scan(tmp_path)


def test_what_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(InputError, match="no \\*\\.safetensors"):
        scan(tmp_path)
    with pytest.raises(InputError, match="no file or folder"):
        scan(tmp_path / "nothing")
