"""Pages of the guide tell the truth: their snippets and examples run, and the list of public names is complete."""

import ast
import contextlib
import io
import re
import runpy
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import groupshift
import groupshift.datasets

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def own(page):
    """Whether a file of the folder is written by hand: builds leave others in it."""
    return not {"_build", "gallery", "generated"} & set(page.parts)


# Pages with snippets that need what a test has not: a cluster, a release.
NOT_RUN = {"explanation/distributed.md", "releasing.md"}
PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if own(page) and BLOCK.search(page.read_text(encoding="utf-8"))
)
EXAMPLES = sorted(path.name for path in (DOCS / "examples").glob("*.py"))

pytestmark = pytest.mark.skipif(not PAGES, reason="docs/ is not part of an installed package")


@pytest.fixture(autouse=True, scope="module")
def types_that_may_be_saved():
    """skops lists scikit-learn's classes when it is imported: before `small` replaces one of them."""
    with contextlib.suppress(ImportError):
        import_module("skops.io")


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


def listed():
    """Names that have a page of the reference, without `groupshift.`."""
    page = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    return re.findall(r"^   ([a-z]+\.\w+|[A-Za-z]\w+)$", page, re.MULTILINE)


def test_every_public_name_has_a_page_of_the_reference():
    public = [*groupshift.__all__] + [
        f"{part}.{name}"
        for part in ("datasets", "theory")
        for name in import_module(f"groupshift.{part}").__all__
    ]
    assert [name for name in public if name not in listed()] == ["METHODS"]  # its table is on the page


def test_names_of_the_reference_exist_and_are_documented():
    for name in listed():
        found = groupshift
        for part in name.split("."):
            found = getattr(found, part, None) or import_module(f"groupshift.{part}")
        assert found.__doc__, name


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
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r'^\| `"(\w+)"`', text, re.MULTILINE) == [*groupshift.METHODS]


def test_outputs_on_the_pages_come_from_a_script_that_is_not_in_the_gallery():
    made = {Path(name).stem for name in EXAMPLES if not name.startswith("plot_")} | {"cli"}
    used = {
        re.sub(r"-\d+$", "", name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"_build/parts/([\w-]+)\.", page.read_text(encoding="utf-8"))
    }
    # None is missing, and none runs in the build for nothing.
    assert used == made


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


def words(text):
    """How many words of prose a page has, without code, tables, directives, addresses and what scripts fill in."""
    text = re.sub(r"<!-- (\w+):begin -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```\{glossary\}\n(.*?)^```", r"\1", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\|.*$|^:+.*$|`[^`]*`", "", text, flags=re.MULTILINE)
    return len(re.findall(r"[A-Za-zÀ-ÿ][\w'-]*", re.sub(r"\]\([^)]*\)", "]", text)))


def test_words_of_prose_are_counted():
    assert (
        words("One [two](three.md).\n\n| four |\n```python\nfive\n```\n<!-- a:begin -->six<!-- a:end -->")
        == 2
    )


def test_the_pages_have_at_most_ten_thousand_words():
    # The transcript is output; the list of literature is no prose.
    pages = [p for p in DOCS.rglob("*.md") if p.stem not in ("transcript", "bibliography") and own(p)]
    counted = {page.relative_to(DOCS).as_posix(): words(page.read_text(encoding="utf-8")) for page in pages}
    for script in (DOCS / "examples").glob("plot_*.py"):
        text = script.read_text(encoding="utf-8")
        shown = [ast.get_docstring(ast.parse(text)), *re.findall(r"^# (.*)", text, re.MULTILINE)]
        counted[script.name] = words("\n".join(shown))
    assert sum(counted.values()) <= 10_000, sorted(counted.items(), key=lambda item: -item[1])[:10]


# Pages that are being rewritten: when they are in, this goes.
REWRITTEN = {
    f"docs/{page}.md"
    for page in (
        *("tutorials/audit", "tutorials/flights", "tutorials/page", "howto/audit", "howto/files"),
        *("howto/larger_than_memory", "howto/monthly_refresh", "howto/reading_the_diagnosis"),
        *(
            "explanation/article",
            "explanation/cannot_know",
            "explanation/differences",
            "explanation/distributed",
        ),
        *("explanation/figures", "explanation/paper", "explanation/theorem_one"),
    )
}
WRITTEN = [
    page
    for page in DOCS.rglob("*.md")
    if own(page) and page.stem != "transcript" and page.relative_to(ROOT).as_posix() not in REWRITTEN
]


# British spellings, by the stems that differ. Identifiers, quoted messages and code are left alone.
BRITISH = re.compile(
    r"(?i)\b(?:\w*(?:labell|modell|travell|cancell(?!ation)|signall)(?:ed|ing|er)\w*|\w*(?:behavi|fav|col|neighb|hon|lab|rum)our\w*|"
    r"(?:standard|regular|general|maxim|minim|optim|summar|memor|recogn|real|normal|organ|penal|random|character|emphas|"
    r"local|special|util|visual|initial|categor|poster|anonym|harmon|stabil|factor|parallel|vector|serial|equal)is(?:e|es|ed|ing|ation|ations)|"
    r"analys(?:e|ed|es|ing)|centr(?:e|es|ed)|grey|licences?|programme|towards|metres?|judgement|catalogue|whilst|artefacts?)\b"
)


def test_the_spelling_finder_finds_british_words():
    text = "Labelled unlabelled rows, coloured; we summarise, analyse and centre, towards a neighbour."
    assert len(BRITISH.findall(text)) == 8
    assert not BRITISH.findall(
        "Labeled rows, exercise, precise, four hours, our labels, otherwise, comprised."
    )


@pytest.mark.parametrize(
    "page",
    [
        *(p.relative_to(ROOT).as_posix() for p in WRITTEN),
        *(p.relative_to(ROOT).as_posix() for p in (DOCS / "examples").glob("*.py")),
        *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
    ],
)
def test_pages_have_american_spelling(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".md"):
        text = re.sub(r"<!-- (\w+):begin -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
        text = re.sub(r"^```(?!\{glossary).*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r'`[^`\n]*`|\]\([^)]*\)|"[^"\n]*"', "", text)
    assert BRITISH.findall(prose) == []


# Stems of the words of the method before: pages that speak of them speak of what is not there.
GONE = re.compile(
    r"\b(?:the judge|three views|view_use_|refinement|refine=|hidden labels|gates|trust_variance_)\b"
)


@pytest.mark.parametrize(
    "page",
    [
        *(p.relative_to(ROOT).as_posix() for p in WRITTEN),
        *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"),
    ],
)
def test_pages_name_nothing_of_the_method_before(page):
    assert GONE.findall((ROOT / page).read_text(encoding="utf-8")) == []


def test_attributes_and_modules_that_pages_name_are_in_the_reference():
    prose = {
        page: re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for page in DOCS.rglob("*.md")
        if own(page)
    }
    reference = "".join(text for page, text in prose.items() if page.parent.name == "reference")
    reference += "".join(
        (value.__doc__ or "")
        for value in (groupshift.GroupShiftClassifier, *vars(groupshift.GroupShiftClassifier).values())
    )
    for page, text in prose.items():
        named = set(re.findall(r"`(?:model\.)?(?<!\w)([a-z]\w*_)(?:\[[^`]*\]|\.\w+)?`", text))
        named |= set(re.findall(r"`groupshift\.([a-z]\w+)", text)) - {"toml"}  # a file of settings
        assert [name for name in named if not re.search(rf"\b{name}\b", reference)] == [], page.name


def test_every_symbol_has_one_meaning_and_it_is_in_the_table():
    page = (DOCS / "explanation" / "article.md").read_text(encoding="utf-8")
    table = "".join(re.findall(r"^\|.*$", page, re.MULTILINE))
    known = set(re.findall(r"\\?[A-Za-z]+", " ".join(re.findall(r"\{math\}`([^`]*)`", table))))
    # Letters of rows, groups, clusters and classes, operations, and what a page defines where it uses it.
    known |= {
        *("c", "d", "f", "h", "v", "w", "z", "q", "y", "x", "m", "L", "U", "g", "k"),
        *("gk", "o", "AUC", r"\overline", r"\delta", r"\operatorname", "logit"),
        "i",
        "j",
        "E",
        "H",
        "p",
        "D",
        "C",
        "n",
        "m",
        "d",
        r"\sum",
        r"\prod",
        r"\exp",
        r"\log",
        r"\le",
        r"\lambda",
        r"\tau",
        r"\hat",
    }
    for page in (DOCS / "explanation").glob("*.md"):
        if page.stem == "method":  # it defines every symbol that it uses
            continue
        formulas = " ".join(re.findall(r"\{math\}`([^`]*)`", page.read_text(encoding="utf-8")))
        assert set(re.findall(r"\\?[A-Za-z]+", formulas)) <= known, page.name
