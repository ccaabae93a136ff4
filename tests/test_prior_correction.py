"""Prior correction of any classifier: the formula, the estimate, and what people do wrong by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from groupshift import DegradedWarning, PriorCorrectedClassifier
from groupshift.theory import collect_points, mlls, mlls_classes, shift_posterior

MINUS_ONE = "Its classes are -1 and +1, and -1 marks unlabelled rows; with unlabeled_value=None it passes."


@pytest.mark.filterwarnings("ignore::groupshift.DegradedWarning")
@parametrize_with_checks(
    [
        PriorCorrectedClassifier(LogisticRegression()),
        PriorCorrectedClassifier(LogisticRegression(), unlabeled_value=None),
    ],
    expected_failed_checks=lambda model: (
        {"check_classifiers_classes": MINUS_ONE} if model.unlabeled_value == -1 else {}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(shares, n, seed):
    """Rows of classes 0, 1, … around centers of their own."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), n, p=shares)
    centers = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    return centers[y] + rng.normal(size=(n, 2)), y


def test_two_classes_move_as_theorem_2_says():
    X, y = draw([0.5, 0.5], 2_000, 0)
    plain = LogisticRegression().fit(X, y)
    model = PriorCorrectedClassifier(LogisticRegression(), 0.02).fit(X, y)
    expected = shift_posterior(plain.predict_proba(X)[:, 1], source_prior=y.mean(), target_prior=0.02)
    assert model.predict_proba(X)[:, 1] == pytest.approx(expected, abs=1e-12)
    assert model.target_prior_error_.tolist() == [0, 0]


def test_the_prior_of_training_changes_nothing():
    X, y = draw([0.2, 0.5, 0.3], 1_000, 0)
    model = PriorCorrectedClassifier(LogisticRegression(), dict(enumerate(np.bincount(y) / len(y)))).fit(X, y)
    assert model.predict_proba(X) == pytest.approx(LogisticRegression().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("shares", [[0.9, 0.1], [0.1, 0.2, 0.7]], ids=["two classes", "three"])
def test_an_estimate_lies_within_its_error_of_the_truth(shares):
    X, y = draw(np.full(len(shares), 1 / len(shares)), 20_000, 1)
    away = []
    for seed in range(20):
        new, truth = draw(shares, 2_000, 100 + seed)
        labels = np.r_[y, np.full(len(truth), -1)]
        model = PriorCorrectedClassifier(LogisticRegression()).fit(np.r_[X, new], labels)
        # The classifier's own error is that of ten times as many rows.
        away.append((model.target_prior_ - shares) / model.target_prior_error_)
        assert model.predict_proba(new).mean(0) == pytest.approx(model.target_prior_, abs=1e-6)
    spread = np.sqrt(np.mean(np.square(away), axis=0))
    # A standard deviation of 20 draws is within a third of the true one; model error adds a tenth.
    assert np.all((spread > 0.6) & (spread < 1.6))


def test_shares_of_two_classes_and_errors_are_those_of_mlls():
    p = np.random.default_rng(0).beta(1, 2, 500)
    weight = np.random.default_rng(1).uniform(0.5, 2, 500)
    points = collect_points(np.log(p / (1 - p)), np.zeros(500, int), n_cells=1, weight=weight)
    known = mlls(points, labeled_prior=0.4)
    share, error = mlls_classes(np.column_stack([1 - p, p]), labeled_prior=[0.6, 0.4], weight=weight)
    assert share[1] == pytest.approx(known.share[0], abs=1e-6)
    assert error[1] == pytest.approx(known.std_error[0], rel=1e-3)


def test_shares_of_several_classes_are_those_of_brute_force():
    rng = np.random.default_rng(2)
    for _ in range(5):
        p = rng.dirichlet([0.5, 1, 2], 60)
        prior = rng.dirichlet([5, 5, 5])
        share, _ = mlls_classes(p, labeled_prior=prior)
        grid = np.linspace(0, 1, 201)
        a, b = (v.ravel() for v in np.meshgrid(grid, grid))
        q = np.column_stack([a, b, 1 - a - b])[a + b <= 1 + 1e-12].clip(0)
        level = np.log(p / prior @ q.T + 1e-300).sum(0)
        assert np.log(p / prior @ share).sum() >= level.max() - 1e-6  # a share of 1e-9 in 60 rows
        assert np.abs(share - q[level.argmax()]).max() < 0.02


def test_classes_that_no_row_tells_apart_have_no_error_bound():
    share, error = mlls_classes(np.tile([0.3, 0.7], (10, 1)), labeled_prior=[0.3, 0.7])
    assert share == pytest.approx([0.3, 0.7])
    assert np.isinf(error).all()


def test_each_group_has_its_own_estimate_and_others_that_of_all_rows():
    X, y = draw([0.5, 0.5], 5_000, 0)
    few, _ = draw([0.9, 0.1], 3_000, 1)
    many, _ = draw([0.2, 0.8], 3_000, 2)
    table = pd.DataFrame(np.r_[X, few, many], columns=["a", "b"])
    table["place"] = np.repeat(["lab", "few", "many"], [5_000, 3_000, 3_000])
    labels = np.r_[y, np.full(6_000, -1)]
    model = PriorCorrectedClassifier(LogisticRegression(), group="place").fit(table, labels)
    assert model.groups_.tolist() == ["few", "many"]
    assert model.group_prior_[:, 1] == pytest.approx([0.1, 0.8], abs=0.04)  # three standard errors
    everywhere = model.predict_proba(table.iloc[:10].assign(place="elsewhere"))
    pooled = PriorCorrectedClassifier(LogisticRegression()).fit(table[["a", "b"]], labels)
    assert everywhere == pytest.approx(pooled.predict_proba(table[["a", "b"]].iloc[:10]))
    with pytest.warns(UserWarning, match="no groups were given"):
        model.set_params(group=None).predict_proba(table[["a", "b"]])


def test_a_fitted_classifier_is_used_as_it_is():
    X, y = draw([0.5, 0.5], 1_000, 0)
    fitted = LogisticRegression().fit(X, y)
    model = PriorCorrectedClassifier(FrozenEstimator(fitted), 0.1, source_prior=0.5).fit(X[:20], y[:20])
    assert model.predict_proba(X)[:, 1] == pytest.approx(
        shift_posterior(fitted.predict_proba(X)[:, 1], source_prior=0.5, target_prior=0.1)
    )


def test_labels_that_a_fitted_classifier_does_not_know_are_refused():
    X, y = draw([0.5, 0.5], 100, 0)
    fitted = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match="y holds 2, and the classifier knows 0, 1"):
        PriorCorrectedClassifier(fitted, 0.1).fit(X, y + 1)


def test_new_rows_change_the_shares_and_nothing_else():
    X, y = draw([0.5, 0.5], 2_000, 0)
    new, _ = draw([0.9, 0.1], 2_000, 1)
    labels = np.r_[y, np.full(len(new), -1)]
    asked = PriorCorrectedClassifier(LogisticRegression()).fit(np.r_[X, new], labels)
    with pytest.warns(DegradedWarning, match="No unlabelled rows"):
        updated = PriorCorrectedClassifier(LogisticRegression()).fit(X, y)
    assert updated.target_prior_ == pytest.approx(updated.source_prior_)
    updated.update(new)
    assert updated.predict_proba(new) == pytest.approx(asked.predict_proba(new))


@pytest.mark.parametrize("weighted", [False, True], ids=["class_weight", "weights at fit"])
def test_a_classifier_that_was_balanced_is_noticed_and_calibration_mends_it(weighted):
    X, y = draw([0.95, 0.05], 4_000, 0)
    if weighted:
        weights = np.where(y == 1, 19.0, 1.0)
        balanced = FrozenEstimator(LogisticRegression().fit(X, y, sample_weight=weights))
    else:
        balanced = LogisticRegression(class_weight="balanced")
    with pytest.warns(UserWarning, match="resampled or reweighted"):
        PriorCorrectedClassifier(balanced, 0.2).fit(X, y)
    model = PriorCorrectedClassifier(balanced, 0.2, calibration="sigmoid").fit(X, y)
    new, _ = draw([0.8, 0.2], 20_000, 1)
    assert model.predict_proba(new)[:, 1].mean() == pytest.approx(0.2, abs=0.03)


def test_weights_are_those_of_repeated_rows():
    X, y = draw([0.5, 0.5], 300, 0)
    new, _ = draw([0.8, 0.2], 300, 1)
    all_rows, labels = np.r_[X, new], np.r_[y, np.full(300, -1)]
    times = np.random.default_rng(0).integers(1, 4, 600)
    by_weight = PriorCorrectedClassifier(LogisticRegression()).fit(all_rows, labels, sample_weight=times)
    repeated = PriorCorrectedClassifier(LogisticRegression()).fit(
        np.repeat(all_rows, times, 0), np.repeat(labels, times)
    )
    assert by_weight.target_prior_ == pytest.approx(
        repeated.target_prior_, abs=1e-4
    )  # the solver's tolerance
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        PriorCorrectedClassifier(KNeighborsClassifier()).fit(all_rows, labels, sample_weight=times)


def test_pipelines_take_weights_and_classes_may_be_texts():
    X, y = make_blobs([100, 100, 100], random_state=0)
    names = np.array(["low", "middle", "high"], object)[y]
    names[::3] = None
    model = PriorCorrectedClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), {"low": 0.5, "middle": 0.3}
    )
    model.fit(X, names, sample_weight=np.ones(300))
    assert dict(zip(model.classes_, model.target_prior_.round(3), strict=True)) == {
        "high": 0.2,
        "low": 0.5,
        "middle": 0.3,
    }
    assert set(model.predict(X)) <= {"low", "middle", "high"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_prior": 1.2}, "no distribution"),
        ({"target_prior": "guess"}, "'guess' is not known"),
        ({"target_prior": {"x": 0.5}}, "names 'x', and the classes are 0, 1"),
        ({"target_prior": {0: 0.5, 1: 0.7}}, "sum to 1"),
        ({"source_prior": [0.5, 0.5]}, "Pass a mapping of class to share"),
    ],
)
def test_wrong_shares_have_their_sentence(settings, message):
    X, y = draw([0.5, 0.5], 100, 0)
    with pytest.raises(ValueError, match=message):
        PriorCorrectedClassifier(LogisticRegression(), **settings).fit(X, y)


def test_a_given_prior_and_groups_do_not_go_together():
    X, y = draw([0.5, 0.5], 100, 0)
    with pytest.raises(ValueError, match="known_shares"):
        PriorCorrectedClassifier(LogisticRegression(), 0.5).fit(X, y, groups=y)
