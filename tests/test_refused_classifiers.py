"""What is no classifier, or gives no probabilities, is refused in a sentence of ours."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier

from groupshift import GroupShiftClassifier

rng = np.random.default_rng(0)
TWO = np.where(rng.random(200) < 0.5, rng.integers(0, 2, 200), -1)
THREE = np.where(TWO < 0, -1, rng.integers(0, 3, 200))
X = rng.normal(size=(200, 2)) + TWO[:, None]
GROUPS = rng.integers(0, 5, 200)
FRAME = pd.DataFrame(X, columns=["a", "b"])
NO_CLASSIFIER = "is no classifier that could be fitted. Pass one with fit"
NO_PROBABILITIES = "has no predict_proba, so it gives no probabilities of classes. Pass"


@pytest.mark.parametrize(
    ("estimator", "X", "y", "message"),
    [
        ("logistic", X, TWO, NO_CLASSIFIER),
        (LogisticRegression, X, TWO, NO_CLASSIFIER),
        (LinearRegression(), X, TWO, NO_PROBABILITIES),
        # Not as if the columns of a frame were to blame.
        (LinearRegression(), FRAME, TWO, f"^LinearRegression {NO_PROBABILITIES}"),
        (RidgeClassifier(), X, THREE, NO_PROBABILITIES),
    ],
    ids=["a name", "a class", "a regression", "a regression of a frame", "decisions alone, of three classes"],
)
def test_what_gives_no_probabilities_is_refused(estimator, X, y, message):
    with pytest.raises(TypeError, match=message):
        GroupShiftClassifier(estimator, random_state=0).fit(X, y, groups=GROUPS)


def test_decisions_alone_are_enough_for_two_classes():
    model = GroupShiftClassifier(RidgeClassifier(), 1, random_state=0).fit(X, TWO, groups=GROUPS)
    assert np.isfinite(model.predict_proba(X, GROUPS)).all()
