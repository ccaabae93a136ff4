"""What is said of the common shift is the same in every place, and agrees with what the estimates do."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._explain.report import render_report
from report_pages import Page
from test_feature_means import at_random, by_label, drawn

# Of what settles it, or does not, one sentence each: where one stands, none of the others may.
STATEMENTS = {
    "open": "over-represented by the same factor in every group, labelled data cannot reveal it",
    "features": "The features agree",
    "random": "You said that labels are a random sample",
    "by_label": "You said that labels were chosen by the label",
    "rate": "The known rate of the population, 40.0 %, settles what all groups have in common",
    "audit": "The labels settle what all groups have in common",
}
IF_SELECTED = "twice as likely to be labelled"


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


def test_the_way_is_that_of_the_shift_in_use(models):
    model = copy(models["features"])
    shift = model.estimate_.unseen_shift
    assert shift[0] < 0
    assert "over-represented among labels" in " ".join(model.diagnose().caution)
    model.estimate_ = replace(model.estimate_, unseen_shift=-shift)
    assert "under-represented among labels" in " ".join(model.diagnose().caution)


def test_the_part_that_is_used_is_said_where_scores_say_more(models):
    model = copy(models["open"])
    said = {}
    for part in (0.0, 0.5):
        use = replace(model.view_use_, by_label=np.nan, common_shift=1.0, common=part)
        model.estimate_ = replace(model.estimate_, use=use)
        said[part] = " ".join(model.diagnose().caution)
    assert "would look the same, so none of this shift is used" in said[0.0]
    assert "would look the same, so 50 % of this shift is used" in said[0.5]
