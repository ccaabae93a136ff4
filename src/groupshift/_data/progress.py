"""Progress of long steps, what is done of them and how long the rest will take: to standard error, or to whoever listens."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

Result = TypeVar("Result")

# Seconds between two lines about one step on standard error; a listener hears of everything.
BETWEEN_LINES = 1.0
# A rest is guessed from what was done in so many seconds or more.
ENOUGH_SECONDS = 1.0


@dataclass
class _Step:
    """The step under way."""

    name: str
    verbose: int
    last_line: float


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("groupshift_progress", default=None)
_step: ContextVar[_Step | None] = ContextVar("groupshift_step", default=None)


@contextmanager
def listen(callback: Callable[[str], None]) -> Iterator[None]:
    """Send the name of every step that begins in this block to `callback`, and what is done of it as it goes on.

    A step is called by its name when it begins ("training the classifier"), and by a longer text on the way ("training
    the classifier: 3 of 5 fits, about 12 s left").
    """
    token = _listener.set(callback)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def steps() -> Iterator[None]:
    """A block whose steps end with it: nothing that follows is counted to the last of them."""
    token = _step.set(None)
    try:
        yield
    finally:
        _step.reset(token)


def begin(step: str, verbose: int = 0) -> None:
    """Say that a step begins."""
    _step.set(_Step(step, verbose, monotonic()))
    _tell(step, bool(verbose))


def counted(
    results: Iterable[Result], total: int | None, unit: str, size: Callable[[Result], int] = lambda result: 1
) -> Iterator[Result]:
    """Results as they come; after each, what is done of the step under way is said.

    `total` is None where nobody knows it; `size` says how many units a result is worth.

    >>> with steps(), listen(print):
    ...     begin("adding")
    ...     sum(counted([1, 2], 2, "numbers"))
    adding
    adding: 1 of 2 numbers
    adding: 2 of 2 numbers
    3
    """
    began, done = monotonic(), 0
    for result in results:
        done += size(result)
        if (step := _step.get()) is not None:
            done, now = done if total is None else min(done, total), monotonic()
            is_due = step.verbose > 1 or now - step.last_line >= BETWEEN_LINES
            text = (
                f"{step.name}: {done:,} {unit}"
                if total is None
                else f"{step.name}: {done:,} of {total:,} {unit}"
            )
            if total is not None and 0 < done < total and now - began >= ENOUGH_SECONDS:
                text += f", about {duration((now - began) * (total - done) / done)} left"
            _tell(text, bool(step.verbose) and is_due)
            step.last_line = now if is_due else step.last_line
        yield result


def duration(seconds: float) -> str:
    """A time in words, to two digits or so.

    >>> duration(12.3), duration(200), duration(9000)
    ('12 s', '3 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _tell(text: str, aloud: bool) -> None:
    callback = _listener.get()
    if callback is not None:
        callback(text)
    if aloud:
        sys.stderr.write(f"[groupshift] {text}\n")
