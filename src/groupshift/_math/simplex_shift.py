r"""Shares of several classes in many cells at once, each on its simplex (NumPy).

A cell's rows are a mixture of classes with shares q: a row with labelled posterior p has density proportional to
``Σ_c q_c p_c / π_c``, π being the shares among labelled rows. Maximised is ``Σ w log Σ_c q_c p_c / π_c + Σ_c a_c log q_c``
over the simplex, with a weak Dirichlet prior a. The sum is concave, and its multiplier is known (the total weight N and the
prior's A), so what is left are the bounds q ≥ 0: primal-dual Newton steps, all cells of a batch together. Shares of exactly
0 are approached to the tolerance.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray

# Numbers that the rows of a batch hold: what is made of them then stays in the processor's cache.
BATCH_NUMBERS = 250_000
EM_STEPS, MAX_STEPS = 3, 60
# A step ends this part of the way to the bound it would cross.
TO_BOUND = 0.995


@dataclass(frozen=True)
class CellBatch(ABC):
    """The rows of some cells, as densities R of classes in any unit, and weights w of shape (n_cells, n_rows)."""

    density: FloatArray
    weight: FloatArray

    @property
    def total(self) -> FloatArray:
        """Weight of each cell, (n_cells,)."""
        found: FloatArray = self.weight.sum(1)
        return found

    def log_likelihood(self, q: FloatArray) -> FloatArray:
        """``Σ w log R q`` of each cell, (n_cells,)."""
        found: FloatArray = (self.weight * np.log(self._mixed(q))).sum(1)
        return found

    def gradient(self, q: FloatArray) -> FloatArray:
        """``Σ w R / (R q)`` of each cell, (n_cells, n_classes)."""
        return self._summed(self.weight / self._mixed(q))

    def curvature(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gradient, and ``Σ w R Rᵀ / (R q)²``, (n_cells, n_classes, n_classes)."""
        mixed = self._mixed(q)
        return self._summed(self.weight / mixed), self._squared(mixed)

    @abstractmethod
    def take(self, cells: IntArray) -> "CellBatch":
        """Some of the cells."""

    @abstractmethod
    def _mixed(self, q: FloatArray) -> FloatArray:
        """``R q``, (n_cells, n_rows)."""

    @abstractmethod
    def _summed(self, factor: FloatArray) -> FloatArray:
        """Densities of each cell, times a factor for each row, added up."""

    @abstractmethod
    def _squared(self, mixed: FloatArray) -> FloatArray:
        """``Σ w R Rᵀ / (R q)²``, given ``R q``."""


class OwnRows(CellBatch):
    """Cells with rows of their own: `density` has shape (n_cells, n_rows, n_classes); 0 pads the weights."""

    def take(self, cells: IntArray) -> "OwnRows":
        return OwnRows(self.density[cells], self.weight[cells])

    def _mixed(self, q: FloatArray) -> FloatArray:
        mixed: FloatArray = np.matmul(self.density, q[:, :, None])[..., 0]
        return mixed

    def _summed(self, factor: FloatArray) -> FloatArray:
        summed: FloatArray = np.matmul(factor[:, None, :], self.density)[:, 0]
        return summed

    def _squared(self, mixed: FloatArray) -> FloatArray:
        root = self.density * (np.sqrt(self.weight) / mixed)[:, :, None]
        squared: FloatArray = np.matmul(root.transpose(0, 2, 1), root)
        return squared


class SharedRows(CellBatch):
    """Cells that are counts of the same rows: `density` has shape (n_rows, n_classes)."""

    def take(self, cells: IntArray) -> "SharedRows":
        return SharedRows(self.density, self.weight[cells])

    def _mixed(self, q: FloatArray) -> FloatArray:
        return q @ self.density.T

    def _summed(self, factor: FloatArray) -> FloatArray:
        return factor @ self.density

    def _squared(self, mixed: FloatArray) -> FloatArray:
        n_rows, n_classes = self.density.shape
        products = (self.density[:, :, None] * self.density[:, None, :]).reshape(n_rows, -1)
        return ((self.weight / mixed / mixed) @ products).reshape(-1, n_classes, n_classes)


def simplex_shares(batch: CellBatch, prior: FloatArray, *, tol: float = 1e-8) -> FloatArray:
    """Shares of classes that are likeliest in each cell, (n_cells, n_classes).

    Parameters
    ----------
    batch : CellBatch
        Rows of the cells, with densities ``p / π``.
    prior : array of shape (n_classes,) or (n_cells, n_classes)
        Rows that each class is given beforehand, a; zeros for none.
    tol : float
        What a class may yet gain by a larger share, for each row. Where classes look alike, shares that are far apart are nearly
        as likely: then 1e-8 leaves them open by 1e-4, many times less than chance does.

    Examples
    --------
    Rows that are certain of their class are counted.

    >>> rows = OwnRows(np.eye(3)[None, [0, 0, 0, 1]], np.ones((1, 4)))
    >>> simplex_shares(rows, np.zeros(3)).round(6).tolist()
    [[0.75, 0.25, 0.0]]
    """
    total = batch.total
    a = np.broadcast_to(prior, (len(total), np.shape(prior)[-1])).astype(float)
    everything = total + a.sum(1)
    is_empty = everything <= 0
    scale = np.where(is_empty, 1.0, everything)[:, None]
    a = a / scale
    q = np.full(a.shape, 1 / a.shape[1])
    for _ in range(EM_STEPS):
        q = q * batch.gradient(q) / scale + a
        q = np.maximum(q, 1e-8) / np.maximum(q, 1e-8).sum(1, keepdims=True)
    z = np.maximum(1 - batch.gradient(q) / scale - a / q, 1e-3)
    for _ in range(MAX_STEPS):
        gradient, curvature = batch.curvature(q)
        slope = gradient / scale + a / q - 1
        gap = (q * z).mean(1, keepdims=True)
        # At the optimum the slope is balanced by the bounds.
        residual = np.abs(q * (slope + z)).max(initial=0.0)
        if max(residual, gap[~is_empty].max(initial=0.0)) < tol:
            break
        barrier = 0.03 * gap
        q, z = _step(q, z, slope, curvature / scale[:, :, None], a, barrier)
    q = np.where(is_empty[:, None], np.nan, q)
    found: FloatArray = q / q.sum(1, keepdims=True)
    return found


def _step(
    q: FloatArray, z: FloatArray, slope: FloatArray, curvature: FloatArray, a: FloatArray, barrier: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """A primal-dual Newton step, cut short before a share or its multiplier would become negative.

    In steps relative to q the system is well scaled however small shares are.
    """
    n_classes = q.shape[1]
    scaled = curvature * q[:, :, None] * q[:, None, :]
    at = np.arange(n_classes)
    scaled[:, at, at] += a + q * z + 1e-14
    step = np.asarray(np.linalg.solve(scaled, (q * slope + barrier)[:, :, None])[..., 0], float)
    dual = barrier / q - z - z * step
    return q * (1 + _length(step) * step), z + _length(dual / z) * dual


def _length(relative: FloatArray) -> FloatArray:
    """Part of a step that each cell takes, (n_cells, 1)."""
    lowest = -relative.min(1, keepdims=True)
    found: FloatArray = np.minimum(1, TO_BOUND / np.maximum(lowest, TO_BOUND))
    return found


def padded_batches(
    density: FloatArray, weight: FloatArray, start: IntArray
) -> Iterator[tuple[IntArray, OwnRows]]:
    """Rows of cells, next to each other from `start` (n_cells + 1) on, as batches of cells of about the same number of rows.

    With each batch come the numbers of its cells.
    """
    size = np.diff(start)
    order = np.argsort(size, kind="stable")
    n_classes = density.shape[1]
    for cells in _cut(order, size, n_classes):
        width = int(size[cells].max())
        at = start[cells][:, None] + np.arange(width)
        is_own = at < start[cells + 1][:, None]
        at = np.where(is_own, at, 0)
        own = density[at.ravel()].reshape(len(cells), width, n_classes)
        own[~is_own] = 1.0
        yield cells, OwnRows(own, np.where(is_own, weight[at], 0.0))


def _cut(order: IntArray, size: IntArray, n_classes: int) -> Iterator[IntArray]:
    """Cells in the order of their sizes, cut where a batch is full; empty cells are left out."""
    order = order[size[order] > 0]
    first = 0
    while first < len(order):
        # A batch is as wide as its largest cell: one that is many times the smallest would be mostly padding.
        widest = 1.5 * size[order[first]] + 8
        last = first + 1
        while (
            last < len(order)
            and size[order[last]] <= widest
            and (last + 1 - first) * size[order[last]] * n_classes <= BATCH_NUMBERS
        ):
            last += 1
        yield order[first:last]
        first = last


def in_blocks(n_cells: int, numbers_each: int) -> Sequence[slice]:
    """Cells in runs whose numbers stay in the processor's cache."""
    size = max(1, BATCH_NUMBERS // max(numbers_each, 1))
    return [slice(first, first + size) for first in range(0, n_cells, size)]
