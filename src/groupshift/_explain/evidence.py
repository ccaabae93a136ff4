"""What a fit keeps for its diagnosis: from the labelled rows and their held-out scores to `Evidence`."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import expit

from groupshift._article import EM_STEPS, cell_shares, finite_shifts, labeled_shares
from groupshift._explain.assumption import (
    Effects,
    Strata,
    combined_p_value,
    comparable,
    group_effects,
    score_distributions,
)
from groupshift._explain.cluster_profile import cluster_profiles
from groupshift._explain.evidence_parts import (
    Calibration,
    ClusterProfiles,
    Evidence,
    Examples,
    HeldOut,
    HiddenLabels,
    Independence,
    LabeledSample,
    Reliability,
    ScoreIndependence,
    Totals,
    TrustEvidence,
)
from groupshift._explain.expected_gain import grouped_auc_gain, observed_shift
from groupshift._fit.feature_importance import feature_importance
from groupshift._fit.learned import PredictionRates
from groupshift._fit.problem import Problem, Settings
from groupshift._fit.stages import Finished
from groupshift._fit.trials import LabeledRows, expected_prior, gain, labeled_prior, shifts_of_labeled
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.label_shift import bbse, em, mlls
from groupshift._math.odds import log_loss_rows
from groupshift._math.points import BIN_WIDTH, collect_points
from groupshift._math.sums import mean_by, ratio, sum_by
from groupshift._regions.partitions import Partition
from groupshift._rows.keys import content_keys, hash_keys, sampled
from groupshift._rows.rows import Rows
from groupshift._rows.workers import both_at_once
from groupshift.metrics import grouped_auc

# Values (rows x features) that the tests look at, a second's work. Beyond this rows are sampled: effect sizes
# need no more of them.
MAX_VALUES = 5_000_000
# Cells of the calibration tables of all groups together.
MAX_CALIBRATION_CELLS = 40_000
CALIBRATION_BINS = 10
# A number with so many values that so few other examples share one's own, on average, is like a name.
MANY_VALUES, NAME_SHARED_BY = 20, 0.1


def record_evidence(problem: Problem, finished: Finished) -> Evidence:
    """Everything that the diagnosis will want to know about the labelled rows of a finished fit."""
    trained, candidate = finished.judged.trained, finished.judged.candidate
    is_category, seed = problem.encoder.is_category, problem.seeds.named("evidence rows")
    importance = feature_importance(problem, trained, finished.settled.learned)

    def of_labeled() -> tuple[Independence, Examples]:
        examples = examples_of(problem.labeled, problem.y, 2, is_category)
        return _independence(problem, candidate.partition, seed), examples

    def of_scores() -> tuple[HeldOut | None, ClusterProfiles]:
        held_out = None if trained.fold is None else _held_out(problem, finished, trained.fold)
        return held_out, profiles_of(finished.pooled.rows, candidate.partition, is_category, seed)

    # Two halves that take about as long.
    (independence, examples), (held_out, profiles) = both_at_once(of_labeled, of_scores)
    return Evidence(
        groups=_labeled_sample(problem, problem.labeled.group, len(problem.labeled_groups)),
        labeled_clusters=_labeled_sample(problem, candidate.cluster, candidate.n_clusters),
        examples=examples,
        clusters=profiles,
        independence=independence,
        held_out=held_out,
        identifying=_by_feature(problem, finished.pooled.identifying),
        importance=_by_feature(problem, importance),
    )


def _by_feature(problem: Problem, found: Mapping[str, float]) -> FloatArray:
    """Numbers of features in the order of the columns; NaN where there is none. Names stay in one place, the encoder."""
    return np.array([found.get(name, np.nan) for name in problem.encoder.names_])


def _labeled_sample(problem: Problem, part: IntArray, n_parts: int) -> LabeledSample:
    """Labelled rows by group or cluster."""
    weight = problem.labeled.weight
    return LabeledSample(
        rows=np.bincount(part, minlength=n_parts),
        weight=sum_by(part, weight, n_parts),
        share=mean_by(part, problem.y, weight, n_parts),
    )


def examples_of(rows: Rows, y: IntArray, n_classes: int, is_category: BoolArray) -> Examples:
    """Examples of the class that has fewest, and copies that nobody marked."""
    examples = [len(np.unique(rows.key[y == c])) for c in range(n_classes)]
    fewest = int(np.argmin(examples))
    return Examples(examples[fewest], int((y == fewest).sum()), unmarked_copies(rows, y, is_category))


def unmarked_copies(rows: Rows, y: IntArray, is_category: BoolArray) -> float:
    """Part of the examples whose features, label and group repeat another example's; 0 if it may be chance."""
    content = content_keys(rows.matrix, hash_keys(rows.group, 0) ^ hash_keys(y, 1), seed=2)
    once = np.unique(content, return_index=True)[1]
    # Copies that share a key are one example.
    copies = 1 - len(once) / len(np.unique(hash_keys(content, 3) ^ hash_keys(rows.key, 4)))
    # Rows of a few categories repeat by chance. A number that hardly any two examples share rules that out.
    numbers = (rows.matrix[once, j] for j in np.flatnonzero(~is_category))
    return copies if copies > 0 and any(map(_is_like_a_name, numbers)) else 0.0


def _is_like_a_name(column: FloatArray) -> bool:
    count = np.unique(column, return_counts=True)[1]
    return len(count) >= MANY_VALUES and bool((count**2).sum() / len(column) - 1 < NAME_SHARED_BY)


def profiles_of(pooled: Rows, partition: Partition, is_category: BoolArray, seed: int) -> ClusterProfiles:
    """What sets clusters apart, by a part of the rows of both samples."""
    rows = pooled.take(few_rows(pooled, seed))
    matrix = rows.matrix.astype(float, copy=False)
    return cluster_profiles(matrix, rows.weight, partition.predict(rows), partition.n_clusters, is_category)


def _independence(problem: Problem, partition: Partition, seed: int) -> Independence:
    few = few_rows(problem.labeled, seed)
    rows, shape = problem.labeled.take(few), (partition.n_clusters, 2)
    strata = strata_of(rows, problem.y[few], partition.predict(rows), shape)
    found = feature_effects(rows, problem.encoder.is_category, strata, shape)
    p_value, groups = combined_p_value(found.p_value), strata.groups.reshape(shape)
    return Independence(found.effect, found.std_error, p_value, strata.rows.reshape(shape), groups)


def feature_effects(rows: Rows, is_category: BoolArray, strata: Strata, shape: tuple[int, int]) -> Effects:
    """Effect of the group on every feature: arrays (n_clusters, n_classes, n_features)."""
    parts = [
        group_effects(comparable(np.asarray(rows.matrix[:, j], float), is_one), strata)
        for j, is_one in enumerate(is_category)
    ]
    names = ("effect", "std_error", "p_value")
    return Effects(
        *(np.stack([getattr(part, name) for part in parts], -1).reshape(*shape, -1) for name in names)
    )


def _score_independence(strata: Strata, log_odds: FloatArray) -> ScoreIndependence:
    found = group_effects(comparable(log_odds, False), strata)
    return ScoreIndependence(
        found.effect.reshape(-1, 2), found.std_error.reshape(-1, 2), strata.rows.reshape(-1, 2)
    )


def strata_of(rows: Rows, y: IntArray, cluster: IntArray, shape: tuple[int, int]) -> Strata:
    """Rows by cluster and class; `shape` is (n_clusters, n_classes)."""
    n_groups = int(rows.group.max()) + 1
    return Strata(cluster * shape[1] + y, rows.group, rows.weight, rows.key, shape[0] * shape[1], n_groups)


def few_rows(rows: Rows, seed: int) -> IntArray:
    """Numbers of the rows that tests look at: all of them, or as many as keep to `MAX_VALUES`."""
    limit = max(MAX_VALUES // max(rows.matrix.shape[1], 1), 2_000)
    if len(rows) <= limit:
        return np.arange(len(rows))
    return np.flatnonzero(sampled(rows.key, limit / len(rows), seed))


def _held_out(problem: Problem, finished: Finished, fold: IntArray) -> HeldOut:
    trained, candidate, trial = finished.judged.trained, finished.judged.candidate, finished.judged.trial
    own, n_clusters = problem.labeled.take(trained.judged), candidate.n_clusters
    y, cluster = problem.y[trained.judged], candidate.cluster[trained.judged]
    number, group = np.unique(own.group, return_inverse=True)
    rows = LabeledRows(trained.score, y, own.weight, group, fold, trained.design_effect)
    # Global: the classifier before any learning from unlabelled rows, one calibration, no shift.
    everyone = np.zeros(len(y), np.int64)
    is_same = finished.trained.score is trained.score
    plain = (rows if is_same else replace(rows, score=finished.trained.score)).calibrated(everyone, 1)
    log_odds = rows.calibrated(cluster, n_clusters) if trial is None else trial.log_odds
    shift = _shift(problem.settings, finished, rows, log_odds, cluster)
    if finished.settled.by_groups is not None:
        # Most of the population lies in groups without labels: gains are those of groups that the classifier did not see.
        hidden, shift = finished.settled.by_groups
        plain, log_odds = hidden.plain, hidden.log_odds
    by_group, total = _compared(rows, number, plain, log_odds, shift)
    trust = None if trial is None else TrustEvidence(trial.trust.estimate, trial.trust.std_error)
    return HeldOut(
        scores=score_distributions(log_odds, y, rows.weight, cluster, n_clusters),
        score_independence=_score_independence(strata_of(own, y, cluster, (n_clusters, 2)), log_odds),
        by_group=by_group,
        total=total,
        calibration=Calibration(_reliability(rows, plain), _reliability(rows, log_odds + shift)),
        trust=trust,
    )


def _shift(
    settings: Settings, finished: Finished, rows: LabeledRows, log_odds: FloatArray, cluster: IntArray
) -> FloatArray:
    """The shift of each judged row as the model would make it if the row's group had no labels."""
    learned, trial = finished.settled.learned, finished.judged.trial
    n_clusters = finished.judged.candidate.n_clusters
    if rows.n_groups < 2 or settings.shares is None:
        return np.zeros(len(log_odds))
    if settings.shrinkage != "hierarchical":
        shift = _unpooled_shifts(settings, learned.prediction_rates, rows, log_odds, cluster, n_clusters)
    elif finished.settled.hidden_shift is not None:
        return finished.settled.hidden_shift
    else:
        shift = shifts_of_labeled(rows, log_odds, cluster, n_clusters).shift
    own = shift[rows.group, cluster]
    if trial is None or settings.trust != "learned":
        return learned.trust * own
    return trial.trust.without[rows.group] * own


def _unpooled_shifts(
    settings: Settings,
    rates: PredictionRates | None,
    rows: LabeledRows,
    log_odds: FloatArray,
    cluster: IntArray,
    n_clusters: int,
) -> FloatArray:
    """Shifts of the cells, each on its own, as the published method would estimate them."""
    cell, n_cells = rows.group * n_clusters + cluster, rows.n_groups * n_clusters
    points = collect_points(log_odds, cell, n_cells=n_cells, weight=rows.weight, bin_width=BIN_WIDTH)
    is_text = settings.shares == "em" and settings.shrinkage == "none"
    own = (
        (labeled_shares if is_text else labeled_prior)(rows.y, rows.weight, cluster, n_clusters)
        if settings.labeled_prior == "share"
        else expected_prior(log_odds, rows.weight, cluster, n_clusters)
    )
    prior = np.tile(own, rows.n_groups)
    if is_text:
        found = cell_shares(points, prior).share
    elif settings.shares == "em":
        found = em(points, labeled_prior=prior, n_iter=EM_STEPS)[0].share
    elif rates is None:
        found = mlls(points, labeled_prior=prior).share
    else:
        tpr, fpr = (np.tile(rate, rows.n_groups) for rate in rates)
        soft = settings.shares == "bbse-soft"
        found = bbse(points, true_positive_rate=tpr, false_positive_rate=fpr, soft=soft).share
    edge = 0.0 if is_text else 0.5 / (points.effective_rows + 1)
    share = np.where(np.isnan(found), prior, np.clip(found, edge, 1 - edge))
    return finite_shifts(share, prior).reshape(rows.n_groups, n_clusters)


def _compared(
    rows: LabeledRows, number: IntArray, plain: FloatArray, log_odds: FloatArray, shift: FloatArray
) -> tuple[HiddenLabels, Totals]:
    """The plain classifier beside the model on hidden labels: by group, and in all."""
    n, shifted = rows.n_groups, log_odds + shift
    before, after, unshifted = (log_loss_rows(values, rows.y) for values in (plain, shifted, log_odds))

    def mean(values: ValueArray) -> FloatArray:
        return mean_by(rows.group, values, rows.weight, n, empty=0.0)

    by_group = HiddenLabels(
        group=number,
        rows=np.bincount(rows.group, minlength=n),
        share=mean(rows.y),
        mean_score=mean(log_odds),
        loss_global=mean(before),
        loss_model=mean(after),
        auc_global=grouped_auc(rows.y, plain, rows.weight, rows.group, n),
        auc_model=grouped_auc(rows.y, shifted, rows.weight, rows.group, n),
        mean_global=mean(expit(plain)),
        mean_model=mean(expit(shifted)),
        estimated_shift=mean(shift),
        observed_shift=observed_shift(log_odds, rows.y, rows.weight, rows.group, n),
    )
    loss_gain, loss_error = gain(before, after, rows)
    classifier_gain, classifier_error = gain(before, unshifted, rows)
    auc_before, auc_after, auc_error = grouped_auc_gain(plain, shifted, rows.y, rows.weight, rows.group, n)
    return by_group, Totals(
        groups=n,
        rows=len(rows.y),
        loss_global=float(np.average(before, weights=rows.weight)),
        loss_model=float(np.average(after, weights=rows.weight)),
        loss_gain=loss_gain,
        loss_gain_error=loss_error,
        classifier_gain=classifier_gain,
        classifier_gain_error=classifier_error,
        auc_global=auc_before,
        auc_model=auc_after,
        auc_gain=auc_after - auc_before,
        auc_gain_error=auc_error,
    )


def _reliability(rows: LabeledRows, log_odds: FloatArray) -> Reliability:
    """Overall, and by group as finely as their number allows."""
    by_group_bins = int(np.clip(MAX_CALIBRATION_CELLS // rows.n_groups, 1, CALIBRATION_BINS))
    p = expit(log_odds)
    return Reliability(
        reliability_bins(p, rows.y, rows.weight, 2 * CALIBRATION_BINS)[0],
        reliability_bins(p, rows.y, rows.weight, by_group_bins, rows.group, rows.n_groups),
    )


def reliability_bins(
    p: FloatArray, y: IntArray, weight: FloatArray, n_bins: int, group: IntArray | int = 0, n_groups: int = 1
) -> FloatArray:
    """Weight, mean probability and share of positives in bins of probability: (n_groups, n_bins, 3)."""
    cut = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    cell = group * n_bins + np.searchsorted(cut, p, side="right")
    total, predicted, positive = (
        sum_by(cell, weight * value, n_groups * n_bins) for value in (np.ones(len(p)), p, y)
    )
    return np.stack([total, ratio(predicted, total), ratio(positive, total)], -1).reshape(n_groups, n_bins, 3)
