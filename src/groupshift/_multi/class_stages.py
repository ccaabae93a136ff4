"""A fit of more than two classes, stage by stage: the values are those of two classes with a column for each class."""

from dataclasses import dataclass

import numpy as np

from groupshift._fit.fixed_partition import fixed_partition
from groupshift._fit.pooled import Pooled, pool_rows
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._fit.stages import data_notes
from groupshift._math.arrays import ValueArray
from groupshift._multi.class_estimate import ClassEstimate, estimate_classes
from groupshift._multi.class_judge import ClassJudged, judge_classes, take_fixed_classes
from groupshift._multi.class_learned import ClassSettled, settle_classes
from groupshift._multi.class_trained import ClassTrained, train_classes
from groupshift._rows.progress import begin

NO_REFINEMENT = Note("Learning from unlabelled rows is for two classes; with more, no rounds are made.")


@dataclass(frozen=True)
class ClassFinished:
    """A whole fit of several classes."""

    pooled: Pooled
    trained: ClassTrained
    judged: ClassJudged
    settled: ClassSettled
    estimate: ClassEstimate
    notes: Notes


def run_classes(problem: Problem, classes: ValueArray) -> ClassFinished:
    """Train, cut space, judge, settle, estimate."""
    _check_problem(problem, classes)
    verbose = problem.settings.verbose
    pooled = pool_rows(problem)
    partition, partition_notes = fixed_partition(problem, pooled)
    begin("training the classifier", verbose)
    trained = train_classes(problem, partition if problem.settings.per_cluster else None)
    if partition is None:
        begin("judging partitions on hidden labels", verbose)
        judged = judge_classes(problem, pooled, trained)
    else:
        judged = take_fixed_classes(problem, trained, partition)
    judged = judged.completed(problem)
    settled = settle_classes(problem, pooled, judged)
    begin("estimating shares", verbose)
    estimate = estimate_classes(settled.learned, problem.population, problem.groups, classes, problem.known)
    notes = (
        *data_notes(problem),
        *pooled.notes,
        *partition_notes,
        *judged.notes,
        *((NO_REFINEMENT,) if problem.settings.refine not in ("auto", 0) else ()),
    )
    return ClassFinished(pooled, trained, judged, settled, estimate, notes)


def _check_problem(problem: Problem, classes: ValueArray) -> None:
    """What several classes need and two do not."""
    if problem.settings.shares in ("bbse-hard", "bbse-soft"):
        raise ValueError(
            f"shares={problem.settings.shares!r} is for two classes, and the labels have {len(classes)}. Pass 'mlls' or 'em'."
        )
    examples = [len(np.unique(problem.labeled.key[problem.y == c])) for c in range(len(classes))]
    alone = [name for name, count in zip(classes.tolist(), examples, strict=True) if count < 2]
    if alone:
        shown = ", ".join(map(repr, alone[:5])) + ("…" if len(alone) > 5 else "")
        raise ValueError(
            f"{'Class' if len(alone) == 1 else 'Classes'} {shown} of {len(classes)} {'has' if len(alone) == 1 else 'have'} one "
            "labelled example only, which cannot be both learned from and checked. Add labelled rows, join it with another "
            "class, or leave it out."
        )
