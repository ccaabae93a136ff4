"""Keys of examples, and everything that is drawn from them: samples, folds, and how much copies repeat each other.

A draw depends on the key and on the seed of a named stream alone. So it is the same in memory, in files and on a
cluster, and copies of one example, which share a key, fall on one side of every split. A row without an id has its key
from its content, so that the order of a table says nothing; rows of equal content are told apart by counting them.
"""

from dataclasses import dataclass
from hashlib import blake2b
from itertools import product

import numpy as np
from numpy.typing import NDArray

from groupshift._math.arrays import BoolArray, FloatArray, IntArray, KeyArray

# Rows and columns that keys are made of at once: few enough that the processor's cache holds them.
BLOCK = 16_384, 16


def hash_keys(keys: NDArray[np.integer], seed: int) -> KeyArray:
    """Well-mixed 64-bit numbers from 64-bit keys (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = keys.astype(np.uint64) + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def content_keys(matrix: NDArray[np.floating], start: KeyArray | None = None, seed: int = 0) -> KeyArray:
    """A key for each row from its values: equal rows have equal keys, wherever in a table they stand.

    Rows with other numbers in `start` have other keys.

    >>> keys = content_keys(np.array([[0.0, np.nan], [1.0, 2.0], [-0.0, np.nan]]))
    >>> bool(keys[0] == keys[2] and keys[0] != keys[1])
    True
    """
    content = np.zeros(len(matrix), np.uint64) if start is None else start.copy()
    rows, columns = BLOCK
    for i, j in product(range(0, len(matrix), rows), range(0, matrix.shape[1], columns)):
        part = slice(i, i + rows)
        # Zero has two signs and NaN has many forms: one of each, so that equal values have equal bits.
        values = np.add(matrix[part, j : j + columns].T, 0.0, dtype=np.float64, order="C")
        values[np.isnan(values)] = np.nan
        for column in values.view(np.uint64):
            content[part] = hash_keys(content[part] ^ column, seed)
    return content


def told_apart(keys: KeyArray, *others: NDArray[np.generic]) -> KeyArray:
    """Keys of which no two are equal: copies are counted, in the order of `others`; what is equal there too may change places.

    >>> told_apart(np.array([7, 8, 7], np.uint64))[:2].tolist()
    [7, 8]
    """
    order = np.lexsort((*others[::-1], keys))
    places, ordered = np.arange(len(keys)), keys[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(keys)]
    number = places - np.maximum.accumulate(np.where(is_new, places, 0))
    copies = np.flatnonzero(number)
    apart = keys.copy()
    apart[order[copies]] = hash_keys(ordered[copies] ^ hash_keys(number[copies], 0), 1)
    return apart


def copies_expected(keys: KeyArray, n_rows: int) -> float:
    """How many rows among `n_rows` others are like a row of a sample, as pairs of equal keys in the sample tell."""
    count = np.unique(keys, return_counts=True)[1].astype(float)
    return float(n_rows * (count * (count - 1)).sum() / max(len(keys) * (len(keys) - 1), 1))


def uniform_keys(keys: KeyArray, seed: int) -> FloatArray:
    """A number in [0, 1) for each key: equal keys, equal numbers."""
    return (hash_keys(keys, seed) >> np.uint64(11)).astype(float) * 2.0**-53


def sampled(keys: KeyArray, fraction: float, seed: int) -> BoolArray:
    """Which rows belong to the sample of the given fraction."""
    return uniform_keys(keys, seed) < fraction


def fold_of(keys: KeyArray, n_folds: int, seed: int) -> IntArray:
    """The fold of each row, by its key alone: folds are equal in size on average."""
    return np.minimum((uniform_keys(keys, seed) * n_folds).astype(np.int64), n_folds - 1)


def stratified_folds(y: IntArray, keys: KeyArray, n_folds: int, seed: int) -> IntArray:
    """Folds of rows at hand, equal in size for each class; all copies of one example in one fold.

    Classes are dealt out one after the other, first the one that holds the lowest hash: what they are numbered is not asked.
    Copies of one example that have several classes are a class of their own.

    >>> folds = stratified_folds(np.array([0, 0, 1, 1, 1]), np.array([7, 7, 8, 9, 9], np.uint64), 2, 0)
    >>> bool(folds[0] == folds[1] and folds[3] == folds[4])
    True
    """
    values, first, example = np.unique(keys, return_index=True, return_inverse=True)
    stratum = y[first]
    if (y != stratum[example]).any():
        # A sum of hashes knows which classes there are, and no order of them.
        pairs = np.unique(np.stack([example, y]), axis=1)
        classes = np.zeros(len(values), np.uint64)
        np.add.at(classes, pairs[0], hash_keys(pairs[1], 0))
        stratum = np.unique(classes, return_inverse=True)[1]
    order = np.argsort(hash_keys(values, seed))
    # The place of each stratum's first example, in the order of hashes.
    place = np.full(int(stratum.max(initial=-1)) + 1, len(values))
    np.minimum.at(place, stratum[order], np.arange(len(values)))
    order = order[np.argsort(place[stratum[order]], kind="stable")]
    fold = np.empty(len(values), np.int64)
    fold[order] = np.arange(len(values)) % n_folds
    return fold[example]


def class_order(y: IntArray, keys: KeyArray) -> IntArray:
    """A number for each class that its rows decide and its name does not: in the order of their sums of hashes.

    >>> y, keys = np.array([0, 0, 1]), np.array([5, 6, 7], np.uint64)
    >>> bool(class_order(1 - y, keys)[0] == class_order(y, keys)[1])
    True
    """
    n_classes = int(y.max(initial=-1)) + 1
    hashed = hash_keys(keys, 0)
    sums = np.array([hashed[y == c].sum() for c in range(n_classes)], np.uint64)
    number = np.empty(n_classes, np.int64)
    number[np.argsort(sums, kind="stable")] = np.arange(n_classes)
    return number


def design_effect(keys: KeyArray, weight: FloatArray) -> float:
    """How many times fewer examples there are than rows: 1 where each example is there once (Kish).

    >>> design_effect(np.array([7, 7, 8, 8], np.uint64), np.ones(4))
    2.0
    """
    distinct, example = np.unique(keys, return_inverse=True)
    if len(distinct) == len(keys):
        return 1.0
    return float((np.bincount(example, weights=weight) ** 2).sum() / (weight**2).sum())


def within(keys: KeyArray, group: IntArray) -> KeyArray:
    """Keys of examples within their groups: copies in another group are other examples.

    A group's shares are told by its own rows, however often these stand in other groups too.

    >>> design_effect(within(np.array([7, 7], np.uint64), np.array([0, 1])), np.ones(2))
    1.0
    """
    return keys ^ hash_keys(group, 0)


def copy_correlation(keys: KeyArray, weight: FloatArray, score: FloatArray) -> float:
    """How alike the scores of rows of one example are: 1 for copies, less for members of a household."""
    example = np.unique(keys, return_inverse=True)[1]
    mean = np.average(score, weights=weight)
    z = (score - mean) / max(np.sqrt(np.average((score - mean) ** 2, weights=weight)), 1e-12)
    pairs = (np.bincount(example, weights=weight) ** 2).sum() - (weight**2).sum()
    together = (np.bincount(example, weights=weight * z) ** 2).sum() - ((weight * z) ** 2).sum()
    return float(np.clip(together / pairs, 0, 1)) if pairs > 0 else 1.0


@dataclass(frozen=True)
class Seeds:
    """Seeds of all streams of one fit.

    Two draws from one stream look independent and are not: a sample taken by a hash and folds taken by the same hash put
    the whole sample into one fold. So every draw has a name, and a name belongs to one draw.

    >>> seeds = Seeds(0)
    >>> seeds.named("soft rows") == seeds.named("soft folds"), seeds.named("soft rows") == Seeds(0).named("soft rows")
    (False, True)
    """

    root: int

    def named(self, stream: str) -> int:
        """The seed of a stream: below 2³¹ − 1000, so that scikit-learn takes it and a few numbers beyond it."""
        digest = blake2b(f"{self.root}/{stream}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % (2**31 - 1000)

    def generator(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(self.named(stream))
