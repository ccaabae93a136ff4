"""A column that labelled rows have no value in, or one, is left out with a note, in every fold too."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from groupshift import GroupShiftClassifier
from groupshift._scores.members import fit_classifier

N = 200
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 2, N)
Y = np.where(np.arange(N) % 2, TRUTH, -1)
GROUPS = np.repeat(list("abcd"), N // 4)
X = TRUTH[:, None] + RNG.normal(size=(N, 2))
VALUES = RNG.normal(size=N)
FIRST = np.flatnonzero(Y >= 0)[0]
COLUMNS = {
    "no value at all": np.full(N, np.nan),
    "no labelled value": np.where(Y >= 0, np.nan, VALUES),
    "one labelled value": np.where((Y >= 0) & (np.arange(N) != FIRST), np.nan, VALUES),
}


@pytest.mark.parametrize("as_frame", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_without_labelled_values_is_left_out(few_trees, case, as_frame):
    table, plain = np.c_[X, COLUMNS[case]], X
    if as_frame:
        pd = pytest.importorskip("pandas")
        table, plain = pd.DataFrame(table, columns=list("uvw")), pd.DataFrame(plain, columns=list("uv"))
    name = "w" if as_frame else "x2"
    model = GroupShiftClassifier(partition=1, random_state=0).fit(table, Y, groups=GROUPS)
    assert f"Left out: '{name}', for which fewer than two labelled rows have a value." in model.notes_
    without = GroupShiftClassifier(partition=1, random_state=0).fit(plain, Y, groups=GROUPS)
    assert len(without.notes_) == len(model.notes_) - 1
    # What it holds later does not matter either.
    later = table.assign(w=7.0) if as_frame else np.c_[X, np.full(N, 7.0)]
    np.testing.assert_array_equal(model.predict_proba(later, GROUPS), model.predict_proba(table, GROUPS))


@pytest.mark.parametrize("own", [True, False], ids=["the user's trees", "default"])
def test_a_column_with_values_in_some_folds_only_is_survived(own):
    few = np.full(N, np.nan)
    few[np.flatnonzero(Y >= 0)[:2]] = 1.0, 2.0
    estimator = HistGradientBoostingClassifier(max_iter=5) if own else None
    model = GroupShiftClassifier(estimator, 1, random_state=0).fit(np.c_[X, few], Y, groups=GROUPS)
    assert np.isfinite(model.predict_proba(np.c_[X, few], GROUPS)).all()
    assert not any("Left out" in note for note in model.notes_)


def test_a_table_without_any_value_is_survived():
    model = GroupShiftClassifier(random_state=0).fit(np.full((N, 2), np.nan), Y, groups=GROUPS)
    assert np.isfinite(model.predict_proba(X, GROUPS)).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_the_users_classifier_keep_their_other_columns(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"a": X[:, 0], "empty": np.full(N, np.nan)})
    known = np.flatnonzero(Y >= 0)
    part = frame.iloc[known] if library == "pandas" else frame[known]
    model = fit_classifier(HistGradientBoostingClassifier(max_iter=3), part, Y[known], np.ones(len(known)))
    assert model.predict_proba(part).shape == (len(known), 2)


@pytest.mark.usefixtures("quick_fits")
@pytest.mark.parametrize("n_values", [0, 1])
@pytest.mark.usefixtures("few_trees")
def test_commands_leave_the_column_out_with_a_note(tmp_path, capsys, n_values):
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    pa = pytest.importorskip("pyarrow")
    from groupshift.cli.errors import run
    from groupshift.tables.files import write_table

    values = VALUES.copy()
    values[np.flatnonzero(Y >= 0)[n_values:]] = np.nan
    target = pa.array([None if label < 0 else str(label) for label in Y])
    table = pa.table({"u": X[:, 0], "w": pa.array(values, from_pandas=True), "g": GROUPS, "y": target})
    write_table(table, tmp_path / "t.csv")
    roles = [f"{tmp_path}/t.csv", "--target", "y", "--group", "g"]
    assert run(["fit", *roles, "-o", f"{tmp_path}/m.gshift"]) == 0
    assert "Left out: 'w', for which fewer than two labelled rows have a value." in capsys.readouterr().err
    assert run(["check", *roles]) == 0
