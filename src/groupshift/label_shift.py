"""Class shares of many cells at once, from unlabelled rows.

A *cell* is a (group, cluster) pair. Inside it, the scores of unlabelled rows are a mixture of the scores of positives
and of negatives; the share of positives is the mixing weight. Rows matter only through their score, so they enter as
weighted points (cell, score, weight) that add up over chunks and machines.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from groupshift.odds import MAX_LOG_ODDS
from groupshift.segments import Segments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Splitting a row's weight between two bins moves a posterior by at most width² / 8 · max|expit''| = 2e-7; classes only
# 0.6 standard deviations apart magnify that some tenfold on the way to a share, which stays below 1e-5.
BIN_WIDTH = 1 / 256
# Intermediate arrays of so many points stay in the processor's cache.
BLOCK_POINTS = 32_768


@dataclass(frozen=True)
class Points:
    """Weighted scores of the rows of many cells.

    Attributes
    ----------
    cell, score, weight : arrays of one length
        Cell number, log-odds of the labelled-data posterior and weight of each point, ordered by cell.
    rows, weight_sum, weight_square_sum : arrays of length n_cells
        Number of rows behind each cell, and the sums of their weights and squared weights.
    """

    cell: IntArray
    score: FloatArray
    weight: FloatArray
    rows: IntArray
    weight_sum: FloatArray
    weight_square_sum: FloatArray

    @property
    def n_cells(self) -> int:
        return len(self.rows)

    @property
    def effective_rows(self) -> FloatArray:
        """Kish's effective number of rows of each cell: rows of unequal weight say less."""
        return np.divide(
            self.weight_sum**2,
            self.weight_square_sum,
            out=np.zeros(self.n_cells),
            where=self.weight_square_sum > 0,
        )

    @property
    def information_weight(self) -> FloatArray:
        """Weights scaled so that each cell's total is its effective number of rows."""
        scale = np.divide(
            self.weight_sum,
            self.weight_square_sum,
            out=np.zeros(self.n_cells),
            where=self.weight_square_sum > 0,
        )
        return self.weight * scale[self.cell]

    def __add__(self, other: "Points") -> "Points":
        return merge_points([self, other])

    def thinned(self, design_effect: float) -> "Points":
        """The same points, worth fewer rows: examples that have copies count once."""
        return replace(self, weight_square_sum=design_effect * self.weight_square_sum)

    def only(self, cells: NDArray[np.bool_]) -> "Points":
        """The points of the marked cells; the other cells are left without rows."""
        keep = cells[self.cell]
        return Points(
            cell=self.cell[keep],
            score=self.score[keep],
            weight=self.weight[keep],
            rows=np.where(cells, self.rows, 0),
            weight_sum=np.where(cells, self.weight_sum, 0.0),
            weight_square_sum=np.where(cells, self.weight_square_sum, 0.0),
        )

    def blocks(self, n_points: int = BLOCK_POINTS) -> Iterator[tuple[slice, "Points"]]:
        """Cells in turn, about so many that they have `n_points` points together."""
        cut = np.unique(self.cell[n_points::n_points])
        first = [0, *cut[cut > 0].tolist(), self.n_cells]
        at = np.searchsorted(self.cell, first)
        for i in range(len(first) - 1):
            cells, own = slice(first[i], first[i + 1]), slice(at[i], at[i + 1])
            place = self.cell[own] - first[i]
            sums = self.rows[cells], self.weight_sum[cells], self.weight_square_sum[cells]
            yield cells, Points(place, self.score[own], self.weight[own], *sums)

    def merge_cells(self, mapping: ArrayLike, n_cells: int) -> "Points":
        """Points of the coarser cells `mapping[cell]`, such as groups instead of (group, cluster) pairs."""
        mapping = np.asarray(mapping, int)

        def total(values):
            return _sum_by(mapping, values, n_cells)

        order = np.argsort(mapping[self.cell], kind="stable")
        return Points(
            cell=mapping[self.cell][order],
            score=self.score[order],
            weight=self.weight[order],
            rows=total(self.rows).astype(np.int64),
            weight_sum=total(self.weight_sum),
            weight_square_sum=total(self.weight_square_sum),
        )


def collect_points(
    score: ArrayLike,
    cell: ArrayLike,
    *,
    n_cells: int,
    weight: ArrayLike | None = None,
    bin_width: float | None = None,
) -> Points:
    """Turn rows into weighted points, one per row or binned on the log-odds.

    Parameters
    ----------
    score : array-like of shape (n_rows,)
        Log-odds of the labelled-data posterior, logit ρ̃(x).
    cell : array-like of int
        Cell number of each row, in ``range(n_cells)``.
    weight : array-like, optional
        Row weights; default 1.
    bin_width : float, optional
        Bin the log-odds at this width, each row's weight split between the two neighbouring bins so that its mean score
        is kept. Points on one grid add up without growing. None keeps each row.

    Examples
    --------
    >>> points = collect_points([0.25, 0.75], [0, 0], n_cells=1, bin_width=1.0)
    >>> points.score.tolist(), points.weight.tolist()
    ([0.0, 1.0], [1.0, 1.0])
    """
    place, value = np.asarray(cell, np.int64), np.clip(np.asarray(score, float), -MAX_LOG_ODDS, MAX_LOG_ODDS)
    mass = np.ones(len(value)) if weight is None else np.asarray(weight, float)
    if np.isnan(value).any():
        raise ValueError(
            "Scores contain NaN. Pass finite log-odds; drop or impute the rows that could not be scored."
        )
    rows = np.bincount(place, minlength=n_cells)
    weight_sum = rows.astype(float) if weight is None else _sum_by(place, mass, n_cells)
    square = weight_sum.copy() if weight is None else _sum_by(place, mass**2, n_cells)
    if bin_width is not None:
        place, value, mass = _bin(place, value, mass, n_cells, bin_width)
    elif (place[1:] < place[:-1]).any():
        order = np.argsort(place, kind="stable")
        place, value, mass = place[order], value[order], mass[order]
    return Points(place, value, mass, rows, weight_sum, square)


def _sum_by(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    # Without rows, NumPy counts in whole numbers even where weights are given.
    return np.bincount(cell, weights=values, minlength=n_cells).astype(float, copy=False)


def merge_points(parts: Iterable[Points]) -> Points:
    """Add points of several chunks; equal (cell, score) pairs become one point."""
    parts = list(parts)
    if len({part.n_cells for part in parts}) != 1:
        raise ValueError(
            f"Points to add have {sorted({p.n_cells for p in parts})} cells. Number the cells of every chunk alike."
        )
    cell = np.concatenate([part.cell for part in parts])
    score = np.concatenate([part.score for part in parts])
    weight = np.concatenate([part.weight for part in parts])
    # Complex numbers sort by their real, then by their imaginary part. Parts that are in order already are runs, which a
    # stable sort merges in one pass: 6 to 15 times faster here than `lexsort`.
    order = np.argsort(cell + 1j * score, kind="stable")
    cell, score, weight = cell[order], score[order], weight[order]
    first = np.ones(len(cell), bool)
    first[1:] = (cell[1:] != cell[:-1]) | (score[1:] != score[:-1])
    start = np.flatnonzero(first)
    return Points(
        cell=cell[start],
        score=score[start],
        weight=np.add.reduceat(weight, start) if len(start) else weight,
        rows=reduce(np.add, [part.rows for part in parts]),
        weight_sum=reduce(np.add, [part.weight_sum for part in parts]),
        weight_square_sum=reduce(np.add, [part.weight_square_sum for part in parts]),
    )


def _bin(cell, score, weight, n_cells, width):
    if len(score) == 0:
        return cell, score, weight
    position = score / width
    low = np.floor(position)
    upper_share = position - low
    # Bins are numbered from the lowest one present, so that the dense table below stays small.
    first = int(low.min())
    n_bins = int(low.max()) - first + 2
    key = cell * n_bins + (low.astype(np.int64) - first)
    if n_cells * n_bins <= max(4 * len(score), 1 << 16):
        table = np.bincount(key, weights=weight * (1 - upper_share), minlength=n_cells * n_bins)
        table[1:] += np.bincount(key, weights=weight * upper_share, minlength=n_cells * n_bins)[:-1]
        key = np.flatnonzero(table)
        mass = table[key]
    else:
        both = np.concatenate([key, key + 1])
        key, inverse = np.unique(both, return_inverse=True)
        mass = np.bincount(
            inverse, weights=np.concatenate([weight * (1 - upper_share), weight * upper_share])
        )
        key, mass = key[mass != 0], mass[mass != 0]
    return key // n_bins, (key % n_bins + first) * width, mass


@dataclass(frozen=True)
class Shares:
    """Shares of positives of all cells, with standard errors from the observed information.

    A cell without rows has share NaN and standard error infinity: nothing is known of it.
    """

    share: FloatArray
    std_error: FloatArray
    n_iter: int


def mlls(points: Points, *, labeled_prior: ArrayLike, tol: float = 1e-10, max_iter: int = 100) -> Shares:
    r"""Maximum-likelihood share of positives of every cell (MLLS), by safeguarded Newton steps.

    Maximises ``Σ w log(α r⁺ + (1 − α) r⁻)`` with ``r⁺ = ρ̃/α̃`` and ``r⁻ = (1 − ρ̃)/(1 − α̃)``, which is concave in α, for
    all cells at once. The optimum may lie at exactly 0 or 1.

    Parameters
    ----------
    points : Points
        Scores of the unlabelled rows.
    labeled_prior : float or array-like of shape (n_cells,)
        α̃, the share of positives that the scores were learned under, for each cell.
    tol : float
        Error in the share that ends the search.

    Examples
    --------
    >>> rows = collect_points([-2.0, -2.0, -2.0, 2.0], [0, 0, 0, 0], n_cells=1)
    >>> mlls(rows, labeled_prior=0.5).share.round(3)
    array([0.172])
    """
    prior = np.broadcast_to(np.asarray(labeled_prior, float), points.n_cells)
    parts = [_mlls(block, prior[cells], tol, max_iter) for cells, block in points.blocks()]
    if len(parts) == 1:
        return parts[0]
    return Shares(
        np.concatenate([part.share for part in parts]),
        np.concatenate([part.std_error for part in parts]),
        max(part.n_iter for part in parts),
    )


def _mlls(points: Points, labeled_prior: FloatArray, tol: float, max_iter: int) -> Shares:
    ratio = _log_likelihood_ratio(points, labeled_prior)
    excess = _excess(ratio)
    cells = Segments(points.cell, points.n_cells)
    weighted = points.weight * excess
    gradient_at_zero = cells.sum(weighted)
    gradient_at_one = cells.sum(weighted / (1 + excess))
    # Scores that say nothing (every ratio 1) satisfy both: any share fits, and the labelled one is kept.
    at_zero = (gradient_at_zero <= 0) & (gradient_at_one < 0)
    at_one = (gradient_at_one >= 0) & (gradient_at_zero > 0)
    silent = (gradient_at_zero == 0) & (gradient_at_one == 0)
    start = np.where(at_zero, 0.0, np.where(at_one, 1.0, labeled_prior))
    share, n_iter = _newton(points, ratio, excess, cells, start, at_zero | at_one | silent, tol, max_iter)
    share[points.weight_sum <= 0] = np.nan
    return Shares(share, _std_error(points, excess, share, cells), n_iter)


def em(
    points: Points, *, labeled_prior: ArrayLike, n_iter: int = 100, start: ArrayLike | None = None
) -> tuple[Shares, FloatArray]:
    r"""The paper's EM for the shares, with a fixed number of iterations.

    Starts at the mean of ρ̃ over the cell (or at `start`). Returns the shares and their trace, of shape
    (n_iter + 1, n_cells).
    """
    ratio = _log_likelihood_ratio(points, labeled_prior)
    cells = Segments(points.cell, points.n_cells)
    # One exponential serves all steps: q = α r / (α r + 1 − α) with r = r⁺/r⁻.
    odds = np.exp(np.clip(ratio, -MAX_LOG_ODDS, MAX_LOG_ODDS))
    weighted = points.weight * odds
    total = np.where(points.weight_sum > 0, points.weight_sum, np.nan)
    trace = np.empty((n_iter + 1, points.n_cells))
    trace[0] = cells.sum(points.weight * expit(points.score)) / total if start is None else start
    for step in range(1, n_iter + 1):
        # Rounding can lift a mean of ones above 1, where it has no log-odds.
        share = np.minimum(trace[step - 1], 1.0)
        old = cells.spread(share)
        trace[step] = share * cells.sum(weighted / (old * odds + (1 - old))) / total
    trace = np.minimum(trace, 1.0)
    return Shares(trace[-1], _std_error(points, _excess(ratio), trace[-1], cells), n_iter), trace


def bbse(
    points: Points, *, true_positive_rate: ArrayLike, false_positive_rate: ArrayLike, soft: bool = False
) -> Shares:
    """Black-box shift estimation: shares that explain each cell's rate of positive predictions.

    Parameters
    ----------
    true_positive_rate, false_positive_rate : float or array-like of shape (n_cells,)
        Mean prediction among labelled positives and negatives (`prediction_rates`), for each cell.
    soft : bool
        Average the posterior itself instead of the decision at 1/2.
    """
    total = np.where(points.weight_sum > 0, points.weight_sum, np.nan)
    predicted = expit(points.score) if soft else (points.score > 0).astype(float)
    tpr = np.broadcast_to(np.asarray(true_positive_rate, float), points.n_cells)
    fpr = np.broadcast_to(np.asarray(false_positive_rate, float), points.n_cells)
    spread = tpr - fpr
    cells = Segments(points.cell, points.n_cells)
    mean = cells.sum(points.weight * predicted) / total
    variance = np.maximum(cells.sum(points.weight * predicted**2) / total - mean**2, 0)
    informative = np.abs(spread) > 1e-9
    # Predictions that are alike in both classes cannot tell a share: NaN, like a cell without rows.
    share = np.divide(mean - fpr, spread, out=np.full(points.n_cells, np.nan), where=informative)
    with np.errstate(divide="ignore", invalid="ignore"):
        std_error = np.sqrt(variance / points.effective_rows) / np.abs(spread)
    return Shares(np.clip(share, 0, 1), np.where(np.isnan(share), np.inf, std_error), 0)


def prediction_rates(
    score: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, soft: bool = False
) -> tuple[float, float]:
    """Mean prediction among labelled positives and among labelled negatives, for `bbse`.

    >>> prediction_rates([1.0, -1.0, -1.0, 1.0], [1, 1, 0, 0])
    (0.5, 0.5)
    """
    score, y = np.asarray(score, float), np.asarray(y)
    predicted = expit(score) if soft else (score > 0).astype(float)
    weight = np.ones(len(score)) if weight is None else np.asarray(weight, float)
    return tuple(float(np.average(predicted[y == k], weights=weight[y == k])) for k in (1, 0))  # type: ignore[return-value]


def _log_likelihood_ratio(points: Points, labeled_prior: ArrayLike) -> FloatArray:
    prior = np.broadcast_to(np.asarray(labeled_prior, float), points.n_cells)
    if ((prior <= 0) | (prior >= 1)).any():
        raise ValueError(
            "labeled_prior has shares of exactly 0 or 1, where scores say nothing about the other class. "
            "Pass shares strictly between 0 and 1, for instance (positives + 0.5) / (rows + 1)."
        )
    return points.score - logit(prior)[points.cell]


def _excess(ratio: FloatArray) -> FloatArray:
    """``v = r⁺/r⁻ − 1``: the log-likelihood of a share is ``Σ w log(1 + α v)``, so one exponential serves all steps."""
    return np.expm1(np.clip(ratio, -MAX_LOG_ODDS, MAX_LOG_ODDS))


def _newton(points, ratio, excess, cells, share, settled, tol, max_iter):
    """Maxima over α of all cells: Newton inside a shrinking bracket, bisection where a step would leave it.

    The second derivative is minus the sum of squared first ones, so a step is never uphill from a wrong curvature.
    """
    # Many rows a cell: the binned problem has the same answer to 1e-5, at a fraction of the cost of each pass.
    if len(excess) > 2000 * points.n_cells:
        bounded = np.clip(ratio, -MAX_LOG_ODDS, MAX_LOG_ODDS)
        cell, score, weight = _bin(points.cell, bounded, points.weight, points.n_cells, 4 * BIN_WIDTH)
        if len(score) < len(excess) / 4:
            coarse = replace(points, cell=cell, score=score, weight=weight)
            binned = Segments(cell, points.n_cells)
            share, _ = _newton(coarse, score, _excess(score), binned, share, settled, tol, max_iter)
    low, high = np.zeros(points.n_cells), np.ones(points.n_cells)
    done, weight, n_iter = settled.copy(), points.weight, 0
    while not done.all() and n_iter < max_iter:
        n_iter += 1
        if done[cells.occupied].mean() > 0.5:
            # Most cells are done: go on with the points of the others.
            keep = cells.spread(~done)
            excess, weight, cells = excess[keep], weight[keep], cells.only(~done)
        slope = excess / (1 + cells.spread(share) * excess)
        weighted = weight * slope
        gradient, curvature = cells.sum(weighted), cells.sum(weighted * slope)
        low, high = np.where(gradient > 0, share, low), np.where(gradient < 0, share, high)
        step = share + gradient / np.where(curvature > 0, curvature, 1.0)
        inside = (step > low) & (step < high)
        new = np.where(done | (gradient == 0), share, np.where(inside, step, (low + high) / 2))
        # Newton's error after a step is of the order of the step squared: a small step is the last.
        done |= (np.abs(new - share) <= tol) | (inside & ((new - share) ** 2 <= tol * new * (1 - new)))
        share = new
    return share, n_iter


def _std_error(points, excess, share, cells):
    """Standard error of a share from the observed information in α, which is defined at 0 and 1 too."""
    slope = excess / (1 + cells.spread(np.where(np.isnan(share), 0.5, share)) * excess)
    info = cells.sum(points.information_weight * slope**2)
    return np.divide(1, np.sqrt(info), out=np.full(points.n_cells, np.inf), where=info > 0)
