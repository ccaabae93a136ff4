"""What a fit keeps for its diagnosis, as types: small tables about the labelled rows, never the rows themselves.

Groups are numbers into `labeled_groups_`, features numbers into `encoder_.names_`, categories numbers into
`encoder_.categories_`. `*_global` is the plain classifier, `*_model` the one with shifts.
"""

from dataclasses import dataclass

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class LabeledSample:
    """Labelled rows by group or by cluster: number, weight, and share of positives by weight (NaN without any)."""

    rows: IntArray
    weight: FloatArray
    share: FloatArray

    @property
    def overall_share(self) -> float:
        return float(np.average(np.nan_to_num(self.share), weights=self.weight))


@dataclass(frozen=True)
class Examples:
    """Examples of the class that has fewest, its rows, and the part of all rows that are copies nobody marked."""

    fewest_examples: int
    fewest_examples_rows: int
    unmarked_copies: float


@dataclass(frozen=True)
class ClusterProfiles:
    """Each feature inside each cluster against the other clusters: arrays (n_clusters, n_features).

    Attributes
    ----------
    inside, outside : mean of a number, or share of the category `level`; NaN where there are no rows.
    difference : standardised mean difference; for a category Cohen's h of the most over-represented one.
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
    """Effect of the group on every feature, given cluster and class: arrays (n_clusters, 2, n_features).

    `p_value` (of no effect on any feature), `rows` and `groups` have shape (n_clusters, 2).
    """

    effect: FloatArray
    std_error: FloatArray
    p_value: FloatArray
    rows: IntArray
    groups: IntArray


@dataclass(frozen=True)
class ScoreIndependence:
    """Effect of the group on the score, given cluster and class: arrays (n_clusters, 2)."""

    effect: FloatArray
    std_error: FloatArray
    rows: IntArray


@dataclass(frozen=True)
class ScoreDistributions:
    """Distribution functions of the scores of labelled rows.

    Attributes
    ----------
    grid : array (n_points,)
    below : array (n_clusters, 2, n_points), part of the rows of a cluster and class at or below each point.
    rows : array (n_clusters, 2)
    auc : array (n_clusters,), how well scores tell the classes apart inside a cluster; NaN without both of them.
    """

    grid: FloatArray
    below: FloatArray
    rows: IntArray
    auc: FloatArray


@dataclass(frozen=True)
class HiddenLabels:
    """Labelled groups whose labels were hidden in turn: arrays (n_groups,).

    Attributes
    ----------
    group : number of the group.
    mean_score : mean log-odds before any shift.
    loss, auc, mean : log loss, AUC and mean probability, by the plain classifier and by the model.
    share : share of positives by the labels.
    estimated_shift, observed_shift : mean shift that the model makes, and the one that the labels ask for.
    """

    group: IntArray
    rows: IntArray
    share: FloatArray
    mean_score: FloatArray
    loss_global: FloatArray
    loss_model: FloatArray
    auc_global: FloatArray
    auc_model: FloatArray
    mean_global: FloatArray
    mean_model: FloatArray
    estimated_shift: FloatArray
    observed_shift: FloatArray


@dataclass(frozen=True)
class Totals:
    """Loss and AUC over all hidden labels, with standard errors over groups."""

    groups: int
    rows: int
    loss_global: float
    loss_model: float
    loss_gain: float
    loss_gain_error: float
    classifier_gain: float  # the part of it that other classifiers than Global's bring, before any shift
    classifier_gain_error: float
    auc_global: float
    auc_model: float
    auc_gain: float
    auc_gain_error: float


@dataclass(frozen=True)
class Reliability:
    """Weight, mean probability and share of positives in bins of probability, which are quantiles.

    `overall` has shape (n_bins, 3), `by_group` (n_groups, n_bins, 3), with fewer bins where groups are many.
    """

    overall: FloatArray
    by_group: FloatArray


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed shares on hidden labels, by the plain classifier and by the model."""

    plain: Reliability
    model: Reliability


@dataclass(frozen=True)
class HeldOut:
    """What predictions for labelled rows show that no model was trained on."""

    scores: ScoreDistributions
    score_independence: ScoreIndependence
    by_group: HiddenLabels
    total: Totals
    calibration: Calibration


@dataclass(frozen=True)
class Evidence:
    """Everything that diagnosis, summary, report and displays know about the labelled rows.

    `held_out` is None where one class has too few examples to hold any out.
    """

    groups: LabeledSample
    labeled_clusters: LabeledSample
    examples: Examples
    clusters: ClusterProfiles
    independence: Independence
    held_out: HeldOut | None
    # (n_features,): how surely a feature tells which group a row is of, 0 to 1; NaN where it does not.
    identifying: FloatArray
    # (n_features,): rise of the log loss of hidden labels when it is shuffled; NaN where it was not tried.
    importance: FloatArray
