"""Rows of a table on their way through the method, and the population: unlabelled rows, wherever they live."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from groupshift._rows.chunks import add_up, map_chunks
from groupshift._rows.frames import concat_rows, take_rows

Summed = TypeVar("Summed")

# Large enough that the work per chunk dwarfs its overhead, small enough that intermediate arrays stay in tens of MB.
CHUNK_ROWS = 262_144


@dataclass(frozen=True)
class Rows:
    """Features as the classifier takes them, the same as a matrix of floats, and what belongs to each row.

    `key` identifies the example that a row is a copy of, as a 64-bit hash: folds and samples are drawn from it, so that
    they do not depend on how rows are cut into chunks.
    """

    features: Any
    matrix: NDArray
    group: NDArray[np.int64]
    weight: NDArray[np.float64]
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.group)

    def take(self, rows) -> "Rows":
        matrix = take_rows(self.matrix, rows)
        features = matrix if self.features is self.matrix else take_rows(self.features, rows)
        return Rows(features, matrix, self.group[rows], self.weight[rows], self.key[rows])

    def append(self, other: "Rows") -> "Rows":
        """Both sets of rows as matrices; group numbers of the two are not comparable and are dropped."""
        matrix = np.concatenate([self.matrix, other.matrix])
        features = matrix if self.features is self.matrix else concat_rows([self.features, other.features])
        return Rows(
            features,
            matrix,
            np.zeros(len(matrix), np.int64),
            np.concatenate([self.weight, other.weight]),
            np.concatenate([self.key, other.key]),
        )

    def chunks(self, size: int = CHUNK_ROWS) -> Iterator["Rows"]:
        if len(self) <= size:
            yield self
            return
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))


class Population(Protocol):
    """Unlabelled rows that can be sampled and summed over, in memory, in a file or on a cluster."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def sample_limit(self) -> float:
        """The most rows that `sample` may be asked for: what memory holds."""

    def sample(self, n_rows: int, random_state: int) -> Rows:
        """About `n_rows` rows, those whose key hashes low: the same rows however they are stored."""

    def sum(self, function: Callable[[Rows], Summed]) -> Summed:
        """The sum of `function` over chunks of rows."""


@dataclass(frozen=True)
class InMemory:
    """A population held in memory."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def sample_limit(self) -> float:
        return np.inf

    def sample(self, n_rows: int, random_state: int) -> Rows:
        if n_rows >= len(self.rows):
            return self.rows
        return self.rows.take(sampled(self.rows.key, n_rows / len(self.rows), random_state))

    def sum(self, function: Callable[[Rows], Summed]) -> Summed:
        return add_up(map_chunks(function, self.rows.chunks()))


def hash_keys(keys: NDArray, seed: int) -> NDArray[np.uint64]:
    """Well-mixed 64-bit numbers from 64-bit keys (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = keys.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniform_keys(keys: NDArray, seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each key: equal keys, equal numbers."""
    return (hash_keys(keys, seed) >> np.uint64(11)).astype(float) * 2.0**-53


def sampled(keys: NDArray, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Which rows belong to the sample of the given fraction."""
    return uniform_keys(keys, seed) < fraction


def fold_of(keys: NDArray, n_folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each row, by its key alone."""
    return np.minimum((uniform_keys(keys, seed) * n_folds).astype(np.int64), n_folds - 1)


def design_effect(keys: NDArray, weight: NDArray[np.float64]) -> float:
    """How many times fewer examples there are than rows: 1 where each example is there once (Kish).

    >>> design_effect(np.array([7, 7, 8, 8], np.uint64), np.ones(4))
    2.0
    """
    distinct, example = np.unique(keys, return_inverse=True)
    if len(distinct) == len(keys):
        return 1.0
    return float((np.bincount(example, weights=weight) ** 2).sum() / (weight**2).sum())


def copy_correlation(keys: NDArray, weight: NDArray[np.float64], score: NDArray[np.float64]) -> float:
    """How alike the scores of rows of one example are: 1 for copies, less for members of a household."""
    example = np.unique(keys, return_inverse=True)[1]
    mean = np.average(score, weights=weight)
    z = (score - mean) / max(np.sqrt(np.average((score - mean) ** 2, weights=weight)), 1e-12)
    pairs = (np.bincount(example, weights=weight) ** 2).sum() - (weight**2).sum()
    together = (np.bincount(example, weights=weight * z) ** 2).sum() - ((weight * z) ** 2).sum()
    return float(np.clip(together / pairs, 0, 1)) if pairs > 0 else 1.0


def in_units(rows: Rows, unit: float) -> Rows:
    """Rows with their weights in multiples of `unit`."""
    return rows if unit == 1 else replace(rows, weight=rows.weight / unit)


def at_most(rows: Rows, n_rows: float, seed: int) -> Rows:
    """All rows, or a sample of about `n_rows` of them."""
    return rows if len(rows) <= n_rows else rows.take(sampled(rows.key, n_rows / len(rows), seed))
