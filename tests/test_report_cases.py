"""Reports of unusual models: little to say, groups without number, names that are attacks."""

import re
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import render_report
from groupshift._diagnosis.report.facts import shown_names
from groupshift._diagnosis.report.page import templates
from report_pages import SECTIONS, Page, five_thousand_groups

TEMPLATES = ("page", "sections", "pieces", "words")
HOSTILE = [
    "<script>window.pwned = 1</script>",
    "</script><img src=x onerror='window.pwned = 2'>",
    '"><svg onload=window.pwned=3>',
    "<!-- & é ü 中文 -->",
    "$title ${hash} {braces} %s",
    "line\nbreak \u2028 and \u202e turned",
    "lone \ud800 surrogate",
    "x" * 500,
    "",
    " ",
    "constructor",
    "__proto__",
]


@pytest.fixture(scope="module")
def hostile(rows):
    """A model whose groups, features and classes are named by an enemy."""
    pd = pytest.importorskip("pandas")
    X, y, groups = rows
    names = dict(zip(np.unique(groups), HOSTILE, strict=True))
    frame = pd.DataFrame(
        X, columns=["<b onclick=window.pwned=4>", "</script><script>window.pwned=5</script>"]
    )
    labels = np.array(["-1", "<i>no</i>", "<i>yes</i>"])[y + 1]
    named = np.array([names[g] for g in groups], dtype=object)
    model = GroupShiftClassifier(LogisticRegression(), partition=2, unlabeled_value="-1", random_state=0)
    return model.fit(frame, labels, groups=named)


def test_without_shifts_no_list_of_zeros_is_shown(rows, quick):
    X, y, groups = rows
    found = Page(render_report(quick(shares=None).fit(X, y, groups=groups)))
    assert "gain" not in found.figures
    assert "Which groups gain?" not in found.text
    assert "no group gains or loses" in found.text


def test_hostile_names_are_shown_and_never_become_markup(hostile):
    source = render_report(hostile, title="<script>window.pwned = 9</script>")
    source.encode("utf-8")
    found = Page(source)
    assert [tag for tag, _ in found.tags if tag in ("img", "i", "b")].count("img") == 0
    assert sum(tag == "script" for tag, _ in found.tags) == 2
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert found.figures["shares"]["names"] == shown_names(hostile.groups_)
    assert "<script>window.pwned = 1</script>" in found.text
    assert "$title ${hash} {braces} %s" in found.text


def test_every_value_is_escaped_and_none_is_declared_safe():
    environment = templates()
    assert environment.autoescape is True
    sources = [environment.loader.get_source(environment, f"{name}.html")[0] for name in TEMPLATES]
    assert not any(re.search(r"\|\s*safe|autoescape|Markup", source) for source in sources)
    # Two values are ours and go in as they are: the style, and the script, whose digest the page's policy names.
    shown = environment.from_string("{{ name }} {{ {'a': name} | tojson }}").render(
        name="</script><b a='\"'>"
    )
    assert "<" not in shown
    assert ">" not in shown


def test_a_misspelt_value_fails_instead_of_leaving_a_hole():
    jinja2 = pytest.importorskip("jinja2")
    with pytest.raises(jinja2.UndefinedError):
        templates().from_string("{{ facts.no_such_thing }}").render(facts={})


def test_without_jinja_the_error_names_the_extra(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    templates.cache_clear()  # another test may have asked for them
    with pytest.raises(ImportError, match=r"groupshift\[report\]"):
        fitted.report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_names_of_any_kind_are_readable():
    assert shown_names(np.array([3, 4])) == ["3", "4"]
    shown = shown_names(np.array(["a" * 500, "", None, float("nan"), ("x", 1)], dtype=object))
    assert [len(name) for name in shown] == [120, 7, 9, 9, 8]


def settings_that_leave_things_out():
    return {
        "published": "published",
        "one cluster, nothing judged": {"partition": 1},
        "candidates": "judged",
        "silhouette": {"partition": "silhouette"},
        "no shift at all": {"shares": None},
        "cells each on their own": {"shrinkage": "none", "shares": "em"},
        "many clusters": {"partition": 40},
    }


@pytest.mark.parametrize("name", list(settings_that_leave_things_out()))
def test_every_configuration_has_a_whole_report(name, rows, quick, judged):
    X, y, groups = rows
    params = settings_that_leave_things_out()[name]
    if params == "judged":
        model = judged
    elif params == "published":
        model = GroupShiftClassifier.published(LogisticRegression(), random_state=0).fit(X, y, groups=groups)
    else:
        model = quick(**params).fit(X, y, groups=groups)
    found = Page(render_report(model))
    # No section where there is nothing to show.
    empty = {"candidates"} if model.candidates_ is None else set()
    empty |= set() if np.any(model.shift_) else {"shifts"}
    empty |= set() if model.n_clusters_ > 1 else {"clusters"}
    assert [a["id"] for tag, a in found.tags if tag == "section"] == [s for s in SECTIONS if s not in empty]
    assert ("candidates" in found.figures) == (model.candidates_ is not None)
    assert ("shifts" in found.figures) == bool(np.any(model.shift_))
    assert "nan" not in re.findall(r"[a-z]+", found.text)


def test_a_judged_model_marks_the_candidate_that_was_chosen(judged):
    figure = Page(render_report(judged)).figures["candidates"]
    assert [figure["names"][i] for i in figure["marked"]] == judged.candidates_["candidate"][
        judged.candidates_["chosen"]
    ].tolist()


def test_report_without_groups(rows, quick):
    X, y, _ = rows
    with pytest.warns(UserWarning, match="No groups"):
        model = quick().fit(X, y)
    found = Page(render_report(model))
    assert len(found.figures["shares"]["names"]) == 1
    assert "gain" not in found.figures
    assert not any(a.get("id") == "search" for _, a in found.tags)


def test_report_without_unlabelled_rows_says_so(rows, quick):
    X, y, groups = rows
    labeled = y >= 0
    with pytest.warns(UserWarning, match="No unlabelled rows"):
        model = quick().fit(X[labeled], y[labeled], groups=groups[labeled])
    found = Page(render_report(model))
    assert "shares" not in found.figures
    assert "there are no unlabeled rows yet" in found.text


def test_groups_on_one_side_only(rows, quick):
    X, y, groups = rows
    first, second = np.unique(groups)[:2]
    kept = ~((groups == first) & (y >= 0)) & ~((groups == second) & (y < 0))
    found = Page(render_report(quick().fit(X[kept], y[kept], groups=groups[kept])))
    names = found.figures["shares"]["names"]
    assert second not in names
    assert found.figures["shares"]["other"][names.index(first)] is None
    assert second in found.figures["gain"]["names"]


def test_one_labelled_group_leaves_nothing_to_hide(rows, quick):
    X, y, groups = rows
    one = np.unique(groups)[0]
    kept = (y < 0) | (groups == one)
    found = Page(render_report(quick().fit(X[kept], y[kept], groups=groups[kept])))
    assert "gain" not in found.figures


def test_5000_groups_stay_below_5_megabytes():
    source = render_report(five_thousand_groups(8))
    assert len(Page(source).figures["shares"]["names"]) == 5_000
    assert len(source.encode()) < 5e6


def test_beyond_what_a_page_holds_the_largest_groups_are_shown_and_the_rest_is_named(fitted, monkeypatch):
    monkeypatch.setattr("groupshift._diagnosis.report.facts.MAX_GROUPS", 5)
    monkeypatch.setattr("groupshift._diagnosis.report.facts.MAX_CELLS", 6)
    found = Page(render_report(fitted))
    shown = np.sort(np.argsort(-fitted.rows_.sum(1), kind="stable")[:5])
    assert found.figures["shares"]["names"] == fitted.groups_[shown].tolist()
    assert len(found.figures["shifts"]["names"]) == 3
    assert "the 5 groups with most rows of 12" in found.text
