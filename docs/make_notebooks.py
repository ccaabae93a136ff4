"""Makes a notebook of each tutorial that has a script: the words of its page, and the script's parts as cells.

    python docs/make_notebooks.py

Notebooks lie in docs/notebooks and have no output: run them. `tests/test_notebooks.py` fails where one is not that of its page.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
NAMES = ("survey", "variants", "audit")
DIRECTIVE = re.compile(r"^```\{(\w+)\} (\S+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
# (kind of cell, its text)
Cell = tuple[str, str]


def main() -> None:
    (DOCS / "notebooks").mkdir(exist_ok=True)
    for name in NAMES:
        (DOCS / "notebooks" / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")


def notebook(name: str) -> str:
    """The file of a tutorial's notebook, in the format of Jupyter (nbformat 4.5)."""
    cells = [_cell(kind, text, f"{name}-{i}") for i, (kind, text) in enumerate(cells_of(name))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def cells_of(name: str) -> Iterator[Cell]:
    """Words and code in the order of the page; parts of the script that the page shows as pictures come last."""
    page = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    script = (DOCS / "examples" / f"{name}.py").read_text(encoding="utf-8")
    shown = []
    end = 0
    for found in DIRECTIVE.finditer(page):
        yield from _words(page[end : found.start()])
        end = found.end()
        if found[1] == "literalinclude" and found[2].endswith(".py"):
            shown.append(_part(script, found[3]))
            yield "code", shown[-1]
    yield from _words(page[end:])
    for part in re.findall(r"^# --- \w+\n(.*?)(?=^# --- )", script, re.MULTILINE | re.DOTALL):
        if not any(part.strip() in code for code in shown):
            yield "code", part.strip()


def _part(script: str, options: str) -> str:
    """What `literalinclude` shows of a script; marks of parts in between are for the page alone."""
    marks = dict(re.findall(r':(start-after|end-before): "(.*?)"', options))
    part = script.split(f"{marks['start-after']}\n")[1].split(marks["end-before"], maxsplit=1)[0]
    return re.sub(r"^# --- \w+\n", "", part, flags=re.MULTILINE).strip()


def _words(text: str) -> Iterator[Cell]:
    # Sentences about how the page is built are not the notebook's.
    text = re.sub(r"^The whole script:.*?\n\n", "", text.strip("\n") + "\n\n", flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\s*All output on this page is printed.*?\.(?=\s)", "", text, flags=re.DOTALL)
    # Pages of the same folder are next door.
    text = re.sub(r"\]\((\w+\.md)", r"](../tutorials/\1", text).strip()
    if text:
        yield "markdown", text


def _cell(kind: str, text: str, name: str) -> dict[str, object]:
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


if __name__ == "__main__":
    main()
