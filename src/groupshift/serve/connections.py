"""How long a request may take and how many connections there are: what is sent by half must not be held for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
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
        there = [one for one in self.connections if isinstance(one, Connection)]
        there = [one for one in there if not one.transport.is_closing()]
        if len(there) > MOST_CONNECTIONS:
            # Who has waited longest makes room, so that idle connections do not keep the page's owner out.
            waiting = [one for one in there if one.is_waiting]
            min(waiting, key=lambda one: one._limit.when()).transport.abort()

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
