"""Shares of classes that users know of some groups or of all, checked, and what rows are moved by to agree with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from groupshift._data.problem import Known, KnownRates, KnownShare, Rate, of_present_groups, share_and_error
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._shifts.known_shares import check_reached

if TYPE_CHECKING:
    from groupshift._data.problem import KnownRate

# Number of all groups together.
ALL_GROUPS = -1
# Shares that the user rounded to three digits still add up.
ROUNDED = 2e-3
MAX_ROUNDS = 500


@dataclass(frozen=True)
class KnownClasses:
    """Known shares of some groups: numbers of the groups (n_known,), shares and standard errors (n_known, n_classes).

    A class that is not named has a share of NaN.
    """

    group: IntArray
    share: FloatArray
    std_error: FloatArray

    def rows(self, chosen: BoolArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Shares and standard errors of the chosen lines."""
        return zip(self.share[chosen], self.std_error[chosen], strict=True)

    @property
    def overall(self) -> FloatArray | None:
        """What is known of the whole population: (n_named, 3), number of a class, its share, the standard error."""
        for share, error in self.rows(self.group == ALL_GROUPS):
            named = np.flatnonzero(~np.isnan(share))
            return np.column_stack([named, share[named], error[named]])
        return None


def check_known_classes(
    known_shares: KnownRates | None, overall: object, groups: ValueArray, classes: ValueArray
) -> Known:
    """Known shares by class, of groups of the population and of all of them, together not more than everything."""
    given = of_present_groups(known_shares, groups)
    known = {group: _named(shares, classes) for group, shares in given.items()}
    overall, names = _named(overall, classes), classes.tolist()
    for group, shares in known.items():
        _check_shares(shares, f"known_shares of group {group!r}", names)
    if overall is not None:
        _check_shares(overall, "known_overall", names)
    # Mappings by class stand where two classes have a rate.
    return Known(cast("Mapping[object, KnownRate]", known), cast("KnownRate | None", overall), classes)


def _named(shares: object, classes: ValueArray) -> object:
    """Shares by class; files and commands name classes in text."""
    if not isinstance(shares, Mapping):
        return shares
    by_text = {str(name): name for name in classes.tolist()}
    return {
        by_text.get(name, name) if isinstance(name, str) else name: value for name, value in shares.items()
    }


def _check_shares(shares: object, what: str, names: list[object]) -> None:
    if not isinstance(shares, Mapping):
        raise ValueError(
            f"{what} is {shares!r}. With {len(names)} classes, pass a mapping of class to share, or to (share, standard error)."
        )
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


def rate_of_positives(value: object, what: str, classes: ValueArray) -> object:
    """What is known of two classes as the rate of the positive one: code that names classes need not ask for their number.

    >>> rate_of_positives({"no": 0.75}, "known_overall", np.array(["no", "yes"]))
    (0.25, 0.0)
    """
    shares = _named(value, classes)
    if not isinstance(shares, Mapping):
        return value
    negative, positive = classes.tolist()
    _check_shares(shares, what, [negative, positive])
    if positive in shares:
        return share_and_error(shares[positive])
    share, error = share_and_error(shares[negative])
    return 1 - share, error


def numbered_known(known: Known, groups: ValueArray, classes: ValueArray) -> KnownClasses | None:
    """Known shares as arrays; those of the whole population have the number -1."""
    if not known.any:
        return None
    number = {g: i for i, g in enumerate(groups.tolist())}
    place = {c: i for i, c in enumerate(classes.tolist())}
    given: list[tuple[int, object]] = [] if known.overall is None else [(ALL_GROUPS, known.overall)]
    given += [(number[g], shares) for g, shares in known.shares.items()]
    share = np.full((len(given), len(classes)), np.nan)
    error = np.zeros_like(share)
    for i, (_, shares) in enumerate(given):
        assert isinstance(shares, Mapping)
        for name, value in shares.items():
            share[i, place[name]], error[i, place[name]] = share_and_error(value)
    return KnownClasses(np.array([g for g, _ in given]), share, error)


def check_agreement(known: KnownClasses, row_weight: FloatArray, classes: ValueArray) -> None:
    """Refuse an exact share of the population that no shares of the other groups can make; `row_weight`: (n_groups,)."""
    for overall, overall_error in known.rows(known.group == ALL_GROUPS):
        for c in np.flatnonzero((overall_error == 0) & ~np.isnan(overall)):
            of_groups = (
                (known.group != ALL_GROUPS) & (known.std_error[:, c] == 0) & ~np.isnan(known.share[:, c])
            )
            part = row_weight[known.group[of_groups]] / row_weight.sum()
            name = f"known_overall for class {classes.tolist()[c]!r}"
            check_reached(overall[c], part, known.share[of_groups, c], name, ROUNDED)


def agreeing_move(log_p: FloatArray, weight: FloatArray, wanted: FloatArray) -> FloatArray:
    """What to add to the log-probabilities of all rows alike, (n_classes,), so that their mean is the wanted one."""
    move = np.zeros(len(wanted))
    if not weight.sum():
        return move
    weight = weight / weight.sum()
    # Each round multiplies odds by how far the mean is off: it never overshoots.
    for _ in range(MAX_ROUNDS):
        step = np.log(wanted / np.maximum(_mean(log_p + move, weight), 1e-15))
        move = move + step
        if np.abs(step).max() < 1e-10:
            break
    return move


def _mean(log_p: FloatArray, weight: FloatArray) -> FloatArray:
    moved = np.exp(log_p - log_p.max(1, keepdims=True))
    moved /= moved.sum(1, keepdims=True)
    found: FloatArray = weight @ moved
    return found


def agreed_shares(present: FloatArray, known: FloatArray, error: FloatArray, doubt: FloatArray) -> FloatArray:
    """Shares to agree with: known ones as far as they are surer, the other classes in their present proportions.

    `known`, `error`: known shares, NaN where none is, and their errors; `present`, `doubt`: shares as they are, and their errors.

    >>> agreed_shares(np.array([0.5, 0.3, 0.2]), np.array([0.2, np.nan, np.nan]), np.zeros(3), np.ones(3)).round(2).tolist()
    [0.2, 0.48, 0.32]
    """
    is_known = ~np.isnan(known)
    belief = doubt**2 / np.maximum(doubt**2 + error**2, 1e-300)
    belief = np.where(error == 0, 1.0, belief)
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


def known_of(
    shares: KnownRates | None, overall: KnownShare | None, groups: ValueArray, classes: ValueArray
) -> Known:
    """Rates of positives by group and of all rows; with more than two classes, shares by class of the same."""
    if shares is not None and not hasattr(shares, "items"):
        raise TypeError(
            f"known_shares is a {type(shares).__name__}, which names no groups. Pass a dict of shares by group: {{group: 0.2}}."
        )
    # A pandas Series by group is as good as a dict.
    shares = {} if shares is None else dict(shares)
    if len(classes) == 2:
        of_positives = {
            group: rate_of_positives(value, f"known_shares of group {group!r}", classes)
            for group, value in shares.items()
        }
        rate = rate_of_positives(overall, "known_overall", classes)
        return Known.of(cast("KnownRates", of_positives), cast("Rate | None", rate), groups)
    return check_known_classes(shares, overall, groups, classes)
