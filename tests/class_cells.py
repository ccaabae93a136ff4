"""Cells of several normal classes whose posteriors are known exactly."""

import numpy as np
from scipy.special import softmax


def draw_cells(n_cells=6, n_rows=80, n_classes=4, apart=2.0, seed=0, shares=None):
    """Posteriors (n_cells, n_rows, n_classes) under the labelled shares, those shares, true shares and classes."""
    rng = np.random.default_rng(seed)
    labeled = rng.dirichlet(5 * np.ones(n_classes))
    shares = rng.dirichlet(np.ones(n_classes), n_cells) if shares is None else shares
    middle = rng.normal(size=(n_classes, 4)) * apart / 2
    y = np.stack([rng.choice(n_classes, n_rows, p=own) for own in shares])
    x = middle[y] + rng.normal(size=(n_cells, n_rows, 4))
    score = -((x[:, :, None, :] - middle) ** 2).sum(-1) / 2 + np.log(labeled)
    return softmax(score, axis=2), labeled, shares, y
