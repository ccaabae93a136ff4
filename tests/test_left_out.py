"""Who labels is chosen by the label, group by group, and a feature tells the group: no shift is made that harms."""

import numpy as np
import pytest
from scipy.special import expit

from groupshift import GroupShiftClassifier

pd = pytest.importorskip("pandas")


def volunteers(seed, n_groups=30, n_rows=300):
    """Every group has labels, positives and negatives of each at rates of their own; `place` tells the group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_rows)
    truth = (rng.random(len(group)) < 0.3).astype(int)
    X = pd.DataFrame({"place": group * 1.0, "x": 0.5 * truth + rng.normal(size=len(group))})
    known = rng.random(len(group)) < expit(rng.normal(size=(n_groups, 2))[group, truth] - 1.4)
    return X, np.where(known, truth, -1), group, truth


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_that_a_classifier_has_by_heart_make_no_shift_that_costs_much(seed):
    X, y, group, truth = volunteers(seed)
    model = GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=group)
    hidden = y < 0
    blind = GroupShiftClassifier(partition=1, shares=None, shrinkage="none", random_state=0)
    p, plain = (
        m.predict_proba(X[hidden], group[hidden])[:, 1] for m in (model, blind.fit(X, y, groups=group))
    )

    def loss(p):
        return -np.mean(np.where(truth[hidden] == 1, np.log(p), np.log(1 - p)))

    # A hundredth of the loss: held-out labels are not quite held out here, and the evidence is too sure by that much.
    assert loss(p) < 1.01 * loss(plain)
