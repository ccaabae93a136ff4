"""Notebooks are their tutorials: the same words, the same code, and they run from top to bottom."""

import contextlib
import importlib.util
import io
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.skipif(not NOTEBOOKS, reason="docs/ is not part of an installed package")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_notebooks", DOCS / "make_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_tutorial_with_a_script_has_a_notebook(maker):
    pages = {path.stem for path in (DOCS / "tutorials").glob("*.md")}
    scripts = {path.stem for path in (DOCS / "examples").glob("*.py")}
    assert set(maker.NAMES) == pages & scripts == {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_that_of_its_page(path, maker):
    # Run `python docs/make_notebooks.py` after a change of a tutorial or of its script.
    assert path.read_text(encoding="utf-8") == maker.notebook(path.stem)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_code_of_a_notebook_is_that_of_the_script(path):
    # All of it but what only the page needs, behind the last mark.
    script = (DOCS / "examples" / path.name).with_suffix(".py").read_text(encoding="utf-8")
    parts = script.split("# --- end")[0].split("# --- data\n")[1].splitlines()
    wanted = [line for line in parts if line.strip() and not line.startswith("# --- ")]
    assert [line for line in "\n".join(code_cells(path)).splitlines() if line.strip()] == wanted


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_reads(path):
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert (whole["nbformat"], whole["metadata"]["kernelspec"]["name"]) == (4, "python3")
    ids = [cell["id"] for cell in whole["cells"]]
    assert len(set(ids)) == len(ids)
    assert {cell["cell_type"] for cell in whole["cells"]} == {"markdown", "code"}
    words = "".join("".join(cell["source"]) for cell in whole["cells"] if cell["cell_type"] == "markdown")
    assert "```{" not in words
    assert "_build" not in words


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, small):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    pyplot.switch_backend("Agg")
    namespace = {"__name__": "__main__"}
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            for code in code_cells(path):
                exec(compile(code, path.name, "exec"), namespace)
    finally:
        pyplot.close("all")
    assert "model" in namespace
    assert printed.getvalue()


def code_cells(path):
    whole = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in whole["cells"] if cell["cell_type"] == "code"]
