"""Sets of classes hold the true one at their rate in every group, where sets that know no shift do not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from class_samples import draw_table
from conftest import make_quick
from groupshift import GroupShiftClassifier, load, save
from groupshift._scores.contrasts import contrasts
from groupshift._shifts.prediction_sets import held_out_sums
from groupshift._shifts.sums import Bins
from shifted_groups import draw, fit_on


def held(sets, truth, classes):
    return sets[np.arange(len(truth)), np.searchsorted(classes, truth)]


def by_group(values, groups):
    return np.array([values[groups == g].mean() for g in np.unique(groups)])


def split_conformal(X, y, new, coverage):
    """Sets by one threshold of held-out rows, shifts unknown."""
    half = len(y) // 2
    model = LogisticRegression().fit(X[:half], y[:half])
    unusual = 1 - model.predict_proba(X[half:])[np.arange(len(y) - half), y[half:]]
    level = np.quantile(unusual, np.ceil((len(unusual) + 1) * coverage) / len(unusual), method="inverted_cdf")
    return 1 - model.predict_proba(new) <= level


@pytest.fixture(scope="module")
def two_classes():
    data = draw(
        np.random.default_rng(0), n_groups=12, labeled=300, unlabeled=2_000, distance=1.5, share=(0.02, 0.6)
    )
    return data, fit_on(data, estimator=LogisticRegression())


@pytest.mark.parametrize("coverage", [0.9, 0.95])
def test_two_classes_are_covered_in_every_group(two_classes, coverage):
    (X, y, groups, truth), model = two_classes
    own = y < 0
    sets = model.predict_sets(X[own], groups[own], coverage=coverage)
    found = by_group(held(sets, truth[own], model.classes_), groups[own])
    # The likeliest class is in a set although it were not needed: of groups that are easy, more are covered.
    assert coverage - 0.01 < found.mean() < coverage + 0.02
    # 2,000 rows have an error of .007 each, and thresholds come from 3,600 labelled ones and an estimated share.
    assert found.min() > coverage - 0.03


def test_without_shifts_some_groups_are_covered_far_too_rarely(two_classes):
    (X, y, groups, truth), _ = two_classes
    known, own = y >= 0, y < 0
    order = np.random.default_rng(0).permutation(known.sum())
    sets = split_conformal(X[known][order], y[known][order], X[own], 0.9)
    assert by_group(held(sets, truth[own], np.array([0, 1])), groups[own]).min() < 0.85


@pytest.mark.parametrize("partition", [1, 3])
def test_several_classes_are_covered_in_every_group(partition):
    X, y, groups, truth = draw_table(labeled=400, unlabeled=1_500, n_groups=8)
    model = GroupShiftClassifier(LogisticRegression(), partition, random_state=0, unlabeled_value=None)
    model.fit(X, y, groups=groups)
    own = np.array([label is None for label in y])
    sets = model.predict_sets(X[own], groups[own])
    found = by_group(held(sets, truth[own], model.classes_), groups[own])
    assert found.mean() == pytest.approx(0.9, abs=0.015)
    assert np.abs(found - 0.9).max() < 0.05
    assert sets.sum(1).mean() < 3


def test_sets_grow_with_coverage_and_are_never_empty(two_classes):
    (X, y, groups, _), model = two_classes
    own = np.flatnonzero(y < 0)[:2_000]
    small, large = (model.predict_sets(X[own], groups[own], coverage=c) for c in (0.6, 0.95))
    assert np.all(small <= large)
    assert small.any(1).all()
    likeliest = model.predict_proba(X[own], groups[own]).argmax(1)
    assert small[np.arange(len(own)), likeliest].all()


def test_groups_that_were_not_seen_have_sets_too(two_classes):
    (X, y, _, truth), model = two_classes
    own = y < 0
    with pytest.warns(UserWarning, match="had no unlabelled rows"):
        sets = model.predict_sets(X[own], np.full(own.sum(), "elsewhere"))
    assert held(sets, truth[own], model.classes_).mean() > 0.85


def test_a_class_with_hardly_any_label_is_in_every_set_of_a_cell_that_has_it():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(200, int), np.ones(3, int), np.full(400, -1)]
    X = rng.normal(size=(603, 2)) + np.r_[np.zeros(200), np.ones(3), rng.random(400) < 0.5][:, None]
    with pytest.warns(UserWarning, match="No groups"):
        model = make_quick(partition=1).fit(X, y, known_overall=0.5)
    # Three labels stand for half of the rows: a fourth would be a sixth of them, and may look like anything.
    assert model.predict_sets(X[-400:])[:, 1].all()


def test_what_is_kept_of_held_out_scores_is_small_and_exact_where_scores_are():
    z = np.repeat([[-1.0], [0.5]], 500, 0)
    y = np.tile([0, 1], 500)
    sums = held_out_sums(z, y, np.zeros(1000, int), np.ones(1000), 1, Bins())
    assert len(sums.cell) <= 8
    assert sums.by_cell(sums.weight[:, None] * sums.score)[:, 0] == pytest.approx([-125, -125])
    z = contrasts(np.log(np.random.default_rng(0).dirichlet(np.ones(3), 5_000)))
    bins = Bins.of(z, 4, 0)
    sums = held_out_sums(
        z, np.random.default_rng(0).integers(0, 3, 5_000), np.zeros(5_000, int), np.ones(5_000), 1, bins
    )
    assert len(sums.cell) <= 3 * len(bins.prototypes)


def test_a_saved_model_has_the_same_sets(two_classes, tmp_path):
    pytest.importorskip("skops")
    (X, y, groups, _), model = two_classes
    save(model, tmp_path / "m.gshift")
    rows = X[y < 0][:100], groups[y < 0][:100]
    assert np.array_equal(load(tmp_path / "m.gshift").predict_sets(*rows), model.predict_sets(*rows))


def test_a_model_of_too_few_labels_has_no_sets():
    rng = np.random.default_rng(0)
    y = np.r_[0, 0, 0, 1, np.full(50, -1)]
    with pytest.warns(UserWarning, match="No groups"):
        model = make_quick(partition=1).fit(rng.normal(size=(54, 2)), y)
    with pytest.raises(ValueError, match="no held-out scores"):
        model.predict_sets(rng.normal(size=(3, 2)))


def test_an_impossible_coverage_is_refused(two_classes):
    with pytest.raises(ValueError, match="coverage=1"):
        two_classes[1].predict_sets(np.zeros((1, 2)), ["g00"], coverage=1)
