"""RoofLab: memory fit, latency, throughput, cost and energy of LLM inference, from first principles.

    import rooflab
    rooflab.estimate("llama-3.1-8b", on="h100-sxm", batch=32, prompt=1024, output=256)

Every question is a function here and returns a `Result`: a mapping over the report, with attributes, that prints as a
page. The engine's modules lie below under the same roof, so a few of them can be called as well as looked into:
`rooflab.estimate(…)` asks, `from rooflab.estimate import Workload` reaches the engine.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Generic, ParamSpec, TypeVar

    from rooflab import notebook
    from rooflab.notebook import Result, answer, devices, fit, inspect, models, schema, step, systems
    from rooflab.units import InputError

    _Parameters = ParamSpec("_Parameters")
    _Answer = TypeVar("_Answer")

    class _Both(ModuleType, Generic[_Parameters, _Answer]):
        def __call__(self, *args: _Parameters.args, **options: _Parameters.kwargs) -> _Answer: ...

    def _both(question: Callable[_Parameters, _Answer]) -> _Both[_Parameters, _Answer]: ...

    catalog, chip = _both(notebook.catalog), _both(notebook.chip)
    estimate, explain = _both(notebook.estimate), _both(notebook.explain)

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "Result",
    "__version__",
    "answer",
    "catalog",
    "chip",
    "devices",
    "estimate",
    "explain",
    "fit",
    "inspect",
    "models",
    "schema",
    "step",
    "systems",
]

_MODULES = frozenset({"catalog", "chip", "estimate", "explain"})
"""Names that are a question and a module of the engine at once: the module is what they name, and it can be called."""


class _Question(ModuleType):
    """A module that asks when called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _asked(self)(*args, **options)

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(_asked(self))


def _asked(module: ModuleType) -> Any:
    return getattr(import_module("rooflab.notebook"), module.__name__.rpartition(".")[2])


class _Package(ModuleType):
    """This package; importing a submodule binds it here, and that is when it learns to be called."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _MODULES and type(value) is ModuleType:
            value.__class__ = _Question
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"rooflab.{name}")
    if name in __all__:
        return getattr(import_module("rooflab.units" if name == "InputError" else "rooflab.notebook"), name)
    raise AttributeError(f"module 'rooflab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Package
