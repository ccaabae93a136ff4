"""A settings file holds a whole job, and is the commands that one would type."""

from importlib import import_module
from inspect import getclosurevars, signature
from unittest.mock import patch

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from cli_files import make_fits_quick, write_survey
from groupshift.cli.app import app, job_commands, run_job
from groupshift.cli.errors import run
from groupshift.tables.sources import open_source

JOB = """
[fit]
labeled = "labeled.csv"
unlabeled = ["unlabeled.parquet"]
target = "in_favour"
group = "state"
exclude = ["person"]
seed = 7
out = "m.gshift"

[predict]
data = "new.csv"
keep = ["person", "state"]
out = "p.csv"

[shares]
out = "s.csv"

[report]
out = "r.html"
"""


def test_a_whole_job_runs_from_one_file_wherever_one_stands(tmp_path, monkeypatch, capsys):
    make_fits_quick(monkeypatch)
    write_survey(tmp_path)
    (tmp_path / "groupshift.toml").write_text(JOB)
    assert run(["run", f"{tmp_path}/groupshift.toml"]) == 0
    assert open_source(tmp_path / "p.csv").columns[:3] == ("person", "state", "probability")
    assert {"s.csv", "r.html", "m.gshift"} <= {path.name for path in tmp_path.iterdir()}
    # The seed is in the report, so that the model can be made again.
    assert "Random seed" in (tmp_path / "r.html").read_text()
    capsys.readouterr()
    assert run(["run", f"{tmp_path}/groupshift.toml"]) == 2
    assert "exists already" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert run(["run", "--force"]) == 0


def test_lists_and_switches_become_options():
    section = {
        "labeled": "a",
        "unlabeled": ["b", "c"],
        "target": "y",
        "group": ["g", "h"],
        "out": "m",
        "json": True,
    }
    (command,) = job_commands({"fit": section})
    assert command == ["fit", "a", "b", "c", "--target", "y", "--group", "g,h", "--out", "m", "--json"]


def test_names_with_commas_and_values_with_dashes_reach_the_command():
    section = {"labeled": "a", "target": "y", "exclude": ["Age, in years", "x"], "positive": "-1", "out": "m"}
    (command,) = job_commands({"fit": section})
    with patch("groupshift.cli.fit.fit") as fit:
        assert run(command) == 0
    assert (fit.call_args.kwargs["exclude"], fit.call_args.kwargs["positive"]) == (
        ("Age, in years", "x"),
        "-1",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[fit]\nlabeled = 'a.csv'", "needs a section [fit] with labeled, target and out"),
        ("[fits]\n", "no section [fits]"),
        ("fit = 3", "is a section"),
        ("[fit", "not a settings file in TOML"),
        ("[fit]\nlabeled='a.csv'\ntarget='y'\nout='m.gshift'\nnope=1", "--nope"),
        ("[fit]\nlabeled='a.csv'\ntarget='y'\nout=['m', 'n']", "needs a section [fit]"),
        ("[fit]\nfeatures=" + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("[fit]\nseed=" + "1" * 5000, "has thousands of digits"),
        ("[fit]\nlabeled=[['a.csv']]\ntarget='y'\nout='m'", "a text, a number, or a list of these"),
        ("\0", "not a settings file in TOML"),
        (None, "There is no settings file"),
    ],
)
def test_a_settings_file_that_is_none_is_one_paragraph(tmp_path, monkeypatch, capsys, text, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "groupshift.toml").write_text(text)
    assert run(["run"]) == 2
    assert said in capsys.readouterr().err


def test_a_name_with_a_newline_is_one_name_of_a_list(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_survey(tmp_path)
    settings = "[fit]\nlabeled='labeled.csv'\ntarget='in_favour'\nout='m.gshift'\nfeatures=['age\\nin years', \"a\\nb\"]"
    (tmp_path / "groupshift.toml").write_text(settings)
    assert run(["run"]) == 2
    assert "has no column 'age\\\\nin years', 'a\\nb'" in capsys.readouterr().err


def test_a_folder_is_not_a_settings_file(tmp_path, capsys):
    assert run(["run", str(tmp_path)]) == 2
    assert f"Cannot read the settings file {tmp_path}: Is a directory" in capsys.readouterr().err


def test_what_does_the_work_of_a_command_takes_what_can_be_typed():
    for command in app.registered_commands:
        work = getclosurevars(command.callback).nonlocals
        function = getattr(import_module(work["module"]), work["name"])
        signature(function).bind(**dict.fromkeys(signature(command.callback).parameters))


def test_a_job_asks_nobody_how_labels_were_chosen(tmp_path):
    write_survey(tmp_path)
    settings, _, _ = JOB.partition("[predict]")
    for more, selection in (("", "unknown"), ('selection = "random"', "random")):
        (tmp_path / "groupshift.toml").write_text(settings + more)
        with patch("groupshift.cli.fit.fit") as fit:
            run_job(f"{tmp_path}/groupshift.toml", force=False)
        assert fit.call_args.kwargs["selection"] == selection
