"""One CSV file is one table: by command line, by streaming and by a pandas frame it gives the same model."""

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("skops")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

from cli_files import make_fits_quick  # noqa: E402
from groupshift import load, streaming  # noqa: E402
from groupshift.cli.errors import run  # noqa: E402
from groupshift.tables.arrow import SourceError  # noqa: E402
from groupshift.tables.batch_sources import as_source  # noqa: E402
from groupshift.tables.csv_cells import MISSING  # noqa: E402

FEATURES = ["age", "income", "work", "seen", "member"]
N = 600


@pytest.fixture
def table():
    """Cells as people write them: every word for a missing value, blanks, codes, dates, a group called NA."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    words = np.array(MISSING, object)
    is_missing = rng.random((N, 2)) < 0.2

    def with_gaps(values, k):
        return np.where(is_missing[:, k], words[rng.integers(0, len(words), N)], values)

    return pd.DataFrame(
        {
            "age": with_gaps([f" {a}" for a in rng.integers(18, 90, N) + 10 * y], 0),
            # Whole at first: only the last rows tell that these are no whole numbers.
            "income": [str(i) if row < N - 9 else f"{i}.5" for row, i in enumerate(rng.integers(10, 99, N))],
            "work": with_gaps(np.array(["shop", "office", "home"])[rng.integers(0, 3, N)], 1),
            "seen": [f"2024-{1 + m:02d}-{1 + d:02d}" for m, d in rng.integers(0, 12, (N, 2))],
            "member": np.where(rng.random(N) < 0.5, "True", "False"),
            "g": np.array(["NA", "US", "FR", "DE"])[np.arange(N) % 4],
            "y": np.where(np.arange(N) // 4 % 2, y.astype(str), ""),
        }
    )


def same_model(left, right):
    assert left.groups_.tolist() == right.groups_.tolist() == ["DE", "FR", "NA", "US"]
    assert left.encoder_.kinds_ == right.encoder_.kinds_
    for name in ("group_prior_", "shift_", "labeled_prior_", "rows_"):
        # Batches add the same numbers in another order.
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.usefixtures("few_trees")
def test_one_csv_gives_one_model_by_command_line_streaming_and_frame(tmp_path, monkeypatch, table, separator):
    from groupshift.cli import fit as command

    make_fits_quick(monkeypatch)
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False, sep=separator, encoding="utf-16")
    assert run(["fit", str(path), "--target", "y", "--group", "g", "-o", f"{tmp_path}/m.gshift"]) == 0
    by_command = load(tmp_path / "m.gshift")
    assert by_command.encoder_.kinds_ == ["number", "number", "category", "date", "boolean"]
    model = command.make_model("groupshift", 0)
    by_streaming = streaming.fit(model, None, path, target="y", group="g", batch_rows=101)
    same_model(by_streaming, by_command)
    frame = pd.read_csv(
        path,
        sep=separator,
        encoding="utf-16",
        skipinitialspace=True,
        keep_default_na=False,
        na_values={name: list(MISSING) for name in (*FEATURES, "y")},
        parse_dates=["seen"],
    )
    labels = frame.y.fillna(-1).astype(int)
    in_memory = command.make_model("groupshift", 0).fit(frame[FEATURES], labels, groups=frame.g)
    same_model(in_memory, by_command)
    frames = streaming.fit(
        command.make_model("groupshift", 0),
        frame[labels >= 0],
        _unlabeled(path, frame),
        target="y",
        group="g",
    )
    assert frames.encoder_.kinds_ == by_command.encoder_.kinds_
    assert frames.groups_.tolist() == by_command.groups_.tolist()


def _unlabeled(path, frame):
    """The rows of a file without a label, in a file of their own; the frame says which."""
    text = path.read_text(encoding="utf-16").splitlines()
    kept = [line for line, label in zip(text[1:], frame.y, strict=True) if np.isnan(label)]
    part = path.with_name("unlabeled.csv")
    part.write_text("\n".join([text[0], *kept]))
    return part


def test_every_word_that_pandas_takes_for_missing_is_missing(tmp_path):
    from pandas._libs.parsers import STR_NA_VALUES

    assert set(MISSING) >= STR_NA_VALUES


def rows(data, **options):
    source = as_source(data, **options)
    return pa.concat_tables(source.batches(source.columns)).to_pydict()


def test_the_folders_of_a_file_say_nothing_of_its_separator(tmp_path):
    folder = tmp_path / "x.tsv.d"
    folder.mkdir()
    (folder / "a.csv").write_text("a,b\n1,p q\n2,r\n")
    (folder / "b.csv").write_text("a,b\n3.5,NA\n")
    expected = {"a": [1.0, 2.0, 3.5], "b": ["p q", "r", None]}
    assert rows(folder) == rows([folder / "a.csv", folder / "b.csv"]) == expected
    assert rows(folder / "a.csv") == {"a": [1, 2], "b": ["p q", "r"]}
    # Nor does the ending of its name.
    (tmp_path / "commas.tsv").write_text("a,b\n1,2\n")
    assert rows(tmp_path / "commas.tsv") == {"a": [1], "b": [2]}


def test_folder_names_of_csv_files_are_columns(tmp_path):
    for state in ("NA", "New York"):
        folder = tmp_path / "rows" / f"state={state.replace(' ', '%20')}"
        folder.mkdir(parents=True)
        (folder / "part.csv").write_text("a\n1\n2\n")
    expected = {"a": [1, 2, 1, 2], "state": ["NA", "NA", "New York", "New York"]}
    assert rows(tmp_path / "rows", group="state") == expected
    assert rows(tmp_path / "rows")["state"] == [None, None, "New York", "New York"]


def test_groups_and_ids_keep_their_kind(tmp_path):
    (tmp_path / "t.csv").write_text(
        "g,h,zip,big\n1,1.5,007,900719925474099301\n2,NA,010,900719925474099302\n"
    )
    assert rows(tmp_path / "t.csv", group="g")["g"] == [1, 2]
    assert rows(tmp_path / "t.csv", group="h")["h"] == ["1.5", "NA"]
    assert rows(tmp_path / "t.csv")["zip"] == ["007", "010"]


def test_what_must_be_a_number_and_is_none_is_said(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\nsoon\n")
    with pytest.raises(SourceError, match="holds 'soon' in 'a', which is a number in the labelled data"):
        rows(tmp_path / "t.csv", kinds={"a": "number"})
    assert rows(tmp_path / "t.csv", kinds={"a": "category"}) == {"a": ["1", "soon"]}
    (tmp_path / "t.csv").write_text("a\n" + "1\n" * 300 + "soon\n")
    with pytest.warns(UserWarning, match="1 values of 'a' are no number"):
        assert rows(tmp_path / "t.csv")["a"][-2:] == [1.0, None]


def test_parquet_beside_csv_is_refused_and_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,g\n1,p\n")
    pd.DataFrame({"x": [2.5], "g": ["q"]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"a\.csv is CSV, and .*b\.parquet is Parquet"):
        as_source([tmp_path / "a.csv", tmp_path / "b.parquet"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_row_number_that_is_wanted_is_a_number_in_every_kind_of_file(tmp_path, monkeypatch, table, ending):
    make_fits_quick(monkeypatch)
    frame = table[["income", "g", "y"]].assign(number=np.arange(N), income=1.5)
    frame["y"] = frame["y"].replace("", None)
    path = tmp_path / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    roles = ["--target", "y", "--group", "g", "--features", "income,number"]
    assert run(["fit", str(path), *roles, "-o", f"{tmp_path}/m.gshift"]) == 0
    assert load(tmp_path / "m.gshift").encoder_.kinds_ == ["number", "number"]
