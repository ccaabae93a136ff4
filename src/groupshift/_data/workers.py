"""Work at once on threads, with one thread of every library inside each of them; and sums of many parts.

OpenMP's threads wait for each other by spinning: with other work on the machine, a boosted fit on two of them takes ten
times as long as on one (scikit-learn's issue 30662). So libraries get one thread wherever we call them, and cores are
used by what is independent: folds, candidates, models and chunks of rows. Answers do not depend on any of this.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import islice
from threading import Lock
from typing import Protocol, Self, TypeVar

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


class Summable(Protocol):
    """What chunks are turned into: parts that add up."""

    def __add__(self, other: Self, /) -> Self: ...


Sum = TypeVar("Sum", bound=Summable)

_n_jobs: ContextVar[int | None] = ContextVar("groupshift_n_jobs", default=None)


@contextmanager
def workers(n_jobs: int | None) -> Iterator[None]:
    """Inside, libraries have one thread each, and `at_once` and `map_chunks` use `n_jobs` threads."""
    token = _n_jobs.set(n_jobs)
    try:
        # Libraries come with modules: after an import there may be more of them.
        controller = _controller(len(sys.modules))
        # OpenMP counts threads for each thread, BLAS for the whole process.
        with (
            _blas.within(lambda: controller.limit(limits=1, user_api="blas")),
            controller.limit(limits=1, user_api="openmp"),
        ):
            yield
    except BaseException as error:
        # NumPy makes a ValueError of an interrupt where the type of a buffer is read, as boosted trees do.
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
    finally:
        _n_jobs.reset(token)


def n_workers() -> int:
    """Threads that work at once: `n_jobs` as joblib counts it, -1 for all cores.

    None is what `joblib.parallel_config` says. Where it says nothing: all cores that the process may use, but no more
    than OMP_NUM_THREADS, by which users and schedulers say how many are theirs. Inside a worker, ours or joblib's, it is
    one: the cores have their work already.

    >>> with workers(3):
    ...     n_workers()
    3
    """
    n_jobs = _n_jobs.get()
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None or backend.nesting_level:
        return int(effective_n_jobs(n_jobs))
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = int(cpu_count())
    return max(1, min(cores, int(asked))) if asked.isdigit() else cores


def at_once(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`function` of each item of a list, in their order, as they are done.

    A backend that the user chose by `joblib.parallel_config` is kept to; otherwise these are threads, which copy nothing.

    >>> list(at_once(len, ["a", "bc"]))
    [1, 2]
    """
    items = list(items)
    n = min(n_workers(), len(items))
    if n <= 1:
        yield from map(function, items)
        return
    # scikit-learn keeps settings for each thread: a worker has those of the thread that it works for.
    task = delayed(partial(_as_told, function, get_config()))
    parallel = Parallel(n, prefer="threads", return_as="generator", batch_size=1, pre_dispatch=n)
    # scikit-learn sets filters of warnings for every tree of a forest and sets them back, which on two threads at once leaves
    # them as it happens. The work is closed at once where an item fails, and not whenever its traceback is forgotten.
    with warnings.catch_warnings(), closing(parallel(task(item) for item in items)) as results:
        yield from results


def _as_told(function: Callable[[Item], Result], config: dict[str, object], item: Item) -> Result:
    try:
        with config_context(**config), as_worker():
            return function(item)
    except Exception as error:
        # joblib forgets where an error of a thread was raised.
        error.add_note("Raised by a worker:\n" + "".join(traceback.format_tb(error.__traceback__)))
        raise


def map_chunks(function: Callable[[Item], Result], chunks: Iterable[Item]) -> Iterator[Result]:
    """`function` of each chunk, in order; of chunks that are read on the way, no more are held than there are workers.

    >>> list(map_chunks(len, ["a", "bc"]))
    [1, 2]
    """
    chunks, n = iter(chunks), n_workers()
    while some := list(islice(chunks, n)):
        yield from at_once(function, some)


def add_up(parts: Iterable[Sum]) -> Sum:
    """The sum of parts as a balanced tree: a large total is not touched again for every small part.

    >>> add_up([1, 2, 3])
    6
    """
    done: list[tuple[int, Sum]] = []
    for part in parts:
        level = 0
        while done and done[-1][0] == level:
            part = done.pop()[1] + part
            level += 1
        done.append((level, part))
    if not done:
        raise ValueError("There are no parts to add up. Pass at least one chunk of rows.")
    total = done.pop()[1]
    while done:
        total = done.pop()[1] + total
    return total


@contextmanager
def as_worker() -> Iterator[None]:
    """Inside, this thread is one of several that work at once: it starts no others, by whichever library."""
    with parallel_config("sequential", n_jobs=1), workers(1):
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def even_unconverged() -> AbstractContextManager[None]:
    """Inside, nobody is warned that a search ended early; for steps that may run on several threads at once."""
    return _unconverged.within(partial(warnings.catch_warnings, action="ignore", category=ConvergenceWarning))


class _OfProcess:
    """A setting of the whole process: threads that want it at once have it from the first who comes to the last who goes."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0

    @contextmanager
    def within(self, setting: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
        with self.lock:
            if not self.inside:
                self.setting = setting()
                self.setting.__enter__()
            self.inside += 1
        try:
            yield
        finally:
            with self.lock:
                self.inside -= 1
                if not self.inside:
                    self.setting.__exit__(None, None, None)


_blas, _unconverged = _OfProcess(), _OfProcess()
