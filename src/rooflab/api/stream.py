"""Long answers piece by piece, as JSON: rows as they come, how far it is, and the report at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import msgspec

from rooflab.api import ask_of, plain_report, report_of
from rooflab.api.codesign import codesign_parts
from rooflab.api.design import (
    figures_of,
    sharded_report,
    space_of,
    study_of,
    sweep_report,
)
from rooflab.api.design_asks import CodesignAsk, CodesignReport, ShardedAsk, SweepAsk, Table
from rooflab.api.tables import kept_rows, table_of
from rooflab.sweep.pieces import Piece, sharded_pieces, space_pieces
from rooflab.units import InputError

_JSON = msgspec.json.Encoder()


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a long answer that are ready; none where only the progress is known."""

    done: int
    total: int
    table: Table | None = None
    meets: list[bool] | None = None
    """Whether each row meets the question's conditions, where it has any."""


def stream(data: Mapping[str, Any], stopped: Callable[[], bool] = bool) -> Iterator[str]:
    """A question as plain data in; parts as JSON texts out, `{"part": …}`, and at the end `{"report": …}` or `{"error": …}`.

    The parts of sweeps and sharded sweeps hold the rows that the question asks for, the report at the end only those it
    names (frontier, best, …). A question that is answered in one go has no parts. `stopped` is asked between two parts:
    then the report is of what came, and a joint search, which has no partial answer, says that it was stopped.
    """
    try:
        ask = ask_of(data)
        if isinstance(ask, SweepAsk):
            report = yield from _sweep(ask, stopped)
        elif isinstance(ask, ShardedAsk):
            report = yield from _sharded(ask, stopped)
        elif isinstance(ask, CodesignAsk):
            report = yield from _codesign(ask, stopped)
        else:
            report = report_of(ask)
        yield _JSON.encode({"report": plain_report(report)}).decode()
    except InputError as problem:
        yield _JSON.encode({"error": str(problem)}).decode()
    except RecursionError:
        yield _JSON.encode({"error": "ask: is nested too deeply"}).decode()


def _part(piece: Piece, ask: SweepAsk | ShardedAsk) -> str:
    rows = ask.rows
    positions = None if rows == "all" else kept_rows(piece.frame, rows, [])
    if rows == "distinct":
        same = piece.frame.column("same_as")
        first = piece.done - len(piece.frame)
        positions = [i for i in range(len(piece.frame)) if same[i] == i + first]
    where = ask.where if isinstance(ask, SweepAsk) else []
    meeting = set(piece.frame.positions(*where)) if where else None
    shown = range(len(piece.frame)) if positions is None else positions
    meets = None if meeting is None else [at in meeting for at in shown]
    part = Part(done=piece.done, total=piece.total, table=table_of(piece.frame, positions, ask.columns), meets=meets)
    return _JSON.encode({"part": part}).decode()


def _rows(
    pieces: Generator[Piece, bool | None, Any], ask: SweepAsk | ShardedAsk, stopped: Callable[[], bool]
) -> Generator[str, None, Any]:
    """Every piece as a part; returns the frame of all."""
    stop: bool | None = None
    while True:
        try:
            piece = pieces.send(stop)
        except StopIteration as end:
            return end.value
        if ask.rows != "pareto":
            yield _part(piece, ask)
        else:
            yield _JSON.encode({"part": Part(done=piece.done, total=piece.total)}).decode()
        stop = bool(stopped())


def _sweep(ask: SweepAsk, stopped: Callable[[], bool]) -> Generator[str, None, Any]:
    asked, notes = space_of(ask)
    pieces = space_pieces(asked, figures=figures_of(ask))
    frame = yield from _rows(pieces, ask, stopped)
    return sweep_report(ask, asked, frame, notes, named=True)


def _sharded(ask: ShardedAsk, stopped: Callable[[], bool]) -> Generator[str, None, Any]:
    asked, notes = study_of(ask)
    frame = yield from _rows(sharded_pieces(asked, ask.axes), ask, stopped)
    return sharded_report(ask, asked, frame, notes, named=True)


def _codesign(ask: CodesignAsk, stopped: Callable[[], bool]) -> Generator[str, None, Any]:
    for part in codesign_parts(ask, stopped):
        if isinstance(part, CodesignReport):
            return part
        done, total = part
        yield _JSON.encode({"part": Part(done=done, total=total)}).decode()
