"""Tables: read from files, folders, databases and Arrow streams, in batches; written whole or not at all.

Public, since the command and the page stand on it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupshift.tables.arrow import SourceError, arrow_batches
    from groupshift.tables.batch_sources import BatchSource, as_source
    from groupshift.tables.files import OutputError, write_batches, write_table
    from groupshift.tables.sources import Source, open_source

__all__ = [
    "BatchSource",
    "OutputError",
    "Source",
    "SourceError",
    "arrow_batches",
    "as_source",
    "open_source",
    "write_batches",
    "write_table",
]

_LAZY = {
    "BatchSource": "batch_sources",
    "OutputError": "files",
    "Source": "sources",
    "SourceError": "arrow",
    "arrow_batches": "arrow",
    "as_source": "batch_sources",
    "open_source": "sources",
    "write_batches": "files",
    "write_table": "files",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"groupshift.tables.{_LAZY[name]}"), name)
