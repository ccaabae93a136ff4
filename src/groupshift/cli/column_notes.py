"""What check says about each column: kind, missing values, and whether it gives the target away."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.stats import rankdata

from groupshift._data.keys import uniform_keys
from groupshift._data.workers import add_up, map_chunks
from groupshift._diagnosis.wording import short
from groupshift.cli.prepared import GROUP, as_floats, unlabeled
from groupshift.cli.training import WHY_LEFT_OUT, Training
from groupshift.tables.column_facts import MOST_DISTINCT, Distinct, counts_of_texts

Groups = tuple[frozenset[str], frozenset[str]]
# The ends of numbers, of truth values and of dates; None where all are missing.
End = float | datetime | None

# A single column that ranks the target this well is the target in disguise.
LEAK_AUC = 0.995
# More rows do not change whether a column leaks.
LEAK_ROWS = 5_000
# Fewer labels of a class say nothing of a ranking.
FEWEST_OF_A_CLASS = 5


# Where missing values on the two sides differ by more, they may mean different things.
MISSING_GAP = 0.2


@dataclass(frozen=True)
class ColumnFacts:
    name: str
    kind: str
    missing_labeled: float = 0.0
    missing_unlabeled: float = 0.0
    values: str = ""
    auc: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Values:
    """What the values of a feature are, as sums over batches of one side.

    `categories` counts the commonest texts; `true` is the number of rows that are true.
    """

    rows: int
    missing: int
    distinct: Distinct = field(default_factory=Distinct.none)
    low: End = None
    high: End = None
    true: int = 0
    whole: bool = True
    categories: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, column: pa.ChunkedArray, kind: str) -> Values:
        found = cls(len(column), column.null_count)
        if kind == "category":
            return replace(found, distinct=Distinct.of(column), categories=counts_of_texts(column))
        ends = pc.min_max(column).as_py()
        found = replace(found, low=ends["min"], high=ends["max"])
        if kind == "boolean":
            return replace(found, true=pc.sum(column).as_py() or 0)
        numbers = as_floats(column, kind)
        # Measurements may all differ, and are no ids for that: only whole numbers are counted.
        if not pc.all(pc.equal(numbers, pc.floor(numbers)), min_count=0).as_py():
            return replace(found, whole=False)
        return replace(found, distinct=Distinct.of(numbers))

    def __add__(self, other: Values) -> Values:
        categories = self.categories + other.categories
        if len(categories) > MOST_DISTINCT:
            categories = Counter(dict(categories.most_common(MOST_DISTINCT // 2)))
        # A side without values has no ends.
        sides = [side for side in (self, other) if side.low is not None]
        return Values(
            self.rows + other.rows,
            self.missing + other.missing,
            self.distinct + other.distinct,
            min((side.low for side in sides), default=None),  # type: ignore[type-var] # of one kind
            max((side.high for side in sides), default=None),  # type: ignore[type-var]
            self.true + other.true,
            self.whole and other.whole,
            categories,
        )

    @property
    def is_constant(self) -> bool:
        return self.distinct.count == 1 if self.categories else self.low is not None and self.low == self.high

    @property
    def missing_share(self) -> float:
        return self.missing / self.rows if self.rows else 0.0

    def describe(self, kind: str) -> str:
        """The values in a few words."""
        if kind == "category":
            about = "about " if self.distinct.level else ""
            commonest = short(self.categories.most_common(1)[0][0], 20)
            return f"{about}{self.distinct.count:,} different, mostly {commonest!r}"
        if kind == "boolean":
            return f"{100 * self.true / (self.rows - self.missing):.0f} % true"
        if kind == "date":
            return f"{self.low:%Y-%m-%d} to {self.high:%Y-%m-%d}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Side:
    """What the rows of one side hold: their features, and their groups."""

    features: dict[str, Values]
    groups: frozenset[str] = frozenset()

    def __add__(self, other: Side) -> Side:
        features = {name: values + other.features[name] for name, values in self.features.items()}
        return Side(features, self.groups | other.groups)


def look(training: Training) -> tuple[list[ColumnFacts], Groups]:
    """Facts of all columns, and the groups of labelled and of unlabelled rows."""
    plans = [plan for plan in training.plans if plan.used]

    def side(table: pa.Table) -> Side:
        groups = table[GROUP].unique().to_pylist() if GROUP in table.column_names else ()
        return Side({plan.name: Values.of(table[plan.name], plan.kind) for plan in plans}, frozenset(groups))

    labeled = side(training.labeled)
    if training.population is None:
        others = side(training.labeled.slice(0, 0))
    else:
        others = add_up(map_chunks(side, map(unlabeled, training.population.batches())))
    return _column_facts(training, labeled, others), (labeled.groups, others.groups)


def _column_facts(training: Training, labeled: Side, others: Side) -> list[ColumnFacts]:
    rows = np.argsort(uniform_keys(training.numbers.astype(np.uint64), 0))[:LEAK_ROWS]
    against_rest = [y[rows] for y in training.against_rest.values()]
    facts = []
    for plan in training.plans:
        if not plan.used:
            facts.append(ColumnFacts(plan.name, "left out", remark=WHY_LEFT_OUT[plan.kind]))
            continue
        column = training.labeled[plan.name].take(rows)
        found = [single_column_auc(column, plan.kind, y) for y in against_rest]
        # Of several classes one that is given away is enough.
        auc = max((value for value in found if value is not None), default=None)
        sides = labeled.features[plan.name], others.features[plan.name]
        both = sides[0] + sides[1]
        missing = sides[0].missing_share, sides[1].missing_share
        remark = _remark(plan.kind, both, missing, auc)
        facts.append(ColumnFacts(plan.name, plan.kind, *missing, both.describe(plan.kind), auc, remark))
    return facts


def _remark(kind: str, both: Values, missing: tuple[float, float], auc: float | None) -> str:
    """What to look at in a column, if anything."""
    if auc is not None and auc >= LEAK_AUC:
        return f"gives the target away (AUC {auc:.3f} alone): leave it out with --exclude?"
    if both.is_constant:
        return "the same value everywhere"
    if kind == "number" and both.whole and not both.missing and both.distinct.share == 1:
        return "whole numbers, all different: an id? leave it out with --exclude"
    return "missing far more often on one side" if abs(missing[0] - missing[1]) > MISSING_GAP else ""


def single_column_auc(column: pa.ChunkedArray, kind: str, y: NDArray[np.int64]) -> float | None:
    """How well one column alone ranks the target, either way round; a category by its mean in other rows."""
    if kind == "category":
        codes = pc.fill_null(column, "\0").dictionary_encode().combine_chunks().indices.to_numpy()
        score = _means_of_others(codes, y)
    else:
        score = as_floats(column, kind).to_numpy()
    score = np.where(np.isnan(score), np.nanmin(score, initial=0.0) - 1, score)
    if np.bincount(y, minlength=2).min() < FEWEST_OF_A_CLASS:
        return None
    # The sum of the positives' ranks (Mann and Whitney), since scikit-learn's curve takes ten times as long a column.
    positive = np.count_nonzero(y)
    wins = rankdata(score)[y == 1].sum() - positive * (positive + 1) / 2
    auc = float(wins / (positive * (len(y) - positive)))
    return max(auc, 1 - auc)


def _means_of_others(codes: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean target of each row's category among the other half of the rows: none vouches for itself."""
    score = np.empty(len(y))
    half = np.arange(len(y)) % 2 == 0
    for own, other in ((half, ~half), (~half, half)):
        n = np.bincount(codes[other], minlength=codes.max() + 1)
        positive = np.bincount(codes[other], weights=y[other], minlength=codes.max() + 1)
        score[own] = ((positive + y.mean()) / (n + 1))[codes[own]]
    return score
