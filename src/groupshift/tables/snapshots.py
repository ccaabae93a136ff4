"""Rows that can be read once, such as those of a query, kept on disk as Arrow: every pass over them sees the same."""

from __future__ import annotations

import datetime
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from groupshift.tables.arrow import pa, pc
from groupshift.tables.columns import as_text

CHUNK_ROWS = 65_536


class Folder:
    """A folder of ours that goes when nobody holds this any more, at the latest with the program."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="groupshift-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class Snapshot:
    """Tables below each other in a folder of ours, which goes when the snapshot does; `schema` has their common types."""

    folder: Folder
    files: tuple[Path, ...]
    schema: pa.Schema
    n_rows: int

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> Snapshot:
        """Keep tables of one list of columns, whose types may differ: sheets and JSON have types by cell."""
        folder = Folder()
        files: list[Path] = []
        schema, n_rows = pa.schema([]), 0
        for table in tables:
            files.append(folder.path / f"{len(files)}.arrow")
            with pa.OSFile(str(files[-1]), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            schema = table.schema if len(files) == 1 else _common_schema(schema, table.schema)
            n_rows += table.num_rows
        return cls(folder, tuple(files), schema, n_rows)

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        for file in self.files:
            with pa.memory_map(str(file)) as mapped:
                table = pa.ipc.open_file(mapped).read_all().select(list(names))
            yield in_types(table, self.schema)


def in_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table in the types of a schema that `_common_type` made."""
    columns = {}
    for name in table.column_names:
        column, kind = table[name], schema.field(name).type
        if column.type != kind:
            column = (
                as_text(column, missing=()) if pa.types.is_string(kind) else pc.cast(column, kind, safe=False)
            )
        columns[name] = column
    return pa.table(columns)


def tables_of_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[pa.Table]:
    """Rows of Python values as tables; at least one, which has the columns."""
    rows = iter(rows)
    chunk = list(islice(rows, CHUNK_ROWS))
    while True:
        columns = zip(*chunk, strict=True) if chunk else ([] for _ in names)
        yield pa.table([column_of(list(column)) for column in columns], names=list(names))
        if not (chunk := list(islice(rows, CHUNK_ROWS))):
            return


def column_of(values: list[object]) -> pa.Array:
    """An Arrow column; as text where values are of several kinds, or of one that Arrow does not know."""
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([_as_written(value) for value in values], pa.string())


def _as_written(value: object) -> str | None:
    """A value as a CSV file would have it.

    >>> [_as_written(value) for value in (3.0, 2.5, True, "a", None)]
    ['3', '2.5', 'true', 'a', None]
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)


def _common_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    return pa.schema(
        [(name, common_type(left.field(name).type, right.field(name).type)) for name in left.names]
    )


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which values of both can stand; text where nothing else will do.

    >>> str(common_type(pa.int64(), pa.float64())), str(common_type(pa.int64(), pa.string()))
    ('double', 'string')
    """
    types = pa.types
    if left == right or types.is_null(right):
        return left
    if types.is_null(left):
        return right
    if all(types.is_integer(kind) for kind in (left, right)):
        return pa.int64()
    if all(_is_number(kind) for kind in (left, right)):
        return pa.float64()
    if all(types.is_date(kind) or types.is_timestamp(kind) for kind in (left, right)):
        return pa.timestamp("us")
    return pa.string()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
