"""Several classes as users meet them: files in batches, Dask, commands, and the report in a browser."""

import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from class_samples import draw_table
from groupshift import GroupShiftClassifier, streaming

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def quick(**settings):
    # A given trust skips the views, which take most of the time of a small fit.
    return GroupShiftClassifier(
        LogisticRegression(), random_state=0, n_jobs=1, partition=2, trust=1.0, **settings
    )


@pytest.fixture(scope="module")
def frame():
    X, y, groups, _ = draw_table(n_groups=6, n_classes=3)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["town"], table["party"] = groups, y
    known = table["party"].notna()
    return table[known].reset_index(drop=True), table[~known].drop(columns="party").reset_index(drop=True)


@pytest.fixture(scope="module")
def in_memory(frame):
    labeled, unlabeled = frame
    both = pd.concat([labeled, unlabeled], ignore_index=True)
    return quick().fit(both[["a", "b", "c"]], both["party"], groups=both["town"])


def test_files_in_batches_give_the_answer_of_memory(frame, in_memory, tmp_path):
    labeled, unlabeled = frame
    unlabeled.to_parquet(tmp_path / "unlabeled.parquet")
    roles = {"target": "party", "group": "town"}
    path = tmp_path / "unlabeled.parquet"
    model = streaming.fit(quick(), labeled, path, batch_rows=100, **roles)
    np.testing.assert_allclose(model.group_prior_, in_memory.group_prior_, atol=1e-9)
    out = tmp_path / "predicted.parquet"
    assert streaming.predict(model, path, out, group="town", keep=["town"]) == len(unlabeled)
    predicted = pd.read_parquet(out)
    columns = [f"probability_{name}" for name in model.classes_]
    np.testing.assert_allclose(
        predicted[columns], in_memory.predict_proba(unlabeled[["a", "b", "c"]], unlabeled["town"]), atol=1e-9
    )
    before = model.group_prior_
    streaming.update(model, path, group="town", batch_rows=70)
    np.testing.assert_allclose(model.group_prior_, before, atol=1e-9)


def test_dask_gives_the_answer_of_memory(frame, in_memory):
    dd = pytest.importorskip("dask.dataframe")
    from groupshift import distributed

    labeled, unlabeled = frame
    parts = dd.from_pandas(unlabeled, npartitions=3)
    model = distributed.fit(quick(), labeled, parts, target="party", group="town")
    np.testing.assert_allclose(model.group_prior_, in_memory.group_prior_, atol=1e-9)
    found = distributed.predict(model, parts, group="town").compute()
    assert list(found.columns)[:3] == [f"probability_{name}" for name in model.classes_]
    np.testing.assert_allclose(
        found.iloc[:, :3], in_memory.predict_proba(unlabeled[["a", "b", "c"]], unlabeled["town"]), atol=1e-9
    )


def test_commands_take_several_classes(frame, tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from groupshift.cli.errors import run

    monkeypatch.chdir(tmp_path)
    labeled, unlabeled = frame
    labeled.to_csv("labeled.csv", index=False)
    unlabeled.to_csv("unlabeled.csv", index=False)
    known = {"town": ["g00"] * 3, "class": sorted(labeled["party"].unique()), "share": [0.5, 0.3, 0.2]}
    pd.DataFrame(known).to_csv("known.csv", index=False)
    roles = ["--target", "party", "--group", "town"]
    files = ["labeled.csv", "unlabeled.csv"]
    assert run(["fit", *files, *roles, "--known-shares", "known.csv", "-o", "m.gshift"]) == 0
    assert "Shares of classes" in capsys.readouterr().out
    assert run(["shares", "m.gshift", "-o", "shares.csv"]) == 0
    shares = pd.read_csv("shares.csv")
    assert list(shares.columns) == ["group", "class", "rows", "share", "low", "high", "labeled_share"]
    np.testing.assert_allclose(shares["share"][:3], [0.5, 0.3, 0.2], atol=1e-4)
    assert run(["predict", "m.gshift", "unlabeled.csv", "-o", "p.csv"]) == 0
    predicted = pd.read_csv("p.csv")
    np.testing.assert_allclose(
        predicted[[f"probability_{c}" for c in known["class"]]].sum(axis=1), 1, atol=1e-9
    )
    assert run(["check", *files, *roles, "--quick"]) == 0
    assert "each of which is a class" in capsys.readouterr().err
    assert run(["report", "m.gshift", "-o", "report.html"]) == 0
    capsys.readouterr()
    assert run(["update", "m.gshift", "unlabeled.csv", "-o", "again.gshift"]) == 0
    assert run(["compare", "m.gshift", "again.gshift", "-o", "changes.csv"]) == 0
    assert f"The overall share of {known['class'][0]} went from" in capsys.readouterr().out
    assert list(pd.read_csv("changes.csv").columns)[:3] == ["group", "class", "before"]
    assert run(["explain", "m.gshift", "unlabeled.csv", "-o", "explained.csv"]) == 0
    explained = pd.read_csv("explained.csv")
    parts = [explained[[f"{kind}_{c}" for c in known["class"]]] for kind in ("plain_probability", "shift")]
    moved = parts[0].to_numpy() * np.exp(parts[1].to_numpy())
    np.testing.assert_allclose(
        moved / moved.sum(1, keepdims=True),
        predicted[[f"probability_{c}" for c in known["class"]]],
        atol=1e-9,
    )
    assert run(["audit", "m.gshift", "unlabeled.csv", "-o", "to_label.csv"]) == 2
    assert "Fit a model of one class against the rest" in capsys.readouterr().err


@pytest.fixture(scope="module", params=[3, 26])
def page(request, tmp_path_factory):
    pytest.importorskip("jinja2")
    n_classes = request.param
    X, y, groups, _ = draw_table(n_groups=8, n_classes=n_classes, labeled=12 * n_classes)
    model = quick().fit(X, y, groups=groups)
    path = tmp_path_factory.mktemp("page") / "report.html"
    model.report(path)
    return n_classes, model, path


def test_the_report_names_every_group_and_class(page):
    n_classes, model, path = page
    text = path.read_text()
    assert all(f"<span>{name}</span>" in text for name in model.classes_)
    assert text.count('<th scope="row"') == len(model.groups_) + 1
    assert ("<small>" in text) == (n_classes == 3)


@pytest.mark.skipif(CHROMIUM is None, reason="no browser: install Debian's chromium to run these tests")
def test_the_report_is_readable_in_a_browser(page):
    driver = pytest.importorskip("playwright.sync_api")
    n_classes, _, path = page
    with driver.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1280, "height": 900})
        said = []
        view.on("console", lambda message: said.append(message.text))
        view.goto(path.as_uri())
        cells = view.locator(".map td")
        assert cells.count() == 9 * (n_classes + 1)
        box = view.locator(".mapbox").bounding_box()
        # All classes fit beside each other: nobody has to scroll sideways, and nothing overlaps.
        wide = view.locator(".map").bounding_box()["width"]
        assert wide <= box["width"] + 1
        assert not said
        browser.close()


def test_the_summary_and_the_diagnosis_speak_of_classes(in_memory):
    summary = in_memory.summary()
    assert "3 classes" in summary
    assert all(str(name) in summary for name in in_memory.classes_)
    found = in_memory.diagnose()
    assert found.worth in ("yes", "little", "perhaps", "no")
    assert set(found.hidden_labels) >= {"group", "loss_global", "loss_model", "accuracy_model"}
    assert {"loss_gain", "accuracy_gain", "score_effect"} <= set(found.overview)
    assert found.tables().keys() >= {"hidden_labels", "independence", "calibration"}
    assert "one class" in " ".join(found.caution).lower() or "each class" in " ".join(found.caution)
