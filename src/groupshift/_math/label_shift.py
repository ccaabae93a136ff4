"""Class shares of many cells at once, from unlabelled rows.

Inside a (group, cluster) cell, the scores of unlabelled rows are a mixture of the scores of positives and of negatives;
the share of positives is the mixing weight. Rows come as `Points`: their scores, with weights.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from groupshift._math.odds import MAX_LOG_ODDS
from groupshift._math.points import BIN_WIDTH, Points, bin_scores
from groupshift._math.segments import Segments

FloatArray = NDArray[np.float64]


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
    >>> from groupshift._math.points import collect_points
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
        cell, score, weight = bin_scores(
            points.cell, bounded, points.weight, n_cells=points.n_cells, width=4 * BIN_WIDTH
        )
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
