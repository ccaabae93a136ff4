"""What the paper compares with, by name: `METHODS["coral"](estimator, **settings)` is an unfitted classifier.

Five of the paper's methods are `GroupShiftClassifier` with other arguments; one-hot groups and CORAL are ideas of their own.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from groupshift._fit.classifiers import Classifier
from groupshift._math.alignment import recolor, whiten
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._regions.space import Space
from groupshift._rows.checks import (
    DegradedWarning,
    check_features,
    check_labels,
    check_matrix,
    check_weights,
    split_groups,
)
from groupshift._rows.codes import Codes
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.rows import CHUNK_ROWS
from groupshift._rows.workers import at_once, workers
from groupshift.classifier import GroupShiftClassifier

# Unaware of groups: one classifier, calibrated, no shift.
PLAIN: dict[str, Any] = {
    "partition": 1,
    "shares": None,
    "shrinkage": "none",
    "trust": 1.0,
    "refine": 0,
    "per_cluster": False,
}


class _Labels(NamedTuple):
    """Numbers of classes, weights and example ids of the labelled rows."""

    y: IntArray
    weight: FloatArray
    ids: ValueArray | None


class _Grouped(ClassifierMixin, BaseEstimator):
    """What the two baselines with an idea of their own share: reading, and learning from labelled rows alone."""

    def __init__(
        self,
        estimator: Classifier | None = None,
        *,
        calibration: str = "holdout",
        group: str | None = None,
        unlabeled_value: object = -1,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ):
        self.estimator = estimator
        self.calibration = calibration
        self.group = group
        self.unlabeled_value = unlabeled_value
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: object,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled rows; the arguments are those of `GroupShiftClassifier.fit`."""
        matrix, names = self._read(X, groups, fit=True)
        labels, self.classes_ = check_labels(y, self.unlabeled_value, len(matrix))
        weight = check_weights(sample_weight, len(matrix))
        known = labels >= 0
        ids = None if example_ids is None else np.asarray(example_ids)[known]
        with warnings.catch_warnings(), workers(self.n_jobs):
            # That the classifiers inside have no unlabelled rows is on purpose.
            warnings.simplefilter("ignore", DegradedWarning)
            self._learn(matrix, names, weight, known, _Labels(labels[known], weight[known], ids))
        return self

    def predict_proba(self, X: object, groups: ArrayLike | None = None) -> FloatArray:
        """Probabilities of the classes, of shape (n_rows, n_classes)."""
        check_is_fitted(self)
        return self._probabilities(*self._read(X, groups, fit=False))

    def predict(self, X: object, groups: ArrayLike | None = None) -> ValueArray:
        """The likeliest class of each row."""
        number = self.predict_proba(X, groups).argmax(1)
        return np.asarray(self.classes_[number])

    def _read(self, X: object, groups: ArrayLike | None, *, fit: bool) -> tuple[FloatArray, ValueArray]:
        """Features as numbers, and the group name of each row."""
        table = check_features(X)
        features, names = split_groups(table, groups, self.group, table.shape[0])
        if names is None:
            raise ValueError(
                f"{type(self).__name__} needs groups. Pass groups=, or group= naming a column of X."
            )
        if fit:
            self.encoder_ = FeatureEncoder().fit(features)
        matrix = self.encoder_.transform(features).astype(float, copy=False)
        check_matrix(matrix, self.encoder_.names_, None)
        return matrix, names

    def _plain(self, X: FloatArray, labels: _Labels) -> GroupShiftClassifier:
        """A calibrated classifier of labelled rows."""
        common = {"calibration": self.calibration, "n_jobs": self.n_jobs, "random_state": self.random_state}
        model: GroupShiftClassifier = GroupShiftClassifier.published(self.estimator, **PLAIN, **common)
        return model.fit(X, labels.y, sample_weight=labels.weight, example_ids=labels.ids)

    def _learn(
        self, matrix: FloatArray, names: ValueArray, weight: FloatArray, known: BoolArray, labels: _Labels
    ) -> None:
        """Learn from all rows, of which those marked as `known` have labels."""
        raise NotImplementedError

    def _probabilities(self, matrix: FloatArray, names: ValueArray) -> FloatArray:
        raise NotImplementedError


class GroupAwareClassifier(_Grouped):
    """One classifier of features and one-hot groups (Group-Aware Global).

    A group without labelled rows has no column of its own.
    """

    def _learn(
        self, matrix: FloatArray, names: ValueArray, weight: FloatArray, known: BoolArray, labels: _Labels
    ) -> None:
        self.codes_ = Codes().fit(names[known])
        self.model_ = self._plain(self._with_groups(matrix[known], names[known]), labels)

    def _probabilities(self, matrix: FloatArray, names: ValueArray) -> FloatArray:
        # One-hot columns are many: a chunk at a time keeps them out of memory.
        parts = [slice(start, start + CHUNK_ROWS) for start in range(0, len(matrix), CHUNK_ROWS)]
        return np.concatenate(
            [self.model_.predict_proba(self._with_groups(matrix[p], names[p])) for p in parts]
        )

    def _with_groups(self, matrix: FloatArray, names: ValueArray) -> FloatArray:
        one_hot = self.codes_.transform(names)[:, None] == np.arange(len(self.codes_.values_))
        return np.hstack([matrix, one_hot.astype(matrix.dtype)])


class CoralClassifier(_Grouped):
    """For each group, a classifier of labelled rows whose features are aligned to the group's (CORAL; Sun et al., 2016).

    Groups with fewer than two unlabelled rows of any weight at `fit` take a classifier of features as they are.
    """

    def _learn(
        self, matrix: FloatArray, names: ValueArray, weight: FloatArray, known: BoolArray, labels: _Labels
    ) -> None:
        self.space_ = Space().fit(matrix, weight, self.encoder_.is_category)
        embedded = self.space_.transform(matrix)
        self.codes_ = Codes().fit(names if known.all() else names[~known])
        code = np.where(known, -1, self.codes_.transform(names))
        self.unaligned_ = self._plain(embedded[known], labels)
        white = whiten(embedded[known], labels.weight)

        def aligned(g: int) -> GroupShiftClassifier | None:
            target = np.flatnonzero(code == g)
            if np.count_nonzero(weight[target]) < 2:
                # One row has no covariance to align to.
                return None
            return self._plain(recolor(white, embedded[target], weight[target]), labels)

        self.models_ = list(at_once(aligned, range(len(self.codes_.values_))))

    def _probabilities(self, matrix: FloatArray, names: ValueArray) -> FloatArray:
        embedded = self.space_.transform(matrix)
        code = self.codes_.transform(names)
        probability = np.empty((len(matrix), len(self.classes_)))
        for g in np.unique(code):
            model = self.models_[g] if g >= 0 and self.models_[g] is not None else self.unaligned_
            probability[code == g] = model.predict_proba(embedded[code == g])
        return probability


def _true_clustering(
    estimator: Classifier | None = None, *, partition: object = None, **settings: Any
) -> GroupShiftClassifier:
    if partition is None:
        raise ValueError(
            "The oracle needs the generating partition. Pass partition=, a fitted clusterer such as the `partition` of a "
            "generated sample."
        )
    model: GroupShiftClassifier = GroupShiftClassifier.published(estimator, partition=partition, **settings)
    return model


METHODS: Mapping[str, Callable[..., ClassifierMixin]] = MappingProxyType(
    {
        "global": partial(GroupShiftClassifier.published, **PLAIN),
        "group_aware_global": GroupAwareClassifier,
        "cluster_global": partial(GroupShiftClassifier.published, shares=None),
        "label_shift": partial(GroupShiftClassifier.published, partition=1, per_cluster=False),
        "coral": CoralClassifier,
        "published": GroupShiftClassifier.published,
        "true_clustering": _true_clustering,
        "groupshift": GroupShiftClassifier,
    }
)
