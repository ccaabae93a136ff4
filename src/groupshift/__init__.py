"""Calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

from groupshift.baselines import METHODS
from groupshift.classifier import GroupShiftClassifier
from groupshift.inputs import DegradedWarning

__version__ = "0.1.0"
__all__ = ["METHODS", "DegradedWarning", "GroupShiftClassifier"]
