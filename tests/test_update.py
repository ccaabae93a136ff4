"""`update`: nothing with the rows of `fit`, everything or nothing with others; in memory, in files and on Dask."""

from copy import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, distributed, streaming
from groupshift.datasets import make_grouped_mixture

# What an update may change; compared before and after.
ESTIMATED = (
    "groups_",
    "shift_",
    "shift_variance_",
    "group_prior_",
    "share_error_",
    "unseen_shift_",
)


@pytest.fixture(scope="module")
def many_groups():
    """Thirty groups, and copies of examples."""
    sample = make_grouped_mixture(
        n_features=3,
        n_clusters=2,
        n_groups=30,
        labeled_per_group=(80, 5),
        unlabeled_per_group=(120, 10),
        random_state=5,
    )
    return sample.training()


def state(model):
    return {name: np.copy(getattr(model, name)) for name in ESTIMATED}


def assert_same(before, after, rtol=0.0):
    for name, value in before.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(after[name], value, rtol=rtol, atol=rtol, err_msg=name)
        else:
            assert np.array_equal(after[name], value), name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"partition": 3},
        {"partition": 2, "selection": "by_label"},
        {"partition": "silhouette", "shrinkage": "none"},
        {"shares": None},
    ],
    ids=str,
)
def test_updating_with_the_rows_of_fit_changes_nothing(many_groups, settings):
    X, y, groups, _ = many_groups
    model = GroupShiftClassifier(LogisticRegression(), random_state=0, **settings).fit(X, y, groups=groups)
    before = state(model)
    # Shuffled: what an update learns does not depend on the order of rows but for the rounding of sums.
    order = np.random.default_rng(0).permutation(np.flatnonzero(y < 0))
    model.update(X[order], groups[order])
    assert_same(before, state(model), rtol=1e-9)


def test_updating_with_the_rows_and_ids_of_fit_changes_nothing(many_groups):
    X, y, groups, ids = many_groups
    ids = ids // 2
    model = GroupShiftClassifier(LogisticRegression(), 2, random_state=0)
    model.fit(X, y, groups=groups, example_ids=ids)
    before = state(model)
    own = y < 0
    model.update(X[own], groups[own], example_ids=ids[own])
    assert_same(before, state(model), rtol=1e-9)


def refusals(X, groups):
    """Calls of `update` that are refused, each with what the message must say."""
    return {
        "unknown group in known shares": (X, groups, {"known_shares": {"nowhere": 0.3}}, "nowhere"),
        "a known share above one": (X, groups, {"known_shares": {groups[0]: 1.3}}, "1.3"),
        "infinite features": (np.where(np.arange(len(X))[:, None] == 3, np.inf, X), groups, {}, "infinity"),
        "a missing group": (X, np.where(np.arange(len(X)) == 2, None, groups.astype(object)), {}, "no group"),
        "no groups": (X, None, {}, "groups"),
        "negative weights": (X, groups, {"sample_weight": np.full(len(X), -1.0)}, "negative"),
    }


@pytest.mark.parametrize("case", list(refusals(np.zeros((3, 1)), np.array(["a", "b", "c"]))))
def test_a_refused_update_leaves_the_model_as_it_was(rows, fitted, case):
    X, _, groups = rows
    model = copy(fitted)
    before, predicted = state(model), model.predict_proba(X, groups)
    # Rows of half of the groups, so that the shape of a half-made update would differ.
    own = groups < "g006"
    rows_, groups_, options, said = refusals(X[own], groups[own])[case]
    with pytest.raises(ValueError, match=said):
        model.update(rows_, groups_, **options)
    assert_same(before, state(model))
    np.testing.assert_array_equal(model.predict_proba(X, groups), predicted)


@pytest.mark.parametrize("case", ["fit", "refit with other columns"])
def test_a_refused_fit_leaves_the_model_as_it_was(rows, fitted, case):
    X, y, groups = rows
    model = copy(fitted)
    before, predicted = state(model), model.predict_proba(X, groups)
    other = X if case == "fit" else np.hstack([X, X])
    with pytest.raises(ValueError, match="nowhere"):
        model.fit(other, y, groups=groups, known_shares={"nowhere": 0.5})
    assert_same(before, state(model))
    np.testing.assert_array_equal(model.predict_proba(X, groups), predicted)
    assert model.n_features_in_ == X.shape[1]


@pytest.fixture(scope="module")
def frames(sample):
    """Labelled and unlabelled rows as pandas frames, with a model's settings."""
    pd = pytest.importorskip("pandas")
    X, y, groups, _ = sample.training()
    table = pd.DataFrame(X, columns=["a", "b"]).assign(site=groups, ill=y.astype(float))
    return table[y >= 0].reset_index(drop=True), table[y < 0].drop(columns="ill").reset_index(drop=True)


def fit_frames(labeled, unlabeled, tmp_path, **settings):
    unlabeled.to_parquet(tmp_path / "population.parquet")
    model = GroupShiftClassifier(LogisticRegression(), 2, random_state=0, **settings)
    return streaming.fit(model, labeled, tmp_path / "population.parquet", target="ill", group="site")


def as_dask(unlabeled):
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(unlabeled, npartitions=3)


@pytest.mark.parametrize("way", ["files", "Dask"])
def test_a_refused_update_from_elsewhere_leaves_the_model_as_it_was(frames, tmp_path, way):
    labeled, unlabeled = frames
    model = fit_frames(labeled, unlabeled, tmp_path)
    before = state(model)
    half = unlabeled[unlabeled.site < "g006"]
    half.to_parquet(tmp_path / "half.parquet")
    room, data = (streaming, tmp_path / "half.parquet") if way == "files" else (distributed, as_dask(half))
    with pytest.raises(ValueError, match="nowhere"):
        room.update(model, data, group="site", known_shares={"nowhere": 0.3})
    assert_same(before, state(model))


@pytest.mark.parametrize("way", ["files", "Dask"])
def test_updating_from_elsewhere_with_the_rows_of_fit_changes_nothing(frames, tmp_path, way):
    labeled, unlabeled = frames
    model = fit_frames(labeled, unlabeled, tmp_path)
    before = state(model)
    if way == "files":
        streaming.update(model, tmp_path / "population.parquet", group="site", batch_rows=700)
    else:
        distributed.update(model, as_dask(unlabeled), group="site")
    assert_same(before, state(model), rtol=1e-9)


@pytest.mark.parametrize("way", ["files", "Dask"])
@pytest.mark.parametrize("step", ["fit", "update", "predict"])
def test_infinities_are_refused_wherever_rows_come_from(frames, tmp_path, way, step):
    labeled, unlabeled = frames
    broken = unlabeled.assign(a=unlabeled.a.where(unlabeled.index != 7, np.inf))
    broken.to_parquet(tmp_path / "broken.parquet")
    model = GroupShiftClassifier(LogisticRegression(), 2, random_state=0)
    if step != "fit":
        model = fit_frames(labeled, unlabeled, tmp_path)
    data = tmp_path / "broken.parquet" if way == "files" else as_dask(broken)
    room = streaming if way == "files" else distributed
    calls = {
        "fit": lambda: room.fit(model, labeled, data, target="ill", group="site"),
        "update": lambda: room.update(model, data, group="site"),
        "predict": lambda: (
            room.predict(model, data, tmp_path / "out.parquet", group="site")
            if way == "files"
            else room.predict(model, data, group="site").compute()
        ),
    }
    with pytest.raises(ValueError, match=r"contains infinity, in column\(s\) 'a'"):
        calls[step]()
    assert not (tmp_path / "out.parquet").exists()
