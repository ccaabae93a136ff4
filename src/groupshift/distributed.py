"""Populations on many machines: `fit`, `update` and `predict` on Dask DataFrames.

Each partition is turned into the same sums as a chunk in memory, on the worker that holds it; sums are added
as a tree, and the small solve runs where `fit` was called. With a `dask.distributed.Client`, its cluster
does the work; without one, Dask's own threads do. Tasks are pure: a worker that dies is replaced by running
its tasks again.

>>> from dask.distributed import Client  # doctest: +SKIP
>>> client = Client()  # doctest: +SKIP
>>> distributed.fit(model, labeled, ddf, target="ill", group="clinic")  # doctest: +SKIP
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted

from groupshift._fit.packing import Packed
from groupshift._rows.batches import Reader, concatenated, picked
from groupshift._rows.checks import check_settings
from groupshift._rows.chunks import add_up
from groupshift._rows.first_pass import Survey, Surveyor, read_both, set_groups
from groupshift._rows.roles import ColumnNames, assign_roles, check_columns, fitted_roles, framed
from groupshift._rows.rows import Rows

Summed = TypeVar("Summed")

# Sums of so many partitions are added by one task: few levels, and no worker holds many of them.
FAN_IN = 8
# Rows that a sample may bring to the machine that calls: with 16 numbers a row, 128 MB.
SAMPLE_LIMIT = 1_000_000
# What `predict_details` says of a row. Dask wants to know before any row is read.
DETAILS = {"probability": float, "low": float, "high": float, "cluster": np.int64, "pooled": bool}


@dataclass(frozen=True)
class Distributed:
    """A population in the partitions of a Dask DataFrame; `offsets` number the first row of each."""

    frame: Any
    reader: Reader
    n_rows: int
    offsets: tuple[int, ...]
    sample_limit: float = SAMPLE_LIMIT
    _samples: dict = field(default_factory=dict)

    def sample(self, n_rows: int, random_state: int) -> Rows:
        if (n_rows, random_state) not in self._samples:
            self._samples.clear()
            fraction = min(1.0, n_rows / self.n_rows)
            pick = partial(_pick, self.reader, fraction, random_state)
            parts = _gather(self.frame, self.reader.roles.columns, pick, self.offsets)
            self._samples[n_rows, random_state] = concatenated([part for part in parts if part is not None])
        return self._samples[n_rows, random_state]

    def sum(self, function: Callable[[Rows], Summed]) -> Summed:
        apply = partial(_sum_of_rows, self.reader, function)
        return _tree(self.frame, self.reader.roles.columns, apply, self.offsets)


def fit(
    model: Any,
    labeled: Any,
    unlabeled: Any,
    *,
    target: str,
    group: str | None = None,
    weight: str | None = None,
    example_id: str | None = None,
    features: Sequence[str] | None = None,
    known_shares: Mapping | None = None,
) -> Any:
    """Fit a `GroupShiftClassifier` to labelled rows in memory and unlabelled rows in a Dask DataFrame.

    The answer is that of ``model.fit`` on the labelled rows with the unlabelled ones below them. The data is
    read several times; `unlabeled.persist()` first where the cluster's memory holds it.

    Parameters
    ----------
    labeled : pandas frame
        Labelled rows, or the part of them to calibrate on when the classifier was trained on the cluster and
        is passed as ``FrozenEstimator(trained)``.
    unlabeled : Dask DataFrame
        The population.
    target, group, weight, example_id : str
        Columns with the label, the group, the row weight, and the id that copies of one example share.
    features : sequence of str, optional
        Default: all columns of the labelled rows that have no other role.
    """
    check_settings(model)
    _check_dask(unlabeled)
    names = ColumnNames(target, group, weight, example_id, features)
    roles = assign_roles(model, framed(labeled, "Labelled data").columns, names)
    check_columns(list(unlabeled.columns), roles.columns, "The unlabelled data")
    rows, y, survey = read_both(model, labeled, roles, target, partial(_survey, unlabeled))
    population = Distributed(unlabeled, Reader.of(model, roles), survey.n_rows, _offsets(survey, len(rows)))
    return model._learn(rows, y, population, known_shares)


def update(
    model: Any,
    unlabeled: Any,
    *,
    group: str | None = None,
    weight: str | None = None,
    known_shares: Mapping | None = None,
) -> Any:
    """Estimate the shares again from new unlabelled rows, everything else kept: `update` on a cluster."""
    check_is_fitted(model)
    _check_dask(unlabeled)
    roles = fitted_roles(model, group, weight)
    check_columns(list(unlabeled.columns), roles.columns, "The unlabelled data")
    survey = _survey(unlabeled, Surveyor(roles, (), model.unlabeled_value))
    set_groups(model, survey, roles)
    population = Distributed(unlabeled, Reader.of(model, roles), survey.n_rows, _offsets(survey, 0))
    return model._update(population, known_shares)


def predict(model: Any, data: Any, *, group: str | None = None, coverage: float = 0.9) -> Any:
    """Details of every row as a lazy Dask DataFrame: probability, low, high, cluster, pooled
    (`predict_details`).

    It has the partitions and the index of `data`, so that ``data.join`` and ``assign`` fit. Rows of unseen
    groups get the shift common to all groups, or raise if the model has ``unseen="error"``.
    """
    import pandas as pd

    check_is_fitted(model)
    _check_dask(data)
    roles = fitted_roles(model, group, None)
    check_columns(list(data.columns), roles.columns, "The data to predict")
    meta = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in DETAILS.items()})
    light = _light(model)
    return data[roles.columns].map_partitions(
        _predict_partition, light, Reader.of(model, roles), coverage, meta=meta, enforce_metadata=False
    )


def _check_dask(data: Any) -> None:
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise ImportError('Dask is needed. Install it with: pip install "groupshift[dask]"') from error
    if not isinstance(data, dd.DataFrame):
        raise TypeError(
            f"Unlabelled data came as a {type(data).__name__}. Pass a Dask DataFrame; a table in memory goes "
            "to model.fit, and files go to groupshift.streaming."
        )


def _survey(frame: Any, surveyor: Surveyor) -> Survey:
    offsets = [0] * frame.npartitions
    return _tree(frame, surveyor.columns, partial(_survey_of, surveyor), offsets).checked()


def _offsets(survey: Survey, first: int) -> tuple[int, ...]:
    """The number of the first row of each partition."""
    return tuple(np.cumsum([first, *survey.sizes])[:-1].tolist())


def _tree(frame: Any, columns: Sequence[str], function: Callable, offsets: Sequence[int]) -> Any:
    """The sum of `function(partition, offset)` over partitions, added on the workers."""
    import dask

    parts = _per_partition(frame, columns, function, offsets)
    add = dask.delayed(_add, pure=False)
    while len(parts) > 1:
        parts = [add(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return dask.compute(*parts)[0].value


def _gather(frame: Any, columns: Sequence[str], function: Callable, offsets: Sequence[int]) -> list:
    """`function(partition, offset)` of every partition, in order."""
    import dask

    return [part.value for part in dask.compute(*_per_partition(frame, columns, function, offsets))]


def _per_partition(frame: Any, columns: Sequence[str], function: Callable, offsets: Sequence[int]) -> list:
    import dask

    # The function holds the classifier. As a task of its own it travels to each worker once, not with every
    # task; scattered data would be lost with the worker that holds it, a task is simply run again.
    carried = dask.delayed(_Carrier(function), name=f"groupshift-{uuid4().hex}", traverse=False)
    partitions = frame[list(columns)].to_delayed(optimize_graph=True)
    run = dask.delayed(_run, pure=False)
    return [run(carried, part, offset) for part, offset in zip(partitions, offsets, strict=True)]


@dataclass(frozen=True)
class _Carrier:
    """A function as a value: Dask would call a bare one."""

    function: Callable


def _run(carrier: _Carrier, partition: Any, offset: int) -> Packed:
    return Packed(carrier.function(partition, offset))


def _add(parts: list[Packed]) -> Packed:
    values = [part.value for part in parts if part.value is not None]
    return Packed(add_up(values) if values else None)


def _survey_of(surveyor: Surveyor, partition: Any, offset: int) -> Survey:
    return surveyor(partition)


def _sum_of_rows(
    reader: Reader, function: Callable[[Rows], Summed], partition: Any, offset: int
) -> Summed | None:
    # A partition without rows has nothing to add, and classifiers refuse to score no rows.
    return function(reader(partition, offset)) if len(partition) else None


def _pick(reader: Reader, fraction: float, random_state: int, partition: Any, offset: int) -> Rows | None:
    return picked(reader, partition, offset, fraction, random_state)


def _light(model: Any) -> Any:
    """The model without what predictions do not need: points and evidence would travel with every task."""
    from copy import copy

    light = copy(model)
    for name in ("tally_", "evidence_", "candidates_"):
        light.__dict__.pop(name, None)
    return light


def _predict_partition(partition: Any, model: Any, reader: Reader, coverage: float) -> Any:
    import pandas as pd

    from groupshift.streaming import Predictor

    if not len(partition):
        return pd.DataFrame(
            {name: np.empty(0, kind) for name, kind in DETAILS.items()}, index=partition.index
        )
    return pd.DataFrame(Predictor(model, reader, coverage)(partition)[0], index=partition.index)
