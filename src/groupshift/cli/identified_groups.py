"""Columns of files that tell which group a row is of, found before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupshift._data.keys import uniform_keys
from groupshift._diagnosis.features import MAX_ROWS, identifying_features
from groupshift._diagnosis.sentences import identified
from groupshift._math.arrays import FloatArray, IntArray
from groupshift.cli.prepared import EXAMPLE, GROUP, Prepared, as_floats, unlabeled
from groupshift.tables.columns import ColumnPlan


def about_identifying(
    labeled: pa.Table, population: Prepared | None, plans: Sequence[ColumnPlan]
) -> list[str]:
    """A sentence about features that identify the group, by rows of both samples."""
    if GROUP not in labeled.column_names or not plans:
        return []
    names = [plan.name for plan in plans]
    wanted = [*names, GROUP, *([EXAMPLE] if EXAMPLE in labeled.column_names else [])]
    tables = [_some(labeled)]
    if population is not None:
        # The first batch will do: what tells groups apart does so in any rows.
        first = next(iter(population.batches()))
        tables.append(_some(unlabeled(first)))
    table = pa.concat_tables(
        [t.select(wanted) for t in tables], promote_options="permissive"
    ).combine_chunks()
    key = _codes(table[EXAMPLE]) if EXAMPLE in wanted else np.arange(table.num_rows)
    found = identifying_features(
        np.column_stack([_values(table[plan.name], plan.kind) for plan in plans]),
        _codes(table[GROUP]),
        key.astype(np.uint64),
        names=names,
        is_category=np.array([plan.kind == "category" for plan in plans]),
    )
    sentence = identified(found)
    return [] if sentence is None else [sentence]


def _some(table: pa.Table) -> pa.Table:
    if table.num_rows <= MAX_ROWS:
        return table
    return table.take(np.argsort(uniform_keys(np.arange(table.num_rows, dtype=np.uint64), 0))[:MAX_ROWS])


def _codes(column: pa.ChunkedArray) -> IntArray:
    """A number for each different text; missing ones are alike."""
    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    codes: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _values(column: pa.ChunkedArray, kind: str) -> FloatArray:
    if kind == "category":
        return _codes(column).astype(float)
    return np.asarray(as_floats(column, kind).to_numpy(), float)
