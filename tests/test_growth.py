"""What grows faster than its columns or groups is a defect: work is counted, at two sizes."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, save
from groupshift._data.codes import Codes
from groupshift._diagnosis.findings import kinds_of_caution

pa = pytest.importorskip("pyarrow", reason="reading files needs the extra files")

from groupshift.cli import prepared  # noqa: E402
from groupshift.cli.check import look, single_column_auc  # noqa: E402
from groupshift.cli.errors import run  # noqa: E402
from groupshift.cli.training import Roles, read_training  # noqa: E402
from groupshift.tables import csv_cells  # noqa: E402
from groupshift.tables.column_facts import Distinct  # noqa: E402
from groupshift.tables.files import write_table  # noqa: E402


def calls_of(function):
    """Python functions that are called on the way."""
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def write_wide(path, n_columns, n_rows=500):
    rng = np.random.default_rng(n_columns)
    columns = {f"x{j}": rng.normal(size=n_rows) for j in range(n_columns)}
    label = np.where(np.arange(n_rows) % 2, rng.choice(["yes", "no"], n_rows), "")
    write_table(pa.table(columns | {"y": label}), path)


def test_a_wide_table_is_asked_as_much_of_each_column_as_a_narrow_one(tmp_path, monkeypatch):
    survey, surveyed = prepared.survey_column, []
    monkeypatch.setattr(prepared, "survey_column", lambda *a, **k: surveyed.append(1) or survey(*a, **k))
    calls, batches = {}, {}
    for n_columns in (100, 1000):
        path = tmp_path / f"{n_columns}.csv"
        write_wide(path, n_columns)
        surveyed.clear()
        calls[n_columns] = calls_of(lambda path=path: look(read_training([str(path)], Roles("y"))))
        batches[n_columns] = len(surveyed) / n_columns
    assert batches[1000] == batches[100]
    assert calls[1000] < 11 * calls[100]


@given(st.lists(st.text(max_size=6), max_size=30))
def test_texts_are_counted_by_their_bytes_and_length(texts):
    assert Distinct.of(pa.chunked_array([pa.array(texts, pa.string())])).count == len(set(texts))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=10, max_size=40))
def test_a_column_ranks_the_target_as_scikit_learn_says(pairs):
    from sklearn.metrics import roc_auc_score

    score, y = (np.array(side) for side in zip(*pairs, strict=True))
    y[:5], y[5:10] = 0, 1
    auc = roc_auc_score(y, score)
    found = single_column_auc(pa.chunked_array([score.astype(float)]), "number", y)
    assert found == pytest.approx(max(auc, 1 - auc))


def test_the_command_numbers_groups_by_a_table_made_once(tmp_path, rows, monkeypatch, capsys):
    X, y, groups = rows
    model = GroupShiftClassifier(LogisticRegression(), partition=2, random_state=0)
    save(model.fit(X, y, groups=groups.astype(object)), tmp_path / "m.gshift")
    write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1], "g": groups}), tmp_path / "new.csv")
    made, of = [], Codes.of.__func__
    monkeypatch.setattr(Codes, "of", classmethod(lambda cls, values: made.append(1) or of(cls, values)))
    monkeypatch.setattr(csv_cells, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(csv_cells, "BLOCK_BYTES_A_COLUMN", 1)
    command = ["predict", "m.gshift", "new.csv", "--group", "g", "-o", "p.csv"]
    monkeypatch.chdir(tmp_path)
    assert run(command) == 0
    assert f"{len(X):,} predictions" in capsys.readouterr().out
    # One for the scores of all batches, one for the verdict.
    assert len(made) == 2


def test_cautions_are_summed_by_kind_not_by_line():
    class Kinds(np.ndarray):
        compared = 0

        def __eq__(self, other):
            Kinds.compared += 1
            return np.asarray(self) == other

    n = 500
    table = {
        "kind": np.array(["few rows in group", "few rows in cell"] * (n // 2), object).view(Kinds),
        "group": np.array([f"g{i}" for i in range(n)], object),
        "cluster": np.full(n, -1),
        "label": np.full(n, None),
        "rows": np.ones(n, np.int64),
        "value": np.ones(n),
    }
    assert len(list(kinds_of_caution(table, n, 1))) == 2
    assert Kinds.compared < 10
