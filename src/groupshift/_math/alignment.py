"""CORAL: features of one sample given the covariance of another (Sun, Feng and Saenko, 2016).

Rows are multiplied by ``(cov_source + λI)^(-1/2) (cov_target + λI)^(1/2)``, with λ = 1 as in the paper's
baseline. The map is linear and does not centre: means are moved by the same matrix, not matched, so features
are expected to be standardised first. One source is whitened once for many targets::

    white = whiten(source)
    aligned = {name: recolor(white, target) for name, target in targets.items()}
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, svd

from groupshift._math.arrays import FloatArray
from groupshift._math.row_weights import checked_weights


def whiten(
    features: ArrayLike, *, weight: ArrayLike | None = None, regularization: float = 1.0
) -> FloatArray:
    """Rows multiplied by ``(cov + λI)^(-1/2)``: the half of CORAL that knows the source alone.

    Parameters
    ----------
    features : array (n_rows, n_features)
    weight : array of n_rows, optional
        The covariance is ``np.cov(..., aweights=weight)``; that of a single row is 0.
    regularization : float
        λ. With 0, directions in which the rows do not vary are dropped.

    Examples
    --------
    Variances 2 and 0, so columns are divided by sqrt(2 + 2) and sqrt(0 + 2).

    >>> whiten([[-1.0, 5.0], [1.0, 5.0]], regularization=2.0)
    array([[-0.5       ,  3.53553391],
           [ 0.5       ,  3.53553391]])
    """
    rows = _checked_features(features, "features")
    return _apply(_inverse_root, rows, rows, weight, regularization)


def recolor(
    whitened: ArrayLike, target: ArrayLike, *, weight: ArrayLike | None = None, regularization: float = 1.0
) -> FloatArray:
    """Rows multiplied by ``(cov_target + λI)^(1/2)``: the half of CORAL that knows the target alone.

    Parameters
    ----------
    whitened, target : arrays (n_rows, n_features) and (n_target, n_features)
    weight : array of n_target, optional
    regularization : float
        λ. With 0 here and in `whiten`, rows get exactly the target's covariance where the source varies in every direction.

    Examples
    --------
    Variance 8, so rows are multiplied by sqrt(8 + 1).

    >>> recolor([[-1.0], [1.0]], [[0.0], [4.0]])
    array([[-3.],
           [ 3.]])
    """
    rows, colours = _checked_features(whitened, "whitened"), _checked_features(target, "target")
    if rows.shape[1] != colours.shape[1]:
        raise ValueError(
            f"source has {rows.shape[1]} features and target has {colours.shape[1]}; the same features in "
            "the same order were expected. Select the common columns first."
        )
    return _apply(np.sqrt, rows, colours, weight, regularization)


def _apply(
    function: Callable[[FloatArray], FloatArray],
    rows: FloatArray,
    sample: FloatArray,
    weight: ArrayLike | None,
    regularization: float,
) -> FloatArray:
    """``rows @ function(cov(sample) + λI)`` without forming the d by d matrix when the sample is short."""
    if not (np.isfinite(regularization) and regularization >= 0):
        raise ValueError(
            f"regularization is {regularization}; a finite number >= 0 was expected. The paper uses 1."
        )
    values, vectors = _spectrum(sample, checked_weights(weight, sample.shape[0], "weight"))
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


def _checked_features(features: ArrayLike, name: str) -> FloatArray:
    checked = np.asarray(features, dtype=np.float64)
    if checked.ndim != 2 or 0 in checked.shape:
        raise ValueError(
            f"{name} has shape {checked.shape}; (rows, features) was expected, with at least one of each."
        )
    if not np.isfinite(checked).all():
        raise ValueError(
            f"{name} has {(~np.isfinite(checked)).sum()} NaN or infinite values, and a covariance needs "
            "all of them. Impute them first, for instance with sklearn.impute.SimpleImputer."
        )
    return checked
