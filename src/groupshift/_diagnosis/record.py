"""What a fit keeps for its diagnosis: from the labeled rows and their held-out scores to `Evidence`."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from groupshift._data.keys import content_keys, hash_keys, sampled
from groupshift._data.problem import Problem
from groupshift._data.rows import Rows
from groupshift._diagnosis.assumption import (
    Effects,
    Strata,
    combined_p_value,
    comparable,
    group_effects,
    score_distributions,
)
from groupshift._diagnosis.features import cluster_profiles, feature_importance, identifying_features
from groupshift._diagnosis.fitted import Evidence, HeldOut, Independence, LabeledSample, told
from groupshift._diagnosis.gain import grouped_auc_gain
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, Table
from groupshift._math.sums import mean_by, ratio, sum_by
from groupshift._scores.contrasts import log_loss, log_scores, probabilities
from groupshift._shifts.effects import predict_labels_from_scores
from groupshift._shifts.estimate import each_alone
from groupshift._shifts.evidence import gather
from groupshift.metrics import grouped_auc
from groupshift.pipeline import Fit

# Values (rows x features) that the tests look at, a second's work. Beyond this rows are sampled: effect sizes
# need no more of them.
MAX_VALUES = 5_000_000
# Cells of the calibration tables of all groups together.
MAX_CALIBRATION_CELLS = 40_000
CALIBRATION_BINS = 10
# A number with so many values that so few other examples share one's own, on average, is like a name.
MANY_VALUES, NAME_SHARED_BY = 20, 0.1


@dataclass(frozen=True)
class Judged:
    """Labeled rows with scores (n_rows, M) that no label of their own had a part in; weights count independent examples."""

    y: IntArray
    weight: FloatArray
    group: IntArray
    n_groups: int
    plain: FloatArray  # before partition and shifts
    score: FloatArray
    shift: FloatArray  # of the row's group and cluster, by the scores of its rows alone

    @classmethod
    def of(cls, problem: Problem, fit: Fit) -> "Judged":
        rows, held, learned = fit.judged.rows, fit.judged, fit.learned
        effect = rows.weight.sum() / (rows.weight**2).sum() / learned.labeled_effect
        n_groups = len(problem.labeled_groups)
        shift = np.zeros_like(held.score)
        if n_groups > 1 and learned.shares is not None and learned.shrinkage != "hierarchical":
            shift = each_alone(learned, learned.labeled.scores, n_groups).mean[rows.group, held.cluster]
        elif n_groups > 1 and learned.shares is not None:
            shape = n_groups, learned.n_clusters, learned.n_contrasts
            evidence = partial(
                gather,
                learned.labeled,
                None,
                learned.prior,
                labeled_effect=learned.labeled_effect,
                population_effect=1.0,
            )
            shift = predict_labels_from_scores(evidence, shape)[0][rows.group, held.cluster]
        return cls(held.y, effect * rows.weight, rows.group, n_groups, held.plain, held.score, shift)

    def gain(self, before: FloatArray, after: FloatArray) -> tuple[float, float]:
        """Mean fall of a loss, and its standard error over groups."""
        difference, total = self.weight * (before - after), self.weight.sum()
        mean = difference.sum() / total
        by_group = sum_by(self.group, difference - self.weight * mean, self.n_groups)
        n = max(self.n_groups, 2)
        return float(mean), float(np.sqrt(n / (n - 1) * (by_group**2).sum()) / total)

    def by_group(self, values: FloatArray) -> FloatArray:
        """Means of values (n_rows,) or (n_rows, C) by group."""
        columns = values.reshape(len(values), -1).T
        found = [mean_by(self.group, column, self.weight, self.n_groups, empty=0.0) for column in columns]
        return np.column_stack(found) if values.ndim > 1 else found[0]


def record_evidence(problem: Problem, fit: Fit) -> Evidence:
    """Everything that the diagnosis will want to know about the labeled rows of a finished fit."""
    encoder, seed, rows = problem.encoder, problem.seeds.named("evidence rows"), problem.labeled
    examples = [len(np.unique(rows.key[problem.y == c])) for c in range(problem.n_classes)]
    fewest = int(np.argmin(examples))
    identifying = {}
    if problem.has_groups:
        identifying = identifying_features(
            rows.matrix,
            rows.group,
            rows.key,
            names=encoder.names_,
            is_category=encoder.is_category,
            seed=problem.seeds.named("identifying features"),
        )
    pooled = fit.pooled.rows.take(few_rows(fit.pooled.rows, seed))
    importance = feature_importance(problem, fit)
    return Evidence(
        groups=_labeled_sample(problem, rows.group, len(problem.labeled_groups)),
        labeled_clusters=_labeled_sample(problem, fit.partition.predict(rows), fit.partition.n_clusters),
        fewest_examples=examples[fewest],
        fewest_examples_rows=int((problem.y == fewest).sum()),
        unmarked_copies=unmarked_copies(rows, problem.y, encoder.is_category),
        # What sets clusters apart, by a part of the rows of both samples.
        clusters=cluster_profiles(
            pooled.matrix.astype(float, copy=False),
            pooled.weight,
            fit.partition.predict(pooled),
            fit.partition.n_clusters,
            encoder.is_category,
        ),
        independence=_independence(problem, fit, seed),
        held_out=None if fit.judged.fold is None else _held_out(problem, fit),
        # In the order of the columns: names stay in one place, the encoder.
        identifying=np.array([identifying.get(name, np.nan) for name in encoder.names_]),
        importance=np.array([importance.get(name, np.nan) for name in encoder.names_]),
    )


def _is_told(y: IntArray, n_classes: int) -> FloatArray:
    """Whether rows are of the told classes, (n_rows, C): of the positive one of two, or of each of several."""
    found: FloatArray = np.eye(n_classes)[y][:, told(n_classes)]
    return found


def _labeled_sample(problem: Problem, part: IntArray, n_parts: int) -> LabeledSample:
    """Labeled rows by group or cluster."""
    weight, is_told = problem.labeled.weight, _is_told(problem.y, problem.n_classes)
    return LabeledSample(
        rows=np.bincount(part, minlength=n_parts),
        weight=sum_by(part, weight, n_parts),
        share=np.column_stack([mean_by(part, column, weight, n_parts) for column in is_told.T]),
    )


def unmarked_copies(rows: Rows, y: IntArray, is_category: BoolArray) -> float:
    """Part of the examples whose features, label and group repeat another example's; 0 if it may be chance."""
    content = content_keys(rows.matrix, hash_keys(rows.group, 0) ^ hash_keys(y, 1), seed=2)
    once = np.unique(content, return_index=True)[1]
    # Copies that share a key are one example.
    copies = 1 - len(once) / len(np.unique(hash_keys(content, 3) ^ hash_keys(rows.key, 4)))
    # Rows of a few categories repeat by chance. A number that hardly any two examples share rules that out.
    numbers = (rows.matrix[once, j] for j in np.flatnonzero(~is_category))
    return copies if copies > 0 and any(map(_is_like_a_name, numbers)) else 0.0


def _is_like_a_name(column: FloatArray) -> bool:
    count = np.unique(column, return_counts=True)[1]
    return len(count) >= MANY_VALUES and bool((count**2).sum() / len(column) - 1 < NAME_SHARED_BY)


def few_rows(rows: Rows, seed: int) -> IntArray:
    """Numbers of the rows that tests look at: all of them, or as many as keep to `MAX_VALUES`."""
    limit = max(MAX_VALUES // max(rows.matrix.shape[1], 1), 2_000)
    if len(rows) <= limit:
        return np.arange(len(rows))
    return np.flatnonzero(sampled(rows.key, limit / len(rows), seed))


def strata_of(rows: Rows, y: IntArray, cluster: IntArray, shape: tuple[int, int]) -> Strata:
    """Rows by cluster and class; `shape` is (n_clusters, n_classes)."""
    n_groups = int(rows.group.max()) + 1
    return Strata(cluster * shape[1] + y, rows.group, rows.weight, rows.key, shape[0] * shape[1], n_groups)


def _independence(problem: Problem, fit: Fit, seed: int) -> Independence:
    """Does a class look alike in every group? By its features."""
    few = few_rows(problem.labeled, seed)
    rows, shape = problem.labeled.take(few), (fit.partition.n_clusters, problem.n_classes)
    strata = strata_of(rows, problem.y[few], fit.partition.predict(rows), shape)
    parts = [
        group_effects(comparable(np.asarray(rows.matrix[:, j], float), is_category), strata)
        for j, is_category in enumerate(problem.encoder.is_category)
    ]
    names = ("effect", "std_error", "p_value")
    found = Effects(
        *(np.stack([getattr(part, name) for part in parts], -1).reshape(*shape, -1) for name in names)
    )
    p_value, counts = combined_p_value(found.p_value), (strata.rows, strata.groups)
    return Independence(found.effect, found.std_error, p_value, *(n.reshape(shape) for n in counts))


def _held_out(problem: Problem, fit: Fit) -> HeldOut:
    rows, cluster, n_classes = Judged.of(problem, fit), fit.judged.cluster, problem.n_classes
    shape = fit.learned.n_clusters, n_classes
    strata = strata_of(fit.judged.rows, rows.y, cluster, shape)
    scores = log_scores(rows.score)[:, told(n_classes)]
    effect = group_effects(np.hstack([comparable(column, False) for column in scores.T]), strata)
    is_told = _is_told(rows.y, n_classes)
    plain, moved = (probabilities(z)[:, told(n_classes)] for z in (rows.plain, rows.score + rows.shift))
    # Each of several classes against the rest, all of them together.
    n_told = is_told.shape[1]
    flat = is_told.ravel(), np.repeat(rows.weight, n_told)
    by_group_bins = int(np.clip(MAX_CALIBRATION_CELLS // rows.n_groups, 1, CALIBRATION_BINS))
    by_method, curves = {"global": plain.ravel(), "model": moved.ravel()}, {}
    for name, p in by_method.items():
        of_group = np.repeat(rows.group, n_told), rows.n_groups
        curves[name] = reliability_bins(p, *flat, by_group_bins, *of_group)
    auc = [
        grouped_auc(column.astype(np.int64), score, rows.weight, cluster, shape[0])
        for column, score in zip(is_told.T, scores.T, strict=True)
    ]
    by_group, total = _compared(rows, is_told, plain, moved)
    return HeldOut(
        by_group=by_group,
        total=total,
        calibration={n: reliability_bins(p, *flat, 2 * CALIBRATION_BINS)[0] for n, p in by_method.items()},
        calibration_by_group=curves,
        score_effect=effect.effect.reshape(shape),
        score_error=effect.std_error.reshape(shape),
        score_rows=strata.rows.reshape(shape),
        auc=np.column_stack(auc),
        scores=score_distributions(rows.score[:, 0], rows.y, rows.weight, cluster, shape[0])
        if n_told == 1
        else None,
    )


def _compared(
    rows: Judged, is_told: FloatArray, plain: FloatArray, moved: FloatArray
) -> tuple[Table, dict[str, float]]:
    """The plain classifier beside the model on held-out labels: by group, and in all."""
    shifted, n = rows.score + rows.shift, rows.n_groups
    before, after, unshifted = (log_loss(z, rows.y) for z in (rows.plain, shifted, rows.score))
    by_group = {
        "rows": np.bincount(rows.group, minlength=n),
        "share": rows.by_group(is_told),
        "loss_global": rows.by_group(before),
        "loss_model": rows.by_group(after),
        "mean_global": rows.by_group(plain),
        "mean_model": rows.by_group(moved),
        "mean_score": rows.by_group(rows.score),
        "shift": rows.by_group(rows.shift),
    }
    total = {
        "groups": float(n),
        "rows": float(len(rows.y)),
        "loss_global": float(np.average(before, weights=rows.weight)),
        "loss_model": float(np.average(after, weights=rows.weight)),
    }
    total["loss_gain"], total["loss_gain_error"] = rows.gain(before, after)
    # The part of it that other classifiers than the plain one's bring, before any shift.
    total["classifier_gain"], total["classifier_gain_error"] = rows.gain(before, unshifted)
    if is_told.shape[1] == 1:
        scores = {"global": rows.plain[:, 0], "model": shifted[:, 0]}
        for name, score in scores.items():
            by_group[f"auc_{name}"] = grouped_auc(rows.y, score, rows.weight, rows.group, n)
        both = scores["global"], scores["model"]
        found = grouped_auc_gain(*both, rows.y, rows.weight, rows.group, n)
        total["auc_global"], total["auc_model"], total["auc_gain_error"] = found
        total["auc_gain"] = total["auc_model"] - total["auc_global"]
    else:
        right = {"global": plain.argmax(1) == rows.y, "model": moved.argmax(1) == rows.y}
        for name, is_right in right.items():
            by_group[f"accuracy_{name}"] = rows.by_group(is_right.astype(float))
            total[f"accuracy_{name}"] = float(np.average(is_right, weights=rows.weight))
        more = rows.gain(right["model"].astype(float), right["global"].astype(float))
        total["accuracy_gain"], total["accuracy_gain_error"] = more
    return by_group, total


def reliability_bins(
    p: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    n_bins: int,
    group: IntArray | int = 0,
    n_groups: int = 1,
) -> FloatArray:
    """Weight, mean probability and share of positives in bins of probability: (n_groups, n_bins, 3)."""
    cut = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    cell = group * n_bins + np.searchsorted(cut, p, side="right")
    total, predicted, positive = (
        sum_by(cell, weight * value, n_groups * n_bins) for value in (np.ones(len(p)), p, y)
    )
    return np.stack([total, ratio(predicted, total), ratio(positive, total)], -1).reshape(n_groups, n_bins, 3)
