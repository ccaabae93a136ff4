"""Packages of extras, imported where they are used: without one, a sentence says which extra brings it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# By package: the extra of ours that brings it, and what it is for unless the caller says more.
EXTRAS = {
    "dask": ("dask", "Work on a cluster"),
    "duckdb": ("database", "Reading DuckDB files"),
    "jinja2": ("report", "The report"),
    "lightgbm": ("lightgbm", "A model of LightGBM"),
    "matplotlib": ("plot", "A display"),
    "openpyxl": ("excel", "Reading and writing Excel workbooks"),
    "pandas": ("statistics", "Reading and writing Stata and SPSS files"),
    "pyarrow": ("files", "Reading and writing tables"),
    "pyreadstat": ("statistics", "Reading and writing Stata, SPSS and SAS files"),
    "skops": ("save", "Saving and loading models"),
    "sqlalchemy": ("database", "Reading from databases"),
}


def check_extra(package: str) -> None:
    """Refuse what needs a package that is not installed, before any work is done."""
    if find_spec(package) is None:
        raise _missing(package)


# These packages have no types, or are not installed where ours are checked.
def need(module: str, *, extra: str | None = None, what: str | None = None) -> Any:
    """A module of a package of an extra; `extra` and `what` where `EXTRAS` does not say it all."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        # One message is enough: that the package is absent says it all.
        raise _missing(module.partition(".")[0], extra, what) from None


def _missing(package: str, extra: str | None = None, what: str | None = None) -> ImportError:
    of_package = EXTRAS.get(package, ("", ""))
    return ImportError(
        f"{what or of_package[1]} needs {package}. Install it with: "
        f'pip install "groupshift[{extra or of_package[0]}]"'
    )
