"""Cells that a tree cuts: where labels say that groups shift differently on both sides of a cut."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groupshift._data.rows import Rows
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.sums import sum_by
from groupshift._scores.contrasts import expected, information, observed

# Quantiles that may be cut at.
N_EDGES = 15
# Rows on each side of a cut, at least.
FEWEST_ROWS = 50
# Variance of a shift that a cut is scored under.
WIDE = 4.0


@dataclass(frozen=True)
class CutPartition:
    """Leaves of a tree: cut i moves the rows of `leaf[i]` whose feature lies above `edge[i]` to leaf i + 1."""

    leaf: IntArray  # (n_cuts,)
    feature: IntArray
    edge: FloatArray
    rank: FloatArray  # (n_features, n_codes): what codes of categories count as; unread for numbers
    is_category: BoolArray

    @property
    def n_clusters(self) -> int:
        return len(self.leaf) + 1

    def predict(self, rows: Rows) -> IntArray:
        cluster = np.zeros(len(rows), np.int64)
        columns = {j: self.ranked(rows.matrix, j) for j in np.unique(self.feature).tolist()}
        for new, (i, j, edge) in enumerate(zip(self.leaf, self.feature, self.edge, strict=True), 1):
            cluster[(cluster == i) & (columns[int(j)] > edge)] = new
        return cluster

    def ranked(self, matrix: NDArray[np.floating], j: int) -> FloatArray:
        """A column as it is cut: missing values lie below all others."""
        column = np.asarray(matrix[:, j], float)
        if self.is_category[j]:
            known = np.isfinite(column) & (column < self.rank.shape[1])
            column = np.where(known, self.rank[j, np.where(known, column, 0).astype(np.int64)], -1.0)
        return np.where(np.isnan(column), -np.inf, column)

    def first(self, n_clusters: int) -> "CutPartition":
        """The tree of the first cuts alone."""
        n = n_clusters - 1
        return CutPartition(self.leaf[:n], self.feature[:n], self.edge[:n], self.rank, self.is_category)


def grow_cuts(
    rows: Rows,
    y: IntArray,
    score: FloatArray,
    group: IntArray,
    worth: FloatArray,
    *,
    is_category: BoolArray,
    most: int,
) -> CutPartition:
    """A tree grown best first, by residuals of labelled rows.

    With S the residuals and I the information that the rows of a group on one side of a cut have on its shift, the log
    likelihood of shifts of variance `WIDE` is half of Σ S² / (I + 1 / WIDE) − log(1 + WIDE · I): a cut gains what both
    sides have beyond the whole.
    """
    n_groups, M = int(group.max()) + 1, score.shape[1]
    residual = worth[:, None] * (observed(y, M) - expected(score))
    slope = worth[:, None] * np.einsum("nmm->nm", information(score))
    rank = _ranks(rows.matrix, score[:, 0], is_category)
    whole = CutPartition(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), rank, is_category)
    columns = [whole.ranked(rows.matrix, j) for j in range(rows.matrix.shape[1])]
    edges = [_edges(column) for column in columns]
    codes = [np.searchsorted(edge, column, side="left") for edge, column in zip(edges, columns, strict=True)]
    leaf = np.zeros(len(y), np.int64)
    cuts: list[tuple[int, int, float]] = []

    def value(S: FloatArray, I: FloatArray) -> FloatArray:
        summed: FloatArray = (S**2 / (I + 1 / WIDE) - np.log1p(WIDE * I)).sum((0, 1))
        return summed

    def best(i: int) -> tuple[float, int, float]:
        own, found = np.flatnonzero(leaf == i), (0.0, 0, 0.0)
        for j, edge in enumerate(edges):
            if not len(edge):
                continue
            n = len(edge) + 1
            cell = group[own] * n + codes[j][own]
            S, I = (
                np.stack(
                    [sum_by(cell, v[own, m], n_groups * n).reshape(n_groups, n).cumsum(1) for m in range(M)],
                    1,
                )
                for v in (residual, slope)
            )
            below = np.bincount(codes[j][own], minlength=n).cumsum()[:-1]
            both = value(S[..., :-1], I[..., :-1]) + value(
                S[..., -1:] - S[..., :-1], I[..., -1:] - I[..., :-1]
            )
            gain = both - value(S[..., -1:], I[..., -1:])
            gain[(below < FEWEST_ROWS) | (len(own) - below < FEWEST_ROWS)] = -np.inf
            if (top := float(gain.max())) > found[0]:
                found = top, j, float(edge[gain.argmax()])
        return found

    ready = [best(0)]
    while len(ready) < most and max(ready)[0] > 0:
        i = ready.index(max(ready))
        _, j, edge = ready[i]
        cuts.append((i, j, edge))
        leaf[(leaf == i) & (columns[j] > edge)] = len(ready)
        ready.append(best(len(ready)))
        ready[i] = best(i)
    at, feature, edge_of = (np.array(part) for part in zip(*cuts, strict=True)) if cuts else ((), (), ())
    return CutPartition(
        np.asarray(at, np.int64), np.asarray(feature, np.int64), np.asarray(edge_of, float), rank, is_category
    )


def _ranks(matrix: NDArray[np.floating], score: FloatArray, is_category: BoolArray) -> FloatArray:
    """Codes of categories in the order of their mean scores."""
    n_codes = int(np.nanmax(matrix[:, is_category], initial=0)) + 1 if is_category.any() else 0
    rank = np.full((matrix.shape[1], n_codes), -1.0)
    for j in np.flatnonzero(is_category):
        known = np.flatnonzero(~np.isnan(matrix[:, j]))
        code = matrix[known, j].astype(np.int64)
        count = np.bincount(code, minlength=n_codes)
        mean = sum_by(code, score[known], n_codes) / np.maximum(count, 1)
        seen = np.flatnonzero(count)
        rank[j, seen[np.argsort(mean[seen], kind="stable")]] = np.arange(len(seen))
    return rank


def _edges(column: FloatArray) -> FloatArray:
    """Quantiles of the values that are there; between missing ones and the others is an edge too."""
    there = column[np.isfinite(column)]
    if not len(there):
        return np.empty(0)
    edges = np.unique(np.quantile(there, np.linspace(0, 1, N_EDGES + 2)[1:-1], method="lower"))
    if np.isneginf(column).any():
        edges = np.unique(np.r_[np.nextafter(there.min(), -np.inf), edges])
    result: FloatArray = edges[edges < there.max()]
    return result
