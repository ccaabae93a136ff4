"""Files that fight back."""

import os

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import pyarrow as pa

from cli_files import ROLES, column, small, survey_tables
from groupshift import load
from groupshift.cli.errors import run
from groupshift.tables.files import write_table
from groupshift.tables.sources import open_source

pytestmark = pytest.mark.usefixtures("quick_fits")


def fit_small(tmp_path, table, *more, ending="csv"):
    write_table(table, tmp_path / f"t.{ending}")
    code = run(
        [
            "fit",
            f"{tmp_path}/t.{ending}",
            "--target",
            "y",
            "--group",
            "g",
            "-o",
            f"{tmp_path}/m.gshift",
            *more,
        ]
    )
    return code


@pytest.mark.parametrize("content", ["", "x,g,y\n", "x,g,y"])
@pytest.mark.parametrize("command", ["check", "fit"])
def test_no_rows(tmp_path, capsys, content, command):
    (tmp_path / "t.csv").write_text(content)
    more = ["-o", f"{tmp_path}/m.gshift"] if command == "fit" else []
    assert run([command, f"{tmp_path}/t.csv", "--target", "y", "--group", "g", *more]) == 2
    assert "no rows" in capsys.readouterr().err
    assert not (tmp_path / "m.gshift").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_rows_to_predict(world, tmp_path, capsys, ending):
    write_table(survey_tables()[2].slice(0, 0), tmp_path / f"new.{ending}")
    assert run(["predict", f"{world}/m.gshift", f"{tmp_path}/new.{ending}", "-o", f"{tmp_path}/p.csv"]) == 2
    assert "no rows" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_encodings_and_separators_end_to_end(tmp_path, encoding, separator):
    town = np.tile(["Zürich", "Besançon", "Málaga", "Łódź" if encoding != "latin-1" else "Århus"], 100)
    table = small(g=town)
    lines = [separator.join(table.column_names)]
    for row in table.to_pylist():
        lines.append(separator.join("" if v is None else str(v).replace(".", ",") for v in row.values()))
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode(encoding))
    assert (
        run(["fit", f"{tmp_path}/t.csv", "--target", "y", "--group", "g", "-o", f"{tmp_path}/m.gshift"]) == 0
    )
    model = load(tmp_path / "m.gshift")
    assert set(model.groups_) == set(town)
    assert model.encoder_.kinds_ == ["number"]
    assert (
        run(
            ["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/p.csv", "--keep", "g"]
        )
        == 0
    )
    assert set(open_source(tmp_path / "p.csv").read()["g"].to_pylist()) == set(town)


def test_a_thousand_columns_are_shown_on_a_screen(tmp_path, capsys):
    rng = np.random.default_rng(0)
    wide = {f"c{j}": rng.normal(size=24).round(2) for j in range(1_025)}
    y = np.array([None, "0", "1"], object)[np.arange(24) % 3]
    write_table(pa.table({"y": y, "g": np.tile(["a", "b"], 12), **wide}), tmp_path / "t.csv")
    roles = ["--target", "y", "--group", "g"]
    assert run(["check", f"{tmp_path}/t.csv", *roles, "--quick"]) == 0
    out = capsys.readouterr().out
    assert "1,000 more columns" in out
    assert len(out.splitlines()) < 50


def test_mixed_types_become_text_and_strays_become_missing(tmp_path, capsys):
    mixed = ["1", "two", "3.5", "x"] * 100
    strays = [str(float(i % 7)) for i in range(399)] + ["broken"]
    assert fit_small(tmp_path, small(mixed=mixed, strays=strays)) == 0
    encoder = load(tmp_path / "m.gshift").encoder_
    assert dict(zip(encoder.names_, encoder.kinds_, strict=True)) == {
        "x": "number",
        "mixed": "category",
        "strays": "number",
    }
    assert "1 values of 'strays' are no number" in capsys.readouterr().err


def test_a_column_that_is_text_in_one_file_and_numbers_in_the_other(tmp_path):
    labeled, unlabeled, _ = survey_tables()
    write_table(labeled, tmp_path / "a.csv")
    write_table(unlabeled, tmp_path / "b.parquet")
    age = [f" {int(a)}" for a in labeled["age"].to_pylist()]
    write_table(labeled.set_column(1, "age", [age]), tmp_path / "c.parquet")
    for first in ("a.csv", "c.parquet"):
        fit = ["fit", f"{tmp_path}/{first}", f"{tmp_path}/b.parquet", *ROLES, "--features", "age,work"]
        assert run([*fit, "-o", f"{tmp_path}/{first}.gshift"]) == 0
        assert load(tmp_path / f"{first}.gshift").encoder_.kinds_ == ["number", "category"]


def test_dates_and_numbers_as_text_are_treated_alike_at_predict(tmp_path, capsys):
    days = [f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024" for i in range(400)]
    amount = [f"{i % 90}.000,50" for i in range(400)]
    table = small(day=days, amount=amount)
    assert fit_small(tmp_path, table, ending="tsv") == 0
    assert load(tmp_path / "m.gshift").encoder_.kinds_ == ["number", "date", "number"]
    # One row alone, whose day could be a month and whose amount could be a code, means the same as among
    # others.
    write_table(table.slice(4, 1), tmp_path / "one.csv")
    for name in ("one.csv", "t.tsv"):
        assert (
            run(["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/{name}", "-o", f"{tmp_path}/{name}.parquet"])
            == 0
        )
    one, all_rows = (
        column(open_source(tmp_path / f"{n}.parquet").read(), "probability") for n in ("one.csv", "t.tsv")
    )
    assert one[0] == all_rows[4]


def test_a_hundred_thousand_categories(tmp_path):
    n = 120_000
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    labels = np.where(np.arange(n) % 100 == 0, y.astype(str), "")
    codes = np.char.add("code ", rng.integers(0, 100_000, n).astype(str))
    table = pa.table(
        {"x": y + rng.normal(size=n), "code": codes, "g": np.tile(["a", "b"], n // 2), "y": labels}
    )
    write_table(table, tmp_path / "t.csv")
    roles = ["--target", "y", "--group", "g", "--features", "x,code"]
    assert (
        run(["fit", f"{tmp_path}/t.csv", *roles, "--method", "groupshift", "-o", f"{tmp_path}/m.gshift"]) == 0
    )
    assert (tmp_path / "m.gshift").stat().st_size < 2_000_000
    assert run(["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/p.parquet"]) == 0
    assert open_source(tmp_path / "p.parquet").n_rows == n


def test_duplicate_column_names(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("x,x,g,y\n1,2,a,0\n")
    assert run(["check", f"{tmp_path}/t.csv", "--target", "y"]) == 2
    assert "more than one column named 'x'" in capsys.readouterr().err


def test_a_target_with_three_values_has_three_classes(tmp_path, capsys):
    y = np.array(["red", "green", "blue", None], object)[np.arange(400) % 4]
    table = small(y=y)
    assert fit_small(tmp_path, table) == 0
    said = capsys.readouterr().err
    assert "3 values, each of which is a class ('red' 100 times, 'green' 100 times, 'blue' 100 times)" in said
    assert "--positive" in said
    assert load(tmp_path / "m.gshift").classes_.tolist() == ["blue", "green", "red"]


def test_a_target_of_many_numbers_names_the_ways_out(tmp_path, capsys):
    rating = np.array([*map(str, range(11)), None], object)[np.arange(400) % 12]
    assert fit_small(tmp_path, small(y=rating)) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert '--positive ">=8"' in said
    assert "if each value is a class, write it as text" in said


def test_a_target_of_free_text_is_no_class(tmp_path, capsys):
    words = np.array([f"answer {i}" for i in range(150)], object)[np.arange(400) % 150]
    assert fit_small(tmp_path, small(y=words)) == 2
    assert "more than the 100 classes" in capsys.readouterr().err


def test_one_value_against_the_rest(tmp_path):
    y = np.array(["red", "green", "blue", None], object)[np.arange(400) % 4]
    assert fit_small(tmp_path, small(y=y), "--positive", "green") == 0
    assert np.isclose(load(tmp_path / "m.gshift").labeled_prior_.mean(), 1 / 3, atol=0.02)


@pytest.mark.parametrize(
    ("values", "positive"), [(["late", "on time"], "on time"), (["Yes", "No"], "Yes"), (["2", "10"], "10")]
)
def test_the_positive_value_is_guessed_as_people_would(tmp_path, values, positive):
    from groupshift._files.model_files import read_manifest

    y = np.array([*values, None], object)[np.arange(400) % 3]
    assert fit_small(tmp_path, small(y=y)) == 0
    assert read_manifest(tmp_path / "m.gshift")["table"]["positive"] == positive


def test_minus_one_marks_unlabelled_rows_of_a_stacked_file(tmp_path, capsys):
    y = np.array(["0", "1", "-1", "-1"])[np.arange(400) % 4]
    assert fit_small(tmp_path, small(y=y)) == 0
    assert "-1 in 'y' marks unlabelled rows" in capsys.readouterr().err


def test_a_target_with_one_value_or_none(tmp_path, capsys):
    assert fit_small(tmp_path, small(y=["1"] * 400)) == 2
    assert "two classes are needed" in capsys.readouterr().err
    os.remove(tmp_path / "t.csv")
    assert fit_small(tmp_path, small(y=[""] * 400)) == 2
    assert "No row of" in capsys.readouterr().err


def test_groups_on_one_side_only(tmp_path, capsys):
    y = np.array(["0", "1"], object)[np.arange(400) % 2]
    y[200:] = None
    groups = np.where(np.arange(400) < 200, np.tile(["a", "b"], 200), np.tile(["c", "d"], 200))
    table = small(y=y, g=groups)
    assert fit_small(tmp_path, table) == 0
    assert sorted(load(tmp_path / "m.gshift").groups_) == ["c", "d"]
    capsys.readouterr()
    assert run(["check", f"{tmp_path}/t.csv", "--target", "y", "--group", "g", "--quick"]) == 0
    said = capsys.readouterr().err
    assert "No group is on both sides" in said
    assert "without unlabelled rows" in said


def test_rows_without_a_group_are_counted(tmp_path, capsys):
    groups = np.tile(list("abcd"), 100).astype(object)
    groups[:3] = None
    assert fit_small(tmp_path, small(g=groups)) == 2
    assert "3 of 400 rows" in capsys.readouterr().err


def test_a_group_called_na_is_a_group(tmp_path):
    assert fit_small(tmp_path, small(g=np.tile(["NA", "US"], 200))) == 0
    assert sorted(load(tmp_path / "m.gshift").groups_) == ["NA", "US"]


def test_groups_that_are_numbers_match_between_csv_and_parquet(tmp_path):
    labeled, unlabeled, _ = survey_tables()
    numbers = {s: i for i, s in enumerate(sorted(set(labeled["state"].to_pylist())))}
    for name, table in (("a.csv", labeled), ("b.parquet", unlabeled)):
        coded = [float(numbers[s]) for s in table["state"].to_pylist()]
        write_table(table.set_column(table.column_names.index("state"), "state", [coded]), tmp_path / name)
    assert (
        run(["fit", f"{tmp_path}/a.csv", f"{tmp_path}/b.parquet", *ROLES, "-o", f"{tmp_path}/m.gshift"]) == 0
    )
    model = load(tmp_path / "m.gshift")
    assert model.groups_.tolist() == model.labeled_groups_.tolist() == ["0", "1", "2", "3", "4", "5"]


def test_columns_of_one_file_only_are_left_out_with_a_note(tmp_path, capsys):
    labeled, unlabeled, _ = survey_tables()
    write_table(labeled, tmp_path / "a.csv")
    write_table(unlabeled.drop_columns(["urban"]), tmp_path / "b.csv")
    assert run(["fit", f"{tmp_path}/a.csv", f"{tmp_path}/b.csv", *ROLES, "-o", f"{tmp_path}/m.gshift"]) == 0
    assert "'urban'" in capsys.readouterr().err
    assert "urban" not in load(tmp_path / "m.gshift").encoder_.names_


def test_a_file_to_predict_that_lacks_a_column_names_it(world, tmp_path, capsys):
    write_table(survey_tables()[2].drop_columns(["age"]), tmp_path / "new.csv")
    assert run(["predict", f"{world}/m.gshift", f"{tmp_path}/new.csv", "-o", f"{tmp_path}/p.csv"]) == 2
    assert "no column 'age'" in capsys.readouterr().err


def test_known_shares_that_make_no_sense(world, tmp_path, capsys):
    for content, said in (
        ("state,rate\nAlabama,45\n", "Write 12 % as 0.12"),
        ("state,percentage\nAlabama,0.4\n", "'share'"),
        ("state,share\nAtlantis,0.4\n", "Atlantis"),
        ("state,share\nAlabama,\nAlaska,0.3\n", "1 lines"),
    ):
        (tmp_path / "rates.csv").write_text(content)
        fit = [
            "fit",
            f"{world}/labeled.csv",
            f"{world}/unlabeled.parquet",
            *ROLES,
            "-o",
            f"{tmp_path}/m.gshift",
        ]
        assert run([*fit, "--features", "age", "--known-shares", f"{tmp_path}/rates.csv"]) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / "m.gshift").exists()


def test_without_groups_all_rows_are_one(tmp_path, capsys):
    write_table(small().drop_columns(["g"]), tmp_path / "t.csv")
    assert run(["fit", f"{tmp_path}/t.csv", "--target", "y", "-o", f"{tmp_path}/m.gshift"]) == 0
    assert "No groups" in capsys.readouterr().err
    assert run(["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    assert run(["shares", f"{tmp_path}/m.gshift", "-o", f"{tmp_path}/s.csv"]) == 0
    assert run(["check", f"{tmp_path}/t.csv", "--target", "y", "--quick"]) == 0
    assert "all rows count as one group" in capsys.readouterr().out


def test_labelled_rows_alone_give_a_calibrated_classifier(tmp_path, capsys):
    table = small(y=np.tile(["0", "1"], 200))
    assert fit_small(tmp_path, table) == 0
    assert "No unlabelled rows" in capsys.readouterr().err
    assert run(["predict", f"{tmp_path}/m.gshift", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    assert run(["shares", f"{tmp_path}/m.gshift", "-o", f"{tmp_path}/s.csv"]) == 2
    assert "knows no shares" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["[/b]", "[bold]", ":heart:", "[link=x]y", "\x1b[31mred"])
def test_names_from_data_are_shown_as_they_are_and_never_read_as_markup(tmp_path, monkeypatch, capsys, name):
    """Groups, columns, values and files may be called what markup, emoji codes and terminals have a meaning for."""
    monkeypatch.chdir(tmp_path)
    file_name = name.replace("/", "!").replace("\x1b", "")
    groups = np.tile([name, "b", "c", "d"], 100)
    y = np.array([name, "no", None, None], object)[(np.arange(400) // 4) % 4]
    table = small(g=groups, y=y).rename_columns([name, f"{name} group", f"{name} y"])
    write_table(table, f"{file_name}.parquet")
    roles = ["--target", f"{name} y", "--group", f"{name} group"]
    model, june = f"{file_name}.gshift", f"{file_name} june.gshift"
    shown = name.replace("\x1b", "\\x1b")

    def said(*command):
        assert run(list(command)) == 0
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        return out + err

    assert shown in said("check", f"{file_name}.parquet", *roles, "--quick")
    assert file_name in said("fit", f"{file_name}.parquet", *roles, "-o", model)
    assert shown in said("shares", model)
    assert file_name in said("shares", model, "-o", f"{file_name} s.csv")
    renamed = np.where(groups == name, f"{name} new", groups)
    write_table(table.set_column(1, f"{name} group", [renamed]), f"{file_name} june.parquet")
    printed = said("update", model, f"{file_name} june.parquet", "-o", june)
    assert f"New groups: {f'{name} new'!r}." in printed
    assert f"Saved {june}." in printed
    printed = said("predict", june, f"{file_name}.parquet", "-o", f"{file_name} p.csv")
    assert f"({name!r})" in printed
    assert file_name in said("report", model, "-o", f"{file_name}.html")


def test_an_error_does_not_claim_that_nothing_was_written_after_something_was(tmp_path, monkeypatch, capsys):
    """What fails after the model is saved is no reason to look for it in vain."""
    monkeypatch.setattr("groupshift.cli.fit._summarize", lambda *_: 1 / 0)
    assert fit_small(tmp_path, small()) == 1
    assert (tmp_path / "m.gshift").exists()
    err = capsys.readouterr().err
    assert "No output was written" not in err
    assert "ZeroDivisionError" in err
