"""What tests of the audit share: a population whose labels came three times as often where they are positive."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier


@dataclass(frozen=True)
class World:
    """A population with its truth, and a model that does not know how labels were chosen."""

    X: np.ndarray
    groups: np.ndarray
    truth: np.ndarray
    labeled: tuple[np.ndarray, np.ndarray, np.ndarray]

    def fit(self, **settings):
        X, y, groups = self.labeled
        unlabeled = np.full(len(self.X), -1)
        model = GroupShiftClassifier(
            **{"estimator": LogisticRegression(), "partition": 1, "random_state": 0, **settings}
        )
        both = np.r_[groups, self.groups]
        return model.fit(np.r_[X, self.X], np.r_[y, unlabeled], groups=both)

    def audit(self, model, **options):
        return model.audit(self.X, self.groups, **options)

    def answers(self, plan, n=None):
        """The table of a plan with true labels of the first n rows."""
        rows = plan.rows if n is None else plan.rows[:n]
        return plan.labeled({int(row): int(self.truth[row]) for row in rows})


def make_world(seed=0, n=3_000, enriched=3):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 10, 2 * n)
    own = rng.normal(0, 0.4, 10)
    X = rng.normal(size=(2 * n, 3))
    y = (rng.random(2 * n) < expit(X @ [1.2, -0.8, 0.0] + own[groups] - 0.3)).astype(int)
    names = np.array([f"g{g}" for g in groups])
    asked = np.flatnonzero(rng.random(n) < np.where(y[:n] == 1, 0.2 * enriched, 0.2))
    return World(X[n:], names[n:], y[n:], (X[asked], y[asked], names[asked]))
