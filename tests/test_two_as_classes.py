"""Two classes in the words of several: the same answers, however classes are called and however what is known of them is said.

Two classes go the way of two, through whichever door they come (`test_swapped_classes` lets them change places). The stages of
several classes have other approximations: what a cell's rows say of its shift, and calibration. Everything else of theirs is, for
two classes, what the stages of two compute.
"""

import numpy as np
import pytest
from groupshift._fit.learned import Learned
from groupshift._fit.trials import expected_prior, labeled_prior, rarer_class_rows
from groupshift._math.class_points import collect_class_points
from groupshift._math.class_sites import against_rest, joined_shares
from groupshift._math.simplex_shift import OwnRows
from groupshift._math.trust import learn_class_trust, learn_trust
from groupshift._math.vector_scaling import class_log_loss
from groupshift._multi.class_estimate import em_shares
from groupshift._multi.class_known import agreed_shares, agreeing_move
from groupshift._multi.class_trials import class_rows, expected_priors, labeled_priors, moved_loss
from sklearn.linear_model import LogisticRegression

from class_cells import draw_cells
from class_samples import draw_table
from groupshift import GroupShiftClassifier
from groupshift._math.label_shift import em
from groupshift._math.odds import log_loss_rows, shift_posterior
from groupshift._math.points import collect_points
from groupshift._shifts.known_shares import by_rows, condition_group, mean_posterior

SAME = 1e-9


@pytest.fixture(scope="module")
def table():
    return draw_table(n_groups=8, n_classes=2, labeled=50, unlabeled=80)


def fitted(table, labels=None, *, known_shares=None, known_overall=None, **settings):
    X, y, groups, _ = table
    model = GroupShiftClassifier(
        # To the last digits: a classifier that stops early ends elsewhere when classes change places.
        LogisticRegression(tol=1e-12, max_iter=1000), random_state=0, n_jobs=1, **({"partition": 1} | settings)
    )  # fmt: skip
    return model.fit(
        X,
        y if labels is None else labels,
        groups=groups,
        known_shares=known_shares,
        known_overall=known_overall,
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"known_overall": 0.4}, {"known_overall": {"class b": 0.4}}),
        ({"known_overall": (0.4, 0.01)}, {"known_overall": {"class a": (0.6, 0.01)}}),
        ({"known_shares": {"g00": 0.3}}, {"known_shares": {"g00": {"class a": 0.7, "class b": 0.3}}}),
        ({"known_shares": {"g00": (0.3, 0.02)}}, {"known_shares": {"g00": {"class a": (0.7, 0.02)}}}),
    ],
    ids=["overall", "overall of the other", "both", "of the other"],
)
def test_what_is_known_may_be_said_by_class(table, one, other):
    first, second = fitted(table, **one), fitted(table, **other)
    X, _, groups, _ = table
    np.testing.assert_allclose(second.predict_proba(X, groups), first.predict_proba(X, groups), atol=SAME)
    np.testing.assert_allclose(
        second.group_shares(by="group")["low"], first.group_shares(by="group")["low"], atol=SAME
    )


@pytest.mark.parametrize("how", ["numbers", "text", "booleans"])
def test_two_classes_by_another_name_in_the_same_order_have_the_same_answer(table, how):
    X, y, groups, _ = table
    names = {"numbers": (0, 1), "text": ("no", "yes"), "booleans": (False, True)}[how]
    by = {"class a": names[0], "class b": names[1], None: None}
    labels = np.array([by[label] for label in y], object)
    one, two = fitted(table), fitted(table, labels)
    assert two.classes_.tolist() == list(names)
    np.testing.assert_allclose(two.predict_proba(X, groups), one.predict_proba(X, groups), atol=SAME)


def test_the_share_of_either_of_two_classes_is_what_the_other_leaves(table):
    model = fitted(table)
    positive, negative = (model.overall_share(of_class=name) for name in ("class b", "class a"))
    assert positive == model.overall_share()
    np.testing.assert_allclose([1 - negative.share, 1 - negative.high, 1 - negative.low], positive, atol=SAME)
    apart = [model.share_difference("g00", "g01", of_class=name) for name in ("class b", "class a")]
    assert apart[0] == model.share_difference("g00", "g01")
    np.testing.assert_allclose([-apart[1].difference, -apart[1].high, -apart[1].low], apart[0], atol=SAME)


@pytest.mark.parametrize("estimator", ["logistic", None], ids=["logistic", "default"])
@pytest.mark.usefixtures("few_trees")
def test_two_classes_go_the_way_of_two_whatever_the_door(table, estimator):
    X, y, groups, _ = table
    own = {} if estimator else {"estimator": None}
    doors = {
        "text": y,
        "numbers of several": np.array([{"class a": 3, "class b": 7, None: -1}[label] for label in y]),
        "a column of objects": np.array(
            [{"class a": 0, "class b": 1, None: None}[label] for label in y], object
        ),
    }
    p = []
    for labels in doors.values():
        model = GroupShiftClassifier(
            **({"estimator": LogisticRegression()} | own), partition=1, random_state=0, n_jobs=1
        ).fit(X, labels, groups=groups)
        assert isinstance(model.learned_, Learned)
        p.append(model.predict_proba(X, groups))
    np.testing.assert_allclose(p[1], p[0], atol=SAME)
    np.testing.assert_allclose(p[2], p[0], atol=SAME)


@pytest.fixture(scope="module")
def rows():
    """Posteriors, log-odds, cells, weights, labels and clusters of rows of 20 cells."""
    posterior, labeled, _, _ = draw_cells(n_cells=20, n_rows=100, n_classes=2, apart=1.5)
    rng = np.random.default_rng(0)
    p = posterior.reshape(-1, 2)
    return {
        "p": p,
        "log_odds": np.log(p[:, 1] / p[:, 0]),
        "cell": np.repeat(np.arange(20), 100),
        "weight": rng.exponential(size=len(p)),
        "y": rng.integers(0, 2, len(p)),
        "cluster": rng.integers(0, 3, len(p)),
        "shift": rng.normal(size=len(p)),
        "labeled": labeled,
    }


def as_classes(shift):
    """A shift of log-odds as shifts of log-probabilities."""
    return np.stack([-0.3 * shift, 0.7 * shift], -1)


def test_theorem_two_of_several_classes_is_that_of_two(rows):
    target = np.array([0.8, 0.2])
    moved = rows["p"] * target / rows["labeled"]
    several = (moved / moved.sum(1, keepdims=True))[:, 1]
    two = shift_posterior(rows["p"][:, 1], source_prior=rows["labeled"][1], target_prior=target[1])
    np.testing.assert_allclose(several, two, atol=SAME)
    told = against_rest(target, rows["labeled"])
    assert told[0] == pytest.approx(-told[1])
    np.testing.assert_allclose(joined_shares(told, rows["labeled"]), target, atol=SAME)


def test_losses_and_labelled_shares_of_several_classes_are_those_of_two(rows):
    log_p, y, weight, cluster = np.log(rows["p"]), rows["y"], rows["weight"], rows["cluster"]
    np.testing.assert_allclose(class_log_loss(log_p, y), log_loss_rows(rows["log_odds"], y), atol=SAME)
    np.testing.assert_allclose(
        moved_loss(log_p, as_classes(rows["shift"]), y),
        log_loss_rows(rows["log_odds"] + rows["shift"], y),
        atol=SAME,
    )
    for several, two in (
        (expected_priors(log_p, weight, cluster, 4), expected_prior(rows["log_odds"], weight, cluster, 4)),
        (labeled_priors(y, np.ones(len(y)), cluster, 4, 2), labeled_prior(y, np.ones(len(y)), cluster, 4)),
    ):
        # A cluster without rows: that of all, or a half.
        np.testing.assert_allclose(several[:3, 1], two[:3], atol=SAME)
    np.testing.assert_allclose(
        class_rows(y, cluster, 4, 2, 1.5), np.repeat(rarer_class_rows(y, cluster, 4, 1.5)[:, None], 2, 1)
    )


def test_the_trust_of_several_classes_is_that_of_two(rows):
    group, others = rows["cell"], (rows["y"], rows["weight"], rows["cell"], 20)
    two = learn_trust(rows["log_odds"], rows["shift"], *others)
    several = learn_class_trust(np.log(rows["p"]), as_classes(rows["shift"]), *others)
    for name in ("value", "estimate", "std_error", "row_error", "variance"):
        assert getattr(several, name) == pytest.approx(getattr(two, name), abs=SAME)
    np.testing.assert_allclose(several.without[group], two.without[group], atol=SAME)


def test_em_of_several_classes_is_that_of_two_round_by_round(rows):
    prior = np.tile(rows["labeled"], (20, 1))
    batch = OwnRows((rows["p"] / rows["labeled"]).reshape(20, 100, 2), rows["weight"].reshape(20, 100))
    points = collect_points(rows["log_odds"], rows["cell"], n_cells=20, weight=rows["weight"])
    two, _ = em(points, labeled_prior=rows["labeled"][1], n_iter=100)
    np.testing.assert_allclose(em_shares(batch, prior)[:, 1], two.share, atol=SAME)


def test_means_of_moved_rows_and_known_shares_of_several_classes_are_those_of_two(rows):
    points = collect_points(rows["log_odds"], rows["cell"], n_cells=20, weight=rows["weight"])
    # A prototype for each row: nothing is lost to points.
    classes = collect_class_points(
        rows["p"], rows["cell"], n_cells=20, weight=rows["weight"], prototypes=np.sqrt(rows["p"])
    )
    shift = np.random.default_rng(1).normal(size=20)
    for two, several in zip(
        mean_posterior(points, shift[:, None]), classes.mean_posterior(as_classes(shift)), strict=True
    ):
        np.testing.assert_allclose(several[:, 1], two[:, 0], atol=SAME)
    own, before = rows["cell"] == 4, np.full(1, shift[4])
    wanted = agreed_shares(np.array([0.6, 0.4]), np.array([np.nan, 0.7]), np.zeros(2), np.ones(2))
    move = agreeing_move(np.log(rows["p"][own]) + as_classes(shift[4]), rows["weight"][own], wanted)
    two, _ = condition_group(before, np.eye(1), 0.7, 0.0, np.ones(1), by_rows(points, 4, 1))
    # A rate that is known for sure has an error of 1e-6 in the solver of two: it stops that close to it.
    assert shift[4] + move[1] - move[0] == pytest.approx(two[0], abs=1e-8)
