"""Timing kernels and model steps with PyTorch; the only part of RoofLab that imports it, and only when asked to measure.

`torch` and `transformers` come with `pip install 'rooflab[measure]'`.
"""

from __future__ import annotations

import importlib
from typing import Any

from rooflab.units import InputError


def package(name: str) -> Any:
    """An optional package.

    Raises InputError saying how to install it, or what its loading complained about.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        missing = (problem.name or name).partition(".")[0]
        raise InputError(
            f"measure: {missing} is not installed; pip install 'rooflab[measure]' brings it (--dry-run needs none)"
        ) from None
    except (ImportError, OSError) as problem:
        raise InputError(f"measure: {name} does not load: {' '.join(str(problem).split())[:160]}") from None


def torch_with_gpu() -> Any:
    """PyTorch, where it can use a GPU.

    Raises InputError where there is no PyTorch or no GPU.
    """
    torch = package("torch")
    if not torch.cuda.is_available():
        built = torch.version.cuda or getattr(torch.version, "hip", None)
        why = "" if built else "; this PyTorch is built for CPUs only"
        raise InputError(
            f"measure: PyTorch finds no GPU on this machine{why}; `rooflab measure --dry-run` lists what would be run"
        )
    return torch
