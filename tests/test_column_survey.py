"""What a column holds is told by sums: batches give what the whole column gives."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="reading files needs the extra files")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from groupshift._data.workers import add_up  # noqa: E402
from groupshift.tables import column_facts  # noqa: E402
from groupshift.tables.column_facts import Distinct, Nearly, plan_column, plan_of, survey_column  # noqa: E402
from groupshift.tables.columns import convert  # noqa: E402

TEXTS = st.sampled_from(
    [
        "1",
        "2.5",
        "1,5",
        "1.234,5",
        "007",
        "true",
        "FALSE",
        "31.01.2013",
        "2013-01-31",
        "a",
        " b ",
        "NA",
        "inf",
    ]
)


def in_batches(column, sizes):
    cuts = np.minimum(np.cumsum([0, *sizes]), len(column))
    parts = [column.slice(a, b - a) for a, b in zip(cuts, [*cuts[1:], len(column)], strict=True)]
    return add_up(survey_column(part) for part in parts)


@settings(deadline=None, max_examples=60)
@given(
    st.one_of(st.lists(st.none() | TEXTS, min_size=1), st.lists(st.none() | st.integers(-5, 5), min_size=1)),
    st.lists(st.integers(0, 5), max_size=5),
)
def test_batches_of_a_column_give_the_plan_of_the_whole_and_count_what_is_lost(values, sizes):
    kind = pa.string() if any(isinstance(v, str) for v in values) else pa.int64()
    column = pa.chunked_array([pa.array(values, kind)])
    survey, whole = in_batches(column, sizes), survey_column(column)
    plan = plan_of("c", survey)
    assert plan == plan_column("c", column)
    assert (survey.misfits, survey.counts) == (whole.misfits, whole.counts)
    if plan.used:
        assert survey.lost(plan) == convert(column, plan)[1]


@pytest.mark.parametrize("texts", [False, True])
def test_many_distinct_values_are_counted_nearly_and_memory_is_bounded(monkeypatch, texts):
    monkeypatch.setattr(column_facts, "MOST_DISTINCT", 1000)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 20_000, 60_000)
    column = pa.chunked_array([pa.array(values.astype(str) if texts else values)])
    parts = [Distinct.of(column.slice(start, 5_000)) for start in range(0, 60_000, 5_000)]
    found = add_up(parts)
    n_distinct = len(np.unique(values))
    assert len(found.keys) <= 1000
    # Some 700 values are remembered: the count is good to four in a hundred, here within three of these.
    assert found.count == pytest.approx(n_distinct, rel=0.12)
    assert found.share == pytest.approx(n_distinct / 60_000, rel=0.05)
    # The same values are remembered whatever the order of the parts.
    backwards = add_up(reversed(parts))
    assert found.keys.tolist() == backwards.keys.tolist()
    assert found.rows.tolist() == backwards.rows.tolist()


def test_row_numbers_are_ids_however_many_they_are(monkeypatch):
    monkeypatch.setattr(column_facts, "MOST_DISTINCT", 500)
    rng = np.random.default_rng(0)
    numbers = rng.permutation(20_000)
    for column in (pa.chunked_array([numbers]), pa.chunked_array([numbers.astype(str)])):
        assert plan_of("c", in_batches(column, [3_000] * 6)).kind == "id"
        twice = pa.chunked_array([*column.chunks, column.chunks[0].slice(0, 2_000)])
        assert plan_of("c", in_batches(twice, [3_000] * 7)).kind == "number"


def test_what_a_column_nearly_is_does_not_depend_on_batches():
    days = [f"{1 + i % 28:02d}.12.2023" if i % 9 else f"2023-12-{1 + i % 28:02d}" for i in range(200)]
    ages = [str(20 + i % 60) if i % 9 else "n/a?" for i in range(200)]
    for kind, share, misfit, form, values in (
        ("date", 1.0, "2023-12-01", "%d.%m.%Y", days),
        # Unknown at first: no batch can tell alone which form the others have.
        ("date", 0.8, "later", "%d.%m.%Y", ["later"] * 50 + days),
        ("number", 177 / 200, "n/a?", None, ages),
        ("number", 177 / 200, "n/a?", None, [age.replace("20", "20,5") for age in ages]),
    ):
        column = pa.chunked_array([values])
        for survey in (survey_column(column), in_batches(column, [50, 7, 60])):
            found = survey.nearly(plan_of("c", survey))
            assert found == Nearly(kind, pytest.approx(share), misfit, form)


def test_lists_in_one_file_leave_the_column_out():
    lists, texts = (survey_column(pa.chunked_array([v]), as_texts=True) for v in ([[1], [2]], ["a", "b"]))
    assert plan_of("c", lists + texts).kind == plan_of("c", texts + lists).kind == "nested"
