"""Populations larger than memory: `fit`, `update`, `predict` and `check` on files, a batch at a time.

The labelled rows are in memory; the unlabelled ones are read in batches, as often as the method needs them:
once for their groups and categories, once or twice for samples, and once for each estimate of the shares.
What is kept of them are sums, so that memory depends on the batch and the number of cells, not on the rows.
The answer is that of ``model.fit`` on the labelled rows with the unlabelled ones below them.

>>> from groupshift import GroupShiftClassifier, streaming
>>> model = GroupShiftClassifier(random_state=0)
>>> streaming.fit(model, labeled, "population/", target="ill", group="clinic")  # doctest: +SKIP
>>> streaming.predict(model, "population/", "risk.parquet", group="clinic")  # doctest: +SKIP
>>> print(streaming.check(model, labeled, "population/", target="ill", group="clinic"))  # doctest: +SKIP
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from groupshift._audit.plan import AuditPlan, plan_audit, score_batches
from groupshift._data.batches import (
    FirstLook,
    OutsideMemory,
    Reader,
    Roles,
    assign_roles,
    check_columns,
    fitted_roles,
    framed,
    group_column,
    look_over,
    read_both,
    unlabeled_in,
)
from groupshift._data.checks import MissingGroupsError, check_settings
from groupshift._data.codes import report_unseen
from groupshift._data.encoder import column_kinds
from groupshift._data.frames import Features, in_library
from groupshift._data.keys import sampled
from groupshift._data.problem import KnownRates, KnownShare
from groupshift._data.progress import begin, counted, steps
from groupshift._data.reading import Samples
from groupshift._data.rows import InMemory, Rows
from groupshift._data.workers import Sum, add_up, map_chunks, workers
from groupshift._diagnosis.diagnosis import Diagnosis
from groupshift._math.arrays import ValueArray
from groupshift._shifts.counts import batch_counter, total_counts
from groupshift._shifts.scorer import Details, Scorer
from groupshift.classifier import GroupShiftClassifier
from groupshift.tables.arrow import BATCH_ROWS, pa
from groupshift.tables.batch_sources import BatchSource, as_source
from groupshift.tables.files import write_batches

# Details of rows, column by column.
Columns: TypeAlias = Details
# Rows that a check tries the method on: enough to tell whether it is worth it.
LABELED_TRIED, UNLABELED_TRIED = 10_000, 30_000
LABELED_TRIED_SEED, UNLABELED_TRIED_SEED = 1, 2


@dataclass(frozen=True)
class Training:
    """Labelled rows in memory, a population in files, and which column is what.

    `first` is the number of the population's first row; None: labelled rows come first.
    """

    labeled: Features
    source: BatchSource
    roles: Roles
    target: str
    first: int | None = None

    def read(self, model: GroupShiftClassifier) -> Samples:
        """Labelled rows and the population, as `fit` learns from them."""

        def population(reader: Reader, n_rows: int, n_labeled: int) -> Streamed:
            return Streamed(self.source, reader, n_rows, n_labeled if self.first is None else self.first)

        look, options = partial(_look, self.source), model._read_options()
        return read_both(options, self.labeled, self.roles, self.target, look, population, model.verbose)


@dataclass(frozen=True)
class Streamed(OutsideMemory):
    """A population in files: the rows of `source` as `reader` makes them, numbered from `first` on."""

    source: BatchSource
    reader: Reader
    n_rows: int
    first: int = 0

    def picked(self, fraction: float, random_state: int) -> Iterator[Rows | None]:
        return map_chunks(lambda part: self.reader.picked(fraction, random_state, *part), self._batches())

    def sum(self, function: Callable[[Rows], Sum]) -> Sum:
        found = map_chunks(lambda part: self.reader.applied(function, *part), self._batches())
        return add_up(value for value in found if value is not None)

    def _batches(self) -> Iterator[tuple[Features, int]]:
        first = self.first
        tables = self.source.batches(self.reader.roles.columns)
        for table in counted(tables, self.n_rows, "rows", lambda table: table.num_rows):
            yield table, first
            first += table.num_rows


def _look(source: BatchSource, at: Callable[[Features], FirstLook], columns: list[str]) -> FirstLook:
    return add_up(chain([FirstLook()], map_chunks(at, source.batches(columns))))


def fit(
    model: GroupShiftClassifier,
    labeled: Features | str | PathLike[str] | None,
    unlabeled: Features,
    *,
    target: str,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
    features: Sequence[str] | None = None,
    batch_rows: int = BATCH_ROWS,
    known_shares: KnownRates | None = None,
    known_overall: KnownShare | None = None,
) -> GroupShiftClassifier:
    """Fit a `GroupShiftClassifier` to labelled rows in memory and unlabelled rows in files.

    Parameters
    ----------
    labeled : frame, path, or None
        Labelled rows, all of them with a label; None: they are among `unlabeled`, rows with a value in
        `target`.
    unlabeled : path of a Parquet or CSV file or folder, list of paths, pyarrow dataset, or source of batches
        The population. Where `labeled` is given, all of its rows count as unlabelled.
    target, group, weight, example_id : str
        Columns with the label, the group, the row weight, and the id that copies of one example share.
    features : sequence of str, optional
        Default: all columns of the labelled rows that have no other role.
    batch_rows : int
        Rows that are read at a time; a few batches for each core are in memory.
    known_shares, known_overall : as ``model.fit`` takes them

    Returns
    -------
    model, fitted
    """
    names = {"group": group, "weight": weight, "example_id": example_id, "features": features}
    training = _opened(model, labeled, unlabeled, batch_rows, target=target, **names)
    return fit_to(model, training, known_shares, known_overall)


def fit_to(
    model: GroupShiftClassifier,
    training: Training,
    known_shares: KnownRates | None = None,
    known_overall: KnownShare | None = None,
) -> GroupShiftClassifier:
    """Fit a model to labelled rows and a population whose columns have their roles already."""
    check_settings(model)
    with workers(model.n_jobs):
        return model._learn(training.read(model), known_shares, known_overall)


def check(
    model: GroupShiftClassifier,
    labeled: Features | str | PathLike[str] | None,
    unlabeled: Features,
    *,
    labeled_rows: int = LABELED_TRIED,
    unlabeled_rows: int = UNLABELED_TRIED,
    batch_rows: int = BATCH_ROWS,
    **columns: Any,
) -> Diagnosis:
    """Is it worth it, does the assumption hold, where not to trust it: an answer before a fit to all rows.

    A copy of `model` is fitted to a sample, drawn by the keys of the examples, and diagnosed. After a fit to
    all rows, ``model.diagnose()`` answers from the sums that the model keeps: it needs no rows either.

    Parameters
    ----------
    model : GroupShiftClassifier
        Left as it is.
    labeled, unlabeled : as `fit` takes them
    labeled_rows, unlabeled_rows : int
        About so many rows of each are tried; all of them where there are fewer.
    batch_rows : int
        Rows that are read at a time.
    **columns
        target, group, weight, example_id and features, as `fit` takes them.

    Returns
    -------
    Diagnosis
    """
    training = _opened(model, labeled, unlabeled, batch_rows, **columns)
    return fit_sample(model, training, labeled_rows, unlabeled_rows).diagnose()


def fit_sample(
    model: GroupShiftClassifier,
    training: Training,
    labeled_rows: int = LABELED_TRIED,
    unlabeled_rows: int = UNLABELED_TRIED,
) -> GroupShiftClassifier:
    """A copy of the model, fitted to about so many labelled and unlabelled rows."""
    trial: GroupShiftClassifier = clone(model)
    check_settings(trial)
    with workers(trial.n_jobs):
        return trial._learn(_sampled(training.read(trial), labeled_rows, unlabeled_rows))


def _sampled(read: Samples, labeled_rows: int, unlabeled_rows: int) -> Samples:
    """About so many labelled and unlabelled rows."""
    rows, y = read.labeled, read.y
    few = np.flatnonzero(sampled(rows.key, labeled_rows / len(rows), LABELED_TRIED_SEED))
    if len(rows) > labeled_rows and len(np.unique(y[few])) == len(np.unique(y)):
        rows, y = rows.take(few), y[few]
    labeled, labeled_groups = _renumbered(rows, read.labeled_groups)
    assert read.population is not None
    tried, groups = _renumbered(read.population.sample(unlabeled_rows, UNLABELED_TRIED_SEED), read.groups)
    return replace(
        read, labeled=labeled, y=y, labeled_groups=labeled_groups, population=InMemory(tried), groups=groups
    )


def _renumbered(rows: Rows, groups: ValueArray) -> tuple[Rows, ValueArray]:
    """Rows of a sample numbered by the groups that are in it, and these groups."""
    found, numbers = np.unique(rows.group, return_inverse=True)
    return rows.numbered(numbers.astype(np.int64)), groups[found]


def update(
    model: GroupShiftClassifier,
    unlabeled: Features,
    *,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
    batch_rows: int = BATCH_ROWS,
    known_shares: KnownRates | None = None,
    known_overall: KnownShare | None = None,
) -> GroupShiftClassifier:
    """Estimate the shares again from new unlabelled rows in files, everything else kept: `update`.

    The rows are read once, so that a stream of record batches will do.
    """
    check_is_fitted(model)
    roles = fitted_roles(model.schema_, model.group, group, weight, example_id)
    source = _opened_for(model, unlabeled, roles, batch_rows, "The unlabelled data")
    with _groups_counted(source, roles), workers(model.n_jobs), steps():
        begin("counting rows", model.verbose)
        batches = counted(source.batches(roles.columns), None, "rows", lambda table: table.num_rows)
        counts = total_counts(map_chunks(batch_counter(model, roles), batches))
    return model.update(counts=counts, known_shares=known_shares, known_overall=known_overall)


def audit(
    model: GroupShiftClassifier,
    population: Features,
    *,
    group: str | None = None,
    weight: str | None = None,
    budget: int = 50,
    seed: int = 0,
    batch_rows: int = BATCH_ROWS,
) -> AuditPlan:
    """Which rows of a population in files to label: `audit`. Four numbers a row are kept in memory, and no more."""
    check_is_fitted(model)
    roles = fitted_roles(model.schema_, model.group, group, weight)
    source = _opened_for(model, population, roles, batch_rows, "The population")
    reader = Reader(model.schema_, roles, model.groups_)
    with _groups_counted(source, roles):
        scored = score_batches(model, reader, source.batches(list(roles.columns)))
    return plan_audit(model, scored, budget=budget, seed=seed)


def predict(
    model: GroupShiftClassifier,
    data: Features,
    out: str | PathLike[str],
    *,
    group: str | None = None,
    keep: Sequence[str] = (),
    coverage: float = 0.9,
    batch_rows: int = BATCH_ROWS,
    force: bool = False,
) -> int:
    """Write probabilities for the rows of files to a Parquet, Arrow or CSV file, in the order of the rows.

    The file has the columns `keep`, then probability, low, high, cluster and pooled (see `predict_details`); with more than two
    classes probability_CLASS, low_CLASS and high_CLASS for each of them.
    It appears when it is complete, and not at all if anything goes wrong.

    Returns
    -------
    number of rows written
    """
    check_is_fitted(model)
    roles = fitted_roles(model.schema_, model.group, group)
    source = _opened_for(model, data, roles, batch_rows, "The data to predict")
    check_columns(source.columns, keep, "The data to predict")
    columns = list(dict.fromkeys([*roles.columns, *keep]))
    predictor = Predictor.of(model, roles, coverage)
    unseen: dict[object, None] = {}
    with (
        _groups_counted(source, roles),
        workers(model.n_jobs),
        steps(),
        write_batches(out, force=force) as writer,
    ):
        begin("predicting", model.verbose)
        predicted = map_chunks(lambda t: (t, *predictor(t)), source.batches(columns))
        for table, values, new in counted(predicted, None, "rows", lambda found: found[0].num_rows):
            unseen.update(dict.fromkeys(new))
            writer.write(beside(table, keep, values))
    if unseen:
        report_unseen(unseen, unseen=model.unseen, stacklevel=3)
    n_rows: int = writer.n_rows
    return n_rows


@contextmanager
def _groups_counted(source: BatchSource, roles: Roles) -> Iterator[None]:
    """Where a batch has rows without a group, those of all batches are counted before they are refused."""
    try:
        yield
    except MissingGroupsError:
        look_over(partial(_look, source), roles)
        raise


def beside(table: "pa.Table", keep: Sequence[str], answers: Columns) -> "pa.Table":
    """The columns of a table to keep, and answers to its rows beside them."""
    kept = table.select(list(keep))
    for name, values in answers.items():
        kept = kept.append_column(name, [values])
    return kept


@dataclass(frozen=True)
class Predictor:
    """Details of the rows of a batch, and the group of each row whose group the model does not know.

    It travels to every machine of a cluster, and holds no more than predictions need.
    """

    scorer: Scorer
    reader: Reader
    coverage: float
    refuses_unseen: bool

    @classmethod
    def of(
        cls, model: GroupShiftClassifier, roles: Roles, coverage: float, *, needs_groups: bool = True
    ) -> "Predictor":
        scorer = model._scorer()
        reader = Reader(model.schema_, roles, scorer.groups, needs_groups=needs_groups)
        return cls(scorer, reader, coverage, model.unseen == "error")

    def __call__(self, batch: Features) -> tuple[Columns, list[object]]:
        rows = self.reader(batch)
        new: list[object] = []
        if len(self.scorer.groups) and (rows.group < 0).any():
            values = self.reader.group_values(framed(batch))
            assert values is not None
            new = values[rows.group < 0].tolist()
            if self.refuses_unseen:
                report_unseen(new, unseen="error", stacklevel=2)
        return self.scorer.columns(rows, self.coverage), new


def _opened(
    model: GroupShiftClassifier,
    labeled: Features | str | PathLike[str] | None,
    unlabeled: Features,
    batch_rows: int,
    *,
    target: str,
    **names: Any,
) -> Training:
    def read(table: Features) -> Features:
        return table if model.estimator is None else in_library(table, "pandas")

    group = group_column(names.get("group"), model.group)
    if isinstance(labeled, (str, PathLike)):
        file = as_source(labeled, group=group)
        labeled = read(pa.concat_tables(file.batches(file.columns)))
    # What columns of CSV files must hold to agree with labelled data; whole numbers stay whole in ids and groups.
    kinds, whole, one_table = {}, (group, names.get("example_id")), labeled is None
    if not one_table:
        kinds = column_kinds(framed(labeled, "Labelled data")[:1000])
        kinds = {n: k for n, k in kinds.items() if k == "category" or (k == "number" and n not in whole)}
    source = as_source(unlabeled, batch_rows=batch_rows, kinds=kinds, group=group)
    if one_table:
        check_columns(source.columns, [target], "The data")
        found = []
        for table in source.batches(source.columns):
            has_label = ~unlabeled_in(framed(table).get_column(target), model.unlabeled_value)
            found.append(table.take(np.flatnonzero(has_label)))
        labeled = read(pa.concat_tables(found))
    roles = assign_roles(framed(labeled).columns, model.group, target=target, **names)
    check_columns(source.columns, roles.columns, "The unlabelled data")
    roles = replace(roles, target=target) if one_table else roles
    return Training(labeled, source, roles, target, 0 if one_table else None)


def _opened_for(
    model: GroupShiftClassifier, data: Features, roles: Roles, batch_rows: int, what: str
) -> BatchSource:
    """Data with the columns of a fitted model."""
    pairs = zip(model.encoder_.names_, model.encoder_.kinds_, strict=True)
    kinds = {name: kind for name, kind in pairs if kind in ("number", "category")}
    if roles.group is not None and len(model.groups_) and isinstance(model.groups_[0], str):
        kinds[roles.group] = "category"
    source = as_source(data, batch_rows=batch_rows, kinds=kinds, group=roles.group)
    check_columns(source.columns, roles.columns, what)
    return source
