"""What a checkpoint on disk really holds: bytes and elements by number format, from safetensors headers or the index alone.

No weights are read: a safetensors file starts with the length of a JSON header that names every tensor.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec

from rooflab.model import Model
from rooflab.units import InputError, format, shown

LARGEST_HEADER = 100_000_000
"""Bytes; the format itself allows no more."""
LARGEST_INDEX = 50_000_000
BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "I64": 64, "U64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16, "I8": 8, "U8": 8,
    "BOOL": 8,
}  # fmt: skip
"""Bits per element of each format a header may name."""
PACKED = ("U8", "I32", "U32", "I8", "F4")
"""Formats that quantised checkpoints pack several weights into."""


class Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors of one number format."""

    tensors: int = 0
    elements: int = 0
    bytes: int = 0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A folder of weights: how much of what."""

    path: str
    basis: str
    """headers: every file was looked into; index: only the total of the index file is known."""
    bytes: int
    files: int = 0
    dtypes: dict[str, Stored] = {}

    @property
    def elements(self) -> int:
        """Stored elements of all formats; 0 when only the index is known."""
        return sum(each.elements for each in self.dtypes.values())  # int


def scan(path: str | Path) -> Checkpoint:
    """Look into a folder of safetensors files, one such file, or an index."""
    place = Path(path).expanduser()
    try:
        if place.is_dir():
            files = sorted(place.glob("*.safetensors"))
            if files:
                return _from_headers(place, files)
            indices = sorted(place.glob("*.safetensors.index.json"))
            if indices:
                return _from_index(indices[0])
            raise InputError(
                f"{place} holds no *.safetensors and no *.safetensors.index.json; give the folder of a checkpoint"
            )
        if not place.is_file():
            raise InputError(f"there is no file or folder {shown(str(path))}; check the path")
        return _from_index(place) if place.name.endswith(".index.json") else _from_headers(place, [place])
    except OSError as error:
        raise InputError(
            f"{place} cannot be read: {error.strerror or error}; check the path and its permissions"
        ) from error


def compare(found: Checkpoint, model: Model) -> tuple[str, ...]:
    """Notes for people: where the files and the counts from the config disagree, and the usual reason."""
    counted = model.params()
    parts = {"text model": counted, "with prediction modules": counted + (model.mtp_params or 0)}
    parts["with everything counted"] = parts["with prediction modules"] + (model.vision_params or 0)
    if not found.elements:
        return (f"the index gives {found.bytes} bytes and no element count; the config gives {counted} parameters",)
    for name, count in parts.items():
        if found.elements == count:
            return (f"the files hold exactly the {count} parameters of the config ({name})",)
    held = f"the files hold {found.elements} elements, the config gives {parts['with everything counted']} parameters"
    packed = [name for name in found.dtypes if name in PACKED]
    if packed:
        return (f"{held}: {' and '.join(packed)} tensors pack several weights per element or hold their scales",)
    more = found.elements - parts["with everything counted"]
    table = model.embedding_params()
    if model.tied and more == table:
        return (f"{held}: the head is stored as a second copy of the tied table",)
    if more < 0:
        return (f"{held}: {-more} fewer; the folder may not be whole, or the config is of another model",)
    return (f"{held}: {more} more, such as stored buffers, towers or scales left out here",)


def sizes(found: Checkpoint, computed: float) -> tuple[str, ...]:
    """A note where the stored bytes are not those computed for the weights; none within one part in a thousand."""
    if abs(found.bytes - computed) <= computed * 1e-3:
        return ()
    held = f" ({' and '.join(found.dtypes)})" if found.dtypes else ""
    stored, counted = format(float(found.bytes), "byte"), format(computed, "byte")
    return (f"the files take {stored}{held}; the weights as computed here take {counted}",)


# ------------------------------------------------------------------------------------------------ reading


def _from_headers(place: Path, files: list[Path]) -> Checkpoint:
    totals: dict[str, list[int]] = {}
    for file in files:
        for dtype, elements, size in _tensors(file):
            entry = totals.setdefault(dtype, [0, 0, 0])
            entry[0] += 1
            entry[1] += elements
            entry[2] += size
    dtypes = {name: Stored(tensors=t, elements=e, bytes=b) for name, (t, e, b) in sorted(totals.items())}
    return Checkpoint(
        path=str(place),
        basis="headers",
        files=len(files),
        dtypes=dtypes,
        bytes=sum(x.bytes for x in dtypes.values()),  # int
    )  # ints


def _tensors(file: Path) -> list[tuple[str, int, int]]:
    """(format, elements, bytes) of every tensor in one file, checked against the file's size."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(LARGEST_HEADER, size - 8):
            raise InputError(f"{file} is not a whole safetensors file: its header would be {length} of {size} bytes")
        header = _parsed(stream.read(length), file)
    return [_tensor(file, name, entry, size - 8 - length) for name, entry in header.items() if name != "__metadata__"]


def _parsed(raw: bytes, file: Path) -> dict[str, Any]:
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is damaged: what should be JSON is not ({str(error)[:80]})") from None
    if not isinstance(data, dict):
        raise InputError(f"{file} is damaged: its JSON is not an object")
    return data


def _tensor(file: Path, name: str, entry: object, room: int) -> tuple[str, int, int]:
    bad = InputError(f"{file} is damaged: tensor {shown(name)} is described as {shown(entry)}")
    if not isinstance(entry, dict):
        raise bad
    dtype, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if dtype not in BITS or not isinstance(shape, list) or not isinstance(span, list) or len(span) != 2:
        raise bad
    if not all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in (*shape, *span)):
        raise bad
    elements = 1
    for each in shape:
        elements *= each
    if not span[0] <= span[1] <= room or -(-elements * BITS[dtype] // 8) != span[1] - span[0]:
        raise bad
    return dtype, elements, span[1] - span[0]


def _from_index(file: Path) -> Checkpoint:
    if file.stat().st_size > LARGEST_INDEX:
        raise InputError(f"{file} is too large to be an index")
    data = _parsed(file.read_bytes(), file)
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total < 1 << 60:
        raise InputError(f"{file} has no metadata.total_size that could be bytes: {shown(total)}")
    names = data.get("weight_map")
    files = len({x for x in names.values() if isinstance(x, str)}) if isinstance(names, dict) else 0
    return Checkpoint(path=str(file), basis="index", files=files, bytes=total)
