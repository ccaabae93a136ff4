"""Calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupshift._audit.found import AuditFound
    from groupshift._audit.plan import AuditPlan
    from groupshift._explain.diagnostics import Diagnosis
    from groupshift._io.model_files import ModelFileError, load, read_manifest, save
    from groupshift._rows.checks import DegradedWarning
    from groupshift._rows.progress import listen
    from groupshift.baselines import METHODS
    from groupshift.classifier import GroupShiftClassifier

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "AuditFound",
    "AuditPlan",
    "DegradedWarning",
    "Diagnosis",
    "GroupShiftClassifier",
    "ModelFileError",
    "listen",
    "load",
    "read_manifest",
    "save",
    "share_changes",
]

# Loaded on first use, so that importing groupshift stays cheap.
_LAZY = {
    "METHODS": "groupshift.baselines",
    "AuditFound": "groupshift._audit.found",
    "AuditPlan": "groupshift._audit.plan",
    "DegradedWarning": "groupshift._rows.checks",
    "Diagnosis": "groupshift._explain.diagnostics",
    "GroupShiftClassifier": "groupshift.classifier",
    "ModelFileError": "groupshift._io.model_files",
    "listen": "groupshift._rows.progress",
    "load": "groupshift._io.model_files",
    "read_manifest": "groupshift._io.model_files",
    "save": "groupshift._io.model_files",
    "share_changes": "groupshift._explain.share_errors",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
