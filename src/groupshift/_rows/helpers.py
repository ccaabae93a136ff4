"""Processes beside this one, for work that is mostly Python's own: of that, one thread of a process runs at a time.

This process is one of the workers: it takes the next item whenever the others have theirs. So processes that still start, or
that cannot be started here, are not waited for. They stay for the next fit, and end when they have had nothing to do for a while.
A call may be made before its results are wanted: the others begin with it as soon as those made before it have no items left.
"""

import os
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
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


class Helpers:
    """Other processes that work for this one, for the time of one fit."""

    def __init__(self, executor: Executor, n: int, ready: "Future[None]"):
        self.executor = executor
        self.n = n  # at work at once
        self.ready = ready  # done as soon as one of them can take an item
        self.calls: list[_Call[Any, Any]] = []  # the first is served first
        self.given: list[Future[Any]] = []  # what processes are at, or will be next
        # Also taken by the thread that hears from the processes.
        self.lock = RLock()
        ready.add_done_callback(self.hand_out)

    def hand_out(self, _: "Future[Any] | None" = None) -> None:
        """Give items to processes that have none; a second one, so that they need not wait, where there are enough for all."""
        with self.lock:
            for call in self.calls:
                while call.waiting and self._may_give(call):
                    try:
                        future = call.give()
                    except Exception:
                        # The processes were killed: this one goes on alone.
                        return
                    self.given.append(future)
                    future.add_done_callback(self.hand_out)

    def _may_give(self, call: "_Call[Any, Any]") -> bool:
        self.given = [future for future in self.given if not future.done()]
        is_up = self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None
        # Not behind an item of another call: that may take long, and nobody may want it any more.
        has_enough = len(call.waiting) > self.n + 1 and set(self.given) <= set(call.given.values())
        return is_up and len(self.given) < (2 * self.n if has_enough else self.n)

    def end_work(self) -> None:
        """Nobody waits any more: processes that are at work are ended."""
        with self.lock:
            is_at_work = any(not future.done() for future in self.given)
        if is_at_work:
            _pool.stop(self.executor)


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
    with begun(tried, items, helpers) as outcomes:
        yield from outcomes


@contextmanager
def begun(
    tried: Callable[[Item], Outcome[Result]], items: Sequence[Item], helpers: Helpers
) -> Iterator[Iterator[Outcome[Result]]]:
    """The same, begun by the others before anybody asks: this process works too from then on.

    What was not asked for when the block ends is left. A process that is at such an item goes on to its end, since a new
    process takes longer to start than most items last; where the block fails, it is ended.
    """
    call = _Call(tried, items, helpers)
    try:
        yield map(call.outcome, range(len(items)))
    except BaseException:
        call.leave()
        helpers.end_work()
        raise
    finally:
        call.leave()


class _Call(Generic[Item, Result]):
    """Items that this process and its helpers share: whoever comes first takes the next."""

    def __init__(self, tried: Callable[[Item], Outcome[Result]], items: Sequence[Item], helpers: Helpers):
        self.tried, self.items, self.helpers = tried, items, helpers
        self.waiting = deque(range(len(items)))
        self.given: dict[int, Future[tuple[Outcome[Result], Warned]]] = {}
        self.found: dict[int, Outcome[Result]] = {}
        with helpers.lock:
            helpers.calls.append(self)
            helpers.hand_out()

    def give(self) -> "Future[tuple[Outcome[Result], Warned]]":
        """Hand the next item to another process."""
        number = self.waiting[0]
        future = self.helpers.executor.submit(partial(_with_warnings, self.tried, self.items[number]))
        self.given[number] = future
        self.waiting.popleft()
        return future

    def outcome(self, number: int) -> Outcome[Result]:
        """What became of an item; until that is known, this process works on others, of this call first."""
        while number not in self.found:
            with self.helpers.lock:
                future = self.given.get(number)
                is_done = future is not None and future.done()
                calls = [] if is_done else [self, *self.helpers.calls]
                call = next((call for call in calls if call.waiting), None)
                mine = None if call is None else call.waiting.popleft()
            if call is not None and mine is not None:
                call.found[mine] = call.tried(call.items[mine])
            else:
                assert future is not None, "an item was asked for after its block"
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

    def leave(self) -> None:
        """Nothing more of it is begun."""
        with self.helpers.lock:
            self.waiting.clear()
            if self in self.helpers.calls:
                self.helpers.calls.remove(self)
        for future in self.given.values():
            future.cancel()


def _with_warnings(tried: Callable[[Item], Outcome[Result]], item: Item) -> tuple[Outcome[Result], Warned]:
    """In a helper: what it warned of travels home with the result."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        return tried(item), warned
