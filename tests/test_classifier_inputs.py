"""What must not matter to GroupShiftClassifier: order, names, scales and the form that rows come in."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.metrics import roc_auc_score

from conftest import finite_and_in_doubt, make_quick, probability
from groupshift import GroupShiftClassifier
from repeated import assert_same_numbers


def test_a_prediction_depends_on_its_row_and_group_alone(rows, fitted):
    X, _, groups = rows
    together = fitted.predict_proba(X, groups)
    for i in (0, 5, 77):
        alone = fitted.predict_proba(X[[i]], groups[[i]])
        # A matrix product of one row may round differently in its last bit.
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-12)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(fitted.predict_proba(X[order], groups[order]), together[order], rtol=1e-12)


def test_group_names_do_not_matter(rows, fitted, quick):
    X, y, groups = rows
    # New names in another order; of another kind.
    names = {name: 1000 - i for i, name in enumerate(np.unique(groups))}
    renamed = np.array([names[g] for g in groups])
    model = quick().fit(X, y, groups=renamed)
    np.testing.assert_allclose(probability(model, X, renamed), probability(fitted, X, groups), atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        lambda i: int(i) - 5,
        lambda i: float(i) + 0.5,
        lambda i: f"state {i}",
        lambda i: ("country", int(i)),
        lambda i: dt.date(2024, 1, 1 + int(i)),
        lambda i: bool(i % 2),
        lambda i: b"x" + bytes([65 + i]),
        lambda i: int(i) if i % 2 else f"{i}",
        lambda i: frozenset([int(i)]),
        lambda i: np.int64(i),
        lambda i: np.float64(i + 0.5) if i % 2 else "other",
        lambda i: np.bool_(i % 2),
    ],
    ids=[
        "int",
        "float",
        "text",
        "tuple",
        "date",
        "bool",
        "bytes",
        "mixed",
        "frozenset",
        "NumPy's int",
        "NumPy's float and text",
        "NumPy's bool",
    ],
)
def test_groups_may_be_of_any_hashable_kind(rows, quick, name):
    X, y, groups = rows
    number = np.unique(groups, return_inverse=True)[1]
    values = np.empty(len(groups), object)
    values[:] = [name(i) for i in number]
    model = quick().fit(X, y, groups=values)
    assert set(model.groups_.tolist()) == set(values.tolist())
    assert finite_and_in_doubt(model.predict_proba(X[:5], values[:5]))
    # As a plain list too.
    np.testing.assert_array_equal(
        model.predict_proba(X[:5], list(values[:5])), model.predict_proba(X[:5], values[:5])
    )


def test_group_values_are_matched_by_value_not_by_type(rows, quick):
    X, y, groups = rows
    number = np.unique(groups, return_inverse=True)[1]
    model = quick().fit(X, y, groups=number)
    expected = model.predict_proba(X, number)
    for same in (
        number.astype(np.int8),
        number.astype(float),
        number.astype(object),
        pd.Series(number),
        list(number),
    ):
        assert_same_numbers(model.predict_proba(X, same), expected)


def test_row_order_does_not_matter_to_the_shares(rows, quick):
    # Folds are drawn by row, so training changes a little; given the classifier, shares must not.
    X, y, groups = rows
    model = quick(
        calibration="holdout",
    ).fit(X, y, groups=groups)
    unlabeled = y < 0
    before = model.update(X[unlabeled], groups[unlabeled]).group_prior_
    order = np.random.default_rng(1).permutation(unlabeled.sum())
    after = model.update(X[unlabeled][order], groups[unlabeled][order]).group_prior_
    np.testing.assert_allclose(after, before, atol=1e-6)


@pytest.mark.parametrize("unit", [2.0**900, 2.0**-900])
def test_the_units_of_features_do_not_matter(few_trees, unit):
    # Powers of two round nothing; numbers of this size cannot be squared, and no warning may say so.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 3)) + y[:, None]
    groups, ids, labels = rng.integers(0, 8, 600), np.arange(600), np.where(rng.random(600) < 0.5, y, -1)

    def fitted(X):
        model = GroupShiftClassifier(partition=2, random_state=0)
        return model.fit(X, labels, groups, example_ids=ids)

    usual, other = fitted(X), fitted(X * unit)
    np.testing.assert_array_equal(
        other.predict_proba(X * unit, groups), usual.predict_proba(X, groups), strict=True
    )
    told = other.diagnose().clusters
    np.testing.assert_array_equal(told["inside"], usual.diagnose().clusters["inside"] * unit)
    np.testing.assert_array_equal(told["difference"], usual.diagnose().clusters["difference"])


def test_the_scale_of_weights_does_not_matter(rows, quick):
    X, y, groups = rows
    weight = np.random.default_rng(2).exponential(size=len(y))
    one, other = (quick().fit(X, y, groups=groups, sample_weight=scale * weight) for scale in (1.0, 1000.0))
    np.testing.assert_allclose(probability(other, X, groups), probability(one, X, groups), atol=1e-6)
    np.testing.assert_allclose(other.shift_variance_, one.shift_variance_, rtol=1e-4)


def test_equal_weights_are_no_weights(rows, quick, fitted):
    X, y, groups = rows
    for weight in (np.ones(len(y)), np.full(len(y), 7.0), 3.0):
        model = quick().fit(X, y, groups=groups, sample_weight=weight)
        np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-9)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_frames_and_arrays_agree(rows, fitted, quick, make):
    X, y, groups = rows
    frame = make({"a": X[:, 0], "b": X[:, 1]})
    model = quick().fit(frame, y, groups=groups)
    np.testing.assert_allclose(
        model.predict_proba(frame, groups), fitted.predict_proba(X, groups), atol=1e-12
    )
    with_groups = make({"a": X[:, 0], "state": groups, "b": X[:, 1]})
    model = quick(group="state").fit(with_groups, y)
    np.testing.assert_allclose(model.predict_proba(with_groups), fitted.predict_proba(X, groups), atol=1e-12)
    assert type(model.group_shares()) is type(frame)


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: np.where(y < 0, np.nan, y),
        lambda y: pd.Series(y).replace(-1, None),
        lambda y: pd.array(np.where(y < 0, 0, y), dtype="Int64").copy(),
        lambda y: pd.array([None if v < 0 else bool(v) for v in y], dtype="boolean"),
        lambda y: pd.array([{-1: None, 0: "no", 1: "yes"}[v] for v in y], dtype="string"),
        lambda y: pl.Series([None if v < 0 else int(v) for v in y]),
        lambda y: pd.Series([{-1: None, 0: "no", 1: "yes"}[v] for v in y]),
        lambda y: [None if v < 0 else bool(v) for v in y],
        lambda y: pd.Series([{-1: None, 0: "no", 1: "yes"}[v] for v in y], dtype="category"),
    ],
    ids=["NaN", "None", "Int64", "boolean", "string", "polars", "text", "bool", "categorical"],
)
def test_missing_labels_mark_unlabelled_rows(rows, fitted, quick, labels, request):
    X, y, groups = rows
    given = labels(y)
    if "Int64" in request.node.name:
        given[y < 0] = pd.NA
    model = quick().fit(X, given, groups=groups)
    np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-12)
    assert set(model.predict(X, groups)) == set(model.classes_)


def test_another_value_may_mark_unlabelled_rows(rows, fitted, quick):
    X, y, groups = rows
    model = quick(unlabeled_value="?").fit(X, np.array(["?", "no", "yes"])[y + 1], groups=groups)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-12)


def test_labels_minus_one_and_one_are_classes_where_the_user_says_so(rows, fitted, quick):
    X, y, groups = rows
    signs = np.where(y < 0, np.nan, 2 * y - 1)
    model = quick(unlabeled_value=None).fit(X, signs, groups=groups)
    assert model.classes_.tolist() == [-1, 1]
    np.testing.assert_allclose(probability(model, X, groups), probability(fitted, X, groups), atol=1e-12)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.usefixtures("few_trees")
def test_frames_of_all_kinds_of_columns_fit_without_preparation(library):
    rng = np.random.default_rng(0)
    n = 600
    truth = rng.random(n) < 0.4
    gone = rng.random(n) < 0.1
    columns = {
        "number": np.where(gone, np.nan, rng.normal(size=n) + truth),
        "whole": rng.integers(0, 5, n),
        "boolean": rng.random(n) < 0.3 + 0.3 * truth,
        "text": np.array(
            [None if g else c for g, c in zip(gone, rng.choice(list("abc"), n), strict=True)], object
        ),
        "date": np.datetime64("2024-01-01", "us") + rng.integers(0, 300, n) * np.timedelta64(1, "D"),
        "constant": np.zeros(n),
        "state": rng.choice(["x", "y", "z"], n),
    }
    frame = pd.DataFrame(columns)
    frame["category"] = pd.Categorical(rng.choice(["low", "high"], n))
    frame["empty"] = pd.Series([None] * n, dtype=object)
    if library == "polars":
        frame = pl.DataFrame(
            {c: frame[c].astype(object).where(frame[c].notna(), None).tolist() for c in frame}
        )
    y = np.where(np.arange(n) < 300, truth, -1)
    model = GroupShiftClassifier(group="state", partition=2, random_state=0).fit(frame, y)
    found = model.predict_proba(frame)
    assert finite_and_in_doubt(found)
    assert roc_auc_score(truth[300:], found[300:, 1]) > 0.65


def streams():
    """The rows of a frame as other libraries hand them out; each may be asked for its rows once."""
    duckdb = pytest.importorskip("duckdb", reason="the lowest versions are tested without databases")

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["a", "b"])
    arrow = pa.Table.from_pandas(frame)
    connection = duckdb.connect()
    connection.register("rows", frame)
    return frame, {
        "a polars LazyFrame": pl.DataFrame(frame).lazy,
        "a relation of DuckDB": lambda: connection.sql("select * from rows"),
        "a reader of record batches": arrow.to_reader,
        "a record batch": lambda: arrow.combine_chunks().to_batches()[0],
        "a dataset of pyarrow": lambda: pyarrow.dataset.dataset(arrow),
    }


def test_whatever_gives_arrow_batches_is_a_table():
    frame, given = streams()
    y, groups = np.where(np.arange(300) < 150, frame.a > 0, -1), np.arange(300) % 3
    expected = make_quick().fit(frame, y, groups).update(frame, groups).predict_proba(frame, groups)
    for name, rows in given.items():
        found = make_quick().fit(rows(), y, groups).update(rows(), groups).predict_proba(rows(), groups)
        np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=name)
