"""Tables of every program become the same rows, and answers are written in the format that a name asks for."""

import bz2
import contextlib
import datetime
import io
import json
import lzma
import sqlite3
import sys

import pytest

pa = pytest.importorskip("pyarrow", reason="reading files needs the extra files")

from groupshift.tables.arrow import SourceError  # noqa: E402
from groupshift.tables.batch_sources import as_source  # noqa: E402
from groupshift.tables.column_facts import plan_column  # noqa: E402
from groupshift.tables.columns import as_text, convert  # noqa: E402
from groupshift.tables.files import OutputError, table_format, write_table  # noqa: E402
from groupshift.tables.sources import open_source  # noqa: E402

TABLE = pa.table(
    {
        "name": ["Zoë", "=1+1", "naïve; café", None],
        "n": [1, 2, 3, 4],
        "x": [1.5, None, 3.25, -4.0],
        "sure": [True, False, True, True],
    }
)
ENDINGS = [
    "csv",
    "tsv",
    "csv.gz",
    "csv.bz2",
    "csv.xz",
    "jsonl",
    "jsonl.gz",
    "parquet",
    "arrow",
    "xlsx",
    "dta",
    "sav",
]
NEEDED = {"xlsx": "openpyxl", "dta": "pyreadstat", "sav": "pyreadstat"}


def values(table, name):
    """A column as a model reads it, whatever the file."""
    column = table[name]
    converted = convert(column, plan_column(name, column))[0]
    found = [None if value is None else value for value in converted.to_pylist()]
    return [float(v) if isinstance(v, (int, float, bool)) else v for v in found]


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_in_a_format_reads_as_the_same_table(tmp_path, ending):
    pytest.importorskip(NEEDED.get(ending, "pyarrow"))
    path = tmp_path / f"a.{ending}"
    write_table(TABLE, path)
    read = open_source(path).read()
    assert read.column_names == TABLE.column_names
    for name in ("n", "x", "sure"):
        assert values(read, name) == values(TABLE, name)
    assert as_text(read["name"]).to_pylist() == TABLE["name"].to_pylist()
    # The road of streaming gives what the road of the command line gives.
    batches = pa.concat_tables(as_source(path).batches(["n", "x"]))
    assert batches["n"].to_pylist() == [1, 2, 3, 4]
    assert batches["x"].to_pylist() == TABLE["x"].to_pylist()


def test_text_that_looks_like_a_formula_stays_text_in_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    write_table(TABLE, tmp_path / "a.xlsx")
    cell = openpyxl.load_workbook(tmp_path / "a.xlsx").active["A3"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")


def test_a_sheet_is_found_below_a_title_and_named_after_two_colons(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "notes"
    first = book.create_sheet("people")
    for row in ([], ["id", "age", "seen"], [1, 30, datetime.datetime(2024, 5, 1)], [2, "n/a", None], []):
        first.append(row)
    book.create_sheet("other").append(["z"])
    book.save(tmp_path / "b.xlsx")
    read = open_source(tmp_path / "b.xlsx").read()
    assert read.column_names == ["id", "age", "seen"]
    # Numbers and words in one column are text, as they would be in CSV.
    assert as_text(read["age"]).to_pylist() == ["30", None]
    assert plan_column("seen", read["seen"]).kind == "date"
    assert open_source(f"{tmp_path}/b.xlsx::other").columns == ("z",)
    with pytest.raises(SourceError, match="no sheet 'nope'; its sheets are 'notes', 'people', 'other'"):
        open_source(f"{tmp_path}/b.xlsx::nope")


@pytest.mark.parametrize("kind", ["dta", "sav"])
def test_codes_are_read_by_their_labels_where_every_code_has_one(tmp_path, kind):
    pyreadstat, pandas = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"vote": [1, 2, 1], "income": [10, 98, 20]})
    labels = {"vote": {1: "yes", 2: "no"}, "income": {98: "refused"}}
    path = tmp_path / f"a.{kind}"
    getattr(pyreadstat, f"write_{kind}")(frame, str(path), variable_value_labels=labels)
    read = open_source(path).read()
    assert read["vote"].to_pylist() == ["yes", "no", "yes"]
    assert read["income"].to_pylist() == [10, 98, 20]
    assert open_source(path).describe() in ("Stata", "SPSS")


def test_sas_transport_files_are_read(tmp_path):
    pyreadstat, pandas = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    path = tmp_path / "a.xpt"
    pyreadstat.write_xport(pandas.DataFrame({"x": [1.5, 2.0], "g": ["a", "b"]}), str(path))
    assert open_source(path).read().to_pydict() == {"x": [1.5, 2.0], "g": ["a", "b"]}


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table people (name text, age integer)")
        connection.executemany("insert into people values (?, ?)", [("Ann", 30), ("Bo", None), ("Cy", 50)])
    connection.close()
    return path


def test_a_database_is_asked_by_file_by_table_by_query_and_by_url(database):
    pytest.importorskip("sqlalchemy")
    whole = {"name": ["Ann", "Bo", "Cy"], "age": [30, None, 50]}
    for place in (f"{database}", f"{database}::people", f"sqlite:///{database}::select * from people"):
        assert open_source(place).read().to_pydict() == whole
    some = open_source(f"{database}::select name from people where age > 40")
    assert some.read().to_pydict() == {"name": ["Cy"]}
    assert (
        pa.concat_tables(as_source(f"{database}::people").batches(["age"]))["age"].to_pylist() == whole["age"]
    )
    # pysqlite is a driver that SQLAlchemy is asked for by name: the way of every other database.
    assert (
        open_source(f"sqlite+pysqlite:///{database}::select count(*) as n from people").read()["n"][0].as_py()
        == 3
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select nope from people", "no such column"),
        ("delete from people", "readonly|read-only|no rows"),
        ("nope", "no such table"),
    ],
)
def test_a_query_that_fails_says_why_and_changes_nothing(database, query, said):
    with pytest.raises(SourceError, match=said):
        open_source(f"{database}::{query}")
    assert open_source(database).n_rows == 3


def test_duckdb_files_are_asked(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("create table t as select range as x, 'g' || (range % 2) as g from range(5)")
    assert open_source(tmp_path / "a.duckdb").read()["x"].to_pylist() == [0, 1, 2, 3, 4]
    read = open_source(
        f"duckdb:///{tmp_path}/a.duckdb::select g, count(*) n from t group by g order by g"
    ).read()
    assert read["g"].to_pylist() == ["g0", "g1"]
    assert read["n"].to_pylist() == [3, 2]


def test_passwords_of_databases_are_not_shown():
    pytest.importorskip("sqlalchemy")
    with pytest.raises(SourceError) as error:
        open_source("nosuch://ann:secret@host/people::select 1")
    assert "secret" not in str(error.value)
    assert "ann:***@host" in str(error.value)


def test_files_below_each_other_are_one_table_whatever_they_are_written_in(tmp_path):
    parts = [TABLE.slice(0, 2), TABLE.slice(2, 2)]
    write_table(parts[0], tmp_path / "a1.csv")
    write_table(parts[1], tmp_path / "a2.csv")
    write_table(parts[1], tmp_path / "b.parquet")
    for place in (
        [tmp_path / "a1.csv", tmp_path / "a2.csv"],
        [tmp_path / "a1.csv", tmp_path / "b.parquet"],
        f"{tmp_path}/a?.csv",
    ):
        read = open_source(place).read()
        assert values(read, "n") == [1, 2, 3, 4]
        assert values(read, "x") == values(TABLE, "x")
        assert as_text(read["name"]).to_pylist() == TABLE["name"].to_pylist()


def test_a_folder_of_csv_is_one_table_and_its_folders_names_are_columns(tmp_path):
    for year in ("2023", "2024"):
        (tmp_path / "d" / f"year={year}").mkdir(parents=True)
        write_table(pa.table({"x": [1, 2]}), tmp_path / "d" / f"year={year}" / "part.csv")
    read = open_source(tmp_path / "d").read()
    assert read["year"].to_pylist() == ["2023", "2023", "2024", "2024"]
    assert open_source(tmp_path / "d").read(["year"]).num_rows == 4


def test_files_with_other_columns_are_not_one_table(tmp_path):
    write_table(pa.table({"x": [1]}), tmp_path / "a.csv")
    write_table(pa.table({"y": [1]}), tmp_path / "b.csv")
    with pytest.raises(SourceError, match=r"b\.csv has no column 'x', which .*a\.csv has"):
        open_source([tmp_path / "a.csv", tmp_path / "b.csv"])


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_standard_input_is_read_whatever_is_written_there(tmp_path, monkeypatch, ending):
    write_table(TABLE, tmp_path / f"a.{ending}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / f"a.{ending}").read_bytes())))
    source = open_source("-")
    assert values(source.read(), "n") == [1, 2, 3, 4]
    # A fit reads its rows several times.
    assert values(source.read(), "x") == values(TABLE, "x")
    assert str(source.path) == "standard input"
    with pytest.raises(SourceError, match="Standard input is empty"):
        open_source("-")


def test_json_is_read_by_line_and_as_a_list_with_keys_in_any_row(tmp_path):
    rows = [{"a": 1}, {"a": "x", "b": [1, 2]}, {"b": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    for name in ("a.jsonl", "a.json"):
        assert open_source(tmp_path / name).read().to_pydict() == {
            "a": ["1", "x", None],
            "b": [None, "[1, 2]", None],
        }
    (tmp_path / "b.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(SourceError, match="line 2 is no object of its own"):
        open_source(tmp_path / "b.jsonl")


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress], ids=["bzip2", "xz"])
def test_a_packed_file_that_is_cut_short_is_said_to_be_damaged(tmp_path, pack):
    whole = pack(b"a,b\n" + b"1,2\n" * 50_000)
    (tmp_path / "a.csv").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="damaged"):
        open_source(tmp_path / "a.csv").read()


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav", "db", "duckdb"])
def test_a_damaged_file_of_another_program_is_said_to_be_damaged(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    if ending == "db":
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("create table t as select 1 as a")
            database.commit()
    elif ending == "duckdb":
        with pytest.importorskip("duckdb").connect(path) as database:
            database.execute("create table t as select 1 as a")
    else:
        pytest.importorskip(NEEDED[ending])
        write_table(pa.table({"a": [1.0, 2.0]}), path)
    whole = path.read_bytes()
    for share in (0.3, 0.5, 0.7):
        cut = int(len(whole) * share)
        path.write_bytes(whole[:cut] + bytes(64) + whole[cut + 64 :] if share == 0.5 else whole[:cut])
        with contextlib.suppress(SourceError):
            open_source(path)
    path.write_bytes(whole[:200] + b"\xff" * (len(whole) - 200))
    with pytest.raises(SourceError, match=r"(xport|export) it again|zip archive"):
        open_source(path)


def test_a_missing_package_is_said_before_any_work(monkeypatch, tmp_path):
    from groupshift._data import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    for name, extra in (("a.xlsx", "excel"), ("a.dta", "statistics")):
        with pytest.raises(ImportError, match=rf'pip install "groupshift\[{extra}\]"'):
            table_format(tmp_path / name)


def test_a_table_that_a_format_cannot_hold_is_refused_and_leaves_no_file(tmp_path):
    pytest.importorskip("pyreadstat")
    with pytest.raises(OutputError, match=r"Cannot write .*a\.dta"):
        write_table(pa.table({"a name with spaces": [1]}), tmp_path / "a.dta")
    assert not list(tmp_path.iterdir())


def test_a_query_in_an_address_streams_and_is_asked_again_for_every_pass(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "lake.db") as database:
        database.execute(
            "create table people as select i as a, i % 7 as g, uuid() as id from range(200_000) t(i)"
        )

    def copied(*_):
        raise AssertionError("rows of a query to DuckDB are copied")

    monkeypatch.setattr("groupshift.tables.snapshots.Snapshot.of", copied)
    source = open_source(
        f"duckdb:///{tmp_path}/lake.db?query=select a, g, id from people where g < 3 order by a"
    )
    assert source.columns == ("a", "g", "id")
    first, second = (list(source.batches(["a", "g"])) for _ in range(2))
    assert len(first) > 1
    assert pa.concat_tables(first) == pa.concat_tables(second)
    assert sum(table.num_rows for table in first) == 85_716
    # Encoded, as an address has it, the same is asked.
    encoded = open_source(f"duckdb:///{tmp_path}/lake.db?query=select+a+from+people+where+g+%3C+3")
    assert encoded.read().num_rows == 85_716
    batches = as_source(f"duckdb:///{tmp_path}/lake.db?query=select a, g from people", batch_rows=50_000)
    assert [table.num_rows for table in batches.batches(["g"])] == [50_000] * 4
