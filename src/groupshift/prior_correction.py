"""PriorCorrectedClassifier: probabilities of any classifier, restated for a population with other shares of the classes."""

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted

from groupshift._data.checks import DegradedWarning, check_weights, split_groups, unlabeled_mask
from groupshift._data.codes import Codes
from groupshift._data.frames import Features, some
from groupshift._data.problem import Classifier
from groupshift._math.arrays import FloatArray, ValueArray
from groupshift._math.label_shift import mlls_classes
from groupshift._scores.members import weight_argument

# Mean predictions of labelled rows whose odds are off their labels by more than this are of a classifier that was trained on
# other shares.
MOST_OFF = np.log(2)
Prior = Real | Mapping[Any, float] | str


class PriorCorrectedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    r"""Any classifier, for a population whose shares of the classes are not those of its training rows.

    ``p(c | x) ∝ ρ̃(c | x) · q_c / α̃_c``: probabilities ρ̃ learned where class c has the share α̃_c, restated for the share q_c.
    It holds where rows of one class look alike in both (label shift).

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        It is trained on the labelled rows; a `FrozenEstimator` is used as it is.
    target_prior : "estimate", float or mapping of class to share
        Shares in the population: estimated from unlabelled rows by maximum likelihood (MLLS), the share of the second of two
        classes, or those of all classes; the share of one class may be left out.
    group : str, optional
        Column of X that holds the groups. With it, or with `groups` at fit, each group of the unlabelled rows has an estimate of
        its own, from its rows alone. `GroupShiftClassifier` pools groups, which is better where they are small.
    calibration : {"sigmoid", "isotonic"}, optional
        Calibrate the classifier on held-out labelled rows first. Needed where it was trained on resampled or reweighted rows.
    source_prior : float or mapping, optional
        Shares that the probabilities were learned under. Default: those of the labelled rows, by weight.
    unlabeled_value : default -1
        Value of y that marks an unlabelled row; missing values of y always do.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    estimator_ : fitted classifier, calibrated where asked
    source_prior_, target_prior_, target_prior_error_ : arrays of shape (n_classes,)
        Shares before and after, and standard errors of an estimate by the chance of unlabelled rows; 0 of given shares.
    groups_ : array
        Groups that have an estimate of their own, in the order of the next two.
    group_prior_, group_prior_error_ : arrays of shape (n_groups, n_classes)

    Examples
    --------
    Half of the training rows are positive, but one in fifty of the field.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from groupshift import PriorCorrectedClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 1)) + y[:, None]
    >>> model = PriorCorrectedClassifier(LogisticRegression(), target_prior=0.02).fit(X, y)
    >>> bool(model.predict_proba(X[y == 0])[:, 1].mean() < 0.02)
    True
    """

    def __init__(
        self,
        estimator: Classifier,
        target_prior: Prior = "estimate",
        *,
        group: str | None = None,
        calibration: str | None = None,
        source_prior: Prior | None = None,
        unlabeled_value: object = -1,
    ):
        self.estimator = estimator
        self.target_prior = target_prior
        self.group = group
        self.calibration = calibration
        self.source_prior = source_prior
        self.unlabeled_value = unlabeled_value

    def fit(
        self,
        X: Features,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on labelled rows, and ask the unlabelled ones for their shares.

        Parameters
        ----------
        X : rows as `estimator` takes them
        y : array-like of shape (n_rows,)
            Labels; `unlabeled_value` or missing where unknown.
        groups : array-like of shape (n_rows,), optional
        sample_weight : array-like of shape (n_rows,), optional
        """
        if y is None:
            raise ValueError(
                "PriorCorrectedClassifier requires y to be passed, but the target y is None. Pass labels, unlabelled rows marked "
                f"by {self.unlabeled_value!r} or missing."
            )
        label = column_or_1d(y, warn=True)
        X, label = indexable(X, label)
        n_rows = len(label)
        features, names = split_groups(X, groups, self.group, n_rows)
        is_unlabeled = unlabeled_mask(label, self.unlabeled_value)
        known, asked = np.flatnonzero(~is_unlabeled), np.flatnonzero(is_unlabeled)
        labels = label[known]
        labels = np.array(labels.tolist()) if labels.dtype.kind == "O" else labels
        if not len(labels):
            raise ValueError(
                f"No row has a label: all {n_rows} are missing or equal {self.unlabeled_value!r}, which marks unlabelled rows. "
                "Pass labelled rows together with the unlabelled ones; of a fitted classifier, those that it was trained on."
            )
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        weight = check_weights(sample_weight, n_rows)
        own, rows = weight[known], _safe_indexing(features, known)
        self.estimator_ = self._fitted(rows, labels, own)
        self.classes_ = np.asarray(self.estimator_.classes_)
        if strange := sorted(set(labels.tolist()) - set(self.classes_.tolist())):
            raise ValueError(
                f"y holds {some(strange)}, and the classifier knows {some(self.classes_.tolist())}."
            )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        if self.source_prior is not None:
            self.source_prior_ = self._shares("source_prior")
        else:
            at = np.searchsorted(self.classes_, labels)
            self.source_prior_ = np.bincount(at, own, len(self.classes_)) / own.sum()
            self._check_mean_prediction(rows, own)
        if not len(asked):
            return self._ask(None, names, weight)
        return self._ask(
            _safe_indexing(features, asked), None if names is None else names[asked], weight[asked]
        )

    def update(
        self, X: Features, groups: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Estimate the shares again from other unlabelled rows, the classifier kept."""
        check_is_fitted(self)
        features, names = split_groups(X, groups, self.group, _num_samples(X))
        return self._ask(features, names, check_weights(sample_weight, _num_samples(X)))

    def predict_proba(self, X: Features, groups: ArrayLike | None = None) -> FloatArray:
        """Probabilities of the classes; rows of a group without an estimate have that of all rows together."""
        check_is_fitted(self)
        features, names = split_groups(X, groups, self.group, _num_samples(X))
        p = np.asarray(self.estimator_.predict_proba(features), float)
        if names is None and len(self.groups_):
            warnings.warn(
                "This model has shares by group, but no groups were given to predict: every row gets the shares of all rows "
                "together. Pass groups=, or fit with group= naming a column of X.",
                UserWarning,
                stacklevel=2,
            )
        target = np.broadcast_to(self.target_prior_, p.shape)
        if names is not None:
            number = Codes.of(self.groups_).transform(names)
            target = np.vstack([self.group_prior_, self.target_prior_])[number]
        moved = p * (target / np.maximum(self.source_prior_, 1e-300))
        total = moved.sum(1, keepdims=True)
        # What the features have settled, no share can move.
        return np.where(total > 0, moved / np.where(total > 0, total, 1), p)

    def predict(self, X: Features, groups: ArrayLike | None = None) -> ValueArray:
        """The likeliest class of each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X, groups).argmax(1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _fitted(self, X: Features, y: ValueArray, weight: FloatArray) -> Any:
        model = clone(self.estimator)
        if self.calibration is not None:
            model = CalibratedClassifierCV(model, method=self.calibration)
        elif isinstance(model, FrozenEstimator):
            return model
        # Equal weights are not passed, so that any classifier serves.
        if (weight == weight[0]).all():
            return model.fit(X, y)
        argument = weight_argument(model)
        if argument is None:
            raise ValueError(
                f"{type(model).__name__} takes no sample_weight. Use a classifier that takes weights, or leave the weights out."
            )
        return model.fit(X, y, **{argument: weight})

    def _check_mean_prediction(self, X: Features, weight: FloatArray) -> None:
        """A classifier's mean prediction is the share of its training rows, unless these were resampled or reweighted."""
        mean = np.average(self.estimator_.predict_proba(X), axis=0, weights=weight)
        # Half a row: fewer than none of a class are not seen in a sample.
        edge = 0.5 / (len(mean) + _num_samples(X))
        predicted, labeled = logit(np.clip([mean, self.source_prior_], edge, 1 - edge))
        c = int(np.abs(predicted - labeled).argmax())
        if abs(predicted[c] - labeled[c]) > MOST_OFF:
            warnings.warn(
                f"The classifier gives class {self.classes_.tolist()[c]!r} {100 * mean[c]:.1f} % on average, but its share of "
                f"the labelled rows is {100 * self.source_prior_[c]:.1f} %. Its training rows were resampled or reweighted, or "
                "are not these. Pass calibration='sigmoid', or the shares that it was trained on as source_prior=.",
                UserWarning,
                stacklevel=3,
            )

    def _ask(self, X: Features | None, names: ValueArray | None, weight: FloatArray) -> Self:
        """Set the shares of the population, as given or as these rows have them."""
        of_groups: list[tuple[FloatArray, FloatArray]] = []
        self.groups_ = np.zeros(0, object)
        if not isinstance(self.target_prior, str):
            if names is not None:
                raise ValueError(
                    "Groups need target_prior='estimate': a given prior is one for all rows. For groups whose shares are known, "
                    "use GroupShiftClassifier and its known_shares=."
                )
            found = self._shares("target_prior"), np.zeros(len(self.classes_))
        elif self.target_prior != "estimate":
            raise ValueError(
                f"target_prior={self.target_prior!r} is not known. Pass 'estimate', a share, or a mapping of class to share."
            )
        elif X is None:
            warnings.warn(
                "No unlabelled rows, so target_prior='estimate' has nothing to ask: the shares of the labelled rows are kept. "
                "Add unlabelled rows to fit, or pass the shares as target_prior=.",
                DegradedWarning,
                stacklevel=3,
            )
            found = self.source_prior_, np.full(len(self.classes_), np.inf)
        else:
            p = np.asarray(self.estimator_.predict_proba(X), float)
            found = mlls_classes(p, labeled_prior=self.source_prior_, weight=weight)
            if names is not None:
                codes = Codes().fit(names)
                self.groups_, number = codes.values_, codes.transform(names)
                for g in range(len(self.groups_)):
                    own = number == g
                    of_groups.append(
                        mlls_classes(p[own], labeled_prior=self.source_prior_, weight=weight[own])
                    )
        self.target_prior_, self.target_prior_error_ = found
        by_group = np.array(of_groups).reshape(-1, 2, len(self.classes_))
        self.group_prior_, self.group_prior_error_ = by_group.swapaxes(0, 1)
        return self

    def _shares(self, name: str) -> FloatArray:
        """Shares of all classes as the user gives them."""
        given, classes = getattr(self, name), self.classes_.tolist()
        if isinstance(given, Real) and len(classes) == 2:
            given = {classes[1]: float(given)}
        if not isinstance(given, Mapping):
            raise ValueError(
                f"{name}={given!r} does not say the shares of {len(classes)} classes. Pass a mapping of class to share."
            )
        if strange := [key for key in given if key not in classes]:
            raise ValueError(f"{name} names {some(strange)}, and the classes are {some(classes)}.")
        left = [c for c in classes if c not in given]
        shares = {**given, **({left[0]: 1 - sum(given.values())} if len(left) == 1 else {})}
        found = np.array([shares.get(c, np.nan) for c in classes], float)
        # Rounded to whole percents, shares of a few classes still sum to about 1.
        if not (found >= 0).all() or not np.isclose(found.sum(), 1, atol=0.01):
            raise ValueError(
                f"{name}={getattr(self, name)!r} is no distribution over {some(classes)}: shares are from 0 to 1, sum to 1, and "
                "at most one class is left out."
            )
        return np.asarray(found / found.sum(), float)
