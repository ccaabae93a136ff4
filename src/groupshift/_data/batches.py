"""Tables that are read a batch at a time, in files or on clusters: roles of columns, a first look, and rows of the method."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from groupshift._data.checks import MissingGroupsError, check_weights, example_keys, unlabeled_mask
from groupshift._data.codes import Codes, group_numbers, same_kind
from groupshift._data.encoder import FeatureEncoder, category_counts
from groupshift._data.frames import Features, Frame, Series, as_frame, as_texts, is_missing
from groupshift._data.keys import sampled
from groupshift._data.progress import begin
from groupshift._data.reading import ReadOptions, Samples, Schema, numbered, read_samples
from groupshift._data.rows import Population, Rows, concatenated, draws_by_content
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray

Result = TypeVar("Result")

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
    columns: Sequence[str],
    own_group: str | None,
    *,
    target: str,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
    features: Sequence[str] | None = None,
) -> Roles:
    """Roles of the columns of labelled data; features are all that have no other role, unless they are named.

    `own_group` is the column that the model's setting `group` names.
    """
    group = group_column(group, own_group)
    others = [name for name in (target, group, weight, example_id) if name is not None]
    wanted = [name for name in columns if name not in others] if features is None else list(features)
    check_columns(columns, [*wanted, *others], "The labelled data")
    if both := sorted(set(wanted) & set(others)):
        raise ValueError(f"Columns {both} cannot be features: they have another role.")
    return Roles(tuple(wanted), group, weight, example_id)


def fitted_roles(
    schema: Schema,
    own_group: str | None,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
) -> Roles:
    """Roles of the columns that a fitted model reads; it knows what the column of groups was called."""
    group = group_column(group, own_group) or schema.group_name
    if schema.has_groups and group is None:
        raise ValueError("This model was fitted with groups. Pass the name of the column that holds them.")
    return Roles(tuple(schema.encoder.names_), group if schema.has_groups else None, weight, example_id)


def group_column(group: str | None, own_group: str | None) -> str | None:
    """The column that holds the groups: as passed, or as the model has it."""
    if group is not None and own_group is not None and group != own_group:
        raise ValueError(
            f"Groups are in column {group!r} here and in {own_group!r} for the model. Pass one of them."
        )
    return own_group if group is None else group


def check_columns(found: Sequence[str], wanted: Sequence[str], where: str) -> None:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"{where} has no column {missing}; its columns are {list(found)[:20]}. Check the names."
        )


def framed(table: Features, what: str = "A batch") -> Frame:
    """A table as a narwhals frame."""
    frame = as_frame(table)
    if frame is None:
        raise TypeError(f"{what} came as a {type(table).__name__}. Pass a pandas, polars or Arrow table.")
    return frame


def unlabeled_in(series: Series, unlabeled_value: object) -> BoolArray:
    """Which rows of a column of labels have none."""
    return unlabeled_mask(series.to_numpy(), unlabeled_value) | series.is_null().to_numpy()


def _unlabeled_rows(batch: Features, roles: Roles, unlabeled_value: object) -> tuple[IntArray, Frame]:
    """Positions in the batch of rows without a label, and these rows."""
    frame = framed(batch)
    if roles.target is None:
        return np.arange(len(frame)), frame
    rows = np.flatnonzero(unlabeled_in(frame.get_column(roles.target), unlabeled_value))
    return rows, frame if len(rows) == len(frame) else frame[rows]


def _row_weights(frame: Frame, roles: Roles) -> FloatArray:
    """The weights of a batch of rows; 1 where there are none."""
    if roles.weight is None:
        return np.ones(len(frame))
    weight = frame.get_column(roles.weight).cast(nw.Float64).to_numpy()
    # A batch of rows that count for nothing is fine; that all batches are, the first look finds.
    return check_weights(weight, len(frame)) if weight.any() else np.zeros(len(frame))


def _weighed_rows(frame: Frame, roles: Roles) -> Frame:
    """Rows that weigh something: the others are left out, wherever rows are learned from."""
    weight = _row_weights(frame, roles)
    return frame if weight.all() else frame[np.flatnonzero(weight)]


@dataclass(frozen=True)
class FirstLook:
    """What a first, cheap pass learns of the unlabelled rows that weigh something; looks at two parts are added."""

    n_rows: int = 0
    n_without_group: int = 0
    groups: frozenset[Any] = frozenset()
    categories: dict[str, Counter[str]] = field(default_factory=dict)

    @classmethod
    def at(cls, roles: Roles, categories: Sequence[str], unlabeled_value: object, batch: Features) -> Self:
        frame = _weighed_rows(_unlabeled_rows(batch, roles, unlabeled_value)[1], roles)
        counts = {name: category_counts(frame.get_column(name)) for name in categories}
        if roles.group is None:
            return cls(len(frame), categories=counts)
        column = frame.get_column(roles.group)
        values = column.unique().to_numpy()
        missing = is_missing(values)
        n_missing = int(is_missing(column.to_numpy()).sum()) if missing.any() else 0
        return cls(len(frame), n_missing, frozenset(values[~missing].tolist()), counts)

    def __add__(self, other: Self) -> Self:
        names = {**self.categories, **other.categories}
        counts = {n: self.categories.get(n, Counter()) + other.categories.get(n, Counter()) for n in names}
        # Of too many distinct texts the most frequent ones are kept: only the first 254 are ever used.
        counts = {
            n: Counter(dict(c.most_common(MAX_COUNTED // 2))) if len(c) > MAX_COUNTED else c
            for n, c in counts.items()
        }
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            n_without_group=self.n_without_group + other.n_without_group,
            groups=self.groups | other.groups,
            categories=counts,
        )

    def checked(self) -> Self:
        """The same, unless it found nothing to learn shares from, or rows without a group."""
        if not self.n_rows:
            raise ValueError(NO_ROWS)
        if self.n_without_group:
            raise MissingGroupsError.of(self.n_without_group, self.n_rows)
        return self


NO_ROWS = (
    "The unlabelled data has no rows without a label, or every such row has weight 0, which leaves no population to learn "
    "shares from. Pass such rows, with positive weights."
)
# A first look over all of the data, given what to do with a batch and the columns that this needs.
Look = Callable[[Callable[[Features], FirstLook], list[str]], FirstLook]


def look_over(
    look: Look, roles: Roles, categories: Sequence[str] = (), unlabeled_value: object = None
) -> FirstLook:
    """The number of rows, groups and categories; rows without a group are counted and refused."""
    special = (roles.group, roles.weight, roles.target)
    # Any column tells the number of rows.
    columns = [*(name for name in special if name), *categories] or [roles.features[0]]
    return look(partial(FirstLook.at, roles, tuple(categories), unlabeled_value), columns).checked()


@dataclass(frozen=True)
class Reader:
    """Rows of the method from batches of a table.

    Attributes
    ----------
    groups : array or None
        Names of the groups, in the order of their numbers; None: each batch has numbers of its own, see `counted`.
    by_content : bool
        Whether content decides which rows are drawn; see `draws_by_content`.
    needs_groups : bool
        Whether rows without a group are refused.
    """

    schema: Schema
    roles: Roles
    groups: ValueArray | None = None
    unlabeled_value: object = None
    by_content: bool = True
    needs_groups: bool = True

    def __call__(self, batch: Features, first: int = 0) -> Rows:
        """Unlabelled rows of a batch; `first` is the number of its first row in the whole table."""
        rows, values = self._rows(batch, first)
        number = group_numbers(values, self._codes, has_groups=self.schema.has_groups, n_rows=len(rows))
        if values is not None:
            # A missing group is among the unknown ones: of most batches there is none to look at.
            self._check_groups(values[(number < 0) & (rows.weight > 0)], rows)
        return rows.numbered(number)

    def named(self, batch: Features) -> tuple[Rows, ValueArray] | None:
        """Rows that weigh something, numbered by their own groups, and these; None where there are none."""
        rows, values = self._rows(batch, 0) if len(batch) else (None, None)
        if rows is None or not rows.weight.any():
            return None
        own = np.flatnonzero(rows.weight)
        if values is not None:
            self._check_groups(values[own], rows)
        return numbered(rows, values, own)

    def _rows(self, batch: Features, first: int) -> tuple[Rows, ValueArray | None]:
        at, frame = _unlabeled_rows(batch, self.roles, self.unlabeled_value)
        ids, n_rows = self.roles.example_id, len(frame)
        key = (at + first).astype(np.uint64)
        if ids is not None:
            key = example_keys(frame.get_column(ids).to_numpy(), n_rows)
        features, weight = frame.select(self.roles.features).to_native(), _row_weights(frame, self.roles)
        rows = self.schema.rows(features, weight=weight, key=key, has_ids=ids is not None)
        return rows, self.group_values(frame)

    def _check_groups(self, values: ValueArray, rows: Rows) -> None:
        if self.needs_groups and (n_missing := int(is_missing(values).sum())):
            raise MissingGroupsError.of(n_missing, int((rows.weight > 0).sum()))

    def weighed(self, batch: Features, first: int) -> Rows | None:
        """Those of the rows that weigh something; None where there are none."""
        rows = self(batch, first) if len(batch) else None
        if rows is not None and not rows.weight.all():
            rows = rows.take(rows.weight > 0)
        return rows if rows is not None and len(rows) else None

    @cached_property
    def _codes(self) -> Codes:
        return Codes.of(np.empty(0, object) if self.groups is None else self.groups)

    def group_values(self, frame: Frame) -> ValueArray | None:
        """Groups of the rows of a batch, by name."""
        if self.roles.group is None:
            return None
        values = frame.get_column(self.roles.group).to_numpy()
        # Models of the command line call groups by texts.
        return as_texts(values) if self.schema.by_name and values.dtype.kind in "biuf" else values

    def picked(self, fraction: float, random_state: int, batch: Features, first: int) -> Rows | None:
        """The rows of a batch that belong to the sample of the given fraction; None where there are none."""
        rows = self.weighed(batch, first)
        if rows is None or fraction >= 1:
            return rows
        keep = np.flatnonzero(sampled(rows.drawing_key(self.by_content), fraction, random_state))
        return rows.take(keep) if len(keep) else None

    def applied(self, function: Callable[[Rows], Result], batch: Features, first: int) -> Result | None:
        """`function` of the rows of a batch; None where there are none, which classifiers refuse to score."""
        rows = self.weighed(batch, first)
        return None if rows is None else function(rows)


class OutsideMemory:
    """A population that is read anew for every sample, by `picked`, and for every sum."""

    n_rows: int
    # Rows that a sample may hold in memory: with 16 numbers a row, 128 MB.
    sample_limit: float = 1_000_000

    @cached_property
    def _samples(self) -> dict[tuple[int, int], Rows]:
        return {}

    def picked(self, fraction: float, random_state: int) -> Iterable[Rows | None]:
        """The rows of each part that are drawn; None where there are none."""
        raise NotImplementedError

    def sample(self, n_rows: int, random_state: int) -> Rows:
        if (n_rows, random_state) not in self._samples:
            # The same sample may be asked for again; a sample of another size is a new step.
            self._samples.clear()
            parts = self.picked(min(1.0, n_rows / self.n_rows), random_state)
            drawn = concatenated([part for part in parts if part is not None])
            self._samples[n_rows, random_state] = drawn.ordered()[0]
        return self._samples[n_rows, random_state]


def read_both(
    options: ReadOptions,
    labeled: Features,
    roles: Roles,
    target: str,
    look: Look,
    population: Callable[[Reader, int, int], Population],
    verbose: int = 0,
) -> Samples:
    """What `fit` reads before it learns: labelled rows, and the population of the unlabelled ones, wherever they are.

    `population` makes them one, of how they are read, their number, and the number of labelled rows.
    """
    begin("reading groups and categories", verbose)
    whole = framed(labeled)
    weighed = _weighed_rows(whole, roles)
    # Where no row weighs anything, reading them says so.
    frame = weighed if len(weighed) else whole
    encoder = FeatureEncoder().fit(frame.select(roles.features).to_native())
    found = look_over(look, roles, encoder.category_names, options.unlabeled_value)
    # Categories are ranked by their frequency among all rows, labelled or not.
    counts = {n: category_counts(frame.get_column(n)) + found.categories[n] for n in encoder.category_names}

    def column(name: str | None) -> ArrayLike | None:
        return None if name is None else frame.get_column(name).to_native()

    own_group = [] if options.group is None else [options.group]
    X = frame.select([*roles.features, *own_group]).to_native()
    given = None if own_group else column(roles.group)
    beside = column(roles.weight), column(roles.example_id), encoder.with_counts(counts)
    samples = read_samples(options, X, frame.get_column(target).to_native(), given, *beside)
    if samples.population is not None:
        raise ValueError(
            f"{samples.population.n_rows} of {len(frame)} labelled rows have no label in column {target!r}. "
            "Move them to the unlabelled data."
        )
    samples = replace(samples, schema=replace(samples.schema, group_name=roles.group))
    groups = np.zeros(1, int)
    if roles.group is not None:
        groups = _group_array(found.groups)
        where = f"Column {roles.group!r} holds {{}} in the labelled data and {{}} in the unlabelled data"
        same_kind(samples.labeled_groups, groups, where)
    by_content = draws_by_content(samples.labeled, found.n_rows)
    reader = Reader(samples.schema, roles, groups, options.unlabeled_value, by_content)
    return replace(samples, groups=groups, population=population(reader, found.n_rows, len(whole)))


def _group_array(groups: frozenset[Any]) -> ValueArray:
    """Distinct groups in their order, as `fit` would hold them."""
    values = list(groups)
    array = np.array(values) if values and not isinstance(values[0], (str, bytes)) else None
    if array is None or array.ndim != 1 or array.dtype.kind not in "biuf":
        array = np.empty(len(values), object)
        array[:] = values
    return Codes().fit(array).values_
