"""Labelled and population rows of one group compared: what it finds, what it refuses, and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pytest
from groupshift._math.views import label_sites
from groupshift._math.within_groups import LabeledMeans, compare
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._math.points import collect_points

N_GROUPS, N_LABELED, N_POPULATION, GAP = 40, 150, 600, 2.0


def made(seed=0, *, by_label=1.2, by_x=0.0, misfit=1.5):
    """Scores whose classes are normal and two apart, each group moved by a misfit of its own.

    Returned are the arguments of `compare`, with shifts that nobody knows, and the true shift of the population of each group.
    """
    rng = np.random.default_rng(seed)
    natural, selected = rng.normal(0, 0.5, N_GROUPS), rng.normal(0, by_label, N_GROUPS)
    moved, chosen = rng.normal(0, misfit, N_GROUPS), rng.normal(0, by_x, N_GROUPS)

    def rows(n, share, move):
        group = np.repeat(np.arange(N_GROUPS), n)
        y = (rng.random(len(group)) < share[group]).astype(int)
        return group, y, rng.normal(GAP * (y - 0.5) + move[group], np.sqrt(GAP))

    group, y, score = rows(N_LABELED, expit(natural + selected), moved + chosen)
    of_population, truth, there = rows(N_POPULATION, expit(natural), moved)
    labeled = LabeledMeans.of(score, y, np.ones(len(y)), group, N_GROUPS)
    labels = label_sites(score, y, np.ones(len(y)), group, N_GROUPS)
    points = collect_points(there, of_population, n_cells=N_GROUPS)
    right = label_sites(there, truth, np.ones(len(truth)), of_population, N_GROUPS)[0]
    none = np.zeros((N_GROUPS, 1))
    return (labeled, labels, points, none, none + 0.8), right


def missed(shift, right):
    """Root mean square of what a shift misses, what all groups have in common aside."""
    error = shift - right
    return float(np.sqrt(((error - error.mean()) ** 2).mean()))


@pytest.mark.parametrize("seed", range(3))
def test_the_comparison_finds_shifts_that_a_misfit_of_each_group_hides(seed):
    arguments, right = made(seed)
    found = compare(*arguments)
    assert missed(found.shift[:, 0], right) < 0.65 * missed(np.zeros(N_GROUPS), right)
    assert found.use > 0.3


def test_its_intervals_hold_the_shifts_of_nine_groups_in_ten():
    held = []
    for seed in range(5):
        arguments, right = made(seed)
        found = compare(*arguments[:4], np.full((N_GROUPS, 1), np.var(right)))
        error = found.shift[:, 0] - right
        held.append(np.abs(error - error.mean()) < 1.645 * np.sqrt(found.variance[:, 0]))
    assert np.mean(held) > 0.87


@pytest.mark.parametrize("seed", range(3))
def test_labels_chosen_by_x_are_not_taken_for_shares(seed):
    by_x, _ = made(seed, by_label=0.0, by_x=1.0)
    by_label, _ = made(seed)
    assert compare(*by_x).use < 0.5 * compare(*by_label).use


def test_shifts_that_are_too_large_are_made_smaller():
    arguments, right = made()
    wrong = 1.0 * np.random.default_rng(9).choice([-1.0, 1.0], (N_GROUPS, 1))
    found = compare(*arguments[:3], wrong, np.full((N_GROUPS, 1), 0.05))
    assert found.scale < 0.6
    assert missed(found.shift[:, 0], right) < missed(wrong[:, 0], right)


def test_right_shifts_are_kept():
    arguments, right = made()
    found = compare(*arguments[:3], right[:, None], np.full((N_GROUPS, 1), 0.05))
    assert found.scale > 0.8
    assert missed(found.shift[:, 0], right) < 0.25


def test_classes_that_change_places_change_the_sign():
    arguments, _ = made()
    labeled, labels, points, shift, variance = arguments
    shift = shift + np.linspace(-1, 1, N_GROUPS)[:, None]
    mirrored = replace(labeled, share=1 - labeled.share, score=-labeled.score)
    there = collect_points(-points.score, points.cell, n_cells=N_GROUPS)
    one = compare(labeled, labels, points, shift, variance)
    other = compare(mirrored, (-labels[0], labels[1]), there, -shift, variance)
    np.testing.assert_allclose(other.shift, -one.shift, atol=1e-9)
    np.testing.assert_allclose(other.variance, one.variance, atol=1e-9)
    assert other.scale == pytest.approx(one.scale, abs=1e-12)


def test_the_order_of_groups_does_not_matter():
    (labeled, labels, points, shift, variance), _ = made()
    order = np.random.default_rng(1).permutation(N_GROUPS)
    shuffled = replace(
        labeled, share=labeled.share[order], score=labeled.score[order], rows=labeled.rows[order]
    )
    there = collect_points(points.score, np.argsort(order)[points.cell], n_cells=N_GROUPS)
    one = compare(labeled, labels, points, shift, variance)
    other = compare(shuffled, (labels[0][order], labels[1][order]), there, shift, variance)
    np.testing.assert_allclose(other.shift, one.shift[order], atol=1e-9)


def test_a_group_without_labels_follows_the_scale_alone():
    (labeled, labels, points, shift, variance), _ = made()
    shift = shift + np.linspace(-1, 1, N_GROUPS)[:, None]
    rows = np.where(np.arange(N_GROUPS) < 5, 0.0, labeled.rows)
    found = compare(replace(labeled, rows=rows), labels, points, shift, variance)
    np.testing.assert_allclose(found.shift[:5], found.scale * shift[:5], atol=1e-9)
    np.testing.assert_array_equal(found.variance[:5], variance[:5])


@pytest.mark.parametrize("lacks", ["gap", "groups", "population"])
def test_nothing_is_changed_where_nothing_can_be_compared(lacks):
    (labeled, labels, points, shift, variance), _ = made()
    shift = shift + 0.3
    if lacks == "gap":
        labeled = replace(labeled, gap=0.0)
    elif lacks == "groups":
        labeled = replace(labeled, rows=np.where(np.arange(N_GROUPS) < 4, labeled.rows, 0.0))
    else:
        points = collect_points(np.zeros(0), np.zeros(0, int), n_cells=N_GROUPS)
    found = compare(labeled, labels, points, shift, variance)
    np.testing.assert_array_equal(found.shift, shift)
    np.testing.assert_array_equal(found.variance, variance)
    assert (found.scale, found.use) == (1.0, 0.0)


def test_scores_that_do_not_tell_classes_apart_have_no_gap():
    rng = np.random.default_rng(0)
    group, y = np.repeat(np.arange(10), 50), rng.integers(0, 2, 500)
    assert LabeledMeans.of(rng.normal(size=500), y, np.ones(500), group, 10).gap == 0.0
    one_class = LabeledMeans.of(rng.normal(size=500), np.ones(500, int), np.ones(500), group, 10)
    assert one_class.gap == 0.0
    assert np.isfinite(one_class.spread)


def test_a_row_of_weight_two_is_two_rows():
    rng = np.random.default_rng(0)
    group, y, score = np.repeat(np.arange(4), 30), rng.integers(0, 2, 120), rng.normal(size=120)
    twice = np.repeat(np.arange(120), 2)
    one = LabeledMeans.of(score, y, np.full(120, 2.0), group, 4)
    other = LabeledMeans.of(score[twice], y[twice], np.ones(240), group[twice], 4)
    np.testing.assert_allclose(one.share, other.share)
    np.testing.assert_allclose((one.gap, one.spread), (other.gap, other.spread))


def volunteers(seed):
    """A table whose groups have features of their own kind, and labels that were chosen by the label."""
    rng = np.random.default_rng(seed)
    n_groups, n = 30, 500
    group = np.repeat(np.arange(n_groups), n)
    y = (rng.random(len(group)) < expit(rng.normal(0, 0.7, n_groups))[group]).astype(int)
    X = rng.normal(size=(len(group), 3)) + 1.2 * y[:, None] + rng.normal(0, 1.0, (n_groups, 3))[group]
    odds = rng.normal(0, 1.0, (n_groups, 2))[group, y] - 1.4
    known = rng.random(len(group)) < expit(odds)
    return X, np.where(known, y, -1), y, group


@pytest.fixture(scope="module")
def of_volunteers():
    """A model of the first such table; no test may change it."""
    X, y, _, group = volunteers(0)
    return GroupShiftClassifier(LogisticRegression(), random_state=0).fit(X, y, groups=group)


def losses(y, p):
    return -np.mean(np.log(np.where(y == 1, p, 1 - p)))


def test_volunteers_in_groups_of_their_own_kind_are_predicted_better_than_without_groups(of_volunteers):
    gains = []
    for seed in range(3):
        X, y, truth, group = volunteers(seed)
        model = of_volunteers
        if seed:
            model = GroupShiftClassifier(LogisticRegression(), random_state=seed).fit(X, y, groups=group)
        rest = y < 0
        p = model.predict_proba(X[rest], group[rest])[:, 1]
        rows, _ = model._read_rows(X[rest], None)
        plain = expit(model.posterior_.score(rows)[0])
        gains.append(losses(truth[rest], plain) - losses(truth[rest], p))
        assert model.view_use_.compared > 0
    assert np.mean(gains) > 0


def test_random_labels_are_not_compared_where_the_user_says_that_they_are():
    X, y, _, group = volunteers(0)
    model = GroupShiftClassifier(LogisticRegression(), selection="random", random_state=0)
    model.fit(X, y, groups=group)
    assert model.view_use_.compared == 0
    assert model.view_use_.scale == 1


def test_the_comparison_is_told(of_volunteers):
    told = str(of_volunteers.diagnose())
    assert "own labelled rows" in told


@pytest.mark.parametrize("share", [-0.3, 1.0, 1.3])
def test_a_share_at_its_limits_has_one_answer(share):
    """Beyond 0 and 1 shares are flat, and steps that are too long would jump around the answer for ever."""
    (labeled, labels, points, shift, _), _ = made()
    far = replace(labeled, share=np.where(np.arange(N_GROUPS) < 3, share, labeled.share))
    far = replace(far, score=np.where(np.arange(N_GROUPS) < 3, points_mean(points), far.score))
    found = compare(far, labels, points, shift, np.full((N_GROUPS, 1), 4.0))
    again = compare(far, labels, points, shift, np.full((N_GROUPS, 1), 4.0 + 1e-9))
    np.testing.assert_allclose(found.shift, again.shift, atol=1e-6)
    assert np.abs(found.shift).max() < 8


def points_mean(points):
    """Mean score of each group: the comparison then shows the share of the labels."""
    return np.bincount(points.cell, points.weight * points.score) / points.weight_sum
