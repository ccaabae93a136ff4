"""The report in a real browser: it draws, sorts, searches and prints, and runs nothing foreign."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from browsers import CHROMIUM, luminance
from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import write_report
from groupshift.datasets import make_grouped_mixture
from report_pages import five_thousand_groups

WIDTHS = {"phone": (360, 740), "tablet": (768, 1024), "desktop": (1280, 900)}
HOSTILE = [
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=2</script>",
    "__proto__",
    "y" * 300,
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no browser: install Debian's chromium to run these tests"
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a judged model with twelve groups, four of them with hostile names."""
    sample = make_grouped_mixture(
        n_features=2,
        n_clusters=2,
        n_groups=12,
        labeled_per_group=(150, 10),
        unlabeled_per_group=(200, 20),
        random_state=3,
    )
    X, y, groups, _ = sample.training()
    names = dict(zip(np.unique(groups)[:4], HOSTILE, strict=True))
    named = np.array([names.get(g, g) for g in groups])
    model = GroupShiftClassifier(LogisticRegression(), random_state=0).fit(X, y, groups=named)
    assert model.candidates_ is not None
    assert np.any(model.shift_)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(model, path)
    return path


@pytest.fixture(scope="module")
def long_report(tmp_path_factory):
    """The report of 5,000 groups."""
    path = tmp_path_factory.mktemp("long") / "report.html"
    write_report(five_thousand_groups(2), path)
    return path


@pytest.fixture
def open_page(browser):
    """Opens a report; at the end of the test nothing may have been complained of, asked for, or run."""
    opened = []

    def open_(path, *, size="desktop", scheme="light", script=True, unfolded=True):
        width, height = WIDTHS[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=script
        )
        page = context.new_page()
        told, asked = [], []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: told.append("dialog"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        opened.append((context, page, told, asked, path, script))
        if script:
            page.wait_for_selector("html.drawn")
        if script and unfolded:
            page.evaluate("document.querySelectorAll('details.fold').forEach((d) => { d.open = true; })")
            # A figure in a section is drawn when this opens.
            page.wait_for_function(
                "[...document.querySelectorAll('.chart')].every((c) => c.querySelector('svg'))"
            )
        return page

    yield open_
    for context, page, told, asked, path, script in opened:
        assert told == []
        assert [url for url in asked if url != path.as_uri() and not url.startswith("data:")] == []
        if script:
            assert page.evaluate("window.pwned") is None
        context.close()


def names_drawn(page, figure):
    labels = page.eval_on_selector_all(
        f"[data-figure={figure}] .row", "(rows) => rows.map((row) => row.getAttribute('aria-label'))"
    )
    return [re.split(": (Population|Gain|cluster) ", label)[0] for label in labels]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(WIDTHS))
def test_it_draws_every_figure_and_never_scrolls_sideways(open_page, report, size, scheme):
    page = open_page(report, size=size, scheme=scheme)
    for figure in ("shares", "shifts", "gain"):
        assert len(names_drawn(page, figure)) == 12
    assert page.locator("[data-figure=candidates] .row.marked").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_desktop_the_names_of_all_sections_are_seen_whole(open_page, report):
    page = open_page(report)
    assert page.evaluate(
        "(() => { const nav = document.querySelector('nav'); return nav.scrollWidth <= nav.clientWidth; })()"
    )


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_nothing_sticks_out_of_a_figure(open_page, report, size):
    page = open_page(report, size=size)
    outside = """() => [...document.querySelectorAll('main svg')].flatMap((svg) => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter((t) => {
            const own = t.getBoundingClientRect();
            return own.left < box.left - 1 || own.right > box.right + 1;
        }).map((t) => t.textContent);
    })"""
    assert page.evaluate(outside) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(open_page, report, scheme):
    page = open_page(report, scheme=scheme)
    colours = page.evaluate("""() => {
        const style = (s) => getComputedStyle(document.querySelector(s));
        const row = '[data-figure=shares] .row:not(:hover)';
        return { page: style('body').backgroundColor, texts: [style('body').color, style('figcaption').color,
            style(row + ' .dot').fill, style(row + ' .other').stroke, style('summary').color] };
    }""")
    background = luminance(colours["page"])
    assert (background < 0.05) == (scheme == "dark")
    for colour in colours["texts"]:
        bright, dim = sorted([luminance(colour), background], reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5


def test_sorting_orders_by_what_was_asked_in_both_directions(open_page, report):
    page = open_page(report)
    figure = page.evaluate("JSON.parse(document.getElementById('report-data').textContent).shares")
    by_share = [figure["names"][i] for i in np.argsort(-np.array(figure["value"]), kind="stable")]
    assert names_drawn(page, "shares") == by_share
    page.click("[data-figure=shares] .direction")
    assert names_drawn(page, "shares") == by_share[::-1]
    page.select_option("[data-figure=shares] .sort", "gap")
    gap = np.array(figure["value"]) - np.array(figure["other"])
    assert names_drawn(page, "shares") == [figure["names"][i] for i in np.argsort(-gap, kind="stable")]
    page.select_option("[data-figure=shares] .sort", "name")
    assert names_drawn(page, "shares")[-1].startswith("yyy")


def test_searching_narrows_every_figure_and_says_how_many(open_page, report):
    page = open_page(report)
    page.fill("#search", "PROTO")
    for figure in ("shares", "shifts", "gain"):
        assert names_drawn(page, figure) == ["__proto__"]
    assert page.locator("#found").inner_text() == "1 of 12 groups"
    page.fill("#search", "<nobody>")
    assert "No group matches “<nobody>”" in page.locator("[data-figure=shares]").inner_text()
    page.press("#search", "Escape")
    assert len(names_drawn(page, "shares")) == 12


def test_hovering_shows_the_numbers_of_the_table(open_page, report):
    page = open_page(report)
    name = names_drawn(page, "shares")[3]
    page.hover("[data-figure=shares] .row >> nth=3")
    tip = page.locator(".tip").inner_text()
    assert tip.startswith(name)
    lines = page.evaluate("""() => [...document.querySelectorAll('#shares tbody tr')]
        .map((tr) => [...tr.children].map((c) => c.textContent.trim()))""")
    own = next(line for line in lines if line[0] == name)
    assert all(value in tip for value in own[1:])
    page.hover("[data-figure=shifts] .row >> nth=0 >> .cell >> nth=0")
    assert "Shift (log-odds)" in page.locator(".tip").inner_text()


def test_the_keyboard_reaches_rows_and_moves_between_them(open_page, report):
    page = open_page(report)
    page.focus("[data-figure=shares] .direction")
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('aria-label').split(': Population')[0]"
    names = names_drawn(page, "shares")
    assert page.evaluate(focused) == names[0]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focused) == names[2]
    assert page.locator(".tip").inner_text().startswith(names[2])
    page.keyboard.press("End")
    assert page.evaluate(focused) == names[-1]
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_every_stop_of_the_tab_key_can_be_seen(open_page, report):
    page = open_page(report)
    for _ in range(40):
        page.keyboard.press("Tab")
        seen = page.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(e);
            const hit = e.querySelector?.('.hit');
            return e === document.body || s.outlineStyle !== 'none'
                || (hit && getComputedStyle(hit).stroke !== 'none'); }""")
        assert seen


def test_hostile_names_are_text(open_page, report):
    page = open_page(report)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert set(HOSTILE[:3]) <= set(names_drawn(page, "shares"))


def test_without_javascript_sentences_and_tables_are_there(open_page, report):
    page = open_page(report, script=False)
    assert page.locator(".verdict").is_visible()
    shares, under_other_labeling = page.locator("#shares table").all()
    assert shares.is_visible()
    assert under_other_labeling.is_visible()
    assert page.locator("#shifts table").is_hidden()
    page.locator("#shifts > details > summary").click()
    assert page.locator("#shifts table").is_visible()
    assert page.locator("#search").is_hidden()


def test_5000_groups_are_paged_searched_and_drawn_at_once(open_page, long_report):
    page = open_page(long_report)
    first = names_drawn(page, "shares")
    assert len(first) == 50
    assert page.locator("[data-figure=shares] .where").inner_text() == "1\u201350 of 5,000"
    page.click("[data-figure=shares] .forth")
    assert not set(names_drawn(page, "shares")) & set(first)
    page.click("[data-figure=shares] .overview", position={"x": 900, "y": 40})
    assert (
        int(page.locator("[data-figure=shares] .where").inner_text().split("\u2013")[0].replace(",", ""))
        > 3_000
    )
    page.fill("#search", "tract 0004321")
    assert names_drawn(page, "shares") == ["Census tract 0004321"]
    page.fill("#search", "")
    page.fill("#search", "4")
    # Thousands of groups match; what is drawn anew at every key, and so the time it takes, stays a page of them.
    assert int(page.locator("#found").inner_text().split(" of ")[0].replace(",", "")) > 1_000
    for figure in ("shares", "shifts", "gain"):
        assert len(names_drawn(page, figure)) == 50


def test_sections_are_folded_and_a_link_opens_one(open_page, report):
    page = open_page(report, unfolded=False)
    assert page.locator("#shares .row").count() == 12
    assert page.locator("[data-figure=shifts]").is_hidden()
    page.locator("nav a[href='#shifts']").click()
    page.wait_for_selector("[data-figure=shifts] .row", state="visible")
    assert page.locator("#held-out .panels").is_hidden()


def test_the_narrow_interval_lies_inside_the_wide_one(open_page, report):
    page = open_page(report, unfolded=False)
    ends = page.evaluate("""() => [...document.querySelectorAll('[data-figure=shares] .row')].map((row) =>
        ['interval', 'narrow'].map((kind) => ['x1', 'x2'].map((x) => Number(row.querySelector('.' + kind).getAttribute(x)))))""")
    assert len(ends) == 12
    for (low, high), (narrow_low, narrow_high) in ends:
        assert low <= narrow_low <= narrow_high <= high


def test_it_prints_light_whole_and_without_controls(open_page, report):
    page = open_page(report, scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".bar").is_hidden()
    assert page.locator(".controls").first.is_hidden()
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
    assert page.pdf().startswith(b"%PDF")
