"""The whole job on the command line: check, fit, predict, shares, update, report, demo."""

import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import pyarrow as pa
import pyarrow.compute as pc

from cli_files import ROLES, column, stacked, survey_tables
from groupshift import GroupShiftClassifier, load, save, streaming
from groupshift._diagnosis.summary import Summary
from groupshift._files.model_files import read_manifest
from groupshift.cli.errors import run
from groupshift.tables.files import write_table
from groupshift.tables.sources import open_source

# Claims about commands hold for any number of trees.
pytestmark = pytest.mark.usefixtures("few_trees")


def read(path):
    return open_source(path).read()


def test_check_says_what_is_there_and_whether_it_is_worth_it(world, capsys):
    before = sorted(world.iterdir())
    assert run(["check", f"{world}/labeled.csv", f"{world}/unlabeled.parquet", *ROLES]) == 0
    out, err = capsys.readouterr()
    for said in (
        "360 labelled rows",
        "'yes'",
        "6 with labelled rows",
        "hours_online",
        "looks like an id",
        "Is it worth it?",
    ):
        assert said in out
    assert "Left out: 'person'" in err
    assert sorted(world.iterdir()) == before


def test_check_in_json_for_programs(world, capsys):
    assert run(["check", f"{world}/labeled.csv", f"{world}/unlabeled.parquet", *ROLES, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["labeled_rows"] == 360
    assert found["groups"]["both"] == 6
    assert {c["name"]: c["kind"] for c in found["columns"]}["work"] == "category"
    assert found["diagnosis"]["worth"] in {"yes", "little", "perhaps", "no", "harmful", "unknown"}


def test_check_warns_of_columns_that_give_the_target_away(tmp_path, capsys):
    labeled, _, _ = survey_tables()
    truth = (column_of(labeled, "in_favour") == "yes").astype(float)
    rng = np.random.default_rng(0)
    leaking = labeled.append_column("answer_code", [np.where(truth == 1, "A", "B")])
    leaking = leaking.append_column("answer_score", [truth + 0.1 * rng.random(len(truth))])
    leaking = leaking.append_column("zip", [rng.integers(10_000, 99_999, len(truth)).astype(str)])
    write_table(leaking, tmp_path / "a.csv")
    assert run(["check", f"{tmp_path}/a.csv", *ROLES, "--quick", "--json"]) == 0
    remarks = {c["name"]: c["remark"] for c in json.loads(capsys.readouterr().out)["columns"]}
    assert "gives the target away" in remarks["answer_code"]
    assert "gives the target away" in remarks["answer_score"]
    assert not any("gives" in remarks[name] for name in ("age", "work", "hours_online", "zip"))


def test_a_forgotten_group_is_told_first_and_once_more_with_the_findings(world, capsys):
    assert run(["check", f"{world}/labeled.csv", f"{world}/unlabeled.parquet", "--target", "in_favour"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("Look at this first: No --group is named")
    assert "'state' (6 values) looks like one: if it is, add --group state." in err
    findings = out[out.index("Is it worth it?") :]
    assert findings[findings.index("  • ") :].startswith("  • No --group is named")


@pytest.mark.parametrize("command", ["check", "fit"])
def test_groups_in_other_capitals_are_told_first(world, tmp_path, capsys, quick_fits, command):
    table = read(f"{world}/labeled.csv")
    state = pc.utf8_upper(table["state"])
    write_table(table.set_column(table.column_names.index("state"), "state", state), tmp_path / "l.csv")
    files = [f"{tmp_path}/l.csv", f"{world}/unlabeled.parquet"]
    more = ["--json"] if command == "check" else ["--json", "-o", f"{tmp_path}/m.gshift"]
    assert run([command, *files, *ROLES, *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["notes"][0].startswith("6 groups are spelled in several ways")
    if command == "check":
        assert found["diagnosis"]["main_sentences"][0] == found["notes"][0]


def test_what_is_offered_next_works(world, tmp_path, capsys, quick_fits):
    assert run(["fit", f"{world}/labeled.csv", *ROLES, "-o", f"{tmp_path}/m.gshift"]) == 0
    offered = capsys.readouterr().out.split("Next:")[1]
    assert " shares " not in offered
    data = f"{world}/unlabeled.parquet"
    assert run(["update", f"{tmp_path}/m.gshift", data, "-o", f"{tmp_path}/updated.gshift"]) == 0
    assert " update " in offered
    assert run(["shares", f"{tmp_path}/updated.gshift", "-o", f"{tmp_path}/s.csv"]) == 0
    assert run(["report", f"{tmp_path}/m.gshift", "-o", f"{tmp_path}/r.html"]) == 0


def column_of(table, name):
    return np.array(table[name].to_pylist())


def test_fit_saves_the_recipe_and_sums_up_on_one_screen(world, tmp_path, capsys):
    fit = ["fit", f"{world}/labeled.csv", f"{world}/unlabeled.parquet", *ROLES, "-o", f"{tmp_path}/m.gshift"]
    assert run(fit) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 50
    assert "groupshift predict" in out
    assert "known_shares" not in out
    for paragraph in Summary.of(load(tmp_path / "m.gshift")).paragraphs("Fitted on"):
        assert paragraph in out
    manifest = read_manifest(tmp_path / "m.gshift")
    assert manifest["table"]["positive"] == "yes"
    assert [c["name"] for c in manifest["table"]["columns"]] == [
        "age",
        "education",
        "urban",
        "income_band",
        "work",
        "hours_online",
    ]


def test_the_command_line_predicts_what_python_does(world, tmp_path):
    labeled, unlabeled, new = survey_tables()
    names = ["age", "education", "urban", "income_band", "work", "hours_online"]
    both = pa.concat_tables([labeled.select(names), unlabeled.select(names)])
    y = np.r_[column_of(labeled, "in_favour") == "yes", np.full(len(unlabeled), -1)].astype(int)
    groups = np.r_[column_of(labeled, "state"), column_of(unlabeled, "state")]
    model = GroupShiftClassifier(random_state=0).fit(both, y, groups=groups)
    assert run(["predict", f"{world}/m.gshift", f"{world}/new.csv", "-o", f"{tmp_path}/p.parquet"]) == 0
    expected = model.predict_details(new.select(names), column_of(new, "state"))
    found = read(tmp_path / "p.parquet")
    assert found.column_names == ["probability", "low", "high", "cluster", "pooled"]
    for name in found.column_names:
        np.testing.assert_allclose(column(found, name), np.asarray(expected[name], float), rtol=1e-12)


def test_predictions_do_not_depend_on_the_kind_of_file_or_the_batches(world, tmp_path, monkeypatch):
    new = read(f"{world}/new.csv")
    for ending in ("csv", "tsv", "csv.gz", "parquet", "arrow"):
        write_table(new, tmp_path / f"new.{ending}")
        out = tmp_path / f"p.{ending}"
        assert (
            run(
                [
                    "predict",
                    f"{world}/m.gshift",
                    f"{tmp_path}/new.{ending}",
                    "-o",
                    str(out),
                    "--keep",
                    "person",
                ]
            )
            == 0
        )
        assert column_of(read(out), "person").tolist() == new["person"].to_pylist()
        np.testing.assert_array_equal(
            column(read(out), "probability"), column(read(tmp_path / "p.csv"), "probability")
        )
    monkeypatch.setattr("groupshift.tables.sources.BATCH_ROWS", 7)
    assert (
        run(["predict", f"{world}/m.gshift", f"{tmp_path}/new.parquet", "-o", f"{tmp_path}/q.parquet"]) == 0
    )
    np.testing.assert_array_equal(
        column(read(tmp_path / "q.parquet"), "probability"),
        column(read(tmp_path / "p.parquet"), "probability"),
    )


def test_one_stacked_file_is_as_good_as_two(world, tmp_path):
    labeled, unlabeled, _ = survey_tables()
    write_table(stacked(labeled, unlabeled), tmp_path / "all.csv")
    assert run(["fit", f"{tmp_path}/all.csv", *ROLES, "-o", f"{tmp_path}/m.gshift"]) == 0
    np.testing.assert_array_equal(load(tmp_path / "m.gshift").shift_, load(world / "m.gshift").shift_)


def test_features_exclude_weight_and_example_id_are_honoured(world, tmp_path, quick_fits):
    labeled, _, _ = survey_tables()
    rng = np.random.default_rng(0)
    labeled = labeled.append_column("w", [rng.integers(1, 4, len(labeled)).astype(float)])
    write_table(labeled, tmp_path / "a.csv")
    files = [f"{tmp_path}/a.csv", f"{world}/unlabeled.parquet"]
    more = ["--weight", "w", "--example-id", "person", "--exclude", "urban,work"]
    assert run(["fit", *files, *ROLES, *more, "-o", f"{tmp_path}/m.gshift"]) == 0
    model = load(tmp_path / "m.gshift")
    assert model.encoder_.names_ == ["age", "education", "income_band", "hours_online"]
    share = np.average(column_of(labeled, "in_favour") == "yes", weights=column(labeled, "w"))
    assert np.isclose(np.average(model.labeled_prior_, weights=model.labeled_rows_), share, atol=0.05)
    assert (
        run(["fit", *files, *ROLES, "--features", "age", "--features", "work", "-o", f"{tmp_path}/n.gshift"])
        == 0
    )
    assert load(tmp_path / "n.gshift").encoder_.names_ == ["age", "work"]


def test_known_shares_move_their_groups(world, tmp_path, quick_fits):
    (tmp_path / "rates.csv").write_text("state,share,std_error\nAlabama,0.9,0.001\nAlaska,0.1,0.001\n")
    files = [f"{world}/labeled.csv", f"{world}/unlabeled.parquet"]
    known = ["--known-shares", f"{tmp_path}/rates.csv"]
    assert run(["fit", *files, *ROLES, *known, "-o", f"{tmp_path}/m.gshift"]) == 0
    shares = load(tmp_path / "m.gshift").group_shares(by="group").to_pydict()
    found = dict(zip(shares["group"], shares["share"], strict=True))
    # Rates with a standard error of a thousandth are met to about that.
    assert abs(found["Alabama"] - 0.9) < 0.003
    assert abs(found["Alaska"] - 0.1) < 0.003


@pytest.mark.parametrize("method", ["published", "label-shift", "cluster_global", "global"])
def test_methods_by_name_save_and_predict(world, tmp_path, monkeypatch, method):
    from groupshift.cli import classifiers_named

    forest = classifiers_named.classifier_named("forest")
    forest.set_params(estimator__n_estimators=5)
    monkeypatch.setitem(classifiers_named.CLASSIFIERS, "forest", lambda: forest)
    files = [f"{world}/labeled.csv", f"{world}/unlabeled.parquet"]
    assert run(["fit", *files, *ROLES, "--method", method, "-o", f"{tmp_path}/m.gshift"]) == 0
    assert run(["predict", f"{tmp_path}/m.gshift", f"{world}/new.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    assert np.isfinite(column(read(tmp_path / "p.csv"), "probability")).all()


def test_shares_are_a_table_for_publication(world, tmp_path, capsys):
    assert run(["shares", f"{world}/m.gshift", "-o", f"{tmp_path}/s.csv"]) == 0
    table = read(tmp_path / "s.csv")
    assert table.column_names == ["group", "rows", "share", "low", "high", "labeled_share"]
    share, low, high = (column(table, name) for name in ("share", "low", "high"))
    assert ((low <= share) & (share <= high)).all()
    capsys.readouterr()
    assert run(["shares", f"{world}/m.gshift", "-o", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "s.csv").read_text()
    assert run(["shares", f"{world}/m.gshift", "--by", "cell", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)
    assert {"group", "cluster", "share"} <= set(cells[0])
    assert run(["shares", f"{world}/m.gshift"]) == 0
    assert "90 % interval" in capsys.readouterr().out


def test_update_learns_shares_of_new_groups(world, tmp_path, capsys):
    _, unlabeled, _ = survey_tables()
    renamed = ["Utopia" if s == "Alabama" else s for s in unlabeled["state"].to_pylist()]
    later = unlabeled.set_column(unlabeled.column_names.index("state"), "state", [renamed])
    write_table(later, tmp_path / "june.csv")
    update = ["update", f"{world}/m.gshift", f"{tmp_path}/june.csv", "-o", f"{tmp_path}/june.gshift"]
    assert run([*update, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["new"], answer["gone"]) == (["Utopia"], ["Alabama"])
    assert "Utopia" in load(tmp_path / "june.gshift").groups_
    assert run(["predict", f"{tmp_path}/june.gshift", f"{world}/new.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    assert "'Alabama'" in capsys.readouterr().err


def test_update_with_the_same_rows_changes_nothing(world, tmp_path):
    update = ["update", f"{world}/m.gshift", f"{world}/unlabeled.parquet", "-o", f"{tmp_path}/m.gshift"]
    assert run(update) == 0
    before, after = load(world / "m.gshift"), load(tmp_path / "m.gshift")
    np.testing.assert_array_equal(after.groups_, before.groups_)
    np.testing.assert_allclose(after.group_prior_, before.group_prior_, rtol=1e-9)
    assert read_manifest(tmp_path / "m.gshift")["table"] == read_manifest(world / "m.gshift")["table"]


def test_the_report_is_one_file(world, tmp_path):
    assert run(["report", f"{world}/m.gshift", "-o", f"{tmp_path}/r.html"]) == 0
    page = (tmp_path / "r.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "Alabama" in page
    assert "<h1>Share of in_favour = yes by state</h1>" in page
    assert "known_shares" not in page
    assert "update()" not in page
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_rows_of_unseen_groups_are_answered_and_counted_and_rows_of_none_are_refused(world, tmp_path, capsys):
    _, _, new = survey_tables()
    state = new["state"].to_pylist()
    state[0] = "Atlantis"
    write_table(new.set_column(new.column_names.index("state"), "state", [state]), tmp_path / "new.csv")
    predict = ["predict", f"{world}/m.gshift", f"{tmp_path}/new.csv", "-o", f"{tmp_path}/p.parquet", "--json"]
    assert run(predict) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["unseen_groups"] == {"Atlantis": 1}
    assert answer["rows_without_group"] == 0
    assert read(tmp_path / "p.parquet")["pooled"].to_pylist()[0]
    state[1] = None
    write_table(new.set_column(new.column_names.index("state"), "state", [state]), tmp_path / "gap.csv")
    assert run(["predict", f"{world}/m.gshift", f"{tmp_path}/gap.csv", "-o", f"{tmp_path}/none.csv"]) == 2
    assert f"1 of {len(state)} rows of {tmp_path}/gap.csv have no 'state'" in capsys.readouterr().err
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_models_made_in_python_predict_on_the_command_line(world, tmp_path, backend):
    pytest.importorskip(backend)
    labeled, unlabeled, new = survey_tables()
    table = stacked(labeled, unlabeled).drop_columns(["person", "in_favour"])
    y = np.r_[column_of(labeled, "in_favour") == "yes", np.full(len(unlabeled), -1)].astype(int)
    if backend == "pandas":
        X = table.to_pandas()
    elif backend == "polars":
        import polars

        X = polars.from_arrow(table)
    else:
        X = table
    settings = {"partition": 1, "random_state": 0}
    model = GroupShiftClassifier(group="state", **settings).fit(X, y)
    save(model, tmp_path / "m.gshift")
    assert run(["predict", f"{tmp_path}/m.gshift", f"{world}/new.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    groups = column_of(new, "state")
    same = GroupShiftClassifier(**settings).fit(
        table.drop_columns(["state"]), y, groups=column_of(stacked(labeled, unlabeled), "state")
    )
    expected = same.predict_proba(new.select(same.encoder_.names_), groups)[:, 1]
    explain = ["explain", f"{tmp_path}/m.gshift", f"{world}/new.csv", "-o", f"{tmp_path}/e.csv"]
    assert run(explain) == 0
    np.testing.assert_allclose(column(read(tmp_path / "e.csv"), "probability"), expected, rtol=1e-9)
    np.testing.assert_allclose(column(read(tmp_path / "p.csv"), "probability"), expected, rtol=1e-9)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_model_of_the_command_line_takes_the_same_table_in_python(world, tmp_path, backend):
    pytest.importorskip(backend)
    assert run(["predict", f"{world}/m.gshift", f"{world}/new.csv", "-o", f"{tmp_path}/p.csv"]) == 0
    expected = column(read(tmp_path / "p.csv"), "probability")
    model, table = load(world / "m.gshift"), survey_tables()[2]
    assert model.group == "state"
    # With an id that the model does not know.
    assert {"person", "state"} <= set(table.column_names) - set(model.encoder_.names_)
    if backend == "pandas":
        table = table.to_pandas()
    elif backend == "polars":
        import polars

        table = polars.from_arrow(table)
    np.testing.assert_allclose(model.predict_proba(table)[:, 1], expected, rtol=1e-9)
    groups = table["state"].to_pylist() if backend == "pyarrow" else table["state"]
    np.testing.assert_allclose(model.predict_proba(table, groups)[:, 1], expected, rtol=1e-9)
    assert len(model.audit(table, budget=20).rows) == 20
    assert len(model.update(table).groups_) == 6
    streaming.predict(model, world / "new.csv", tmp_path / "s.csv")
    without = table.drop_columns(["state"]) if backend == "pyarrow" else table[["person", "age"]]
    with pytest.raises(ValueError, match=r"X has no column .*which the model was fitted with"):
        model.predict_proba(without)


def test_groups_that_are_numbers_in_python_are_those_of_the_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    frame = pandas.DataFrame({"x": y + rng.normal(size=600), "site": rng.integers(10, 14, 600)})
    frame["ill"] = np.where(np.arange(600) < 300, y, np.nan)
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", f"{tmp_path}/t.csv", "--target", "ill", "--group", "site", "-o", f"{tmp_path}/m.gshift"]
    assert run(fit) == 0
    model = load(tmp_path / "m.gshift")
    assert model.groups_.tolist() == ["10", "11", "12", "13"]
    whole = model.predict_proba(frame)
    assert whole.tolist() == model.predict_proba(frame.assign(site=frame.site.astype(float))).tolist()
    assert whole.tolist() == model.predict_proba(frame.assign(site=frame.site.astype(str))).tolist()
