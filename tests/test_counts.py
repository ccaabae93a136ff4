"""Counts of rows: made anywhere, added in any order to the same bits, kept in a file, and all that an update needs."""

import itertools
import pickle
from copy import copy
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from groupshift import Counts, GroupShiftClassifier, load, save
from groupshift._shifts.sums import FINEST
from groupshift.datasets import make_grouped_classes
from site_tables import COLUMNS, FITTED, assert_same_model, fit_in_memory, halves, quick, table_of


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of()


@pytest.fixture(scope="module")
def model(table):
    """Of two classes, with weights; no test may change it."""
    return fit_in_memory(quick(2), table, COLUMNS, sample_weight="weight")


@pytest.fixture(scope="module")
def of_three():
    sample = make_grouped_classes(n_groups=8, labeled_per_group=60, unlabeled_per_group=80, random_state=0)
    X, y, groups, _ = sample.training()
    return GroupShiftClassifier(LogisticRegression(), 2, random_state=0).fit(X, y, groups), X, groups


@pytest.fixture(scope="module")
def parts(model, table):
    """Counts of seven parts of the rows, which have different groups."""
    rows = halves(table)[1].sort_values("site", kind="stable")
    weight = np.random.default_rng(0).gamma(1, 1, len(rows))
    cut = np.array_split(np.arange(len(rows)), 7)
    return [model.count(rows.iloc[own], "site", sample_weight=weight[own]) for own in cut]


def assert_same_counts(left, right):
    """To the bit."""
    assert left.groups.tolist() == right.groups.tolist()
    assert left.model == right.model
    for one, other in ((left.scores, right.scores), (left.means, right.means)):
        for name in type(one).__dataclass_fields__:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@settings(max_examples=40, deadline=None)
@given(order=st.permutations(range(7)), cuts=st.lists(st.integers(1, 6), max_size=3))
def test_counts_of_parts_add_up_to_the_same_bits_in_any_order(parts, order, cuts):
    expected = sum(parts)
    shuffled = [parts[i] for i in order]
    edges = [0, *sorted(set(cuts)), 7]
    sums = [sum(shuffled[a:b]) for a, b in itertools.pairwise(edges)]
    assert_same_counts(sum(sums[::-1]), expected)


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(6)))
def test_counts_of_several_classes_add_up_to_the_same_bits_in_any_order(of_three, order):
    model, X, groups = of_three
    parts = [model.count(X[i::6], groups[i::6]) for i in range(6)]
    assert_same_counts(sum(parts[i] for i in order), sum(parts))


def test_a_model_whose_setting_names_the_column_of_groups_finds_it_in_a_table_with_others(table):
    labeled = table[[*COLUMNS, "site"]]
    model = quick(2, group="site").fit(labeled, table.label)
    rows = halves(table)[1]
    assert_same_counts(model.count(rows), model.count(rows[[*COLUMNS, "site"]]))
    assert_same_model(copy(model).update(counts=model.count(rows)), model)


def test_weights_of_rows_are_kept_to_a_billionth_of_their_mean(model, table):
    rows = halves(table)[1]
    weight = np.random.default_rng(1).gamma(1, 1, len(rows))
    counts = model.count(rows, "site", sample_weight=weight)
    assert counts.n_rows == len(rows)
    assert counts.scores.weight_sum.sum() == pytest.approx(weight.sum(), rel=10 * FINEST)
    assert counts.scores.weight.sum() == counts.scores.weight_sum.sum()


def test_an_update_by_counts_is_the_update_by_rows(model, table):
    later = halves(table_of(seed=7))[1]
    first, second = copy(model), copy(model)
    first.update(later[COLUMNS], later.site, sample_weight=later.weight)
    counts = sum(model.count(later.iloc[i::3], "site", sample_weight="weight") for i in range(3))
    second.update(counts=counts)
    assert_same_model(second, first)
    rates = {"known_overall": 0.4}
    first.update(later[COLUMNS], later.site, sample_weight=later.weight, **rates)
    assert_same_model(second.update(counts=counts, **rates), first)


def test_the_counts_of_a_fit_give_its_estimate_again(model, of_three):
    for fitted in (model, of_three[0]):
        again = copy(fitted).update(counts=fitted.estimate_.counts)
        for name in FITTED:
            np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name), err_msg=name)


TABLES = {
    "a pandas frame": lambda frame: frame,
    "a polars frame": lambda frame: pl.from_pandas(frame),
    "a polars LazyFrame": lambda frame: pl.from_pandas(frame).lazy(),
    "an Arrow table": lambda frame: pa.Table.from_pandas(frame),
    "a record batch": lambda frame: pa.RecordBatch.from_pandas(frame),
    "a reader": lambda frame: pa.Table.from_pandas(frame).to_reader(100),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_all_kinds_are_counted_alike_and_labels_are_not_looked_at(model, table, kind):
    rows = halves(table)[1]
    expected = model.count(rows[COLUMNS], rows.site)
    # The column of groups is known: that of the series at fit.
    found = model.count(TABLES[kind](rows.assign(label="?")))
    assert_same_counts(found, expected)


@pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning")
def test_a_model_without_groups_counts_a_matrix(rows):
    X, y, _ = rows
    model = quick(2).fit(X, y)
    again = copy(model).update(counts=model.count(X[y < 0][::2]) + model.count(X[y < 0][1::2]))
    np.testing.assert_allclose(again.shift_, model.shift_, atol=1e-9)


def test_bytes_and_pickles_hold_the_very_counts(parts, of_three):
    model, X, groups = of_three
    for counts in (*parts, model.count(X, groups)):
        assert_same_counts(Counts.from_bytes(counts.to_bytes()), counts)
        assert_same_counts(pickle.loads(pickle.dumps(counts)), counts)
    assert "7 rows" not in repr(parts[0])
    assert f"{parts[0].n_rows:,} rows" in repr(parts[0])


def test_groups_keep_their_kind_in_a_file(model, table):
    rows = halves(table)[1]
    for names in (np.arange(len(rows)) % 3, np.array(["a", "b"], object)[np.arange(len(rows)) % 2]):
        counts = model.count(rows[COLUMNS], names)
        again = Counts.from_bytes(counts.to_bytes())
        assert again.groups.tolist() == sorted(set(names.tolist()))
        assert again.groups.dtype == counts.groups.dtype


@pytest.mark.parametrize(
    "data", [b"", b"no counts", pytest.param(None, id="a cut one"), pytest.param(0, id="another stream")]
)
def test_other_bytes_are_refused(parts, data):
    if data is None:
        data = parts[0].to_bytes()[:-200]
    if data == 0:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema({"a": pa.int64()})):
            pass
        data = sink.getvalue().to_pybytes()
    with pytest.raises(ValueError, match="no counts of groupshift, or were damaged"):
        Counts.from_bytes(data)


def test_counts_of_another_model_are_refused_by_name(model, table, parts):
    other = fit_in_memory(quick(3), table, COLUMNS)
    counts = other.count(halves(table)[1], "site")
    assert counts.model != parts[0].model
    message = f"made by model {counts.model}, and model {parts[0].model} was expected"
    with pytest.raises(ValueError, match=message):
        parts[0] + counts
    with pytest.raises(ValueError, match=message):
        copy(model).update(counts=counts)


def test_a_saved_model_counts_as_the_one_that_was_saved(model, table, parts, tmp_path):
    save(model, tmp_path / "m.gshift")
    again = load(tmp_path / "m.gshift")
    rows = halves(table)[1]
    assert_same_counts(again.count(rows, "site"), model.count(rows, "site"))
    assert again.assuming("random").count(rows, "site").model == parts[0].model


def test_rows_or_counts_one_of_them(model, parts, table):
    for passed in ({}, {"X": table[COLUMNS], "counts": parts[0]}):
        with pytest.raises(ValueError, match="Pass X or counts=, one of them"):
            copy(model).update(**passed)


def test_groups_of_another_kind_are_refused(model, table, parts):
    rows = halves(table)[1]
    numbers = model.count(rows[COLUMNS], np.arange(len(rows)) % 3)
    with pytest.raises(ValueError, match=r"Groups are named by str in some counts and by int\w* in others"):
        parts[0] + numbers
    with pytest.raises(ValueError, match=r"Groups were of type str at fit and are int\w* now"):
        copy(model).update(counts=numbers)


def test_rows_without_a_group_are_refused_and_missing_columns_named(model, table):
    rows = halves(table)[1]
    with pytest.raises(ValueError, match=f"1 of {len(rows):,} rows have no group"):
        model.count(rows.assign(site=rows.site.where(rows.index != 5, None)))
    with pytest.raises(ValueError, match=r"X has no column \['site'\]"):
        model.count(rows[COLUMNS])


def test_counts_of_a_thousand_groups_in_eight_clusters_are_smaller_than_ten_megabytes():
    """Of a million rows: 125 a cell. Of ten million they are 6 MB."""
    rng = np.random.default_rng(0)
    n, n_groups = 40_000, 1_000
    group = np.arange(n) % n_groups
    X = rng.normal(size=(n, 3))
    y = np.where(np.arange(n) < 8_000, rng.random(n) < 1 / (1 + np.exp(-X[:, 0])), -1)
    # No shifts: the counts are the same, and the fit takes a tenth of the time.
    model = quick(8, shares=None).fit(X, y.astype(int), group)
    counts = sum(model.count(rng.normal(size=(250_000, 3)), np.arange(250_000) % n_groups) for _ in range(4))
    assert (counts.n_rows, counts.n_clusters, len(counts.groups)) == (1_000_000, 8, 1_000)
    assert len(counts.to_bytes()) < 10_000_000


class Watched(GaussianNB):
    """Notes when it is asked for scores."""

    events: ClassVar[list[str]] = []

    def predict_proba(self, X):
        self.events.append("scored")
        return super().predict_proba(X)


@pytest.mark.parametrize("task", ["count", "update", "predict_proba"])
def test_rows_that_come_once_go_through_batch_by_batch(table, monkeypatch, task):
    monkeypatch.setattr("groupshift.classifier.BATCH_ROWS", 100)
    model = fit_in_memory(quick(2).set_params(estimator=Watched()), table, COLUMNS)
    rows = halves(table)[1].iloc[:950]
    given = rows.site.to_numpy()
    whole = getattr(copy(model), task)(rows[COLUMNS], given)
    arrow = pa.Table.from_pandas(rows[COLUMNS], preserve_index=False)
    events = Watched.events
    events.clear()

    def batches():
        for batch in arrow.to_batches(max_chunksize=70):
            events.append("read")
            yield batch

    reader = pa.RecordBatchReader.from_batches(arrow.schema, batches())
    found = getattr(copy(model), task)(reader, given)
    # Two parts make a batch, and the next one is asked for when the first was scored.
    assert events[:2] == ["read", "read"]
    assert events.index("scored") == 2
    assert sum(one != other for one, other in pairwise(events)) > 10
    if task == "count":
        assert_same_counts(found, whole)
    elif task == "update":
        np.testing.assert_allclose(found.shift_, whole.shift_, atol=1e-12)
    else:
        np.testing.assert_array_equal(found, whole)


def test_what_is_given_beside_a_stream_has_a_value_for_each_row(model, table):
    rows = halves(table)[1]
    for wrong in (rows.site[:-1], np.append(rows.site, "a")):
        with pytest.raises(ValueError, match=r"has shape .* one value for each row"):
            model.count(pa.Table.from_pandas(rows[COLUMNS]).to_reader(100), wrong)
    with pytest.raises(ValueError, match="gave no rows"):
        model.predict_proba(pa.Table.from_pandas(rows[COLUMNS][:0]).to_reader(), rows.site[:0])
