"""A fitted model as its diagnosis reads it, and what a fit keeps for that: small tables, never the rows themselves.

Groups are numbers into `labeled_groups`, features numbers into the encoder's names, categories numbers into its categories.
`*_global` is the plain classifier, `*_model` the one with shifts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from groupshift._audit.found import AuditFound
from groupshift._data.reading import Schema
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, Table, ValueArray
from groupshift._shifts.estimate import Estimate, Learned

# Log-odds: a shift below this moves no probability by more than a hundredth.
NO_SHIFT = 0.04


@dataclass(frozen=True)
class LabeledSample:
    """Labeled rows by group or by cluster: number, weight, and shares of the told classes by weight, NaN without any."""

    rows: IntArray
    weight: FloatArray
    share: FloatArray  # (n, C)

    @property
    def overall(self) -> FloatArray:
        """(C,)."""
        mean: FloatArray = np.average(np.nan_to_num(self.share), axis=0, weights=self.weight)
        return mean


@dataclass(frozen=True)
class ClusterProfiles:
    """Each feature inside each cluster against the other clusters: arrays (n_clusters, n_features).

    Attributes
    ----------
    inside, outside : mean of a number, or share of the category `level`; NaN where there are no rows.
    difference : standardized mean difference; for a category Cohen's h of the most over-represented one.
    level : code of that category, -1 for a number.
    weight : array (n_clusters,), share of all rows.
    """

    inside: FloatArray
    outside: FloatArray
    difference: FloatArray
    level: IntArray
    weight: FloatArray


@dataclass(frozen=True)
class Independence:
    """Effect of the group on every feature, given cluster and class: arrays (n_clusters, n_classes, n_features).

    `p_value` (of no effect on any feature), `rows` and `groups` have shape (n_clusters, n_classes).
    """

    effect: FloatArray
    std_error: FloatArray
    p_value: FloatArray
    rows: IntArray
    groups: IntArray


@dataclass(frozen=True)
class ScoreDistributions:
    """Distribution functions of the scores of labeled rows of two classes.

    Attributes
    ----------
    grid : array (n_points,)
    below : array (n_clusters, 2, n_points), part of the rows of a cluster and class at or below each point.
    rows : array (n_clusters, 2)
    """

    grid: FloatArray
    below: FloatArray
    rows: IntArray


@dataclass(frozen=True)
class HeldOut:
    """What predictions for labeled rows show that their own labels had no part in.

    Attributes
    ----------
    by_group : dict of arrays (n_groups,) or, of classes or contrasts, (n_groups, …)
        rows, share, loss, mean (probability) and auc (of two classes; else accuracy) by the plain classifier and by the model,
        mean_score (before any shift) and shift (as the scores of the group's rows suggest it), in contrasts.
    total : dict of numbers
        Losses and gains over all labels, with standard errors over groups.
    calibration : dict of arrays (n_bins, 3), by method ("global", "model")
        Weight, mean probability and share of the class in bins of probability, each of several classes against the rest.
    calibration_by_group : the same, (n_groups, n_bins, 3), with fewer bins where groups are many.
    score_effect, score_error, score_rows : arrays (n_clusters, n_classes)
        Effect of the group on the score, given cluster and class.
    auc : array (n_clusters, C)
        How well scores tell a class from the rest inside a cluster; NaN without both.
    scores : of two classes
    """

    by_group: Table
    total: dict[str, float]
    calibration: dict[str, FloatArray]
    calibration_by_group: dict[str, FloatArray]
    score_effect: FloatArray
    score_error: FloatArray
    score_rows: IntArray
    auc: FloatArray
    scores: ScoreDistributions | None


@dataclass(frozen=True)
class Evidence:
    """Everything that diagnosis, summary, report and displays know about the labeled rows."""

    groups: LabeledSample
    labeled_clusters: LabeledSample
    fewest_examples: int  # of the class that has fewest
    fewest_examples_rows: int  # that it has
    unmarked_copies: float  # part of the rows that repeat another under another id
    clusters: ClusterProfiles
    independence: Independence
    held_out: HeldOut | None  # None where one class has too few examples to hold any out
    # (n_features,): how surely a feature tells which group a row is of, 0 to 1; NaN where it does not.
    identifying: FloatArray
    # (n_features,): rise of the log loss of held-out labels when it is shuffled; NaN where it was not tried.
    importance: FloatArray


class Model(Protocol):
    """What a fit ends in. It is read, never changed."""

    selection: str
    shares: str | None
    shrinkage: str
    schema_: Schema
    learned_: Learned
    estimate_: Estimate
    evidence_: Evidence
    candidates_: Table | None
    notes_: Sequence[str]
    audit_: AuditFound | None

    def get_params(self, deep: bool = True) -> dict[str, object]: ...


def told(n_classes: int) -> slice:
    """The classes whose shares are told: the positive one of two, or each of several."""
    return slice(1 if n_classes == 2 else 0, None)


def told_classes(model: Model) -> ValueArray:
    """The names of the told classes."""
    classes: ValueArray = model.schema_.classes
    return classes[told(len(classes))]


def has_classes(model: Model) -> bool:
    """Whether there are more than two classes."""
    return len(told_classes(model)) > 1


def by_class(values: FloatArray, n_axes: int) -> FloatArray:
    """An array whose last axis, after so many others, is that of classes or contrasts; two classes may lack it."""
    return values[..., None] if values.ndim == n_axes else values


def is_shifted(model: Model) -> bool:
    """Whether any probability is worth telling from the plain classifier's."""
    return bool(np.abs(model.estimate_.shift).max(initial=0.0) > NO_SHIFT)


def named_features(model: Model, found: FloatArray) -> dict[str, float]:
    """Numbers of features that have one, by name."""
    names = model.schema_.encoder.names_
    return {name: float(v) for name, v in zip(names, found, strict=True) if np.isfinite(v)}


def pooled_effect(effect: FloatArray, error: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Effects in each cluster and class, averaged by rows, and the standard errors of the averages.

    `effect` and `error` have shape (n_clusters, n_classes, …), `rows` (n_clusters, n_classes); results are arrays (n_features,).
    """
    effect, error = (values.reshape(rows.size, -1) for values in (effect, error))
    known: BoolArray = np.isfinite(effect)
    weight = np.where(known, rows.reshape(-1, 1), 0.0)
    total = np.where(weight.sum(0) > 0, weight.sum(0), np.nan)
    value = (weight * np.where(known, effect, 0.0)).sum(0)
    variance = (weight**2 * np.where(known, error, 0.0) ** 2).sum(0)
    return value / total, np.sqrt(variance) / total
