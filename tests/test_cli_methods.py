"""Methods and classifiers by name: only what is asked for differs from the default, and every share has an honest interval."""

import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the command line needs the extra cli")

from sklearn.linear_model import LogisticRegression  # noqa: E402

from cli_files import ROLES, column, write_survey  # noqa: E402
from groupshift import GroupShiftClassifier, load  # noqa: E402
from groupshift.cli.errors import run  # noqa: E402
from groupshift.cli.fit import make_model  # noqa: E402
from groupshift.tables.columns import TableClassifier  # noqa: E402
from groupshift.tables.sources import open_source  # noqa: E402


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    write_survey(folder)
    return folder


def fit(folder, *options, out="m.gshift"):
    files = [f"{folder}/labeled.csv", f"{folder}/unlabeled.parquet"]
    return run(["fit", *files, *ROLES, *options, "-o", f"{folder}/{out}", "--force"])


def test_methods_have_the_classifier_and_calibration_of_the_default():
    default = make_model("groupshift", 0)
    for method in ("global", "label_shift", "cluster_global"):
        model = make_model(method, 0)
        assert (model.estimator, model.calibration) == (default.estimator, default.calibration)
    # The paper's own configuration stays the paper's.
    published = make_model("published", 0)
    assert type(published.estimator.estimator).__name__ == "RandomForestClassifier"
    assert published.calibration == "holdout"


@pytest.mark.usefixtures("few_trees")
def test_shares_of_a_plain_classifier_are_means_of_probabilities_with_intervals(world, capsys):
    assert fit(world, "--method", "global", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"].startswith("No correction made: shares were not asked for")
    assert {"worth", "holds", "gain", "assumption", "cautions", "seed"} <= said.keys()
    assert run(["shares", f"{world}/m.gshift", "--json"]) == 0
    rows = {row["group"]: row for row in json.loads(capsys.readouterr().out)}
    unlabeled = open_source(world / "unlabeled.parquet").read()
    model = load(world / "m.gshift")
    features = unlabeled.select(list(model.encoder_.names_))
    probability = model.predict_proba(features, unlabeled["state"].to_numpy())[:, 1]
    states = np.array(unlabeled["state"].to_pylist())
    for state in np.unique(states):
        row = rows[state]
        # Scores are summed in bins: see BIN_WIDTH.
        assert row["share"] == pytest.approx(probability[states == state].mean(), abs=1e-4)
        # Sixty rows of unknown label: chance alone makes it wider than ten points.
        assert row["high"] - row["low"] > 0.1
    assert len({round(row["share"], 6) for row in rows.values()}) > 2


def test_an_interval_of_a_plain_classifier_holds_the_true_share_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = []
    for seed in range(6):
        group = np.repeat(np.arange(30), 80)
        shift = rng.normal(0, 0.7, 30)
        x = rng.normal(size=2400)
        truth = (rng.uniform(size=2400) < 1 / (1 + np.exp(-x - shift[group]))).astype(int)
        labeled = np.arange(2400) % 2 == 0
        model = GroupShiftClassifier(LogisticRegression(), 1, shares=None, random_state=seed)
        model.fit(x[:, None], np.where(labeled, truth, -1), groups=group)
        found = model.group_shares(by="group")
        share = np.array([truth[(group == g) & ~labeled].mean() for g in found["group"]])
        held += ((found["low"] <= share) & (share <= found["high"])).tolist()
    # 180 intervals of 90 %: their number has a standard deviation of 2 %, and the spread of groups is estimated.
    assert 0.82 < np.mean(held) <= 1


@pytest.mark.parametrize("name", ["logistic", "lightgbm"])
def test_a_classifier_by_name_is_saved_and_predicts(world, capsys, monkeypatch, name):
    pytest.importorskip("lightgbm" if name == "lightgbm" else "sklearn")
    assert fit(world, "--classifier", name, "--jobs", "1", "--seed", "3") == 0
    predict = ["predict", f"{world}/m.gshift", f"{world}/new.csv", "-o", f"{world}/{name}.csv", "--force"]
    if name == "lightgbm":
        assert "GROUPSHIFT_ALLOW=lightgbm" in capsys.readouterr().err
        assert run(predict) == 2
        assert "If you know where the file comes from" in capsys.readouterr().err
        monkeypatch.setenv("GROUPSHIFT_ALLOW", "lightgbm")
    assert run(predict) == 0
    assert np.isfinite(column(open_source(world / f"{name}.csv").read(), "probability")).all()


def test_names_that_are_none_are_refused_before_any_file_is_read(capsys):
    for options, said in (
        (["--classifier", "oracle"], "Choose one of boosted, forest, logistic, lightgbm"),
        (["--method", "magic"], "Choose one of groupshift, published"),
    ):
        assert run(["fit", "none.csv", *ROLES, *options, "-o", "m.gshift"]) == 2
        assert said in capsys.readouterr().err


def test_categories_and_missing_numbers_reach_a_linear_classifier():
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 600)
    number = np.where(rng.uniform(size=600) < 0.2, np.nan, rng.normal(size=600))
    y = ((colour == "green") ^ (rng.uniform(size=600) < 0.1)).astype(int)
    table = pa.table({"colour": colour, "number": number})
    model = TableClassifier(LogisticRegression(), one_hot=True).fit(table, y)
    probability = model.predict_proba(table)[:, 1]
    # As codes in one column, the middle one could not be told from the others by a line.
    assert probability[colour == "green"].min() > 0.7
    assert probability[colour != "green"].max() < 0.3
