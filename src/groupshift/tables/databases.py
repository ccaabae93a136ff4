"""Rows of a query: to a SQLite or DuckDB file, or to any database that SQLAlchemy reaches by its URL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit

from groupshift._data.extras import need
from groupshift.tables.arrow import ArrowTable, SourceError, pa
from groupshift.tables.snapshots import CHUNK_ROWS, tables_of_rows

# Tables alone: a view is a query that whoever made the file wrote, and may read other files or never end.
TABLES = {
    "SQLite": "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'",
    "DuckDB": "select table_name from information_schema.tables where table_type = 'BASE TABLE'",
}
# What a query to a file may reach is this file: no other file, no address, no extension; and no query can change that.
LOCKED = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "lock_configuration": "true",
    # No file of a query is left behind: what does not fit here is refused.
    "temp_directory": "",
    "memory_limit": "4GB",
}
A_NAME = r"[\w.]+"
# Between an address and what is asked there: sqlite:///people.db::select …, duckdb:///lake.db?query=select …
ASKED = re.compile(r"::|[?&]query=")
# Schemes of addresses of files.
FILE_SYSTEMS = ("s3", "gs", "gcs", "hdfs", "file", "http", "https", "abfs", "az")


def database_of(head: bytes) -> str | None:
    """Which database wrote a file, by its first bytes."""
    if head.startswith(b"SQLite format 3\0"):
        return "SQLite"
    return "DuckDB" if head[8:12] == b"DUCK" else None


def is_url(place: str) -> bool:
    """Whether a place is a database's address: a scheme that no file system has.

    >>> is_url("postgresql://host/people::select 1"), is_url("s3://bucket/rows.parquet"), is_url("a.csv")
    (True, False, False)
    """
    scheme = re.match(r"([a-z0-9]+)(\+\w+)?://", place)
    return scheme is not None and scheme[1] not in FILE_SYSTEMS


def split_url(place: str) -> tuple[str, str | None]:
    """A database's address, and the query or table that is named in it.

    >>> split_url("duckdb:///lake.db?query=select+1"), split_url("sqlite:///a.db::people"), split_url("sqlite:///a.db")
    (('duckdb:///lake.db', 'select 1'), ('sqlite:///a.db', 'people'), ('sqlite:///a.db', None))
    """
    found = ASKED.search(place)
    if found is None:
        return place, None
    url, query = place[: found.start()], place[found.end() :].strip()
    # Typed as it is, a query has blanks; encoded for an address it has none.
    is_encoded = found[0] != "::" and not re.search(r"\s", query)
    return url, (unquote_plus(query) if is_encoded else query) or None


# Types of DuckDB that a table of values has no type for: they are read as text.
AS_TEXT = ("UUID", "INTERVAL", "TIME", "TIME WITH TIME ZONE", "JSON", "BIT", "HUGEINT", "UHUGEINT")


@dataclass(frozen=True)
class DuckQuery:
    """A query to a DuckDB file, asked again for every pass; the file stays open, so that no other program changes it."""

    connection: Any
    query: str

    def select(self, *names: str) -> DuckQuery:
        return DuckQuery(self.connection, f"select {', '.join(map(_quoted, names))} from (\n{self.query}\n)")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # A cursor of its own: one that is being read answers no second question.
        try:
            return self.connection.cursor().sql(self.query).__arrow_c_stream__(requested_schema)
        except need("duckdb").Error as error:
            raise SourceError(
                f"A DuckDB file cannot be read to its end ({_reason(error)}). It may be damaged: copy or export it again."
            ) from error


def duckdb_table(path: Path, query: str | None) -> ArrowTable:
    """A table of a DuckDB file, or a query to it, which reaches nothing else; its rows are read in batches."""
    duckdb = need("duckdb")
    try:
        connection = duckdb.connect(str(path), read_only=True, config=LOCKED)
        wanted = (query or _only_table(connection, path, TABLES["DuckDB"])).rstrip().rstrip(";")
        wanted = f"select * from {wanted}" if re.fullmatch(A_NAME, wanted) else wanted
        relation = connection.sql(wanted)
        if relation is None:
            raise SourceError(f"{wanted!r} to {path} answers with no rows. Ask with a select.")
        kinds = zip(map(_quoted, relation.columns), map(str, relation.types), strict=True)
        columns = [f"{name}::varchar as {name}" if kind in AS_TEXT else name for name, kind in kinds]
        return ArrowTable(
            DuckQuery(connection, f"select {', '.join(columns)} from (\n{wanted}\n)"), CHUNK_ROWS
        )
    except duckdb.Error as error:
        if query is None:
            raise SourceError(
                f"{path} begins like a file of DuckDB but cannot be read ({_reason(error)}). It may be damaged or of a newer "
                "DuckDB: copy or export it again."
            ) from error
        raise SourceError(f"{path} cannot answer {query!r}: {_reason(error)}.") from error


def sqlite_tables(path: Path, query: str | None) -> Iterator[pa.Table]:
    """The rows of a query to a SQLite file, which is opened for reading only."""
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    with closing(connection):
        # What a file's author wrote into its tables runs no function that could do harm.
        connection.execute("pragma trusted_schema = off")
        wanted = query or _only_table(connection, path, TABLES["SQLite"])
        yield from _tables(connection.execute, wanted, str(path))


def url_tables(url: str, query: str | None) -> Iterator[pa.Table]:
    """The rows of a query to a database by its SQLAlchemy URL."""
    if query is None:
        raise SourceError(
            f"{without_password(url)} is a database. Say what to read: {without_password(url)}::select …"
        )
    sqlalchemy = need("sqlalchemy")
    try:
        connection = sqlalchemy.create_engine(url).connect().execution_options(stream_results=True)
    except Exception as error:
        raise SourceError(
            f"Cannot connect to {without_password(url)}: {_reason(error)}. Check the address, and that the package "
            "for this database is installed."
        ) from error
    with closing(connection):
        yield from _tables(
            lambda text: connection.execute(sqlalchemy.text(text)), query, without_password(url)
        )


def file_of(url: str) -> Path | None:
    """The file that an address of SQLite or DuckDB names; None for other databases."""
    address = urlsplit(url)
    if address.scheme not in ("sqlite", "duckdb") or address.netloc:
        return None
    path = Path(address.path.removeprefix("/"))
    if not path.is_file():
        raise SourceError(
            f"There is no file {path}. An absolute path has four slashes: {address.scheme}:////…"
        )
    return path


def without_password(url: str) -> str:
    """An address as it may be shown.

    >>> without_password("postgresql://ann:secret@host/people")
    'postgresql://ann:***@host/people'
    """
    return re.sub(r"(://[^/:@]*:)[^@]*@", r"\1***@", url)


def _tables(ask: Callable[[str], Any], query: str, shown: str) -> Iterator[pa.Table]:
    query = f"select * from {query}" if re.fullmatch(A_NAME, query) else query
    try:
        cursor = ask(query)
        # SQLAlchemy knows names before a server's cursor does.
        names = list(
            cursor.keys() if hasattr(cursor, "keys") else [one[0] for one in cursor.description or ()]
        )
        if not names:
            raise SourceError(f"{query!r} to {shown} answers with no rows. Ask with a select.")
        rows = chain.from_iterable(iter(lambda: cursor.fetchmany(CHUNK_ROWS), []))
        yield from tables_of_rows(names, rows)
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"{shown} cannot answer {query!r}: {_reason(error)}.") from error


def _only_table(connection: Any, path: Path, listing: str) -> str:
    tables = [name for (name,) in connection.execute(listing).fetchall()]
    if len(tables) != 1:
        found = (
            f"the tables {', '.join(map(repr, tables[:8]))}"
            if tables
            else "no table (views are not read unasked)"
        )
        raise SourceError(
            f"{path} is a database with {found}. Say what to read: {path}::TABLE or '{path}::select …'."
        )
    return f"select * from {_quoted(tables[0])}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(".")
