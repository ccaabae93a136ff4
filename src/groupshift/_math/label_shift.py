"""Class shares of many cells at once, from unlabelled rows.

Inside a (group, cluster) cell, the scores of unlabelled rows are a mixture of the scores of positives and of negatives;
the share of positives is the mixing weight. Rows come as `Points`: their scores, with weights.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from groupshift._math.arrays import BoolArray, FloatArray
from groupshift._math.cell_likelihood import CellLikelihood
from groupshift._math.points import BIN_WIDTH, Points, bin_scores
from groupshift._math.segments import Segments


@dataclass(frozen=True)
class Shares:
    """Shares of positives of all cells, as the three estimators return them.

    A cell without rows has share NaN and standard error infinity: nothing is known of it.

    Attributes
    ----------
    share, std_error : arrays of shape (n_cells,)
        Shares in [0, 1], and their standard errors from the rows of each cell.
    n_iter : int
        Passes over the points.
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
    max_iter : int
        Most passes over the points.

    Returns
    -------
    Shares

    Examples
    --------
    Odds of 3 say "positive" and odds of 1/3 "negative", each right three times in four. Where half of the rows are
    positive these come equally often; five of the one kind and three of the other are what a share of 3/4 gives:
    ``3/4 · 3/4 + 1/4 · 1/4 = 5/8``.

    >>> from groupshift.theory import collect_points, mlls
    >>> points = collect_points(np.log([3] * 5 + [1 / 3] * 3), [0] * 8, n_cells=1)
    >>> mlls(points, labeled_prior=0.5).share.round(6).tolist()
    [0.75]
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
    likelihood = _likelihood(points, labeled_prior)
    weighted = points.weight * likelihood.excess
    gradient_at_zero = likelihood.cells.sum(weighted)
    gradient_at_one = likelihood.cells.sum(weighted / (1 + likelihood.excess))
    # Scores that say nothing (every ratio 1) satisfy both: any share fits, and the labelled one is kept.
    at_zero = (gradient_at_zero <= 0) & (gradient_at_one < 0)
    at_one = (gradient_at_one >= 0) & (gradient_at_zero > 0)
    is_flat = (gradient_at_zero == 0) & (gradient_at_one == 0)
    start = np.where(at_zero, 0.0, np.where(at_one, 1.0, labeled_prior))
    share, n_iter = _newton(points, likelihood, start, at_zero | at_one | is_flat, tol, max_iter)
    share[points.weight_sum <= 0] = np.nan
    return Shares(share, likelihood.std_error(share), n_iter)


def mlls_classes(
    posterior: ArrayLike,
    *,
    labeled_prior: ArrayLike,
    weight: ArrayLike | None = None,
    tol: float = 1e-9,
    max_iter: int = 500,
) -> tuple[FloatArray, FloatArray]:
    r"""Maximum-likelihood shares of any number of classes in one cell, and their standard errors.

    Maximises ``Σ w log Σ_c q_c ρ̃_c / α̃_c`` over shares q that sum to 1, which is concave. Every pass is a step of EM, which
    never goes downhill, and a Newton step where that goes further up.

    Parameters
    ----------
    posterior : array-like of shape (n_rows, n_classes)
        ρ̃, probabilities of the classes of unlabelled rows.
    labeled_prior : array-like of shape (n_classes,)
        α̃, the shares that the probabilities were learned under; none of them 0.
    weight : array-like of shape (n_rows,), optional
        Row weights; default 1.
    tol : float
        Change of a share by EM that ends the search.
    max_iter : int
        Most passes over the rows.

    Returns
    -------
    share, std_error : arrays of shape (n_classes,)
        Standard errors are those of the rows' chance alone: the probabilities are taken as they are.

    Examples
    --------
    >>> from groupshift.theory import mlls_classes
    >>> share, error = mlls_classes([[0.25, 0.75]] * 5 + [[0.75, 0.25]] * 3, labeled_prior=[0.5, 0.5])
    >>> share.round(6).tolist()
    [0.25, 0.75]
    """
    prior = np.asarray(labeled_prior, float)
    if (prior <= 0).any():
        raise ValueError(
            f"labeled_prior has a share of {prior.min():g}. Scores learned without any row of a class say nothing of it: pass "
            "shares above 0 for all classes, or leave the class out."
        )
    ratio = np.asarray(posterior, float) / prior
    # Rows that no class explains at all have no say; a scale of each row changes nothing else.
    ratio = ratio / np.maximum(ratio.max(1, keepdims=True), 1e-300)
    weight = np.ones(len(ratio)) if weight is None else np.asarray(weight, float)
    if not len(ratio) or weight.sum() <= 0:
        return np.full(len(prior), np.nan), np.full(len(prior), np.inf)
    part = weight / weight.sum()
    # Directions in which shares still sum to 1.
    free = np.linalg.svd(np.ones((1, len(prior))))[2][1:].T

    def level(share: FloatArray) -> float:
        return float(part @ np.log(np.maximum(ratio @ share, 1e-300)))

    def curvature(share: FloatArray) -> tuple[FloatArray, FloatArray]:
        slope = ratio / np.maximum(ratio @ share, 1e-300)[:, None]
        return part @ slope, free.T @ ((part[:, None] * slope).T @ slope) @ free

    share = prior / prior.sum()
    for _ in range(max_iter):
        gradient, information = curvature(share)
        by_em = share * gradient
        by_em = by_em / by_em.sum()
        if np.abs(by_em - share).max() <= tol:
            break
        step = free @ (np.linalg.pinv(information, hermitian=True) @ (free.T @ gradient))
        # As far as shares stay above 0.
        down = step < 0
        reach = min(1.0, 0.99 * float((share[down] / -step[down]).min(initial=np.inf)))
        by_newton = share + reach * step
        share = by_newton if level(by_newton) > level(by_em) else by_em
    effective = weight.sum() ** 2 / (weight**2).sum()
    information = effective * curvature(share)[1]
    scale = np.linalg.eigvalsh(information)
    if scale[0] <= 1e-9 * max(scale[-1], 1e-300):
        # Classes that no row tells apart.
        return share, np.full(len(prior), np.inf)
    variance = free @ np.linalg.inv(information) @ free.T
    return share, np.sqrt(np.diagonal(variance))


def em(
    points: Points, *, labeled_prior: ArrayLike, n_iter: int = 100, start: ArrayLike | None = None
) -> tuple[Shares, FloatArray]:
    r"""The paper's EM for the shares, with a fixed number of iterations.

    Parameters
    ----------
    points : Points
        Scores of the unlabelled rows.
    labeled_prior : float or array-like of shape (n_cells,)
        α̃, the share of positives that the scores were learned under, for each cell.
    n_iter : int
        Number of iterations.
    start : array-like of shape (n_cells,), optional
        First shares. Default: the mean of ρ̃ over each cell.

    Returns
    -------
    shares : Shares
    trace : array of shape (n_iter + 1, n_cells)
        The shares before the first iteration and after each.

    Examples
    --------
    One row of odds 3 to 1, learned at a share of a half: EM starts at 3/4. The row is then positive with odds
    ``3 · 3``, so that the next share is 9/10.

    >>> from groupshift.theory import collect_points, em
    >>> shares, trace = em(collect_points(np.log([3]), [0], n_cells=1), labeled_prior=0.5, n_iter=1)
    >>> trace.round(6).tolist()
    [[0.75], [0.9]]
    """
    likelihood = _likelihood(points, labeled_prior)
    cells = likelihood.cells
    # One exponential serves all steps: q = α r / (α r + 1 − α) with r = r⁺/r⁻.
    odds = np.exp(likelihood.log_ratio)
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
    return Shares(trace[-1], likelihood.std_error(trace[-1]), n_iter), trace


def bbse(
    points: Points, *, true_positive_rate: ArrayLike, false_positive_rate: ArrayLike, soft: bool = False
) -> Shares:
    """Black-box shift estimation: shares that explain each cell's rate of positive predictions.

    Parameters
    ----------
    points : Points
        Scores of the unlabelled rows.
    true_positive_rate, false_positive_rate : float or array-like of shape (n_cells,)
        Mean prediction among labelled positives and negatives (`prediction_rates`), for each cell.
    soft : bool
        Average the posterior itself instead of the decision at 1/2.

    Returns
    -------
    Shares
        NaN also where both rates are equal: predictions that are the same in both classes tell no share.

    Examples
    --------
    Half of the rows are predicted positive. With rates of 0.7 and 0.2 that takes a share of
    ``(0.5 - 0.2) / (0.7 - 0.2) = 0.6``.

    >>> from groupshift.theory import bbse, collect_points
    >>> points = collect_points([-1.0, 1.0], [0, 0], n_cells=1)
    >>> bbse(points, true_positive_rate=0.7, false_positive_rate=0.2).share.round(6).tolist()
    [0.6]
    """
    total = np.where(points.weight_sum > 0, points.weight_sum, np.nan)
    predicted = _predictions(points.score, soft)
    tpr = np.broadcast_to(np.asarray(true_positive_rate, float), points.n_cells)
    fpr = np.broadcast_to(np.asarray(false_positive_rate, float), points.n_cells)
    spread = tpr - fpr
    cells = Segments(points.cell, points.n_cells)
    mean = cells.sum(points.weight * predicted) / total
    variance = np.maximum(cells.sum(points.weight * predicted**2) / total - mean**2, 0)
    is_informative = np.abs(spread) > 1e-9
    share = np.divide(mean - fpr, spread, out=np.full(points.n_cells, np.nan), where=is_informative)
    with np.errstate(divide="ignore", invalid="ignore"):
        std_error = np.sqrt(variance / points.effective_rows) / np.abs(spread)
    return Shares(np.clip(share, 0, 1), np.where(np.isnan(share), np.inf, std_error), 0)


def prediction_rates(
    score: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, soft: bool = False
) -> tuple[float, float]:
    """Mean prediction among labelled positives and among labelled negatives, for `bbse`.

    Parameters
    ----------
    score : array-like of shape (n_rows,)
        Log-odds of the labelled-data posterior, out of sample.
    y : array-like of shape (n_rows,)
        Classes, 0 or 1.
    weight : array-like of shape (n_rows,), optional
        Row weights; default 1.
    soft : bool
        Average the posterior itself instead of the decision at 1/2.

    Returns
    -------
    true_positive_rate, false_positive_rate : float

    Examples
    --------
    Two of three positives and one of two negatives are predicted positive.

    >>> from groupshift.theory import prediction_rates
    >>> rates = prediction_rates([1.0, 1.0, -1.0, -1.0, 1.0], [1, 1, 1, 0, 0])
    >>> [round(rate, 3) for rate in rates]
    [0.667, 0.5]
    """
    predicted, y = _predictions(np.asarray(score, float), soft), np.asarray(y)
    weight = np.ones(len(predicted)) if weight is None else np.asarray(weight, float)
    of_positives, of_negatives = (np.average(predicted[y == k], weights=weight[y == k]) for k in (1, 0))
    return float(of_positives), float(of_negatives)


def _predictions(score: FloatArray, soft: bool) -> FloatArray:
    # Even odds are half a prediction of each class, or the two would not be treated alike.
    return expit(score) if soft else np.heaviside(score, 0.5)


def _likelihood(points: Points, labeled_prior: ArrayLike) -> CellLikelihood:
    prior = np.broadcast_to(np.asarray(labeled_prior, float), points.n_cells)
    if ((prior <= 0) | (prior >= 1)).any():
        raise ValueError(
            "labeled_prior has shares of exactly 0 or 1, where scores say nothing about the other class. "
            "Pass shares strictly between 0 and 1, for instance (positives + 0.5) / (rows + 1)."
        )
    return CellLikelihood(points, logit(prior))


def _newton(
    points: Points, likelihood: CellLikelihood, share: FloatArray, done: BoolArray, tol: float, max_iter: int
) -> tuple[FloatArray, int]:
    """Maxima over α of all cells, and the number of passes; `done` marks cells whose share stays as it is.

    Newton inside a shrinking bracket, bisection where a step would leave it. The second derivative is minus the sum of
    squared first ones, so a step is never uphill from a wrong curvature.
    """
    cells, excess, weight = likelihood.cells, likelihood.excess, points.weight
    # Many rows a cell: the binned problem has the same answer to 1e-5, at a fraction of the cost of each pass.
    if len(excess) > 2000 * points.n_cells:
        cell, score, mass = bin_scores(
            points.cell, likelihood.log_ratio, weight, n_cells=points.n_cells, width=4 * BIN_WIDTH
        )
        if len(score) < len(excess) / 4:
            coarse = replace(points, cell=cell, score=score, weight=mass)
            binned = CellLikelihood(coarse, np.zeros(points.n_cells))
            share, _ = _newton(coarse, binned, share, done, tol, max_iter)
    low, high = np.zeros(points.n_cells), np.ones(points.n_cells)
    n_iter = 0
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
        is_close = (np.abs(new - share) <= tol) | (inside & ((new - share) ** 2 <= tol * new * (1 - new)))
        done = done | is_close
        share = new
    return share, n_iter
