"""Who may ask, and how much and how long: browsers of this machine that know the token, in time, within bounds of size."""

from __future__ import annotations

import asyncio
import errno
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from groupshift.serve.jobs import Refused

# Seconds for the head of a request, for a short body, and for a browser that takes nothing of an answer.
PATIENCE = 30.0
# Bytes per second of a slow tunnel: a long body has more time.
SLOWEST = 256 * 1024
MOST_CONNECTIONS = 100


class Connection(H11Protocol):
    """A connection that is closed when the other side keeps it waiting."""

    _limit: asyncio.TimerHandle

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a request, for the rest of one that is answered already, or for the answer to be taken."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit = self.loop.call_later(PATIENCE, self._end)
        there = [
            one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()
        ]
        if len(there) > MOST_CONNECTIONS:
            # Who has waited longest makes room, so that idle connections do not keep the page's owner out.
            min(
                filter(lambda one: one.is_waiting, there), key=lambda one: one._limit.when()
            ).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._limit.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_again()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_again()

    def _wait_again(self) -> None:
        self._limit.cancel()
        self._limit = self.loop.call_later(PATIENCE, self._end)

    def _end(self) -> None:
        if self.is_waiting:
            self.transport.abort()


@asynccontextmanager
async def in_time(request: Request, most: int) -> AsyncIterator[None]:
    """Refuse a body of at most so many bytes that is not read by the end of its time, however its pieces come."""
    size = min(int(request.headers.get("content-length", most)), most)
    try:
        async with asyncio.timeout(PATIENCE + size / SLOWEST):
            yield
    except TimeoutError as error:
        raise Refused(
            408, "This took too long to arrive. Check the connection, and send it again."
        ) from error


GIGA = 1024**3
# Room that is left to others on the disk.
SPARED = 256 * 1024**2
NO_ROOM = "The disk has no room for this file. Free some, or name another --folder at the start."


@asynccontextmanager
async def received(request: Request, folder: Path, *, most: int) -> AsyncIterator[Path]:
    """The body as a file, gone when the block ends unless it is renamed; refused above `most` bytes or on a full disk."""
    room = min(most, shutil.disk_usage(folder).free - SPARED)
    _check_size(int(request.headers.get("content-length", 0)), most, room)
    part = folder / f".{secrets.token_hex(8)}.part"
    try:
        written = 0
        with open(part, "xb") as file:
            async with in_time(request, most):
                async for piece in request.stream():
                    written += len(piece)
                    _check_size(written, most, room)
                    file.write(piece)
        if not written:
            raise Refused(400, "The file is empty: it has no header and no rows. Check how it was made.")
        yield part
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Refused(507, NO_ROOM) from error
        raise
    finally:
        part.unlink(missing_ok=True)


def _check_size(size: int, most: int, room: int) -> None:
    if size > most:
        raise Refused(
            413,
            f"The file is larger than {most / GIGA:g} GB, the most that this page takes. Start `groupshift serve` with a "
            "larger --max-upload, or use the command line, which reads files where they are.",
        )
    if size > room:
        raise Refused(507, NO_ROOM)


# Scripts and styles are files of the package; nothing is taken from elsewhere, and no text becomes markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
SAFE_METHODS = ("GET", "HEAD")


class Guard:
    """Lets a request through to the page, its token taken off the path, or refuses it with a sentence."""

    def __init__(self, app: ASGIApp, *, token: str, port: int):
        self.app = app
        self.token = token.encode()
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        token, _, path = scope["path"].removeprefix("/").partition("/")
        if refused := self.refusal(scope["method"], Headers(scope=scope), token, path):
            status, sentence = refused
            await PlainTextResponse(sentence, status)(scope, receive, send_guarded)
            return
        inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}
        await self.app(inner, receive, send_guarded)

    def refusal(
        self, method: str, headers: Mapping[str, str], token: str, path: str
    ) -> tuple[int, str] | None:
        """Why a request is refused, with its status; None for one that may pass."""
        host = headers.get("host", "")
        # A foreign name that leads to this machine (DNS rebinding) comes with its own host.
        if host not in self.hosts:
            return 403, "This page answers to 127.0.0.1 alone."
        if not secrets.compare_digest(token.encode(), self.token):
            return 404, "Nothing is here. Use the whole address that `groupshift serve` printed."
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if method not in SAFE_METHODS and origin != f"http://{host}":
            return 403, "Only this page itself may change something here."
        if site in (None, "none", "same-origin"):
            return None
        # The address may be followed from elsewhere to the first page, as from a terminal or a note.
        is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if method == "GET" and is_visit and path == "":
            return None
        return 403, "Another site asked for this. Open the page by its own address."
