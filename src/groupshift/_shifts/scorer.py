"""Group-aware log-odds of rows: what every prediction is made by, in memory, in files, on clusters and by commands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, ndtri, softmax

from groupshift._data.checks import check_coverage
from groupshift._data.rows import Rows
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.odds import MAX_LOG_ODDS
from groupshift._scores.contrasts import log_scores
from groupshift._shifts.counts import Score
from groupshift._shifts.estimate import Estimate

# No sample makes anything certain.
LEAST = float(np.exp(-MAX_LOG_ODDS))
# Columns that several classes have each.
KINDS = ("probability", "low", "high")
# What `predict_details` says of rows: probability, low, high, cluster, pooled. Of more than two classes the first three have a
# column for each.
Details: TypeAlias = dict[str, FloatArray | IntArray | BoolArray]


@dataclass(frozen=True)
class Scored:
    """Group-aware scores, cluster and group number (-1: unseen) of rows."""

    score: FloatArray  # log-odds; of more than two classes log-probabilities, up to a constant a row
    cluster: IntArray
    group: IntArray


@dataclass(frozen=True)
class Scorer:
    """Theorem 2 for rows whose groups are numbered as those of the estimate.

    It holds what a prediction needs and no more: it travels to every machine of a cluster.
    """

    score: Score  # of the labelled posterior
    estimate: Estimate
    classes: ValueArray

    @property
    def groups(self) -> ValueArray:
        return self.estimate.groups

    def __call__(self, rows: Rows) -> Scored:
        contrasts, cluster = self.score(rows)
        scored = Scored(
            contrasts[:, 0] if contrasts.shape[1] == 1 else log_scores(contrasts), cluster, rows.group
        )
        if not len(self.estimate.groups):
            return scored
        shift = _of_cells(self.estimate.shift, self.estimate.unseen_shift, scored)
        return replace(scored, score=scored.score + shift)

    def probability(self, scored: Scored) -> FloatArray:
        """Of the positive class, (n_rows,), or of all of several, (n_rows, n_classes); never exactly 0 or 1."""
        if scored.score.ndim == 1:
            return in_doubt(scored.score)
        p = np.maximum(softmax(scored.score, axis=1), LEAST)
        found: FloatArray = p / p.sum(1, keepdims=True)
        return found

    def parts(self, scored: Scored) -> dict[str, FloatArray]:
        """What a row's features say, what its group adds to the score, and what both make of it."""
        shift = _of_cells(self.estimate.shift, self.estimate.unseen_shift, scored)
        plain = self.probability(replace(scored, score=scored.score - shift))
        return {"plain_probability": plain, "shift": shift, "probability": self.probability(scored)}

    def details(self, scored: Scored, coverage: float) -> Details:
        """Probabilities with their intervals, of several classes each against the rest.

        The interval is what is not known about the shift of a row's cell.
        """
        estimate = self.estimate
        variance = _of_cells(estimate.variance, estimate.unseen_variance, scored)
        pooling = _of_cells(estimate.pooling, np.ones(estimate.pooling.shape[1]), scored)
        reach = ndtri(0.5 + check_coverage(coverage) / 2) * np.sqrt(variance)
        probability = self.probability(scored)
        log_odds = logit(probability)
        return {
            "probability": probability,
            # There and back again, log-odds may round past a probability that is certain.
            "low": np.minimum(in_doubt(log_odds - reach), probability),
            "high": np.maximum(in_doubt(log_odds + reach), probability),
            "cluster": scored.cluster,
            "pooled": pooling > 0.5,
        }

    def columns(self, rows: Rows, coverage: float) -> Details:
        """Details of rows as columns of a table; of several classes one of each kind for each."""
        return flat_details(self.details(self(rows), coverage), self.classes)

    @property
    def column_types(self) -> dict[str, type]:
        """Names and kinds of these columns: Dask wants to know before any row is read."""
        no_rows = np.zeros((0, *self.estimate.shift.shape[2:]))
        kinds: dict[str, type] = dict.fromkeys(by_class(dict.fromkeys(KINDS, no_rows), self.classes), float)
        return kinds | {"cluster": np.int64, "pooled": bool}


def flat_details(found: Details, classes: ValueArray) -> Details:
    """A column of probability, low and high for each of several classes."""
    kinds = {kind: np.asarray(found[kind], float) for kind in KINDS}
    return {**by_class(kinds, classes), "cluster": found["cluster"], "pooled": found["pooled"]}


def detail_columns(found: Details, classes: ValueArray, library: str | None) -> Mapping[str, object]:
    """Details as they stand beside rows: arrays beside arrays; in a frame a column for each of several classes."""
    return {**found} if library is None else flat_details(found, classes)


def by_class(found: Mapping[str, FloatArray], classes: ValueArray) -> dict[str, FloatArray]:
    """Arrays of shape (n_rows, n_classes) as a column for each class; those of shape (n_rows,) as they are.

    >>> list(by_class({"shift": np.zeros((3, 2))}, np.array(["a", "b"])))
    ['shift_a', 'shift_b']
    """
    columns: dict[str, FloatArray] = {}
    for kind, values in found.items():
        ends = [""] if values.ndim == 1 else [f"_{name}" for name in classes.tolist()]
        columns |= dict(zip([kind + end for end in ends], np.atleast_2d(values.T), strict=True))
    return columns


def _of_cells(own: FloatArray, common: FloatArray, scored: Scored) -> FloatArray:
    """The values of each row's cell; those of its cluster where its group is unseen (-1), or where there are no groups."""
    group, cluster = scored.group, scored.cluster
    if not len(own):
        return common[cluster]
    value = own.reshape(-1, *common.shape[1:]).take(group * len(common) + cluster, axis=0, mode="wrap")
    unseen = np.flatnonzero(group < 0)
    if len(unseen):
        value[unseen] = common[cluster[unseen]]
    return value


def in_doubt(log_odds: ArrayLike) -> FloatArray:
    """Probabilities that are never exactly 0 or 1, however large the log-odds: no sample makes anything certain.

    >>> bool(0 < in_doubt(-1e9) < in_doubt(1e9) < 1)
    True
    """
    # The logistic function in place, in a third of the time of `expit`.
    value = np.atleast_1d(np.clip(np.negative(log_odds), -MAX_LOG_ODDS, MAX_LOG_ODDS))
    np.exp(value, out=value)
    value += 1
    np.reciprocal(value, out=value)
    return value.reshape(np.shape(log_odds))[()]


def concatenated_details(parts: list[Details]) -> Details:
    """Details of chunks in their order."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
