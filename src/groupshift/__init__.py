"""Calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupshift.baselines import METHODS
    from groupshift.classifier import GroupShiftClassifier
    from groupshift.inputs import DegradedWarning
    from groupshift.persistence import load, save

__version__ = "0.1.0"
__all__ = ["METHODS", "DegradedWarning", "GroupShiftClassifier", "load", "save"]

# Loaded on first use, so that importing groupshift stays cheap.
_LAZY = {
    "METHODS": "groupshift.baselines",
    "DegradedWarning": "groupshift.inputs",
    "GroupShiftClassifier": "groupshift.classifier",
    "load": "groupshift.persistence",
    "save": "groupshift.persistence",
}


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
