"""Features that tell the group, left out where whole groups that were hidden are predicted better without them."""

from dataclasses import replace

import numpy as np

from groupshift._fit.classifiers import Classifier, fit_sets, out_of_fold_scores
from groupshift._fit.hidden_groups import calibrated_by_fold, folds_of_groups
from groupshift._fit.pooled import Pooled
from groupshift._fit.problem import Note, Problem
from groupshift._fit.trained import Trained, choose_estimator, train, training_sets
from groupshift._fit.trials import confirmed, gain
from groupshift._math.arrays import FloatArray
from groupshift._math.odds import log_loss_rows
from groupshift._regions.partitions import Partition
from groupshift._rows.frames import some
from groupshift._rows.progress import begin


def leave_out_identifying(
    problem: Problem, pooled: Pooled, trained: Trained, partition: Partition | None
) -> Trained:
    """The classifiers, or such as do not see the features that tell the group, if hidden groups are predicted better by these.

    A classifier that sees a school's id scores a school that it never saw by the ids nearest to it. Only the default
    classifier is tried without them: what another one needs, nobody knows.
    """
    names = tuple(pooled.identifying)
    settings = problem.settings
    is_ours = settings.estimator is None and not settings.per_cluster
    if not names or not is_ours or len(names) == len(problem.encoder.names_):
        return trained
    # Where all groups have labels, what tells the group helps as much as these labels can be believed, which no fold shows.
    fold = folds_of_groups(problem, trained) if pooled.without_labels else None
    if fold is None:
        return trained
    begin("training without features that tell the group", settings.verbose)
    without = choose_estimator(problem, small_trees=trained.small_trees, left_out=names)

    def loss(estimator: Classifier) -> FloatArray:
        models = fit_sets(estimator, problem.labeled, problem.y, training_sets(fold))
        score = out_of_fold_scores(models, problem.labeled.features, fold, trained.edge)
        whole = np.zeros(len(fold), np.int64)
        return log_loss_rows(calibrated_by_fold(problem, score, fold, whole, 1), problem.y)

    rows = trained.labeled_rows(problem)
    before, after = loss(trained.estimator), loss(without)
    mean, error = gain(before, after, rows)
    change = f"with whole groups hidden, the log loss changes by {-mean:+.4f} ± {error:.4f} without"
    if not confirmed(before, after, rows):
        note = Note(f"The classifier sees {some(names)}, though this tells the group: {change}.")
        return replace(trained, notes=(*trained.notes, note))
    note = Note(f"The classifier does not see {some(names)}, which tells the group: {change}.")
    better = train(problem, without, partition)
    return replace(better, notes=(*better.notes, note), left_out=names, small_trees=trained.small_trees)
