"""Draws of `ablation`: a table, how labels are chosen, a number of rows and a seed give rows with and without labels.

Tables are files made by `ablation prepare`, or are generated:
    cells d4 K4             Gaussian pairs in cells; kinds s1 and s2 are the article's settings themselves
    classes C3 d4           three Gaussian classes whose shares differ between groups; "classes C3 d4 still": they do not
    made plain              groups differ a little in everything; also wide, rare (1 % positive), missing, categories, tiny groups
A name that ends in ":frame" gives a data frame with categories and missing values; otherwise all columns are numbers, missing -1.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.evidence_draws import Draw, RandomTree, as_frame, choose, direction, some_households

TEST_SHARE = 0.3  # of the examples without labels: rows that no fit sees
TINY_ROWS = 2000
FEW_GROUPS = 8
GENERATED_GROUPS = 50

REAL = [
    *("income", "employment", "ipr", "election survey", "trial", "pupils", "households", "provinces"),
    "reviews",
]
CLASSES = ["income in 3", "pupils in 3", "satimage", "penbased"]
CELLS = ["cells d1 K4", "cells d4 K4", "cells d16 K8", "cells d64 K8"]
MADE = [
    "made plain",
    "made wide",
    "made rare",
    "made missing:frame",
    "made categories:frame",
    "made tiny groups",
]
MADE_CLASSES = ["classes C2 d4", "classes C3 d4", "classes C3 d4 still"]
TABLES = {"real": REAL, "classes": CLASSES, "cells": CELLS, "made": MADE, "made classes": MADE_CLASSES}


class Table(NamedTuple):
    """All rows with their labels; missing values are NaN, categories are codes."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    example: np.ndarray
    is_category: np.ndarray

    def take(self, rows: np.ndarray) -> "Table":
        group, example = (
            np.unique(codes[rows], return_inverse=True)[1] for codes in (self.group, self.example)
        )
        return Table(self.X[rows], self.y[rows], group, example, self.is_category)


def list_draws(tables: list[str], kinds: list[str], rows: list[int], seeds: list[int]) -> Iterator[dict]:
    """Seed by seed, and of one seed the largest first, so that no core waits at the end. Tiny draws have one size."""
    seen = set()
    for seed in seeds:
        for n in sorted(rows, reverse=True):
            for kind in kinds:
                for table in tables:
                    n_rows = TINY_ROWS if kind.startswith("tiny") else n
                    if is_possible(table, kind) and (table, kind, n_rows, seed) not in seen:
                        seen.add((table, kind, n_rows, seed))
                        yield {"table": table, "kind": kind, "rows": n_rows, "seed": seed}


def is_possible(table: str, kind: str) -> bool:
    """The article's resampling is defined for two classes, and for numbers. Eight groups must have some rows."""
    if kind.startswith("few"):
        return table != "made tiny groups"
    if kind not in ("s1", "s2", "s2tree"):
        return True
    # The generator has cells of its own.
    return not (
        table in CLASSES + MADE_CLASSES
        or table.endswith(":frame")
        or (table.startswith("cells") and kind == "s2tree")
    )


def is_generated(table: str) -> bool:
    return table.split(maxsplit=1)[0] in GENERATORS


def file_of(table: str) -> str:
    return f"{table.partition(':')[0]}.npz"


def make_draw(folder: Path, table: str, kind: str, rows: int, seed: int) -> Draw | None:
    """The same for every method. None where the table has not half as many rows."""
    rng = np.random.default_rng([seed, crc32(f"{table} {kind} {rows}".encode())])
    name, _, form = table.partition(":")
    if name.startswith("cells") and kind in ("s1", "s2"):
        sample = _cells(name, rows, int(kind[1]), rng)
        group = np.unique(sample.groups, return_inverse=True)[1]
        return Draw(sample.X, sample.y, sample.truth, group, np.arange(len(group)), test=sample.test)
    whole = _generated(name, rows, rng) if is_generated(name) else _read(folder / file_of(name), rng)
    if len(whole.y) < rows / 2:
        return None
    t = whole.take(some_households(whole.example, rows, rng))
    if kind.startswith("few"):
        t = t.take(np.flatnonzero(np.isin(t.group, rng.permutation(t.group.max() + 1)[:FEW_GROUPS])))
    X = as_frame(t.X, t.is_category) if form == "frame" else np.nan_to_num(t.X, nan=-1.0).astype(np.float32)
    if kind in ("s1", "s2", "s2tree"):
        return _resampled(X, t, kind, rng)
    known = KINDS[kind](t, rng)
    test = ~known & (rng.random(t.example.max() + 1) < TEST_SHARE)[t.example]
    return Draw(X, np.where(known, t.y, -1), t.y, t.group, t.example, test=test)


# How labels are chosen: each gives a mask of the rows with labels.


def _random(t: Table, rng: np.random.Generator) -> np.ndarray:
    return choose(np.zeros(len(t.y)), rng)


def _by_features(t: Table, rng: np.random.Generator) -> np.ndarray:
    return choose(_line(t, rng) + rng.normal(size=t.group.max() + 1)[t.group], rng)


def _volunteers(t: Table, rng: np.random.Generator) -> np.ndarray:
    """By the label with each group's own strength, by the group, and a little by the features."""
    shape = t.group.max() + 1, t.y.max() + 1
    effect = 0.5 * _places(shape[1], rng) + rng.normal(0, np.sqrt(0.5), shape)
    effect += 0.7 * rng.normal(size=(shape[0], 1)) - effect.mean(1, keepdims=True)
    return choose(effect[t.group, t.y] + 0.4 * _line(t, rng), rng)


def _common(t: Table, rng: np.random.Generator) -> np.ndarray:
    """By the label, in all groups alike."""
    return choose(rng.choice([-1.5, 1.5]) * _places(t.y.max() + 1, rng)[t.y], rng)


def _severe(t: Table, rng: np.random.Generator) -> np.ndarray:
    """Rows of the last class by their features, the others not: positives are not alike in both samples."""
    chosen = np.where(t.y == t.y.max(), 1.5 * _line(t, rng), 0)
    return choose(chosen + 0.5 * rng.normal(size=t.group.max() + 1)[t.group], rng)


def _half_of_groups(t: Table, rng: np.random.Generator) -> np.ndarray:
    n_groups = t.group.max() + 1
    return np.isin(t.group, rng.permutation(n_groups)[: n_groups // 2])


KINDS = {
    "random": _random,
    "mar": _by_features,
    "volunteers": _volunteers,
    "common": _common,
    "severe": _severe,
    "natural": _half_of_groups,
    "s1": None,
    "s2": None,
    "s2tree": None,
    "fewg": _volunteers,
    "fewr": _random,
    "tinyv": _volunteers,
    "tinyr": _random,
}


def _places(n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """A number for each class, from -1/2 to 1/2; of more than two in any order."""
    places = np.linspace(-0.5, 0.5, n_classes)
    return places if n_classes == 2 else rng.permutation(places)


def _line(t: Table, rng: np.random.Generator) -> np.ndarray:
    return direction(as_frame(t.X, t.is_category), rng)


def _resampled(X: np.ndarray, t: Table, kind: str, rng: np.random.Generator) -> Draw:
    from groupshift.datasets import bias_groups

    sample = bias_groups(
        X,
        t.y,
        t.group,
        setting=int(kind[1]),
        n_clusters=4,
        partition=RandomTree(X, rng) if kind == "s2tree" else None,
        example_ids=t.example,
        random_state=int(rng.integers(2**31)),
    )
    return Draw(sample.X, sample.y, sample.truth, sample.groups, sample.example_ids, test=sample.test)


def _read(path: Path, rng: np.random.Generator) -> Table:
    with np.load(path) as file:
        X, y, group, example = (file[key] for key in ("X", "y", "group", "household"))
        t = Table(X.astype(float), y.astype(int), group.astype(int), example.astype(int), file["is_category"])
    return t if t.group.max() > 0 else t._replace(group=_groups_by_class(t.y, rng))


def _groups_by_class(y: np.ndarray, rng: np.random.Generator, n_groups: int = 30) -> np.ndarray:
    """Groups for a table that has none: their shares of classes are drawn from Dirichlet(2)."""
    weight = (
        rng.dirichlet(np.full(y.max() + 1, 2.0), n_groups) * rng.dirichlet(np.full(n_groups, 4.0))[:, None]
    )
    edges = np.cumsum(weight / weight.sum(0), 0)[:-1]
    return (rng.random(len(y)) > edges[:, y]).sum(0)


def _cells(name: str, rows: int, setting: int, rng: np.random.Generator):
    from groupshift.datasets import make_grouped_mixture

    d, K = (int(word[1:]) for word in name.split()[1:])
    mean = rows / GENERATED_GROUPS
    return make_grouped_mixture(
        n_features=d,
        n_clusters=K,
        n_groups=GENERATED_GROUPS,
        labeled_per_group=(0.25 * mean, 0.02 * mean),
        unlabeled_per_group=(0.75 * mean, 0.08 * mean),
        setting=setting,
        random_state=int(rng.integers(2**31)),
    )


def _generated(name: str, rows: int, rng: np.random.Generator) -> Table:
    word, *rest = name.split()
    X, y, group, is_category = GENERATORS[word](rest, rows, rng)
    is_category = np.zeros(X.shape[1], bool) if is_category is None else is_category
    return Table(X, y, group, np.arange(len(y)), is_category)


def _cell_table(rest: list[str], rows: int, rng: np.random.Generator) -> tuple:
    """The population of setting 2, all of it with labels."""
    sample = _cells(" ".join(["cells", *rest]), 2 * rows, 2, rng)
    own = ~sample.labeled
    return sample.X[own], sample.truth[own], np.unique(sample.groups[own], return_inverse=True)[1], None


def _class_table(rest: list[str], rows: int, rng: np.random.Generator) -> tuple:
    from groupshift.datasets import make_grouped_classes

    C, d = (int(word[1:]) for word in rest[:2])
    sample = make_grouped_classes(
        n_classes=C,
        n_features=d,
        n_groups=GENERATED_GROUPS,
        labeled_per_group=1,
        unlabeled_per_group=rows // GENERATED_GROUPS + 1,
        apart=0.8,
        concentration=2.0,
        setting=1 if "still" in rest else 2,
        random_state=int(rng.integers(2**31)),
    )
    own = ~sample.labeled
    return sample.X[own], sample.truth[own], np.unique(sample.groups[own], return_inverse=True)[1], None


def _made_table(rest: list[str], rows: int, rng: np.random.Generator) -> tuple:
    """Groups differ in their features, in their log-odds and a little in what features mean; d features, half of which matter."""
    shape = " ".join(rest)
    d = 60 if shape == "wide" else 10
    n_groups = rows // 20 if shape == "tiny groups" else GENERATED_GROUPS
    group = rng.choice(n_groups, rows, p=rng.dirichlet(np.full(n_groups, 3.0)))
    X = rng.normal(size=(rows, d)) + 0.3 * rng.normal(size=(n_groups, d))[group]
    matter = np.arange(d) < d // 2
    slope = matter * rng.normal(0, 1.2 / np.sqrt(d // 2), d) + 0.1 * rng.normal(size=(n_groups, d)) * matter
    z = (X * slope[group]).sum(1) + 0.7 * np.sin(2 * X[:, 0]) + 0.6 * X[:, 1] * X[:, 2]
    z += rng.normal(0, 0.6, n_groups)[group]
    y = choose(z, rng, 0.01 if shape == "rare" else 0.35).astype(int)
    is_category = np.zeros(d, bool)
    if shape == "categories":
        is_category[: d // 2] = True
        for j in range(d // 2):
            X[:, j] = rng.permutation(12)[np.clip(np.rint(2 * X[:, j] + 6), 0, 11).astype(int)]
    if shape == "missing":  # at random, and, in one column, large values
        X[rng.random(X.shape) < 0.15] = np.nan
        X[X[:, 0] > 1, 0] = np.nan
    return X, y, group, is_category


GENERATORS = {"cells": _cell_table, "classes": _class_table, "made": _made_table}
