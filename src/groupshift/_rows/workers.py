"""Work at once on threads and processes of ours, with one thread of every library inside each of them.

OpenMP's threads wait for each other by spinning: with other work on the machine, a boosted fit on two of them takes ten
times as long as on one (scikit-learn's issue 30662). So libraries get one thread wherever we call them, and cores are
used by what is independent: folds, clusters, candidates and chunks of rows. Threads share these as long as NumPy or compiled
code does the work; what is mostly Python's own work has processes in a large fit. Answers do not depend on any of this.
"""

import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import islice
from operator import call
from threading import Lock
from typing import Generic, TypeVar, cast

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from joblib.parallel import get_active_backend
from sklearn import config_context, get_config
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from groupshift._rows.helpers import Helpers, Outcome, begun, helped, start_helpers

Item = TypeVar("Item")
Result = TypeVar("Result")

_n_jobs: ContextVar[int | None] = ContextVar("groupshift_n_jobs", default=None)
_is_worker: ContextVar[bool] = ContextVar("groupshift_is_worker", default=False)
_helpers: ContextVar[Helpers | None] = ContextVar("groupshift_helpers", default=None)

# Numbers that a classifier is trained on, rows times features: with fewer, a fit is over before a process has started.
FEWEST_NUMBERS = 60_000
# More than this have nothing to do: folds, clusters and candidates are not so many. Each takes some 150 MB.
MOST_PROCESSES = 8


@contextmanager
def workers(n_jobs: int | None, n_numbers: int = 0) -> Iterator[None]:
    """Inside, libraries have one thread each, and `at_once` and `map_chunks` use `n_jobs` threads.

    A fit to `n_numbers` numbers, rows times features, that is large enough has processes too.
    """
    tokens = _n_jobs.set(n_jobs), _helpers.set(None)
    try:
        if n_numbers >= FEWEST_NUMBERS and _is_up_to_us():
            _helpers.set(start_helpers(n) if (n := min(n_workers(), MOST_PROCESSES) - 1) > 0 else None)
        with one_thread():
            yield
    except BaseException as error:
        # What a process was left at, nobody will ever ask for.
        if (helpers := _helpers.get()) is not None:
            helpers.end_work()
        _raise_interrupt(error)
        raise
    finally:
        _n_jobs.reset(tokens[0])
        _helpers.reset(tokens[1])


def _is_up_to_us() -> bool:
    """Whether the user chose no backend by `joblib.parallel_config`, and this is no worker of joblib's."""
    by_hint = [get_active_backend(prefer=hint)[0] for hint in ("threads", "processes")]
    return type(by_hint[0]) is not type(by_hint[1]) and not by_hint[0].nesting_level


def n_workers(*, is_python: bool = False) -> int:
    """Threads that work at once: `n_jobs` as joblib counts it, -1 for all cores; for what `is_python`, processes.

    None is what `joblib.parallel_config` says. Where it says nothing: all cores that the process may use, but no more
    than OMP_NUM_THREADS, by which users and schedulers say how many are theirs. Inside a worker, ours or joblib's, it is
    one: the cores have their work already.

    >>> with workers(3):
    ...     n_workers()
    3
    """
    if _is_worker.get():
        return 1
    if is_python and _is_up_to_us():
        # Two threads would take turns.
        helpers = _helpers.get()
        return 1 if helpers is None else helpers.n + 1
    n_jobs = _n_jobs.get()
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None or backend.nesting_level:
        return int(effective_n_jobs(n_jobs))
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = int(cpu_count())
    return max(1, min(cores, int(asked))) if asked.isdigit() else cores


def at_once(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    is_python: bool = False,
    may_travel: bool = False,
) -> Iterator[Result]:
    """`function` of each item, in their order; items that are few and take long, such as fits.

    A backend that the user chose by `joblib.parallel_config` is kept to; otherwise these are threads, which copy nothing.
    What `is_python` has this process and others in a large fit, and is done one after the other in a small one. What
    `may_travel` has them too, and threads in a small fit. The function and its items then travel, and should be small beside the
    work.

    >>> list(at_once(len, ["a", "bc"]))
    [1, 2]
    """
    items = list(items)
    n = min(n_workers(is_python=is_python), len(items))
    if n <= 1:
        yield from map(function, items)
        return
    tried = partial(_tried, Alone(function))
    helpers = _helpers.get() if is_python or may_travel else None
    if helpers is not None:
        outcomes = helped(tried, items, helpers)
    elif _is_up_to_us():
        outcomes = _on_threads(tried, items, n)
    else:
        parallel = Parallel(n, prefer="threads", return_as="generator", batch_size=1, pre_dispatch=n)
        outcomes = parallel(delayed(tried)(item) for item in items)
    # Closed at once where an item fails, and not whenever its traceback is forgotten.
    with filters_kept(), closing(outcomes):
        yield from _results(outcomes)


def _on_threads(
    tried: Callable[[Item], Outcome[Result]], items: Sequence[Item], n: int
) -> Generator[Outcome[Result], None, None]:
    """Not by joblib, which looks every hundredth of a second only whether a thread is done."""
    pool = ThreadPoolExecutor(n)
    try:
        for future in [pool.submit(tried, item) for item in items]:
            yield future.result()
    finally:
        # Threads cannot be ended: where one item failed, the others that are under way are not waited for.
        pool.shutdown(wait=False, cancel_futures=True)


def _results(outcomes: Iterable[Outcome[Result]]) -> Iterator[Result]:
    for result, error in outcomes:
        if error is not None:
            raise error
        yield cast(Result, result)


@contextmanager
def ahead(
    function: Callable[[Item], Result], batches: Sequence[Sequence[Item]], *, is_python: bool = False
) -> Iterator[Iterator[Iterator[Result]]]:
    """A block in which there are results of one batch after the other, each whole before the next one is asked for.

    The other processes of a large fit begin with all batches at once, in their order: for what takes long and is wanted later, or
    may be. Where there are none, a batch is done when it is asked for, as `at_once` does it, and not if nobody asks.

    >>> with ahead(len, [["a", "bc"], ["d"]]) as lengths:
    ...     list(next(lengths))
    [1, 2]
    """
    helpers = _helpers.get() if n_workers(is_python=True) > 1 else None
    if helpers is None:
        yield (at_once(function, batch, is_python=is_python) for batch in batches)
        return
    items = [item for batch in batches for item in batch]
    with begun(partial(_tried, Alone(function)), items, helpers) as outcomes:
        results = _results(outcomes)
        yield (islice(results, len(batch)) for batch in batches)


def both_at_once(one: Callable[[], Item], other: Callable[[], Result]) -> tuple[Item, Result]:
    """Two steps that do not need each other.

    >>> both_at_once(lambda: 1, lambda: "a")
    (1, 'a')
    """
    steps: list[Callable[[], Item | Result]] = [one, other]
    first, second = at_once(call, steps)
    return cast(Item, first), cast(Result, second)


@contextmanager
def both_ahead(
    one: Callable[[], Item], other: Callable[[], Result]
) -> Iterator[Callable[[], tuple[Item, Result]]]:
    """A block in which two steps may be asked for, once; other processes begin with them, see `ahead`.

    >>> with both_ahead(lambda: 1, lambda: "a") as both:
    ...     both()
    (1, 'a')
    """
    steps: list[Callable[[], Item | Result]] = [one, other]

    def both() -> tuple[Item, Result]:
        first, second = next(results)
        return cast(Item, first), cast(Result, second)

    with ahead(call, [steps]) as results:
        yield both


# For what is mostly Python's own work.
each_in_python = partial(at_once, is_python=True)


def _tried(function: Callable[[Item], Result], item: Item) -> Outcome[Result]:
    """A result or an error: joblib's own way drops where an error was raised, which says whose it is."""
    try:
        return function(item), None
    except Exception as error:
        # Not an error of this item, which others may work on, or nobody may ask for.
        _raise_interrupt(error)
        return None, error


def _raise_interrupt(error: BaseException) -> None:
    """NumPy makes errors of its own of some interrupts: a ValueError where the type of a buffer is read, as boosted trees do."""
    if isinstance(error.__cause__, KeyboardInterrupt):
        raise error.__cause__


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
    # OpenMP counts threads for each thread, BLAS for the whole process.
    with (
        _blas.within(lambda: controller.limit(limits=1, user_api="blas")),
        controller.limit(limits=1, user_api="openmp"),
    ):
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    return ThreadpoolController()


def even_unconverged() -> AbstractContextManager[None]:
    """Inside, nobody is warned that a search ended early; for steps that may run on several threads at once."""
    return _unconverged.within(partial(warnings.catch_warnings, action="ignore", category=ConvergenceWarning))


def filters_kept() -> AbstractContextManager[None]:
    """Filters of warnings are after this block as before it, whatever threads did to them.

    scikit-learn sets them for every tree of a forest and sets them back, which on two threads at once leaves them as it happens.
    """
    return _filters.within(warnings.catch_warnings)


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


_blas, _filters, _unconverged = _OfProcess(), _OfProcess(), _OfProcess()
