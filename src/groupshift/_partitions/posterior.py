"""The labelled posterior: stacked scores with the cluster of each row, corrected inside it."""

from dataclasses import dataclass

from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, IntArray
from groupshift._partitions.correction import CellCorrection
from groupshift._partitions.partitions import Partition
from groupshift._scores.stack import ClusterLines, Stack


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
