"""What is measured of a method on a draw: predictions, shares and clusters against the truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np

from groupshift.datasets import GroupedSample
from groupshift.datasets.containers import Table, take_rows
from groupshift.metrics import evaluate

LOWER_IS_BETTER = ("log_loss", "brier", "ece")
CALIBRATION_BINS = 15
AGREEMENT_ROWS = 20_000


class Clustered(Protocol):
    """A model with clusters, and what it says of rows."""

    def predict_details(self, X: Table, groups: np.ndarray) -> Mapping[str, np.ndarray]: ...


@dataclass(frozen=True)
class Measured:
    """What a method did on a draw: metrics by name, columns by group, bins of a calibration plot, notes."""

    metrics: dict[str, float]
    by_group: dict[str, np.ndarray]
    calibration: dict[str, np.ndarray]
    notes: list[str] = field(default_factory=list)


def measure(truth: np.ndarray, probability: np.ndarray, groups: np.ndarray) -> Measured:
    """Metrics over all test rows, averaged over groups, and of the worst group.

    >>> found = measure(np.array([0, 1, 0, 1]), np.array([0.1, 0.9, 0.8, 0.2]), np.array(list("aabb")))
    >>> found.metrics["auc"], found.metrics["auc_macro"], found.metrics["auc_worst_group"]
    (0.75, 0.5, 0.0)
    """
    result = evaluate(truth, probability, groups=groups)
    assert result.by_group is not None
    assert result.macro is not None
    metrics = dict(result.overall)
    for name, average in result.macro.items():
        metrics[f"{name}_macro"] = average.value
        values = result.by_group[name]
        worst = np.nanmax if name in LOWER_IS_BETTER else np.nanmin
        metrics[f"{name}_worst_group"] = float(worst(values)) if np.isfinite(values).any() else float("nan")
    code = np.unique(groups, return_inverse=True)[1]
    size = np.bincount(code)
    gap = np.abs(np.bincount(code, probability - truth)) / size
    # The share that a group's predictions imply, against the one its test rows have: defined for any method.
    metrics["share_error_group"] = float(gap.mean())
    metrics["test_rows"] = float(len(truth))
    return Measured(metrics, result.by_group, calibration_bins(truth, probability))


def calibration_bins(truth: np.ndarray, probability: np.ndarray) -> dict[str, np.ndarray]:
    """Rows, mean probability and share of positives in bins of equal width."""
    code = np.minimum((probability * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    rows = np.bincount(code, minlength=CALIBRATION_BINS)
    sums = [np.bincount(code, values, CALIBRATION_BINS) for values in (probability, truth)]
    used = rows > 0
    return {
        "bin": np.flatnonzero(used),
        "rows": rows[used],
        "probability": sums[0][used] / rows[used],
        "share": sums[1][used] / rows[used],
    }


def share_facts(model: object, sample: GroupedSample) -> dict[str, float]:
    """Error of the estimated share of each (group, cluster) cell of the model's own partition.

    The truth is the share of positives among the unlabelled rows that the model saw in the cell, so it is
    defined whatever the number of clusters; cells count by their rows.
    """
    prior = getattr(model, "group_prior_", None)
    if getattr(model, "shares", None) is None or prior is None:
        return {}
    seen = sample.fit_rows & ~sample.labeled
    names = np.asarray(getattr(model, "groups_", ()))
    order = np.argsort(names)
    group = order[np.searchsorted(names, sample.groups[seen], sorter=order)]
    cell = group * prior.shape[1] + _clusters(model, sample, seen)
    rows = np.bincount(cell, minlength=prior.size)
    positive = np.bincount(cell, sample.truth[seen], minlength=prior.size)
    gap = np.abs(positive / np.maximum(rows, 1) - prior.ravel())
    return {"share_error_cell": float((gap * rows).sum() / rows.sum())}


def partition_facts(model: object, sample: GroupedSample) -> dict[str, float]:
    """Clusters that the model used, and their agreement with the generating ones (adjusted Rand index)."""
    names = {"n_clusters": "n_clusters_", "trust": "trust_"}
    facts = {fact: float(getattr(model, name)) for fact, name in names.items() if hasattr(model, name)}
    if "n_clusters" not in facts or sample.cluster is None:
        return facts
    from sklearn.metrics import adjusted_rand_score

    rows = np.flatnonzero(sample.test)[:AGREEMENT_ROWS]
    agreement = adjusted_rand_score(sample.cluster[rows], _clusters(model, sample, rows))
    true_clusters = len(np.unique(sample.cluster))
    return {**facts, "true_clusters": float(true_clusters), "partition_agreement": float(agreement)}


def _clusters(model: object, sample: GroupedSample, rows: np.ndarray) -> np.ndarray:
    details = cast(Clustered, model).predict_details(take_rows(sample.X, rows), sample.groups[rows])
    return np.asarray(details["cluster"])
