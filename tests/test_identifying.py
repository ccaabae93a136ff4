"""Features that tell which group a row is of are found, and what does not tell it is left alone."""

import numpy as np
import pytest

from groupshift._diagnosis.features import identifying_features
from groupshift._diagnosis.sentences import identified


def found_in(columns, group, *, category=(), key=None):
    """Names of the features that identify the group."""
    names = list(columns)
    matrix = np.column_stack([np.asarray(columns[name], float) for name in names])
    key = np.arange(len(group)) if key is None else key
    kinds = np.isin(names, list(category))
    return identifying_features(matrix, group, key.astype(np.uint64), names=names, is_category=kinds)


@pytest.fixture(scope="module")
def schools():
    """Rows of 60 schools of very different sizes, and a number for each school."""
    rng = np.random.default_rng(0)
    return rng, rng.choice(60, 3000, p=rng.dirichlet(np.ones(60))), rng.uniform(size=60)


def test_ids_and_what_is_the_same_in_a_whole_group_are_found(schools):
    rng, group, number = schools
    columns = {
        "id": group,
        "code": 59 - group,
        "income of the district": number[group],
        "room": group * 10 + rng.integers(0, 5, len(group)),
        "age": rng.normal(size=len(group)),
    }
    found = found_in(columns, group, category=["code"])
    assert list(found) == ["id", "code", "income of the district", "room"]
    assert min(found.values()) > 0.9


def test_what_differs_between_groups_without_telling_them_apart_is_left_alone(schools):
    rng, group, number = schools
    columns = {
        "shifted": rng.normal(size=len(group)) + number[group],
        "kind": (number[group] > 0.5),
        "region": group % 5,
        "missing": np.where(rng.random(len(group)) < 0.5, np.nan, 1.0),
    }
    assert found_in(columns, group, category=["region"]) == {}


def test_coordinates_are_found_together(schools):
    rng, group, number = schools
    other = rng.uniform(size=60)
    # Some thirty schools lie on every line from north to south.
    columns = {
        "north": number[group] + rng.normal(0, 0.01, len(group)),
        "age": rng.normal(size=len(group)),
        "east": other[group] + rng.normal(0, 0.01, len(group)),
    }
    assert list(found_in(columns, group)) == ["north", "east"]
    assert found_in({"north": columns["north"], "age": columns["age"]}, group) == {}


def test_copies_of_one_example_count_once():
    rng = np.random.default_rng(1)
    example = np.repeat(np.arange(300), 8)
    group, income = (example % 20), rng.normal(size=300)[example]
    assert found_in({"income": income}, group, key=example) == {}
    assert list(found_in({"income": income}, group)) == ["income"]


def test_households_that_nobody_marked_do_not_look_like_groups():
    rng = np.random.default_rng(2)
    household = np.repeat(np.arange(1000), rng.integers(1, 5, 1000))
    assert found_in({"rent": rng.normal(size=1000)[household]}, (household % 20)) == {}


def test_names_and_order_of_rows_do_not_matter(schools):
    rng, group, number = schools
    order = rng.permutation(len(group))
    columns = {"north": number[group] + rng.normal(0, 0.001, len(group)), "age": rng.normal(size=len(group))}
    keys = np.arange(len(group))
    moved = {name: values[order] for name, values in columns.items()}
    assert found_in(columns, group) == found_in(moved, (group * 7 % 60)[order], key=keys[order])


def test_one_group_or_next_to_no_rows_say_nothing():
    assert found_in({"x": np.arange(100.0)}, np.zeros(100, int)) == {}
    assert found_in({"x": np.arange(4.0)}, np.arange(4)) == {}


def test_chance_alone_identifies_no_group():
    rng = np.random.default_rng(3)
    for n_groups in (2, 50):
        columns = {f"x{j}": rng.normal(size=60) for j in range(30)}
        assert found_in(columns, rng.integers(0, n_groups, 60)) == {}


def test_the_sentence_says_what_to_type():
    assert identified([]) is None
    assert "(--exclude school)" in identified(["school"])
    assert "(--exclude lat,lon)" in identified(["lat", "lon"])
    assert '(--exclude "school id,lat")' in identified(["school id", "lat"])


def test_the_diagnosis_begins_its_cautions_with_them(rows, quick, fitted_copy):
    X, y, groups = rows
    number = np.unique(groups, return_inverse=True)[1]
    model = quick().fit(np.column_stack([X, number]), y, groups=groups)
    found = model.diagnose()
    assert found.caution[0].startswith("'x2' tells which group a row is of")
    assert found.features["identifies"][found.features["feature"] == "x2"] > 0.9
    plain = fitted_copy.diagnose()
    assert "which group a row is of" not in " ".join(plain.sentences)
    assert np.isnan(plain.features["identifies"]).all()
