"""Candidate partitions for the judge: k-means, cells that labels join, gates that labels bend, and the user's own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.sums import renumbered
from groupshift._regions.gating import Gates, composition_clusters, learn_gates
from groupshift._regions.gaussian_cells import gaussian_cells
from groupshift._regions.kmeans import kmeans_partition
from groupshift._regions.merging import merge_levels
from groupshift._regions.partitions import Clusterer, GivenPartition, LinearPartition, Partition, WholeSpace
from groupshift._regions.space import Space
from groupshift._rows.keys import uniform_keys
from groupshift._rows.progress import counted
from groupshift._rows.rows import Rows
from groupshift._rows.seeds import Seeds
from groupshift._rows.workers import at_once, both_ahead, both_at_once

KMEANS_CLUSTERS = (2, 3, 4, 6, 8)
# A handful of centres move little beyond about so many rows.
KMEANS_ROWS = 10_000
JOINED_CLUSTERS = (2, 3, 4, 5, 6, 8)
# Gates have a few dozen numbers to learn: more rows than this sharpen them no further.
MAX_GATE_ROWS = 20_000
# Numbers that travel to another process with each set of gates, and with other candidates: more would take a good part of the
# time that these take.
MAX_WITH_GATES, MAX_WITH_OTHERS = 500_000, 5_000_000
MAX_CELLS = 64
ROWS_PER_CELL = 50
# Rows of both samples that k-means sees for each small cell.
POOLED_PER_CELL = 100
# A partition learned from labels is judged on groups that it did not learn from, in this many turns.
GROUP_FOLDS = 3
# A cluster is found, not fitted, if it is found again without a third of the groups: Hennig's limit for the overlap (Jaccard).
MIN_OVERLAP = 0.75
# Part of the rows that two partitions put alike if they are one and the same.
SAME = 0.99


@dataclass(frozen=True)
class HeldOutClusters:
    """What a way to learn partitions makes of all labelled rows, without the groups of one fold after the other."""

    fold: IntArray  # (n_labeled,): of each row's group
    clusters: tuple[IntArray, ...]  # for each fold (n_labeled,), in numbers of its own

    def take(self, rows: IntArray) -> Self:
        return type(self)(self.fold[rows], tuple(cluster[rows] for cluster in self.clusters))


@dataclass(frozen=True)
class Candidate:
    """A partition under trial, and the cluster in which the judge sees each labelled row.

    A partition learned from labels fits the shares of the labelled groups, and would look too good on them: in the population
    shares are others. So the judge sees a row where a partition puts it that was learned without its group. Where such
    partitions need not have the same clusters, they are `held_out`, and judged in the place of this one.
    """

    name: str
    partition: Partition
    cluster: IntArray
    held_out: HeldOutClusters | None = None

    @classmethod
    def fixed(cls, name: str, partition: Partition, labeled: Rows) -> Self:
        """A partition that no label had a part in."""
        return cls(name, partition, partition.predict(labeled))

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters


@dataclass(frozen=True)
class GateStarts:
    """What gates are learned from: small cells, joined at several levels."""

    sample: IntArray  # numbers of labelled rows
    cell: IntArray  # (n_labeled,)
    levels: list[tuple[int, IntArray, list[IntArray]]]  # see `_joined`


@dataclass(frozen=True)
class Begun:
    """What was begun of the candidates that labels have a part in."""

    fold: IntArray  # (n_labeled,): of each row's group
    found: Callable[[], tuple[list[Candidate], GateStarts | None]]  # asked for, it is waited for


def group_folds(group: IntArray, seed: int) -> IntArray:
    """Fold of each row's group; folds have equally many groups.

    >>> group_folds(np.array([0, 0, 1, 2]), seed=0).tolist()
    [2, 2, 0, 1]
    """
    n_groups = int(group.max()) + 1
    fold = np.empty(n_groups, np.int64)
    fold[np.argsort(uniform_keys(np.arange(n_groups, dtype=np.uint64), seed))] = (
        np.arange(n_groups) % GROUP_FOLDS
    )
    return fold[group]


def given_partitions(labeled: Rows, pooled: Rows, given: Sequence[Clusterer] = ()) -> list[Candidate]:
    """The whole space, then clusterers of the user's."""
    partitions = [(f"given {i + 1}", GivenPartition(c).fit(pooled)) for i, c in enumerate(given)]
    return [
        Candidate.fixed("one cluster", WholeSpace(), labeled),
        *_in_clusters(Candidate.fixed(name, partition, labeled) for name, partition in partitions),
    ]


def kmeans_partitions(labeled: Rows, pooled: Rows, space: Space, seeds: Seeds) -> list[Candidate]:
    """Candidates that no label had a part in, the finest last."""
    few = pooled.take(slice(None, None, max(len(pooled) // KMEANS_ROWS, 1)))

    def of(k: int) -> Partition:
        seed = seeds.named(f"k-means candidate {k}")
        return kmeans_partition(space, few.matrix, few.weight, n_clusters=k, random_state=seed)

    partitions = zip(KMEANS_CLUSTERS, at_once(of, KMEANS_CLUSTERS), strict=True)
    return _in_clusters(Candidate.fixed(f"k-means {k}", partition, labeled) for k, partition in partitions)


def _in_clusters(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that are not the whole space once more."""
    return [c for c in candidates if c.n_clusters > 1]


@contextmanager
def begin_learned(labeled: Rows, y: IntArray, pooled: Rows, space: Space, *, seeds: Seeds) -> Iterator[Begun]:
    """A block in which others may be ahead with what `learned_partitions` takes longest for: it needs no classifier."""
    fold = group_folds(labeled.group, seeds.named("group folds"))
    given = labeled.in_numbers(), y, pooled.in_numbers(), space, fold, seeds
    joined, starts = partial(joined_partitions, *given), partial(gate_starts, *given)
    if labeled.matrix.size + pooled.matrix.size > MAX_WITH_OTHERS:
        yield Begun(fold, partial(both_at_once, joined, starts))
        return
    with both_ahead(joined, starts) as found:
        yield Begun(fold, found)


def learned_partitions(labeled: Rows, y: IntArray, space: Space, begun: Begun) -> list[Candidate]:
    """Candidates that labels had a part in: Gaussian components that they join, gates that they bend."""
    by_components, starts = begun.found()
    return _in_clusters(by_components + gated_partitions(labeled, y, starts, space, begun.fold))


def joined_partitions(
    labeled: Rows, y: IntArray, pooled: Rows, space: Space, fold: IntArray, seeds: Seeds
) -> list[Candidate]:
    """Gaussian components, joined where their groups are composed alike."""
    if not can_hold_out_groups(fold, labeled.weight):
        return []
    mixture = gaussian_cells(space, pooled, seeds)
    if mixture is None:
        return []
    cell = mixture.cell(labeled.matrix)
    if (cell == cell[0]).all():
        # The features tell no two labelled rows apart: every way to join the components is one cluster.
        return []
    found = []
    for level, whole, parts in _joined(cell, mixture.n_clusters, labeled, y, fold):
        seen = _seen_without_own_fold(whole[cell], (part[cell] for part in parts), fold)
        if seen is not None:
            found.append(Candidate(f"Gaussian {level}", mixture.joined(whole), seen))
    return found


def gate_starts(
    labeled: Rows, y: IntArray, pooled: Rows, space: Space, fold: IntArray, seeds: Seeds
) -> GateStarts | None:
    """What gates start from; None where rows or groups are too few for gates."""
    n_cells = min(MAX_CELLS, len(labeled) // ROWS_PER_CELL)
    if n_cells < 4:
        return None
    few = pooled.take(
        seeds.generator("gate cells, rows").permutation(len(pooled))[: POOLED_PER_CELL * n_cells]
    )
    sample = np.sort(seeds.generator("gate rows").permutation(len(labeled))[:MAX_GATE_ROWS])
    if not can_hold_out_groups(fold[sample], labeled.weight[sample]):
        return None
    # Cells are to be joined: it does not matter where exactly one ends and the next begins.
    seed = seeds.named("gate cells")
    cells = kmeans_partition(
        space, few.matrix, few.weight, n_clusters=n_cells, random_state=seed, max_iter=10
    )
    if not isinstance(cells, LinearPartition):
        return None
    cell = cells.cell(labeled.matrix)
    levels = list(_joined(cell, cells.n_clusters, labeled, y, fold))
    return GateStarts(sample, cell, levels)


def gated_partitions(
    labeled: Rows, y: IntArray, starts: GateStarts | None, space: Space, fold: IntArray
) -> list[Candidate]:
    """Regions where groups are composed alike: small cells joined, then bounded by linear gates."""
    if starts is None:
        return []
    embedded, levels = space.transform(labeled.matrix), starts.levels
    rows = _GateRows(embedded, labeled.group, y, labeled.weight, fold, starts.sample, starts.cell)
    may_travel = embedded.size <= MAX_WITH_GATES
    learned = at_once(rows.gates, [whole for _, whole, _ in levels], may_travel=may_travel)
    found = list(counted(learned, len(levels), "sets of gates"))
    clusters = [gates.predict(embedded) for gates in found]
    # Finer starts often end in the gates of a coarser one: once is enough.
    new = [i for i, own in enumerate(clusters) if not any(_alike(own, other) for other in clusters[:i])]
    again = at_once(rows.found_again, [(clusters[i], levels[i][2]) for i in new], may_travel=may_travel)
    seen = counted(again, len(new), "sets of gates without a third of the groups")
    return [
        Candidate(f"gated {levels[i][0]}", LinearPartition(space, found[i].slope, found[i].intercept), own)
        for i, own in zip(new, seen, strict=True)
        if own is not None
    ]


@dataclass(frozen=True)
class _GateRows:
    """Labelled rows as gates see them: arrays of shape (n_labeled,), but for `embedded` and `sample`."""

    embedded: FloatArray
    group: IntArray
    y: IntArray
    weight: FloatArray
    fold: IntArray
    sample: IntArray
    cell: IntArray

    def gates(self, cluster_of: IntArray, without: int | None = None) -> Gates:
        """Gates that start from clusters of cells; those that win no row are left out."""
        own = self.sample if without is None else self.sample[self.fold[self.sample] != without]
        start, embedded = renumbered(cluster_of[self.cell[own]]), self.embedded[own]
        gates = learn_gates(embedded, self.group[own], self.y[own], self.weight[own], start)
        return gates.take(np.unique(gates.predict(embedded)))

    def found_again(self, whole: tuple[IntArray, list[IntArray]]) -> IntArray | None:
        """Where the judge sees each row, from clusters by all groups, and starts without the groups of each fold."""
        cluster, parts = whole
        others = (self.gates(part, without=f).predict(self.embedded) for f, part in enumerate(parts))
        return _seen_without_own_fold(cluster, others, self.fold)


def can_hold_out_groups(fold: IntArray, weight: FloatArray) -> bool:
    """Whether something is left to learn from, whichever fold of groups is held out: two folds hold rows with weight."""
    return len(np.unique(fold[weight > 0])) > 1


def _seen_without_own_fold(cluster: IntArray, others: Iterable[IntArray], fold: IntArray) -> IntArray | None:
    """Where the judge sees each row; None if some cluster is not found again.

    Parameters
    ----------
    cluster : array of shape (n_rows,)
        Cluster of each row, learned from all groups.
    others : for each fold, an array of shape (n_rows,)
        Clusters learned without the groups of the fold, in numbers of their own.
    fold : array of shape (n_rows,)
    """
    seen = np.empty_like(cluster)
    for f, other in enumerate(others):
        other = _renumber(other, cluster)[other]
        if not _found_again(cluster, other):
            return None
        seen[fold == f] = other[fold == f]
    return seen


def _alike(cluster: IntArray, other: IntArray) -> bool:
    """Whether two partitions are the same for all but a few rows, whatever the numbers of their clusters."""
    is_as_fine = cluster.max() == other.max()
    return bool(is_as_fine and np.mean(_renumber(cluster, other)[cluster] == other) >= SAME)


def _found_again(cluster: IntArray, other: IntArray) -> bool:
    """Whether every cluster overlaps enough with the one of the same number in `other`."""
    n = int(cluster.max()) + 1
    both = np.bincount(cluster[cluster == other], minlength=n)
    either = np.bincount(cluster, minlength=n) + np.bincount(other, minlength=n) - both
    return bool((both >= MIN_OVERLAP * either).all())


def _joined(
    cell: IntArray, n_cells: int, labeled: Rows, y: IntArray, fold: IntArray
) -> Iterator[tuple[int, IntArray, list[IntArray]]]:
    """Clusters of cells at several levels: by all groups, and by those outside each fold."""
    whole = _levels(cell, n_cells, labeled, y)
    parts = [
        _levels(cell[rows], n_cells, labeled.take(rows), y[rows])
        for rows in (np.flatnonzero(fold != f) for f in range(GROUP_FOLDS))
    ]
    for level, cluster in sorted(whole.items()):
        yield level, cluster, [part[level] for part in parts]


def _levels(cell: IntArray, n_cells: int, labeled: Rows, y: IntArray) -> dict[int, IntArray]:
    """Clusters of cells: merged where their groups are composed alike, then moved where they fit best."""
    weight = labeled.weight * (len(labeled) / labeled.weight.sum())
    group = renumbered(labeled.group)
    levels = merge_levels(cell, group, y, weight, levels=JOINED_CLUSTERS, n_cells=n_cells)
    return {
        level: start if level == n_cells else composition_clusters(cell, group, y, weight, start)
        for level, start in levels.items()
    }


def _renumber(cluster: IntArray, like: IntArray) -> IntArray:
    """Number for each cluster so that it agrees with `like` on most rows; two may get the same one."""
    shape = (int(cluster.max()) + 1, int(like.max()) + 1)
    both = np.bincount(cluster * shape[1] + like, minlength=shape[0] * shape[1]).reshape(shape)
    number: IntArray = both.argmax(1)
    own, matched = linear_sum_assignment(both, maximize=True)
    number[own] = matched
    return number
