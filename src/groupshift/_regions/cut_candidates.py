"""Candidate partitions that a tree cuts, with the trees that judge them: grown without the groups that are judged."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import renumbered
from groupshift._regions.candidates import (
    GROUP_FOLDS,
    Candidate,
    HeldOutClusters,
    can_hold_out_groups,
    group_folds,
)
from groupshift._regions.cutting import CutPartition, CutTable, Unexplained, cut_cells, largest_groups
from groupshift._regions.space import Space
from groupshift._rows.rows import Rows
from groupshift._rows.seeds import Seeds
from groupshift._rows.workers import at_once


@dataclass(frozen=True)
class ShownLabels:
    """What cuts are learned from, beside the rows themselves."""

    rows: IntArray  # numbers of the labelled rows that may be looked at; what follows has a value for each of them
    y: IntArray
    probability: FloatArray  # of a classifier that did not see the row
    weight: FloatArray  # adds up to the number of independent rows
    min_class_rows: float  # rows of each class that a cell must have


def cut_partitions(
    labeled: Rows,
    shown: ShownLabels,
    space: Space,
    *,
    seeds: Seeds,
    promises: Callable[[Candidate], bool] = lambda candidate: True,
) -> list[Candidate]:
    """Cells that a tree cuts where groups differ from their scores: as many as evidence supports, and more of them.

    Only those that look promising with the very labels that they were learned from are worth trees without these.
    """
    fold = group_folds(labeled.group, seeds.named("group folds of cuts"))
    order = seeds.generator("cut rows").permutation(len(shown.rows))
    few = largest_groups(labeled.group[shown.rows], order)
    rows, y, p, weight = shown.rows[few], shown.y[few], shown.probability[few], shown.weight[few]
    if not can_hold_out_groups(fold[rows], weight):
        return []
    unexplained = Unexplained(
        labeled.matrix[rows], renumbered(labeled.group[rows]), y, weight * (y - p), weight * p * (1 - p)
    )
    table = CutTable.of(unexplained, space.is_category_)

    def grown(own: IntArray) -> tuple[CutPartition, CutPartition]:
        tree, n_supported = cut_cells(table, own, min_class_rows=shown.min_class_rows)
        return tree.first(n_supported), tree

    supported, finest = grown(np.arange(len(few)))
    tried = [(0, Candidate.fixed(f"cut {supported.n_clusters}", supported, labeled))]
    if finest.n_clusters > supported.n_clusters:
        tried.append((1, Candidate.fixed(f"finely cut {finest.n_clusters}", finest, labeled)))
    tried = [
        (size, candidate) for size, candidate in tried if supported.n_clusters > 1 and promises(candidate)
    ]
    outside = [np.flatnonzero(fold[rows] != f) for f in range(GROUP_FOLDS)]
    without = list(at_once(grown, outside)) if tried else []
    return [
        replace(
            candidate,
            held_out=HeldOutClusters(fold, tuple(trees[size].predict(labeled) for trees in without)),
        )
        for size, candidate in tried
    ]
