"""What drives a prediction: features that matter are told from those that do not, and a group's part is the shift."""

import json

import numpy as np
import pytest
from scipy.special import logit

from groupshift import GroupShiftClassifier, share_changes
from groupshift.datasets import make_grouped_mixture


@pytest.fixture(scope="module")
def fitted():
    sample = make_grouped_mixture(
        n_features=3,
        n_clusters=1,
        n_groups=12,
        labeled_per_group=(80, 0),
        unlabeled_per_group=(100, 0),
        random_state=0,
    )
    X, y, groups, _ = sample.training()
    # A column that says nothing of the label.
    X = np.column_stack([X, np.random.default_rng(1).normal(size=len(X))])
    return GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=groups), X, groups


def test_a_feature_of_noise_is_not_important_and_one_that_counts_is(fitted):
    found = fitted[0].feature_importance()
    rise = dict(zip(found["feature"], found["loss_rise"], strict=True))
    assert list(found["loss_rise"]) == sorted(found["loss_rise"], reverse=True)
    # Shuffling what counts costs far more than the chance of a thousand rows.
    assert max(rise.values()) > 0.05
    assert abs(rise["x3"]) < 0.25 * max(rise.values())


def test_the_parts_of_a_row_add_up_to_its_prediction(fitted):
    model, X, groups = fitted
    parts = model.explain(X[:50], groups[:50])
    np.testing.assert_allclose(
        logit(parts["plain_probability"]) + parts["shift"], logit(parts["probability"]), atol=1e-9
    )
    np.testing.assert_array_equal(parts["probability"], model.predict_proba(X[:50], groups[:50])[:, 1])
    own = {group: model.shift_[i, 0] for i, group in enumerate(model.groups_.tolist())}
    assert parts["shift"].tolist() == [own[group] for group in groups[:50].tolist()]


def test_explain_by_the_command_line(world, tmp_path, capsys):
    from groupshift.cli.errors import run
    from groupshift.tables.sources import open_source

    model = f"{world}/m.gshift"
    assert run(["explain", model]) == 0
    assert "rise of log loss" in capsys.readouterr().out
    options = ["-o", f"{tmp_path}/e.parquet", "--keep", "person", "--json"]
    assert run(["explain", model, f"{world}/new.csv", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    table = open_source(tmp_path / "e.parquet").read()
    assert table.column_names == ["person", "plain_probability", "shift", "probability"]
    assert table.num_rows == answer["rows"]
    assert run(["explain", model, f"{world}/new.csv"]) == 2
    assert "pass both DATA and --out" in capsys.readouterr().err


def test_compare_tells_groups_that_moved_from_noise(world, tmp_path, capsys):
    import pyarrow as pa

    from cli_files import survey_tables
    from groupshift import load
    from groupshift.cli.errors import run
    from groupshift.tables.files import write_table

    _, unlabeled, _ = survey_tables()
    assert run(["compare", f"{world}/m.gshift", f"{world}/m.gshift"]) == 0
    assert "No group moved beyond noise" in capsys.readouterr().out
    write_table(pa.concat_tables([unlabeled] * 2), tmp_path / "june.parquet")
    update = ["update", f"{world}/m.gshift", f"{tmp_path}/june.parquet", "-o", f"{tmp_path}/june.gshift"]
    assert run([*update, "--known-overall", "0.95"]) == 0
    # An update says what changed.
    said = capsys.readouterr().out
    assert "The overall share went from" in said
    assert "moved beyond noise" in said
    assert (
        run(["compare", f"{world}/m.gshift", f"{tmp_path}/june.gshift", "--json", "-o", f"{tmp_path}/c.csv"])
        == 0
    )
    rows = {row["group"]: row for row in json.loads(capsys.readouterr().out)}
    changes = share_changes(load(world / "m.gshift"), load(tmp_path / "june.gshift"))
    for group, change in zip(changes["group"].to_pylist(), changes["change"].to_pylist(), strict=True):
        assert rows[group]["change"] == pytest.approx(change)
        assert rows[group]["beyond_noise"] == (rows[group]["low"] > 0 or rows[group]["high"] < 0)
    assert rows["(all)"]["after"] == pytest.approx(0.95, abs=1e-6)
