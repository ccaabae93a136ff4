"""The judge at work: candidates are proposed, tried on hidden labels, and given classifiers of their own where that helps."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Self

import numpy as np

from groupshift._fit.classifiers import (
    Classifier,
    PerClusterClassifier,
    fits_ahead,
    out_of_fold_scores,
    raw_score,
)
from groupshift._fit.cut_search import begin_cuts
from groupshift._fit.pooled import Pooled
from groupshift._fit.posterior import probability_edge
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.trained import Trained, choose_estimator, training_sets
from groupshift._fit.trials import (
    CandidateTable,
    LabeledRows,
    Trial,
    Tried,
    candidate_table,
    choose,
    confirmed,
    gain,
    try_held_out,
    try_partition,
    why_none,
    with_trust,
    without_shift,
)
from groupshift._math.arrays import IntArray
from groupshift._math.dispersion import dispersion
from groupshift._math.sums import renumbered
from groupshift._regions.candidates import (
    Begun,
    Candidate,
    HeldOutClusters,
    begin_learned,
    given_partitions,
    kmeans_partitions,
    learned_partitions,
)
from groupshift._regions.partitions import Partition, WholeSpace
from groupshift._rows.frames import take_rows
from groupshift._rows.keys import stratified_folds
from groupshift._rows.progress import begin, counted
from groupshift._rows.workers import ahead, each_in_python

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
    held_out: Tried | None = None  # of partitions that were learned without the judged groups

    def trusted_by(self, held_out: Tried | None, rows: LabeledRows) -> Self:
        """With no more trust than partitions have that were learned without the judged groups, where there are such."""
        if self.trial is None or held_out is None:
            return self
        trust = min(self.trial.trust, held_out.trust, key=lambda trust: trust.value)
        return replace(self, trial=with_trust(self.trial, trust, rows), held_out=held_out)

    def completed(self, problem: Problem) -> Self:
        """With the classifier of all rows trained."""
        return replace(self, trained=self.trained.completed(problem))


def can_judge(problem: Problem, fold: IntArray | None) -> bool:
    """Whether there are labels to hide, and shifts to confirm by them."""
    return _wants_trials(problem) and fold is not None


def _wants_trials(problem: Problem) -> bool:
    return problem.n_labeled_groups >= 2 and problem.settings.shares is not None


def why_not_judged(problem: Problem) -> Notes:
    """That no label could be hidden; nothing where nobody asked for shares."""
    return () if problem.settings.shares is None else (NOTHING_HIDDEN,)


def take_fixed(problem: Problem, trained: Trained, partition: Partition) -> Judged:
    """The partition that the settings name; trust is learned with it."""
    candidate = Candidate.fixed("fixed", partition, problem.labeled)
    if problem.settings.trust != "learned" or not can_judge(problem, trained.fold):
        return Judged(trained, candidate, None)
    return Judged(trained, candidate, try_candidate(problem, trained, candidate))


def begin_candidates(
    problem: Problem, pooled: Pooled, partition: Partition | None
) -> AbstractContextManager[Begun | None]:
    """A block in which others may be ahead with candidates, while the classifier is trained that will judge them."""
    if partition is not None or not _wants_trials(problem):
        return nullcontext()
    return begin_learned(problem.labeled, problem.y, pooled.rows, pooled.space, seeds=problem.seeds)


def judge(problem: Problem, pooled: Pooled, trained: Trained, begun: Begun | None) -> Judged:
    """The partition that hidden labels choose."""
    whole = Candidate.fixed("one cluster", WholeSpace(), problem.labeled)
    if not can_judge(problem, trained.fold):
        return Judged(trained, whole, None, notes=why_not_judged(problem))
    wanted = problem.settings.partition
    given = wanted if isinstance(wanted, (list, tuple)) else ()
    rows = trained.labeled_rows(problem)
    fixed = given_partitions(problem.labeled, pooled.rows, given)
    clusters = kmeans_partitions(problem.labeled, pooled.rows, pooled.space, problem.seeds)
    learned: list[Candidate] = []
    differs = _differs_by_group(rows, [*fixed, *clusters][-1].cluster[trained.judged])
    if differs:
        # Else they have nothing to show; clusters that the user gave are tried all the same.
        fixed += clusters
    cutting = begin_cuts(problem, trained, pooled.space) if differs else nullcontext()
    # Others cut and try the first candidates while more are learned. Cuts take longest, and come first.
    with cutting as cuts, _trials(rows, trained, fixed) as of_fixed:
        if begun and differs:
            learned = learned_partitions(problem.labeled, problem.y, pooled.space, begun)
        with _trials(rows, trained, learned) as of_learned:
            tried = chain(next(of_fixed), next(of_learned))
            trials = list(counted(tried, len(fixed) + len(learned), "candidates"))
        cut = [] if cuts is None else cuts.promising(trials)
    with _trials(rows, trained, cut) as of_cut:
        trials += counted(next(of_cut), len(cut), "trees without a third of the groups")
    candidates = fixed + learned + cut
    number = choose(trials, rows)
    table = candidate_table([c.name for c in candidates], trials, number, rows)
    if number is None:
        reason = nothing_confirmed(problem, trials, rows)
        return Judged(trained, whole, _plain(trials[0], rows), table, (reason,))
    chosen, trial = candidates[number], trials[number]
    # Where held-out partitions have spoken for the way that it was learned: from here on it is the one that is used.
    held_out = None if isinstance(trial, Trial) else trial
    used = trial if isinstance(trial, Trial) else try_candidate(problem, trained, chosen)
    judged = Judged(trained, chosen, used, table)
    return _described(problem, (try_per_cluster(problem, judged) or judged).trusted_by(held_out, rows))


def back_to_one_cluster(problem: Problem, trained: Trained, judged: Judged) -> Judged:
    """Without the partition that the judge chose, and the classifiers that came with it."""
    whole = Candidate.fixed("one cluster", WholeSpace(), problem.labeled)
    rows = trained.labeled_rows(problem)
    trial = try_candidate(problem, trained, whole)
    number = choose([trial], rows)
    assert judged.table is not None
    # No shift is the first line of the table, one cluster the second.
    lines = np.arange(len(judged.table["name"]))
    table = judged.table | {
        "chosen": lines == (0 if number is None else 1),
        "refuted": judged.table["chosen"],
    }
    is_used = number is not None or _is_viewed(problem)
    note = Note(
        f"The judge chose {judged.candidate.name!r}. Most of the population lies in groups without labels, and classifiers that "
        "saw no label of a group do not confirm this choice: "
        f"{'one cluster is used' if is_used else 'none of its shifts is used'}."
    )
    return Judged(trained, whole, trial if number == 0 else _plain(trial, rows), table, (note,))


def _plain(trial: Tried, rows: LabeledRows) -> Trial:
    assert isinstance(trial, Trial)
    return without_shift(trial, rows)


def nothing_confirmed(problem: Problem, trials: Sequence[Tried], rows: LabeledRows) -> Note:
    """Why space is not cut, and what becomes of the shifts."""
    then = "One cluster is used." if _is_viewed(problem) else "None of these shifts is used."
    return Note(f"{why_none(trials, rows)} {then}")


def _is_viewed(problem: Problem) -> bool:
    """Whether views of a shift are weighed each by itself: what is used of them is then said with them."""
    return problem.settings.trust == "learned" and problem.settings.shrinkage == "hierarchical"


def _differs_by_group(rows: LabeledRows, cluster: IntArray) -> bool:
    """Whether labels differ between groups in the finest clusters: if not, no partition has shifts to show."""
    n_clusters = int(cluster.max()) + 1
    # Calibrated in each cluster: what the classifier misses of all groups alike is no shift.
    log_odds = rows.calibrated(cluster, n_clusters)
    cell = rows.group * n_clusters + cluster
    return dispersion(log_odds, rows.y, rows.weight, cell, rows.n_groups * n_clusters) > MIN_DISPERSION


def _trials(
    rows: LabeledRows, trained: Trained, candidates: Sequence[Candidate]
) -> AbstractContextManager[Iterator[Iterator[Tried]]]:
    """A block in which there are trials of the candidates, as one batch; see `ahead`."""
    own = trained.judged
    cut = [
        (c.cluster[own], c.n_clusters, None if c.held_out is None else c.held_out.take(own))
        for c in candidates
    ]
    return ahead(partial(_try, rows), [cut], is_python=True)


def _try(rows: LabeledRows, cut: tuple[IntArray, int, HeldOutClusters | None]) -> Tried:
    cluster, n_clusters, held_out = cut
    if held_out is None:
        return try_partition(rows, cluster, n_clusters)
    return try_held_out(rows, held_out.fold, held_out.clusters, n_clusters)


def _described(problem: Problem, judged: Judged) -> Judged:
    """The choice in sentences."""
    assert judged.trial is not None
    assert judged.table is not None
    trust = problem.settings.trust
    stated = "" if trust == "learned" else f"; you set it to {trust:.2f}"
    n_candidates = len(judged.table["name"]) - 1
    notes = [
        Note(
            f"The judge chose {judged.candidate.name!r} of {n_candidates} candidate{'s' * (n_candidates > 1)}, "
            f"with trust {judged.trial.trust.value:.2f}{stated}."
        )
    ]
    if isinstance(judged.trained.estimator, PerClusterClassifier):
        notes.append(PER_CLUSTER)
    return replace(judged, notes=tuple(notes))


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
    everyone = np.arange(len(problem.y))
    batches = [sets[:1], sets[1:], [everyone]]
    # Others go on with the next batch while this process looks at one.
    with fits_ahead(finer, problem.labeled, problem.y, batches) as trained_later:
        models = next(trained_later)
        if not promises(problem, judged, models[0], edge):
            return None
        models += next(trained_later)
        score = out_of_fold_scores(models, problem.labeled.features, trained.fold, edge, candidate.cluster)
        trained = replace(trained, estimator=finer, fold_models=models, last=None, score=score, edge=edge)
        trial = try_candidate(problem, trained, candidate)
        assert judged.trial is not None
        if not confirmed(judged.trial.loss, trial.loss, trained.labeled_rows(problem)):
            return None
        (last,) = next(trained_later)
    return replace(judged, trained=replace(trained, last=last), trial=trial)


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
    score = raw_score(first, features, edge, cluster)
    tried = each_in_python(
        partial(try_partition, cluster=cluster, n_clusters=candidate.n_clusters),
        [part, replace(part, score=score)],
    )
    present, better = (trial.loss for trial in tried)
    return gain(present, better, part)[0] > 0
