"""The page in a real browser: from two files to shares and back through an update, whatever is in the files."""

import os
import shlex
import shutil
import signal

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("starlette", reason="the page needs the extra serve")

from browsers import CHROMIUM, luminance
from class_samples import draw_table
from cli_files import survey_tables, write_table
from groupshift.cli.errors import run
from groupshift.tables.files import write_whole
from serve_pages import served, workers_of

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no browser: install Debian's chromium to run these tests"
)
HOSTILE = "<img src=x onerror=window.pwned=1>"
SCRIPT = "</script><script>window.pwned=2</script>"
SIZES = {"desktop": (1300, 900), "phone": (400, 800)}
# Much more than any step here takes on an idle machine.
PATIENCE = 60_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def page(folder):
    with served("--folder", folder) as page:
        yield page


@pytest.fixture(scope="module")
def window(browser):
    context = browser.new_context(viewport=dict(zip(("width", "height"), SIZES["desktop"], strict=True)))
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def tab(window, page):
    """A tab whose every request goes to the page, in which nothing foreign runs and nothing is complained of."""
    tab = window.new_page()
    told, asked = [], []
    tab.on("console", lambda message: told.append(message.text))
    tab.on("pageerror", lambda error: told.append(str(error)))
    tab.on("dialog", lambda dialog: told.append("dialog"))
    tab.on("request", lambda request: asked.append(request.url))
    yield tab
    assert tab.evaluate("window.pwned") is None
    assert told == []
    assert [url for url in asked if not url.startswith(page.address)] == []
    tab.close()


def hostile(table):
    """Names that would run if they were taken for markup: of columns, of groups, of classes."""
    groups = np.array(table["state"].to_pylist())
    groups = np.where(groups == "Alaska", HOSTILE, np.where(groups == "Arizona", "=1+1", groups))
    table = table.set_column(table.column_names.index("state"), "state", pa.array(groups))
    names = {"age": f"age, {HOSTILE}", "work": SCRIPT}
    if "in_favour" in table.column_names:
        values = np.where(np.array(table["in_favour"].to_pylist()) == "yes", "yes", "<b>no</b>")
        table = table.set_column(table.column_names.index("in_favour"), "in_favour", pa.array(values))
    return table.rename_columns([names.get(name, name) for name in table.column_names])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Labelled, population and new rows; a labelled file that takes long to fit; and one that is broken."""
    folder = tmp_path_factory.mktemp("files")
    names = ("labeled.csv", "population.csv", "new.xlsx")
    for name, table in zip(names, survey_tables(), strict=True):
        write_table(hostile(table), folder / name)
    os.rename(folder / "labeled.csv", folder / f"{HOSTILE}.csv".replace("/", ""))
    rng = np.random.default_rng(0)
    rows = {f"x{i}": rng.normal(size=10_000) for i in range(8)}
    rows |= {"state": rng.integers(0, 20, 10_000).astype(str), "y": rng.integers(0, 2, 10_000)}
    write_table(pa.table(rows), folder / "slow.csv")
    write_whole(folder / "broken.parquet", b"PAR1 and then nothing")
    return folder


def drop(tab, slot, path):
    """A file dropped on its place, as the browser tells the page of it; a large one is chosen, which is quicker."""
    if path.stat().st_size > 100_000:
        tab.set_input_files(f"#file-{slot}", path)
        return
    moved = tab.evaluate_handle(
        """([name, bytes]) => { const moved = new DataTransfer();
            moved.items.add(new File([new Uint8Array(bytes)], name)); return moved; }""",
        [path.name, list(path.read_bytes())],
    )
    tab.dispatch_event(f"[data-slot={slot}]", "drop", {"dataTransfer": moved})


def look(tab, page, *paths):
    """From the first page to the columns."""
    tab.goto(page.address)
    for slot, path in zip(("labeled", "population"), paths, strict=False):
        drop(tab, slot, path)
    tab.click("text=Look at the files")
    tab.wait_for_selector("html.drawn #columns tbody tr")
    return tab.url.rsplit("/", 1)[-1]


def role_of(tab, column):
    return tab.get_by_role("group", name=f"Role of {column}", exact=True)


def lines(tab):
    return tab.eval_on_selector_all(
        "#shares tbody tr:not(.marked)",
        "(all) => all.map((tr) => [...tr.children].map((td) => td.textContent))",
    )


# What can be operated, without a name; and texts with their colour and what lies behind them.
UNNAMED = """() => [...document.querySelectorAll('input, select, button, a[href], progress, [tabindex="0"]')]
    .filter((e) => e.checkVisibility() && !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')
        || e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML)"""
COLOURS = """() => [...document.querySelectorAll('main *, header *')]
    .filter((e) => e.checkVisibility() && !e.closest('svg, option')
        && [...e.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()))
    .map((e) => {
        const painted = (x) => getComputedStyle(x).backgroundColor;
        let behind = e;
        while (behind !== document.body && /, 0\\)/.test(painted(behind))) behind = behind.parentElement;
        return [e.textContent.trim().slice(0, 30), getComputedStyle(e).color, painted(behind)];
    })"""


def examine(tab):
    """A screen by keyboard and reader, wide and narrow, light and dark."""
    # Before its styles are there, a page has no colours of its own.
    tab.wait_for_load_state("load")
    assert tab.evaluate(UNNAMED) == []
    assert tab.locator("h1").count() == 1
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for text, *colours in tab.evaluate(COLOURS):
            dim, bright = sorted(map(luminance, colours))
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (scheme, text, colours)
    for width, height in SIZES.values():
        tab.set_viewport_size({"width": width, "height": height})
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    tab.evaluate("document.activeElement.blur()")
    for _ in range(12):
        tab.keyboard.press("Tab")
        assert tab.evaluate("""() => { const e = document.activeElement;
            const seen = (x) => x && getComputedStyle(x).outlineStyle !== 'none';
            return e === document.body || seen(e) || seen(e.nextElementSibling); }""")
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size(dict(zip(("width", "height"), SIZES["desktop"], strict=True)))


def test_from_two_files_to_shares_and_back_through_an_update(tab, page, files, folder, tmp_path, monkeypatch):
    job = look(tab, page, files / f"{HOSTILE}.csv".replace("/", ""), files / "population.csv")
    assert role_of(tab, "in_favour").get_by_label("target").is_checked()
    assert role_of(tab, "state").get_by_label("group").is_checked()
    assert role_of(tab, "person").get_by_label("leave out").is_checked()
    assert "looks like an id" in tab.inner_text("#columns")
    # A role by one click is another look and another command; names with commas are in quotes.
    role_of(tab, f"age, {HOSTILE}").get_by_label("leave out").check(force=True)
    tab.wait_for_selector("#command:has-text('--exclude')")
    tab.check("text=As a random sample")
    tab.click("text=Add a group")
    tab.get_by_label("Group", exact=True).fill("Alabama")
    tab.get_by_label("Share in percent").fill("61,5")
    tab.get_by_label("Standard error").fill("2")
    tab.press("[aria-label^='Standard error']", "Tab")
    tab.wait_for_selector("#command:has-text('--known-shares')")
    tab.fill("#overall", "52.5 %")
    tab.press("#overall", "Tab")
    tab.wait_for_selector("#command:has-text('--known-overall 0.525')")
    examine(tab)
    tab.click("#fit")
    tab.wait_for_selector("#steps li")
    examine(tab)
    tab.wait_for_selector("#shares tbody tr")
    examine(tab)

    # All groups, as text; sorted and searched.
    assert {line[0] for line in lines(tab)} >= {HOSTILE, "=1+1", "Alabama"}
    shares = [float(line[1].split()[0]) for line in lines(tab)]
    assert shares == sorted(shares, reverse=True)
    tab.click("#shares th[data-name=share] button")
    assert [float(line[1].split()[0]) for line in lines(tab)] == shares[::-1]
    tab.fill("#search", "ONERROR")
    assert [line[0] for line in lines(tab)] == [HOSTILE]
    assert tab.inner_text("#found") == "1 of 6 groups"
    # What nobody can know is drawn; what the data or known rates settle is not.
    if tab.locator("#map").count():
        assert tab.locator("#map circle").count() == 6
        assert "would be positive instead of" in tab.inner_text("#map-words")
    assert 58 < next(float(line[1].split()[0]) for line in all_lines(tab) if line[0] == "Alabama") < 65

    # The command line that is shown makes the same shares of the same files.
    there = folder / job / "files"
    for name in ["population.csv", "known_shares.csv", *[path.name for path in there.glob("_img*")]]:
        os.link(there / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for line in tab.inner_text("#command").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "groupshift"
        if arguments[0] != "report":
            assert run(arguments) == 0
    assert (tmp_path / "shares.csv").read_bytes() == (there / "shares.csv").read_bytes()
    with tab.expect_download() as taken:
        tab.click("text=Shares (CSV)")
    assert taken.value.path().read_bytes() == (there / "shares.csv").read_bytes()

    # An update: a file, a click, and what moved.
    with tab.expect_download() as taken:
        tab.click("text=Shares (Excel)")
    assert taken.value.path().read_bytes().startswith(b"PK")
    drop(tab, "population", files / "new.xlsx")
    tab.click("#update button")
    tab.wait_for_selector("#moved")
    tab.wait_for_selector("#shares tbody tr")
    assert "The overall share went from" in tab.inner_text("main")
    change = [abs(float(line[6].replace("\u2212", "-"))) for line in lines(tab)]
    assert change == sorted(change, reverse=True)
    tab.click("text=Make predictions (CSV)")
    tab.wait_for_selector("a:has-text('Predictions (CSV)')")
    with tab.context.expect_page() as opened:
        tab.click("text=Open the report")
    opened.value.wait_for_selector("html.drawn")
    assert opened.value.evaluate("window.pwned") is None
    assert opened.value.evaluate("self.origin") == "null"
    opened.value.close()
    tab.click(".brand")
    examine(tab)
    assert tab.locator(".jobs li").count() >= 2


def all_lines(tab):
    tab.fill("#search", "")
    return lines(tab)


def test_a_broken_file_is_a_sentence_and_another_takes_its_place(tab, page, files):
    tab.goto(page.address)
    drop(tab, "labeled", files / "broken.parquet")
    drop(tab, "population", files / "population.csv")
    tab.click("text=Look at the files")
    assert "broken.parquet begins like Parquet but" in tab.inner_text("[role=alert]:not([hidden])")
    drop(tab, "labeled", files / "slow.csv")
    tab.click("text=Look at the files")
    tab.wait_for_selector("html.drawn #columns tbody tr")
    assert "slow.csv" in tab.inner_text("#sizes")


def test_a_fit_is_stopped_and_a_killed_one_is_a_sentence_while_a_second_waits(tab, page, files):
    job = look(tab, page, files / "slow.csv")
    role_of(tab, "y").get_by_label("target").check(force=True)
    tab.click("#fit")
    tab.wait_for_selector("#steps li >> nth=2")
    second = page.new_job(labeled=("second.csv", b"y,x\n1,2\n0,3\n"))
    page.json("POST", f"jobs/{second}/start/look")
    waits = page.json("GET", f"jobs/{second}/state")[1]
    assert waits["status"] == "waiting"
    assert waits["sentence"].startswith("Waits: the work on slow.csv comes first")
    tab.click("#stop")
    tab.wait_for_selector("[role=alert]:has-text('Stopped.')")
    # Nothing is lost: the roles are as they were, and the fit begins again.
    tab.wait_for_selector("html.drawn #columns tbody tr")
    assert role_of(tab, "y").get_by_label("target").is_checked()
    assert page.wait(second, "look")["status"] == "done"
    tab.click("#fit")
    tab.wait_for_selector("#steps li >> nth=1")
    [worker] = workers_of(page)
    os.kill(worker, signal.SIGKILL)
    tab.wait_for_selector("[role=alert]:has-text('unexpected end (signal 9')")
    assert page.json("GET", f"jobs/{job}/state")[1]["screen"] == "columns"
    assert tab.locator("#fit").is_enabled()


def test_a_second_visit_finds_the_jobs_of_the_folder(tab, page, files, folder, tmp_path):
    made = page.new_job(labeled=("again.csv", b"y,x\n1,2\n0,3\n"))
    jobs = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert made in jobs
    copy = tmp_path / "jobs"
    shutil.copytree(folder, copy)
    with served("--folder", copy) as again:
        listed = again.ask("GET", "")[2].decode()
    assert all(f"jobs/{job}" in listed for job in jobs)
    tab.goto(page.address)


def test_several_classes_from_files_to_shares_and_an_update(tab, page, tmp_path):
    X, y, groups, _ = draw_table(n_groups=4, n_classes=3, labeled=40, unlabeled=60)
    names = {"class a": "red", "class b": HOSTILE, "class c": "blue", None: None}
    is_known = np.array([label is not None for label in y])
    columns = {name: X[:, i] for i, name in enumerate("abc")} | {"town": groups}
    table = pa.table({**columns, "party": pa.array([names[label] for label in y])})
    write_table(table.filter(pa.array(is_known)), tmp_path / "labeled.csv")
    write_table(table.filter(pa.array(~is_known)).drop_columns(["party"]), tmp_path / "population.csv")
    look(tab, page, tmp_path / "labeled.csv", tmp_path / "population.csv")
    role_of(tab, "party").get_by_label("target").check(force=True)
    role_of(tab, "town").get_by_label("group").check(force=True)
    tab.wait_for_selector("#command:has-text('--group town')")
    tab.wait_for_selector("#notes li:has-text('each of which is a class')")
    tab.wait_for_selector("#sizes:has-text('red')")
    tab.click("#fit")
    tab.wait_for_selector("#shares tbody tr")
    examine(tab)
    assert tab.inner_text("h1") == "Shares of party by town"
    heads = tab.eval_on_selector_all("#shares thead th", "(all) => all.map((th) => th.textContent)")
    assert heads == ["Group ↑", HOSTILE, "blue", "red", "Rows"]
    for line in all_lines(tab):
        assert abs(sum(float(cell.split()[0]) for cell in line[1:4]) - 100) < 0.2
    tab.click("#shares th[data-name='class 1'] button")
    shares = [float(line[2].split()[0]) for line in lines(tab)]
    assert shares == sorted(shares, reverse=True)
    drop(tab, "population", tmp_path / "population.csv")
    tab.click("#update button")
    tab.wait_for_selector("#moved")
    assert f"The overall share of {HOSTILE} went from" in tab.inner_text("main")
    with tab.context.expect_page() as opened:
        tab.click("text=Open the report")
    opened.value.wait_for_selector(".map td", state="attached")  # in a folded section
    assert opened.value.evaluate("window.pwned") is None
    opened.value.close()
