"""Tables as Arrow record batches: from Parquet files, and from everything that speaks Arrow (pyarrow).

pyarrow is imported when it is first used: the library works without it, and what needs it says which extra is missing.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from groupshift._data.extras import need
from groupshift._data.frames import as_frame

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:

    class _Lazy:
        """A module that is not imported before one of its names is wanted; its submodules are among these."""

        def __init__(self, name: str):
            self._name = name

        def __getattr__(self, attribute: str) -> object:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            module = need(self._name)
            if not hasattr(module, attribute):
                need(f"{self._name}.{attribute}")
            found = self.__dict__[attribute] = getattr(module, attribute)
            return found

    pa, pc = _Lazy("pyarrow"), _Lazy("pyarrow.compute")

__all__ = ["BATCH_ROWS", "ArrowTable", "SourceError", "arrow_batches", "gives_arrow", "pa", "pc"]

# With 16 numbers a row, 32 MB: large enough to keep all cores busy, small enough to hold a few of them.
BATCH_ROWS = 262_144
# Parquet reads whole column chunks ahead unless told to go through a buffer: 1.1 GB instead of 0.2 for 16
# columns.
BUFFER_BYTES = 1 << 20
# Streams that give their rows once, and have been asked for them.
_STARTED: weakref.WeakSet[Any] = weakref.WeakSet()


class SourceError(ValueError):
    """A source that cannot be read as a table; the message says what was found and what to do."""


def arrow_batches(
    source: object, batch_rows: int = BATCH_ROWS, *, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of anything that speaks Arrow, in record batches.

    Parameters
    ----------
    source : object
        Has ``__arrow_c_stream__`` (an Arrow, polars or pandas table, a DuckDB relation, a reader of ADBC), or is a pyarrow
        dataset or scanner, a polars LazyFrame, an ibis table, or an iterable of record batches or tables.
    batch_rows : int
        Rows of a batch; the last one may have fewer.
    columns : sequence of str, optional
        Only these, in this order. Sources that can leave the others unread do so.

    Returns
    -------
    iterator of pyarrow.RecordBatch

    Raises
    ------
    TypeError
        The source does not speak Arrow.
    SourceError
        The source gives its rows once (a reader, a generator), and they were read before; or it cannot be read to its end.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"a": range(5), "b": range(5)})
    >>> [batch.num_rows for batch in arrow_batches(table, 2)]
    [2, 2, 1]
    """
    for table in ArrowTable(source, batch_rows).batches(columns):
        yield from table.combine_chunks().to_batches()


def gives_arrow(source: object) -> bool:
    """Whether `arrow_batches` can read a source; an iterable of batches is not asked for the first of them.

    >>> gives_arrow("rows.csv"), gives_arrow([1, 2])
    (False, False)
    """
    return (
        any(hasattr(source, name) for name in ("__arrow_c_stream__", "to_pyarrow_batches", "collect_batches"))
        or isinstance(source, (pa.dataset.Dataset, pa.dataset.Scanner))
        or _is_once(source)
        or (isinstance(source, (list, tuple)) and bool(source) and _is_part(source[0]))
    )


def is_stream(X: object) -> bool:
    """Whether rows come in batches of Arrow (a reader, a query, a lazy table, an iterator), and not as a table in memory.

    >>> is_stream([[1.0, 2.0]])
    False
    """
    in_memory = isinstance(X, (np.ndarray, list, Mapping)) or as_frame(X) is not None
    return not in_memory and find_spec("pyarrow") is not None and gives_arrow(X)


@dataclass(frozen=True)
class ArrowTable:
    """Anything that speaks Arrow, as a table that is read in batches; see `arrow_batches`."""

    source: Any
    batch_rows: int = BATCH_ROWS
    # A reader of a source that gives its rows once, until these are read.
    _opened: list[pa.RecordBatchReader] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not gives_arrow(self.source):
            raise TypeError(
                f"Rows came as a {type(self.source).__name__}, which gives no Arrow record batches. Pass a table of "
                "pyarrow, polars or pandas, a DuckDB relation, a polars LazyFrame, a pyarrow dataset or reader, or "
                "the path of a file."
            )

    @property
    def schema(self) -> pa.Schema:
        if isinstance(self.source, pa.dataset.Dataset):
            return self.source.schema
        reader = self._opened[0] if self._opened else self._reader(None)
        if _is_once(self.source) and not self._opened:
            self._opened.append(reader)
        return _with_plain_types(reader.schema)

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Arrow tables of `batch_rows` rows, the last one smaller."""
        if isinstance(self.source, pa.dataset.Dataset):
            names = list(self.columns if columns is None else columns)
            yield from in_batches(_batches_of_dataset(self.source, names, self.batch_rows), self.batch_rows)
            return
        reader = self._opened.pop() if self._opened else self._reader(columns)
        try:
            names = list(reader.schema.names if columns is None else columns)
            parts = (pa.Table.from_batches([batch.select(names)]) for batch in reader)
            plain = (part.cast(_with_plain_types(part.schema)) for part in parts)
            yield from in_batches(plain, self.batch_rows)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"A {type(self.source).__name__} cannot be read to its end: {str(error).splitlines()[0]}."
            ) from error

    def _reader(self, columns: Sequence[str] | None) -> pa.RecordBatchReader:
        source = self.source
        if _is_once(source):
            if source in _STARTED:
                raise SourceError(
                    f"A {type(source).__name__} gives its rows once, and they were read before. Pass what can be read "
                    "again, such as a table, a DuckDB relation, a dataset, or a file that the rows are written to."
                )
            # Few iterators, such as that of a list, cannot be remembered; what is left of them is empty.
            with suppress(TypeError):
                _STARTED.add(source)
        elif columns:
            source = _narrowed(source, columns)
        if isinstance(source, pa.RecordBatchReader):
            return source
        if isinstance(source, pa.dataset.Scanner):
            return source.to_reader()
        if hasattr(source, "to_pyarrow_batches"):
            # ibis; its own __arrow_c_stream__ makes the whole table first.
            return source.to_pyarrow_batches(chunk_size=self.batch_rows)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
        if hasattr(source, "collect_batches"):
            source = source.collect_batches(chunk_size=self.batch_rows)
        return _reader_of_parts(iter(source))


def _is_once(source: object) -> bool:
    """Whether a source gives its rows once."""
    return isinstance(source, (Iterator, pa.RecordBatchReader))


def _is_part(value: object) -> bool:
    return isinstance(value, (pa.RecordBatch, pa.Table)) or hasattr(value, "__arrow_c_stream__")


def _narrowed(source: Any, columns: Sequence[str]) -> Any:
    """A query or lazy table that reads only some columns; others have them all in memory anyway."""
    is_lazy = any(
        hasattr(source, name) for name in ("to_pyarrow_batches", "collect_batches", "to_arrow_table")
    )
    return source.select(*columns) if is_lazy and hasattr(source, "select") else source


def _reader_of_parts(parts: Iterator[Any]) -> pa.RecordBatchReader:
    first = next(parts, None)
    if first is None:
        raise SourceError("A stream of Arrow tables is empty: it has no columns and no rows.")
    if not _is_part(first):
        raise TypeError(
            f"A stream gives a {type(first).__name__}. Let it give Arrow record batches or tables."
        )
    schema = pa.table(first).schema
    batches = (batch for part in chain([first], parts) for batch in pa.table(part).cast(schema).to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _with_plain_types(schema: pa.Schema) -> pa.Schema:
    """A schema whose texts are plain ones: views, as polars has them, are not known everywhere."""
    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    return pa.schema([one.with_type(plain.get(str(one.type), one.type)) for one in schema])


def parquet_table(path: str | PathLike[str] | Sequence[str], batch_rows: int = BATCH_ROWS) -> ArrowTable:
    """A Parquet file, a list of them, or all files of a folder, whose ``name=value`` parts are columns, as one table."""
    # The folders that one file lies in say nothing of it: it may have a column of that name.
    alone = isinstance(path, (str, PathLike)) and not Path(path).is_dir()
    dataset = pa.dataset.dataset(path, format="parquet", partitioning=None if alone else "hive")
    return ArrowTable(dataset, batch_rows)


def _batches_of_dataset(dataset: pa.dataset.Dataset, names: list[str], batch_rows: int) -> Iterator[pa.Table]:
    if not isinstance(getattr(dataset, "format", None), pa.dataset.ParquetFileFormat):
        for batch in dataset.to_batches(columns=names, batch_readahead=1, fragment_readahead=1):
            yield pa.Table.from_batches([batch])
        return
    schema = pa.schema([dataset.schema.field(name) for name in names])
    for fragment in dataset.get_fragments():
        for batch in _parquet_batches(fragment, names, batch_rows):
            yield batch.select(names).cast(schema)


def in_batches(tables: Iterable[pa.Table], n_rows: int) -> Iterator[pa.Table]:
    """The rows of tables in tables of `n_rows` rows, the last one smaller."""
    held: list[pa.Table] = []
    for part in tables:
        held.append(part)
        if sum(table.num_rows for table in held) < n_rows:
            continue
        table = pa.concat_tables(held)
        whole = table.num_rows - table.num_rows % n_rows
        for start in range(0, whole, n_rows):
            yield table.slice(start, n_rows)
        held = [table.slice(whole)] if whole < table.num_rows else []
    if held:
        yield pa.concat_tables(held)


def _parquet_batches(fragment: pa.dataset.Fragment, names: list[str], batch_rows: int) -> Iterator[pa.Table]:
    # What the folder's name says of a file is not in the file.
    known = pa.dataset.get_partition_keys(fragment.partition_expression)
    with (
        fragment.filesystem.open_input_file(fragment.path) as file,
        pa.parquet.ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False) as parquet,
    ):
        inside = [name for name in names if name not in known]
        for batch in parquet.iter_batches(batch_rows, columns=inside):
            table = pa.Table.from_batches([batch])
            for name in names:
                if name in known:
                    table = table.append_column(name, pa.repeat(known[name], batch.num_rows))
            yield table
