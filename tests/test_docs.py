"""Pages of the guide tell the truth: their snippets and examples run, and the list of public names is complete."""

import contextlib
import io
import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest

import groupshift
import groupshift.datasets

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Pages with snippets that need what a test has not: a cluster, a release.
NOT_RUN = {"explanation/distributed.md", "releasing.md"}
PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if "_build" not in page.parts and BLOCK.search(page.read_text(encoding="utf-8"))
)
EXAMPLES = sorted(path.name for path in (DOCS / "examples").glob("*.py"))

pytestmark = pytest.mark.skipif(not PAGES, reason="docs/ is not part of an installed package")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOT_RUN])
def test_snippets_of_a_page_run_one_after_the_other(page, small, monkeypatch):
    pytest.importorskip("pandas")
    if "larger_than_memory" in page:
        pytest.importorskip("dask.dataframe")
        pytest.importorskip("lightgbm")
        # One process, as small as the data; tests/test_distributed.py trains LightGBM on two.
        cluster = pytest.importorskip("dask.distributed").LocalCluster
        monkeypatch.setattr(
            "dask.distributed.LocalCluster", lambda **settings: cluster(**settings | {"n_workers": 1})
        )
        # What LightGBM and Dask say to each other, and sockets that a cluster closes late, are not the page's.
        warnings.filterwarnings("ignore", "Parameter n_jobs will be ignored")
        warnings.filterwarnings("ignore", category=ResourceWarning)
    text = (DOCS / page).read_text(encoding="utf-8")
    namespace = {"__name__": "page"}
    for found in BLOCK.finditer(text):
        # Empty lines in front make a traceback name the line of the page.
        lines_before = text.count("\n", 0, found.start(1))
        code = compile("\n" * lines_before + found.group(1), page, "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, namespace)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_shows_something(name, small):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    pyplot.switch_backend("Agg")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(DOCS / "examples" / name), run_name="__main__")
        assert printed.getvalue() or pyplot.get_fignums()
    finally:
        pyplot.close("all")


def test_every_public_name_is_justified_on_the_reference_page():
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    public = [*groupshift.__all__, *groupshift.datasets.__all__]
    assert [name for name in public if not re.search(rf"\b{name}\b", text)] == []


def test_every_documented_name_is_justified_on_the_reference_page():
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md")]
    documented = re.findall(r"^\.\. auto\w+:: ([\w.]+)", "\n".join(pages), re.MULTILINE)
    assert len(documented) > 20
    assert [name for name in documented if not re.search(rf"[`<~]{re.escape(name)}[`>]", text)] == []


def test_errors_that_the_questions_quote_are_those_of_the_code():
    table = (DOCS / "faq.md").read_text(encoding="utf-8").split("## Common errors")[1]
    quoted = re.findall(r'^\| [^|"]*"([^"|]+)"', table, re.MULTILINE)
    assert len(quoted) > 6
    files = Path(groupshift.__file__).parent.rglob("*.py")
    # A sentence may be broken into several pieces of text.
    source = re.sub(r'"\s*f?"', "", "".join(path.read_text(encoding="utf-8") for path in files))
    assert [words for words in quoted if words not in source] == []


def test_the_reference_shows_the_help_of_every_command_that_there_is(monkeypatch):
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from build_parts import command_pages

    from groupshift.cli.app import app

    named = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert {"fit", "explain", "compare"} <= set(named)
    shown = re.findall(r"^## groupshift ?(.*)$", command_pages(), flags=re.MULTILINE)
    assert shown == ["", *named]


def test_every_method_by_name_is_described():
    text = (DOCS / "reference" / "classifier.md").read_text(encoding="utf-8")
    assert re.findall(r'^\| `"(\w+)"`', text, re.MULTILINE) == [*groupshift.METHODS]


def test_figures_and_outputs_on_the_pages_come_from_an_example():
    made = {Path(name).stem for name in EXAMPLES} | {"cli"}
    used = {
        re.sub(r"-\d+$", "", name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"_build/parts/([\w-]+)\.", page.read_text(encoding="utf-8"))
    }
    assert used <= made
    # And no example runs in the build for nothing.
    assert made <= used


def test_markers_that_pages_cut_examples_at_exist():
    for page in DOCS.rglob("*.md"):
        cuts = re.findall(r"literalinclude\} (\S+\.py)\n((?::.*\n)+)", page.read_text(encoding="utf-8"))
        for script, options in cuts:
            lines = (page.parent / script).read_text(encoding="utf-8").splitlines()
            for marker in re.findall(r'"(# --- \w+)"', options):
                assert lines.count(marker) == 1, (page.name, marker)


@pytest.mark.parametrize(
    ("link", "broken"),
    [("b.html", 0), ("b.html#there", 0), ("c.html", 1), ("b.html#nowhere", 1), ("https://example.org/x", 0)],
)
def test_link_check_finds_links_that_lead_nowhere(tmp_path, monkeypatch, link, broken):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from check_links import broken_links

    (tmp_path / "a.html").write_text(f'<a href="{link}">x</a>', encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="there">y</p>', encoding="utf-8")
    assert len(broken_links(tmp_path)) == broken


def test_attributes_and_modules_that_pages_name_are_in_the_reference():
    prose = {
        page: re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
    }
    reference = "".join(text for page, text in prose.items() if page.parent.name == "reference")
    reference += groupshift.GroupShiftClassifier.__doc__
    for page, text in prose.items():
        named = set(re.findall(r"`(?:model\.)?(?<!\w)([a-z]\w*_)(?:\[[^`]*\]|\.\w+)?`", text))
        named |= set(re.findall(r"`groupshift\.([a-z]\w+)", text)) - {"toml"}  # a file of settings
        assert [name for name in named if not re.search(rf"\b{name}\b", reference)] == [], page.name


def test_every_symbol_has_one_meaning_and_it_is_in_the_table():
    table = (DOCS / "explanation" / "paper.md").read_text(encoding="utf-8").split("## Theorem 2")[0]
    known = set(re.findall(r"\\?[A-Za-z]+", " ".join(re.findall(r"\{math\}`([^`]*)`", table))))
    # Letters of rows, groups, clusters and classes, operations, and what a page defines where it uses it.
    known |= {
        "i",
        "j",
        "E",
        "H",
        "p",
        "D",
        "C",
        "n",
        r"\sum",
        r"\exp",
        r"\log",
        r"\le",
        r"\lambda",
        r"\tau",
        r"\hat",
    }
    for page in (DOCS / "explanation").glob("*.md"):
        formulas = " ".join(re.findall(r"\{math\}`([^`]*)`", page.read_text(encoding="utf-8")))
        assert set(re.findall(r"\\?[A-Za-z]+", formulas)) <= known, page.name
