"""Generated groups of several classes: the truth that comes with them is true."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from groupshift import METHODS, GroupShiftClassifier
from groupshift.datasets import make_grouped_classes


@pytest.fixture(scope="module")
def sample():
    return make_grouped_classes(n_classes=5, n_groups=20, n_clusters=2, random_state=0)


def test_shares_and_posteriors_are_those_of_the_rows(sample):
    population = sample.y < 0
    for g, name in enumerate(sample.group_names[:5]):
        for k in range(2):
            own = population & (sample.groups == name) & (sample.cluster == k)
            real = np.bincount(sample.truth[own], minlength=5) / own.sum()
            # Four standard errors of a share of some 200 rows.
            np.testing.assert_allclose(real, sample.shares[g, k], atol=0.15)
    np.testing.assert_allclose(sample.posterior.sum(1), 1)
    # A posterior is calibrated: of rows with 30 to 40 % for a class, so many are of that class.
    for c in range(5):
        inside = (sample.posterior[:, c] > 0.3) & (sample.posterior[:, c] < 0.4)
        assert abs((sample.truth[inside] == c).mean() - 0.35) < 0.1


def test_one_setting_has_equal_shares_everywhere():
    sample = make_grouped_classes(n_classes=3, n_groups=4, setting=1, random_state=0)
    np.testing.assert_allclose(sample.shares, 1 / 3)


def test_the_method_lies_between_the_plain_classifier_and_the_bayes_limit():
    sample = make_grouped_classes(n_classes=4, n_groups=30, apart=1.0, random_state=1)
    X, y, groups, ids = sample.training()
    fit = {"groups": groups, "example_ids": ids}
    quick = {"random_state": 0, "n_jobs": 1}
    model = GroupShiftClassifier(LogisticRegression(), partition=1, **quick).fit(X, y, **fit)
    plain = METHODS["global"](LogisticRegression(), **quick).fit(X, y, **fit)
    X, truth, groups = sample.testing()
    limit = log_loss(truth, sample.posterior[sample.test])
    losses = [log_loss(truth, m.predict_proba(X, groups)) for m in (model, plain)]
    assert limit < losses[0] < losses[1]
    # Most of what shifts can gain is gained.
    assert losses[1] - losses[0] > 0.6 * (losses[1] - limit)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least two classes"):
        make_grouped_classes(n_classes=1)
