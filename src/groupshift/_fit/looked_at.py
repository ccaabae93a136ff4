"""Feature means of labelled rows and of the population: whether all groups' labels were chosen by the label."""

from dataclasses import dataclass

import numpy as np

from groupshift._fit.judge import Judged
from groupshift._fit.pooled import Pooled
from groupshift._fit.problem import Problem
from groupshift._fit.trials import MIN_CLASS_ROWS, rarer_class_rows
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.feature_means import FeatureMeans, MeanSums
from groupshift._regions.space import Space
from groupshift._rows.codes import Codes
from groupshift._rows.keys import sampled
from groupshift._rows.rows import Rows

# Groups are put into so many parts where their means are compared: more say no better how far chance moves means.
N_PARTS = 256
# Means of so many rows are known as well as those of the labelled rows that they are compared with.
MAX_LOOKED_AT = 50_000


def look_at_labeled(problem: Problem, pooled: Pooled, judged: Judged, log_odds: FloatArray) -> FeatureMeans:
    """What judged rows, of calibrated log-odds (n_judged,), say of the directions of feature space."""
    trained, candidate = judged.trained, judged.candidate
    few = trained.few(problem, MAX_LOOKED_AT, "rows of feature means")
    own = trained.judged[few]
    rows = problem.labeled.take(own)
    rarer = rarer_class_rows(problem.y, candidate.cluster, candidate.n_clusters, trained.design_effect)
    return FeatureMeans.of(
        pooled.space.transform(rows.matrix),
        log_odds[few],
        problem.y[own],
        rows.weight,
        parts_of(problem.labeled_groups, problem.labeled_groups)[rows.group],
        candidate.cluster[own],
        telling=rarer >= MIN_CLASS_ROWS,
        n_parts=N_PARTS,
        design_effect=trained.design_effect,
        seed=problem.seeds.named("population looked at"),
    )


def parts_of(groups: ValueArray, labeled_groups: ValueArray) -> IntArray:
    """The part that each group is of: labelled ones are numbered first, and where groups are many, several share a part."""
    number = Codes.of(labeled_groups).transform(groups)
    half = N_PARTS // 2
    return np.where(number >= 0, number % half, half + np.arange(len(groups)) % half)


@dataclass(frozen=True)
class LookedAt:
    """Rows of the population whose feature means are compared with those of labelled rows: a sample, drawn by key."""

    means: FeatureMeans
    part: IntArray  # (n_groups,)
    fraction: float

    @classmethod
    def of(
        cls, means: FeatureMeans | None, n_rows: int, groups: ValueArray, labeled_groups: ValueArray
    ) -> "LookedAt | None":
        """For a population of so many rows; None where its means are not asked about."""
        if means is None:
            return None
        return cls(means, parts_of(groups, labeled_groups), min(1.0, MAX_LOOKED_AT / max(n_rows, 1)))

    def sums(self, rows: Rows, space: Space, log_odds: FloatArray, cluster: IntArray) -> MeanSums:
        few = np.flatnonzero(sampled(rows.lasting_key, self.fraction, self.means.seed))
        seen = self.means.project(space.transform(rows.matrix[few]), log_odds[few])
        shape = self.means.sums.weight.shape
        return MeanSums.of(seen, rows.weight[few], self.part[rows.group[few]], cluster[few], shape)
