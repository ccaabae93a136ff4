"""Group-aware log-odds of rows: what every prediction is made by, in memory, in files, on clusters and by commands."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
from scipy.special import ndtri

from groupshift._data.checks import check_coverage
from groupshift._data.rows import Rows
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.odds import in_doubt
from groupshift._scores.contrasts import log_scores
from groupshift._shifts.counts import Score
from groupshift._shifts.estimate import Estimate

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
class AnyScorer(ABC):
    """Theorem 2 for rows whose groups are numbered as those of the estimate, whatever the number of classes.

    It holds what a prediction needs and no more: it travels to every machine of a cluster.
    """

    score: Score  # of the labelled posterior
    estimate: Estimate

    @classmethod
    def of(cls, score: Score, estimate: Estimate, *others: ValueArray) -> Self:
        return cls(score, replace(estimate, counts=None), *others)

    @property
    def groups(self) -> ValueArray:
        return self.estimate.groups

    def __call__(self, rows: Rows) -> Scored:
        contrasts, cluster = self.score(rows)
        score = contrasts[:, 0] if contrasts.shape[1] == 1 else log_scores(contrasts)
        scored = Scored(score, cluster, rows.group)
        return replace(scored, score=score + self._shift(scored)) if len(self.groups) else scored

    @abstractmethod
    def probability(self, scored: Scored) -> FloatArray:
        """Of the positive class, (n_rows,), or of all of several, (n_rows, n_classes); never exactly 0 or 1."""

    @abstractmethod
    def _interval(self, scored: Scored, reach: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Probabilities, and what they are if log-odds are lower or higher by `reach`."""

    def parts(self, scored: Scored) -> dict[str, FloatArray]:
        """What a row's features say, what its group adds to the score, and what both make of it."""
        shift = self._shift(scored)
        plain = self.probability(replace(scored, score=scored.score - shift))
        return {"plain_probability": plain, "shift": shift, "probability": self.probability(scored)}

    def details(self, scored: Scored, coverage: float) -> Details:
        """Probabilities with their intervals; the interval is what is not known about the shift of a row's cell."""
        estimate = self.estimate
        variance = _of_cells(estimate.variance, estimate.unseen_variance, scored)
        pooling = _of_cells(estimate.pooling, np.ones(estimate.pooling.shape[1]), scored)
        reach = ndtri(0.5 + check_coverage(coverage) / 2) * np.sqrt(variance)
        probability, low, high = self._interval(scored, reach)
        return {
            "probability": probability,
            "low": low,
            "high": high,
            "cluster": scored.cluster,
            "pooled": pooling > 0.5,
        }

    def columns(self, rows: Rows, coverage: float) -> Details:
        """Details of rows as columns of a table."""
        return self.details(self(rows), coverage)

    @property
    @abstractmethod
    def column_types(self) -> dict[str, type]:
        """Names and kinds of these columns: Dask wants to know before any row is read."""

    def _shift(self, scored: Scored) -> FloatArray:
        return _of_cells(self.estimate.shift, self.estimate.unseen_shift, scored)


class Scorer(AnyScorer):
    """Of two classes: scores are log-odds."""

    def probability(self, scored: Scored) -> FloatArray:
        return in_doubt(scored.score)

    def _interval(self, scored: Scored, reach: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return in_doubt(scored.score), in_doubt(scored.score - reach), in_doubt(scored.score + reach)

    @property
    def column_types(self) -> dict[str, type]:
        return {"probability": float, "low": float, "high": float, "cluster": np.int64, "pooled": bool}


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


def concatenated_details(parts: list[Details]) -> Details:
    """Details of chunks in their order."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
