"""What the article compares with, by name: `METHODS["coral"](estimator, **settings)` is an unfitted classifier.

Five of its methods are `GroupShiftClassifier` with other arguments; one-hot groups and CORAL are ideas of their own.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from groupshift._data.checks import DegradedWarning, accepts_missing, check_features, split_groups
from groupshift._data.codes import Codes, group_numbers
from groupshift._data.encoder import FeatureEncoder, Space
from groupshift._data.frames import Features
from groupshift._data.problem import Classifier
from groupshift._data.reading import ReadOptions, Samples, column_attributes, read_samples
from groupshift._data.rows import CHUNK_ROWS, InMemory, Rows
from groupshift._data.workers import at_once, workers
from groupshift._math.alignment import recolor, whiten
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift.classifier import GroupShiftClassifier

# Unaware of groups: one classifier, calibrated, no shift.
PLAIN: dict[str, Any] = {
    "partition": 1,
    "shares": None,
    "shrinkage": "none",
    "per_cluster": False,
}


def _matrix(rows: Rows) -> FloatArray:
    return rows.matrix.astype(float, copy=False)


class _Grouped(ClassifierMixin, BaseEstimator):
    """What the two baselines with an idea of their own share: reading, and a calibrated classifier of labelled rows.

    Without groups all rows are one group.
    """

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
        X: Features,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled rows; the arguments are those of `GroupShiftClassifier.fit`."""
        options = ReadOptions(self.group, self.unlabeled_value, takes_matrix=True, needs_values=self._needs)
        training = read_samples(options, X, y, groups, sample_weight, example_ids)
        if not training.schema.has_groups:
            warnings.warn("No groups: all rows are one group.", DegradedWarning, stacklevel=2)
        self.schema_, self.classes_ = training.schema, training.schema.classes
        self.__dict__.update(column_attributes(self, training.head))
        with warnings.catch_warnings(), workers(self.n_jobs):
            # That the classifiers inside have no unlabelled rows is on purpose.
            warnings.simplefilter("ignore", DegradedWarning)
            self._learn(training)
        return self

    @property
    def encoder_(self) -> FeatureEncoder:
        return self.schema_.encoder

    def predict_proba(self, X: Features, groups: ArrayLike | None = None) -> FloatArray:
        """Probabilities of the classes, of shape (n_rows, n_classes)."""
        check_is_fitted(self)
        schema = self.schema_
        X = check_features(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        features, names = split_groups(X, groups, self.group, X.shape[0])
        if schema.has_groups and names is None:
            warnings.warn(
                "This model was fitted with groups, but none were given to predict: every row is predicted as one of a group "
                "that is not known. Pass groups=, or fit with group= naming a column of X.",
                UserWarning,
                stacklevel=2,
            )
        number = group_numbers(names, Codes.of(self.groups_), has_groups=schema.has_groups, n_rows=X.shape[0])
        with workers(self.n_jobs):
            return self._probabilities(_matrix(schema.unweighted(features, number)), number)

    def predict(self, X: Features, groups: ArrayLike | None = None) -> ValueArray:
        """The likeliest class of each row."""
        number = self.predict_proba(X, groups).argmax(1)
        return np.asarray(self.classes_[number])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._needs is None
        return tags

    @property
    def _needs(self) -> str | None:
        """The name of the classifier if it takes no missing values."""
        return None if accepts_missing(self.estimator) else type(self.estimator).__name__

    def _plain(self, matrix: FloatArray, training: Samples) -> GroupShiftClassifier:
        """A calibrated classifier of the labelled rows with these features; every one has the same rows held out."""
        common: dict[str, Any] = {
            "calibration": self.calibration,
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
        }
        model: GroupShiftClassifier = GroupShiftClassifier.published(self.estimator, **PLAIN, **common)
        labeled = training.labeled
        return model.fit(matrix, training.y, sample_weight=labeled.weight, example_ids=labeled.key)

    def _learn(self, training: Samples) -> None:
        """Set `groups_`, by which rows to predict are numbered, and what `_probabilities` needs."""
        raise NotImplementedError

    def _probabilities(self, matrix: FloatArray, group: IntArray) -> FloatArray:
        raise NotImplementedError


class GroupAwareClassifier(_Grouped):
    """One classifier of features and one-hot groups (Group-Aware Global).

    A group without labelled rows has no column of its own.
    """

    def _learn(self, training: Samples) -> None:
        self.groups_ = training.labeled_groups
        labeled = training.labeled
        self.model_ = self._plain(self._with_groups(_matrix(labeled), labeled.group), training)

    def _probabilities(self, matrix: FloatArray, group: IntArray) -> FloatArray:
        # One-hot columns are many: a chunk at a time keeps them out of memory.
        parts = [slice(start, start + CHUNK_ROWS) for start in range(0, len(matrix), CHUNK_ROWS)]
        return np.concatenate(
            [self.model_.predict_proba(self._with_groups(matrix[p], group[p])) for p in parts]
        )

    def _with_groups(self, matrix: FloatArray, group: IntArray) -> FloatArray:
        one_hot = group[:, None] == np.arange(len(self.groups_))
        return np.hstack([matrix, one_hot.astype(matrix.dtype)])


class CoralClassifier(_Grouped):
    """For each group, a classifier of labelled rows whose features are aligned to the group's (CORAL; Sun et al., 2016).

    Covariances are those of the features as they are, each plus the identity; with `standardize`, those of features with mean 0
    and variance 1. Missing values are taken for the mean, categories are one-hot. Groups with fewer than two unlabelled rows at
    `fit` take a classifier of features that are not aligned.
    """

    def __init__(
        self,
        estimator: Classifier | None = None,
        *,
        standardize: bool = False,
        calibration: str = "holdout",
        group: str | None = None,
        unlabeled_value: object = -1,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ):
        super().__init__(
            estimator,
            calibration=calibration,
            group=group,
            unlabeled_value=unlabeled_value,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.standardize = standardize

    def _learn(self, training: Samples) -> None:
        labeled, population = training.labeled, training.population
        samples = [labeled]
        if population is not None:
            assert isinstance(population, InMemory)
            samples.append(population.rows)
        matrix, weight = (
            np.concatenate([getattr(s, name) for s in samples]) for name in ("matrix", "weight")
        )
        self.space_ = Space().fit(matrix, weight, self.schema_.encoder.is_category)
        source = self._numbers(_matrix(labeled))
        self.unaligned_ = self._plain(source, training)
        white = whiten(source, labeled.weight)
        unlabeled = samples[-1]

        def aligned(g: int) -> GroupShiftClassifier | None:
            own = unlabeled.take(unlabeled.group == g)
            if len(own) < 2:
                # One row has no covariance to align to.
                return None
            return self._plain(recolor(white, self._numbers(_matrix(own)), own.weight), training)

        self.groups_ = training.groups
        self.models_ = list(at_once(aligned, range(len(self.groups_))))

    def _probabilities(self, matrix: FloatArray, group: IntArray) -> FloatArray:
        numbers = self._numbers(matrix)
        probability = np.empty((len(matrix), len(self.classes_)))
        for g in np.unique(group):
            model = self.models_[g] if g >= 0 and self.models_[g] is not None else self.unaligned_
            probability[group == g] = model.predict_proba(numbers[group == g])
        return probability

    def _numbers(self, matrix: FloatArray) -> FloatArray:
        """Features that have covariances."""
        numbers = self.space_.transform(matrix)
        if not self.standardize:
            as_is = matrix[:, ~self.space_.is_category_]
            numbers[:, : as_is.shape[1]] = np.where(np.isfinite(as_is), as_is, self.space_.mean_)
        return numbers

    @property
    def _needs(self) -> str | None:
        return None


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
