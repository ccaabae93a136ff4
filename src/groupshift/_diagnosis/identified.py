"""Features that tell which group a row is of, and a sentence about them."""

import re
from collections.abc import Iterable

import numpy as np

from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._math.arrays import FloatArray


def identifying_of(model: FittedModel) -> dict[str, float]:
    """Features of a fitted model that tell which group a row is of, and how surely."""
    return _by_name(model, model.evidence_.identifying)


def identified_in(model: FittedModel) -> str | None:
    """What is wrong with features of a fitted model; None where there are none."""
    return identified(identifying_of(model))


def identified(names: Iterable[str]) -> str | None:
    """What is wrong with features that identify the group, and what to type; None where there are none.

    >>> identified(["lat", "lon"]).split(": ")[0]
    "'lat' and 'lon' tell which group a row is of"
    """
    names = list(names)
    if not names:
        return None
    *first, last = map(repr, names)
    listed, verb = (f"{', '.join(first)} and {last}", "tell") if first else (last, "tells")
    typed = ",".join(names)
    typed = f'"{typed}"' if re.search(r"[\s'&;$()<>|*?]", typed) else typed
    it = "them" if first else "it"
    return (
        f"{listed} {verb} which group a row is of: a classifier that sees {it} learns the labelled groups by heart, and what "
        f"hidden labels say of other groups (gain, intervals) is then too good to be true. Leave {it} out (--exclude {typed}) "
        "and compare."
    )


def importance_of(model: FittedModel) -> dict[str, float]:
    """Features by what their shuffling costs on hidden labels, the largest first; none where labels could not be hidden."""
    tried = _by_name(model, model.evidence_.importance)
    return dict(sorted(tried.items(), key=lambda item: -item[1]))


def _by_name(model: FittedModel, found: FloatArray) -> dict[str, float]:
    """Numbers of features that have one, by name."""
    return {name: float(v) for name, v in zip(model.encoder_.names_, found, strict=True) if np.isfinite(v)}
