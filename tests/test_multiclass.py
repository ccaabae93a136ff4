"""Fits of more than two classes: what is always true, what shifts gain, and what is said where nothing can be."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from class_samples import draw_table
from groupshift import METHODS, GroupShiftClassifier, load, save, share_changes

LOGISTIC = LogisticRegression()


def fitted(X, y, groups, estimator=LOGISTIC, **options):
    fit = {
        name: options.pop(name)
        for name in ("sample_weight", "example_ids", "known_shares")
        if name in options
    }
    # One cluster is enough for most claims, and fast.
    settings = {"random_state": 0, "n_jobs": 1, "partition": 1} | options
    model = GroupShiftClassifier(estimator, **settings)
    return model.fit(X, y, groups=groups, **fit)


@pytest.fixture(scope="module")
def table():
    return draw_table()


@pytest.fixture(scope="module")
def model(table):
    X, y, groups, _ = table
    return fitted(X, y, groups, partition="validated")


@pytest.fixture(scope="module")
def numbered(table):
    """A model of examples that have numbers; no test may change it."""
    X, y, groups, _ = table
    return fitted(X, y, groups, example_ids=np.arange(len(X)))


def unlabeled(table):
    X, y, groups, truth = table
    own = np.array([label is None for label in y])
    return X[own], groups[own], truth[own]


def losses(table, *models):
    X, groups, truth = unlabeled(table)
    return [log_loss(truth, m.predict_proba(X, groups), labels=m.classes_) for m in models]


def test_probabilities_have_a_column_for_each_class_and_shifts_gain(table, model):
    X, groups, truth = unlabeled(table)
    p = model.predict_proba(X, groups)
    assert p.shape == (len(X), 4)
    np.testing.assert_allclose(p.sum(1), 1)
    plain = fitted(*table[:3], shares=None)
    assert losses(table, model)[0] < losses(table, plain)[0] - 0.02
    assert np.mean(model.predict(X, groups) == truth) > np.mean(plain.predict(X, groups) == truth)
    assert model.score(X, truth, groups=groups) == np.mean(model.predict(X, groups) == truth)


@pytest.mark.parametrize(
    "estimator", [LOGISTIC, HistGradientBoostingClassifier(max_iter=10)], ids=["logistic", "boosting"]
)
def test_renamed_and_reordered_classes_have_the_same_answer(table, estimator):
    X, y, groups, _ = table
    other = {"class a": "z", "class b": "m", "class c": "a", "class d": "q", None: None}
    renamed = np.array([other[label] for label in y], object)
    one, two = (fitted(X, labels, groups, estimator) for labels in (y, renamed))
    order = [two.classes_.tolist().index(other[name]) for name in one.classes_.tolist()]
    np.testing.assert_allclose(
        two.predict_proba(X, groups)[:, order], one.predict_proba(X, groups), atol=1e-9
    )
    np.testing.assert_allclose(two.group_prior_[..., order], one.group_prior_, atol=1e-9)


def test_order_of_rows_and_names_of_groups_do_not_matter(table, numbered):
    X, y, groups, _ = table
    ids = np.arange(len(X))
    mixed = np.random.default_rng(0).permutation(len(X))
    names = np.array([f"x{99 - int(g[1:])}" for g in groups], object)
    two = fitted(X[mixed], y[mixed], names[mixed], example_ids=ids[mixed])
    # The classifier sums over rows in another order, and stops at a tolerance.
    np.testing.assert_allclose(two.predict_proba(X, names), numbered.predict_proba(X, groups), atol=1e-4)


def test_without_shift_it_is_the_plain_classifier():
    for seed in (1, 2):
        table = draw_table(seed=seed, shifted=False, apart=1.0)
        model, plain = fitted(*table[:3]), fitted(*table[:3], shares=None)
        with_shifts, without = losses(table, model, plain)
        assert with_shifts <= without + 5e-4


def test_shares_have_a_line_for_each_group_and_class_and_agree_with_predictions(table, model):
    shares = model.group_shares(by="group")
    limits = ["share", "low", "high", "narrow_low", "narrow_high"]
    assert list(shares) == ["group", "class", "rows", *limits, "labeled_share"]
    assert len(shares["share"]) == 12 * 4
    by_group = shares["share"].reshape(12, 4)
    np.testing.assert_allclose(by_group.sum(1), 1, atol=1e-9)
    X, groups, truth = unlabeled(table)
    p = model.predict_proba(X, groups)
    means = np.array([p[groups == g].mean(0) for g in model.groups_])
    # Rows were summed as points.
    np.testing.assert_allclose(by_group, means, atol=2e-3)
    real = np.array([[np.mean(truth[groups == g] == c) for c in model.classes_] for g in model.groups_])
    plain = fitted(*table[:3], shares=None).group_shares(by="group")["share"].reshape(12, 4)
    assert np.abs(by_group - real).mean() < 0.65 * np.abs(plain - real).mean()
    assert (shares["low"] <= shares["share"]).all()
    assert (shares["share"] <= shares["high"]).all()
    assert list(model.group_shares()) == ["group", "cluster", "class", "rows", *limits]


def test_intervals_hold_the_shares_at_their_rate():
    held = []
    for seed in range(3):
        table = draw_table(n_groups=25, labeled=80, unlabeled=400, seed=seed, apart=1.0)
        model = fitted(*table[:3])
        _, groups, truth = unlabeled(table)
        real = np.array([[np.mean(truth[groups == g] == c) for c in model.classes_] for g in model.groups_])
        shares = model.group_shares(by="group")
        held += [(shares["low"] <= real.ravel()) & (real.ravel() <= shares["high"])]
    assert 0.87 <= np.mean(held) <= 0.95


def test_details_hold_the_probability_and_unseen_groups_are_said_to_lean_on_others(table, model):
    X, _, _ = unlabeled(table)
    with pytest.warns(UserWarning, match="nowhere"):
        found = model.predict_details(X[:5], np.array(["nowhere"] * 5, object))
    assert found["probability"].shape == (5, 4)
    assert (found["low"] <= found["probability"]).all()
    assert (found["probability"] <= found["high"]).all()
    assert found["pooled"].all()


def test_an_update_with_the_rows_of_fit_changes_nothing(table):
    X, y, groups, _ = table
    model = fitted(X, y, groups, partition=2, shrinkage="none")
    before = model.predict_proba(X, groups)
    own = np.array([label is None for label in y])
    model.update(X[own], groups[own])
    np.testing.assert_allclose(model.predict_proba(X, groups), before, atol=1e-12)


def test_a_saved_model_answers_as_before(table, model, tmp_path):
    pytest.importorskip("skops")
    X, _, groups, _ = table
    boosted = fitted(*table[:3], HistGradientBoostingClassifier(max_iter=5))
    for number, one in enumerate((model, boosted)):
        save(one, tmp_path / f"{number}.gshift")
        again = load(tmp_path / f"{number}.gshift")
        assert np.array_equal(again.predict_proba(X, groups), one.predict_proba(X, groups))
        assert again.summary() == one.summary()
        own = np.array([label is None for label in table[1]])
        again.update(X[own], groups[own])


def test_weights_count_as_rows(table):
    X, y, groups, _ = table
    weight = np.ones(len(X))
    weight[::3] = 2
    ids = np.arange(len(X))
    one = fitted(X, y, groups, sample_weight=weight, example_ids=ids)
    same = fitted(X, y, groups, sample_weight=10 * weight, example_ids=ids)
    np.testing.assert_allclose(one.predict_proba(X, groups), same.predict_proba(X, groups), atol=1e-6)


def test_copies_of_examples_do_not_make_anything_surer(table, numbered):
    X, y, groups, _ = table
    twice = np.repeat(np.arange(len(X)), 2)
    copied = fitted(X[twice], y[twice], groups[twice], example_ids=twice)
    np.testing.assert_allclose(copied.share_error_, numbered.share_error_, rtol=0.15, atol=2e-3)


def test_known_shares_are_kept(table):
    X, y, groups, _ = table
    all_of_them = {"class a": 0.4, "class b": 0.3, "class c": 0.2, "class d": 0.1}
    known = {"g00": all_of_them, "g01": {"class b": 0.7}, "g02": {"class b": (0.7, 0.99)}}
    plain, model = (fitted(X, y, groups, partition=2, known_shares=shares) for shares in (None, known))
    shares = model.group_shares(by="group")["share"].reshape(-1, 4)
    np.testing.assert_allclose(shares[0], [0.4, 0.3, 0.2, 0.1], atol=1e-4)
    assert abs(shares[1, 1] - 0.7) < 1e-4
    np.testing.assert_allclose(model.group_prior_[2], plain.group_prior_[2], atol=1e-2)
    np.testing.assert_allclose(model.group_prior_[3], plain.group_prior_[3], atol=1e-12)


def test_who_says_how_labels_were_selected_is_believed(table):
    X, y, groups, _ = table
    told = {how: fitted(X, y, groups, selection=how).random_labels_ for how in ("random", "by_label")}
    assert told == {"random": pytest.approx(1), "by_label": pytest.approx(0)}


METHOD_NAMES = [
    "global",
    "group_aware_global",
    "cluster_global",
    "label_shift",
    "coral",
    "published",
    "groupshift",
]


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_every_method_takes_several_classes(table, name):
    X, y, groups, truth = table
    options = {"partition": 1} if name == "groupshift" else {}
    options |= {"partition": 2} if name in ("cluster_global", "published") else {}
    model = METHODS[name](LogisticRegression(), random_state=0, n_jobs=1, **options).fit(X, y, groups=groups)
    p = model.predict_proba(X, groups)
    assert p.shape == (len(X), 4)
    assert np.mean(model.predict(X, groups) == truth) > 0.6


def test_the_true_clustering_takes_several_classes(table):
    X, y, groups, _ = table

    class Halves:
        n_clusters = 2

        def predict(self, X):
            return (np.asarray(X)[:, 0] > 0).astype(int)

    model = METHODS["true_clustering"](LogisticRegression(), partition=Halves(), random_state=0)
    assert model.fit(X, y, groups=groups).predict_proba(X, groups).shape == (len(X), 4)


def test_without_groups_or_unlabelled_rows_it_says_so(table):
    X, y, groups, _ = table
    with pytest.warns(UserWarning, match="No groups"):
        model = GroupShiftClassifier(LOGISTIC, random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 4)
    own = np.array([label is not None for label in y])
    with pytest.warns(UserWarning, match="No unlabelled rows"):
        model = fitted(X[own], y[own], groups[own])
    assert model.predict_proba(X, groups).shape == (len(X), 4)


def test_copies_in_other_groups_make_no_group_less_sure(table):
    X, y, groups, _ = table
    labeled = np.array([label is not None for label in y])
    # The same examples in every group: within each of them no row is a copy.
    place = np.array([np.flatnonzero(groups[:i] == g).size for i, g in enumerate(groups)])
    model = fitted(X, y, groups, example_ids=np.where(labeled, 10_000 + place, place))
    assert model.learned_.design_effect == 1.0


def test_the_overall_share_and_differences_are_told_of_a_class(table, model):
    overall, groups = model.group_shares(by="overall"), model.group_shares(by="group")
    found = model.overall_share(of_class="class b")
    assert found == tuple(overall[name][1] for name in ("share", "low", "high"))
    shares = groups["share"].reshape(12, 4)
    apart = model.share_difference("g01", "g00", of_class="class b")
    assert apart.difference == pytest.approx(shares[1, 1] - shares[0, 1])
    assert apart.low < apart.difference < apart.high
    back = model.share_difference("g00", "g01", of_class="class b")
    np.testing.assert_allclose([back.low, back.high], [-apart.high, -apart.low])


def test_changes_of_shares_have_a_line_for_each_group_and_class(table, model):
    X, groups, _ = unlabeled(table)
    again = copy.deepcopy(model).update(X[groups != "g00"], groups[groups != "g00"])
    found = share_changes(model, again)
    assert list(found) == ["group", "class", "before", "after", "change", "low", "high"]
    assert len(found["change"]) == 12 * 4
    assert np.isnan(found["change"][:4]).all()
    assert np.all(
        (found["low"] < found["change"]) & (found["change"] < found["high"]), where=found["group"] != "g00"
    )
    overall = share_changes(model, model, by="overall")
    assert overall["class"].tolist() == model.classes_.tolist()
    assert not overall["change"].any()


def test_an_explanation_is_the_plain_answer_and_what_the_group_adds(table, model):
    X, groups, _ = unlabeled(table)
    found = model.explain(X, groups)
    moved = found["plain_probability"] * np.exp(found["shift"])
    np.testing.assert_allclose(moved / moved.sum(1, keepdims=True), found["probability"], atol=1e-9)
    np.testing.assert_allclose(found["probability"], model.predict_proba(X, groups), atol=1e-12)


@pytest.mark.parametrize("gain", [-4e-5, 4e-5])
def test_losses_that_look_equal_are_neither_harm_nor_gain(model, monkeypatch, gain):
    held_out = model.evidence_.held_out
    total = held_out.total | {"loss_global": 0.6999, "loss_model": 0.6999 - gain, "loss_gain": gain}
    evidence = replace(model.evidence_, held_out=replace(held_out, total=total | {"loss_gain_error": 1e-6}))
    monkeypatch.setattr(model, "evidence_", evidence)
    found = model.diagnose()
    assert found.worth == "perhaps"
    assert "no measurable difference on held-out groups (0.6999 both)" in found.verdict


@pytest.mark.parametrize("partition", [1, "validated"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_model_that_was_asked_for_no_shares_says_so_and_blames_no_labels(table, partition, n_classes):
    X, y, groups, _ = table
    names = sorted({label for label in y if label is not None})
    labels = np.array(
        [None if label is None else min(names.index(label), n_classes - 1) for label in y], object
    )
    found = fitted(X, labels, groups, partition=partition, shares=None)
    said = found.diagnose()
    assert said.worth == "no"
    assert said.verdict.startswith("No correction made: shares were not asked for (shares=None)")
    everything = " ".join([*said.sentences, *found.notes_])
    assert "confirm" not in everything
    assert "No labels can be hidden" not in everything


def test_every_diagnosis_says_what_other_labelling_would_make_of_the_shares(model):
    found = model.diagnose()
    table = found.sensitivity
    assert list(table) == ["group", "class", "rows", "share", "if_half", "if_twice"]
    assert len(table["share"]) == 13 * 4
    assert (table["if_twice"] < table["share"]).all()
    assert (table["share"] < table["if_half"]).all()
    # Rows whose class is certain do not move: a share moves by less than its odds.
    odds = {name: table[name] / (1 - table[name]) for name in ("share", "if_half", "if_twice")}
    assert (odds["if_half"] <= 2 * odds["share"] + 0.02).all()
    assert (odds["if_twice"] >= odds["share"] / 2 - 0.02).all()
    assert "twice as likely to be labeled" in " ".join(found.caution)
