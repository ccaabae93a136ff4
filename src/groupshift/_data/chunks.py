"""Work on chunks: all cores, in order, a few chunks at a time; and sums of many parts."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, Self, TypeVar

from groupshift._data.workers import Alone, filters_kept, n_workers

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


class Summable(Protocol):
    """What chunks are turned into: parts that add up."""

    def __add__(self, other: Self, /) -> Self: ...


Sum = TypeVar("Sum", bound=Summable)


def map_chunks(function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
    """`function` of each chunk, in order; `n_workers` threads work, and the calling thread reads ahead.

    At most one chunk more than there are workers is held at a time. A single chunk is worked on in the calling thread.

    >>> list(map_chunks(len, ["a", "bc"]))
    [1, 2]
    """
    chunks = iter(chunks)
    threads = n_workers()
    first = list(islice(chunks, 2))
    if len(first) < 2 or threads == 1:
        yield from map(function, _chain(first, chunks))
        return
    alone = Alone(function)
    waiting: deque[Future[Result]] = deque()
    with filters_kept(), ThreadPoolExecutor(threads) as pool:
        try:
            for chunk in _chain(first, chunks):
                waiting.append(pool.submit(alone, chunk))
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


def _chain(first: list[Chunk], rest: Iterator[Chunk]) -> Iterator[Chunk]:
    # The list lets go of its chunks as they are handed on.
    while first:
        yield first.pop(0)
    yield from rest
