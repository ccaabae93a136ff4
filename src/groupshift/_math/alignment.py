"""CORAL: features of one sample given the covariance of another (Sun, Feng and Saenko, 2016).

Rows are multiplied by ``(cov_source + λI)^(-1/2) (cov_target + λI)^(1/2)``, with λ = 1 as in the paper's
baseline. The map is linear and does not centre: means are moved by the same matrix, not matched, so features
are expected to be standardised first. One source is whitened once for many targets::

    white = whiten(source)
    aligned = {name: recolor(white, target) for name, target in targets.items()}
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh, svd

from groupshift._math.arrays import FloatArray


def whiten(features: FloatArray, weight: FloatArray, *, regularization: float = 1.0) -> FloatArray:
    """Rows multiplied by ``(cov + λI)^(-1/2)``: the half of CORAL that knows the source alone.

    Parameters
    ----------
    features, weight : arrays of shape (n_rows, n_features) and (n_rows,)
        The covariance is ``np.cov(..., aweights=weight)``; that of a single row is 0.
    regularization : float
        λ. With 0, directions in which the rows do not vary are dropped.

    Examples
    --------
    Variances 2 and 0, so columns are divided by sqrt(2 + 2) and sqrt(0 + 2).

    >>> whiten(np.array([[-1.0, 5.0], [1.0, 5.0]]), np.ones(2), regularization=2.0)
    array([[-0.5       ,  3.53553391],
           [ 0.5       ,  3.53553391]])
    """
    return _apply(_inverse_root, features, features, weight, regularization)


def recolor(
    whitened: FloatArray, target: FloatArray, weight: FloatArray, *, regularization: float = 1.0
) -> FloatArray:
    """Rows multiplied by ``(cov_target + λI)^(1/2)``: the half of CORAL that knows the target alone.

    Parameters
    ----------
    whitened : array of shape (n_rows, n_features)
    target, weight : arrays of shape (n_target, n_features) and (n_target,)
    regularization : float
        λ. With 0 here and in `whiten`, rows get exactly the target's covariance where the source varies in every direction.

    Examples
    --------
    Variance 8, so rows are multiplied by sqrt(8 + 1).

    >>> recolor(np.array([[-1.0], [1.0]]), np.array([[0.0], [4.0]]), np.ones(2))
    array([[-3.],
           [ 3.]])
    """
    return _apply(np.sqrt, whitened, target, weight, regularization)


def _apply(
    function: Callable[[FloatArray], FloatArray],
    rows: FloatArray,
    sample: FloatArray,
    weight: FloatArray,
    regularization: float,
) -> FloatArray:
    """``rows @ function(cov(sample) + λI)`` without forming the d by d matrix when the sample is short."""
    values, vectors = _spectrum(sample, weight)
    # Outside the span of the vectors the covariance is 0, and the function sees λ alone.
    outside = function(np.array([regularization], dtype=np.float64))
    inside = function(values + regularization) - outside
    return rows * outside + (rows @ vectors * inside) @ vectors.T


def _inverse_root(values: FloatArray) -> FloatArray:
    # A direction without variance cannot be whitened: without regularisation it is dropped, as a
    # pseudo-inverse does.
    return np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)


def _spectrum(sample: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, never negative, and eigenvectors of the weighted covariance: min(n, d) of each."""
    weight = weight / weight.sum()
    # The unbiased divisor for weights that are not counts: 1 − 1/n when all are equal, 0 for a single row.
    divisor = 1 - np.square(weight).sum() if np.count_nonzero(weight) > 1 else 1.0
    centred = (sample - weight @ sample) * np.sqrt(weight / divisor)[:, None]
    n, d = centred.shape
    if n < d:
        _, singular, rows = svd(centred, full_matrices=False)
        values, vectors = np.square(singular), rows.T
    else:
        values, vectors = eigh(centred.T @ centred)
    # Rounding leaves specks where the variance is 0; relative to the largest they are what eigh cannot tell
    # from 0.
    floor = values.max() * max(n, d) * np.finfo(np.float64).eps
    return np.where(values > floor, values, 0.0), vectors
