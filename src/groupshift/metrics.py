"""How good are probabilities, overall and by group: AUC, log loss, Brier score, calibration error.

All four depend on rows only through (group, probability, weight of positives, weight of negatives), so rows
are counted once, by one sort, and every metric is computed for all groups together: 100,000 groups cost what
one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from groupshift._data.checks import check_weights
from groupshift._data.codes import Codes
from groupshift._data.frames import as_column, is_missing
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.sums import ratio, sum_by

# Ten bins are the custom; a bin of fewer rows than this shows noise, not calibration.
_BINS, _ROWS_PER_BIN = 10, 25


class MacroAverage(NamedTuple):
    """Mean of a metric over groups, each group counting once.

    ``skipped`` groups have no value (AUC of a group with one class) and are left out of the mean of the other
    ``groups``.
    """

    value: float
    groups: int
    skipped: int


@dataclass(frozen=True)
class Evaluation:
    """Result of :func:`evaluate`.

    Attributes
    ----------
    overall : metric name to value, all rows together.
    by_group : column name to array, ready for a frame: ``"group"``, ``"rows"``, ``"positives"`` (counts),
    then one column
        for each metric. AUC is NaN in a group that has one class only. None when no groups were given.
    macro : metric name to :class:`MacroAverage` over groups. None when no groups were given.
    """

    overall: dict[str, float]
    by_group: dict[str, ValueArray] | None = None
    macro: dict[str, MacroAverage] | None = None


def evaluate(
    y_true: ArrayLike,
    probability: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    metrics: Iterable[str] = ("auc", "log_loss", "brier", "ece"),
) -> Evaluation:
    """Metrics of predicted probabilities, overall and for each group.

    Parameters
    ----------
    y_true : array of n in {0, 1}
    probability : array of n
        Predicted probability of class 1.
    groups : array of n, optional
        Group of each row, of any hashable kind. Results are sorted by group where groups can be compared, and
        in order of appearance otherwise.
    sample_weight : array of n, optional
    metrics : names out of ``METRICS``
        - ``"auc"``: area under the ROC curve, ties half. NaN where only one class has weight: there are no
          pairs.
        - ``"log_loss"``: mean of −log of the probability given to the truth, clipped to [eps, 1 − eps] with
          the eps of the dtype of ``probability``, which is scikit-learn's rule.
        - ``"brier"``: mean squared difference.
        - ``"ece"``: expected calibration error, the mean over bins of the gap between share of positives
          and mean probability, weighted by bin. Bins hold equal weight; rows with equal probabilities share a bin.
          There are 10, fewer in a group whose effective number of rows, (Σw)²/Σw², is below 250, so that a
          bin has 25; under 50 a single bin compares the group's share with its mean probability. It is the
          plain estimate, not debiased: noise alone leaves a perfect model above 0, by up to 0.08 in a group
          of 25 rows, so groups of different sizes do not compare.

    Returns
    -------
    Evaluation

    Examples
    --------
    In "a" two of the four (positive, negative) pairs are in order and one is tied; "b" has no positive.

    >>> y, p = [0, 1, 0, 1, 0], [0.1, 0.1, 0.6, 0.9, 0.5]
    >>> result = evaluate(y, p, groups=["a", "a", "a", "a", "b"], metrics=["auc", "brier"])
    >>> result.by_group["auc"]
    array([0.625,   nan])
    >>> result.macro["auc"]
    MacroAverage(value=0.625, groups=1, skipped=1)
    >>> round(result.overall["brier"], 3)  # (.01 + .81 + .36 + .01 + .25) / 5
    0.288
    """
    names = _checked_names(metrics)
    y, p, weight, eps = _checked_rows(y_true, probability, sample_weight)
    everyone = _counted(np.zeros(y.size, dtype=np.int64), 1, y, p, weight, eps)
    overall = {name: float(METRICS[name](everyone)[0]) for name in names}
    if groups is None:
        return Evaluation(overall)

    labels, code = _encode(groups, y.size)
    by_group = _counted(code, labels.size, y, p, weight, eps)
    values = {name: METRICS[name](by_group) for name in names}
    counts = {
        "rows": np.bincount(code, minlength=labels.size),
        "positives": np.bincount(code[y], minlength=labels.size),
    }
    macro = {name: _macro(value) for name, value in values.items()}
    return Evaluation(overall, {"group": labels, **counts, **values}, macro)


def grouped_auc(
    y: IntArray, score: FloatArray, weight: FloatArray, code: IntArray, n_groups: int
) -> FloatArray:
    """Weighted AUC of a score of any scale in each of the groups ``0 … n_groups - 1``; NaN where a class has no weight.

    >>> y, score, code = np.array([0, 1, 0, 1, 0]), np.array([0.1, 0.1, 0.6, 0.9, 0.5]), np.array([0, 0, 0, 0, 2])
    >>> grouped_auc(y, score, np.ones(5), code, 3)
    array([0.625,   nan,   nan])
    """
    return _auc(_counted(code, n_groups, y.astype(bool), score, weight, 0.0))


class _Counts(NamedTuple):
    """Distinct (group, probability) pairs, sorted by both, with the weight of each class.

    ``total`` and ``rows`` are the weight and the effective number of rows of each group.
    """

    group: IntArray
    probability: FloatArray
    positive: FloatArray
    negative: FloatArray
    total: FloatArray
    rows: FloatArray
    eps: float

    def sums(self, values: FloatArray) -> FloatArray:
        return sum_by(self.group, values, self.total.size)

    def means(self, values: FloatArray) -> FloatArray:
        return ratio(self.sums(values), self.total)

    def before(self, mass: FloatArray) -> FloatArray:
        """Mass of the pairs of the same group that come before each one, plus half its own.

        A running sum over all groups, less its value at the start of the group: ``mass`` must be a share of
        the group, so that the sum does not grow beyond the number of groups and the difference keeps its
        digits.
        """
        start = np.searchsorted(self.group, self.group)
        running = np.r_[0.0, np.cumsum(mass)[:-1]]
        before: FloatArray = running - running[start] + mass / 2
        return before


def _counted(
    code: IntArray, n_groups: int, y: BoolArray, p: FloatArray, weight: FloatArray, eps: float
) -> _Counts:
    order = np.lexsort((p, code))
    code, p, y, weight = code[order], p[order], y[order], weight[order]
    new = np.r_[True, (code[1:] != code[:-1]) | (p[1:] != p[:-1])]
    point = np.cumsum(new) - 1
    n_points = int(point[-1]) + 1
    total = sum_by(code, weight, n_groups)
    return _Counts(
        group=code[new],
        probability=p[new],
        positive=sum_by(point, weight * y, n_points),
        negative=sum_by(point, weight * ~y, n_points),
        total=total,
        rows=ratio(np.square(total), sum_by(code, np.square(weight), n_groups)),
        eps=eps,
    )


def _auc(counts: _Counts) -> FloatArray:
    positives, negatives = counts.sums(counts.positive), counts.sums(counts.negative)
    one_class = (positives == 0) | (negatives == 0)
    # A group with one class has no pairs. Any divisor will do for it: its value is replaced.
    positive = counts.positive / np.where(one_class, 1, positives)[counts.group]
    negative = counts.negative / np.where(one_class, np.maximum(counts.total, 1), negatives)[counts.group]
    won = counts.sums(positive * counts.before(negative))
    return np.where(one_class, np.nan, np.clip(won, 0, 1))


def _log_loss(counts: _Counts) -> FloatArray:
    p = np.clip(counts.probability, counts.eps, 1 - counts.eps)
    return counts.means(-counts.positive * np.log(p) - counts.negative * np.log1p(-p))


def _brier(counts: _Counts) -> FloatArray:
    p = counts.probability
    return counts.means(counts.positive * np.square(1 - p) + counts.negative * np.square(p))


def _ece(counts: _Counts) -> FloatArray:
    weight = counts.positive + counts.negative
    share = ratio(weight, counts.total[counts.group])
    with np.errstate(invalid="ignore"):
        bins = np.clip(counts.rows // _ROWS_PER_BIN, 1, _BINS)
    # The middle of a point's mass decides: a heavy point stays whole, and its neighbours keep to their side
    # of it.
    place = np.clip(counts.before(np.nan_to_num(share)), 0, 1) * np.nan_to_num(bins, nan=1)[counts.group]
    cell = counts.group * _BINS + np.minimum(place.astype(np.int64), _BINS - 1)
    gap = sum_by(cell, counts.positive - weight * counts.probability, counts.total.size * _BINS)
    return ratio(np.abs(gap).reshape(-1, _BINS).sum(axis=1), counts.total)


METRICS: dict[str, Callable[[_Counts], FloatArray]] = {
    "auc": _auc,
    "log_loss": _log_loss,
    "brier": _brier,
    "ece": _ece,
}


def _macro(values: FloatArray) -> MacroAverage:
    known = values[~np.isnan(values)]
    return MacroAverage(
        value=float(known.mean()) if known.size else float("nan"),
        groups=known.size,
        skipped=values.size - known.size,
    )


def _encode(groups: ArrayLike, n: int) -> tuple[ValueArray, IntArray]:
    """Distinct groups, and the number of each row's group among them."""
    column = as_column(groups)
    if column.shape != (n,):
        raise ValueError(f"groups has shape {column.shape}; ({n},) was expected, one group for each row.")
    missing = int(is_missing(column).sum())
    if missing:
        raise ValueError(
            f"{missing} rows have a missing group. Drop them or name their group, for instance 'unknown'."
        )
    codes = Codes().fit(column)
    return codes.values_, codes.transform(column)


def _checked_names(metrics: Iterable[str]) -> list[str]:
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ValueError(f"Unknown metrics {unknown}; names out of {sorted(METRICS)} were expected.")
    return names


def _checked_rows(
    y_true: ArrayLike, probability: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[BoolArray, FloatArray, FloatArray, float]:
    y, p = np.asarray(y_true), np.asarray(probability)
    if y.ndim != 1 or y.size == 0 or p.shape != y.shape:
        raise ValueError(
            f"y_true has shape {y.shape} and probability {p.shape}; two non-empty one-dimensional arrays "
            "of one length were expected. Of predict_proba, pass the second column: predict_proba(X)[:, "
            "1]."
        )
    if not np.isin(y, (0, 1)).all():
        found = np.unique(y[~np.isin(y, (0, 1))])[:5].tolist()
        raise ValueError(f"y_true holds {found}; only 0 and 1 were expected. Leave unlabelled rows out.")
    eps = float(np.finfo(p.dtype if np.issubdtype(p.dtype, np.floating) else np.float64).eps)
    p = p.astype(np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            f"probability runs from {p.min():.3g} to {p.max():.3g}; values in [0, 1] without NaN were "
            "expected. Turn log-odds into probabilities with scipy.special.expit."
        )
    weight = check_weights(sample_weight, y.size)
    return y.astype(bool), p, weight, eps
