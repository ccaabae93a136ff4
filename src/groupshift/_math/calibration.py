"""Calibration of a classifier's scores: Platt scaling per cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from scipy.special import expit

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.fitted_part import FittedPart
from groupshift._math.sums import sum_by

# Prior standard deviations of a cluster's line around the line of all rows, the slope's relative to that line's slope. A few
# dozen rows of a cluster outweigh them, a handful do not.
SLOPE_SPREAD, INTERCEPT_SPREAD = 0.3, 1.0
# Rows of even odds would say as much of a cluster's offset as all rows do: four times so many.
ALL_ROWS_COUNT = 10

Step = TypeVar("Step")


class PlattScaling(FittedPart):
    """A line from scores to log-odds for each cluster, ``logit ρ̃ = slope · score + intercept``.

    Clusters borrow from each other: each line is pulled towards the line of all rows, so that a cluster with few labelled rows,
    or of one class, has a sensible answer.
    """

    def fit(
        self,
        score: FloatArray,
        y: IntArray,
        weight: FloatArray,
        cluster: IntArray,
        n_clusters: int,
        whole: "WholeLine | None" = None,
    ) -> Self:
        """Learn from rows; `whole` is their `WholeLine`, where it is known already."""
        whole = WholeLine.of(score, y, weight) if whole is None else whole
        self.center_, self.scale_, line = whole.center, whole.scale, whole.line
        if n_clusters > 1:
            center = np.repeat(line, n_clusters, axis=0)
            spread = np.array([SLOPE_SPREAD * max(abs(line[0, 0]), 1e-3), INTERCEPT_SPREAD])
            line = _fit_lines(whole.standardized(score), y, weight, cluster, center, spread**-2.0)
        self.slope_ = line[:, 0] / self.scale_
        self.intercept_ = line[:, 1] - self.slope_ * self.center_
        return self

    @classmethod
    def of(cls, lines: FloatArray) -> Self:
        """Lines that are known: slope and intercept of each cluster, of shape (n_clusters, 2)."""
        known = cls()
        known.slope_, known.intercept_ = lines.T.copy()
        return known

    def transform(self, score: FloatArray, cluster: IntArray) -> FloatArray:
        line: IntArray | int = 0 if len(self.slope_) == 1 else cluster
        return self.slope_[line] * score + self.intercept_[line]


@dataclass(frozen=True)
class WholeLine:
    """The line of all rows, which those of clusters are pulled towards, whatever the clusters are."""

    # Standardised scores make one prior fit classifiers that speak in log-odds and those that speak in votes.
    center: float
    scale: float
    line: FloatArray  # (1, 2): slope and intercept, of standardised scores

    @classmethod
    def of(cls, score: FloatArray, y: IntArray, weight: FloatArray) -> Self:
        total = weight.sum()
        center = float((weight * score).sum() / total)
        spread = np.sqrt((weight * (score - center) ** 2).sum() / total)
        flat = cls(center, float(spread) if spread > 1e-12 else 1.0, np.array([[1.0, 0.0]]))
        everyone = np.zeros(len(score), np.int64)
        # It has next to no prior: one that would matter to a dozen rows only.
        weak = np.array([1e-2, 1e-2])
        return replace(flat, line=_fit_lines(flat.standardized(score), y, weight, everyone, flat.line, weak))

    def standardized(self, score: FloatArray) -> FloatArray:
        return (score - self.center) / self.scale


def whole_lines(score: FloatArray, y: IntArray, weight: FloatArray, fold: IntArray) -> list[WholeLine]:
    """For each fold, that of the other folds' rows."""
    others = (fold != f for f in np.unique(fold))
    return [WholeLine.of(score[rest], y[rest], weight[rest]) for rest in others]


def mean_offsets(
    log_odds: FloatArray, wanted: FloatArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> FloatArray:
    """What to add to log-odds in each cluster, so that they have the mean probability of the wanted ones, of the same rows.

    A cluster with few rows follows all rows.

    >>> offset = mean_offsets(np.zeros(500), np.ones(500), np.ones(500), np.zeros(500, np.int64), 1)
    >>> offset.round(2).tolist()
    [1.0]
    """
    weight = weight * (len(weight) / weight.sum())
    offset = np.zeros(n_clusters)
    for _ in range(5):
        p = expit(log_odds + offset[cluster])
        gap, slope = weight * (expit(wanted) - p), weight * p * (1 - p)
        of_all = gap.sum() / max(slope.sum(), 1e-12)
        own = sum_by(cluster, gap, n_clusters), sum_by(cluster, slope, n_clusters)
        offset = offset + np.clip((own[0] + ALL_ROWS_COUNT * of_all) / (own[1] + ALL_ROWS_COUNT), -1, 1)
    return offset


def as_far_as_shown(steps: Sequence[Step], loss: Callable[[Step], FloatArray], weight: FloatArray) -> Step:
    """The last of the steps that a standard error of the rows' loss shows to be better than the one taken before it."""
    chosen, *others = steps
    lowest = loss(chosen)
    for step in others:
        further = loss(step)
        gain = weight * (lowest - further)
        if gain.sum() > np.sqrt((gain**2).sum()):
            chosen, lowest = step, further
    return chosen


def crossfit_platt(
    score: FloatArray,
    y: IntArray,
    weight: FloatArray,
    cluster: IntArray,
    n_clusters: int,
    fold: IntArray,
    whole: Sequence[WholeLine] | None = None,
) -> FloatArray:
    """Calibrated log-odds of labelled rows, each fold calibrated on the others; `whole`: their `whole_lines`, where known."""
    calibrated = np.empty(len(score))
    whole = whole_lines(score, y, weight, fold) if whole is None else whole
    for f, line in zip(np.unique(fold), whole, strict=True):
        rest, own = fold != f, fold == f
        platt = PlattScaling().fit(score[rest], y[rest], weight[rest], cluster[rest], n_clusters, line)
        calibrated[own] = platt.transform(score[own], cluster[own])
    return calibrated


def _fit_lines(
    t: FloatArray,
    y: IntArray,
    weight: FloatArray,
    cluster: IntArray,
    center: FloatArray,
    precision: FloatArray,
    n_iter: int = 100,
) -> FloatArray:
    """Penalised logistic regression of y on t in each cluster, all clusters at once by Newton steps.

    Slopes and intercepts have shape (n_clusters, 2), as has `center`, the mean of their prior; `precision` has shape (2,).
    A step is halved in the clusters whose loss it would raise. The loss is convex, so this finds its minimum from
    anywhere; whole steps do not where one class is rare.
    """
    n = len(center)
    # Weights count as rows: their scale must not decide how strong the prior is.
    weight = weight * (len(weight) / weight.sum())
    is_positive = y == 1
    sign = np.where(is_positive, -1.0, 1.0)

    def total(values: FloatArray) -> FloatArray:
        return values.sum(keepdims=True) if n == 1 else sum_by(cluster, values, n)

    def evaluate(line: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Loss of each cluster, and the probability of each row."""
        slope, intercept = line[0] if n == 1 else line[cluster].T
        against = sign * (slope * t + intercept)
        # One exponential serves the loss and the probability.
        small = np.exp(-np.abs(against))
        loss = total(weight * (np.maximum(against, 0) + np.log1p(small)))
        wrong = np.where(against > 0, 1.0, small) / (1 + small)
        return loss + 0.5 * (precision * (line - center) ** 2).sum(1), np.where(is_positive, 1 - wrong, wrong)

    line = center.copy()
    loss, p = evaluate(line)
    for _ in range(n_iter):
        residual, curvature = weight * (y - p), weight * p * (1 - p)
        gradient = np.stack([total(residual * t), total(residual)], 1) - precision * (line - center)
        a = total(curvature * t * t) + precision[0]
        b = total(curvature * t)
        c = total(curvature) + precision[1]
        det = a * c - b * b
        slope, intercept = gradient.T
        step = np.stack([c * slope - b * intercept, a * intercept - b * slope], 1) / det[:, None]
        rounding = 1e-12 * (1 + np.abs(loss))
        after, p = evaluate(line + step)
        while (higher := (after > loss + rounding) & (np.abs(step).max(1) > 1e-10)).any():
            step[higher] /= 2
            after, p = evaluate(line + step)
        line, loss = line + step, after
        # Newton's steps square their size: the next one would be too small to matter.
        if np.abs(step).max() < 1e-5:
            break
    return line
