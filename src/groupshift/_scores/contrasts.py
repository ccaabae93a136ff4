"""Class probabilities as contrasts: one code for any number of classes.

C classes have M = C − 1 contrasts, coordinates of centred log-probabilities: ``log p = B z + constant`` with
``BᵀB = I / 2``. Two classes have one contrast, the log-odds. A prior that is alike in all directions of z treats
classes alike, whatever their order.
"""

from functools import lru_cache

import numpy as np
from scipy.special import expit

from groupshift._math.arrays import FloatArray, IntArray


@lru_cache
def basis(n_contrasts: int) -> FloatArray:
    """B, of shape (n_contrasts + 1, n_contrasts): Helmert's contrasts.

    >>> basis(1).tolist()
    [[-0.5], [0.5]]
    """
    B = np.zeros((n_contrasts + 1, n_contrasts))
    for m in range(1, n_contrasts + 1):
        B[:m, m - 1], B[m, m - 1] = -1, m
        B[:, m - 1] /= np.sqrt(2 * m * (m + 1))
    B.flags.writeable = False
    return B


def contrasts(log_probability: FloatArray) -> FloatArray:
    """z of log-probabilities, which may be off by a constant in each row: (n_rows, C) to (n_rows, M).

    >>> contrasts(np.log([[0.2, 0.8]])).round(3).tolist()
    [[1.386]]
    """
    z: FloatArray = 2 * log_probability @ basis(log_probability.shape[-1] - 1)
    return z


def log_scores(z: FloatArray) -> FloatArray:
    """Log-probabilities up to a constant: (…, M) to (…, C)."""
    scores: FloatArray = z @ basis(z.shape[-1]).T
    return scores


def probabilities(z: FloatArray) -> FloatArray:
    """Of all classes: (…, M) to (…, C).

    >>> probabilities(np.array([[0.0], [1.386]])).round(2).tolist()
    [[0.5, 0.5], [0.2, 0.8]]
    """
    if z.shape[-1] == 1:
        p = expit(z)
        return np.concatenate([1 - p, p], -1)
    scores = log_scores(z)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def expected(z: FloatArray) -> FloatArray:
    """Bᵀp, the gradient of log Σ exp(B z): what a row's label is expected to be. Of two classes, p − ½.

    Gradients are differences of this, so that a constant does not matter.
    """
    t: FloatArray = probabilities(z) @ basis(z.shape[-1])
    return t


def observed(y: IntArray, n_contrasts: int) -> FloatArray:
    """`expected` of rows whose class is known, (n_rows, M)."""
    return basis(n_contrasts)[y]


def information(z: FloatArray) -> FloatArray:
    """Bᵀ(diag p − p pᵀ)B, the variance of a label: (…, M) to (…, M, M)."""
    p, B = probabilities(z), basis(z.shape[-1])
    t = p @ B
    result: FloatArray = np.einsum("...c,cm,ck->...mk", p, B, B) - t[..., :, None] * t[..., None, :]
    return result


def log_loss(z: FloatArray, y: IntArray) -> FloatArray:
    """Log loss of each row.

    >>> log_loss(np.array([[0.0], [2.0]]), np.array([1, 0])).round(3).tolist()
    [0.693, 2.127]
    """
    scores = log_scores(z)
    top = scores.max(1)
    total: FloatArray = top + np.log(np.exp(scores - top[:, None]).sum(1))
    return total - np.take_along_axis(scores, y[:, None], 1)[:, 0]
