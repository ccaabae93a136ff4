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

# Where they lie; loaded when first asked for.
_MODULES = ("arrow", "batch_sources", "files", "sources")


def __getattr__(name: str) -> object:
    from importlib import import_module

    modules = (import_module(f"groupshift.tables.{one}") for one in _MODULES) if name in __all__ else ()
    for module in modules:
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
