"""Rows of a query: to a SQLite or DuckDB file, or to any database that SQLAlchemy reaches by its URL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from groupshift._data.extras import need
from groupshift.tables.arrow import SourceError, pa
from groupshift.tables.snapshots import CHUNK_ROWS, tables_of_rows

# Names of columns and rows of an answer. A connection is of whatever package the database has.
Answer = tuple[list[str], Iterator[Sequence[object]]]
TABLES = {
    "SQLite": "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'",
    "DuckDB": "select table_name from information_schema.tables",
}
A_NAME = r"[\w.]+"
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


def file_tables(path: Path, database: str, query: str | None) -> Iterator[pa.Table]:
    """The rows of a query to a database in a file, which is opened for reading only."""
    if database == "SQLite":
        connection: Any = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    else:
        connection = need("duckdb").connect(str(path), read_only=True)
    with closing(connection):
        wanted = query or _only_table(connection, path, TABLES[database])

        def ask(text: str) -> Answer:
            cursor = connection.execute(text)
            return [about[0] for about in cursor.description or ()], _fetched(cursor)

        yield from _tables(ask, wanted, str(path))


def url_tables(url: str, query: str | None) -> Iterator[pa.Table]:
    """The rows of a query to a database by its SQLAlchemy URL."""
    address = urlsplit(url)
    if address.scheme in ("sqlite", "duckdb") and not address.netloc:
        path = Path(address.path.removeprefix("/"))
        if not path.is_file():
            raise SourceError(
                f"There is no file {path}. An absolute path has four slashes: {address.scheme}:////…"
            )
        yield from file_tables(path, {"sqlite": "SQLite", "duckdb": "DuckDB"}[address.scheme], query)
        return
    if query is None:
        raise SourceError(
            f"{without_password(url)} is a database. Say what to read: {without_password(url)}::select …"
        )
    sqlalchemy = need("sqlalchemy")
    with closing(_connected(sqlalchemy, url)) as connection:

        def ask(text: str) -> Answer:
            result = connection.execution_options(stream_results=True).execute(sqlalchemy.text(text))
            return list(result.keys()), _fetched(result)

        yield from _tables(ask, query, without_password(url))


def without_password(url: str) -> str:
    """An address as it may be shown.

    >>> without_password("postgresql://ann:secret@host/people")
    'postgresql://ann:***@host/people'
    """
    return re.sub(r"(://[^/:@]*:)[^@]*@", r"\1***@", url)


def _connected(sqlalchemy: Any, url: str) -> Any:
    try:
        return sqlalchemy.create_engine(url).connect()
    except Exception as error:
        raise SourceError(
            f"Cannot connect to {without_password(url)}: {_reason(error)}. Check the address, and that the package "
            "for this database is installed."
        ) from error


def _tables(ask: Callable[[str], Answer], query: str, shown: str) -> Iterator[pa.Table]:
    query = f"select * from {query}" if re.fullmatch(A_NAME, query) else query
    try:
        names, rows = ask(query)
        if not names:
            raise SourceError(f"{query!r} to {shown} answers with no rows. Ask with a select.")
        yield from tables_of_rows(names, rows)
    except SourceError:
        raise
    except Exception as error:
        raise SourceError(f"{shown} cannot answer {query!r}: {_reason(error)}.") from error


def _fetched(cursor: Any) -> Iterator[Sequence[object]]:
    while rows := cursor.fetchmany(CHUNK_ROWS):
        yield from rows


def _only_table(connection: Any, path: Path, listing: str) -> str:
    tables = [name for (name,) in connection.execute(listing).fetchall()]
    if len(tables) != 1:
        found = f"the tables {', '.join(map(repr, tables[:8]))}" if tables else "no table"
        raise SourceError(
            f"{path} is a database with {found}. Say what to read: {path}::TABLE or '{path}::select …'."
        )
    quoted = tables[0].replace('"', '""')
    return f'select * from "{quoted}"'


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(".")
