"""What a fit keeps for its diagnosis: from the labelled rows and their held-out scores to `Evidence`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit

from groupshift._data.keys import content_keys, hash_keys, sampled
from groupshift._data.problem import Problem
from groupshift._data.rows import Rows
from groupshift._diagnosis.assumption import (
    Effects,
    Strata,
    combined_p_value,
    comparable,
    group_effects,
    score_distributions,
)
from groupshift._diagnosis.cluster_profile import cluster_profiles
from groupshift._diagnosis.evidence_parts import (
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
)
from groupshift._diagnosis.expected_gain import grouped_auc_gain, observed_shift
from groupshift._diagnosis.identifying import identifying_features
from groupshift._diagnosis.importance import feature_importance
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.odds import log_loss_rows
from groupshift._math.sums import mean_by, ratio, sum_by
from groupshift._partitions.partitions import Partition
from groupshift._shifts.effects import predict_labels_from_scores
from groupshift._shifts.estimate import each_alone
from groupshift._shifts.evidence import gather
from groupshift.metrics import grouped_auc
from groupshift.pipeline import Fit

# Values (rows x features) that the tests look at, a second's work. Beyond this rows are sampled: effect sizes
# need no more of them.
MAX_VALUES = 5_000_000
# Cells of the calibration tables of all groups together.
MAX_CALIBRATION_CELLS = 40_000
CALIBRATION_BINS = 10
# A number with so many values that so few other examples share one's own, on average, is like a name.
MANY_VALUES, NAME_SHARED_BY = 20, 0.1


@dataclass(frozen=True)
class Judged:
    """Labelled rows with scores that no label of their own had a part in; weights count independent examples."""

    y: IntArray
    weight: FloatArray
    group: IntArray
    n_groups: int
    plain: FloatArray  # (n_rows, M): scores before partition and shifts
    score: FloatArray  # (n_rows, M)
    shift: FloatArray  # (n_rows, M): of the row's group and cluster, by the scores of its rows alone

    @classmethod
    def of(cls, problem: Problem, fit: Fit) -> "Judged":
        rows, held, learned = fit.judged.rows, fit.judged, fit.learned
        effect = rows.weight.sum() / (rows.weight**2).sum() / learned.labeled_effect
        n_groups = len(problem.labeled_groups)
        shift = np.zeros_like(held.score)
        if n_groups > 1 and learned.shares is not None and learned.shrinkage != "hierarchical":
            shift = each_alone(learned, learned.labeled.scores, n_groups).mean[rows.group, held.cluster]
        elif n_groups > 1 and learned.shares is not None:
            shape = n_groups, learned.n_clusters, learned.n_contrasts
            evidence = partial(
                gather,
                learned.labeled,
                None,
                learned.prior,
                labeled_effect=learned.labeled_effect,
                population_effect=1.0,
            )
            shift = predict_labels_from_scores(evidence, shape)[0][rows.group, held.cluster]
        return cls(held.y, effect * rows.weight, rows.group, n_groups, held.plain, held.score, shift)


def gain(before: FloatArray, after: FloatArray, judged: Judged) -> tuple[float, float]:
    """Mean fall of a loss, and its standard error over groups."""
    difference, total = judged.weight * (before - after), judged.weight.sum()
    mean = difference.sum() / total
    by_group = sum_by(judged.group, difference - judged.weight * mean, judged.n_groups)
    n = max(judged.n_groups, 2)
    return float(mean), float(np.sqrt(n / (n - 1) * (by_group**2).sum()) / total)


def record_evidence(problem: Problem, fit: Fit) -> Evidence:
    """Everything that the diagnosis will want to know about the labelled rows of a finished fit."""
    is_category, seed = problem.encoder.is_category, problem.seeds.named("evidence rows")
    cluster = fit.partition.predict(problem.labeled)
    return Evidence(
        groups=_labeled_sample(problem, problem.labeled.group, len(problem.labeled_groups)),
        labeled_clusters=_labeled_sample(problem, cluster, fit.partition.n_clusters),
        examples=examples_of(problem.labeled, problem.y, 2, is_category),
        clusters=profiles_of(fit.pooled.rows, fit.partition, is_category, seed),
        independence=_independence(problem, fit.partition, seed),
        held_out=None if fit.judged.fold is None else _held_out(problem, fit),
        identifying=_by_feature(problem, _identifying(problem) if problem.has_groups else {}),
        importance=_by_feature(problem, feature_importance(problem, fit)),
    )


def _identifying(problem: Problem) -> dict[str, float]:
    rows, encoder = problem.labeled, problem.encoder
    return identifying_features(
        rows.matrix,
        rows.group,
        rows.key,
        names=encoder.names_,
        is_category=encoder.is_category,
        seed=problem.seeds.named("identifying features"),
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


def _held_out(problem: Problem, fit: Fit) -> HeldOut:
    judged, cluster, n_clusters = Judged.of(problem, fit), fit.judged.cluster, fit.learned.n_clusters
    y, plain, log_odds = judged.y, judged.plain[:, 0], judged.score[:, 0]
    shift = judged.shift[:, 0]
    by_group, total = _compared(judged, plain, log_odds, shift)
    return HeldOut(
        scores=score_distributions(log_odds, y, judged.weight, cluster, n_clusters),
        score_independence=_score_independence(
            strata_of(fit.judged.rows, y, cluster, (n_clusters, 2)), log_odds
        ),
        by_group=by_group,
        total=total,
        calibration=Calibration(_reliability(judged, plain), _reliability(judged, log_odds + shift)),
    )


def _compared(
    rows: Judged, plain: FloatArray, log_odds: FloatArray, shift: FloatArray
) -> tuple[HiddenLabels, Totals]:
    """The plain classifier beside the model on hidden labels: by group, and in all."""
    n, shifted = rows.n_groups, log_odds + shift
    before, after, unshifted = (log_loss_rows(values, rows.y) for values in (plain, shifted, log_odds))

    def mean(values: ValueArray) -> FloatArray:
        return mean_by(rows.group, values, rows.weight, n, empty=0.0)

    by_group = HiddenLabels(
        group=np.arange(n),
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


def _reliability(rows: Judged, log_odds: FloatArray) -> Reliability:
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
