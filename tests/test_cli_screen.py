"""What a command says fits a screen: at most 20 lines and 150 words, unless details are asked for."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("skops")

import pyarrow as pa

from cli_files import ROLES, make_fits_quick, survey_tables
from groupshift import load
from groupshift.cli.errors import run
from groupshift.tables.files import write_table

MOST_LINES, MOST_WORDS, WIDTH = 20, 150, 88


def survey(folder):
    """Two classes in six groups."""
    labeled, unlabeled, _ = survey_tables()
    return labeled, unlabeled, ROLES


def without_groups(folder):
    labeled, unlabeled, _ = survey_tables()
    return labeled.drop_columns(["state"]), unlabeled.drop_columns(["state"]), ROLES[:2]


def several_classes(folder):
    labeled, unlabeled, _ = survey_tables()
    said = [f"{v}_{i % 2}" for i, v in enumerate(labeled["in_favour"].to_pylist())]
    at = labeled.column_names.index("in_favour")
    return labeled.set_column(at, "in_favour", [said]), unlabeled, ROLES


def many_groups(folder):
    """Sixty groups, forty columns, some of which want a remark, and a weight that only one file has."""
    rng = np.random.default_rng(0)
    group = np.tile([f"precinct {g:02d}, northern ward" for g in range(60)], 20)
    wide = {f"measurement {j}": rng.normal(size=1200) for j in range(36)}
    y = (rng.uniform(size=1200) < 0.4).astype(int)
    table = pa.table(
        {"answer": y, "place of living": group, **wide, "number": np.arange(1200), "same": ["x"] * 1200}
        | {"leak": y + rng.uniform(0, 0.1, 1200), "id": [f"P{i}" for i in range(1200)]}
    )
    roles = ["--target", "answer", "--group", "place of living"]
    return table.slice(0, 600), table.slice(600).drop_columns(["answer"]), roles


@pytest.fixture(scope="module", params=[survey, without_groups, several_classes, many_groups])
def said(request, tmp_path_factory):
    """What every command says of a table, and the model of it."""
    folder = tmp_path_factory.mktemp("screen")
    labeled, unlabeled, roles = request.param(folder)
    write_table(labeled, folder / "labeled.csv")
    write_table(unlabeled, folder / "unlabeled.csv")
    files = ["labeled.csv", "unlabeled.csv"]
    commands = {
        "check": ["check", *files, *roles],
        "fit": ["fit", *files, *roles, "--out", "m.gshift"],
        "predict": ["predict", "m.gshift", "unlabeled.csv", "--out", "p.csv"],
        "shares": ["shares", "m.gshift"],
        "explain": ["explain", "m.gshift"],
        "update": ["update", "m.gshift", "unlabeled.csv", "--out", "n.gshift"],
        "compare": ["compare", "m.gshift", "n.gshift"],
    }
    if request.param is not several_classes:
        commands["audit"] = ["audit", "m.gshift", "unlabeled.csv", "--budget", "20", "--out", "l.csv"]
    found = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        make_fits_quick(monkeypatch)
        for name, command in commands.items():
            heard = io.StringIO()
            with redirect_stdout(heard), redirect_stderr(heard):
                assert run(command) == 0
            found[name] = heard.getvalue()
    return found, load(folder / "m.gshift")


def lines_of(text):
    """Lines of a terminal, where long ones are folded."""
    return sum(max(1, -(-len(line.rstrip()) // WIDTH)) for line in text.strip().splitlines())


def words_of(text):
    return len(re.findall(r"\S*[^\W\d_]\S*", text))


@pytest.mark.parametrize(
    "command", ["check", "fit", "predict", "shares", "explain", "update", "compare", "audit"]
)
def test_an_answer_fits_a_screen(said, command):
    text = said[0].get(command, "")
    assert lines_of(text) <= MOST_LINES, text
    assert words_of(text) <= MOST_WORDS, text


@pytest.mark.parametrize("command", ["check", "fit"])
def test_the_question_that_matters_is_asked_with_its_three_answers(said, command):
    text, model = said[0][command], said[1]
    if model.shift_.any():
        for answer in ("at random", "because of the label", "not known (used here)"):
            assert answer in text
        assert "chosen for labels? (--selection random, by-label or unknown)" in text


@pytest.mark.parametrize("command", ["predict", "shares"])
def test_an_answer_ends_with_the_verdict(said, command):
    assert said[0][command].rstrip().endswith(said[1].diagnose().verdict)
