"""Cluster weights and class shares of the paper's two settings, and the row counts that follow from them."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray

Counts = Literal["rounded", "binomial"]


class Shares(NamedTuple):
    """What one sample is made of, by group: cluster weights γ[g, k] and shares of positives α[g, k]."""

    weights: FloatArray
    positive: FloatArray

    def cells(self) -> FloatArray:
        """Share of the group's rows in each (group, cluster, class); sums to one over clusters and classes.

        >>> Shares(np.array([[0.5, 0.5]]), np.array([[0.2, 1.0]])).cells()
        array([[[0.4, 0.1], [0. , 0.5]]])
        """
        return self.weights[..., None] * np.stack([1 - self.positive, self.positive], axis=-1)


def draw_shares(
    *, n_groups: int, n_clusters: int, setting: int, rng: np.random.Generator
) -> tuple[Shares, Shares]:
    """Draw (labelled, unlabelled) shares: γ ~ Dirichlet(2), α ~ U(0.01, 0.99).

    In setting 1 one draw serves all groups and both samples; in setting 2 each group and sample has its own.
    """
    if setting not in (1, 2):
        raise ValueError(
            f"setting is {setting!r}, expected 1 (shares common to all) or 2 (each group its own)."
        )
    shape = (2, n_groups) if setting == 2 else (1, 1)
    weights = rng.dirichlet(np.full(n_clusters, 2.0), size=shape)
    positive = rng.uniform(0.01, 0.99, size=(*shape, n_clusters))
    full = (2, n_groups, n_clusters)
    weights, positive = np.broadcast_to(weights, full).copy(), np.broadcast_to(positive, full).copy()
    return Shares(weights[0], positive[0]), Shares(weights[1], positive[1])


def cell_counts(shares: Shares, sizes: IntArray, *, counts: Counts, rng: np.random.Generator) -> IntArray:
    """Rows to draw for each (group, cluster, class), for groups of the given sizes.

    "rounded" is the paper's: size times share, to the closest integer. "binomial" draws them, so that a
    group is a random sample of its shares; only then do intervals for the shares have a coverage.

    >>> shares = Shares(np.array([[1.0]]), np.array([[0.3]]))
    >>> cell_counts(shares, np.array([10]), counts="rounded", rng=np.random.default_rng(0))
    array([[[7, 3]]])
    """
    cells = shares.cells()
    if counts == "rounded":
        return np.rint(cells * sizes[:, None, None]).astype(np.int64)
    if counts == "binomial":
        flat = cells.reshape(len(sizes), -1)
        return rng.multinomial(sizes, flat / flat.sum(axis=1, keepdims=True)).reshape(cells.shape)
    raise ValueError(f'counts is {counts!r}, expected "rounded" (the paper) or "binomial" (random counts).')


def plan_rows(
    both: tuple[Shares, Shares], sizes: Sequence[IntArray], *, counts: Counts, rng: np.random.Generator
) -> tuple[IntArray, ...]:
    """Sample (0 labelled, 1 not), group, cluster and class of each row to draw, in random order.

    `both` are the shares of the labelled and of the unlabelled sample, `sizes` the groups' rows in either.
    """
    n = np.stack([cell_counts(s, size, counts=counts, rng=rng) for s, size in zip(both, sizes, strict=True)])
    # Shuffling the row plan, not the rows, keeps classes mixed at no cost in memory.
    return np.unravel_index(rng.permutation(np.repeat(np.arange(n.size), n.ravel())), n.shape)


def observed_shares(
    truth: IntArray, *, group: IntArray, cluster: IntArray, n_groups: int, n_clusters: int
) -> Shares:
    """The shares that rows really have; NaN where a cell, or a group, has no rows.

    >>> observed_shares(np.array([1, 0, 1]), group=np.array([0, 0, 1]), cluster=np.array([0, 0, 0]),
    ...                 n_groups=2, n_clusters=1).positive
    array([[0.5], [1. ]])
    """
    cell, shape = group * n_clusters + cluster, (n_groups, n_clusters)
    n = np.bincount(cell, minlength=n_groups * n_clusters).reshape(shape)
    positives = np.bincount(cell, weights=truth, minlength=n_groups * n_clusters).reshape(shape)
    # Nothing in nothing is NaN.
    with np.errstate(invalid="ignore"):
        return Shares(n / n.sum(axis=1, keepdims=True), positives / n)
