"""Files are read whatever they are written in, and written whole or not at all."""

import gzip
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="reading files needs the extra files")

from groupshift.tables.arrow import SourceError  # noqa: E402
from groupshift.tables.arrow import pa as pa_when_used  # noqa: E402
from groupshift.tables.column_facts import plan_column  # noqa: E402
from groupshift.tables.columns import ColumnPlan, as_text, convert, group_values  # noqa: E402
from groupshift.tables.files import OutputError, check_output, table_format, whole_file, write_table  # noqa: E402
from groupshift.tables.sources import open_source  # noqa: E402

TABLE = {"name": ["Zoë", "Ödön", "naïve; café"], "x": ["1", "2", "3"]}


def text_of(separator=","):
    rows = ["name,x", "Zoë,1", "Ödön,2", '"naïve; café",3']
    return "\n".join(row.replace(",", separator) for row in rows) + "\n"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"]
)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encoding_and_separator_are_found(tmp_path, encoding, separator):
    path = tmp_path / "a.csv"
    path.write_bytes(text_of(separator).encode(encoding))
    assert open_source(path).read().to_pydict() == TABLE


def test_one_byte_far_down_decides_the_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"name,x\n" + b"plain,1\n" * 600_000 + "Zoë,2\n".encode("latin-1"))
    assert open_source(path).read()["name"][-1].as_py() == "Zoë"


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow", ".feather"])
def test_what_is_written_reads_the_same(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    table = pa.table(
        {"name": TABLE["name"], "x": [1.5, None, 3.0], "a column, with comma": ["p", 'q"q', "r\nr"]}
    )
    write_table(table, path)
    read = open_source(path).read()
    assert read.column_names == table.column_names
    assert as_text(read["x"]).to_pylist() == ["1.5", None, "3"]
    assert read["a column, with comma"].to_pylist() == table["a column, with comma"].to_pylist()


def test_endings_of_files_do_not_matter_when_reading(tmp_path):
    path = tmp_path / "misnamed.txt"
    write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    os.rename(tmp_path / "a.parquet", path)
    assert open_source(path).read()["x"].to_pylist() == [1, 2]


def test_arrow_streams_are_read(tmp_path):
    table = pa.table({"x": [1, 2]})
    with pa.OSFile(str(tmp_path / "a.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    assert open_source(tmp_path / "a.arrows").read() == table


def test_batches_are_the_whole(tmp_path):
    table = pa.table({"x": np.arange(200_000), "g": ["a", "b"] * 100_000})
    for ending in (".parquet", ".csv", ".arrow"):
        write_table(table, tmp_path / f"a{ending}")
        source = open_source(tmp_path / f"a{ending}")
        batches = list(source.batches(["x"]))
        assert sum(batch.num_rows for batch in batches) == 200_000
        if ending != ".csv":
            assert max(batch.num_rows for batch in batches) <= 65_536


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04rest", "Excel workbook or a zip"),
        (b"\x00\x01\x02\x03\x00\x07" * 50, "no text and no known table"),
        (b"a,a,b\n1,2,3\n", "more than one column named 'a'"),
        (b"PAR1 but cut", "begins like Parquet"),
        (gzip.compress(b"a,b\n" + os.urandom(50_000))[:-2000], "damaged gzip"),
    ],
    # Two test processes must agree on the names, which random bytes would not.
    ids=lambda value: value if isinstance(value, str) else "file",
)
def test_files_that_are_no_tables_are_refused_with_the_reason(tmp_path, content, said):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=said):
        open_source(path)


def test_a_row_of_another_width_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(SourceError, match="another number of cells"):
        open_source(path).read()


def test_a_misspelled_column_is_guessed(tmp_path):
    (tmp_path / "a.csv").write_text("State,y\nx,1\n")
    with pytest.raises(SourceError, match="Did you mean 'State'"):
        open_source(tmp_path / "a.csv").read(["state"])


def test_without_pyarrow_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "groupshift\[files\]"'):
        type(pa_when_used)("pyarrow").table({})


# What columns are


def chunked(values, kind=None):
    return pa.chunked_array([pa.array(values, kind)])


@pytest.mark.parametrize(
    ("values", "plan"),
    [
        (["1", " 2.5", "-3e2", ""], ColumnPlan("c", "number")),
        (["$1,200.50", "$3", "1,234,567"], ColumnPlan("c", "number")),
        (["12 %", "3%"], ColumnPlan("c", "number")),
        (["1,5", "1.234,25", "-7"], ColumnPlan("c", "number", decimal=",")),
        (["1"] * 199 + ["unknown"], ColumnPlan("c", "number")),
        (["1"] * 50 + ["unknown"] * 2, ColumnPlan("c", "category")),
        (["01234", "99999"], ColumnPlan("c", "category")),
        (["True", "false"], ColumnPlan("c", "boolean")),
        (["2013-01-31", "NA"], ColumnPlan("c", "date", format="%Y-%m-%d")),
        (
            ["2013-01-31T10:00:00Z", "2013-02-01 11:30:00.123"],
            ColumnPlan("c", "date", format="%Y-%m-%d %H:%M:%S"),
        ),
        (["31.01.2013", "1.2.2013"], ColumnPlan("c", "date", format="%d.%m.%Y")),
        (["01/31/2013", "02/01/2013"], ColumnPlan("c", "date", format="%m/%d/%Y")),
        (["31/01/2013", "01/02/2013"], ColumnPlan("c", "date", format="%d/%m/%Y")),
        (["", "NA", None], ColumnPlan("c", "empty")),
        ([f"person {i}" for i in range(100)], ColumnPlan("c", "id")),
        ([str(i) for i in range(300)], ColumnPlan("c", "id")),
        (["a", "b"] * 100, ColumnPlan("c", "category")),
        ([[1], [2, 3]], ColumnPlan("c", "nested")),
        ([b"\x00", b"\x01"], ColumnPlan("c", "nested")),
    ],
)
def test_kinds_of_columns(values, plan):
    assert plan_column("c", chunked(values)) == plan


def test_row_numbers_are_ids_and_measurements_are_not():
    rng = np.random.default_rng(0)
    assert plan_column("c", chunked(rng.permutation(1000))).kind == "id"
    assert plan_column("c", chunked(np.sort(rng.choice(2000, 1000, replace=False)))).kind == "id"
    assert plan_column("income", chunked(rng.choice(10_000_000, 1000, replace=False))).kind == "number"
    assert plan_column("person_id", chunked(rng.choice(10_000_000, 1000, replace=False))).kind == "id"
    assert plan_column("age", chunked(rng.integers(18, 90, 1000))).kind == "number"


def test_values_that_do_not_fit_are_missing_and_counted():
    numbers, lost = convert(chunked(["1", "x", None, "inf"]), ColumnPlan("c", "number"))
    assert (numbers.to_pylist(), lost) == ([1.0, None, None, None], 2)
    dates, lost = convert(chunked(["2013-01-31", "soon"]), ColumnPlan("c", "date", format="%Y-%m-%d"))
    assert (str(dates[0]), lost) == ("2013-01-31 00:00:00", 1)


@pytest.mark.parametrize(
    "column",
    [
        chunked(["2020-01-02", None], pa.string()).cast(pa.date32()),
        chunked([1577923200000, None], pa.timestamp("ms", tz="Europe/Berlin")),
        chunked(["2020-01-02", None]),
    ],
)
def test_dates_of_every_type_become_the_same(column):
    plan = plan_column("c", column)
    assert plan.kind == "date"
    assert str(convert(column, plan)[0][0]) == "2020-01-02 00:00:00"


def test_other_arrow_types_find_their_kind():
    assert plan_column("c", chunked(["a", "b"]).dictionary_encode()).kind == "category"
    assert convert(chunked([1_000_000], pa.duration("us")), ColumnPlan("c", "number"))[0].to_pylist() == [1.0]
    assert convert(chunked([3600], pa.time32("s")), ColumnPlan("c", "number"))[0].to_pylist() == [3600.0]
    assert plan_column("c", chunked([None, None])).kind == "empty"


def test_groups_are_the_same_in_every_file():
    for values in (["1", "2"], [1, 2], [1.0, 2.0]):
        assert group_values(chunked(values)).tolist() == ["1", "2"]
    assert group_values(chunked(["NA", " US", "", None])).tolist() == ["NA", "US", None, None]


# Whole or not at all


def test_a_failed_block_leaves_nothing(tmp_path):
    def fail():
        with whole_file(tmp_path / "a.csv") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_file_appears_only_when_complete(tmp_path):
    with whole_file(tmp_path / "a.csv") as file:
        file.write(b"all")
        assert not (tmp_path / "a.csv").exists()
    assert (tmp_path / "a.csv").read_bytes() == b"all"
    assert (tmp_path / "a.csv").stat().st_mode & 0o400


@pytest.mark.parametrize("unnamed", [True, False])
def test_an_existing_file_is_replaced_only_by_force(tmp_path, monkeypatch, unnamed):
    monkeypatch.setattr(
        "groupshift.tables.files._has_unnamed_files", lambda: unnamed and hasattr(os, "O_TMPFILE")
    )
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(OutputError, match="--force"), whole_file(path):
        pass
    assert path.read_text() == "old"
    with whole_file(path, force=True) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_file_that_came_up_meanwhile_is_left_alone(tmp_path, monkeypatch, unnamed):
    monkeypatch.setattr(
        "groupshift.tables.files._has_unnamed_files", lambda: unnamed and hasattr(os, "O_TMPFILE")
    )
    path = tmp_path / "a.csv"

    def be_late():
        with whole_file(path) as file:
            file.write(b"late")
            path.write_text("first")

    with pytest.raises(OutputError):
        be_late()
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_said():
    with pytest.raises(OutputError, match="no room is left"), whole_file("/dev/full") as file:
        file.write(b"x" * 100_000)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limits on file sizes here")
def test_a_disk_that_fills_up_leaves_no_half_file(tmp_path):
    """A limit on the size of files stands for a full disk: writing fails in the middle."""
    code = (
        "import sys; from groupshift.tables.files import whole_file\n"
        "with whole_file(sys.argv[1]) as file:\n"
        "    for _ in range(100): file.write(b'x' * 100_000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.csv")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no room is left" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    for path, said in (
        (tmp_path / "none" / "a.csv", "does not exist"),
        (tmp_path / "file" / "a.csv", "is no folder"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(OutputError, match=said):
            check_output(path)


def test_a_name_without_a_known_ending_is_refused():
    with pytest.raises(OutputError, match=r"End its name in \.csv"):
        table_format("predictions.docx")
