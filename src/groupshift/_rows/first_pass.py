"""What `fit` reads before it learns, wherever the population is: a survey of it, and the labelled rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from groupshift._rows.frames import (
    Codes,
    FeatureEncoder,
    category_counts,
    is_missing,
    ranked_categories,
)
from groupshift._rows.progress import begin
from groupshift._rows.roles import Roles, framed, row_weights, unlabeled_rows
from groupshift._rows.rows import Rows

# Columns with more distinct texts than this are free text; counting their rarest ones would fill the memory.
MAX_COUNTED = 200_000


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


def category_columns(labeled: Any, roles: Roles) -> tuple[str, ...]:
    """Feature columns of labelled data that hold categories."""
    frame = framed(labeled)
    encoder = FeatureEncoder().fit(frame.select(roles.features).to_native())
    return tuple(
        name for name, kind in zip(encoder.names_, encoder.kinds_, strict=True) if kind == "category"
    )


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


def set_groups(model: Any, survey: Survey, roles: Roles) -> None:
    """The groups of the unlabelled rows, onto the model."""
    model.groups_ = group_array(survey.groups) if roles.group is not None else np.zeros(1, int)
    if roles.group is not None:
        same_kind(model.labeled_groups_, model.groups_, roles.group)


def group_array(groups: frozenset) -> NDArray:
    """Distinct groups in their order, as `fit` would hold them."""
    values = list(groups)
    array = np.array(values) if values and not isinstance(values[0], (str, bytes)) else None
    if array is None or array.ndim != 1 or array.dtype.kind not in "biuf":
        array = np.empty(len(values), object)
        array[:] = values
    return Codes().fit(array).values_


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
