"""What a command says about data that are read otherwise than they were meant."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import pyarrow as pa

from cli_files import ROLES, make_fits_quick, stacked, survey_tables
from groupshift import load
from groupshift.cli.errors import run
from groupshift.cli.target import read_target
from groupshift.tables.files import write_table
from groupshift.tables.sources import open_source

UNKNOWN = "means that the label is not known"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The survey's files to work in, and fits that take a moment."""
    labeled, unlabeled, _ = survey_tables()
    write_table(labeled, tmp_path / "labeled.csv")
    write_table(unlabeled, tmp_path / "unlabeled.csv")
    make_fits_quick(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def notes(*arguments, capsys):
    """What `check` says besides, as programs read it."""
    assert run(["check", *arguments, "--quick", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["notes"]


def with_column(name, values):
    labeled, _, _ = survey_tables()
    table = labeled.append_column(name, [list(values)])
    write_table(table, "t.csv")
    return table.num_rows


def test_a_third_value_that_means_unknown_is_named_and_never_passes_for_a_label_in_silence(folder, capsys):
    labeled, _, _ = survey_tables()
    said = ["unknown" if i % 3 == 0 else v.upper() for i, v in enumerate(labeled["in_favour"].to_pylist())]
    at = labeled.column_names.index("in_favour")
    write_table(labeled.set_column(at, "in_favour", [said]), "t.csv")
    assert run(["check", "t.csv", *ROLES]) == 2
    err = capsys.readouterr().err
    assert f"'unknown' probably {UNKNOWN}: leave its cells empty or write NA" in err
    alarm, *_ = notes("t.csv", *ROLES, "--positive", "YES", capsys=capsys)
    assert alarm.startswith("'unknown' in 'in_favour' counts as a label, a negative one, in 120 rows.")
    assert run(["fit", "t.csv", *ROLES, "--positive", "YES", "-o", "m.gshift"]) == 0
    assert "Look at this first: 'unknown'" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["Not known", "n/a?", "none", "MISSING", "??"])
def test_words_for_no_label_are_told_in_any_spelling(word):
    assert len(read_target({"yes": 3, "no": 4, word: 5}, "ill", "yes", "a.csv").alarms) == 1
    # One class and a word for the lack of it: the same trap without --positive.
    assert len(read_target({"yes": 3, word: 5}, "ill", None, "a.csv").alarms) == 1


def test_classes_are_no_words_for_no_label():
    assert read_target({"+": 3, "0": 4, "north": 5}, "ill", "+", "a.csv").alarms == []


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        (
            "weight_kg",
            ["n/a?" if i % 20 == 0 else str(40 + i % 60) for i in range(360)],
            "'weight_kg' counts as a category of 58 values, though 95 % of its rows look like numbers. 'n/a?' is "
            "none: if the column is a number, empty such cells or write NA.",
        ),
        (
            "visit",
            [
                f"{1 + i % 28:02d}.{1 + i % 12:02d}.2023" if i % 3 else f"2023-04-{1 + i % 28:02d}"
                for i in range(360)
            ],
            "They are not written alike, such as 31.12.2024 and '2023-04-01': if the column is a date, write every",
        ),
        (
            "visit",
            [f"{1 + i % 28:02d}.{1 + i % 12:02d}.23" for i in range(360)],
            "'01.01.23' is in no form that is read",
        ),
        ("visit", [f"{1 + i % 28}-Dec-2023" for i in range(360)], "'1-Dec-2023' is in no form that is read"),
        # Nearly all different, so that the column is left out as an id.
        ("income", ["refused" if i % 30 == 0 else f"{i}.{i:03d}1" for i in range(360)], "counts as an id of"),
    ],
)
def test_text_that_is_nearly_a_number_or_a_date_is_remarked_on(folder, capsys, name, values, said):
    with_column(name, values)
    (note,) = (n for n in notes("t.csv", *ROLES, capsys=capsys) if "look like" in n)
    assert said in note
    assert run(["fit", "t.csv", *ROLES, "-o", "m.gshift"]) == 0
    assert note in capsys.readouterr().err


@pytest.mark.parametrize(
    "values",
    [
        # Post codes, codes of few values, names, dates as they should be.
        [f"{i % 70:05d}" for i in range(360)],
        [str(i % 9) if i % 10 else "X" for i in range(360)],
        [f"ward {i % 70}" for i in range(360)],
        [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2023" for i in range(360)],
    ],
)
def test_categories_and_dates_that_are_well_are_left_in_peace(folder, capsys, values):
    with_column("c", values)
    assert not any("look like" in n for n in notes("t.csv", *ROLES, capsys=capsys))


@pytest.mark.parametrize("name", ["r.pdf", "r", "r.csv"])
def test_a_report_is_not_written_under_a_name_of_something_else(folder, capsys, name):
    before = sorted(folder.iterdir())
    assert run(["report", "labeled.csv", "-o", name]) == 2
    assert "End it in .html" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


def test_without_shifts_fit_tells_the_share_of_labelled_rows_and_of_the_population(folder, capsys):
    from groupshift import GroupShiftClassifier
    from groupshift.cli import fit as command

    quick = command.make_model("groupshift", 0)
    plain = GroupShiftClassifier(quick.estimator, 1, random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "make_model", lambda method, seed, classifier=None: plain)
        assert run(["fit", "labeled.csv", "unlabeled.csv", *ROLES, "-o", "m.gshift"]) == 0
        (line,) = (s for s in capsys.readouterr().out.splitlines() if s.startswith("Share of positives"))
        answers = survey_tables()[0]["in_favour"].to_pylist()
        share = 100 * np.mean([answer == "yes" for answer in answers])
        assert line.startswith(f"Share of positives: {share:.1f} % among labelled rows, ")
        population = np.average(plain.group_prior_, weights=plain.row_weight_)
        low, high = (100 * end for end in plain.overall_share()[1:])
        told = f"as estimated (90 % interval {low:.1f} % to {high:.1f} %)."
        assert line.endswith(f"{100 * population:.1f} % in the population, {told}")
        assert run(["fit", "labeled.csv", *ROLES, "-o", "n.gshift"]) == 0
        assert f"Share of positives: {share:.1f} % among labelled rows.\n" in capsys.readouterr().out


def test_unlabelled_rows_of_two_files_are_counted_by_file(folder, capsys):
    labeled, unlabeled, _ = survey_tables()
    write_table(stacked(labeled, unlabeled), "one.csv")
    n = f"{len(unlabeled):,}"
    said = f"{n} unlabelled rows come from one.csv and {n} from unlabeled.csv. Rows that stand in both count twice"
    assert any(said in note for note in notes("one.csv", "unlabeled.csv", *ROLES, capsys=capsys))
    for files in (["one.csv"], ["labeled.csv", "unlabeled.csv"]):
        assert not any("come from" in note for note in notes(*files, *ROLES, capsys=capsys))


def test_groups_of_one_row_are_told_with_a_coarser_column(folder, capsys):
    files = ["labeled.csv", "unlabeled.csv"]
    said = notes(*files, "--target", "in_favour", "--group", "person", capsys=capsys)[0]
    assert said.startswith("Most groups are single rows: 'person' has ")
    assert "Name a coarser column, such as --group state;" in said
    assert not any("single rows" in note for note in notes(*files, *ROLES, capsys=capsys))


def test_two_rows_each_are_groups(folder, capsys):
    pairs = [f"h{i // 2}" for i in range(survey_tables()[0].num_rows)]
    with_column("household", pairs)
    roles = ["--target", "in_favour", "--group", "household"]
    assert not any("single rows" in note for note in notes("t.csv", *roles, capsys=capsys))


def test_a_target_of_three_classes_is_told_how_to_leave_labels_out(folder, capsys):
    write_table(pa.table({"x": np.arange(6.0), "y": ["red", "green", "blue"] * 2}), "t.csv")
    assert run(["check", "t.csv", "--target", "y", "--quick"]) == 0
    err = capsys.readouterr().err
    assert f"If one of them {UNKNOWN}, leave its cells empty" in err
    assert "--positive VALUE" in err


def with_classes(names, path):
    """The survey's labelled rows with other names for its classes; the rest of them have the last name."""
    labeled, _, _ = survey_tables()
    at = labeled.column_names.index("in_favour")
    said = [
        names[0] if v == "no" else names[1 + i % (len(names) - 1)]
        for i, v in enumerate(labeled["in_favour"].to_pylist())
    ]
    Path(path).unlink(missing_ok=True)
    write_table(labeled.set_column(at, "in_favour", [said]), path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["none", "NA", "?"])
def test_a_class_that_is_called_like_a_missing_label_is_kept_where_one_says_so(folder, capsys, name, ending):
    file = f"t.{ending}"
    with_classes([name, "light", "heavy"], file)
    run(["check", file, *ROLES, "--quick"])
    said = capsys.readouterr()
    if name != "?":
        # A question mark is no name: whoever means one by it has to know.
        assert f"--class {name}" in " ".join((said.err + said.out).split())
    fit = ["fit", file, "unlabeled.csv", *ROLES]
    assert run([*fit, "--class", name, "-o", "m.gshift"]) == 0
    model = load("m.gshift")
    assert model.classes_.tolist() == sorted([name, "light", "heavy"])
    assert run(["predict", "m.gshift", "unlabeled.csv", "-o", "p.parquet"]) == 0
    assert f"probability_{name}" in open_source("p.parquet").columns
    with_classes([name, "some"], file)
    assert run([*fit, "--class", name, "-o", "two.gshift"]) == 0
    assert sorted(load("two.gshift").classes_.tolist()) == sorted([name, "some"])
    # Who says what is positive says that it is a class.
    assert run([*fit, "--positive", name, "-o", "positive.gshift"]) == 0
    assert load("positive.gshift").classes_.tolist() == ["some", name]
    err = capsys.readouterr().err
    assert "If it is a class" not in err


def test_a_class_that_is_kept_is_one_of_the_column(folder, capsys):
    assert run(["check", "labeled.csv", *ROLES, "--class", "none"]) == 2
    assert "--class 'none' is no value of 'in_favour', whose values are 'yes'" in capsys.readouterr().err


def test_minus_one_may_be_a_class_too():
    counts = {"-1": 3, "0": 4, "1": 5}
    assert read_target(counts, "move", None, "a.csv").several == ()
    assert read_target(counts, "move", None, "a.csv", classes=["-1"]).several == ("-1", "0", "1")


def test_labels_of_an_audit_may_be_called_like_a_missing_one(folder):
    with_classes(["none", "some"], "t.csv")
    assert run(["fit", "t.csv", "unlabeled.csv", *ROLES, "--class", "none", "-o", "m.gshift"]) == 0
    assert run(["audit", "m.gshift", "unlabeled.csv", "--budget", "20", "-o", "to_label.csv"]) == 0
    lines = (folder / "to_label.csv").read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    at = lines[head].split(",").index('"label"')
    for i in range(head + 1, head + 21):
        cells = lines[i].split(",")
        cells[at] = "none" if i % 2 else "some"
        lines[i] = ",".join(cells)
    (folder / "labeled_rows.csv").write_text("\n".join(lines) + "\n")
    assert run(["audit", "m.gshift", "--labels", "labeled_rows.csv", "-o", "audited.gshift"]) == 0
    assert load("audited.gshift").audit_.labels == 20
