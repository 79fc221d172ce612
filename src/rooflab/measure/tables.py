"""Reading tables of measured kernels: which kind of table, which rows can be trusted, and what a device may be called.

A table has one measurement a row, `latency_ms` in milliseconds, and the columns of one of the kinds in `KINDS`. A bad row
is refused with its line and the reason; the rest is kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rooflab.units import InputError, nearest, shown

Frame = Any

_WHERE = ("system", "backend", "version", "kernel_source")
_EXTRA = ("power", "power_limit", "measured_version")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of one kind of table."""

    name: str
    dtype: tuple[str, ...]
    """Columns that name number formats."""
    numbers: tuple[str, ...]
    """Columns a prediction needs: positive whole numbers, or zero where `zero` says so."""
    zero: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


KINDS: tuple[Kind, ...] = (
    Kind(name="gemm", dtype=("gemm_dtype",), numbers=("m", "n", "k")),
    Kind(
        name="attention",
        dtype=("attn_dtype", "kv_cache_dtype"),
        numbers=("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step"),
        zero=("num_key_value_heads", "step"),
        ignored=("beam_width", "window_size"),
    ),
    Kind(
        name="latent_attention",
        dtype=("mla_dtype", "kv_cache_dtype"),
        numbers=("num_heads", "batch_size", "isl", "step"),
        zero=("step",),
        ignored=("tp_size",),
    ),
    Kind(
        name="experts",
        dtype=("moe_dtype",),
        numbers=(
            "num_tokens",
            "hidden_size",
            "inter_size",
            "topk",
            "num_experts",
            "moe_tp_size",
            "moe_ep_size",
        ),
        words=("distribution",),
    ),
    Kind(name="latent_products", dtype=("bmm_dtype",), numbers=("num_tokens", "num_heads"), words=("op_name",)),
    Kind(
        name="delta_net",
        dtype=(),
        numbers=(
            "batch_size",
            "seq_len",
            "num_tokens",
            "d_conv",
            "num_k_heads",
            "head_k_dim",
            "num_v_heads",
            "head_v_dim",
        ),
        words=("phase",),
        ignored=("d_model", "model_name"),
    ),
    Kind(
        name="state_space",
        dtype=(),
        numbers=("batch_size", "seq_len", "num_tokens", "d_state", "d_conv", "nheads", "head_dim", "n_groups"),
        words=("phase",),
        ignored=("d_model", "model_name", "chunk_size"),
    ),
    Kind(
        name="collective",
        dtype=("nccl_dtype",),
        numbers=("num_gpus", "message_bytes"),
        words=("op_name",),
        ignored=("message_elems",),
    ),
    Kind(
        name="custom_all_reduce",
        dtype=("allreduce_dtype",),
        numbers=("num_gpus", "message_bytes"),
        ignored=("message_elems", "impl_variant", "implementation"),
    ),
    Kind(
        name="linear_layers",
        dtype=(),
        numbers=("num_tokens", "tp", "n_head", "n_kv_head", "n_embd", "n_expanded_embd", "vocab_size"),
        words=("op", "gpu"),
        ignored=("model", "std_ms", "use_gated_mlp", "median_ms"),
    ),
)
_SIGNS = {
    "gemm_dtype": "gemm",
    "attn_dtype": "attention",
    "mla_dtype": "latent_attention",
    "moe_dtype": "experts",
    "bmm_dtype": "latent_products",
    "head_k_dim": "delta_net",
    "d_state": "state_space",
    "nccl_dtype": "collective",
    "allreduce_dtype": "custom_all_reduce",
    "n_expanded_embd": "linear_layers",
}
"""The column that gives a kind away."""
SLOWEST = 600.0
"""Seconds above which one kernel's time is taken for a wrong unit."""
QUICKEST = 1.0e-8
"""Seconds below which it is, too: no kernel is launched in less."""
LARGEST = 1.0e12  # count
"""What no size or count of a kernel reaches."""
MOST = {"num_experts": 16384, "topk": 16384, "moe_ep_size": 16384, "moe_tp_size": 16384, "num_gpus": 16384}  # count
"""What some counts do not exceed, where each takes memory to work out."""
_EVEN = ("balanced", "uniform", "random")
"""Spreads over experts that are taken for an even one."""
DTYPES = {
    "bfloat16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "fp16": "bf16",
    "bf16": "bf16",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "e4m3": "fp8",
    "fp8_static": "fp8",
    "fp8_per_tensor": "fp8",
    "fp8_block": "fp8_block",
    "fp4": "nvfp4",
    "nvfp4": "nvfp4",
    "int8": "int8",
    "int8_sq": "int8",
    "w8a8": "int8",
    "int8_wo": "int8_wo",
    "int4": "int4_wo",
    "int4_wo": "int4_wo",
    "w4a16": "int4_wo",
    "w4afp8": "w4afp8",
    "mxfp4": "w4a16_mxfp4",
    "w4a16_mxfp4": "w4a16_mxfp4",
    "w4a8_mxfp4_mxfp8": "w4a8_mxfp4_mxfp8",
}
"""Number formats as tables spell them, in small letters -> as fits are filed."""


_PRICED = {
    "w4afp8": "int4",
    "int4_wo": "int4",
    "int8_wo": "int8_weight",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
}


EXPERT_RATES = {
    "w4afp8": "fp8",
    "int4_wo": "bf16",
    "int8_wo": "bf16",
    "w4a16_mxfp4": "bf16",
    "w4a8_mxfp4_mxfp8": "fp8",
}
"""What experts of a format are multiplied in, where their weights do not say it."""


def priced_as(dtype: str) -> str:
    """The number format that a fit's format is priced in."""
    return _PRICED.get(dtype, dtype)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that can be trusted, with their lines, and the lines that cannot, with the reason."""

    kind: Kind
    frame: Frame
    """Columns of the kind, `seconds`, `system`, `backend`, `version`, and `line` (1 is the header)."""
    refused: tuple[tuple[int, str], ...]
    unknown: tuple[str, ...] = ()
    """Columns nobody asked for."""


def load(path: str | Path) -> Frame:
    """A table from a Parquet, CSV or JSON file (records, or `{"rows": […]}`).

    Raises InputError saying which file and what to do.
    """
    path = Path(path)
    try:
        import pandas
    except ImportError:
        raise InputError("tables of measurements need pandas; run: pip install 'rooflab[data]'") from None
    if not path.exists():
        raise InputError(f"data: {shown(str(path))} does not exist")
    try:
        suffix = path.suffix.lower()
        if suffix == ".parquet":
            return pandas.read_parquet(path)
        if suffix in (".csv", ".txt", ".tsv"):
            return _text(path, "\t" if suffix == ".tsv" else ",")
        if suffix in (".json", ".jsonl"):
            return _records(path)
    except InputError:
        raise
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"data: {path.name} cannot be read: {str(error).splitlines()[0]}") from None
    raise InputError(f"data: {path.name}: write .parquet, .csv or .json")


def _text(path: Path, separator: str) -> Frame:
    """A text table whose index counts the lines below the header, blank ones too."""
    import pandas

    frame = pandas.read_csv(
        path, sep=separator, encoding="utf-8-sig", encoding_errors="replace", skip_blank_lines=False, index_col=False
    )
    return frame.dropna(how="all")


def _records(path: Path) -> Frame:
    import pandas

    text = path.read_bytes()
    if path.suffix.lower() == ".jsonl":
        rows = [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
    else:
        rows = msgspec.json.decode(text)
        rows = rows.get("rows", rows) if isinstance(rows, dict) else rows
    if not isinstance(rows, list):
        raise InputError(f"data: {path.name} holds no list of rows")
    odd = next((row for row in rows if not isinstance(row, dict)), None)
    if odd is not None:
        raise InputError(f"data: {path.name}: row {shown(odd)} is no record of columns and values")
    return pandas.DataFrame(rows)


def files(path: str | Path) -> list[Path]:
    """The tables at a path: the file itself, or every table in the folder and in its `operators` folder."""
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"data: {shown(str(path))} does not exist")
    folder = path / "operators" if (path / "operators").is_dir() else path
    found = [p for p in sorted(folder.iterdir()) if p.suffix.lower() in (".parquet", ".csv", ".json", ".jsonl")]
    if not found:
        raise InputError(f"data: {shown(str(folder))} holds no .parquet, .csv or .json table")
    return found


def kind_of(columns: list[str]) -> Kind | None:
    """The kind of table these columns make, None if none."""
    for sign, name in _SIGNS.items():
        if sign in columns:
            return next(kind for kind in KINDS if kind.name == name)
    return None


def check(frame: Frame, name: str = "table", strict: bool = True) -> Table:
    """The rows of a frame that can be trusted.

    Raises InputError where no row can be read: no known kind, a column missing, or with `strict` one nobody knows.
    """
    kind = kind_of(list(frame.columns))
    if kind is None:
        raise InputError(f"{name}: not a table of kernels; it needs one of the columns {', '.join(_SIGNS)}")
    linear = kind.name == "linear_layers"
    time = "median_ms" if linear else "latency_ms"
    needed = [*kind.dtype, *kind.numbers, *kind.words, time, *(() if linear else ("system", "backend"))]
    unknown = _columns(frame, kind, needed, name, strict)
    refused: dict[int, str] = {}
    numbered = frame.index.is_unique and frame.index.dtype.kind == "i"
    clean = frame.copy() if numbered else frame.reset_index(drop=True)
    clean["line"] = clean.index + 2
    for column in (time, *kind.numbers):
        clean[column] = _numbers(clean, column, column in kind.zero, refused, whole=column != time)
    if "window_size" in clean and "window_size" in kind.ignored:
        clean["window_size"] = clean["window_size"].fillna(0)
        clean["window_size"] = _numbers(clean, "window_size", True, refused)
    clean["seconds"] = clean[time] / 1000.0  # count
    for line in clean.loc[clean["seconds"] > SLOWEST, "line"]:
        refused.setdefault(int(line), f"{time} is above {SLOWEST:.0f} s: is the unit milliseconds?")
    for line in clean.loc[clean["seconds"] < QUICKEST, "line"]:
        refused.setdefault(int(line), f"{time} is below {QUICKEST:.0e} s: is the unit milliseconds?")
    if "distribution" in kind.words:
        for line, word in zip(clean["line"], clean["distribution"], strict=True):
            if isinstance(word, str) and not _spread(word):
                refused.setdefault(
                    int(line), f"distribution {shown(word)} is not balanced or power_law_ and an exponent but 1"
                )
    for column in (*kind.dtype, *kind.words, *(() if linear else ("system", "backend"))):
        for line in clean.loc[clean[column].isna(), "line"]:
            refused.setdefault(int(line), f"{column} is missing")
    clean = clean[~clean["line"].isin(refused)]
    if linear:
        clean = clean.assign(system=clean["gpu"], backend="vidur", version="")
    if "version" not in clean:
        clean = clean.assign(version="")
    return Table(kind=kind, frame=clean, refused=tuple(sorted(refused.items())), unknown=tuple(unknown))


def _columns(frame: Frame, kind: Kind, needed: list[str], name: str, strict: bool) -> list[str]:
    """Columns nobody asked for, after checking that none is missing."""
    missing = [column for column in needed if column not in frame.columns]
    if missing:
        hint = nearest(missing[0], [str(c) for c in frame.columns])
        raise InputError(f"{name}: line 1: the {kind.name} table lacks the column {', '.join(missing)}{hint}")
    known = {*needed, *kind.ignored, *_WHERE, *_EXTRA}
    unknown = [str(column) for column in frame.columns if column not in known]
    if unknown and strict:
        raise InputError(
            f"{name}: line 1: unknown column {', '.join(unknown)}; the {kind.name} table has {', '.join(needed)}"
        )
    return unknown


def _spread(word: str) -> bool:
    """Whether a spread over experts is one that can be worked out: an even one, or a power law."""
    if word in _EVEN:
        return True
    try:
        exponent = float(word.removeprefix("power_law_")) if word.startswith("power_law_") else 0.0
    except ValueError:
        return False
    return 0.0 < exponent <= 10.0 and exponent != 1.0


def _numbers(frame: Frame, column: str, zero: bool, refused: dict[int, str], whole: bool = True) -> Any:
    """A column as floats; what is no positive (or, with `whole`, no whole) number of a size that kernels have is refused."""
    import numpy
    import pandas

    values = pandas.Series(pandas.to_numeric(frame[column], errors="coerce"), dtype=float)
    most = MOST.get(column, LARGEST)
    bad = ~numpy.isfinite(values) | (values < 0 if zero else values <= 0) | (values > most)
    if whole:
        bad |= values != numpy.floor(values)
    for line, raw in zip(frame.loc[bad, "line"], frame.loc[bad, column], strict=True):
        least = "zero or more" if zero else "above zero"
        number = f"{'whole ' if whole else ''}number {least}{_upto(raw, most)}"
        refused.setdefault(int(line), f"{column} is {shown(raw)}: it must be a {number}")
    return values


def _upto(raw: Any, most: float) -> str:
    """The upper limit, said where it is passed."""
    try:
        return f", {most:.0f} at most" if float(raw) > most else ""
    except (TypeError, ValueError):
        return ""
