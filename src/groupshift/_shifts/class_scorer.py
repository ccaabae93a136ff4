"""Group-aware probabilities of several classes: what every prediction of them is made by."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, softmax

from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, ValueArray
from groupshift._math.odds import MAX_LOG_ODDS
from groupshift._shifts.estimate import Estimate, Learned
from groupshift._shifts.scorer import AnyScorer, Details, Scored, Scorer

# No sample makes anything certain.
LEAST = float(np.exp(-MAX_LOG_ODDS))


@dataclass(frozen=True)
class ClassScorer(AnyScorer):
    """Of several classes: ``softmax(log p + log q − log π)``."""

    classes: ValueArray

    def probability(self, scored: Scored) -> FloatArray:
        p = np.maximum(softmax(scored.score, axis=1), LEAST)
        found: FloatArray = p / p.sum(1, keepdims=True)
        return found

    def _interval(self, scored: Scored, reach: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Each class against the rest."""
        probability = self.probability(scored)
        log_odds = logit(probability)
        low, high = np.maximum(log_odds - reach, -MAX_LOG_ODDS), np.minimum(log_odds + reach, MAX_LOG_ODDS)
        return probability, expit(low), expit(high)

    def columns(self, rows: Rows, coverage: float) -> Details:
        """One of each kind for each class."""
        return flat_details(super().columns(rows, coverage), self.classes)

    @property
    def column_types(self) -> dict[str, type]:
        kinds: dict[str, type] = {
            f"{kind}_{name}": float
            for kind in ("probability", "low", "high")
            for name in self.classes.tolist()
        }
        return kinds | {"cluster": np.int64, "pooled": bool}


def flat_details(found: Details, classes: ValueArray) -> Details:
    """A column of probability, low and high for each class."""
    kinds = {kind: np.asarray(found[kind], float) for kind in ("probability", "low", "high")}
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


def detail_columns(found: Details, classes: ValueArray, library: str | None) -> Mapping[str, object]:
    """Details as they stand beside rows: arrays beside arrays; in a frame a column for each of several classes."""
    return {**found} if len(classes) == 2 or library is None else flat_details(found, classes)


def scorer_of(learned: Learned, found: Estimate, classes: ValueArray) -> AnyScorer:
    """What predictions are made by."""
    if len(classes) > 2:
        return ClassScorer.of(learned.posterior, found, classes)
    return Scorer.of(learned.posterior, found)
