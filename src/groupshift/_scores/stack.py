"""Held-out scores of labelled rows by several classifiers, combined by one calibration, and what scores any other row.

Five folds of examples; every labelled row is scored by models that did not see it. One logistic regression on these scores,
with one weight of at least 0 for each model, is calibration and combination in one. What predicts are models of all
rows, moved so that unlabelled rows have the scores that models of folds would give them. The article holds out a fifth of the
examples instead, once, and has a line for each cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from groupshift._article import hold_out, platt_lines, training_rows
from groupshift._data.frames import Features, take_rows
from groupshift._data.keys import class_order, fold_of, stratified_folds
from groupshift._data.problem import Classifier
from groupshift._data.progress import counted
from groupshift._data.rows import Rows
from groupshift._data.workers import at_once
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._scores.contrasts import expected, log_loss, observed
from groupshift._scores.members import PerCluster, fit_classifier, fit_linear, raw_score, scores_of

N_FOLDS = 5
# Pull of the models' weights towards equal ones, as that many rows of information would have: labels may be few.
STACK_RIDGE = 4.0
# Unlabelled rows that are scored by models of folds, to align models of all rows with them.
ALIGNED_ROWS = 5_000
# Prior standard deviations of a cluster's line around the line of all rows, the slope's relative to that line's slope.
SLOPE_SPREAD, INTERCEPT_SPREAD = 0.3, 1.0


@dataclass(frozen=True)
class Combination:
    """Scores of several models into one: intercept + Σ weight · score, then moved and stretched (`HeldOutScores.aligned`)."""

    intercept: FloatArray  # (M,)
    weights: FloatArray  # (n_models,), at least 0
    slope: float
    offset: FloatArray  # (M,)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """(n_rows, n_models, M) to (n_rows, M)."""
        z = self.intercept + np.einsum("njm,j->nm", scores, self.weights)
        result: FloatArray = self.offset + self.slope * z
        return result


@dataclass(frozen=True)
class Stack:
    """Fitted classifiers and how their scores combine: contrasts (n_rows, M) of any rows."""

    members: tuple[Classifier | PerCluster, ...]
    combination: Combination
    order: IntArray  # numbers that the classes have for the members
    edge: float

    def __call__(self, features: Features, cluster: IntArray) -> FloatArray:
        return self.combination(self.member_scores(features, cluster))

    def member_scores(self, features: Features, cluster: IntArray) -> FloatArray:
        return np.stack([scores_of(m, features, self.order, self.edge, cluster) for m in self.members], 1)


@dataclass(frozen=True)
class ClusterLines:
    """A classifier, or one for each cluster, and a line from its scores to log-odds for each cluster, as in the article."""

    member: Classifier | PerCluster
    lines: FloatArray  # (n_clusters, 2): slope and intercept

    def __call__(self, features: Features, cluster: IntArray) -> FloatArray:
        slope, intercept = self.lines[cluster].T
        result: FloatArray = (slope * raw_score(self.member, features, cluster) + intercept)[:, None]
        return result


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of labelled rows by models that did not see them, and the models."""

    scorer: Stack | ClusterLines  # of any other row
    folds: tuple[
        Stack, ...
    ]  # models of the rows outside each fold; none where one part is held out, or nothing
    rows: IntArray  # labelled rows that have a held-out score
    fold: IntArray | None  # of these rows; None where nothing could be held out
    score: FloatArray  # (n_held_out, M), calibrated

    def by_fold(self, features: Features, cluster: IntArray, fold: IntArray) -> FloatArray:
        """Scores of rows by the models of their folds."""
        if not self.folds:
            return self.scorer(features, cluster)
        score = np.empty((len(fold), self.score.shape[1]))
        for f, stack in enumerate(self.folds):
            own = np.flatnonzero(fold == f)
            if len(own):
                score[own] = stack(take_rows(features, own), cluster[own])
        return score

    def aligned(self, sample: Rows, cluster: IntArray, seed: int) -> "HeldOutScores":
        """The same, models of all rows moved to the mean and spread that models of folds give unlabelled rows.

        Models of folds have seen fewer labels, and the combination was learned from their scores. What the others say of a new
        row differs a little, which would pass for a shift of all groups.
        """
        if not self.folds or not isinstance(self.scorer, Stack) or len(sample) < 2:
            return self
        fold = fold_of(sample.lasting_key, len(self.folds), seed)
        wanted, found = self.by_fold(sample.features, cluster, fold), self.scorer(sample.features, cluster)
        means = [np.average(z, axis=0, weights=sample.weight) for z in (wanted, found)]
        spreads = [
            np.sqrt(np.average(((z - mean) ** 2).sum(1), weights=sample.weight))
            for z, mean in zip((wanted, found), means, strict=True)
        ]
        slope = float(np.clip(spreads[0] / max(spreads[1], 1e-9), 0.5, 2)) if spreads[0] > 1e-9 else 1.0
        combination = replace(self.scorer.combination, slope=slope, offset=means[0] - slope * means[1])
        return replace(self, scorer=replace(self.scorer, combination=combination))


def cross_fit(
    members: Sequence[Classifier],
    rows: Rows,
    y: IntArray,
    cluster: IntArray | None,
    n_clusters: int,
    seed: int,
) -> HeldOutScores:
    """Train every model outside every fold and on all rows, and combine their out-of-fold scores.

    `cluster`: of the rows, where each cluster has classifiers of its own.
    """
    n_classes, everyone = int(y.max()) + 1, np.arange(len(y))
    fewest = min(len(np.unique(rows.key[y == c])) for c in range(n_classes))
    n_folds = min(N_FOLDS, fewest)
    fold = stratified_folds(y, rows.key, n_folds, seed) if n_folds > 1 else None
    sets = [everyone] if fold is None else [np.flatnonzero(fold != f) for f in range(n_folds)] + [everyone]
    order = class_order(y, rows.key)
    plain = Combination(
        np.zeros(n_classes - 1), np.full(len(members), 1 / len(members)), 1.0, np.zeros(n_classes - 1)
    )
    trained = _train(members, rows, order[y], cluster, n_clusters, sets)
    stacks = [Stack(models, plain, order, 1 / (len(y) + 2)) for models in trained]
    place = np.zeros(len(y), np.int64) if cluster is None else cluster
    if fold is None:
        scores = stacks[-1].member_scores(rows.features, place)
    else:
        scores = np.empty((len(y), len(members), n_classes - 1))
        for f in range(n_folds):
            own = np.flatnonzero(fold == f)
            scores[own] = stacks[f].member_scores(take_rows(rows.features, own), place[own])
    combination = combine(scores, y, rows.weight)
    stacks = [replace(stack, combination=combination) for stack in stacks]
    return HeldOutScores(stacks[-1], tuple(stacks[:-1]), everyone, fold, combination(scores))


def hold_out_once(
    member: Classifier,
    rows: Rows,
    y: IntArray,
    cluster: IntArray,
    n_clusters: int,
    *,
    per_cluster: bool,
    shrinkage: str,
    seed: int,
) -> HeldOutScores:
    """Train on four fifths of the examples, calibrate on the others, as in the article; `cluster`: of the rows.

    With more than two classes, or where cells are pooled, one combination of all rows calibrates.
    """
    n_classes = int(y.max()) + 1
    held = hold_out(rows.key, seed)
    if shrinkage != "none" or not _has_all_classes(y, held):
        # Held-out rows then have each cluster's own share of positives; another share would pass for a shift.
        fewest = min(len(np.unique(rows.key[y == c])) for c in range(n_classes))
        held = stratified_folds(y * n_clusters + cluster, rows.key, min(N_FOLDS, fewest), seed) == 0
    judged, rest = np.flatnonzero(held), np.flatnonzero(~held)
    order = np.arange(n_classes)
    [(model,)] = _train([member], rows, y, cluster if per_cluster else None, n_clusters, [rest])
    own, labels, weight, place = (
        take_rows(rows.features, judged),
        y[judged],
        rows.weight[judged],
        cluster[judged],
    )
    fold = stratified_folds(labels, rows.key[judged], 2, seed)
    if n_classes == 2 and shrinkage != "hierarchical":
        lines_of = platt_lines if shrinkage == "none" else pooled_lines
        lines = lines_of(raw_score(model, own, place), labels, weight, place, n_clusters)
        scorer = ClusterLines(model, lines)
        return HeldOutScores(scorer, (), judged, fold, scorer(own, place))
    edge = 1 / (len(rest) + 2)
    scores = scores_of(model, own, order, edge, place)[:, None]
    combination = combine(scores, labels, weight)
    return HeldOutScores(Stack((model,), combination, order, edge), (), judged, fold, combination(scores))


def _has_all_classes(y: IntArray, held: BoolArray) -> bool:
    return len(np.unique(y[held])) == len(np.unique(y[~held])) == len(np.unique(y))


def _train(
    members: Sequence[Classifier],
    rows: Rows,
    y: IntArray,
    cluster: IntArray | None,
    n_clusters: int,
    sets: Sequence[IntArray],
) -> list[tuple[Classifier | PerCluster, ...]]:
    """Copies of the members trained on each set of rows; all fits of all sets at once. The one place that trains."""
    if cluster is None:
        parts: list[list[IntArray]] = [[own] for own in sets]
    else:
        found = [training_rows(y[own], cluster[own], n_clusters) for own in sets]
        parts = [
            [own if part is None else own[part] for part in own_parts]
            for own, own_parts in zip(sets, found, strict=True)
        ]
    tasks = [(member, part) for own_parts in parts for member in members for part in own_parts]

    def fitted(task: tuple[Classifier, IntArray]) -> Classifier:
        member, own = task
        return fit_classifier(member, take_rows(rows.features, own), y[own], rows.weight[own])

    models = counted(at_once(fitted, tasks), len(tasks), "fits")
    trained = []
    for own_parts in parts:
        fits = [[next(models) for _ in own_parts] for _ in members]
        trained.append(tuple(own[0] if cluster is None else PerCluster(tuple(own)) for own in fits))
    return trained


def combine(scores: FloatArray, y: IntArray, weight: FloatArray) -> Combination:
    """Intercept and weights of scores (n_rows, n_models, M) that predict labels best, weights at least 0.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 1, 1))
    >>> y = (rng.logistic(size=2000) < z[:, 0, 0]).astype(int)
    >>> combine(2 * z, y, np.ones(2000)).weights.round(1).tolist()
    [0.5]
    """
    n_models, M = scores.shape[1:]
    label = observed(y, M)
    equal = np.full(n_models, 1 / n_models)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        z = x[:M] + np.einsum("njm,j->nm", scores, x[M:])
        away = weight[:, None] * (expected(z) - label)
        pull = STACK_RIDGE * (x[M:] - equal)
        value = weight @ log_loss(z, y) + 0.5 * pull @ (x[M:] - equal)
        return float(value), np.r_[away.sum(0), np.einsum("njm,nm->j", scores, away) + pull]

    bounds = [(None, None)] * M + [(0, None)] * n_models
    start = np.r_[np.zeros(M), equal]
    x = minimize(
        loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-4}
    ).x
    return Combination(x[:M], x[M:], 1.0, np.zeros(M))


def pooled_lines(
    score: FloatArray, y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> FloatArray:
    """Slope and intercept of each cluster's line, pulled towards the line of all rows: (n_clusters, 2)."""
    center, scale = score.mean(), score.std() or 1.0
    F = ((score - center) / scale)[:, None]
    whole = fit_linear(F, y, weight, n_contrasts=1, ridge=1e-2)
    offset = whole[0] + F @ whole[1:]
    ridge = (SLOPE_SPREAD * max(abs(whole[1, 0]), 1e-3)) ** -2.0
    lines = []
    for k in range(n_clusters):
        own = cluster == k
        part = fit_linear(
            F[own],
            y[own],
            weight[own],
            n_contrasts=1,
            offset=offset[own],
            ridge=ridge,
            intercept_ridge=INTERCEPT_SPREAD**-2,
        )
        intercept, slope = (whole + part)[:, 0]
        lines.append((slope / scale, intercept - slope * center / scale))
    return np.array(lines)
