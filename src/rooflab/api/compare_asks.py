"""The contract of keeping and comparing: scenarios side by side, a snapshot to save, a report to hand on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from rooflab.api.asks import Name, _Report
from rooflab.store import Saved
from rooflab.units import Bytes, Seconds

MOST_CASES = 12
Scenario = dict[str, Any]
"""The fields of an estimate's question."""
Title = Annotated[str, msgspec.Meta(max_length=200)]


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of a comparison."""

    name: Name
    scenario: Scenario
    version: Title = ""
    """Of a saved scenario, the engine that saved it."""
    digest: dict[str, Any] = {}
    """And its figures then: what has moved since is said."""


class _Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Questions about scenarios rather than about one model."""


class CompareAsk(_Question, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="compare"):
    """Scenarios side by side, number by number; with `profiles`, each of them under each profile."""

    cases: Annotated[list[Case], msgspec.Meta(min_length=1, max_length=MOST_CASES)]
    profiles: Annotated[list[str], msgspec.Meta(max_length=MOST_CASES)] = []


class SnapshotAsk(_Question, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="snapshot"):
    """A scenario as it is saved: whole, with its figures, and as a command line."""

    scenario: Scenario


class DocumentAsk(_Question, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="document"):
    """A scenario as one self-contained page of HTML, with its baseline if there is one."""

    scenario: Scenario
    baseline: Scenario | None = None
    title: Title = ""
    baseline_name: Title = ""
    link: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    """Where the page is that shows the same: http:// or https://."""
    date: Title = ""
    """As it is printed; the engine reads no clock."""


class UnpackAsk(_Question, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unpack"):
    """The scenarios of an exported file, checked."""

    text: str
    """The file's content."""


class ShortenAsk(_Question, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="shorten"):
    """The shortest way to say a model that is given as the content of a config.json, for a link."""

    model: dict[str, Any]


Asks = CompareAsk | SnapshotAsk | DocumentAsk | UnpackAsk | ShortenAsk


class ColumnReport(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario of a comparison."""

    name: str
    scenario: Scenario
    """Every field of its question, defaults too; as it was given where it is refused."""
    fits: bool | None
    """None where it cannot be evaluated."""
    error: str
    version: str
    moved: list[str]
    """What differs from the figures it was saved with."""
    notes: list[str]


class RowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over the columns."""

    group: str
    key: str
    title: str
    unit: str
    """SI, "1" for a share or a count, or nothing for words."""
    better: Literal["down", "up", "none"]
    values: list[float | bool | str | None]
    best: list[int]
    """Columns that hold the best value; none where all are the same."""
    differs: bool


class StageReport(msgspec.Struct, frozen=True, kw_only=True):
    """One operator over the columns: its time in a step, nothing where it has no such operator."""

    phase: Literal["prefill", "decode"]
    part: str
    name: str
    times: list[Seconds | None]
    bounds: list[str | None]
    best: list[int]
    differs: bool


class SwitchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One switch on which two profiles differ, and the first column's figures with this one switch as in the second."""

    key: str
    means: str
    unit: str
    """Of both values: s, byte, share, or nothing for words."""
    first: float | bool | str
    second: float | bool | str
    tpot: Seconds | None
    ttft: Seconds | None
    used: Bytes | None
    """Memory of one device."""
    tpot_before: Seconds | None
    ttft_before: Seconds | None
    used_before: Bytes
    error: str


class CompareReport(_Report, frozen=True, kw_only=True, tag="compare"):
    finding: str
    """Which column is best at what matters, in a sentence or two."""
    columns: list[ColumnReport]
    rows: list[RowReport]
    stages: list[StageReport]
    switches: list[SwitchReport]
    """Where the comparison is of two profiles."""


class SnapshotReport(_Report, frozen=True, kw_only=True, tag="snapshot"):
    name: str
    """What the scenario is called unless it is given a name."""
    scenario: Scenario
    """Its question without anything that only this machine has."""
    digest: dict[str, Any]
    command: str
    """What asks it on a command line; with content of its own it needs `question` in a file."""
    question: dict[str, Any]


class DocumentReport(_Report, frozen=True, kw_only=True, tag="document"):
    name: str
    """A file's name for it, without its ending."""
    html: str


class UnpackReport(_Report, frozen=True, kw_only=True, tag="unpack"):
    scenarios: list[Saved]


class ShortenReport(_Report, frozen=True, kw_only=True, tag="shorten"):
    model: str | dict[str, Any]
    """A catalog name where one has every figure of it, else the config without what makes no difference."""


Reports = CompareReport | SnapshotReport | DocumentReport | UnpackReport | ShortenReport
