"""A diagnosis of every configuration, of models with parts missing, and of models from files."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import groupshift
from groupshift import DegradedWarning, GroupShiftClassifier
from groupshift._diagnosis.diagnosis import TABLES, diagnose
from shifted_groups import draw, fit_on

CONFIGURATIONS = {
    "published": {
        "shrinkage": "none",
        "shares": "em",
        "calibration": "holdout",
        "per_cluster": True,
    },
    "silhouette": {"partition": "silhouette"},
    "validated": {"partition": "validated"},
    "fixed trust": {},
    "no shares": {"shares": None},
    "bbse-soft": {"shares": "bbse-soft", "shrinkage": "none"},
    "bbse-hard": {
        "shares": "bbse-hard",
        "shrinkage": "none",
    },
    "clusters": {"partition": 3},
    "holdout": {"calibration": "holdout"},
    "refined": {"partition": 2},
}


def answers(model):
    """A diagnosis with every way of looking at it exercised."""
    found = diagnose(model)
    assert found.worth in ("yes", "little", "perhaps", "no", "harmful", "unknown")
    assert found.holds in ("yes", "roughly", "no", "unknown")
    assert all(sentence.endswith((".", ")")) and "nan" not in sentence for sentence in found.sentences)
    assert set(found.tables()) == set(TABLES)
    assert str(found).startswith(found.verdict[:20])
    assert "<div" in found._repr_html_()
    assert "<div" in model._repr_html_()
    assert model.summary()
    return found


@pytest.mark.parametrize("settings", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_every_configuration_is_diagnosed(settings):
    found = answers(fit_on(draw(np.random.default_rng(15), n_groups=8, labeled=60, unlabeled=80), **settings))
    assert found.overview["groups"] == 8


@pytest.mark.parametrize(
    "case", ["no groups", "no unlabelled rows", "one labelled group", "one unlabelled group"]
)
def test_missing_parts_are_said_to_be_missing(case):
    X, y, groups, _ = draw(np.random.default_rng(16), n_groups=6, labeled=50, unlabeled=60)
    keep = {
        "no groups": np.ones(len(y), bool),
        "no unlabelled rows": y >= 0,
        "one labelled group": (y < 0) | (groups == "g00"),
        "one unlabelled group": (y >= 0) | (groups == "g00"),
    }[case]
    model = GroupShiftClassifier(GaussianNB(), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedWarning)
        model.fit(X[keep], y[keep], groups=None if case == "no groups" else groups[keep])
    found = answers(model)
    if case != "one unlabelled group":
        assert found.worth == "unknown"
    if case in ("no groups", "one labelled group"):
        assert found.holds == "unknown"


def test_labels_too_few_to_hide_are_diagnosed():
    rng = np.random.default_rng(17)
    X, groups = rng.normal(size=(40, 1)), np.tile(["a", "b"], 20)
    y = np.r_[1, np.zeros(9, int), np.full(30, -1)]
    model = GroupShiftClassifier(LogisticRegression(), random_state=0).fit(X, y, groups=groups)
    assert answers(model).worth == "unknown"


def test_labelled_rows_that_share_one_example_id_are_given_as_the_reason():
    X, y, groups, _ = draw(np.random.default_rng(22), n_groups=6, labeled=50, unlabeled=60)
    ids = np.where(y >= 0, 0, np.arange(len(y)))
    model = GroupShiftClassifier(GaussianNB(), random_state=0).fit(X, y, groups=groups, example_ids=ids)
    found = answers(model)
    fewest = int(np.bincount(y[y >= 0])[0])
    reason = f"all {fewest:,} labeled rows of one class have the same example id"
    assert found.worth == found.holds == "unknown"
    assert reason in found.verdict
    assert reason in found.assumption[0]


def copied(times, seed=23):
    """Rows of five groups, the labelled ones several times; and the number of each row's example."""
    X, y, groups, _ = draw(np.random.default_rng(seed), n_groups=5, labeled=40, unlabeled=60)
    row = np.r_[np.repeat(np.flatnonzero(y >= 0), times), np.flatnonzero(y < 0)]
    return X[row], y[row], groups[row], row


def test_unmarked_copies_of_labelled_rows_are_cautioned_against():
    X, y, groups, row = copied(4)
    model = GroupShiftClassifier(GaussianNB(), partition=1, random_state=0)
    found = answers(model.fit(X, y, groups=groups))
    assert found.overview["unmarked_copies"] == pytest.approx(0.75)
    # Features whose values are copied tell the group too, which is said before.
    assert any(s.startswith("75 % of labeled rows are exact copies of another") for s in found.caution[:2])
    marked = answers(model.fit(X, y, groups=groups, example_ids=row))
    assert marked.overview["unmarked_copies"] == 0
    assert not any("exact copies" in sentence for sentence in marked.caution)


@pytest.mark.parametrize(
    "coarse",
    [np.round, lambda X: (X > 0).astype(float)],
    ids=["rounded", "booleans"],
)
def test_rows_that_repeat_by_chance_are_not_cautioned_against(coarse):
    X, y, groups, _ = copied(1)
    model = GroupShiftClassifier(GaussianNB(), partition=1, random_state=0)
    found = answers(model.fit(coarse(X), y, groups=groups))
    assert found.overview["unmarked_copies"] == 0


@pytest.mark.usefixtures("few_trees")
def test_weights_copies_and_missing_values_are_diagnosed():
    rng = np.random.default_rng(18)
    X, y, groups, _ = draw(rng, n_groups=5, labeled=60, unlabeled=60)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.choice([0.0, 1.0, 3.0], len(y))
    model = GroupShiftClassifier(partition=2, random_state=0)
    model.fit(X, y, groups=groups, sample_weight=weight, example_ids=np.arange(len(y)) // 2)
    answers(model)


def test_models_without_held_out_labels_or_population_points_still_answer(shifted):
    model = fit_on(shifted[0])
    model.evidence_ = replace(model.evidence_, held_out=None)
    assert diagnose(model).worth == "unknown"
    model.estimate_ = replace(model.estimate_, counts=None)
    assert diagnose(model).holds == "unknown"
    assert model.summary()


def test_a_loaded_model_says_the_same(shifted, tmp_path):
    pytest.importorskip("skops")
    groupshift.save(shifted[1], tmp_path / "model.gshift")
    loaded = groupshift.load(tmp_path / "model.gshift")
    assert loaded.diagnose().sentences == shifted[1].diagnose().sentences
    assert loaded.diagnose().overview == shifted[1].diagnose().overview


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.usefixtures("few_trees")
def test_tables_come_as_frames_of_the_users_library(library):
    frames = pytest.importorskip(library)
    X, y, groups, _ = draw(np.random.default_rng(19), n_groups=6, labeled=80, unlabeled=80)
    kind = np.where(X[:, 1] > 0, "up", "down")
    table = frames.DataFrame({"dose": X[:, 0], "kind": kind, "state": groups})
    model = GroupShiftClassifier(group="state", partition=2, random_state=0).fit(table, y)
    found = answers(model)
    for name, frame in found.tables().items():
        assert isinstance(frame, frames.DataFrame), name
    assert set(found.clusters["feature"]) <= {"dose", "kind"}
    assert set(found.independence["strongest_feature"]) <= {"dose", "kind"}


def test_labelled_sample_and_population_shares_differ_as_the_model_says(shifted):
    model = shifted[1]
    assert model.evidence_.groups.share.shape == (*model.labeled_groups_.shape, 1)
    _, y, groups, _ = shifted[0]
    own = (groups == "g00") & (y >= 0)
    assert model.evidence_.groups.share[0, 0] == pytest.approx(y[own].mean())
    assert np.isfinite(logit(model.group_prior_)).all()


def test_a_group_without_a_name_is_not_taken_for_all_groups():
    X, y, groups, _ = draw(np.random.default_rng(17), n_groups=4, labeled=60, unlabeled=80)
    model = fit_on((X, y, np.where(groups == "g00", "", groups), None))
    table = model.diagnose().calibration
    everyone = np.array([name is None for name in table["group"]])
    nameless = table["group"] == ""
    for method in ("global", "model"):
        own = table["method"] == method
        total = table["weight"][own & everyone].sum()
        assert total == pytest.approx(table["weight"][own & ~everyone].sum())
        assert 0 < table["weight"][own & nameless].sum() < total
