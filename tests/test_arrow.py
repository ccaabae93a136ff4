"""Whatever speaks Arrow is read in batches: no reader for each, nothing whole in memory, and no stream read twice in silence."""

import subprocess
import sys

import pytest

pa = pytest.importorskip("pyarrow", reason="tables are read by pyarrow, of the extra files")
import pyarrow.dataset as ds  # noqa: E402

from groupshift.tables import SourceError, arrow_batches, as_source  # noqa: E402

TABLE = pa.table({"a": list(range(10)), "b": [f"text {i}" for i in range(10)]})


class Ibis:
    """What an ibis table offers: columns are chosen first, then batches are made."""

    def __init__(self, table):
        self.table = table

    def select(self, *names):
        return Ibis(self.table.select(list(names)))

    def to_pyarrow_batches(self, *, chunk_size):
        return self.table.to_reader(chunk_size)

    def __arrow_c_stream__(self, requested_schema=None):
        raise AssertionError("makes the whole table")


def pandas_frame(_):
    return pytest.importorskip("pandas").DataFrame(TABLE.to_pydict())


def polars_frame(_):
    return pytest.importorskip("polars").DataFrame(TABLE.to_pydict())


def lazy_frame(_):
    lazy = pytest.importorskip("polars").LazyFrame(TABLE.to_pydict())
    if not hasattr(lazy, "collect_batches"):
        pytest.skip("this polars gives no batches of a LazyFrame")
    return lazy


def duckdb_relation(_):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().sql("select i as a, 'text ' || i as b from range(10) t(i)")


def dataset(folder):
    ds.write_dataset(TABLE, folder / "rows", format="parquet", max_rows_per_file=4, max_rows_per_group=4)
    return ds.dataset(folder / "rows")


AGAIN = {
    "table": lambda _: TABLE,
    "batch": lambda _: TABLE.to_batches()[0],
    "list of batches": lambda _: TABLE.to_batches(max_chunksize=3),
    "dataset in memory": lambda _: ds.dataset(TABLE),
    "dataset": dataset,
    "scanner": lambda folder: dataset(folder).scanner(),
    "pandas": pandas_frame,
    "polars": polars_frame,
    "polars LazyFrame": lazy_frame,
    "DuckDB relation": duckdb_relation,
    "ibis": lambda _: Ibis(TABLE),
}
ONCE = {
    "reader": lambda: TABLE.to_reader(),
    "generator of batches": lambda: (batch for batch in TABLE.to_batches()),
    "generator of frames": lambda: (TABLE.slice(start, 4) for start in (0, 4, 8)),
}


@pytest.mark.parametrize("make", AGAIN.values(), ids=AGAIN)
def test_what_speaks_arrow_is_read_in_batches_of_the_size_asked_as_often_as_asked(make, tmp_path):
    source = make(tmp_path)
    for _ in range(2):
        batches = list(arrow_batches(source, 3))
        assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        assert pa.Table.from_batches(batches).to_pydict() == TABLE.to_pydict()
    chosen = list(arrow_batches(source, 6, columns=["b"]))
    assert [(batch.schema.names, batch.num_rows) for batch in chosen] == [(["b"], 6), (["b"], 4)]


@pytest.mark.parametrize("make", ONCE.values(), ids=ONCE)
def test_a_stream_that_gives_its_rows_once_says_so_when_it_is_asked_again(make):
    source = make()
    assert sum(batch.num_rows for batch in arrow_batches(source)) == 10
    with pytest.raises(
        SourceError, match=r"gives its rows once, and they were read before\. Pass what can be read again"
    ):
        list(arrow_batches(source))


def test_columns_of_a_stream_are_known_before_its_rows_are_read():
    source = as_source(TABLE.to_reader())
    assert source.columns == ["a", "b"]
    assert source.columns == ["a", "b"]
    assert sum(table.num_rows for table in source.batches(["a"])) == 10
    with pytest.raises(SourceError, match="once"):
        list(source.batches(["a"]))


def test_what_speaks_no_arrow_is_refused_by_its_name():
    for wrong in (3, "rows.csv", [1, 2], {"a": 1}):
        with pytest.raises(TypeError, match=f"Rows came as a {type(wrong).__name__}"):
            list(arrow_batches(wrong))
    with pytest.raises(TypeError, match="A stream gives a int"):
        list(arrow_batches(iter([1])))
    with pytest.raises(SourceError, match="empty"):
        list(arrow_batches(iter([])))


def test_batches_that_break_off_are_a_sentence():
    def broken():
        yield TABLE
        yield pa.table({"a": ["no number"], "b": ["x"]})

    with pytest.raises(SourceError, match="A generator cannot be read to its end"):
        list(arrow_batches(broken()))


def test_a_query_of_many_rows_is_never_whole_in_memory():
    pytest.importorskip("duckdb")
    pytest.importorskip("resource", reason="peak memory is asked of Unix")
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import duckdb, resource\n"
            "from groupshift.tables import arrow_batches\n"
            "relation = duckdb.connect().sql('select i, i * 2.0 as x, i * 3.0 as y from range(20_000_000) t(i)')\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "assert sum(batch.num_rows for batch in arrow_batches(relation)) == 20_000_000\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    # Whole, these rows are 480 MB.
    assert int(ran.stdout.split()[-1]) < 240_000
