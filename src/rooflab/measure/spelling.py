"""Names as tables of measurements spell them: engines with their versions, number formats, models and machines."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from rooflab import catalog, hf
from rooflab.model import Model
from rooflab.system import System
from rooflab.units import InputError, shown
from rooflab.work import FORMATS

_ENGINES = (
    ("sglang", "sglang"),
    ("vllm", "vllm"),
    ("tensorrt", "trtllm"),
    ("trtllm", "trtllm"),
    ("trt", "trtllm"),
    ("transformers", "transformers"),
)
"""What gives an engine away in a name, letters alone -> the engine as fits and constants know it."""
STAND_IN = "vllm"
"""What an engine nobody fitted is taken for: it, too, batches continuously and works prompts in chunks."""
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[.-]?(?:rc|post|dev)\d*)?")
_FORMATS = {
    "bfloat16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "fp16": "bf16",
    "float8": "fp8",
    "fp8_e4m3": "fp8",
    "e4m3": "fp8",
    "fp8_static": "fp8",
    "fp8_dynamic": "fp8",
    "w8a8_fp8": "fp8",
    "fp4": "nvfp4",
    "w4a16": "int4",
    "awq": "int4",
    "gptq": "int4",
    "int4_wo": "int4",
    "int8_wo": "int8_weight",
    "w8a16": "int8_weight",
    "w8a8": "int8",
    "int8_sq": "int8",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
}
"""Number formats as tables spell them, in small letters -> as they are priced."""
_QUANTISED = (
    (re.compile(r"nvfp4|fp4"), "nvfp4"),
    (re.compile(r"mxfp4"), "mxfp4"),
    (re.compile(r"fp8"), "fp8"),
    (re.compile(r"awq|gptq|int4|w4a16"), "int4"),
    (re.compile(r"int8|w8a8"), "int8"),
)
_SUFFIX = re.compile(
    r"[-_.](?:fp8|nvfp4|fp4|mxfp4|awq|gptq|int4|int8|w4a16|w8a8|bf16|dynamic|kv|quantized|recon)$", re.I
)


def engine(name: str) -> tuple[str, str]:
    """(engine, version) of a name like "vLLM 0.6.3" or "dynamo-trt"; an engine nobody fitted has the stand-in's name.

    Raises InputError where there is no name.
    """
    plain = "".join(c for c in name.lower() if c.isalpha())
    if not plain:
        raise InputError(f"backend: {shown(name)} names no engine")
    found, version = next((made for word, made in _ENGINES if word in plain), ""), _VERSION.search(name)
    return (found, version[0] if version else "") if found else (STAND_IN, "")


def number_format(name: str) -> str | None:
    """The number format a table's word means, None where it means none that is priced."""
    plain = name.strip().lower().replace("-", "_")
    plain = _FORMATS.get(plain, plain)
    return plain if plain in FORMATS else None


def format_in(name: str) -> str | None:
    """The number format that a model's name says it was quantised to, None where it says none."""
    plain = name.split("/")[-1].lower()
    return next((form for pattern, form in _QUANTISED if pattern.search(plain)), None)


def names_of(name: str) -> list[str]:
    """A model's name, and what it is called without its owner and without the format it was quantised to."""
    found = [name]
    while _SUFFIX.search(found[-1]):
        found.append(_SUFFIX.sub("", found[-1]))
    return list(dict.fromkeys([*found, *(each.split("/")[-1] for each in found)]))


@lru_cache(maxsize=8)
def _configs(folder: Path) -> dict[str, Path]:
    """Config files of a folder by the names models may have, in small letters: with the owner, and without."""
    found: dict[str, Path] = {}
    for path in sorted((p for p in folder.rglob("*.json") if p.is_file()), key=lambda p: len(p.parts), reverse=True):
        inside = path.relative_to(folder)
        named = inside.parent if path.name == "config.json" else inside.with_suffix("")
        whole = named.as_posix().replace("__", "/").lower().removesuffix(".recon")
        for each in (whole.rpartition("/")[2], whole):
            found[each] = path
    return found


def model(name: str, configs: str | Path | None = None) -> Model:
    """A model by Hugging Face id in any case: from a folder of configs, else the catalog; a quantised one may be its original.

    Raises InputError where neither has it.
    """
    folder = Path(configs) if configs is not None else None
    if folder is not None and not folder.is_dir():
        raise InputError(f"configs: there is no folder {shown(str(folder))}")
    here = _configs(folder.resolve()) if folder is not None else {}
    for each in names_of(name):
        path = here.get(each.lower())
        if path is not None:
            return hf.load(str(path))
        try:
            return hf.load(str(catalog.model_path(each)))
        except InputError:
            continue
    raise InputError(f"model {shown(name)} is not in the catalog or among the configs given")


def machine(name: str, devices: int = 1) -> System:
    """A system of that many devices by a name as tables write it: "h100_sxm", "RTX4090", "H200"; several nodes if needed.

    Raises InputError when no device is called so, or so many cannot be joined.
    """
    plain = "".join(c for c in name.lower() if c.isalnum())
    aliases = catalog.alias_table()["devices"]
    spelled = {"".join(c for c in each.lower() if c.isalnum()): each for each in (*aliases, *catalog.device_names())}
    found = spelled.get(plain) or spelled.get(plain.removeprefix("nvidia").removeprefix("amd")) or name
    system = catalog.system(found)
    if devices <= system.devices:
        return system
    try:
        return catalog.system(f"{devices}x {found}")
    except InputError:
        for larger in catalog.system_names():
            cluster = catalog.system(larger)
            if cluster.device == system.device and cluster.capacity >= devices:
                return catalog.system(f"{devices}x {larger}")
        raise
