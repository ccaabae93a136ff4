"""Two classes in the words of several: the same answers, however classes are called and in whatever order they come."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from class_samples import draw_table
from groupshift import GroupShiftClassifier

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
