"""The judge at work: candidates are proposed, tried on hidden labels, and given classifiers of their own where that helps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
from scipy.special import expit

from groupshift._fit.classifiers import (
    Classifier,
    PerClusterClassifier,
    fit_sets,
    out_of_fold_scores,
)
from groupshift._fit.pooled import Pooled
from groupshift._fit.posterior import probability_edge
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.trained import Trained, choose_estimator, training_sets
from groupshift._fit.trials import (
    LENIENT,
    MIN_CLASS_ROWS,
    CandidateTable,
    HeldOutTrial,
    LabeledRows,
    Trial,
    Tried,
    candidate_table,
    choose,
    gain,
    noise_margin,
    try_held_out,
    try_partition,
    why_none,
    without_shift,
)
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.calibration import crossfit_platt
from groupshift._math.dispersion import dispersion
from groupshift._math.sums import renumbered
from groupshift._regions.candidates import (
    Candidate,
    HeldOutClusters,
    fixed_partitions,
    learned_partitions,
)
from groupshift._regions.cut_candidates import ShownLabels, cut_partitions
from groupshift._regions.partitions import Partition, WholeSpace
from groupshift._regions.space import Space
from groupshift._rows.frames import take_rows
from groupshift._rows.keys import stratified_folds
from groupshift._rows.progress import begin, counted
from groupshift._rows.workers import each_in_python

NOTHING_HIDDEN = Note(
    "No labels can be hidden (fewer than two labelled groups, or one class has a single example): one cluster is used."
)
# In standard errors. Partitions must beat no shift by more than twice as much: what this lets through is far from that.
MIN_DISPERSION = 1.0
PER_CLUSTER = Note(
    "A classifier for each cluster predicts hidden labels better than one for all, and is used."
)


@dataclass(frozen=True)
class Judged:
    """The partition that is used, the classifiers that go with it, and how they did on hidden labels."""

    trained: Trained
    candidate: Candidate
    trial: Trial | None  # None where no labels were hidden
    table: CandidateTable | None = None  # all candidates as the judge saw them
    notes: Notes = ()

    def completed(self, problem: Problem) -> Self:
        """With the classifier of all rows trained."""
        return replace(self, trained=self.trained.completed(problem))


def can_judge(problem: Problem, fold: IntArray | None) -> bool:
    """Whether there are labels to hide, and shifts to confirm by them."""
    return problem.n_labeled_groups >= 2 and fold is not None and problem.settings.shares is not None


def take_fixed(problem: Problem, trained: Trained, partition: Partition) -> Judged:
    """The partition that the settings name; trust is learned with it."""
    candidate = Candidate.fixed("fixed", partition, problem.labeled)
    if problem.settings.trust != "learned" or not can_judge(problem, trained.fold):
        return Judged(trained, candidate, None)
    return Judged(trained, candidate, try_candidate(problem, trained, candidate))


def judge(problem: Problem, pooled: Pooled, trained: Trained) -> Judged:
    """The partition that hidden labels choose."""
    whole = Candidate.fixed("one cluster", WholeSpace(), problem.labeled)
    if not can_judge(problem, trained.fold):
        return Judged(trained, whole, None, notes=(NOTHING_HIDDEN,))
    wanted = problem.settings.partition
    given = wanted if isinstance(wanted, (list, tuple)) else ()
    seeds, space = problem.seeds, pooled.space
    candidates = fixed_partitions(problem.labeled, pooled.rows, space, given=given, seeds=seeds)
    differs = _differs_by_group(trained.labeled_rows(problem), candidates[-1].cluster[trained.judged])
    if differs:
        candidates += learned_partitions(problem.labeled, problem.y, pooled.rows, space, seeds=seeds)
    trials = _try_all(problem, trained, candidates)
    if differs:
        cut = _promising_cuts(problem, trained, space, trials)
        candidates += cut
        trials += _try_all(problem, trained, cut)
    first = _weigh(problem, trained, candidates, trials)
    if first.chosen is None:
        plain = without_shift(first.whole, first.rows)
        return Judged(
            trained, whole, plain, first.table, (nothing_confirmed(problem, first.trials, first.rows),)
        )
    chosen = candidates[first.chosen]
    trial = first.trials[first.chosen]
    # Held-out partitions have spoken for the way that it was learned; from here on it is the one that is used.
    if isinstance(trial, HeldOutTrial):
        trial = try_candidate(problem, trained, chosen)
    judged = Judged(trained, chosen, trial, first.table)
    return _described(problem, candidates, try_per_cluster(problem, judged) or judged)


def nothing_confirmed(problem: Problem, trials: Sequence[Tried], rows: LabeledRows) -> Note:
    """Why space is not cut, and what becomes of the shifts."""
    settings = problem.settings
    is_viewed = settings.trust == "learned" and settings.shrinkage == "hierarchical"
    # Views of a shift are weighed each by itself, and what is used of them is said with them.
    then = "One cluster is used." if is_viewed else "None of these shifts is used."
    return Note(f"{why_none(trials, rows)} {then}")


def _differs_by_group(rows: LabeledRows, cluster: IntArray) -> bool:
    """Whether labels differ between groups in the finest clusters: if not, no partition has shifts to show."""
    n_clusters = int(cluster.max()) + 1
    # Calibrated in each cluster: what the classifier misses of all groups alike is no shift.
    log_odds = crossfit_platt(rows.score, rows.y, rows.weight, cluster, n_clusters, rows.fold)
    cell = rows.group * n_clusters + cluster
    return dispersion(log_odds, rows.y, rows.weight, cell, rows.n_groups * n_clusters) > MIN_DISPERSION


@dataclass(frozen=True)
class _Weighed:
    """All candidates tried with one set of scores, and the number of the chosen one; None for no shift."""

    rows: LabeledRows
    whole: Trial  # with one cluster
    trials: Sequence[Trial | HeldOutTrial]
    chosen: int | None
    table: CandidateTable


def _try_all(
    problem: Problem, trained: Trained, candidates: Sequence[Candidate]
) -> list[Trial | HeldOutTrial]:
    own = trained.judged
    cut = [
        (c.cluster[own], c.n_clusters, None if c.held_out is None else c.held_out.take(own))
        for c in candidates
    ]
    tried = each_in_python(partial(_try, trained.labeled_rows(problem)), cut)
    return list(counted(tried, len(candidates), "candidates"))


def _weigh(
    problem: Problem,
    trained: Trained,
    candidates: Sequence[Candidate],
    trials: Sequence[Trial | HeldOutTrial],
) -> _Weighed:
    rows, whole = trained.labeled_rows(problem), trials[0]
    assert isinstance(whole, Trial)
    chosen = choose(trials, rows)
    table = candidate_table([c.name for c in candidates], trials, chosen, rows)
    return _Weighed(rows, whole, trials, chosen, table)


def _try(rows: LabeledRows, cut: tuple[IntArray, int, HeldOutClusters | None]) -> Trial | HeldOutTrial:
    cluster, n_clusters, held_out = cut
    if held_out is None:
        return try_partition(rows, cluster, n_clusters)
    return try_held_out(rows, held_out.fold, held_out.clusters, n_clusters)


def _promising_cuts(
    problem: Problem, trained: Trained, space: Space, trials: Sequence[Trial | HeldOutTrial]
) -> list[Candidate]:
    """Partitions cut by a tree, if they predict the labels that they were learned from better than any other does."""
    rows = trained.labeled_rows(problem)
    log_odds = crossfit_platt(rows.score, rows.y, rows.weight, np.zeros(len(rows.y), np.int64), 1, rows.fold)
    shown = ShownLabels(
        trained.judged, rows.y, expit(log_odds), rows.weight, MIN_CLASS_ROWS * rows.design_effect
    )
    lowest = min(rows.weight @ trial.loss for trial in trials)

    def promises(candidate: Candidate) -> bool:
        return bool(rows.weight @ try_candidate(problem, trained, candidate).loss < lowest)

    return cut_partitions(problem.labeled, shown, space, seeds=problem.seeds, promises=promises)


def _described(problem: Problem, candidates: Sequence[Candidate], judged: Judged) -> Judged:
    """The choice in the table of candidates, and in sentences."""
    assert judged.trial is not None
    assert judged.table is not None
    number = next(i for i, c in enumerate(candidates) if c is judged.candidate)
    trust = problem.settings.trust
    stated = "" if trust == "learned" else f"; you set it to {trust:.2f}"
    notes = [
        Note(
            f"The judge chose {judged.candidate.name!r} of {len(candidates)} candidates, "
            f"with trust {judged.trial.trust.value:.2f}{stated}."
        )
    ]
    if isinstance(judged.trained.estimator, PerClusterClassifier):
        notes.append(PER_CLUSTER)
    table = judged.table | {"chosen": np.arange(-1, len(candidates)) == number}
    return replace(judged, table=table, notes=tuple(notes))


def try_candidate(problem: Problem, trained: Trained, candidate: Candidate) -> Trial:
    """How the candidate does on hidden labels, with the given scores."""
    rows = trained.labeled_rows(problem)
    return try_partition(rows, candidate.cluster[trained.judged], candidate.n_clusters)


def try_per_cluster(problem: Problem, judged: Judged) -> Judged | None:
    """One classifier for each cluster instead of the present ones, if hidden labels confirm it."""
    trained, candidate = judged.trained, judged.candidate
    if candidate.n_clusters == 1 or trained.fold is None or not trained.fold_models:
        return None
    begin("training a classifier for each cluster", problem.settings.verbose)
    plain = choose_estimator(problem, small_trees=True, left_out=trained.left_out)
    finer = PerClusterClassifier(plain, candidate.partition, problem.encoder)
    sets = training_sets(trained.fold)
    # Boosted trees that saw a handful of positives speak of log-odds in the thousands: one such cluster would ruin the
    # calibration of all.
    edge = probability_edge(len(problem.y))
    first = fit_sets(finer, problem.labeled, problem.y, sets[:1])
    if not promises(problem, judged, first[0], edge):
        return None
    models = first + fit_sets(finer, problem.labeled, problem.y, sets[1:])
    score = out_of_fold_scores(models, problem.labeled.features, trained.fold, edge, candidate.cluster)
    trained = replace(trained, estimator=finer, fold_models=models, last=None, score=score, edge=edge)
    trial = try_candidate(problem, trained, candidate)
    assert judged.trial is not None
    if not confirmed(judged.trial.loss, trial.loss, trained.labeled_rows(problem)):
        return None
    return replace(judged, trained=trained, trial=trial)


def promises(problem: Problem, judged: Judged, first: Classifier, edge: float | None) -> bool:
    """Whether a model trained without the first fold predicts its hidden labels better than the present one.

    A look at one fold before all of them are trained: most steps that hidden labels reject show it there.
    """
    rows, candidate = judged.trained.labeled_rows(problem), judged.candidate
    own = np.flatnonzero(rows.fold == 0)
    cluster = candidate.cluster[own]
    key = problem.labeled.key[own]
    part = LabeledRows(
        rows.score[own],
        rows.y[own],
        rows.weight[own],
        renumbered(rows.group[own]),
        stratified_folds(rows.y[own], key, 2, problem.seeds.named("first look")),
        rows.design_effect,
    )
    features = take_rows(problem.labeled.features, own)
    score = out_of_fold_scores([first], features, np.zeros(len(own), np.int64), edge, cluster)
    tried = each_in_python(
        partial(try_partition, cluster=cluster, n_clusters=candidate.n_clusters),
        [part, replace(part, score=score)],
    )
    present, better = (trial.loss for trial in tried)
    return gain(present, better, part)[0] > 0


def confirmed(loss: FloatArray, better: FloatArray, rows: LabeledRows) -> bool:
    """Whether hidden labels confirm a step that learns little from what judges it: by about one standard error."""
    mean, error = gain(loss, better, rows)
    return mean > noise_margin(rows.n_groups, LENIENT) * error
