"""CORAL: features of one sample given the covariance of another (Sun, Feng and Saenko, 2016).

Rows are multiplied by ``(cov_source + λI)^(-1/2) (cov_target + λI)^(1/2)``, with λ = 1 as in the paper's
baseline. The map is linear and does not centre: means are moved by the same matrix, not matched, so features
are expected to be standardised first. For one source and many targets, whiten once::

    white = whiten(source)
    aligned = {name: recolor(white, target) for name, target in targets.items()}
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, svd

Floats = NDArray[np.float64]


def coral(
    source: ArrayLike,
    target: ArrayLike,
    *,
    source_weight: ArrayLike | None = None,
    target_weight: ArrayLike | None = None,
    regularization: float = 1.0,
) -> Floats:
    """Rows of ``source`` with their covariance replaced by that of ``target``.

    Parameters
    ----------
    source, target : arrays (n_source, d) and (n_target, d)
    source_weight, target_weight : arrays of n_source and n_target, optional
        Weights of the rows in the covariances, which are those of ``np.cov(..., aweights=weight)``. A sample
        of one row has covariance 0.
    regularization : float
        λ, added to the diagonal of both covariances. With 0 the result has exactly the target's covariance,
        provided that the source varies in every direction; directions in which it does not vary are then
        dropped.

    Returns
    -------
    array (n_source, d)

    Examples
    --------
    Variances 2 and 7: every row is multiplied by sqrt((7 + 1) / (2 + 1)), or without regularisation by sqrt(7
    / 2).

    >>> coral([[-1.0], [1.0]], [[0.0], [14**0.5]]).round(3)
    array([[-1.633],
           [ 1.633]])
    >>> coral([[-1.0], [1.0]], [[0.0], [14**0.5]], regularization=0).round(3)
    array([[-1.871],
           [ 1.871]])
    """
    white = whiten(source, weight=source_weight, regularization=regularization)
    return recolor(white, target, weight=target_weight, regularization=regularization)


def whiten(features: ArrayLike, *, weight: ArrayLike | None = None, regularization: float = 1.0) -> Floats:
    """Rows multiplied by ``(cov + λI)^(-1/2)``, the half of :func:`coral` that knows the source alone.

    >>> whiten([[-1.0, 5.0], [1.0, 5.0]], regularization=2.0)  # variances 2 and 0
    array([[-0.5       ,  3.53553391],
           [ 0.5       ,  3.53553391]])
    """
    rows = _checked_features(features, "features")
    return _apply(_inverse_root, rows, rows, weight, regularization)


def recolor(
    whitened: ArrayLike, target: ArrayLike, *, weight: ArrayLike | None = None, regularization: float = 1.0
) -> Floats:
    """Rows multiplied by ``(cov_target + λI)^(1/2)``, the half of :func:`coral` that knows the target alone.

    >>> recolor([[-1.0], [1.0]], [[0.0], [4.0]])  # variance 8
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
    function: Callable[[Floats], Floats],
    rows: Floats,
    sample: Floats,
    weight: ArrayLike | None,
    regularization: float,
) -> Floats:
    """``rows @ function(cov(sample) + λI)`` without forming the d by d matrix when the sample is short."""
    if not (np.isfinite(regularization) and regularization >= 0):
        raise ValueError(
            f"regularization is {regularization}; a finite number >= 0 was expected. The paper uses 1."
        )
    values, vectors = _spectrum(sample, _checked_weight(weight, sample.shape[0]))
    # Outside the span of the vectors the covariance is 0, and the function sees λ alone.
    outside = function(np.array([regularization], dtype=np.float64))
    inside = function(values + regularization) - outside
    return rows * outside + (rows @ vectors * inside) @ vectors.T


def _inverse_root(values: Floats) -> Floats:
    # A direction without variance cannot be whitened: without regularisation it is dropped, as a
    # pseudo-inverse does.
    return np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)


def _spectrum(sample: Floats, weight: Floats) -> tuple[Floats, Floats]:
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


def _checked_features(features: ArrayLike, name: str) -> Floats:
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


def _checked_weight(weight: ArrayLike | None, n: int) -> Floats:
    if weight is None:
        return np.ones(n)
    checked = np.asarray(weight, dtype=np.float64)
    if checked.shape != (n,):
        raise ValueError(f"weight has shape {checked.shape}; ({n},) was expected, one for each row.")
    if not np.isfinite(checked).all() or (checked < 0).any() or not (checked > 0).any():
        raise ValueError(
            "Weights are negative, infinite, NaN or all zero; weights >= 0, not all 0, were expected."
        )
    return checked
