"""Is it worth it? The verdict, the gain that Theorem 1 expects, and the gain that hidden labels show."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from groupshift._explain import verdict
from groupshift._explain.expected_gain import coarser, grouped_auc_gain
from groupshift._math.points import collect_points
from shifted_groups import draw, fit_on


def test_shifts_between_groups_are_worth_it(shifted):
    found = shifted[1].diagnose()
    assert found.worth == "yes"
    assert found.sentences[0] == found.verdict
    assert found.verdict.startswith("Worth it")
    assert found.overview["loss_gain"] > 3 * found.overview["loss_gain_error"]


def test_without_shift_it_is_not_worth_it_and_nothing_is_lost():
    data = draw(np.random.default_rng(8), share=(0.4, 0.4))
    model = fit_on(data, partition="validated")
    found = model.diagnose()
    assert found.worth == "no"
    assert found.verdict.startswith("Not worth it, and nothing lost")
    assert found.overview["loss_gain"] == 0
    assert not any("expected" in sentence for sentence in found.gain)


def test_unshrunk_shifts_from_a_few_rows_are_called_harmful():
    data = draw(
        np.random.default_rng(9), share=(0.5, 0.5), labeled=12, unlabeled=12, distance=1.0, n_groups=60
    )
    model = fit_on(data, shrinkage="none")
    found = model.diagnose()
    assert found.worth == "harmful"
    assert "trust='learned'" in found.verdict


def test_theorem_1_expects_the_gain_that_held_out_truth_shows(shifted):
    (X, y, groups, truth), model = shifted
    found = model.diagnose()
    rows = y < 0
    plain = expit(model.posterior_.score(model._read_rows(X[rows], groups[rows])[0])[0])
    before = roc_auc_score(truth[rows], plain)
    after = roc_auc_score(truth[rows], model.predict_proba(X[rows], groups=groups[rows])[:, 1])
    # 40 groups of 300 rows: AUCs of 12,000 rows have standard errors of 0.003, shares of 300 rows cost less.
    assert found.overview["expected_auc_gain"] == pytest.approx(after - before, abs=0.01)
    assert found.overview["expected_auc_without_group"] == pytest.approx(before, abs=0.02)
    low, high = found.overview["expected_auc_gain_low"], found.overview["expected_auc_gain_high"]
    assert low <= found.overview["expected_auc_gain"] <= high
    assert high - low < 0.02


def test_coarser_points_keep_weights_and_means():
    rng = np.random.default_rng(10)
    points = collect_points(rng.normal(size=500), rng.integers(0, 3, 500), n_cells=3, weight=rng.random(500))
    fewer = coarser(points)
    assert len(fewer.score) < len(points.score)
    for cell in range(3):
        assert fewer.weight[fewer.cell == cell].sum() == pytest.approx(points.weight_sum[cell])
    assert fewer.weight @ fewer.score == pytest.approx(points.weight @ points.score)


def test_error_of_the_auc_gain_agrees_with_leaving_groups_out():
    rng = np.random.default_rng(11)
    group = np.repeat(np.arange(50), 40)
    y = (rng.random(2000) < rng.uniform(0.2, 0.8, 50)[group]).astype(int)
    before = y + rng.normal(0, 1, 2000)
    after = before + rng.normal(0, 0.5, 50)[group]
    first, second, error = grouped_auc_gain(before, after, y, np.ones(2000), group, 50)
    assert first == pytest.approx(roc_auc_score(y, before))
    assert second == pytest.approx(roc_auc_score(y, after))
    without = [
        roc_auc_score(y[group != g], after[group != g]) - roc_auc_score(y[group != g], before[group != g])
        for g in range(50)
    ]
    jackknife = np.sqrt(49 / 50 * ((np.array(without) - np.mean(without)) ** 2).sum())
    assert error == pytest.approx(jackknife, rel=0.05)


def test_hidden_label_losses_are_the_judges():
    model = fit_on(draw(np.random.default_rng(12), n_groups=8), partition="validated")
    overview = model.diagnose().overview
    table = model.candidates_
    assert overview["loss_global"] == pytest.approx(table["loss"][0])
    # What is used of the chosen candidate's shifts was weighed once more: hidden labels must not regret it.
    assert overview["loss_model"] < overview["loss_global"]


@pytest.fixture
def seen(monkeypatch):
    """The problems and finished fits that evidence is recorded of."""
    from groupshift._explain import whole_fit

    seen, run = [], whole_fit.run

    def record(problem):
        seen.append((problem, run(problem)))
        return seen[-1][1]

    monkeypatch.setattr(whole_fit, "run", record)
    return seen


def loss_decided_on(problem, finished):
    judged = finished.judged.trained.judged
    return np.average(finished.settled.loss, weights=problem.labeled.weight[judged])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "partition": "validated",
        },
        {
            "partition": 2,
        },
    ],
)
def test_recorded_loss_is_the_one_that_fit_decided_on(settings, seen):
    model = fit_on(draw(np.random.default_rng(20), n_groups=16, labeled=80, unlabeled=80), **settings)
    assert model.diagnose().overview["loss_model"] == pytest.approx(loss_decided_on(*seen[0]))


def in_context(distance, estimator=None):
    """A model of groups that have a feature which tells their share of positives, and nothing about their rows."""
    rng = np.random.default_rng(21)
    X, y, groups, truth = draw(rng, n_groups=30, distance=distance)
    for group in np.unique(groups):
        own = groups == group
        X[own, 1] += logit(truth[own & (y >= 0)].mean())
    first = ColumnTransformer([("first", "passthrough", [0])])
    estimator = GaussianNB() if estimator is None else estimator
    return fit_on((X, y, groups, truth), estimator=make_pipeline(first, estimator))


def test_recorded_loss_counts_what_groups_have_in_context(seen):
    model = in_context(distance=0.7)
    assert model.context_ is not None
    assert model.diagnose().overview["loss_model"] == pytest.approx(loss_decided_on(*seen[0]))


def test_shifts_by_mean_features_are_not_called_unused():
    # A classifier that knows nothing: scores say nothing about shares, the groups' features do.
    model = in_context(distance=0.7, estimator=DummyClassifier(strategy="prior"))
    assert model.trust_ == 0
    assert np.any(model.shift_)
    found = model.diagnose()
    assert any(sentence.endswith("none of what scores suggest is used.") for sentence in found.gain)
    assert found.gain[-1].startswith("Labels confirm that groups with similar features have similar shifts")
    assert "their mean features" in " ".join(model.summary().split())


def test_shifts_by_mean_features_are_named_beside_others():
    model = in_context(distance=0.7)
    assert model.trust_ > 0
    assert model.diagnose().gain[-1].startswith("Labels also confirm that groups with similar features")
    assert "unlabelled rows (" in model.summary()
    assert "their mean features" in " ".join(model.summary().split())


@pytest.mark.parametrize("sign", [1, 0, -1])
def test_a_gain_or_loss_that_rounds_to_nothing_is_not_called_one(shifted, sign):
    overview = {
        "groups": 2.0,
        "loss_global": 0.2970,
        "loss_model": 0.2970 - sign * 0.0001,
        "loss_gain": sign * 0.0001,
        "loss_gain_error": 1e-7,
    }
    worth, sentence = verdict.is_worth_it(shifted[1], overview)
    assert worth == "perhaps"
    assert "as good as no difference" in sentence
    assert "0.0 %" not in sentence


def test_losses_of_groups_average_to_the_total(shifted):
    found = shifted[1].diagnose()
    table = found.hidden_labels
    for column in ("loss_global", "loss_model"):
        assert np.average(table[column], weights=table["rows"]) == pytest.approx(found.overview[column])


def test_observed_shifts_follow_estimated_ones(shifted):
    table = shifted[1].diagnose().hidden_labels
    assert np.corrcoef(table["estimated_shift"], table["observed_shift"])[0, 1] > 0.9


def test_trust_above_all_is_said_in_words_not_in_thousands_of_percent(shifted):
    # Groups of a few rows are pooled to next to no shift, of which labels then ask for forty times as much.
    overview = {"trust_estimate": 40.41, "trust_error": 12.0}
    model = fit_on(shifted[0])
    sentence = next(verdict.gain_sentences(model, overview))
    assert sentence.startswith("Labels confirm the full size of the shifts")
    assert "90 % of every shift is used" in sentence
    assert "4041" not in sentence


def test_published_shifts_are_worth_it_where_rows_are_many():
    # A fifth of the labelled rows is held out, and only these can be hidden: 100 in each of the groups.
    data = draw(np.random.default_rng(0), labeled=500, unlabeled=500)
    model = fit_on(data, shrinkage="none", shares="em", calibration="holdout")
    assert model.diagnose().worth == "yes"


def test_the_less_the_data_support_a_shift_the_smaller_it_is():
    """The README's first sentence: groups of the same shares, with ever fewer rows."""
    X, y, groups, _ = draw(np.random.default_rng(3), n_groups=30, labeled=200, unlabeled=400)
    size = []
    for step in (1, 8, 64):
        part = np.flatnonzero(np.arange(len(y)) % step == 0)
        size.append(np.abs(fit_on((X[part], y[part], groups[part], None)).shift_).mean())
    assert size[0] > size[1] > 2 * size[2]
