"""Parquet and CSV files and folders as tables that are read a batch at a time (pyarrow)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

from groupshift._io.files import need_pyarrow

# With 16 numbers a row, 32 MB: large enough to keep all cores busy, small enough to hold a few of them.
BATCH_ROWS = 262_144
# Parquet reads whole column chunks ahead unless told to go through a buffer: 1.1 GB instead of 0.2 for 16
# columns.
BUFFER_BYTES = 1 << 20
# Cells of CSV files that hold nothing.
NULLS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null"]


class BatchSource(Protocol):
    """Anything that names its columns and hands out Arrow tables, the same ones each time."""

    @property
    def columns(self) -> Sequence[str]: ...

    def batches(self, columns: Sequence[str]) -> Iterator[Any]: ...


@dataclass(frozen=True)
class FileTable:
    """A file, or all files of a folder, as one table; a folder's ``name=value`` parts are columns."""

    dataset: Any
    batch_rows: int = BATCH_ROWS

    @property
    def columns(self) -> list[str]:
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow tables of `batch_rows` rows, the last one smaller."""
        import pyarrow as pa

        names = list(self.columns if columns is None else columns)
        held: list[Any] = []
        for batch in self._small_batches(names):
            held.append(batch)
            if sum(part.num_rows for part in held) < self.batch_rows:
                continue
            table = pa.concat_tables(held)
            whole = table.num_rows - table.num_rows % self.batch_rows
            for start in range(0, whole, self.batch_rows):
                yield table.slice(start, self.batch_rows)
            held = [table.slice(whole)] if whole < table.num_rows else []
        if held:
            yield pa.concat_tables(held)

    def _small_batches(self, names: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        schema = pa.schema([self.dataset.schema.field(name) for name in names])
        if self.dataset.format.default_extname != "parquet":
            for batch in self.dataset.to_batches(columns=names, batch_readahead=1, fragment_readahead=1):
                yield pa.Table.from_batches([batch])
            return
        for fragment in self.dataset.get_fragments():
            for batch in _parquet_batches(fragment, names, self.batch_rows):
                yield batch.select(names).cast(schema)


def open_files(
    path: Any, *, batch_rows: int = BATCH_ROWS, text_types: Mapping[str, str] | None = None
) -> FileTable:
    """Open a Parquet or CSV file or folder (or a list of files) as one table.

    Parameters
    ----------
    text_types : mapping of column to "number" or "text", optional
        How columns of CSV files are read; others are guessed from their first rows, as pyarrow does.
    """
    need_pyarrow("Reading files in batches")
    is_text = str(_first_file(path)).lower().removesuffix(".gz").endswith((".csv", ".tsv"))
    kind = _text_format(text_types or {}, tab=".tsv" in str(_first_file(path))) if is_text else "parquet"
    return file_table(path, kind, batch_rows=batch_rows)


def file_table(path: Any, kind: Any = "parquet", *, batch_rows: int = BATCH_ROWS) -> FileTable:
    """A file, or all files of a folder, of one format, whatever their names end in."""
    from pathlib import Path

    import pyarrow.dataset

    # The folders that one file lies in say nothing of it: it may have a column of that name.
    alone = isinstance(path, (str, PathLike)) and not Path(path).is_dir()
    partitioning = None if alone else "hive"
    return FileTable(pyarrow.dataset.dataset(path, format=kind, partitioning=partitioning), batch_rows)


def as_source(data: Any, *, batch_rows: int, text_types: Mapping[str, str] | None = None) -> BatchSource:
    """A path, a list of paths or a pyarrow dataset as a source of batches; a source as it is."""
    if hasattr(data, "batches"):
        return data
    if hasattr(data, "get_fragments"):
        return FileTable(data, batch_rows)
    if isinstance(data, (str, PathLike, list, tuple)):
        return open_files(data, batch_rows=batch_rows, text_types=text_types)
    raise TypeError(
        f"Unlabelled data came as a {type(data).__name__}. Pass the path of a Parquet or CSV file or folder, "
        "a list of paths, or a pyarrow dataset; a table in memory goes to model.fit."
    )


def _parquet_batches(fragment: Any, names: list[str], batch_rows: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    # What the folder's name says of a file is not in the file.
    known = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
    with (
        fragment.filesystem.open_input_file(fragment.path) as file,
        pyarrow.parquet.ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False) as parquet,
    ):
        inside = [name for name in names if name not in known]
        for batch in parquet.iter_batches(batch_rows, columns=inside):
            table = pa.Table.from_batches([batch])
            for name in names:
                if name in known:
                    table = table.append_column(name, pa.repeat(known[name], batch.num_rows))
            yield table


def _first_file(path: Any) -> Any:
    from pathlib import Path

    if isinstance(path, (list, tuple)):
        return path[0]
    if not Path(path).is_dir():
        return path
    return next((p for p in sorted(Path(path).rglob("*.*")) if not p.name.startswith((".", "_"))), path)


def _text_format(types: Mapping[str, str], *, tab: bool) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset

    kinds = {"number": pa.float64(), "text": pa.string()}
    convert = pa.csv.ConvertOptions(
        column_types={name: kinds[kind] for name, kind in types.items()},
        strings_can_be_null=True,
        null_values=NULLS,
    )
    return pyarrow.dataset.CsvFileFormat(
        parse_options=pa.csv.ParseOptions(delimiter="\t" if tab else ","), convert_options=convert
    )
