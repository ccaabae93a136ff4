r"""The shift that all groups have in common, by what population rows and labelled rows have as their mean features.

Scores do not identify it: labels chosen by the features look the same to them. Feature means do, in part. With
directions of feature space in which rows of one class have variance 1, the means of both samples differ by

    Δ = Σ_y (α_y(c) − π_y) μ_y  +  s Σ^½ β  +  noise

where π are the shares of the labelled rows, α(c) those of the population under a common shift c, μ_y the means of the
classes, and the second term a choice of labels by the features, of strength s in any direction (β standard normal).
The noise is that of groups: a mean over few groups is uncertain however many rows they have.
Either c = 0, or c is normal with standard deviation 1; s is half-t. The posterior mean of c is used, and no threshold.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import logsumexp

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._scores.contrasts import basis, contrasts, probabilities

# Probability that labels were chosen by the label in all groups alike, and the standard deviation of that shift then.
BY_LABEL, SPREAD = 0.3, 1.0
# Strengths of a choice by the features, in units of a feature's standard deviation, and the scale of their half-t (3).
STRENGTHS, USUAL_STRENGTH = 0.01 * 2.0 ** np.arange(0, 9.5, 0.5), 0.3
# Directions of feature space that are looked at: those of largest variance, and none of next to none.
MOST_DIRECTIONS, LEAST_VARIANCE = 32, 1e-3
# Standardized features beyond this are held.
FARTHEST = 20.0
MOST_STEPS = 30


@dataclass(frozen=True)
class MeanSums:
    """Weighted sums of rows in the directions, by group. Sums of two chunks are added with ``+``."""

    values: FloatArray  # (n_groups, n_directions)
    weight: FloatArray  # (n_groups,)
    rows: int

    def __add__(self, other: Self) -> "MeanSums":
        return MeanSums(self.values + other.values, self.weight + other.weight, self.rows + other.rows)

    @property
    def mean(self) -> FloatArray:
        mean: FloatArray = self.values.sum(0) / self.weight.sum()
        return mean

    @property
    def by_group(self) -> FloatArray:
        """What each group adds to the error of the mean."""
        own: FloatArray = (self.values - self.weight[:, None] * self.mean) / self.weight.sum()
        return own


@dataclass(frozen=True)
class Directions:
    """What labelled rows say of the directions of feature space."""

    center: FloatArray  # (n_features,)
    scale: FloatArray
    axes: FloatArray  # (n_features, n_directions): of standardized features
    means: FloatArray  # (C, n_directions): of the classes
    choice: FloatArray  # (n_directions, n_directions): covariance that a choice by the features adds, at strength 1
    prior: FloatArray  # (M,): shares of the labelled rows, as contrasts
    labeled: MeanSums

    @classmethod
    def of(cls, features: FloatArray, y: IntArray, group: IntArray, weight: FloatArray, n_groups: int, n_classes: int) -> Self:
        """Of labelled rows: features (n_rows, n_features), scores among them."""
        center = np.average(features, axis=0, weights=weight)
        scale = np.sqrt(np.average((features - center) ** 2, axis=0, weights=weight)) + 1e-9
        standard = (features - center) / scale
        share = np.array([weight[y == c].sum() for c in range(n_classes)]) / weight.sum()
        means = np.stack([weight[y == c] @ standard[y == c] / weight[y == c].sum() for c in range(n_classes)])
        inside = standard - means[y]
        covariance = (weight[:, None] * inside).T @ inside / weight.sum()
        variance, vectors = np.linalg.eigh(covariance)
        kept = np.flatnonzero(variance > LEAST_VARIANCE * variance.max())[-MOST_DIRECTIONS:]
        axes = vectors[:, kept] / np.sqrt(variance[kept])
        root = covariance @ axes
        found = cls(center, scale, axes, means @ axes, root.T @ root, contrasts(np.log(share)), None)  # type: ignore[arg-type]
        return cls(**{**vars(found), "labeled": found.sums(features, group, weight, n_groups)})

    def sums(self, features: FloatArray, group: IntArray, weight: FloatArray, n_groups: int) -> MeanSums:
        """Sums of rows of any sample."""
        projected = np.clip((features - self.center) / self.scale, -FARTHEST, FARTHEST) @ self.axes
        values = [np.bincount(group, weight * column, n_groups) for column in projected.T]
        return MeanSums(np.column_stack(values), np.bincount(group, weight, n_groups), len(group))


@dataclass(frozen=True)
class CommonShift:
    """Posterior of the common shift."""

    mean: FloatArray  # (M,)
    covariance: FloatArray  # (M, M)
    probability: float  # that there is one


def no_common_shift(n_contrasts: int) -> CommonShift:
    return CommonShift(np.zeros(n_contrasts), np.zeros((n_contrasts, n_contrasts)), 0.0)


def learn_common_shift(
    directions: Directions, population: MeanSums, same: IntArray, *, is_certain: bool = False
) -> CommonShift:
    """By the sums of the population's rows; `same` numbers the population's groups as those of labelled rows, −1 where new.

    `is_certain`: the user says that labels were chosen by the label.
    """
    k, M = directions.axes.shape[1], len(directions.prior)
    of_labeled = directions.labeled.by_group
    place = np.where(same >= 0, len(same) + same, np.arange(len(same)))
    joined = np.zeros((len(same) + len(of_labeled), k))
    np.add.at(joined, place, population.by_group)
    joined[len(same) :] -= of_labeled
    n = max(int((np.abs(joined).sum(1) > 0).sum()), 2)
    noise = joined.T @ joined * n / (n - 1)
    # So few groups do not tell so many directions: towards independent ones, none with less than the noise of its rows.
    part = k / (k + n)
    least = 1 / directions.labeled.rows + 1 / population.rows
    noise = (1 - part) * noise + part * np.diag(np.maximum(np.diag(noise), least))
    noise += LEAST_VARIANCE * least * np.eye(k)
    delta = population.mean - directions.labeled.mean
    found = [_given_strength(directions, noise + s**2 * directions.choice, delta) for s in STRENGTHS]
    prior = np.log(STRENGTHS) - 2 * np.log1p((STRENGTHS / USUAL_STRENGTH) ** 2 / 3)
    by_label = 1 - 1e-9 if is_certain else BY_LABEL
    with_shift = prior + np.array([f[2] for f in found]) + np.log(by_label)
    without = logsumexp(prior + np.array([f[3] for f in found])) + np.log1p(-by_label)
    weight = np.exp(with_shift - np.logaddexp(logsumexp(with_shift), without))
    centers, spreads = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    mean = weight @ centers
    probability = float(weight.sum())
    second = np.einsum("s,smk->mk", weight, spreads + centers[:, :, None] * centers[:, None, :])
    return CommonShift(mean, second - np.outer(mean, mean), probability)


def _given_strength(
    directions: Directions, covariance: FloatArray, delta: FloatArray
) -> tuple[FloatArray, FloatArray, float, float]:
    """Mode of the shift, its covariance, and log evidence with a shift (Laplace) and without, for one strength."""
    precision = np.linalg.inv(covariance)
    base = -0.5 * np.linalg.slogdet(covariance)[1]
    prior, means, M = directions.prior, directions.means, len(directions.prior)
    share = probabilities(prior)
    B = basis(M)

    def at(c: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        alpha = probabilities(prior + c)
        residual = delta - (alpha - share) @ means
        slope = means.T @ (alpha[:, None] * B - np.outer(alpha, alpha @ B))
        return residual, slope, float(-0.5 * residual @ precision @ residual - 0.5 * c @ c / SPREAD**2)

    c = np.zeros(M)
    residual, slope, value = at(c)
    for _ in range(MOST_STEPS):
        H = slope.T @ precision @ slope + np.eye(M) / SPREAD**2
        step = np.linalg.solve(H, slope.T @ precision @ residual - c / SPREAD**2)
        length = 1.0
        while length > 1e-3:
            tried = at(c + length * step)
            if tried[2] >= value:
                break
            length /= 2
        else:
            break
        c = c + length * step
        residual, slope, value = tried
        if np.abs(length * step).max() < 1e-6:
            break
    H = slope.T @ precision @ slope + np.eye(M) / SPREAD**2
    with_shift = base + value - 0.5 * np.linalg.slogdet(H)[1] - M * np.log(SPREAD)
    return c, np.linalg.inv(H), float(with_shift), float(base - 0.5 * delta @ precision @ delta)
