"""Rare positives: probabilities stay at their rate, order is kept, and enriched labels do not run away."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from groupshift import METHODS, GroupShiftClassifier
from groupshift._scores.members import LARGEST_SCORE, held
from groupshift._scores.stack import STACK_RIDGE, combine
from groupshift._shifts.evidence import LabeledSums, labeled_prior
from groupshift._shifts.sums import Bins


def rows(rng, n, share, distance=1.2, n_features=5):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, n_features)) + distance * y[:, None], y


@pytest.mark.parametrize("rate", [0.003, 0.01, 0.05, 0.3, 0.7, 0.95, 0.99])
@pytest.mark.parametrize("spread", [0.5, 3.0, 20.0])
def test_calibration_finds_the_maximum_whatever_the_rate(rate, spread):
    rng = np.random.default_rng(0)
    # No score that is stacked lies beyond it.
    score = np.clip(spread * rng.standard_t(3, 4000), -LARGEST_SCORE, LARGEST_SCORE)
    y = (rng.random(4000) < expit(0.6 * score / spread + logit(rate))).astype(int)
    found = combine(score[:, None, None], y, np.ones(4000))
    p = expit(found(score[:, None, None])[:, 0])
    assert p.mean() == pytest.approx(y.mean(), rel=0.01)
    # The pull towards a weight of one stands beside the slope of the likelihood, and nothing else does.
    pull = STACK_RIDGE * (found.weights[0] - 1)
    assert (p - y) @ score + pull == pytest.approx(0, abs=1e-3 * np.abs(score).sum())


def test_holding_log_odds_keeps_their_order_and_what_lies_inside():
    log_odds = np.linspace(-40, 40, 2001)
    found = held(log_odds, 0.01)
    assert (np.diff(found) > 0).all()
    inside = np.abs(log_odds) < logit(0.99)
    np.testing.assert_array_equal(found[inside], log_odds[inside])
    assert np.abs(found).max() < logit(0.99) + 0.1


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
    trees = HistGradientBoostingClassifier(max_leaf_nodes=15, early_stopping=False, random_state=0)
    bare = trees.fit(X[:3000], y[:3000])
    auc = roc_auc_score(truth, bare.predict_proba(new)[:, 1])
    assert roc_auc_score(truth, p) > auc - 0.01


def test_the_labelled_prior_makes_labelled_rows_a_sample_without_shift():
    rng = np.random.default_rng(4)
    log_odds, cluster = rng.normal(-3, 2, (500, 1)), rng.integers(0, 2, 500)
    y, one = (rng.random(500) < 0.1).astype(int), np.ones(500)
    prior = expit(labeled_prior(LabeledSums.of(log_odds, y, cluster, one, 2, Bins(0.0)), 2))[:, 0]
    for k in range(2):
        # The derivative of the likelihood of a share, at that share.
        assert (expit(log_odds[cluster == k, 0]) - prior[k]).mean() == pytest.approx(0, abs=1e-9)


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


class Counted(LogisticRegression):
    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_scores_are_cross_fitted_in_five_folds_however_rare_a_class_is(share):
    X, y = rows(np.random.default_rng(7), 10_500, share)
    known = np.where(np.arange(10_500) < 10_200, y, -1)
    Counted.fits = 0
    model = GroupShiftClassifier(Counted(), partition=1, random_state=0, n_jobs=1)
    model.fit(X, known, groups=np.arange(10_500) % 5)
    # One for each fold, and the last one on all rows.
    assert Counted.fits == 5 + 1
