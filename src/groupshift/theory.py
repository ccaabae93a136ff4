"""The paper's theory on arrays of any origin: Theorem 1, Theorem 2, and label shift in many cells at once."""

from groupshift._math.auc_gain import AUCGain, auc_gain
from groupshift._math.label_shift import Shares, bbse, em, mlls, mlls_classes, prediction_rates
from groupshift._math.odds import odds_ratio, shift_posterior
from groupshift._math.points import Points, collect_points

__all__ = [
    "AUCGain",
    "Points",
    "Shares",
    "auc_gain",
    "bbse",
    "collect_points",
    "em",
    "mlls",
    "mlls_classes",
    "odds_ratio",
    "prediction_rates",
    "shift_posterior",
]
