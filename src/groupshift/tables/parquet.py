"""Parquet files and folders, and pyarrow's datasets, as tables that are read a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from groupshift.tables.arrow import pa

# With 16 numbers a row, 32 MB: large enough to keep all cores busy, small enough to hold a few of them.
BATCH_ROWS = 262_144
# Parquet reads whole column chunks ahead unless told to go through a buffer: 1.1 GB instead of 0.2 for 16
# columns.
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class FileTable:
    """A file, or all files of a folder, as one table; a folder's ``name=value`` parts are columns."""

    dataset: pa.dataset.Dataset
    batch_rows: int = BATCH_ROWS

    @property
    def columns(self) -> list[str]:
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Arrow tables of `batch_rows` rows, the last one smaller."""
        names = list(self.columns if columns is None else columns)
        return in_batches(self._small_batches(names), self.batch_rows)

    def _small_batches(self, names: list[str]) -> Iterator[pa.Table]:
        schema = pa.schema([self.dataset.schema.field(name) for name in names])
        if self.dataset.format.default_extname != "parquet":
            for batch in self.dataset.to_batches(columns=names, batch_readahead=1, fragment_readahead=1):
                yield pa.Table.from_batches([batch])
            return
        for fragment in self.dataset.get_fragments():
            for batch in _parquet_batches(fragment, names, self.batch_rows):
                yield batch.select(names).cast(schema)


def file_table(path: str | PathLike[str] | Sequence[str], *, batch_rows: int = BATCH_ROWS) -> FileTable:
    """A Parquet file, a list of them, or all files of a folder, whatever their names end in."""
    # The folders that one file lies in say nothing of it: it may have a column of that name.
    alone = isinstance(path, (str, PathLike)) and not Path(path).is_dir()
    partitioning = None if alone else "hive"
    return FileTable(pa.dataset.dataset(path, format="parquet", partitioning=partitioning), batch_rows)


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
