"""The judge for several classes: partitions tried on hidden labels by multiclass log loss; Global is always a candidate."""

from dataclasses import dataclass, replace
from typing import Self

from groupshift._fit.judge import can_judge, nothing_confirmed, why_not_judged
from groupshift._fit.pooled import Pooled
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.trials import CandidateTable, candidate_table, choose, without_shift
from groupshift._multi.class_trained import ClassTrained
from groupshift._multi.class_trials import ClassTrial, try_class_partition
from groupshift._regions.candidates import Candidate, given_partitions, kmeans_partitions
from groupshift._regions.partitions import Partition, WholeSpace
from groupshift._rows.progress import counted
from groupshift._rows.workers import at_once


@dataclass(frozen=True)
class ClassJudged:
    """The partition that is used, the classifiers that go with it, and how they did on hidden labels."""

    trained: ClassTrained
    candidate: Candidate
    trial: ClassTrial | None  # None where no labels were hidden
    table: CandidateTable | None = None
    notes: Notes = ()

    def completed(self, problem: Problem) -> Self:
        """With the classifier of all rows trained."""
        return replace(self, trained=self.trained.completed(problem))


def take_fixed_classes(problem: Problem, trained: ClassTrained, partition: Partition) -> ClassJudged:
    """The partition that the settings name; trust is learned with it."""
    candidate = Candidate.fixed("fixed", partition, problem.labeled)
    if problem.settings.trust != "learned" or not can_judge(problem, trained.fold):
        return ClassJudged(trained, candidate, None)
    return ClassJudged(trained, candidate, _try(problem, trained, candidate))


def judge_classes(problem: Problem, pooled: Pooled, trained: ClassTrained) -> ClassJudged:
    """The partition that hidden labels choose: one cluster, k-means, or the user's."""
    whole = Candidate.fixed("one cluster", WholeSpace(), problem.labeled)
    if not can_judge(problem, trained.fold):
        return ClassJudged(trained, whole, None, notes=why_not_judged(problem))
    wanted = problem.settings.partition
    given = wanted if isinstance(wanted, (list, tuple)) else ()
    candidates = given_partitions(problem.labeled, pooled.rows, given)
    candidates += kmeans_partitions(problem.labeled, pooled.rows, pooled.space, problem.seeds)
    rows = trained.labeled_rows(problem)
    tried = at_once(lambda c: _try(problem, trained, c), candidates)
    trials = list(counted(tried, len(candidates), "candidates"))
    chosen = choose(trials, rows)
    table = candidate_table([c.name for c in candidates], trials, chosen, rows)
    if chosen is None:
        plain = without_shift(trials[0], rows)
        return ClassJudged(trained, whole, plain, table, (nothing_confirmed(problem, trials, rows),))
    note = Note(
        f"The judge chose {candidates[chosen].name!r} of {len(candidates)} candidates, "
        f"with trust {trials[chosen].trust.value:.2f}."
    )
    return ClassJudged(trained, candidates[chosen], trials[chosen], table, (note,))


def _try(problem: Problem, trained: ClassTrained, candidate: Candidate) -> ClassTrial:
    rows = trained.labeled_rows(problem)
    return try_class_partition(rows, candidate.cluster[trained.judged], candidate.n_clusters, trained.spread)
