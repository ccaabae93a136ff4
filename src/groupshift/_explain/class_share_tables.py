"""Shares of several classes as tables, with intervals: a line for each group (or cell) and class."""

import numpy as np

from groupshift._explain.class_model import ClassModel
from groupshift._explain.share_tables import count_interval, labeled_sample, over_clusters
from groupshift._math.arrays import FloatArray, IntArray, Table
from groupshift._rows.checks import check_coverage


def class_shares_by(model: ClassModel, by: str, coverage: float) -> Table:
    """What `group_shares` returns: by cell and class, or by group and class with the share among labelled rows."""
    if by not in ("cell", "group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'cell', 'group' or 'overall'.")
    check_coverage(coverage)
    estimate, classes = model.estimate_, model.classes_
    n_groups, n_clusters, n_classes = estimate.share.shape
    if by == "cell":
        rows = np.repeat(estimate.rows[:, :, None], n_classes, 2)
        low, high = count_interval(estimate.share, estimate.share_error, rows, coverage)
        return {
            "group": np.repeat(model.groups_, n_clusters * n_classes),
            "cluster": np.tile(np.repeat(np.arange(n_clusters), n_classes), n_groups),
            "class": np.tile(classes, n_groups * n_clusters),
            "rows": rows.ravel(),
            "share": estimate.share.ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
        }
    share, error, rows = group_class_shares(model)
    if by == "overall":
        return _overall(model, error, coverage)
    low, high = count_interval(share, error, rows, coverage)
    return {
        "group": np.repeat(model.groups_, n_classes),
        "class": np.tile(classes, n_groups),
        "rows": rows.ravel(),
        "share": share.ravel(),
        "low": low.ravel(),
        "high": high.ravel(),
        "labeled_share": labeled_sample(model)[0].ravel(),
    }


def _overall(model: ClassModel, error: FloatArray, coverage: float) -> Table:
    """All rows together: errors of groups, which may go together, are averaged."""
    before, after = overall_class_shares(model)
    weight = model.estimate_.row_weight.sum(1)
    mean_error = weight @ error / max(weight.sum(), 1e-300)
    for number, _, known_error in [] if model.known_overall_ is None else model.known_overall_:
        mean_error[int(number)] = min(mean_error[int(number)], known_error)
    rows = np.full(len(after), model.estimate_.rows.sum())
    # Without a population there is neither a share nor an interval.
    low = high = after
    if len(model.groups_):
        low, high = count_interval(after, mean_error, rows, coverage)
    return {
        "class": model.classes_,
        "rows": rows,
        "share": after,
        "low": low,
        "high": high,
        "labeled_share": before,
    }


def group_class_shares(model: ClassModel) -> tuple[FloatArray, FloatArray, IntArray]:
    """Shares of each group, clusters weighted by its rows, their standard errors, and its rows: (n_groups, n_classes)."""
    share, error = over_clusters(model.estimate_)
    return share, error, np.repeat(model.estimate_.rows.sum(1)[:, None], share.shape[1], 1)


def overall_class_shares(model: ClassModel) -> tuple[FloatArray, FloatArray]:
    """Shares among all labelled rows, and among all population rows (NaN without any), by weight: (n_classes,)."""
    weight = model.estimate_.row_weight
    nobody = np.full(len(model.classes_), np.nan)
    if not weight.sum():
        return model.evidence_.groups.overall_share, nobody
    population = np.einsum("gk,gkc->c", weight, model.estimate_.share) / weight.sum()
    return model.evidence_.groups.overall_share, population
