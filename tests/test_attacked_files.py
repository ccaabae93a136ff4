"""Tables that fight back: one sentence says what is wrong, or the file is read as it stands."""

import contextlib
import glob
import gzip
import os
import sqlite3
import subprocess
import sys
import time
import zipfile
from contextlib import closing, suppress

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("skops")
pytest.importorskip("pyarrow")

import pyarrow as pa

from cli_files import ROLES, small, survey_tables
from groupshift.cli.errors import run
from groupshift.tables.arrow import SourceError
from groupshift.tables.files import Spelt, clean, write_table
from groupshift.tables.sources import open_source

pytestmark = pytest.mark.usefixtures("quick_fits")


def fit(path, *more):
    return run(["fit", str(path), "--target", "y", "--group", "g", "-o", f"{path}.gshift", *more])


def test_a_flipped_bit_in_an_arrow_file_is_said_and_not_followed(tmp_path):
    texts = [f"name {i}" for i in range(2000)]
    write_table(pa.table({"g": texts, "d": pa.array(texts).dictionary_encode()}), tmp_path / "t.arrow")
    data = bytearray((tmp_path / "t.arrow").read_bytes())
    ends = np.arange(2001, dtype=np.int32)
    start = data.find(np.array([0, 6, 12], np.int32).tobytes())
    assert start > 0
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = data.copy()
        damaged[start + int(rng.integers(0, 4 * len(ends)))] ^= 1 << int(rng.integers(0, 8))
        (tmp_path / "t.arrow").write_bytes(damaged)
        try:
            table = open_source(tmp_path / "t.arrow").read()
        except SourceError:
            continue
        assert len(table["g"].to_pylist()) == len(table["d"].to_pylist()) == 2000


def test_a_header_of_twenty_thousand_columns_is_read(tmp_path):
    names = [f"a rather long name of column {j}" for j in range(20_000)]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    source = open_source(tmp_path / "t.csv")
    assert list(source.columns) == names
    assert source.read(names[-2:]).to_pydict() == {names[-2]: ["1"], names[-1]: ["1"]}


def test_one_column_keeps_its_empty_rows(tmp_path, world):
    (tmp_path / "t.csv").write_text("x\n1\n\n3\n\n")
    assert open_source(tmp_path / "t.csv").read()["x"].to_pylist() == ["1", None, "3", None]


def test_predictions_of_a_single_column_are_as_many_as_its_rows(tmp_path):
    table = small().select(["x", "y"])
    write_table(table, tmp_path / "t.csv")
    assert run(["fit", f"{tmp_path}/t.csv", "--target", "y", "-o", f"{tmp_path}/m.gshift"]) == 0
    (tmp_path / "new.csv").write_text(
        "x\n" + "".join("\n" if i % 4 == 0 else f"{i / 100}\n" for i in range(400))
    )
    assert run(["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/new.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    assert open_source(tmp_path / "p.csv").read().num_rows == 400


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_line_ends_of_all_systems_are_read(tmp_path, end):
    rows = [
        "x,g,y",
        *(",".join("" if v is None else str(v) for v in row.values()) for row in small().to_pylist()),
    ]
    (tmp_path / "t.csv").write_bytes(end.join([*rows, ""]).encode())
    assert fit(tmp_path / "t.csv") == 0


@pytest.mark.parametrize("zipped", [False, True])
def test_one_byte_that_is_no_utf8_is_said_with_its_line(tmp_path, capsys, zipped):
    lines = [f"{i},{town}" for i, town in enumerate(["Zürich", "Besançon", "Málaga", "Łódź"] * 10)]
    data = "\n".join(["x,g", *lines, ""]).encode().replace("Zürich".encode(), b"Z\xfcrich", 1)
    (tmp_path / "t.csv").write_bytes(gzip.compress(data) if zipped else data)
    with pytest.raises(SourceError, match=r"UTF-8 but for 1 bytes, the first of them in line 2\. Mend"):
        open_source(tmp_path / "t.csv")


def test_damaged_gzip_is_one_sentence(tmp_path):
    data = bytearray(gzip.compress(b"x,g\n" + b"1,a\n2,b\n" * 200))
    rng = np.random.default_rng(0)
    for _ in range(40):
        damaged = data.copy()
        damaged[int(rng.integers(10, len(data)))] ^= 1 << int(rng.integers(0, 8))
        (tmp_path / "t.csv.gz").write_bytes(damaged)
        with contextlib.suppress(SourceError):
            open_source(tmp_path / "t.csv.gz").read()


def test_dates_beyond_the_calendar_count_as_missing(tmp_path):
    days = pa.array([2**40 * (i % 2) for i in range(400)], pa.timestamp("s"))
    write_table(small(day=days), tmp_path / "t.parquet")
    assert run(["check", f"{tmp_path}/t.parquet", "--target", "y", "--group", "g", "--quick"]) == 0
    assert fit(tmp_path / "t.parquet") == 0


def test_a_file_of_an_old_program_is_still_read(tmp_path):
    (tmp_path / "t.csv").write_bytes("x,g\n1,Zürich\n2,Besançon\n".encode("cp1252"))
    assert open_source(tmp_path / "t.csv").read()["g"].to_pylist() == ["Zürich", "Besançon"]


@pytest.mark.parametrize("role", ["g", "y", "w"])
@pytest.mark.parametrize("kind", ["bytes", "list", "struct"])
def test_nested_and_binary_columns_are_one_sentence(tmp_path, capsys, role, kind):
    values = {"bytes": [b"a"] * 400, "list": [["a"]] * 400, "struct": [{"a": 1}] * 400}[kind]
    write_table(small(**{role: values}), tmp_path / "t.parquet")
    assert fit(tmp_path / "t.parquet", *(["--weight", "w"] if role == "w" else [])) == 2
    assert "Write it as text or numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "values", [[b"a"] * 400, [[1.0]] * 400, [{"a": 1}] * 400], ids=["bytes", "list", "struct"]
)
def test_a_column_that_turned_nested_is_one_sentence_at_predict(tmp_path, capsys, values):
    write_table(small(), tmp_path / "t.parquet")
    assert fit(tmp_path / "t.parquet") == 0
    for name in ("x", "g"):
        write_table(small(**{name: values}), tmp_path / f"{name}.parquet")
        out = ["-o", f"{tmp_path}/p.csv", "--force"]
        assert run(["predict", f"{tmp_path}/t.parquet.gshift", f"{tmp_path}/{name}.parquet", *out]) == 2
    kept = small(k=values)
    write_table(kept, tmp_path / "k.parquet")
    assert run(["predict", f"{tmp_path}/t.parquet.gshift", f"{tmp_path}/k.parquet", "--keep", "k", *out]) in (
        0,
        2,
    )
    assert "should not" not in capsys.readouterr().err


def test_a_pipe_is_refused_and_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "t.csv")
    assert fit(tmp_path / "t.csv") == 2
    assert "is no file but a pipe" in capsys.readouterr().err


def test_an_output_never_replaces_what_it_is_made_of(world, tmp_path, capsys):
    labeled, unlabeled, _ = survey_tables()
    write_table(labeled, tmp_path / "a.csv")
    write_table(unlabeled, tmp_path / "b.csv")
    os.symlink(tmp_path / "b.csv", tmp_path / "link.csv")
    model = tmp_path / "m.gshift"
    model.write_bytes((world / "m.gshift").read_bytes())
    files = [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for command in (
        ["fit", *files, *ROLES, "-o", files[1]],
        ["predict", str(model), files[1], "-o", files[1]],
        ["predict", str(model), files[1], "-o", f"{tmp_path}/link.csv"],
        ["predict", str(model), files[1], "-o", str(model)],
        ["update", str(model), files[1], "-o", files[1]],
        ["shares", str(model), "-o", str(model)],
        ["report", str(model), "-o", str(model)],
    ):
        assert run([*command, "--force"]) == 2
        assert "would be lost" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_output_does_not_join_the_folder_that_is_read(world, tmp_path, capsys):
    (tmp_path / "new").mkdir()
    write_table(survey_tables()[2], tmp_path / "new" / "1.parquet")
    command = ["predict", f"{world}/m.gshift", f"{tmp_path}/new", "-o", f"{tmp_path}/new/p.parquet"]
    assert run(command) == 2
    assert "among the files" in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 7 TiB"), pa.ArrowMemoryError("malloc")])
def test_memory_that_runs_out_is_one_sentence(tmp_path, monkeypatch, capsys, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr("groupshift.cli.check.read_training", full)
    assert run(["check", "t.csv", "--target", "y"]) == 2
    assert "not enough memory" in capsys.readouterr().err


def test_a_model_of_another_scikit_learn_is_said(world, tmp_path, capsys):
    from model_files import parts_of, seal

    manifest, parts = parts_of(world / "m.gshift")
    manifest["packages"]["scikit-learn"] = "1.2.0"
    seal(tmp_path / "m.gshift", manifest, parts)
    assert run(["shares", f"{tmp_path}/m.gshift", "-o", f"{tmp_path}/s.csv"]) == 0
    assert "was written with scikit-learn 1.2.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "table", [{"columns": 7}, {"kolumns": []}, {"columns": [{"name": 3}]}, ["columns"], "x"]
)
def test_a_recipe_that_is_none_is_refused(world, tmp_path, capsys, table):
    from model_files import parts_of, seal

    manifest, parts = parts_of(world / "m.gshift")
    manifest["table"] = table
    seal(tmp_path / "m.gshift", manifest, parts)
    assert run(["shares", f"{tmp_path}/m.gshift"]) == 2
    assert "is refused" in capsys.readouterr().err


EVIL = ["=cmd|'/c calc'!A1", "@SUM(A1)", "+1+1", "-2+3"]


def test_formulas_are_escaped_where_it_is_asked_for(tmp_path):
    names = np.tile(EVIL, 100)
    write_table(small(g=names, n=["-5"] * 400), tmp_path / "t.parquet")
    assert fit(tmp_path / "t.parquet") == 0
    model = f"{tmp_path}/t.parquet.gshift"
    predict = ["predict", model, f"{tmp_path}/t.parquet", "--keep", "g,n"]
    assert run([*predict, "-o", f"{tmp_path}/p.csv", "--escape-formulas"]) == 0
    assert run([*predict, "-o", f"{tmp_path}/plain.csv"]) == 0
    assert run([*predict, "-o", f"{tmp_path}/p.parquet", "--escape-formulas"]) == 0
    assert run(["shares", model, "-o", f"{tmp_path}/s.csv", "--escape-formulas"]) == 0
    escaped = [f"'{name}" for name in EVIL]
    assert open_source(tmp_path / "p.csv").read()["g"].to_pylist()[:4] == escaped
    assert set(open_source(tmp_path / "p.csv").read()["n"].to_pylist()) == {"-5"}
    assert set(open_source(tmp_path / "s.csv").read()["group"].to_pylist()) - {"(all)"} == set(escaped)
    for kept in ("plain.csv", "p.parquet"):
        assert open_source(tmp_path / kept).read()["g"].to_pylist()[:4] == EVIL


def test_what_steers_a_terminal_is_spelt_out_on_one(tmp_path, capsys):
    evil = "\x9b31mred\u202egnp.exe\x1b]0;title\x07"
    write_table(small(g=np.tile([evil, "b", "c", "d"], 100)), tmp_path / "t.parquet")
    assert fit(tmp_path / "t.parquet") == 0
    for json in ([], ["--json"]):
        assert run(["shares", f"{tmp_path}/t.parquet.gshift", *json]) == 0
    out, err = capsys.readouterr()
    assert not set(out + err) & set("\x9b\x1b\x07\u202e")
    assert "\\x9b31mred\\u202egnp.exe" in out

    class Terminal:
        written = b""

        def write(self, data):
            self.written += data

    terminal = Terminal()
    assert Spelt(terminal).write(f"{evil},1\n".encode()) == len(f"{evil},1\n".encode())
    assert terminal.written == b"\\x9b31mred\\u202egnp.exe\\x1b]0;title\\x07,1\n"


def test_what_a_killed_process_left_is_cleaned_at_the_next_start(tmp_path):
    dead = 2**22 + 1
    left = [tmp_path / f".t.csv.{dead}.new", tmp_path / f".t.csv.{dead}.ab_1.new"]
    others = [
        tmp_path / f".t.csv.{os.getpid()}.new",
        tmp_path / ".t.csv.new",
        tmp_path / f".u.csv.{dead}.new",
    ]
    for path in (*left, *others):
        path.write_text("")
    write_table(small(), tmp_path / "t.csv")
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)
    clean(tmp_path)
    assert not others[2].exists()


def test_a_rename_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    write_table(small(), tmp_path / "t.csv")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no room"):
        write_table(small(), tmp_path / "t.csv", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


SECRET = "the secret of another file"


@pytest.fixture
def reaching_out(tmp_path):
    """A DuckDB file whose only contents are a view over another file, under a name that says nothing."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB files need the extra database")
    (tmp_path / "secret.txt").write_text(SECRET)
    with duckdb.connect(tmp_path / "rows.csv") as database:
        database.execute(
            f"create view people as select content as y, 'a' as g from read_text('{tmp_path}/secret.txt')"
        )
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    "asked",
    ["", "::people", "::select * from people", "::select content from read_text('{folder}/secret.txt')"],
)
def test_a_database_reads_no_other_file(reaching_out, asked):
    with pytest.raises(SourceError) as refused:
        open_source(f"{reaching_out}{asked.format(folder=reaching_out.parent)}").read()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "query",
    [
        "set enable_external_access = true",
        "install httpfs",
        "load httpfs",
        "attach '{folder}/more.db'",
        "copy (select 1) to '{folder}/written.csv'",
    ],
)
def test_no_query_to_a_database_unlocks_it_or_writes(reaching_out, query):
    with pytest.raises(SourceError):
        open_source(f"{reaching_out}::{query.format(folder=reaching_out.parent)}")
    assert sorted(path.name for path in reaching_out.parent.iterdir()) == ["rows.csv", "secret.txt"]


def test_a_view_over_another_file_is_not_shown_by_check(reaching_out, capsys):
    assert run(["check", str(reaching_out), "--target", "y", "--group", "g"]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "views are not read unasked" in said.err


@pytest.fixture
def endless(tmp_path):
    """A SQLite file of 8 KB with a view that never ends."""
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        database.execute(
            "create view people as with recursive r(n) as (select 1 union all select n + 1 from r) "
            "select n, hex(randomblob(200)) as x from r"
        )
    return tmp_path / "rows.db"


def test_a_view_that_never_ends_is_not_begun(endless):
    with pytest.raises(SourceError, match="no table"):
        open_source(endless)


def test_a_copy_of_rows_has_a_limit_that_says_so(endless, monkeypatch):
    monkeypatch.setattr("groupshift.tables.snapshots.MOST_BYTES", 20 << 20)
    with pytest.raises(SourceError, match=r"may never end\. Ask for fewer rows"):
        open_source(f"{endless}::people")


def test_a_copy_that_is_killed_leaves_nothing(endless, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    code = f"from groupshift.tables import open_source; open_source({str(endless) + '::people'!r})"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(folder)}) as copying:
        began = time.monotonic()
        while _bytes_in_unnamed_files(copying.pid, folder) < 1 << 20:
            assert copying.poll() is None
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        copying.kill()
    assert list(folder.iterdir()) == []


def _bytes_in_unnamed_files(process, folder):
    found = 0
    for descriptor in glob.glob(f"/proc/{process}/fd/*"):
        with suppress(OSError):
            if os.readlink(descriptor).startswith(str(folder)):
                found += os.stat(descriptor).st_size
    return found


@pytest.mark.parametrize("kind", ["workbook", "standard input", "query"])
def test_a_full_temporary_folder_is_one_sentence(tmp_path, kind):
    """As a quota has it: no file may grow beyond a megabyte."""
    table = pa.table({"x": np.arange(300_000) % 977 / 7})
    if kind == "workbook":
        write_table(table.slice(0, 60_000), tmp_path / "rows.xlsx")
        place = tmp_path / "rows.xlsx"
    elif kind == "query":
        with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
            table.to_pandas().to_sql("rows", database, index=False)
        place = tmp_path / "rows.db"
    else:
        write_table(table, tmp_path / "rows.csv")
        place = "-"
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))\n"
        "from groupshift.tables import open_source, SourceError\n"
        "try: open_source(sys.argv[1])\n"
        "except SourceError as error: print(error)"
    )
    with open(tmp_path / "rows.csv" if place == "-" else os.devnull, "rb") as given:
        ran = subprocess.run(
            [sys.executable, "-c", code, str(place)], stdin=given, capture_output=True, text=True, check=False
        )
    assert "has no room for a copy of the rows" in ran.stdout
    assert ran.returncode == 0


def workbook_of(path, rows):
    """A workbook whose sheet holds these rows, as XML."""
    write_table(pa.table({"a": [1]}), path.with_suffix(".sound.xlsx"))
    space = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    sheet = b'<worksheet xmlns="' + space + b'"><sheetData>' + rows + b"</sheetData></worksheet>"
    with (
        zipfile.ZipFile(path.with_suffix(".sound.xlsx")) as sound,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as forged,
    ):
        for name in sound.namelist():
            forged.writestr(name, sheet if name == "xl/worksheets/sheet1.xml" else sound.read(name))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (b"<row><c><v>1</v></c></row>" * 2_000_000, "more than 1,048,576 rows"),
        (
            b'<row r="1"><c><v>1</v></c></row><row r="999999999"><c><v>1</v></c></row>',
            "more than 1,048,576 rows",
        ),
        (b"<row><c><v>" + b" " * 2**28 + b"1</v></c></row>", "would unpack to"),
    ],
    ids=["two million rows", "a row far below", "blanks"],
)
def test_a_workbook_that_no_excel_writes_is_refused_at_once(tmp_path, rows, said):
    workbook_of(tmp_path / "rows.xlsx", rows)
    assert (tmp_path / "rows.xlsx").stat().st_size < 400_000
    began = time.monotonic()
    with pytest.raises(SourceError, match=said):
        open_source(tmp_path / "rows.xlsx")
    assert time.monotonic() - began < 5
