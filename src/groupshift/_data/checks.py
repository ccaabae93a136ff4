"""What users pass, checked and brought into one form; every error says what was found and what to do."""

import warnings
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from numbers import Integral
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, get_tags
from sklearn.utils.multiclass import type_of_target

from groupshift._data.frames import Features, as_column, as_frame, gathered, is_missing, some, split_column
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, KeyArray, ValueArray

# More different numbers than this are no classes but a measurement.
MOST_NUMBERS = 10
# Weights beyond these overflow, or vanish, where their squares and products are summed.
LIGHTEST, HEAVIEST = 1e-100, 1e100


class DegradedWarning(UserWarning):
    """The data do not allow what was asked for, and a simpler answer is given."""


class MissingGroupsError(ValueError):
    """Rows without a group, wherever they are met: in memory, in files, on a cluster."""

    @classmethod
    def of(cls, n_missing: int, n_rows: int) -> Self:
        return cls(
            f"{n_missing:,} of {n_rows:,} rows have no group. Every row needs one: fill them in, drop these rows, or give them "
            "a group of their own."
        )


def check_settings(model: BaseEstimator) -> None:
    """Every setting of a GroupShiftClassifier is one that it knows."""
    allowed = {
        "calibration": ("crossfit", "holdout"),
        "shares": ("mlls", "em", "bbse-hard", "bbse-soft", None),
        "shrinkage": ("hierarchical", "none", "small_cells"),
        "labeled_prior": ("share", "posterior"),
        "unseen": ("pooled", "error"),
        "selection": ("unknown", "random", "by_label"),
        "per_cluster": (True, False),
    }
    for name, values in allowed.items():
        if getattr(model, name) not in values:
            raise ValueError(f"{name}={getattr(model, name)!r} is not known. Pass one of {values}.")
    given = model.estimator if isinstance(model.estimator, (list, tuple)) else [model.estimator]
    for estimator in given:
        if isinstance(estimator, type) or not (hasattr(estimator, "fit") or model.estimator is None):
            raise TypeError(
                f"estimator={estimator!r} is no classifier that could be fitted. Pass one with fit and predict_proba, such as "
                "LogisticRegression(), a list of these, or None."
            )
    if not given:
        raise ValueError("estimator=[] names no classifier. Pass at least one, or None for the default.")
    if len(given) > 1 and model.calibration == "holdout":
        raise ValueError(
            "calibration='holdout' takes one classifier, as in the article. Pass calibration='crossfit' with a list of them."
        )
    if model.shrinkage == "hierarchical" and model.shares not in ("mlls", None):
        raise ValueError(
            f"shrinkage='hierarchical' pools likelihoods and needs shares='mlls', not {model.shares!r}. "
            "Pass shrinkage='none' with the other estimators."
        )
    if not (isinstance(model.verbose, (Integral, np.bool_)) and int(model.verbose) >= 0):
        raise ValueError(
            f"verbose={model.verbose!r} is not known. Pass 0 for silence, 1 for a line a step, 2 for more."
        )
    if model.n_jobs is not None and not (isinstance(model.n_jobs, Integral) and int(model.n_jobs) != 0):
        raise ValueError(
            f"n_jobs={model.n_jobs!r} is not known. Pass a number of workers, -1 for one on each core, or None."
        )


def check_features(X: Features) -> Features:
    """Features as a frame or a numeric array; at least one row. Whether values are missing is for `Schema.rows`."""
    # Some of SciPy's sparse arrays are mappings too, and have their own message.
    if isinstance(X, Mapping) and not hasattr(X, "shape"):
        raise TypeError(
            f"X is a {type(X).__name__} of columns, which has no rows. Pass an array or a frame: pandas.DataFrame(X) makes one, "
            "and so does backend='pandas' in make_survey and to_table."
        )
    # Column names are asked before other libraries do, which say it in words of their own; a lazy table, which has no shape,
    # would have to be asked.
    found = getattr(X, "column_names", getattr(X, "columns", ())) if hasattr(X, "shape") else ()
    if twice := [name for name, count in Counter(map(str, found)).items() if count > 1]:
        raise ValueError(
            f"X has {some(twice)} more than once among its columns. Rename or drop columns until each name is there once."
        )
    frame = as_frame(X := X if isinstance(X, np.ndarray) else gathered(X))
    if frame is None:
        try:
            return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False, input_name="X")
        except OverflowError:
            raise ValueError(
                "X holds whole numbers beyond 1.8e308, which no float can hold. Divide by a constant, or leave the column out."
            ) from None
    if len(frame) == 0 or len(frame.columns) == 0:
        raise ValueError(
            f"X has {len(frame)} rows and {len(frame.columns)} columns; at least one sample and a minimum of 1 feature is "
            "required. Pass a table with rows."
        )
    return X


def accepts_missing(estimator: object) -> bool:
    """Whether a classifier, or each of several, says that it takes missing values; the default one does."""
    members = estimator if isinstance(estimator, (list, tuple)) else [estimator]
    return all(one is None or bool(get_tags(one).input_tags.allow_nan) for one in members)


def split_groups(
    X: Features, groups: ArrayLike | None, group: str | None, n_rows: int, weight: FloatArray | None = None
) -> tuple[Features, ValueArray | None]:
    """Features without the group column, and the groups, from the column or from the argument.

    Every row that weighs something has one.
    """
    if group is not None:
        if groups is not None:
            raise ValueError(
                f"Groups came twice: as groups= and as the column {group!r} of X. Pass one of them."
            )
        X, values = split_column(X, group)
    elif groups is not None:
        values = as_column(groups)
    else:
        return X, None
    check_length("groups", values, n_rows)
    weighed = values if weight is None else values[weight > 0]
    if n_missing := int(is_missing(weighed).sum()):
        raise MissingGroupsError.of(n_missing, len(weighed))
    return X, values


def check_length(name: str, values: ValueArray, n_rows: int) -> None:
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError(
            f"{name} has shape {values.shape}, but X has {n_rows} rows. Pass one value for each row, in the same order."
        )


def unlabeled_mask(y: ValueArray, unlabeled_value: object) -> BoolArray:
    """Which labels are missing, or equal to the value that marks unlabelled rows: the one place that says so.

    >>> unlabeled_mask(np.array(["yes", None, "?"], object), "?").tolist()
    [False, True, True]
    """
    unlabeled = is_missing(y)
    if unlabeled_value is None or unlabeled_value != unlabeled_value:
        return unlabeled
    # Comparing arrays is fast where both sides are numbers; mixed kinds are compared one by one, as Python does.
    if y.dtype.kind in "biuf" and isinstance(unlabeled_value, (int, float, np.number)):
        marked: BoolArray = y == unlabeled_value
    else:
        # Not those that are missing: pandas' NA is neither equal to anything nor different.
        known = y[~unlabeled].tolist()
        marked = unlabeled.copy()
        marked[~unlabeled] = np.fromiter((value == unlabeled_value for value in known), bool, len(known))
    return unlabeled | marked


def check_labels(
    y: ArrayLike | None, unlabeled_value: object, n_rows: int, classes: ValueArray | None = None
) -> tuple[IntArray, ValueArray]:
    """Labels as numbers of classes, -1 for unlabelled, and the classes in order: those of the labels, or the given ones."""
    if y is None:
        raise ValueError(
            "GroupShiftClassifier requires y to be passed, but the target y is None. Pass labels, unlabelled rows marked by "
            f"{unlabeled_value!r} or missing."
        )
    y = as_column(y)
    if y.ndim == 2 and y.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is flattened.",
            DataConversionWarning,
            stacklevel=4,
        )
        y = y.ravel()
    check_length("y", y, n_rows)
    unlabeled = unlabeled_mask(y, unlabeled_value)
    known = y[~unlabeled]
    if len(known) == 0:
        raise ValueError(
            f"No row has a label: all {len(y)} are missing or equal {unlabeled_value!r}, which marks unlabelled rows. "
            "Pass labelled rows together with the unlabelled ones."
        )
    if known.dtype.kind == "O":
        known = np.array(known.tolist())
    if classes is None:
        classes = _classes(known, unlabeled_value)
    elif len(strange := np.setdiff1d(known, classes)):
        # One text among numbers makes texts of all: those that are written as a class is are not the strange ones.
        written = set(map(str, classes.tolist()))
        found = [value for value in strange.tolist() if str(value) not in written] or strange.tolist()
        raise ValueError(
            f"y holds {some(found)} besides the classes {some(classes.tolist())} of fit. Rows without a label are "
            f"marked by {unlabeled_value!r} or missing."
        )
    coded = np.full(len(y), -1, np.int64)
    coded[~unlabeled] = np.searchsorted(classes, known)
    return coded, classes


def _classes(known: ValueArray, unlabeled_value: object) -> ValueArray:
    """The classes of the labelled rows, in order."""
    if known.dtype.kind == "f" and np.isinf(known).any():
        raise ValueError(
            f"y has infinite values in {np.isinf(known).sum()} rows. Labels must be classes, such as 0 and 1."
        )
    kind = type_of_target(known, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. Labels must be classes, such as 0 and 1; unlabelled rows are marked by "
            f"{unlabeled_value!r} or missing. {_ways_out('a limit')}"
        )
    classes = np.unique(known)
    if len(classes) > MOST_NUMBERS and classes.dtype.kind in "iuf":
        low, high = classes[0].item(), classes[-1].item()
        raise ValueError(
            f"y has {len(classes)} different numbers, from {low} to {high}: they look like an amount or a rating, whose order a "
            f"classifier would not see. {_ways_out(repr(classes[3 * len(classes) // 4].item()))}"
        )
    if len(classes) < 2:
        found = classes[0].item()
        advice = "Add labelled rows of the other class."
        if unlabeled_value == -1 and found == 1:
            advice = (
                "Here -1 marks unlabelled rows: if your classes are -1 and +1, pass another unlabeled_value (None: only "
                "missing labels are unlabelled)."
            )
        raise ValueError(
            f"The labelled rows hold one class only, {found!r}; two classes are needed. {advice}"
        )
    return classes


def _ways_out(limit: str) -> str:
    """What to do with labels that are numbers in order."""
    return (
        f'Make two classes of them, y >= {limit} (on the command line: --positive ">={limit}"), or make each value a class '
        "by passing text: numpy.asarray(y).astype(str), with missing labels left missing."
    )


def check_coverage(coverage: float) -> float:
    if not 0 < coverage < 1:
        raise ValueError(
            f"coverage={coverage!r} is not possible. Pass a probability between 0 and 1, such as 0.9."
        )
    return coverage


def check_weighed_classes(labels: IntArray, classes: ValueArray, weight: FloatArray) -> None:
    """Rows of weight zero do not count: both classes need others, and so does the population."""
    if (labels < 0).any() and not weight[labels < 0].any():
        raise ValueError(
            "Every unlabelled row has sample_weight 0, which leaves no population to learn shares from. Give these rows "
            "positive weights, or leave them out."
        )
    for code, name in enumerate(classes.tolist()):
        if not weight[labels == code].any():
            raise ValueError(
                f"Every labelled row of class {name!r} has sample_weight 0, which leaves nothing to learn it from"
                f"{'; two classes are needed' if len(classes) == 2 else ''}. Give some of these rows a positive weight."
            )


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
    if sample_weight is None:
        return np.ones(n_rows)
    weight = as_column(sample_weight).astype(float)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    check_length("sample_weight", weight, n_rows)
    if not np.isfinite(weight).all():
        raise ValueError("sample_weight has NaN or infinite values. Give every row a finite weight.")
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight is negative in {(weight < 0).sum()} rows. Weights say how many rows a row stands for: pass "
            "zero or more."
        )
    if (weight > HEAVIEST).any() or ((weight > 0) & (weight < LIGHTEST)).any():
        raise ValueError(
            f"sample_weight goes from {weight[weight > 0].min():.3g} to {weight.max():.3g}. Numbers outside {LIGHTEST:g} and "
            f"{HEAVIEST:g} cannot be squared and summed: divide all weights by one number."
        )
    if not weight.any():
        raise ValueError(
            "sample_weight is zero in every row, which leaves nothing to learn from. Pass positive weights."
        )
    return weight


def column_name(values: object) -> str | None:
    """What a series calls itself, as columns of frames do; None for all else.

    >>> column_name([1, 0]) is None
    True
    """
    name = getattr(values, "name", None)
    return name if isinstance(name, str) and name else None


def example_keys(example_ids: ArrayLike | None, n_rows: int) -> KeyArray:
    """A 64-bit key for each row, equal for copies of one example; the row number where no ids are given."""
    if example_ids is None:
        return np.arange(n_rows, dtype=np.uint64)
    ids = as_column(example_ids)
    check_length("example_ids", ids, n_rows)
    missing = is_missing(ids)
    if missing.any():
        raise ValueError(
            f"{missing.sum()} rows have no example id. Give every row the id of its example; rows that have no copies get ids "
            "of their own."
        )
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64).view(np.uint64)
    values = ids.tolist()
    # Keys come from the ids themselves, so that a file read in batches has the same ones.
    keys = {value: _digest(value) for value in set(values)}
    return np.fromiter(map(keys.__getitem__, values), np.uint64, n_rows)


def _digest(value: object) -> int:
    return int.from_bytes(blake2b(str(value).encode(), digest_size=8).digest(), "little")
