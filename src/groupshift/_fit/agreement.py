"""Shifts that agree with the rates that the user knows, and what these rates leave open."""

from dataclasses import dataclass

import numpy as np

from groupshift._fit.learned import Learned
from groupshift._fit.problem import Known
from groupshift._fit.view_shifts import UNIDENTIFIED
from groupshift._math.arrays import FloatArray, ValueArray
from groupshift._math.conditioning import KnownRate, condition_on_rates
from groupshift._math.known_shares import KnownShares
from groupshift._math.points import Points
from groupshift._math.shrinkage import PooledShifts


@dataclass(frozen=True)
class Agreed:
    """Shifts that agree with known rates, and what is left open of what all groups have in common."""

    shifts: PooledShifts
    common_variance: FloatArray  # (n_clusters,): in the variances of the shifts
    unidentified: float  # beside them
    known: KnownShares | None = None  # rates of groups
    any_known: bool = False


def agree(
    learned: Learned,
    shifts: PooledShifts,
    known: Known,
    groups: ValueArray,
    points: Points,
    row_weight: FloatArray,
) -> Agreed:
    """Trusted shifts moved to agree with known rates, which need no trust."""
    is_viewed, is_random = learned.own is not None, learned.selection == "random"
    in_shifts = shifts.cluster_variance if is_viewed else np.zeros(learned.n_clusters)
    # A trust that the user gave says that shifts are believed as they are.
    is_learned = is_viewed or learned.trust_variance > 0
    # Views count it in the variances of shifts as far as it is likely; of all groups together it is known no better than this.
    unidentified = max(UNIDENTIFIED - float(in_shifts.min()), 0.0) if is_learned and not is_random else 0.0
    if not known.any:
        return Agreed(shifts, in_shifts, unidentified)
    rates = _of_groups(known, groups, row_weight)
    if known.overall is not None:
        _check_agreement(known.overall, rates, row_weight)
    # Cells that are estimated each on its own have nothing in common, unless the rate of all is known.
    has_common = known.overall is not None or (learned.shrinkage == "hierarchical" and not is_random)
    found = condition_on_rates(
        shifts,
        points,
        common=np.maximum(in_shifts, UNIDENTIFIED) if has_common else in_shifts,
        in_shifts=in_shifts,
        weight=row_weight / row_weight.sum(),
        groups=rates,
        overall=known.overall,
    )
    return Agreed(found.shifts, found.common * in_shifts, found.common * unidentified, rates, True)


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


def check_reached(overall: float, part: FloatArray, share: FloatArray, name: str, rounding: float) -> None:
    """Refuse an overall share beyond what groups of known shares leave to the others; `part`: theirs of the population."""
    least = float(part @ share)
    most = least + max(1 - float(part.sum()), 0.0)
    # Shares are written with a few digits: what differs by less is the same number, rounded.
    if not least - rounding <= overall <= most + rounding:
        raise ValueError(
            f"{name} is {overall:g}, but the groups with known shares ({part.sum():.1%} of the population) leave "
            f"it between {least:.4g} and {most:.4g}. Correct one of them, or give standard errors: (share, standard error)."
        )
