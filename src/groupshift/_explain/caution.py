"""Where not to trust the model: groups, cells and clusters that lean on little, and why."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from groupshift._explain.wording import percent
from groupshift._math.cell_likelihood import CellLikelihood
from groupshift._math.points import Points
from groupshift._rows.codes import Codes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# An interval from fewer rows says little more than the other groups do.
FEW_GROUP_ROWS, FEW_CELL_ROWS, FEW_LABELED_ROWS = 50, 20, 20
# Below this AUC inside a cluster, its positives and negatives look so alike that their shares cannot be told
# apart.
ALIKE_AUC = 0.6
EDGE_SHARE = 0.02
POOR_FIT = 0.1
# One cell in a thousand lies this many times farther from its mixture than chance puts it on average.
SURE_MISFIT = 2.24

# What is said of one, and of many.
EXPLANATION = {
    "few rows in group": (
        "has fewer than 50 rows, so its share leans on other groups",
        "have fewer than 50 rows, so their shares lean on other groups",
    ),
    "few rows in cell": (
        "has fewer than 20 rows, so its share leans on its group and on other groups",
        "have fewer than 20 rows, so their shares lean on their group and on other groups",
    ),
    "classes look alike": (
        "hardly tells positives from negatives (AUC below 0.6), so shares are hardly identified there",
        "hardly tell positives from negatives (AUC below 0.6), so shares are hardly identified there",
    ),
    "few labelled rows in cluster": (
        "has fewer than 20 labelled rows, so scores are guesses there",
        "have fewer than 20 labelled rows, so scores are guesses there",
    ),
    "few labels of one class": (
        "has fewer than 20 labelled rows of one class, so its unlabelled rows say nothing of its shares",
        "have fewer than 20 labelled rows of one class, so their unlabelled rows say nothing of their shares",
    ),
    "share at the edge": (
        "has an estimated share below 2 % or above 98 %, where small errors of calibration weigh most",
        "have estimated shares below 2 % or above 98 %, where small errors of calibration weigh most",
    ),
    "scores outside the labelled range": (
        "has a mean score outside the range that hidden labels could check, so nothing vouches for its shift",
        "have mean scores outside the range that hidden labels could check, so nothing vouches for their shifts",
    ),
    "shift outside the labelled range": (
        "has a larger shift than any that hidden labels could check, so nothing vouches for its size",
        "have larger shifts than any that hidden labels could check, so nothing vouches for their size",
    ),
    "mixture does not fit": (
        "has scores that no mix of labelled positives and negatives explains",
        "have scores that no mix of labelled positives and negatives explains",
    ),
    "no unlabelled rows": (
        "has labels but no unlabelled rows, and gets the shift common to all groups until an update brings some",
        "have labels but no unlabelled rows, and get the shift common to all groups until an update brings some",
    ),
}
LEVEL = {
    "few rows in cell": "cells",
    "share at the edge": "cells",
    "mixture does not fit": "cells",
    "classes look alike": "clusters",
    "few labelled rows in cluster": "clusters",
    "few labels of one class": "clusters",
}


def find_cautions(model: Any, evidence: dict, mixture: dict[str, NDArray]) -> dict[str, NDArray]:
    """Every reason for caution, one line each.

    Returns
    -------
    dict of arrays : kind, group (text, None if all groups), cluster (-1 if all clusters), rows (of the
        population that it concerns), value (the number that is too small or too large)
    """
    kinds, groups, clusters, rows, values = [], [], [], [], []
    names = [str(name) for name in model.groups_.tolist()]
    for kind, group, cluster, n_rows, value in _all(model, evidence, mixture):
        kinds.append(kind)
        groups.append(group if isinstance(group, str) else names[group] if group >= 0 else None)
        clusters.append(cluster)
        rows.append(n_rows)
        values.append(value)
    return {
        "kind": np.array(kinds, dtype=object),
        "group": np.array(groups, dtype=object),
        "cluster": np.array(clusters, dtype=np.int64),
        "rows": np.array(rows, dtype=np.int64),
        "value": np.array(values, dtype=float),
    }


def caution_sentences(table: dict[str, NDArray], n_rows: int, n_clusters: int) -> Iterator[str]:
    """One sentence for each kind of caution, the most rows first."""
    kinds = sorted(
        set(table["kind"].tolist()), key=lambda kind: -int(table["rows"][table["kind"] == kind].sum())
    )
    for kind in kinds:
        own = table["kind"] == kind
        level = LEVEL.get(kind, "groups")
        named = _named(table, own, level, n_clusters)
        part = table["rows"][own].sum() / n_rows if n_rows else 0.0
        amount = percent(part, 0) if part >= 0.01 else "less than 1 %"
        among = f", {amount} of the population" if part > 0 else ""
        count = int(own.sum())
        noun = level if count != 1 else level[:-1]
        explanation = EXPLANATION[kind][count != 1]
        yield f"{count:,} {noun} ({named}{among}) {explanation}."


def row_value(points: Points, model: Any) -> FloatArray:
    """What an unlabelled row tells of its cell's share, as a part of what its label would tell."""
    n_groups = len(points.rows) // model.n_clusters_
    base = np.tile(logit(np.clip(model.labeled_prior_, 1e-9, 1 - 1e-9)), n_groups)
    eta = base + model.shift_.ravel()
    _, curvature = CellLikelihood(points, base).information(eta)
    full = points.effective_rows * expit(eta) * expit(-eta)
    return np.divide(curvature, full, out=np.full(len(full), np.nan), where=full > 0)


def _all(model, evidence, mixture) -> Iterator[tuple[str, int | str, int, int, float]]:
    n_clusters = model.n_clusters_
    by_cluster = model.rows_.sum(0) if len(model.rows_) else np.zeros(n_clusters, int)
    yield from _clusters(model, evidence, by_cluster)
    if model.has_groups_ and len(model.groups_):
        missing = Codes.of(model.groups_).transform(model.labeled_groups_) < 0
        labeled = evidence.get("groups", {}).get("rows", np.zeros(len(missing)))
        for g in np.flatnonzero(missing):
            yield "no unlabelled rows", str(model.labeled_groups_[g]), -1, 0, float(labeled[g])
    # A model that makes no shift takes nothing from cells: how little they know does not matter.
    if not np.any(model.shift_):
        return
    yield from _groups(model, evidence)
    yield from _cells(model, mixture)


def _clusters(model, evidence, by_cluster):
    auc = evidence.get("scores", {}).get("auc", np.full(model.n_clusters_, np.nan))
    rarer = np.broadcast_to(model.rarer_class_rows_, model.n_clusters_)
    for k in range(model.n_clusters_):
        if auc[k] < ALIKE_AUC:
            yield "classes look alike", -1, k, int(by_cluster[k]), float(auc[k])
        if model.labeled_rows_[k] < FEW_LABELED_ROWS:
            yield "few labelled rows in cluster", -1, k, int(by_cluster[k]), float(model.labeled_rows_[k])
        elif rarer[k] < FEW_LABELED_ROWS:
            yield "few labels of one class", -1, k, int(by_cluster[k]), float(rarer[k])


def _groups(model, evidence):
    rows = model.rows_.sum(1)
    for g in np.flatnonzero(rows < FEW_GROUP_ROWS):
        yield "few rows in group", int(g), -1, int(rows[g]), float(rows[g])
    hidden = evidence.get("hidden")
    if hidden is None or len(hidden["group"]) < 2:
        return
    mean, error = _mean_scores(model)
    low, high = hidden["mean_score"].min(), hidden["mean_score"].max()
    for g in np.flatnonzero((mean - 2 * error > high) | (mean + 2 * error < low)):
        yield "scores outside the labelled range", int(g), -1, int(rows[g]), float(mean[g])
    weight = model.row_weight_
    shift = (weight * model.shift_).sum(1) / np.maximum(weight.sum(1), 1e-300)
    # Labelled groups have no common shift by construction, so deviations from the common shift are compared.
    shift = shift - np.average(shift, weights=weight.sum(1) + 1e-300)
    spread = 2 * np.sqrt((weight * model.shift_variance_).sum(1) / np.maximum(weight.sum(1), 1e-300))
    low, high = hidden["estimated_shift"].min(), hidden["estimated_shift"].max()
    for g in np.flatnonzero((shift - spread > high) | (shift + spread < low)):
        yield "shift outside the labelled range", int(g), -1, int(rows[g]), float(shift[g])


def _cells(model, mixture):
    rows, share = model.rows_, model.group_prior_
    few = (rows > 0) & (rows < FEW_CELL_ROWS) & (rows.sum(1, keepdims=True) >= FEW_GROUP_ROWS)
    edge = (rows > 0) & ((share < EDGE_SHARE) | (share > 1 - EDGE_SHARE))
    excess, poor = np.zeros(rows.shape), np.zeros(rows.shape, bool)
    if mixture:
        excess = np.nan_to_num(mixture["excess"]).reshape(rows.shape)
        sure = mixture["best_distance"] > SURE_MISFIT * mixture["by_chance"]
        poor = sure.reshape(rows.shape) & (excess > POOR_FIT)
    for kind, found, value in (
        ("few rows in cell", few, rows),
        ("share at the edge", edge, share),
        ("mixture does not fit", poor, excess),
    ):
        for g, k in zip(*np.nonzero(found), strict=True):
            yield kind, int(g), int(k), int(rows[g, k]), float(value[g, k])


def _mean_scores(model) -> tuple[FloatArray, FloatArray]:
    """Mean score of each population group, and its standard error."""
    points = model.tally_
    n_groups = len(model.groups_)
    if points is None:
        return np.full(n_groups, np.nan), np.full(n_groups, np.nan)
    group = points.cell // model.n_clusters_
    total = np.maximum(np.bincount(group, weights=points.weight, minlength=n_groups), 1e-300)
    mean = np.bincount(group, weights=points.weight * points.score, minlength=n_groups) / total
    square = (
        np.bincount(group, weights=points.weight * (points.score - mean[group]) ** 2, minlength=n_groups)
        / total
    )
    return mean, np.sqrt(square / np.maximum(model.rows_.sum(1), 1))


def _named(table, own, level, n_clusters: int, most: int = 3) -> str:
    groups, clusters = table["group"][own], table["cluster"][own]
    if level == "clusters":
        names = [str(k) for k in clusters]
    elif level == "cells" and n_clusters > 1:
        names = [f"{g} in cluster {k}" for g, k in zip(groups, clusters, strict=True)]
    else:
        names = [str(g) for g in groups]
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
