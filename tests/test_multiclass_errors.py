"""What several classes cannot do is refused in words that help."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, share_changes

N = 200
RNG = np.random.default_rng(0)
GROUPS = np.repeat(["a", "b", "c", "d"], N // 4)
X = RNG.normal(size=(N, 2))
THREE = np.where(np.arange(N) % 2 == 0, RNG.integers(0, 3, N), -1)


def logistic(**settings):
    return GroupShiftClassifier(LogisticRegression(), partition=1, random_state=0, **settings)


def fit(y=THREE, *, model=None, **options):
    return (logistic() if model is None else model).fit(X, y, groups=GROUPS, **options)


CASES = {
    "ordered labels": (
        lambda: fit(y=np.arange(N) % 11),
        "y has 11 different numbers, from 0 to 10: they look like an amount or a rating, whose order a classifier would not see. "
        'Make two classes of them, y >= 8 (on the command line: --positive ">=8"), or make each value a class',
    ),
    "known shares of a class that does not exist": (
        lambda: fit(y=THREE, known_shares={"a": {7: 0.5}}),
        "known_shares of group 'a' names class 7, which no labelled row has. The classes are 0, 1, 2.",
    ),
    "known shares of the mark of unlabelled rows": (
        lambda: fit(y=THREE, known_shares={"a": {-1: 0.5}}),
        "known_shares of group 'a' names class -1, which no labelled row has",
    ),
    "known shares that do not add up": (
        lambda: fit(y=THREE, known_shares={"a": {0: 0.5, 1: 0.3, 2: 0.1}}),
        "known_shares of group 'a' add up to 0.9. They must add up to 1",
    ),
    "known shares of some classes that are too much": (
        lambda: fit(y=THREE, known_shares={"a": {0: 0.8, 1: 0.3}}),
        "They must add up to 1 or less",
    ),
    "known shares without classes": (
        lambda: fit(y=THREE, known_shares={"a": 0.5}),
        "With 3 classes, pass a mapping of class to share",
    ),
    "one of three classes without weight": (
        lambda: fit(y=THREE, sample_weight=np.where(THREE == 2, 0.0, 1.0)),
        "Every labelled row of class 2 has sample_weight 0, which leaves nothing to learn it from.",
    ),
    "bbse with three classes": (
        lambda: fit(y=THREE, model=logistic(shares="bbse-soft", shrinkage="none")),
        "shares='bbse-soft' is for two classes, and the labels have 3",
    ),
    "known overall share that is one number": (
        lambda: fit(known_overall=0.5),
        "known_overall is 0.5. With 3 classes, pass a mapping of class to share",
    ),
    "known overall shares that the known groups rule out": (
        lambda: fit(known_overall={0: 0.9}, known_shares={"a": {0: 0.2}, "b": {0: 0.1}, "c": {0: 0.3}}),
        "known_overall for class 0 is 0.9, but the groups with known shares (75.0% of the population) leave it between 0.15 "
        "and 0.4. Correct one of them, or give standard errors",
    ),
    "known overall shares of no rows": (
        lambda: fit(y=np.where(THREE < 0, 0, THREE), known_overall={0: 0.5}),
        "known_overall is a rate of unlabelled rows, and there are none.",
    ),
    "an audit of three classes": (
        lambda: logistic().fit(X, THREE, groups=GROUPS).audit(X, GROUPS),
        "An audit asks for labels of two classes, and the model has 3. Fit a model of one class against the rest, "
        "y == that_class (on the command line: --positive THAT_CLASS), and audit that.",
    ),
    "the share of no class": (
        lambda: logistic().fit(X, THREE, groups=GROUPS).overall_share(),
        "No class was named. Pass of_class=, one of 0, 1, 2",
    ),
    "the share of a class that does not exist": (
        lambda: logistic().fit(X, THREE, groups=GROUPS).share_difference("a", "b", of_class=7),
        "The model has no class 7. Pass of_class=, one of 0, 1, 2",
    ),
    "the difference from a group that does not exist": (
        lambda: logistic().fit(X, THREE, groups=GROUPS).share_difference("a", "z", of_class=1),
        "Group 'z' has no unlabeled rows in this model",
    ),
    "the share of a third of two classes": (
        lambda: logistic().fit(X, np.minimum(THREE, 1), groups=GROUPS).overall_share(of_class=2),
        "The model has no class 2. Pass of_class=, one of 0, 1",
    ),
    "known shares of a third of two classes": (
        lambda: fit(y=np.minimum(THREE, 1), known_shares={"a": {2: 0.5}}),
        "known_shares of group 'a' names class 2, which no labelled row has. The classes are 0, 1.",
    ),
    "known shares of two classes that do not add up": (
        lambda: fit(y=np.minimum(THREE, 1), known_overall={0: 0.5, 1: 0.3}),
        "known_overall add up to 0.8. They must add up to 1",
    ),
    "models of different classes": (
        lambda: share_changes(
            logistic().fit(X, THREE, groups=GROUPS),
            logistic().fit(X, np.where(THREE == 2, 3, THREE), groups=GROUPS),
        ),
        "The two models know different classes, [0, 1, 2] and [0, 1, 3]",
    ),
    "models of two classes and of three": (
        lambda: share_changes(
            logistic().fit(X, THREE, groups=GROUPS),
            logistic().fit(X, np.minimum(THREE, 1), groups=GROUPS),
        ),
        "One model knows 3 classes and the other 2: their shares cannot be compared.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused_in_words_that_help(name):
    call, words = CASES[name]
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the words are compared below
        call()
    assert words in str(refused.value)


def test_a_known_overall_share_is_kept():
    model = logistic().fit(X, THREE, groups=GROUPS, known_overall={0: 0.6, 1: 0.3, 2: 0.1})
    found = model.group_shares(by="overall")
    np.testing.assert_allclose(found["share"], [0.6, 0.3, 0.1], atol=1e-4)
    limits = ["share", "low", "high", "narrow_low", "narrow_high"]
    assert list(found) == ["class", "rows", *limits, "labeled_share"]


def test_known_shares_of_groups_and_of_all_are_kept_together():
    known = {"a": {0: 0.5, 1: 0.25, 2: 0.25}, "b": {1: 0.4}}
    overall = {0: 0.4, 1: 0.35, 2: 0.25}
    model = logistic().fit(X, THREE, groups=GROUPS, known_overall=overall, known_shares=known)
    found = model.group_shares(by="overall")
    np.testing.assert_allclose(found["share"], list(overall.values()), atol=1e-6)
    by_group = model.group_shares(by="group")["share"].reshape(4, 3)
    np.testing.assert_allclose(by_group[0], [0.5, 0.25, 0.25], atol=1e-6)
    assert by_group[1, 1] == pytest.approx(0.4, abs=1e-6)
    # What is known for sure has no interval, and no other labelling would change it.
    np.testing.assert_allclose(found["low"], found["high"])
    table = model.diagnose().sensitivity
    np.testing.assert_allclose(table["if_half"], table["share"], atol=1e-9)
    assert "The known shares of the population settle" in " ".join(model.diagnose().caution)


def test_a_known_overall_share_of_one_class_leaves_the_others_open():
    model = logistic().fit(X, THREE, groups=GROUPS, known_overall={1: (0.3, 0.01)})
    table = model.diagnose().sensitivity
    assert table["if_half"][1] == pytest.approx(table["share"][1])
    assert table["if_half"][0] > table["share"][0] + 0.01
    low, high = (model.group_shares(by="overall")[name][1] for name in ("low", "high"))
    assert high - low < 0.06
