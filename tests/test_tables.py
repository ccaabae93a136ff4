"""Frames in: every kind of column becomes numbers, alike in pandas, polars and Arrow, at fit and after."""

import datetime as dt
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupshift._data.codes import Codes
from groupshift._data.encoder import MAX_CATEGORIES, FeatureEncoder
from groupshift._data.frames import (
    as_column,
    as_frame,
    concat_rows,
    frame_like,
    is_missing,
    library_of,
    split_column,
    take_rows,
)

COLUMNS = {
    "number": [1.5, None, 3.0, -2.0],
    "whole": [1, 2, 3, None],
    "boolean": [True, None, False, True],
    "text": ["a", "b", None, "a"],
    "date": [dt.datetime(2024, 1, 1), None, dt.datetime(2024, 1, 3, 12), dt.datetime(1969, 12, 31)],
    "duration": [dt.timedelta(days=1), dt.timedelta(hours=6), None, dt.timedelta(0)],
}
MATRIX = np.array(
    [
        [1.5, 1, 1, 0, 19723, 1],
        [np.nan, 2, np.nan, 1, np.nan, 0.25],
        [3, 3, 0, np.nan, 19725.5, np.nan],
        [-2, np.nan, 1, 0, -1, 0],
    ]
)
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


@pytest.fixture
def frame(library):
    return LIBRARIES[library](COLUMNS)


def test_columns_become_the_same_numbers_in_every_library(frame):
    encoder = FeatureEncoder().fit(frame)
    assert encoder.names_ == list(COLUMNS)
    assert encoder.kinds_ == ["number", "number", "boolean", "category", "date", "date"]
    assert encoder.is_category.tolist() == [False, False, False, True, False, False]
    np.testing.assert_allclose(encoder.transform(frame), MATRIX)


def test_a_row_is_encoded_alike_alone_and_among_others(frame):
    encoder = FeatureEncoder().fit(frame)
    alone = [encoder.transform(take_rows(frame, [i])) for i in range(4)]
    np.testing.assert_allclose(np.vstack(alone), MATRIX)


@pytest.mark.parametrize(
    ("values", "kind", "numbers"),
    [
        (pd.Series([True, None, False], dtype=object), "boolean", [1, np.nan, 0]),
        (pd.Series([1, None, 2.5], dtype=object), "number", [1, np.nan, 2.5]),
        (pd.Series([dt.date(1970, 1, 2), None, dt.date(1970, 1, 1)]), "date", [1, np.nan, 0]),
        (pd.array([1, None, 3], dtype="Int64"), "number", [1, np.nan, 3]),
        (pd.array([True, None, False], dtype="boolean"), "boolean", [1, np.nan, 0]),
        (pd.Categorical(["b", None, "b"]), "category", [0, np.nan, 0]),
        (pd.Series([("a", 1), None, ("a", 1)], dtype=object), "category", [0, np.nan, 0]),
        (pd.Series([None, None, None], dtype=object), "category", [np.nan] * 3),
        (pd.Series([1, "a", 1], dtype=object), "category", [0, 1, 0]),
        (pd.to_datetime(["1970-01-02", None, "1970-01-01"], utc=True), "date", [1, np.nan, 0]),
        (pd.Series([[1], [2], [1]], dtype=object), "category", [0, 1, 0]),
    ],
    ids=[
        "bools",
        "numbers",
        "dates",
        "Int64",
        "boolean",
        "categorical",
        "tuples",
        "empty",
        "mixed",
        "zone",
        "lists",
    ],
)
def test_pandas_columns_of_every_make(values, kind, numbers):
    frame = pd.DataFrame({"x": values})
    encoder = FeatureEncoder().fit(frame)
    assert encoder.kinds_ == [kind]
    np.testing.assert_allclose(encoder.transform(frame)[:, 0], numbers)


def test_polars_times_are_parts_of_the_day():
    frame = pl.DataFrame({"x": [dt.time(12), None, dt.time(6)]})
    np.testing.assert_allclose(FeatureEncoder().fit(frame).transform(frame)[:, 0], [0.5, np.nan, 0.25])


def test_whole_number_categories_keep_their_names_where_some_are_missing():
    full = pd.DataFrame({"x": pd.Categorical([1, 2, 2])})
    holes = pd.DataFrame({"x": pd.Categorical([2, 1, None], categories=[1, 2])})
    encoder = FeatureEncoder().fit(full)
    np.testing.assert_allclose(encoder.transform(holes)[:, 0], [0, 1, np.nan])


def test_durations_mean_the_same_in_any_unit():
    fit, later = (pd.DataFrame({"x": pd.to_timedelta([1, 36], unit="h").as_unit(u)}) for u in ("ns", "s"))
    encoder = FeatureEncoder().fit(fit)
    np.testing.assert_allclose(encoder.transform(later), encoder.transform(fit))


def test_categories_are_numbered_by_frequency_and_new_ones_share_the_last_code():
    encoder = FeatureEncoder().fit(pd.DataFrame({"x": ["rare", "often", "often"]}))
    assert encoder.categories_[0].tolist() == ["often", "rare"]
    codes = encoder.transform(pd.DataFrame({"x": ["rare", "often", "new", "newer"]}))
    assert codes[:, 0].tolist() == [1, 0, 2, 2]


def test_the_rarest_of_very_many_categories_are_one():
    names = [f"{i:03d}" for i in range(400)]
    frame = pd.DataFrame({"x": names + names[:300]})
    codes = FeatureEncoder().fit(frame).transform(frame)[:, 0]
    assert codes.max() == MAX_CATEGORIES
    assert (codes[300:400] == MAX_CATEGORIES).all()


def test_booleans_and_numbers_may_stand_for_each_other():
    encoder = FeatureEncoder().fit(pd.DataFrame({"x": [True, False]}))
    assert encoder.transform(pd.DataFrame({"x": [0, 1]}))[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("values", [[None, None], [np.nan, np.nan], [pd.NaT, pd.NaT]])
@pytest.mark.parametrize("column", list(COLUMNS))
def test_a_batch_in_which_a_column_is_missing_throughout_is_missing_values(column, values):
    encoder = FeatureEncoder().fit(pd.DataFrame({column: COLUMNS[column]}))
    assert np.isnan(encoder.transform(pd.DataFrame({column: values}))).all()


@pytest.mark.parametrize(
    ("fit", "later", "message"),
    [
        ([1.0, 2.0], ["a", "b"], "holds text here but held numbers"),
        ([True, False], ["a", "b"], "holds text here but held booleans"),
        (pd.to_datetime(["2024-01-01"] * 2), [1, 2], "holds numbers here but held dates"),
        ([1, 2], pd.to_datetime(["2024-01-01"] * 2), "holds dates here but held numbers"),
    ],
)
def test_a_column_that_changed_its_kind_is_refused_by_name(fit, later, message):
    encoder = FeatureEncoder().fit(pd.DataFrame({"age": fit}))
    with pytest.raises(ValueError, match=f"Column 'age' {message}"):
        encoder.transform(pd.DataFrame({"age": later}))


def test_columns_named_by_numbers_are_columns():
    frame = pd.DataFrame({0: [1.0, 2.0], 1: ["a", "b"]})
    encoder = FeatureEncoder().fit(frame)
    assert encoder.names_ == ["0", "1"]
    assert encoder.transform(frame).tolist() == [[1, 0], [2, 1]]


def test_arrays_pass_as_they_are():
    X = np.arange(6.0).reshape(3, 2)
    encoder = FeatureEncoder().fit(X)
    assert encoder.names_ == ["x0", "x1"]
    assert encoder.transform(X) is X


def test_rows_are_taken_and_joined_alike_in_every_library(frame):
    encoder = FeatureEncoder().fit(frame)
    mask = np.array([True, False, True, False])
    for rows in (mask, np.array([0, 2])):
        np.testing.assert_allclose(encoder.transform(take_rows(frame, rows)), MATRIX[mask])
    joined = concat_rows([take_rows(frame, [3]), take_rows(frame, [0, 1])])
    np.testing.assert_allclose(encoder.transform(joined), MATRIX[[3, 0, 1]])


def test_the_group_column_is_split_off(frame):
    rest, groups = split_column(frame, "text")
    assert "text" not in as_frame(rest).columns
    assert as_frame(rest).columns == [c for c in COLUMNS if c != "text"]
    assert is_missing(groups).tolist() == [False, False, True, False]


def test_answers_come_back_in_the_library_of_the_question(frame, library):
    assert library_of(frame) == library
    answer = frame_like({"a": np.array([1, 2]), "b": np.array(["x", "y"], dtype=object)}, library)
    assert library_of(answer) == library
    assert as_frame(answer).columns == ["a", "b"]
    assert library_of(np.ones((2, 2))) is None


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nan],
        np.array([1.0, np.nan]),
        np.array(["a", None], dtype=object),
        pd.Series([1, None]),
        pd.Series(["a", None]),
        pd.array(["a", None], dtype="string"),
        pd.Series(pd.Categorical(["a", None])),
        pd.Series(pd.to_datetime(["2024-01-01", None])),
        pd.array([1, None], dtype="Int64"),
        pl.Series([1, None]),
        pl.Series(["a", None]),
        pa.chunked_array([["a", None]]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_missing_values_of_every_kind_are_seen(values):
    assert is_missing(as_column(values)).tolist() == [False, True]


def test_scalars_of_numpy_among_objects_are_values_and_only_nan_is_missing():
    values = np.empty(6, object)
    values[:] = [np.int64(1), np.float64(1.5), np.bool_(False), np.str_("a"), np.float64("nan"), pd.NA]
    assert is_missing(values).tolist() == [False, False, False, False, True, True]
    codes = Codes().fit(values[:4])
    # Kinds that do not compare stand one after the other, in whatever order they came.
    assert [type(value) for value in codes.values_] == [bool, float, int, str]
    assert Codes().fit(values[:4][::-1]).values_.tolist() == codes.values_.tolist()
    assert codes.transform(values[:4]).tolist() == [2, 1, 0, 3]
    column = pd.DataFrame({"x": pd.Series([np.int64(3), np.float64(1.5), None], dtype=object)})
    encoder = FeatureEncoder().fit(column)
    assert encoder.kinds_ == ["number"]
    np.testing.assert_array_equal(encoder.transform(column), [[3], [1.5], [np.nan]])


@given(st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=2), st.tuples(st.integers(0, 2))), min_size=1))
def test_codes_of_hashable_values_lead_back_to_them(values):
    array = np.empty(len(values), object)
    array[:] = values
    codes = Codes().fit(array)
    code = codes.transform(array)
    assert [codes.values_[c] for c in code] == values
    assert len(set(values)) == len(codes.values_)


@given(
    st.lists(st.text(alphabet="ab\0é😀", max_size=5), min_size=1),
    st.lists(st.text(alphabet="ab\0é😀", max_size=9), min_size=1),
)
def test_texts_of_any_width_have_the_codes_that_they_have_one_by_one(values, others):
    # NumPy drops zeros at the end of texts of a fixed width.
    known, others = np.array(values), np.array(others)
    codes = Codes().fit(known)
    place = {value: i for i, value in enumerate(codes.values_.tolist())}
    assert codes.transform(others).tolist() == [place.get(value, -1) for value in others.tolist()]


def test_groups_are_numbered_without_a_python_object_for_each_row():
    groups = np.array([f"g{i:03d}" for i in range(50)])
    many = groups[np.random.default_rng(0).integers(0, 50, 200_000)]
    codes = Codes().fit(groups)
    tracemalloc.start()
    codes.transform(many)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Places take 8 bytes a row, once in blocks and once together; a Python text alone takes 53.
    assert peak < 30 * len(many)


@pytest.mark.parametrize("n_known", [1, 2, 1000, 70_000])
def test_many_groups_are_found(n_known):
    rng = np.random.default_rng(n_known)
    for known in (np.arange(n_known) * 2**32, np.array([f"g{i}" for i in range(n_known)])):
        codes = Codes().fit(known)
        picked = rng.integers(0, n_known, 50_000)
        np.testing.assert_array_equal(codes.transform(codes.values_[picked]), picked)
        strangers = codes.values_[picked] + 1 if known.dtype.kind == "i" else np.char.add(known[picked], "x")
        assert (codes.transform(strangers) == -1).all()


@given(st.lists(st.integers(-9, 9), min_size=1), st.lists(st.integers(-20, 20), min_size=1))
def test_codes_of_numbers_are_sorted_and_unknown_ones_minus_one(values, others):
    codes = Codes().fit(np.array(values))
    assert codes.values_.tolist() == sorted(set(values))
    found = codes.transform(np.array(others))
    assert [c >= 0 for c in found] == [v in values for v in others]
    # The same numbers as Python objects, as a frame of mixed columns gives them.
    np.testing.assert_array_equal(codes.transform(np.array(others, dtype=object)), found)
