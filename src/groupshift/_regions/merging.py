"""Partitions from merging: small cells of feature space whose groups are composed alike become one cluster.

Under the assumption, x is independent of the group given the class inside a cluster. So two parts of one cluster have
positives from the same mix of groups, and negatives too; parts of different clusters do not.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import renumbered, sum_by


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
    cells = _Cells.of(cell, group, y, weight, n_cells)
    factor = np.full((n_cells, n_cells), -np.inf)
    for a in range(n_cells - 1):
        factor[a, a + 1 :] = cells.factors(a, after=True)[a + 1 :]
    cluster, is_left = np.arange(n_cells), np.ones(n_cells, bool)
    found = {}
    for n_clusters in range(n_cells, 1, -1):
        if n_clusters in levels:
            found[n_clusters] = renumbered(cluster)
        a, b = (int(i) for i in np.unravel_index(np.argmax(factor), factor.shape))
        cells = cells.merged(a, b)
        cluster[cluster == b] = a
        factor[b, :] = factor[:, b] = -np.inf
        is_left[b] = False
        others = np.flatnonzero(is_left & (np.arange(n_cells) != a))
        factor[np.minimum(a, others), np.maximum(a, others)] = cells.factors(a)[others]
    return found


@dataclass(frozen=True)
class _Cells:
    """What cells hold of each (class, group) pair, as entries: of many groups, a cell holds few.

    Evidence is the log-probability under a Dirichlet-multinomial, without the multinomial coefficient. An entry adds to that
    of its cell on its own, and two cells that share no pair differ from their union in their sizes alone.
    """

    cell: IntArray  # (n_entries,)
    pair: IntArray  # (n_entries,): number of the (class, group) pair
    count: FloatArray  # (n_entries,): weight of the rows
    evidence: FloatArray  # (n_entries,): what the entry adds to that of its cell
    size: FloatArray  # (2, n_cells): weight of each class
    base: FloatArray  # (n_pairs,): prior counts
    floor: FloatArray  # (n_pairs,): evidence is counted from here

    @classmethod
    def of(cls, cell: IntArray, group: IntArray, y: IntArray, weight: FloatArray, n_cells: int) -> Self:
        n_groups = int(group.max()) + 1
        pair = y * n_groups + group
        # The prior's mean is each class's own mix of groups, worth one row a group in all.
        base = sum_by(pair, weight, 2 * n_groups).reshape(2, n_groups) + 0.5
        base = n_groups * base / base.sum(1, keepdims=True)
        entry, place = np.unique(cell * (2 * n_groups) + pair, return_inverse=True)
        size = sum_by(y * n_cells + cell, weight, 2 * n_cells).reshape(2, n_cells)
        pair, count, base = entry % (2 * n_groups), sum_by(place, weight, len(entry)), base.ravel()
        floor = gammaln(base)
        evidence = gammaln(base[pair] + count) - floor[pair]
        return cls(entry // (2 * n_groups), pair, count, evidence, size, base, floor)

    def factors(self, a: int, *, after: bool = False) -> FloatArray:
        """Log Bayes factor for merging cell `a` with each cell; `after`: those of cells before it may be wrong."""
        own = np.flatnonzero(self.cell == a)
        held, evidence = np.zeros(len(self.base)), np.zeros(len(self.base))
        held[self.pair[own]], evidence[self.pair[own]] = self.count[own], self.evidence[own]
        is_shared = held[self.pair] > 0
        shared = np.flatnonzero(is_shared & (self.cell > a) if after else is_shared)
        pair = self.pair[shared]
        together = self._evidence(pair, self.count[shared] + held[pair])
        gain = together - self.evidence[shared] - evidence[pair]
        total, size = len(self.base) / 2, self.size
        sizes = gammaln(total + size) + gammaln(total + size[:, [a]])
        sizes -= gammaln(total) + gammaln(total + size + size[:, [a]])
        factor: FloatArray = sum_by(self.cell[shared], gain, size.shape[1]) + sizes.sum(0)
        return factor

    def merged(self, a: int, b: int) -> Self:
        """Cell `b` put into cell `a`."""
        of_both = (self.cell == a) | (self.cell == b)
        pair, place = np.unique(self.pair[of_both], return_inverse=True)
        size = self.size.copy()
        size[:, a] += size[:, b]
        count = sum_by(place, self.count[of_both], len(pair))
        evidence = sum_by(place, self.evidence[of_both], len(pair))
        in_both = np.bincount(place) > 1
        evidence[in_both] = self._evidence(pair[in_both], count[in_both])
        return replace(
            self,
            cell=np.concatenate([self.cell[~of_both], np.full(len(pair), a)]),
            pair=np.concatenate([self.pair[~of_both], pair]),
            count=np.concatenate([self.count[~of_both], count]),
            evidence=np.concatenate([self.evidence[~of_both], evidence]),
            size=size,
        )

    def _evidence(self, pair: IntArray, count: FloatArray) -> FloatArray:
        evidence: FloatArray = gammaln(self.base[pair] + count) - self.floor[pair]
        return evidence
