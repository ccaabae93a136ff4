r"""Whether all groups' labels were chosen by the label, and how much: what the means of all features say of it together.

If positives were likelier to be labelled than negatives, in all groups alike, the mean of every function f of the features
differs between the population and the labelled rows of cluster k by the same part of the distance between the classes:
``E_U f − E_L f = (α_k − α̃_k) (E_1 f − E_0 f)``. Labels chosen by x move the means in other directions too: by ``s C β`` if the
odds of a label are ``exp(s βᵀf)``, with C the covariance of f inside a class and β as likely to point one way as another. So
each direction of feature space is asked for the share; as far as they disagree, s is large, and a common shift is not to be
told from a choice by x. The strength s is integrated over, and two models are compared by their evidence: no choice by the
label, and one of a size to be found.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit, logit, logsumexp

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.context import group_sums
from groupshift._math.sums import sum_by
from groupshift._math.view_worlds import COMMON, log_half_t

# Directions of feature space in which rows differ most: more of them say little that these do not.
MAX_DIRECTIONS = 32
# A direction in which rows hardly differ has no mean worth the name.
LEAST_SPREAD = 1e-3
# Strengths of a choice by x, in log-odds of a label for a standard deviation of a feature, and the scale of their half-t prior:
# mostly a feature's standard deviation changes these odds by less than a factor of two.
STRENGTHS, USUAL_STRENGTH = 0.01 * 2.0 ** np.arange(0, 9.5, 0.5), 0.3
LOG_PRIOR = log_half_t(np.log(STRENGTHS / USUAL_STRENGTH))
LOG_PRIOR = LOG_PRIOR - logsumexp(LOG_PRIOR)
# How likely a choice by the label must be before the shift that it makes is used: no label can confirm it, and of ten such
# models one may be wrong.
BELIEVED = 0.9
# The least part of its largest variance that a covariance may have in another direction, to be computed with.
LEAST_PART = 1e-13
# The most that means can do to the share of either class: a twentieth of it is left.
LEAST_LEFT = 0.05


@dataclass(frozen=True)
class MeanSums:
    """Sums of rows by part and cluster, a part being some of the groups. Those of two chunks are added with ``+``."""

    total: FloatArray  # (n_parts, n_clusters, n_directions)
    weight: FloatArray  # (n_parts, n_clusters)
    square: FloatArray  # (n_clusters,): of squared weights

    @classmethod
    def of(
        cls, values: FloatArray, weight: FloatArray, part: IntArray, cluster: IntArray, shape: tuple[int, int]
    ) -> Self:
        n_parts, n_clusters = shape
        cell, n = part * n_clusters + cluster, n_parts * n_clusters
        return cls(
            group_sums(values, cell, weight, n).reshape(n_parts, n_clusters, values.shape[1]),
            sum_by(cell, weight, n).reshape(shape),
            sum_by(cluster, weight**2, n_clusters),
        )

    def __add__(self, other: Self) -> Self:
        sums = self.total + other.total, self.weight + other.weight, self.square + other.square
        return replace(self, total=sums[0], weight=sums[1], square=sums[2])

    @property
    def all_weight(self) -> FloatArray:
        total: FloatArray = np.maximum(self.weight.sum(0), 1e-300)
        return total

    @property
    def mean(self) -> FloatArray:
        """(n_clusters, n_directions)."""
        found: FloatArray = self.total.sum(0) / self.all_weight[:, None]
        return found

    @property
    def parts(self) -> FloatArray:
        """What each part adds to the means' distance from where they are, (n_parts, n_clusters, n_directions)."""
        return (self.total - self.weight[..., None] * self.mean) / self.all_weight[:, None]

    def rows(self, design_effect: float) -> FloatArray:
        """Independent rows of each cluster, (n_clusters,)."""
        return self.all_weight**2 / np.maximum(design_effect * self.square, 1e-300)


@dataclass(frozen=True)
class ByLabel:
    """What feature means say of a choice of labels by the label, all groups alike."""

    probability: float
    shift: FloatArray  # (n_clusters,): of the population against labelled rows, were it so
    variance: FloatArray  # (n_clusters,): of that shift

    @property
    def is_believed(self) -> bool:
        return self.probability >= BELIEVED


@dataclass(frozen=True)
class FeatureMeans:
    """What labelled rows say of the directions of feature space; rows are looked at as `project` shows them."""

    scale: float  # of scores: they count as one more feature
    center: FloatArray  # (n_features,)
    basis: FloatArray  # (n_features, n_directions): inside a class all directions have variance 1 and no correlation
    by_choice: (
        FloatArray  # (n_directions, n_directions): covariance of means that a choice by x of strength 1 makes
    )
    apart: FloatArray  # (n_clusters, n_directions): means of positives less those of negatives
    telling: BoolArray  # (n_clusters,): whether labels show both classes
    sums: MeanSums  # of labelled rows
    rows: FloatArray  # (n_clusters,): independent labelled rows
    seed: int  # of the sample of the population that is looked at

    @classmethod
    def of(
        cls,
        embedded: FloatArray,
        log_odds: FloatArray,
        y: IntArray,
        weight: FloatArray,
        part: IntArray,
        cluster: IntArray,
        *,
        telling: BoolArray,
        n_parts: int,
        design_effect: float = 1.0,
        seed: int = 0,
    ) -> Self:
        """From labelled rows, `embedded` in the standardised space of their features, and their scores."""
        n_clusters = len(telling)
        scale = float(max(log_odds.std(), 1e-12))
        features = np.column_stack([embedded, log_odds / scale])
        center = np.average(features, axis=0, weights=weight)
        moved = features - center
        kind = 2 * cluster + y
        of_kind = MeanSums.of(moved, weight, kind, np.zeros_like(kind), (2 * n_clusters, 1))
        means = (of_kind.total / np.maximum(of_kind.weight, 1e-300)[..., None])[:, 0]
        inside = moved - means[kind]
        covariance = (inside.T * weight) @ inside / weight.sum()
        basis = _basis(covariance)
        shape = (n_parts, n_clusters)
        sums = MeanSums.of(moved @ basis, weight, part, cluster, shape)
        half = covariance @ basis
        apart = (means[1::2] - means[::2]) @ basis
        return cls(scale, center, basis, half.T @ half, apart, telling, sums, sums.rows(design_effect), seed)

    def project(self, embedded: FloatArray, log_odds: FloatArray) -> FloatArray:
        return (np.column_stack([embedded, log_odds / self.scale]) - self.center) @ self.basis

    def compare(
        self, population: MeanSums, labeled_prior: FloatArray, *, design_effect: float, by_label: float
    ) -> ByLabel:
        """What the population's means say; `by_label` is the probability of a choice by the label before they are looked at."""
        n_clusters = len(labeled_prior)
        # What a group shows in both samples is no difference of theirs: groups are what such means are samples of.
        own = population.parts - self.sums.parts
        scale = _by_groups(int((np.abs(own).sum((1, 2)) > 0).sum()), len(self.by_choice))
        if not np.isfinite(scale):
            return ByLabel(by_label, np.zeros(n_clusters), np.full(n_clusters, COMMON**2))
        noise = 1 / np.maximum(self.rows, 1) + 1 / np.maximum(population.rows(design_effect), 1)
        moved = population.mean - self.sums.mean
        change, variance = np.zeros(n_clusters), np.zeros(n_clusters)
        odds = float(logit(by_label))
        has_directions = self.basis.shape[1] > 0
        telling = self.telling & (population.weight.sum(0) > 0) & has_directions
        for k in np.flatnonzero(telling):
            by_chance = scale * own[:, k].T @ own[:, k] + noise[k] * np.eye(len(self.by_choice))
            covariance = by_chance + STRENGTHS[:, None, None] ** 2 * self.by_choice
            # Rows that lie so far out that nothing else can be seen beside them.
            telling[k] = _can_be_weighed(covariance)
            if not telling[k]:
                continue
            spread = COMMON * labeled_prior[k] * (1 - labeled_prior[k])
            factor, change[k], variance[k] = _weigh(moved[k], self.apart[k], covariance, spread)
            odds += factor
        return _by_label(
            float(expit(odds)),
            change,
            variance,
            labeled_prior,
            population.weight.sum(0),
            np.flatnonzero(telling),
        )


def _by_groups(n_parts: int, n_directions: int) -> float:
    """The factor on squared differences of parts that makes their covariance one to divide by.

    The inverse of a covariance that was estimated from few parts is too large (Hartlap et al., 2007): where parts are hardly more
    than directions, some direction seems never to move by chance. Then it is infinite, and nothing is told.

    >>> _by_groups(1, 5), round(_by_groups(50, 5), 2), _by_groups(7, 5)
    (0.0, 1.16, inf)
    """
    if n_parts <= 1:
        return 0.0
    return n_parts / (n_parts - n_directions - 2) if n_parts > n_directions + 2 else np.inf


def _can_be_weighed(covariance: FloatArray) -> bool:
    if not np.isfinite(covariance).all():
        return False
    values = np.linalg.eigvalsh(covariance)
    return bool((values[:, 0] > LEAST_PART * values[:, -1]).all())


def _basis(covariance: FloatArray) -> FloatArray:
    """Directions of the largest spread, and that of the score, each of variance 1 and uncorrelated."""
    value, vector = np.linalg.eigh(covariance)
    score = np.zeros(len(value))
    score[-1] = 1.0
    chosen = np.column_stack([vector[:, ::-1][:, :MAX_DIRECTIONS], score])
    value, vector = np.linalg.eigh(chosen.T @ covariance @ chosen)
    kept = value > LEAST_SPREAD * value.max(initial=0.0)
    basis: FloatArray = chosen @ vector[:, kept] / np.sqrt(value[kept])
    return basis


def _weigh(
    moved: FloatArray, apart: FloatArray, covariance: FloatArray, spread: float
) -> tuple[float, float, float]:
    """Log Bayes factor of a change of share of the given spread against none, and the change's mean and variance.

    `covariance` has an entry for each strength of a choice by x.
    """
    lower = np.linalg.cholesky(covariance)
    pair = np.linalg.solve(
        lower, np.broadcast_to(np.column_stack([moved, apart]), (len(lower), len(moved), 2))
    )
    x, u = pair[..., 0], pair[..., 1]
    plain = LOG_PRIOR - (x**2).sum(1) / 2 - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
    precision = (u**2).sum(1) + spread**-2
    mean = (u * x).sum(1) / precision
    changed = plain + (mean**2 * precision - np.log(precision * spread**2)) / 2
    weight = np.exp(changed - logsumexp(changed))
    center = float(weight @ mean)
    return (
        float(logsumexp(changed) - logsumexp(plain)),
        center,
        float(weight @ (1 / precision + mean**2)) - center**2,
    )


def _by_label(
    probability: float,
    change: FloatArray,
    variance: FloatArray,
    prior: FloatArray,
    weight: FloatArray,
    telling: IntArray,
) -> ByLabel:
    """Changes of shares as shifts; a cluster that tells nothing follows the others."""
    if not len(telling):
        return ByLabel(0.0, np.zeros_like(prior), np.full_like(prior, COMMON**2))
    share = np.clip(prior + probability * change, LEAST_LEFT * prior, 1 - LEAST_LEFT * (1 - prior))
    shift = logit(share) - logit(prior)
    doubt = probability * variance + probability * (1 - probability) * change**2
    spread = np.minimum(doubt / (share * (1 - share)) ** 2, COMMON**2)
    silent = np.ones(len(prior), bool)
    silent[telling] = False
    importance = weight[telling] + 1e-300
    shift[silent] = np.average(shift[telling], weights=importance)
    spread[silent] = COMMON**2
    return ByLabel(probability, shift, spread)
