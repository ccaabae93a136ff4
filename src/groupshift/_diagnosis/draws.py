"""Joint draws of the shares of all cells: sums, ranks and differences of them have the right errors without a formula for each.

The error of a cell's share has four sources: what shifts all groups alike and nothing decides, what the data say of such a
shift, the effect of the cell's group, and what the cell has by itself, the chance of its rows included. Each is normal on the
scale of the share's slope. Their sum goes through the quantiles of the beta distribution that intervals are made of, so that
draws stay between 0 and 1 and have the share as their mean.
"""

import numpy as np
from scipy.special import betaincinv, ndtr

from groupshift._data.keys import Seeds
from groupshift._diagnosis.fitted import by_class
from groupshift._math.arrays import FloatArray, Table, ValueArray
from groupshift._shifts.estimate import Estimate

# Standard scores at which quantiles are tabled; draws between them are interpolated.
TABLED = np.linspace(-5, 5, 81)


def share_draws(
    estimate: Estimate, classes: ValueArray, by: str, *, draws: int, seed: int, common_shift: bool
) -> Table:
    """Draws of shares as a table: a line for each cell, group or for all rows (and each of several classes), a column for a draw.

    Parameters
    ----------
    estimate : Estimate
    classes : array of shape (n_classes,)
    by : {"cell", "group", "overall"}
    draws : int
    seed : int
        The same seed gives the same draws, whatever `by` is: lines of cells add up to those of groups.
    common_shift : bool
        Whether draws include the shift of all groups alike that nothing in the data decides.

    Returns
    -------
    dict of columns : (group, cluster, class,) rows, weight, draw_0, draw_1, …
    """
    if by not in ("cell", "group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'cell', 'group' or 'overall'.")
    if draws != int(draws) or draws < 1:
        raise ValueError(f"draws={draws!r} is no number of draws. Pass a whole number, such as 1000.")
    drawn = draws_of_cells(estimate, int(draws), seed, common_shift=common_shift)
    n_groups, K, C = drawn.shape[:3]
    rows, weight, names = estimate.rows, estimate.row_weight, Table()
    if by == "cell":
        names = {"group": np.repeat(estimate.groups, K), "cluster": np.tile(np.arange(K), n_groups)}
        drawn, rows, weight = drawn.reshape(n_groups * K, C, draws), rows.ravel(), weight.ravel()
    else:
        over = 1 if by == "group" else (0, 1)
        names = {"group": estimate.groups} if by == "group" else names
        total = np.maximum(weight.sum(over, keepdims=True), 1e-300)
        drawn = np.einsum("gkcn,gk->gcn" if by == "group" else "gkcn,gk->cn", drawn, weight / total)
        drawn = drawn.reshape(-1, C, draws)
        rows, weight = (np.atleast_1d(values.sum(over)) for values in (rows, weight))
    table = {name: np.repeat(values, C) for name, values in names.items()}
    if C > 1:
        table["class"] = np.tile(classes, len(rows))
    columns = drawn.reshape(-1, draws).T
    table |= {"rows": np.repeat(rows, C), "weight": np.repeat(weight, C)}
    return table | {f"draw_{i}": column for i, column in enumerate(columns)}


def draws_of_cells(estimate: Estimate, draws: int, seed: int, *, common_shift: bool) -> FloatArray:
    """(n_groups, n_clusters, n_classes, n_draws); of two classes, the last but one has the positive one alone."""
    share, rng = by_class(estimate.share, 2), Seeds(seed).generator("share draws")
    n_groups, K, C = share.shape
    # The shapes in which standard normal numbers of the four sources are drawn.
    shapes = (1, 1), (1, 1), (n_groups, 1), (n_groups, K)
    error, variance = np.zeros((n_groups, K, C, draws)), np.zeros((n_groups, K, C))
    covariance = np.zeros((n_groups, K, C))  # with the error of the overall share
    weight = (estimate.row_weight / max(estimate.row_weight.sum(), 1e-300))[..., None]
    for deviation, shape in zip(_deviations(estimate, common_shift=common_shift), shapes, strict=True):
        if C > 1:
            deviation = np.sqrt(_of_independent(deviation**2, share))
        normal = rng.standard_normal((*shape, C, draws))
        part = deviation[..., None] * normal
        if C > 1:
            # What one class has more, the others have less, in proportion to their shares.
            part = part - share[..., None] * part.sum(2, keepdims=True)
            variance += _variance(deviation**2, share)
        else:
            variance += deviation**2
            alike = tuple(axis for axis in (0, 1) if shape[axis] == 1)
            covariance += deviation * (weight * deviation).sum(alike, keepdims=True)
        error += part
    if C == 1 and estimate.known_overall is not None:
        # Nothing is known worse than by the rate that was given, as `overall_share` has it.
        total, overall = float((weight * covariance).sum()), np.einsum("gkcn,gkc->cn", error, weight)
        kept = min(1.0, float(estimate.known_overall[1]) / np.sqrt(max(total, 1e-300)))
        follows = covariance / max(total, 1e-300)
        error -= (1 - kept) * follows[..., None] * overall
        variance -= (1 - kept**2) * follows * covariance
    deviation = np.sqrt(np.maximum(variance, 0))
    found = _through_beta(share, deviation, error / np.where(deviation > 0, deviation, 1)[..., None])
    return found / found.sum(2, keepdims=True) if C > 1 else found


def _deviations(
    estimate: Estimate, *, common_shift: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Standard deviations of shares of cells by each source, (n_groups, n_clusters, n_classes)."""
    slope, shared = (by_class(v, 2) for v in (estimate.slope, estimate.shared_deviation))
    known = np.isin(estimate.groups, estimate.known_groups)[:, None, None]
    undecided = np.where(known, 0.0, np.sqrt(estimate.unidentified * common_shift) * slope)
    common = np.minimum(np.sqrt(estimate.common_variance)[:, None], shared)
    # As intervals of groups have it: cells of one group share as much of their errors as of their shifts. That counts a
    # part of chance twice, and without it intervals hold less than they promise.
    error = by_class(estimate.share_error, 2)
    variance = np.maximum(by_class(estimate.variance, 2), 1e-300)
    in_group = error * np.clip(shared / np.sqrt(variance), 0, 1)
    common = np.minimum(slope * common, in_group)
    of_group, own = np.sqrt(in_group**2 - common**2), np.sqrt(np.maximum(error**2 - in_group**2, 0))
    return undecided, common, of_group, own


def _variance(variance: FloatArray, share: FloatArray) -> FloatArray:
    """Of x_c − p_c Σ x, where the x of classes are independent."""
    total = variance.sum(-1, keepdims=True)
    found: FloatArray = (1 - 2 * share) * variance + share**2 * total
    return found


def _of_independent(variance: FloatArray, share: FloatArray) -> FloatArray:
    """Variances of independent x_c with which x_c − p_c Σ x have the given ones.

    >>> p = np.array([0.2, 0.3, 0.5])
    >>> _of_independent(p * (1 - p), p).round(6).tolist()  # Dirichlet: variances in proportion to shares
    [0.2, 0.3, 0.5]
    """
    C = share.shape[-1]
    matrix = (1 - 2 * share)[..., None] * np.eye(C) + (share**2)[..., None]
    # Of two classes both equations are the same.
    found: FloatArray = np.einsum("...cd,...d->...c", np.linalg.pinv(matrix, rcond=1e-6), variance)
    return np.maximum(found, 0)


def _through_beta(share: FloatArray, deviation: FloatArray, score: FloatArray) -> FloatArray:
    """Standard scores as quantiles of beta distributions with these means and standard deviations, see `interval`."""
    inside = np.clip(share, 1e-12, 1 - 1e-12)[..., None]
    spread = inside * (1 - inside)
    size = spread / np.clip(deviation[..., None] ** 2, 1e-12 * spread, 0.999 * spread) - 1
    table = betaincinv(inside * size, (1 - inside) * size, ndtr(TABLED))
    place = np.clip((score - TABLED[0]) / (TABLED[1] - TABLED[0]), 0, len(TABLED) - 1.001)
    low = place.astype(np.int64)
    part = place - low
    below, above = (np.take_along_axis(table, at, -1) for at in (low, low + 1))
    return np.where(deviation[..., None] > 0, below + part * (above - below), share[..., None])
