"""Cross-fitted scores of several classifiers, combined by one calibration.

Five folds of examples; every labelled row is scored by models that did not see it. One logistic regression on these scores,
with one weight of at least 0 for each model, is calibration and combination in one. What predicts are models of all
rows, moved so that unlabelled rows have the scores that models of folds would give them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._rows.frames import Features, take_rows
from groupshift._rows.keys import class_order, fold_of, stratified_folds
from groupshift._rows.progress import counted
from groupshift._rows.rows import Rows
from groupshift._rows.workers import at_once
from groupshift._scores.contrasts import expected, log_loss, observed
from groupshift._scores.members import Classifier, fit_classifier, scores_of

N_FOLDS = 5
# Pull of the models' weights towards equal ones, as that many rows of information would have: labels may be few.
STACK_RIDGE = 4.0
# Unlabelled rows that are scored by models of folds, to align models of all rows with them.
ALIGNED_ROWS = 5_000


@dataclass(frozen=True)
class Combination:
    """Scores of several models into one: intercept + Σ weight · score, then moved and stretched (`aligned`)."""

    intercept: FloatArray  # (M,)
    weights: FloatArray  # (n_models,), at least 0
    slope: float = 1.0
    offset: FloatArray | float = 0.0

    def __call__(self, scores: FloatArray) -> FloatArray:
        """(n_rows, n_models, M) to (n_rows, M)."""
        z = self.intercept + np.einsum("njm,j->nm", scores, self.weights)
        return self.offset + self.slope * z


@dataclass(frozen=True)
class Stack:
    """Fitted classifiers and how their scores combine: what scores any row."""

    members: tuple[Classifier, ...]
    combination: Combination
    order: IntArray  # numbers that the classes have for the members
    edge: float

    def __call__(self, features: Features) -> FloatArray:
        """Contrasts of rows, (n_rows, M)."""
        return self.combination(self.member_scores(features))

    def member_scores(self, features: Features) -> FloatArray:
        return np.stack([scores_of(m, features, self.order, self.edge) for m in self.members], 1)


@dataclass(frozen=True)
class CrossFit:
    """Out-of-fold scores of the labelled rows, and the models that they come from."""

    stack: Stack  # models of all rows
    folds: tuple[Stack, ...]  # models of the rows outside each fold; none where nothing could be held out
    fold: IntArray | None  # (n_labeled,)
    score: FloatArray  # (n_labeled, M), calibrated

    def held_out(self, rows: Rows, seed: int) -> FloatArray:
        """Scores of other rows as labelled rows have theirs, each by the models of one fold."""
        fold = fold_of(rows.lasting_key, len(self.folds), seed)
        score = np.empty((len(rows), self.score.shape[1]))
        for f, stack in enumerate(self.folds):
            own = np.flatnonzero(fold == f)
            if len(own):
                score[own] = stack(take_rows(rows.features, own))
        return score

    def aligned(self, sample: Rows, seed: int) -> "CrossFit":
        """The same, models of all rows moved to the mean and spread that models of folds give unlabelled rows.

        Models of folds have seen fewer labels, and the combination was learned from their scores. What the others say of a new
        row differs a little, which would pass for a shift of all groups.
        """
        if not self.folds or len(sample) < 2:
            return self
        wanted, found = self.held_out(sample, seed), self.stack(sample.features)
        means = [np.average(z, axis=0, weights=sample.weight) for z in (wanted, found)]
        spreads = [
            np.sqrt(np.average(((z - mean) ** 2).sum(1), weights=sample.weight))
            for z, mean in zip((wanted, found), means, strict=True)
        ]
        slope = float(np.clip(spreads[0] / max(spreads[1], 1e-9), 0.5, 2)) if spreads[0] > 1e-9 else 1.0
        combination = replace(self.stack.combination, slope=slope, offset=means[0] - slope * means[1])
        return replace(self, stack=replace(self.stack, combination=combination))


def cross_fit(members: Sequence[Classifier], rows: Rows, y: IntArray, seed: int) -> CrossFit:
    """Train every model outside every fold and on all rows, and combine their out-of-fold scores."""
    n_classes = int(y.max()) + 1
    order = class_order(y, rows.key)
    edge = 1 / (len(y) + 2)
    fewest = min(len(np.unique(rows.key[y == c])) for c in range(n_classes))
    n_folds = min(N_FOLDS, fewest)
    fold = stratified_folds(y, rows.key, n_folds, seed) if n_folds > 1 else None
    everyone = np.arange(len(y))
    sets = [everyone] if fold is None else [np.flatnonzero(fold != f) for f in range(n_folds)] + [everyone]
    tasks = [(member, own) for own in sets for member in members]

    def trained(task: tuple[Classifier, IntArray]) -> Classifier:
        member, own = task
        return fit_classifier(member, take_rows(rows.features, own), order[y[own]], rows.weight[own])

    models = list(counted(at_once(trained, tasks), len(tasks), "fits"))
    n = len(members)
    plain = Combination(np.zeros(n_classes - 1), np.full(n, 1 / n))
    stacks = [Stack(tuple(models[i : i + n]), plain, order, edge) for i in range(0, len(models), n)]
    if fold is None:
        scores = stacks[-1].member_scores(rows.features)
    else:
        scores = np.empty((len(y), n, n_classes - 1))
        for f in range(n_folds):
            own = np.flatnonzero(fold == f)
            scores[own] = stacks[f].member_scores(take_rows(rows.features, own))
    combination = combine(scores, y, rows.weight)
    stacks = [replace(stack, combination=combination) for stack in stacks]
    return CrossFit(stacks[-1], tuple(stacks[:-1]), fold, combination(scores))


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
    x = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-4}).x
    return Combination(x[:M], x[M:])
