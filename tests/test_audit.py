"""An audit on the estimator: which rows are asked for, what their labels change, and what is kept."""

import copy

import numpy as np
import pytest

from audit_world import make_world
from conftest import probability
from groupshift import GroupShiftClassifier, load, save

# The features show a part of it, and the fit corrects that: what is left to the audit is a factor of three.
WORLD = make_world(enriched=5)


@pytest.fixture(scope="module")
def model():
    """A fitted model that no test may change."""
    return WORLD.fit()


@pytest.fixture(scope="module")
def plan(model):
    return WORLD.audit(model, budget=50)


@pytest.fixture(scope="module")
def learned(model, plan):
    return copy.deepcopy(model).learn_audit(WORLD.answers(plan))


def share(model):
    return model.overall_share().share


def test_the_same_seed_asks_for_the_same_rows_and_another_for_others(model, plan):
    assert WORLD.audit(model, budget=50).rows.tolist() == plan.rows.tolist()
    assert set(WORLD.audit(model, budget=50, seed=1).rows) != set(plan.rows)
    assert len({*plan.rows, *plan.spares}) == 60


def test_a_larger_budget_asks_for_the_same_rows_first(model, plan):
    assert WORLD.audit(model, budget=80).rows[:50].tolist() == plan.rows.tolist()


def test_rows_weighted_by_their_inclusion_stand_for_all_rows(plan):
    # How fast 50 rows finish varies by a seventh, and the number that they stand for with it: three standard errors.
    assert (1 / plan.inclusion).sum() == pytest.approx(len(WORLD.X), rel=0.45)


def test_more_labels_buy_narrower_intervals_and_smaller_errors(plan):
    known = plan.precision
    assert known["labels"].tolist() == [25, 50, 100, 200]
    assert np.all(np.diff(known["width"]) < 0)
    assert np.all(np.diff(known["smallest_error"]) < 0)


def test_the_audit_finds_that_positives_were_labelled_more_often(model, learned):
    truth = WORLD.truth.mean()
    assert share(model) - truth > 0.15
    assert abs(share(learned) - truth) < 0.08  # two standard errors of 50 labels' help
    low, high = learned.audit_.posterior.interval(0.9)
    assert low < truth < high
    assert learned.audit_.verdicts.share_is_wrong
    # Positives came five times as often, of which the fit has corrected a part.
    left = 5 * np.exp(model.common_shift_.mean[0])
    assert np.exp(-learned.audit_.common.mean) == pytest.approx(left, rel=0.5)


def test_the_design_based_share_does_not_need_the_model(learned):
    found = learned.audit_.design
    assert abs(found.share - WORLD.truth.mean()) < 3 * found.std_error
    assert 0.03 < found.std_error < 0.08


def test_shares_are_the_means_of_predictions_after_an_audit_too(learned):
    p = probability(learned, WORLD.X, WORLD.groups)
    # Bins of the points are 1/256 wide.
    assert share(learned) == pytest.approx(p.mean(), abs=1e-4)
    table = learned.group_shares(by="group")
    means = [p[WORLD.groups == g].mean() for g in table["group"]]
    assert table["share"] == pytest.approx(means, abs=1e-3)


def test_intervals_become_narrower(model, learned):
    before, after = (m.group_shares(by="group") for m in (model, learned))
    assert np.mean(after["high"] - after["low"]) < 0.9 * np.mean(before["high"] - before["low"])
    rows = WORLD.X[:200], WORLD.groups[:200]
    before, after = (m.predict_details(*rows) for m in (model, learned))
    assert np.mean(after["high"] - after["low"]) < np.mean(before["high"] - before["low"])


def test_looking_early_changes_nothing_of_what_comes_later(model, plan, learned):
    peeked = copy.deepcopy(model)
    for n in (1, 10, 30, 50):
        peeked.learn_audit(WORLD.answers(plan, n))
    assert np.array_equal(peeked.shift_, learned.shift_)
    assert np.array_equal(peeked.audit_.verdicts.share_money, learned.audit_.verdicts.share_money)
    early = copy.deepcopy(model).learn_audit(WORLD.answers(plan, 10)).audit_.verdicts.share_money
    assert early == pytest.approx(learned.audit_.verdicts.share_money[:10])


def test_an_update_with_the_rows_of_fit_changes_nothing(learned):
    again = copy.deepcopy(learned).update(WORLD.X, WORLD.groups)
    assert again.shift_ == pytest.approx(learned.shift_, abs=1e-12)
    assert again.group_prior_ == pytest.approx(learned.group_prior_, abs=1e-12)
    assert again.shift_variance_ == pytest.approx(learned.shift_variance_, abs=1e-12)
    assert again.audit_.posterior.interval(0.9) == pytest.approx(learned.audit_.posterior.interval(0.9))


def test_an_update_keeps_what_was_found_for_other_groups_too(learned):
    few = np.isin(WORLD.groups, ["g1", "g2"])
    names = np.where(WORLD.groups[few] == "g2", "new", "g1")
    updated = copy.deepcopy(learned).update(WORLD.X[few], names)
    assert updated.groups_.tolist() == ["g1", "new"]
    assert updated.audit_.common.mean == pytest.approx(learned.audit_.common.mean)
    assert abs(share(updated) - WORLD.truth[few].mean()) < 0.12


def test_a_saved_model_keeps_what_was_found(learned, tmp_path):
    pytest.importorskip("skops")
    save(learned, tmp_path / "m.gshift")
    again = load(tmp_path / "m.gshift")
    rows = WORLD.X[:50], WORLD.groups[:50]
    assert np.array_equal(again.predict_proba(*rows), learned.predict_proba(*rows))
    assert again.audit_.posterior.interval(0.9) == learned.audit_.posterior.interval(0.9)
    assert again.update(WORLD.X, WORLD.groups).shift_ == pytest.approx(learned.shift_, abs=1e-12)


def test_a_second_audit_begins_where_the_first_ended(learned):
    model = copy.deepcopy(learned)
    second = WORLD.audit(model, budget=50, seed=5)
    before = model.audit_.common.variance
    model.learn_audit(WORLD.answers(second))
    assert model.audit_.claimed_share == pytest.approx(share(learned), abs=1e-3)
    assert model.audit_.common.variance < before
    assert abs(share(model) - WORLD.truth.mean()) < 0.06


def test_a_new_fit_forgets_the_audit(learned):
    X, y, groups = WORLD.labeled
    model = copy.deepcopy(learned)
    labels = np.where(np.arange(len(y)) % 2, y, -1)
    assert model.fit(X, labels, groups=groups).audit_ is None


def test_known_shares_stay_as_they_are():
    model = WORLD.fit()
    model.update(WORLD.X, WORLD.groups, known_shares={"g3": 0.5})
    before = model.group_shares(by="group")["share"][3]
    model.learn_audit(WORLD.answers(WORLD.audit(model)))
    assert model.group_shares(by="group")["share"][3] == pytest.approx(before, abs=0.01)


def test_names_of_groups_do_not_matter(plan):
    renamed = make_world(enriched=5)
    names = {f"g{i}": f"x{9 - i}" for i in range(10)}
    as_named = [np.array([names[g] for g in values]) for values in (renamed.groups, renamed.labeled[2])]
    other = type(renamed)(renamed.X, as_named[0], renamed.truth, (*renamed.labeled[:2], as_named[1]))
    model = other.fit()
    # The order of groups changes sums in their last digits, and the chances with them; never the draw itself.
    found = other.audit(model)
    assert len(set(found.rows) & set(plan.rows)) >= 48


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"partition": 3},
        {"shares": None},
        {
            "shrinkage": "none",
        },
    ],
    ids=["trust given", "three clusters", "no shifts", "each cell alone"],
)
def test_every_kind_of_model_can_be_audited(settings):
    model = WORLD.fit(**settings)
    before = share(model)
    model.learn_audit(WORLD.answers(WORLD.audit(model, budget=80)))
    truth = WORLD.truth.mean()
    # A model whose share is right already stays about there.
    assert abs(share(model) - truth) < max(0.6 * abs(before - truth), 0.06)
    low, high = model.audit_.posterior.interval(0.9)
    assert low <= share(model) <= high


def test_a_model_without_groups_can_be_audited():
    X, y, _ = WORLD.labeled
    labels = np.r_[y, np.full(len(WORLD.X), -1)]
    with pytest.warns(UserWarning, match="No groups"):
        model = GroupShiftClassifier(WORLD.fit().estimator, 1, random_state=0).fit(np.r_[X, WORLD.X], labels)
    plan = model.audit(WORLD.X, budget=60)
    model.learn_audit(WORLD.answers(plan))
    assert model.audit_.labels == 60


def test_weights_say_what_the_share_is_of():
    heavy = np.where(WORLD.truth == 1, 4.0, 1.0)
    model = WORLD.fit()
    model.update(WORLD.X, WORLD.groups, sample_weight=heavy)
    plan = WORLD.audit(model, budget=200, sample_weight=heavy)
    found = model.learn_audit(WORLD.answers(plan)).audit_.design
    truth = np.average(WORLD.truth, weights=heavy)
    assert abs(found.share - truth) < 3 * found.std_error


def test_an_audit_of_all_rows_is_a_count():
    small = make_world(n=400)
    model = small.fit()
    few = slice(0, 40)
    with_notes = model.audit(small.X[few], small.groups[few], budget=40)
    assert len(with_notes.spares) == 0
    assert "not the ones that the model's shares are of" in with_notes.notes[0]
    labels = with_notes.labeled({int(r): int(small.truth[few][r]) for r in with_notes.rows})
    found = model.learn_audit(labels).audit_.design
    # A key carries the curve of shares at thirteen points, and what lies between them to some 1e-5.
    assert found.share == pytest.approx(small.truth[few].mean(), abs=1e-4)
    assert found.std_error == 0


def test_the_diagnosis_says_what_was_found_instead_of_what_might_be(model, learned):
    might_be, found = "If positives were twice as likely to be labeled", "The audit of 50 labels shows"
    before, after = (" ".join(m.diagnose().caution) for m in (model, learned))
    assert might_be in before
    assert found not in before
    assert found in after
    assert might_be not in after
    assert "90 % interval" in after


def test_notebooks_show_a_plan_and_what_was_found_as_tables(plan, learned):
    shown = plan._repr_html_()
    assert "50 rows to label, 10 spare ones" in shown
    assert shown.count("<tr>") == 1 + len(plan.precision["labels"])
    found = learned.audit_._repr_html_()
    assert f"<td>{learned.audit_.claimed_share:.1%}</td>" in found
    assert "<td>share shown to be wrong</td><td>yes</td>" in found


def test_the_report_has_a_section_of_the_audit(model, learned):
    pytest.importorskip("jinja2")
    from groupshift._diagnosis.report import render_report

    before, after = render_report(model), render_report(learned)
    assert 'id="audit"' not in before
    assert 'href="#audit"' not in before
    assert 'id="audit"' in after
    assert 'href="#audit"' in after
    assert "Label by label" in after


@pytest.mark.usefixtures("few_trees")
def test_a_population_in_files_is_asked_as_one_in_memory(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from groupshift import streaming
    from groupshift.tables.files import write_table

    def table(X, groups, **others):
        return pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "g": groups, **others})

    X, y, groups = WORLD.labeled
    path = str(tmp_path / "population.parquet")
    write_table(table(WORLD.X, WORLD.groups), path)
    model = GroupShiftClassifier(partition=1, random_state=0)
    streaming.fit(model, table(X, groups, y=y), path, target="y", group="g")
    found = streaming.audit(model, path, group="g", batch_rows=700)
    whole = table(WORLD.X, WORLD.groups).drop_columns(["g"])
    in_memory = model.audit(whole, WORLD.groups)
    assert found.rows.tolist() == in_memory.rows.tolist()
    assert found.design.population == in_memory.design.population
