"""What `fit` reads before it learns, wherever the population is: a first pass over it, and the labelled rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from groupshift._data.batches import Reader
from groupshift._data.checks import MissingGroupsError
from groupshift._data.codes import Codes
from groupshift._data.encoder import FeatureEncoder, category_counts
from groupshift._data.frames import Features, Frame, is_missing
from groupshift._data.progress import begin
from groupshift._data.reading import ReadOptions, Training, read_training
from groupshift._data.roles import Roles, framed, unlabeled_rows, weighed_rows
from groupshift._data.rows import Population, draws_by_content
from groupshift._math.arrays import ValueArray

# Columns with more distinct texts than this are free text; counting their rarest ones would fill the memory.
MAX_COUNTED = 200_000


@dataclass(frozen=True)
class FirstPass:
    """What a first, cheap pass learns of the unlabelled rows that weigh something: their number, groups and categories."""

    n_rows: int = 0
    n_without_group: int = 0
    groups: frozenset[Any] = frozenset()
    categories: dict[str, Counter[str]] = field(default_factory=dict)

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
            raise ValueError(
                "The unlabelled data has no rows without a label, or every such row has weight 0, which leaves no population "
                "to learn shares from. Pass such rows, with positive weights."
            )
        if self.n_without_group:
            raise MissingGroupsError.of(self.n_without_group, self.n_rows)
        return self


@dataclass(frozen=True)
class FirstLook:
    """The first pass over one batch."""

    roles: Roles
    categories: tuple[str, ...]
    unlabeled_value: object

    @property
    def columns(self) -> list[str]:
        """Columns that it reads: roles but ids, and categories; or any column to count the rows of."""
        special = (self.roles.group, self.roles.weight, self.roles.target)
        return [*(name for name in special if name), *self.categories] or [self.roles.features[0]]

    def __call__(self, batch: Features) -> FirstPass:
        frame = weighed_rows(unlabeled_rows(batch, self.roles, self.unlabeled_value)[1], self.roles)
        counts = {name: category_counts(frame.get_column(name)) for name in self.categories}
        if self.roles.group is None:
            return FirstPass(len(frame), categories=counts)
        column = frame.get_column(self.roles.group)
        values = column.unique().to_numpy()
        missing = is_missing(values)
        n_missing = int(is_missing(column.to_numpy()).sum()) if missing.any() else 0
        return FirstPass(len(frame), n_missing, frozenset(values[~missing].tolist()), counts)


def read_both(
    options: ReadOptions,
    labeled: Features,
    roles: Roles,
    target: str,
    first_pass: Callable[[FirstLook], FirstPass],
    population: Callable[[Reader, FirstPass, int], Population],
    verbose: int = 0,
) -> Training:
    """What `fit` reads before it learns: labelled rows, and the population of the unlabelled ones, wherever they are.

    `first_pass` runs a look over the unlabelled rows; `population` makes them one, of how they are read, what the look
    found, and the number of labelled rows.
    """
    begin("reading groups and categories", verbose)
    whole = framed(labeled)
    weighed = weighed_rows(whole, roles)
    # Where no row weighs anything, reading them says so.
    frame = weighed if len(weighed) else whole
    encoder = FeatureEncoder().fit(frame.select(roles.features).to_native())
    found = first_pass(FirstLook(roles, encoder.category_names, options.unlabeled_value))
    # Categories are ranked by their frequency among all rows, labelled or not.
    counts = {n: category_counts(frame.get_column(n)) + found.categories[n] for n in encoder.category_names}
    training = _read_labeled(options, frame, roles, target, encoder.with_counts(counts))
    groups = population_groups(found, roles, training.labeled_groups)
    by_content = draws_by_content(training.labeled, found.n_rows)
    reader = Reader(training.schema, roles, groups, options.unlabeled_value, by_content)
    return replace(training, groups=groups, population=population(reader, found, len(whole)))


def _read_labeled(
    options: ReadOptions,
    frame: Frame,
    roles: Roles,
    target: str,
    encoder: FeatureEncoder,
) -> Training:
    """Labelled rows, read as `fit` reads them."""

    def column(name: str | None) -> ArrayLike | None:
        return None if name is None else frame.get_column(name).to_native()

    own_group = [] if options.group is None else [options.group]
    X = frame.select([*roles.features, *own_group]).to_native()
    groups = None if own_group else column(roles.group)
    labels = frame.get_column(target).to_native()
    training = read_training(
        options, X, labels, groups, column(roles.weight), column(roles.example_id), encoder
    )
    if training.population is not None:
        n_missing = training.population.n_rows
        raise ValueError(
            f"{n_missing} of {len(frame)} labelled rows have no label in column {target!r}. "
            "Move them to the unlabelled data."
        )
    return training


def population_groups(found: FirstPass, roles: Roles, labeled_groups: ValueArray) -> ValueArray:
    """The groups of the unlabelled rows, in their order; one for all where there are no groups."""
    if roles.group is None:
        return np.zeros(1, int)
    groups = group_array(found.groups)
    same_kind(labeled_groups, groups, roles.group)
    return groups


def group_array(groups: frozenset[Any]) -> ValueArray:
    """Distinct groups in their order, as `fit` would hold them."""
    values = list(groups)
    array = np.array(values) if values and not isinstance(values[0], (str, bytes)) else None
    if array is None or array.ndim != 1 or array.dtype.kind not in "biuf":
        array = np.empty(len(values), object)
        array[:] = values
    return Codes().fit(array).values_


def same_kind(labeled: ValueArray, unlabeled: ValueArray, name: str) -> None:
    """Refuse groups that are text on one side and numbers on the other: none would find its like."""
    if not len(labeled) or not len(unlabeled):
        return
    found = [type(groups[0]).__name__ for groups in (labeled, unlabeled)]
    if isinstance(labeled[0], str) != isinstance(unlabeled[0], str):
        raise ValueError(
            f"Column {name!r} holds {found[0]} in the labelled data and {found[1]} in the unlabelled data: "
            "no group is in both. Convert one of them."
        )
