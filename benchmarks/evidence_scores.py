"""What `evidence` measures of a method on a draw, over the rows without labels."""

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

# A group's share and its AUC are measured where it has so many rows without labels.
ENOUGH = 10
BINS = 20


def scores(p: np.ndarray, y: np.ndarray, group: np.ndarray, least: int = ENOUGH) -> dict[str, float]:
    """AUC overall and within groups, log loss, calibration error, mean error of group shares."""
    clipped = np.clip(p, 1e-12, 1 - 1e-12)
    n = np.bincount(group)
    enough = n >= least
    error = np.abs(np.bincount(group, p - y))[enough] / n[enough]
    # By tenths and half tenths of the rows: bins of equal width are empty where probabilities are alike.
    bins = np.minimum((rankdata(p) * BINS / (len(p) + 1)).astype(int), BINS - 1)
    return {
        "auc": float(roc_auc_score(y, p)) if 0 < y.sum() < len(y) else np.nan,
        "auc_within": _within(p, y, group, enough),
        "log_loss": float(-np.mean(np.where(y == 1, np.log(clipped), np.log1p(-clipped)))),
        "calibration_error": float(np.abs(np.bincount(bins, p - y)).sum() / len(p)),
        "share_error": float(error.mean()) if len(error) else np.nan,
    }


def _within(p: np.ndarray, y: np.ndarray, group: np.ndarray, enough: np.ndarray) -> float:
    """Share of pairs of a positive and a negative of one group that are ranked rightly."""
    right = pairs = 0.0
    for g in np.flatnonzero(enough):
        own = group == g
        positives = y[own].sum()
        weight = positives * (own.sum() - positives)
        if weight:
            right, pairs = right + weight * roc_auc_score(y[own], p[own]), pairs + weight
    return float(right / pairs) if pairs else np.nan


def interval_scores(model, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """How often intervals hold the shares of the rows, their width, and the gain that was announced."""
    table = model.group_shares(by="group")
    names = np.asarray(table["group"])
    low, high = (np.asarray(table[name], float) for name in ("low", "high"))
    # The table may end in lines that are no group, such as all groups together.
    kept = np.array(
        [isinstance(g, int | np.integer) and (group == g).sum() >= ENOUGH for g in names.tolist()]
    )
    truth = np.array([y[group == g].mean() for g in names[kept].tolist()])
    held = (low[kept] <= truth + 1e-9) & (truth <= high[kept] + 1e-9)
    overview = model.diagnose().overview
    announced = {
        f"announced{suffix}": float(overview.get(f"expected_loss_gain{suffix}", 0.0))
        for suffix in ("", "_low", "_high")
    }
    return {
        "coverage": float(held.mean()),
        "width": float((high - low)[kept].mean()),
        "n_clusters": int(model.n_clusters_),
        **announced,
    }
