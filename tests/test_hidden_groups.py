"""Groups without labels: judged by classifiers that saw none of a group's labels, with intervals and gains that hold there."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from groupshift._fit.hidden_groups import HiddenGroups, balanced_folds, survives_hiding
from groupshift._fit.judge import Judged, back_to_one_cluster
from groupshift._fit.own_views import MAX_STRETCH, _stretch
from groupshift._fit.trials import LabeledRows, candidate_table, try_partition
from groupshift._math.calibration import mean_offsets
from groupshift._math.views import Predicted
from groupshift._regions.candidates import Candidate
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.tree import DecisionTreeClassifier

from groupshift import GroupShiftClassifier
from groupshift._fit import judge, posterior, stages, trained
from groupshift._regions.partitions import WholeSpace
from shifted_groups import draw, fit_on


@given(sizes=st.lists(st.integers(1, 50), min_size=2, max_size=30), n_folds=st.integers(2, 4))
def test_folds_hold_whole_groups_and_differ_by_less_than_the_largest_of_them(sizes, n_folds):
    group = np.repeat(np.arange(len(sizes)), sizes)
    fold = balanced_folds(group, n_folds, seed=0)
    for g in range(len(sizes)):
        assert len(np.unique(fold[group == g])) == 1
    rows = np.bincount(fold, minlength=n_folds)
    assert rows.max() - rows.min() <= max(sizes)


def telling_groups(seed=0, n_groups=60, n_rows=60, spread=1.5):
    """A feature that names the group, and a share of positives of each group's own: what trees remember of a group
    they cannot know of another."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_rows)
    X = np.c_[rng.normal(size=len(group)), rng.permutation(n_groups)[group]]
    truth = (rng.random(len(group)) < expit(X[:, 0] + rng.normal(0, spread, n_groups)[group])).astype(int)
    return X, truth, group


def log_loss(p, y):
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


@pytest.fixture(scope="module")
def natural():
    """Half of such groups labelled, the others not; the model, and the probabilities of the others."""
    X, truth, group = telling_groups()
    is_labeled = group < 30
    model = GroupShiftClassifier(
        DecisionTreeClassifier(min_samples_leaf=20), partition=1, refine=0, random_state=0
    )
    model.fit(X, np.where(is_labeled, truth, -1), groups=group)
    return model, model.predict_proba(X[~is_labeled], group[~is_labeled])[:, 1], truth, is_labeled, group


def test_the_hidden_loss_is_that_of_groups_whose_labels_the_classifier_never_saw(natural):
    model, p, truth, is_labeled, group = natural
    realised = log_loss(p, truth[~is_labeled])
    hidden = model.diagnose().overview["loss_model"]
    assert hidden == pytest.approx(realised, rel=0.1)
    # With labels in every group the classifier may remember them, and it does: that loss is another one.
    X, truth, group = telling_groups()
    known = np.arange(len(truth)) % 2 == 0
    other = GroupShiftClassifier(
        DecisionTreeClassifier(min_samples_leaf=20), partition=1, refine=0, random_state=0
    ).fit(X, np.where(known, truth, -1), groups=group)
    assert other.learned_.hidden is None
    assert other.diagnose().overview["loss_model"] < hidden - 0.03


def test_intervals_hold_the_shares_of_groups_without_labels(natural):
    model, _, truth, _, group = natural
    table = model.group_shares(by="group", coverage=0.9)
    share = np.array([truth[group == g].mean() for g in table["group"]])
    held = (table["low"] <= share) & (share <= table["high"])
    assert 0.8 <= held.mean() <= 1.0


@pytest.fixture(scope="module")
def partition():
    """Groups with shares of their own in each of two clusters, and log-odds that tell positives; a judge that chose these."""
    rng = np.random.default_rng(0)
    n = 6000
    group, cluster = rng.integers(0, 20, n), rng.integers(0, 2, n)
    y = (rng.random(n) < rng.uniform(0.1, 0.9, (20, 2))[group, cluster]).astype(np.int64)
    log_odds = rng.normal(0, 2, n) + 4 * (y - 0.5)
    rows = LabeledRows(log_odds, y, np.ones(n), group, rng.integers(0, 3, n))
    candidate = SimpleNamespace(n_clusters=2, cluster=cluster)
    judged = SimpleNamespace(
        candidate=candidate, table={}, trained=SimpleNamespace(labeled_rows=lambda problem: rows)
    )
    return judged, log_odds, rng.permutation(log_odds)


def test_a_partition_must_predict_labels_of_groups_that_no_classifier_saw(partition):
    judged, telling, knows_nothing = partition
    assert survives_hiding(None, judged, HiddenGroups(telling, telling, is_rule=True))
    assert not survives_hiding(None, judged, HiddenGroups(knows_nothing, knows_nothing, is_rule=True))
    # Better than one cluster, too, and than no shift.
    assert not survives_hiding(None, judged, HiddenGroups(telling, knows_nothing, is_rule=True))


def test_a_partition_is_not_asked_so_where_groups_have_labels_or_the_user_chose_it(partition):
    judged, _, knows_nothing = partition
    assert survives_hiding(None, judged, HiddenGroups(knows_nothing, knows_nothing, is_rule=False))
    given = SimpleNamespace(**{**vars(judged), "table": None})
    assert survives_hiding(None, given, HiddenGroups(knows_nothing, knows_nothing, is_rule=True))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "one cluster is used"),
        ({"trust": 0.5}, "none of its shifts is used"),
        ({"shrinkage": "none"}, "none of its"),
    ],
)
def test_the_note_and_the_table_say_the_same_of_what_is_used_instead(partition, settings, said):
    judged, _, knows_nothing = partition
    rows = replace(judged.trained.labeled_rows(None), score=knows_nothing)
    scored = SimpleNamespace(labeled_rows=lambda problem: rows, judged=np.arange(len(rows.y)))
    settings = SimpleNamespace(**{"trust": "learned", "shrinkage": "hierarchical", **settings})
    problem = SimpleNamespace(labeled=rows.y, settings=settings)
    names = ["one cluster", "k-means 2"]
    trials = [
        try_partition(rows, np.zeros(len(rows.y), np.int64), 1),
        try_partition(rows, judged.candidate.cluster, 2),
    ]
    candidate = Candidate("k-means 2", WholeSpace(), judged.candidate.cluster)
    chosen = Judged(scored, candidate, trials[1], candidate_table(names, trials, 1, rows))
    fallen = back_to_one_cluster(problem, scored, chosen)
    assert fallen.trial.trust.value == 0
    assert fallen.table["name"][fallen.table["chosen"]].tolist() == ["no shift"]
    assert fallen.table["name"][fallen.table["refuted"]].tolist() == ["k-means 2"]
    assert not chosen.table["refuted"].any()
    (note,) = fallen.notes
    assert said in note.sentence


def test_the_classifier_of_all_rows_is_trained_once_where_a_partition_does_not_hold(monkeypatch, few_trees):
    X, y, groups, _ = two_clusters(np.random.default_rng(0))
    monkeypatch.setattr(stages, "survives_hiding", lambda *_: False)
    n_sets, fit_sets = [], trained.fit_sets

    def counted(estimator, labeled, labels, sets):
        n_sets.extend(len(own) == len(labels) for own in sets)
        return fit_sets(estimator, labeled, labels, sets)

    monkeypatch.setattr(trained, "fit_sets", counted)
    model = GroupShiftClassifier(random_state=0, refine=0, n_jobs=1).fit(X, y, groups=groups)
    assert model.candidates_["refuted"].any()
    assert sum(n_sets) == 1


@pytest.mark.parametrize("is_per_cluster", [True, False])
def test_a_fit_goes_back_to_one_cluster_and_its_classifier_if_the_partition_does_not_hold(
    monkeypatch, few_trees, is_per_cluster
):
    rng = np.random.default_rng(0)
    X, y, groups, _ = two_clusters(rng)
    monkeypatch.setattr(judge, "promises", lambda *_: is_per_cluster)
    monkeypatch.setattr(judge, "confirmed", lambda *_: is_per_cluster)
    # As hidden groups decide; then as if they had not been asked.
    monkeypatch.setattr(stages, "survives_hiding", lambda *_: True)
    kept = GroupShiftClassifier(random_state=0, refine=0).fit(X, y, groups=groups)
    assert kept.n_clusters_ > 1
    one = GroupShiftClassifier(random_state=0, refine=0, partition=1).fit(X, y, groups=groups)
    monkeypatch.setattr(stages, "survives_hiding", lambda *_: False)
    fallen = GroupShiftClassifier(random_state=0, refine=0).fit(X, y, groups=groups)
    assert fallen.n_clusters_ == 1
    assert any("one cluster is used" in note for note in fallen.notes_)
    assert fallen.candidates_["name"][fallen.candidates_["chosen"]].tolist() in (
        ["one cluster"],
        ["no shift"],
    )
    assert len(fallen.candidates_["name"]) == len(kept.candidates_["name"])
    found, expected = (model.predict_proba(X[y < 0], groups[y < 0]) for model in (fallen, one))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def two_clusters(rng, n_groups=24, n_rows=160):
    """Groups with shares of their own on each side of a border; half of the groups have labels."""
    group = np.repeat(np.arange(n_groups), n_rows)
    side = rng.integers(0, 2, len(group))
    truth = (rng.random(len(group)) < rng.uniform(0.05, 0.95, (n_groups, 2))[group, side]).astype(int)
    X = np.c_[8.0 * side + rng.normal(size=len(group)), 2.0 * truth + rng.normal(size=len(group))]
    return X, np.where(group < n_groups // 2, truth, -1), group, truth


def test_the_population_has_the_mean_probability_that_models_of_folds_give_it(monkeypatch, rows, quick):
    X, y, groups = rows
    seen = {}

    def watched(log_odds, wanted, *args):
        seen.update(before=log_odds, wanted=wanted)
        return mean_offsets(log_odds, wanted, *args)

    monkeypatch.setattr(posterior, "mean_offsets", watched)
    # Without a second round, which aligns a model of its own that is not always kept.
    offset = quick(partition=1, refine=0).fit(X, y, groups=groups).learned_.posterior.offset
    assert expit(seen["before"] + offset).mean() == pytest.approx(expit(seen["wanted"]).mean(), abs=1e-4)


def test_few_labelled_groups_cannot_be_hidden_and_nothing_breaks():
    X, truth, group = telling_groups(n_groups=6)
    model = GroupShiftClassifier(DecisionTreeClassifier(max_depth=2), partition=1, refine=0, random_state=0)
    model.fit(X, np.where(group < 3, truth, -1), groups=group)
    assert model.learned_.hidden is None
    assert np.isfinite(model.predict_proba(X[group >= 3], group[group >= 3])).all()


@pytest.mark.parametrize(("spread", "expected"), [(0.0, 1.0), (1.0, 1.0), (2.0, 2.0), (9.0, MAX_STRETCH)])
def test_intervals_are_stretched_as_far_as_hidden_groups_ask(spread, expected):
    rng = np.random.default_rng(0)
    n_groups, n_rows = 400, 4_000
    group = np.repeat(np.arange(n_groups), n_rows)
    miss = 0.1 * spread * rng.normal(size=n_groups)
    y = (rng.random(len(group)) < expit(miss[group])).astype(int)
    everyone = np.zeros(len(group), np.int64)
    rows = LabeledRows(np.zeros(len(group)), y, np.ones(len(group)), group, everyone)
    one = np.ones(1)
    claimed = Predicted(
        np.zeros((n_groups, 1)),
        np.full((n_groups, 1), 0.01),
        np.full(n_groups, 0.01),
        np.zeros(3),
        one,
        one,
        one,
    )
    assert _stretch(rows, np.zeros(len(group)), everyone, claimed) == pytest.approx(expected, rel=0.15)


def test_too_few_groups_stretch_nothing():
    group = np.repeat(np.arange(8), 10)
    rows = LabeledRows(np.zeros(80), np.ones(80, int), np.ones(80), group, np.zeros(80, np.int64))
    one = np.ones(1)
    claimed = Predicted(np.zeros((8, 1)), np.full((8, 1), 1e-6), np.zeros(8), np.zeros(3), one, one, one)
    assert _stretch(rows, np.zeros(80), np.zeros(80, np.int64), claimed) == 1.0


def test_groups_whose_rows_weigh_nothing_stretch_nothing():
    rng = np.random.default_rng(0)
    n_groups, n_rows = 20, 200
    group = np.repeat(np.arange(n_groups), n_rows)
    y = (rng.random(len(group)) < expit(rng.normal(size=n_groups))[group]).astype(np.int64)

    def stretch(own, weight):
        rows = LabeledRows(np.zeros(own.sum()), y[own], weight, group[own], np.zeros(own.sum(), np.int64))
        n, one = rows.n_groups, np.ones(1)
        variance = np.full((n, 1), 0.1)
        claimed = Predicted(np.zeros((n, 1)), variance, np.zeros(n), np.zeros(3), one, one, one)
        return _stretch(rows, np.zeros(len(rows.y)), np.zeros(len(rows.y), np.int64), claimed)

    # As if the last five groups were not there: they say nothing of how wide intervals must be.
    everyone, first = np.ones(len(group), bool), group < 15
    found = stretch(everyone, first.astype(float))
    assert found == stretch(first, np.ones(first.sum()))
    assert found > 1


def test_the_announced_gain_holds_the_one_that_comes():
    held = 0
    for seed in range(4):
        data = draw(np.random.default_rng(seed), n_groups=30, share=(0.2, 0.6))
        X, y, groups, truth = data
        model, plain = fit_on(data), fit_on(data, shares=None, trust=1.0)
        unlabeled = y < 0
        losses = [
            log_loss(m.predict_proba(X[unlabeled], groups[unlabeled])[:, 1], truth[unlabeled])
            for m in (plain, model)
        ]
        found = model.diagnose()
        low, high = (found.overview[f"expected_loss_gain_{end}"] for end in ("low", "high"))
        held += low <= losses[0] - losses[1] <= high
        assert any("log loss is expected to be" in sentence for sentence in found.gain)
    # Nine in ten are to be held.
    assert held >= 3
