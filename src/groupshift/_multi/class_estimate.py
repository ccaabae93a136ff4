"""Shares and shifts of every cell and class of the population: the sums over its rows, and the solve on top."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.estimate import AnyCells, AnyEstimate
from groupshift._fit.problem import Known
from groupshift._math.arrays import FloatArray, ValueArray
from groupshift._math.class_points import ClassPoints, collect_class_points
from groupshift._math.class_sites import against_rest, class_sites
from groupshift._math.simplex_shift import CellBatch, simplex_shares
from groupshift._multi.class_known import (
    ALL_GROUPS,
    KnownClasses,
    agreed_shares,
    agreeing_move,
    check_agreement,
    inside,
    numbered_known,
)
from groupshift._multi.class_learned import ClassLearned
from groupshift._multi.class_scores import ClassPosterior
from groupshift._multi.class_trials import ClassSites, join_classes, shifts_from
from groupshift._multi.class_view_shifts import ClassMixture, ClassShifts, class_view_shifts
from groupshift._rows.rows import Population, Rows

# Half a row a class is given to a cell that is estimated alone: none is ever said to be absent.
ALONE_ROWS = 0.5
EM_ROUNDS = 100


@dataclass(frozen=True)
class ClassEstimate(AnyEstimate):
    """Of several classes."""

    points: ClassPoints | None
    # (n_named, 3): number of a class, its known share of the population, the standard error; None where none is known.
    known_overall: FloatArray | None = None


@dataclass(frozen=True)
class TallyClasses:
    """The points of a chunk of unlabelled rows; it travels to every machine of a cluster."""

    posterior: ClassPosterior
    prototypes: FloatArray
    keep_means: bool
    n_groups: int

    def __call__(self, rows: Rows) -> ClassPoints:
        log_p, cluster = self.posterior.score(rows)
        n_clusters = self.posterior.partition.n_clusters
        return collect_class_points(
            np.exp(log_p),
            rows.group * n_clusters + cluster,
            n_cells=self.n_groups * n_clusters,
            weight=rows.weight,
            prototypes=self.prototypes,
            keep_means=self.keep_means,
        )


def estimate_classes(
    learned: ClassLearned,
    population: Population | None,
    groups: ValueArray,
    classes: ValueArray,
    known: Known,
) -> ClassEstimate:
    """Shares and shifts of every cell of the population."""
    if population is None:
        known.check_rows()
        return ClassEstimate.of_nothing(groups, learned.labeled_prior)
    tally = TallyClasses(learned.posterior, learned.prototypes, learned.keep_means, len(groups))
    cells = _Cells(learned, population.sum(tally).thinned(learned.design_effect))
    shifts = cells.shifts(groups)
    shift, shifts = cells.joined(shifts)
    share, error = cells.shares(shift, shifts)
    numbered = numbered_known(known, groups, classes)
    if numbered is not None:
        check_agreement(numbered, cells.row_weight.sum(1), classes)
        shift, share, error = cells.agreeing(numbered, shift, share, error)
    variance = shifts.variance.transpose(0, 2, 1)
    return ClassEstimate(
        groups=groups,
        rows=cells.rows,
        row_weight=cells.row_weight,
        shift=shift,
        variance=variance,
        shared_deviation=np.minimum(np.sqrt(shifts.shared)[:, None, :], np.sqrt(variance)),
        pooling=shifts.pooling,
        share=share,
        share_error=error,
        unseen_shift=shifts_from(shifts.unseen_shift[None], learned.labeled_prior)[0],
        unseen_variance=shifts.unseen_variance.T,
        points=cells.points,
        use=shifts.use,
        known_groups=known.among(groups),
        known_overall=None if numbered is None else numbered.overall,
    )


@dataclass(frozen=True)
class _Cells(AnyCells):
    """Of several classes."""

    learned: ClassLearned
    points: ClassPoints

    @property
    def shape(self) -> tuple[int, int, int]:
        return (*self.rows.shape, self.learned.n_classes)

    def shifts(self, groups: ValueArray) -> ClassShifts:
        """Shifts of each class against the rest, as the settings say how."""
        learned = self.learned
        if learned.shares is None:
            nothing = np.zeros((self.shape[0], self.shape[2], self.shape[1]))
            return self._unpooled(nothing, nothing)
        if learned.shrinkage != "hierarchical":
            return self._each_alone()
        mixture = ClassMixture.of(self._sites())
        if learned.own is None:
            return mixture.trusted(learned.trust, learned.trust_variance)
        return class_view_shifts(learned, learned.own, mixture, groups, self.rows.sum(1))

    def joined(self, shifts: ClassShifts) -> tuple[FloatArray, ClassShifts]:
        """Shifts to add to log-probabilities, classes of a cell solved together as far as `part` says, and their variances."""
        prior, part = self.learned.labeled_prior, shifts.part
        apart = shifts_from(shifts.shift, prior)
        if part <= 0 or shifts.before is None:
            return apart, shifts
        joined = join_classes(lambda: self.points.batches(prior), shifts.before, apart, prior)
        is_shown = self.learned.is_shown
        shift = apart + part * np.where(is_shown, joined.shift - apart, 0.0)
        own = joined.variance + shifts.misfit
        variance = np.where(np.isnan(own) | ~is_shown.T, shifts.variance, own)
        return shift, replace(shifts, variance=shifts.variance + part * (variance - shifts.variance))

    def _sites(self) -> ClassSites:
        """What the rows of each cell say by themselves; nothing of classes that labels do not show."""
        prior = self.learned.labeled_prior
        response, precision = np.zeros((2, self.points.n_cells, self.shape[2]))
        for own, batch in self.points.batches(prior):
            response[own], precision[own] = class_sites(batch, prior[own % len(prior)])
        return ClassSites.of_cells(response, precision, self.shape[0]).only(self.learned.is_shown)

    def _each_alone(self) -> ClassShifts:
        """Each cell by its own rows, as in the paper: one EM, or the maximum, of all classes together."""
        prior, learned = self.learned.labeled_prior, self.learned
        shift, variance = np.zeros((2, self.points.n_cells, self.shape[2]))
        for own, batch in self.points.batches(prior):
            labeled = prior[own % len(prior)]
            q = (
                em_shares(batch, labeled)
                if learned.shares == "em"
                else simplex_shares(batch, np.zeros(self.shape[2]))
            )
            total = batch.total[:, None]
            q = (q * total + ALONE_ROWS * labeled) / (total + ALONE_ROWS)
            shift[own] = against_rest(q, labeled)
            _, precision = class_sites(batch, labeled)
            variance[own] = 1 / np.maximum(precision, 0.25)
        sites = ClassSites.of_cells(shift, variance, self.shape[0])
        trust = learned.trust
        return self._unpooled(trust * sites.response, trust**2 * sites.precision)

    def _unpooled(self, shift: FloatArray, variance: FloatArray) -> ClassShifts:
        """Cells each on their own; an unseen group gets the average shift of its cluster, weighted by rows."""
        weight = self.row_weight
        total = np.maximum(weight.sum(0), 1e-300)
        mean = np.einsum("gk,gck->ck", weight, shift) / total
        return ClassShifts(
            shift,
            variance,
            np.zeros(shift.shape[:2]),
            np.zeros(self.shape[:2]),
            mean,
            np.einsum("gk,gck->ck", weight, (shift - mean) ** 2) / total,
            None,
        )

    def shares(self, shift: FloatArray, shifts: ClassShifts) -> tuple[FloatArray, FloatArray]:
        """Shares of the cells, the means of their predictions, and their standard errors."""
        flat = shift.reshape(-1, self.shape[2])
        mean, doubt = (v.reshape(self.shape) for v in self.points.mean_posterior(flat))
        prior = self.learned.labeled_prior
        expected = np.exp(np.log(prior) + shift)
        expected /= expected.sum(2, keepdims=True)
        is_empty = np.isnan(mean)
        share = np.where(is_empty, expected, mean)
        slope = np.where(is_empty, share * (1 - share), doubt)
        if self.learned.shares is None:
            return share, np.zeros_like(share)
        variance = shifts.variance.transpose(0, 2, 1)
        rows = np.maximum(self.points.effective_rows.reshape(self.shape[:2]), 0.5)[:, :, None]
        # The share of the rows at hand: what is not known of their shift, and the chance of each row.
        return share, np.sqrt(slope**2 * variance + slope / rows)

    def agreeing(
        self, known: KnownClasses, shift: FloatArray, share: FloatArray, error: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Shifts and shares moved to agree with known shares, which need no trust: of groups first, then, by the other groups,
        of all."""
        points, (n_groups, n_clusters, n_classes) = self.points, self.shape
        flat, error = shift.reshape(-1, n_classes).copy(), error.copy()
        log_p, cell = np.log(points.posterior), points.cell
        weight = self.row_weight
        first = np.searchsorted(cell, np.arange(0, points.n_cells + 1, n_clusters))
        part = weight / np.maximum(weight.sum(1, keepdims=True), 1e-300)
        of_groups, is_open = known.group != ALL_GROUPS, np.ones(n_groups, bool)
        for g, (given, known_error) in zip(known.group[of_groups], known.rows(of_groups), strict=True):
            wanted = agreed_shares(part[g] @ share[g], given, known_error, part[g] @ error[g])
            own = slice(first[g], first[g + 1])
            move = agreeing_move(log_p[own] + flat[cell[own]], points.weight[own], wanted)
            flat[g * n_clusters : (g + 1) * n_clusters] += move
            is_known = ~np.isnan(given)
            error[g][:, is_known] = np.minimum(error[g], known_error)[:, is_known]
            is_open[g] = False
        share = self._predicted(flat, share)
        for given, known_error in known.rows(~of_groups):
            present, doubt = (np.einsum("gk,gkc->c", weight, v) / weight.sum() for v in (share, error))
            wanted = weight.sum() * agreed_shares(present, given, known_error, doubt)
            wanted -= np.einsum("gk,gkc->c", weight[~is_open], share[~is_open])
            moved = np.repeat(is_open, n_clusters)
            at = np.flatnonzero(moved[cell])
            wanted = inside(wanted / max(weight[is_open].sum(), 1e-300))
            flat[moved] += agreeing_move(log_p[at] + flat[cell[at]], points.weight[at], wanted)
            share = self._predicted(flat, share)
        return flat.reshape(self.shape), share, error

    def _predicted(self, flat: FloatArray, share: FloatArray) -> FloatArray:
        """Mean predictions of the cells; `share` of those without rows."""
        found = self.points.mean_posterior(flat)[0].reshape(self.shape)
        return np.where(np.isnan(found), share, found)


def em_shares(batch: CellBatch, prior: FloatArray) -> FloatArray:
    """The paper's EM: 100 rounds from the mean posteriors, which are one round from the labelled shares."""
    q = prior.copy()
    total = np.maximum(batch.total, 1e-300)[:, None]
    for _ in range(1 + EM_ROUNDS):
        q = q * batch.gradient(q) / total
    return q
