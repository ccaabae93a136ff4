"""`groupshift check`: what is in the files, column by column, and is the method worth it?"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.stats import rankdata

from groupshift import GroupShiftClassifier
from groupshift._data.keys import uniform_keys
from groupshift._data.workers import add_up, map_chunks
from groupshift._diagnosis.wording import percent, plural, short
from groupshift.cli.fit import ask_selection, repeats, selections, show_selections
from groupshift.cli.groups import told_first, twice_spelled
from groupshift.cli.prepared import GROUP, as_floats, unlabeled
from groupshift.cli.screen import Screen, bold, listed, print_json
from groupshift.cli.training import WHY_LEFT_OUT, Roles, Training, read_training
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
# Columns that fit a screen with all details, and remarks that fit one without; columns with a remark come first.
MOST_COLUMNS, MOST_REMARKS = 25, 3


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
    """Facts of all columns, and the groups of labeled and of unlabeled rows."""
    plans = [plan for plan in training.plans if plan.used]

    def side(table: pa.Table) -> Side:
        groups = table[GROUP].unique().to_pylist() if GROUP in table.column_names else ()
        return Side({plan.name: Values.of(table[plan.name], plan.kind) for plan in plans}, frozenset(groups))

    labeled = side(training.labeled)
    if training.population is None:
        others = side(training.labeled.slice(0, 0))
    else:
        others = add_up(map_chunks(side, map(unlabeled, training.population.batches())))
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
        is_constant = (
            both.distinct.count == 1 if both.categories else both.low is not None and both.low == both.high
        )
        remark = ""
        if auc is not None and auc >= LEAK_AUC:
            remark = f"gives the target away (AUC {auc:.3f} alone): leave it out with --exclude?"
        elif is_constant:
            remark = "the same value everywhere"
        elif plan.kind == "number" and both.whole and not both.missing and both.distinct.share == 1:
            remark = "whole numbers, all different: an id? leave it out with --exclude"
        elif abs(missing[0] - missing[1]) > MISSING_GAP:
            remark = "missing far more often on one side"
        facts.append(ColumnFacts(plan.name, plan.kind, *missing, both.describe(plan.kind), auc, remark))
    return facts, (labeled.groups, others.groups)


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


def check(
    files: list[str],
    *,
    quick: bool,
    seed: int,
    selection: str | None,
    as_json: bool,
    details: bool,
    **roles: Any,
) -> None:
    screen = Screen(as_json=as_json, details=details)
    selection = ask_selection(selection, screen)
    with screen.working("Reading"):
        training = read_training(files, Roles(**roles))
        facts, groups = look(training)
        if (spelled := twice_spelled(*map(sorted, groups))) is not None:
            training.alarms = told_first(training.alarms, spelled)
    screen.alarm(*training.alarms)
    notes, (labeled, unlabeled) = list(training.notes), groups
    if training.recipe.group is not None and (only := sorted(labeled - unlabeled)):
        notes.append(f"Groups without unlabeled rows, whose shares stay unknown: {listed(only)}.")
        if unlabeled and not labeled & unlabeled and spelled is None:
            notes.append(
                "No group is in both samples. If you did not expect this, look for different spellings: "
                f"{listed(only, 3)} against {listed(sorted(unlabeled), 3)}."
            )
    _show_rows(screen, training, groups)
    if details:
        _show_columns(screen, facts, two_sides=bool(training.n_unlabeled))
    else:
        _show_remarks(screen, facts)
    screen.note(*notes)
    answer = describe(training, facts, groups)
    if not quick:
        model = GroupShiftClassifier(selection=selection, random_state=seed)
        with screen.working("Trying the method on a part of the rows"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = training.fit_sample(model)
        answer["diagnosis"] = _show_trial(screen, model, training.alarms)
    if as_json:
        print_json(answer)


def describe(training: Training, facts: list[ColumnFacts], groups: Groups) -> dict[str, object]:
    """Everything that check says but the trial, for another program."""
    labeled, unlabeled = groups
    target, shares = training.target, training.shares
    found: dict[str, object] = {
        "files": [
            {"path": str(source.path), "format": source.describe(), "rows": n, "columns": len(source.columns)}
            for source, n in zip(training.sources, training.n_rows, strict=True)
        ],
        "labeled_rows": len(training.numbers),
        "unlabeled_rows": training.n_unlabeled,
        "columns": [asdict(fact) for fact in facts],
        "notes": [*training.alarms, *training.notes],
    }
    if target.several:
        found |= {"classes": list(target.several), "labeled_shares": shares}
    else:
        found |= {"positive": target.positive, "negative": target.negative}
        found["labeled_share"] = shares[target.positive]
    if training.recipe.group is not None:
        found["groups"] = {
            "column": training.recipe.group,
            "labeled": len(labeled),
            "unlabeled": len(unlabeled),
            "both": len(labeled & unlabeled),
            "only_labeled": sorted(labeled - unlabeled),
            "only_unlabeled": sorted(unlabeled - labeled),
        }
    return found


def composition(training: Training, most: int = 4) -> str:
    """Shares of the classes among labeled rows, in words."""
    shares = sorted(training.shares.items(), key=lambda item: -item[1])
    named = [f"{percent(share)} {name!r}" for name, share in shares[:most]]
    return ", ".join(named) + (f" and {len(shares) - most} more classes" if len(shares) > most else "")


def _show_rows(screen: Screen, training: Training, groups: Groups) -> None:
    if screen.details:
        lines = [
            [str(source.path), source.describe(), f"{n:,}", f"{len(source.columns):,}"]
            for source, n in zip(training.sources, training.n_rows, strict=True)
        ]
        screen.table(("file", "read as", ">rows", ">columns"), lines)
        screen.say()
    recipe, (labeled, unlabeled) = training.recipe, groups
    screen.say(
        bold("Target"),
        f"  {recipe.target}: {plural(len(training.numbers), 'labeled row')} ({composition(training, 2)}), "
        f"{plural(training.n_unlabeled, 'unlabeled row')}.",
    )
    about = "none named (--group): all rows count as one group."
    if recipe.group is not None:
        about = (
            f"{recipe.group}: {len(labeled):,} with labeled rows, {len(unlabeled):,} with unlabeled rows, "
            f"{len(labeled & unlabeled):,} with both."
        )
    screen.say(bold("Groups"), f"  {about}")


def _show_remarks(screen: Screen, facts: list[ColumnFacts]) -> None:
    """How many columns there are of each kind, and those that need a look."""
    kinds = Counter(fact.kind for fact in facts)
    screen.say(bold("Columns"), f"  {', '.join(f'{count:,} {kind}' for kind, count in kinds.items())}.")
    remarks = [fact for fact in facts if fact.remark and fact.kind != "left out"]
    for fact in remarks[:MOST_REMARKS]:
        screen.say(f"  {fact.name}: {fact.remark}")
    if (more := len(remarks) - MOST_REMARKS) > 0:
        screen.say(f"  {more:,} more remarks with --details.")


def _show_columns(screen: Screen, facts: list[ColumnFacts], *, two_sides: bool) -> None:
    is_long = len(facts) > MOST_COLUMNS
    shown = sorted(facts, key=lambda fact: not fact.remark)[:MOST_COLUMNS] if is_long else facts
    headings = [
        "column",
        "kind",
        ">missing, labeled",
        *([">unlabeled"] if two_sides else []),
        "values",
        "remark",
    ]
    lines = []
    for fact in shown:
        missing = [
            "" if not share else "< 1 %" if share < 0.01 else percent(share, 0)
            for share in (fact.missing_labeled, fact.missing_unlabeled)
        ]
        lines.append([fact.name, fact.kind, *missing[: 1 + two_sides], fact.values, fact.remark])
    screen.say()
    screen.table(headings, lines)
    if more := len(facts) - len(shown):
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in Counter(f.kind for f in facts).items())
        screen.say(f"… and {more:,} more columns. In all: {kinds}.")


def _show_trial(screen: Screen, model: GroupShiftClassifier, alarms: list[str]) -> dict[str, object]:
    """What a model of a part of the rows finds: the verdict, the caution that costs most; returned for other programs."""
    found, rows = model.diagnose(), int(model.labeled_rows_.sum() + model.rows_.sum())
    answers = selections(model)
    screen.say(bold("Is it worth it?"), f"  A quick trial on {rows:,} rows; `fit` may differ.")
    screen.sentence(found.verdict)
    first = [sentence for sentence in found.caution if not repeats(sentence, answers)][:1]
    for sentence in [*found.gain, *found.assumption, *found.caution] if screen.details else first:
        screen.sentence(sentence)
    show_selections(screen, answers)
    main = [*alarms, found.verdict, *found.gain[:1], *found.assumption[:1], *found.caution[:4]]
    said = {"main_sentences": main, "sentences": [*alarms, *found.sentences]}
    said = {name: list(dict.fromkeys(sentences)) for name, sentences in said.items()}
    return {"worth": found.worth, "holds": found.holds, "rows_tried": rows, **said, "selections": answers}
