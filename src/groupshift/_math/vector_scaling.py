r"""Calibration of several classes: vector scaling per cluster, drawn towards one temperature (NumPy, SciPy).

``log ρ̃ = log softmax(s_c log p_c + b_c)``: a slope and an intercept for each class. Slopes are drawn towards their mean and
intercepts towards 0, as strongly as out-of-fold log loss says; entirely, what is left is a temperature.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import log_softmax

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.calibration import INTERCEPT_SPREAD, SLOPE_SPREAD, as_far_as_shown
from groupshift._math.fitted_part import FittedPart

# Prior standard deviations of slopes around their mean and of intercepts around 0, from a temperature to nearly free.
SPREADS = ((1e-3, 1e-3), (0.03, 0.1), (0.1, 0.3), (0.3, 1.0))
# The mean slope has next to no prior: one that would matter to a dozen rows only.
MEAN_SPREAD = 3.0
MAX_STEPS, TOLERANCE = 60, 1e-11


def class_log_loss(log_p: FloatArray, y: IntArray) -> FloatArray:
    """Log loss of each row, of log-probabilities that add up to 1.

    >>> class_log_loss(np.log(np.array([[0.5, 0.25, 0.25]])), np.array([0])).round(3).tolist()
    [0.693]
    """
    return -np.take_along_axis(log_p, y[:, None], 1)[:, 0]


@dataclass(frozen=True)
class _Prior:
    """A normal prior of slopes and intercepts: `center` (2, n_classes), spreads around the mean slope, of it, of intercepts."""

    center: FloatArray
    slope: float
    mean_slope: float
    intercept: float

    @property
    def precision(self) -> FloatArray:
        """(2 n_classes, 2 n_classes)."""
        n = self.center.shape[1]
        mean = np.full((n, n), 1 / n)
        slopes = (np.eye(n) - mean) / self.slope**2 + mean / n / self.mean_slope**2
        nothing = np.zeros((n, n))
        return np.block([[slopes, nothing], [nothing, np.eye(n) / self.intercept**2]])


class VectorScaling(FittedPart):
    """Slopes and intercepts of classes for each cluster; clusters borrow from the answer of all rows."""

    def fit(
        self,
        log_p: FloatArray,
        y: IntArray,
        weight: FloatArray,
        cluster: IntArray,
        n_clusters: int,
        spread: tuple[float, float],
    ) -> Self:
        n_classes = log_p.shape[1]
        # Weights count as rows: their scale must not decide how strong the prior is.
        weight = weight * (len(weight) / weight.sum())
        start = np.stack([np.ones(n_classes), np.zeros(n_classes)])
        whole = _fit_lines(log_p, y, weight, _Prior(start, spread[0], MEAN_SPREAD, spread[1]))
        lines = [whole]
        if n_clusters > 1:
            # Clusters differ in their shares: intercepts are as free as those of two classes are.
            prior = _Prior(whole, spread[0], SLOPE_SPREAD * max(abs(whole[0].mean()), 1e-3), INTERCEPT_SPREAD)
            own = (cluster == k for k in range(n_clusters))
            lines = [_fit_lines(log_p[part], y[part], weight[part], prior) for part in own]
        self.slope_, self.intercept_ = np.stack(lines, 1)
        return self

    def transform(self, log_p: FloatArray, cluster: IntArray) -> FloatArray:
        """Calibrated log-probabilities, (n_rows, n_classes)."""
        line: IntArray | int = 0 if len(self.slope_) == 1 else cluster
        found: FloatArray = log_softmax(self.slope_[line] * log_p + self.intercept_[line], axis=1)
        return found


def crossfit_scaling(
    log_p: FloatArray,
    y: IntArray,
    weight: FloatArray,
    cluster: IntArray,
    n_clusters: int,
    fold: IntArray,
    spread: tuple[float, float],
) -> FloatArray:
    """Calibrated log-probabilities of labelled rows, each fold calibrated on the others."""
    calibrated = np.empty_like(log_p)
    for f in np.unique(fold):
        rest, own = fold != f, fold == f
        scaling = VectorScaling().fit(log_p[rest], y[rest], weight[rest], cluster[rest], n_clusters, spread)
        calibrated[own] = scaling.transform(log_p[own], cluster[own])
    return calibrated


def choose_spread(
    log_p: FloatArray, y: IntArray, weight: FloatArray, fold: IntArray | None
) -> tuple[float, float]:
    """How free slopes and intercepts are: a standard error of the out-of-fold log loss must show each further step."""
    if fold is None or len(np.unique(fold)) < 2:
        return SPREADS[0]
    everyone = np.zeros(len(y), np.int64)

    def loss(spread: tuple[float, float]) -> FloatArray:
        return class_log_loss(crossfit_scaling(log_p, y, weight, everyone, 1, fold, spread), y)

    return as_far_as_shown(SPREADS, loss, weight)


def _fit_lines(log_p: FloatArray, y: IntArray, weight: FloatArray, prior: _Prior) -> FloatArray:
    """Penalised multinomial regression by Newton steps, halved where they would raise the loss, which is convex."""
    precision, center = prior.precision, prior.center.ravel()
    line = center.copy()
    loss, log_r = _loss(line, log_p, y, weight, precision, center)
    for _ in range(MAX_STEPS):
        gradient, curvature = _derivatives(np.exp(log_r), log_p, y, weight)
        step = np.linalg.solve(curvature + precision, gradient - precision @ (line - center))
        after, log_r = _loss(line + step, log_p, y, weight, precision, center)
        while after > loss + 1e-12 * (1 + abs(loss)) and np.abs(step).max() > TOLERANCE:
            step = step / 2
            after, log_r = _loss(line + step, log_p, y, weight, precision, center)
        line, loss = line + step, after
        if np.abs(step).max() < TOLERANCE:
            break
    return line.reshape(2, -1)


def _loss(
    line: FloatArray,
    log_p: FloatArray,
    y: IntArray,
    weight: FloatArray,
    precision: FloatArray,
    center: FloatArray,
) -> tuple[float, FloatArray]:
    slope, intercept = line.reshape(2, -1)
    log_r = log_softmax(slope * log_p + intercept, axis=1)
    move = line - center
    return float(weight @ class_log_loss(log_r, y) + move @ precision @ move / 2), log_r


def _derivatives(
    r: FloatArray, log_p: FloatArray, y: IntArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient of the log-likelihood and its curvature in slopes and intercepts."""
    n_classes = r.shape[1]
    at = np.arange(len(y))
    missed = -r * weight[:, None]
    missed[at, y] += weight
    gradient = np.concatenate([(missed * log_p).sum(0), missed.sum(0)])
    both = np.hstack([r * log_p, r])
    curvature = -(both * weight[:, None]).T @ both
    own = np.arange(n_classes)
    weighed = r * weight[:, None]
    curvature[own, own] += (weighed * log_p**2).sum(0)
    curvature[own, n_classes + own] += (weighed * log_p).sum(0)
    curvature[n_classes + own, own] += (weighed * log_p).sum(0)
    curvature[n_classes + own, n_classes + own] += weighed.sum(0)
    return gradient, curvature
