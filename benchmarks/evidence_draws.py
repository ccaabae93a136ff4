"""Draws of `evidence`: a table, some of its rows, and labels that were chosen in one of several ways."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata
from sklearn.tree import ExtraTreeRegressor

LABELED_SHARE = 0.2
# In the order of their seeds: a new kind comes last.
KINDS = (
    "random",
    "volunteers",
    "natural",
    "setting 1",
    "setting 2",
    "setting 2, tree cells",
    "setting 2, categories",
)


@dataclass(frozen=True)
class Place:
    """What is drawn from: a table (or "synthetic d4 K2"), how labels are chosen, and how many rows at most."""

    table: str
    kind: str
    rows: int


@dataclass(frozen=True, eq=False)
class Draw:
    """Labels are -1 where they are hidden; a partition is there where the cells of the shift are known.

    No fit sees test rows; where there are none, methods are scored on the rows without labels that it has seen.
    """

    X: Any
    y: np.ndarray
    truth: np.ndarray
    group: np.ndarray
    example: np.ndarray
    partition: Any = None
    posterior: np.ndarray | None = None
    test: np.ndarray | None = None


def make_draw(data: Path, place: Place, seed: int) -> Draw:
    """The same for every method, and for every machine with the same NumPy."""
    rng = np.random.default_rng([seed, KINDS.index(place.kind), *place.table.encode()])
    if place.table.startswith("synthetic"):
        return _synthetic(place, rng)
    with np.load(data / f"{place.table}.npz") as file:
        X, y, group = file["X"].astype(float), file["y"].astype(int), file["group"].astype(int)
        household, is_category = file["household"], file["is_category"]
    few = some_households(household, place.rows, rng)
    X, y, group, household = X[few], y[few], group[few], household[few]
    # Every group has rows, and households are numbered from 0.
    group, household = (np.unique(codes, return_inverse=True)[1] for codes in (group, household))
    if not place.kind.startswith("setting"):
        table = as_frame(X, is_category)
        labeled = _labeled(place.kind, table, y, group, rng)
        return Draw(table, np.where(labeled, y, -1), y, group, household)
    # The paper takes all columns for numbers, and what is missing for 0.
    numbers = np.nan_to_num(X)
    return _resampled(
        as_frame(X, is_category) if place.kind.endswith("categories") else numbers,
        y,
        group,
        household,
        place.kind,
        rng,
    )


def _synthetic(place: Place, rng: np.random.Generator) -> Draw:
    from groupshift.datasets import make_grouped_mixture

    d, K = (int(word[1:]) for word in place.table.split()[1:])
    n_groups = 50
    mean = place.rows / n_groups
    sample = make_grouped_mixture(
        n_features=d,
        n_clusters=K,
        n_groups=n_groups,
        labeled_per_group=(0.2 * mean, 0.02 * mean),
        unlabeled_per_group=(0.8 * mean, 0.08 * mean),
        setting=int(place.kind[8]),
        random_state=int(rng.integers(2**31)),
    )
    group = np.unique(sample.groups, return_inverse=True)[1]
    return Draw(
        sample.X, sample.y, sample.truth, group, np.arange(len(group)), sample.partition, sample.posterior
    )


def some_households(household: np.ndarray, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    size = np.bincount(household)
    order = rng.permutation(len(size))
    return np.flatnonzero(np.isin(household, order[np.cumsum(size[order]) <= n_rows]))


def as_frame(X: np.ndarray, is_category: np.ndarray):
    import pandas as pd

    columns = {}
    for j, coded in enumerate(is_category):
        column = pd.Series(X[:, j])
        columns[f"x{j}"] = column.fillna(-1).astype(int).astype(str).astype("category") if coded else column
    return pd.DataFrame(columns)


def _labeled(kind: str, X, y: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which rows have labels."""
    n_groups = group.max() + 1
    if kind == "natural":
        return np.isin(group, rng.permutation(n_groups)[: (n_groups + 1) // 2])
    if kind == "random":
        size = np.bincount(group)
        order = np.lexsort((rng.random(len(y)), group))
        rank = np.empty(len(y), int)
        rank[order] = np.arange(len(y)) - (np.cumsum(size) - size)[group[order]]
        return rank < np.maximum(1, np.round(LABELED_SHARE * size))[group]
    # Volunteers: a rate of their own for the positives and for the negatives of each group, and a little of the features.
    eta = rng.normal(size=(n_groups, 2))[group, y] + 0.3 * direction(X, rng)
    return choose(eta, rng)


def choose(log_odds: np.ndarray, rng: np.random.Generator, share: float = LABELED_SHARE) -> np.ndarray:
    """A mask of about that share of the rows; log-odds are moved by the number that this takes."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(log_odds + middle).mean() < share else (low, middle)
    return rng.random(len(log_odds)) < expit(log_odds + low)


def direction(X, rng: np.random.Generator) -> np.ndarray:
    """A standardised linear score of the features, categories by a number for each level."""
    total = np.zeros(len(X))
    for name in X:
        column = X[name]
        if column.dtype == "category":
            value = rng.normal(size=len(column.cat.categories) + 1)[column.cat.codes]
        else:
            value = np.nan_to_num(rankdata(column, nan_policy="omit"), nan=len(X) / 2)
        if value.std() > 0:
            total += rng.normal() * (value - value.mean()) / value.std()
    return (total - total.mean()) / total.std()


class RandomTree:
    """Up to eight cells cut by a random tree."""

    def __init__(self, X: np.ndarray, rng: np.random.Generator):
        self.tree = ExtraTreeRegressor(
            max_leaf_nodes=8, min_samples_leaf=len(X) // 30, random_state=int(rng.integers(2**31))
        )
        ranks = np.column_stack([rankdata(column) for column in X.T])
        self.tree.fit(X, ranks @ rng.normal(size=X.shape[1]))
        self.leaves = np.unique(self.tree.apply(X))
        self.n_clusters_ = len(self.leaves)

    def predict(self, X) -> np.ndarray:
        return np.searchsorted(self.leaves, self.tree.apply(np.asarray(X)))


def _resampled(X, y, group, household, kind: str, rng: np.random.Generator) -> Draw:
    from groupshift.datasets import bias_groups

    sample = bias_groups(
        X,
        y,
        group,
        setting=int(kind[8]),
        # The silhouette of categories is best for one cluster, which would be another question.
        n_clusters=4 if kind.endswith("categories") else None,
        partition=RandomTree(X, rng) if kind.endswith("tree cells") else None,
        example_ids=household,
        random_state=int(rng.integers(2**31)),
    )
    return Draw(
        sample.X, sample.y, sample.truth, np.asarray(sample.groups), sample.example_ids, sample.partition
    )
