"""Shares and shifts of every cell of the population: the sums over its rows, and the small solve on top."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy.special import softmax

from groupshift._article import EM_STEPS, cell_shares, finite_shifts
from groupshift._data.codes import Codes
from groupshift._data.encoder import Space
from groupshift._data.problem import Known
from groupshift._data.rows import InMemory, Population
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.label_shift import bbse, em, mlls
from groupshift._math.points import Points
from groupshift._scores.contrasts import basis, contrasts, log_scores, probabilities
from groupshift._shifts.common import (
    UNIDENTIFIED,
    CommonShift,
    Directions,
    MeanSums,
    learn_common_shift,
    no_common_shift,
)
from groupshift._shifts.counts import CountRows, Counts, Score
from groupshift._shifts.effects import hypotheses, learn_effects, learn_labeled
from groupshift._shifts.evidence import LabeledSums, gather, level_error
from groupshift._shifts.known import CellShifts, agreeing
from groupshift._shifts.sums import Bins, Sums

# Standard deviation of the shift of a group that no row is asked about, and variance of a cell that is estimated alone and has
# nothing to say.
UNASKED, UNKNOWN = 1.0, 4.0

# Rates of predicted positives among the positives and among the negatives of each cluster.
PredictionRates: TypeAlias = tuple[FloatArray, FloatArray]
# Contrasts of shares of cells beside those of the labelled prior.
ShiftOf: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Learned:
    """Everything that labelled rows taught; `update` keeps it as it is.

    Of two classes, arrays of classes have no axis for them: they are those of the positive one.
    """

    posterior: Score
    n_classes: int
    labeled_prior: FloatArray  # (n_clusters,) or (n_clusters, n_classes): α̃_k
    labeled_rows: IntArray  # (n_clusters,)
    class_rows: FloatArray  # (n_clusters, n_classes): labelled examples of each class
    labeled_groups: ValueArray
    labeled: LabeledSums  # by labelled group and cluster
    bins: Bins
    space: Space
    typical: FloatArray  # (n_features,): a value of each column; a model from a file is tried by it
    directions: Directions | None  # None where no common shift is asked about
    labeled_effect: float  # how many times fewer labelled examples than rows there are
    design_effect: float  # the same for the population
    prediction_rates: PredictionRates | None  # for BBSE alone
    shares: str | None
    shrinkage: str
    selection: str
    # Held-out scores by cluster and class, for sets of classes; None where nothing was held out, or an earlier version saved it.
    held_out: Sums | None = None

    @property
    def n_clusters(self) -> int:
        return len(self.labeled_prior)

    @property
    def n_contrasts(self) -> int:
        return self.n_classes - 1

    @property
    def is_text(self) -> bool:
        """Whether each cell is corrected alone, as in the article's text."""
        return self.shares == "em" and self.shrinkage == "none"

    @property
    def prior(self) -> FloatArray:
        """Labelled shares as contrasts, (n_clusters, M)."""
        p = (
            self.labeled_prior
            if self.n_classes > 2
            else np.column_stack([1 - self.labeled_prior, self.labeled_prior])
        )
        return contrasts(np.log(np.clip(p, 1e-12, 1)))


@dataclass(frozen=True)
class Estimate:
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
    slope: FloatArray  # *: what a share changes by if all log-odds of the class do
    share_error: FloatArray  # *: given that nothing but what was estimated shifts all groups alike
    unseen_shift: FloatArray  # (n_clusters,) *: of a group that has no rows here
    unseen_variance: FloatArray  # (n_clusters,) *
    counts: Counts | None  # what all this was made of; None without a population
    design_effect: float  # how many times fewer examples than rows the population has
    known_groups: ValueArray  # groups whose rates the user knows
    known_overall: (
        FloatArray | None
    )  # (share, standard error); of more classes (n_named, 3), after the class's number
    common: CommonShift
    common_variance: FloatArray  # (n_clusters,): the part of the variance that all groups have in common
    unidentified: float  # variance of a shift of all groups alike that no row decides; not in `variance`
    random_labels: float  # probability that labels are a random sample of their groups
    face_value: FloatArray  # (M,): what scores of all groups together suggest, beside the common shift in use

    @property
    def points(self) -> Points | Sums | None:
        """Scores of the population, worth as many rows as there are examples; of two classes as `Points`."""
        if self.counts is None:
            return None
        sums = self.counts.scores.thinned(self.design_effect)
        return sums.points() if sums.n_contrasts == 1 else sums


def estimate(learned: Learned, population: Population | None, groups: ValueArray, known: Known) -> Estimate:
    """Shares and shifts of every cell of the population."""
    if population is None:
        known.check_rows()
        return _of_nothing(learned, groups)
    # The article's shares are those of the rows, as long as memory holds these.
    count = CountRows.of(learned, exact=learned.is_text and isinstance(population, InMemory))
    counts = population.sum(partial(count, groups=groups))
    return estimate_from_counts(learned, counts.placed(groups), known)


def estimate_from_counts(learned: Learned, counts: Counts, known: Known) -> Estimate:
    """Shares and shifts of every cell of a population that was counted before."""
    sums, groups = counts.scores.thinned(learned.design_effect), counts.groups
    return _with_shares(learned, counts, _shifts(learned, sums, counts.means, groups), groups, known)


@dataclass(frozen=True)
class _Shifts:
    """Shifts of the cells in contrasts, before known rates."""

    mean: FloatArray  # (n_groups, K, M)
    covariance: FloatArray  # (n_groups, K M, K M): with what all groups have in common
    unseen: FloatArray  # (K, M)
    unseen_covariance: FloatArray  # (K M, K M)
    common: CommonShift
    random: float
    unidentified: float
    face_value: FloatArray
    share: FloatArray | None = (
        None  # as `Estimate` has it, where each cell has one of its own; else the mean posterior
    )


def _shifts(learned: Learned, sums: Sums, means: MeanSums | None, groups: ValueArray) -> _Shifts:
    n_groups, K, M = len(groups), learned.n_clusters, learned.n_contrasts
    nothing = no_common_shift(M)
    if learned.shares is None:
        # Nothing is shifted, but groups differ as labelled ones do, and intervals allow for that.
        zero, spread = np.zeros((n_groups, K, M)), _spread_of_labeled(learned)
        of_groups = np.tile(spread, (n_groups, 1, 1))
        return _Shifts(zero, of_groups, np.zeros((K, M)), spread, nothing, np.nan, 0.0, np.zeros(M))
    if learned.shrinkage != "hierarchical":
        return each_alone(learned, sums, n_groups)
    codes = Codes().fit(np.concatenate([learned.labeled_groups, groups]))
    of_labeled, of_population = codes.transform(learned.labeled_groups), codes.transform(groups)
    n_all = len(codes.values_)
    labeled, population = learned.labeled.placed(of_labeled, K, n_all), sums.placed(of_population, K, n_all)
    is_unlabeled = np.ones(n_all, bool)
    is_unlabeled[of_labeled] = False
    evidence = partial(
        gather,
        labeled,
        population,
        learned.prior,
        labeled_effect=learned.labeled_effect,
        population_effect=1.0,
    )
    effects = learn_effects(evidence, (n_all, K, M), is_unlabeled, hypotheses(learned.selection))
    common = nothing
    if learned.selection != "random" and learned.directions is not None and means is not None:
        same = Codes.of(learned.labeled_groups).transform(groups)
        common = learn_common_shift(
            learned.directions, means, same, is_certain=learned.selection == "by_label"
        )
    # All shifts lie beside the level of the labelled rows, which is an estimate itself.
    common = replace(
        common, covariance=common.covariance + level_error(learned.labeled, learned.labeled_effect)
    )
    of_all = np.kron(np.ones((K, K)), common.covariance)
    return _Shifts(
        effects.mean[of_population] + common.mean,
        effects.covariance[of_population] + of_all,
        np.broadcast_to(common.mean, (K, M)),
        effects.unseen + of_all,
        common,
        effects.random,
        0.0 if learned.selection == "random" else UNIDENTIFIED,
        effects.face_value - common.mean,
    )


def _spread_of_labeled(learned: Learned) -> FloatArray:
    """Covariance (K M, K M) of the random effects of labelled groups; nothing where there is one group."""
    K, M, n_groups = learned.n_clusters, learned.n_contrasts, len(learned.labeled_groups)
    if n_groups < 2:
        return np.zeros((K * M, K * M))
    evidence = partial(
        gather,
        learned.labeled,
        None,
        learned.prior,
        labeled_effect=learned.labeled_effect,
        population_effect=1.0,
    )
    return learn_labeled(evidence, (n_groups, K, M)).unseen


def each_alone(learned: Learned, sums: Sums, n_groups: int) -> _Shifts:
    """Each cell by its own rows, as in the article."""
    K, M = learned.n_clusters, learned.n_contrasts
    prior = np.tile(learned.labeled_prior.reshape(K, -1), (n_groups, 1))
    share, variance, shift_of = (_of_two if M == 1 else _of_more)(learned, sums, prior)
    # A cluster whose labels lack a class shows nothing of it: what its scores would say of it is made up.
    shown = np.tile((learned.class_rows > 0).all(1), n_groups)
    unknown = np.isnan(share).any(1) | ~shown
    share = np.where(unknown[:, None], prior, share)
    shift = np.where(unknown[:, None], 0.0, shift_of(share)).reshape(n_groups, K, M)
    variance = np.where(unknown[:, None, None], UNKNOWN * np.eye(M), variance)
    weight = sums.weight_sum.reshape(n_groups, K)
    mean = np.einsum("gk,gkm->km", weight, shift) / np.maximum(weight.sum(0), 1e-300)[:, None]
    spread = np.einsum("gk,gkm,gkn->mn", weight, shift - mean, shift - mean) / max(weight.sum(), 1e-300)
    covariance, k = np.zeros((n_groups, K, M, K, M)), np.arange(K)
    covariance[:, k, :, k, :] = variance.reshape(n_groups, K, M, M).swapaxes(0, 1)
    return _Shifts(
        shift,
        covariance.reshape(n_groups, K * M, K * M),
        # In the article a group without rows is left uncorrected, as a cell without rows is.
        np.zeros_like(mean) if learned.is_text else mean,
        np.kron(np.eye(K), spread),
        no_common_shift(M),
        np.nan,
        0.0,
        np.zeros(M),
        share.reshape(n_groups, *learned.labeled_prior.shape),
    )


def _of_two(learned: Learned, sums: Sums, prior: FloatArray) -> tuple[FloatArray, FloatArray, ShiftOf]:
    """Shares of positives of the cells, (n_cells, 1), NaN where nothing is known, variances of their log-odds, and these."""
    prior = prior[:, 0]
    points, edge = sums.points(), 0.5 / (sums.effective_rows + 1)
    shown = np.where((prior > 0) & (prior < 1), prior, 0.5)
    if learned.is_text:
        found, edge = cell_shares(points, prior), 0.0 * edge
    elif learned.shares == "em":
        found = em(points, labeled_prior=shown, n_iter=EM_STEPS)[0]
    elif learned.shares == "mlls":
        found = mlls(points, labeled_prior=shown)
    else:
        assert learned.prediction_rates is not None
        tpr, fpr = (np.tile(rate, len(prior) // learned.n_clusters) for rate in learned.prediction_rates)
        found = bbse(
            points, true_positive_rate=tpr, false_positive_rate=fpr, soft=learned.shares == "bbse-soft"
        )
    # A share of exactly 0 or 1 from n rows is uncertain by half a row.
    share = np.clip(found.share, edge, 1 - edge)
    error = np.where(np.isfinite(found.std_error), found.std_error, 0.5)
    error = np.minimum(error / np.maximum(share * (1 - share), 1e-6), 10.0)
    variance = np.nan_to_num(error, nan=2.0)[:, None, None] ** 2
    return share[:, None], variance, lambda share: finite_shifts(share[:, 0], prior)[:, None]


def _of_more(learned: Learned, sums: Sums, prior: FloatArray) -> tuple[FloatArray, FloatArray, ShiftOf]:
    """Shares of several classes by EM, (n_cells, C), variances of their contrasts, and these."""
    M, base = learned.n_contrasts, np.log(np.clip(prior, 1e-15, 1))
    q, log_p = prior, log_scores(sums.score)
    for _ in range(1 + (EM_STEPS if learned.shares == "em" else 10 * EM_STEPS)):
        before = q
        moved = np.log(np.clip(q, 1e-15, 1)) - base
        p = softmax(log_p + moved[sums.cell], axis=1)
        total = np.where(sums.weight_sum > 0, sums.weight_sum, np.nan)
        q = sums.by_cell(sums.weight[:, None] * p) / total[:, None]
        if np.nanmax(np.abs(q - before), initial=0) < 1e-9:
            break
    at = contrasts(np.log(np.clip(np.nan_to_num(q, nan=0.5), 1e-9, 1)))
    t = probabilities(sums.score + (at - contrasts(base))[sums.cell]) @ basis(M)
    away = t - (probabilities(at) @ basis(M))[sums.cell]
    curvature = sums.by_cell(sums.worth[:, None, None] * away[:, :, None] * away[:, None, :])
    # Half a row a class is given to a cell that is estimated alone: none is ever said to be absent.
    weight = sums.effective_rows[:, None]
    variance = np.asarray(np.linalg.inv(curvature + 0.25 * np.eye(M)), float)
    share = (q * weight + 0.5 * prior) / (weight + 0.5)
    return share, variance, lambda share: contrasts(np.log(np.clip(share, 1e-15, 1)) - base)


def _with_shares(
    learned: Learned, counts: Counts, found: _Shifts, groups: ValueArray, known: Known
) -> Estimate:
    n_groups, K, M = found.mean.shape
    sums = counts.scores.thinned(learned.design_effect)
    rows, weight = sums.rows.reshape(n_groups, K), sums.weight_sum.reshape(n_groups, K)
    if M == 1:
        shift, unseen = found.mean[..., 0], found.unseen[:, 0]
        variance, shared = _spread(found.covariance, K)
        unseen_variance = np.diagonal(found.unseen_covariance).copy()
    else:
        shift, unseen = log_scores(found.mean), log_scores(found.unseen)
        variance, shared = _against_rest(
            found.covariance, sums.mean_posterior(found.mean)[0], learned.labeled_prior
        )
        wide = np.broadcast_to(found.unseen_covariance, (1, *found.unseen_covariance.shape))
        unseen_variance = _against_rest(wide, learned.labeled_prior[None], learned.labeled_prior)[0][0]
    if learned.shares is None:
        # Nothing was asked of the rows: a rate that is known of a group is all that tells its shift.
        is_known = np.array([g in known.shares for g in groups.tolist()], bool)
        variance[is_known], shared[is_known] = UNASKED**2, UNASKED
    common = found.common.covariance.trace() / M
    before = CellShifts(shift, variance, shared, unseen, unseen_variance, float(common), found.unidentified)
    agreed = agreeing(before, sums, known, groups, is_pooled=learned.shrinkage == "hierarchical")
    share, slope = sums.mean_shares(agreed.shift, learned.labeled_prior)
    follows = slope
    if found.share is not None and not known.any:
        # The error of a share that was estimated for itself, not of a mean of predictions.
        share, follows = found.share, found.share * (1 - found.share)
    effective = np.maximum(sums.effective_rows.reshape(n_groups, K), 0.5)
    by_chance = slope / effective.reshape(n_groups, K, *(1 for _ in slope.shape[2:]))
    error = np.sqrt(follows**2 * agreed.variance + by_chance)
    if agreed.known_error is not None:
        error = np.minimum(error, agreed.known_error)
    nobody = np.maximum(np.diagonal(found.unseen_covariance).reshape(K, M).mean(1), 1e-300)
    own = np.einsum("gii->gi", found.covariance).reshape(n_groups, K, M).mean(2)
    return Estimate(
        groups=groups,
        rows=rows,
        row_weight=weight,
        shift=agreed.shift,
        variance=agreed.variance,
        shared_deviation=agreed.shared_deviation,
        pooling=np.clip(own / nobody, 0, 1) if learned.shares is not None else np.zeros((n_groups, K)),
        share=share,
        slope=slope,
        share_error=error,
        unseen_shift=agreed.unseen_shift,
        unseen_variance=agreed.unseen_variance,
        counts=_on_a_grid(learned, counts) if learned.is_text else counts,
        design_effect=learned.design_effect,
        known_groups=known.among(groups),
        known_overall=agreed.known_overall,
        common=found.common,
        common_variance=np.full(K, agreed.common_variance),
        unidentified=agreed.unidentified,
        random_labels=found.random,
        face_value=found.face_value,
    )


def _on_a_grid(learned: Learned, counts: Counts) -> Counts:
    """Counts that kept each score, as small as those of other models."""
    sums = counts.scores
    binned = Sums.of(sums.score, sums.cell, sums.weight, sums.n_cells, learned.bins)
    totals = {name: getattr(sums, name) for name in ("rows", "weight_sum", "weight_square_sum")}
    return replace(counts, scores=replace(binned, **totals))


def _spread(covariance: FloatArray, K: int) -> tuple[FloatArray, FloatArray]:
    """Variances of the cells of each group, and the deviation that they share."""
    variance = np.einsum("gkk->gk", covariance).copy()
    if K == 1:
        return variance, np.sqrt(variance)
    shared = (covariance.sum(2) - variance) / (K - 1)
    return variance, np.sqrt(np.clip(shared, 0, variance))


def _against_rest(
    covariance: FloatArray, share: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variances, and the deviation shared by the cells of a group, of each class against the rest: (n_groups, K, C)."""
    n_groups, K, C = share.shape
    M = C - 1
    p = np.clip(np.where(np.isnan(share), prior, share), 1e-9, 1 - 1e-9)
    part = p[..., None, :] / (1 - p)[..., :, None] * (1 - np.eye(C))
    B = basis(M)
    to_log_odds = B - part @ B
    cells = covariance.reshape(n_groups, K, M, K, M)
    full = np.einsum("gkcm,gkmln,glcn->gckl", to_log_odds, cells, to_log_odds)
    found = [_spread(full[:, c], K) for c in range(C)]
    variance, shared = (np.stack(parts, -1) for parts in zip(*found, strict=True))
    return variance, shared


def _of_nothing(learned: Learned, groups: ValueArray) -> Estimate:
    """No population: no groups to shift."""
    cells, empty = np.zeros((0, learned.n_clusters)), np.zeros((0, *learned.labeled_prior.shape))
    zero = np.zeros(learned.labeled_prior.shape)
    return Estimate(
        groups=groups,
        rows=cells.astype(np.int64),
        row_weight=cells,
        shift=empty,
        variance=empty,
        shared_deviation=empty,
        pooling=cells,
        share=empty,
        slope=empty,
        share_error=empty,
        unseen_shift=zero,
        unseen_variance=zero,
        counts=None,
        design_effect=1.0,
        known_groups=groups,
        known_overall=None,
        common=no_common_shift(learned.n_contrasts),
        common_variance=np.zeros(learned.n_clusters),
        unidentified=0.0,
        random_labels=np.nan,
        face_value=np.zeros(learned.n_contrasts),
    )
