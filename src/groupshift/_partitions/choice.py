"""Which partition: held-out labels, predicted from scores and from the other labels of their cells, choose among candidates.

A candidate wins if its log loss beats that of one cluster by more than noise over groups; of those that do, the lowest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr
from scipy.stats import t as student

from groupshift._data.encoder import Space
from groupshift._data.keys import Seeds, fold_of
from groupshift._data.rows import Rows
from groupshift._data.workers import at_once
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._math.sums import renumbered, sum_by
from groupshift._partitions.correction import LEVEL_SPREAD
from groupshift._partitions.cuts import CutPartition, grow_cuts
from groupshift._partitions.kmeans import kmeans_partition
from groupshift._partitions.partitions import GivenPartition, Partition, WholeSpace
from groupshift._scores.contrasts import log_loss
from groupshift._shifts.effects import labeled_shifts, learn_labeled
from groupshift._shifts.evidence import LABELS, Evidence, LabeledSums, gather, labeled_prior
from groupshift._shifts.sums import Bins

# Clusters that are tried, and starts of k-means for each.
SIZES = {2: 1, 4: 6, 8: 6}
# Standard errors over groups that several clusters must win by: the quantile of as many for few groups (Student).
MARGIN = 2.5
# Candidates are compared on wider bins than shifts are estimated with.
COARSE = 1 / 32


@dataclass(frozen=True)
class Candidate:
    """A partition that may be chosen."""

    name: str
    partition: Partition
    cluster: IntArray  # of labelled rows


@dataclass(frozen=True)
class Chosen:
    """The partition that held-out labels choose."""

    candidate: Candidate
    table: dict[str, ValueArray]  # of all candidates
    gain: FloatArray  # by labelled group: what the log loss of its rows is lower by than with no shift


@dataclass(frozen=True)
class Labeled:
    """Labelled rows as candidates are compared on them."""

    rows: Rows
    y: IntArray
    score: FloatArray  # (n_rows, M), held out
    fold: IntArray  # that held a row out
    effect: float  # how many rows count as one

    @property
    def worth(self) -> FloatArray:
        """Weights that add up to the number of independent examples: rows of unequal weight say less (Kish)."""
        weight = self.rows.weight
        result: FloatArray = weight * (weight.sum() / (weight**2).sum() / self.effect)
        return result

    def take(self, own: IntArray) -> "Labeled":
        rows = self.rows.take(own)
        numbered = rows.numbered(renumbered(rows.group))
        return Labeled(numbered, self.y[own], self.score[own], self.fold[own], self.effect)


def kmeans_candidates(space: Space, pooled: Rows, labeled: Rows, seeds: Seeds) -> list[Candidate]:
    """k-means of rows of both samples."""
    tasks = [(k, start) for k, starts in SIZES.items() for start in range(starts)]

    def found(task: tuple[int, int]) -> Partition:
        k, start = task
        seed = seeds.named(f"k-means {k} {start}")
        return kmeans_partition(space, pooled.matrix, pooled.weight, n_clusters=k, random_state=seed)

    partitions = at_once(found, tasks)
    named = [(f"k-means, {k} clusters, start {start + 1}", k) for k, start in tasks]
    return [
        Candidate(name, partition, partition.predict(labeled))
        for (name, k), partition in zip(named, partitions, strict=True)
        if partition.n_clusters == k
    ]


def given_candidates(wanted: object, pooled: Rows, labeled: Rows) -> list[Candidate]:
    """Clusterers of the user's."""
    found = []
    for i, clusterer in enumerate(wanted if isinstance(wanted, (list, tuple)) else ()):
        partition = GivenPartition(clusterer).fit(pooled)
        name = f"partition[{i}], {partition.n_clusters} clusters"
        found.append(Candidate(name, partition, partition.predict(labeled)))
    return found


def choose_partition(
    labeled: Labeled, given: Sequence[Candidate], is_category: BoolArray, seeds: Seeds
) -> Chosen:
    """The best candidate; `given` are those besides one cluster and trees."""
    one = Candidate("one cluster", WholeSpace(), np.zeros(len(labeled.y), np.int64))
    before = log_loss(labeled.score, labeled.y)
    bins = Bins.of(labeled.score, (int(labeled.rows.group.max()) + 1) * max(SIZES), 0, width=COARSE)
    losses = [_losses(labeled, one.cluster, 1, bins)]
    candidates = [one, *given]
    # Starts of k-means often end in the same clusters: each is compared once.
    named = [_by_first_row(candidate.cluster) for candidate in given]
    distinct = dict(zip(named, given, strict=True))
    compared = at_once(
        lambda c: _losses(labeled, c.cluster, c.partition.n_clusters, bins), list(distinct.values())
    )
    loss_of = dict(zip(distinct, compared, strict=True))
    losses += [loss_of[name] for name in named]
    for candidate, loss in _cut_candidates(labeled, is_category, bins, seeds):
        candidates.append(candidate)
        losses.append(loss)
    group, n_groups = labeled.rows.group, int(labeled.rows.group.max()) + 1
    gains = [sum_by(group, labeled.worth * (losses[0] - loss), n_groups) for loss in losses]
    total = np.array([gain.sum() for gain in gains])
    error = np.array([np.sqrt(n_groups) * gain.std() for gain in gains])
    wins = total > margin(n_groups) * error
    wins[0] = True
    best = int(np.where(wins, total, -np.inf).argmax())
    n = labeled.worth.sum()
    table = {
        "candidate": np.array([c.name for c in candidates], dtype=object),
        "n_clusters": np.array([c.partition.n_clusters for c in candidates]),
        "loss": np.array([float(labeled.worth @ loss / n) for loss in losses]),
        "gain": total / n,
        "gain_error": error / n,
        "chosen": np.arange(len(candidates)) == best,
    }
    return Chosen(candidates[best], table, sum_by(group, labeled.worth * (before - losses[best]), n_groups))


def _by_first_row(cluster: IntArray) -> bytes:
    """Clusters numbered by their first rows: alike for partitions that differ in their numbers alone."""
    _, first, number = np.unique(cluster, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number].tobytes()


def margin(n_groups: int) -> float:
    """Standard errors that a gain must exceed: wide where groups are few.

    >>> round(margin(1000), 1), round(margin(8), 1)
    (2.5, 3.3)
    """
    return float(student.ppf(ndtr(MARGIN), max(n_groups - 1, 1)))


def _cut_candidates(
    labeled: Labeled, is_category: BoolArray, bins: Bins, seeds: Seeds
) -> list[tuple[Candidate, FloatArray]]:
    """Trees, each with the loss of rows by a tree that was grown on the other half of the examples."""
    half = fold_of(labeled.rows.key, 2, seeds.named("halves for cuts"))
    grow = partial(grow_cuts, is_category=is_category, most=max(SIZES))

    def grown(part: Labeled) -> CutPartition:
        return grow(part.rows, part.y, part.score, part.rows.group, part.worth)

    sides = [np.flatnonzero(half == h) for h in range(2)]
    if min(map(len, sides)) < 2:
        return []
    whole, *trees = at_once(grown, [labeled, *(labeled.take(own) for own in sides)])
    found = []
    for k in SIZES:
        if min(tree.n_clusters for tree in (whole, *trees)) < k:
            continue
        loss = np.empty(len(labeled.y))
        for tree, own in zip(trees, sides[::-1], strict=True):
            part = labeled.take(own)
            loss[own] = _losses(part, tree.first(k).predict(part.rows), k, bins) - _losses(
                part, 0 * part.y, 1, bins
            )
        tree = whole.first(k)
        candidate = Candidate(f"cuts, {k} clusters", tree, tree.predict(labeled.rows))
        found.append((candidate, loss + _losses(labeled, 0 * labeled.y, 1, bins)))
    return found


def _losses(labeled: Labeled, cluster: IntArray, n_clusters: int, bins: Bins) -> FloatArray:
    """Log loss of each row, the shift of its cell predicted from the other folds of its group."""
    group, fold, M = labeled.rows.group, labeled.fold, labeled.score.shape[1]
    n_groups = int(group.max()) + 1
    shape = n_groups, n_clusters, M
    score = labeled.score + _levels(labeled, cluster, n_clusters, bins)[cluster]
    cell, weight = group * n_clusters + cluster, labeled.rows.weight

    def sums_of(own: BoolArray) -> LabeledSums:
        return LabeledSums.of(score[own], labeled.y[own], cell[own], weight[own], n_groups * n_clusters, bins)

    whole = sums_of(np.ones(len(fold), bool))
    prior = labeled_prior(whole, n_clusters)

    def evidence_of(sums: LabeledSums) -> Callable[[FloatArray], Evidence]:
        return partial(gather, sums, None, prior, labeled_effect=labeled.effect, population_effect=1.0)

    parameters = learn_labeled(evidence_of(whole), shape).parameters
    loss = np.empty(len(fold))
    for f in range(int(fold.max()) + 1):
        own = fold == f
        shift = labeled_shifts(evidence_of(sums_of(~own)), shape, parameters)
        loss[own] = log_loss(score[own] + shift[group[own], cluster[own]], labeled.y[own])
    return loss


def _levels(labeled: Labeled, cluster: IntArray, n_clusters: int, bins: Bins) -> FloatArray:
    """What labels add to the scores of each cell, shrunken: (n_clusters, M)."""
    M = labeled.score.shape[1]
    sums = LabeledSums.of(labeled.score, labeled.y, cluster, labeled.rows.weight, n_clusters, bins)
    at = np.zeros((4, n_clusters, 1, M))
    found = gather(
        sums, None, labeled_prior(sums, 1), at, labeled_effect=labeled.effect, population_effect=1.0
    )
    response, noise = found.response[:, LABELS, 0], found.noise[:, :M, :M]
    kept = LEVEL_SPREAD**2 * np.linalg.inv(LEVEL_SPREAD**2 * np.eye(M) + noise)
    shrunken: FloatArray = np.einsum("kmn,kn->km", kept, response)
    return shrunken
