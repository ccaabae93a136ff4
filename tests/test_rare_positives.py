"""Rare positives: probabilities stay at their rate, order is kept, and clusters that show one class claim nothing."""

import numpy as np
import pytest
from groupshift._fit.posterior import FINEST_EDGE, choose_edge, hold, probability_edge
from groupshift._fit.trials import MIN_CLASS_ROWS, expected_prior, rarer_class_rows
from groupshift._math.calibration import PlattScaling
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from groupshift import METHODS, GroupShiftClassifier


def rows(rng, n, share, distance=1.2, n_features=5):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, n_features)) + distance * y[:, None], y


@pytest.mark.parametrize("rate", [0.003, 0.01, 0.05, 0.3, 0.7, 0.95, 0.99])
@pytest.mark.parametrize("spread", [0.5, 3.0, 20.0])
def test_platt_scaling_finds_the_maximum_whatever_the_rate(rate, spread):
    rng = np.random.default_rng(0)
    score = spread * rng.standard_t(3, 4000)
    y = (rng.random(4000) < expit(0.6 * score / spread + logit(rate))).astype(int)
    one = np.zeros(4000, int)
    found = PlattScaling().fit(score, y, np.ones(4000), one, 1)
    best = LogisticRegression(C=1e8, tol=1e-10, max_iter=10_000).fit(score[:, None] / spread, y)
    np.testing.assert_allclose(found.slope_[0] * spread, best.coef_[0, 0], rtol=0.02, atol=0.01)
    np.testing.assert_allclose(expit(found.transform(score, one)).mean(), y.mean(), rtol=0.01)


def test_clusters_of_any_rate_are_calibrated_side_by_side():
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(3), 5000)
    score = 4 * rng.normal(size=15_000)
    y = (rng.random(15_000) < expit(0.5 * score + np.array([-7, 0, 6])[cluster])).astype(int)
    found = PlattScaling().fit(score, y, np.ones(15_000), cluster, 3)
    mean = np.bincount(cluster, expit(found.transform(score, cluster))) / 5000
    np.testing.assert_allclose(mean, np.bincount(cluster, y) / 5000, atol=0.003)


def test_holding_log_odds_keeps_their_order_and_what_lies_inside():
    log_odds = np.linspace(-40, 40, 2001)
    held = hold(log_odds, 0.01)
    assert (np.diff(held) > 0).all()
    inside = np.abs(log_odds) < logit(0.99)
    np.testing.assert_array_equal(held[inside], log_odds[inside])
    assert np.abs(held).max() < logit(0.99) + 0.1


def test_unanimous_votes_are_held_and_true_log_odds_are_not():
    rng = np.random.default_rng(2)
    true = rng.normal(-6, 6, 3000)
    y = (rng.random(3000) < expit(true)).astype(int)
    assert choose_edge(true, y, np.ones(3000)) < probability_edge(3000)
    # Votes of ten: a row with probability 0.1 gets none of them every third time.
    share = rng.beta(1, 4, 3000)
    votes = np.clip(rng.binomial(10, share) / 10, FINEST_EDGE, 1 - FINEST_EDGE)
    labels = (rng.random(3000) < share).astype(int)
    assert choose_edge(logit(votes), labels, np.ones(3000)) == probability_edge(3000)


@pytest.mark.parametrize("rate", [0.01, 0.04, 0.95])
def test_without_shift_probabilities_add_up_and_rank_as_the_classifiers_do(rate):
    rng = np.random.default_rng(3)
    X, y = rows(rng, 9000, rate)
    known = np.where(np.arange(9000) < 3000, y, -1)
    groups = rng.integers(0, 10, 9000)
    model = GroupShiftClassifier(partition=1, random_state=0).fit(X, known, groups=groups)
    new, truth = X[3000:], y[3000:]
    p = model.predict_proba(new, groups=groups[3000:])[:, 1]
    assert p.mean() == pytest.approx(truth.mean(), rel=0.4, abs=0.004)
    bare = clone(model.posterior_.classifier).fit(X[:3000], y[:3000])
    auc = roc_auc_score(truth, bare.predict_proba(new)[:, 1])
    assert roc_auc_score(truth, p) > auc - 0.01


def test_an_expected_prior_makes_labelled_rows_a_sample_without_shift():
    rng = np.random.default_rng(4)
    log_odds, cluster = rng.normal(-3, 2, 500), rng.integers(0, 2, 500)
    prior = expected_prior(log_odds, np.ones(500), cluster, 2)
    for k in range(2):
        q = expit(log_odds[cluster == k])
        # The derivative of the likelihood of a share, at that share.
        assert ((q - prior[k]) / (prior[k] * (1 - prior[k]))).mean() == pytest.approx(0, abs=1e-9)


def test_a_cluster_speaks_with_twenty_examples_of_its_rarer_class():
    y = np.repeat([0, 1, 0, 1, 1], [500, 19, 500, 20, 500])
    cluster = np.repeat([0, 0, 1, 1, 2], [500, 19, 500, 20, 500])
    assert rarer_class_rows(y, cluster, 3, 1.0).tolist() == [19, 20, 0]
    # Each example twice: half as many.
    assert rarer_class_rows(y, cluster, 3, 2.0).tolist() == [9.5, 10, 0]
    assert MIN_CLASS_ROWS == 20


@pytest.mark.parametrize("seed", [2, 3])
def test_enriched_labels_of_a_rare_class_do_not_make_shifts_run_away(seed):
    """A quarter of the labels is positive, one in a hundred of the population; a region has next to no positives at all."""
    rng = np.random.default_rng(seed)
    n_groups, n_labeled, n_unlabeled = 30, 100, 600
    share = expit(rng.normal(-4.6, 0.7, n_groups))
    enriched = expit(logit(share) + 3.5)
    parts = []
    for g in range(n_groups):
        for n, rate, labeled in ((n_labeled, enriched[g], True), (n_unlabeled, share[g], False)):
            X, y = rows(rng, n, rate, distance=1.5)
            parts.append((X, np.where(labeled, y, -1), y, np.full(n, g)))
    X, known, truth, groups = (np.concatenate(column) for column in zip(*parts, strict=True))
    new = known < 0
    trees = HistGradientBoostingClassifier(max_iter=30, early_stopping=False, random_state=0)
    # Who enriches labels knows that they were chosen by the label: in all groups alike, which no data show.
    told = GroupShiftClassifier(trees, selection="by_label", random_state=0)
    methods = told, METHODS["global"](trees, calibration="crossfit")
    ours, plain = (
        method.fit(X, known, groups=groups).predict_proba(X[new], groups=groups[new])[:, 1]
        for method in methods
    )
    assert log_loss(truth[new], ours) < log_loss(truth[new], plain) - 0.02
    assert roc_auc_score(truth[new], ours) > roc_auc_score(truth[new], plain) - 0.01
    assert ours.mean() < 3 * truth[new].mean()


def test_without_labels_to_hide_half_of_every_shift_is_used_and_doubted():
    rng = np.random.default_rng(6)
    share = np.array([0.2, 0.4, 0.7, 0.5])
    groups = np.repeat(np.arange(4), 600)
    X, y = rows(rng, 2400, share[groups], distance=1.0)
    known = np.where(groups == 3, y, -1)
    settings = {"partition": 1, "random_state": 0}
    model = GroupShiftClassifier(**settings).fit(X, known, groups=groups)
    full = GroupShiftClassifier(**settings).fit(X, known, groups=groups)
    assert model.trust_ == 0.5
    assert "half of every shift is used" in " ".join(model.diagnose().gain)
    np.testing.assert_allclose(model.shift_, full.shift_ / 2)
    # A number anywhere between 0 and 1 has the variance 1/12.
    np.testing.assert_allclose(model.shift_variance_, full.shift_variance_ / 4 + full.shift_**2 / 12)
    widths = [(t["high"] - t["low"]).mean() for t in (m.group_shares(by="group") for m in (model, full))]
    # Half of a shift is doubted by far more than half of its error.
    assert widths[0] > 0.75 * widths[1]


class Counted(LogisticRegression):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(("share", "n_folds"), [(0.05, 5), (0.3, 3)])
def test_many_rows_with_few_of_one_class_are_cross_fitted_as_few_rows(share, n_folds):
    X, y = rows(np.random.default_rng(7), 10_500, share)
    known = np.where(np.arange(10_500) < 10_200, y, -1)
    Counted.fits = 0
    model = GroupShiftClassifier(Counted(), partition=1, random_state=0)
    model.fit(X, known, groups=np.arange(10_500) % 5)
    # One for each fold, and the last one on all rows.
    assert Counted.fits == n_folds + 1
