"""What tests of diagnoses share: groups with shares of their own, and a model of them."""

import numpy as np
from sklearn.naive_bayes import GaussianNB

from groupshift import GroupShiftClassifier


def draw(rng, *, n_groups=40, labeled=150, unlabeled=300, share=(0.1, 0.9), spread=0.0, distance=2.0):
    """Groups with their own shares of two Gaussian classes; `spread` moves both classes of a group."""
    parts = []
    for g in range(n_groups):
        step = rng.normal(0, spread)
        for n, known in ((labeled, True), (unlabeled, False)):
            y = (rng.random(n) < rng.uniform(*share)).astype(int)
            X = rng.normal(0, 1, (n, 2)) + np.c_[distance * y + step, np.zeros(n)]
            parts.append((X, y, np.full(n, f"g{g:02d}"), np.full(n, known)))
    X, truth, groups, known = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, np.where(known, truth, -1), groups, truth


def fit_on(data, *, estimator=None, **settings):
    """A model of such groups: one cluster, unless a test asks for more."""
    X, y, groups, _ = data
    estimator = GaussianNB() if estimator is None else estimator
    model = GroupShiftClassifier(estimator, random_state=0, **{"partition": 1, **settings})
    return model.fit(X, y, groups=groups)
