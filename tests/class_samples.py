"""Small tables of several classes in groups whose shares differ, for whole fits."""

import numpy as np


def draw_table(n_groups=12, labeled=60, unlabeled=120, n_classes=4, apart=1.2, seed=0, shifted=True):
    """Features, classes by name (None: unlabelled), groups, true classes."""
    rng = np.random.default_rng(seed)
    middle = np.random.default_rng(99).normal(size=(n_classes, 3)) * apart
    names = np.array([f"class {chr(97 + c)}" for c in range(n_classes)], object)
    parts = []
    for g in range(n_groups):
        for n, has_label in ((labeled, True), (unlabeled, False)):
            share = rng.dirichlet(np.ones(n_classes)) if shifted else np.full(n_classes, 1 / n_classes)
            truth = rng.choice(n_classes, n, p=share)
            parts.append((truth, np.full(n, f"g{g:02d}", object), np.full(n, has_label)))
    truth, groups, has_label = (np.concatenate(column) for column in zip(*parts, strict=True))
    X = middle[truth] + rng.normal(size=(len(truth), 3))
    return X, np.where(has_label, names[truth], None), groups, names[truth]
