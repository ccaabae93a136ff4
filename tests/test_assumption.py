"""Does the assumption hold? Effects of groups inside classes, and the distance from a mixture of classes."""

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.assumption import (
    Strata,
    comparable,
    group_effects,
    mixture_distance,
    score_distributions,
)
from groupshift._diagnosis.findings import assumption_holds
from groupshift._diagnosis.sentences import words
from groupshift._math.points import collect_points
from shifted_groups import draw, fit_on


def test_effects_vanish_where_the_assumption_holds_and_the_sentences_say_so(shifted):
    found = shifted[1].diagnose()
    assert found.holds == "yes"
    # Standard errors are about 0.002 here: 0.01, Cohen's small effect, is five of them.
    assert abs(found.overview["score_effect"]) < 0.01
    assert abs(found.overview["feature_effect"]) < 0.01
    assert found.assumption[0].startswith("The assumption holds as far as labeled rows can tell")


def test_effects_are_large_where_classes_differ_by_group_and_the_sentences_say_so():
    found = fit_on(draw(np.random.default_rng(1), spread=1.0)).diagnose()
    assert found.holds == "no"
    # Steps of variance 1 beside a variance of 1 inside groups: the group explains half of it.
    assert 0.3 < found.overview["score_effect"] < 0.65
    assert found.features["feature"][0] == "x0"
    assert found.features["effect"][0] > 0.3 > 0.05 > abs(found.features["effect"][1])
    assert found.assumption[0].startswith("The assumption does not hold")
    assert "x0" in found.assumption[1]


def judged(model, effect, error):
    """Word and sentence for an effect of the group on the score, known up to a standard error."""
    numbers = {"score_effect": effect, "score_effect_error": error}
    word, found = assumption_holds(model, numbers, model.diagnose().tables())
    return word, words(found[0])[0]


@pytest.mark.parametrize(("effect", "error"), [(0.001, 0.089), (0.029, 0.101), (-0.02, 0.05)])
def test_a_test_without_power_does_not_say_that_the_assumption_holds(shifted, effect, error):
    word, sentence = judged(shifted[1], effect, error)
    assert word == "unknown"
    assert sentence.startswith("Labeled rows are too few to tell whether the assumption holds")


def test_few_labelled_rows_of_many_groups_cannot_tell_whether_the_assumption_holds():
    X, y, groups, truth = draw(np.random.default_rng(13), n_groups=60, labeled=3, unlabeled=10)
    found = fit_on((X, y, groups, truth)).diagnose()
    assert found.overview["score_effect_error"] > 0.03
    assert found.holds == "unknown"


def test_one_effect_under_two_verdicts_says_that_noise_decides(shifted):
    sure, unsure = (judged(shifted[1], 0.079, error) for error in (0.008, 0.012))
    assert sure[0] == "no"
    assert "may be chance" not in sure[1]
    assert unsure[0] == "roughly"
    assert unsure[1].endswith("above 6 % serious; that it is above 6 % may be chance).")
    small = judged(shifted[1], 0.02, 0.008)
    assert small[0] == "yes"
    assert small[1].endswith("that it is above 1 % may be chance).")


def test_a_population_unlike_the_labelled_rows_is_seen_by_the_mixture_fit():
    X, y, groups, truth = draw(np.random.default_rng(2), n_groups=20)
    moved = X.copy()
    # Both classes of the unlabelled rows spread out: no share of labelled classes makes such scores.
    moved[y < 0] = 3 * X[y < 0] - 3
    alike, unlike = (fit_on((Z, y, groups, truth)).diagnose() for Z in (X, moved))
    assert alike.holds == "yes"
    assert unlike.holds == "no"
    assert unlike.overview["mixture_gap"] > 3 * unlike.overview["mixture_gap_by_chance"]
    assert "mixture does not fit" in set(unlike.cautions["kind"])
    # One word is given, and no sentence says the opposite; the one that decides it comes first, on every screen.
    assert unlike.assumption[0].startswith("The assumption does not hold in the population")
    assert not any(sentence.startswith("The assumption holds") for sentence in unlike.assumption)


def test_effects_are_unbiased_and_p_values_uniform_without_any_effect():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(300):
        group = rng.integers(0, 12, 150)
        weight = rng.choice([1.0, 2.0], 150)
        strata = Strata(np.zeros(150, int), group, weight, np.arange(150), n_strata=1, n_groups=12)
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
    strata = Strata(
        np.zeros(len(x), int), group, np.ones(len(x)), np.arange(len(x)), n_strata=1, n_groups=400
    )
    # 1 / (1 + 4); its standard error over 400 groups is about 0.013.
    assert group_effects(x[:, None], strata).effect[0] == pytest.approx(0.2, abs=0.04)


def test_effect_of_a_category_is_that_of_its_levels():
    rng = np.random.default_rng(5)
    group = rng.integers(0, 5, 2000)
    same, own = rng.integers(0, 4, 2000).astype(float), (group % 4).astype(float)
    strata = Strata(np.zeros(2000, int), group, np.ones(2000), np.arange(2000), n_strata=1, n_groups=5)
    assert abs(group_effects(comparable(same, True), strata).effect[0]) < 0.005
    assert group_effects(comparable(own, True), strata).effect[0] == pytest.approx(1, abs=1e-6)


def test_copies_of_examples_do_not_make_an_effect():
    rng = np.random.default_rng(6)
    x, group = rng.normal(size=200), rng.integers(0, 20, 200)
    once, thrice = (
        group_effects(
            np.tile(x, n)[:, None],
            Strata(
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
    strata = Strata(np.zeros(6, int), np.arange(6), np.ones(6), np.arange(6), n_strata=2, n_groups=6)
    assert np.isnan(group_effects(np.arange(6.0)[:, None], strata).effect).all()


def test_distance_from_the_mixture_is_zero_for_the_mixture_itself_and_kolmogorovs_otherwise():
    rng = np.random.default_rng(7)
    score, y = np.r_[rng.normal(1, 1, 500), rng.normal(-1, 1, 500)], np.repeat([1, 0], 500)
    nobody = np.zeros(1000, int)
    known = score_distributions(score, y, np.ones(1000), nobody, 1)
    # The labelled rows themselves, positives weighted to a share of 0.8 and all to one cell.
    points = collect_points(score, nobody, n_cells=1, weight=np.where(y == 1, 0.8, 0.2))
    assert mixture_distance(points, np.array([0.8]), known)[0] < 1e-9
    positives = collect_points(score[:500], nobody[:500], n_cells=1)
    gap = np.abs(known.below[0, 1] - known.below[0, 0]).max()
    assert mixture_distance(positives, np.array([0.0]), known)[0] == pytest.approx(gap)


def answered(*, is_held, n_levels=3, n_groups=15, labeled=60, unlabeled=200):
    """One question with a few answers, given alike by the positives of all rows, or more often in between by unlabelled ones."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n_groups), labeled + unlabeled)
    is_unlabeled = np.tile(np.arange(labeled + unlabeled) >= labeled, n_groups)
    truth = (rng.random(len(groups)) < rng.beta(3, 4, n_groups)[groups]).astype(np.int64)
    rest = 0.25 * np.ones(n_levels - 2) / (n_levels - 2)
    chance = np.array([[0.7, *rest, 0.05], [0.05, *rest, 0.7]])
    draw = rng.random(len(groups))
    answer = (draw[:, None] > chance.cumsum(1)[truth]).sum(1)
    moved = is_unlabeled & (rng.random(len(groups)) < 0.5) & (not is_held)
    return np.where(moved, 1, answer)[:, None].astype(float), np.where(is_unlabeled, -1, truth), groups


@pytest.mark.parametrize("n_levels", [3, 4])
def test_scores_that_many_rows_share_are_no_misfit_by_themselves(n_levels):
    # Classifiers of two folds score one answer a bit differently: all rows that gave it once counted as a gap.
    X, y, groups = answered(is_held=True, n_levels=n_levels)
    model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0).fit(X, y, groups=groups)
    found = model.diagnose()
    assert found.overview["mixture_gap"] < found.overview["mixture_gap_by_chance"]
    assert "mixture does not fit" not in found.cautions["kind"]


def test_answers_that_no_mixture_gives_are_a_misfit():
    X, y, groups = answered(is_held=False)
    model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0).fit(X, y, groups=groups)
    found = model.diagnose()
    assert found.overview["mixture_gap"] > 2 * found.overview["mixture_gap_by_chance"]
