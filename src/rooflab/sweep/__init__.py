"""Searching: spaces of scenarios, frontiers, the sharded sweep, hardware co-design and suggestions."""

from rooflab.sweep.evaluate import run
from rooflab.sweep.frame import Frame
from rooflab.sweep.fronts import frontier
from rooflab.sweep.joint import Codesign, codesign
from rooflab.sweep.layouts import (
    fastest,
    pareto,
    sensitivities,
    sharded,
    smallest_fit,
    study,
    top_by_memory,
)
from rooflab.sweep.smallest import SLACK, SUGGEST_CP, SUGGEST_PP, SUGGEST_TP, Suggestion, auto_suggest
from rooflab.sweep.spaces import Space, space

__all__ = [
    "SLACK",
    "SUGGEST_CP",
    "SUGGEST_PP",
    "SUGGEST_TP",
    "Codesign",
    "Frame",
    "Space",
    "Suggestion",
    "auto_suggest",
    "codesign",
    "fastest",
    "frontier",
    "pareto",
    "run",
    "sensitivities",
    "sharded",
    "smallest_fit",
    "space",
    "study",
    "top_by_memory",
]
