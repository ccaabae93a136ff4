"""The invented survey: readable, biased, and solvable with the groups' shares."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from groupshift.datasets import make_survey
from groupshift.datasets.bias import KMeansPartition
from groupshift.datasets.survey import ANSWERS, LEVELS, REGIONS


@pytest.fixture(scope="module")
def survey():
    return make_survey(random_state=0)


def test_every_answer_has_a_distribution_for_each_region_and_class():
    for name, p in ANSWERS.items():
        assert p.shape == (len(REGIONS), 2, len(LEVELS[name]))
        np.testing.assert_allclose(p.sum(axis=-1), 1)


def test_same_seed_gives_the_same_survey():
    one, two = (make_survey(n_groups=3, random_state=4) for _ in range(2))
    for name in one.X:
        np.testing.assert_array_equal(one.X[name], two.X[name])


def test_sizes_are_as_asked(survey):
    assert len(survey) == 50 * 1200
    assert survey.labeled.sum() == 50 * 200
    assert len(survey.group_names) == 50


def test_posterior_is_calibrated(survey):
    tenth = np.digitize(survey.posterior, np.linspace(0.1, 0.9, 9))
    for t in range(10):
        residual = (survey.truth - survey.posterior)[tenth == t]
        assert abs(residual.mean()) < 4 * np.sqrt(0.25 / len(residual))  # four standard errors


def test_regions_are_told_apart_by_their_answers(survey):
    assert np.mean(survey.partition.predict(survey.X) == survey.cluster) > 0.99


def test_answers_given_region_and_opinion_do_not_depend_on_the_state(survey):
    # PCC-invariance: in a cell the mean age of a state differs from that of all by sampling error only.
    cell = (survey.cluster == 1) & (survey.truth == 1)
    age = survey.X["age"]
    z = [
        (age[cell & (survey.groups == g)].mean() - age[cell].mean())
        / (age[cell].std() / np.sqrt(np.sum(cell & (survey.groups == g))))
        for g in survey.group_names
    ]
    assert np.std(z) < 1.4  # one, with 50 states


def test_labelled_sample_is_biased_and_shares_repair_a_plain_classifier(survey):
    assert survey.truth[survey.labeled].mean() > survey.truth[~survey.labeled].mean() + 0.1
    encoder = KMeansPartition(1, random_state=0).fit(survey.X)
    Z = encoder.standardised(survey.X)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(
        Z[survey.labeled], survey.y[survey.labeled]
    )
    plain = model.predict_proba(Z[survey.test])[:, 1]
    group = np.searchsorted(survey.group_names, survey.groups[survey.test])
    cluster = survey.cluster[survey.test]
    prior = np.array([survey.y[survey.labeled & (survey.cluster == k)].mean() for k in range(3)])
    moved = expit(logit(plain) + logit(survey.shares[group, cluster]) - logit(prior[cluster]))
    truth = survey.truth[survey.test]
    auc = {name: roc_auc_score(truth, p) for name, p in {"plain": plain, "moved": moved}.items()}
    assert auc["moved"] > auc["plain"] + 0.03
    assert auc["moved"] <= roc_auc_score(truth, survey.posterior[survey.test])


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_has_nulls_where_answers_and_labels_are_missing(backend):
    pytest.importorskip(backend)
    import narwhals as nw

    sample = make_survey(n_groups=2, backend=backend, missing=0.2, random_state=0)
    table = nw.from_native(sample.to_table(group="state", label="in_favour"), eager_only=True)
    assert table["in_favour"].null_count() == np.sum(~sample.labeled)
    assert 0.15 < table["education"].null_count() / len(table) < 0.25
    assert 0.15 < table["income_band"].null_count() / len(table) < 0.25
    plain = make_survey(n_groups=2, missing=0.2, random_state=0)
    np.testing.assert_array_equal(sample.partition.predict(sample.X), plain.partition.predict(plain.X))


def test_without_a_frame_library_the_table_is_a_dict():
    table = make_survey(n_groups=1, random_state=0).to_table(group="state", label="in_favour")
    assert list(table) == ["state", *LEVELS, "in_favour"]


def test_more_groups_than_states_get_names():
    assert (
        make_survey(n_groups=52, labeled_per_group=2, unlabeled_per_group=2, random_state=0).group_names[-1]
        == "State 52"
    )
