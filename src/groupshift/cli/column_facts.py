"""What check says about each column: kind, missing values, and whether it gives the target away."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from groupshift.cli.training import WHY_LEFT_OUT, Training
from groupshift.rows import uniform_keys

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


def column_facts(training: Training) -> list[ColumnFacts]:
    labeled = training.labeled
    rows = np.flatnonzero(labeled)
    rows = rows[np.argsort(uniform_keys(rows.astype(np.uint64), 0))[:LEAK_ROWS]]
    y = training.y[rows]
    facts = []
    for plan in training.plans:
        fact = ColumnFacts(plan.name, plan.kind)
        if plan.used:
            _look(fact, training.features[plan.name], labeled, rows, y)
        else:
            fact.kind, fact.remark = "left out", WHY_LEFT_OUT[plan.kind]
        facts.append(fact)
    return facts


def _look(fact: ColumnFacts, column: Any, labeled: np.ndarray, rows: np.ndarray, y: np.ndarray) -> None:
    missing = column.is_null().to_numpy()
    fact.missing_labeled = float(missing[labeled].mean())
    fact.missing_unlabeled = float(missing[~labeled].mean()) if (~labeled).any() else 0.0
    fact.values, n_distinct = _values(column, fact.kind)
    fact.auc = single_column_auc(column.take(rows), fact.kind, y)
    if fact.auc is not None and fact.auc >= LEAK_AUC:
        fact.remark = f"gives the target away (AUC {fact.auc:.3f} alone): leave it out with --exclude?"
    elif n_distinct == 1:
        fact.remark = "the same value everywhere"
    elif fact.kind == "number" and n_distinct == len(column) and _whole(column):
        fact.remark = "whole numbers, all different: an id? leave it out with --exclude"
    elif max(fact.missing_labeled, fact.missing_unlabeled) > 0.2 and (
        abs(fact.missing_labeled - fact.missing_unlabeled) > 0.2
    ):
        fact.remark = "missing far more often on one side"


def _values(column: Any, kind: str) -> tuple[str, int]:
    import pyarrow.compute as pc

    n_distinct = pc.count_distinct(column).as_py()
    if kind == "category":
        top = max(pc.value_counts(column.drop_null()).to_pylist(), key=lambda e: e["counts"])["values"]
        return f"{n_distinct:,} different, mostly {_short(top)!r}", n_distinct
    if kind == "boolean":
        return f"{100 * pc.mean(column).as_py():.0f} % true", n_distinct
    ends = pc.min_max(column).as_py()
    if kind == "date":
        return f"{ends['min']:%Y-%m-%d} to {ends['max']:%Y-%m-%d}", n_distinct
    return f"{ends['min']:g} to {ends['max']:g}", n_distinct


def single_column_auc(column: Any, kind: str, y: np.ndarray) -> float | None:
    """How well one column alone ranks the target, either way round; a category by its mean in other rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "category":
        codes = pc.fill_null(column, "\0").dictionary_encode().combine_chunks().indices.to_numpy()
        score = _means_of_others(codes, y)
    elif kind == "date":
        score = pc.cast(pc.cast(column, pa.int64()), pa.float64()).to_numpy()
    else:
        score = pc.cast(column, pa.float64()).to_numpy()
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
