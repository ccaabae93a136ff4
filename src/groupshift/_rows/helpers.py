"""Processes beside this one, for work that is mostly Python's own: of that, one thread of a process runs at a time.

This process is one of the workers: it takes the next item whenever the others have theirs. So processes that still start, or
that cannot be started here, are not waited for. They stay for the next fit, and end when they have had nothing to do for a while.
"""

import os
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import parent_process
from threading import RLock
from typing import Any, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
# A result, or the error that came instead of it.
Outcome: TypeAlias = tuple[Result | None, Exception | None]
Warned: TypeAlias = list[warnings.WarningMessage]

# Seconds after which a process without work ends: joblib's own.
IDLE_SECONDS = 300
# What a process reads before its first item: most of the second or two that it takes to start.
IMPORTED = "sklearn.ensemble"
# Libraries read these when they are loaded, before anybody can set their threads.
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1"
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR")
}


@dataclass(frozen=True)
class Helpers:
    """Other processes that work for this one."""

    executor: Executor
    n: int  # at work at once
    ready: "Future[None]"  # done as soon as one of them can take an item


class _Pool:
    """The processes that this process has, for all its fits."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As at first. A forked process has none of its parent's threads, and a lock may have been held."""
        # Taken again by this thread where an abandoned call is closed while another starts.
        self.lock = RLock()
        self._forget()

    def _forget(self) -> None:
        self.executor: Executor | None = None
        self.size = 0

    def start(self, n: int) -> Helpers | None:
        """At least `n` processes, of which `n` are to be used; None where none can be started.

        None in a process of the user's, too: its end would wait for ours.
        """
        if parent_process() is not None:
            return None
        with self.lock:
            # Those that were killed are started anew. The machine may have no semaphores or no memory, or allow no children.
            for _ in range(2):
                try:
                    return self._started(n)
                except Exception:
                    self._forget()
            return None

    def _started(self, n: int) -> Helpers:
        # A part of joblib that some systems leave out.
        from joblib.externals.loky import ProcessPoolExecutor

        if self.executor is not None and self.size < n:
            self.executor.shutdown(wait=False)
            self._forget()
        if self.executor is None:
            self.executor, self.size = ProcessPoolExecutor(n, timeout=IDLE_SECONDS, env=ONE_THREAD), n
        # Asked by every fit: those that had nothing to do for a while have ended.
        return Helpers(self.executor, n, self.executor.submit(_get_ready))

    def stop(self, executor: Executor) -> None:
        with self.lock:
            executor.shutdown(wait=False, kill_workers=True)  # type: ignore[call-arg]
            if self.executor is executor:
                self._forget()


_pool = _Pool()
start_helpers = _pool.start
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.renew)


def _get_ready() -> None:
    import_module(IMPORTED)


def helped(
    tried: Callable[[Item], Outcome[Result]], items: Sequence[Item], helpers: Helpers
) -> Generator[Outcome[Result], None, None]:
    """What became of each item, in their order; this process works too."""
    shared = _Shared(tried, items, helpers)
    try:
        for number in range(len(items)):
            yield shared.outcome(number)
    finally:
        shared.close()


class _Shared(Generic[Item, Result]):
    """Items that this process and its helpers share: whoever comes first takes the next."""

    def __init__(self, tried: Callable[[Item], Outcome[Result]], items: Sequence[Item], helpers: Helpers):
        self.tried, self.items, self.helpers = tried, items, helpers
        self.waiting = deque(range(len(items)))
        self.given: dict[int, Future[tuple[Outcome[Result], Warned]]] = {}
        self.found: dict[int, Outcome[Result]] = {}
        # Also taken by the thread that hears from the processes.
        self.lock = RLock()
        helpers.ready.add_done_callback(self.hand_out)

    def hand_out(self, _: "Future[Any]") -> None:
        """Give items to processes that have none; a second one, so that they need not wait, where there are enough for all."""
        with self.lock:
            while self.waiting and self._may_give():
                call = partial(_with_warnings, self.tried, self.items[self.waiting[0]])
                try:
                    future = self.helpers.executor.submit(call)
                except Exception:
                    # The processes were killed: this one goes on alone.
                    return
                self.given[self.waiting.popleft()] = future
                future.add_done_callback(self.hand_out)

    def _may_give(self) -> bool:
        ready, n = self.helpers.ready, self.helpers.n
        at_work = sum(not future.done() for future in self.given.values())
        is_up = ready.done() and not ready.cancelled() and ready.exception() is None
        return is_up and at_work < (2 * n if len(self.waiting) > n + 1 else n)

    def outcome(self, number: int) -> Outcome[Result]:
        """What became of an item; until that is known, this process works on others."""
        while number not in self.found:
            with self.lock:
                future = self.given.get(number)
                mine = None
                if future is None or not (future.done() or not self.waiting):
                    mine = self.waiting.popleft()
            if mine is not None:
                self.found[mine] = self.tried(self.items[mine])
            elif future is not None:
                self.found[number] = self._by_helper(number, future)
        return self.found.pop(number)

    def _by_helper(self, number: int, future: "Future[tuple[Outcome[Result], Warned]]") -> Outcome[Result]:
        try:
            outcome, warned = future.result()
        except Exception as error:
            # It cannot travel, or the process was killed.
            outcome, warned = (None, error), []
        if outcome[1] is not None:
            # Here it fails again, and says where, or it was the process that failed.
            return self.tried(self.items[number])
        for one in warned:
            # Said again here, where the user's filters are.
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return outcome

    def close(self) -> None:
        """Nobody waits for the rest: processes that are at it are ended."""
        with self.lock:
            self.waiting.clear()
            is_at_work = any(not future.done() for future in self.given.values())
        if is_at_work:
            _pool.stop(self.helpers.executor)


def _with_warnings(tried: Callable[[Item], Outcome[Result]], item: Item) -> tuple[Outcome[Result], Warned]:
    """In a helper: what it warned of travels home with the result."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return tried(item), warned
