"""The page of a model of several classes: the same questions, and a map of groups and classes that a script need not draw."""

from dataclasses import dataclass

import numpy as np

from groupshift._diagnosis.class_diagnosis import diagnose_classes, range_over_groups
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.class_share_tables import class_shares_by, overall_class_shares
from groupshift._diagnosis.diagnostics import Diagnosis
from groupshift._diagnosis.report.facts import COVERAGE, Names, largest
from groupshift._diagnosis.report.formats import count, decimals, percent, percent_range, texts
from groupshift._diagnosis.report.report_tables import TableView
from groupshift._diagnosis.share_tables import labeled_sample
from groupshift._diagnosis.wording import plural

# Groups on the page, those with most rows: some hundred bytes for each class.
MAX_GROUPS = 500
# With more classes than this a cell of the map has no room for its interval, which a pointer still shows.
WIDE_CLASSES = 8
# Ground of a share of everything: deeper, and its number is hard to read.
DEEPEST = 0.55

SECTIONS = {
    "answer": "Answer",
    "shares": "Shares",
    "hidden": "Hidden labels",
    "assumption": "Assumption",
    "data": "Data",
    "versions": "Versions",
}


@dataclass(frozen=True)
class MapCell:
    """A share as the map shows it: text, what a pointer on it tells, and how deep its ground is."""

    share: str
    interval: str
    told: str
    depth: str


@dataclass(frozen=True)
class MapLine:
    """A group with a cell for each class."""

    group: str
    rows: str
    cells: list[MapCell]


@dataclass(frozen=True)
class ClassFacts:
    """What the page shows of a model of several classes."""

    model: ClassModel
    diagnosis: Diagnosis
    target: str | None = None
    group: str | None = None

    @property
    def classes(self) -> list[str]:
        return texts(self.model.classes_.tolist())

    @property
    def has_population(self) -> bool:
        return len(self.model.groups_) > 0

    @property
    def is_wide(self) -> bool:
        return len(self.classes) > WIDE_CLASSES

    @property
    def title(self) -> str:
        what = f"Shares of {self.target}" if self.target else f"Shares of {len(self.classes)} classes"
        return what + (f" by {self.group}" if self.group else "")

    @property
    def tiles(self) -> dict[str, str]:
        """The numbers that everyone asks for first."""
        estimate = self.model.estimate_
        pairs = {"classes": count(len(self.classes)), "groups": count(len(self.model.groups_))}
        pairs |= {
            "population rows": count(estimate.rows.sum()),
            "labelled rows": count(self.model.learned_.labeled_rows.sum()),
            "clusters": count(self.model.n_clusters_),
        }
        return pairs

    @property
    def learned(self) -> list[str]:
        """What the population looks like, in a sentence or two."""
        if not self.has_population:
            return ["Without unlabelled rows there is no population whose shares could be learned."]
        before, after = overall_class_shares(self.model)
        top = np.argsort(-after, kind="stable")[:3]
        named = ", ".join(f"{self.classes[c]} ({percent(after[c])})" for c in top)
        moved = int(np.argmax(np.abs(after - before)))
        return [
            f"The most frequent classes of the population are {named}.",
            f"Most apart from the labelled sample is {self.classes[moved]}: {percent(after[moved])} against "
            f"{percent(before[moved])}.",
        ]

    @property
    def order(self) -> np.ndarray:
        """Numbers of the groups on the page."""
        return largest(self.model.estimate_.rows.sum(1), MAX_GROUPS)

    @property
    def map(self) -> list[MapLine]:
        """Groups down, classes across; first all of them together."""
        table = class_shares_by(self.model, "group", COVERAGE)
        shape = len(self.model.groups_), len(self.classes)
        share, low, high, rows = (table[name].reshape(shape) for name in ("share", "low", "high", "rows"))
        sample = labeled_sample(self.model)[0]
        overall = overall_class_shares(self.model)[1]
        together = [self._cell("all", c, part) for c, part in enumerate(overall)]
        lines = [MapLine("all", count(rows[:, 0].sum()), together)]
        for g in self.order:
            name = str(self.model.groups_[g])[:120]
            cells = [
                self._cell(name, c, share[g, c], (low[g, c], high[g, c]), sample[g, c])
                for c in range(share.shape[1])
            ]
            lines.append(MapLine(name, count(rows[g, 0]), cells))
        return lines

    def _cell(
        self,
        group: str,
        c: int,
        share: float,
        ends: tuple[float, float] | None = None,
        sample: float = np.nan,
    ) -> MapCell:
        shown = f"{100 * share:.0f}" if self.is_wide else percent(share)
        within = "" if ends is None else percent_range(*ends)
        told = f"{group}, {self.classes[c]}: {percent(share)}"
        told += f", {percent(COVERAGE, 0)} interval {within}" if within else ""
        told += f", labelled sample {percent(sample)}" if np.isfinite(sample) else ""
        # By the square root: shares of a few percent, the rule where classes are many, can be told from none.
        return MapCell(
            shown, "" if self.is_wide else within, told, f"{DEEPEST * np.sqrt(max(share, 0.0)):.3f}"
        )

    @property
    def class_table(self) -> TableView:
        """Each class: population, labelled sample, and its range over groups."""
        before, after = overall_class_shares(self.model)
        low, high = range_over_groups(self.model)
        order = np.argsort(-after, kind="stable")
        shares = {"Population": after, "Labelled sample": before, "Lowest group": low, "Highest group": high}
        columns = {name: [percent(v) for v in values[order]] for name, values in shares.items()}
        names = [self.classes[c] for c in order]
        return TableView({"Class": names, **columns}, "Classes, most frequent first")

    @property
    def hidden_table(self) -> TableView | None:
        """Hidden labels by group."""
        table = self.diagnosis.hidden_labels
        if not table:
            return None
        order = np.argsort(-table["rows"], kind="stable")[:MAX_GROUPS]
        shown = {
            "Log loss, plain": "loss_global",
            "with shifts": "loss_model",
            "Accuracy, plain": "accuracy_global",
            "accuracy with shifts": "accuracy_model",
            "Error of shares, plain": "share_error_global",
            "error with shifts": "share_error_model",
        }
        columns = {name: [decimals(v) for v in table[key][order]] for name, key in shown.items()}
        groups, rows = texts(table["group"][order]), [count(v) for v in table["rows"][order]]
        return TableView({"Group": groups, "Rows": rows, **columns}, "Hidden labels, by group")

    @property
    def independence_table(self) -> TableView:
        """Does a class look alike in every group?"""
        table = self.diagnosis.independence
        columns = {
            "Class": texts(table["label"]),
            "Cluster": texts(table["cluster"]),
            "Rows": [count(v) for v in table["rows"]],
            "Scores": [decimals(v) for v in table["score_effect"]],
            "Features": [decimals(v) for v in table["feature_effect"]],
            "Most in": texts(table["strongest_feature"]),
        }
        return TableView(columns, "Group given cluster and class: part of the variance that it explains")

    @property
    def data(self) -> dict[str, str]:
        """What the model was fitted on."""
        named = {"Target column": self.target, "Group column": self.group}
        pairs = {role: name for role, name in named.items() if name is not None}
        pairs |= {
            "Classes": ", ".join(self.classes),
            "Groups with labelled rows": plural(len(self.model.labeled_groups_), "group"),
            "Features": count(len(self.model.encoder_.names_)),
        }
        return pairs


def class_facts(model: ClassModel, names: Names | None) -> ClassFacts:
    """Facts of a model of several classes, with the names that its columns have."""
    known, given = model.role_names_, names or Names()
    target, group = given.target or known.get("target"), given.group or known.get("group")
    return ClassFacts(model, diagnose_classes(model), target, group)
