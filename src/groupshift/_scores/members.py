"""Classifiers that scores are made of: the default two, or the user's, trained on labelled rows in one place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from groupshift._data.encoder import Space
from groupshift._data.frames import Features, take_rows, with_some_value
from groupshift._data.problem import Classifier
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._scores.contrasts import basis, contrasts, expected, log_loss, observed, probabilities

# The boosted trees of the stack.
LEARNING_RATE, LEAVES, TREES, FEATURES_OF_A_CUT, LEAF_RIDGE = 0.06, 15, 120, 0.5, 1.0
# Log-odds beyond it say no more.
LARGEST_SCORE = 15.0
# Log-odds outside the edge that n rows support lie within a tenth of it: enough for their order.
BESIDE = 0.02
# Penalty on half the squared coefficients of standardized features.
RIDGE = 3.0
# Standardized features lie within it.
FARTHEST = 20.0
MOST_STEPS = 200


def fit_linear(
    F: FloatArray,
    y: IntArray,
    weight: FloatArray,
    *,
    n_contrasts: int,
    offset: FloatArray | None = None,
    ridge: float = RIDGE,
    intercept_ridge: float = 0.0,
) -> FloatArray:
    """Coefficients (1 + n_features, M), the intercept first; `offset` (n_rows, M) is added to the scores.

    >>> F, y = np.array([[-1.0], [1.0]] * 50), np.array([0, 1] * 50)
    >>> (fit_linear(F, y, np.ones(100), n_contrasts=1).round(2) + 0.0).tolist()
    [[0.0], [2.51]]
    """
    n_features = F.shape[1]
    label, base = observed(y, n_contrasts), np.zeros((len(y), n_contrasts)) if offset is None else offset
    penalty = np.full((1 + n_features, 1), ridge)
    penalty[0] = intercept_ridge

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        b = flat.reshape(-1, n_contrasts)
        z = base + b[0] + F @ b[1:]
        away = weight[:, None] * (expected(z) - label)
        value = weight @ log_loss(z, y) + 0.5 * (penalty * b**2).sum()
        return float(value), (np.vstack([away.sum(0), F.T @ away]) + penalty * b).ravel()

    start = np.zeros((1 + n_features) * n_contrasts)
    # A gradient of a hundredth of a row moves no probability that anyone could see.
    options = {"maxiter": MOST_STEPS, "gtol": 1e-3, "ftol": 1e-10}
    result: FloatArray = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x.reshape(
        -1, n_contrasts
    )
    return result


def standardized(space: Space, matrix: NDArray[np.floating]) -> FloatArray:
    """Features of rows for a linear model; far outliers are clipped."""
    return np.clip(space.transform(matrix), -FARTHEST, FARTHEST)


class LinearClassifier(BaseEstimator):
    """Ridge logistic regression on standardized features: categories one-hot, missing values at the mean."""

    def __init__(self, is_category: BoolArray, ridge: float = RIDGE):
        self.is_category = is_category
        self.ridge = ridge

    def fit(self, features: FloatArray, y: IntArray, sample_weight: FloatArray | None = None) -> Self:
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.classes_ = np.unique(y)
        self.space_ = Space().fit(features, weight, self.is_category)
        F = standardized(self.space_, features)
        number = np.searchsorted(self.classes_, y)
        self.coef_ = fit_linear(F, number, weight, n_contrasts=len(self.classes_) - 1, ridge=self.ridge)
        return self

    def scores(self, features: FloatArray) -> FloatArray:
        """Contrasts of the classes, (n_rows, M)."""
        result: FloatArray = self.coef_[0] + standardized(self.space_, features) @ self.coef_[1:]
        return result

    def predict_proba(self, features: FloatArray) -> FloatArray:
        return probabilities(self.scores(features))


def default_members(is_category: BoolArray, seed: int) -> list[Classifier]:
    """Boosted trees and a linear model: where one is wrong, the other is wrong in another way.

    Early stopping is off: its validation rows are drawn at random, and would hold copies of training examples.
    """
    trees = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_leaf_nodes=LEAVES,
        max_iter=TREES,
        max_features=FEATURES_OF_A_CUT,
        l2_regularization=LEAF_RIDGE,
        early_stopping=False,
        categorical_features=is_category if is_category.any() else None,
        random_state=seed,
    )
    return [trees, LinearClassifier(is_category)]


def seeded_classifier(estimator: Classifier, seed: int) -> Classifier:
    """An unfitted copy; parts without a seed of their own get one, so that one seed governs everything."""
    copy: Classifier = clone(estimator)
    names = [name for name in copy.get_params() if name.endswith("random_state")]
    copy.set_params(**{name: seed for name in names if copy.get_params()[name] is None})  # type: ignore[attr-defined]
    return copy


def weight_argument(estimator: Classifier) -> str | None:
    """Name under which `estimator.fit` takes row weights; None if it takes none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def fit_classifier(estimator: Classifier, features: Features, y: IntArray, weight: FloatArray) -> Classifier:
    """A fitted clone of `estimator`; equal weights are not passed, so that any classifier serves.

    A frozen estimator, trained elsewhere, is used as it is.
    """
    if isinstance(estimator, FrozenEstimator):
        trained_elsewhere: Classifier = estimator
        return trained_elsewhere
    model: Classifier = clone(estimator)
    features = with_some_value(features)
    weights = {}
    if not np.all(weight == weight[0]):
        argument = weight_argument(model)
        if argument is None:
            raise ValueError(
                f"{type(model).__name__} takes no sample_weight, but rows have different weights. "
                "Use a classifier that takes weights, or leave the weights out."
            )
        weights[argument] = weight
    with _explained(model, features):
        return model.fit(features, y, **weights)


@contextmanager
def _explained(model: Classifier, features: Features) -> Iterator[None]:
    """What a classifier says of a frame that it cannot take, with what to do."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if isinstance(features, np.ndarray):
            raise
        raise type(error)(
            f"{type(model).__name__} cannot take these columns ({error}). Make numbers of them, put a transformer before the "
            "classifier, or use estimator=None, which takes text, dates and missing values."
        ) from error


@dataclass(frozen=True)
class PerCluster:
    """A classifier for each cluster."""

    models: tuple[Classifier, ...]

    def each(
        self, features: Features, cluster: IntArray, answer: Callable[[Classifier, Features], FloatArray]
    ) -> FloatArray:
        """Answers for rows, each by the model of its cluster."""
        places = [np.flatnonzero(cluster == k) for k in range(len(self.models))]
        found = [
            answer(m, take_rows(features, own))
            for m, own in zip(self.models, places, strict=True)
            if len(own)
        ]
        result = np.empty((len(cluster), *found[0].shape[1:])) if found else answer(self.models[0], features)
        for own, values in zip((p for p in places if len(p)), found, strict=True):
            result[own] = values
        return result


def scores_of(
    model: Classifier | PerCluster, features: Features, order: IntArray, edge: float, cluster: IntArray
) -> FloatArray:
    """Contrasts (n_rows, M) of a classifier that was trained on classes renumbered by `order`.

    Probabilities of 0 and 1, which forests give, are held near `edge`: n rows support none closer than 1 in n.
    """
    if isinstance(model, PerCluster):
        nowhere = np.zeros(0, np.int64)
        return model.each(features, cluster, lambda m, own: scores_of(m, own, order, edge, nowhere))
    n_classes = len(order)
    if isinstance(model, (LogisticRegression, HistGradientBoostingClassifier)):
        decides = len(model.classes_) == n_classes
    else:
        decides = (
            not hasattr(model, "predict_proba") and hasattr(model, "decision_function") and n_classes == 2
        )
    if not (decides or isinstance(model, LinearClassifier)):
        check_probabilities(model)
    with _explained(model, features):
        if isinstance(model, LinearClassifier):
            z = model.scores(features)
        elif decides:
            decided: FloatArray = np.asarray(getattr(model, "decision_function")(features), np.float64)  # noqa: B009  # some only predict
            z = decided[:, None] if decided.ndim == 1 else contrasts(decided)
        else:
            z = _of_probabilities(model, features, n_classes, edge)
    z = np.clip(z, -LARGEST_SCORE, LARGEST_SCORE)
    if (order[:-1] < order[1:]).all():
        return z
    # Contrasts of the classes as they are numbered outside.
    B = basis(n_classes - 1)
    return z @ (2 * B[order].T @ B)


def raw_score(model: Classifier | PerCluster, features: Features, cluster: IntArray) -> FloatArray:
    """What Platt scaling is commonly fed with, (n_rows,): a decision function, or else the probability of the second class."""
    if isinstance(model, PerCluster):
        return model.each(features, cluster, lambda m, own: raw_score(m, own, np.zeros(0, np.int64)))
    if isinstance(model, LinearClassifier):
        return model.scores(features)[:, 0]
    with _explained(model, features), parallel_config("sequential"):
        decide = getattr(model, "decision_function", None)
        if decide is not None:
            return np.asarray(decide(features), float)
        check_probabilities(model)
        return np.asarray(model.predict_proba(features), float)[:, 1]


def check_probabilities(model: Classifier) -> None:
    """A fitted classifier gives probabilities; before its fit, some do not know yet whether they will."""
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"{type(model).__name__} has no predict_proba, so it gives no probabilities of classes. Pass a classifier that does, "
            "or make one of it: CalibratedClassifierCV of scikit-learn."
        )


def _of_probabilities(model: Classifier, features: Features, n_classes: int, edge: float) -> FloatArray:
    # A forest on several threads adds up its trees in the order in which they end, and the last bits with it.
    with parallel_config("sequential"):
        found = np.asarray(model.predict_proba(features), float)
    p = np.zeros((len(found), n_classes))
    p[:, np.asarray(getattr(model, "classes_", np.arange(n_classes)), np.int64)] = found
    log_p = np.log(np.maximum(p, 1e-15))
    if n_classes > 2:
        return contrasts(np.maximum(log_p, np.log(edge)))
    return held(log_p[:, 1] - log_p[:, 0], edge)[:, None]


def held(log_odds: FloatArray, edge: float) -> FloatArray:
    """Log-odds as they are inside the edge; outside, all of them next to it, in their order.

    >>> held(np.array([0.0, 3.0, 30.0]), edge=0.01).round(2).tolist()
    [0.0, 3.0, 4.66]
    """
    limit = logit(1 - edge)
    excess = np.maximum(np.abs(log_odds) - limit, 0)
    clipped: FloatArray = np.clip(log_odds, -limit, limit) + np.sign(log_odds) * BESIDE * np.log1p(excess)
    return clipped
