"""What users pass, read: tables in memory become rows, and rows for training become labelled rows and a population."""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from groupshift._data.checks import (
    check_features,
    check_labels,
    check_weighed_classes,
    check_weights,
    column_name,
    example_keys,
    split_groups,
)
from groupshift._data.codes import Codes
from groupshift._data.encoder import FeatureEncoder
from groupshift._data.frames import (
    Features,
    as_column,
    as_frame,
    as_texts,
    in_library,
    library_of,
    some,
    take_rows,
)
from groupshift._data.rows import InMemory, Population, Rows, draws_by_content
from groupshift._math.arrays import FloatArray, IntArray, KeyArray, ValueArray

# What scikit-learn keeps of the columns of X.
COLUMN_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


@dataclass(frozen=True)
class Schema:
    """What `fit` learned of the columns."""

    encoder: FeatureEncoder
    classes: ValueArray  # (n_classes,)
    has_groups: bool
    library: str | None  # frame library that features came in; None for arrays
    takes_matrix: bool  # whether the classifier takes the encoded matrix; otherwise features as they came
    needs_values: str | None  # name of the classifier, where it does not take missing values
    target_name: str | None = None
    group_name: str | None = None
    # Whether columns are picked from a file by their names, the groups as texts: the rules of the command line.
    by_name: bool = False

    @property
    def is_multiclass(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes) > 2

    @property
    def role_names(self) -> dict[str, str | None]:
        return {"target": self.target_name, "group": self.group_name}

    def picked(self, X: Features, groups: ArrayLike | None) -> tuple[Features, ValueArray | None]:
        """Features and groups of a frame, by name: a file has other columns too, and a program numbers for groups."""
        frame = as_frame(X)
        assert frame is not None
        own = self.group_name if groups is None else None
        wanted = [*self.encoder.names_, *([own] if own is not None else [])]
        if missing := [name for name in wanted if name not in frame.columns]:
            raise ValueError(
                f"X has no column {some(missing)}, which the model was fitted with; its columns are {some(frame.columns)}. Pass "
                "a table with the columns of the file."
            )
        given = frame.get_column(own) if own is not None else groups
        return frame.select(self.encoder.names_).to_native(), None if given is None else as_texts(
            as_column(given)
        )

    def rows(
        self,
        features: Features,
        *,
        weight: FloatArray,
        key: KeyArray,
        has_ids: bool = False,
        group: IntArray | None = None,
    ) -> Rows:
        """Rows of the method from columns of features; every row that the method sees is made here."""
        matrix = self.encoder.transform(features)
        # A finite sum says that all is well without a table of booleans; the columns are searched only if it is not.
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(np.sum(matrix, dtype=float))
        names = self.encoder.names_
        if not is_finite and (found := [names[j] for j in np.flatnonzero(np.isinf(matrix).any(0))]):
            raise ValueError(
                f"Input X contains infinity, in column(s) {some(found)}. Replace infinite values by finite or missing ones."
            )
        needs_values = None if is_finite else self.needs_values
        if needs_values and (found := [names[j] for j in np.flatnonzero(np.isnan(matrix).any(0))]):
            raise ValueError(
                f"Input X contains NaN, in column(s) {some(found)}, which {needs_values} does not take. Impute the missing "
                "values, put an imputer before the classifier, or use estimator=None, which takes them."
            )
        if self.takes_matrix:
            features = matrix
        elif self.library is not None and self.library != library_of(features):
            features = in_library(features, self.library)
        group = np.zeros(len(matrix), np.int64) if group is None else group
        return Rows(features, matrix, group, weight, key, has_ids)

    def unweighted(self, features: Features, group: IntArray) -> Rows:
        """Rows to predict, each by itself: their weights and keys do not matter."""
        weight, key = np.broadcast_to(1.0, len(group)), np.broadcast_to(np.uint64(0), len(group))
        return self.rows(features, weight=weight, key=key, group=group)


@dataclass(frozen=True)
class ReadOptions:
    """Settings of an estimator that say how its tables are read."""

    group: str | None  # column of X that holds the groups
    unlabeled_value: object  # label that marks unlabelled rows
    takes_matrix: bool  # this and the next: see `Schema`
    needs_values: str | None


@dataclass(frozen=True)
class Samples:
    """What `fit` is given, read: labelled rows in memory, and the population wherever it is.

    Labelled rows stand in the order of their keys, not in that of the table. `labeled` and `population` are numbered by
    `labeled_groups` and `groups`. `head` is the first row of X as it came,
    for scikit-learn to take the names of features from.
    """

    schema: Schema
    head: Features
    labeled: Rows
    y: IntArray
    labeled_groups: ValueArray
    population: Population | None
    groups: ValueArray


def read_samples(
    options: ReadOptions,
    X: Features,
    y: ArrayLike,
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    example_ids: ArrayLike | None = None,
    encoder: FeatureEncoder | None = None,
) -> Samples:
    """Labelled and unlabelled rows of one table, checked and numbered; `encoder`: one that has seen more than X.

    Rows of weight zero are left out: a classifier would count them among the rows of a leaf, and the judge among labels.
    """
    X = check_features(X)
    n_rows = X.shape[0]
    weight = check_weights(sample_weight, n_rows)
    features, values = split_groups(X, groups, options.group, n_rows, weight)
    labels, classes = check_labels(y, options.unlabeled_value, n_rows)
    key = example_keys(example_ids, n_rows)
    check_weighed_classes(labels, classes, weight)
    if len(own := np.flatnonzero(weight)) < n_rows:
        features, labels, weight, key = take_rows(features, own), labels[own], weight[own], key[own]
        values = None if values is None else values[own]
    schema = Schema(
        encoder=FeatureEncoder().fit(features) if encoder is None else encoder,
        classes=classes,
        has_groups=values is not None,
        library=library_of(X),
        takes_matrix=options.takes_matrix,
        needs_values=options.needs_values,
        target_name=column_name(y),
        group_name=options.group or column_name(groups),
    )
    has_ids = example_ids is not None
    rows = schema.rows(features, weight=weight, key=key, has_ids=has_ids)
    # Nothing can be learned from columns in which fewer than two labelled rows have a value.
    if empty := np.flatnonzero((~np.isnan(rows.matrix[labels >= 0])).sum(0) < 2).tolist():
        schema = replace(schema, encoder=schema.encoder.without(empty))
        rows = schema.rows(features, weight=weight, key=key, has_ids=has_ids)
    has_label, unlabeled = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    known = labels[has_label]
    labeled, labeled_groups = numbered(rows, values, has_label)
    labeled, order = labeled.ordered(known)
    population: Population | None = None
    population_groups = np.empty(0, labeled_groups.dtype)
    if len(unlabeled):
        population_rows, population_groups = numbered(rows, values, unlabeled)
        population = InMemory(population_rows, draws_by_content(labeled, len(unlabeled)))
    head = take_rows(X, slice(0, 1))
    return Samples(schema, head, labeled, known[order], labeled_groups, population, population_groups)


def split_fitted(
    schema: Schema,
    group: str | None,
    X: Features,
    groups: ArrayLike | None,
    weight: FloatArray | None = None,
) -> tuple[Features, ValueArray | None]:
    """Features and groups of a table for a fitted model."""
    n_rows = X.shape[0]
    if schema.by_name and as_frame(X) is not None:
        (X, groups), group = schema.picked(X, groups), None
    return split_groups(X, groups, group, n_rows, weight)


def read_rows(
    schema: Schema,
    group: str | None,
    X: Features,
    groups: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    example_ids: ArrayLike | None = None,
) -> tuple[Rows, ValueArray | None]:
    """Rows for a fitted model, not yet numbered by group, and their groups as given."""
    n_rows = X.shape[0]
    weight, key = check_weights(sample_weight, n_rows), example_keys(example_ids, n_rows)
    features, values = split_fitted(schema, group, X, groups, weight)
    return schema.rows(features, weight=weight, key=key, has_ids=example_ids is not None), values


def numbered(rows: Rows, values: ValueArray | None, own: IntArray) -> tuple[Rows, ValueArray]:
    """Some of the rows, numbered by their groups, and these groups; one for all where rows have none."""
    values = np.zeros(len(own), int) if values is None else values[own]
    codes = Codes().fit(values)
    rows = rows if len(own) == len(rows) else rows.take(own)
    return rows.numbered(codes.transform(values)), codes.values_


def column_attributes(model: object, X: Features) -> dict[str, object]:
    """Names and number of features, as scikit-learn keeps them; a copy is asked, so that a failed fit changes nothing."""
    asked = copy(model)
    validate_data(asked, X, skip_check_array=True, reset=True)
    return {name: getattr(asked, name) for name in COLUMN_ATTRIBUTES if hasattr(asked, name)}
