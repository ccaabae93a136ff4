"""Work on chunks: all cores, in order, a few chunks at a time; and sums of many parts."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, Self, TypeVar

from joblib import cpu_count
from threadpoolctl import threadpool_limits

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Summable(Protocol):
    """What chunks are turned into: parts that add up."""

    def __add__(self, other: Self, /) -> Self: ...


Sum = TypeVar("Sum", bound=Summable)


def n_threads() -> int:
    """Cores to use; OMP_NUM_THREADS, by which users and schedulers say how many are theirs, is kept to.

    >>> n_threads() >= 1
    True
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    cores = int(cpu_count())
    return max(1, min(cores, int(asked) if asked.strip().isdigit() else cores))


def map_chunks(function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
    """`function` of each chunk, in order; one thread for each core, and the calling thread reads ahead.

    At most one chunk more than there are cores is held at a time. A single chunk is worked on in the calling
    thread, where the classifier may use all cores itself.

    >>> list(map_chunks(len, ["a", "bc"]))
    [1, 2]
    """
    chunks = iter(chunks)
    first = list(_at_most(chunks, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    threads = n_threads()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, initializer=_one_core) as pool:
        try:
            for chunk in _chain(first, chunks):
                waiting.append(pool.submit(function, chunk))
                del chunk
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


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


def _one_core() -> None:
    # OpenMP counts threads per calling thread: without this every one of ours would start as many as there
    # are cores.
    threadpool_limits(1, user_api="openmp")


def _at_most(values: Iterator[Chunk], n: int) -> Iterator[Chunk]:
    for _, value in zip(range(n), values, strict=False):
        yield value


def _chain(first: list[Chunk], rest: Iterator[Chunk]) -> Iterator[Chunk]:
    # The list lets go of its chunks as they are handed on.
    while first:
        yield first.pop(0)
    yield from rest
