r"""Shares of several classes in many cells, each drawn towards what is expected of it (NumPy, SciPy).

Before its rows are seen, the shares q of a cell have a Dirichlet distribution around their expected values, the narrower the
surer these are; how narrow on the whole, the rows of all cells say: the concentration under which they are likeliest is used
(Laplace's approximation of the integral over q). All classes of a cell are solved together and by its whole likelihood, so that
nothing is lost to treating them one by one, and shares near 0 are no trouble.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.class_sites import contrasts
from groupshift._math.simplex_shift import CellBatch, simplex_shares

# Makes batches of cells, with the numbers of these.
Batches = Callable[[], Iterator[tuple[IntArray, CellBatch]]]
# Cells that the concentration is learned from: more change its third digit.
MAX_CELLS = 300
# Steps of the search are of a factor of two, and not many: ten are a factor of a thousand.
STEP, MAX_STEPS = float(np.log(2)), 10
# Standard deviation of the logarithm of the factor, before rows are seen: where these say nothing, variances stay as they are.
FACTOR = 1.0
# Rows that a class is given at least, and variances at least: what is certain is not asked.
FEWEST, SUREST = 1e-6, 1e-6


@dataclass(frozen=True)
class PooledShares:
    """Shares of cells, and variances of their log-odds, each class against the rest: (n_cells, n_classes), NaN without rows."""

    share: FloatArray
    variance: FloatArray
    concentration: float  # rows that all classes of a cell are given beforehand, on average over cells


def pooled_shares(batches: Batches, expected: FloatArray, variance: FloatArray) -> PooledShares:
    """Shares of all cells, drawn towards the expected ones as far as cells are alike.

    Parameters
    ----------
    batches : callable
        Makes the batches of cells, of densities ``p / π``.
    expected, variance : arrays of shape (n_cells, n_classes)
        Shares that are expected, and variances of their log-odds. The rows decide by what factor all variances are off.

    Examples
    --------
    >>> from groupshift._math.simplex_shift import OwnRows
    >>> rows = OwnRows(2 * np.eye(2)[[[0] * 8 + [1] * 2, [0] * 2 + [1] * 8, [0, 1] * 5]], np.ones((3, 10)))
    >>> found = pooled_shares(lambda: iter([(np.arange(3), rows)]), np.full((3, 2), 0.5), np.ones((3, 2)))
    >>> found.share[:, 0].round(1).tolist()
    [0.7, 0.3, 0.5]
    """
    # Log-odds have a variance of 1 / (A q (1 - q)) if A rows are given: A by the mean over classes, each by its share.
    wanted = np.maximum((expected * variance).sum(1), SUREST)
    given = expected * ((1 / (1 - expected)).sum(1) / wanted)[:, None]
    some = list(_some_cells(batches, expected))
    factor = _likeliest_factor(some, given)
    rows = np.maximum(factor * given, FEWEST)
    # At its mode the share of a class that few rows show is too large, by about half a row (`tests/test_dirichlet_shares.py`):
    # its geometric mean is right, as in variational Bayes, unless that is next to nothing.
    rows = np.maximum(np.exp(psi(rows)), rows / 2)
    share, spread = np.full((2, *expected.shape), np.nan)
    for own, batch in batches():
        share[own] = simplex_shares(batch, rows[own])
        spread[own] = _variance(batch, rows[own], share[own])
    return PooledShares(share, spread, float((factor * given).sum(1).mean()) if len(given) else 0.0)


def _some_cells(batches: Batches, expected: FloatArray) -> Iterator[tuple[IntArray, CellBatch]]:
    """At most `MAX_CELLS` of the cells, drawn by what their rows say: neither names nor the order of cells matter."""
    drawn = np.full(len(expected), np.inf)
    for own, batch in batches():
        drawn[own] = (np.abs(batch.log_likelihood(expected[own])) * 1e4) % 1
    last = np.partition(drawn, MAX_CELLS)[MAX_CELLS] if len(drawn) > MAX_CELLS else np.inf
    for own, batch in batches():
        kept = np.flatnonzero(drawn[own] < last)
        if len(kept):
            yield own[kept], batch.take(kept)


def _likeliest_factor(cells: list[tuple[IntArray, CellBatch]], given: FloatArray) -> float:
    """The factor on rows given beforehand under which the rows of all cells are likeliest."""
    if not cells:
        return 1.0

    def evidence(step: int) -> float:
        factor = np.exp(step * STEP)
        parts = [_evidence(batch, np.maximum(factor * given[own], FEWEST)).sum() for own, batch in cells]
        return float(sum(parts)) - (step * STEP / FACTOR) ** 2 / 2

    at, values = 0, {step: evidence(step) for step in (-1, 0, 1)}
    while abs(at) < MAX_STEPS and values[at] < (best := max(values[at - 1], values[at + 1])):
        at += 1 if best == values[at + 1] else -1
        for step in (at - 1, at + 1):
            if step not in values:
                values[step] = evidence(step)
    # The top of the parabola through three steps; to three digits, so that rounding errors of sums in another order vanish.
    bend = values[at - 1] + values[at + 1] - 2 * values[at]
    move = (values[at - 1] - values[at + 1]) / (2 * bend) if bend < 0 else 0.0
    return float(np.exp(round((at + float(np.clip(move, -1, 1))) * STEP, 3)))


def _information(batch: CellBatch, given: FloatArray, q: FloatArray) -> FloatArray:
    """Curvature of the log-posterior of δ, q ∝ e^δ, at its mode: (n_cells, n_classes, n_classes), of rank n_classes - 1."""
    _, square = batch.curvature(q)
    total = (batch.total + given.sum(1))[:, None, None]
    information: FloatArray = (square - total) * q[:, :, None] * q[:, None, :]
    at = np.arange(q.shape[1])
    information[:, at, at] += given
    return information


def _evidence(batch: CellBatch, given: FloatArray) -> FloatArray:
    """Log-probability of the rows of each cell, its shares integrated over; (n_cells,)."""
    q = simplex_shares(batch, given)
    n = q.shape[1] - 1
    # Without its last line and column, which follow from the others.
    _, log_det = np.linalg.slogdet(_information(batch, given, q)[:, :n, :n])
    log_prior = (given * np.log(q) - gammaln(given)).sum(1) + gammaln(given.sum(1))
    found: FloatArray = batch.log_likelihood(q) + log_prior + n / 2 * np.log(2 * np.pi) - log_det / 2
    return found


def _variance(batch: CellBatch, given: FloatArray, q: FloatArray) -> FloatArray:
    """Of the log-odds of each class against the rest, (n_cells, n_classes)."""
    # All classes moved alike move no share: a curvature in that direction changes nothing, and makes the inverse exist.
    covariance = np.linalg.inv(_information(batch, given, q) + 1.0)
    contrast = contrasts(q)
    found: FloatArray = np.einsum("nij,nij->ni", contrast @ covariance, contrast)
    return np.maximum(found, 0)
