r"""The shift that all groups have in common, by what population rows and labelled rows have as their mean features.

Scores do not identify it: labels chosen by the features look the same to them. Feature means do, in part. With
directions of feature space in which rows of one class have variance 1, the means of both samples of a group differ by

    Δ = Σ_y (α_y(c) − π_y) μ_y  +  s Σ^½ β  +  noise

where π are the shares of the labelled rows, α(c) those of the population under a common shift c, μ_y the means of the
classes, and the second term a choice of labels by the features, of strength s in any direction (β standard normal). Means
are compared inside groups, so that it does not matter of which groups there are more labels. Where no group has rows of
both samples, nobody chose rows inside a group, and there is no common shift.

Three things may be true. Labels were chosen by the label, in all groups alike: c is normal with standard deviation 1 and s
next to none. Rows of one class were chosen by their features: that moves means along μ_1 − μ_0, as a shift would, and s is
not small.
Or labels were chosen by the features of all rows, or not at all: c = 0. The posterior mean of c is used, and no threshold.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logsumexp, softmax

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.sums import in_steps, ratio
from groupshift._scores.contrasts import basis, contrasts
from groupshift._scores.members import FARTHEST
from groupshift._shifts.sums import FINEST

# Probabilities of the three, before anything is seen, and the standard deviation of the shift in the first case.
PRIOR, SPREAD = (0.1, 0.2, 0.7), 1.0
# Strengths of a choice by the features, in units of a feature's standard deviation; the scale of their half-t (3) where
# labels were chosen by the features, and of their half-normal where they were chosen by the label.
STRENGTHS, BY_FEATURES, BY_LABEL = 0.01 * 2.0 ** np.arange(-2, 9.5, 0.5), 0.3, 0.01
# Directions of feature space that are looked at: those of largest variance, and none of little beside the largest. Scores that
# are nearly linear in the features would have one, in which the chance of folds alone would look like a shift.
MOST_DIRECTIONS, LEAST_VARIANCE = 32, 0.05
# Labelled rows that pull the shares of a group towards those of all.
SHARE_PULL = 10.0
MOST_STEPS = 30
# Variance of a shift of all groups alike that no row decides: positives twice or half as likely to be labelled lie at the
# ends of its 90 % interval.
UNIDENTIFIED = 0.42**2


@dataclass(frozen=True)
class MeanSums:
    """Weighted sums of rows in the directions, by group. Sums of two chunks are added with ``+``."""

    values: FloatArray  # (n_groups, n_directions)
    weight: FloatArray  # (n_groups,)
    weight_square: FloatArray  # (n_groups,)

    def __add__(self, other: Self) -> "MeanSums":
        return MeanSums(
            self.values + other.values, self.weight + other.weight, self.weight_square + other.weight_square
        )

    @property
    def rows(self) -> FloatArray:
        """Kish's effective number of rows of each group."""
        return ratio(self.weight**2, self.weight_square, empty=0.0)

    def means(self) -> FloatArray:
        return self.values / np.maximum(self.weight, 1e-300)[:, None]

    def take(self, groups: BoolArray) -> "MeanSums":
        return MeanSums(self.values[groups], self.weight[groups], self.weight_square[groups])

    def placed(self, at: IntArray, n_groups: int) -> "MeanSums":
        """The same sums among those of more groups."""
        parts = (self.values, self.weight, self.weight_square)
        found = [np.zeros((n_groups, *part.shape[1:])) for part in parts]
        for target, part in zip(found, parts, strict=True):
            target[at] = part
        return MeanSums(*found)


@dataclass(frozen=True)
class Directions:
    """What labelled rows say of the directions of feature space."""

    center: FloatArray  # (n_features,)
    scale: FloatArray
    axes: FloatArray  # (n_features, n_directions): of standardized features
    choice: FloatArray  # (n_directions, n_directions): covariance that a choice by the features adds, at strength 1
    labeled: MeanSums
    classes: FloatArray  # (n_groups, C): weight of the rows of each class
    by_class: FloatArray  # (n_groups, C, n_directions): their sums

    @classmethod
    def of(
        cls,
        features: FloatArray,
        y: IntArray,
        group: IntArray,
        weight: FloatArray,
        n_groups: int,
        n_classes: int,
    ) -> Self | None:
        """Of labelled rows: features (n_rows, n_features), scores last; None where rows of one class are all alike."""
        center = np.average(features, axis=0, weights=weight)
        scale = np.sqrt(np.average((features - center) ** 2, axis=0, weights=weight)) + 1e-9
        # One scale for all contrasts of the scores: these turn where classes are renamed, and their lengths stay.
        scale[1 - n_classes :] = np.sqrt((scale[1 - n_classes :] ** 2).mean())
        standard = (features - center) / scale
        means = np.stack(
            [np.average(standard[y == c], axis=0, weights=weight[y == c]) for c in range(n_classes)]
        )
        inside = standard - means[y]
        covariance = (weight[:, None] * inside).T @ inside / weight.sum()
        variance, vectors = np.linalg.eigh(covariance)
        kept = np.flatnonzero(variance > LEAST_VARIANCE * variance.max())[-MOST_DIRECTIONS:]
        if not len(kept):
            return None
        axes = vectors[:, kept] / np.sqrt(variance[kept])
        root = covariance @ axes
        none = MeanSums(np.zeros((0, len(kept))), np.zeros(0), np.zeros(0))
        found = cls(center, scale, axes, root.T @ root, none, np.zeros((0, 0)), np.zeros((0, 0, 0)))
        by_class = [
            found.sums(features[y == c], group[y == c], weight[y == c], n_groups) for c in range(n_classes)
        ]
        return replace(
            found,
            labeled=found.sums(features, group, weight, n_groups),
            classes=np.stack([part.weight for part in by_class], 1),
            by_class=np.stack([part.values for part in by_class], 1),
        )

    def sums(
        self, features: FloatArray, group: IntArray, weight: FloatArray, n_groups: int, *, step: float = 0.0
    ) -> MeanSums:
        """Sums of rows of any sample, in multiples of `step`, see `Bins`."""
        projected = np.clip((features - self.center) / self.scale, -FARTHEST, FARTHEST) @ self.axes
        values = [np.bincount(group, in_steps(weight * column, step), n_groups) for column in projected.T]
        weights = in_steps(weight, step), in_steps(weight**2, step**2 / FINEST)
        total, square = (np.bincount(group, w, n_groups).astype(float) for w in weights)
        return MeanSums(np.column_stack(values), total, square)

    def class_means(self) -> FloatArray:
        """Means of the classes inside groups, (C, n_directions), up to what they have in common."""
        total = np.maximum(self.classes.sum(1), 1e-300)
        part = self.classes / total[:, None]
        own = np.diag(self.classes.sum(0)) - self.classes.T @ part
        mean = self.by_class.sum(1) / total[:, None]
        seen = (self.by_class - self.classes[:, :, None] * mean[:, None, :]).sum(0)
        # One class has nothing to be compared with: the pull of a hundredth of a row.
        found: FloatArray = np.linalg.solve(own + 0.01 * np.eye(len(own)), seen)
        return found

    def shares(self) -> FloatArray:
        """Shares of the classes among the labelled rows of each group, (n_groups, C), pulled towards those of all."""
        overall = self.classes.sum(0) / self.classes.sum()
        pulled = self.classes + SHARE_PULL * overall
        shares: FloatArray = pulled / pulled.sum(1, keepdims=True)
        return shares


@dataclass(frozen=True)
class CommonShift:
    """Posterior of the common shift."""

    mean: FloatArray  # (M,)
    covariance: FloatArray  # (M, M); in an estimate, with the error of the level of the labelled rows
    probability: float  # that there is one


def no_common_shift(n_contrasts: int) -> CommonShift:
    return CommonShift(np.zeros(n_contrasts), np.zeros((n_contrasts, n_contrasts)), 0.0)


@dataclass(frozen=True)
class _Compared:
    """Means of both samples, their difference inside groups averaged."""

    delta: FloatArray  # (k,)
    noise: FloatArray  # (k, k)
    means: FloatArray  # (C, k)
    base: FloatArray  # (n_compared, M): labelled shares of the groups, as contrasts
    weight: FloatArray  # (n_compared,)
    choice: FloatArray
    rows: FloatArray  # (C,): labelled rows of each class


def learn_common_shift(
    directions: Directions, population: MeanSums, same: IntArray, *, is_certain: bool = False
) -> CommonShift:
    """By the sums of the population's rows; `same` numbers the population's groups as those of labelled rows, −1 where new.

    `is_certain`: the user says that labels were chosen by the label.
    """
    compared = _compare(directions, population, same)
    if compared is None:
        return no_common_shift(directions.shares().shape[1] - 1)
    found = [_given_strength(compared, s) for s in STRENGTHS]
    shifted, unshifted = np.array([f[2] for f in found]), np.array([f[3] for f in found])
    # Log priors of strengths that are equally far apart in their logarithms: half-t with 3 degrees of freedom, half-normal.
    loose = np.log(STRENGTHS / BY_FEATURES) - 2 * np.log1p((STRENGTHS / BY_FEATURES) ** 2 / 3)
    tight = np.log(STRENGTHS / BY_LABEL) - (STRENGTHS / BY_LABEL) ** 2 / 2
    loose, tight = loose - logsumexp(loose), tight - logsumexp(tight)
    by_label, by_class = np.log(PRIOR[0]) + tight + shifted, np.log(PRIOR[1]) + loose + shifted
    if is_certain:
        by_label, rest = np.logaddexp(by_label, by_class), -np.inf
    else:
        rest = np.logaddexp(logsumexp(by_class), logsumexp(np.log(PRIOR[2]) + loose + unshifted))
    weight = np.exp(by_label - np.logaddexp(logsumexp(by_label), rest))
    centers, spreads = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    mean = weight @ centers
    second = np.einsum("s,smk->mk", weight, spreads + centers[:, :, None] * centers[:, None, :])
    return CommonShift(mean, second - np.outer(mean, mean), float(weight.sum()))


def _compare(directions: Directions, population: MeanSums, same: IntArray) -> _Compared | None:
    """Both samples inside the groups that have rows of both; None where there is no such group."""
    labeled, kept = directions.labeled, same >= 0
    both = population.take(kept).placed(same[kept], len(labeled.weight))
    is_both = (both.weight > 0) & (labeled.weight > 0)
    if not is_both.any():
        return None
    rows = 1 / (1 / labeled.rows[is_both] + 1 / both.rows[is_both])
    weight = rows / rows.sum()
    apart = (both.means() - labeled.means())[is_both]
    delta = weight @ apart
    away = weight[:, None] * (apart - delta)
    least, n, k = (weight**2 / rows).sum(), max(len(weight), 2), len(delta)
    noise = away.T @ away * n / (n - 1)
    # So few groups do not tell so many directions: towards independent ones, none with less than the noise of its rows.
    part = k / (k + n)
    noise = (1 - part) * noise + part * np.diag(np.diag(noise))
    noise += np.diag(np.maximum(least - np.diag(noise), LEAST_VARIANCE * least))
    base = contrasts(np.log(directions.shares()[is_both]))
    of_classes = directions.classes.sum(0) * labeled.rows.sum() / labeled.weight.sum()
    return _Compared(delta, noise, directions.class_means(), base, weight, directions.choice, of_classes)


def _given_strength(compared: _Compared, strength: float) -> tuple[FloatArray, FloatArray, float, float]:
    """Mode of the shift, its covariance, and log evidence with a shift (Laplace) and without, for one strength."""
    delta, means, base, weight = compared.delta, compared.means, compared.base, compared.weight
    M = base.shape[1]
    B = basis(M)
    plain = compared.noise + strength**2 * compared.choice

    def moved(c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Shares of the population less those of labelled rows, averaged, (C,), and their slopes (C, M)."""
        before, after = (softmax(z @ B.T, axis=1) for z in (base, base + c))
        slope = np.einsum("g,gc,cm->cm", weight, after, B) - np.einsum(
            "g,gc,gm->cm", weight, after, after @ B
        )
        return weight @ (after - before), slope

    def fit(covariance: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        precision = np.linalg.inv(covariance)

        def at(c: FloatArray) -> tuple[FloatArray, FloatArray, float]:
            step, slope = moved(c)
            residual = delta - step @ means
            value = -0.5 * residual @ precision @ residual - 0.5 * c @ c / SPREAD**2
            return residual, means.T @ slope, float(value)

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
        evidence = (
            value
            - 0.5 * np.linalg.slogdet(covariance)[1]
            - 0.5 * np.linalg.slogdet(H)[1]
            - M * np.log(SPREAD)
        )
        return c, np.asarray(np.linalg.inv(H), float), float(evidence)

    c = fit(plain, np.zeros(M))[0]
    # The means of the classes are estimates: their errors count as far as shares move.
    error = (moved(c)[0] ** 2 / np.maximum(compared.rows, 1)).sum()
    c, covariance, evidence = fit(plain + error * np.eye(len(plain)), c)
    nothing = -0.5 * np.linalg.slogdet(plain)[1] - 0.5 * delta @ np.linalg.solve(plain, delta)
    return c, covariance, evidence, float(nothing)
