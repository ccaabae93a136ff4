"""A fit in six calls: rows, scores, partition, what labels teach, shares of the population, evidence for the diagnosis.

Each is a function from values to a value; nothing reaches back.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from groupshift._article import labeled_shares
from groupshift._data.frames import some
from groupshift._data.keys import copy_correlation, design_effect, fold_of, within
from groupshift._data.problem import Classifier, Note, Notes, Pooled, Problem, pool_rows
from groupshift._data.progress import begin
from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.label_shift import prediction_rates
from groupshift._math.sums import renumbered
from groupshift._partitions.choice import (
    Chosen,
    Labeled,
    choose_partition,
    given_candidates,
    kmeans_candidates,
)
from groupshift._partitions.correction import Posterior, learn_correction
from groupshift._partitions.given import fixed_partition
from groupshift._partitions.partitions import Partition, WholeSpace
from groupshift._scores.contrasts import probabilities
from groupshift._scores.members import default_members, seeded_classifier
from groupshift._scores.stack import ALIGNED_ROWS, N_FOLDS, HeldOutScores, cross_fit, hold_out_once
from groupshift._shifts.common import Directions
from groupshift._shifts.counts import features_of
from groupshift._shifts.estimate import Estimate, Learned, PredictionRates, estimate
from groupshift._shifts.evidence import LabeledSums, labeled_prior
from groupshift._shifts.prediction_sets import held_out_sums
from groupshift._shifts.sums import Bins

# How the note on columns begins that nothing can be learned from.
LEFT_OUT = "Left out:"


@dataclass(frozen=True)
class Judged:
    """Labelled rows with scores by models that did not see them: what a fit may be judged by."""

    rows: Rows
    y: IntArray
    plain: FloatArray  # (n_rows, M): before partition and shifts
    score: FloatArray  # (n_rows, M): corrected inside the clusters
    cluster: IntArray
    fold: IntArray | None  # None where nothing could be held out


@dataclass(frozen=True)
class Fit:
    """A whole fit."""

    pooled: Pooled
    scores: HeldOutScores
    judged: Judged
    partition: Partition
    candidates: dict[str, ValueArray] | None
    learned: Learned
    estimate: Estimate
    notes: Notes


def fit(problem: Problem) -> Fit:
    """Pool rows, train, partition, learn from labels, estimate."""
    verbose, shares = problem.settings.verbose, problem.settings.shares
    if problem.n_classes > 2 and shares in ("bbse-hard", "bbse-soft"):
        raise ValueError(
            f"shares={shares!r} is for two classes, and the labels have {problem.n_classes}. Pass 'mlls' or 'em'."
        )
    pooled = pool_rows(problem)
    given, partition_notes = fixed_partition(problem, pooled)
    begin("training classifiers", verbose)
    scores = train(problem, pooled, given)
    partition, candidates = given, None
    if partition is None:
        begin("choosing a partition", verbose)
        chosen = find_partition(problem, pooled, scores)
        partition, candidates = chosen.candidate.partition, chosen.table
        if problem.settings.per_cluster:
            scores = train(problem, pooled, partition)
    learned, judged = learn(problem, pooled, scores, partition)
    begin("estimating shares", verbose)
    found = estimate(learned, problem.population, problem.groups, problem.known)
    sentence = "Too few examples of one class to hold any out: scores are calibrated on the rows they were trained on."
    score_notes = (Note(sentence),) if scores.fold is None else ()
    notes = (*data_notes(problem), *pooled.notes, *score_notes, *partition_notes)
    return Fit(pooled, scores, judged, partition, candidates, learned, found, notes)


def train(problem: Problem, pooled: Pooled, partition: Partition | None) -> HeldOutScores:
    """Held-out scores by the default classifiers, or by the user's; `partition`: where it is known already."""
    settings, rows, y, seeds = problem.settings, problem.labeled, problem.y, problem.seeds
    seed, wanted = seeds.named("classifier"), settings.estimator
    if wanted is None:
        members = default_members(problem.encoder.is_category, seed)
    else:
        given = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        members = [seeded_classifier(cast(Classifier, one), seed) for one in given]
    known = WholeSpace() if partition is None else partition
    cluster = known.predict(rows)
    if settings.calibration == "holdout" and problem.fewest_examples >= 2 and len(members) == 1:
        return hold_out_once(
            members[0],
            rows,
            y,
            cluster,
            known.n_clusters,
            per_cluster=settings.per_cluster,
            shrinkage=settings.shrinkage,
            seed=seeds.named("held out"),
        )
    has_own = settings.per_cluster and partition is not None
    scores = cross_fit(
        members, rows, y, cluster if has_own else None, known.n_clusters, seeds.named("row folds")
    )
    sample = pooled.unlabeled(ALIGNED_ROWS)
    return scores.aligned(sample, known.predict(sample), seeds.named("aligned folds"))


def find_partition(problem: Problem, pooled: Pooled, scores: HeldOutScores) -> Chosen:
    """The partition that held-out labels of whole groups choose."""
    rows, y = problem.labeled.take(scores.rows), problem.y[scores.rows]
    rows = rows.numbered(renumbered(rows.group))
    fold = scores.fold
    if fold is None:
        fold = fold_of(rows.key, N_FOLDS, problem.seeds.named("folds of a partition"))
    labeled = Labeled(rows, y, scores.score, fold, _effect(rows, scores.score))
    candidates = given_candidates(problem.settings.partition, pooled.rows, rows)
    if problem.population is not None:
        candidates += kmeans_candidates(pooled.space, pooled.rows, rows, problem.seeds)
    return choose_partition(labeled, candidates, problem.encoder.is_category, problem.seeds)


def learn(
    problem: Problem, pooled: Pooled, scores: HeldOutScores, partition: Partition
) -> tuple[Learned, Judged]:
    """Everything that labelled rows teach, for the partition that is used."""
    rows, y, settings = problem.labeled.take(scores.rows), problem.y[scores.rows], problem.settings
    cluster, K, M = partition.predict(rows), partition.n_clusters, problem.n_classes - 1
    score, correction = scores.score, None
    if K > 1 and settings.calibration == "crossfit":
        correction, added = learn_correction(pooled.space, rows, y, score, cluster, scores.fold, K)
        score = score + added
    bins = Bins.of(score, max(len(problem.groups), 1) * K, problem.seeds.named("prototypes"))
    n_groups, everywhere = len(problem.labeled_groups), partition.predict(problem.labeled)
    labeled = LabeledSums.of(score, y, rows.group * K + cluster, rows.weight, n_groups * K, bins)
    prior = probabilities(labeled_prior(labeled, K))
    if settings.labeled_prior == "share":
        is_class = np.eye(M + 1)[problem.y]
        shares = [labeled_shares(one, problem.labeled.weight, everywhere, K) for one in is_class.T]
        prior = np.column_stack(shares)
    has_common = (
        settings.shares is not None
        and settings.shrinkage == "hierarchical"
        and problem.population is not None
    )
    directions = None
    if has_common:
        features = features_of(pooled.space, rows, score)
        directions = Directions.of(features, y, rows.group, rows.weight, n_groups, problem.n_classes)
    alike = copy_correlation(rows.key, rows.weight, score[:, 0])
    class_rows = np.bincount(everywhere * (M + 1) + problem.y, minlength=K * (M + 1)).reshape(K, M + 1)
    effect = _effect(rows, score)
    # The mean weight of a row of the population, or of a labelled one where there is none.
    own = pooled.rows.weight[pooled.n_labeled :]
    unlabeled_weight = float(own.mean()) if len(own) else 1.0
    learned = Learned(
        posterior=Posterior(scores.scorer, partition, correction),
        n_classes=problem.n_classes,
        labeled_prior=prior[:, 1] if M == 1 else prior,
        labeled_rows=class_rows.sum(1),
        class_rows=class_rows / effect,
        labeled_groups=problem.labeled_groups,
        labeled=labeled,
        bins=bins.for_population(len(problem.groups) * K, problem.unit * unlabeled_weight),
        space=pooled.space,
        typical=typical_row(problem.labeled.matrix),
        directions=directions,
        labeled_effect=effect,
        # Copies in the population repeat each other as much as those among labelled rows do.
        design_effect=1 + (pooled.group_effect - 1) * alike,
        prediction_rates=prediction_rates_of(settings.shares, score, y, rows.weight, cluster, K),
        shares=settings.shares,
        shrinkage=settings.shrinkage,
        selection=settings.selection,
        held_out=None if scores.fold is None else held_out_sums(score, y, cluster, rows.weight, K, bins),
    )
    return learned, Judged(rows, y, scores.score, score, cluster, scores.fold)


def prediction_rates_of(
    shares: str | None, score: FloatArray, y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> PredictionRates | None:
    """Prediction rates of each cluster, for BBSE; a cluster without both classes has those of all rows."""
    if shares not in ("bbse-hard", "bbse-soft"):
        return None
    soft, log_odds = shares == "bbse-soft", score[:, 0]
    rates = []
    for k in range(n_clusters):
        own = cluster == k
        own = own if len(np.unique(y[own])) == 2 else np.ones(len(y), bool)
        rates.append(prediction_rates(log_odds[own], y[own], weight=weight[own], soft=soft))
    true_positive, false_positive = np.array(rates).T
    return true_positive, false_positive


def typical_row(matrix: NDArray[np.floating]) -> FloatArray:
    """A value that each column has: the lower median of those that are there, 0 where none is."""
    ordered = np.sort(matrix, axis=0)
    there = (~np.isnan(ordered)).sum(0)
    found = ordered[np.maximum(there - 1, 0) // 2, np.arange(matrix.shape[1])]
    return np.where(np.isfinite(found), found, 0.0).astype(float)


def _effect(rows: Rows, score: FloatArray) -> float:
    """How many times fewer labelled examples there are than rows, copies counted as far as their scores are alike."""
    alike = copy_correlation(rows.key, rows.weight, score[:, 0])
    return 1 + (design_effect(within(rows.key, rows.group), rows.weight) - 1) * alike


def data_notes(problem: Problem) -> Notes:
    """What is missing from the data, in sentences."""
    notes = []
    if problem.population is None:
        sentence = "No unlabelled rows: no shares to learn, so this is a calibrated classifier."
        notes.append(Note(sentence, True))
    elif not problem.has_groups:
        sentence = "No groups: all unlabelled rows are one group, and its shares are learned as a whole."
        notes.append(Note(sentence, True))
    if left_out := [problem.encoder.names_[j] for j in problem.encoder.left_out_]:
        notes.append(
            Note(f"{LEFT_OUT} {some(left_out)}, for which fewer than two labelled rows have a value.")
        )
    return tuple(notes)
