"""Work at once on threads of ours, with one thread of every library inside each of them.

OpenMP's threads wait for each other by spinning: with other work on the machine, a boosted fit on two of them takes ten
times as long as on one (scikit-learn's issue 30662). So libraries get one thread wherever we call them, and cores are
used by what is independent: folds, clusters, candidates and chunks of rows. Answers do not depend on the number of threads.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Generic, TypeVar, cast

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_n_jobs: ContextVar[int | None] = ContextVar("groupshift_n_jobs", default=None)
_is_worker: ContextVar[bool] = ContextVar("groupshift_is_worker", default=False)


@contextmanager
def workers(n_jobs: int | None) -> Iterator[None]:
    """Inside, libraries have one thread each, and `at_once` and `map_chunks` use `n_jobs` threads."""
    token = _n_jobs.set(n_jobs)
    try:
        with one_thread():
            yield
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
    if _is_worker.get():
        return 1
    n_jobs = _n_jobs.get()
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None or backend.nesting_level:
        return int(effective_n_jobs(n_jobs))
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = int(cpu_count())
    return max(1, min(cores, int(asked))) if asked.isdigit() else cores


def at_once(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`function` of each item, in their order; items that are few and take long, such as fits.

    A backend that the user chose by `joblib.parallel_config` is kept to; otherwise these are threads, which copy nothing.

    >>> list(at_once(len, ["a", "bc"]))
    [1, 2]
    """
    items = list(items)
    threads = min(n_workers(), len(items))
    if threads <= 1:
        yield from map(function, items)
        return
    parallel = Parallel(threads, prefer="threads", return_as="generator", batch_size=1, pre_dispatch=threads)
    tried = Tried(Alone(function))
    for result, error in parallel(delayed(tried)(item) for item in items):
        if error is not None:
            raise error
        yield cast(Result, result)


class Tried(Generic[Item, Result]):
    """A function whose errors are results: joblib's own way drops where an error was raised, which says whose it is."""

    def __init__(self, function: Callable[[Item], Result]):
        self.function = function

    def __call__(self, item: Item) -> tuple[Result | None, Exception | None]:
        try:
            return self.function(item), None
        except Exception as error:
            return None, error


class Alone(Generic[Item, Result]):
    """A function as a worker calls it: one thread for every library, and nothing at once inside."""

    def __init__(self, function: Callable[[Item], Result]):
        self.function = function
        # scikit-learn keeps settings for each thread: a worker has those of the thread that it works for.
        self.config = get_config()

    def __call__(self, item: Item) -> Result:
        with config_context(**self.config), as_worker():
            return self.function(item)


@contextmanager
def as_worker() -> Iterator[None]:
    """Inside, this thread is one of several that work at once: it starts no others, by whichever library."""
    token = _is_worker.set(True)
    try:
        with parallel_config("sequential"), one_thread():
            yield
    finally:
        _is_worker.reset(token)


@contextmanager
def one_thread() -> Iterator[None]:
    """One OpenMP and one BLAS thread for what this thread calls."""
    # Libraries come with modules: after an import there may be more of them.
    controller = _controller(len(sys.modules))
    _blas.enter(controller)
    try:
        with controller.limit(limits=1, user_api="openmp"):
            yield
    finally:
        _blas.leave()


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


class _Blas:
    """OpenMP counts threads for each thread, BLAS for the whole process: it is set by the first and set back by the last."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0

    def enter(self, controller: ThreadpoolController) -> None:
        with self.lock:
            if not self.inside:
                self.limit = controller.limit(limits=1, user_api="blas")
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.restore_original_limits()


_blas = _Blas()
