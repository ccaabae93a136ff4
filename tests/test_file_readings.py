"""Numbers and dates are read as the file writes them, and a file that holds something else is not read silently."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the command line needs the extra cli")

from cli_files import make_fits_quick  # noqa: E402
from groupshift.cli.errors import run  # noqa: E402
from groupshift.tables.batch_sources import as_source  # noqa: E402
from groupshift.tables.sources import open_source  # noqa: E402

ROLES = ["--target", "y", "--group", "g"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    make_fits_quick(monkeypatch)


def rows(n, seed, *, labels):
    rng = np.random.default_rng(seed)
    x = rng.integers(1_000, 9_999, n) / 1_000
    y = (x + rng.normal(size=n) > 5).astype(int)
    part = rng.integers(1, 99, n)
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, n)
    return {
        "x": x,
        "part": part,
        "day": day,
        "g": rng.choice(["a", "b", "c"], n),
        **({"y": y} if labels else {}),
    }


def write(path, table, *, comma=False, form="%Y-%m-%d", percent=1.0, scale=1.0):
    """A CSV file with three digits after every decimal mark; with `comma`, as a German program writes it."""
    lines = [list(table)]
    for i in range(len(table["x"])):
        cells = dict(zip(table, (column[i] for column in table.values()), strict=True))
        cells["x"] = f"{cells['x'] * scale:.3f}".replace(".", "," if comma else ".")
        cells["part"] = f"{cells['part'] * percent:g}"
        cells["day"] = cells["day"].astype(object).strftime(form)
        lines.append([str(value) for value in cells.values()])
    path.write_text("".join((";" if comma else ",").join(line) + "\n" for line in lines))


def answers(folder, name, *options):
    out = folder / f"{name}.parquet"
    assert run(["predict", f"{folder}/m.gshift", f"{folder}/{name}", "-o", str(out), *options]) == 0
    return np.asarray(open_source(out).read()["probability"])


@pytest.mark.parametrize("comma", [False, True], ids=["point", "comma"])
def test_a_model_reads_files_with_the_other_decimal_mark(tmp_path, capsys, comma):
    write(tmp_path / "l.csv", rows(200, 0, labels=True), comma=comma)
    write(tmp_path / "u.csv", rows(200, 1, labels=False), comma=comma)
    new = rows(50, 2, labels=False)
    write(tmp_path / "same.csv", new, comma=comma)
    write(tmp_path / "other.csv", new, comma=not comma)
    assert run(["fit", f"{tmp_path}/l.csv", f"{tmp_path}/u.csv", *ROLES, "-o", f"{tmp_path}/m.gshift"]) == 0
    same = answers(tmp_path, "same.csv")
    capsys.readouterr()
    assert (answers(tmp_path, "other.csv") == same).all()
    assert "decimal mark" in capsys.readouterr().err


def test_labelled_and_unlabelled_files_may_have_two_decimal_marks_and_two_forms_of_dates(tmp_path, capsys):
    write(tmp_path / "l.csv", rows(200, 0, labels=True), comma=True, form="%d.%m.%Y")
    write(tmp_path / "u.csv", rows(200, 1, labels=False), form="%Y-%m-%d")
    assert run(["check", f"{tmp_path}/l.csv", f"{tmp_path}/u.csv", *ROLES, "--quick", "--json"]) == 0
    columns = {column["name"]: column for column in json.loads(capsys.readouterr().out)["columns"]}
    low, _, high = columns["x"]["values"].split()
    assert (float(low) >= 1, float(high) < 10) == (True, True)
    assert columns["day"]["kind"] == "date"
    assert columns["day"]["missing_unlabeled"] == 0


def test_digits_in_threes_are_read_as_the_other_columns_of_the_file_are(tmp_path):
    (tmp_path / "a.csv").write_text("pay;size\n" + "1.234;0,5\n" * 30)
    assert set(pa.concat_tables(as_source(tmp_path / "a.csv").batches())["pay"].to_pylist()) == {1234}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scale": 1_000.0}, "'x' is typically"),
        ({"scale": 0.001}, "times smaller"),
        ({"percent": 0.01}, "may be in percent"),
        ({"form": "%A"}, "'day' is a date in the model"),
        ({"form": "19%y-%m-%d"}, "Dates in 'day' are typically of 19"),
    ],
    ids=["thousands", "thousandths", "percent", "words", "century"],
)
def test_a_column_of_another_size_or_kind_stops_predict_and_update(tmp_path, capsys, changed, said):
    write(tmp_path / "l.csv", rows(200, 0, labels=True))
    write(tmp_path / "u.csv", rows(200, 1, labels=False))
    write(tmp_path / "new.csv", rows(50, 2, labels=False), **changed)
    assert run(["fit", f"{tmp_path}/l.csv", f"{tmp_path}/u.csv", *ROLES, "-o", f"{tmp_path}/m.gshift"]) == 0
    capsys.readouterr()
    model, new = f"{tmp_path}/m.gshift", f"{tmp_path}/new.csv"
    for command in (
        ["predict", model, new, "-o", f"{tmp_path}/p.csv"],
        ["update", model, new, "-o", f"{tmp_path}/n.gshift"],
    ):
        assert run(command) == 2
        assert said in capsys.readouterr().err
    assert len(answers(tmp_path, "new.csv", "--anyway")) == 50
    assert said in capsys.readouterr().err


def test_fit_and_check_say_first_that_the_two_sides_differ_in_size(tmp_path, capsys):
    write(tmp_path / "l.csv", rows(200, 0, labels=True))
    write(tmp_path / "u.csv", rows(200, 1, labels=False), scale=1_000.0)
    files = [f"{tmp_path}/l.csv", f"{tmp_path}/u.csv"]
    for command in (
        ["check", *files, *ROLES, "--quick"],
        ["fit", *files, *ROLES, "-o", f"{tmp_path}/m.gshift"],
    ):
        assert run(command) == 0
        err = capsys.readouterr().err
        assert err.startswith("Look at this first: 'x' is typically")
        assert "among labelled rows" in err
