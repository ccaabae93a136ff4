"""The stages of a fit themselves: what the judge confirms, what a round of learning changes, what group means say."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from groupshift._fit.learned import Learned
from groupshift._fit.trials import (
    LabeledRows,
    choose,
    gain,
    noise_margin,
    try_partition,
    why_none,
    without_shift,
)
from groupshift._math.context import Context
from groupshift._math.dispersion import dispersion
from scipy.special import expit, logit
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from groupshift import GroupShiftClassifier
from groupshift._fit import judge, refine, stages
from groupshift._math.odds import log_loss_rows


def labeled_rows(n_groups=30, n_rows=120, shift=1.5, seed=0):
    """Cross-fitted scores of labelled rows whose groups differ by shifts of the given size; the shift of each row."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), n_rows)
    moved = rng.normal(0, shift, n_groups) if shift else np.zeros(n_groups)
    y = (rng.random(len(group)) < expit(moved)[group]).astype(int)
    # Scores are right for balanced classes: x is one standard deviation to either side.
    score = 2 * (rng.normal(size=len(group)) + 2 * y - 1)
    fold = rng.integers(0, 5, len(group))
    return LabeledRows(score, y, np.ones(len(group)), group, fold), moved[group]


def test_the_judge_confirms_shifts_that_are_there():
    rows, moved = labeled_rows()
    trial = try_partition(rows, np.zeros(len(rows.y), int), 1)
    assert trial.trust.value > 0.7
    assert np.corrcoef(trial.shift, moved)[0, 1] > 0.9
    assert choose([trial], rows) == 0


@pytest.mark.parametrize("seed", range(8))
def test_the_judge_takes_no_shift_where_groups_are_alike(seed):
    rows, _ = labeled_rows(shift=0.0, seed=seed)
    trial = try_partition(rows, np.zeros(len(rows.y), int), 1)
    plain = log_loss_rows(trial.log_odds, rows.y)
    assert choose([trial], rows) is None or abs(gain(plain, trial.loss, rows)[0]) < 1e-3


def test_the_reason_for_no_shift_is_the_one_that_decided():
    rows, _ = labeled_rows()
    trial = try_partition(rows, np.zeros(len(rows.y), int), 1)
    # The loss falls far beyond noise; a trust below the least one is all that speaks against the shifts.
    doubted = dataclasses.replace(trial, trust=dataclasses.replace(trial.trust, value=0.18))
    assert choose([doubted], rows) is None
    assert "trust is 0.18" in why_none([doubted], rows)
    nothing = without_shift(trial, rows)
    assert choose([nothing], rows) is None
    assert "beyond noise" in why_none([nothing], rows)
    assert "trust is" not in why_none([nothing], rows)


def test_clusters_that_say_nothing_are_not_preferred_to_one():
    rows, _ = labeled_rows()
    rng = np.random.default_rng(1)
    whole = try_partition(rows, np.zeros(len(rows.y), int), 1)
    random = [try_partition(rows, rng.integers(0, k, len(rows.y)), k) for k in (2, 4, 8)]
    assert choose([whole, *random], rows) == 0


def test_clusters_with_shifts_of_their_own_are_preferred_to_one():
    one, _ = labeled_rows(seed=1)
    other, _ = labeled_rows(seed=2)
    rows = LabeledRows(
        *(np.concatenate([getattr(r, f) for r in (one, other)]) for f in ("score", "y", "weight")),
        np.concatenate([one.group, other.group]),
        np.concatenate([one.fold, other.fold]),
    )
    cluster = np.repeat([0, 1], len(one.y))
    trials = [try_partition(rows, np.zeros_like(cluster), 1), try_partition(rows, cluster, 2)]
    assert choose(trials, rows) == 1


def test_a_gain_is_measured_with_the_error_of_its_groups():
    rows, _ = labeled_rows(n_groups=4)
    loss = np.zeros(len(rows.y))
    better = -np.choose(rows.group, [0.1, 0.2, 0.3, 0.4])
    mean, error = gain(loss, better, rows)
    assert mean == pytest.approx(0.25)
    # Four groups of one size: the standard error of their mean.
    assert error == pytest.approx(np.std([0.1, 0.2, 0.3, 0.4], ddof=1) / 2)


@pytest.mark.parametrize("n_groups", [2, 5, 100])
def test_fewer_groups_must_gain_more(n_groups):
    assert noise_margin(n_groups) > noise_margin(10 * n_groups)


def test_a_trial_without_its_shift_is_the_plain_classifier():
    rows, _ = labeled_rows()
    trial = try_partition(rows, np.zeros(len(rows.y), int), 1)
    plain = without_shift(trial, rows)
    assert plain.trust.value == 0
    np.testing.assert_array_equal(plain.loss, log_loss_rows(trial.log_odds, rows.y))


def fitted_stages(monkeypatch, rows, **settings):
    """The value that a fit ends in, with all its stages."""
    kept = []
    run = stages.run

    def record(problem):
        kept.append((problem, run(problem)))
        return kept[-1][1]

    monkeypatch.setattr("groupshift._explain.whole_fit.run", record)
    X, y, groups = rows
    settings = {"estimator": LogisticRegression(), "partition": 2, "random_state": 0, **settings}
    model = GroupShiftClassifier(**settings).fit(X, y, groups=groups)
    return model, *kept[0]


def test_stages_are_values_that_cannot_be_changed(monkeypatch, rows):
    _, problem, finished = fitted_stages(monkeypatch, rows)
    parts = [problem, finished, finished.trained, finished.judged, finished.settled, finished.estimate]
    for part in parts:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, dataclasses.fields(part)[0].name, None)


def test_a_fit_leaves_only_its_values_on_the_model(rows, quick):
    X, y, groups = rows
    model = quick()
    before = set(vars(model))
    model.fit(X, y, groups=groups)
    added = set(vars(model)) - before
    assert added == {
        *(
            "schema_",
            "learned_",
            "estimate_",
            "evidence_",
            "audit_",
            "candidates_",
            "notes_",
            "n_features_in_",
        ),
    }


def test_a_refused_round_leaves_the_fit_as_it_was(monkeypatch, rows):
    plain, _, without = fitted_stages(monkeypatch, rows, refine=0)
    monkeypatch.setattr(refine, "confirmed", lambda *_: False)
    monkeypatch.setattr(refine, "promises", lambda *_: True)
    refused, _, finished = fitted_stages(monkeypatch, rows, refine="auto")
    assert "was not confirmed" in refused.notes_[-1]
    np.testing.assert_array_equal(refused.shift_, plain.shift_)
    np.testing.assert_array_equal(finished.judged.trained.score, without.judged.trained.score)


def test_a_kept_round_scores_the_population_by_models_that_did_not_see_it(monkeypatch, rows):
    _, _, finished = fitted_stages(monkeypatch, rows, refine=1)
    learned = finished.settled.learned
    assert isinstance(learned, Learned)
    assert len(learned.population_posterior.models) == len(finished.judged.trained.fold_models)
    assert learned.population_posterior is not learned.posterior


def test_a_classifier_that_memorises_is_not_refined(monkeypatch, rows):
    model, _, _ = fitted_stages(monkeypatch, rows, estimator=DecisionTreeClassifier(), refine=1)
    assert "was not confirmed" in model.notes_[-1]


def test_a_look_at_one_fold_saves_the_others(monkeypatch, rows):
    trained = []
    fit = refine.SoftTraining.fit
    monkeypatch.setattr(
        refine.SoftTraining,
        "fit",
        lambda self, numbers: trained.append(list(numbers)) or fit(self, trained[-1]),
    )
    monkeypatch.setattr(refine, "promises", lambda *_: False)
    fitted_stages(monkeypatch, rows, refine="auto", partition=1)
    assert trained in ([[0]], [])


@pytest.mark.parametrize("limit", [10, 10**6])
def test_unlabelled_rows_are_learned_from_only_where_labelled_ones_are_few(monkeypatch, rows, limit):
    monkeypatch.setattr(refine, "MAX_LABELED_ROWS", limit)
    model, problem, _ = fitted_stages(monkeypatch, rows, refine="auto")
    assert any("learning from unlabelled rows" in note for note in model.notes_) == (len(problem.y) <= limit)


def test_partitions_are_learned_from_labels_only_where_these_differ_by_group(monkeypatch, sample):
    asked, learn = [], judge.learned_partitions
    monkeypatch.setattr(judge, "learned_partitions", lambda *a, **k: asked.append(1) or learn(*a, **k))
    X, y, groups, _ = sample.training()
    fitted_stages(monkeypatch, (X, y, groups), partition="validated", refine=0)
    assert len(asked) == 1
    # Groups dealt out at random are alike.
    alike = np.random.default_rng(0).permutation(groups)
    fitted_stages(monkeypatch, (X, y, alike), partition="validated", refine=0)
    assert len(asked) == 1


def test_where_labels_do_not_differ_by_group_only_clusters_that_the_user_gave_are_tried(sample):
    X, y, groups, _ = sample.training()
    given = KMeans(2, random_state=0, n_init=1).fit(X)
    alike = np.random.default_rng(0).permutation(groups)

    def tried(groups):
        settings = {"estimator": LogisticRegression(), "partition": [given], "refine": 0, "random_state": 0}
        return GroupShiftClassifier(**settings).fit(X, y, groups=groups).candidates_["name"].tolist()

    assert tried(alike) == ["no shift", "one cluster", "given 1"]
    assert {"given 1", "k-means 2"} < set(tried(groups))


@pytest.mark.parametrize("rows_per_cell", [2, 30])
def test_labels_that_differ_by_chance_alone_have_a_dispersion_of_mean_zero_and_variance_one(rows_per_cell):
    rng = np.random.default_rng(0)
    n_cells = 400
    cell = np.repeat(np.arange(n_cells), rows_per_cell)
    log_odds, weight = rng.normal(size=len(cell)), rng.uniform(0.5, 2, len(cell))
    found = [
        dispersion(log_odds, (rng.random(len(cell)) < expit(log_odds)).astype(int), weight, cell, n_cells)
        for _ in range(200)
    ]
    # 200 draws know a mean to 0.07 and a standard deviation to 0.05.
    assert abs(np.mean(found)) < 0.25
    assert 0.85 < np.std(found) < 1.15
    shifted = log_odds + rng.normal(0, 1, n_cells)[cell]
    y = (rng.random(len(cell)) < expit(shifted)).astype(int)
    assert dispersion(log_odds, y, weight, cell, n_cells) > 2


def test_classifiers_for_clusters_are_dropped_whole_where_labels_do_not_confirm_them(monkeypatch, sample):
    X, y, groups, _ = sample.training()
    rows = X, y, groups
    monkeypatch.setattr(judge, "try_per_cluster", lambda *_: None)
    plain, _, without = fitted_stages(monkeypatch, rows, partition="validated", refine=0)
    monkeypatch.undo()
    monkeypatch.setattr(judge, "confirmed", lambda *_: False)
    refused, _, finished = fitted_stages(monkeypatch, rows, partition="validated", refine=0)
    np.testing.assert_array_equal(refused.shift_, plain.shift_)
    np.testing.assert_array_equal(finished.judged.trained.score, without.judged.trained.score)


def context_of(slope, n_groups=60, seed=0):
    """Group means that explain shifts by the given slope, and the shifts."""
    rng = np.random.default_rng(seed)
    center = rng.normal(size=n_groups)
    group = np.repeat(np.arange(n_groups), 100)
    embedded = rng.normal(size=(len(group), 3))
    embedded[:, 0] += center[group]
    truth = slope * center + rng.normal(0, 0.1, n_groups)
    variance = np.full(n_groups, 0.04)
    observed = truth + rng.normal(0, 0.2, n_groups)
    context = Context().fit(embedded, group, np.ones(len(group)), n_groups).learn(observed, variance)
    return context, embedded, group, truth


def test_group_means_that_explain_shifts_predict_them_without_the_groups_own_labels():
    context, _, _, truth = context_of(slope=0.8)
    assert np.corrcoef(context.left_out_, truth)[0, 1] > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_group_means_that_explain_nothing_predict_next_to_nothing(seed):
    context, _, _, _ = context_of(slope=0.0, seed=seed)
    assert np.abs(context.left_out_).max() < 0.1


def test_a_group_far_outside_the_labelled_ones_is_predicted_to_lie_near_the_middle():
    context, embedded, group, _ = context_of(slope=0.8)
    mean = np.stack([embedded[group == g].mean(0) for g in range(60)]) @ context.basis_
    rows, unlabeled = np.full(61, 100.0), np.full(61, -1)
    far = np.vstack([mean, 50 * mean[np.abs(mean[:, 0]).argmax()]])
    effect = context.predict(far, rows, unlabeled)
    assert abs(effect[-1]) < np.abs(effect[:-1]).max()


def test_known_shares_are_checked_before_anything_is_trained(rows, quick):
    class Untrainable(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError("trained too early")

    X, y, groups = rows
    with pytest.raises(ValueError, match="nowhere"):
        quick(estimator=Untrainable()).fit(X, y, groups=groups, known_shares={"nowhere": 0.5})


def test_shares_of_the_mixture_follow_the_truth_of_the_trial():
    rows, _ = labeled_rows(n_groups=60, n_rows=400)
    trial = try_partition(rows, np.zeros(len(rows.y), int), 1)
    truth = np.array([rows.y[rows.group == g].mean() for g in range(60)])
    estimate = expit(logit(rows.y.mean()) + trial.shift[np.searchsorted(rows.group, np.arange(60))])
    # Four hundred rows tell a share to about 0.04 through scores of this sharpness, and pooling adds a little.
    assert np.abs(estimate - truth).mean() < 0.06


def test_a_single_candidate_is_spoken_of_as_one():
    chosen = SimpleNamespace(name="one cluster")
    trial = SimpleNamespace(trust=SimpleNamespace(value=1.0))
    table = {"name": np.array(["no shift", "one cluster"])}
    judged = judge.Judged(SimpleNamespace(estimator=None), chosen, trial, table)
    problem = SimpleNamespace(settings=SimpleNamespace(trust="learned"))
    (note,) = judge._described(problem, judged).notes
    assert note.sentence == "The judge chose 'one cluster' of 1 candidate, with trust 1.00."
