"""`groupshift audit` as people use it: a file of rows to label, a spreadsheet in between, and what labels say."""

import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from groupshift import load
from groupshift.cli.errors import run
from groupshift.datasets import make_survey
from groupshift.tables.sources import open_source


@pytest.fixture(scope="module")
def truth():
    """Opinions of the population of the commands' world."""
    sample = make_survey(n_groups=6, labeled_per_group=60, unlabeled_per_group=80, random_state=0)
    return sample.truth[~sample.labeled & ~sample.test]


@pytest.fixture(scope="module")
def asked(world, tmp_path_factory):
    """The file of rows to label."""
    path = tmp_path_factory.mktemp("audit") / "to_label.csv"
    assert (
        run(["audit", f"{world}/m.gshift", f"{world}/unlabeled.parquet", "--budget", "40", "-o", str(path)])
        == 0
    )
    return path


def lines_of(path):
    """Lines for people, header, and lines of rows as dicts."""
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    return head, list(csv.DictReader(lines[len(head) :]))


def filled(asked, truth, path, *, n=40, separator=",", head="{}", change=lambda rows: rows):
    """The file as it comes back: labels of the first n rows, written as another program would."""
    above, rows = lines_of(asked)
    for row in rows[:n]:
        row["label"] = "yes" if truth[int(row["row"])] else "no"
    rows = change(rows)
    with open(path, "w", newline="") as file:
        file.writelines(head.format(line) + "\n" for line in above if head)
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_the_file_says_what_to_do_and_shows_rows_as_they_are(world, asked):
    head, rows = lines_of(asked)
    assert head[0] == "# groupshift audit: 40 rows to label and 8 spare rows"
    said = " ".join(head)
    for words in ("yes or no", "refused", f"groupshift audit {world}/m.gshift --labels {asked}"):
        assert words in said
    assert not any("," in line for line in head)
    population = open_source(f"{world}/unlabeled.parquet").read().to_pylist()
    assert [row["order"] for row in rows][38:42] == ["39", "40", "spare 1", "spare 2"]
    for row in rows:
        assert row["label"] == ""
        assert row["person"] == population[int(row["row"])]["person"]


def test_our_own_reader_reads_the_file_back(asked):
    source = open_source(asked)
    assert source.columns[:2] == ("order", "row")
    assert source.columns[-2:] == ("label", "sample_key")
    assert source.read().num_rows == 48


def test_a_header_of_others_may_begin_with_a_hash(tmp_path):
    path = tmp_path / "genes.csv"
    path.write_text("#chrom,start\n1,5\n2,6\n")
    assert open_source(path).columns == ("#chrom", "start")


@pytest.mark.parametrize(
    "written",
    [{}, {"head": '"{}",,,'}, {"head": "{};;;", "separator": ";"}, {"head": ""}, {"separator": "\t"}],
    ids=["as it was", "quoted head", "semicolons", "no head", "tabs"],
)
def test_labels_come_back_from_any_spreadsheet(world, asked, truth, tmp_path, capsys, written):
    labels = filled(asked, truth, tmp_path / "back.csv", **written)
    assert run(["audit", f"{world}/m.gshift", "--labels", labels, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == 40
    assert found["missing"] == 0
    assert found["interval"][0] < truth.mean() < found["interval"][1]


def test_the_whole_job(world, asked, truth, tmp_path, capsys):
    labels = filled(asked, truth, tmp_path / "back.csv")
    out = tmp_path / "audited.gshift"
    capsys.readouterr()
    files = [f"{world}/m.gshift", f"{world}/unlabeled.parquet"]
    assert run(["audit", *files, "--labels", labels, "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The audit of 40 labels" in said
    assert "The design of the sample alone" in said
    assert load(out).audit_.labels == 40
    assert run(["report", str(out), "-o", str(tmp_path / "r.html")]) == 0
    assert 'id="audit"' in (tmp_path / "r.html").read_text()
    capsys.readouterr()
    assert run(["shares", str(out), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    overall = np.average([row["share"] for row in rows], weights=[row["rows"] for row in rows])
    assert abs(overall - truth.mean()) < 0.12
    # More labels of the same file, later: learned from the model before the audit, not on top of it.
    assert run(["audit", str(out), "--labels", labels, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["share"] == pytest.approx(overall, abs=1e-9)


def test_a_plan_without_a_file_shows_what_labels_would_buy(world, capsys):
    files = [f"{world}/m.gshift", f"{world}/unlabeled.parquet"]
    assert run(["audit", *files]) == 0
    out = capsys.readouterr().out
    assert "smallest error found out" in out
    assert [line.split()[0] for line in out.splitlines() if line.strip()[:1].isdigit()] == [
        "25",
        "50",
        "100",
        "200",
    ]
    assert run(["audit", *files, "--json", "--seed", "3"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 50


def twice(rows):
    return [*rows, {**rows[0], "label": "no" if rows[0]["label"] == "yes" else "yes"}]


def not_asked(rows):
    return [*rows, {**rows[0], "row": "5", "label": "yes", "sample_key": ""}]


def strange(rows):
    return [{**rows[0], "label": "maybe"}, *rows[1:]]


def moved(rows):
    return [{**row, "row": other["row"]} for row, other in zip(rows, rows[::-1], strict=True)]


def without_key(rows):
    return [{key: value for key, value in row.items() if key != "sample_key"} for row in rows]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (twice, "labelled twice, with different answers"),
        (not_asked, "not asked for"),
        (strange, "'maybe', which is neither 'yes' nor 'no'"),
        (moved, "cells were moved apart"),
        (without_key, "has no column 'sample_key'"),
    ],
)
def test_labels_that_are_wrong_have_their_sentence(world, asked, truth, tmp_path, capsys, change, said):
    labels = filled(asked, truth, tmp_path / "back.csv", change=change)
    out = tmp_path / "audited.gshift"
    assert run(["audit", f"{world}/m.gshift", "--labels", labels, "--out", str(out)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_half_of_the_labels_are_taken_as_far_as_they_go(world, asked, truth, tmp_path, capsys):
    def every_other(rows):
        return [{**row, "label": row["label"] if i % 2 else "Refused"} for i, row in enumerate(rows)]

    labels = filled(asked, truth, tmp_path / "back.csv", change=every_other)
    assert run(["audit", f"{world}/m.gshift", "--labels", labels]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "20 of 40 rows that were asked for have no label" in said
    assert "Nothing was saved" in said


def test_a_changed_population_is_said(world, asked, truth, tmp_path, capsys):
    labels = filled(asked, truth, tmp_path / "back.csv")
    files = [f"{world}/m.gshift", f"{world}/new.csv"]
    assert run(["audit", *files, "--labels", labels]) == 2
    assert "The population has changed" in capsys.readouterr().err


def test_what_cannot_be_asked_for_is_said(world, tmp_path, capsys):
    files = [f"{world}/m.gshift", f"{world}/unlabeled.parquet"]
    for arguments, said in (
        ([files[0]], "Pass POPULATION to plan an audit"),
        ([*files, "--out", str(tmp_path / "a.parquet")], "opens in no spreadsheet"),
        ([*files, "--budget", "1"], "is no number of labels"),
        ([*files, "--keep", "nobody"], "has no column 'nobody'"),
    ):
        assert run(["audit", *arguments]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
