"""Where tables are: files, folders, patterns of names, several of them, standard input, queries to databases.

`open_source` is the one way in. Whatever a place is, what comes out is a `Source`: columns that are known, and rows in batches.
"""

from __future__ import annotations

import glob
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from urllib.parse import unquote

from groupshift._data.frames import some
from groupshift.tables.arrow import SourceError, pa
from groupshift.tables.databases import file_of, is_url, split_url, url_tables, without_password
from groupshift.tables.snapshots import common_type, in_types, room_for_copies
from groupshift.tables.table_files import (
    Source,
    is_parquet,
    open_database,
    open_file,
    open_parquet_folder,
    snapshot_source,
)

STANDARD_INPUT = "-"
# Between a file and what is meant in it: book.xlsx::Sheet2, people.db::select …
PART = "::"
Place = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True)
class Stack:
    """Sources below each other, in common types."""

    parts: tuple[Source, ...]
    schema: pa.Schema

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        for part in self.parts:
            for table in part.batches(names):
                yield in_types(table, self.schema)


def open_source(place: Place) -> Source:
    """Look at a place: what its tables are written in, and which columns they have."""
    if not isinstance(place, (str, PathLike)):
        return _stacked([open_source(one) for one in place])
    source = _open(str(place))
    repeated = [name for name, count in Counter(source.columns).items() if count > 1]
    if repeated:
        raise SourceError(
            f"{source.path} has more than one column named {some(repeated, 5)}, so it is not clear which one is "
            "meant. Rename or remove the copies."
        )
    return source


def data_files(folder: Path) -> list[Path]:
    """Files of a folder and its folders; names that begin with . or _ are marks of other programs."""
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name[0] not in "._"]


def open_within(file: Path, root: Path) -> Source:
    """A file of a folder; the names of folders between them (``name=value``) are columns."""
    source = open_file(file)
    folders = (folder.partition("=") for folder in file.relative_to(root).parts[:-1])
    known = {name: unquote(value) for name, is_pair, value in folders if is_pair}
    return replace(source, columns=(*source.columns, *known), known=known) if known else source


def _open(place: str) -> Source:
    if place == STANDARD_INPUT:
        return _standard_input()
    path, part = Path(place), None
    if is_url(place):
        url, query = split_url(place)
        if (file := file_of(url)) is not None:
            return open_database(file, "SQLite" if url.startswith("sqlite") else "DuckDB", query)
        # Kept, since a database changes while it is read: every pass over the rows must see the same.
        return snapshot_source(Path(without_password(url)), "database", url_tables(url, query))
    if not path.exists() and PART in place:
        before, _, part = place.partition(PART)
        path = Path(before)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists() and glob.has_magic(place) and (found := sorted(glob.glob(place, recursive=True))):
        return _stacked([open_source(file) for file in found])
    return open_file(path, part)


def _open_folder(path: Path) -> Source:
    files = data_files(path)
    if not files:
        raise SourceError(
            f"{path} is an empty folder. Pass a file, or a folder of files with the same columns."
        )
    other = [file for file in files if not is_parquet(file)]
    if not other:
        return open_parquet_folder(path)
    if len(other) < len(files):
        raise SourceError(
            f"{path} is a folder, and {other[0].relative_to(path)} in it is no Parquet file, as others are. Pass one "
            "file, or a folder of files of one kind."
        )
    return replace(_stacked([open_within(file, path) for file in files]), path=path)


def _stacked(parts: list[Source]) -> Source:
    """Several sources with the same columns as one, in the order given."""
    if len(parts) == 1:
        return parts[0]
    first, *others = parts
    for other in others:
        if missing := [name for name in first.columns if name not in other.columns]:
            raise SourceError(
                f"{other.path} has no column {missing[0]!r}, which {first.path} has. Pass files with the same columns."
            )
    schema = pa.schema([(name, _type_in_all(name, parts)) for name in first.columns])
    counts = [part.n_rows for part in parts]
    n_rows = None if None in counts else sum(count for count in counts if count is not None)
    kinds = ", ".join(dict.fromkeys(part.describe() for part in parts))
    shown = Path(f"{first.path} and {len(others)} more")
    return Source(
        shown,
        f"{len(parts)} files: {kinds}",
        first.columns,
        n_rows,
        schema,
        tables=Stack(tuple(parts), schema),
    )


def _type_in_all(name: str, parts: Sequence[Source]) -> pa.DataType:
    found = parts[0].type_of(name)
    for part in parts[1:]:
        found = common_type(found, part.type_of(name))
    return found


def _standard_input() -> Source:
    """Standard input is kept in a file: a fit reads its rows several times."""
    with tempfile.TemporaryDirectory(prefix="groupshift-") as folder:
        place = Path(folder) / "input"
        with room_for_copies(), open(place, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not place.stat().st_size:
            raise SourceError(
                "Standard input is empty: it has no header and no rows. It can be read once only."
            )
        shown = Path("standard input")
        source = open_file(place, shown=shown)
        if source.tables is not None:
            return source
        return snapshot_source(shown, source.describe(), source.batches())
