"""Trials on hidden labels: hide the labels of labelled groups, predict them from features alone, compare what did it best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from scipy.special import expit, stdtrit

from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.calibration import WholeLine, crossfit_platt, whole_lines
from groupshift._math.odds import log_loss_rows
from groupshift._math.points import BIN_WIDTH, Points, collect_points
from groupshift._math.shrinkage import PooledShifts, pool_shifts
from groupshift._math.sums import mean_by
from groupshift._math.trust import Trust, learn_trust

# One standard error, with Student's honesty for few groups: enough for steps that learn little from what judges them.
LENIENT = 0.84
# Shifts of which labels confirm less than a fifth are mostly the mixture's misfit, and what they gain may not carry over.
MIN_TRUST = 0.2
# A partition must beat no shift at this level: one chance in a hundred for each, since a dozen are tried.
PARTITION_LEVEL = 0.99
# Standard errors by which a partition must beat a simpler one. Pooling makes more clusters cheap: little is enough.
SIMPLER = 0.25
# Calibration learns two numbers in a cluster, and a regression wants ten rows of the rarer class for each (Peduzzi et al., 1996).
MIN_CLASS_ROWS = 20


CandidateTable: TypeAlias = dict[str, ValueArray]


@dataclass(frozen=True)
class LabeledRows:
    """What the judge sees of the labelled rows: cross-fitted scores, never a fitted one; of several classes a column each.

    Weights count independent rows: they add up to fewer than there are rows where weights differ or examples have copies.
    """

    score: FloatArray
    y: IntArray
    weight: FloatArray
    group: IntArray
    fold: IntArray
    design_effect: float = 1.0

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    @cached_property
    def whole_lines(self) -> list[WholeLine]:
        """What calibration begins with, whatever the clusters are: a dozen partitions are tried on the same rows."""
        return whole_lines(self.score, self.y, self.weight, self.fold)

    def calibrated(self, cluster: IntArray, n_clusters: int) -> FloatArray:
        """Log-odds of the rows, each fold calibrated on the others in each cluster."""
        known = self.score, self.y, self.weight
        return crossfit_platt(*known, cluster, n_clusters, self.fold, self.whole_lines)


@dataclass(frozen=True)
class Tried:
    """How a partition, or a way to learn partitions, did on the hidden labels: what choosing asks for."""

    n_clusters: int  # of the partition that would be used
    plain: FloatArray  # (n_rows,): log loss without any shift
    loss: FloatArray  # (n_rows,): log loss after the trusted shift
    trust: Trust


@dataclass(frozen=True)
class Trial(Tried):
    """How one candidate did on the hidden labels."""

    cluster: IntArray
    log_odds: FloatArray  # (n_rows,): cross-fitted and calibrated, before any shift
    shift: FloatArray  # (n_rows,): estimated as if the row's group had no labels; before trust
    shift_variance: FloatArray  # (n_groups, n_clusters), before trust


AnyTrial = TypeVar("AnyTrial", bound=Tried)


def labeled_prior(y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int) -> FloatArray:
    """α̃_k as a share: of positives among the labelled rows of each cluster, kept away from 0 and 1 by half a row a class.

    >>> labeled_prior(np.array([1, 1, 0]), np.ones(3), np.array([0, 0, 1]), 2).round(3).tolist()
    [0.833, 0.25]
    """
    rows = np.bincount(cluster, minlength=n_clusters)
    return (_cluster_mean(y, weight, cluster, n_clusters) * rows + 0.5) / (rows + 1)


def expected_prior(
    log_odds: FloatArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> FloatArray:
    """α̃_k as the calibrated posterior has it: its mean over the labelled rows of each cluster.

    Where a cluster has next to no labelled positives, its calibration borrows from other clusters and need not add up to its
    share. An α̃ that agrees with the scores still makes the labelled rows a sample without shift; the share would make every
    sample one of mostly positives, or of none.

    >>> expected_prior(np.array([0.0, 0.0, -1.0]), np.ones(3), np.array([0, 0, 1]), 2).round(3).tolist()
    [0.5, 0.269]
    """
    return np.clip(_cluster_mean(expit(log_odds), weight, cluster, n_clusters), 1e-12, 1 - 1e-12)


def rarer_class_rows(y: IntArray, cluster: IntArray, n_clusters: int, design_effect: float) -> FloatArray:
    """Labelled rows of the rarer class in each cluster, copies counted once.

    With fewer than `MIN_CLASS_ROWS` labels do not show what that class looks like, and unlabelled rows say nothing of shares.

    >>> rarer_class_rows(np.array([0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1]), 2, 1.0).tolist()
    [1.0, 0.0]
    """
    positive = np.bincount(cluster, weights=y, minlength=n_clusters)
    rarer: FloatArray = np.minimum(positive, np.bincount(cluster, minlength=n_clusters) - positive)
    return rarer / design_effect


def _cluster_mean(
    values: FloatArray | IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int
) -> FloatArray:
    """Mean in each cluster; a cluster without rows has that of all."""
    return mean_by(cluster, values, weight, n_clusters, empty=float(np.average(values, weights=weight)))


def try_partition(rows: LabeledRows, cluster: IntArray, n_clusters: int) -> Trial:
    """Hide the labels of each group in turn, estimate its shifts from its scores, and predict it."""
    return try_log_odds(rows, rows.calibrated(cluster, n_clusters), cluster, n_clusters)


def try_log_odds(rows: LabeledRows, log_odds: FloatArray, cluster: IntArray, n_clusters: int) -> Trial:
    """The same with scores that are calibrated already."""
    pooled = shifts_of_labeled(rows, log_odds, cluster, n_clusters)
    shift = pooled.shift[rows.group, cluster]
    return Trial(*_tried(rows, log_odds, shift, n_clusters), cluster, log_odds, shift, pooled.variance)


def try_held_out(
    rows: LabeledRows, held_out: IntArray, clusters: Sequence[IntArray], n_clusters: int
) -> Tried:
    """The same, each group's rows in the clusters of a partition that was learned without it.

    Parameters
    ----------
    held_out : array of shape (n_rows,)
        The fold of each row's group.
    clusters : for each fold, an array of shape (n_rows,)
        Clusters of all rows, learned without the groups of the fold.
    n_clusters : int
        Of the partition that all groups make.
    """
    log_odds, shift = np.empty(len(rows.y)), np.empty(len(rows.y))
    for f, cluster in enumerate(clusters):
        own = held_out == f
        # All rows calibrate each partition, as they will calibrate the one that is used.
        one = try_partition(rows, cluster, int(cluster.max()) + 1)
        log_odds[own], shift[own] = one.log_odds[own], one.shift[own]
    return Tried(*_tried(rows, log_odds, shift, n_clusters))


def _tried(
    rows: LabeledRows, log_odds: FloatArray, shift: FloatArray, n_clusters: int
) -> tuple[int, FloatArray, FloatArray, Trust]:
    """What `Tried` holds: losses without shifts, and with shifts as far as they are to be trusted."""
    trust = learn_trust(log_odds, shift, rows.y, rows.weight, rows.group, rows.n_groups)
    return n_clusters, log_loss_rows(log_odds, rows.y), _trusted_loss(rows, log_odds, shift, trust), trust


def _trusted_loss(rows: LabeledRows, log_odds: FloatArray, shift: FloatArray, trust: Trust) -> FloatArray:
    """Of each row, with the trust that the other groups have."""
    return log_loss_rows(log_odds + trust.without[rows.group] * shift, rows.y)


def shifts_of_labeled(
    rows: LabeledRows, log_odds: FloatArray, cluster: IntArray, n_clusters: int
) -> PooledShifts:
    """Shifts of the labelled groups as the method would estimate them without their labels."""
    points, prior = labeled_points(rows, log_odds, cluster, n_clusters)
    return pool_shifts(points, labeled_prior=prior, n_groups=rows.n_groups, centered=True)


def labeled_points(
    rows: LabeledRows, log_odds: FloatArray, cluster: IntArray, n_clusters: int
) -> tuple[Points, FloatArray]:
    """Scores of labelled rows as points of their cells, and α̃ of each cluster."""
    prior = expected_prior(log_odds, rows.weight, cluster, n_clusters)
    points = collect_points(
        log_odds,
        rows.group * n_clusters + cluster,
        n_cells=rows.n_groups * n_clusters,
        weight=rows.weight,
        bin_width=BIN_WIDTH,
    )
    shows_both_classes = rarer_class_rows(rows.y, cluster, n_clusters, rows.design_effect) >= MIN_CLASS_ROWS
    return points.thinned(rows.design_effect).only(np.tile(shows_both_classes, rows.n_groups)), prior


def gain(loss: FloatArray, better: FloatArray, rows: LabeledRows) -> tuple[float, float]:
    """Mean fall of the loss from `loss` to `better`, and its standard error over groups."""
    difference = rows.weight * (loss - better)
    total = rows.weight.sum()
    mean = difference.sum() / total
    by_group = np.bincount(rows.group, weights=difference - rows.weight * mean, minlength=rows.n_groups)
    n = max(rows.n_groups, 2)
    return float(mean), float(np.sqrt(n / (n - 1) * (by_group**2).sum()) / total)


def noise_margin(n_groups: int, level: float = 0.975) -> float:
    """How many standard errors a gain must exceed: Student's quantile, wide when groups are few.

    >>> round(noise_margin(100), 2), round(noise_margin(5), 2)
    (1.98, 2.78)
    """
    return float(stdtrit(max(n_groups - 1, 1), level))


def confirmed(loss: FloatArray, better: FloatArray, rows: LabeledRows, level: float = LENIENT) -> bool:
    """Whether hidden labels confirm a step; one that learns little from what judges it, by about one standard error."""
    return _exceeds(gain(loss, better, rows), noise_margin(rows.n_groups, level))


def choose(trials: Sequence[Tried], rows: LabeledRows) -> int | None:
    """Number of the trial to use; None for no shift at all.

    Every choice needs a trust that is worth the name. The first trial has one cluster and a single number to learn, the
    trust, which is cautious itself: it is taken if it lowers the loss by more than a standard error. A partition has more to
    learn, and must beat Global beyond noise, through its shifts and not through its calibration alone, and beat one cluster
    too. Of those that do, the best is taken, or a simpler one within a standard error of it.
    """
    whole = trials[0]
    plain = whole.plain
    accepted = [
        t
        for t in trials[1:]
        if t.trust.value >= MIN_TRUST
        and confirmed(plain, t.loss, rows, PARTITION_LEVEL)
        and confirmed(t.plain, t.loss, rows, PARTITION_LEVEL)
        and _exceeds(gain(whole.loss, t.loss, rows), 1.0)
    ]
    if not accepted:
        return 0 if whole.trust.value >= MIN_TRUST and confirmed(plain, whole.loss, rows) else None
    best = min(accepted, key=lambda t: (rows.weight @ t.loss, t.n_clusters))
    simpler = [
        t
        for t in accepted
        if t.n_clusters < best.n_clusters and not _exceeds(gain(t.loss, best.loss, rows), SIMPLER)
    ]
    chosen = min([*simpler, best], key=lambda t: (t.n_clusters, rows.weight @ t.loss))
    return next(i for i, t in enumerate(trials) if t is chosen)


def why_none(trials: Sequence[Tried], rows: LabeledRows) -> str:
    """Why `choose` took none of the trials: the reason that decided, in a sentence."""
    plain = trials[0].plain
    levels = LENIENT, *[PARTITION_LEVEL] * (len(trials) - 1)
    better = [t for t, level in zip(trials, levels, strict=True) if confirmed(plain, t.loss, rows, level)]
    held_back = [t for t in better if t.trust.value < MIN_TRUST]
    if not held_back:
        return "No partition has shifts that lower the hidden-label loss beyond noise."
    most = max(held_back, key=lambda t: t.trust.value).trust.value
    return (
        f"Estimated shifts lower the hidden-label loss beyond noise, but their trust is {most:.2f}, below {MIN_TRUST}: most of "
        "them is the mixture's misfit, and what they gain may not carry over."
    )


def _exceeds(gain_and_error: tuple[float, float], margin: float) -> bool:
    mean, error = gain_and_error
    return mean > margin * error and mean > 0


def candidate_table(
    names: list[str], trials: Sequence[Tried], chosen: int | None, rows: LabeledRows
) -> CandidateTable:
    """The judge's scores of all candidates, "no shift" (Global) first."""
    plain = trials[0].plain
    gains = [gain(plain, t.loss, rows) for t in trials]
    total = rows.weight.sum()
    return {
        "name": np.array(["no shift", *names], dtype=object),
        "n_clusters": np.array([1] + [t.n_clusters for t in trials]),
        "loss": np.array([rows.weight @ plain / total] + [rows.weight @ t.loss / total for t in trials]),
        "gain": np.array([0.0] + [g for g, _ in gains]),
        "std_error": np.array([0.0] + [e for _, e in gains]),
        "trust": np.array([0.0] + [t.trust.value for t in trials]),
        "chosen": np.arange(-1, len(trials)) == (-1 if chosen is None else chosen),
        "refuted": np.zeros(
            len(trials) + 1, bool
        ),  # chosen, but not by classifiers that saw no label of a group
    }


def with_trust(trial: Trial, trust: Trust, rows: LabeledRows) -> Trial:
    """The trial with a trust that was learned elsewhere."""
    return replace(trial, trust=trust, loss=_trusted_loss(rows, trial.log_odds, trial.shift, trust))


def without_shift(trial: AnyTrial, rows: LabeledRows) -> AnyTrial:
    """The trial with its shifts left out: the plain classifier."""
    nothing = replace(trial.trust, value=0.0, without=np.zeros(rows.n_groups))
    return replace(trial, trust=nothing, loss=trial.plain)
