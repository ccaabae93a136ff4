"""What tests of the report share: the page as a reader meets it, and a model with much to show."""

import json
from html.parser import HTMLParser

import numpy as np
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier

SECTIONS = [
    "answer",
    "shares",
    "notes",
    "shifts",
    "drivers",
    "clusters",
    "held-out",
    "assumption",
    "candidates",
    "words",
    "data",
]


class Page(HTMLParser):
    """What a reader of the page meets: tags with attributes, text, tables."""

    def __init__(self, source: str):
        super().__init__()
        self.tags, self.tables, self.words = [], [], []
        self.inside, self.blocks = None, {}
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag in ("script", "style"):
            self.inside = attrs.get("id", tag)
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        self.inside = None
        if tag == "table":
            self.tables[-1] = {"head": self.tables[-1][0], "body": self.tables[-1][1:]}

    def handle_data(self, data):
        if self.inside is not None:
            self.blocks[self.inside] = self.blocks.get(self.inside, "") + data
            return
        self.words.append(data)
        if self.tables and isinstance(self.tables[-1], list) and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def table(self, *columns):
        return next(t for t in self.tables if set(columns) <= set(t["head"]))

    @property
    def figures(self):
        return json.loads(self.blocks["report-data"])


def five_thousand_groups(n_clusters):
    """A model of 5,000 groups with three rows each."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(5_000), 3)
    x = rng.normal(size=(len(group), 2))
    y = (x[:, 0] + rng.normal(size=len(group)) > 0).astype(int)
    y[np.arange(len(group)) % 3 > 0] = -1
    names = np.array([f"Census tract {g:07d}" for g in range(5_000)])[group]
    model = GroupShiftClassifier(LogisticRegression(), n_clusters, random_state=0)
    return model.fit(x, y, groups=names)
