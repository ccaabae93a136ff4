"""What a fit of several classes keeps for its diagnosis: small tables about the labelled rows, never the rows themselves."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from groupshift._data.problem import Problem
from groupshift._diagnosis.assumption import comparable, group_effects
from groupshift._diagnosis.evidence import (
    Judged,
    examples_of,
    feature_effects,
    few_rows,
    gain,
    profiles_of,
    reliability_bins,
    strata_of,
)
from groupshift._diagnosis.evidence_parts import ClusterProfiles, Examples
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import mean_by, sum_by
from groupshift._scores.contrasts import log_loss, log_scores
from groupshift.pipeline import Fit

CALIBRATION_BINS = 20


@dataclass(frozen=True)
class ClassSample:
    """Labelled rows by group: number, weight, and shares of classes by weight, (n_groups, n_classes), NaN without rows."""

    rows: IntArray
    weight: FloatArray
    share: FloatArray

    @property
    def overall_share(self) -> FloatArray:
        """(n_classes,)."""
        mean: FloatArray = np.average(np.nan_to_num(self.share), axis=0, weights=self.weight)
        return mean


@dataclass(frozen=True)
class ClassIndependence:
    """Effect of the group given cluster and class: of every feature (n_clusters, n_classes, n_features), and of the scores."""

    feature_effect: FloatArray
    feature_error: FloatArray
    score_effect: FloatArray  # (n_clusters, n_classes)
    score_error: FloatArray  # (n_clusters, n_classes)
    rows: IntArray  # (n_clusters, n_classes)


@dataclass(frozen=True)
class ClassHidden:
    """Labelled groups whose labels were hidden in turn, by the plain classifier and by the model.

    Arrays have shape (n_groups,), means (n_groups, n_classes); totals are numbers.
    """

    group: IntArray
    rows: IntArray
    share: FloatArray
    loss_global: FloatArray
    loss_model: FloatArray
    accuracy_global: FloatArray
    accuracy_model: FloatArray
    mean_global: FloatArray
    mean_model: FloatArray
    total: dict[str, float]
    calibration_global: (
        FloatArray  # (n_bins, 3): weight, mean probability, share, each class against the rest
    )
    calibration_model: FloatArray


@dataclass(frozen=True)
class ClassEvidence:
    """Everything that diagnosis, summary and report know about labelled rows of several classes."""

    groups: ClassSample
    examples: Examples
    clusters: ClusterProfiles
    independence: ClassIndependence
    hidden: ClassHidden | None  # None where no labels could be held out


def record_class_evidence(problem: Problem, fit: Fit) -> ClassEvidence:
    """What the diagnosis will want to know about the labelled rows of a finished fit."""
    is_category, seed = problem.encoder.is_category, problem.seeds.named("evidence rows")
    return ClassEvidence(
        groups=_sample(problem),
        examples=examples_of(problem.labeled, problem.y, problem.n_classes, is_category),
        clusters=profiles_of(fit.pooled.rows, fit.partition, is_category, seed),
        independence=_independence(problem, fit),
        hidden=None if fit.judged.fold is None else _compared(Judged.of(problem, fit)),
    )


def _sample(problem: Problem) -> ClassSample:
    rows, n = problem.labeled, len(problem.labeled_groups)
    share = [mean_by(rows.group, problem.y == c, rows.weight, n) for c in range(problem.n_classes)]
    return ClassSample(
        np.bincount(rows.group, minlength=n), sum_by(rows.group, rows.weight, n), np.column_stack(share)
    )


def _independence(problem: Problem, fit: Fit) -> ClassIndependence:
    """Does the class look alike in every group: its features, and its scores?"""
    few = few_rows(problem.labeled, problem.seeds.named("evidence rows"))
    rows = problem.labeled.take(few)
    shape = fit.learned.n_clusters, problem.n_classes
    strata = strata_of(rows, problem.y[few], fit.partition.predict(rows), shape)
    found = feature_effects(rows, problem.encoder.is_category, strata, shape)
    own = strata_of(fit.judged.rows, fit.judged.y, fit.judged.cluster, shape)
    scores = np.hstack([comparable(column, False) for column in log_scores(fit.judged.score).T])
    by_score = group_effects(scores, own)
    return ClassIndependence(
        found.effect,
        found.std_error,
        by_score.effect.reshape(shape),
        by_score.std_error.reshape(shape),
        strata.rows.reshape(shape),
    )


def _compared(rows: Judged) -> ClassHidden:
    plain, moved = (log_softmax(log_scores(z), axis=1) for z in (rows.plain, rows.score + rows.shift))
    n, n_classes = rows.n_groups, plain.shape[1]

    def mean(values: FloatArray) -> FloatArray:
        return mean_by(rows.group, values, rows.weight, n, empty=0.0)

    before, after = log_loss(rows.plain, rows.y), log_loss(rows.score + rows.shift, rows.y)
    right = [(log_p.argmax(1) == rows.y).astype(float) for log_p in (plain, moved)]
    loss_gain, loss_error = gain(before, after, rows)
    more_right, right_error = gain(right[1], right[0], rows)
    weighed = (float(np.average(v, weights=rows.weight)) for v in (before, after, *right))
    names = ("loss_global", "loss_model", "accuracy_global", "accuracy_model")
    return ClassHidden(
        group=np.arange(n),
        rows=np.bincount(rows.group, minlength=n),
        share=np.column_stack([mean((rows.y == c).astype(float)) for c in range(n_classes)]),
        loss_global=mean(before),
        loss_model=mean(after),
        accuracy_global=mean(right[0]),
        accuracy_model=mean(right[1]),
        mean_global=np.column_stack([mean(np.exp(plain[:, c])) for c in range(n_classes)]),
        mean_model=np.column_stack([mean(np.exp(moved[:, c])) for c in range(n_classes)]),
        total=dict(zip(names, weighed, strict=True))
        | {
            "groups": float(n),
            "rows": float(len(rows.y)),
            "loss_gain": loss_gain,
            "loss_gain_error": loss_error,
            "accuracy_gain": more_right,
            "accuracy_gain_error": right_error,
        },
        calibration_global=_reliability(rows, plain),
        calibration_model=_reliability(rows, moved),
    )


def _reliability(rows: Judged, log_p: FloatArray) -> FloatArray:
    """Weight, mean probability and share in bins of probability, all classes against their rest together."""
    p = softmax(log_p, axis=1)
    is_class = (rows.y[:, None] == np.arange(p.shape[1])).astype(np.int64)
    weight = np.repeat(rows.weight, p.shape[1])
    found: FloatArray = reliability_bins(p.ravel(), is_class.ravel(), weight, CALIBRATION_BINS)[0]
    return found
