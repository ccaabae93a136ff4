"""What a fit keeps for its diagnosis: from the labelled rows and their held-out scores to `Evidence`."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

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
    BoolArray,
    Calibration,
    ClusterProfiles,
    Column,
    Evidence,
    Examples,
    FloatArray,
    HeldOut,
    HiddenLabels,
    Independence,
    IntArray,
    LabeledSample,
    Reliability,
    ScoreIndependence,
    Totals,
    TrustEvidence,
)
from groupshift._explain.expected_gain import grouped_auc_gain, observed_shift
from groupshift._fit.feature_importance import feature_importance
from groupshift._fit.hidden_groups import HiddenGroups
from groupshift._fit.learned import PredictionRates
from groupshift._fit.problem import Problem
from groupshift._fit.stages import Finished
from groupshift._fit.trials import (
    LabeledRows,
    Trial,
    expected_prior,
    gain,
    labeled_prior,
    shifts_of_labeled,
)
from groupshift._math.calibration import crossfit_platt
from groupshift._math.label_shift import bbse, mlls
from groupshift._math.odds import log_loss_rows
from groupshift._math.points import BIN_WIDTH, collect_points
from groupshift._math.sums import mean_by, ratio, sum_by
from groupshift._regions.partitions import Partition
from groupshift._rows.keys import hash_keys, sampled
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


@dataclass(frozen=True)
class Observed:
    """A finished fit, as far as evidence is recorded of it."""

    labeled: Rows  # weights in units of a mean row
    y: IntArray  # (n_labeled,)
    n_labeled_groups: int
    pooled: Rows  # of both samples, to describe clusters by
    is_category: BoolArray  # (n_features,)
    identifying: (
        FloatArray  # (n_features,): how surely each tells which group a row is of; NaN where it does not
    )
    importance: (
        FloatArray  # (n_features,): what shuffling each costs on hidden labels; NaN where it was not tried
    )
    partition: Partition  # the cut that the model uses
    cluster: IntArray  # (n_labeled,), in which the judge saw each labelled row
    judged: IntArray  # numbers of the labelled rows that have held-out scores
    score: FloatArray  # (n_judged,), held out
    plain_score: FloatArray  # (n_judged,), the same before any learning from unlabelled rows
    fold: IntArray | None  # (n_judged,); None where nothing could be held out
    design_effect: float  # how many times fewer examples there are than judged rows
    trial: Trial | None  # how the chosen partition did on hidden labels; None where it was not tried
    trust: float  # the part of every shift that is used
    trust_is_given: bool  # by the user, instead of learned
    hidden_shift: FloatArray | None  # (n_judged,), as the fit made them with labels hidden
    by_groups: (
        tuple[HiddenGroups, FloatArray] | None
    )  # scores and shifts with labels hidden from the classifier too
    shares: str | None
    shrinkage: str
    labeled_prior: str
    prediction_rates: PredictionRates | None  # of each cluster; None unless BBSE is used
    seed: int  # of the sample of rows that tests look at

    @classmethod
    def of(cls, problem: Problem, finished: Finished) -> "Observed":
        trained, candidate = finished.judged.trained, finished.judged.candidate
        learned, settings = finished.settled.learned, problem.settings
        return cls(
            labeled=problem.labeled,
            y=problem.y,
            n_labeled_groups=len(problem.labeled_groups),
            pooled=finished.pooled.rows,
            is_category=problem.encoder.is_category,
            identifying=_by_feature(problem, finished.pooled.identifying),
            importance=_by_feature(problem, feature_importance(problem, trained, learned)),
            partition=candidate.partition,
            cluster=candidate.cluster,
            judged=trained.judged,
            score=trained.score,
            plain_score=finished.trained.score,
            fold=trained.fold,
            design_effect=trained.design_effect,
            trial=finished.judged.trial,
            trust=learned.trust,
            trust_is_given=settings.trust != "learned",
            hidden_shift=finished.settled.hidden_shift if settings.shrinkage == "hierarchical" else None,
            by_groups=finished.settled.by_groups,
            shares=settings.shares,
            shrinkage=settings.shrinkage,
            labeled_prior=settings.labeled_prior,
            prediction_rates=learned.prediction_rates,
            seed=problem.seeds.named("evidence rows"),
        )

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters


def _by_feature(problem: Problem, found: Mapping[str, float]) -> FloatArray:
    """Numbers of features in the order of the columns; NaN where there is none. Names stay in one place, the encoder."""
    return np.array([found.get(name, np.nan) for name in problem.encoder.names_])


def record_evidence(observed: Observed) -> Evidence:
    """Everything that the diagnosis will want to know about the labelled rows of a finished fit."""

    def held_out() -> HeldOut | None:
        return None if observed.fold is None else _held_out(observed, observed.fold)

    independence, by_hidden_labels = both_at_once(lambda: _independence(observed), held_out)
    return Evidence(
        groups=_labeled_sample(observed, observed.labeled.group, observed.n_labeled_groups),
        labeled_clusters=_labeled_sample(observed, observed.cluster, observed.n_clusters),
        examples=examples_of(observed.labeled, observed.y, 2, observed.is_category),
        clusters=profiles_of(observed.pooled, observed.partition, observed.is_category, observed.seed),
        independence=independence,
        held_out=by_hidden_labels,
        identifying=observed.identifying,
        importance=observed.importance,
    )


def _labeled_sample(observed: Observed, part: IntArray, n_parts: int) -> LabeledSample:
    """Labelled rows by group or cluster."""
    weight = observed.labeled.weight
    return LabeledSample(
        rows=np.bincount(part, minlength=n_parts),
        weight=sum_by(part, weight, n_parts),
        share=mean_by(part, observed.y, weight, n_parts),
    )


def examples_of(rows: Rows, y: IntArray, n_classes: int, is_category: BoolArray) -> Examples:
    """Examples of the class that has fewest, and copies that nobody marked."""
    examples = [len(np.unique(rows.key[y == c])) for c in range(n_classes)]
    fewest = int(np.argmin(examples))
    return Examples(examples[fewest], int((y == fewest).sum()), unmarked_copies(rows, y, is_category))


def unmarked_copies(rows: Rows, y: IntArray, is_category: BoolArray) -> float:
    """Part of the examples whose features, label and group repeat another example's; 0 if it may be chance."""
    content = hash_keys(rows.group.astype(np.uint64), 0) ^ hash_keys(y.astype(np.uint64), 1)
    for column in rows.matrix.T:
        # Zero has two signs and NaN has many forms: one of each, so that equal values have equal bits.
        values = np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64, copy=False)
        content = hash_keys(content ^ values.view(np.uint64), 2)
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


def _independence(observed: Observed) -> Independence:
    few = few_rows(observed.labeled, observed.seed)
    rows, n_clusters = observed.labeled.take(few), observed.n_clusters
    strata = strata_of(rows, observed.y[few], observed.partition.predict(rows), (n_clusters, 2))
    found = feature_effects(rows, observed.is_category, strata, (n_clusters, 2))
    p_value = combined_p_value(found.p_value)
    return Independence(
        found.effect, found.std_error, p_value, _rows_of(strata), strata.groups.reshape(-1, 2)
    )


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


def _score_independence(observed: Observed, y: IntArray, log_odds: FloatArray) -> ScoreIndependence:
    rows = observed.labeled.take(observed.judged)
    strata = strata_of(rows, y, observed.cluster[observed.judged], (observed.n_clusters, 2))
    found = group_effects(comparable(log_odds, False), strata)
    return ScoreIndependence(found.effect.reshape(-1, 2), found.std_error.reshape(-1, 2), _rows_of(strata))


def strata_of(rows: Rows, y: IntArray, cluster: IntArray, shape: tuple[int, int]) -> Strata:
    """Rows by cluster and class; `shape` is (n_clusters, n_classes)."""
    n_groups = int(rows.group.max()) + 1
    return Strata(cluster * shape[1] + y, rows.group, rows.weight, rows.key, shape[0] * shape[1], n_groups)


def _rows_of(strata: Strata) -> IntArray:
    return np.bincount(strata.stratum, minlength=strata.n_strata).reshape(-1, 2)


def few_rows(rows: Rows, seed: int) -> IntArray:
    """Numbers of the rows that tests look at: all of them, or as many as keep to `MAX_VALUES`."""
    limit = max(MAX_VALUES // max(rows.matrix.shape[1], 1), 2_000)
    if len(rows) <= limit:
        return np.arange(len(rows))
    return np.flatnonzero(sampled(rows.key, limit / len(rows), seed))


def _held_out(observed: Observed, fold: IntArray) -> HeldOut:
    judged = observed.judged
    own = observed.labeled.take(judged)
    number, group = np.unique(own.group, return_inverse=True)
    rows = LabeledRows(observed.score, observed.y[judged], own.weight, group, fold, observed.design_effect)
    cluster, n_clusters = observed.cluster[judged], observed.n_clusters
    # Global: the classifier before any learning from unlabelled rows, one calibration, no shift.
    plain = crossfit_platt(
        observed.plain_score, rows.y, rows.weight, np.zeros(len(judged), np.int64), 1, rows.fold
    )
    log_odds = (
        crossfit_platt(rows.score, rows.y, rows.weight, cluster, n_clusters, rows.fold)
        if observed.trial is None
        else observed.trial.log_odds
    )
    shift = _shift(observed, rows, log_odds, cluster)
    if observed.by_groups is not None:
        # Most of the population lies in groups without labels: gains are those of groups that the classifier did not see.
        hidden, shift = observed.by_groups
        plain, log_odds = hidden.plain, hidden.log_odds
    trust = None if observed.trial is None else observed.trial.trust
    return HeldOut(
        scores=score_distributions(log_odds, rows.y, rows.weight, cluster, n_clusters),
        score_independence=_score_independence(observed, rows.y, log_odds),
        by_group=_hidden_labels(rows, number, plain, log_odds, shift),
        total=_totals(rows, plain, log_odds, shift),
        calibration=Calibration(_reliability(rows, plain), _reliability(rows, log_odds + shift)),
        trust=None if trust is None else TrustEvidence(trust.estimate, trust.std_error),
    )


def _shift(observed: Observed, rows: LabeledRows, log_odds: FloatArray, cluster: IntArray) -> FloatArray:
    """The shift of each judged row as the model would make it if the row's group had no labels."""
    trial = observed.trial
    if rows.n_groups < 2 or observed.shares is None:
        return np.zeros(len(log_odds))
    if observed.hidden_shift is not None:
        return observed.hidden_shift
    if observed.shrinkage != "hierarchical":
        shift = _unpooled_shifts(observed, rows, log_odds, cluster)[rows.group, cluster]
    else:
        shift = shifts_of_labeled(rows, log_odds, cluster, observed.n_clusters).shift[rows.group, cluster]
    if trial is None or observed.trust_is_given:
        return observed.trust * shift
    return trial.trust.without[rows.group] * shift


def _unpooled_shifts(
    observed: Observed, rows: LabeledRows, log_odds: FloatArray, cluster: IntArray
) -> FloatArray:
    """Shifts of the cells, each on its own, as the published method would estimate them."""
    n_clusters = observed.n_clusters
    cell, n_cells = rows.group * n_clusters + cluster, rows.n_groups * n_clusters
    points = collect_points(log_odds, cell, n_cells=n_cells, weight=rows.weight, bin_width=BIN_WIDTH)
    own = (
        labeled_prior(rows.y, rows.weight, cluster, n_clusters)
        if observed.labeled_prior == "share"
        else expected_prior(log_odds, rows.weight, cluster, n_clusters)
    )
    prior = np.tile(own, rows.n_groups)
    if observed.prediction_rates is None:
        found = mlls(points, labeled_prior=prior).share
    else:
        tpr, fpr = (np.tile(rate, rows.n_groups) for rate in observed.prediction_rates)
        soft = observed.shares == "bbse-soft"
        found = bbse(points, true_positive_rate=tpr, false_positive_rate=fpr, soft=soft).share
    edge = 0.5 / (points.effective_rows + 1)
    share = np.where(np.isnan(found), prior, np.clip(found, edge, 1 - edge))
    shift: FloatArray = (logit(share) - logit(prior)).reshape(rows.n_groups, n_clusters)
    return shift


def _hidden_labels(
    rows: LabeledRows, number: IntArray, plain: FloatArray, log_odds: FloatArray, shift: FloatArray
) -> HiddenLabels:
    n, shifted = rows.n_groups, log_odds + shift

    def mean(values: Column) -> FloatArray:
        return mean_by(rows.group, values, rows.weight, n, empty=0.0)

    return HiddenLabels(
        group=number,
        rows=np.bincount(rows.group, minlength=n),
        share=mean(rows.y),
        mean_score=mean(log_odds),
        loss_global=mean(log_loss_rows(plain, rows.y)),
        loss_model=mean(log_loss_rows(shifted, rows.y)),
        auc_global=grouped_auc(rows.y, plain, rows.weight, rows.group, n),
        auc_model=grouped_auc(rows.y, shifted, rows.weight, rows.group, n),
        mean_global=mean(expit(plain)),
        mean_model=mean(expit(shifted)),
        estimated_shift=mean(shift),
        observed_shift=observed_shift(log_odds, rows.y, rows.weight, rows.group, n),
    )


def _totals(rows: LabeledRows, plain: FloatArray, log_odds: FloatArray, shift: FloatArray) -> Totals:
    shifted = log_odds + shift
    before, after = log_loss_rows(plain, rows.y), log_loss_rows(shifted, rows.y)
    loss_gain, loss_error = gain(before, after, rows)
    classifier_gain, classifier_error = gain(before, log_loss_rows(log_odds, rows.y), rows)
    auc_before, auc_after, auc_error = grouped_auc_gain(
        plain, shifted, rows.y, rows.weight, rows.group, rows.n_groups
    )
    return Totals(
        groups=rows.n_groups,
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
    everyone = np.zeros(len(log_odds), np.int64)
    return Reliability(
        _reliability_bins(rows, expit(log_odds), everyone, 1, 2 * CALIBRATION_BINS)[0],
        _reliability_bins(rows, expit(log_odds), rows.group, rows.n_groups, by_group_bins),
    )


def _reliability_bins(
    rows: LabeledRows, p: FloatArray, group: IntArray, n_groups: int, n_bins: int
) -> FloatArray:
    cut = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    cell = group * n_bins + np.searchsorted(cut, p, side="right")
    total, predicted, positive = (
        sum_by(cell, rows.weight * value, n_groups * n_bins) for value in (np.ones(len(p)), p, rows.y)
    )
    return np.stack([total, ratio(predicted, total), ratio(positive, total)], -1).reshape(n_groups, n_bins, 3)
