"""Reports: the numbers that were run, beside the published ones, with every hole in sight."""

import math
import re
import sys

import numpy as np
import pytest

from paper import load_experiment, run_experiment
from paper.experiment_report import latex, write_report
from paper.published import NAMES, published_auc
from paper.result_tables import all_tables, gain_table, published_table, relative_auc
from paper.results import Mean, load_results
from paper.store import Store, read_csv
from paper.table_text import share, signed

METHODS = ["global", "label_shift", "published", "true_clustering", "bayes"]


def reviews(folder):
    """A table of reviews in embeddings, named as the paper's, so that published numbers stand beside it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 3)) + y[:, None]
    np.savez(folder / "reviews.npz", embedding=X, label=y, category=np.repeat(["a", "b", "c"], 200))
    return {"kind": "reviews", "name": "amazon", "path": "reviews.npz", "note": "Invented & small."}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("results")
    synthetic = {
        "kind": "synthetic",
        "dimensions": [2],
        "clusters": [1, 2],
        "groups": 6,
        "labeled_per_group": [50, 4],
        "unlabeled_per_group": [150, 10],
    }
    table = {
        "name": "tiny",
        "title": "A tiny <experiment>",
        "repetitions": 2,
        "classifier": {"name": "forest", "n_estimators": 5, "max_depth": 4},
        "data": [synthetic, reviews(where)],
        "methods": [*METHODS, {"name": "label_shift", "label": "broken", "params": {"shares": "tea leaves"}}],
    }
    run_experiment(load_experiment(table, data_dir=where), where / "out")
    return where / "out"


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    return write_report(folder, out)


def test_every_table_and_figure_is_there_in_each_format(page):
    files = {p.name for p in page.parent.iterdir()}
    for table in ("table_amazon", "gains", "figure2_numbers", "bayes", "partition", "quality", "effort"):
        assert {f"{table}.csv", f"{table}.tex"} <= files
    for figure in ("real_data", "figure2", "figure3", "bayes", "partition", "calibration"):
        assert {f"{figure}.png", f"{figure}.svg"} <= files
        assert (page.parent / f"{figure}.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_stands_alone_and_says_what_it_is(page):
    html = page.read_text()
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "A tiny &lt;experiment&gt;" in html
    assert "Invented &amp; small." in html
    assert "forest (n_estimators 5, max_depth 4) where the paper has forest (n_estimators 500" in html
    assert "2 draws of each data set where the paper has at least 10" in html
    assert "Synthetic groups: 6 where the paper has 100" in html


def test_the_page_shows_the_holes(page):
    html = page.read_text()
    assert "12 holes" in html
    assert "tea leaves" in html


def test_runs_that_are_not_there_are_holes_too(tmp_path):
    data = [{"kind": "synthetic"}]
    store = Store(tmp_path)
    store.write_experiment(
        load_experiment({"name": "m", "title": "m", "data": data, "methods": ["global"]}), {}
    )
    store.combine([])
    holes = load_results(tmp_path).holes()
    assert len(holes) == 32 * 10
    assert {hole["why"] for hole in holes} == {"not run yet"}


def test_ours_stands_beside_the_published_number_with_its_difference(folder):
    results = load_results(folder)
    table = published_table(results, "t", "t", [("amazon", "2")])
    record = next(r for r in table.records if r["method"] == "published")
    values = list(results.of(("amazon", "2", "", ""), "published").values())
    assert record["n"] == 2
    assert record["auc"] == pytest.approx(np.mean(values))
    assert record["difference"] == pytest.approx(np.mean(values) - 0.751)
    # Two draws: the interval is the quantile of t with one degree of freedom times half their distance.
    assert record["half_width"] == pytest.approx(12.706 * abs(values[0] - values[1]) / 2, rel=1e-3)
    assert record["published_gain"] == pytest.approx(0.751 - 0.718)


def test_every_method_stands_against_global_on_the_same_draws(folder):
    results = load_results(folder)
    table = gain_table(results)
    record = next(r for r in table.records if (r["data"], r["method"]) == ("synthetic", "label_shift"))
    gains = [
        results.of(place, "label_shift")[r] - results.of(place, "global")[r]
        for place in results.places
        if place[:2] == ("synthetic", record["setting"])
        for r in (0, 1)
    ]
    assert record["draws"] == len(gains) == 4
    assert record["auc"] == pytest.approx(np.mean(gains))
    assert record["worst_auc"] == pytest.approx(min(gains))
    assert record["auc_half_width"] == pytest.approx(3.182 * np.std(gains, ddof=1) / 2, rel=1e-3)
    assert "global" not in {r["method"] for r in table.records}


def test_gains_are_paired_by_draw(folder):
    results = load_results(folder)
    place = ("amazon", "1", "", "")
    mine, base = results.of(place, "label_shift"), results.of(place, "global")
    gain = results.against(place, "label_shift", "global")
    assert gain.value == pytest.approx(np.mean([mine[r] - base[r] for r in (0, 1)]))


def test_nothing_beats_the_bayes_limit_in_log_loss_on_average(folder):
    table = next(t for t in all_tables(load_results(folder)) if t.name == "bayes")
    assert all(record["log_loss_above_bayes"] > 0 for record in table.records)


def test_relative_to_itself_a_method_gains_nothing(folder):
    relative = relative_auc(load_results(folder), "global", "2")
    assert len(relative) == 2
    assert set(relative.values()) == {0.0}


def test_tables_alone_need_no_parts_and_no_matplotlib(folder, page, tmp_path, monkeypatch):
    for name in ("experiment.json", "results.csv", "runs.csv", "calibration.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"groupshift\[plot\]"):
        write_report(tmp_path)
    write_report(tmp_path, figures=False)
    for name in ("table_amazon.csv", "bayes.tex", "quality.csv"):
        assert (tmp_path / "report" / name).read_bytes() == (page.parent / name).read_bytes()


def test_the_same_results_make_the_same_files(folder, page, tmp_path):
    write_report(folder, tmp_path)
    for name in ("figure2.svg", "calibration.svg", "table_amazon.csv", "index.html"):
        assert (tmp_path / name).read_bytes() == (page.parent / name).read_bytes(), name


def test_a_folder_without_results_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"experiment\.json"):
        write_report(tmp_path)


def test_latex_has_a_cell_for_each_column(folder):
    for table in all_tables(load_results(folder)):
        rows = [line for line in latex(table).splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") for line in rows} == {len(table.header) - 1}


def test_published_numbers_are_those_of_the_paper():
    assert published_auc("published", "employment", 2) == 0.916
    assert published_auc("true_clustering", "amazon", "2") == 0.791
    assert published_auc("coral", "income", 1) == 0.865
    assert published_auc("global", "income", "natural") is None
    assert set(NAMES) > {"published", "groupshift", "bayes"}


def test_one_draw_has_no_interval():
    one = Mean.of([0.9])
    assert (one.value, one.n) == (0.9, 1)
    assert math.isnan(one.half)
    assert share(one) == ".900"
    assert signed(one - 0.95) == "\u2212.050"


def test_by_group_rows_cover_every_group_and_run(folder):
    rows = read_csv(folder / "by_group.csv.gz")
    amazon = [r for r in rows if r["data"] == "amazon" and r["method"] == "global"]
    assert {r["group"] for r in amazon} == {"a", "b", "c"}
    assert len(amazon) == 3 * 2 * 2
