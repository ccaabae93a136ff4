"""Shifts that agree with the rates that a user knows, and what these rates leave open."""

from dataclasses import dataclass

import numpy as np

from groupshift._data.problem import Known, KnownRate
from groupshift._math.arrays import FloatArray, ValueArray
from groupshift._scores.contrasts import log_scores
from groupshift._shifts.common import UNIDENTIFIED
from groupshift._shifts.conditioning import CellShifts, condition_on_rates
from groupshift._shifts.known_classes import (
    ALL_GROUPS,
    agreed_shares,
    agreeing_move,
    check_agreement,
    inside,
    numbered_known,
)
from groupshift._shifts.known_shares import KnownShares, check_reached
from groupshift._shifts.sums import Sums


@dataclass(frozen=True)
class Agreed:
    """Shifts, as `Estimate` has them, that agree with known rates."""

    shift: FloatArray
    variance: FloatArray
    shared_deviation: FloatArray
    unseen_shift: FloatArray
    unseen_variance: FloatArray
    common_variance: float
    unidentified: float
    known_error: FloatArray | None = None  # largest errors of shares, (n_groups, n_clusters) *
    known_overall: FloatArray | None = None


def conditioned(
    shift: FloatArray,
    variance: FloatArray,
    shared: FloatArray,
    unseen: FloatArray,
    unseen_variance: FloatArray,
    *,
    sums: Sums,
    known: Known,
    groups: ValueArray,
    common: float,
    unidentified: float,
    is_pooled: bool,
) -> Agreed:
    """Of two classes: shifts given known rates, which speak of what all groups have in common too."""
    if not known.any:
        return Agreed(shift, variance, shared, unseen, unseen_variance, common, unidentified)
    K = shift.shape[1]
    row_weight = sums.weight_sum.reshape(-1, K)
    rates = _of_groups(known, groups, row_weight)
    if known.overall is not None:
        _check_agreement(known.overall, rates, row_weight)
    # Cells that are estimated each on its own have nothing in common, unless the rate of all is known: that moves all together.
    open_ = UNIDENTIFIED if known.overall is not None else unidentified if is_pooled else 0.0
    in_shifts = np.full(K, common)
    found = condition_on_rates(
        CellShifts(shift, variance, shared, unseen, in_shifts),
        sums.points(),
        common=in_shifts + open_,
        in_shifts=in_shifts,
        weight=row_weight / row_weight.sum(),
        groups=rates,
        overall=known.overall,
    )
    moved = found.shifts
    error = None
    if rates is not None:
        error = np.full(shift.shape, np.inf)
        error[rates.group] = rates.std_error[:, None]
    return Agreed(
        moved.shift,
        moved.variance,
        moved.shared_deviation,
        moved.cluster_shift,
        np.maximum(unseen_variance - common, 0) + found.common * common,
        found.common * common,
        found.common * unidentified,
        error,
        None if known.overall is None else np.array([known.overall.share, known.overall.std_error]),
    )


def _of_groups(known: Known, groups: ValueArray, row_weight: FloatArray) -> KnownShares | None:
    if not known.shares:
        return None
    numbers = {g: i for i, g in enumerate(groups.tolist())}
    at = np.array([numbers[g] for g in known.shares])
    share, error = np.array([(rate.share, rate.std_error) for rate in known.shares.values()]).T
    weight = row_weight[at]
    return KnownShares(at, share, error, weight / np.maximum(weight.sum(1, keepdims=True), 1e-300))


def _check_agreement(overall: KnownRate, known: KnownShares | None, row_weight: FloatArray) -> None:
    """Refuse an exact rate of the population that no shares of the other groups can make."""
    if known is None or overall.std_error > 0:
        return
    is_exact = known.std_error == 0
    part = row_weight.sum(1)[known.group[is_exact]] / row_weight.sum()
    check_reached(overall.share, part, known.share[is_exact], "known_overall", 1e-6)


def agreeing(
    shift: FloatArray,
    variance: FloatArray,
    shared: FloatArray,
    unseen: FloatArray,
    unseen_variance: FloatArray,
    *,
    sums: Sums,
    known: Known,
    groups: ValueArray,
    common: float,
    unidentified: float,
    is_pooled: bool,
) -> Agreed:
    """Of more classes: shifts moved to known shares, of groups first, then, by the other groups, of all."""
    named = None if known.classes is None else numbered_known(known, groups, known.classes)
    if named is None or known.classes is None:
        return Agreed(shift, variance, shared, unseen, unseen_variance, common, unidentified)
    n_groups, K, C = shift.shape
    weight = sums.weight_sum.reshape(n_groups, K)
    check_agreement(named, weight.sum(1), known.classes)
    flat, error = shift.reshape(-1, C).copy(), np.full(shift.shape, np.inf)
    log_p, cell = log_scores(sums.score), sums.cell
    first = np.searchsorted(cell, np.arange(0, n_groups * K + 1, K))
    part = weight / np.maximum(weight.sum(1, keepdims=True), 1e-300)
    of_groups, is_open = named.group != ALL_GROUPS, np.ones(n_groups, bool)

    def shares() -> tuple[FloatArray, FloatArray]:
        share, slope = sums.mean_shares(flat.reshape(shift.shape), np.full((K, C), 1 / C))
        return share, np.sqrt(slope**2 * (variance + unidentified))

    share, doubt = shares()
    for g, (given, known_error) in zip(named.group[of_groups], named.rows(of_groups), strict=True):
        wanted = agreed_shares(part[g] @ share[g], given, known_error, part[g] @ doubt[g])
        own = slice(first[g], first[g + 1])
        move = agreeing_move(log_p[own] + flat[cell[own]], sums.weight[own], wanted)
        flat[g * K : (g + 1) * K] += move
        is_known = ~np.isnan(given)
        error[g][:, is_known] = known_error[is_known]
        is_open[g] = False
    moved_all = np.zeros(C)
    for given, known_error in named.rows(~of_groups):
        share, doubt = shares()
        present, uncertain = (np.einsum("gk,gkc->c", weight, v) / weight.sum() for v in (share, doubt))
        wanted = weight.sum() * agreed_shares(present, given, known_error, uncertain)
        wanted -= np.einsum("gk,gkc->c", weight[~is_open], share[~is_open])
        moved = np.repeat(is_open, K)
        at = np.flatnonzero(moved[cell])
        wanted = inside(wanted / max(weight[is_open].sum(), 1e-300))
        moved_all = agreeing_move(log_p[at] + flat[cell[at]], sums.weight[at], wanted)
        flat[moved] += moved_all
    is_settled = known.overall is not None
    return Agreed(
        flat.reshape(shift.shape),
        variance,
        shared,
        unseen + moved_all,
        unseen_variance,
        0.0 if is_settled else common,
        0.0 if is_settled else unidentified,
        error,
        named.overall,
    )
