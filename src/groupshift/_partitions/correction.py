"""The labelled posterior: stacked scores with the cluster of each row, and a linear correction inside each cluster."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from groupshift._data.encoder import Space
from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._partitions.partitions import Partition
from groupshift._scores.contrasts import log_loss
from groupshift._scores.members import fit_linear, standardized
from groupshift._scores.stack import ClusterLines, Stack

# Standard deviation of the level of a cell beside that of the scores.
LEVEL_SPREAD = 0.3
# Rows of information against the correction, before labels are seen.
PART_RIDGE = 4.0


@dataclass(frozen=True)
class CellCorrection:
    """Added to scores: `part` of a linear function of standardized features, one for each cell."""

    space: Space
    coef: FloatArray  # (n_clusters, 1 + n_features, M)
    part: float  # 0 to 1: as far as held-out labels support it

    def __call__(self, matrix: NDArray[np.floating], cluster: IntArray) -> FloatArray:
        added = np.empty((len(cluster), self.coef.shape[2]))
        F = standardized(self.space, matrix)
        for k, coef in enumerate(self.coef):
            own = np.flatnonzero(cluster == k)
            added[own] = coef[0] + F[own] @ coef[1:]
        return self.part * added


@dataclass(frozen=True)
class Posterior:
    """Scores and clusters of any rows, as labelled rows taught them."""

    scorer: Stack | ClusterLines
    partition: Partition
    correction: CellCorrection | None

    def __call__(self, rows: Rows) -> tuple[FloatArray, IntArray]:
        """Contrasts (n_rows, M) and clusters."""
        cluster = self.partition.predict(rows)
        score = self.scorer(rows.features, cluster)
        return score if self.correction is None else score + self.correction(rows.matrix, cluster), cluster


def learn_correction(
    space: Space,
    rows: Rows,
    y: IntArray,
    score: FloatArray,
    cluster: IntArray,
    fold: IntArray | None,
    n_clusters: int,
) -> tuple[CellCorrection, FloatArray]:
    """The correction, and what it adds to the scores of labelled rows, each by a fit that did not see it."""
    F, M = standardized(space, rows.matrix), score.shape[1]

    def fitted(own: IntArray) -> FloatArray:
        return fit_linear(
            F[own],
            y[own],
            rows.weight[own],
            n_contrasts=M,
            offset=score[own],
            intercept_ridge=1 / LEVEL_SPREAD**2,
        )

    coef = np.stack([fitted(np.flatnonzero(cluster == k)) for k in range(n_clusters)])
    if fold is None:
        return CellCorrection(space, coef, 0.0), np.zeros_like(score)
    added = np.empty_like(score)
    for k in range(n_clusters):
        for f in range(int(fold.max()) + 1):
            held = np.flatnonzero((cluster == k) & (fold == f))
            if len(held):
                b = fitted(np.flatnonzero((cluster == k) & (fold != f)))
                added[held] = b[0] + F[held] @ b[1:]

    def loss(part: float) -> float:
        return float(rows.weight @ log_loss(score + part * added, y) + 0.5 * PART_RIDGE * part**2)

    part = float(minimize_scalar(loss, bounds=(0, 1), method="bounded").x)
    return CellCorrection(space, coef, part), part * added
