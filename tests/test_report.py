"""The report as text: what it says, and what the page is made of."""

import base64
import hashlib
import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from class_samples import draw_table
from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import render_report, write_report
from groupshift._diagnosis.report.facts import Facts
from groupshift._diagnosis.report.formats import percent, percent_range
from groupshift._diagnosis.report.report_tables import shares_table
from groupshift._diagnosis.summary import Summary
from groupshift._diagnosis.wording import tidy
from report_pages import SECTIONS, Page


@pytest.fixture(scope="module")
def page(fitted):
    return Page(render_report(fitted))


def test_sections_come_in_reading_order(page):
    # Nothing was weighed where the number of clusters was given: there is no section about it.
    shown = [name for name in SECTIONS if name != "candidates"]
    assert [a["id"] for tag, a in page.tags if tag == "section"] == shown
    assert [a["href"] for tag, a in page.tags if tag == "a" and "class" not in a][: len(shown)] == [
        f"#{s}" for s in shown
    ]


def test_the_answer_is_the_share_the_verdict_and_the_caution_that_costs_most(fitted, page):
    overall, found = fitted.overall_share(), Summary.of(fitted)
    answer = page.text[page.text.index("The answer") : page.text.index("Shares of the groups")]
    said = (
        percent(overall.share),
        percent_range(overall.low, overall.high),
        found.diagnosis.verdict,
        found.diagnosis.main_caution,
    )
    places = [answer.index(" ".join(tidy(text).split())) for text in said]
    assert places == sorted(places)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_unfolded_has_at_most_1200_words(fitted, n_classes):
    model = fitted
    if n_classes == 3:
        X, y, groups, _ = draw_table(n_classes=3)
        model = GroupShiftClassifier(LogisticRegression(), 2, random_state=0).fit(X, y, groups=groups)
    source = re.sub("(?s)<(script|style).*?</\\1>", "", render_report(model))
    always = re.compile(
        '(?s)<details class="(?:fold|numbers)"[^>]*>.*?</summary>(?:(?!<details).)*?</details>'
    )
    before = None
    # From the inside out; the script closes tables.
    source = source.replace('<details open class="numbers">', '<details class="numbers">')
    while before != source:
        before, source = source, always.sub("", source)
    shown = " ".join(re.sub("<[^>]*>", " ", source).split())
    assert "The answer" in shown
    assert "Strongest feature" not in shown
    assert 100 < len(shown.split()) <= 1_200
    assert "`" not in shown


def test_words_of_the_field_are_explained(page):
    words = page.text[page.text.index("Words on this page") :]
    for word in ("Cell", "Theorem 1", "Log loss", "AUC", "Log-odds", "Held-out labels", "Mixture"):
        assert word in words


def test_every_sentence_of_the_diagnosis_is_on_the_page(fitted, page):
    for sentence in fitted.diagnose().sentences:
        assert " ".join(tidy(sentence).split()) in page.text


def headline(source):
    return re.search("<h1>(.*)</h1>", source)[1]


def test_the_title_names_target_and_groups_where_they_are_known(rows, quick, fitted):
    pd = pytest.importorskip("pandas")
    X, y, groups = rows
    frame = pd.DataFrame({"x": X[:, 0], "dest": groups, "late": y})
    model = quick().fit(frame[["x"]], frame["late"], groups=frame["dest"])
    source = render_report(model)
    assert headline(source) == "Share of late = 1 by dest"
    assert "Target column late Group column dest" in re.sub("<[^>]*>", " ", source).replace(
        "  ", " "
    ).replace("  ", " ")
    assert headline(render_report(model, title="Delays")) == "Delays"
    model = quick(group="dest").fit(frame[["x", "dest"]], y)
    assert headline(render_report(model)) == "Share of positives by dest"
    assert headline(render_report(fitted)) == "Share of positives in 12 groups"


def test_the_range_of_shares_leaves_out_groups_of_a_few_rows(fitted):
    facts = Facts.of(fitted, fitted.diagnose())
    lowest, highest = np.argsort(facts.groups["share"])[[0, -1]]
    names = facts.groups["name"]
    said = " ".join(facts.learned())
    assert f"Groups range from {names[lowest]} (" in said
    assert f" to {names[highest]} (" in said
    facts.groups["rows"][lowest] = 1
    said = " ".join(facts.learned())
    assert "Groups of 30 rows or more range from" in said
    assert f"{names[lowest]} (" not in said
    # And it comes last in the table.
    assert shares_table(facts).columns["Group"][-1] == names[lowest]


def test_shares_of_all_rows_count_labels_as_they_are(fitted, rows):
    _, y, groups = rows
    facts = Facts.of(fitted, fitted.diagnose())
    for g, name in enumerate(facts.groups["name"]):
        own, labeled = groups == name, y >= 0
        n = (own & ~labeled).sum()
        expected = (y[own & labeled].sum() + n * facts.groups["share"][g]) / own.sum()
        assert facts.groups["every_row"][g] == pytest.approx(expected, abs=1e-5)
    assert facts.every_row[0] == pytest.approx(
        np.average(facts.groups["every_row"], weights=np.bincount(np.unique(groups, return_inverse=True)[1])),
        abs=1e-5,
    )


def test_an_error_is_one_standard_error_everywhere(judged):
    found = Page(render_report(judged))
    figure, error = found.figures["candidates"], judged.candidates_["gain_error"]
    reach = np.array(figure["high"], float) - np.array(figure["value"], float)
    np.testing.assert_allclose(reach[error > 0], error[error > 0], atol=2e-6)
    assert "± one standard error over groups, as everywhere" in found.text


def luminance(colour):
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["more", "less"])
def test_numbers_on_the_map_can_be_read(page, scheme, ground):
    def colour(name):
        found = re.findall(rf"--{name}: #(\w{{6}})", page.blocks["style"])[scheme]
        return np.array([int(found[i : i + 2], 16) / 255 for i in (0, 2, 4)])

    opacity = np.linspace(0.06, 0.06 + page.figures["shifts"]["deepest"], 20)[:, None]
    cell = luminance(opacity * colour(ground) + (1 - opacity) * colour("page"))
    both = np.stack([cell, np.full(20, luminance(colour("ink")))]) + 0.05
    assert (both.max(0) / both.min(0)).min() >= 4.5


def test_share_table_holds_the_numbers_of_group_shares(fitted, page):
    shares = fitted.group_shares(by="group", coverage=0.9)
    first, *lines = page.table("Population", "Labeled sample")["body"]
    overall = fitted.overall_share(coverage=0.9)
    assert first[:3] == ["All", percent(overall.share), percent_range(overall.low, overall.high)]
    assert [line[0] for line in lines] == shares["group"].tolist()
    assert [line[1] for line in lines] == [percent(v) for v in shares["share"]]
    assert [line[2] for line in lines] == [
        percent_range(*v) for v in zip(shares["low"], shares["high"], strict=True)
    ]


def test_labelled_sample_stands_beside_the_population(rows, page):
    _, y, groups = rows
    line = page.table("Population", "Labeled sample")["body"][1]
    own = y[(groups == line[0]) & (y >= 0)]
    assert line[5] == f"{percent(own.mean())} of {len(own)}"


def test_figures_and_tables_show_the_same_shifts(fitted, page):
    figure = page.figures["shifts"]
    np.testing.assert_allclose(np.reshape(figure["shift"], fitted.shift_.shape), fitted.shift_, atol=6e-4)
    cells = fitted.group_shares(by="cell", coverage=0.9)
    for name in ("share", "low", "high"):
        np.testing.assert_allclose(figure[name], cells[name], atol=6e-4)
    first = page.table("Group", "Cluster 0", "Cluster 1")["body"][0][1]
    assert float(first.replace("\u2212", "-")) == pytest.approx(fitted.shift_[0, 0], abs=0.006)


def test_clusters_are_told_by_the_features_own_names(page):
    where = page.text[page.text.index("Where the clusters are") : page.text.index("Calibration and gain on")]
    assert "x0 is" in where
    assert "x1 is" in where


def test_every_chart_has_a_caption_and_a_table_behind_it(page):
    charts = [a["data-figure"] for tag, a in page.tags if tag == "div" and a.get("class") == "chart"]
    assert charts == ["shares", "shifts", "gain"]
    assert set(charts) == set(page.figures)
    captions = sum(tag == "figcaption" for tag, _ in page.tags)
    assert captions == sum(tag == "figure" for tag, _ in page.tags)
    assert all(a.get("aria-label") or a.get("aria-hidden") for tag, a in page.tags if tag == "svg")
    assert len(page.tables) >= len(charts)


def test_ids_are_unique_and_headings_do_not_skip_a_level(page):
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert max(np.diff(levels)) <= 1


def test_nothing_points_outside_the_file(page, fitted):
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            assert not re.match(r"(?i)\s*(https?:|//|file:)", attributes.get(name) or "")
    style = page.blocks["style"]
    assert "url(" not in style
    assert "@import" not in style
    assert set(re.findall(r"https?://[^\s\"'<]+", render_report(fitted))) <= {"http://www.w3.org/2000/svg"}


def test_only_the_reports_own_script_may_run(page):
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(page.blocks["script"].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_rendering_twice_gives_the_same_page_and_leaves_the_model_as_it_was(fitted, rows):
    X, _, groups = rows
    before = set(vars(fitted)), fitted.predict_proba(X, groups=groups)
    assert render_report(fitted) == render_report(fitted)
    assert set(vars(fitted)) == before[0]
    np.testing.assert_array_equal(fitted.predict_proba(X, groups=groups), before[1])


def test_an_existing_file_is_kept_unless_forced(tmp_path, fitted):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(OSError, match="exists already"):
        write_report(fitted, path)
    assert path.read_text() == "mine"
    write_report(fitted, path, title="Survey 2026", force=True)
    assert "<title>Survey 2026</title>" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_folder_is_named(tmp_path, fitted):
    with pytest.raises(OSError, match="does not exist"):
        write_report(fitted, tmp_path / "nowhere" / "report.html")


def test_an_unfitted_model_has_no_report():
    with pytest.raises(NotFittedError):
        render_report(GroupShiftClassifier())
