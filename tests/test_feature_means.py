"""Whether labels were chosen by the label: what the means of all features say together."""

from dataclasses import replace

import numpy as np
import pytest
from groupshift._math.feature_means import BELIEVED, ByLabel, FeatureMeans, MeanSums
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier

N_FEATURES = 8


def drawn(choose, seed=0, n_rows=20_000, n_groups=25):
    """Features, truth, group and who is labelled: by `choose`, a function of features and truth that gives log-odds."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n_rows)
    y = (rng.random(n_rows) < expit(rng.normal(-0.4, 0.3, n_groups))[group]).astype(int)
    X = rng.normal(size=(n_rows, N_FEATURES)) + rng.normal(0, 0.5, N_FEATURES) * y[:, None]
    labeled = rng.random(n_rows) < expit(choose(X, y) - 1.5)
    return X, y, group, labeled


def at_random(X, y):
    return np.zeros(len(y))


def by_label(X, y):
    return 1.0 * y


def by_features(X, y):
    return X @ np.random.default_rng(7).normal(0, 0.4, X.shape[1])


CHOICES = [at_random, by_label, by_features]


def compared(X, y, group, labeled, *, n_parts=25, cut=None):
    """What feature means say, one cluster; `cut` splits the population's rows into two chunks."""
    score = LogisticRegression().fit(X[labeled], y[labeled]).decision_function(X)
    one, n = np.ones(len(y)), int(labeled.sum())
    means = FeatureMeans.of(
        X[labeled],
        score[labeled],
        y[labeled],
        one[:n],
        group[labeled],
        np.zeros(n, int),
        telling=np.ones(1, bool),
        n_parts=n_parts,
    )
    chunks = np.split(np.flatnonzero(~labeled), [] if cut is None else [cut])
    sums = [
        MeanSums.of(
            means.project(X[c], score[c]), one[c], group[c], np.zeros(len(c), int), means.sums.weight.shape
        )
        for c in chunks
    ]
    total = sums[0] if cut is None else sums[0] + sums[1]
    return means.compare(total, y[labeled].mean(keepdims=True), design_effect=1.0, by_label=0.5)


def true_shift(y, labeled):
    return logit(y[~labeled].mean()) - logit(y[labeled].mean())


@pytest.mark.parametrize("choose", CHOICES)
def test_chunks_names_of_groups_and_units_of_features_do_not_matter(choose):
    X, y, group, labeled = drawn(choose)
    found = compared(X, y, group, labeled)
    renamed = np.random.default_rng(1).permutation(25)[group]
    for other in (
        compared(X, y, group, labeled, cut=1_234),
        compared(X, y, renamed, labeled),
        compared(X + 5.0, y, group, labeled),
        compared(X[:, ::-1], y, group, labeled),
    ):
        # The regression that makes the scores stops at its own tolerance.
        assert other.probability == pytest.approx(found.probability, abs=1e-3)
        np.testing.assert_allclose(other.shift, found.shift, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_choice_by_the_label_is_believed_and_found(seed):
    X, y, group, labeled = drawn(by_label, seed)
    found = compared(X, y, group, labeled)
    assert found.is_believed
    assert abs(found.shift[0] - true_shift(y, labeled)) < 3 * np.sqrt(found.variance[0])
    assert np.sqrt(found.variance[0]) < 0.25


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("choose", [at_random, by_features])
def test_no_other_choice_is(choose, seed):
    assert not compared(*drawn(choose, seed)).is_believed


def test_a_single_feature_cannot_tell_the_two_apart():
    X, y, group, labeled = drawn(by_label)
    assert compared(X[:, :1], y, group, labeled).probability < BELIEVED


def test_groups_that_differ_make_their_means_less_certain():
    """Half of the groups labelled: what they differ by in features passes for no choice by the label."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(12), 1_000)
    X = rng.normal(size=(len(group), N_FEATURES)) + rng.normal(0, 0.4, (12, N_FEATURES))[group]
    y = (rng.random(len(group)) < expit(X.sum(1) / 2)).astype(int)
    found = compared(X, y, group, group < 6)
    assert not found.is_believed


def test_a_cluster_that_tells_nothing_follows_the_others():
    X, y, group, labeled = drawn(by_label)
    score = LogisticRegression().fit(X[labeled], y[labeled]).decision_function(X)
    cluster = (np.arange(len(y)) % 4 == 0).astype(int)
    n = int(labeled.sum())
    means = FeatureMeans.of(
        X[labeled],
        score[labeled],
        y[labeled],
        np.ones(n),
        group[labeled],
        cluster[labeled],
        telling=np.array([True, False]),
        n_parts=25,
    )
    rest = ~labeled
    shape = means.sums.weight.shape
    ones = np.ones(int(rest.sum()))
    sums = MeanSums.of(means.project(X[rest], score[rest]), ones, group[rest], cluster[rest], shape)
    prior = np.full(2, y[labeled].mean())
    found = means.compare(sums, prior, design_effect=1.0, by_label=0.5)
    assert found.is_believed
    assert found.shift[1] == pytest.approx(found.shift[0])
    assert found.variance[1] > found.variance[0]
    silent = replace(means, telling=np.zeros(2, bool))
    assert silent.compare(sums, prior, design_effect=1.0, by_label=0.5).probability == 0


@pytest.mark.parametrize("choose", CHOICES)
def test_the_model_takes_a_common_shift_only_where_features_agree_on_it(choose):
    X, y, group, labeled = drawn(choose, n_rows=12_000)
    model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0)
    model.fit(X, np.where(labeled, y, -1), groups=group)
    caution = " ".join(model.diagnose().caution)
    is_by_label = choose is by_label
    assert (model.view_use_.by_label >= BELIEVED) == is_by_label
    assert ("The features agree" in caution) == is_by_label
    if is_by_label:
        # The way is that of the shift in use, whatever scores say at face value.
        assert ("positives were over-represented among labels" in caution) == (y[labeled].mean() > y.mean())
        use = model.view_use_
        model.estimate_ = replace(model.estimate_, use=replace(use, common_shift=-use.common_shift))
        assert " ".join(model.diagnose().caution) == caution
    # A choice by the label moves the share by 0.2; how strongly labels might be chosen by x besides leaves a third of it open.
    assert model.overall_share().share == pytest.approx(y[~labeled].mean(), abs=0.07)


def test_who_said_that_labels_were_chosen_by_the_label_is_not_asked_to_say_so():
    X, y, group, labeled = drawn(by_label, n_rows=12_000)
    found = {}
    for selection in ("unknown", "by_label"):
        model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0, selection=selection)
        model.fit(X, np.where(labeled, y, -1), groups=group)
        # As where features do not agree, and half of what scores say is used.
        use = replace(model.view_use_, by_label=np.nan, common=0.5)
        model.estimate_ = replace(model.estimate_, use=use)
        found[selection] = " ".join(model.diagnose().caution)
    assert "cannot reveal it" in found["unknown"]
    assert "cannot reveal it" not in found["by_label"]
    assert "You said that labels were chosen by the label: what scores say" in found["by_label"]


def test_an_update_asks_the_features_of_the_new_rows():
    X, y, group, labeled = drawn(by_label, n_rows=12_000)
    rest = np.flatnonzero(~labeled)
    model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0)
    model.fit(X, np.where(labeled, y, -1), groups=group)
    # New rows like the labelled ones: nothing to shift.
    alike = model.update(X[labeled], group[labeled])
    assert alike.view_use_.by_label < BELIEVED
    again = model.update(X[rest], group[rest])
    assert again.view_use_.by_label >= BELIEVED


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("far", [1e12, 1e200])
def test_rows_that_lie_so_far_out_that_nothing_is_seen_beside_them_tell_nothing(far):
    X, y, group, labeled = drawn(by_label, n_rows=2_000)
    row = np.flatnonzero(~labeled)[0]
    X[row] = far
    found = compared(X, y, group, labeled)
    assert not found.is_believed
    assert np.isfinite([*found.shift, *found.variance]).all()


def test_a_common_shift_that_means_hardly_tell_is_mostly_not_made(monkeypatch):
    X, y, group, labeled = drawn(by_label, n_rows=12_000)
    shift = {}
    for variance in (0.05, 1.0):
        told = ByLabel(0.95, np.array([-2.5]), np.array([variance]))
        monkeypatch.setattr(FeatureMeans, "compare", lambda *a, told=told, **k: told)
        model = GroupShiftClassifier(LogisticRegression(), 1, refine=0, random_state=0)
        model.fit(X, np.where(labeled, y, -1), groups=group)
        shift[variance] = model.estimate_.unseen_shift[0]
        assert model.estimate_.common_variance[0] >= variance
    assert shift[0.05] == -2.5
    assert -0.5 < shift[1.0] < 0
