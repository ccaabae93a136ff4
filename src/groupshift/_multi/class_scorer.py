"""Group-aware probabilities of several classes: what every prediction of them is made by."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtri, softmax

from groupshift._fit.scorer import Details
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.odds import MAX_LOG_ODDS
from groupshift._multi.class_estimate import ClassEstimate
from groupshift._multi.class_scores import ClassPosterior
from groupshift._rows.checks import check_coverage
from groupshift._rows.rows import Rows

# No sample makes anything certain.
LEAST = float(np.exp(-MAX_LOG_ODDS))


@dataclass(frozen=True)
class ClassScored:
    """Group-aware log-probabilities (up to a constant a row), cluster and group number (-1: unseen) of rows."""

    log_p: FloatArray
    cluster: IntArray
    group: IntArray


@dataclass(frozen=True)
class ClassScorer:
    """Theorem 2 for several classes: ``softmax(log p + log q − log π)``."""

    posterior: ClassPosterior
    estimate: ClassEstimate
    classes: ValueArray

    @classmethod
    def of(cls, posterior: ClassPosterior, estimate: ClassEstimate, classes: ValueArray) -> "ClassScorer":
        return cls(posterior, replace(estimate, points=None), classes)

    @property
    def groups(self) -> ValueArray:
        return self.estimate.groups

    def __call__(self, rows: Rows) -> ClassScored:
        log_p, cluster = self.posterior.score(rows)
        if len(self.groups):
            log_p = log_p + self._of_cells(
                self.estimate.shift, self.estimate.unseen_shift, rows.group, cluster
            )
        return ClassScored(log_p, cluster, rows.group)

    def probability(self, scored: ClassScored) -> FloatArray:
        """(n_rows, n_classes); never exactly 0 or 1."""
        p = np.maximum(softmax(scored.log_p, axis=1), LEAST)
        found: FloatArray = p / p.sum(1, keepdims=True)
        return found

    def parts(self, scored: ClassScored) -> dict[str, FloatArray]:
        """What a row's features say, what its group adds to log-probabilities, and what both make of it: (n_rows, n_classes)."""
        shift = np.zeros_like(scored.log_p)
        if len(self.groups):
            own, common = self.estimate.shift, self.estimate.unseen_shift
            shift = self._of_cells(own, common, scored.group, scored.cluster)
        plain = self.probability(replace(scored, log_p=scored.log_p - shift))
        return {"plain_probability": plain, "shift": shift, "probability": self.probability(scored)}

    def details(self, scored: ClassScored, coverage: float) -> Details:
        """Probabilities with their intervals, each class against the rest."""
        estimate, cluster, group = self.estimate, scored.cluster, scored.group
        variance, pooled = estimate.unseen_variance[cluster], group < 0
        if len(self.groups):
            variance = self._of_cells(estimate.variance, estimate.unseen_variance, group, cluster)
            pooled = pooled | (estimate.pooling[group, cluster] > 0.5)
        reach = ndtri(0.5 + check_coverage(coverage) / 2) * np.sqrt(variance)
        probability = self.probability(scored)
        log_odds = logit(probability)
        return {
            "probability": probability,
            "low": expit(np.maximum(log_odds - reach, -MAX_LOG_ODDS)),
            "high": expit(np.minimum(log_odds + reach, MAX_LOG_ODDS)),
            "cluster": cluster,
            "pooled": pooled,
        }

    def columns(self, rows: Rows, coverage: float) -> dict[str, FloatArray | IntArray | BoolArray]:
        """Details of rows as columns of a table: one of each kind for each class."""
        return flat_details(self.details(self(rows), coverage), self.classes)

    @property
    def column_types(self) -> dict[str, type]:
        """Names and kinds of these columns: Dask wants to know before any row is read."""
        kinds: dict[str, type] = {
            f"{kind}_{name}": float
            for kind in ("probability", "low", "high")
            for name in self.classes.tolist()
        }
        return kinds | {"cluster": np.int64, "pooled": bool}

    @staticmethod
    def _of_cells(own: FloatArray, common: FloatArray, group: IntArray, cluster: IntArray) -> FloatArray:
        """The values of each row's cell; those of its cluster where its group is unseen (-1)."""
        return np.where((group < 0)[:, None], common[cluster], own[group, cluster])


def flat_details(found: Details, classes: ValueArray) -> dict[str, FloatArray | IntArray | BoolArray]:
    """A column of probability, low and high for each class."""
    kinds = {"probability": found["probability"], "low": found["low"], "high": found["high"]}
    return {**by_class(kinds, classes), "cluster": found["cluster"], "pooled": found["pooled"]}


def by_class(found: Mapping[str, FloatArray], classes: ValueArray) -> dict[str, FloatArray]:
    """Arrays of shape (n_rows, n_classes) as a column for each class.

    >>> list(by_class({"shift": np.zeros((3, 2))}, np.array(["a", "b"])))
    ['shift_a', 'shift_b']
    """
    return {
        f"{kind}_{name}": values[:, c]
        for kind, values in found.items()
        for c, name in enumerate(classes.tolist())
    }
