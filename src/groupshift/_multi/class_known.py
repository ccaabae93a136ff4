"""Shares of classes that users know of some groups, checked, and a group's shifts moved to agree with them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from groupshift._fit.problem import KnownRates
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.class_points import ClassPoints

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


def check_known_classes(
    known_shares: KnownRates | None, groups: ValueArray, classes: ValueArray
) -> KnownRates:
    """Known shares by group and class: each of a group of the population, and together not more than everything."""
    known = dict(known_shares or {})
    present, names = set(groups.tolist()), classes.tolist()
    for group, shares in known.items():
        if group not in present:
            raise ValueError(
                f"known_shares names group {group!r}, which has no unlabelled rows. Leave it out, or add rows of it."
            )
        if not isinstance(shares, Mapping):
            raise ValueError(
                f"known_shares of group {group!r} is {shares!r}. With {len(names)} classes, pass a mapping of class to share, or "
                "to (share, standard error)."
            )
        _check_group(group, shares, names)
    return known


def _check_group(group: object, shares: Mapping[object, object], names: list[object]) -> None:
    strange = [name for name in shares if name not in names]
    if strange:
        raise ValueError(
            f"known_shares of group {group!r} names class {strange[0]!r}, which no labelled row has. The classes are "
            f"{', '.join(map(repr, names[:8]))}{'…' if len(names) > 8 else ''}."
        )
    pairs = [_pair(value) for value in shares.values()]
    for name, (share, error) in zip(shares, pairs, strict=True):
        if not (0 <= share <= 1 and error >= 0):
            raise ValueError(
                f"known_shares of class {name!r} in group {group!r} is {shares[name]!r}. Pass a share between 0 and 1, or "
                "(share, standard error)."
            )
    total = sum(share for share, _ in pairs)
    is_complete = len(pairs) == len(names)
    if total > 1 + ROUNDED or (is_complete and total < 1 - ROUNDED):
        wanted = "to 1" if is_complete else "to 1 or less, with classes missing"
        raise ValueError(
            f"known_shares of group {group!r} add up to {total:.4g}. They must add up {wanted}: pass shares, not percentages or "
            "counts."
        )


def _pair(value: object) -> tuple[float, float]:
    share, error = value if isinstance(value, (tuple, list)) else (value, 0.0)
    return float(share), float(error)


def numbered_known(known_shares: KnownRates, groups: ValueArray, classes: ValueArray) -> KnownClasses | None:
    """Known shares as arrays."""
    if not known_shares:
        return None
    number = {g: i for i, g in enumerate(groups.tolist())}
    place = {c: i for i, c in enumerate(classes.tolist())}
    share = np.full((len(known_shares), len(classes)), np.nan)
    error = np.zeros_like(share)
    for i, shares in enumerate(known_shares.values()):
        assert isinstance(shares, Mapping)
        for name, value in shares.items():
            share[i, place[name]], error[i, place[name]] = _pair(value)
    return KnownClasses(np.array([number[g] for g in known_shares]), share, error)


def agreeing_shift(
    points: ClassPoints,
    group: int,
    shift: FloatArray,
    known: FloatArray,
    error: FloatArray,
    doubt: FloatArray,
) -> FloatArray:
    """A group's shifts (n_clusters, n_classes), all clusters moved alike until its rows' mean prediction agrees.

    `known`, `error`: known shares and their errors; `doubt`: errors of the shares as they are. All have shape (n_classes,).
    """
    n_clusters = len(shift)
    cells = np.arange(group * n_clusters, (group + 1) * n_clusters)
    start, stop = np.searchsorted(
        points.key, [cells[0] * len(points.prototypes), (cells[-1] + 1) * len(points.prototypes)]
    )
    posterior, weight = points.posterior[start:stop], points.weight[start:stop]
    if not weight.sum():
        return shift
    weight = weight / weight.sum()
    base = np.log(posterior) + shift[points.cell[start:stop] - cells[0]]
    present = _mean(base, weight)
    wanted = _wanted(present, known, error, doubt)
    move = np.zeros(len(known))
    # Each round multiplies odds by how far the mean is off: it never overshoots.
    for _ in range(MAX_ROUNDS):
        step = np.log(wanted / np.maximum(_mean(base + move, weight), 1e-15))
        move = move + step
        if np.abs(step).max() < 1e-8:
            break
    return shift + move


def _mean(log_p: FloatArray, weight: FloatArray) -> FloatArray:
    moved = np.exp(log_p - log_p.max(1, keepdims=True))
    moved /= moved.sum(1, keepdims=True)
    found: FloatArray = weight @ moved
    return found


def _wanted(present: FloatArray, known: FloatArray, error: FloatArray, doubt: FloatArray) -> FloatArray:
    """Shares to agree with: known ones as far as they are surer, the other classes in their present proportions."""
    is_known = ~np.isnan(known)
    belief = doubt**2 / np.maximum(doubt**2 + error**2, 1e-300)
    belief = np.where(error == 0, 1.0, belief)
    wanted = np.where(is_known, present + belief * (np.where(is_known, known, 0.0) - present), present)
    rest = max(1 - wanted[is_known].sum(), 0.0)
    others = present[~is_known].sum()
    if others > 0:
        wanted[~is_known] *= rest / others
    wanted = np.maximum(wanted, 1e-9)
    found: FloatArray = wanted / wanted.sum()
    return found
