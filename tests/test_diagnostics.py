"""Answers to what every user asks: is it worth it, does the assumption hold, where not to trust it."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import kstest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import groupshift
from groupshift import DegradedWarning, GroupShiftClassifier, verdict
from groupshift.assumption import Strata, comparable, group_effects, mixture_distance, score_distributions
from groupshift.caution import caution_sentences
from groupshift.diagnostics import TABLES, diagnose
from groupshift.expected_gain import coarser, grouped_auc_gain
from groupshift.points import collect_points


def draw(rng, *, n_groups=40, labeled=150, unlabeled=300, share=(0.1, 0.9), spread=0.0, distance=2.0):
    """Groups with their own shares of two Gaussian classes; `spread` moves both classes of a group."""
    parts = []
    for g in range(n_groups):
        step = rng.normal(0, spread)
        for n, known in ((labeled, True), (unlabeled, False)):
            y = (rng.random(n) < rng.uniform(*share)).astype(int)
            X = rng.normal(0, 1, (n, 2)) + np.c_[distance * y + step, np.zeros(n)]
            parts.append((X, y, np.full(n, f"g{g:02d}"), np.full(n, known)))
    X, truth, groups, known = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, np.where(known, truth, -1), groups, truth


def fitted(data, *, estimator=None, **settings):
    X, y, groups, _ = data
    estimator = GaussianNB() if estimator is None else estimator
    model = GroupShiftClassifier(estimator, random_state=0, **{"partition": 1, "refine": 0, **settings})
    return model.fit(X, y, groups=groups)


@pytest.fixture(scope="module")
def shifted():
    data = draw(np.random.default_rng(0))
    return data, fitted(data)


# The assumption


def test_effects_vanish_where_the_assumption_holds_and_the_sentences_say_so(shifted):
    found = shifted[1].diagnose()
    assert found.holds == "yes"
    # Standard errors are about 0.002 here: 0.01, Cohen's small effect, is five of them.
    assert abs(found.overview["score_effect"]) < 0.01
    assert abs(found.overview["feature_effect"]) < 0.01
    assert found.assumption[0].startswith("The assumption holds as far as labelled rows can tell")


def test_effects_are_large_where_classes_differ_by_group_and_the_sentences_say_so():
    found = fitted(draw(np.random.default_rng(1), spread=1.0)).diagnose()
    assert found.holds == "no"
    # Steps of variance 1 beside a variance of 1 inside groups: the group explains half of it.
    assert 0.3 < found.overview["score_effect"] < 0.65
    assert found.features["feature"][0] == "x0"
    assert found.features["effect"][0] > 0.3 > 0.05 > abs(found.features["effect"][1])
    assert found.assumption[0].startswith("The assumption does not hold")
    assert "x0" in found.assumption[1]


def test_a_population_unlike_the_labelled_rows_is_seen_by_the_mixture_fit():
    X, y, groups, truth = draw(np.random.default_rng(2), n_groups=20)
    moved = X.copy()
    # Both classes of the unlabelled rows spread out: no share of labelled classes makes such scores.
    moved[y < 0] = 3 * X[y < 0] - 3
    alike, unlike = (fitted((Z, y, groups, truth)).diagnose() for Z in (X, moved))
    assert alike.holds == "yes"
    assert unlike.holds == "no"
    assert unlike.overview["mixture_gap"] > 3 * unlike.overview["mixture_gap_by_chance"]
    assert "mixture does not fit" in set(unlike.cautions["kind"])


def test_effects_are_unbiased_and_p_values_uniform_without_any_effect():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(300):
        group = rng.integers(0, 12, 150)
        weight = rng.choice([1.0, 2.0], 150)
        strata = Strata.of(np.zeros(150, int), group, weight, np.arange(150), n_strata=1, n_groups=12)
        result = group_effects(comparable(rng.standard_cauchy(150), False), strata)
        found.append((result.effect[0], result.std_error[0], result.p_value[0]))
    effect, error, p = np.array(found).T
    assert abs(effect.mean()) < 3 * effect.std() / np.sqrt(300)
    assert error.mean() == pytest.approx(effect.std(), rel=0.2)
    assert kstest(p, "uniform").pvalue > 0.001


def test_effect_is_the_share_of_variance_between_groups():
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(400), 30)
    x = rng.normal(0, 1, 400)[group] + rng.normal(0, 2, len(group))
    strata = Strata.of(
        np.zeros(len(x), int), group, np.ones(len(x)), np.arange(len(x)), n_strata=1, n_groups=400
    )
    # 1 / (1 + 4); its standard error over 400 groups is about 0.013.
    assert group_effects(x[:, None], strata).effect[0] == pytest.approx(0.2, abs=0.04)


def test_effect_of_a_category_is_that_of_its_levels():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 5, 2000)
    same, own = rng.integers(0, 4, 2000).astype(float), (group % 4).astype(float)
    strata = Strata.of(np.zeros(2000, int), group, np.ones(2000), np.arange(2000), n_strata=1, n_groups=5)
    assert abs(group_effects(comparable(same, True), strata).effect[0]) < 0.005
    assert group_effects(comparable(own, True), strata).effect[0] == pytest.approx(1, abs=1e-6)


def test_copies_of_examples_do_not_make_an_effect():
    rng = np.random.default_rng(6)
    x, group = rng.normal(size=200), rng.integers(0, 20, 200)
    once, thrice = (
        group_effects(
            np.tile(x, n)[:, None],
            Strata.of(
                np.zeros(200 * n, int),
                np.tile(group, n),
                np.ones(200 * n),
                np.tile(np.arange(200), n),
                n_strata=1,
                n_groups=20,
            ),
        )
        for n in (1, 3)
    )
    assert thrice.effect == pytest.approx(once.effect)
    assert thrice.p_value == pytest.approx(once.p_value)


def test_strata_with_too_few_rows_are_not_judged():
    strata = Strata.of(np.zeros(6, int), np.arange(6), np.ones(6), np.arange(6), n_strata=2, n_groups=6)
    assert np.isnan(group_effects(np.arange(6.0)[:, None], strata).effect).all()


def test_distance_from_the_mixture_is_zero_for_the_mixture_itself_and_kolmogorovs_otherwise():
    rng = np.random.default_rng(7)
    score, y = np.r_[rng.normal(1, 1, 500), rng.normal(-1, 1, 500)], np.repeat([1, 0], 500)
    nobody = np.zeros(1000, int)
    known = score_distributions(score, y, np.ones(1000), nobody, 1)
    # The labelled rows themselves, positives weighted to a share of 0.8 and all to one cell.
    points = collect_points(score, nobody, n_cells=1, weight=np.where(y == 1, 0.8, 0.2))
    assert mixture_distance(points, np.array([0.8]), known["grid"], known["below"])[0] < 1e-9
    positives = collect_points(score[:500], nobody[:500], n_cells=1)
    gap = np.abs(known["below"][0, 1] - known["below"][0, 0]).max()
    assert mixture_distance(positives, np.array([0.0]), known["grid"], known["below"])[0] == pytest.approx(
        gap
    )


# The gain


def test_shifts_between_groups_are_worth_it(shifted):
    found = shifted[1].diagnose()
    assert found.worth == "yes"
    assert found.sentences[0] == found.verdict
    assert found.verdict.startswith("Worth it")
    assert found.overview["loss_gain"] > 3 * found.overview["loss_gain_error"]


def test_without_shift_it_is_not_worth_it_and_nothing_is_lost():
    data = draw(np.random.default_rng(8), share=(0.4, 0.4))
    model = fitted(data, partition="validated")
    found = model.diagnose()
    assert found.worth == "no"
    assert found.verdict.startswith("Not worth it, and nothing lost")
    assert found.overview["loss_gain"] == 0
    assert not any("expected" in sentence for sentence in found.gain)


def test_unshrunk_shifts_from_a_few_rows_are_called_harmful():
    data = draw(
        np.random.default_rng(9), share=(0.5, 0.5), labeled=12, unlabeled=12, distance=1.0, n_groups=60
    )
    model = fitted(data, shrinkage="none", trust=1.0)
    found = model.diagnose()
    assert found.worth == "harmful"
    assert "trust='learned'" in found.verdict


def test_theorem_1_expects_the_gain_that_held_out_truth_shows(shifted):
    (X, y, groups, truth), model = shifted
    found = model.diagnose()
    rows = y < 0
    plain = expit(
        model.posterior_.score(model._read_rows(X[rows], groups[rows], None, None, reset=False)[0])[0]
    )
    before = roc_auc_score(truth[rows], plain)
    after = roc_auc_score(truth[rows], model.predict_proba(X[rows], groups=groups[rows])[:, 1])
    # 40 groups of 300 rows: AUCs of 12,000 rows have standard errors of 0.003, shares of 300 rows cost less.
    assert found.overview["expected_auc_gain"] == pytest.approx(after - before, abs=0.01)
    assert found.overview["expected_auc_without_group"] == pytest.approx(before, abs=0.02)
    low, high = found.overview["expected_auc_gain_low"], found.overview["expected_auc_gain_high"]
    assert low <= found.overview["expected_auc_gain"] <= high
    assert high - low < 0.02


def test_coarser_points_keep_weights_and_means():
    rng = np.random.default_rng(10)
    points = collect_points(rng.normal(size=500), rng.integers(0, 3, 500), n_cells=3, weight=rng.random(500))
    fewer = coarser(points)
    assert len(fewer.score) < len(points.score)
    for cell in range(3):
        assert fewer.weight[fewer.cell == cell].sum() == pytest.approx(points.weight_sum[cell])
    assert fewer.weight @ fewer.score == pytest.approx(points.weight @ points.score)


def test_error_of_the_auc_gain_agrees_with_leaving_groups_out():
    rng = np.random.default_rng(11)
    group = np.repeat(np.arange(50), 40)
    y = (rng.random(2000) < rng.uniform(0.2, 0.8, 50)[group]).astype(int)
    before = y + rng.normal(0, 1, 2000)
    after = before + rng.normal(0, 0.5, 50)[group]
    first, second, error = grouped_auc_gain(before, after, y, np.ones(2000), group, 50)
    assert first == pytest.approx(roc_auc_score(y, before))
    assert second == pytest.approx(roc_auc_score(y, after))
    without = [
        roc_auc_score(y[group != g], after[group != g]) - roc_auc_score(y[group != g], before[group != g])
        for g in range(50)
    ]
    jackknife = np.sqrt(49 / 50 * ((np.array(without) - np.mean(without)) ** 2).sum())
    assert error == pytest.approx(jackknife, rel=0.05)


def test_hidden_label_losses_are_the_judges():
    model = fitted(draw(np.random.default_rng(12), n_groups=8), partition="validated")
    overview = model.diagnose().overview
    table = model.candidates_
    assert overview["loss_global"] == pytest.approx(table["loss"][0])
    # With fewer than ten groups there is no context, so the chosen candidate's loss is the model's.
    assert overview["loss_model"] == pytest.approx(table["loss"][table["chosen"]][0])


@pytest.fixture
def seen(monkeypatch):
    """The fittings that evidence is recorded of."""
    from groupshift import classifier

    seen, record = [], classifier.record_evidence
    monkeypatch.setattr(
        classifier, "record_evidence", lambda fitting: (seen.append(fitting), record(fitting))[1]
    )
    return seen


def loss_decided_on(fitting):
    return np.average(fitting.loss, weights=fitting.labeled.weight[fitting.judged])


@pytest.mark.parametrize(
    "settings", [{}, {"partition": "validated", "refine": "auto"}, {"partition": 2, "refine": 1}]
)
def test_recorded_loss_is_the_one_that_fit_decided_on(settings, seen):
    model = fitted(draw(np.random.default_rng(20), n_groups=16, labeled=80, unlabeled=80), **settings)
    assert model.diagnose().overview["loss_model"] == pytest.approx(loss_decided_on(seen[0]))


def test_recorded_loss_counts_what_groups_have_in_context(seen):
    rng = np.random.default_rng(21)
    X, y, groups, truth = draw(rng, n_groups=30, distance=0.7)
    for group in np.unique(groups):
        own = groups == group
        # A feature that tells the group's share of positives, and nothing about its rows.
        X[own, 1] += logit(truth[own & (y >= 0)].mean())
    first = make_pipeline(ColumnTransformer([("first", "passthrough", [0])]), GaussianNB())
    model = fitted((X, y, groups, truth), estimator=first)
    assert model.context_ is not None
    assert model.diagnose().overview["loss_model"] == pytest.approx(loss_decided_on(seen[0]))


def test_losses_of_groups_average_to_the_total(shifted):
    found = shifted[1].diagnose()
    table = found.hidden_labels
    for column in ("loss_global", "loss_model"):
        assert np.average(table[column], weights=table["rows"]) == pytest.approx(found.overview[column])


def test_observed_shifts_follow_estimated_ones(shifted):
    table = shifted[1].diagnose().hidden_labels
    assert np.corrcoef(table["estimated_shift"], table["observed_shift"])[0, 1] > 0.9


# Where not to trust it


def flagged(model, kind):
    table = model.diagnose().cautions
    return set(table["group"][table["kind"] == kind])


def test_tiny_groups_are_flagged_and_no_others(shifted):
    X, y, groups, truth = shifted[0]
    keep = (y >= 0) | (groups != "g03")
    keep[np.flatnonzero((y < 0) & (groups == "g03"))[:5]] = True
    model = fitted((X[keep], y[keep], groups[keep], truth[keep]))
    assert flagged(model, "few rows in group") == {"g03"}
    assert any(
        "g03" in sentence and "fewer than 50 rows" in sentence for sentence in model.diagnose().caution
    )


def test_classes_that_look_alike_are_flagged():
    alike = fitted(draw(np.random.default_rng(13), distance=0.0, n_groups=10), trust=1.0)
    assert "classes look alike" in set(alike.diagnose().cautions["kind"])


def with_a_group_of_negatives(n_positive, **settings):
    """Groups whose shares are near a half, and "odd", of 600 rows and next to no positives."""
    rng = np.random.default_rng(14)
    X, y, groups, _ = draw(rng, share=(0.4, 0.6), n_groups=20)
    new = rng.normal(0, 1, (600, 2)) + np.c_[2.0 * (np.arange(600) < n_positive), np.zeros(600)]
    data = np.concatenate([X, new]), np.r_[y, np.full(600, -1)], np.r_[groups, np.full(600, "odd")], None
    return fitted(data, trust=1.0, **settings)


def test_shares_at_the_edge_are_flagged():
    assert flagged(with_a_group_of_negatives(0, shrinkage="none"), "share at the edge") == {"odd"}


def test_groups_beyond_the_labelled_ones_are_flagged():
    model = with_a_group_of_negatives(40)
    assert flagged(model, "scores outside the labelled range") == {"odd"}
    assert flagged(model, "shift outside the labelled range") == {"odd"}


def test_labelled_groups_without_unlabelled_rows_are_flagged(shifted):
    X, y, groups, truth = shifted[0]
    keep = (y >= 0) | (groups != "g05")
    assert flagged(fitted((X[keep], y[keep], groups[keep], truth[keep])), "no unlabelled rows") == {"g05"}


def test_a_shift_beyond_what_was_checked_is_not_laid_to_missing_labels():
    table = {"kind": ["shift outside the labelled range"], "group": ["Oslo"], "cluster": [-1], "rows": [90]}
    (sentence,) = caution_sentences({name: np.array(v) for name, v in table.items()}, 100, 1)
    assert "larger shift than any that hidden labels could check" in sentence
    assert "labelled group" not in sentence


def test_sentences_are_neither_python_nor_commands(shifted):
    X, y, groups, truth = shifted[0]
    keep = (y >= 0) | (groups != "g05")
    said = " ".join(fitted((X[keep], y[keep], groups[keep], truth[keep])).diagnose().caution)
    assert "until an update brings some" in said
    assert "as a known share" in said
    assert "update()" not in said
    assert "known_shares" not in said


def test_a_healthy_model_is_flagged_for_nothing_but_what_nobody_can_check(shifted):
    found = shifted[1].diagnose()
    assert len(found.cautions["kind"]) == 0
    assert len(found.caution) == 1
    assert "zero by construction" in found.caution[0]


def test_known_shares_are_said_to_settle_the_common_shift_of_their_groups(shifted):
    X, y, groups, _ = shifted[0]
    model = fitted(shifted[0])
    model.update(X[y < 0], groups[y < 0], known_shares={"g00": 0.5, "g01": (0.4, 0.05)})
    assert "Known shares settle it for 2 of 40 groups." in model.diagnose().caution[0]


@pytest.mark.parametrize(("n_clusters", "named"), [(1, "(Oslo,"), (3, "(Oslo in cluster 0,")])
def test_a_cell_is_named_by_its_cluster_too_where_there_are_several(n_clusters, named):
    table = {"kind": ["few rows in cell"], "group": ["Oslo"], "cluster": [0], "rows": [12]}
    (sentence,) = caution_sentences({name: np.array(v) for name, v in table.items()}, 100, n_clusters)
    assert named in sentence


def test_trust_above_all_is_said_in_words_not_in_thousands_of_percent(shifted):
    # Groups of a few rows are pooled to next to no shift, of which labels then ask for forty times as much.
    overview = {"trust": 0.9, "trust_estimate": 40.41, "trust_error": 12.0}
    (sentence,) = verdict.gain_sentences(shifted[1], overview)
    assert sentence.startswith("Labels confirm the full size of the shifts")
    assert "90 % of every shift is used" in sentence
    assert "4041" not in sentence


def test_a_group_without_a_name_is_not_taken_for_all_groups():
    X, y, groups, _ = draw(np.random.default_rng(17), n_groups=4, labeled=60, unlabeled=80)
    model = fitted((X, y, np.where(groups == "g00", "", groups), None), trust=1.0)
    table = model.diagnose().calibration
    everyone = np.array([name is None for name in table["group"]])
    nameless = table["group"] == ""
    for method in ("global", "model"):
        own = table["method"] == method
        total = table["weight"][own & everyone].sum()
        assert total == pytest.approx(table["weight"][own & ~everyone].sum())
        assert 0 < table["weight"][own & nameless].sum() < total


# Every configuration


CONFIGURATIONS = {
    "published": {
        "shrinkage": "none",
        "trust": 1.0,
        "shares": "em",
        "calibration": "holdout",
        "per_cluster": True,
    },
    "silhouette": {"partition": "silhouette"},
    "validated": {"partition": "validated"},
    "fixed trust": {"trust": 0.5},
    "no shares": {"shares": None},
    "bbse-soft": {"shares": "bbse-soft", "shrinkage": "none"},
    "bbse-hard": {"shares": "bbse-hard", "shrinkage": "none", "trust": 1.0},
    "clusters": {"partition": 3},
    "holdout": {"calibration": "holdout"},
    "refined": {"refine": 1, "partition": 2},
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
    found = answers(fitted(draw(np.random.default_rng(15), n_groups=8, labeled=60, unlabeled=80), **settings))
    assert found.overview["groups"] == 8


def test_published_shifts_are_worth_it_where_rows_are_many(shifted):
    model = fitted(shifted[0], shrinkage="none", trust=1.0, shares="em", calibration="holdout")
    assert model.diagnose().worth == "yes"


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
    model = GroupShiftClassifier(GaussianNB(), refine=0, random_state=0)
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


def test_weights_copies_and_missing_values_are_diagnosed():
    rng = np.random.default_rng(18)
    X, y, groups, _ = draw(rng, n_groups=5, labeled=60, unlabeled=60)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.choice([0.0, 1.0, 3.0], len(y))
    model = GroupShiftClassifier(partition=2, refine=0, random_state=0)
    model.fit(X, y, groups=groups, sample_weight=weight, example_ids=np.arange(len(y)) // 2)
    answers(model)


def test_models_without_evidence_or_population_points_still_answer(shifted):
    model = fitted(shifted[0])
    del model.evidence_
    assert diagnose(model).worth == "unknown"
    model.tally_ = None
    assert diagnose(model).holds == "unknown"
    assert model.summary()


def test_a_loaded_model_says_the_same(shifted, tmp_path):
    pytest.importorskip("skops")
    groupshift.save(shifted[1], tmp_path / "model.gshift")
    loaded = groupshift.load(tmp_path / "model.gshift")
    assert loaded.diagnose().sentences == shifted[1].diagnose().sentences
    assert loaded.diagnose().overview == shifted[1].diagnose().overview


def test_evidence_is_small_and_made_of_plain_numbers(shifted):
    arrays = [array for part in shifted[1].evidence_.values() for array in part.values()]
    assert all(array.dtype.kind in "fi" for array in arrays)
    assert sum(array.nbytes for array in arrays) < 100_000
    assert max(array.size for array in arrays) < len(shifted[0][1]) / 5


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_come_as_frames_of_the_users_library(library):
    frames = pytest.importorskip(library)
    X, y, groups, _ = draw(np.random.default_rng(19), n_groups=6, labeled=80, unlabeled=80)
    kind = np.where(X[:, 1] > 0, "up", "down")
    table = frames.DataFrame({"dose": X[:, 0], "kind": kind, "state": groups})
    model = GroupShiftClassifier(group="state", partition=2, refine=0, random_state=0).fit(table, y)
    found = answers(model)
    for name, frame in found.tables().items():
        assert isinstance(frame, frames.DataFrame), name
    assert set(found.clusters["feature"]) <= {"dose", "kind"}
    assert set(found.independence["strongest_feature"]) <= {"dose", "kind"}


def test_labelled_sample_and_population_shares_differ_as_the_model_says(shifted):
    model = shifted[1]
    assert model.evidence_["groups"]["share"].shape == model.labeled_groups_.shape
    _, y, groups, _ = shifted[0]
    own = (groups == "g00") & (y >= 0)
    assert model.evidence_["groups"]["share"][0] == pytest.approx(y[own].mean())
    assert np.isfinite(logit(model.group_prior_)).all()
