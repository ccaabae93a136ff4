"""Candidate partitions that a tree cuts, with the trees that judge them: grown without the groups that are judged."""

from collections.abc import Sequence
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


@dataclass(frozen=True)
class Cut:
    """A tree of all labels that may be looked at. Only one that looks promising is worth trees without some of these."""

    candidate: Candidate
    is_finest: bool  # cut as long as anything is gained, and not as far as evidence supports it


def cut_partitions(labeled: Rows, shown: ShownLabels, space: Space, seeds: Seeds) -> list[Cut]:
    """Cells that a tree cuts where groups differ from their scores: as many as evidence supports, and more of them."""
    rows = _CutRows.of(labeled, shown, space, seeds)
    if rows is None:
        return []
    supported, finest = rows.grown(np.arange(len(rows.fold)))
    if supported.n_clusters == 1:
        return []
    found = [Cut(Candidate.fixed(f"cut {supported.n_clusters}", supported, labeled), False)]
    if finest.n_clusters > supported.n_clusters:
        found.append(Cut(Candidate.fixed(f"finely cut {finest.n_clusters}", finest, labeled), True))
    return found


def with_held_out(
    cuts: Sequence[Cut], labeled: Rows, shown: ShownLabels, space: Space, seeds: Seeds
) -> list[Candidate]:
    """The partitions with the trees that judge them, which are grown without a third of the groups."""
    rows = _CutRows.of(labeled, shown, space, seeds) if cuts else None
    if rows is None:
        return []
    outside = [np.flatnonzero(rows.fold != f) for f in range(GROUP_FOLDS)]
    without = list(at_once(rows.grown, outside))
    fold = _folds(labeled, seeds)
    return [
        replace(
            cut.candidate,
            held_out=HeldOutClusters(fold, tuple(trees[cut.is_finest].predict(labeled) for trees in without)),
        )
        for cut in cuts
    ]


def _folds(labeled: Rows, seeds: Seeds) -> IntArray:
    return group_folds(labeled.group, seeds.named("group folds of cuts"))


@dataclass(frozen=True)
class _CutRows:
    """The rows that cuts are learned from."""

    table: CutTable
    fold: IntArray  # of each row's group
    min_class_rows: float

    @classmethod
    def of(cls, labeled: Rows, shown: ShownLabels, space: Space, seeds: Seeds) -> "_CutRows | None":
        """None where too few groups are left if some are held out."""
        order = seeds.generator("cut rows").permutation(len(shown.rows))
        few = largest_groups(labeled.group[shown.rows], order)
        rows, y, p, weight = shown.rows[few], shown.y[few], shown.probability[few], shown.weight[few]
        fold = _folds(labeled, seeds)[rows]
        if not can_hold_out_groups(fold, weight):
            return None
        unexplained = Unexplained(
            labeled.matrix[rows], renumbered(labeled.group[rows]), y, weight * (y - p), weight * p * (1 - p)
        )
        return cls(CutTable.of(unexplained, space.is_category_), fold, shown.min_class_rows)

    def grown(self, own: IntArray) -> tuple[CutPartition, CutPartition]:
        """The tree of some of the rows, as far as evidence supports it and as far as it goes."""
        tree, n_supported = cut_cells(self.table, own, min_class_rows=self.min_class_rows)
        return tree.first(n_supported), tree
