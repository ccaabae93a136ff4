"""A fitted model in a screenful, in full, and as HTML for a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from groupshift._diagnosis.diagnosis import QUESTIONS, Diagnosis, diagnose
from groupshift._diagnosis.fitted import Model, has_classes
from groupshift._diagnosis.share_tables import COVERAGE, labeled_sample, shares_by, shares_of_groups
from groupshift._diagnosis.wording import (
    DASH,
    MARK,
    aligned,
    bullets,
    details,
    folded,
    listed,
    percent,
    plural,
    short,
    table_html,
    titled,
)
from groupshift._math.arrays import FloatArray, Table

# Groups named at each end of the list of shares, and classes before the rest are only counted: all of it, and on a screen.
ENDS, BRIEF_ENDS, MAX_CLASSES, BRIEF_CLASSES = 3, 2, 12, 4
# Clusters described before the rest are only counted, and what sets each apart.
MAX_CLUSTERS, MAX_PHRASES = 6, 2
INTERVALS = "90 % intervals; the narrow ones leave out a shift of all groups alike."
IN_PYTHON = "model.diagnose() has all the findings and tables, model.report(path) the pictures."
# Names take no more room than this on the short screen, whose words are counted, and lines fit any terminal.
MOST_LETTERS, SCREEN = 20, 79


@dataclass(frozen=True)
class Summary:
    """A fitted model in a screenful: what was learned, the shares, whether it is worth it, what to beware of.

    Attributes
    ----------
    learned : str
        Rows, groups and clusters: the end of a sentence that begins with what was fitted.
    diagnosis : Diagnosis
    headings, lines : of the short table of shares
        All rows together, then the groups of highest and lowest share; of several classes the largest of them.
    long_headings, long_lines : of the long one, with rows and the labeled sample
    clusters : tuple of str
        What sets each cluster apart; none where there is one.
    """

    learned: str
    diagnosis: Diagnosis
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    long_headings: tuple[str, ...]
    long_lines: tuple[tuple[str, ...], ...]
    clusters: tuple[str, ...]

    @classmethod
    def of(cls, model: Model) -> Summary:
        found = diagnose(model)
        clusters = cluster_lines(found.clusters, model.evidence_.clusters.weight)
        table = (_class_table if has_classes(model) else _group_table)(model)
        return cls(_learned(model), found, *table, clusters)

    def screenful(self) -> str:
        """The answer: shares, the verdict, the caution that costs most."""
        lines = [folded(self.learned, width=SCREEN)]
        if self.lines:
            lines += [aligned([self.headings, *self.lines]), INTERVALS]
        lines.append(folded(self.diagnosis.verdict, width=SCREEN))
        if caution := self.diagnosis.main_caution:
            lines.append(folded(f"Caution: {caution}", width=SCREEN))
        return "\n".join(lines)

    def paragraphs(self, fitted: str) -> list[str]:
        """Everything, in blocks of text."""
        blocks = [folded(f"{fitted} {self.learned}"), folded(self.diagnosis.verdict)]
        if self.long_lines:
            blocks.append(f"{aligned([self.long_headings, *self.long_lines])}\n{INTERVALS}")
        if self.clusters:
            blocks.append("Clusters\n" + bullets(self.clusters))
        for topic, question in QUESTIONS.items():
            if said := getattr(self.diagnosis, topic):
                blocks.append(f"{question}\n{bullets(said)}")
        return blocks

    def _repr_html_(self) -> str:
        found = self.diagnosis
        shares = table_html(self.long_headings, self.long_lines) if self.long_lines else ""
        parts = [("Clusters", self.clusters), *((q, getattr(found, topic)) for topic, q in QUESTIONS.items())]
        folds = "".join(details(title, listed(said)) for title, said in parts if said)
        caution = f"<p>{escape(found.main_caution)}</p>" if found.main_caution else ""
        return titled(
            f"{MARK[found.worth]} {found.verdict}",
            f"<div>{escape(self.learned)}</div>{shares}{caution}{folds}",
        )


def summary_text(model: Model, *, details: bool = False) -> str:
    """What was learned, the shares, is it worth it, what to beware of: at most twelve lines, or all of it."""
    summary = Summary.of(model)
    if not details:
        return summary.screenful()
    return "\n\n".join([*summary.paragraphs(f"{type(model).__name__}:"), folded(IN_PYTHON)])


def cluster_lines(table: Table, weight: FloatArray) -> tuple[str, ...]:
    """A line for each cluster: its part of the rows (`weight`) and what sets it apart; none where there is one."""
    n, lines = len(weight), []
    if n == 1:
        return ()
    for k in range(min(n, MAX_CLUSTERS)):
        phrases = table["phrase"][table["cluster"] == k].tolist() if table else []
        apart = "; ".join(phrases[:MAX_PHRASES]) or "nothing sets it apart in single features"
        lines.append(f"{k} ({percent(weight[k], 0)} of rows): {apart}")
    return (*lines, *([f"and {n - MAX_CLUSTERS} more"] if n > MAX_CLUSTERS else []))


def _learned(model: Model) -> str:
    """Rows, groups, classes and clusters."""
    learned, estimate, n_classes = model.learned_, model.estimate_, len(model.schema_.classes)
    labeled = f"{int(learned.labeled_rows.sum()):,} labeled"
    unlabeled = f"{int(estimate.rows.sum()):,} unlabeled rows" if estimate.rows.size else "no unlabeled rows"
    parts = [f"{labeled} and {unlabeled}"]
    if model.schema_.has_groups:
        n_groups = len(
            np.union1d(*(texts.astype(str) for texts in (learned.labeled_groups, estimate.groups)))
        )
        parts.append(plural(n_groups, "group"))
    if has_classes(model):
        parts.append(f"{n_classes} classes")
    return ", ".join([*parts, plural(learned.n_clusters, "cluster")]) + "."


Cells = tuple[str, ...]


def _number(share: float) -> str:
    return f"{100 * share:.1f}" if np.isfinite(share) else "-"


def _between(low: float, high: float) -> str:
    return f"{_number(low)}{DASH}{_number(high)}" if np.isfinite(low) else "-"


def _intervals(table: Table, i: int) -> Cells:
    names = ("low", "high"), ("narrow_low", "narrow_high")
    return tuple(_between(*(table[name][i] for name in pair)) for pair in names)


def _group_table(model: Model) -> tuple[Cells, tuple[Cells, ...], Cells, tuple[Cells, ...]]:
    """Shares of all rows together, then of the highest and lowest groups."""
    headings = ("share, %", "interval", "narrow interval")
    long = (*headings, "labeled, %", "rows")
    if not len(model.estimate_.groups):
        return ("", *headings), (), ("", *long), ()
    whole, table = (shares_by(model, by, COVERAGE) for by in ("overall", "group"))
    labeled_rows = labeled_sample(model)[1]
    order = np.argsort(-table["share"], kind="stable").tolist() if model.schema_.has_groups else []

    def line(name: str, of: Table, i: int, n_labeled: int) -> Cells:
        labeled = f"{_number(of['labeled_share'][i])} of {n_labeled:,}" if n_labeled else "-"
        return name, _number(of["share"][i]), *_intervals(of, i), labeled, f"{int(of['rows'][i]):,}"

    def ends(n: int) -> list[Cells]:
        """All rows, then the `n` groups of highest and of lowest share, or all groups where there are no more."""
        picked = [*order[:n], *order[-n:]] if len(order) > 2 * n else order
        groups = [line(str(model.estimate_.groups[g]), table, g, int(labeled_rows[g])) for g in picked]
        return [line("all", whole, 0, int(model.learned_.labeled_rows.sum())), *groups]

    shown = ends(ENDS)
    if len(order) > 2 * ENDS:
        shown.insert(1 + ENDS, ("⋮", "", "", "", "", ""))
    brief = tuple((short(cells[0], MOST_LETTERS), *cells[1:4]) for cells in ends(BRIEF_ENDS))
    title = "highest and lowest" if len(order) > 2 * BRIEF_ENDS else ""
    return (title, *headings), brief, ("", *long), tuple(shown)


def _class_table(model: Model) -> tuple[Cells, tuple[Cells, ...], Cells, tuple[Cells, ...]]:
    """The share of each class, the largest first, with the groups where it is lowest and highest."""
    headings = ("class", "share, %", "interval", "narrow interval")
    brief_headings, long = (*headings, "groups"), (*headings, "lowest group", "highest group", "labeled, %")
    if not len(model.estimate_.groups):
        return brief_headings, (), long, ()
    whole, groups = shares_by(model, "overall", COVERAGE), shares_of_groups(model).share
    names = [str(name) for name in model.estimate_.groups.tolist()]
    shown, brief = [], []
    order = np.argsort(-whole["share"], kind="stable").tolist()
    for c in order[:MAX_CLASSES]:
        low, high = int(groups[:, c].argmin()), int(groups[:, c].argmax())
        cells = (str(model.schema_.classes[c]), _number(whole["share"][c]), *_intervals(whole, c))
        ends = (f"{short(names[g], MOST_LETTERS)} {_number(groups[g, c])}" for g in (low, high))
        shown.append((*cells, *ends, _number(whole["labeled_share"][c])))
        brief.append((short(cells[0], MOST_LETTERS), *cells[1:], _between(groups[low, c], groups[high, c])))
    for lines, most in ((shown, MAX_CLASSES), (brief, BRIEF_CLASSES)):
        del lines[most:]
        if rest := order[most:]:
            lines.append(
                (f"{len(rest)} more", _number(whole["share"][rest].sum()), *[""] * (len(lines[0]) - 2))
            )
    return brief_headings, tuple(brief), long, tuple(shown)
