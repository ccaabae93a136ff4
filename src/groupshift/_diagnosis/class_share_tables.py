"""Shares of several classes as tables, with intervals: a line for each group (or cell) and class."""

import numpy as np

from groupshift._data.checks import check_coverage
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.share_tables import intervals, labeled_sample, over_clusters
from groupshift._math.arrays import FloatArray, IntArray, Table


def class_shares_by(model: ClassModel, by: str, coverage: float) -> Table:
    """What `group_shares` returns: by cell and class, or by group and class with the share among labelled rows."""
    if by not in ("cell", "group", "overall"):
        raise ValueError(f"by={by!r} is not known. Pass 'cell', 'group' or 'overall'.")
    check_coverage(coverage)
    estimate, classes = model.estimate_, model.classes_
    n_groups, n_clusters, n_classes = estimate.share.shape
    if by == "cell":
        rows = np.repeat(estimate.rows[:, :, None], n_classes, 2)
        found = intervals(estimate.share, estimate.share_error, _moved(model), rows, coverage)
        return {
            "group": np.repeat(model.groups_, n_clusters * n_classes),
            "cluster": np.tile(np.repeat(np.arange(n_clusters), n_classes), n_groups),
            "class": np.tile(classes, n_groups * n_clusters),
            "rows": rows.ravel(),
            "share": estimate.share.ravel(),
            **{name: values.ravel() for name, values in found.items()},
        }
    share, error, rows = group_class_shares(model)
    if by == "overall":
        return _overall(model, error, coverage)
    weight = estimate.row_weight / np.maximum(estimate.row_weight.sum(1, keepdims=True), 1e-300)
    found = intervals(share, error, np.einsum("gk,gkc->gc", weight, _moved(model)), rows, coverage)
    return {
        "group": np.repeat(model.groups_, n_classes),
        "class": np.tile(classes, n_groups),
        "rows": rows.ravel(),
        "share": share.ravel(),
        **{name: values.ravel() for name, values in found.items()},
        "labeled_share": labeled_sample(model)[0].ravel(),
    }


def _moved(model: ClassModel) -> FloatArray:
    """Standard deviations of the shares of cells by what shifts all groups alike and no row decides."""
    estimate = model.estimate_
    is_known = np.isin(estimate.groups, estimate.known_groups)[:, None, None]
    return np.where(is_known, 0.0, np.sqrt(estimate.unidentified) * estimate.slope)


def _overall(model: ClassModel, error: FloatArray, coverage: float) -> Table:
    """All rows together: errors of groups, which may go together, are averaged."""
    before, after = overall_class_shares(model)
    weight = model.estimate_.row_weight.sum(1)
    mean_error = weight @ error / max(weight.sum(), 1e-300)
    for number, _, known_error in [] if model.known_overall_ is None else model.known_overall_:
        mean_error[int(number)] = min(mean_error[int(number)], known_error)
    rows = np.full(len(after), model.estimate_.rows.sum())
    # Without a population there is neither a share nor an interval.
    found = dict.fromkeys(("low", "high", "narrow_low", "narrow_high"), after)
    if len(model.groups_):
        cells = model.estimate_.row_weight[..., None] * _moved(model)
        found = intervals(after, mean_error, cells.sum((0, 1)) / weight.sum(), rows, coverage)
    return {
        "class": model.classes_,
        "rows": rows,
        "share": after,
        **found,
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
