"""Searching: spaces of scenarios, frontiers, the sharded sweep, hardware co-design and suggestions."""

from rooflab.sweep.frame import Frame
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
from rooflab.sweep.pareto import frontier
from rooflab.sweep.smallest import SLACK, SUGGEST_CP, SUGGEST_PP, SUGGEST_TP, Suggestion, auto_suggest

__all__ = [
    "SLACK",
    "SUGGEST_CP",
    "SUGGEST_PP",
    "SUGGEST_TP",
    "Codesign",
    "Frame",
    "Suggestion",
    "auto_suggest",
    "codesign",
    "fastest",
    "frontier",
    "pareto",
    "sensitivities",
    "sharded",
    "smallest_fit",
    "study",
    "top_by_memory",
]
