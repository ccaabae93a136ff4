"""Columns that tell which group a row is of are the first thing that commands and the report speak of."""

import json

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import numpy as np

from cli_files import ROLES, survey_tables
from groupshift.cli.errors import run
from groupshift.tables.files import write_table

pytestmark = pytest.mark.usefixtures("quick_fits")
SAID = "tells which group a row is of"


@pytest.fixture
def files(tmp_path):
    """The survey with a place that gives the state away."""
    labeled, unlabeled, _ = survey_tables()
    states = sorted({*labeled["state"].to_pylist(), *unlabeled["state"].to_pylist()})
    rng = np.random.default_rng(0)
    for name, table in (("labeled", labeled), ("unlabeled", unlabeled)):
        number = np.array([states.index(state) for state in table["state"].to_pylist()])
        place = number + rng.uniform(0, 0.9, len(number))
        write_table(table.append_column("place", [place]), tmp_path / f"{name}.csv")
    return [f"{tmp_path}/labeled.csv", f"{tmp_path}/unlabeled.csv"]


def test_check_says_it_first_and_what_to_type(files, capsys):
    assert run(["check", *files, *ROLES, "--quick", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert SAID in notes[0]
    assert "--exclude place" in notes[0]
    assert run(["check", *files, *ROLES, "--quick"]) == 0
    assert SAID in " ".join(capsys.readouterr().err.split())
    assert run(["check", *files, *ROLES, "--quick", "--exclude", "place", "--json"]) == 0
    assert SAID not in capsys.readouterr().out


def test_fit_and_the_report_say_it_first(files, tmp_path, capsys):
    model, page = f"{tmp_path}/m.gshift", tmp_path / "r.html"
    assert run(["fit", *files, *ROLES, "-o", model, "--json"]) == 0
    assert SAID in json.loads(capsys.readouterr().out)["notes"][0]
    assert run(["report", model, "-o", str(page)]) == 0
    text = page.read_text()
    first = text.index(SAID)
    assert "--exclude place" in text
    assert first < text.index("Shares of the groups")


def test_a_file_without_groups_has_none_to_tell(files, capsys):
    assert run(["check", *files, "--target", "in_favour", "--quick", "--json"]) == 0
    assert SAID not in capsys.readouterr().out
