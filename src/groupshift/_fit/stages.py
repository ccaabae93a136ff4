"""A fit, stage by stage: each takes values and returns a value, and to reject a step is to drop its value."""

from dataclasses import dataclass

from groupshift._fit.classifiers import PerClusterClassifier
from groupshift._fit.estimate import Estimate, estimate
from groupshift._fit.fixed_partition import fixed_partition
from groupshift._fit.hidden_groups import hide_groups, survives_hiding
from groupshift._fit.judge import Judged, back_to_one_cluster, begin_candidates, judge, take_fixed
from groupshift._fit.learned import Settled, settle
from groupshift._fit.left_out import leave_out_identifying
from groupshift._fit.pooled import Pooled, pool_rows
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.refine import Fitted, refine
from groupshift._fit.trained import Trained, choose_estimator, first_look, train
from groupshift._rows.frames import some
from groupshift._rows.progress import begin

# How the note on columns begins that nothing can be learned from.
LEFT_OUT = "Left out:"


@dataclass(frozen=True)
class Finished:
    """A whole fit."""

    pooled: Pooled
    trained: Trained  # the first classifiers, before clusters or unlabelled rows had a part in them: Global
    judged: Judged
    settled: Settled
    estimate: Estimate
    notes: Notes


def run(problem: Problem) -> Finished:
    """Train, cut space, judge, settle, estimate, learn from unlabelled rows."""
    verbose = problem.settings.verbose
    with first_look(problem) as first:
        pooled = pool_rows(problem)
        partition, partition_notes = fixed_partition(problem, pooled)
        estimator = choose_estimator(problem)
        if problem.settings.per_cluster and partition is not None:
            estimator, first = PerClusterClassifier(estimator, partition, problem.encoder), None
        with begin_candidates(problem, pooled, partition) as begun:
            begin("training the classifier", verbose)
            trained = train(problem, estimator, partition, first)
            trained = leave_out_identifying(problem, pooled, trained, partition)
            if partition is None:
                begin("judging partitions on hidden labels", verbose)
                judged = judge(problem, pooled, trained, begun)
            else:
                judged = take_fixed(problem, trained, partition)
    judged = judged.completed(problem)
    hidden = hide_groups(problem, pooled, judged)
    if hidden is not None and not survives_hiding(problem, judged, hidden):
        is_same_classifier = judged.trained.estimator is trained.estimator
        # One that has been trained on all rows already is not trained again.
        plain = judged.trained if is_same_classifier else trained
        judged = back_to_one_cluster(problem, plain, judged).completed(problem)
        hidden = hidden.in_one_cluster() if is_same_classifier else hide_groups(problem, pooled, judged)
    settled = settle(problem, pooled, judged, hidden)
    begin("estimating shares", verbose)
    fitted = Fitted(
        judged, settled, estimate(settled.learned, problem.population, problem.groups, problem.known)
    )
    fitted, refinement_notes = refine(problem, pooled, fitted, hidden)
    notes = (
        *data_notes(problem),
        *pooled.notes,
        *partition_notes,
        *trained.notes,
        *judged.notes,
        *fitted.settled.notes,
        *refinement_notes,
    )
    return Finished(pooled, trained, fitted.judged, fitted.settled, fitted.estimate, notes)


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
