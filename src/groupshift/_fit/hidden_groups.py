"""Scores of labelled groups by classifiers that saw none of their labels: as groups without labels will be scored."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from groupshift._fit.classifiers import fit_sets, out_of_fold_scores
from groupshift._fit.judge import Judged
from groupshift._fit.pooled import Pooled
from groupshift._fit.problem import Problem
from groupshift._fit.trained import Trained, training_sets
from groupshift._fit.trials import confirmed, try_log_odds
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.calibration import PlattScaling
from groupshift._rows.keys import uniform_keys
from groupshift._rows.progress import begin

# A third of the groups hidden at a time: their classifiers see nearly as much as the last one does.
N_FOLDS = 3
# Each fold is calibrated by itself, which takes two groups; fewer would be told their own share.
MIN_GROUPS_A_FOLD = 2


@dataclass(frozen=True)
class HiddenGroups:
    """Judged rows, each scored by a classifier that saw no row of its group."""

    plain: FloatArray  # (n_judged,): log-odds, one calibration for all clusters
    log_odds: FloatArray  # (n_judged,): log-odds, calibrated in each cluster
    is_rule: bool  # whether most of the population lies in groups without labels

    def in_one_cluster(self) -> Self:
        return replace(self, log_odds=self.plain)


def hide_groups(problem: Problem, pooled: Pooled, judged: Judged) -> HiddenGroups | None:
    """Scores with whole groups hidden; None where nobody asks for them, or none can be hidden.

    They are asked for where the population has groups without labels, and where the classifier sees features that tell the group:
    it has then learned by heart how the labels of each group were chosen, and hidden labels only confirm that.

    Classifiers of different groups differ in their level, which groups of one fold would share as if it were theirs. So each
    fold's classifier is calibrated on the rows that it is asked about.
    """
    trained, candidate = judged.trained, judged.candidate
    is_asked_for = bool(pooled.without_labels or knows_groups(pooled, trained))
    fold = folds_of_groups(problem, trained) if is_asked_for and judged.trial is not None else None
    if fold is None:
        return None
    begin("training with whole groups hidden", problem.settings.verbose)
    models = fit_sets(trained.estimator, problem.labeled, problem.y, training_sets(fold))
    score = out_of_fold_scores(models, problem.labeled.features, fold, trained.edge, candidate.cluster)
    return HiddenGroups(
        calibrated_by_fold(problem, score, fold, np.zeros(len(fold), np.int64), 1),
        calibrated_by_fold(problem, score, fold, candidate.cluster, candidate.n_clusters),
        pooled.without_labels > 0.5,
    )


def survives_hiding(problem: Problem, judged: Judged, hidden: HiddenGroups) -> bool:
    """Whether the judge's partition still predicts labels of hidden groups better than no shift and one cluster do.

    Asked where it was the judge's choice, and most of the population lies in groups without labels. A single question of a
    partition that others have been sorted out for: a standard error is enough.
    """
    candidate = judged.candidate
    if not hidden.is_rule or judged.table is None or candidate.n_clusters == 1:
        return True
    rows = judged.trained.labeled_rows(problem)
    whole = try_log_odds(rows, hidden.plain, np.zeros_like(candidate.cluster), 1)
    cut = try_log_odds(rows, hidden.log_odds, candidate.cluster, candidate.n_clusters)
    return all(confirmed(loss, cut.loss, rows) for loss in (whole.plain, whole.loss))


def knows_groups(pooled: Pooled, trained: Trained) -> bool:
    """Whether the classifier sees features that tell which group a row is of."""
    return bool(set(pooled.identifying) - set(trained.left_out))


def folds_of_groups(problem: Problem, trained: Trained) -> IntArray | None:
    """Folds of labelled rows that hold whole groups; None where none can be hidden."""
    if len(trained.judged) < len(problem.y):
        return None
    n_folds = min(N_FOLDS, problem.n_labeled_groups // MIN_GROUPS_A_FOLD)
    if n_folds < 2:
        return None
    fold = balanced_folds(problem.labeled.group, n_folds, problem.seeds.named("hidden groups"))
    counts = np.bincount(2 * fold + problem.y, minlength=2 * n_folds).reshape(-1, 2)
    return None if (counts.sum(0) - counts == 0).any() or (counts == 0).any() else fold


def balanced_folds(group: IntArray, n_folds: int, seed: int) -> IntArray:
    """Folds of rows that hold whole groups and about as many rows each: the largest groups first, each to the smallest fold.

    >>> balanced_folds(np.array([0, 0, 0, 1, 2, 3]), 2, seed=0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    size = np.bincount(group)
    order = np.lexsort((uniform_keys(np.arange(len(size), dtype=np.uint64), seed), -size))
    rows, fold = np.zeros(n_folds), np.zeros(len(size), np.int64)
    for g in order:
        fold[g] = rows.argmin()
        rows[fold[g]] += size[g]
    return fold[group]


def calibrated_by_fold(
    problem: Problem, score: FloatArray, fold: IntArray, cluster: IntArray, n_clusters: int
) -> FloatArray:
    y, weight = problem.y, problem.labeled.weight
    log_odds = np.empty(len(score))
    for f in range(int(fold.max()) + 1):
        own = fold == f
        platt = PlattScaling().fit(score[own], y[own], weight[own], cluster[own], n_clusters)
        log_odds[own] = platt.transform(score[own], cluster[own])
    return log_odds
