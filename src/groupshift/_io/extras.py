"""Packages that some files need, looked for before any work is done: without one, a sentence says which extra brings it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

# What each extra of ours is for.
EXTRAS = {
    "openpyxl": ("excel", "Excel workbooks"),
    "pyreadstat": ("statistics", "Stata, SPSS and SAS files"),
    "pandas": ("statistics", "Stata and SPSS files"),
    "duckdb": ("database", "DuckDB files"),
    "sqlalchemy": ("database", "databases"),
    "lightgbm": ("lightgbm", "models of LightGBM"),
}


def check_extra(package: str) -> None:
    """Refuse what needs a package that is not installed."""
    if find_spec(package) is None:
        extra, what = EXTRAS[package]
        raise ImportError(
            f'Reading and writing {what} needs {package}. Install it with: pip install "groupshift[{extra}]"'
        )


# These packages have no types, or are not installed where ours are checked.
def need(package: str) -> Any:
    """A package of an extra."""
    check_extra(package)
    return import_module(package)
