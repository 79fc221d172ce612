"""Planning: how many devices, which rules hold, what to change, and what the symbols stand for."""

from rooflab.plan.capacity import Axis, Capacity, Sized, capacity, fleet
from rooflab.plan.checks import Check, check
from rooflab.plan.glossary import Term, glossary
from rooflab.plan.hints import Hint, hints
from rooflab.plan.storage import Held, copies, ranks
from rooflab.plan.tensors import Shape, shapes

__all__ = [
    "Axis",
    "Capacity",
    "Check",
    "Held",
    "Hint",
    "Shape",
    "Sized",
    "Term",
    "capacity",
    "check",
    "copies",
    "fleet",
    "glossary",
    "hints",
    "ranks",
    "shapes",
]
