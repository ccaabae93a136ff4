"""Known rates on the command line: of groups in a file, and of all rows in an option."""

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

from cli_files import ROLES
from groupshift import load
from groupshift.cli.errors import run
from groupshift.cli.fit import overall_rate, read_known_rates

pytestmark = pytest.mark.usefixtures("quick_fits")


def files(world):
    return [f"{world}/labeled.csv", f"{world}/unlabeled.parquet"]


def overall(path):
    model = load(path)
    return (model.row_weight_ * model.group_prior_).sum() / model.row_weight_.sum()


def test_a_known_overall_rate_is_met_by_fit_and_by_update(world, tmp_path):
    fitted, updated = f"{tmp_path}/m.gshift", f"{tmp_path}/u.gshift"
    assert run(["fit", *files(world), *ROLES, "--known-overall", "0.31", "-o", fitted]) == 0
    assert overall(fitted) == pytest.approx(0.31, abs=1e-6)
    data = f"{world}/unlabeled.parquet"
    assert run(["update", fitted, data, "--known-overall", "0.45,0.0001", "-o", updated]) == 0
    assert overall(updated) == pytest.approx(0.45, abs=1e-3)
    assert np.ravel(load(updated).known_overall_).tolist() == [0.45, 0.0001]


def test_an_empty_standard_error_means_that_a_share_is_exact(world, tmp_path):
    rates = tmp_path / "rates.csv"
    rates.write_text("state,share,std_error\nAlabama,0.9,\nAlaska,0.1,0.02\n")
    assert read_known_rates(str(rates), None, "state")["known_shares"] == {
        "Alabama": (0.9, 0.0),
        "Alaska": (0.1, 0.02),
    }
    known = ["--known-shares", str(rates), "--known-overall", "0.4"]
    assert run(["fit", *files(world), *ROLES, *known, "-o", f"{tmp_path}/m.gshift"]) == 0
    shares = load(tmp_path / "m.gshift").group_shares(by="group").to_pydict()
    found = dict(zip(shares["group"], shares["share"], strict=True))
    assert found["Alabama"] == pytest.approx(0.9, abs=1e-5)
    assert overall(tmp_path / "m.gshift") == pytest.approx(0.4, abs=1e-6)


@pytest.mark.parametrize(
    "text",
    ["45", "0,12,0.1,3", "a third", "", "-0.1", "0.1,-1", "nan", "0.2,a=0.3", "a=", "a=0.1,a=0.2,a=0.3"],
)
def test_what_is_no_rate_is_refused_with_an_example(world, tmp_path, capsys, text):
    out = ["-o", f"{tmp_path}/m.gshift"]
    assert run(["fit", *files(world), *ROLES, f"--known-overall={text}", *out]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is not a rate. Write a share between 0 and 1, such as 0.12" in said
    assert not (tmp_path / "m.gshift").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("state,share\nAlabama,0.2\nAlabama,0.3\n", "several rates of 'Alabama'"),
        ("state,share,se\nAlabama,0.2,-1\n", "negative standard errors"),
        ("state,share,se\nAlabama,0.2,small\nAlaska,0.3,0.1\n", "1 values of 'se'"),
    ],
)
def test_files_of_rates_that_make_no_sense(world, tmp_path, capsys, content, said):
    (tmp_path / "rates.csv").write_text(content)
    known = ["--known-shares", f"{tmp_path}/rates.csv"]
    assert run(["fit", *files(world), *ROLES, *known, "-o", f"{tmp_path}/m.gshift"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_rates_may_be_typed_with_an_error():
    assert overall_rate("0.2") == 0.2
    assert overall_rate(" 0.2 ± 0.01 ") == overall_rate("0.2;0.01") == (0.2, 0.01)
    assert overall_rate("a = 0.2 ± 0.01; b=0.3") == {"a": (0.2, 0.01), "b": 0.3}


def test_rates_that_contradict_each_other_are_told_in_a_sentence(world, tmp_path, capsys):
    groups = load(f"{world}/m.gshift").groups_.tolist()
    lines = "\n".join(f"{g},0.9" for g in groups)
    (tmp_path / "rates.csv").write_text(f"state,share\n{lines}\n")
    known = ["--known-shares", f"{tmp_path}/rates.csv", "--known-overall", "0.2"]
    data = f"{world}/unlabeled.parquet"
    assert run(["update", f"{world}/m.gshift", data, *known, "-o", f"{tmp_path}/u.gshift"]) == 2
    assert "leave it between 0.9 and 0.9" in " ".join(capsys.readouterr().err.split())


def test_the_overall_share_is_a_line_of_its_own_and_the_first_on_the_screen(world, tmp_path, capsys):
    out = tmp_path / "overall.csv"
    assert run(["shares", f"{world}/m.gshift", "--by", "overall", "-o", str(out)]) == 0
    header, line, *rest = out.read_text().split()
    assert header.replace('"', "") == "rows,share,low,high,narrow_low,narrow_high,labeled_share"
    assert rest == []
    model = load(f"{world}/m.gshift")
    expected = model.overall_share()
    assert [float(v) for v in line.split(",")[1:4]] == pytest.approx(list(expected))
    capsys.readouterr()
    for by in ("group", "cell", "overall"):
        assert run(["shares", f"{world}/m.gshift", "--by", by]) == 0
        lines = capsys.readouterr().out.strip().split("\n")
        assert lines[1].split()[0] in ("(all)", f"{sum(model.rows_.ravel()):,}")
        assert f"{100 * expected.share:.1f} %" in lines[1]
