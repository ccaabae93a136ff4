"""Measuring versions of the method: all see the same draws, none its test rows, and what was stopped goes on."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("pandas")
ablation = pytest.importorskip("benchmarks.ablation", reason="benchmarks are not installed with the package")
from benchmarks import ablation_methods as methods  # noqa: E402
from benchmarks.ablation_draws import KINDS, TABLES, is_possible, list_draws, make_draw  # noqa: E402

# A package whose probabilities are one number, and whose intervals lie around it.
PACKAGE = """
from groupshift.constants import LEVEL
from groupshift import pipeline
class GroupShiftClassifier:
    n_clusters_ = 1
    def __init__(self, random_state, n_jobs, shift=0.0):
        self.shift = shift
    def fit(self, X, y, groups, example_ids):
        import numpy as np
        from types import SimpleNamespace
        names, number = np.unique(groups[y >= 0], return_inverse=True)
        labeled = SimpleNamespace(group=number)
        pipeline.train(SimpleNamespace(y=y[y >= 0], labeled=labeled, labeled_groups=names))
        self.p, self.groups = LEVEL + self.shift, sorted(set(groups[y < 0].tolist()))
        return self
    def predict_proba(self, X, groups):
        import numpy as np
        return np.full((len(X), 2), [1 - self.p, self.p])
    def group_shares(self, by):
        n = len(self.groups)
        return {"group": self.groups, "share": [self.p] * n, "low": [self.p] * n, "high": [self.p] * n,
                "narrow_low": [0.0] * n, "narrow_high": [1.0] * n}
"""
# Out-of-fold scores of the labelled rows.
PIPELINE = """
from types import SimpleNamespace
def train(problem):
    return SimpleNamespace(score=0.0 * problem.y[:, None] - 0.4, rows=slice(None))
"""


@pytest.fixture
def versions(tmp_path):
    """Folders of two versions of a package: of probability .2 and .4."""
    for name, level in (("old", 0.2), ("new", 0.4)):
        folder = tmp_path / name / "groupshift"
        folder.mkdir(parents=True)
        (folder / "pipeline.py").write_text(PIPELINE)
        (folder / "constants.py").write_text(f"LEVEL = {level}\n")
        (folder / "__init__.py").write_text(PACKAGE)
    return {name: tmp_path / name for name in ("old", "new")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_hides_labels_and_is_made_again_alike(kind, tmp_path):
    table = "made plain" if is_possible("made plain", kind) else "cells d1 K4"
    draw, again = (make_draw(tmp_path, table, kind, 2500, seed=1) for _ in range(2))
    known = draw.y >= 0
    assert (draw.y[known] == draw.truth[known]).all()
    assert not (known & draw.test).any()
    assert 0.05 < draw.test.mean() < 0.3
    assert not set(draw.example[draw.test]) & set(draw.example[~draw.test & ~known])
    assert (again.y == draw.y).all()
    assert (again.X == draw.X).all()
    if kind.startswith("few"):
        assert len(np.unique(draw.group)) == 8


@pytest.mark.parametrize("table", ["cells d4 K4", *TABLES["made"], *TABLES["made classes"]])
def test_generated_tables_have_the_rows_that_were_asked_for(table, tmp_path):
    draw = make_draw(tmp_path, table, "volunteers", 2000, seed=3)
    assert abs(len(draw.y) - 2000) < 150
    assert abs((draw.y >= 0).mean() - 0.2) < 0.04
    assert draw.truth.max() == (2 if "C3" in table else 1)


def test_labels_chosen_by_the_label_are_of_one_strength_in_all_groups(tmp_path):
    draw = make_draw(tmp_path, "classes C2 d4", "common", 50_000, seed=1)
    known = draw.y >= 0
    rate = np.array(
        [[known[(draw.group == g) & (draw.truth == c)].mean() for c in (0, 1)] for g in range(50)]
    )
    odds_ratio = np.exp(np.abs(np.diff(np.log(rate / (1 - rate))).mean()))
    assert odds_ratio == pytest.approx(4.5, rel=0.1)


def test_tables_too_small_and_kinds_that_are_not_defined_are_left_out():
    draws = list(list_draws(["satimage", "made plain"], ["s2", "tinyr"], [2000, 12_000], [1]))
    places = [(d["table"], d["kind"], d["rows"]) for d in draws]
    assert ("satimage", "s2", 12_000) not in places
    assert places.count(("made plain", "tinyr", 2000)) == 1
    assert len(places) == 4


def test_two_versions_are_loaded_by_turns_and_keep_their_state(versions):
    import groupshift

    for _ in range(2):
        for name, level in (("old", 0.2), ("new", 0.4)):
            with methods.loaded(str(versions[name])):
                import groupshift as version

                assert level == version.LEVEL
    assert sys.modules["groupshift"] is groupshift


def run(versions, out, *options, methods="old,new,sharp"):
    """One process, one table of 2,500 rows; `sharp` is a patch of new, `high` a setting."""
    folders = [word for name in versions for word in ("--src", f"{name}={versions[name]}")]
    where = ["--tables", "made plain", "--kinds", "random", "--rows", "2500", "--jobs", "1"]
    pieces = [
        "--patch",
        "sharp@new=groupshift.constants.LEVEL=old / 2",
        "--settings",
        'high@old={"shift": 0.1}',
    ]
    with pytest.MonkeyPatch.context() as patch:
        arguments = [*where, *folders, *pieces, "--methods", methods, "--out", str(out), *options]
        patch.setattr(sys, "argv", ["ablation", "run", *arguments])
        ablation.main()
    return {(line["seed"], line["method"]): line for line in ablation.read_lines([out])}


def test_every_method_has_the_same_draw_and_its_own_answer(versions, tmp_path):
    found = run(versions, tmp_path / "found.jsonl", methods="old,new,sharp,high")
    assert len({line["draw"] for line in found.values()}) == 1
    assert not [line["error"] for line in found.values() if "error" in line]
    # `sharp` halves .4, the probability of old; `high` adds .1 to it.
    same = [name for name in found[1, "old"] if "loss" in name or "auc" in name]
    assert [found[1, "sharp"][name] for name in same] == [found[1, "old"][name] for name in same]
    assert found[1, "high"]["log_loss"] != found[1, "old"]["log_loss"]
    assert found[1, "new"]["coverage"] == 1
    assert found[1, "new"]["coverage_wide"] == 0


def test_a_random_intercept_stands_on_the_scores_of_the_package(versions, tmp_path):
    found = run(versions, tmp_path / "found.jsonl", "--intercept", "intercept=new", methods="new,intercept")
    # Probabilities are those of the group, and scores say nothing.
    assert found[1, "new"]["auc"] == 0.5
    assert found[1, "intercept"]["auc"] > 0.55
    assert found[1, "intercept"]["share_error"] < found[1, "new"]["share_error"]


def test_a_stopped_run_goes_on_and_changed_code_is_run_again(versions, tmp_path):
    out = tmp_path / "found.jsonl"
    run(versions, out, "--seeds", "1", methods="old")
    # Killed while it wrote.
    with out.open("a") as file:
        file.write('{"table": "made pl')
    assert len(run(versions, out, "--seeds", "1:3")) == 6
    lines = out.read_text().count("\n")
    assert len(run(versions, out, "--seeds", "1:3")) == 6
    assert out.read_text().count("\n") == lines
    (versions["new"] / "groupshift" / "constants.py").write_text("LEVEL = 0.7\n")
    methods._digest.cache_clear()
    methods._others.clear()
    before = [json.loads(text)["log_loss"] for text in out.read_text().splitlines() if '"new"' in text]
    found = run(versions, out, "--seeds", "1:3")
    # Two seeds of new and of sharp.
    assert out.read_text().count("\n") == lines + 4
    assert [found[seed, "new"]["log_loss"] for seed in (1, 2)] != before
    assert run(versions, out, "--seeds", "9", "--stop-after", "0").keys() == found.keys()


def test_a_summary_compares_draw_by_draw(versions, tmp_path, capsys):
    out = tmp_path / "found.jsonl"
    found = run(versions, out, "--seeds", "1:4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ablation", "summary", str(out), "--base", "old"])
        ablation.main()
    text = capsys.readouterr().out
    less = [1e4 * (found[s, "new"]["log_loss_test"] - found[s, "old"]["log_loss_test"]) for s in (1, 2, 3)]
    assert "# 2500 rows, 3 draws" in text
    assert f"{np.mean(less):+.0f} ±{np.std(less, ddof=1) / np.sqrt(3):.0f}" in text


def test_the_package_itself_is_measured(tmp_path):
    out = tmp_path / "found.jsonl"
    options = ["--kinds", "volunteers", "--tables", "classes C3 d4,made missing:frame"]
    found = run({"now": ablation.ROOT / "src"}, out, *options, methods="now")
    lines = ablation.read_lines([out])
    assert len(lines) == 2
    for line in lines:
        assert "error" not in line, line
        assert 0.5 < line["auc_test"] < 1
    assert found
