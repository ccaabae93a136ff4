"""Labels that come back wrong: one clear sentence each, and a model that stays as it was."""

import copy

import numpy as np
import pytest

from audit_world import make_world
from groupshift._audit.plan import read_key, read_labels

WORLD = make_world(n=800)
CLASSES = np.array([0, 1])


@pytest.fixture(scope="module")
def model():
    return WORLD.fit()


@pytest.fixture(scope="module")
def plan(model):
    return WORLD.audit(model, budget=30)


@pytest.fixture
def table(plan):
    """Labels of all rows that were asked for, as a dict of columns."""
    return WORLD.answers(plan)


def not_asked(table):
    return {
        name: np.append(column, value)
        for (name, column), value in zip(table.items(), (7, 1, ""), strict=True)
    }


def altered_key(table):
    key = table["sample_key"].copy()
    key[2] = key[2][:40] + "x" + key[2][41:]
    return table | {"sample_key": key}


def twice(table):
    first = {name: np.append(column, column[:1]) for name, column in table.items()}
    first["label"][-1] = 1 - first["label"][0]
    return first


def sorted_alone(table):
    return table | {"row": np.sort(table["row"])}


def strange_label(table):
    label = table["label"].copy()
    label[3] = 2
    return table | {"label": label}


def empty(table):
    return table | {"label": np.full(len(table["label"]), None)}


def no_key_column(table):
    return {name: column for name, column in table.items() if name != "sample_key"}


def no_keys(table):
    return table | {
        "sample_key": np.full(len(table["label"]), ""),
        "label": np.full(len(table["label"]), None),
    }


CASES = {
    not_asked: "1 labels are of rows that were not asked for (the first is row 7)",
    altered_key: "not asked for",
    twice: "is labelled twice, with different answers",
    sorted_alone: "cells were moved apart",
    strange_label: "besides the classes",
    empty: "None of 36 rows has a label",
    no_key_column: "has no column 'sample_key'",
    no_keys: "No line has a sample key of an audit",
}


@pytest.mark.parametrize("wrong", CASES, ids=lambda f: f.__name__)
def test_wrong_labels_have_their_sentence_and_change_nothing(model, table, wrong):
    audited = copy.deepcopy(model)
    with pytest.raises(ValueError, match=r"^[A-Z0-9y].*\.$") as caught:
        audited.learn_audit(wrong(table))
    assert CASES[wrong] in str(caught.value)
    assert audited.audit_ is None
    assert np.array_equal(audited.shift_, model.shift_)


def test_a_failing_call_keeps_what_an_earlier_one_found(model, table):
    audited = copy.deepcopy(model).learn_audit(table)
    found = audited.audit_
    with pytest.raises(ValueError, match="labelled twice"):
        audited.learn_audit(twice(table))
    assert audited.audit_ is found


def test_a_row_that_is_labelled_twice_alike_counts_once(model, table):
    doubled = {name: np.append(column, column[:1]) for name, column in table.items()}
    assert read_labels(doubled, CLASSES, -1).n_labels == 30


def test_the_order_of_lines_does_not_matter(model, table):
    back = {name: column[::-1] for name, column in table.items()}
    found, again = (copy.deepcopy(model).learn_audit(t) for t in (table, back))
    assert np.array_equal(found.shift_, again.shift_)


def test_a_changed_population_is_seen(model, table):
    with pytest.raises(ValueError, match="drawn from 800 rows, and these are 799"):
        copy.deepcopy(model).learn_audit(table, WORLD.X[1:], WORLD.groups[1:])
    other = WORLD.X.copy()
    other[5, 0] += 1
    with pytest.raises(ValueError, match="other values or in another order"):
        copy.deepcopy(model).learn_audit(table, other, WORLD.groups)
    with pytest.raises(ValueError, match="other values or in another order"):
        copy.deepcopy(model).learn_audit(table, WORLD.X[::-1], WORLD.groups[::-1])
    assert copy.deepcopy(model).learn_audit(table, WORLD.X, WORLD.groups).audit_.labels == 30


def test_labels_of_another_model_are_refused(model, table):
    updated = copy.deepcopy(model).update(WORLD.X[:500], WORLD.groups[:500])
    with pytest.raises(ValueError, match="asked for by another model"):
        updated.learn_audit(table)


def test_labels_of_two_audits_are_refused(model, table):
    other = WORLD.answers(WORLD.audit(model, budget=30, seed=9))
    both = {name: np.concatenate([table[name], other[name]]) for name in table}
    with pytest.raises(ValueError, match="2 different audits"):
        copy.deepcopy(model).learn_audit(both)


def test_half_of_the_labels_missing_is_said_and_treated_as_missing(model, plan):
    labels = {int(row): int(WORLD.truth[row]) for row in plan.rows[::2]}
    audited = copy.deepcopy(model).learn_audit(plan.labeled(labels))
    found = audited.audit_
    assert (found.labels, found.missing) == (15, 15)
    said = " ".join(audited.diagnose().caution)
    assert "15 of 30 rows that were asked for have no label" in said
    assert found.design.lowest < found.design.share < found.design.highest


@pytest.mark.parametrize("mark", ["refused", "", None, float("nan"), -1, "N/A"])
def test_a_refused_row_is_replaced_by_a_spare_one(model, plan, mark):
    rows = [*plan.rows, plan.spares[0]]
    labels = {int(row): int(WORLD.truth[row]) for row in rows}
    labels[int(plan.rows[4])] = mark
    found = copy.deepcopy(model).learn_audit(plan.labeled(labels)).audit_
    assert (found.labels, found.missing) == (30, 1)
    assert abs(found.design.share - WORLD.truth.mean()) < 3 * found.design.std_error


def test_lines_that_were_deleted_count_as_rows_without_a_label(model, table):
    kept = np.flatnonzero([label is not None for label in table["label"]])
    kept = np.delete(kept, [3, 4])
    few = {name: column[kept] for name, column in table.items()}
    found = copy.deepcopy(model).learn_audit(few).audit_
    assert (found.labels, found.missing) == (28, 2)
    whole = copy.deepcopy(model).learn_audit(table).audit_
    assert found.design.share == pytest.approx(whole.design.share, abs=0.05)


def test_labels_may_come_as_numbers_with_a_point_or_as_text(model, table):
    for write in (float, lambda v: f"{v}.0", str):
        label = np.array([None if v is None else write(v) for v in table["label"]], object)
        found = copy.deepcopy(model).learn_audit(table | {"label": label})
        assert found.audit_.labels == 30


def test_frames_are_taken_as_they_are(model, table):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(table)
    frame["label"] = frame["label"].astype(float)
    assert copy.deepcopy(model).learn_audit(frame).audit_.labels == 30
    with pytest.raises(TypeError, match="labels is a list"):
        copy.deepcopy(model).learn_audit([1, 0])


@pytest.mark.parametrize("budget", [1, 0, 2.5, 801])
def test_a_budget_that_cannot_be_had_is_refused(model, budget):
    with pytest.raises(ValueError, match=r"budget=.* Pass"):
        WORLD.audit(model, budget=budget)


def test_groups_that_are_not_given_are_asked_for(model):
    with pytest.raises(ValueError, match="fitted with groups"):
        model.audit(WORLD.X)


def test_a_model_without_a_population_has_nothing_to_audit():
    X, y, groups = WORLD.labeled
    with pytest.warns(UserWarning, match="No unlabelled rows"):
        bare = type(WORLD.fit())(WORLD.fit().estimator, 1, random_state=0).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="Give it a population"):
        bare.audit(WORLD.X, WORLD.groups)


def test_labels_of_rows_outside_the_plan_are_refused_where_they_are_filled_in(plan):
    stranger = next(i for i in range(800) if i not in set(plan.sampled.row))
    with pytest.raises(ValueError, match=f"Row {stranger} was not asked for"):
        plan.labeled({stranger: 1})


@pytest.mark.parametrize("text", ["", "A1.", "A1.???", "B2.abcd", "A1." + "A" * 300])
def test_what_is_no_key_is_not_read_as_one(text):
    assert read_key(text) is None
