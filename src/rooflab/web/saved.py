"""Saved scenarios over the network: the same file that the command line uses, for the page of this machine alone."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get, post
from litestar.enums import RequestEncodingType
from litestar.params import Body

from rooflab.api.snapshots import scenario_ask
from rooflab.store import MOST, Saved, Store
from rooflab.units import InputError, shown
from rooflab.web.guard import refuse_files

LARGEST = 4_000_000
"""Bytes of scenarios at once."""


class Shelf(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is saved, or why it cannot be had."""

    saved: list[Saved] = []
    where: str = ""
    """The file; nothing where this server keeps none."""
    error: str = ""
    names: list[str] = []
    """What those that were just added are called."""


class Added(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Scenarios to keep; a name that is taken gets the next free number, unless `replace`."""

    records: Annotated[list[Saved], msgspec.Meta(max_length=MOST)]
    replace: bool = False


class Renamed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A scenario's new name."""

    name: str
    to: str


class Deleted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Scenarios to forget."""

    names: Annotated[list[str], msgspec.Meta(max_length=MOST)]


def _store(request: Request[Any, Any, Any]) -> Store:
    """The server's store.

    Raises InputError where it keeps none.
    """
    found = request.app.state.store
    if found is None:
        raise InputError("this server keeps no scenarios; they stay in your browser")
    return found


def _shelf(request: Request[Any, Any, Any], names: list[str] | None = None) -> Shelf:
    """All that is saved."""
    found = request.app.state.store
    if found is None:
        return Shelf()
    try:
        return Shelf(saved=found.all(), where=str(found.path), names=names or [])
    except InputError as problem:
        return Shelf(where=str(found.path), error=str(problem))


def _refused(request: Request[Any, Any, Any], problem: InputError) -> Shelf:
    """Why not, and what is saved: another program may have changed it since it was last read."""
    found = _shelf(request)
    return Shelf(saved=found.saved, where=found.where, error=str(problem))


def _checked(record: Saved) -> Saved:
    """A record whose question is one and reads no file of this machine."""
    refuse_files(record.ask)
    scenario_ask(record.ask, shown(record.name))
    return record


@get("/api/saved", sync_to_thread=True)
def saved(request: Request[Any, Any, Any]) -> Shelf:
    """Every saved scenario."""
    return _shelf(request)


@post("/api/saved", status_code=200, sync_to_thread=True, request_max_body_size=LARGEST)
def add(request: Request[Any, Any, Any], data: Annotated[Added, Body(media_type=RequestEncodingType.JSON)]) -> Shelf:
    """Keep scenarios: {records, replace} → what is saved, and the new ones' names."""
    try:
        store, records = _store(request), [_checked(record) for record in data.records]
        if data.replace:
            return _shelf(request, [store.save(record, replace=True).name for record in records])
        return _shelf(request, [record.name for record in store.save_all(records)])
    except InputError as problem:
        return _refused(request, problem)


@post("/api/saved/rename", status_code=200, sync_to_thread=True)
def rename(
    request: Request[Any, Any, Any], data: Annotated[Renamed, Body(media_type=RequestEncodingType.JSON)]
) -> Shelf:
    """Give a scenario another name."""
    try:
        return _shelf(request, [_store(request).rename(data.name, data.to).name])
    except InputError as problem:
        return _refused(request, problem)


@post("/api/saved/delete", status_code=200, sync_to_thread=True)
def delete(
    request: Request[Any, Any, Any], data: Annotated[Deleted, Body(media_type=RequestEncodingType.JSON)]
) -> Shelf:
    """Forget scenarios, all or none."""
    try:
        _store(request).delete(data.names)
        return _shelf(request)
    except InputError as problem:
        return _refused(request, problem)


HANDLERS = [saved, add, rename, delete]
