"""Shares of positives as tables, with intervals: by cell, and by group over its clusters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from groupshift.odds import in_doubt


def cell_shares(model: Any, coverage: float) -> dict[str, NDArray]:
    """One line for each (group, cluster) cell of a fitted model."""
    n_groups, n_clusters = model.shift_.shape
    eta = logit(model.labeled_prior_) + model.shift_
    reach = ndtri(0.5 + coverage / 2) * np.sqrt(model.shift_variance_)
    return {
        "group": np.repeat(model.groups_, n_clusters),
        "cluster": np.tile(np.arange(n_clusters), n_groups),
        "rows": model.rows_.ravel(),
        "share": in_doubt(eta).ravel(),
        "low": in_doubt(eta - reach).ravel(),
        "high": in_doubt(eta + reach).ravel(),
    }


def group_level_shares(model: Any, coverage: float) -> dict[str, NDArray]:
    """One line for each group: shares of its clusters weighted by its rows (post-stratified)."""
    alpha = model.group_prior_
    total = np.maximum(model.row_weight_.sum(1, keepdims=True), 1e-300)
    weight = model.row_weight_ / total
    share = (weight * alpha).sum(1)
    slope = weight * alpha * (1 - alpha)
    # Variances of the cells, and the covariance that cells of one group share.
    own = np.maximum(model.shift_variance_ - model.shared_deviation_**2, 0)
    variance = (slope**2 * own).sum(1) + (slope * model.shared_deviation_).sum(1) ** 2
    # On the log-odds scale an interval stays inside (0, 1).
    spread = np.maximum(share * (1 - share), 1e-12)
    reach = ndtri(0.5 + coverage / 2) * np.sqrt(variance) / spread
    eta = logit(np.clip(share, 1e-12, 1 - 1e-12))
    return {
        "group": model.groups_,
        "rows": model.rows_.sum(1),
        "share": share,
        "low": in_doubt(eta - reach),
        "high": in_doubt(eta + reach),
    }
