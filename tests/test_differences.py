"""The table of differences from the article is true, line by line."""

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from conftest import probability
from groupshift import METHODS, GroupShiftClassifier
from groupshift._article import platt_line
from groupshift.datasets import bias_groups, make_grouped_mixture
from groupshift.datasets.bias import KMeansPartition
from paper import load_experiment
from paper.methods import found_partition
from paper.reviews import load_reviews
from paper.walk import walked_pairs

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "differences.md"
TESTED = {}
# The method, and the same without its correction.
PAIR = ("published", "cluster_global")


def line(point):
    """Marks the test of a line of the table."""

    def mark(test):
        TESTED[point] = test.__name__
        return test

    return mark


def small_forest():
    return RandomForestClassifier(8, max_depth=4, random_state=0)


def published(rows, **settings):
    X, y, groups = rows
    model = GroupShiftClassifier.published(small_forest(), random_state=0, **settings)
    # With ids, no draw depends on the features.
    return model.fit(X, y, groups=groups, example_ids=np.arange(len(y)))


def data_of(name, kind):
    return [d for d in load_experiment(name, scale="paper").data if d.kind == kind]


@pytest.fixture(scope="module")
def table():
    """A table of three groups, one of them tiny, with two clusters of its own."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    X = np.column_stack([rng.normal(0, 1, 1200) + 20 * rng.integers(0, 2, 1200), rng.normal(y, 1)])
    return X, y, np.repeat(["big", "large", "tiny"], [700, 480, 20])


@line("synthetic sets")
def test_synthetic_sets_have_the_dimensions_and_clusters_of_figure_3():
    for name in ("paper", "authors_code"):
        (synthetic,) = data_of(name, "synthetic")
        assert (synthetic.dimensions, synthetic.clusters) == ((1, 4, 16, 64), (1, 2, 4, 8))


@line("AUC within clusters")
def test_pairs_spread_over_the_range_or_walk_into_it():
    sizes = {"n_features": 2, "n_clusters": 8, "n_groups": 1, "labeled_per_group": (8, 0)}
    spread = make_grouped_mixture(random_state=0, **sizes).partition.auc
    assert np.ptp(spread) > 0.1
    rng = np.random.default_rng(0)
    walked = walked_pairs(n_clusters=8, n_features=2, auc_range=(0.75, 0.95), rng=rng)
    assert np.median(walked.auc) < 0.79
    assert {data.pairs for name in ("paper", "authors_code") for data in data_of(name, "synthetic")} == {
        "walk"
    }


@line("k-means batch")
def test_batches_are_of_4096_rows_and_14_can_be_asked_for(rows, table):
    X, _, groups = rows
    default, same, code = (
        probability(published(rows, partition=partition), X, groups)
        for partition in ("silhouette", {"batch_size": 4096}, {"batch_size": 14})
    )
    np.testing.assert_array_equal(default, same)
    assert not np.array_equal(default, code)
    assert bias_groups(*table, setting=2, random_state=0).partition.batch_size == 4096
    assert bias_groups(*table, setting=2, batch_size=14, random_state=0).partition.batch_size == 14


@line("k-means after K is chosen")
def test_the_clusters_that_were_judged_are_used(table):
    X = table[0]
    chosen, again = (found_partition(X, 0, refit=refit) for refit in (False, True))
    assert chosen.n_clusters_ == again.n_clusters_ > 1
    alone = KMeansPartition(random_state=0).fit(X)
    np.testing.assert_array_equal(alone.kmeans_.cluster_centers_, chosen.kmeans_.cluster_centers_)
    assert not np.array_equal(chosen.kmeans_.cluster_centers_, again.kmeans_.cluster_centers_)


@line("scale of features, k-means")
def test_units_of_measurement_do_not_move_clusters(rows):
    X, y, groups = rows
    scaled = X * [1000, 1]
    ours, theirs = published(rows), published((scaled, y, groups))
    np.testing.assert_allclose(probability(ours, X, groups), probability(theirs, scaled, groups), atol=1e-6)


@line("scale of features, CORAL")
def test_coral_takes_features_as_they_are_or_standardised(rows):
    X, y, groups = rows
    scaled = X * [1000, 1]

    def change(**settings):
        models = [
            METHODS["coral"](LogisticRegression(tol=1e-9), random_state=0, **settings) for _ in range(2)
        ]
        one, other = (
            probability(m.fit(Z, y, groups=groups, example_ids=np.arange(len(y))), Z, groups)
            for m, Z in zip(models, (X, scaled), strict=True)
        )
        return np.abs(one - other).max()

    assert change(standardize=True) < 1e-5
    assert change() > 1e-3


@line("real data, setting 1")
def test_setting_1_of_real_data_has_k_clusters_or_one(table):
    assert bias_groups(*table, setting=1, random_state=0).partition.n_clusters_ > 1
    assert bias_groups(*table, setting=1, n_clusters=1, random_state=0).partition.n_clusters_ == 1
    assert {d.setting_1_cells for d in data_of("paper", "acs")} == {None}
    assert {d.setting_1_cells for d in data_of("authors_code", "acs")} == {1}


@line("resampling")
def test_resampling_is_with_replacement_or_cuts_short_cells(table):
    with_it, without = (
        bias_groups(*table, setting=2, replace=replace, random_state=0) for replace in (True, False)
    )
    assert len(np.unique(with_it.example_ids)) < len(with_it.example_ids)
    assert len(np.unique(without.example_ids)) == len(without.example_ids)
    assert len(without.y) < len(with_it.y)


@line("small groups")
def test_groups_stay_as_they_are_however_small(table):
    assert set(bias_groups(*table, setting=2, random_state=0).groups) == {"big", "large", "tiny"}


@line("reviews")
def test_three_star_reviews_are_negative_or_dropped(tmp_path):
    stars = {"embedding": np.eye(4), "category": np.array(list("xxyy")), "stars": np.array([5, 3, 1, 4])}
    np.savez(tmp_path / "reviews.npz", **stars)
    assert load_reviews(tmp_path / "reviews.npz", rating="stars").y.tolist() == [1, 0, 0, 1]
    dropped = load_reviews(tmp_path / "reviews.npz", rating="stars", drop_three_stars=True)
    assert dropped.y.tolist() == [1, 0, 1]


@line("True Clustering")
def test_true_clusters_are_those_that_rows_are_likeliest_in():
    sample = make_grouped_mixture(n_features=2, n_clusters=4, n_groups=4, random_state=0)
    told = sample.partition.predict(sample.X)
    assert 0 < np.mean(told != sample.cluster) < 0.02


@line("Platt's line")
def test_calibration_is_platts_as_scikit_learn_has_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < expit(2 * X[:, 0])).astype(int)
    forest = small_forest().fit(X[:100], y[:100])
    slope, intercept = platt_line(forest.predict_proba(X)[:, 1], y, np.ones(300))
    ours = expit(slope * forest.predict_proba(X)[:, 1] + intercept)
    theirs = CalibratedClassifierCV(FrozenEstimator(forest), method="sigmoid", ensemble=False)
    theirs.fit(X, y)
    # It stops sooner than ours.
    np.testing.assert_allclose(ours, theirs.predict_proba(X)[:, 1], atol=1e-4)


@line("labelled share")
def test_the_labelled_share_is_counted_or_the_mean_posterior(rows):
    y = rows[1]
    counted, posterior = (
        published(rows, partition=1, labeled_prior=kind).labeled_prior_[0] for kind in ("share", "posterior")
    )
    assert counted == pytest.approx(y[y >= 0].mean(), abs=1e-12)
    assert 1e-3 < abs(posterior - counted) < 0.1


class Noting(LogisticRegression):
    """Notes the classes of the rows that it is trained on."""

    counts: ClassVar[list] = []

    def fit(self, X, y):
        Noting.counts.append(np.bincount(y, minlength=2).tolist())
        return super().fit(X, y)


@line("held-out rows or training rows without one of the classes")
def test_both_classes_are_held_out_and_trained_on():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), np.where(np.arange(300) < 150, np.arange(300) < 3, -1)
    Noting.counts = []
    for seed in range(10):
        METHODS["global"](Noting(), random_state=seed, n_jobs=1).fit(X, y, groups=np.arange(300) % 3)
    positives = {positive for _, positive in Noting.counts}
    # Three positives: one or two are trained on, never all or none.
    assert positives <= {1, 2}


class Sides:
    def predict(self, X):
        return (X[:, 0] > 0).astype(int)


def with_and_without_correction(rows, new, new_groups):
    """Probabilities of the method and of Cluster Global."""
    X, y, groups = rows
    models = [METHODS[name](small_forest(), partition=Sides(), random_state=0) for name in PAIR]
    return [probability(m.fit(X, y, groups=groups), new, new_groups) for m in models]


@line("an empty cell, a group without unlabeled rows")
@pytest.mark.filterwarnings("ignore:.*no unlabelled rows.*:UserWarning")
def test_cells_and_groups_without_unlabelled_rows_are_left_uncorrected(rows):
    X, y, groups = rows
    first = np.unique(groups)[0]
    keep = (y >= 0) | (groups != first) | (X[:, 0] <= 0)
    X, groups = X[keep], groups[keep]
    is_empty = (groups == first) & (X[:, 0] > 0)
    corrected, plain = with_and_without_correction((X, y[keep], groups), X, groups)
    np.testing.assert_array_equal(corrected[is_empty], plain[is_empty])
    assert not np.allclose(corrected[~is_empty], plain[~is_empty])
    corrected, plain = with_and_without_correction((X, y[keep], groups), X, np.full(len(X), "another"))
    np.testing.assert_array_equal(corrected, plain)


@line("a cluster without rows to train on, or of one class")
def test_a_cluster_of_one_class_and_one_without_labels_are_left_uncorrected(rows):
    X, y, groups = rows
    right = X[:, 0] > 0
    answers = []
    for labels in (np.where(right & (y == 1), 0, y), np.where(right, -1, y)):
        corrected, plain = with_and_without_correction((X, labels, groups), X, groups)
        np.testing.assert_array_equal(corrected[right], plain[right])
        assert not np.allclose(corrected[~right], plain[~right])
        answers.append(np.unique(plain[right]))
    one_class, without_labels = answers
    # Platt's line of rows of one class is a constant; where there are none, the forest and the line of all rows answer.
    assert len(one_class) == 1
    assert 0 < one_class[0] < 0.05
    assert len(without_labels) > 1


def test_a_cluster_without_labels_has_the_classifier_of_all_rows_however_it_is_calibrated(rows):
    X, y, groups = rows
    right = X[:, 0] > 0
    model = GroupShiftClassifier(small_forest(), Sides(), per_cluster=True, random_state=0)
    p = probability(model.fit(X, np.where(right, -1, y), groups=groups), X, groups)
    assert len(np.unique(p[right])) > 1
    assert roc_auc_score(y[right & (y >= 0)], p[right & (y >= 0)]) > 0.6


def test_no_page_promises_more_than_a_test_shows():
    root = PAGE.parents[2]
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")]
    pages += [*(root / "paper").rglob("*.py"), *(root / "paper").rglob("*.md")]
    assert [page.name for page in pages if "to the letter" in page.read_text(encoding="utf-8").lower()] == []


def test_every_line_of_the_table_has_a_test():
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| point |") :].split("\n\n")[0].splitlines()[2:]
    points = [
        re.sub(r"\{math\}`\\tilde\\alpha_k`", "labelled share", row.split("|")[1].strip()) for row in table
    ]
    assert sorted(points) == sorted(TESTED)
