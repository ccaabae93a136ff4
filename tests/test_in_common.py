"""A shift that all groups have in common: found where features agree on it, and told in the same words in every place."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import render_report
from groupshift._shifts.common import Directions, learn_common_shift
from report_pages import Page

N_FEATURES = 8

# Of what settles it, or does not, one sentence each: where one stands, none of the others may.
STATEMENTS = {
    "open": "over-represented by the same factor in every group, labeled data cannot reveal it",
    "features": "The features agree",
    "random": "You said that labels are a random sample",
    "by_label": "You said that labels were chosen by the label",
    "rate": "The known rate of the population, 40.0 %, settles what all groups have in common",
    "audit": "The labels settle what all groups have in common",
}
IF_SELECTED = "twice as likely to be labeled"


def drawn(choose, seed=0, n_rows=20_000, n_groups=25):
    """Features, truth, group and who is labelled: by `choose`, a function of features and truth that gives log-odds."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n_rows)
    y = (rng.random(n_rows) < expit(rng.normal(-0.4, 0.3, n_groups))[group]).astype(int)
    X = rng.normal(size=(n_rows, N_FEATURES)) + rng.normal(0, 0.5, N_FEATURES) * y[:, None]
    labeled = rng.random(n_rows) < expit(choose(X, y) - 1.5)
    return X, y, group, labeled


def at_random(X, y):
    return np.zeros(len(y))


def by_label(X, y):
    return 1.0 * y


def by_features(X, y):
    return X @ np.random.default_rng(7).normal(0, 0.4, X.shape[1])


def learned(X, y, group, labeled, *, n_parts=25, cut=None, is_certain=False):
    """The common shift; `cut` splits the population's rows into two chunks."""
    score = LogisticRegression().fit(X[labeled], y[labeled]).decision_function(X)
    features, one = np.column_stack([X, score]), np.ones(len(y))
    directions = Directions.of(features[labeled], y[labeled], group[labeled], one[labeled], n_parts, 2)
    chunks = np.split(np.flatnonzero(~labeled), [] if cut is None else [cut])
    sums = [directions.sums(features[c], group[c], one[c], n_parts) for c in chunks]
    total = sums[0] if cut is None else sums[0] + sums[1]
    return learn_common_shift(directions, total, np.arange(n_parts), is_certain=is_certain)


def true_shift(y, labeled):
    return logit(y[~labeled].mean()) - logit(y[labeled].mean())


@pytest.mark.parametrize("choose", [at_random, by_label, by_features])
def test_chunks_names_of_groups_and_units_of_features_do_not_matter(choose):
    X, y, group, labeled = drawn(choose)
    found = learned(X, y, group, labeled)
    renamed = np.random.default_rng(1).permutation(25)[group]
    for other in (
        learned(X, y, group, labeled, cut=1_234),
        learned(X, y, renamed, labeled),
        learned(3 * X + 5.0, y, group, labeled),
        learned(X[:, ::-1], y, group, labeled),
    ):
        # The regression that makes the scores stops at its own tolerance.
        assert other.probability == pytest.approx(found.probability, abs=1e-3)
        np.testing.assert_allclose(other.mean, found.mean, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_choice_by_the_label_is_believed_and_found(seed):
    X, y, group, labeled = drawn(by_label, seed)
    found = learned(X, y, group, labeled)
    assert found.probability > 0.5
    error = np.sqrt(found.covariance[0, 0])
    assert abs(found.mean[0] - true_shift(y, labeled)) < 3 * error
    assert error < 0.4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("choose", [at_random, by_features])
def test_no_other_choice_is(choose, seed):
    found = learned(*drawn(choose, seed))
    assert found.probability < 0.5
    assert abs(found.mean[0]) < 0.3


def test_a_single_feature_cannot_tell_the_two_apart():
    X, y, group, labeled = drawn(by_label)
    assert learned(X[:, :1], y, group, labeled).probability < 0.5


def test_who_says_that_labels_were_chosen_by_the_label_is_believed():
    X, y, group, labeled = drawn(by_features)
    assert learned(X, y, group, labeled, is_certain=True).probability == pytest.approx(1)


def test_where_no_group_has_rows_of_both_samples_there_is_no_common_shift():
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(12), 1_000)
    X = rng.normal(size=(len(group), N_FEATURES)) + rng.normal(0, 0.4, (12, N_FEATURES))[group]
    y = (rng.random(len(group)) < expit(X.sum(1) / 2)).astype(int)
    found = learned(X, y, group, group < 6, n_parts=12)
    assert found.probability == 0
    assert not found.mean.any()


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("far", [1e12, 1e200])
def test_a_row_far_out_hides_nothing(far):
    X, y, group, labeled = drawn(by_label, n_rows=4_000)
    before = learned(X, y, group, labeled)
    X[np.flatnonzero(~labeled)[0], 0] = far
    found = learned(X, y, group, labeled)
    assert np.isfinite([*found.mean, *found.covariance.ravel()]).all()
    assert found.mean == pytest.approx(before.mean, abs=0.1)


def fitted(choose, selection="unknown", **known):
    X, y, group, labeled = drawn(choose, n_rows=6_000)
    model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0, selection=selection)
    return model.fit(X, np.where(labeled, y, -1), groups=group, **known)


@pytest.fixture(scope="module")
def models():
    """A model for each of the statements."""
    found = {
        "open": fitted(at_random),
        "features": fitted(by_label),
        "random": fitted(at_random, "random"),
        "by_label": fitted(at_random, "by_label"),
        "rate": fitted(by_label, known_overall=0.4),
    }
    X, y, group, labeled = drawn(at_random, n_rows=6_000)
    rest = np.flatnonzero(~labeled)
    audited = copy(found["open"])
    plan = audited.audit(X[rest], group[rest], budget=20)
    return found | {"audit": audited.learn_audit(plan.labeled(y[rest][plan.rows]))}


def test_an_update_asks_the_features_of_the_new_rows(models):
    X, _, group, labeled = drawn(by_label, n_rows=6_000)
    model = copy(models["features"])
    before = model.common_shift_
    # New rows like the labelled ones: nothing to shift.
    assert model.update(X[labeled], group[labeled]).common_shift_.probability < 0.5
    again = model.update(X[~labeled], group[~labeled]).common_shift_
    assert again.probability == pytest.approx(before.probability)
    np.testing.assert_allclose(again.mean, before.mean)


def places(model):
    """Everything that is said of a model, by where it is said."""
    pytest.importorskip("jinja2", reason="the report needs the extra report")
    found = {"diagnosis": " ".join(model.diagnose().sentences), "report": Page(render_report(model)).text}
    tasks = pytest.importorskip("groupshift.serve.tasks", reason="the page needs the extra serve")
    names = tasks.Names("y", "group", "1")
    return found | {"page": str(tasks.answers(model, None, names))}


@pytest.mark.parametrize("code", STATEMENTS)
def test_every_place_says_the_same_of_the_common_shift(models, code):
    for place, said in places(models[code]).items():
        said = " ".join(said.split()).replace("\u202f", " ").replace("\u00a0", " ")
        expected = {code} if place != "page" or code not in ("rate", "audit") else set()
        assert {other for other, words in STATEMENTS.items() if words in said} >= expected, place
        assert {other for other, words in STATEMENTS.items() if words in said} <= {code}, place
        assert (IF_SELECTED in said) == (code not in ("rate", "audit")), place


def with_common(model, mean, face_value=0.0):
    """A copy of a model whose common shift, and what scores say beside it, are others."""
    other = copy(model)
    common = replace(model.common_shift_, mean=np.array([mean]))
    other.estimate_ = replace(model.estimate_, common=common, face_value=np.array([face_value]))
    return other


def test_the_way_is_that_of_the_shift_in_use(models):
    shift = models["features"].common_shift_.mean[0]
    assert shift < 0
    assert "over-represented among labels" in " ".join(models["features"].diagnose().caution)
    turned = with_common(models["features"], -shift)
    assert "under-represented among labels" in " ".join(turned.diagnose().caution)


def test_the_part_that_is_used_is_said_where_scores_say_more(models):
    for used, part in ((0.0, "none"), (0.5, "50 %")):
        said = " ".join(with_common(models["open"], used, 1.0 - used).diagnose().caution)
        assert f"would look the same, so {part} of this shift is used" in said.replace("\u202f", " ")
