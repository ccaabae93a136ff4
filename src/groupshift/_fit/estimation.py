"""Shares and shifts of every cell of the population: the sums over its rows, and the small solve on top."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from groupshift._fit.earlier_models import noted
from groupshift._fit.selection import MIN_CLASS_ROWS
from groupshift._math.context import Context, group_sums
from groupshift._math.known_shares import KnownShares, by_rows, condition_group
from groupshift._math.label_shift import bbse, em, mlls
from groupshift._math.points import BIN_WIDTH, Points, collect_points
from groupshift._math.shrinkage import PooledShifts, pool_shifts
from groupshift._regions.space import Space
from groupshift._rows.frames import Codes
from groupshift._rows.rows import Population, Rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Score = Callable[[Rows], tuple[FloatArray, IntArray]]

# So many cells with a few thousand bins each are some 300 MB of points.
MANY_CELLS = 5_000


@dataclass(frozen=True)
class Tally:
    """What is summed over the population: points of the cells, and covariate sums of the groups."""

    points: Points
    covariates: FloatArray

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.points + other.points, self.covariates + other.covariates)


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
    n_groups: int
    n_clusters: int
    space: Space
    context: Context | None

    def __call__(self, rows: Rows) -> Tally:
        log_odds, cluster = self.score(rows)
        points = collect_points(
            log_odds,
            rows.group * self.n_clusters + cluster,
            n_cells=self.n_groups * self.n_clusters,
            weight=rows.weight,
            bin_width=bin_width(self.n_groups * self.n_clusters),
        )
        if self.context is None:
            return Tally(points, np.zeros((self.n_groups, 0)))
        projected = self.context.project(self.space.transform(rows.matrix))
        return Tally(points, group_sums(projected, rows.group, rows.weight, self.n_groups))


def estimate_shifts(
    model: Any,
    population: Population,
    known_shares: Any = None,
    score: Score | None = None,
) -> None:
    """Shares and shifts of every cell of the population, onto the model."""
    if score is None:
        # Without shifts the scores of the population are not needed, only how many rows each cell has.
        needed = model.shares is not None or known_shares
        score = model.posterior_.score if needed else _cluster_only(model)
    n_groups, n_clusters = len(model.groups_), model.n_clusters_
    sums = population.sum(TallyRows(score, n_groups, n_clusters, model.space_, model.context_))
    points = sums.points.thinned(noted(model, "design_effect_"))
    model.rows_ = points.rows.reshape(n_groups, n_clusters)
    model.row_weight_ = points.weight_sum.reshape(n_groups, n_clusters)
    known = _known(model, known_shares)
    mixture = _pooled(model, points, known)
    pooled = mixture.scaled(model.trust_, model.residual_variance_, noted(model, "trust_variance_"))
    if model.context_ is not None:
        pooled = replace(pooled, shift=pooled.shift + _context_effect(model, sums.covariates)[:, None])
    if known is not None:
        pooled = _conditioned(pooled, known, points)
    _set_shifts(model, pooled)
    # How much is borrowed is a matter of the rows, not of how far the shifts are trusted.
    model.pooling_ = mixture.pooling
    _set_shares(model, points, mixture, known)
    model.tally_ = points


def _cluster_only(model: Any) -> Score:
    partition = model.posterior_.partition
    return lambda rows: (np.zeros(len(rows)), partition.predict(rows))


def _set_shifts(model: Any, pooled: PooledShifts) -> None:
    model.shift_ = pooled.shift
    model.shift_variance_ = pooled.variance
    model.shared_deviation_ = pooled.shared_deviation
    model.unseen_shift_ = pooled.cluster_shift
    model.unseen_variance_ = pooled.unseen_variance


def _set_shares(model: Any, points: Points, mixture: PooledShifts, known: KnownShares | None) -> None:
    """Shares of the cells and their standard errors."""
    base = logit(model.labeled_prior_)
    of_mixture = expit(base + mixture.shift)
    mean, doubt = _mean_posterior(points, model.shift_)
    mean = np.where(np.isnan(mean), expit(base + model.shift_), mean)
    share, error = of_mixture, np.zeros_like(of_mixture)
    if model.shares is not None:
        share = model.trust_ * of_mixture + (1 - model.trust_) * mean
        error = _share_error(model, points, mixture, share, doubt)
        # Had the trust been another, the share would lie nearer to one of the two estimates that meet in it.
        error = np.sqrt(error**2 + noted(model, "trust_variance_") * (of_mixture - mean) ** 2)
    if known is not None:
        # Predictions of a group with a known rate were moved to agree with it, and so is its share.
        share[known.group] = mean[known.group]
        limit = known.std_error[:, None]
        error[known.group] = limit if model.shares is None else np.minimum(error[known.group], limit)
    model.group_prior_, model.share_error_ = share, error


def _share_error(
    model: Any, points: Points, mixture: PooledShifts, share: FloatArray, doubt: FloatArray
) -> FloatArray:
    """Standard errors of shares in which two estimates meet.

    The mixture's share is right as far as shifts are trusted; otherwise the mean of the predicted probabilities
    is, as for any classifier. The share is their average, weighted by the trust.
    """
    spread = share * (1 - share)
    rows = np.maximum(points.effective_rows.reshape(share.shape), 0.5)
    of_mixture = spread * np.sqrt(mixture.variance + model.residual_variance_)
    of_mean = np.sqrt(
        np.where(np.isnan(doubt), spread, doubt) ** 2 * model.residual_variance_ + spread / rows
    )
    return model.trust_ * of_mixture + (1 - model.trust_) * of_mean


def _mean_posterior(points: Points, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the corrected posterior q of each cell, and of q(1 − q); NaN in cells without rows."""
    q = expit(points.score + shift.ravel()[points.cell])
    total = np.where(points.weight_sum > 0, points.weight_sum, np.nan)
    mean = np.bincount(points.cell, weights=points.weight * q, minlength=points.n_cells) / total
    doubt = np.bincount(points.cell, weights=points.weight * q * (1 - q), minlength=points.n_cells) / total
    return mean.reshape(shift.shape), doubt.reshape(shift.shape)


def estimate_nothing(model: Any) -> None:
    """No population: no groups to shift."""
    empty = np.zeros((0, model.n_clusters_))
    model.rows_ = empty.astype(np.int64)
    model.row_weight_ = empty
    model.shift_ = model.shift_variance_ = model.shared_deviation_ = model.pooling_ = empty
    model.group_prior_ = model.share_error_ = empty
    model.unseen_shift_ = model.unseen_variance_ = np.zeros(model.n_clusters_)
    model.tally_ = None


def _pooled(model: Any, points: Points, known: KnownShares | None) -> PooledShifts:
    n_groups, n_clusters = model.rows_.shape
    if model.shares is None:
        return _unpooled(np.zeros((n_groups, n_clusters)), np.zeros((n_groups, n_clusters)), model)
    if model.shrinkage == "hierarchical":
        # Cells of a cluster that labels do not show one class of are as good as empty: they follow their group and the others.
        told = np.broadcast_to(noted(model, "rarer_class_rows_") >= MIN_CLASS_ROWS, n_clusters)
        points = points.only(np.tile(told, n_groups))
        return pool_shifts(points, labeled_prior=model.labeled_prior_, n_groups=n_groups, known=known)
    prior = np.tile(model.labeled_prior_, n_groups)
    if model.shares == "em":
        found, _ = em(points, labeled_prior=prior, n_iter=100)
    elif model.shares == "mlls":
        found = mlls(points, labeled_prior=prior)
    else:
        tpr, fpr = (np.tile(rate, n_groups) for rate in model.prediction_rates_)
        found = bbse(
            points, true_positive_rate=tpr, false_positive_rate=fpr, soft=model.shares == "bbse-soft"
        )
    # A share of exactly 0 or 1 from n rows is doubted by half a row; a cell without rows is left uncorrected.
    edge = 0.5 / (points.effective_rows + 1)
    share = np.clip(found.share, edge, 1 - edge)
    # A cluster whose labels are all of one class shows nothing of the other: what its scores would say of it is made up.
    one_class = np.broadcast_to(noted(model, "rarer_class_rows_") == 0, n_clusters)
    unknown = np.isnan(share) | np.tile(one_class, n_groups)
    shift = np.where(unknown, 0.0, logit(np.where(unknown, 0.5, share)) - logit(prior))
    error = np.where(np.isfinite(found.std_error), found.std_error, 0.5) / np.maximum(
        share * (1 - share), 1e-6
    )
    variance = np.where(unknown, 4.0, np.minimum(error, 10.0) ** 2)
    return _unpooled(shift.reshape(n_groups, n_clusters), variance.reshape(n_groups, n_clusters), model)


def _unpooled(shift: FloatArray, variance: FloatArray, model: Any) -> PooledShifts:
    """Cells each on their own; an unseen group gets the average shift of its cluster, weighted by rows."""
    weight = model.row_weight_
    total = np.maximum(weight.sum(0), 1e-300)
    return PooledShifts(
        shift=shift,
        variance=variance,
        cluster_shift=(weight * shift).sum(0) / total,
        cluster_variance=np.zeros(shift.shape[1]),
        group_effect=np.zeros(len(shift)),
        group_variance=0.0,
        cell_variance=float(
            np.average((shift - (weight * shift).sum(0) / total) ** 2, weights=weight + 1e-300)
        ),
        shared_deviation=np.zeros_like(shift),
    )


def _context_effect(model: Any, sums: FloatArray) -> FloatArray:
    total = np.maximum(model.row_weight_.sum(1), 1e-300)
    labeled_group = Codes.of(model.context_.labeled_groups_).transform(model.groups_)
    return model.context_.predict(sums / total[:, None], model.rows_.sum(1).astype(float), labeled_group)


def _known(model: Any, known_shares: Mapping | None) -> KnownShares | None:
    if not known_shares:
        return None
    groups, shares, errors = [], [], []
    numbers = {g: i for i, g in enumerate(model.groups_.tolist())}
    for group, value in dict(known_shares).items():
        if group not in numbers:
            raise ValueError(
                f"known_shares names group {group!r}, which has no unlabelled rows. Leave it out, or add rows of it."
            )
        share, error = value if isinstance(value, (tuple, list)) else (value, 0.0)
        if not (0 <= share <= 1 and error >= 0):
            raise ValueError(
                f"known_shares of group {group!r} is {value!r}. Pass a share between 0 and 1, or (share, standard error)."
            )
        groups.append(numbers[group])
        shares.append(share)
        errors.append(error)
    weight = model.row_weight_[groups]
    weight = weight / np.maximum(weight.sum(1, keepdims=True), 1e-300)
    return KnownShares(np.array(groups), np.array(shares, float), np.array(errors, float), weight)


def _conditioned(pooled: PooledShifts, known: KnownShares, points: Points) -> PooledShifts:
    """Trusted shifts of groups with known rates, moved to agree with them: a known rate needs no trust.

    It is a rate of the group's rows, so it is their mean prediction that has to agree.
    """
    shift, variance = pooled.shift.copy(), pooled.variance.copy()
    shared = pooled.shared_deviation.copy()
    for g, share, error, weight in zip(known.group, known.share, known.std_error, known.weight, strict=True):
        prior = np.diag(variance[g] + 1e-3) + pooled.group_variance + pooled.cluster_variance.mean() + 0.1
        shift[g], covariance = condition_group(
            shift[g], prior, share, error, weight, by_rows(points, g, shift.shape[1])
        )
        variance[g] = np.minimum(variance[g], np.maximum(np.diag(covariance), 0))
        shared[g] = 0.0
    return replace(pooled, shift=shift, variance=variance, shared_deviation=shared)
