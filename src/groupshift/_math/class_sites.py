r"""What rows say of the shifts of several classes, one class against the rest at a time (NumPy, SciPy).

A cell's shift is a vector: ``log p + δ`` is the labelled posterior moved, and ``q ∝ π e^δ`` the shares. All classes of a cell are
solved together, since what is not one class is another; what comes out is told for each class against the rest of them,
``d_c = logit q_c − logit π_c``, a scale on which no class is special. So a class of a group is to the hierarchy and to the views
what a group is where there are two classes.
"""

import numpy as np
from scipy.special import expit, logit, softmax

from groupshift._math.arrays import FloatArray
from groupshift._math.simplex_shift import CellBatch
from groupshift._math.sites import WIDE
from groupshift._math.sums import ratio

# What follows magnifies differences in the last digits, such as another order of classes makes: the mode is found to all of them.
MAX_STEPS, TOLERANCE = 60, 1e-11
# Shares are told from 0 and 1 as far as doubles can.
SMALLEST = 1e-12


def against_rest(q: FloatArray, prior: FloatArray) -> FloatArray:
    """Log-odds by which each class's share differs from that among labelled rows.

    >>> against_rest(np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5])).round(2).tolist()
    [1.1, 0.0, -1.1]
    """
    found: FloatArray = logit(_inside(q)) - logit(_inside(prior))
    return found


def joined_shares(shift: FloatArray, prior: FloatArray) -> FloatArray:
    """Shares of all classes from the log-odds of each against the rest; no shift leaves the labelled shares as they are.

    >>> joined_shares(np.zeros(3), np.array([0.25, 0.25, 0.5])).tolist()
    [0.25, 0.25, 0.5]
    """
    each = expit(logit(_inside(prior)) + shift)
    found: FloatArray = each / each.sum(-1, keepdims=True)
    return found


def _inside(share: FloatArray) -> FloatArray:
    return np.clip(share, SMALLEST, 1 - SMALLEST)


def contrasts(q: FloatArray) -> FloatArray:
    """How logit q_c follows δ: its own, less those of the others by their parts of the rest; (n_cells, n_classes, n_classes)."""
    one = np.eye(q.shape[1])
    return one - (1 - one) * q[:, None, :] / np.maximum(1 - q, SMALLEST)[:, :, None]


def class_sites(
    batch: CellBatch, prior: FloatArray, counts: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """The likelihood of each class's shift against the rest as a Gaussian: means and precisions, (n_cells, n_classes) each.

    Taken at the mode under a wide normal prior on δ, which is then taken out: classes that no row shows have an answer too.

    Parameters
    ----------
    batch : CellBatch
        Rows of the cells, with densities ``p / π``.
    prior : array of shape (n_cells, n_classes)
        π, the shares among labelled rows.
    counts : array of shape (n_cells, n_classes), optional
        Labels of the rows, counted by class. Without them the scores of the rows speak: the shift that makes them likeliest.

    Examples
    --------
    >>> from groupshift._math.simplex_shift import OwnRows
    >>> rows = OwnRows(3 * np.eye(3)[None, [0] * 8 + [1] * 2] + 1e-9, np.ones((1, 10)))
    >>> response, precision = class_sites(rows, np.full((1, 3), 1 / 3))
    >>> bool(response[0, 0] > 1 > -1 > response[0, 2]), bool(precision[0, 2] < precision[0, 0])
    (True, True)
    """
    log_prior = np.log(prior)
    shift = np.zeros_like(prior)
    value = _value(batch, log_prior, shift, counts)
    n_classes = prior.shape[1]
    one = np.eye(n_classes)
    for _ in range(MAX_STEPS):
        gradient, curvature = _derivatives(batch, softmax(log_prior + shift, axis=1), counts)
        slope = gradient - shift / WIDE
        step = np.linalg.solve(curvature + one / WIDE, slope[:, :, None])[..., 0]
        step = step - step.mean(1, keepdims=True)
        # Far from the mode a whole step overshoots: two units of log-odds are a large one.
        step = step * np.minimum(1, 2 / np.maximum(np.abs(step).max(1, keepdims=True), 1e-300))
        rounding = 1e-12 * (1 + np.abs(value))
        after = _value(batch, log_prior, shift + step, counts)
        while (lower := (after < value - rounding) & (np.abs(step).max(1) > TOLERANCE)).any():
            step[lower] /= 2
            after = _value(batch, log_prior, shift + step, counts)
        shift, value = shift + step, after
        if np.abs(step).max(initial=0.0) < TOLERANCE:
            break
    q = softmax(log_prior + shift, axis=1)
    _, curvature = _derivatives(batch, q, counts)
    return _told(against_rest(q, prior), q, curvature, batch.total)


def _value(
    batch: CellBatch, log_prior: FloatArray, shift: FloatArray, counts: FloatArray | None
) -> FloatArray:
    """Log-posterior of each cell's shift."""
    log_q = log_prior + shift
    log_q = log_q - np.logaddexp.reduce(log_q, axis=1)[:, None]
    of_scores = batch.log_likelihood(np.exp(log_q))
    value = of_scores if counts is None else (counts * (log_q - log_prior)).sum(1) - of_scores
    found: FloatArray = value - (shift**2).sum(1) / (2 * WIDE)
    return found


def _derivatives(batch: CellBatch, q: FloatArray, counts: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Gradient and information of each cell's shift, (n_cells, n_classes) and (n_cells, n_classes, n_classes)."""
    density, square = batch.curvature(q)
    expected, together = q * density, square * q[:, :, None] * q[:, None, :]
    total = batch.total[:, None]
    at = np.arange(q.shape[1])
    if counts is not None:
        information = -together
        information[:, at, at] += expected
        return counts - expected, information
    # Their spread over rows is the information at the maximum, and never negative. Off it, a class with fewer rows than its
    # share has more to tell.
    information = together - expected[:, :, None] * (expected / np.maximum(total, 1e-300))[:, None, :]
    information[:, at, at] += np.maximum(total * q - expected, 0)
    return expected - total * q, information


def _told(
    shift: FloatArray, q: FloatArray, information: FloatArray, total: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Each class against the rest: what its own line says of the joint answer, the wide prior taken out."""
    one = np.eye(q.shape[1])
    covariance = np.linalg.inv(information + one / WIDE)
    contrast = contrasts(q)
    posterior = np.einsum("nij,nij->ni", contrast @ covariance, contrast)
    before = WIDE * (contrast**2).sum(2)
    precision = np.where(total[:, None] > 0, 1 / np.maximum(posterior, 1e-12) - 1 / before, 0.0)
    # Below a thousandth of a row's worth of information nothing is said.
    precision = np.where(precision > 1e-3, precision, 0.0)
    return ratio(shift / posterior, precision, empty=0.0), precision
