"""Populations on many machines: `fit`, `update` and `predict` on Dask DataFrames.

Each partition is turned into the same sums as a chunk in memory, on the worker that holds it; sums are added
as a tree, and the small solve runs where `fit` was called. With a `dask.distributed.Client`, its cluster
does the work; without one, Dask's own threads do. Tasks are pure: a worker that dies is replaced by running
its tasks again.

>>> from dask.distributed import Client  # doctest: +SKIP
>>> client = Client()  # doctest: +SKIP
>>> distributed.fit(model, labeled, ddf, target="ill", group="clinic")  # doctest: +SKIP
"""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from groupshift._data.batches import (
    FirstLook,
    OutsideMemory,
    Reader,
    assign_roles,
    check_columns,
    fitted_roles,
    framed,
    look_over,
    read_both,
)
from groupshift._data.checks import MissingGroupsError, check_settings
from groupshift._data.extras import need
from groupshift._data.frames import Features
from groupshift._data.problem import KnownRates, KnownShare
from groupshift._data.rows import Rows
from groupshift._data.workers import Sum, add_up, as_worker
from groupshift._shifts.counts import batch_counter, total_counts
from groupshift.classifier import GroupShiftClassifier
from groupshift.streaming import Columns, Predictor

# Dask is an extra, and has no types.
DaskFrame: TypeAlias = Any
Delayed: TypeAlias = Any
OfPartition: TypeAlias = Callable[..., object]

# Labelled rows of a Dask DataFrame that are gathered: the classifier sees them all at once.
MOST_GATHERED = 2_000_000
# Sums of so many partitions are added by one task: few levels, and no worker holds many of them.
FAN_IN = 8


@dataclass(frozen=True)
class Distributed(OutsideMemory):
    """A population in the partitions of a Dask DataFrame; `first` is the number of its first row."""

    frame: DaskFrame
    reader: Reader
    n_rows: int
    first: int = 0

    def picked(self, fraction: float, random_state: int) -> list[Rows | None]:
        found = _per_partition(
            self._parts, partial(self.reader.picked, fraction, random_state), self._offsets
        )
        return list(_computed(found))

    def sum(self, function: Callable[[Rows], Sum]) -> Sum:
        found = _per_partition(self._parts, partial(self.reader.applied, function), self._offsets)
        added: Sum = _added(found)
        return added

    @cached_property
    def _parts(self) -> list[Delayed]:
        return _partitions(self.frame, self.reader.roles.columns)

    @cached_property
    def _offsets(self) -> list[int]:
        """The number of the first row of each partition, where rows are drawn by their places.

        The very partitions that are read are counted: Dask fuses those of small files, by the columns that are asked for.
        """
        if self.reader.by_content:
            return [0] * len(self._parts)
        sizes = _computed(_per_partition(self._parts, len))
        offsets: list[int] = np.cumsum([self.first, *sizes])[:-1].tolist()
        return offsets


def fit(
    model: GroupShiftClassifier,
    labeled: Features,
    unlabeled: DaskFrame,
    *,
    target: str,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
    features: Sequence[str] | None = None,
    known_shares: KnownRates | None = None,
    known_overall: KnownShare | None = None,
) -> GroupShiftClassifier:
    """Fit a `GroupShiftClassifier` to labelled rows in memory and unlabelled rows in a Dask DataFrame.

    The answer is that of ``model.fit`` on the labelled rows with the unlabelled ones below them. The data is
    read several times; `unlabeled.persist()` first where the cluster's memory holds it.

    Parameters
    ----------
    labeled : frame, or Dask DataFrame of at most 2,000,000 rows, which are gathered
        Labelled rows, or the part of them to calibrate on when the classifier was trained on the cluster and
        is passed as ``FrozenEstimator(trained)``.
    unlabeled : Dask DataFrame
        The population.
    target, group, weight, example_id : str
        Columns with the label, the group, the row weight, and the id that copies of one example share.
    features : sequence of str, optional
        Default: all columns of the labelled rows that have no other role.
    known_shares, known_overall : as ``model.fit`` takes them
    """
    check_settings(model)
    _check_dask(unlabeled)
    labeled, note = _gathered(labeled)
    names: dict[str, Any] = {"group": group, "weight": weight, "example_id": example_id, "features": features}
    roles = assign_roles(framed(labeled, "Labelled data").columns, model.group, target=target, **names)
    check_columns(list(unlabeled.columns), roles.columns, "The unlabelled data")

    def population(reader: Reader, n_rows: int, n_labeled: int) -> Distributed:
        return Distributed(unlabeled, reader, n_rows, n_labeled)

    look, options = partial(_look, unlabeled), model._read_options()
    model._learn(
        read_both(options, labeled, roles, target, look, population, model.verbose),
        known_shares,
        known_overall,
    )
    model.notes_ += note
    return model


def update(
    model: GroupShiftClassifier,
    unlabeled: DaskFrame,
    *,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
    known_shares: KnownRates | None = None,
    known_overall: KnownShare | None = None,
) -> GroupShiftClassifier:
    """Estimate the shares again from new unlabelled rows, everything else kept: `update` on a cluster."""
    check_is_fitted(model)
    _check_dask(unlabeled)
    roles = fitted_roles(model.schema_, model.group, group, weight, example_id)
    check_columns(list(unlabeled.columns), roles.columns, "The unlabelled data")
    try:
        count = batch_counter(model, roles)
        counts = _added(_per_partition(_partitions(unlabeled, roles.columns), count))
    except MissingGroupsError:
        # Those of all partitions are counted.
        look_over(partial(_look, unlabeled), roles)
        raise
    return model.update(counts=total_counts([counts]), known_shares=known_shares, known_overall=known_overall)


def predict(
    model: GroupShiftClassifier, data: DaskFrame, *, group: str | None = None, coverage: float = 0.9
) -> DaskFrame:
    """Details of every row as a lazy Dask DataFrame: probability, low, high, cluster, pooled
    (`predict_details`); with more than two classes probability_CLASS, low_CLASS and high_CLASS for each.

    It has the partitions and the index of `data`: ``data.assign(risk=found.probability)`` puts them side by side. Rows of
    unseen groups get the shift common to all groups, or raise if the model has ``unseen="error"``.
    """
    import pandas as pd

    check_is_fitted(model)
    _check_dask(data)
    roles = fitted_roles(model.schema_, model.group, group)
    check_columns(list(data.columns), roles.columns, "The data to predict")
    predictor = Predictor.of(model, roles, coverage)
    types = predictor.scorer.column_types
    meta = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
    return data[roles.columns].map_partitions(
        _predict_partition, predictor, meta=meta, enforce_metadata=False
    )


def _check_dask(data: object) -> None:
    if not isinstance(data, need("dask.dataframe").DataFrame):
        raise TypeError(
            f"Unlabelled data came as a {type(data).__name__}. Pass a Dask DataFrame; a table in memory goes "
            "to model.fit, and files go to groupshift.streaming."
        )


def _gathered(labeled: Features | DaskFrame) -> tuple[Features, list[str]]:
    """Labelled rows in memory, and a note where they were not."""
    if not isinstance(labeled, need("dask.dataframe").DataFrame):
        return labeled, []
    n_rows = sum(_computed(_per_partition(_partitions(labeled, labeled.columns), len)))
    if n_rows > MOST_GATHERED:
        raise ValueError(
            f"The labelled data is a Dask DataFrame of {n_rows:,} rows; up to {MOST_GATHERED:,} are gathered in memory. Pass a "
            "sample of them, or train the classifier on the cluster and pass it as FrozenEstimator(trained) with rows that it "
            "has not seen."
        )
    return labeled.compute(), [f"The {n_rows:,} labelled rows were gathered from the cluster."]


def _look(frame: DaskFrame, at: Callable[[Features], FirstLook], columns: list[str]) -> FirstLook:
    found: FirstLook = _added(_per_partition(_partitions(frame, columns), at))
    return found


def _partitions(frame: DaskFrame, columns: Sequence[str]) -> list[Delayed]:
    """Some columns of the data, as Dask reads them: files that are small without the others are read together."""
    parts: list[Delayed] = frame[list(columns)].to_delayed(optimize_graph=True)
    return parts


def _added(parts: list[Delayed]) -> Any:
    """The sum of what was made of partitions, added as a tree on the workers."""
    from dask.delayed import delayed

    add = delayed(_add, pure=False)
    while len(parts) > 1:
        parts = [add(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return _computed(parts)[0]


def _computed(parts: list[Delayed]) -> tuple[Any, ...]:
    from dask.base import compute

    try:
        found: tuple[Any, ...] = compute(*parts)
    except CancelledError as error:
        reason = str(error).partition("\n")[0].partition("reason: ")[2].strip(". ") or "none given"
        raise RuntimeError(
            f"Dask's scheduler is gone or cancelled the work (its reason: {reason}). Connect a new dask.distributed.Client, "
            "and call this again: the model is as it was before."
        ) from error
    return found


def _per_partition(
    partitions: list[Delayed], function: OfPartition, offsets: Sequence[int] | None = None
) -> list[Delayed]:
    """`function(partition)`, or `function(partition, offset)`, of every partition, in order."""
    from dask.delayed import delayed

    # The function holds the classifier. As a task of its own it travels to each worker once, not with every
    # task; scattered data would be lost with the worker that holds it, a task is simply run again. In a list, since Dask
    # would call a bare one.
    carried = delayed([function], name=f"groupshift-{uuid4().hex}", traverse=False)
    run = delayed(_run, pure=False)
    given = [(part,) for part in partitions] if offsets is None else zip(partitions, offsets, strict=True)
    return [run(carried, *one) for one in given]


def _run(carried: list[OfPartition], *given: Any) -> object:
    # Dask has a thread for each core already.
    with as_worker():
        return carried[0](*given)


def _add(parts: list[Any]) -> Any:
    there = [part for part in parts if part is not None]
    return add_up(there) if there else None


def _predict_partition(partition: DaskFrame, predictor: Predictor) -> DaskFrame:
    import pandas as pd

    if not len(partition):
        types = predictor.scorer.column_types
        nothing: Columns = {name: np.empty(0, kind) for name, kind in types.items()}
        return pd.DataFrame(nothing, index=partition.index)
    with as_worker():
        try:
            return pd.DataFrame(predictor(partition)[0], index=partition.index)
        except MissingGroupsError as error:
            raise MissingGroupsError(
                f"{error} These are rows of one partition; others may have more."
            ) from None
