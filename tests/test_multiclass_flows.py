"""Several classes as users meet them: files in batches, Dask, commands, and the report in a browser."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from browsers import CHROMIUM, luminance
from class_samples import draw_table
from groupshift import GroupShiftClassifier, load, streaming

# Ink, ground and its opacity of every share and interval on the map, and what lies behind.
GROUNDS = """() => [...document.querySelectorAll('.map td b, .map td small')].map((e) => {
    const rgb = (text) => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
    const ground = e.parentElement.querySelector('i');
    return [rgb(getComputedStyle(e).color), rgb(getComputedStyle(ground).backgroundColor),
        Number(getComputedStyle(ground).opacity), rgb(getComputedStyle(document.body).backgroundColor)];
})"""


def quick(**settings):
    # A given trust skips the views, which take most of the time of a small fit.
    return GroupShiftClassifier(LogisticRegression(), random_state=0, n_jobs=1, partition=2, **settings)


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


@pytest.mark.filterwarnings("ignore:No unlabelled rows")
def test_without_a_population_nothing_is_said_of_its_shares(frame):
    labeled, _ = frame
    model = quick().fit(labeled[["a", "b", "c"]], labeled["party"], groups=labeled["town"])
    overall = model.group_shares(by="overall")
    # Not an interval from 0 to 0 around a share that is not known.
    assert overall[["share", "low", "high"]].isna().all(axis=None)
    assert np.isnan(model.overall_share(of_class=model.classes_[0])).all()
    assert "there are no unlabeled rows yet" in model.diagnose().verdict
    assert "and no unlabeled rows, 6 groups, 3 classes" in model.summary().replace("\n", " ")


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


def test_commands_take_several_classes(frame, tmp_path, monkeypatch, few_trees, capsys):
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
    assert "class " in capsys.readouterr().out
    assert run(["shares", "m.gshift", "-o", "shares.csv"]) == 0
    shares = pd.read_csv("shares.csv")
    assert list(shares.columns) == [
        *("group", "class", "rows", "share", "low", "high", "narrow_low", "narrow_high", "labeled_share")
    ]
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


def test_commands_take_known_shares_of_classes_that_are_numbers(frame, tmp_path, monkeypatch, few_trees):
    pytest.importorskip("typer")
    from groupshift.cli.errors import run

    monkeypatch.chdir(tmp_path)
    labeled, unlabeled = frame
    number = {name: i for i, name in enumerate(sorted(labeled["party"].unique()))}
    labeled.assign(party=labeled["party"].map(number)).to_csv("labeled.csv", index=False)
    unlabeled.to_csv("unlabeled.csv", index=False)
    pd.DataFrame({"town": ["g00"], "class": [1], "share": [0.3]}).to_csv("known.csv", index=False)
    known = ["--known-shares", "known.csv", "--known-overall", "0=0.4,1=0.35,0.001"]
    roles = ["--target", "party", "--group", "town"]
    assert run(["fit", "labeled.csv", "unlabeled.csv", *roles, *known, "-o", "m.gshift"]) == 0
    model = load("m.gshift")
    assert model.overall_share(of_class=model.classes_[0]).share == pytest.approx(0.4, abs=1e-6)
    assert model.overall_share(of_class=model.classes_[1]).share == pytest.approx(0.35, abs=2e-3)
    assert model.group_shares(by="group").to_pydict()["share"][1] == pytest.approx(0.3, abs=1e-6)


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
def test_the_report_is_readable_in_a_browser(browser, page):
    n_classes, _, path = page
    said = []
    for width in (1300, 400):
        view = browser.new_page(viewport={"width": width, "height": 900})
        view.on("console", lambda message: said.append(message.text))
        view.goto(path.as_uri())
        view.evaluate("document.getElementById('map-of-classes').open = true")
        assert view.locator(".map td").count() == 9 * (n_classes + 1)
        # The page itself never scrolls sideways; on a phone the map of many classes does, in its frame.
        assert view.evaluate("document.documentElement.scrollWidth") == width
        frame = view.locator(".mapbox").bounding_box()["width"]
        if width == 1300 or n_classes == 3:
            assert view.locator(".map").bounding_box()["width"] <= frame + 1
        # Numbers on the deepest ground are read as well as any text: ink on the ground that its opacity makes.
        for ink, ground, deep, page_ground in view.evaluate(GROUNDS):
            mixed = [deep * a + (1 - deep) * b for a, b in zip(ground, page_ground, strict=True)]
            dim, bright = sorted(luminance(f"rgb({', '.join(map(str, c))})") for c in (ink, mixed))
            assert (bright + 0.05) / (dim + 0.05) >= 4.5
        view.close()
    assert not said


def test_the_summary_and_the_diagnosis_speak_of_classes(in_memory):
    summary = in_memory.summary()
    assert "3 classes" in summary
    assert all(str(name) in summary for name in in_memory.classes_)
    found = in_memory.diagnose()
    assert found.worth in ("yes", "little", "perhaps", "no")
    assert set(found.held_out) >= {"group", "loss_global", "loss_model", "accuracy_model"}
    assert {"loss_gain", "accuracy_gain", "score_effect"} <= set(found.overview)
    assert found.tables().keys() >= {"held_out", "independence", "calibration"}
    assert "one class" in " ".join(found.caution).lower() or "each class" in " ".join(found.caution)
