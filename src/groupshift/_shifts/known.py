r"""Rates that a user knows, of some groups and of the whole population: read, checked, and what shifts agree with them.

Of two classes the shift of cell (g, k) is its estimate plus ``a_k z + e_gk``: z is what all groups have in common and no
unlabelled row can tell, e what is not known of the group itself. A known rate of a group speaks of both, so that it moves the
other groups through z; a known rate of the population speaks of z and, a little, of every group. Of more classes, shifts of the
groups that rates are about move alike in all clusters until predictions average to the rates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, softmax

from groupshift._data.problem import Known, KnownRate, KnownRates, KnownShare
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.points import Points
from groupshift._math.sums import sum_by
from groupshift._scores.contrasts import log_scores
from groupshift._shifts.common import UNIDENTIFIED
from groupshift._shifts.sums import Sums

# Shifts are differences of two logits of shares; shares of 1 in 10,000 on both ends are 18 apart.
MAX_SHIFT = 18.0
# Error of a rate that the search for shifts begins with.
LOOSE = 0.3
# No group's shift is known better than to a tenth of its odds, no cell's beside its group better than to a thirtieth: a rate
# can move groups whose rows showed no difference.
GROUP_FLOOR, CELL_FLOOR = 0.1**2, 0.03**2
# A known group far from what the others say tells of itself alone: its distance has Student's distribution, with the degrees
# of freedom that the spread of groups has elsewhere.
FREEDOM = 4.0
# Shares of classes that the user rounded to three digits still add up.
ROUNDED = 2e-3
MAX_ROUNDS = 500


def known_of(
    shares: KnownRates | None, overall: KnownShare | None, groups: ValueArray, classes: ValueArray
) -> Known:
    """Rates of positives by group and of all rows; with more than two classes, shares by class of the same."""
    if shares is not None and not hasattr(shares, "items"):
        raise TypeError(
            f"known_shares is a {type(shares).__name__}, which names no groups. Pass a dict of shares by group: {{group: 0.2}}."
        )
    # A pandas Series by group is as good as a dict.
    shares, present = {} if shares is None else dict(shares), set(groups.tolist())
    for group in shares:
        if group not in present:
            raise ValueError(
                f"known_shares names group {group!r}, which has no unlabelled rows. Leave it out, or add rows of it."
            )
    of_groups = {g: _read(value, f"known_shares of group {g!r}", classes) for g, value in shares.items()}
    known = None if overall is None else _read(overall, "known_overall", classes)
    if isinstance(known, KnownRate) and known.share in (0, 1) and not known.std_error:
        raise ValueError(
            f"known_overall is exactly {known.share:g}: every row would be certain, and there is nothing to predict. Pass "
            f"the rate with its standard error, such as ({known.share:g}, 0.01)."
        )
    return Known(of_groups, known, classes)


def _read(value: Any, what: str, classes: ValueArray) -> Any:
    """The rate of the positive class of two, which may come as shares by class; of more classes, these shares.

    >>> _read({"no": 0.75}, "known_overall", np.array(["no", "yes"]))
    KnownRate(share=0.25, std_error=0.0)
    """
    names = classes.tolist()
    if isinstance(value, Mapping):
        # Files and commands name classes in text.
        by_text = {str(name): name for name in names}
        value = {by_text.get(n, n) if isinstance(n, str) else n: share for n, share in value.items()}
        _check_shares(value, what, names)
        if len(names) > 2:
            return value
        negative, positive = names
        share, error = share_and_error(value.get(positive, value.get(negative)))
        return KnownRate(share if positive in value else 1 - share, error)
    if len(names) > 2:
        raise ValueError(
            f"{what} is {value!r}. With {len(names)} classes, pass a mapping of class to share, or to (share, standard error)."
        )
    try:
        rate = KnownRate(*share_and_error(value))
    except (TypeError, ValueError):
        rate = KnownRate(np.nan)
    if not (0 <= rate.share <= 1 and 0 <= rate.std_error < 1):
        raise ValueError(
            f"{what} is {value!r}. Pass a share between 0 and 1, or (share, standard error), the error below 1 too."
        )
    return rate


def share_and_error(value: Any) -> tuple[float, float]:
    """A share as users give it, alone or with its standard error."""
    share, error = value if isinstance(value, (tuple, list)) else (value, 0.0)
    return float(share), float(error)


def _check_shares(shares: Mapping[object, object], what: str, names: list[object]) -> None:
    strange = [name for name in shares if name not in names]
    if strange:
        raise ValueError(
            f"{what} names class {strange[0]!r}, which no labelled row has. The classes are "
            f"{', '.join(map(repr, names[:8]))}{'…' if len(names) > 8 else ''}."
        )
    pairs = [share_and_error(value) for value in shares.values()]
    for name, (share, error) in zip(shares, pairs, strict=True):
        if not (0 <= share <= 1 and 0 <= error < 1):
            raise ValueError(
                f"{what} for class {name!r} is {shares[name]!r}. Pass a share between 0 and 1, or "
                "(share, standard error)."
            )
    total = sum(share for share, _ in pairs)
    is_complete = len(pairs) == len(names)
    if total > 1 + ROUNDED or (is_complete and total < 1 - ROUNDED):
        wanted = "to 1" if is_complete else "to 1 or less, with classes missing"
        raise ValueError(
            f"{what} add up to {total:.4g}. They must add up {wanted}: pass shares, not percentages or "
            "counts."
        )


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


@dataclass(frozen=True)
class CellShifts:
    """Shifts of all cells and what is not known of them, as `Estimate` has them."""

    shift: FloatArray  # (n_groups, n_clusters) *
    variance: FloatArray
    shared_deviation: FloatArray
    unseen_shift: FloatArray  # (n_clusters,) *: of a group without rows
    unseen_variance: FloatArray
    common_variance: float  # what all groups have in common, and the variances hold
    unidentified: float  # what they have in common beside it
    known_error: FloatArray | None = None  # largest errors of shares, (n_groups, n_clusters) *
    known_overall: FloatArray | None = None


# Takes the shifts of a group's clusters; gives the shares of positives in them, and their derivatives. Shapes (n_clusters,).
CellShares = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class KnownShares:
    """Rates of positives that the user knows for some groups.

    Attributes
    ----------
    group, share, std_error : arrays of shape (n_known,)
        Number of each group, its rate, and the standard error of that.
    weight : array of shape (n_known, n_clusters)
        Each cluster's share of the group's rows: the rate is the sum of the clusters' shares times this.
    """

    group: IntArray
    share: FloatArray
    std_error: FloatArray
    weight: FloatArray


def agreeing(
    before: CellShifts, sums: Sums, known: Known, groups: ValueArray, *, is_pooled: bool
) -> CellShifts:
    """Shifts that agree with known rates, which speak of what all groups have in common too."""
    if not known.any:
        return before
    if sums.n_contrasts > 1:
        return _agreeing_classes(before, sums, known, groups)
    n_groups, K = before.shift.shape
    weight, overall = sums.weight_sum.reshape(n_groups, K), known.overall
    rates = None
    if known.shares:
        number = {g: i for i, g in enumerate(groups.tolist())}
        at = np.array([number[g] for g in known.shares])
        share, error = np.array([(rate.share, rate.std_error) for rate in known.shares.values()]).T
        rates = KnownShares(
            at, share, error, weight[at] / np.maximum(weight[at].sum(1, keepdims=True), 1e-300)
        )
        if overall is not None and not overall.std_error:
            part, exact = weight.sum(1)[at] / weight.sum(), error == 0
            check_reached(overall.share, part[exact], share[exact], "known_overall", 1e-6)
    # Cells that are estimated each on its own have nothing in common, unless the rate of all is known: that moves all together.
    open_ = UNIDENTIFIED if overall is not None else before.unidentified if is_pooled else 0.0
    found = condition_on_rates(
        before,
        sums.points(),
        common=before.common_variance + open_,
        weight=weight / weight.sum(),
        groups=rates,
        overall=overall,
    )
    error = None
    if rates is not None:
        error = np.full(before.shift.shape, np.inf)
        error[rates.group] = rates.std_error[:, None]
    settled = None if overall is None else np.array([overall.share, overall.std_error])
    return replace(found, known_error=error, known_overall=settled)


@dataclass(frozen=True)
class _Belief:
    """What is thought of the shifts; arrays of shape (n_groups, n_clusters) unless another is given."""

    shift: FloatArray
    own: FloatArray  # variance of each cell alone
    group: FloatArray  # standard deviations of what cells of a group have in common
    load: FloatArray  # how far a cell follows z
    spread: float  # variance of z
    known: IntArray  # (n_known,): groups with a covariance of their own
    covariance: FloatArray  # (n_known, n_clusters, n_clusters)
    center: float = 0.0  # mean of z

    def toward(self, slope: FloatArray) -> FloatArray:
        """Covariance of every shift with a sum of all shifts that has these slopes."""
        own = self.own * slope + self.group * (self.group * slope).sum(1, keepdims=True)
        own[self.known] = np.einsum("gkl,gl->gk", self.covariance, slope[self.known])
        found: FloatArray = own + self.load * self.spread * (self.load * slope).sum()
        return found

    @property
    def variance(self) -> FloatArray:
        own = self.own + self.group**2
        own[self.known] = np.maximum(np.einsum("gkk->gk", self.covariance), 0)
        return own + self.spread * self.load**2


def condition_on_rates(
    shifts: CellShifts,
    points: Points,
    *,
    common: float,
    weight: FloatArray,
    groups: KnownShares | None = None,
    overall: KnownRate | None = None,
) -> CellShifts:
    """Shifts given known rates: a rate is met by the mean prediction of the rows that it is about.

    Parameters
    ----------
    shifts : CellShifts
    points : Points
        Scores of the population's rows; cell number ``group * n_clusters + cluster``.
    common : float
        Variance of what all groups have in common and rates decide, that in `shifts` and beside it.
    weight : array of shape (n_groups, n_clusters)
        Each cell's part of all rows.
    groups, overall : known rates, optional
    """
    in_shifts, (n_groups, K) = shifts.common_variance, shifts.shift.shape
    belief = _Belief(
        shift=shifts.shift,
        own=np.maximum(shifts.variance - shifts.shared_deviation**2, CELL_FLOOR),
        group=np.sqrt(np.maximum(shifts.shared_deviation**2 - in_shifts, GROUP_FLOOR)),
        load=np.full((n_groups, K), np.sqrt(common)),
        spread=1.0,
        known=np.zeros(0, np.int64),
        covariance=np.zeros((0, K, K)),
    )
    if groups is not None:
        belief = _with_groups(belief, groups, points)
    variance, left = belief.variance, belief.spread
    if overall is not None:
        belief, variance, left = _with_overall(belief, overall, points, weight)
    variance = np.minimum(shifts.variance, variance)
    shared = np.minimum(
        shifts.shared_deviation, np.sqrt(belief.group**2 + left * np.minimum(belief.load**2, in_shifts))
    )
    if groups is not None:
        # The error of a known rate is one of all cells of its group together.
        shared[groups.group] = np.inf
    return replace(
        shifts,
        shift=belief.shift,
        variance=variance,
        shared_deviation=np.minimum(shared, np.sqrt(variance)),
        unseen_shift=shifts.unseen_shift + np.sqrt(common) * belief.center,
        unseen_variance=np.maximum(shifts.unseen_variance - in_shifts, 0) + left * in_shifts,
        common_variance=left * in_shifts,
        unidentified=left * shifts.unidentified,
    )


def _with_groups(belief: _Belief, known: KnownShares, points: Points) -> _Belief:
    """Known rates of groups: first what they say of all, then each group by its own rate."""
    # Of the cells of each known group, given z.
    deviation = belief.group[known.group]
    covariance = belief.own[known.group][:, :, None] * np.eye(belief.own.shape[1])
    covariance = covariance + deviation[:, :, None] * deviation[:, None, :]
    center, spread = _in_common(belief, known, points, covariance)
    shift, follow = belief.shift + belief.load * center, belief.load.copy()
    left = np.zeros_like(covariance)
    for i, g in enumerate(known.group):
        rate, error = by_rows(points, int(g), shift.shape[1]), known.std_error[i]
        shift[g], left[i] = condition_group(
            shift[g], covariance[i], known.share[i], error, known.weight[i], rate
        )
        if error == 0:
            follow[g], left[i] = 0.0, 0.0
            continue
        # Where z moves, a group of known rate stays near where its rate holds it.
        jacobian = known.weight[i] * rate(shift[g])[1]
        through = covariance[i] @ jacobian
        follow[g] = follow[g] - through / (jacobian @ through + error**2) * (jacobian @ follow[g])
    return replace(
        belief, shift=shift, load=follow, spread=spread, center=center, known=known.group, covariance=left
    )


def _in_common(
    belief: _Belief, known: KnownShares, points: Points, covariance: FloatArray
) -> tuple[float, float]:
    """Mean and variance of z, standard normal before, given how far known rates lie from those of a z.

    A rate lies off by its own error, by what is not known of its group, and by the chance of its rows: among ten rows
    it is 0 or 1/10, whatever their probabilities.
    """
    n_groups, n_clusters = belief.shift.shape
    is_known = np.zeros(n_groups, bool)
    is_known[known.group] = True
    own = points.only(np.repeat(is_known, n_clusters))
    rows = np.maximum(own.effective_rows.reshape(-1, n_clusters)[known.group].sum(1), 1)
    load = belief.load[known.group]
    center, spread = 0.0, 1.0
    for i in range(100):
        mean, doubt = mean_posterior(own, belief.shift + belief.load * center)
        rate = (known.weight * np.nan_to_num(mean[known.group])).sum(1)
        slope = known.weight * np.nan_to_num(doubt[known.group])
        variance = np.einsum("gk,gkl,gl->g", slope, covariance, slope) + known.std_error**2
        variance = np.maximum(variance + slope.sum(1) / rows, 1e-12)
        off = known.share - rate
        # All count alike at first: groups that agree are no outliers, however far they lie from where z was.
        trusted = (FREEDOM + 1) / (FREEDOM + off**2 / variance) if i >= 10 else np.ones_like(off)
        pull = (slope * load).sum(1) * trusted / variance
        spread = float(1 / (1 + (pull * (slope * load).sum(1)).sum()))
        step = float(np.clip(spread * ((pull * off).sum() - center), -1, 1))
        center += step
        if i > 10 and abs(step) < 1e-12:
            break
    return center, spread


def _with_overall(
    belief: _Belief, known: KnownRate, points: Points, weight: FloatArray
) -> tuple[_Belief, FloatArray, float]:
    """A known rate of the population: the belief moved to it, variances, and what is left of that of z."""
    shift, moved = belief.shift, 0.0
    # Where nothing can move the rate, as where all groups are known, there is nothing to do.
    toward, slope = np.zeros_like(shift), np.zeros_like(shift)
    noise = 0.0
    # Each pass meets the rate; the next ones only settle how much of the move is whose.
    for number in range(20):
        slope = weight * np.nan_to_num(mean_posterior(points, shift)[1])
        toward = belief.toward(slope)
        noise = float((slope * toward).sum())
        if noise <= 1e-14 and number == 0:
            return belief, belief.variance, belief.spread
        if noise <= 1e-14:
            break
        unit = toward * (slope.sum() / noise)
        length, is_met = _length(belief.shift, unit, known, points, weight, slope.sum() / noise)
        # Slopes of cells that lie at their limits lead nowhere: the pass before has met the rate.
        if number > 0 and not is_met:
            break
        new = np.clip(belief.shift + length * unit, -MAX_SHIFT, MAX_SHIFT)
        moved = length * slope.sum() / noise * belief.spread * float((belief.load * slope).sum())
        change = np.abs(new - shift).max()
        shift = new
        if change < 1e-6:
            break
    # A rate of rows differs from that of their probabilities by the chance of each row.
    noise += known.std_error**2 + slope.sum() / points.effective_rows.sum()
    followed = belief.spread * float((belief.load * slope).sum())
    left = max(belief.spread - followed**2 / noise, 0.0)
    variance = np.maximum(belief.variance - toward**2 / noise, 0)
    return replace(belief, shift=shift, center=belief.center + moved), variance, left


def _length(
    shift: FloatArray,
    unit: FloatArray,
    known: KnownRate,
    points: Points,
    weight: FloatArray,
    scale: float,
) -> tuple[float, bool]:
    """How far along `unit` the shifts go: to where the rate is met, or as far as its standard error asks; and whether it is."""

    def gap(length: float) -> float:
        moved = np.clip(shift + length * unit, -MAX_SHIFT, MAX_SHIFT)
        rate = float((weight * np.nan_to_num(mean_posterior(points, moved)[0])).sum())
        return length * scale * known.std_error**2 + rate - known.share

    # Cells follow at very different paces: some lie at their limit long before the last one has moved.
    for reach in (MAX_SHIFT, 1e2 * MAX_SHIFT, 1e4 * MAX_SHIFT):
        if gap(-reach) < 0 < gap(reach):
            return float(brentq(gap, -reach, reach, xtol=1e-13, rtol=1e-14)), True
    return (reach if gap(reach) <= 0 else -reach), False


def by_rows(points: Points, group: int, n_clusters: int) -> CellShares:
    """Shares as the mean corrected posterior of the group's own rows: what their predictions add up to."""
    start, stop = np.searchsorted(points.cell, [group * n_clusters, (group + 1) * n_clusters])
    cell = points.cell[start:stop] - group * n_clusters
    score = points.score[start:stop]
    total = points.weight_sum[group * n_clusters : (group + 1) * n_clusters]
    weight = points.weight[start:stop] / np.maximum(total, 1e-300)[cell]

    def mean(values: FloatArray) -> FloatArray:
        return sum_by(cell, weight * values, n_clusters)

    def shares(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = expit(score + shift[cell])
        return mean(q), mean(q * (1 - q))

    return shares


def mean_posterior(points: Points, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean of the corrected posterior q of each cell, and of q(1 − q); NaN in cells without rows."""
    q = expit(points.score + shift.ravel()[points.cell])
    total = np.where(points.weight_sum > 0, points.weight_sum, np.nan)
    mean = sum_by(points.cell, points.weight * q, points.n_cells) / total
    doubt = sum_by(points.cell, points.weight * q * (1 - q), points.n_cells) / total
    return mean.reshape(shift.shape), doubt.reshape(shift.shape)


def condition_group(
    shift: FloatArray,
    covariance: FloatArray,
    share: float,
    std_error: float,
    weight: FloatArray,
    cell_shares: CellShares,
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and covariance of one group's shifts given that its rate of positives is `share` ± `std_error`.

    Examples
    --------
    A rate of 3 in 4 that is known for sure triples the odds of a group that was thought to have 1 in 2.

    >>> from groupshift.theory import collect_points
    >>> rows = by_rows(collect_points([0.0], [0], n_cells=1), group=0, n_clusters=1)
    >>> shift, _ = condition_group(np.zeros(1), np.eye(1), 0.75, 0.0, np.ones(1), rows)
    >>> np.exp(shift).round(3).tolist()
    [3.0]
    """
    error = max(std_error, 1e-6)
    precision = np.linalg.inv(covariance)
    # A cell that was thought to be certain lies beyond the limit: held only in the end, it would move the rate again.
    shift = np.clip(shift, -MAX_SHIFT, MAX_SHIFT)

    def rate(candidate: FloatArray) -> float:
        return float(weight @ cell_shares(candidate)[0])

    def cost(candidate: FloatArray, error: float = error) -> float:
        move = candidate - shift
        return float(move @ precision @ move + ((share - rate(candidate)) / error) ** 2)

    def found(current: FloatArray) -> FloatArray:
        for i in range(60):
            # Shifts that meet an exact rate lie on a curve, along which steps are short: at first they need only be near it.
            loose = max(error, LOOSE * 0.5**i)
            alpha, slope = cell_shares(current)
            jacobian = weight * slope
            gain = covariance @ jacobian / (jacobian @ covariance @ jacobian + loose**2)
            wanted = shift + gain * (share - weight @ alpha - jacobian @ (shift - current))
            step = np.clip(wanted - current, -1.0, 1.0)
            # The rate is flat near 0 and 1, where a full step may overshoot: a shorter one then does better. Of a tiny step
            # rounding would say so as well.
            before = cost(current, loose)
            while np.abs(step).max() > 1e-6 and cost(current + step, loose) > before:
                step = step / 2
            current = current + step
            if loose == error and np.abs(step).max() <= 1e-12:
                break
        return current

    starts = [shift]
    if rate(shift - MAX_SHIFT) < share < rate(shift + MAX_SHIFT):
        # From a cell that seems certain no way leads back: another start meets the rate by moving all cells alike.
        starts.append(shift + brentq(lambda move: rate(shift + move) - share, -MAX_SHIFT, MAX_SHIFT))
    current = min(map(found, starts), key=cost)
    jacobian = weight * cell_shares(current)[1]
    gain = covariance @ jacobian / (jacobian @ covariance @ jacobian + error**2)
    return np.clip(current, -MAX_SHIFT, MAX_SHIFT), covariance - np.outer(gain, jacobian @ covariance)


def _agreeing_classes(before: CellShifts, sums: Sums, known: Known, groups: ValueArray) -> CellShifts:
    """Of more classes: shifts moved to known shares, of groups first, then, by the other groups, of all."""
    assert known.classes is not None
    n_groups, K, C = before.shift.shape
    weight = sums.weight_sum.reshape(n_groups, K)
    number = {g: i for i, g in enumerate(groups.tolist())}
    given = {number[g]: _of_classes(shares, known.classes) for g, shares in known.shares.items()}
    overall = None if known.overall is None else _of_classes(known.overall, known.classes)
    if overall is not None:
        for c in np.flatnonzero(overall[1] == 0):
            exact = [g for g, (_, known_error) in given.items() if known_error[c] == 0]
            part, share_of = weight.sum(1)[exact] / weight.sum(), np.array([given[g][0][c] for g in exact])
            name = f"known_overall for class {known.classes.tolist()[c]!r}"
            check_reached(overall[0][c], part, share_of, name, ROUNDED)
    flat, error = before.shift.reshape(-1, C).copy(), np.full(before.shift.shape, np.inf)
    log_p, cell = log_scores(sums.score), sums.cell
    first = np.searchsorted(cell, np.arange(0, n_groups * K + 1, K))
    part = weight / np.maximum(weight.sum(1, keepdims=True), 1e-300)
    is_open = np.ones(n_groups, bool)

    def shares() -> tuple[FloatArray, FloatArray]:
        share, slope = sums.mean_shares(flat.reshape(before.shift.shape), np.full((K, C), 1 / C))
        return share, np.sqrt(slope**2 * (before.variance + before.unidentified))

    share, doubt = shares()
    for g, (wanted, known_error) in given.items():
        wanted = agreed_shares(part[g] @ share[g], wanted, known_error, part[g] @ doubt[g])
        own = slice(first[g], first[g + 1])
        move = agreeing_move(log_p[own] + flat[cell[own]], sums.weight[own], wanted)
        flat[g * K : (g + 1) * K] += move
        error[g] = np.where(np.isnan(known_error), np.inf, known_error)
        is_open[g] = False
    found = replace(before, shift=flat.reshape(before.shift.shape), known_error=error)
    if overall is None:
        return found
    share, doubt = shares()
    present, uncertain = (np.einsum("gk,gkc->c", weight, v) / weight.sum() for v in (share, doubt))
    wanted = weight.sum() * agreed_shares(present, *overall, uncertain)
    wanted -= np.einsum("gk,gkc->c", weight[~is_open], share[~is_open])
    moved = np.repeat(is_open, K)
    at = np.flatnonzero(moved[cell])
    wanted = inside(wanted / max(weight[is_open].sum(), 1e-300))
    move = agreeing_move(log_p[at] + flat[cell[at]], sums.weight[at], wanted)
    flat[moved] += move
    named = np.flatnonzero(~np.isnan(overall[0]))
    return replace(
        found,
        shift=flat.reshape(before.shift.shape),
        unseen_shift=before.unseen_shift + move,
        common_variance=0.0,
        unidentified=0.0,
        known_overall=np.column_stack([named, *(v[named] for v in overall)]),
    )


def _of_classes(shares: Any, classes: ValueArray) -> tuple[FloatArray, FloatArray]:
    """Shares and standard errors, (n_classes,); NaN for a class that is not named."""
    pairs = [share_and_error(shares.get(name, (np.nan, np.nan))) for name in classes.tolist()]
    share, error = np.array(pairs).T
    return share, error


def agreeing_move(log_p: FloatArray, weight: FloatArray, wanted: FloatArray) -> FloatArray:
    """What to add to the log-probabilities of all rows alike, (n_classes,), so that their mean is the wanted one."""
    move = np.zeros(len(wanted))
    if not weight.sum():
        return move
    weight = weight / weight.sum()
    # Each round multiplies odds by how far the mean is off: it never overshoots.
    for _ in range(MAX_ROUNDS):
        step = np.log(wanted / np.maximum(weight @ softmax(log_p + move, axis=1), 1e-15))
        move = move + step
        if np.abs(step).max() < 1e-10:
            break
    return move


def agreed_shares(present: FloatArray, known: FloatArray, error: FloatArray, doubt: FloatArray) -> FloatArray:
    """Shares to agree with: known ones as far as they are surer, the other classes in their present proportions.

    `known`, `error`: known shares, NaN where none is, and their errors; `present`, `doubt`: shares as they are, and their errors.

    >>> agreed_shares(np.array([0.5, 0.3, 0.2]), np.array([0.2, np.nan, np.nan]), np.zeros(3), np.ones(3)).round(2).tolist()
    [0.2, 0.48, 0.32]
    """
    is_known = ~np.isnan(known)
    belief = np.where(error == 0, 1.0, doubt**2 / np.maximum(doubt**2 + error**2, 1e-300))
    wanted = np.where(is_known, present + belief * (np.where(is_known, known, 0.0) - present), present)
    rest = max(1 - wanted[is_known].sum(), 0.0)
    others = present[~is_known].sum()
    if others > 0:
        wanted[~is_known] *= rest / others
    return inside(wanted)


def inside(share: FloatArray) -> FloatArray:
    """Shares of which none is 0 and that add up to 1."""
    held = np.maximum(share, 1e-9)
    found: FloatArray = held / held.sum()
    return found
