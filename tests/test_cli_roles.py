"""Groups of several columns, rows without a group, limits as positives: what the roles of columns may be."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the command line needs the extra cli")

from cli_files import make_fits_quick  # noqa: E402
from groupshift import load  # noqa: E402
from groupshift.cli.errors import run  # noqa: E402
from groupshift.cli.recipe import OF_VALUES  # noqa: E402
from groupshift.tables.files import write_table  # noqa: E402
from groupshift.tables.sources import open_source  # noqa: E402


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    make_fits_quick(monkeypatch)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("l", 240), ("u", 300), ("new", 40)):
        x = rng.normal(size=n)
        score = np.clip(np.round(5 + 2 * x + rng.normal(size=n)), 0, 10).astype(int)
        state = rng.choice(["13", "17", "20"], n)
        table = {
            "x": x,
            "z": rng.normal(size=n),
            "state": state,
            "age": rng.choice(["young", "old"], n),
            "score": score,
        }
        if name != "l":
            del table["score"]
        write_table(pa.table(table), tmp_path / f"{name}.csv")
    return tmp_path


def fit(folder, *options, labeled="l.csv", unlabeled="u.csv"):
    command = ["fit", f"{folder}/{labeled}", f"{folder}/{unlabeled}", "--target", "score", *options]
    return run([*command, "-o", f"{folder}/m.gshift", "--force"])


def test_a_limit_makes_the_positives(files, capsys):
    score = np.asarray(open_source(files / "l.csv").read()["score"]).astype(float)
    for positive, truth in (
        (">=6", score >= 6),
        ("<3", score < 3),
        ("4..6", (score >= 4) & (score <= 6)),
        ("5,7", np.isin(score, (5, 7))),
    ):
        assert (
            run(["check", f"{files}/l.csv", "--target", "score", "--positive", positive, "--quick", "--json"])
            == 0
        )
        found = json.loads(capsys.readouterr().out)
        assert found["labeled_share"] == pytest.approx(truth.mean())
        assert found["positive"] == positive
    assert run(["check", f"{files}/l.csv", "--target", "score", "--positive", ">90"]) == 2
    assert "holds for no value of 'score'" in capsys.readouterr().err
    assert run(["check", f"{files}/l.csv", "--target", "score"]) == 2
    assert 'Say with --positive ">=' in capsys.readouterr().err


def test_words_for_no_label_lose_it_under_a_limit_and_other_words_are_refused(tmp_path, capsys):
    rows = "\n".join(f"{i % 7},{s}" for i, s in enumerate([*range(10)] * 20))
    (tmp_path / "a.csv").write_text(f"x,score\n{rows}\n3,unknown\n")
    assert run(["check", f"{tmp_path}/a.csv", "--target", "score", "--positive", ">=5", "--quick"]) == 0
    assert "its 1 rows have no label" in capsys.readouterr().err
    (tmp_path / "a.csv").write_text(f"x,score\n{rows}\n3,high\n")
    assert run(["check", f"{tmp_path}/a.csv", "--target", "score", "--positive", ">=5", "--quick"]) == 2
    assert "holds 'high'" in capsys.readouterr().err


def test_several_columns_make_the_group_and_shares_are_read_at_each_level(files, capsys):
    assert fit(files, "--positive", ">=6", "--group", "state,age") == 0
    model = load(files / "m.gshift")
    assert OF_VALUES.join(["13", "old"]) in model.groups_.tolist()
    assert len(model.groups_) == 6
    assert (
        run(["predict", f"{files}/m.gshift", f"{files}/new.csv", "-o", f"{files}/p.csv", "--keep", "state"])
        == 0
    )
    capsys.readouterr()
    assert run(["shares", f"{files}/m.gshift", "--by", "state", "--json"]) == 0
    by_state = json.loads(capsys.readouterr().out)
    assert run(["shares", f"{files}/m.gshift", "--json"]) == 0
    cells = [row for row in json.loads(capsys.readouterr().out) if row["group"] != "(all)"]
    assert [row["state"] for row in by_state[1:]] == ["13", "17", "20"]
    for row in by_state[1:]:
        own = [cell for cell in cells if cell["group"].startswith(row["state"])]
        assert row["rows"] == sum(cell["rows"] for cell in own)
        assert row["share"] == pytest.approx(sum(c["rows"] * c["share"] for c in own) / row["rows"])
        assert row["low"] < row["share"] < row["high"]
    assert {"state", "age"} <= set(cells[0])
    assert run(["shares", f"{files}/m.gshift", "--by", "town"]) == 2
    assert "Choose one of group, cell, state, age, overall" in capsys.readouterr().err


def test_groups_that_are_numbers_match_though_one_file_writes_them_with_a_point(files, capsys):
    table = open_source(files / "u.csv").read()
    write_table(
        table.set_column(2, "state", pa.array([f"{s}.0" for s in table["state"].to_pylist()])),
        files / "points.csv",
    )
    assert fit(files, "--positive", ">=6", "--group", "state", unlabeled="points.csv") == 0
    assert load(files / "m.gshift").groups_.tolist() == ["13", "17", "20"]


def test_files_without_a_group_in_common_are_said_first(files, capsys):
    table = open_source(files / "u.csv").read()
    write_table(
        table.set_column(2, "state", pa.array([f"s{s}" for s in table["state"].to_pylist()])),
        files / "other.csv",
    )
    assert fit(files, "--positive", ">=6", "--group", "state", unlabeled="other.csv") == 0
    assert "Look at this first: No value of 'state' is in both files" in capsys.readouterr().err


@pytest.mark.parametrize(("how", "groups"), [("drop", ["13", "17"]), ("own", ["(no group)", "13", "17"])])
def test_rows_without_a_group_are_left_out_or_a_group_of_their_own(files, capsys, how, groups):
    for name in ("l.csv", "u.csv", "new.csv"):
        text = (files / name).read_text().replace(',"20",', ",,")
        (files / name).write_text(text)
    options = ["--positive", ">=6", "--group", "state"]
    assert fit(files, *options) == 2
    assert "--missing-group drop" in capsys.readouterr().err
    assert fit(files, *options, "--missing-group", how) == 0
    model = load(files / "m.gshift")
    assert model.groups_.tolist() == groups
    n_rows = open_source(files / "u.csv").read().num_rows
    assert (int(model.rows_.sum()) < n_rows) == (how == "drop")
    # Every row gets an answer, with or without a group.
    assert run(["predict", f"{files}/m.gshift", f"{files}/new.csv", "-o", f"{files}/p.csv"]) == 0
    assert open_source(files / "p.csv").read().num_rows == 40
    assert ("rows have no 'state'" in capsys.readouterr().err) == (how == "drop")
    # An update treats them as the fit did.
    assert run(["update", f"{files}/m.gshift", f"{files}/u.csv", "-o", f"{files}/again.gshift"]) == 0
    assert load(files / "again.gshift").rows_.tolist() == model.rows_.tolist()


def test_classes_have_the_names_of_the_file(tmp_path, files):
    text = (files / "l.csv").read_text().splitlines()
    cells = (line.rpartition(",") for line in text[1:])
    named = [text[0], *(f"{start},{'ill' if int(score) > 5 else 'well'}" for start, _, score in cells)]
    (files / "named.csv").write_text("\n".join(named) + "\n")
    assert fit(files, "--positive", "ill", "--group", "state", labeled="named.csv") == 0
    model = load(files / "m.gshift")
    assert model.classes_.tolist() == ["well", "ill"]
    assert set(np.asarray(model.diagnose().independence["label"]).tolist()) == {"well", "ill"}


def test_a_column_to_keep_that_is_not_there_is_laid_to_the_command(files, capsys):
    assert fit(files, "--positive", ">=6", "--group", "state") == 0
    capsys.readouterr()
    assert (
        run(["predict", f"{files}/m.gshift", f"{files}/new.csv", "-o", f"{files}/p.csv", "--keep", "nope"])
        == 2
    )
    err = capsys.readouterr().err
    assert "has no column 'nope'" in err
    assert "model was fitted" not in err
