"""Shares and shifts of every cell of the population: the sums over its rows, and the small solve on top."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
from scipy.special import expit, logit

from groupshift._article import EM_STEPS, cell_shares, finite_shifts
from groupshift._fit.agreement import Agreed, agree
from groupshift._fit.learned import AnyLearned, Learned
from groupshift._fit.looked_at import LookedAt
from groupshift._fit.own_views import OwnViews
from groupshift._fit.problem import Known
from groupshift._fit.trials import MIN_CLASS_ROWS
from groupshift._fit.view_shifts import PopulationView, ViewUse, compare_within, view_shifts
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.class_points import ClassPoints
from groupshift._math.context import Context, group_sums
from groupshift._math.feature_means import LEAST_LEFT, MeanSums
from groupshift._math.known_shares import mean_posterior
from groupshift._math.label_shift import bbse, em, mlls
from groupshift._math.points import BIN_WIDTH, Points, collect_points
from groupshift._math.shrinkage import PooledShifts, pool_shifts
from groupshift._math.sites import cell_sites
from groupshift._regions.space import Space
from groupshift._rows.codes import Codes
from groupshift._rows.rows import InMemory, Population, Rows

# Log-odds and cluster of rows.
Score: TypeAlias = Callable[[Rows], tuple[FloatArray, IntArray]]

# So many cells with a few thousand bins each are some 300 MB of points.
MANY_CELLS = 5_000


@dataclass(frozen=True)
class AnyEstimate:
    """What the population's rows say, given what was learned; `update` replaces it whole.

    Arrays have shape (n_groups, n_clusters) unless another is given; of more than two classes, those marked with * have a last
    axis for the classes.
    """

    groups: ValueArray  # (n_groups,): names, in the order of the first axis
    rows: IntArray
    row_weight: FloatArray
    shift: FloatArray  # *: added to log-odds of the labelled posterior; of more classes, to log-probabilities
    variance: FloatArray  # *: of the shift; of more classes, of each against the rest, in log-odds
    shared_deviation: FloatArray  # *: two shifts of one group have the product of their entries as covariance
    pooling: FloatArray  # part of a shift that is borrowed from other cells, 0 to 1
    share: FloatArray  # *: of positives, α_k^g, or of each class
    share_error: FloatArray  # *
    unseen_shift: FloatArray  # (n_clusters,) *: of a group that has no rows here
    unseen_variance: FloatArray  # (n_clusters,) *
    points: Points | ClassPoints | None  # the sums that all this was made of; None without a population
    use: ViewUse | None  # how far each view of a shift is used; None where a trust was given
    known_groups: ValueArray  # groups whose rates the user knows

    @classmethod
    def of_nothing(cls, groups: ValueArray, labeled_prior: FloatArray) -> Self:
        """No population: no groups to shift."""
        cells, empty = np.zeros((0, len(labeled_prior))), np.zeros((0, *labeled_prior.shape))
        zero = np.zeros(labeled_prior.shape)
        return cls(
            groups=groups,
            rows=cells.astype(np.int64),
            row_weight=cells,
            shift=empty,
            variance=empty,
            shared_deviation=empty,
            pooling=cells,
            share=empty,
            share_error=empty,
            unseen_shift=zero,
            unseen_variance=zero,
            points=None,
            use=None,
            known_groups=groups,
        )


@dataclass(frozen=True)
class Estimate(AnyEstimate):
    """Of two classes."""

    points: Points | None
    # These have defaults for files that were written before them.
    known_overall: tuple[float, float] | None = None  # the population's rate and its standard error
    common_variance: FloatArray | float = 0.0  # (n_clusters,): the part that all groups have in common
    unidentified: float = 0.0  # of a shift of all groups alike that no row decides; not in `variance`


@dataclass(frozen=True)
class Tally:
    """What is summed over the population: points of the cells, and covariate sums of the groups."""

    points: Points  # by the scores that shares are learned from
    predicted: Points | None  # by the scores that rows will be predicted with; None where they are the same
    covariates: FloatArray
    means: MeanSums | None = None  # of features, of a sample of the rows; None where they are not asked about

    def __add__(self, other: Self) -> Self:
        predicted = None
        if self.predicted is not None and other.predicted is not None:
            predicted = self.predicted + other.predicted
        return replace(
            self,
            points=self.points + other.points,
            predicted=predicted,
            covariates=self.covariates + other.covariates,
            means=None if self.means is None or other.means is None else self.means + other.means,
        )


def bin_width(n_cells: int) -> float:
    """Width of the bins of log-odds: wider for very many cells, or their points would fill the memory.

    Classes 0.6 standard deviations apart make an error of 2e-4 in a share of the wide ones, which a cell
    with fewer than a million rows cannot tell from chance.

    >>> bin_width(800), bin_width(200_000)
    (0.00390625, 0.03125)
    """
    return BIN_WIDTH if n_cells <= MANY_CELLS else 8 * BIN_WIDTH


@dataclass(frozen=True)
class TallyRows:
    """The sums of a chunk of unlabelled rows: one pass for cluster, score and covariates.

    It carries what a chunk needs and no more, since it travels to every machine of a cluster.
    """

    score: Score
    predict: Score | None  # see `Tally.predicted`
    n_groups: int
    n_clusters: int
    space: Space
    context: Context | None
    looked_at: LookedAt | None = None
    bin_width: float | None = BIN_WIDTH  # None keeps each row

    def __call__(self, rows: Rows) -> Tally:
        scored = self.score(rows)
        points = self._points(rows, *scored)
        predicted = None if self.predict is None else self._points(rows, *self.predict(rows))
        covariates = np.zeros((self.n_groups, 0))
        if self.context is not None:
            projected = self.context.project(self.space.transform(rows.matrix))
            covariates = group_sums(projected, rows.group, rows.weight, self.n_groups)
        means = None if self.looked_at is None else self.looked_at.sums(rows, self.space, *scored)
        return Tally(points, predicted, covariates, means)

    def _points(self, rows: Rows, log_odds: FloatArray, cluster: IntArray) -> Points:
        return collect_points(
            log_odds,
            rows.group * self.n_clusters + cluster,
            n_cells=self.n_groups * self.n_clusters,
            weight=rows.weight,
            bin_width=self.bin_width,
        )


def estimate(
    learned: Learned,
    population: Population | None,
    groups: ValueArray,
    known: Known,
) -> Estimate:
    """Shares and shifts of every cell of the population."""
    if population is None:
        known.check_rows()
        return Estimate.of_nothing(groups, learned.labeled_prior)
    n_groups, n_clusters = len(groups), learned.n_clusters
    # Shares are learned from scores by models of folds, and are those of the scores that rows will be predicted with.
    is_learned = learned.shares is not None or known.any
    score = learned.population_posterior.score if is_learned else learned.posterior.score
    is_scored_twice = is_learned and learned.population_posterior is not learned.posterior
    predict = learned.posterior.score if is_scored_twice else None
    looked_at = LookedAt.of(learned.means, population.n_rows, groups, learned.labeled_groups)
    width = bin_width(n_groups * n_clusters)
    # The article's shares are those of the rows, as long as memory holds these.
    is_exact = learned.is_alone and isinstance(population, InMemory)
    known_to_all = score, predict, n_groups, n_clusters, learned.space, learned.context, looked_at
    sums = population.sum(TallyRows(*known_to_all, bin_width=None if is_exact else width))
    points = sums.points.thinned(learned.design_effect)
    cells = _Cells(learned, points)
    mixture = cells.pooled()
    if is_exact:
        cells = replace(cells, points=points.binned(width))
    context = np.zeros(n_groups)
    if learned.context is not None:
        context = cells.context_effect(learned.context, sums.covariates, groups)
    if learned.own is None:
        shifts, use = mixture.scaled(learned.trust, learned.residual_variance, learned.trust_variance), None
    else:
        shifts, use = cells.viewed(learned.own, mixture, context, groups, sums.means)
        # Group means were compared with shifts of labels: where those were selected, that says little of the population.
        context = use.no_selection * context
    shifts = replace(shifts, shift=shifts.shift + context[:, None])
    if learned.own is not None and use is not None and learned.selection != "random":
        shifts, use = compare_within(learned.own, shifts, use, groups, points)
    if sums.predicted is not None:
        # Shares are of the very probabilities that will be predicted.
        cells = replace(cells, points=sums.predicted.thinned(learned.design_effect))
    agreed = agree(learned, shifts, known, groups, cells.points, cells.row_weight)
    shifts = agreed.shifts
    share, share_error = cells.shares(shifts, mixture, agreed)
    return Estimate(
        groups=groups,
        rows=cells.rows,
        row_weight=cells.row_weight,
        shift=shifts.shift,
        variance=shifts.variance,
        shared_deviation=shifts.shared_deviation,
        # How much is borrowed is a matter of the rows, not of how far the shifts are trusted.
        pooling=mixture.pooling,
        share=share,
        share_error=share_error,
        unseen_shift=shifts.cluster_shift,
        unseen_variance=shifts.unseen_variance,
        points=cells.points,
        use=use,
        known_groups=known.among(groups),
        known_overall=None if known.overall is None else (known.overall.share, known.overall.std_error),
        common_variance=agreed.common_variance,
        unidentified=agreed.unidentified,
    )


@dataclass(frozen=True)
class AnyCells:
    """The population's cells: their points, and what labelled rows taught about their clusters."""

    learned: AnyLearned
    points: Points | ClassPoints

    @property
    def rows(self) -> IntArray:
        """(n_groups, n_clusters)."""
        return self.points.rows.reshape(-1, self.learned.n_clusters)

    @property
    def row_weight(self) -> FloatArray:
        """(n_groups, n_clusters)."""
        return self.points.weight_sum.reshape(-1, self.learned.n_clusters)


@dataclass(frozen=True)
class _Cells(AnyCells):
    """Of two classes."""

    learned: Learned
    points: Points

    def pooled(self) -> PooledShifts:
        """Shifts of the cells before trust."""
        learned, n_groups = self.learned, len(self.rows)
        if learned.shares is None:
            return self._unpooled(np.zeros(self.rows.shape), np.zeros(self.rows.shape))
        if learned.shrinkage == "hierarchical":
            return pool_shifts(self._telling(), labeled_prior=learned.labeled_prior, n_groups=n_groups)
        return self._each_alone()

    def _telling(self) -> Points:
        """Points of the cells that tell something.

        Those of a cluster that labels do not show one class of are as good as empty: they follow their group and the others.
        """
        shows_both_classes = self.learned.rarer_class_rows >= MIN_CLASS_ROWS
        return self.points.only(np.tile(shows_both_classes, len(self.rows)))

    def _each_alone(self) -> PooledShifts:
        """Each cell by its own rows, as in the paper."""
        learned, points, n_groups = self.learned, self.points, len(self.rows)
        prior = np.tile(learned.labeled_prior, n_groups)
        # Elsewhere a cluster without labels of one class is left out below; its shares are asked for all the same.
        shown = np.where((prior > 0) & (prior < 1), prior, 0.5)
        if learned.is_alone:
            found = cell_shares(points, prior)
        elif learned.shares == "em":
            found, _ = em(points, labeled_prior=shown, n_iter=EM_STEPS)
        elif learned.shares == "mlls":
            found = mlls(points, labeled_prior=shown)
        else:
            assert learned.prediction_rates is not None
            tpr, fpr = (np.tile(rate, n_groups) for rate in learned.prediction_rates)
            soft = learned.shares == "bbse-soft"
            found = bbse(points, true_positive_rate=tpr, false_positive_rate=fpr, soft=soft)
        # A share of exactly 0 or 1 from n rows is doubted by half a row; a cell without rows is left uncorrected.
        edge = 0.0 if learned.is_alone else 0.5 / (points.effective_rows + 1)
        share = np.clip(found.share, edge, 1 - edge)
        # A cluster whose labels are all of one class shows nothing of the other: what its scores would say of it is made up.
        unknown = np.isnan(share) | np.tile(learned.rarer_class_rows == 0, n_groups)
        shift = np.where(unknown, 0.0, finite_shifts(share, prior))
        error = np.where(np.isfinite(found.std_error), found.std_error, 0.5)
        error = error / np.maximum(share * (1 - share), 1e-6)
        variance = np.where(unknown, 4.0, np.minimum(error, 10.0) ** 2)
        return self._unpooled(shift.reshape(self.rows.shape), variance.reshape(self.rows.shape))

    def _unpooled(self, shift: FloatArray, variance: FloatArray) -> PooledShifts:
        """Cells each on their own; an unseen group gets the average shift of its cluster, weighted by rows.

        In the article it is left uncorrected, as a cell without rows is.
        """
        weight = self.row_weight
        mean = (weight * shift).sum(0) / np.maximum(weight.sum(0), 1e-300)
        return PooledShifts(
            shift=shift,
            variance=variance,
            cluster_shift=np.zeros(len(mean)) if self.learned.is_alone else mean,
            cluster_variance=np.zeros(shift.shape[1]),
            group_effect=np.zeros(len(shift)),
            group_variance=0.0,
            cell_variance=float(np.average((shift - mean) ** 2, weights=weight + 1e-300)),
            shared_deviation=np.zeros_like(shift),
        )

    def viewed(
        self,
        own: OwnViews,
        mixture: PooledShifts,
        context: FloatArray,
        groups: ValueArray,
        means: MeanSums | None,
    ) -> tuple[PooledShifts, ViewUse]:
        """Shifts from what own labels, their scores and the population's scores say together."""
        prior = self.learned.labeled_prior
        scores = cell_sites(self._telling(), labeled_prior=prior, n_groups=len(groups))
        population = PopulationView(
            groups, scores, mixture, context, self.rows.sum(1), self.row_weight.sum(0), self._whole(), means
        )
        return view_shifts(self.learned, own, population)

    def _whole(self) -> FloatArray:
        """What scores of all groups together say of the shift of each cluster, as if they were one group."""
        n_clusters = self.learned.n_clusters
        told = self._telling()
        together = collect_points(told.score, told.cell % n_clusters, n_cells=n_clusters, weight=told.weight)
        prior = self.learned.labeled_prior
        share = np.clip(
            mlls(together, labeled_prior=prior).share, LEAST_LEFT * prior, 1 - LEAST_LEFT * (1 - prior)
        )
        shift: FloatArray = np.nan_to_num(logit(share) - logit(prior))
        return shift

    def context_effect(self, context: Context, sums: FloatArray, groups: ValueArray) -> FloatArray:
        total = np.maximum(self.row_weight.sum(1), 1e-300)
        labeled_group = Codes.of(context.labeled_groups_).transform(groups)
        return context.predict(sums / total[:, None], self.rows.sum(1).astype(float), labeled_group)

    def shares(
        self, shifts: PooledShifts, mixture: PooledShifts, agreed: Agreed
    ) -> tuple[FloatArray, FloatArray]:
        """Shares of the cells and their standard errors."""
        learned = self.learned
        base = logit(learned.labeled_prior)
        of_mixture = expit(base + mixture.shift)
        mean, doubt = mean_posterior(self.points, shifts.shift)
        mean = np.where(np.isnan(mean), expit(base + shifts.shift), mean)
        rows = np.maximum(self.points.effective_rows.reshape(mean.shape), 0.5)
        slope = np.where(np.isnan(doubt), mean * (1 - mean), doubt)
        if learned.own is not None or agreed.any_known:
            # The share of the rows at hand: what is not known of their shift, and the chance of each row.
            share = np.clip(mean, 1e-12, 1 - 1e-12)
            error = np.sqrt(slope**2 * shifts.variance + slope / rows)
        elif learned.shares is None:
            # A plain classifier's share: groups differ from it as much as labelled groups do, and each row by chance.
            share, error = mean, np.sqrt(slope**2 * learned.residual_variance + slope / rows)
        else:
            share = learned.trust * of_mixture + (1 - learned.trust) * mean
            error = self._share_error(mixture, share, doubt, rows)
            # Had the trust been another, the share would lie nearer to one of the two estimates that meet in it.
            error = np.sqrt(error**2 + learned.trust_variance * (of_mixture - mean) ** 2)
        if (known := agreed.known) is not None:
            error[known.group] = np.minimum(error[known.group], known.std_error[:, None])
        return share, error

    def _share_error(
        self, mixture: PooledShifts, share: FloatArray, doubt: FloatArray, rows: FloatArray
    ) -> FloatArray:
        """Standard errors of shares in which two estimates meet.

        The mixture's share is right as far as shifts are trusted; otherwise the mean of the predicted probabilities
        is, as for any classifier. The share is their average, weighted by the trust.
        """
        learned = self.learned
        spread = share * (1 - share)
        of_mixture = spread * np.sqrt(mixture.variance + learned.residual_variance)
        of_mean = np.sqrt(
            np.where(np.isnan(doubt), spread, doubt) ** 2 * learned.residual_variance + spread / rows
        )
        return learned.trust * of_mixture + (1 - learned.trust) * of_mean
