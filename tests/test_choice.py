"""Which partition is chosen: cells whose groups differ are found however labels were chosen, and none where nothing differs."""

import numpy as np
import pytest
from scipy.special import expit

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture


def population(*, setting, n_features=16, n_clusters=8, seed=1):
    """Rows of fifty groups with their labels."""
    sample = make_grouped_mixture(
        n_features=n_features,
        n_clusters=n_clusters,
        n_groups=50,
        labeled_per_group=(2, 0),
        unlabeled_per_group=(240, 20),
        setting=setting,
        random_state=seed,
    )
    own = ~sample.labeled
    return sample.X[own], sample.truth[own], sample.groups[own]


def chosen(y, groups, how, rng):
    """Which rows are labelled, about a fifth."""
    names, group = np.unique(groups, return_inverse=True)
    strength = {
        "at random": np.zeros((len(names), 2)),
        "by the label": np.tile([-0.75, 0.75], (len(names), 1)),
        "by volunteers": rng.normal(0, 1, (len(names), 2)),
    }[how]
    return rng.random(len(y)) < expit(-1.5 + strength[group, y])


@pytest.mark.parametrize("how", ["at random", "by the label", "by volunteers"])
def test_generated_cells_are_found_however_labels_were_chosen(how):
    X, y, groups = population(setting=2)
    known = chosen(y, groups, how, np.random.default_rng(0))
    model = GroupShiftClassifier(random_state=0).fit(X, np.where(known, y, -1), groups=groups)
    assert model.n_clusters_ == 8


@pytest.mark.parametrize("how", ["at random", "by the label", "by volunteers"])
def test_where_there_are_no_cells_there_is_one_cluster(how):
    X, y, groups = population(setting=2, n_features=4, n_clusters=1)
    known = chosen(y, groups, how, np.random.default_rng(0))
    model = GroupShiftClassifier(random_state=0).fit(X, np.where(known, y, -1), groups=groups)
    assert model.n_clusters_ == 1
