"""What `fit` keeps for the diagnosis: small tables about the labelled rows, never the rows themselves.

`model.evidence_` is a dict of dicts of plain numeric arrays. Groups are numbers into `labeled_groups_`,
features numbers into `encoder_.names_`, categories numbers into `encoder_.categories_`. A part that the data
do not allow is left out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from groupshift._explain.assumption import (
    Strata,
    combined_p_value,
    comparable,
    group_effects,
    score_distributions,
)
from groupshift._explain.cluster_profile import cluster_profiles
from groupshift._explain.expected_gain import grouped_auc_gain, observed_shift
from groupshift._fit.trials import (
    LabeledRows,
    expected_prior,
    gain,
    labeled_prior,
    shifts_of_labeled,
)
from groupshift._math.calibration import crossfit_platt
from groupshift._math.label_shift import bbse, mlls
from groupshift._math.odds import log_loss_rows
from groupshift._math.points import BIN_WIDTH, collect_points
from groupshift._rows.keys import hash_keys, sampled
from groupshift.metrics import evaluate

FloatArray = NDArray[np.float64]
Evidence = dict[str, dict[str, NDArray]]

# Values (rows x features) that the tests look at, a second's work. Beyond this rows are sampled: effect sizes
# need no more of them.
MAX_VALUES = 5_000_000
# Cells of the calibration tables of all groups together.
MAX_CALIBRATION_CELLS = 40_000
CALIBRATION_BINS = 10
# A number with so many values that so few other examples share one's own, on average, is like a name.
MANY_VALUES, NAME_SHARED_BY = 20, 0.1


def record_evidence(fitting: Any) -> Evidence:
    """Everything that the diagnosis will want to know about the labelled rows of a finished `Fitting`."""
    evidence: Evidence = {
        "groups": _labeled_groups(fitting),
        "examples": _examples(fitting),
        "clusters": _profiles(fitting),
        "independence": _independence(fitting),
    }
    if fitting.fold is None:
        return evidence
    rows, cluster = _judged_rows(fitting)
    plain = _plain_log_odds(fitting, rows)
    log_odds, shift = _model_log_odds(fitting, rows, cluster)
    evidence["scores"] = _scores(log_odds, rows, cluster, fitting.model.n_clusters_)
    evidence["score_independence"] = _score_independence(fitting, log_odds, rows, cluster)
    evidence["hidden"] = _hidden_labels(fitting, rows, plain, log_odds, shift)
    evidence["total"] = _totals(rows, plain, log_odds + shift)
    evidence["calibration"] = _calibration(rows, plain, log_odds + shift)
    if fitting.trial is not None:
        trust = fitting.trial.trust
        evidence["trust"] = {"estimate": np.array(trust.estimate), "std_error": np.array(trust.std_error)}
    return evidence


def known_groups(groups: NDArray, known_shares: Any) -> NDArray:
    """The groups whose rate of positives the user knows."""
    known = dict(known_shares or {})
    return groups[np.array([group in known for group in groups.tolist()], bool)]


def _labeled_groups(fitting) -> dict[str, NDArray]:
    rows, n = fitting.labeled, len(fitting.model.labeled_groups_)
    weight = np.bincount(rows.group, weights=rows.weight, minlength=n)
    positive = np.bincount(rows.group, weights=rows.weight * fitting.y, minlength=n)
    return {"rows": np.bincount(rows.group, minlength=n), "share": positive / np.maximum(weight, 1e-300)}


def _examples(fitting) -> dict[str, NDArray]:
    """Examples of the class that has fewest, its rows, and the part of all rows that are copies nobody marked."""
    rows, y = fitting.labeled, fitting.y
    examples = np.array([len(np.unique(rows.key[y == c])) for c in (0, 1)])
    fewest = int(examples.argmin())
    return {
        "fewest_examples": examples[fewest],
        "fewest_examples_rows": np.array((y == fewest).sum()),
        "unmarked_copies": np.array(_unmarked_copies(rows, y, fitting.model.encoder_.is_category)),
    }


def _unmarked_copies(rows, y, is_category) -> float:
    """Part of the examples whose features, label and group repeat another example's; 0 if it may be chance."""
    content = hash_keys(rows.group.astype(np.uint64), 0) ^ hash_keys(y.astype(np.uint64), 1)
    for column in rows.matrix.T:
        # Zero has two signs and NaN has many forms: one of each, so that equal values have equal bits.
        values = np.where(np.isnan(column), np.nan, column + 0.0).astype(np.float64, copy=False)
        content = hash_keys(content ^ values.view(np.uint64), 2)
    once = np.unique(content, return_index=True)[1]
    # Copies that share a key are one example.
    copies = 1 - len(once) / len(np.unique(hash_keys(content, 3) ^ hash_keys(rows.key, 4)))
    # Rows of a few categories repeat by chance. A number that hardly any two examples share rules that out.
    numbers = (rows.matrix[once, j] for j in np.flatnonzero(~is_category))
    return copies if copies > 0 and any(map(_is_like_a_name, numbers)) else 0.0


def _is_like_a_name(column) -> bool:
    count = np.unique(column, return_counts=True)[1]
    return len(count) >= MANY_VALUES and (count**2).sum() / len(column) - 1 < NAME_SHARED_BY


def _profiles(fitting) -> dict[str, NDArray]:
    rows = _few(fitting.pooled, fitting.seed)
    partition, model = fitting.model.posterior_.partition, fitting.model
    return cluster_profiles(
        rows.matrix, rows.weight, partition.predict(rows), partition.n_clusters, model.encoder_.is_category
    )


def _independence(fitting) -> dict[str, NDArray]:
    """Effect of the group on every feature, per (cluster, class): arrays (n_clusters, 2, …)."""
    model = fitting.model
    keep = _few_mask(fitting.labeled, fitting.seed)
    rows, y = fitting.labeled.take(keep), fitting.y[keep]
    cluster = model.posterior_.partition.predict(rows)
    strata = _strata(cluster, y, rows.group, rows.weight, rows.key, model.n_clusters_)
    is_category = model.encoder_.is_category
    parts = [
        group_effects(comparable(np.asarray(rows.matrix[:, j], float), is_category[j]), strata)
        for j in range(rows.matrix.shape[1])
    ]
    effect, error, p = (
        np.stack([getattr(part, name) for part in parts], -1).reshape(model.n_clusters_, 2, -1)
        for name in ("effect", "std_error", "p_value")
    )
    return {
        "effect": effect,
        "std_error": error,
        "p_value": combined_p_value(p),
        "rows": np.bincount(strata.stratum, minlength=strata.n_strata).reshape(-1, 2),
        "groups": strata.groups.reshape(-1, 2),
    }


def _score_independence(fitting, log_odds, rows: LabeledRows, cluster) -> dict[str, NDArray]:
    key = fitting.labeled.key[fitting.judged]
    strata = _strata(cluster, rows.y, rows.group, rows.weight, key, fitting.model.n_clusters_)
    found = group_effects(comparable(log_odds, False), strata)
    shape = fitting.model.n_clusters_, 2
    return {
        "effect": found.effect.reshape(shape),
        "std_error": found.std_error.reshape(shape),
        "p_value": found.p_value.reshape(shape),
        "rows": np.bincount(strata.stratum, minlength=strata.n_strata).reshape(shape),
    }


def _strata(cluster, y, group, weight, twin, n_clusters) -> Strata:
    return Strata.of(
        cluster * 2 + y, group, weight, twin, n_strata=2 * n_clusters, n_groups=int(group.max()) + 1
    )


def _judged_rows(fitting) -> tuple[LabeledRows, NDArray]:
    rows = fitting.labeled.take(fitting.judged)
    group = np.unique(rows.group, return_inverse=True)[1]
    judged = LabeledRows(
        fitting.score,
        fitting.y[fitting.judged],
        rows.weight,
        group,
        fitting.fold,
        fitting.design_effect,
    )
    return judged, fitting.labeled_cluster(fitting.candidate)


def _plain_log_odds(fitting, rows: LabeledRows) -> FloatArray:
    """Global: the classifier before any learning from unlabelled rows, one calibration, no shift."""
    score = getattr(fitting, "plain_score", fitting.score)
    whole = np.zeros(len(rows.y), np.int64)
    return crossfit_platt(score, rows.y, rows.weight, whole, 1, rows.fold)


def _model_log_odds(fitting, rows: LabeledRows, cluster) -> tuple[FloatArray, FloatArray]:
    """Cross-fitted log-odds of labelled rows, and the shift of each if its group had no labels."""
    model, trial = fitting.model, fitting.trial
    if trial is not None:
        shift = trial.trust.without[rows.group] * trial.shift
        if model.context_ is not None:
            shift = shift + model.context_.left_out_[rows.group]
        return trial.log_odds, shift
    log_odds = crossfit_platt(rows.score, rows.y, rows.weight, cluster, model.n_clusters_, rows.fold)
    if rows.n_groups < 2 or model.shares is None:
        return log_odds, np.zeros(len(log_odds))
    if model.shrinkage == "hierarchical":
        cells = shifts_of_labeled(rows, log_odds, cluster, model.n_clusters_).shift
    else:
        cells = _unpooled_shifts(model, rows, log_odds, cluster)
    return log_odds, model.trust_ * cells[rows.group, cluster]


def _unpooled_shifts(model, rows: LabeledRows, log_odds, cluster) -> FloatArray:
    """Each cell on its own, as the published method would estimate it."""
    n_clusters = model.n_clusters_
    cell, n_cells = rows.group * n_clusters + cluster, rows.n_groups * n_clusters
    points = collect_points(log_odds, cell, n_cells=n_cells, weight=rows.weight, bin_width=BIN_WIDTH)
    own = (
        labeled_prior(rows.y, rows.weight, cluster, n_clusters)
        if model.labeled_prior == "share"
        else expected_prior(log_odds, rows.weight, cluster, n_clusters)
    )
    prior = np.tile(own, rows.n_groups)
    if model.shares.startswith("bbse"):
        tpr, fpr = (np.tile(rate, rows.n_groups) for rate in model.prediction_rates_)
        found = bbse(
            points, true_positive_rate=tpr, false_positive_rate=fpr, soft=model.shares == "bbse-soft"
        ).share
    else:
        found = mlls(points, labeled_prior=prior).share
    edge = 0.5 / (points.effective_rows + 1)
    share = np.where(np.isnan(found), prior, np.clip(found, edge, 1 - edge))
    return (logit(share) - logit(prior)).reshape(rows.n_groups, n_clusters)


def _scores(log_odds, rows: LabeledRows, cluster, n_clusters) -> dict[str, NDArray]:
    found = score_distributions(log_odds, rows.y, rows.weight, cluster, n_clusters)
    inside = evaluate(
        np.r_[rows.y, np.zeros(n_clusters, int)],
        expit(np.r_[log_odds, np.zeros(n_clusters)]),
        # A row of next to no weight for each cluster, so that all have a place in the table.
        groups=np.r_[cluster, np.arange(n_clusters)],
        sample_weight=np.r_[rows.weight, np.full(n_clusters, 1e-12)],
        metrics=["auc"],
    )
    assert inside.by_group is not None
    return {**found, "auc": inside.by_group["auc"]}


def _hidden_labels(fitting, rows: LabeledRows, plain, log_odds, shift) -> dict[str, NDArray]:
    """Loss and AUC of each labelled group, its labels hidden; its shift, estimated and by its labels."""
    n = rows.n_groups
    weight = np.maximum(np.bincount(rows.group, weights=rows.weight, minlength=n), 1e-300)

    def mean(values):
        return np.bincount(rows.group, weights=rows.weight * values, minlength=n) / weight

    def auc(values):
        scored = evaluate(
            rows.y,
            expit(values),
            groups=rows.group,
            sample_weight=np.maximum(rows.weight, 1e-300),
            metrics=["auc"],
        )
        return scored.by_group["auc"]  # type: ignore[index]

    return {
        "group": np.unique(fitting.labeled.group[fitting.judged]),
        "rows": np.bincount(rows.group, minlength=n),
        "mean_score": mean(log_odds),
        "loss_global": mean(log_loss_rows(plain, rows.y)),
        "loss_model": mean(log_loss_rows(log_odds + shift, rows.y)),
        "auc_global": auc(plain),
        "auc_model": auc(log_odds + shift),
        "mean_global": mean(expit(plain)),
        "mean_model": mean(expit(log_odds + shift)),
        "share": mean(rows.y),
        "estimated_shift": mean(shift),
        "observed_shift": observed_shift(log_odds, rows.y, rows.weight, rows.group, n),
    }


def _totals(rows: LabeledRows, plain, shifted) -> dict[str, NDArray]:
    before, after = log_loss_rows(plain, rows.y), log_loss_rows(shifted, rows.y)
    loss_gain, loss_error = gain(before, after, rows)
    auc_before, auc_after, auc_error = grouped_auc_gain(
        plain, shifted, rows.y, rows.weight, rows.group, rows.n_groups
    )
    values = {
        "groups": rows.n_groups,
        "rows": len(rows.y),
        "loss_global": np.average(before, weights=rows.weight),
        "loss_model": np.average(after, weights=rows.weight),
        "loss_gain": loss_gain,
        "loss_gain_error": loss_error,
        "auc_global": auc_before,
        "auc_model": auc_after,
        "auc_gain": auc_after - auc_before,
        "auc_gain_error": auc_error,
    }
    return {name: np.array(value) for name, value in values.items()}


def _calibration(rows: LabeledRows, plain, shifted) -> dict[str, NDArray]:
    """Reliability tables of both methods: overall, and by group as finely as their number allows."""
    tables = {}
    by_group_bins = int(np.clip(MAX_CALIBRATION_CELLS // rows.n_groups, 1, CALIBRATION_BINS))
    for name, log_odds in (("global", plain), ("model", shifted)):
        p = expit(log_odds)
        nobody = np.zeros(len(p), np.int64)
        tables[name] = _reliability(p, rows.y, rows.weight, nobody, 1, 2 * CALIBRATION_BINS)[0]
        tables[f"{name}_by_group"] = _reliability(
            p, rows.y, rows.weight, rows.group, rows.n_groups, by_group_bins
        )
    return tables


def _reliability(p, y, weight, group, n_groups, n_bins) -> FloatArray:
    """Array (n_groups, n_bins, 3): weight, mean probability, share of positives; bins are quantiles."""
    cut = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    cell = group * n_bins + np.searchsorted(cut, p, side="right")
    total, predicted, positive = (
        np.bincount(cell, weights=weight * value, minlength=n_groups * n_bins)
        for value in (np.ones(len(p)), p, y)
    )
    safe = np.where(total > 0, total, np.nan)
    return np.stack([total, predicted / safe, positive / safe], -1).reshape(n_groups, n_bins, 3)


def _few_mask(rows, seed) -> NDArray:
    limit = max(MAX_VALUES // max(rows.matrix.shape[1], 1), 2_000)
    return (
        np.flatnonzero(sampled(rows.key, limit / len(rows), seed))
        if len(rows) > limit
        else np.arange(len(rows))
    )


def _few(rows, seed):
    return rows.take(_few_mask(rows, seed))
