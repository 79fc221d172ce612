"""The local server: the page, the engine's one door over POST and WebSocket, and an OpenAPI page. Loopback by default."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import logging
import mimetypes
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import uvicorn
from litestar import Litestar, Request, Response, WebSocket, get, post, websocket
from litestar.enums import RequestEncodingType
from litestar.exceptions import HTTPException, WebSocketDisconnect, WebSocketException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.params import Body
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, Receive, Scope, Send

from rooflab import __version__
from rooflab.api import answer, schema
from rooflab.api.simulate import for_a_page
from rooflab.api.stream import stream
from rooflab.store import Store
from rooflab.units import InputError, shown
from rooflab.web.built import Home, page
from rooflab.web.guard import refuse_files
from rooflab.web.reference import Reference
from rooflab.web.saved import HANDLERS

LARGEST_ASK = 2_000_000
"""Bytes; a config.json is a few thousand."""
LONGEST_PATH = 300
"""Characters of a path: the page's own are shorter."""
_GONE = (WebSocketException, RuntimeError, OSError)
"""What sending to a reader who has left, or from a server that stops, ends in."""
_TELL_EVERY = 0.1
"""Seconds between words on how far a long answer is."""
for _kind, _ending in (("application/wasm", ".wasm"), ("text/javascript", ".mjs"), ("text/javascript", ".js")):
    mimetypes.add_type(_kind, _ending)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Question(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A question with the number its answer carries."""

    id: int = 0
    ask: dict[str, Any]


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a socket takes: a question, with `progress` one whose progress is told, with `parts` one whose rows come as they
    are found; or `cancel`, which ends one of those early."""

    id: int = 0
    ask: dict[str, Any] = {}
    progress: bool = False
    parts: bool = False
    cancel: bool = False


class Reply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to a question: a report, or why there is none."""

    id: int
    report: dict[str, Any] | None = None
    error: str | None = None
    progress: tuple[int, int] | None = None
    """(done, total), of a question that is being answered."""


def _refuse(ask: dict[str, Any]) -> None:
    """No files of this machine, and nothing that takes minutes."""
    refuse_files(ask)
    if ask.get("kind") == "simulate" and isinstance(ask.get("requests"), int):
        for_a_page(ask["requests"])


def reply(question: Question | Message, **told: Any) -> Reply:
    """Answer one question; bad input is an error in words. `told` are progress and cancel of `answer`."""
    try:
        _refuse(question.ask)
        return Reply(id=question.id, report=answer(question.ask, **told))
    except InputError as problem:
        return Reply(id=question.id, error=str(problem))
    except Exception as problem:  # a fault of the engine must not take the page's line down with it
        logging.getLogger("rooflab").exception("a question failed: %s", question.ask.get("kind"))
        return Reply(id=question.id, error=f"the engine failed: {type(problem).__name__}: {problem}")


def parts(question: Message, stopped: Callable[[], bool]) -> Iterator[str]:
    """The parts of an answer as JSON; what goes wrong is an error in words."""
    try:
        _refuse(question.ask)
        yield from stream(question.ask, stopped)
    except InputError as problem:
        yield json.dumps({"error": str(problem)})
    except Exception as problem:
        logging.getLogger("rooflab").exception("a question failed: %s", question.ask.get("kind"))
        yield json.dumps({"error": f"the engine failed: {type(problem).__name__}: {problem}"})


@post("/api/ask", status_code=200, sync_to_thread=True, request_max_body_size=LARGEST_ASK)
def ask(data: Annotated[Question, Body(media_type=RequestEncodingType.JSON)]) -> Reply:
    """One question, one answer: {id, ask} → {id, report} or {id, error}."""
    return reply(data)


class _Line:
    """A socket's questions: short ones are answered at once, long ones aside, so that these never make those wait."""

    def __init__(self, socket: WebSocket[Any, Any, Any]):
        self._socket = socket
        self._encoder = msgspec.json.Encoder()
        self._ends: dict[int, threading.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, found: Reply) -> None:
        await self._socket.send_data(self._encoder.encode(found).decode())

    async def take(self, message: Message) -> None:
        """Answer a message, or begin to."""
        if message.cancel:
            if end := self._ends.get(message.id):
                end.set()
        elif message.progress or message.parts:
            end = self._ends[message.id] = threading.Event()
            task = asyncio.create_task((self._parts if message.parts else self._long)(message, end))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            await self.send(reply(message))

    async def _long(self, message: Message, end: threading.Event) -> None:
        """Answer in a thread, and say how far it is a few times a second."""
        far: list[tuple[int, int]] = []
        work = asyncio.create_task(
            asyncio.to_thread(reply, message, progress=lambda done, total: far.append((done, total)), cancel=end.is_set)
        )
        while not (await asyncio.wait({work}, timeout=_TELL_EVERY))[0]:
            if far and not end.is_set():
                with contextlib.suppress(*_GONE):
                    await self.send(Reply(id=message.id, progress=far[-1]))
            del far[:-1]
        del self._ends[message.id]
        with contextlib.suppress(*_GONE):
            await self.send(work.result())

    async def _parts(self, message: Message, end: threading.Event) -> None:
        """Answer in a thread, and send every part as it comes."""
        try:
            pieces = parts(message, end.is_set)
            while (text := await asyncio.to_thread(next, pieces, None)) is not None:
                await self._socket.send_data(f'{{"id":{message.id},{text[1:]}')
        except _GONE:
            return
        finally:
            self._ends.pop(message.id, None)

    def close(self) -> None:
        """End whatever is still being answered."""
        for end in self._ends.values():
            end.set()


@websocket("/api/ws")
async def asks(socket: WebSocket[Any, Any, Any]) -> None:
    """The same over a socket: {id, ask, progress} is told {id, progress: [done, total]} meanwhile, {id, cancel} ends it early.

    {id, ask, parts} is sent {id, part} with rows as they are found, and the report at the end.
    """
    await socket.accept()
    decoder, line = msgspec.json.Decoder(Message), _Line(socket)
    try:
        while True:
            text = await socket.receive_data(mode="text")
            try:
                message = decoder.decode(text)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
                await line.send(Reply(id=0, error=f"message: {problem}"))
            else:
                await line.take(message)
    except (WebSocketDisconnect, *_GONE):
        return
    finally:
        line.close()


@get("/api/health", sync_to_thread=False)
def health() -> dict[str, str]:
    """Which engine this is."""
    return {"engine": "server", "version": __version__}


@get("/api/contract", sync_to_thread=False)
def contract() -> dict[str, Any]:
    """JSON Schema of questions and reports, with units."""
    return schema()


@get(["/", "/index.html"], include_in_schema=False)
async def home(request: Request[Any, Any, Any]) -> Response[str]:
    """The page, with stored reports in it."""
    return Response(request.app.state.home.text(), media_type="text/html", headers={"Cache-Control": "no-cache"})


def _too_deep(_: Request[Any, Any, Any], problem: RecursionError) -> Response[dict[str, Any]]:
    """JSON nested deeper than a reader of it goes."""
    return Response({"status_code": 400, "detail": f"the body cannot be read: {problem}"}, status_code=400)


def _local(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _own(host: str, origin: str, anywhere: bool) -> bool:
    """Whether a request is for this machine, or `anywhere`, and from the page of that very host, or from no page."""
    try:
        asked, sent = urlsplit(f"//{host}").hostname or "", urlsplit(origin).netloc if origin else host
    except ValueError:  # no such host
        return False
    return sent == host and (anywhere or _local(asked))


def same_origin(app: ASGIApp) -> ASGIApp:
    """Refuse what other sites' pages send, and names that only pretend to be this machine."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope.get("headers", [])}
            if not _own(headers.get("host", ""), headers.get("origin", ""), scope["app"].state.open):
                raise HTTPException(status_code=403, detail="only the page of this server may ask")
            path = scope["path"]
            # Names that no file of the page has, and that the system's own calls would refuse.
            if "\0" in path or "/." in path or len(path) > LONGEST_PATH:
                raise HTTPException(status_code=404, detail="there is no such page")
        await app(scope, receive, send)

    return guarded


def create(*, anywhere: bool = False, store: Store | None = None) -> Litestar:
    """The application; `anywhere` takes names other than this machine's own. Without a store readers keep their own."""
    home_page = Home()  # made before the first reader asks for it
    plugins = [Reference(), JsonRenderPlugin(path="/openapi.json")]
    app = Litestar(
        route_handlers=[
            ask,
            asks,
            health,
            contract,
            home,
            *HANDLERS,
            create_static_files_router("/", directories=[page()]),
        ],
        middleware=[same_origin],
        openapi_config=OpenAPIConfig(title="RoofLab", version=__version__, path="/api/schema", render_plugins=plugins),
        response_headers=_HEADERS,
        exception_handlers={RecursionError: _too_deep},
        debug=False,
    )
    app.state.open = anywhere
    app.state.home = home_page
    app.state.store = store
    return app


def free_port(host: str, port: int) -> int:
    """The port asked for, or a free one where it is 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, port))
        except OSError as problem:
            if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
                raise InputError(
                    f"host: {shown(host)} is no address of this machine ({problem.strerror}); "
                    "leave it out for 127.0.0.1, or let others in with 0.0.0.0"
                ) from None
            raise InputError(
                f"port: {host}:{port} cannot be used ({problem.strerror}); leave it out for a free one"
            ) from None
        return int(found.getsockname()[1])


def serve(host: str = "127.0.0.1", port: int = 0, open_browser: bool = True, store: str | Path | None = None) -> None:
    """Serve the page until interrupted, and open it in the browser.

    The store is that of the command line; when others are let in it is shared only where it is named.
    Raises InputError where the page or the port cannot be had.
    """
    port = free_port(host, port)
    kept = Store(store) if store or _local(host) else None
    app = create(anywhere=not _local(host), store=kept)
    bracketed = f"[{host}]" if ":" in host else host
    url = f"http://{bracketed}:{port}/"
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", ws_max_size=LARGEST_ASK)
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, url, open_browser).run()


class _Server(uvicorn.Server):
    """Says where it is once it listens there, not before."""

    def __init__(self, config: uvicorn.Config, url: str, open_browser: bool):
        super().__init__(config)
        self._url, self._open = url, open_browser

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            return
        print(f"RoofLab is at {self._url} (stop with Ctrl-C)", flush=True)
        if self._open:
            threading.Thread(target=webbrowser.open, args=[self._url], daemon=True).start()
