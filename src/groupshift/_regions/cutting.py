"""Cells that a tree cuts: each cut is made where groups differ from their scores in another way on its two sides.

Shares that follow a rule (an age, a category, an answer) have cells with straight sides across single columns, which neither
k-means nor a handful of gates finds. In such a cell one number for each group, in log-odds, describes how labels differ from
what the classifier expects of them; across a border of cells two numbers do it better.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.fitted_part import FittedPart
from groupshift._math.sums import ratio, sum_by
from groupshift._regions.space import MAX_ONE_HOT
from groupshift._rows.rows import Rows

MAX_CUT_CELLS = 16
# Places of a column where it may be cut.
MAX_BINS = 32
# Rows and groups that cuts are learned from, the largest groups first: more hardly move a cut.
MAX_ROWS = 60_000
MAX_GROUPS = 1_000
# Variance of groups' numbers in a cell, expected beforehand: odds that differ by a factor e or so.
EFFECT_VARIANCE = 1.0
# Sums of a block of columns, which stay in the processor's cache, and numbers of its rows: a few dozen megabytes.
MAX_SUMS, MAX_NUMBERS = 2**17, 2**22

BinArray = NDArray[np.uint8]


class CutPartition(FittedPart):
    """Cells made by one cut after the other: cut i splits rows off a cell, to be cell i + 1.

    Parameters
    ----------
    cell, column : arrays of shape (n_cuts,)
        The cell that is cut, and the column across which.
    threshold : array of shape (n_cuts,)
        Rows with larger numbers are split off; those without a number stay.
    categories : array of shape (n_cuts, n_codes)
        Which categories are split off; the last stands for all others, and for missing ones. None where the column holds
        numbers.
    """

    n_codes = MAX_ONE_HOT + 1

    def __init__(self, cell: IntArray, column: IntArray, threshold: FloatArray, categories: BoolArray):
        self.cell = cell
        self.column = column
        self.threshold = threshold
        self.categories = categories

    @property
    def n_clusters(self) -> int:
        return len(self.cell) + 1

    def first(self, n_clusters: int) -> Self:
        """The partition as it was when it had so many cells."""
        n = n_clusters - 1
        return type(self)(self.cell[:n], self.column[:n], self.threshold[:n], self.categories[:n])

    def predict(self, rows: Rows) -> IntArray:
        found = np.zeros(len(rows), np.int64)
        cuts = zip(self.cell, self.column, self.threshold, self.categories, strict=True)
        for number, (cell, column, threshold, categories) in enumerate(cuts, start=1):
            values = rows.matrix[:, column]
            splits_off = categories[_codes(values)] if categories.any() else values > threshold
            found[splits_off & (found == cell)] = number
        return found


@dataclass(frozen=True)
class Unexplained:
    """What labels say beyond scores: the rows that cuts are learned from. One value for each of them."""

    matrix: NDArray[np.floating]  # (n_rows, n_columns)
    group: IntArray
    y: IntArray
    residual: FloatArray  # label minus probability, weighted
    information: FloatArray  # variance of the label given the probability, weighted


def largest_groups(group: IntArray, order: IntArray) -> IntArray:
    """Numbers of the rows of the largest groups, and of these the first in `order`, where there are more than cuts need."""
    size = np.bincount(group)
    kept = np.zeros(len(size), bool)
    kept[np.argsort(-size, kind="stable")[:MAX_GROUPS]] = True
    return np.sort(order[kept[group[order]]][:MAX_ROWS])


def cut_cells(table: "CutTable", rows: IntArray, *, min_class_rows: float) -> tuple[CutPartition, int]:
    """A tree of at most `MAX_CUT_CELLS` cells that these rows of the table cut, and how many of the cells evidence supports.

    The best cut of all cells is made next, as long as any raises the evidence. A cut was searched for at hundreds of places:
    it is supported if it raises the log evidence by more than the logarithm of their number, and so are those before it.
    Each cell keeps at least `min_class_rows` rows of each class.
    """
    cells = [rows]
    best = [table.best_cut(rows, min_class_rows)]
    made: list[_Cut] = []
    parents: list[int] = []
    n_supported, least = 1, np.log(table.n_places)
    while len(made) < MAX_CUT_CELLS - 1:
        parent = max(range(len(best)), key=lambda k: best[k].gain)
        cut, own = best[parent], cells[parent]
        if cut.gain <= 0:
            break
        is_off = cut.splits_off[table.bins[own, cut.column]]
        made.append(cut)
        parents.append(parent)
        if cut.gain > least:
            n_supported = len(made) + 1
        cells[parent] = own[~is_off]
        cells.append(own[is_off])
        best[parent], new = (table.best_cut(part, min_class_rows) for part in (cells[parent], cells[-1]))
        best.append(new)
    return table.partition(parents, made), n_supported


@dataclass(frozen=True)
class _Cut:
    gain: float  # of log evidence
    column: int
    splits_off: BoolArray  # which bins of the column


NO_CUT = _Cut(0.0, 0, np.zeros(0, bool))


@dataclass(frozen=True)
class CutTable:
    """The rows, their columns in bins. Bin 0 of numbers holds the missing ones, bin 1 those up to the first edge, and so on."""

    rows: Unexplained
    n_groups: int
    bins: BinArray  # (n_rows, n_columns)
    edges: list[FloatArray | None]  # of each column; None: categories

    @classmethod
    def of(cls, rows: Unexplained, is_category: BoolArray) -> Self:
        edges = [
            None if is_category[j] else _edges(rows.matrix[:, j].astype(float))
            for j in range(len(is_category))
        ]
        bins = np.empty(rows.matrix.shape, np.uint8)
        for j, own in enumerate(edges):
            bins[:, j] = _binned(rows.matrix[:, j], own)
        return cls(rows, int(rows.group.max()) + 1, bins, edges)

    @property
    def n_places(self) -> int:
        return max(int(self.bins.max(0, initial=0).sum()), 1)

    def best_cut(self, rows: IntArray, min_class_rows: float) -> _Cut:
        """The cut of these rows that raises the evidence most."""
        n_columns = self.bins.shape[1]
        step = max(1, min(MAX_SUMS // (self.n_groups * MAX_BINS), MAX_NUMBERS // max(len(rows), 1)))
        parts = [
            self._best_of(rows, np.arange(start, min(start + step, n_columns)), min_class_rows)
            for start in range(0, n_columns, step)
        ]
        return max(parts, key=lambda cut: cut.gain, default=NO_CUT)

    def _best_of(self, rows: IntArray, columns: IntArray, min_class_rows: float) -> _Cut:
        sums = self._sums(rows, columns)
        # Every column has all rows in its bins.
        whole = sums.total()
        order = np.tile(np.arange(MAX_BINS), (len(columns), 1))
        for i, j in enumerate(columns):
            if self.edges[j] is None:
                order[i] = _category_order(sums.of_column(i))
        low = sums.cumulated(order)
        high = whole.minus(low)
        enough = np.minimum(low.rarer_class, high.rarer_class) >= min_class_rows
        if not enough.any():
            return NO_CUT
        gains = low.evidence + high.evidence - whole.evidence
        column, place = np.unravel_index(np.where(enough, gains, -np.inf).argmax(), gains.shape)
        splits_off = np.zeros(256, bool)
        splits_off[order[column, place + 1 :]] = True
        return _Cut(float(gains[column, place]), int(columns[column]), splits_off)

    def _sums(self, rows: IntArray, columns: IntArray) -> "_Sums":
        bins = self.bins[rows[:, None], columns].astype(np.int64) + MAX_BINS * np.arange(len(columns))
        shape = (len(columns), MAX_BINS)
        n = len(columns) * MAX_BINS
        group, y = self.rows.group[rows], self.rows.y[rows]
        place = (group[:, None] * n + bins).ravel()

        def summed(values: FloatArray) -> FloatArray:
            by_row = np.repeat(values[rows], len(columns))
            return sum_by(place, by_row, self.n_groups * n).reshape(self.n_groups, *shape)

        def counted(own: BoolArray) -> FloatArray:
            return np.bincount(bins[own].ravel(), minlength=n).reshape(shape).astype(float)

        return _Sums(
            summed(self.rows.residual), summed(self.rows.information), counted(y == 1), counted(y == 0)
        )

    def partition(self, parents: list[int], cuts: list[_Cut]) -> CutPartition:
        column = np.array([cut.column for cut in cuts], np.int64)
        threshold = np.zeros(len(cuts))
        categories = np.zeros((len(cuts), CutPartition.n_codes), bool)
        for i, cut in enumerate(cuts):
            edges = self.edges[cut.column]
            if edges is None:
                categories[i] = cut.splits_off[: CutPartition.n_codes]
            else:
                # Bin 1 begins with the smallest number: with it only rows without a number stay.
                begin = int(cut.splits_off.argmax())
                threshold[i] = edges[begin - 2] if begin > 1 else np.finfo(float).min
        return CutPartition(np.array(parents, np.int64), column, threshold, categories)


@dataclass(frozen=True)
class _Sums:
    """Sums over the rows of each bin of some columns, or of everything on one side of a cut."""

    residual: FloatArray  # (n_groups, n_columns, n_places)
    information: FloatArray  # the same shape
    n_positive: FloatArray  # (n_columns, n_places)
    n_negative: FloatArray  # the same shape

    @property
    def rarer_class(self) -> FloatArray:
        return np.minimum(self.n_positive, self.n_negative)

    @property
    def effect(self) -> tuple[FloatArray, FloatArray]:
        """Residuals of groups and their information, less what all groups have in common.

        That is no shift: calibration takes care of it.
        """
        # What is left after a subtraction may be a rounding below nothing.
        information = np.maximum(self.information, 0.0)
        total = information.sum(0)
        common = ratio(self.residual.sum(0), total, empty=0.0)
        return self.residual - information * common, information

    @property
    def evidence(self) -> FloatArray:
        """For a number of each group, ~ N(0, EFFECT_VARIANCE), against none: its log to second order, (n_columns, n_places)."""
        own, information = self.effect
        precise = EFFECT_VARIANCE * information
        found: FloatArray = 0.5 * (own**2 * EFFECT_VARIANCE / (precise + 1) - np.log1p(precise)).sum(0)
        return found

    def total(self) -> Self:
        """Of all bins of the first column, as of any."""
        return type(self)(*(values[..., :1, :].sum(-1, keepdims=True) for values in self._values()))

    def of_column(self, number: int) -> Self:
        return type(self)(*(values[..., number, :] for values in self._values()))

    def cumulated(self, order: IntArray) -> Self:
        """Sums of the first bins in the order of each column: of one, of two and so on, but not of all."""
        values = self._values()
        if (order != np.arange(order.shape[1])).any():
            columns = np.arange(len(order))[:, None]
            values = tuple(of_bins[..., columns, order] for of_bins in values)
        return type(self)(*(of_bins.cumsum(-1)[..., :-1] for of_bins in values))

    def minus(self, part: Self) -> Self:
        """What is left of sums over one place."""
        return type(self)(*(a - b for a, b in zip(self._values(), part._values(), strict=True)))

    def _values(self) -> tuple[FloatArray, ...]:
        return self.residual, self.information, self.n_positive, self.n_negative


def _category_order(sums: _Sums) -> IntArray:
    """Categories in the order in which groups differ most: by their first principal component (Coppersmith et al., 1999)."""
    n_rows = sums.n_positive + sums.n_negative
    own, information = sums.effect
    effect = own / (information + 1 / EFFECT_VARIANCE)
    weight = np.sqrt(n_rows)
    centered = (effect - effect @ n_rows[:, None] / n_rows.sum()) * weight
    component = np.linalg.svd(centered, full_matrices=False)[2][0]
    # A component has no sign of its own: the most frequent category gives it one.
    component = component * (1 if component[n_rows.argmax()] >= 0 else -1)
    return np.argsort(ratio(component, weight, empty=0.0), kind="stable")


def _edges(values: FloatArray) -> FloatArray:
    """Where a column of numbers may be cut: between all its values, or at as many quantiles as there are bins."""
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    if len(distinct) >= MAX_BINS:
        levels = np.linspace(0, 1, MAX_BINS)[1:-1]
        distinct = np.unique(np.append(np.quantile(values, levels, method="lower"), distinct[-1]))
    return distinct[:-1]


def _binned(values: NDArray[np.floating], edges: FloatArray | None) -> BinArray:
    if edges is None:
        return _codes(values).astype(np.uint8)
    bins = np.searchsorted(edges, values, side="left") + 1
    return np.where(np.isfinite(values), bins, 0).astype(np.uint8)


def _codes(values: NDArray[np.floating]) -> IntArray:
    """Numbers of categories; those beyond the most frequent, and missing ones, have the last number."""
    is_known = (values >= 0) & (values < MAX_ONE_HOT)
    return np.where(is_known, values, MAX_ONE_HOT).astype(np.int64)
