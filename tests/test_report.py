"""The report as text: what it says, and what the page is made of."""

import base64
import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest
from groupshift._diagnosis.report.answer import believe, beware, learned, worth
from sklearn.exceptions import NotFittedError

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import render_report, write_report
from groupshift._diagnosis.report.facts import Facts
from groupshift._diagnosis.report.formats import percent, percent_range
from groupshift._diagnosis.wording import tidy
from report_pages import SECTIONS, Page


@pytest.fixture(scope="module")
def page(fitted):
    return Page(render_report(fitted))


def test_sections_come_in_reading_order(page):
    # Nothing was weighed where the number of clusters was given: there is no section about it.
    shown = [name for name in SECTIONS if name != "candidates"]
    assert [a["id"] for tag, a in page.tags if tag == "section"] == shown
    assert [a["href"] for tag, a in page.tags if tag == "a" and "class" not in a] == [f"#{s}" for s in shown]


def test_the_first_sentences_are_the_share_and_whether_to_believe_it(fitted, page):
    overall = fitted.overall_share()
    answer = page.text[page.text.index("The answer") :]
    sentence = believe(Facts.of(fitted, fitted.diagnose())).sentence
    share = percent(overall.share)
    first, belief, gained = (
        answer.index(" ".join(tidy(text).split())) for text in (share, sentence, "log loss")
    )
    assert first < belief < gained
    assert " ".join(tidy(percent_range(overall.low, overall.high)).split()) in answer[:belief]
    assert "twice as likely to be labelled" in answer[belief:gained]


@pytest.mark.parametrize(
    ("holds", "worth", "said"),
    [("no", "yes", "Check the shares"), ("yes", "harmful", "Do not believe"), ("roughly", "yes", "with care"),
     ("unknown", "unknown", "could not be tested"), ("yes", "yes", "can be believed")],
)  # fmt: skip
def test_belief_follows_the_worst_finding(fitted, holds, worth, said):
    assert said in believe(Facts.of(fitted, replace(fitted.diagnose(), holds=holds, worth=worth))).sentence


def test_words_of_the_field_are_explained(page):
    words = page.text[page.text.index("Words on this page") :]
    for word in ("Cell", "Judge", "Theorem 1", "Log loss", "AUC", "Log-odds", "Hidden labels", "Mixture"):
        assert word in words


def test_the_answer_comes_first_and_is_the_diagnosis(fitted, page):
    from groupshift._diagnosis.diagnostics import diagnose

    found = diagnose(fitted)
    answer = page.text[: page.text.index("Shares of the groups")]
    for sentence in (found.verdict, *found.gain, *found.caution):
        assert " ".join(tidy(sentence).split()) in answer


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


def test_good_news_is_no_caution(fitted):
    facts = Facts.of(fitted, replace(fitted.diagnose(), holds="yes", caution=()))
    assert beware(facts) == ["Nothing that the tests below could find."]
    assert worth(facts)[-1] == "The assumption behind it was tested and holds."
    facts = Facts.of(fitted, replace(fitted.diagnose(), holds="no"))
    assert "does not hold" in beware(facts)[0]
    assert "holds" not in worth(facts)[-1]


def test_the_range_of_shares_leaves_out_groups_of_a_few_rows(fitted):
    facts = Facts.of(fitted, fitted.diagnose())
    lowest, highest = np.argsort(facts.groups.share)[[0, -1]]
    names = facts.groups.name
    said = " ".join(learned(facts))
    assert f"Groups range from {names[lowest]} (" in said
    assert f" to {names[highest]} (" in said
    facts.groups.rows[lowest] = 1
    said = " ".join(learned(facts))
    assert "Groups of 30 rows or more range from" in said
    assert f"{names[lowest]} (" not in said


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
    first, *lines = page.table("Population", "Labelled sample")["body"]
    overall = fitted.overall_share(coverage=0.9)
    assert first[:3] == ["All", percent(overall.share), percent_range(overall.low, overall.high)]
    assert [line[0] for line in lines] == shares["group"].tolist()
    assert [line[1] for line in lines] == [percent(v) for v in shares["share"]]
    assert [line[2] for line in lines] == [
        percent_range(*v) for v in zip(shares["low"], shares["high"], strict=True)
    ]


def test_labelled_sample_stands_beside_the_population(rows, page):
    _, y, groups = rows
    line = page.table("Population", "Labelled sample")["body"][1]
    own = y[(groups == line[0]) & (y >= 0)]
    assert line[4:] == [percent(own.mean()), str(len(own))]


def test_figures_and_tables_show_the_same_shifts(fitted, page):
    figure = page.figures["shifts"]
    np.testing.assert_allclose(np.reshape(figure["shift"], fitted.shift_.shape), fitted.shift_, atol=6e-4)
    cells = fitted.group_shares(by="cell", coverage=0.9)
    for name in ("share", "low", "high"):
        np.testing.assert_allclose(figure[name], cells[name], atol=6e-4)
    first = page.table("Group", "Cluster 0", "Cluster 1")["body"][0][1]
    assert float(first.replace("\u2212", "-")) == pytest.approx(fitted.shift_[0, 0], abs=0.006)


def test_clusters_are_told_by_the_features_own_names(page):
    where = page.text[page.text.index("Where the clusters are") : page.text.index("Calibration and gain")]
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
