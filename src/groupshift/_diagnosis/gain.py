"""What will it gain? On held-out labels, group by group, and by the model's own uncertainty in the population."""

import numpy as np
from scipy.special import expit, log_softmax, logit

from groupshift._diagnosis.fitted import Model, by_class
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.auc_gain import auc_gain, overall_prior
from groupshift._math.points import Points
from groupshift._math.sums import mean_by, sum_by
from groupshift._scores.contrasts import log_scores
from groupshift._shifts.sums import Sums

# Finer points than these change an AUC by less than 1e-4: two rows of one bin differ by under a twentieth in
# log-odds.
COARSE_BIN = 1 / 20
# Draws, fewer where so many numbers would be drawn in all that a diagnosis took minutes.
DRAWS, FEWEST_DRAWS, MOST_DRAWN = 100, 20, 50_000_000
# Points of several classes times classes that are looked at: beyond that a diagnosis would take minutes.
MAX_NUMBERS = 3_000_000


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


def expected_population_gain(model: Model) -> dict[str, float]:
    """What the group adds in the population, if scores are right: off the log loss, and to the AUC of two classes (Theorem 1).

    The intervals (90 %) take shifts as uncertain as the model says they are, with a shift of all groups alike that no row
    decides: true shifts are drawn around the estimated ones, and rows scored by the estimated ones are judged under each draw.

    Returns
    -------
    dict : keys of an overview, or nothing where there is no population
    """
    points, shift = model.estimate_.points, model.estimate_.shift
    if points is None or not shift.size:
        return {}
    if isinstance(points, Sums):
        if points.score.size > MAX_NUMBERS:
            return {}
        before = log_scores(points.score)
        found: dict[str, float] = {}
        after = before + shift.reshape(-1, shift.shape[-1])[points.cell]
        ranking = None
    else:
        points = coarser(points)
        # Two classes as several: log-odds are the second of two scores.
        before = np.column_stack([np.zeros_like(points.score), points.score])
        after = before + np.column_stack([np.zeros_like(points.score), shift.ravel()[points.cell]])
        agnostic, found = _theorem_one(model, points)
        if agnostic is None:
            return {}
        ranking = _Ranking(agnostic), _Ranking(after[:, 1])
    loss, drawn = _gains_under_doubt(model, points, before, after, ranking)
    limits = np.quantile(drawn, [0.05, 0.95], axis=0).T.tolist()
    if ranking is not None:
        (low, high), gain = limits[1], found["expected_auc_gain"]
        found |= {"expected_auc_gain_low": min(low, gain), "expected_auc_gain_high": max(high, gain)}
    low, high = limits[0]
    return found | {
        "expected_loss": loss,
        "expected_loss_gain": float(drawn[:, 0].mean()),
        "expected_loss_gain_low": low,
        "expected_loss_gain_high": high,
    }


def _theorem_one(model: Model, points: Points) -> tuple[FloatArray | None, dict[str, float]]:
    """Scores that know no group, and the AUC that knowing it adds to them; None where one class is not there."""
    group, cluster = np.divmod(points.cell, model.learned_.n_clusters)
    share = np.clip(model.estimate_.share, 1e-9, 1 - 1e-9)
    rows = {"group": group, "cluster": cluster, "group_prior": share, "sample_weight": points.weight}
    prior = overall_prior(**rows)
    labeled = np.clip(model.learned_.labeled_prior, 1e-9, 1 - 1e-9)
    agnostic = points.score + logit(prior[cluster]) - logit(labeled[cluster])
    estimated = points.score + model.estimate_.shift.ravel()[points.cell]
    for log_odds in (agnostic, estimated):
        if (
            len(log_odds) < 2
            or not min(points.weight @ expit(log_odds), points.weight @ expit(-log_odds)) > 0
        ):
            return None, {}
    auc = auc_gain(agnostic, prior=prior, **rows)
    return agnostic, {"expected_auc_without_group": auc.auc_agnostic, "expected_auc_gain": auc.gain}


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
    model: Model,
    points: Points | Sums,
    before: FloatArray,
    after: FloatArray,
    ranking: "tuple[_Ranking, _Ranking] | None",
) -> tuple[float, FloatArray]:
    """Log loss of the plain classifier, and gains in log loss and AUC over it, (n_draws, 2), if shifts were as drawn.

    What all groups have in common is drawn once for all of them: it does not average out. The log loss is that of as many
    rows as there are.
    """
    rng, estimate, weight = np.random.default_rng(0), model.estimate_, points.weight / points.weight.sum()
    log_plain, log_found = log_softmax(before, axis=1), log_softmax(after, axis=1)
    rise = log_found - log_plain  # the log loss falls by what the log-likelihood rises
    variance, shared = (by_class(v, 2) for v in (estimate.variance, estimate.shared_deviation))
    in_common = estimate.common_variance[None, :, None]
    parts = [
        np.sqrt(np.minimum(in_common, shared**2) + estimate.unidentified),
        np.sqrt(np.maximum(shared**2 - in_common, 0)),
        np.sqrt(np.maximum(variance - shared**2, 0)),
    ]
    n_groups, n_clusters, n_told = variance.shape
    shapes = (1, 1, n_told), (n_groups, 1, n_told), variance.shape
    if n_told > 1:
        # Noise of each class alone has, against the rest, the variance that is known of a class against the rest.
        p = np.clip(weight @ np.exp(log_found), 1e-9, 1 - 1e-9)
        rest = (p[None, :] / (1 - p)[:, None]) * (1 - np.eye(n_told))
        parts = [part / np.sqrt(1 + (rest**2).sum(1)) for part in parts]
    classifier = None if model.evidence_.held_out is None else model.evidence_.held_out.total
    n_draws = int(np.clip(MOST_DRAWN // after.size, FEWEST_DRAWS, DRAWS))
    gains, losses = np.zeros((n_draws, 2)), np.empty(n_draws)
    for i in range(n_draws):
        noise = sum(part * rng.standard_normal(shape) for part, shape in zip(parts, shapes, strict=True))
        noise = np.asarray(noise).reshape(n_groups * n_clusters, n_told)[points.cell]
        truth = after.copy()
        truth[:, -n_told:] += noise
        p = np.exp(log_softmax(truth, axis=1))
        mean = (p * rise).sum(1)
        losses[i] = -(weight @ (p * log_plain).sum(1))
        chance = weight @ ((p * rise**2).sum(1) - mean**2)
        gains[i, 0] = weight @ mean + rng.normal() * np.sqrt(max(chance, 0.0) / estimate.rows.sum())
        if classifier is not None:
            gains[i, 0] += rng.normal(classifier["classifier_gain"], classifier["classifier_gain_error"])
        if ranking is not None:
            positive, negative = weight * p[:, 1], weight * p[:, 0]
            gains[i, 1] = ranking[1].auc(positive, negative) - ranking[0].auc(positive, negative)
    return float(losses.mean()), gains


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
    """AUC, and how much each row moves it; NaN where the rows lack a class."""
    ranking = _Ranking(score)
    positive, negative = weight * (y == 1), weight * (y == 0)
    if not (positive.any() and negative.any()):
        return np.nan, np.full(len(y), np.nan)
    positive, negative = positive / positive.sum(), negative / negative.sum()
    won, lost = ranking.below(negative), 1 - ranking.below(positive)
    auc = float(positive @ won)
    return auc, positive * (won - auc) + negative * (lost - auc)
