"""Sentences of the command line on a page: the same ones, with what is clicked in place of what is typed."""

from __future__ import annotations

import re
from pathlib import Path

# What an option is called on the page.
CLICKED = {
    "exclude": "leave out",
    "features": "feature",
    "group": "group",
    "target": "target",
    "weight": "weight",
    "example-id": "same example",
    "positive": "positive value",
    "class": "class",
    "known-shares": "known shares",
    "known-overall": "known overall rate",
    "labels-chosen": "how labels were chosen",
}
NAMED = "|".join(CLICKED)
# What the command line asks to type for a column that the sentence names, and what the page asks to click for it.
ASKED = (
    (re.compile(r"leave it out with --exclude"), "click “leave out”"),
    (re.compile(r"\(--exclude [^)]*\)"), "(click “leave out”)"),
    (re.compile(r"Name it in --features"), "Click “feature” in its line"),
    # The page has nothing to click for it.
    (re.compile(r"--class ('[^']*'|\S+) keeps it"), "a fit on the command line can keep it"),
)
# "add --group state" names the column that the sentence is about already.
WITH_VALUE = re.compile(rf"\badd --({NAMED}) ('[^']*'|\S+?)(?=[.,;]?(\s|$))")
ALONE = re.compile(rf"--({NAMED})\b( VALUE)?")


def on_page(sentence: str) -> str:
    """A sentence as the page says it.

    >>> on_page("'state' looks like one: if it is, add --group state. Or leave it out with --exclude?")
    "'state' looks like one: if it is, give it the role “group”. Or click “leave out”?"
    """
    for typed, clicked in ASKED:
        sentence = typed.sub(clicked, sentence)
    given = WITH_VALUE.sub(lambda found: f"give it the role “{CLICKED[found[1]]}”", sentence)
    return ALONE.sub(lambda found: f"“{CLICKED[found[1]]}”", given)


def without_paths(sentence: str, *folders: Path) -> str:
    """A sentence in which no folder of this machine is named, whatever wrote it.

    >>> without_paths("No such file: '/home/ann/jobs/1/a.csv'", Path("/home/ann/jobs/1"))
    "No such file: 'a.csv'"
    """
    for folder in sorted(map(str, folders), key=len, reverse=True):
        if len(folder) > 1:
            sentence = sentence.replace(f"{folder}/", "").replace(folder, "…")
    return sentence
