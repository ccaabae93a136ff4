"""A job by the command line on files of other programs, on pipes and on several files gives the job on two CSV files."""

import sys

import pytest

pa = pytest.importorskip("pyarrow", reason="the command line needs the extra cli")
pytest.importorskip("openpyxl", reason="workbooks need the extra excel")

from cli_files import ROLES, column, make_fits_quick, run_cli, survey_tables, write_survey  # noqa: E402
from groupshift.cli.errors import run  # noqa: E402
from groupshift.tables.files import write_table  # noqa: E402
from groupshift.tables.sources import open_source  # noqa: E402


@pytest.fixture
def quick(monkeypatch):
    make_fits_quick(monkeypatch)


def predictions(folder, files, new="new.csv"):
    model, out = folder / "m.gshift", folder / "p.parquet"
    assert run(["fit", *map(str, files), *ROLES, "-o", str(model), "--force"]) == 0
    assert run(["predict", str(model), str(folder / new), "-o", str(out), "--force"]) == 0
    return column(open_source(out).read(), "probability")


def test_two_spreadsheets_and_several_files_give_the_model_of_two_csv_files(quick, tmp_path, capsys):
    write_survey(tmp_path)
    labeled, unlabeled, new = survey_tables()
    plain = predictions(tmp_path, [tmp_path / "labeled.csv", tmp_path / "unlabeled.parquet"])
    for name, table in (("l.xlsx", labeled), ("u.xlsx", unlabeled), ("new.xlsx", new)):
        write_table(table, tmp_path / name)
    half = unlabeled.num_rows // 2
    write_table(unlabeled.slice(0, half), tmp_path / "u1.csv")
    write_table(unlabeled.slice(half), tmp_path / "u2.csv")
    assert (predictions(tmp_path, [tmp_path / "l.xlsx", tmp_path / "u.xlsx"], "new.xlsx") == plain).all()
    several = [tmp_path / "labeled.csv", tmp_path / "u1.csv", tmp_path / "u2.csv"]
    assert (predictions(tmp_path, several) == plain).all()
    assert (predictions(tmp_path, [tmp_path / "labeled.csv", tmp_path / "u?.csv"]) == plain).all()


def test_predictions_go_through_a_pipe_and_into_a_workbook(quick, tmp_path):
    write_survey(tmp_path)
    expected = predictions(tmp_path, [tmp_path / "labeled.csv", tmp_path / "unlabeled.parquet"])
    done = run_cli("predict", tmp_path / "m.gshift", "-", "-o", "-", input=(tmp_path / "new.csv").read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('"probability",')
    written = [float(line.split(",")[0]) for line in done.stdout.splitlines()[1:]]
    assert written == expected.tolist()
    assert "Wrote" in done.stderr
    assert run(["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/new.csv", "-o", f"{tmp_path}/p.xlsx"]) == 0
    assert run(["shares", f"{tmp_path}/m.gshift", "-o", f"{tmp_path}/s.xlsx"]) == 0
    read = open_source(tmp_path / "p.xlsx").read()
    assert column(read, "probability") == pytest.approx(expected, abs=1e-15)
    assert "share" in open_source(tmp_path / "s.xlsx").columns


def test_a_missing_extra_is_one_sentence_before_the_fit(tmp_path, monkeypatch, capfd):
    write_survey(tmp_path)
    write_table(survey_tables()[0], tmp_path / "l.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)  # Python's way to say that there is no such module
    command = [
        "fit",
        f"{tmp_path}/l.xlsx",
        f"{tmp_path}/unlabeled.parquet",
        *ROLES,
        "-o",
        f"{tmp_path}/m.gshift",
    ]
    assert run(command) == 2
    assert capfd.readouterr().err == (
        "Error: Reading and writing Excel workbooks needs openpyxl. Install it with: pip install "
        '"groupshift[excel]"\n'
    )
