"""Progress of long steps: to standard error with `verbose`, or to whoever listens."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("groupshift_progress", default=None)


@contextmanager
def listen(callback: Callable[[str], None]) -> Iterator[None]:
    """Send the name of every step that begins in this block to `callback`."""
    token = _listener.set(callback)
    try:
        yield
    finally:
        _listener.reset(token)


def begin(step: str, verbose: int = 0) -> None:
    """Say that a step begins."""
    callback = _listener.get()
    if callback is not None:
        callback(step)
    if verbose:
        sys.stderr.write(f"[groupshift] {step}\n")
