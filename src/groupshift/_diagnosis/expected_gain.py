"""What will it gain? On hidden labels, group by group, and by Theorem 1 for the population."""

import numpy as np
from scipy.special import expit, log_expit, logit

from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.auc_gain import auc_gain, overall_prior
from groupshift._math.points import Points
from groupshift._math.sums import mean_by, sum_by

# Finer points than these change an AUC by less than 1e-4: two rows of one bin differ by under a twentieth in
# log-odds.
COARSE_BIN = 1 / 20
DRAWS = 100


def grouped_auc_gain(
    before: FloatArray, after: FloatArray, y: IntArray, weight: FloatArray, group: IntArray, n_groups: int
) -> tuple[float, float, float]:
    """AUC of two scores on the same rows, and the standard error of their difference over groups (Obuchowski,
    1997).

    >>> y, group = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    >>> grouped_auc_gain(np.zeros(4), y.astype(float), y, np.ones(4), group, 2)[:2]
    (0.5, 1.0)
    """
    first, first_influence = _auc_influence(before, y, weight)
    second, second_influence = _auc_influence(after, y, weight)
    by_group = sum_by(group, second_influence - first_influence, n_groups)
    scale = n_groups / max(n_groups - 1, 1)
    return first, second, float(np.sqrt(scale * (by_group**2).sum()))


def observed_shift(
    log_odds: FloatArray, y: IntArray, weight: FloatArray, group: IntArray, n_groups: int
) -> FloatArray:
    """Shift of each group that its labels ask for, drawn towards none by half a row of each class."""
    shift = np.zeros(n_groups)
    for _ in range(30):
        p = expit(log_odds + shift[group])
        drawn = expit(shift)
        gradient = sum_by(group, weight * (y - p), n_groups) + 0.5 - drawn
        curvature = sum_by(group, weight * p * (1 - p), n_groups) + drawn * (1 - drawn)
        step = np.clip(gradient / curvature, -1, 1)
        shift += step
        if np.abs(step).max(initial=0) < 1e-6:
            break
    return shift


def expected_population_gain(model: FittedModel) -> dict[str, float]:
    """What the group adds in the population, if scores are right: to the AUC by Theorem 1, and off the log loss.

    The intervals (90 %) take shifts as uncertain as the model says they are: true shifts are drawn around the
    estimated ones, and rows scored by the estimated ones are judged under each draw.

    Returns
    -------
    dict : keys of an overview, or nothing where there is no population
    """
    if model.tally_ is None or not model.shift_.size:
        return {}
    points = coarser(model.tally_)
    n_clusters = model.n_clusters_
    group, cluster = np.divmod(points.cell, n_clusters)
    share = np.clip(model.group_prior_, 1e-9, 1 - 1e-9)
    rows = {"group": group, "cluster": cluster, "group_prior": share, "sample_weight": points.weight}
    prior = overall_prior(**rows)
    labeled = np.clip(model.labeled_prior_, 1e-9, 1 - 1e-9)
    agnostic = points.score + logit(prior[cluster]) - logit(labeled[cluster])
    estimated = points.score + model.shift_.ravel()[points.cell]
    if not all(_two_classes(log_odds, points.weight) for log_odds in (agnostic, estimated)):
        return {}
    drawn = _gains_under_doubt(model, points, agnostic, estimated)
    auc = auc_gain(agnostic, prior=prior, **rows)
    low, high = np.quantile(drawn[:, 0], [0.05, 0.95])
    overview = {
        "expected_auc_without_group": auc.auc_agnostic,
        "expected_auc_gain": auc.gain,
        "expected_auc_gain_low": float(min(low, auc.gain)),
        "expected_auc_gain_high": float(max(high, auc.gain)),
    }
    low, high = np.quantile(drawn[:, 1], [0.05, 0.95])
    return overview | {
        "expected_loss_gain": float(drawn[:, 1].mean()),
        "expected_loss_gain_low": float(low),
        "expected_loss_gain_high": float(high),
    }


def coarser(points: Points) -> Points:
    """The same points on a coarser grid, so that an answer takes seconds for any population."""
    at = np.rint(points.score / COARSE_BIN).astype(np.int64)
    at -= at.min(initial=0)
    span = int(at.max(initial=0)) + 1
    key, place = np.unique(points.cell * span + at, return_inverse=True)
    weight = sum_by(place, points.weight, len(key))
    mean = mean_by(place, points.score, points.weight, len(key))
    kept = weight > 0
    return Points(
        key[kept] // span, mean[kept], weight[kept], points.rows, points.weight_sum, points.weight_square_sum
    )


def _gains_under_doubt(
    model: FittedModel, points: Points, agnostic: FloatArray, estimated: FloatArray
) -> FloatArray:
    """Gains in AUC and in log loss, (DRAWS, 2), over the same scores without shifts, if shifts were as drawn.

    What all groups have in common is drawn once for all of them: it does not average out. The log loss is that of as many
    rows as there are.
    """
    rng = np.random.default_rng(0)
    common = np.sqrt(model.common_variance_)
    shared = np.sqrt(np.maximum(model.shared_deviation_**2 - common**2, 0))
    own = np.sqrt(np.maximum(model.shift_variance_ - model.shared_deviation_**2, 0))
    before, after = _Ranking(agnostic), _Ranking(estimated)
    # The log loss of p falls by what its log-likelihood rises.
    of_positive = log_expit(estimated) - log_expit(points.score)
    of_negative = log_expit(-estimated) - log_expit(-points.score)
    classifier = model.evidence_.held_out.total if model.evidence_.held_out is not None else None
    gains = np.empty((DRAWS, 2))
    for i in range(DRAWS):
        noise = common * rng.standard_normal() + shared * rng.standard_normal((len(shared), 1))
        noise = noise + own * rng.standard_normal(own.shape)
        truth = estimated + noise.ravel()[points.cell]
        positive, negative = points.weight * expit(truth), points.weight * expit(-truth)
        gains[i, 0] = after.auc(positive, negative) - before.auc(positive, negative)
        gains[i, 1] = (positive @ of_positive + negative @ of_negative) / points.weight.sum()
        chance = positive * expit(-truth) @ (of_positive - of_negative) ** 2 / points.weight.sum()
        gains[i, 1] += rng.normal() * np.sqrt(chance / model.rows_.sum())
        if classifier is not None:
            gains[i, 1] += rng.normal(classifier.classifier_gain, classifier.classifier_gain_error)
    return gains


class _Ranking:
    """An order of points, kept for many weightings of them."""

    def __init__(self, score: FloatArray):
        ranks, self.rank = np.unique(score, return_inverse=True)
        self.size = len(ranks)

    def below(self, mass: FloatArray) -> FloatArray:
        """Mass of the points that rank below each point, plus half the mass at its own rank."""
        by_rank = sum_by(self.rank, mass, self.size)
        below: FloatArray = (np.cumsum(by_rank) - by_rank / 2)[self.rank]
        return below

    def auc(self, positive: FloatArray, negative: FloatArray) -> float:
        pairs = positive.sum() * negative.sum()
        return float(positive @ self.below(negative) / pairs) if pairs > 0 else 0.5


def _auc_influence(score: FloatArray, y: IntArray, weight: FloatArray) -> tuple[float, FloatArray]:
    """AUC, and how much each row moves it."""
    ranking = _Ranking(score)
    positive, negative = weight * (y == 1), weight * (y == 0)
    positive, negative = positive / positive.sum(), negative / negative.sum()
    won, lost = ranking.below(negative), 1 - ranking.below(positive)
    auc = float(positive @ won)
    return auc, positive * (won - auc) + negative * (lost - auc)


def _two_classes(log_odds: FloatArray, weight: FloatArray) -> bool:
    positive, negative = weight @ expit(log_odds), weight @ expit(-log_odds)
    return len(log_odds) > 1 and bool(positive > 0) and bool(negative > 0)
