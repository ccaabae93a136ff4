"""Is it worth it? The verdict, the gain that Theorem 1 expects, and the gain that hidden labels show."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss, roc_auc_score

from groupshift._diagnosis.findings import is_worth_it
from groupshift._diagnosis.gain import coarser, grouped_auc_gain
from groupshift._diagnosis.sentences import words
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
    assert found.verdict.startswith(
        "No correction made: neither labels nor scores show a shift between groups"
    )
    assert abs(found.overview["loss_gain"]) < 1e-3 * found.overview["loss_global"]
    assert not any("expected" in sentence for sentence in found.gain)


def test_unshrunk_shifts_from_a_few_rows_are_called_harmful():
    data = draw(
        np.random.default_rng(9), share=(0.5, 0.5), labeled=12, unlabeled=12, distance=1.0, n_groups=60
    )
    model = fit_on(data, shrinkage="none")
    found = model.diagnose()
    assert found.worth == "harmful"
    assert "shrinkage='hierarchical'" in found.verdict


def test_theorem_1_expects_the_gain_that_held_out_truth_shows(shifted):
    (X, y, groups, truth), model = shifted
    found = model.diagnose()
    rows = y < 0
    plain = expit(model.learned_.posterior(model._read_rows(X[rows], groups[rows])[0])[0][:, 0])
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


@pytest.mark.parametrize("sign", [1, 0, -1])
def test_a_gain_or_loss_that_rounds_to_nothing_is_not_called_one(shifted, sign):
    overview = {
        "groups": 2.0,
        "loss_global": 0.2970,
        "loss_model": 0.2970 - sign * 0.0001,
        "loss_gain": sign * 0.0001,
        "loss_gain_error": 1e-7,
    }
    worth, finding = is_worth_it(shifted[1], overview)
    (sentence,) = words(finding)
    assert worth == "perhaps"
    assert "no measurable difference on held-out groups (0.2970 both)" in sentence


def test_losses_of_groups_average_to_the_total(shifted):
    found = shifted[1].diagnose()
    table = found.held_out
    for column in ("loss_global", "loss_model"):
        assert np.average(table[column], weights=table["rows"]) == pytest.approx(found.overview[column])


def test_the_verdict_says_what_the_population_gains_with_its_interval(shifted):
    (X, y, groups, truth), model = shifted
    found, rows = model.diagnose(), y < 0
    share, low, high = (found.overview[f"expected_loss_gain{part}"] for part in ("", "_low", "_high"))
    said = " to ".join(f"{100 * v / found.overview['expected_loss']:.1f}" for v in (low, high))
    assert f"({said} %)" in found.verdict
    plain = expit(model.learned_.posterior(model._read_rows(X[rows], groups[rows])[0])[0][:, 0])
    loss = [log_loss(truth[rows], p) for p in (plain, model.predict_proba(X[rows], groups[rows])[:, 1])]
    # Twelve thousand rows know a difference of two losses to some .002.
    assert low - 0.005 < loss[0] - loss[1] < high + 0.005
    assert share == pytest.approx(loss[0] - loss[1], abs=0.01)


def test_a_gain_on_held_out_labels_that_the_population_may_not_have_is_not_called_worth_it(shifted):
    overview = dict(shifted[1].diagnose().overview, expected_loss_gain_low=-0.001)
    worth, finding = is_worth_it(shifted[1], overview)
    assert worth == "perhaps"
    assert "the population may not" in words(finding)[0]


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
