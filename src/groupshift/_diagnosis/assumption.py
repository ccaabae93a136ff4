"""Does the assumption hold? Features against group given the class, and observed scores against the mixture.

The method assumes that inside a cluster positives look alike in every group, and so do negatives. Among
labeled rows this can be tested. With enough rows every test is "significant", so it is the effect size that
counts: the share of a feature's variance inside (cluster, class) that the group explains, free of what chance
alone would explain.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc
from scipy.stats import rankdata

from groupshift._diagnosis.fitted import ScoreDistributions
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.points import Points
from groupshift._math.sums import ratio, sum_by

# Cohen's conventions for a share of variance explained.
SMALL, MEDIUM, LARGE = 0.01, 0.06, 0.14
# One-hot levels of a category that are compared; the rest are one.
MAX_LEVELS = 20
# Scores at which the distributions of two samples are compared.
GRID_POINTS = 200
# Cells whose score distributions are compared at a time: a hundred MB at most.
CELLS_AT_ONCE = 50_000
# Part of a cell's rows, and rows, from which on they have one score because they are alike, and not by chance.
REPEATED, REPEATED_ROWS = 0.05, 5
# In log-odds: how far a score of labeled rows may be off, by few or many of them.
LEAST_REACH, MOST_REACH = 0.1, 4.0


@dataclass(frozen=True)
class Strata:
    """Rows cut into strata, (cluster, class) pairs, and groups within them, with the sums that every test needs.

    `example` is equal for rows that are copies of one example. Sums have shape (n_strata, n_groups).
    """

    stratum: IntArray
    group: IntArray
    weight: FloatArray
    example: NDArray[np.integer]
    n_strata: int
    n_groups: int

    @cached_property
    def cell(self) -> IntArray:
        return self.stratum * self.n_groups + self.group

    def sums(self, values: FloatArray, cell: IntArray) -> FloatArray:
        return sum_by(cell, values, self.n_strata * self.n_groups).reshape(self.n_strata, self.n_groups)

    @cached_property
    def cell_weight(self) -> FloatArray:
        return self.sums(self.weight, self.cell)

    @cached_property
    def cell_square(self) -> FloatArray:
        """Sums of squared weights, copies of one example counted as one row of their joint weight."""
        order = np.lexsort((self.example, self.cell))
        cell, example = self.cell[order], self.example[order]
        first = np.flatnonzero(np.r_[True, (np.diff(cell) != 0) | (np.diff(example) != 0)])
        return self.sums(np.add.reduceat(self.weight[order], first) ** 2, cell[first])

    @property
    def rows(self) -> IntArray:
        """Number of rows in each stratum."""
        return np.bincount(self.stratum, minlength=self.n_strata)

    @property
    def groups(self) -> IntArray:
        """Number of groups with rows in each stratum."""
        found: IntArray = (self.cell_weight > 0).sum(1)
        return found

    @property
    def effective_rows(self) -> FloatArray:
        """Rows of equal weight that would say as much; copies of an example count once."""
        return ratio(self.cell_weight.sum(1) ** 2, self.cell_square.sum(1), empty=0.0)

    def freedom(self) -> tuple[FloatArray, FloatArray]:
        """Variance between and within groups that a feature of variance one shows by chance.

        With equal weights these are G − 1 and n − G.
        """
        total = self.cell_weight.sum(1)
        own = ratio(self.cell_square, self.cell_weight, empty=0.0).sum(1)
        overall = ratio(self.cell_square.sum(1), total, empty=0.0)
        return own - overall, total - own


@dataclass(frozen=True)
class Effects:
    """Effect sizes of the group on one feature, per stratum; NaN where rows are too few to tell.

    Attributes
    ----------
    effect : share of the feature's variance that the group explains, less what chance explains (ε², may be
    negative).
    std_error : its standard error.
    p_value : of no effect at all.
    """

    effect: FloatArray
    std_error: FloatArray
    p_value: FloatArray


def group_effects(columns: FloatArray, strata: Strata) -> Effects:
    """One-way analysis of variance in every stratum; several columns are the one-hot levels of one feature.

    For a category this is Goodman and Kruskal's τ.

    >>> x, group = np.tile([0.0, 1.0, 10.0, 11.0], 3), np.tile([0, 0, 1, 1], 3)  # group 1 stands apart
    >>> strata = Strata(np.zeros(12, int), group, np.ones(12), np.arange(12), n_strata=1, n_groups=2)
    >>> group_effects(x[:, None], strata).effect.round(2).tolist()
    [0.99]
    """
    between, total = (
        sum(parts) for parts in zip(*(_sums_of_squares(c, strata) for c in columns.T), strict=True)
    )
    by_chance, within_freedom = strata.freedom()
    testable = (
        (strata.groups >= 2)
        & (within_freedom > 0)
        & (strata.effective_rows >= strata.groups + 5)
        & (total > 1e-12)
    )
    safe = np.where(testable, total, 1.0), np.where(testable, within_freedom, 1.0)
    variance = np.maximum(total - between, 0) / safe[1]
    effect = (between - by_chance * variance) / safe[0]
    df1, df2 = np.maximum(strata.groups - 1.0, 1), np.maximum(strata.effective_rows - strata.groups, 1)
    p = fdtrc(df1, df2, between / np.maximum(by_chance * variance, 1e-300))
    by_chance_error = np.sqrt(2 * df1 / (df2 * (df1 + df2 + 2)))
    # An effect within chance of none adds no error of its own.
    error = np.sqrt(by_chance_error**2 + 4 * np.clip(effect - by_chance_error, 0, 1) / df2)
    return Effects(*(np.where(testable, v, np.nan) for v in (effect, error, p)))


def comparable(column: FloatArray, is_category: bool) -> FloatArray:
    """A feature as columns to compare means of: ranks of numbers (one outlier must not decide), levels of
    categories.

    Missing values rank above all numbers: a group that lacks a value more often than others differs, too.
    """
    if is_category:
        code = np.where(np.isnan(column), MAX_LEVELS, np.minimum(column, MAX_LEVELS - 1))
        one_hot: BoolArray = code[:, None] == np.unique(code)
        return one_hot.astype(np.float64)
    rank: FloatArray = rankdata(np.where(np.isnan(column), np.inf, column)) / len(column)
    return rank[:, None]


def combined_p_value(p_values: FloatArray) -> FloatArray:
    """One p-value per stratum from those of many dependent tests (the Cauchy combination of Liu and Xie,
    2020).

    >>> combined_p_value(np.array([[0.5, 0.5, 0.5]])).round(2).tolist()
    [0.5]
    """
    known = ~np.isnan(p_values)
    statistic = np.where(known, np.tan((0.5 - np.clip(p_values, 1e-15, 1 - 1e-6)) * np.pi), 0.0).sum(-1)
    n = known.sum(-1)
    return np.where(n > 0, 0.5 - np.arctan(statistic / np.maximum(n, 1)) / np.pi, np.nan)


def score_distributions(
    log_odds: FloatArray, y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> ScoreDistributions:
    """Distribution functions of the scores of labeled rows, by cluster and class, on one grid."""
    grid = np.unique(np.quantile(log_odds, np.linspace(0, 1, GRID_POINTS)))
    stratum = cluster * 2 + y
    at = np.searchsorted(grid, log_odds)
    mass = sum_by(stratum * len(grid) + at, weight, 2 * n_clusters * len(grid))
    mass = mass.reshape(n_clusters, 2, len(grid))
    below = ratio(np.cumsum(mass, -1), mass.sum(-1, keepdims=True))
    return ScoreDistributions(
        grid=grid,
        below=below,
        rows=np.bincount(stratum, minlength=2 * n_clusters).reshape(-1, 2),
    )


def mixture_distance(points: Points, share: FloatArray, scores: ScoreDistributions) -> FloatArray:
    """Largest gap between a cell's observed distribution of scores and the mixture with the given share of
    positives.

    Parameters
    ----------
    points : Points of the cells, ordered by cell; cell number ``group * n_clusters + cluster``.
    share : array (n_cells,)
        Share of positives of each cell.
    scores : from `score_distributions`.

    Returns
    -------
    array (n_cells,) : Kolmogorov's distance; NaN for an empty cell, or where a class has no labeled rows.
        Next to a score that many rows of the cell have it is not measured: labeled rows of the same kind have it a bit higher or
        lower, as the classifiers of their folds say, and all of these rows would count as a gap.
    """
    grid, reach = _with_holes(scores.grid, scores.rows)
    below = scores.below[..., np.searchsorted(scores.grid, grid, side="right") - 1]
    is_hole = ~np.isin(grid, scores.grid)
    n_clusters, n_points = len(below), len(grid)
    distance = np.full(points.n_cells, np.nan)
    for start in range(0, points.n_cells, CELLS_AT_ONCE):
        stop = min(start + CELLS_AT_ONCE, points.n_cells)
        own = slice(*np.searchsorted(points.cell, [start, stop]))
        at = np.searchsorted(grid, points.score[own])
        # Scores above the grid have a place of their own, which the distribution functions never reach.
        place = (points.cell[own] - start) * (n_points + 1) + at
        mass = sum_by(place, points.weight[own], (stop - start) * (n_points + 1))
        mass = mass.reshape(stop - start, n_points + 1)
        observed = ratio(np.cumsum(mass, 1), mass.sum(1, keepdims=True))[:, :-1]
        cluster = np.arange(start, stop) % n_clusters
        alpha = share[start:stop, None]
        expected = alpha * below[cluster, 1] + (1 - alpha) * below[cluster, 0]
        is_beside = _beside_repeated(points, start, stop, grid, reach)
        # Between repeated scores there may be no labeled score to measure at; elsewhere there are enough.
        skipped = is_beside | (is_hole & ~is_beside.any(1, keepdims=True))
        gap = np.abs(observed - expected)
        distance[start:stop] = np.where(skipped & ~np.isnan(gap), 0.0, gap).max(1)
    return distance


def _with_holes(grid: FloatArray, labeled_rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Scores of labeled rows with the middles of what is empty between them, and how far scores of a cluster may be off."""
    # By chance, of rows that are some tenth of the labeled ones: about as far as classifiers of two folds are apart.
    error = np.sqrt((1 / np.maximum(labeled_rows, 1)).sum(1))
    reach = np.maximum(4 * error, LEAST_REACH)
    middle = (grid[1:] + grid[:-1]) / 2
    return np.sort(np.append(grid, middle[np.diff(grid) > 2 * reach.min()])), reach


def _beside_repeated(points: Points, start: int, stop: int, grid: FloatArray, reach: FloatArray) -> BoolArray:
    """Which places of the grid lie within reach of a score that many rows of the cell have: (stop - start, n_places)."""
    first, last = np.searchsorted(points.cell, [start, stop])
    cell, score, weight = points.cell[first:last], points.score[first:last], points.weight[first:last]
    many = np.maximum(REPEATED, REPEATED_ROWS / np.maximum(points.effective_rows, 1e-300))
    own = weight > (many * points.weight_sum)[cell]
    cell, score = cell[own], score[own]
    # Errors of log-odds grow towards probabilities of 0 and 1.
    width = np.minimum(reach[cell % len(reach)] * np.cosh(score / 2), MOST_REACH)
    # There are no more than twenty such scores in a cell.
    changes = np.zeros((stop - start, len(grid) + 1), np.int8)
    np.add.at(changes, (cell - start, np.searchsorted(grid, score - width)), 1)
    np.add.at(changes, (cell - start, np.searchsorted(grid, score + width, side="right")), -1)
    inside: BoolArray = changes.cumsum(1, dtype=np.int8)[:, :-1] > 0
    return inside


def chance_distance(cell_rows: FloatArray, share: FloatArray, labeled_rows: IntArray) -> FloatArray:
    """Distance to expect by chance when the mixture is right; Kolmogorov's distribution has mean 0.87."""
    labeled = np.tile(np.maximum(labeled_rows, 1), (len(cell_rows) // len(labeled_rows), 1))
    variance = 1 / np.maximum(cell_rows, 1) + share**2 / labeled[:, 1] + (1 - share) ** 2 / labeled[:, 0]
    distance: FloatArray = 0.87 * np.sqrt(variance)
    return distance


def _sums_of_squares(column: FloatArray, strata: Strata) -> tuple[FloatArray, FloatArray]:
    x = column - column.mean()
    weighted = strata.weight * x
    by_cell = strata.sums(weighted, strata.cell)
    mean_part = ratio(by_cell.sum(1) ** 2, strata.cell_weight.sum(1), empty=0.0)
    own = ratio(by_cell**2, strata.cell_weight, empty=0.0).sum(1)
    square = sum_by(strata.stratum, weighted * x, strata.n_strata)
    return own - mean_part, square - mean_part
