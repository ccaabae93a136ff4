"""Partitions from merging: small cells of feature space whose groups are composed alike become one cluster.

Under the assumption, x is independent of the group given the class inside a cluster. So two parts of one cluster have
positives from the same mix of groups, and negatives too; parts of different clusters do not.
"""

import numpy as np
from scipy.special import gammaln

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.segments import sum_by


def cell_counts(cell: IntArray, group: IntArray, y: IntArray, weight: FloatArray, n_cells: int) -> FloatArray:
    """Weight of the labelled rows of each class, cell and group: shape (2, n_cells, n_groups)."""
    n_groups = int(group.max()) + 1
    index = (y * n_cells + cell) * n_groups + group
    return sum_by(index, weight, 2 * n_cells * n_groups).reshape(2, n_cells, n_groups)


def merge_levels(
    cell: IntArray,
    group: IntArray,
    y: IntArray,
    weight: FloatArray,
    *,
    levels: tuple[int, ...],
    n_cells: int | None = None,
) -> dict[int, IntArray]:
    """Merge cells greedily, the most alike first, and return the cluster of each cell at the wanted levels.

    The merge score is a Bayes factor: one Dirichlet-multinomial composition over groups for both cells against one
    for each, the two classes taken separately.

    Parameters
    ----------
    cell, group, y : arrays of labelled rows
        Cell of feature space, group and class (0 or 1).
    levels : tuple of int
        Numbers of clusters to return.
    n_cells : int, optional
        Number of cells, some of which may hold no row.
    """
    n_cells = n_cells or int(cell.max()) + 1
    counts = cell_counts(cell, group, y, weight, n_cells)
    # The prior's mean is each class's own mix of groups, worth one row a group in all.
    base = counts.sum(1) + 0.5
    base = counts.shape[2] * base / base.sum(1, keepdims=True)
    evidence = _evidence(counts[0], base[0]) + _evidence(counts[1], base[1])
    factor = np.full((n_cells, n_cells), -np.inf)
    for a in range(n_cells - 1):
        factor[a, a + 1 :] = _factors(counts, base, evidence, a, np.arange(a + 1, n_cells))
    cluster = np.arange(n_cells)
    found = {}
    for n_clusters in range(n_cells, 1, -1):
        if n_clusters in levels:
            found[n_clusters] = np.unique(cluster, return_inverse=True)[1]
        a, b = (int(i) for i in np.unravel_index(np.argmax(factor), factor.shape))
        counts[:, a] += counts[:, b]
        cluster[cluster == b] = a
        evidence[a] = sum(_evidence(counts[c, a : a + 1], base[c])[0] for c in (0, 1))
        factor[b, :] = factor[:, b] = -np.inf
        others = np.array([c for c in np.unique(cluster) if c != a])
        if len(others):
            value = _factors(counts, base, evidence, a, others)
            factor[np.minimum(a, others), np.maximum(a, others)] = value
    return found


def _evidence(counts: FloatArray, base: FloatArray) -> FloatArray:
    """Log-probability of each row of counts under a Dirichlet-multinomial, without the multinomial coefficient."""
    total = base.sum()
    evidence: FloatArray = gammaln(total) - gammaln(total + counts.sum(-1))
    evidence += (gammaln(base + counts) - gammaln(base)).sum(-1)
    return evidence


def _factors(
    counts: FloatArray, base: FloatArray, evidence: FloatArray, a: int, others: IntArray
) -> FloatArray:
    """Log Bayes factor for merging cell `a` with each of the others."""
    merged = [_evidence(counts[c, a] + counts[c, others], base[c]) for c in (0, 1)]
    factors: FloatArray = merged[0] + merged[1] - evidence[a] - evidence[others]
    return factors
