"""Four kinds of evidence on the shift of a cell, as Gaussian approximations of their likelihoods.

- labels: the labels of its labelled rows, given their scores;
- labeled scores: the scores of the same rows without their labels, as a mixture of the classes;
- population scores: the scores of its population rows, as the same mixture;
- comparison: the scores of its population rows against those of its own labelled rows, by which a misfit of the mixture
  that both have cancels.

Each likelihood is approximated where the model expects the shift to be (a working response, as in generalized linear
mixed models), and not at its own maximum: there, large shifts would look uncertain and small ones sure, and all of
them would be shrunk too far.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import ratio, sum_by
from groupshift._scores.contrasts import contrasts, expected, information, observed, probabilities
from groupshift._shifts.sums import Bins, Sums

LABELS, LABELED_SCORES, POPULATION_SCORES, COMPARISON = range(4)
N_KINDS = 4
# Information that stands for none: a variance of a million.
NONE = 1e-6
# Farthest that one approximation moves a shift.
LONGEST_STEP = 2.0
# Probabilities of a cell's labelled rows are at least this, and pulled towards each other by two hundredths of a row.
LEAST, PULL = 1e-3, 0.02
# Evidence of more variance is left out. What groups have in common is their mean, as if shifts had the second variance.
TOO_NOISY, BETWEEN = 20.0, 0.25


@dataclass(frozen=True)
class LabeledSums:
    """Labelled rows of many cells: their scores, and their labels added up."""

    scores: Sums
    labels: FloatArray  # (n_cells, M): Σ weight · observed(y)

    @classmethod
    def of(
        cls, score: FloatArray, y: IntArray, cell: IntArray, weight: FloatArray, n_cells: int, bins: Bins
    ) -> Self:
        label = weight[:, None] * observed(y, score.shape[1])
        labels = np.column_stack([sum_by(cell, column, n_cells) for column in label.T])
        return cls(Sums.of(score, cell, weight, n_cells, bins), labels)

    def placed(self, group: IntArray, n_clusters: int, n_groups: int) -> "LabeledSums":
        """The same cells among those of more groups, see `Sums.placed`."""
        labels = np.zeros((n_groups * n_clusters, self.labels.shape[1]))
        labels[(group[:, None] * n_clusters + np.arange(n_clusters)).ravel()] = self.labels
        return LabeledSums(self.scores.placed(group, n_clusters, n_groups), labels)

    @property
    def labels_worth(self) -> FloatArray:
        return self.labels * ratio(self.scores.weight_sum, self.scores.weight_square_sum, empty=0.0)[:, None]


@dataclass(frozen=True)
class Evidence:
    """Working responses of all cells and their noise."""

    response: FloatArray  # (n_groups, 4, K, M)
    noise: FloatArray  # (n_groups, 4 K M, 4 K M)
    common: FloatArray  # (4, M): what was taken out of the responses, since scores do not identify it


def labeled_prior(labeled: LabeledSums, n_clusters: int) -> FloatArray:
    """Mean probabilities of the labelled rows of each cluster, as contrasts (K, M); of all rows where it has none."""
    sums = labeled.scores
    p = probabilities(sums.score)
    by_cell = sums.by_cell(sums.weight[:, None] * p).reshape(-1, n_clusters, p.shape[1]).sum(0)
    weight = sums.weight_sum.reshape(-1, n_clusters).sum(0)
    overall = by_cell.sum(0) / by_cell.sum()
    mean = np.where(weight[:, None] > 0, by_cell / np.maximum(weight, 1e-300)[:, None], overall)
    return contrasts(np.log(np.clip(mean, 2 * LEAST, None)))


def level_error(labeled: LabeledSums, effect: float) -> FloatArray:
    """Covariance (M, M) of a shift of all scores alike, by the labels that they were calibrated on."""
    sums = labeled.scores
    known = np.einsum("n,nmk->mk", sums.worth, information(sums.score))
    return effect * np.linalg.inv(known + NONE * np.eye(len(known)))


def gather(
    labeled: LabeledSums,
    population: Sums | None,
    prior: FloatArray,
    at: FloatArray,
    *,
    labeled_effect: float,
    population_effect: float,
) -> Evidence:
    """All evidence, each kind approximated at its shifts `at`, of shape (4, n_groups, K, M).

    `prior` holds the contrasts of the mean probabilities of labelled rows, by cluster or by group and cluster.
    `labeled_effect` and `population_effect` say how many rows count as one (design effects of copies).
    """
    _, n_groups, K, M = at.shape
    n_cells = n_groups * K
    flat = at.reshape(N_KINDS, n_cells, M)
    prior = np.broadcast_to(prior, (n_groups, K, M)).reshape(n_cells, M)
    response, noise = np.zeros((N_KINDS, n_cells, M)), np.zeros((N_KINDS, n_cells, M, M))
    response[LABELS], noise[LABELS] = _of_labels(labeled, flat[LABELS])
    response[LABELED_SCORES], noise[LABELED_SCORES] = _of_scores(labeled.scores, prior, flat[LABELED_SCORES])
    noise[:POPULATION_SCORES] *= labeled_effect
    by_population = by_labeled = np.broadcast_to(np.eye(M) / NONE, noise.shape[1:])
    if population is not None:
        response[POPULATION_SCORES], noise[POPULATION_SCORES] = _of_scores(
            population, prior, flat[POPULATION_SCORES]
        )
        noise[POPULATION_SCORES] *= population_effect
        own, level_noise = _own_level(labeled, flat[LABELS])
        response[COMPARISON], by_population = _of_scores(population, own, flat[COMPARISON], flat[LABELS])
        by_population, by_labeled = population_effect * by_population, labeled_effect * level_noise
    else:
        noise[POPULATION_SCORES] = by_population
    noise[COMPARISON] = by_population + by_labeled
    none = noise.trace(axis1=2, axis2=3) > TOO_NOISY * M
    noise[none] = np.eye(M) / NONE
    common = np.zeros((N_KINDS, M))
    for kind in (POPULATION_SCORES, COMPARISON):
        # What all groups have in common is not told by scores.
        weight = np.where(none[kind], 0.0, 1 / (noise[kind].trace(axis1=1, axis2=2) / M + BETWEEN))
        common[kind] = weight @ response[kind] / max(weight.sum(), 1e-300)
        response[kind] -= common[kind]
    response[none] = 0
    joint = np.zeros((n_groups, N_KINDS, K, M, N_KINDS, K, M))
    k = np.arange(K)
    for kind in range(N_KINDS):
        joint[:, kind, k, :, kind, k, :] = noise[kind].reshape(n_groups, K, M, M).swapaxes(0, 1)
    # The comparison sees the population's noise as population scores do, and the labelled rows' with the other sign.
    for kind, part, sign in ((POPULATION_SCORES, by_population, 1), (LABELED_SCORES, by_labeled, -1)):
        shared = sign * _smaller(noise[kind], part)
        shared[none[kind] | none[COMPARISON]] = 0
        shared = shared.reshape(n_groups, K, M, M).swapaxes(0, 1)
        joint[:, kind, k, :, COMPARISON, k, :] = shared
        joint[:, COMPARISON, k, :, kind, k, :] = shared
    size = N_KINDS * K * M
    ordered = response.reshape(N_KINDS, n_groups, K, M).swapaxes(0, 1)
    return Evidence(ordered, joint.reshape(n_groups, size, size), common)


def _of_labels(labeled: LabeledSums, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    sums = labeled.scores
    z, worth = sums.score + at[sums.cell], sums.worth
    gradient = labeled.labels_worth - sums.by_cell(worth[:, None] * expected(z))
    return _approximated(gradient, sums.by_cell(worth[:, None, None] * information(z)), at)


def _of_scores(
    sums: Sums, prior: FloatArray, at: FloatArray, moved: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Likelihood of a mixture whose shares lie `at` beside `prior`; scores are moved by `moved` first, where it is given."""
    z = sums.score if moved is None else sums.score + moved[sums.cell]
    away = expected(z + at[sums.cell]) - expected(prior + at)[sums.cell]
    weighted = sums.worth[:, None] * away
    return _approximated(sums.by_cell(weighted), sums.by_cell(weighted[:, :, None] * away[:, None, :]), at)


def _approximated(
    gradient: FloatArray, curvature: FloatArray, at: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Working response and noise of a log-likelihood with this gradient and curvature at `at`."""
    noise = np.asarray(np.linalg.inv(curvature + NONE * np.eye(at.shape[1])), float)
    step = np.einsum("cmk,ck->cm", noise, gradient)
    return at + held_within(step, LONGEST_STEP), noise


def held_within(steps: FloatArray, longest: float) -> FloatArray:
    """Contrasts (…, M), none longer than `longest`: each coordinate by itself would depend on the order of the classes."""
    length = np.sqrt((steps**2).sum(-1, keepdims=True))
    result: FloatArray = steps * np.minimum(1, longest / np.maximum(length, 1e-300))
    return result


def _own_level(labeled: LabeledSums, own: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares that the scores of a cell's own labelled rows add up to, as contrasts, and their sampling noise."""
    sums = labeled.scores
    worth, p = sums.worth, probabilities(sums.score + own[sums.cell])
    n = sums.by_cell(worth)
    mean = sums.by_cell(worth[:, None] * p) / np.maximum(n, 1)[:, None]
    level = contrasts(np.log(np.clip(mean, LEAST, None)))
    t = expected(sums.score + own[sums.cell])
    away = t - (sums.by_cell(worth[:, None] * t) / np.maximum(n, 1)[:, None])[sums.cell]
    M = own.shape[1]
    spread = sums.by_cell(worth[:, None, None] * away[:, :, None] * away[:, None, :]) + PULL * np.eye(M)
    noise = np.asarray(np.linalg.inv(spread * (np.maximum(n, 1) / (n + 1))[:, None, None]), float)
    noise[sums.rows < 2] = np.eye(M) / NONE
    return level, noise


def _smaller(first: FloatArray, second: FloatArray) -> FloatArray:
    """The part that two covariances of each cell share at most: in the axes in which both are diagonal, the smaller variance."""
    root = np.linalg.cholesky(first)
    half = np.linalg.solve(root, second)
    variances, axes = np.linalg.eigh(np.linalg.solve(root, half.swapaxes(1, 2)))
    root = root @ axes
    result: FloatArray = root * np.minimum(variances, 1)[:, None, :] @ root.swapaxes(1, 2)
    return result
