"""Keeps pictures in docs/images: of the top of a report, and of each screen of the page, in a real browser as the tutorial goes.

python docs/make_screens.py
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from playwright.sync_api import Page, sync_playwright

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_survey
from groupshift.tables.files import write_table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
IMAGES = Path(__file__).parent / "images"
WIDE, NARROW = {"width": 1300, "height": 900}, {"width": 400, "height": 800}


def write_files(folder: Path) -> None:
    """Volunteers of a survey, the people of its states, and those of a later month."""
    sample = make_survey(
        n_groups=16, labeled_per_group=80, unlabeled_per_group=240, backend="pyarrow", random_state=1
    )
    table = sample.X.append_column("state", [sample.groups])
    table = table.add_column(0, "person", pa.array([f"P{i}" for i in range(len(table))]))
    opinion = pa.array(np.where(sample.truth == 1, "yes", "no"))
    rest = ~sample.labeled
    later = rest & (np.arange(len(rest)) % 3 == 0)
    labeled = table.append_column("in_favor", opinion).filter(pa.array(sample.labeled))
    write_table(labeled, folder / "volunteers.csv")
    write_table(table.filter(pa.array(rest & ~later)), folder / "people.csv")
    write_table(table.filter(pa.array(later)), folder / "people_june.csv")


def write_survey_report(path: Path) -> None:
    """The report of a survey of fifty states."""
    survey = make_survey(n_groups=50, labeled_per_group=200, backend="pandas", random_state=0)
    people = survey.X.assign(state=survey.groups)
    model = GroupShiftClassifier(group="state", random_state=0).fit(people, survey.y)
    model.report(path, title="Support for the new railway, by state")


def take(page: Page, name: str, height: int = 900) -> None:
    """A picture of the first so many pixels of a screen."""
    page.set_viewport_size({**page.viewport_size, "height": height})
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=IMAGES / f"{name}.png")
    page.set_viewport_size({**page.viewport_size, "height": 900})


def main() -> None:
    from browsers import ARGUMENTS, CHROMIUM
    from serve_pages import served

    with tempfile.TemporaryDirectory() as made, served() as served_page, sync_playwright() as driver:
        folder = Path(made)
        write_files(folder)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(viewport=WIDE, color_scheme="light")
        context.set_default_timeout(120_000)
        page = context.new_page()
        write_survey_report(folder / "report.html")
        page.goto((folder / "report.html").as_uri())
        take(page, "report", 1500)
        page.goto(served_page.address)
        page.set_input_files("#file-labeled", folder / "volunteers.csv")
        page.set_input_files("#file-population", folder / "people.csv")
        take(page, "serve_files", 640)
        page.click("text=Look at the files")
        page.wait_for_selector("html.drawn #columns tbody tr")
        page.wait_for_selector("#command:has-text('--target')")
        take(page, "serve_columns", 1700)
        page.click("#fit")
        page.wait_for_selector("#steps li >> nth=3")
        take(page, "serve_progress", 640)
        page.wait_for_selector("#shares tbody tr")
        take(page, "serve_answer", 2100)
        page.set_input_files("#file-population", folder / "people_june.csv")
        page.click("#update button")
        page.wait_for_selector("#moved")
        page.wait_for_selector("#shares tbody tr")
        take(page, "serve_update", 1000)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(NARROW)
        take(page, "serve_narrow", 1100)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)
        page.click(".brand")
        take(page, "serve_jobs", 760)
        browser.close()


if __name__ == "__main__":
    main()
