"""What the paper compares with, by name: `METHODS["coral"](estimator, **settings)` is an unfitted classifier.

Five of the paper's methods are `GroupShiftClassifier` with other arguments; one-hot groups and CORAL are ideas of their own.
"""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from groupshift._math.alignment import recolor, whiten
from groupshift._regions.space import Space
from groupshift._rows.checks import DegradedWarning, check_features, check_labels, check_weights, split_groups
from groupshift._rows.codes import Codes
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.rows import CHUNK_ROWS
from groupshift.classifier import GroupShiftClassifier

# Unaware of groups: one classifier, calibrated, no shift.
PLAIN = {"partition": 1, "shares": None, "shrinkage": "none", "trust": 1.0, "refine": 0, "per_cluster": False}


class _Grouped(ClassifierMixin, BaseEstimator):
    """What the two baselines with an idea of their own share: reading, and learning from labelled rows alone."""

    def __init__(
        self,
        estimator=None,
        *,
        calibration="holdout",
        group=None,
        unlabeled_value=-1,
        n_jobs=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.calibration = calibration
        self.group = group
        self.unlabeled_value = unlabeled_value
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _read(self, X, groups, *, fit: bool):
        X = check_features(X, allow_nan=True)
        features, groups = split_groups(X, groups, self.group, X.shape[0])
        if groups is None:
            raise ValueError(
                f"{type(self).__name__} needs groups. Pass groups=, or group= naming a column of X."
            )
        if fit:
            self.encoder_ = FeatureEncoder().fit(features)
        return self.encoder_.transform(features), groups

    def _plain(self, X, y, weight, example_ids):
        """A calibrated classifier of labelled rows."""
        settings = {
            **PLAIN,
            "calibration": self.calibration,
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
        }
        with warnings.catch_warnings():
            # That there are no unlabelled rows here is on purpose.
            warnings.simplefilter("ignore", DegradedWarning)
            return _forest_method(self.estimator, **settings).fit(
                X, y, sample_weight=weight, example_ids=example_ids
            )

    def predict(self, X, groups=None):
        """The likelier class of each row."""
        return self.classes_[(self.predict_proba(X, groups)[:, 1] > 0.5).astype(int)]


class GroupAwareClassifier(_Grouped):
    """One classifier of features and one-hot groups (Group-Aware Global)."""

    def fit(self, X, y, groups=None, *, sample_weight=None, example_ids=None):
        matrix, groups = self._read(X, groups, fit=True)
        labels, self.classes_ = check_labels(y, self.unlabeled_value, len(matrix))
        known = np.flatnonzero(labels >= 0)
        self.codes_ = Codes().fit(groups[known])
        weight = check_weights(sample_weight, len(matrix))[known]
        ids = None if example_ids is None else np.asarray(example_ids)[known]
        self.model_ = self._plain(self._with_groups(matrix[known], groups[known]), labels[known], weight, ids)
        return self

    def predict_proba(self, X, groups=None):
        """Probabilities of the two classes; a group without labelled rows has no column of its own."""
        check_is_fitted(self)
        matrix, groups = self._read(X, groups, fit=False)
        # One-hot columns are many: a chunk at a time keeps them out of memory.
        parts = [slice(start, start + CHUNK_ROWS) for start in range(0, len(matrix), CHUNK_ROWS)]
        return np.concatenate(
            [self.model_.predict_proba(self._with_groups(matrix[p], groups[p])) for p in parts]
        )

    def _with_groups(self, matrix, groups):
        one_hot = self.codes_.transform(groups)[:, None] == np.arange(len(self.codes_.values_))
        return np.hstack([matrix, one_hot.astype(matrix.dtype)])


class CoralClassifier(_Grouped):
    """For each group, a classifier of labelled rows whose features are aligned to the group's (CORAL; Sun et al., 2016)."""

    def fit(self, X, y, groups=None, *, sample_weight=None, example_ids=None):
        matrix, groups = self._read(X, groups, fit=True)
        labels, self.classes_ = check_labels(y, self.unlabeled_value, len(matrix))
        weight = check_weights(sample_weight, len(matrix))
        known = np.flatnonzero(labels >= 0)
        self.space_ = Space().fit(matrix, weight, self.encoder_.is_category)
        embedded = self.space_.transform(matrix)
        self.codes_ = Codes().fit(groups[labels < 0] if (labels < 0).any() else groups)
        code = np.where(labels < 0, self.codes_.transform(groups), -1)
        ids = None if example_ids is None else np.asarray(example_ids)[known]
        source, y_known, w_known = embedded[known], labels[known], weight[known]
        white = whiten(source, weight=w_known)
        self.unaligned_ = self._plain(source, y_known, w_known, ids)
        self.models_ = Parallel(n_jobs=self.n_jobs)(
            delayed(self._aligned)(white, embedded[code == g], weight[code == g], y_known, w_known, ids)
            for g in range(len(self.codes_.values_))
        )
        return self

    def _aligned(self, white, target, target_weight, y, weight, ids):
        if len(target) < 2:
            # One row has no covariance to align to.
            return None
        return self._plain(recolor(white, target, weight=target_weight), y, weight, ids)

    def predict_proba(self, X, groups=None):
        """Probabilities of the two classes, each row by its group's classifier; unaligned for unseen groups."""
        check_is_fitted(self)
        matrix, groups = self._read(X, groups, fit=False)
        embedded = self.space_.transform(matrix)
        code = self.codes_.transform(groups)
        probability = np.empty((len(matrix), 2))
        for g in np.unique(code):
            model = self.models_[g] if g >= 0 and self.models_[g] is not None else self.unaligned_
            probability[code == g] = model.predict_proba(embedded[code == g])
        return probability


def _forest_method(estimator: Any = None, **settings: Any) -> GroupShiftClassifier:
    return GroupShiftClassifier.published(estimator, **settings)


def _published_variant(**fixed: Any) -> Callable[..., GroupShiftClassifier]:
    def make(estimator: Any = None, **settings: Any) -> GroupShiftClassifier:
        return _forest_method(estimator, **{**fixed, **settings})

    return make


def _true_clustering(
    estimator: Any = None, *, partition: Any = None, **settings: Any
) -> GroupShiftClassifier:
    if partition is None:
        raise ValueError(
            "The oracle is told the generating partition. Pass partition=, a fitted clusterer such as the `partition` of a "
            "generated sample."
        )
    return _forest_method(estimator, partition=partition, **settings)


def _own(kind: type) -> Callable[..., Any]:
    def make(estimator: Any = None, **settings: Any) -> Any:
        if estimator is None:
            estimator = GroupShiftClassifier.published(n_jobs=settings.get("n_jobs")).estimator
        return kind(estimator, **settings)

    return make


METHODS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "global": _published_variant(**PLAIN),
        "group_aware_global": _own(GroupAwareClassifier),
        "cluster_global": _published_variant(shares=None),
        "label_shift": _published_variant(partition=1, per_cluster=False),
        "coral": _own(CoralClassifier),
        "published": _published_variant(),
        "true_clustering": _true_clustering,
        "groupshift": GroupShiftClassifier,
    }
)
