"""A fit in six calls: rows, scores, partition, what labels teach, shares of the population, evidence for the diagnosis.

Each is a function from values to a value; nothing reaches back.
"""

from dataclasses import dataclass

import numpy as np

from groupshift._fit.fixed_partition import fixed_partition
from groupshift._fit.pooled import Pooled, pool_rows
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._partitions.choice import Candidate, Chosen, Labeled, choose_partition, given_candidates, kmeans_candidates
from groupshift._partitions.correction import learn_correction
from groupshift._regions.partitions import Partition
from groupshift._rows.frames import some
from groupshift._rows.keys import copy_correlation, design_effect, within
from groupshift._rows.progress import begin
from groupshift._scores.contrasts import probabilities
from groupshift._scores.members import default_members, seeded_classifier
from groupshift._scores.posterior import Posterior
from groupshift._scores.stack import ALIGNED_ROWS, CrossFit, cross_fit
from groupshift._shifts.common import Directions
from groupshift._shifts.estimate import Estimate, Learned, estimate, features_of
from groupshift._shifts.evidence import LabeledSums, labeled_prior
from groupshift._shifts.sums import Bins

# How the note on columns begins that nothing can be learned from.
LEFT_OUT = "Left out:"


@dataclass(frozen=True)
class HeldOut:
    """Scores of labelled rows by models that did not see them: what a fit may be judged by."""

    plain: FloatArray  # (n_labeled, M): before partition and shifts
    score: FloatArray  # (n_labeled, M): corrected inside the clusters
    cluster: IntArray
    fold: IntArray | None  # None where nothing could be held out


@dataclass(frozen=True)
class Fit:
    """A whole fit."""

    pooled: Pooled
    scores: CrossFit
    held_out: HeldOut
    partition: Partition
    candidates: dict[str, ValueArray] | None
    learned: Learned
    estimate: Estimate
    notes: Notes


def fit(problem: Problem) -> Fit:
    """Pool rows, train, partition, learn from labels, estimate."""
    verbose, seeds = problem.settings.verbose, problem.seeds
    pooled = pool_rows(problem)
    begin("training classifiers", verbose)
    scores = train(problem).aligned(pooled.unlabeled(ALIGNED_ROWS), seeds.named("aligned folds"))
    begin("choosing a partition", verbose)
    partition, candidates, notes = find_partition(problem, pooled, scores)
    learned, held_out = learn(problem, pooled, scores, partition)
    begin("estimating shares", verbose)
    found = estimate(learned, problem.population, problem.groups, problem.known)
    notes = (*data_notes(problem), *pooled.notes, *score_notes(scores), *notes)
    return Fit(pooled, scores, held_out, partition, candidates, learned, found, notes)


def train(problem: Problem) -> CrossFit:
    """Out-of-fold scores by the default classifiers, or by the user's."""
    seed, wanted = problem.seeds.named("classifier"), problem.settings.estimator
    if wanted is None:
        members = default_members(problem.encoder.is_category, seed)
    else:
        given = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        members = [seeded_classifier(one, seed) for one in given]
    return cross_fit(members, problem.labeled, problem.y, problem.seeds.named("row folds"))


def find_partition(
    problem: Problem, pooled: Pooled, scores: CrossFit
) -> tuple[Partition, dict[str, ValueArray] | None, Notes]:
    """The partition that settings name, or the one that held-out labels of whole groups choose."""
    partition, notes = fixed_partition(problem, pooled)
    if partition is not None:
        return partition, None, notes
    rows = problem.labeled
    labeled = Labeled(rows, problem.y, scores.score, _effect(problem, scores.score))
    candidates = given_candidates(problem.settings.partition, pooled.rows, rows)
    if problem.population is not None:
        candidates += kmeans_candidates(pooled.space, pooled.rows, rows, problem.seeds)
    chosen = choose_partition(labeled, candidates, problem.encoder.is_category, problem.seeds)
    return chosen.candidate.partition, chosen.table, ()


def learn(problem: Problem, pooled: Pooled, scores: CrossFit, partition: Partition) -> tuple[Learned, HeldOut]:
    """Everything that labelled rows teach, for the partition that is used."""
    rows, y, settings = problem.labeled, problem.y, problem.settings
    cluster, K, M = partition.predict(rows), partition.n_clusters, problem.n_classes - 1
    score, correction = scores.score, None
    if K > 1:
        correction, added = learn_correction(pooled.space, rows, y, score, cluster, scores.fold, K)
        score = score + added
    bins = Bins.of(score, max(len(problem.groups), 1) * K, problem.seeds.named("prototypes"))
    n_groups = len(problem.labeled_groups)
    labeled = LabeledSums.of(score, y, rows.group * K + cluster, rows.weight, n_groups * K, bins)
    prior = probabilities(labeled_prior(labeled, K))
    wants_common = settings.selection != "random" and settings.shares is not None and problem.population is not None
    features = features_of(pooled.space, rows, score) if wants_common else None
    effect = _effect(problem, score)
    learned = Learned(
        posterior=Posterior(scores.stack, partition, correction),
        n_classes=problem.n_classes,
        labeled_prior=prior[:, 1] if M == 1 else prior,
        labeled_rows=np.bincount(cluster, minlength=K),
        labeled_groups=problem.labeled_groups,
        labeled=labeled,
        bins=bins,
        space=pooled.space,
        directions=(
            None
            if features is None
            else Directions.of(features, y, rows.group, rows.weight, n_groups, problem.n_classes)
        ),
        labeled_effect=effect,
        design_effect=1 + (pooled.group_effect - 1) * copy_correlation(rows.key, rows.weight, score[:, 0]),
        prediction_rates=None,
        shares=settings.shares,
        shrinkage=settings.shrinkage,
        selection=settings.selection,
    )
    return learned, HeldOut(scores.score, score, cluster, scores.fold)


def _effect(problem: Problem, score: FloatArray) -> float:
    """How many times fewer labelled examples there are than rows, copies counted as far as their scores are alike."""
    rows = problem.labeled
    alike = copy_correlation(rows.key, rows.weight, score[:, 0])
    return 1 + (design_effect(within(rows.key, rows.group), rows.weight) - 1) * alike


def score_notes(scores: CrossFit) -> Notes:
    if scores.fold is not None:
        return ()
    return (
        Note("Too few examples of one class to hold any out: scores are calibrated on the rows they were trained on."),
    )


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
