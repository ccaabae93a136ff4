"""Prototypes of posteriors: rows that say nearly the same of all classes are counted together (NumPy)."""

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray

# Rows that prototypes are learned from, for each of them: more move them little.
ROWS_EACH = 40
MAX_ROUNDS = 12
# Distances of so many pairs of rows and prototypes are held at a time: they stay in the processor's cache.
MAX_PAIRS = 100_000


def learn_prototypes(posterior: FloatArray, n_prototypes: int, seed: int) -> FloatArray:
    """k-means centres of √p, (n_prototypes, n_classes): equal distances of square roots are equally hard to tell apart.

    Fewer where rows are fewer, or where some would be alike.

    >>> learn_prototypes(np.eye(3)[[0, 1, 0, 1]], 8, seed=0).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    root = np.sqrt(posterior)
    rng = np.random.default_rng(seed)
    if len(root) > ROWS_EACH * n_prototypes:
        root = root[np.sort(rng.permutation(len(root))[: ROWS_EACH * n_prototypes])]
    # In the order of rows, not of their values: that would depend on the order of classes.
    distinct = np.sort(np.unique(root.round(6), axis=0, return_index=True)[1])
    centre = root[np.sort(distinct[rng.permutation(len(distinct))[:n_prototypes]])]
    for _ in range(MAX_ROUNDS):
        own = nearest(root**2, centre)
        rows = np.bincount(own, minlength=len(centre))
        sums = np.zeros_like(centre)
        np.add.at(sums, own, root)
        moved = np.divide(sums, rows[:, None], out=centre.copy(), where=rows[:, None] > 0)
        if np.abs(moved - centre).max() < 1e-4:
            break
        centre = moved
    return centre


def nearest(posterior: FloatArray, prototypes: FloatArray) -> IntArray:
    """Number of the prototype that is nearest to each row."""
    found = np.empty(len(posterior), np.int64)
    height = (prototypes**2).sum(1) / 2
    step = max(1, MAX_PAIRS // len(prototypes))
    for start in range(0, len(posterior), step):
        part = slice(start, start + step)
        closeness = np.sqrt(posterior[part]) @ prototypes.T
        closeness -= height
        found[part] = np.argmax(closeness, axis=1)
    return found
