"""Errors are one paragraph, exit codes can be trusted, and help is enough to get through the job."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")

from cli_files import ROLES, run_cli, survey_tables
from groupshift.cli.errors import run
from groupshift.tables.files import write_table


@pytest.fixture
def files(tmp_path):
    labeled, unlabeled, _ = survey_tables()
    write_table(labeled, tmp_path / "a.csv")
    write_table(unlabeled, tmp_path / "b.csv")
    return [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]


def one_paragraph(text):
    return text.startswith("Error: ") and text.count("\n") == 1 and "Traceback" not in text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["fitt"], "Did you mean 'fit'"),
        (["fit"], "Missing"),
        (["fit", "none.csv", *ROLES, "-o", "m.gshift"], "There is no file none.csv"),
        (["fit", "A", *ROLES, "--group", "stat", "-o", "m.gshift"], "Did you mean 'state'"),
        (["fit", "A", *ROLES, "--exclude", "ages", "-o", "m.gshift"], "Did you mean 'age'"),
        (["fit", "A", *ROLES, "--method", "magic", "-o", "m.gshift"], "Choose one of groupshift"),
        (["fit", "A", *ROLES, "--positive", "maybe", "-o", "m.gshift"], "no value of 'in_favour'"),
        (["fit", "A", *ROLES, "-o", "-"], "name a file"),
        (["fit", "A", *ROLES, "-o", "none/m.gshift"], "does not exist"),
        (
            ["fit", "A", *ROLES, "--features", "person", "--exclude", "person", "-o", "m.gshift"],
            "No usable feature",
        ),
        (["predict", "A", "A", "-o", "p.csv"], "no groupshift model"),
        (["predict", "none.gshift", "A", "-o", "p.csv"], "There is no file"),
        (["predict", "A", "A", "-o", "p.docx"], "End its name in"),
        (["predict", "A", "A", "-o", "p.csv", "--coverage", "90"], "not a probability"),
        (["demo", "--data", "mars"], "Choose one of survey, flights"),
        (["check", "A", "--target", "age", "--group", "state"], "'age' looks like a number"),
    ],
)
def test_bad_input_is_one_paragraph_and_exit_code_2(files, tmp_path, monkeypatch, capsys, command, said):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert run([files[0] if part == "A" else part for part in command]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert one_paragraph(err)
    assert said in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_fault_of_ours_is_exit_code_1_with_a_traceback_only_under_debug(
    files, tmp_path, monkeypatch, capsys
):
    def broken(*_, **__):
        raise KeyError("deep inside")

    monkeypatch.setattr("groupshift.cli.check.read_training", broken)
    assert run(["check", *files, *ROLES]) == 1
    err = capsys.readouterr().err
    assert one_paragraph(err)
    assert "--debug" in err
    assert run(["check", *files, *ROLES, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_says_that_nothing_was_written(files, monkeypatch, capsys):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("groupshift.cli.check.read_training", stopped)
    assert run(["check", *files, *ROLES]) == 130
    assert "Stopped" in capsys.readouterr().err


def test_a_closed_pipe_is_no_error(files):
    command = [sys.executable, "-m", "groupshift.cli", "check", *files, *ROLES, "--quick"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
    assert done.returncode == 141


def test_exit_codes_and_streams_of_a_real_process(files, tmp_path):
    done = run_cli("check", *files, *ROLES, "--quick")
    assert done.returncode == 0
    assert "360 labeled rows" in done.stdout
    assert "\x1b[" not in done.stdout + done.stderr
    done = run_cli("check", files[0])
    assert (done.returncode, done.stdout) == (2, "")
    assert one_paragraph(done.stderr)


def test_help_shows_the_whole_job(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for said in (
        "check",
        "fit",
        "predict",
        "shares",
        "update",
        "report",
        "demo",
        "--force",
        "Exit codes",
        "model.gshift",
    ):
        assert said in out


@pytest.mark.parametrize("command", ["check", "fit", "predict", "shares", "update", "report", "demo"])
def test_every_command_has_help_with_an_example(command, capsys):
    assert run([command, "--help"]) == 0
    assert f"groupshift {command}" in capsys.readouterr().out


def test_the_version_is_told(capsys):
    import groupshift

    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"groupshift {groupshift.__version__}\n"


def test_without_its_packages_the_command_line_names_the_extra(monkeypatch, capsys):
    from groupshift import cli

    monkeypatch.setattr(cli, "NEEDED", ("typer", "no_such_package"))
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(
        "The command line needs no_such_package. Install it with: pip install"
    )
