"""Rows that can be read once, such as those of a query, kept on disk as Arrow: every pass over them sees the same."""

from __future__ import annotations

import datetime
import errno
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from groupshift.tables.arrow import SourceError, pa, pc
from groupshift.tables.columns import as_text

CHUNK_ROWS = 65_536
# A copy is of what was found to be a table: more is a query that never ends, or a table that should stay where it is.
MOST_BYTES = 20 << 30
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def room_for_copies() -> Iterator[None]:
    """Where the folder for temporary files is full, a sentence that says so."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise SourceError(
            f"The folder for temporary files, {tempfile.gettempdir()}, has no room for a copy of the rows "
            f"({os.strerror(error.errno or 0)}). Free some, or name another folder in the variable TMPDIR."
        ) from error


@dataclass(frozen=True)
class Snapshot:
    """Tables below each other in a file without a name, which goes with the process, however that ends."""

    kept: mmap.mmap
    places: tuple[slice, ...]
    schema: pa.Schema
    n_rows: int

    @classmethod
    def of(cls, tables: Iterable[pa.Table], shown: Path) -> Snapshot:
        """Keep tables of one list of columns, whose types may differ: sheets and JSON have types by cell."""
        places: list[slice] = []
        schema, n_rows, end = pa.schema([]), 0, 0
        with room_for_copies(), tempfile.TemporaryFile(prefix="groupshift-") as file:
            for table in tables:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                size = file.write(sink.getvalue())
                places.append(slice(end, end := end + size))
                if end > MOST_BYTES:
                    raise SourceError(
                        f"A copy of the rows of {shown} takes more than {MOST_BYTES / 2**30:g} GB: its query may never "
                        "end. Ask for fewer rows, or write them to Parquet and pass that file."
                    )
                schema = table.schema if len(places) == 1 else _common_schema(schema, table.schema)
                n_rows += table.num_rows
            file.flush()
            return cls(mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ), tuple(places), schema, n_rows)

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        content = pa.py_buffer(self.kept)
        for place in self.places:
            table = pa.ipc.open_stream(content[place]).read_all().select(list(names))
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
