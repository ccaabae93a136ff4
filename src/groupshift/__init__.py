"""Calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupshift._audit.found import AuditFound
    from groupshift._audit.plan import AuditPlan
    from groupshift._data.checks import DegradedWarning
    from groupshift._data.progress import listen
    from groupshift._diagnosis.diagnosis import Diagnosis
    from groupshift._diagnosis.share_tables import share_changes
    from groupshift._files.model_files import ModelFileError, load, read_manifest, save
    from groupshift._shifts.counts import Counts
    from groupshift.baselines import METHODS
    from groupshift.classifier import GroupShiftClassifier
    from groupshift.prior_correction import PriorCorrectedClassifier

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "AuditFound",
    "AuditPlan",
    "Counts",
    "DegradedWarning",
    "Diagnosis",
    "GroupShiftClassifier",
    "ModelFileError",
    "PriorCorrectedClassifier",
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
    "Counts": "groupshift._shifts.counts",
    "DegradedWarning": "groupshift._data.checks",
    "Diagnosis": "groupshift._diagnosis.diagnosis",
    "GroupShiftClassifier": "groupshift.classifier",
    "ModelFileError": "groupshift._files.model_files",
    "PriorCorrectedClassifier": "groupshift.prior_correction",
    "listen": "groupshift._data.progress",
    "load": "groupshift._files.model_files",
    "read_manifest": "groupshift._files.model_files",
    "save": "groupshift._files.model_files",
    "share_changes": "groupshift._diagnosis.share_tables",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
