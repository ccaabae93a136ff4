"""Regularized logistic regression of any number of classes: a member of the stack, and what is learned inside a cell."""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator

from groupshift._data.encoder import Space
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._scores.contrasts import expected, log_loss, observed, probabilities

# Penalty on half the squared coefficients of standardized features.
RIDGE = 3.0
# Standardized features lie within it.
FARTHEST = 20.0
MOST_STEPS = 200


def fit_linear(
    F: FloatArray,
    y: IntArray,
    weight: FloatArray,
    *,
    n_contrasts: int,
    offset: FloatArray | None = None,
    ridge: float = RIDGE,
    intercept_ridge: float = 0.0,
) -> FloatArray:
    """Coefficients (1 + n_features, M), the intercept first; `offset` (n_rows, M) is added to the scores.

    >>> F, y = np.array([[-1.0], [1.0]] * 50), np.array([0, 1] * 50)
    >>> (fit_linear(F, y, np.ones(100), n_contrasts=1).round(2) + 0.0).tolist()
    [[0.0], [2.51]]
    """
    n_features = F.shape[1]
    label, base = observed(y, n_contrasts), np.zeros((len(y), n_contrasts)) if offset is None else offset
    penalty = np.full((1 + n_features, 1), ridge)
    penalty[0] = intercept_ridge

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        b = flat.reshape(-1, n_contrasts)
        z = base + b[0] + F @ b[1:]
        away = weight[:, None] * (expected(z) - label)
        value = weight @ log_loss(z, y) + 0.5 * (penalty * b**2).sum()
        return float(value), (np.vstack([away.sum(0), F.T @ away]) + penalty * b).ravel()

    start = np.zeros((1 + n_features) * n_contrasts)
    # A gradient of a hundredth of a row moves no probability that anyone could see.
    options = {"maxiter": MOST_STEPS, "gtol": 1e-3, "ftol": 1e-10}
    result: FloatArray = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(
        -1, n_contrasts
    )
    return result


def standardized(space: Space, matrix: NDArray[np.floating]) -> FloatArray:
    """Features of rows for a linear model; far outliers are clipped."""
    return np.clip(space.transform(matrix), -FARTHEST, FARTHEST)


class LinearClassifier(BaseEstimator):
    """Ridge logistic regression on standardized features: categories one-hot, missing values at the mean."""

    def __init__(self, is_category: BoolArray, ridge: float = RIDGE):
        self.is_category = is_category
        self.ridge = ridge

    def fit(self, features: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> Self:
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.classes_ = np.unique(y)
        self.space_ = Space().fit(features, weight, self.is_category)
        F = standardized(self.space_, features)
        number = np.searchsorted(self.classes_, y)
        self.coef_ = fit_linear(F, number, weight, n_contrasts=len(self.classes_) - 1, ridge=self.ridge)
        return self

    def scores(self, features: FloatArray) -> FloatArray:
        """Contrasts of the classes, (n_rows, M)."""
        result: FloatArray = self.coef_[0] + standardized(self.space_, features) @ self.coef_[1:]
        return result

    def predict_proba(self, features: FloatArray) -> FloatArray:
        return probabilities(self.scores(features))
