"""Features that tell which group a row is of: a school's id, coordinates, a precinct.

A classifier that sees such a feature learns the labelled groups by heart. Rows of other groups are then scored by what it never
saw, hidden labels are not hidden, and all that is learned from them is too good to be true.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import rankdata

from groupshift._data.keys import uniform_keys
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, KeyArray
from groupshift._math.sums import renumbered, sum_by

# How much more often than by chance two rows that are alike in a feature are of one group, on a scale on which 1 is always
# (Cohen's kappa). At a half, a feature says more of the group than chance does.
IDENTIFIES = 0.5
# Features that say this much each may identify the group together, as a longitude and a latitude do.
HINTS = 0.1
# Rows are alike where they lie in one bin: equal values, and neighbours within so many rows. Members of a household, who
# share many values, are fewer.
BIN_ROWS = 5
# Kappas of so many rows are known to a hundredth; of fewer where features are many, to save time.
MAX_ROWS, MIN_ROWS, MAX_VALUES = 10_000, 2_000, 5_000_000
# A table of so many counts is made faster than its entries are sorted.
MOST_COUNTED = 100_000
# Features that are looked at together: the distance of more is no distance.
MOST_TOGETHER = 4


def identifying_features(
    matrix: NDArray[np.floating],
    group: IntArray,
    key: KeyArray,
    *,
    names: Sequence[str],
    is_category: BoolArray,
    seed: int = 0,
) -> dict[str, float]:
    """Features that identify the group, and how well: 1 where every two rows that are alike in it are of one group.

    Parameters
    ----------
    matrix : array of shape (n_rows, n_features)
        Numbers, and codes of categories; NaN where missing.
    group : array of shape (n_rows,)
    key : array of shape (n_rows,)
        Equal for copies of one example: one of them is looked at.
    names : names of the features
    is_category : array of shape (n_features,)
    seed : int
        Of the sample of rows that are looked at.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(20), 30)
    >>> table = np.column_stack([rng.normal(size=600), group + rng.uniform(size=600)])
    >>> identifying_features(table, group, np.arange(600), names=["age", "place"], is_category=np.zeros(2, bool))
    {'place': 1.0}
    """
    few = _few(key, matrix.shape[1], seed)
    group = renumbered(group[few])
    chance = _chance(group)
    if len(few) < 2 * BIN_ROWS or chance == 1:
        return {}
    columns = [np.asarray(matrix[few, j], float) for j in range(matrix.shape[1])]
    found = [
        _kappa(_agreement(_bins(column, bool(category)), group), chance)
        for column, category in zip(columns, is_category, strict=True)
    ]
    told = {j: kappa for j, (kappa, error) in enumerate(found) if kappa - 2 * error >= IDENTIFIES}
    hints = [
        j for j, (kappa, _) in enumerate(found) if j not in told and kappa >= HINTS and not is_category[j]
    ]
    hints = sorted(sorted(hints, key=lambda j: -found[j][0])[:MOST_TOGETHER])
    if len(hints) > 1:
        kappa, error = _kappa(_neighbours_agree(np.column_stack([columns[j] for j in hints]), group), chance)
        if kappa - 2 * error >= IDENTIFIES:
            told |= dict.fromkeys(hints, kappa)
    return {names[j]: round(told[j], 3) for j in sorted(told)}


def _few(key: KeyArray, n_features: int, seed: int) -> IntArray:
    """Numbers of rows to look at: one of each example."""
    once = np.unique(key, return_index=True)[1]
    most = int(np.clip(MAX_VALUES // max(n_features, 1), MIN_ROWS, MAX_ROWS))
    if len(once) <= most:
        return np.sort(once)
    drawn = uniform_keys(key[once].astype(np.uint64), seed)
    return np.sort(once[np.argsort(drawn, kind="stable")[:most]])


def _chance(group: IntArray) -> float:
    """Chance that two rows are of one group."""
    count = np.bincount(group).astype(float)
    n = count.sum()
    return float((count * (count - 1)).sum() / max(n * (n - 1), 1))


def _kappa(agreement: FloatArray, chance: float) -> tuple[float, float]:
    """Agreement beyond chance, and its standard error; `agreement` has an entry for each row."""
    spread = agreement.std() / np.sqrt(len(agreement))
    return float((agreement.mean() - chance) / (1 - chance)), float(spread / (1 - chance))


def _bins(column: FloatArray, is_category: bool) -> IntArray:
    """The bin of each row: whole blocks of equal values, small ones joined with those beside them."""
    # Missing values are a value: they sort last and are all alike.
    value, block, count = np.unique(column, return_inverse=True, return_counts=True)
    if is_category:
        # Neighbours in code have nothing in common: rare categories are one.
        return np.where(count[block] >= BIN_ROWS, block, len(value))
    # By where a block begins: small ones fall into one bin, and one of many rows has its own, but for a few neighbours.
    first = np.cumsum(count) - count
    return (first // BIN_ROWS)[block]


def _agreement(part: IntArray, group: IntArray) -> FloatArray:
    """For each row, the part of the other rows of its bin that are of its group; 0 where it is alone."""
    n_groups = int(group.max()) + 1
    pair = part * n_groups + group
    if pair.max() > MOST_COUNTED:
        pair = np.unique(pair, return_inverse=True)[1]
    one = np.ones(len(part))
    same, all_rows = (sum_by(p, one, int(p.max()) + 1)[p] - 1 for p in (pair, part))
    return np.where(all_rows > 0, same / np.maximum(all_rows, 1), 0.0)


def _neighbours_agree(columns: FloatArray, group: IntArray) -> FloatArray:
    """For each row, the part of its nearest rows in several features that are of its group."""
    ranks = np.column_stack([rankdata(column) for column in np.nan_to_num(columns.T, nan=-np.inf)])
    nearest = cKDTree(ranks).query(ranks, BIN_ROWS + 1)[1][:, 1:]
    agreement: FloatArray = (group[nearest] == group[:, None]).mean(1)
    return agreement
