"""Rows of many cells as weighted scores that add up over chunks and machines: sufficient statistics of every shift.

A cell is a (group, cluster) pair. To a shift its rows matter only through their scores: rows of a cell whose scores lie
in the same bin become one point. Two classes have bins on a grid of log-odds, and a row's weight is split between the
two bins beside it, so that its mean is kept. More classes have prototypes: a point is the mean of the rows next to one.
"""

from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.odds import MAX_LOG_ODDS
from groupshift._math.points import BIN_WIDTH, Points, bin_scores
from groupshift._math.sums import in_steps, power_of_two, ratio, sum_by
from groupshift._scores.contrasts import log_scores, probabilities

Number = TypeVar("Number", bound=np.number)

# Weights of rows are counted in multiples of this part of their mean: sums of up to 2²³ mean weights are exact.
FINEST = 2.0**-30
# So many cells with a few thousand bins each are some 300 MB of points: more cells have wider bins.
MANY_CELLS = 5_000
# Numbers that points of several classes may hold together (400 MB).
MAX_NUMBERS = 50_000_000
MOST_PROTOTYPES, FEWEST_PROTOTYPES = 512, 64
# Rows that prototypes are learned from, for each of them: more move them little.
ROWS_EACH, KMEANS_STEPS = 20, 8
# Distances of so many pairs of rows and prototypes are held at a time: they stay in the processor's cache.
MAX_PAIRS = 100_000


@dataclass(frozen=True)
class Bins:
    """Where scores are counted: a grid of log-odds, or prototypes of several classes."""

    width: float = BIN_WIDTH  # 0 keeps each score
    prototypes: FloatArray | None = None  # (n_prototypes, C): square roots of probabilities
    step: float = 0.0  # what weights are counted in multiples of, so that they add up exactly; 0: as they are

    @classmethod
    def of(cls, scores: FloatArray, n_cells: int, seed: int, *, width: float = BIN_WIDTH) -> Self:
        """Bins for so many cells, by a sample of the scores (n_rows, M)."""
        n_contrasts = scores.shape[1]
        if n_contrasts == 1:
            return cls(width)
        n = int(np.clip(MAX_NUMBERS // (n_cells * n_contrasts), FEWEST_PROTOTYPES, MOST_PROTOTYPES))
        root = np.sqrt(probabilities(scores))
        few = np.random.default_rng(seed).permutation(len(root))[: ROWS_EACH * n]
        root = np.unique(root[np.sort(few)].round(6), axis=0)
        # In an order that does not depend on how classes are numbered.
        root = root[np.lexsort(np.sort(root, axis=1).T)]
        found = root[np.random.default_rng(seed).permutation(len(root))[:n]]
        for _ in range(KMEANS_STEPS if len(root) > n else 0):
            own = nearest(root**2, found)
            count = np.bincount(own, minlength=n)[:, None]
            total = np.column_stack([sum_by(own, column, n) for column in root.T])
            found = np.where(count > 0, total / np.maximum(count, 1), found)
        return cls(0.0, found)

    def for_population(self, n_cells: int, weight: float) -> "Bins":
        """The same bins for counting a population of so many cells and of such a mean weight.

        They are wider for very many cells, or their points would fill the memory.
        """
        # Classes .6 standard deviations apart make an error of 2e-4 in a share of wide bins, which a cell with
        # fewer than a million rows cannot tell from chance.
        is_wide = n_cells > MANY_CELLS and self.prototypes is None
        step = float(power_of_two(weight)) * FINEST
        return replace(self, width=self.width * (8 if is_wide else 1), step=step)


@dataclass(frozen=True)
class Sums:
    """Weighted scores of the rows of many cells. Sums of two chunks are added with ``+``.

    Attributes
    ----------
    cell, bin, weight : arrays of shape (n_points,)
        In the order of cells and bins.
    score : array of shape (n_points, M)
        Mean score of the rows of each point.
    rows, weight_sum, weight_square_sum : arrays of shape (n_cells,)
    step : float
        See `Bins`: sums of multiples of it are exact, in any order.
    """

    cell: IntArray
    bin: IntArray
    weight: FloatArray
    score: FloatArray
    rows: IntArray
    weight_sum: FloatArray
    weight_square_sum: FloatArray
    step: float = 0.0

    @classmethod
    def of(cls, score: FloatArray, cell: IntArray, weight: FloatArray, n_cells: int, bins: Bins) -> Self:
        """Of rows: scores (n_rows, M), cells and weights."""
        rows, step = np.bincount(cell, minlength=n_cells), bins.step
        # A row that weighs next to nothing is still there.
        weight = np.maximum(in_steps(weight, step), step) if step else weight
        total = sum_by(cell, weight, n_cells)
        square = sum_by(cell, in_steps(weight**2, step**2 / FINEST), n_cells)
        if bins.prototypes is None:
            value = np.clip(score[:, 0], -MAX_LOG_ODDS, MAX_LOG_ODDS)
            if not bins.width:
                # A number for each score: rows that have the same one are counted together, and no others.
                number = (value + 0.0).view(np.int64)
                order = np.lexsort((number, cell))
                own = cell[order], number[order], weight[order], value[order, None]
                return cls(*own, rows, total, square, step)
            cell, value, mass = bin_scores(cell, value, weight, n_cells=n_cells, width=bins.width, step=step)
            number = np.rint(value / bins.width).astype(np.int64)
            return cls(cell, number, mass, value[:, None], rows, total, square, step)
        number = nearest(probabilities(score), bins.prototypes)
        key, point = np.unique(cell * len(bins.prototypes) + number, return_inverse=True)
        mass = sum_by(point, weight, len(key))
        sums = [sum_by(point, in_steps(weight * column, step), len(key)) for column in score.T]
        mean = np.column_stack(sums) / np.maximum(mass, 1e-300)[:, None]
        cell, number = np.divmod(key, len(bins.prototypes))
        return cls(cell, number, mass, mean, rows, total, square, step)

    def __add__(self, other: Self) -> Self:
        cell = np.concatenate([self.cell, other.cell])
        number = np.concatenate([self.bin, other.bin])
        weight = np.concatenate([self.weight, other.weight])
        score = np.concatenate([self.score, other.score])
        order = np.lexsort((number, cell))
        cell, number = cell[order], number[order]
        first = np.ones(len(cell), bool)
        first[1:] = (cell[1:] != cell[:-1]) | (number[1:] != number[:-1])
        at = np.flatnonzero(first)
        weight, score = weight[order], score[order]
        if len(at) == len(cell):
            mass, mean = weight, score
        else:
            mass = np.add.reduceat(weight, at)
            # On a grid all points of a bin have one score.
            one = score.shape[1] == 1
            # A mean times its weight is the sum that it was made of, but for a rounding that the step takes back.
            sums = in_steps(weight[:, None] * score, self.step)
            mean = score[at] if one else np.add.reduceat(sums, at) / mass[:, None]
        return replace(
            self,
            cell=cell[at],
            bin=number[at],
            weight=mass,
            score=mean,
            rows=self.rows + other.rows,
            weight_sum=self.weight_sum + other.weight_sum,
            weight_square_sum=self.weight_square_sum + other.weight_square_sum,
        )

    def thinned(self, design_effect: float) -> "Sums":
        """The same points, worth fewer rows: examples that have copies count once."""
        return replace(self, weight_square_sum=design_effect * self.weight_square_sum)

    def placed(self, group: IntArray, n_clusters: int, n_groups: int) -> "Sums":
        """The same cells among those of more groups; `group` numbers these anew."""
        cell = group[self.cell // n_clusters] * n_clusters + self.cell % n_clusters
        in_order = (group[1:] > group[:-1]).all()
        order = slice(None) if in_order else np.lexsort((self.bin, cell))
        at = (group[:, None] * n_clusters + np.arange(n_clusters)).ravel()

        def spread(values: NDArray[Number]) -> NDArray[Number]:
            found = np.zeros(n_groups * n_clusters, values.dtype)
            found[at] = values
            return found

        return Sums(
            cell[order],
            self.bin[order],
            self.weight[order],
            self.score[order],
            spread(self.rows),
            spread(self.weight_sum),
            spread(self.weight_square_sum),
            self.step,
        )

    def points(self) -> Points:
        """As scores of two classes are handed on."""
        return Points(
            self.cell, self.score[:, 0], self.weight, self.rows, self.weight_sum, self.weight_square_sum
        )

    @property
    def effective_rows(self) -> FloatArray:
        """Kish's effective number of rows of each cell."""
        return ratio(self.weight_sum**2, self.weight_square_sum, empty=0.0)

    def mean_posterior(self, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean probabilities of all classes in each cell under shifts (n_groups, K, M), and of p (1 − p); NaN without rows."""
        p = probabilities(self.score + shift.reshape(self.n_cells, -1)[self.cell])
        return self._means(p, shift.shape[:-1])

    def mean_shares(self, shift: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shares and their slopes as `Estimate` has them, given its shifts; of a cell without rows by the labelled `prior`."""
        if self.n_contrasts == 1:
            mean, slope = (v[..., 1] for v in self.mean_posterior(shift[..., None]))
            expected = expit(logit(np.clip(prior, 1e-12, 1 - 1e-12)) + shift)
        else:
            moved = log_scores(self.score) + shift.reshape(self.n_cells, -1)[self.cell]
            mean, slope = self._means(softmax(moved, axis=1), shift.shape[:-1])
            expected = np.clip(prior, 1e-12, 1) * np.exp(shift)
            expected = expected / expected.sum(-1, keepdims=True)
        empty = np.isnan(mean)
        return np.where(empty, expected, mean), np.where(empty, expected * (1 - expected), slope)

    def _means(self, p: FloatArray, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        total = np.where(self.weight_sum > 0, self.weight_sum, np.nan)[:, None]
        found = [self.by_cell(self.weight[:, None] * values) / total for values in (p, p * (1 - p))]
        return found[0].reshape(*shape, -1), found[1].reshape(*shape, -1)

    @property
    def n_cells(self) -> int:
        return len(self.rows)

    @property
    def n_contrasts(self) -> int:
        return int(self.score.shape[1])

    @property
    def worth(self) -> FloatArray:
        """Weights of points that add up to each cell's effective number of rows (Kish): unequal weights say less."""
        return self.weight * ratio(self.weight_sum, self.weight_square_sum, empty=0.0)[self.cell]

    def by_cell(self, values: FloatArray) -> FloatArray:
        """Σ over the points of each cell of values (n_points, …)."""
        flat = values.reshape(len(values), int(np.prod(values.shape[1:])))
        sums = [sum_by(self.cell, column, self.n_cells) for column in flat.T]
        return np.column_stack(sums).reshape(self.n_cells, *values.shape[1:])


def nearest(posterior: FloatArray, prototypes: FloatArray) -> IntArray:
    """Number of the prototype that is nearest to each row, in square roots of probabilities."""
    found = np.empty(len(posterior), np.int64)
    height = (prototypes**2).sum(1) / 2
    step = max(1, MAX_PAIRS // len(prototypes))
    for start in range(0, len(posterior), step):
        part = slice(start, start + step)
        closeness = np.sqrt(posterior[part]) @ prototypes.T
        closeness -= height
        found[part] = np.argmax(closeness, axis=1)
    return found
