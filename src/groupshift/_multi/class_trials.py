"""Trials on hidden labels for several classes: shifts from scores alone, and the multiclass log loss that they lead to."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.trials import MIN_CLASS_ROWS, LabeledRows, Tried
from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._math.class_sites import class_sites, joined_shares
from groupshift._math.dirichlet_shares import Batches, pooled_shares
from groupshift._math.shrinkage import PooledShifts, pool_sites
from groupshift._math.simplex_shift import padded_batches
from groupshift._math.sites import Sites
from groupshift._math.sums import mean_by, sum_by
from groupshift._math.trust import learn_class_trust
from groupshift._math.vector_scaling import class_log_loss, crossfit_scaling


@dataclass(frozen=True)
class ClassTrial(Tried):
    """How one candidate did on the hidden labels."""

    cluster: IntArray
    log_p: FloatArray  # (n_rows, n_classes): cross-fitted and calibrated, before any shift
    shift: FloatArray  # the same shape: estimated as if the row's group had no labels; before trust


def expected_priors(log_p: FloatArray, weight: FloatArray, cluster: IntArray, n_clusters: int) -> FloatArray:
    """π of each cluster as the calibrated posterior has it, (n_clusters, n_classes); a cluster without rows has that of all."""
    p = np.exp(log_p)
    everyone = np.average(p, axis=0, weights=weight)
    mean = np.column_stack([mean_by(cluster, column, weight, n_clusters) for column in p.T])
    return _inside(np.where(np.isnan(mean), everyone, mean))


def labeled_priors(
    y: IntArray, weight: FloatArray, cluster: IntArray, n_clusters: int, n_classes: int
) -> FloatArray:
    """π as shares of labelled rows, half a row a class beforehand."""
    total = weight.sum() / len(weight)
    counts = sum_by(cluster * n_classes + y, weight / total, n_clusters * n_classes)
    return _inside(counts.reshape(n_clusters, n_classes) + 0.5)


def _inside(share: FloatArray) -> FloatArray:
    share = np.maximum(share, 1e-12)
    found: FloatArray = share / share.sum(1, keepdims=True)
    return found


def class_rows(
    y: IntArray, cluster: IntArray, n_clusters: int, n_classes: int, design_effect: float
) -> FloatArray:
    """Labelled rows of each class, or of the rest where that is fewer, by cluster, copies counted once.

    With fewer than `MIN_CLASS_ROWS` labels do not show what the class looks like, and unlabelled rows say nothing of its share.
    """
    counts = np.bincount(cluster * n_classes + y, minlength=n_clusters * n_classes).reshape(-1, n_classes)
    rest = counts.sum(1, keepdims=True) - counts
    fewer: FloatArray = np.minimum(counts, rest) / design_effect
    return fewer


def labeled_cells(
    rows: LabeledRows, log_p: FloatArray, cluster: IntArray, n_clusters: int
) -> tuple[FloatArray, BoolArray]:
    """π of each cluster, and the classes that labels show enough of there, (n_clusters, n_classes) each."""
    prior = expected_priors(log_p, rows.weight, cluster, n_clusters)
    n_rows = class_rows(rows.y, cluster, n_clusters, prior.shape[1], rows.design_effect)
    return prior, n_rows >= MIN_CLASS_ROWS


def cell_batches(rows: LabeledRows, log_p: FloatArray, cluster: IntArray, prior: FloatArray) -> Batches:
    """Labelled rows as batches of cells, with the numbers of these."""
    cell = rows.group * len(prior) + cluster
    order = np.argsort(cell, kind="stable")
    start = np.searchsorted(cell[order], np.arange(rows.n_groups * len(prior) + 1))
    density = (np.exp(log_p) / prior[cluster])[order]
    return lambda: padded_batches(density, rows.weight[order], start)


@dataclass(frozen=True)
class ClassSites:
    """What rows say of shifts, each class against the rest; arrays of shape (n_groups, n_classes, n_clusters)."""

    response: FloatArray
    precision: FloatArray

    @classmethod
    def of_cells(cls, response: FloatArray, precision: FloatArray, n_groups: int) -> "ClassSites":
        """From arrays of shape (n_groups * n_clusters, n_classes)."""
        n_classes = response.shape[1]
        return cls(
            *(v.reshape(n_groups, -1, n_classes).transpose(0, 2, 1).copy() for v in (response, precision))
        )

    def only(self, is_shown: BoolArray) -> "ClassSites":
        """Without classes that labels do not show; `is_shown`: (n_clusters, n_classes)."""
        return replace(self, precision=self.precision * is_shown.T)

    def flat(self) -> Sites:
        """A class of a group as what a group is where there are two classes: (n_groups * n_classes, n_clusters)."""
        n_clusters = self.response.shape[2]
        return Sites(self.response.reshape(-1, n_clusters), self.precision.reshape(-1, n_clusters))


def sites_of_labeled(
    rows: LabeledRows, log_p: FloatArray, cluster: IntArray, prior: FloatArray, *, with_labels: bool
) -> ClassSites:
    """What labels of rows say of the shifts of their groups' cells, or what their scores say, labels aside."""
    n_clusters, n_classes = prior.shape
    cell = rows.group * n_clusters + cluster
    n_cells = rows.n_groups * n_clusters
    response, precision = np.zeros((n_cells, n_classes)), np.zeros((n_cells, n_classes))
    counts = sum_by(cell * n_classes + rows.y, rows.weight, n_cells * n_classes).reshape(-1, n_classes)
    for own, batch in cell_batches(rows, log_p, cluster, prior)():
        told = class_sites(batch, prior[own % n_clusters], counts[own] if with_labels else None)
        response[own], precision[own] = told
    return ClassSites.of_cells(response, precision, rows.n_groups)


def shifts_from(against_rest: FloatArray, prior: FloatArray) -> FloatArray:
    """Shifts to add to log-probabilities, (n_groups, n_clusters, n_classes), from (n_groups, n_classes, n_clusters)."""
    moved = joined_shares(against_rest.transpose(0, 2, 1), prior)
    found: FloatArray = np.log(moved) - np.log(prior)
    # Where nothing moves, nothing is added: rounding is no shift.
    return np.where((against_rest == 0).all(1)[:, :, None], 0.0, found)


@dataclass(frozen=True)
class Joined:
    """Shifts of cells whose classes were solved together."""

    shift: FloatArray  # (n_groups, n_clusters, n_classes), to add to log-probabilities
    variance: (
        FloatArray  # (n_groups, n_classes, n_clusters), of each class against the rest; NaN without rows
    )


def join_classes(batches: Batches, before: ClassSites, apart: FloatArray, prior: FloatArray) -> Joined:
    """Shifts of cells by all their classes together, drawn towards what is known of each before its rows are seen.

    Classes are pooled each by itself; but rows are whole, and their shares add up: what one class of a cell certainly has, the
    others have not. `before`: the shifts that are expected, each class against the rest; `apart`: the shifts of classes pooled
    each by itself, (n_groups, n_clusters, n_classes), for cells without rows.
    """
    n_groups, n_classes, n_clusters = before.response.shape
    expected = joined_shares(before.response.transpose(0, 2, 1), prior).reshape(-1, n_classes)
    variance = 1 / np.maximum(before.precision.transpose(0, 2, 1).reshape(-1, n_classes), 1e-12)
    found = pooled_shares(batches, expected, variance)
    share = found.share.reshape(apart.shape)
    shift = np.where(np.isnan(share), apart, np.log(np.maximum(share, 1e-12)) - np.log(prior))
    return Joined(shift, found.variance.reshape(n_groups, n_clusters, n_classes).transpose(0, 2, 1))


def pooled_shifts(sites: ClassSites) -> PooledShifts:
    """Shifts of all classes of all groups, none in common, each drawn towards none as far as they agree."""
    return pool_sites(sites.flat())


def try_class_partition(
    rows: LabeledRows, cluster: IntArray, n_clusters: int, spread: tuple[float, float]
) -> ClassTrial:
    """Hide the labels of each group in turn, estimate its shifts from its scores, and predict it."""
    log_p = crossfit_scaling(rows.score, rows.y, rows.weight, cluster, n_clusters, rows.fold, spread)
    prior, shown = labeled_cells(rows, log_p, cluster, n_clusters)
    sites = sites_of_labeled(rows, log_p, cluster, prior, with_labels=False).only(shown)
    pooled = pooled_shifts(sites)
    apart = shifts_from(pooled.shift.reshape(sites.response.shape), prior)
    between = np.full_like(sites.precision, 1 / max(pooled.group_variance + pooled.cell_variance, 1e-6))
    before = ClassSites(np.zeros_like(between), between)
    by_cell = join_classes(cell_batches(rows, log_p, cluster, prior), before, apart, prior).shift
    by_cell = np.where(shown, by_cell, apart)
    shift = by_cell[rows.group, cluster]
    trust = learn_class_trust(log_p, shift, rows.y, rows.weight, rows.group, rows.n_groups)
    loss = moved_loss(log_p, trust.without[rows.group][:, None] * shift, rows.y)
    return ClassTrial(n_clusters, class_log_loss(log_p, rows.y), loss, trust, cluster, log_p, shift)


def moved_loss(log_p: FloatArray, shift: FloatArray, y: IntArray) -> FloatArray:
    """Log loss of each row after its shift."""
    moved = log_p + shift
    return class_log_loss(moved - np.logaddexp.reduce(moved, axis=1)[:, None], y)
