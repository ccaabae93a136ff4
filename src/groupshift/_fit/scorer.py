"""Group-aware log-odds of rows: what every prediction is made by, in memory, in files, on clusters and by commands."""

from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from scipy.special import ndtri

from groupshift._fit.estimate import Estimate
from groupshift._fit.posterior import LabeledPosterior
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.odds import in_doubt
from groupshift._rows.checks import check_coverage
from groupshift._rows.rows import Rows


class Details(TypedDict):
    """What `predict_details` says of rows; of more than two classes the first three have a column for each."""

    probability: FloatArray
    low: FloatArray
    high: FloatArray
    cluster: IntArray
    pooled: BoolArray


@dataclass(frozen=True)
class Scored:
    """Group-aware log-odds, cluster and group number (-1: unseen) of rows."""

    log_odds: FloatArray
    cluster: IntArray
    group: IntArray


@dataclass(frozen=True)
class Scorer:
    """Theorem 2 for rows whose groups are numbered as those of the estimate.

    It holds what a prediction needs and no more: it travels to every machine of a cluster.
    """

    posterior: LabeledPosterior
    estimate: Estimate

    @classmethod
    def of(cls, posterior: LabeledPosterior, estimate: Estimate) -> "Scorer":
        return cls(posterior, replace(estimate, points=None))

    @property
    def groups(self) -> ValueArray:
        return self.estimate.groups

    def __call__(self, rows: Rows) -> Scored:
        log_odds, cluster = self.posterior.score(rows)
        if len(self.groups):
            shift, common = self.estimate.shift, self.estimate.unseen_shift
            log_odds = log_odds + _of_cells(shift, common, rows.group, cluster)
        return Scored(log_odds, cluster, rows.group)

    def probability(self, scored: Scored) -> FloatArray:
        """Of the positive class, (n_rows,)."""
        return in_doubt(scored.log_odds)

    def columns(self, rows: Rows, coverage: float) -> dict[str, FloatArray | IntArray | BoolArray]:
        """Details of rows as columns of a table."""
        found = self.details(self(rows), coverage)
        return {
            "probability": found["probability"],
            "low": found["low"],
            "high": found["high"],
            "cluster": found["cluster"],
            "pooled": found["pooled"],
        }

    @property
    def column_types(self) -> dict[str, type]:
        """Names and kinds of these columns: Dask wants to know before any row is read."""
        return {"probability": float, "low": float, "high": float, "cluster": np.int64, "pooled": bool}

    def parts(self, scored: Scored) -> dict[str, FloatArray]:
        """What a row's features say, what its group adds in log-odds, and what both make of it."""
        shift = np.zeros(len(scored.cluster))
        if len(self.groups):
            shift = _of_cells(self.estimate.shift, self.estimate.unseen_shift, scored.group, scored.cluster)
        plain = in_doubt(scored.log_odds - shift)
        return {"plain_probability": plain, "shift": shift, "probability": in_doubt(scored.log_odds)}

    def details(self, scored: Scored, coverage: float) -> Details:
        """Probabilities with their intervals; the interval is what is not known about the shift of a row's cell."""
        estimate, cluster, group = self.estimate, scored.cluster, scored.group
        variance, pooled = estimate.unseen_variance[cluster], group < 0
        if len(self.groups):
            variance = _of_cells(estimate.variance, estimate.unseen_variance, group, cluster)
            pooled |= (
                estimate.pooling.ravel().take(group * estimate.shift.shape[1] + cluster, mode="wrap") > 0.5
            )
        reach = ndtri(0.5 + check_coverage(coverage) / 2) * np.sqrt(variance)
        return {
            "probability": in_doubt(scored.log_odds),
            "low": in_doubt(scored.log_odds - reach),
            "high": in_doubt(scored.log_odds + reach),
            "cluster": cluster,
            "pooled": pooled,
        }


def _of_cells(own: FloatArray, common: FloatArray, group: IntArray, cluster: IntArray) -> FloatArray:
    """The value of each row's cell; that of its cluster where its group is unseen (-1)."""
    value = own.ravel().take(group * len(common) + cluster, mode="wrap")
    unseen = np.flatnonzero(group < 0)
    if len(unseen):
        value[unseen] = common[cluster[unseen]]
    return value


def concatenated_details(parts: list[Details]) -> Details:
    """Details of chunks in their order."""
    return {
        "probability": np.concatenate([part["probability"] for part in parts]),
        "low": np.concatenate([part["low"] for part in parts]),
        "high": np.concatenate([part["high"] for part in parts]),
        "cluster": np.concatenate([part["cluster"] for part in parts]),
        "pooled": np.concatenate([part["pooled"] for part in parts]),
    }
