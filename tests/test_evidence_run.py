"""The run behind the results page: what is written down is what is run, and a stopped run goes on and counts fairly."""

import json
import math
import sys
from functools import partial

import numpy as np
import pytest

pytest.importorskip("pandas")
evidence = pytest.importorskip("benchmarks.evidence", reason="benchmarks are not installed with the package")
from benchmarks import evidence_methods as methods  # noqa: E402
from benchmarks.evidence_draws import KINDS, Place, make_draw  # noqa: E402
from benchmarks.evidence_methods import METHODS, methods_of  # noqa: E402
from benchmarks.evidence_summary import COMPARED, read_draws, summary, verdicts  # noqa: E402
from groupshift._fit import trained  # noqa: E402
from groupshift._fit.classifiers import default_classifier  # noqa: E402

SPEC = evidence.tomllib.loads(evidence.SPEC.read_text(encoding="utf-8"))
SMALL = """
seeds = [1]
[[places]]
tables = ["tiny"]
kinds = ["random", "setting 2"]
rows = 600
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with one small table: two numbers and a category, twelve groups, households of two."""
    rng = np.random.default_rng(3)
    n = 1500
    group = rng.integers(0, 12, n)
    y = (rng.random(n) < np.linspace(0.2, 0.8, 12)[group]).astype(np.int8)
    X = np.column_stack([rng.normal(size=(n, 2)) + y[:, None], rng.integers(0, 3, n)]).astype(np.float32)
    folder = tmp_path_factory.mktemp("tables")
    np.savez(
        folder / "tiny.npz",
        X=X,
        y=y,
        group=group,
        household=np.arange(n) // 2,
        is_category=np.array([False, False, True]),
    )
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_hides_labels_and_keeps_the_truth(tables, kind):
    draw = make_draw(tables, Place("tiny", kind, 1200), seed=1)
    known = draw.y >= 0
    assert (draw.y[known] == draw.truth[known]).all()
    assert 0 < known.sum() < len(known) <= 1201
    again = make_draw(tables, Place("tiny", kind, 1200), seed=1)
    assert (again.y == draw.y).all()
    # No household has rows on both sides where rows are resampled: copies would give labels away.
    if kind.startswith("setting"):
        assert not set(draw.example[known]) & set(draw.example[~known])
    assert ("groupshift told" in methods_of(draw, kind, with_gpboost=False)) == kind.startswith("setting")


def test_draws_of_the_kinds_differ_and_natural_groups_are_whole(tables):
    natural = make_draw(tables, Place("tiny", "natural", 1200), seed=1)
    labeled = [set(natural.group[natural.y >= 0]), set(natural.group[natural.y < 0])]
    assert not labeled[0] & labeled[1]
    share = np.mean(make_draw(tables, Place("tiny", "volunteers", 1200), seed=1).y >= 0)
    assert share == pytest.approx(0.2, abs=0.04)  # three standard errors of 1,200 rows


def test_tasks_come_seed_by_seed():
    tasks = list(evidence.list_tasks(SPEC, SPEC["seeds"]))
    seeds = [task["seed"] for task in tasks]
    assert seeds == sorted(seeds)
    assert len(set(map(seeds.count, SPEC["seeds"]))) == 1
    assert len({evidence._key(task) for task in tasks}) == len(tasks)
    assert {task["kind"] for task in tasks} <= set(KINDS)
    assert sum(task["gpboost"] for task in tasks) > 0


def test_slow_methods_have_the_first_seeds_alone():
    tasks = list(evidence.list_tasks(SPEC, SPEC["seeds"]))
    first = set(SPEC["seeds"][: SPEC["whole_seeds"]])
    assert {bool(task["left_out"]) for task in tasks if task["seed"] in first} == {False}
    assert {tuple(task["left_out"]) for task in tasks if task["seed"] not in first} == {
        tuple(SPEC["left_out"])
    }
    assert set(SPEC["left_out"]) < set(METHODS) - {"global", "groupshift"}


def test_a_method_is_compared_on_the_draws_it_was_run_on():
    values = {(1, "global"): 0.7, (2, "global"): 0.7, (1, "groupshift"): 0.75, (2, "groupshift"): 0.65}
    draws = lines_of(values | {(1, "gpboost"): 0.74})
    claim = {"text": "better", "column": "auc", "than": "gpboost", "over": "each", "at_least": 0.0}
    found = next(verdicts(draws, [claim]))
    assert found["value"] == pytest.approx(0.01)


def test_claims_name_columns_methods_and_places_that_exist():
    columns = {f"{name}{end}" for name in COMPARED for end in ("", "_gain")}
    columns |= {"coverage", "width", "announced_held", "worst_auc_gain", "worst_log_loss_gain"}
    tables = {"synthetic" if t.startswith("synthetic") else t for p in SPEC["places"] for t in p["tables"]}
    assert len(SPEC["claims"]) > 10
    for claim in SPEC["claims"]:
        assert claim["column"] in columns
        assert {claim.get("method", "groupshift"), claim.get("than", "global")} <= set(METHODS)
        assert set(claim.get("kinds", ())) <= set(KINDS)
        assert set(claim.get("tables", ())) <= tables
        assert claim["over"] in ("each", "mean", "part of places")
        assert {"at_least", "at_most"} & set(claim)


@pytest.fixture(scope="module")
def run(tables, tmp_path_factory):
    """A folder of results: stopped after the first draw, then gone on with."""
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "spec.toml").write_text(SMALL)
    first = {"table": "tiny", "kind": "random", "rows": 600, "seed": 1, "gpboost": False}
    with pytest.MonkeyPatch.context() as patch:
        # Fewer trees: the run is tested for whether it goes on, not for its numbers.
        patch.setattr(
            trained, "default_classifier", lambda *a, **k: default_classifier(*a, **k).set_params(max_iter=5)
        )
        first_draw = json.dumps(evidence.run_draw(tables, first))
        # Killed while it wrote the second.
        (folder / "draws.jsonl").write_text(first_draw + "\n" + first_draw[:200])
        arguments = ["--data", tables, "--out", folder, "--spec", folder / "spec.toml", "--jobs", 1]
        patch.setattr(sys, "argv", ["evidence", *map(str, arguments), "--commit", "abc"])
        evidence.main()
    return folder


def test_a_stopped_run_goes_on_and_runs_nothing_twice(run):
    lines = [row for rows in evidence.kept_draws(run / "draws.jsonl") for row in rows]
    keys = [(*evidence._key(line), line["method"]) for line in lines]
    assert len(set(keys)) == len(keys)
    assert len({key[:4] for key in keys}) == 2
    assert [line for line in lines if "error" in line] == []
    origin = json.loads((run / "experiment.json").read_text())
    assert origin["commit"] == "abc"
    assert {"numpy", "scikit-learn", "machine", "cores", "spec", "source", "benchmarks"} <= set(origin)


def test_global_of_the_shared_fit_is_global(tables, monkeypatch):
    monkeypatch.setattr(
        trained, "default_classifier", lambda *a, **k: default_classifier(*a, **k).set_params(max_iter=5)
    )
    draw = make_draw(tables, Place("tiny", "volunteers", 600), seed=1)
    shared, _ = METHODS["global"](draw, 1)
    alone, _ = methods._others(draw, 1, **methods.GLOBAL)
    assert shared == pytest.approx(alone, abs=1e-12)
    assert np.abs(METHODS["label shift"](draw, 1)[0] - shared).max() > 0.01


def test_a_method_that_is_told_the_cells_has_them(tables, monkeypatch):
    few = partial(methods.HistGradientBoostingClassifier, max_iter=5)
    monkeypatch.setattr(methods, "HistGradientBoostingClassifier", few)
    monkeypatch.setattr(
        trained, "default_classifier", lambda *a, **k: default_classifier(*a, **k).set_params(max_iter=5)
    )
    draw = make_draw(tables, Place("tiny", "setting 2, categories", 600), seed=1)
    _, found = METHODS["groupshift told"](draw, 1)
    assert found["n_clusters"] == len(np.unique(draw.partition.predict(draw.X)))


def test_another_code_does_not_go_on_in_the_same_folder(run):
    origin = json.loads((run / "experiment.json").read_text())
    with pytest.raises(SystemExit, match="another code"):
        evidence._write_origin(run / "experiment.json", {**origin, "source": "other"})


def test_nothing_begins_after_the_deadline(tables):
    assert evidence.run_draw(tables, {}, deadline=0.0) == []


def lines_of(values, *, table="t", kind="random"):
    """Lines of a file of draws: `values` maps (seed, method) to AUC."""
    same = dict.fromkeys(COMPARED, 0.5)
    where = {"table": table, "kind": kind, "rows": 9}
    return [{**where, **same, "seed": s, "method": m, "auc": auc} for (s, m), auc in values.items()]


def test_only_complete_seeds_count(tmp_path):
    path = tmp_path / "draws.jsonl"
    lines = lines_of({(1, "global"): 0.7, (2, "global"): 0.8}) + lines_of({(1, "global"): 0.6}, table="u")
    path.write_text("".join(json.dumps([line]) + "\n" for line in lines))
    tasks = [{"table": t, "kind": "random", "rows": 9, "seed": s} for t in "tu" for s in (1, 2)]
    assert {line["seed"] for line in read_draws(path, tasks)} == {1}


def test_a_line_has_paired_means_and_their_interval():
    values = {(1, "global"): 0.7, (2, "global"): 0.8, (1, "groupshift"): 0.75, (2, "groupshift"): 0.87}
    lines = {line["method"]: line for line in summary(lines_of(values))}
    ours = lines["groupshift"]
    assert ours["auc_gain"] == pytest.approx(0.06)
    # Two draws: t is 12.706, the standard error of .05 and .07 is .01.
    assert ours["auc_gain_half"] == pytest.approx(0.12706, abs=1e-5)
    assert ours["worst_auc_gain"] == pytest.approx(0.05)
    assert ours["draws"] == 2
    assert lines["global"]["auc_gain"] == 0
    assert math.isnan(ours["coverage"])


def test_synthetic_places_are_clusters_of_draws():
    places = {"synthetic d1 K1": 0.1, "synthetic d2 K2": 0.3}
    draws = []
    for table, gain in places.items():
        values = {(s, "global"): 0.5 for s in (1, 2, 3)} | {(s, "groupshift"): 0.5 + gain for s in (1, 2, 3)}
        draws += lines_of(values, table=table)
    found = {(line["table"], line["method"]): line for line in summary(draws)}
    together = found["synthetic", "groupshift"]
    assert together["draws"] == 6
    assert together["auc_gain"] == pytest.approx(0.2)
    # Two places, not six draws: 12.706 times a standard error of .1.
    assert together["auc_gain_half"] == pytest.approx(1.2706, abs=1e-4)
    assert found["synthetic d1 K1", "groupshift"]["auc_gain_half"] == pytest.approx(0, abs=1e-9)


def test_a_failed_method_is_counted_and_left_out_of_means():
    draws = lines_of({(1, "global"): 0.7, (2, "global"): 0.8, (1, "groupshift"): 0.75})
    where = {name: draws[0][name] for name in ("table", "kind", "rows")}
    draws.append({**where, "seed": 2, "method": "groupshift", "error": "Traceback"})
    ours = next(line for line in summary(draws) if line["method"] == "groupshift")
    assert (ours["draws"], ours["failed"]) == (1, 1)


def test_a_claim_is_judged_at_its_worst_place():
    draws = lines_of({(1, "global"): 0.7, (1, "groupshift"): 0.75}) + lines_of(
        {(1, "global"): 0.7, (1, "groupshift"): 0.69}, table="u"
    )
    claim = {"text": "no loss", "column": "auc_gain", "over": "each", "at_least": -0.001}
    mean = {**claim, "over": "mean"}
    part = {**claim, "over": "part of places", "at_least": 0.5}
    absent = {**claim, "than": "gpboost"}
    found = list(verdicts(draws, [claim, mean, part, absent]))
    assert [line["holds"] for line in found] == [False, True, True, False]
    assert found[0]["where"] == "u, random, 9 rows (worst of 2)"
    assert [line["value"] for line in found[:3]] == pytest.approx([-0.01, 0.02, 0.5])
    assert math.isnan(found[3]["value"])
