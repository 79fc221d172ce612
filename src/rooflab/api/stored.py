"""The weights beside a config on disk: their own bytes and formats, and where they disagree with what the config says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflab import checkpoint
from rooflab.model import Model
from rooflab.units import InputError

_ELSEWHERE = ("catalog:", "hub:")


def stored(model: Model, computed: float) -> tuple[dict[str, Any] | None, list[str]]:
    """What the folder of a model's config holds in safetensors files, and notes on how it compares with the counts.

    None where the config is no file or has no weights beside it; a damaged file is a note, not a refusal: the counts stand.
    """
    if not model.source or model.source.startswith(_ELSEWHERE):
        return None, []
    folder = Path(model.source).parent
    try:
        if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.safetensors.index.json")):
            return None, []
        found = checkpoint.scan(folder)
    except (InputError, OSError) as problem:
        return None, [f"checkpoint not read: {problem}"]
    formats = found.dtypes.items()
    report = {
        "path": found.path,
        "basis": found.basis,
        "files": found.files,
        "bytes": float(found.bytes),
        "elements": found.elements or None,
        "bytes_by_format": {name: float(each.bytes) for name, each in formats},
        "elements_by_format": {name: each.elements for name, each in formats},
    }
    notes = (*checkpoint.compare(found, model), *checkpoint.sizes(found, computed))
    return report, [f"checkpoint: {note}" for note in notes]
