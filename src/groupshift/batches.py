"""Columns of a table by their role, and rows made of them batch by batch: what files and clusters share."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from groupshift.inputs import accepts_missing, check_weights, example_keys
from groupshift.progress import begin
from groupshift.rows import Rows
from groupshift.tables import (
    Codes,
    FeatureEncoder,
    as_frame,
    category_counts,
    concat_rows,
    is_missing,
    ranked_categories,
)

# Columns with more distinct texts than this are free text; counting their rarest ones would fill the memory.
MAX_COUNTED = 200_000


@dataclass(frozen=True)
class Roles:
    """Which column is what.

    `target` is set only where one table holds labelled and unlabelled rows: those with a label are left out.
    """

    features: tuple[str, ...]
    group: str | None = None
    weight: str | None = None
    example_id: str | None = None
    target: str | None = None

    @property
    def columns(self) -> list[str]:
        """Columns to read for unlabelled rows."""
        others = (self.group, self.weight, self.example_id, self.target)
        return [*self.features, *(name for name in others if name is not None)]


def assign_roles(
    model: Any,
    columns: Sequence[str],
    *,
    target: str,
    group: str | None,
    weight: str | None,
    example_id: str | None,
    features: Sequence[str] | None,
) -> Roles:
    """Roles of the columns of labelled data; features are all that have no other role."""
    group = group_column(model, group)
    others = [name for name in (target, group, weight, example_id) if name is not None]
    wanted = [name for name in columns if name not in others] if features is None else list(features)
    check_columns(columns, [*wanted, *others], "The labelled data")
    if set(wanted) & set(others):
        raise ValueError(
            f"Columns {sorted(set(wanted) & set(others))} cannot be features: they have another role."
        )
    return Roles(tuple(wanted), group, weight, example_id)


def group_column(model: Any, group: str | None) -> str | None:
    """The column that holds the groups: as passed, or as the model has it."""
    if group is not None and model.group is not None and group != model.group:
        raise ValueError(
            f"Groups are in column {group!r} here and in {model.group!r} for the model. Pass one of them."
        )
    return model.group if group is None else group


def framed(table: Any, what: str = "A batch") -> nw.DataFrame:
    """A table as a narwhals frame."""
    frame = as_frame(table)
    if frame is None:
        raise TypeError(f"{what} came as a {type(table).__name__}. Pass a pandas, polars or Arrow table.")
    return frame


def check_columns(found: Sequence[str], wanted: Sequence[str], where: str) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"{where} has no column {missing}; its columns are {list(found)[:20]}. Check the names."
        )


@dataclass(frozen=True)
class Survey:
    """What a first, cheap pass learns of the unlabelled rows: their number, weight, groups and categories.

    `sizes` are the rows of each batch, labelled ones counted in.
    """

    n_rows: int = 0
    weight: float = 0.0
    groups: frozenset = frozenset()
    categories: dict[str, Counter] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()

    def __add__(self, other: "Survey") -> "Survey":
        names = {**self.categories, **other.categories}
        counts = {n: self.categories.get(n, Counter()) + other.categories.get(n, Counter()) for n in names}
        # Of too many distinct texts the most frequent ones are kept: only the first 254 are ever used.
        counts = {
            n: Counter(dict(c.most_common(MAX_COUNTED // 2))) if len(c) > MAX_COUNTED else c
            for n, c in counts.items()
        }
        return Survey(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.groups | other.groups,
            counts,
            self.sizes + other.sizes,
        )

    def checked(self) -> "Survey":
        """The survey, unless it found nothing to learn shares from."""
        if not self.n_rows:
            raise ValueError(
                "The unlabelled data has no rows without a label, so there are no shares to learn. Pass some."
            )
        if not self.weight:
            raise ValueError(
                "Every unlabelled row has weight 0, which leaves no population to learn shares from. Give these "
                "rows positive weights, or leave them out."
            )
        return self


@dataclass(frozen=True)
class Surveyor:
    """The survey of one batch."""

    roles: Roles
    categories: tuple[str, ...]
    unlabeled_value: Any

    @property
    def columns(self) -> list[str]:
        """Columns that a survey reads: roles but ids, and categories; or any column to count the rows of."""
        special = (self.roles.group, self.roles.weight, self.roles.target)
        return [*(name for name in special if name), *self.categories] or [self.roles.features[0]]

    def __call__(self, batch: Any) -> Survey:
        frame = unlabeled_rows(batch, self.roles, self.unlabeled_value)[1]
        groups = frozenset() if self.roles.group is None else self._groups(frame)
        counts = {name: category_counts(frame.get_column(name)) for name in self.categories}
        weight = float(row_weights(frame, self.roles).sum())
        return Survey(len(frame), weight, groups, counts, (len(batch),))

    def _groups(self, frame: nw.DataFrame) -> frozenset:
        column = frame.get_column(str(self.roles.group))
        values = column.unique().to_numpy()
        missing = is_missing(values)
        if missing.any():
            n_missing = int(is_missing(column.to_numpy()).sum())
            raise ValueError(
                f"{n_missing} of {len(column)} unlabelled rows of a batch have no group in column "
                f"{self.roles.group!r}. Every row needs one: fill them in, drop these rows, or give them a "
                "group of their own."
            )
        return frozenset(values.tolist())


def unlabeled_rows(batch: Any, roles: Roles, unlabeled_value: Any) -> tuple[NDArray[np.int64], nw.DataFrame]:
    """Positions in the batch of rows without a label, and these rows."""
    frame = framed(batch)
    if roles.target is None:
        return np.arange(len(frame)), frame
    rows = np.flatnonzero(is_unlabeled(frame.get_column(roles.target), unlabeled_value))
    return rows, frame if len(rows) == len(frame) else frame[rows]


def row_weights(frame: nw.DataFrame, roles: Roles) -> NDArray[np.float64]:
    """The weights of a batch of rows; 1 where there are none."""
    if roles.weight is None:
        return np.ones(len(frame))
    weight = frame.get_column(roles.weight).cast(nw.Float64).to_numpy()
    # A batch of rows that count for nothing is fine; that all batches are, the survey finds.
    return check_weights(weight, len(frame)) if weight.any() else np.zeros(len(frame))


def is_unlabeled(series: nw.Series, unlabeled_value: Any) -> NDArray[np.bool_]:
    """Which labels are missing or equal to the value that marks unlabelled rows."""
    values = series.to_numpy()
    unlabeled = is_missing(values) | series.is_null().to_numpy()
    if unlabeled_value is None:
        return unlabeled
    return unlabeled | np.fromiter((v == unlabeled_value for v in values.tolist()), bool, len(values))


@dataclass(frozen=True)
class Reader:
    """Rows of the method from batches of a table.

    Attributes
    ----------
    groups : array or None
        Groups in their order; None where the model knows no groups.
    library : str or None
        Frame library that the classifier's features come in; None where it takes the encoded matrix.
    """

    roles: Roles
    encoder: FeatureEncoder
    groups: NDArray | None
    library: str | None
    allow_nan: bool
    unlabeled_value: Any = None

    @classmethod
    def of(cls, model: Any, roles: Roles) -> "Reader":
        return cls(
            roles,
            model.encoder_,
            model.groups_ if model.has_groups_ else None,
            None if model.estimator is None else model.frame_library_,
            accepts_missing(model.estimator),
            model.unlabeled_value,
        )

    def __call__(self, batch: Any, first: int = 0) -> Rows:
        """Unlabelled rows of a batch; `first` is the number of its first row in the whole table."""
        at, frame = unlabeled_rows(batch, self.roles, self.unlabeled_value)
        features = frame.select(self.roles.features)
        matrix = self.encoder.transform(features.to_native())
        if not self.allow_nan and np.isnan(matrix).any():
            raise ValueError(
                "Unlabelled rows have missing values, which the classifier does not take. Impute them, put "
                "an imputer before the classifier, or use estimator=None, which takes them."
            )
        return Rows(
            matrix if self.library is None else in_library(features, self.library),
            matrix,
            self._group_numbers(frame),
            row_weights(frame, self.roles),
            self._keys(frame, at, first),
        )

    def _group_numbers(self, frame: nw.DataFrame) -> NDArray[np.int64]:
        if self.groups is None or self.roles.group is None:
            return np.full(len(frame), 0 if self.groups is None else -1, np.int64)
        values = frame.get_column(self.roles.group).to_numpy()
        return Codes.of(self.groups).transform(values)

    def _keys(self, frame: nw.DataFrame, at: NDArray[np.int64], first: int) -> NDArray[np.uint64]:
        if self.roles.example_id is None:
            return (at + first).astype(np.uint64)
        return example_keys(frame.get_column(self.roles.example_id).to_numpy(), len(frame))


def in_library(frame: nw.DataFrame, library: str) -> Any:
    """A narwhals frame as a native one of the named library."""
    if frame.implementation.value == library:
        return frame.to_native()
    return {"pandas": frame.to_pandas, "polars": frame.to_polars, "pyarrow": frame.to_arrow}[library]()


def encoder_for(labeled: Any, roles: Roles, survey: Survey) -> FeatureEncoder:
    """The encoder that all rows would give: categories ranked by their frequency, labelled or not."""
    frame = framed(labeled)
    encoder = FeatureEncoder().fit(frame.select(roles.features).to_native())
    for j, name in enumerate(encoder.names_):
        if encoder.kinds_[j] == "category":
            encoder.categories_[j] = ranked_categories(
                category_counts(frame.get_column(name)) + survey.categories[name]
            )
    return encoder


def category_columns(labeled: Any, roles: Roles) -> tuple[str, ...]:
    """Feature columns of labelled data that hold categories."""
    frame = framed(labeled)
    encoder = FeatureEncoder().fit(frame.select(roles.features).to_native())
    return tuple(
        name for name, kind in zip(encoder.names_, encoder.kinds_, strict=True) if kind == "category"
    )


def group_array(groups: frozenset) -> NDArray:
    """Distinct groups in their order, as `fit` would hold them."""
    values = list(groups)
    array = np.array(values) if values and not isinstance(values[0], (str, bytes)) else None
    if array is None or array.ndim != 1 or array.dtype.kind not in "biuf":
        array = np.empty(len(values), object)
        array[:] = values
    return Codes().fit(array).values_


def read_labeled(
    model: Any, labeled: Any, roles: Roles, target: str, encoder: FeatureEncoder, keys: NDArray | None = None
):
    """Labelled rows and their classes, read as `fit` reads them; `keys` where rows have no ids."""
    frame = framed(labeled)
    own_group = [] if model.group is None else [model.group]

    def column(name: str | None):
        return None if name is None else frame.get_column(name).to_native()

    ids = column(roles.example_id) if roles.example_id is not None else keys
    groups = None if own_group else column(roles.group)
    X = frame.select([*roles.features, *own_group]).to_native()
    rows, y = model._read_fit(X, column(target), groups, column(roles.weight), ids, encoder=encoder)
    if (y < 0).any():
        raise ValueError(
            f"{int((y < 0).sum())} of {len(y)} labelled rows have no label in column {target!r}. "
            "Move them to the unlabelled data."
        )
    values = model._row_groups
    del model._row_groups
    codes = Codes().fit(values)
    model.labeled_groups_ = codes.values_
    return Rows(rows.features, rows.matrix, codes.transform(values), rows.weight, rows.key), y


def same_kind(labeled: NDArray, unlabeled: NDArray, name: str) -> None:
    """Refuse groups that are text on one side and numbers on the other: none would find its like."""
    if not len(labeled) or not len(unlabeled):
        return
    found = [type(groups[0]).__name__ for groups in (labeled, unlabeled)]
    if isinstance(labeled[0], str) != isinstance(unlabeled[0], str):
        raise ValueError(
            f"Column {name!r} holds {found[0]} in the labelled data and {found[1]} in the unlabelled data: "
            "no group is in both. Convert one of them."
        )


def read_both(
    model: Any,
    labeled: Any,
    roles: Roles,
    target: str,
    survey: Callable[[Surveyor], Survey],
    keys: NDArray | None = None,
) -> tuple[Rows, NDArray[np.int64], Survey]:
    """What `fit` reads before it learns: labelled rows, their classes, and the survey of the unlabelled rows.

    Groups and encoder go onto the model; `survey` runs a surveyor over the unlabelled rows, wherever they are.
    """
    begin("reading groups and categories", model.verbose)
    found = survey(Surveyor(roles, category_columns(labeled, roles), model.unlabeled_value))
    rows, y = read_labeled(model, labeled, roles, target, encoder_for(labeled, roles, found), keys)
    set_groups(model, found, roles)
    return rows, y, found


def fitted_roles(model: Any, group: str | None, weight: str | None) -> Roles:
    """Roles of the columns that a fitted model reads."""
    group = group_column(model, group)
    if model.has_groups_ and group is None:
        raise ValueError(
            "This model was fitted with groups. Pass group=, the name of the column that holds them."
        )
    return Roles(tuple(model.encoder_.names_), group if model.has_groups_ else None, weight)


def concatenated(parts: list[Rows]) -> Rows:
    """Rows of several chunks below each other; group numbers are kept."""
    if len(parts) == 1:
        return parts[0]
    matrix = np.concatenate([part.matrix for part in parts])
    own = parts[0].features is not parts[0].matrix
    return Rows(
        concat_rows([part.features for part in parts]) if own else matrix,
        matrix,
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.key for part in parts]),
    )


def set_groups(model: Any, survey: Survey, roles: Roles) -> None:
    """The groups of the unlabelled rows, onto the model."""
    model.groups_ = group_array(survey.groups) if roles.group is not None else np.zeros(1, int)
    if roles.group is not None:
        same_kind(model.labeled_groups_, model.groups_, roles.group)
