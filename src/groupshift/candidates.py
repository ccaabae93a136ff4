"""Candidate partitions for the judge: k-means at several K and seeds, merged and gated regions, and the user's own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift.gating import composition_clusters, learn_gates
from groupshift.merging import merge_levels
from groupshift.partition import GivenPartition, LinearPartition, Space, WholeSpace, kmeans_partition
from groupshift.rows import Rows

KMEANS_CLUSTERS = (2, 3, 4, 6, 8)
KMEANS_SEEDS = 2
GATED_CLUSTERS = (2, 3, 4, 5, 6, 8)
# Gates have a few dozen numbers to learn: more rows than this sharpen them no further.
MAX_GATE_ROWS = 30_000
MAX_CELLS = 150
ROWS_PER_CELL = 50


def propose_partitions(
    labeled: Rows,
    y: NDArray[np.int64],
    pooled: Rows,
    space: Space,
    *,
    given: Sequence[Any] = (),
    random_state: int,
) -> list[tuple[str, Any]]:
    """Named candidate partitions, the whole space first.

    Parameters
    ----------
    labeled, y : labelled rows and their classes
        They guide the gated candidates.
    pooled : rows of both samples
        k-means sees these.
    given : fitted clusterers to consider besides
    """
    found: list[tuple[str, Any]] = [("one cluster", WholeSpace())]
    found += [(f"given {i + 1}", GivenPartition(clusterer).fit(pooled)) for i, clusterer in enumerate(given)]
    for k in KMEANS_CLUSTERS:
        for seed in range(KMEANS_SEEDS):
            found.append((f"k-means {k}, seed {seed}", _kmeans(space, pooled, k, random_state + seed)))
    found += gated_partitions(labeled, y, pooled, space, random_state)
    return [(name, p) for name, p in found if p.n_clusters > 1 or name == "one cluster"]


def gated_partitions(
    labeled: Rows, y: NDArray[np.int64], pooled: Rows, space: Space, random_state: int
) -> list[tuple[str, LinearPartition]]:
    """Regions where the groups mix alike: small cells merged, moved between clusters, then bounded by linear gates."""
    n_cells = min(MAX_CELLS, len(labeled) // ROWS_PER_CELL)
    if n_cells < 4:
        return []
    cells = _kmeans(space, pooled, n_cells, random_state)
    if not isinstance(cells, LinearPartition):
        return []
    cell = np.unique(cells.cell(labeled.matrix), return_inverse=True)[1]
    weight = labeled.weight * (len(labeled) / labeled.weight.sum())
    rng = np.random.default_rng(random_state)
    few = rng.choice(len(labeled), min(MAX_GATE_ROWS, len(labeled)), replace=False)
    embedded = space.transform(labeled.matrix[few])
    found = []
    levels = merge_levels(cell, labeled.group, y, weight, levels=GATED_CLUSTERS)
    for level, start in sorted(levels.items()):
        cluster = composition_clusters(cell, labeled.group, y, weight, start)[cell][few]
        cluster = np.unique(cluster, return_inverse=True)[1]
        if cluster.max() == 0:
            continue
        slope, intercept = learn_gates(embedded, labeled.group[few], y[few], weight[few], cluster)
        found.append((f"gated {level}", LinearPartition(space, slope, intercept)))
    return found


def _kmeans(space: Space, rows: Rows, n_clusters: int, random_state: int) -> LinearPartition | WholeSpace:
    return kmeans_partition(space, rows.matrix, rows.weight, n_clusters=n_clusters, random_state=random_state)
