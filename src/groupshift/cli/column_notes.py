"""What check says about each column: kind, missing values, and whether it gives the target away."""

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from groupshift._io.column_facts import MOST_DISTINCT, Distinct, value_counts
from groupshift._rows.chunks import add_up, map_chunks
from groupshift._rows.keys import uniform_keys
from groupshift.cli.prepared import GROUP, TARGET
from groupshift.cli.training import WHY_LEFT_OUT, Training

Groups = tuple[frozenset, frozenset]

# A single column that ranks the target this well is the target in disguise.
LEAK_AUC = 0.995
# More rows do not change whether a column leaks.
LEAK_ROWS = 5_000


@dataclass
class ColumnFacts:
    name: str
    kind: str
    missing_labeled: float = 0.0
    missing_unlabeled: float = 0.0
    values: str = ""
    auc: float | None = None
    remark: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Values:
    """What the values of a feature are, as sums over batches of one side.

    `categories` counts the commonest texts; `true` is the number of rows that are true.
    """

    rows: int
    missing: int
    distinct: Distinct
    low: Any = None
    high: Any = None
    true: int = 0
    whole: bool = True
    categories: Counter = field(default_factory=Counter)

    @classmethod
    def of(cls, column: Any, kind: str) -> "Values":
        import pyarrow.compute as pc

        n, missing = len(column), column.null_count
        if kind == "category":
            values, rows = value_counts(column)
            counts = Counter(dict(zip(values.to_pylist(), rows.tolist(), strict=True)))
            return cls(n, missing, Distinct.of(column), categories=counts)
        ends = pc.min_max(column).as_py()
        found = cls(n, missing, Distinct.none(), ends["min"], ends["max"])
        if kind == "boolean":
            return replace(found, true=pc.sum(column).as_py() or 0)
        numbers = _numbers(column, kind)
        # Measurements may all differ, and are no ids for that: only whole numbers are counted.
        return (
            replace(found, distinct=Distinct.of(numbers)) if _whole(numbers) else replace(found, whole=False)
        )

    def __add__(self, other: "Values") -> "Values":
        categories = self.categories + other.categories
        if len(categories) > MOST_DISTINCT:
            categories = Counter(dict(categories.most_common(MOST_DISTINCT // 2)))
        lows, highs = (
            [v for v in pair if v is not None] for pair in zip(self._ends, other._ends, strict=True)
        )
        return Values(
            self.rows + other.rows,
            self.missing + other.missing,
            self.distinct + other.distinct,
            min(lows, default=None),
            max(highs, default=None),
            self.true + other.true,
            self.whole and other.whole,
            categories,
        )

    @property
    def _ends(self) -> tuple[Any, Any]:
        return self.low, self.high

    @property
    def all_alike(self) -> bool:
        return self.distinct.count == 1 if self.categories else self.low is not None and self.low == self.high

    @property
    def missing_share(self) -> float:
        return self.missing / self.rows if self.rows else 0.0

    def describe(self, kind: str) -> str:
        """The values in a few words."""
        if kind == "category":
            about = "about " if self.distinct.level else ""
            return f"{about}{self.distinct.count:,} different, mostly {_short(self.categories.most_common(1)[0][0])!r}"
        if kind == "boolean":
            return f"{100 * self.true / (self.rows - self.missing):.0f} % true"
        if kind == "date":
            return f"{self.low:%Y-%m-%d} to {self.high:%Y-%m-%d}"
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Side:
    """What the rows of one side hold: their features, and their groups."""

    features: dict[str, Values]
    groups: frozenset = frozenset()

    def __add__(self, other: "Side") -> "Side":
        features = {name: values + other.features[name] for name, values in self.features.items()}
        return Side(features, self.groups | other.groups)


def look(training: Training) -> tuple[list[ColumnFacts], Groups]:
    """Facts of all columns, and the groups of labelled and of unlabelled rows."""
    plans = [plan for plan in training.plans if plan.used]

    def side(table: Any) -> Side:
        groups = table[GROUP].unique().to_pylist() if GROUP in table.column_names else ()
        return Side({plan.name: Values.of(table[plan.name], plan.kind) for plan in plans}, frozenset(groups))

    labeled = side(training.labeled)
    if training.population is None:
        unlabeled = side(training.labeled.slice(0, 0))
    else:
        unlabeled = add_up(map_chunks(side, map(_unlabeled, training.population.batches())))
    return _column_facts(training, labeled, unlabeled), (labeled.groups, unlabeled.groups)


def _unlabeled(table: Any) -> Any:
    return table.filter(table[TARGET].to_numpy() < 0)


def _column_facts(training: Training, labeled: Side, unlabeled: Side) -> list[ColumnFacts]:
    rows = np.argsort(uniform_keys(training.numbers.astype(np.uint64), 0))[:LEAK_ROWS]
    y = training.y[rows]
    facts = []
    for plan in training.plans:
        fact = ColumnFacts(plan.name, plan.kind)
        if plan.used:
            fact.auc = single_column_auc(training.labeled[plan.name].take(rows), plan.kind, y)
            _judge(fact, labeled.features[plan.name], unlabeled.features[plan.name])
        else:
            fact.kind, fact.remark = "left out", WHY_LEFT_OUT[plan.kind]
        facts.append(fact)
    return facts


def _judge(fact: ColumnFacts, labeled: Values, unlabeled: Values) -> None:
    both = labeled + unlabeled
    fact.missing_labeled, fact.missing_unlabeled = labeled.missing_share, unlabeled.missing_share
    fact.values = both.describe(fact.kind)
    if fact.auc is not None and fact.auc >= LEAK_AUC:
        fact.remark = f"gives the target away (AUC {fact.auc:.3f} alone): leave it out with --exclude?"
    elif both.all_alike:
        fact.remark = "the same value everywhere"
    elif fact.kind == "number" and both.whole and not both.missing and both.distinct.share == 1:
        fact.remark = "whole numbers, all different: an id? leave it out with --exclude"
    elif max(fact.missing_labeled, fact.missing_unlabeled) > 0.2 and (
        abs(fact.missing_labeled - fact.missing_unlabeled) > 0.2
    ):
        fact.remark = "missing far more often on one side"


def _numbers(column: Any, kind: str) -> Any:
    """Numbers, dates and booleans as floats; null where missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pc.cast(column, pa.int64()) if kind == "date" else column, pa.float64())


def single_column_auc(column: Any, kind: str, y: np.ndarray) -> float | None:
    """How well one column alone ranks the target, either way round; a category by its mean in other rows."""
    import pyarrow.compute as pc

    if kind == "category":
        codes = pc.fill_null(column, "\0").dictionary_encode().combine_chunks().indices.to_numpy()
        score = _means_of_others(codes, y)
    else:
        score = _numbers(column, kind).to_numpy()
    score = np.where(np.isnan(score), np.nanmin(score, initial=0.0) - 1, score)
    found = _auc(score, y)
    return None if found is None else max(found, 1 - found)


def _means_of_others(codes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mean target of each row's category among the other half of the rows: none vouches for itself."""
    score = np.empty(len(y))
    half = np.arange(len(y)) % 2 == 0
    for own, other in ((half, ~half), (~half, half)):
        n = np.bincount(codes[other], minlength=codes.max() + 1)
        positive = np.bincount(codes[other], weights=y[other], minlength=codes.max() + 1)
        score[own] = ((positive + y.mean()) / (n + 1))[codes[own]]
    return score


def _auc(score: np.ndarray, y: np.ndarray) -> float | None:
    positive = y == 1
    n, m = int(positive.sum()), int((~positive).sum())
    if min(n, m) < 5:
        return None
    return float((rankdata(score)[positive].sum() - n * (n + 1) / 2) / (n * m))


def _whole(column: Any) -> bool:
    values = column.drop_null().to_numpy()
    return bool(np.all(values == np.floor(values)))


def _short(text: str, most: int = 20) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
