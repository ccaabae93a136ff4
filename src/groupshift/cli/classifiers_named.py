"""Classifiers by the names that --classifier takes."""

import os
from collections.abc import Callable

from sklearn.base import BaseEstimator

from groupshift._data.extras import need
from groupshift.cli.errors import InputError
from groupshift.tables.columns import TableClassifier


def classifier_named(name: str) -> BaseEstimator | None:
    """A classifier for tables with categories and missing values; None is the boosted trees of the default."""
    if name not in CLASSIFIERS:
        raise InputError(f"--classifier {name!r} is not known. Choose one of {', '.join(CLASSIFIERS)}.")
    return CLASSIFIERS[name]()


def _forest() -> BaseEstimator:
    """The paper's forest; it takes nothing but numbers."""
    from sklearn.ensemble import RandomForestClassifier

    return TableClassifier(RandomForestClassifier(n_estimators=500, max_depth=10, n_jobs=-1))


def _logistic() -> BaseEstimator:
    from sklearn.linear_model import LogisticRegression

    return TableClassifier(LogisticRegression(max_iter=1000), one_hot=True)


def _lightgbm() -> BaseEstimator:
    return TableClassifier(need("lightgbm").LGBMClassifier(verbose=-1, n_jobs=1))


CLASSIFIERS: dict[str, Callable[[], BaseEstimator | None]] = {
    "boosted": lambda: None,
    "forest": _forest,
    "logistic": _logistic,
    "lightgbm": _lightgbm,
}

# A model of these is text that LightGBM reads, which is not made for files of strangers: who trusts theirs says so.
LIGHTGBM_TYPES = (
    "collections.OrderedDict",
    "collections.defaultdict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
)
ALLOWED = "GROUPSHIFT_ALLOW"


def trusted_types() -> tuple[str, ...]:
    """Types of other packages that the user allows in model files."""
    return LIGHTGBM_TYPES if "lightgbm" in os.environ.get(ALLOWED, "").split(",") else ()
