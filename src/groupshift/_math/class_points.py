"""Unlabelled rows of several classes as weighted points that add up over chunks and machines.

What a row says of shares is its posterior, C numbers that no grid can hold. So rows of a cell that are nearest to the same
prototype become one point: their weight and, unless cells are very many, the mean of their posteriors. Means make what is lost
small of second order; without them a point is its prototype.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.prototypes import nearest
from groupshift._math.simplex_shift import CellBatch, SharedRows, in_blocks, padded_batches
from groupshift._math.sums import ratio, sum_by

# Posteriors this close to 0 are held: no sample says never.
LEAST = 1e-12
# Numbers that all points together may hold (400 MB); more cells than that keep weights alone, of fewer prototypes.
MAX_NUMBERS = 50_000_000
MANY_PROTOTYPES, FEW_PROTOTYPES = 1024, 256
BLOCK_NUMBERS = 1_000_000


def wanted_prototypes(n_cells: int, n_classes: int) -> tuple[int, bool]:
    """How many prototypes so many cells afford, and whether points keep the means of their rows.

    >>> wanted_prototypes(50, 26), wanted_prototypes(100_000, 20)
    ((1024, True), (256, False))
    """
    affordable = MAX_NUMBERS // (n_cells * n_classes)
    if affordable >= FEW_PROTOTYPES:
        return min(MANY_PROTOTYPES, affordable), True
    return FEW_PROTOTYPES, False


@dataclass(frozen=True)
class ClassPoints:
    """Weighted posteriors of the rows of many cells. Points of two chunks are added with ``+``.

    Attributes
    ----------
    prototypes : array of shape (n_prototypes, n_classes)
        Square roots of posteriors.
    key, weight : arrays of shape (n_points,)
        ``cell * n_prototypes + prototype`` of each point, in order, and the weight of its rows.
    posterior_sum : array of shape (n_points, n_classes) or None
        Posteriors of the rows of each point, weighted and added; None where prototypes stand for them.
    rows, weight_sum, weight_square_sum : arrays of shape (n_cells,)
    """

    prototypes: FloatArray
    key: IntArray
    weight: FloatArray
    posterior_sum: FloatArray | None
    rows: IntArray
    weight_sum: FloatArray
    weight_square_sum: FloatArray

    @property
    def n_cells(self) -> int:
        return len(self.rows)

    @property
    def cell(self) -> IntArray:
        return self.key // len(self.prototypes)

    @property
    def posterior(self) -> FloatArray:
        """Of each point, (n_points, n_classes)."""
        if self.posterior_sum is None:
            squared = self.prototypes**2
            p = (squared / squared.sum(1, keepdims=True))[self.key % len(self.prototypes)]
        else:
            p = self.posterior_sum / np.maximum(self.weight, 1e-300)[:, None]
        found: FloatArray = np.maximum(p, LEAST)
        return found

    @property
    def effective_rows(self) -> FloatArray:
        """Kish's effective number of rows of each cell: rows of unequal weight say less."""
        return self.weight_sum * self._rows_each

    @property
    def _rows_each(self) -> FloatArray:
        """Rows that a unit of weight is worth in each cell."""
        return ratio(self.weight_sum, self.weight_square_sum, empty=0.0)

    def __add__(self, other: "ClassPoints") -> "ClassPoints":
        key, weight, posterior = _merged(
            np.concatenate([self.key, other.key]),
            np.concatenate([self.weight, other.weight]),
            None
            if self.posterior_sum is None or other.posterior_sum is None
            else np.concatenate([self.posterior_sum, other.posterior_sum]),
        )
        return ClassPoints(
            self.prototypes,
            key,
            weight,
            posterior,
            self.rows + other.rows,
            self.weight_sum + other.weight_sum,
            self.weight_square_sum + other.weight_square_sum,
        )

    def thinned(self, design_effect: float) -> "ClassPoints":
        """The same points, worth fewer rows: examples that have copies count once."""
        return replace(self, weight_square_sum=design_effect * self.weight_square_sum)

    def batches(self, prior: FloatArray) -> Iterator[tuple[IntArray, CellBatch]]:
        """Cells with rows, as batches for the solvers; `prior`: π of each cluster, cells of one group next to each other."""
        worth = self.weight * self._rows_each[self.cell]
        if self.posterior_sum is None:
            yield from self._shared(prior, worth)
            return
        density = self.posterior / prior[self.cell % len(prior)]
        start = np.searchsorted(self.cell, np.arange(self.n_cells + 1))
        yield from padded_batches(density, worth, start)

    def _shared(self, prior: FloatArray, worth: FloatArray) -> Iterator[tuple[IntArray, CellBatch]]:
        """Counts of the prototypes, cells of one cluster at a time."""
        n_prototypes = len(self.prototypes)
        squared = np.maximum(self.prototypes**2, LEAST)
        start = np.searchsorted(self.cell, np.arange(self.n_cells + 1))
        for k, own in enumerate(prior):
            density = squared / squared.sum(1, keepdims=True) / own
            mine = np.arange(k, self.n_cells, len(prior))
            for block in in_blocks(len(mine), n_prototypes):
                cells = mine[block]
                counts = np.zeros((len(cells), n_prototypes))
                for i, cell in enumerate(cells):
                    at = slice(start[cell], start[cell + 1])
                    counts[i, self.key[at] % n_prototypes] = worth[at]
                yield cells, SharedRows(density, counts)

    def mean_posterior(self, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means of the moved posterior r of each cell's rows, and of r(1 − r), by class; NaN in cells without rows.

        `shift` has shape (n_cells, n_classes), as both results.
        """
        n_classes = shift.shape[1]
        mean, doubt = np.zeros(shift.shape), np.zeros(shift.shape)
        cell, posterior = self.cell, self.posterior
        factor = np.exp(shift - shift.max(1, keepdims=True))
        step = max(1, BLOCK_NUMBERS // n_classes)
        for first in range(0, len(cell), step):
            part = slice(first, first + step)
            moved = posterior[part] * factor[cell[part]]
            moved /= moved.sum(1, keepdims=True)
            weighted = moved * self.weight[part][:, None]
            for c in range(n_classes):
                mean[:, c] += sum_by(cell[part], weighted[:, c], self.n_cells)
                doubt[:, c] += sum_by(cell[part], weighted[:, c] * (1 - moved[:, c]), self.n_cells)
        total = np.where(self.weight_sum > 0, self.weight_sum, np.nan)[:, None]
        return mean / total, doubt / total


def collect_class_points(
    posterior: FloatArray,
    cell: IntArray,
    *,
    n_cells: int,
    weight: FloatArray,
    prototypes: FloatArray,
    keep_means: bool = True,
) -> ClassPoints:
    """Turn rows into points: those of one cell and one prototype become one.

    >>> points = collect_class_points(
    ...     np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 0]), n_cells=2, weight=np.ones(2), prototypes=np.eye(2)
    ... )
    >>> points.posterior.round(2).tolist(), points.rows.tolist()
    ([[0.85, 0.15]], [2, 0])
    """
    key, mass, sums = _merged(
        cell * len(prototypes) + nearest(posterior, prototypes),
        weight,
        posterior * weight[:, None] if keep_means else None,
    )
    return ClassPoints(
        prototypes,
        key,
        mass,
        sums,
        np.bincount(cell, minlength=n_cells),
        sum_by(cell, weight, n_cells),
        sum_by(cell, weight**2, n_cells),
    )


def _merged(
    key: IntArray, weight: FloatArray, posterior: FloatArray | None
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Points in the order of their keys, equal ones added."""
    order = np.argsort(key, kind="stable")
    key, weight = key[order], weight[order]
    start = np.flatnonzero(np.concatenate([[len(key) > 0], key[1:] != key[:-1]]))
    if not len(start):
        return key, weight, posterior
    if posterior is not None:
        posterior = np.add.reduceat(posterior[order], start, axis=0)
    return key[start], np.add.reduceat(weight, start), posterior
