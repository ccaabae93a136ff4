"""Answers that were wrong once: claims about what the public estimator must never say again, on small generated tables."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from groupshift import GroupShiftClassifier
from groupshift._shifts.effects import MOST_ROUNDS, hypotheses, learn_effects
from test_effects import evidence_of


def model(**settings):
    return GroupShiftClassifier(LogisticRegression(), random_state=0, **{"partition": 1} | settings)


def without_shifts():
    return model(shares=None, shrinkage="none")


def loss(found, X, y, group, truth):
    hidden = y < 0
    p = found.fit(X, y, groups=group).predict_proba(X[hidden], group[hidden])
    return log_loss(truth[hidden], p)


def half_labeled(rng, group, truth):
    """Labels of all rows of a random half of the groups."""
    n_groups = group.max() + 1
    return np.where((rng.permutation(n_groups) < n_groups // 2)[group], truth, -1)


def three_classes(seed, n_groups=20, n_rows=150):
    """Groups whose features differ a little, and whose shares do not: there is nothing to shift."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_rows)
    truth = rng.choice(3, len(group), p=softmax([0.8, 0.2, -1]))
    middle = 0.7 * np.random.default_rng(9).normal(size=(3, 4))
    X = middle[truth] + rng.normal(size=(len(group), 4)) + 0.3 * rng.normal(size=(n_groups, 4))[group]
    return X, half_labeled(rng, group, truth), group, truth


@pytest.mark.parametrize("selection", ["unknown", "random"])
def test_three_classes_without_labels_in_half_of_the_groups_stay_where_the_classifier_puts_them(selection):
    """Once: log loss .22 above no shift in a draw, and a share of 29 % where the truth was 14 %."""
    added = []
    for seed in range(5):
        data = three_classes(seed)
        added.append(loss(model(selection=selection), *data) - loss(without_shifts(), *data))
    assert np.max(added) < 0.01
    assert np.mean(added) < 0.005


def shares_of(found, groups):
    table = found.group_shares(by="group")
    at = {g: i for i, g in enumerate(np.asarray(table["group"]).tolist())}
    return np.asarray(table["share"])[[at[g] for g in groups.tolist()]]


def test_shares_of_groups_without_labels_are_better_than_none_where_the_assumption_is_true():
    """Once: by a stage that calibrated hidden groups by themselves, two to four times as far off as with no such stage."""
    error = {"ours": [], "none": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(24), 200)
        truth = (rng.random(len(group)) < expit(rng.normal(-0.5, 0.8, 24))[group]).astype(int)
        X = rng.normal(size=(len(group), 3)) + truth[:, None]
        y = half_labeled(rng, group, truth)
        silent = np.unique(group[y < 0])
        true = np.array([truth[group == g].mean() for g in silent])
        for name, found in (("ours", model()), ("none", without_shifts())):
            error[name] += (shares_of(found.fit(X, y, groups=group), silent) - true).tolist()
    ours, none = (np.sqrt(np.mean(np.square(error[name]))) for name in ("ours", "none"))
    assert ours < 0.8 * none


@pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_random_labels_without_groups_leave_shares_unshifted(n_classes):
    """Once: ignored for three classes, with a shift of 2.13. The labels here are anything but random."""
    X, _, _, truth = three_classes(0)
    truth = np.minimum(truth, n_classes - 1)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(len(truth)) < np.where(truth == 1, 0.1, 0.5), truth, -1)
    told = model(selection="random").fit(X, y)
    asked = model(selection="by_label").fit(X, y)
    assert np.abs(told.shift_).max() < 0.01
    assert np.abs(asked.shift_).max() > 0.1
    assert np.abs(told.common_shift_.mean).max() == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_few_labels_never_turn_the_ranking_round(seed):
    """Once: a calibration slope of −.37 and an AUC of .339 where a plain classifier has .618."""
    rng = np.random.default_rng(seed)
    X, truth = rng.normal(size=(2000, 8)), (rng.random(2000) < 0.5).astype(int)
    X[:, 0] += 0.6 * truth
    y = np.where(np.arange(2000) < 80, truth, -1)
    group = rng.integers(0, 5, 2000)
    found = GroupShiftClassifier(random_state=0, partition=1).fit(X, y, groups=group)
    assert (found.learned_.posterior.scorer.combination.weights >= 0).all()
    hidden = y < 0
    assert roc_auc_score(truth[hidden], found.predict_proba(X[hidden], group[hidden])[:, 1]) > 0.5


def one_group(seed, n_rows, shift):
    rng = np.random.default_rng(seed)
    y = (rng.random(400) < 0.4).astype(int)
    truth = (rng.random(n_rows) < expit(logit(0.4) + shift * rng.normal())).astype(int)
    X = rng.normal(size=(400 + n_rows, 2)) + 1.2 * np.r_[y, truth][:, None]
    return X, np.r_[y, np.full(n_rows, -1)], truth.mean()


@pytest.mark.parametrize("n_rows", [50, 1000])
def test_intervals_of_a_single_group_hold_their_level(n_rows):
    """Once: 45, 65 and 86 % of them. The shift of all rows alike is drawn as the wide interval allows for."""
    held = []
    for seed in range(30):
        X, y, share = one_group(seed, n_rows, 0.42)
        table = model().fit(X, y, groups=np.zeros(len(y), int)).group_shares(by="group")
        held.append(table["low"][0] - 1e-9 <= share <= table["high"][0] + 1e-9)
    assert np.mean(held) >= 0.88


@pytest.mark.parametrize("n_rows", [50, 1000])
def test_without_a_shift_the_narrow_interval_of_a_single_group_holds_too(n_rows):
    held = []
    for seed in range(30):
        X, y, share = one_group(seed, n_rows, 0.0)
        table = model().fit(X, y, groups=np.zeros(len(y), int)).group_shares(by="group")
        held.append(table["narrow_low"][0] - 1e-9 <= share <= table["narrow_high"][0] + 1e-9)
    assert np.mean(held) >= 0.85


@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_the_search_for_shifts_ends_with_few_groups(n_groups):
    """Once: a variance of .166, .054, .357, .117 after 48, 49, 50, 51 passes."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        by = evidence_of(*rng.normal(0, 0.6, (2, n_groups, 2)), 60, 200, rng)
        found = [
            learn_effects(by, (n_groups, 2, 1), np.zeros(n_groups, bool), hypotheses("unknown"), rounds)
            for rounds in (MOST_ROUNDS, 4 * MOST_ROUNDS, 4 * MOST_ROUNDS + 1)
        ]
        np.testing.assert_allclose(found[2].mean, found[1].mean, atol=1e-6)
        np.testing.assert_allclose(found[1].mean, found[0].mean, atol=0.02)


def test_a_misfit_of_both_samples_does_not_narrow_intervals():
    """Once: the comparison of a group with its own labels counted rows twice, and 82 % held where 95 % should."""
    held = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labeled, population = rng.normal(0, 0.6, (2, 50, 1))
        population -= population.mean()
        misfit = np.repeat(rng.normal(0, 0.3, 50), 1)[:, None]
        by = evidence_of(labeled, population, 100, 300, rng, misfit)
        found = learn_effects(by, (50, 1, 1), np.zeros(50, bool), hypotheses("unknown"))
        held.append(
            np.abs(found.mean[:, 0, 0] - population[:, 0]) < 1.645 * np.sqrt(found.covariance[:, 0, 0])
        )
    assert np.mean(held) >= 0.85


def twelve_groups(seed):
    rng = np.random.default_rng(seed)
    group, is_labeled = np.repeat(np.arange(12), 280), np.tile(np.arange(280) < 80, 12)
    share = expit(rng.normal(-0.3, 0.6, (2, 12)))[is_labeled.astype(int), group]
    truth = (rng.random(len(group)) < share).astype(int)
    X = rng.normal(size=(len(group), 5)) + 0.6 * truth[:, None] * [1, 1, 1, 0, 0]
    return X, np.where(is_labeled, truth, -1), group


@pytest.mark.parametrize("seed", [0, 1])
def test_other_names_seeds_and_orders_of_columns_move_probabilities_little(seed):
    """Once: by .03 to .13 on average, and up to .58."""
    X, y, group = twelve_groups(seed)
    hidden = y < 0

    def p(X=X, group=group, random_state=0):
        found = GroupShiftClassifier(random_state=random_state, partition=1).fit(X, y, groups=group)
        return found.predict_proba(X[hidden], group[hidden])[:, 1]

    first, names = p(), np.random.default_rng(1).permutation(12)
    np.testing.assert_allclose(p(group=names[group]), first, atol=1e-9)
    for other in (p(random_state=1), p(X=X[:, ::-1])):
        assert np.abs(other - first).mean() < 0.02
        assert np.abs(other - first).max() < 0.1
