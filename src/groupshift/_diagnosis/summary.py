"""A fitted model and its diagnosis as values, as text for a screen and as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.share_errors import overall_share
from groupshift._diagnosis.share_tables import group_level_shares, labeled_sample, overall_shares
from groupshift._diagnosis.wording import percent, plural, short
from groupshift._math.arrays import FloatArray, Table

if TYPE_CHECKING:
    from groupshift._diagnosis.class_model import ClassModel
    from groupshift._diagnosis.diagnostics import Diagnosis

WIDTH = 88
# Groups named at each end of the list of shares.
ENDS = 3
# Clusters described before the rest are only counted, and what sets each apart.
MAX_CLUSTERS, MAX_PHRASES = 6, 2
# Cautions on a screen; the others are counted.
MAX_CAUTIONS = 4
# Lines of a table in a notebook, which is no place for thousands.
MAX_LINES = 100

STYLE = (
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em 1em;margin:.3em 0;max-width:46em;"
    "line-height:1.4;font-family:system-ui,sans-serif;font-size:.95em"
)
# Shape and word carry the verdict; the colour only repeats it.
MARK = {"yes": "✔", "little": "✔", "perhaps": "?", "no": "-", "harmful": "✘", "unknown": "?", "roughly": "≈"}
IN_PYTHON = "model.diagnose() has all the findings and tables, model.report(path) the pictures."
# Tables of a diagnosis that a notebook shows, and what they are called there.
TABLES = {
    "hidden_labels": "Hidden labels, by group",
    "independence": "Independence of features and group, by cluster and class",
    "features": "Effect of the group on each feature",
    "cautions": "Cautions",
    "sensitivity": "Shares if positives were half or twice as likely to be labelled",
}


class ShareLine(NamedTuple):
    """A line of the table of shares, as it is shown."""

    group: str
    share: str
    interval: str
    labeled: str
    rows: str


HEADINGS = ShareLine("group", "share", "90 % interval", "labelled sample", "rows")


@dataclass(frozen=True)
class Summary:
    """A fitted model in a screenful: what was learned, whether it is worth it, what to beware of.

    Attributes
    ----------
    learned : str
        Rows, groups, clusters and shifts: the end of a sentence that begins with what was fitted.
    diagnosis : Diagnosis
    labeled_share, population_share : float
        Share of positives among labelled rows and in the population; NaN where it is not known.
    shares : lines of a table
        All rows together, then the groups of lowest and highest share; none where the model makes no shift.
    clusters : tuple of str
        What sets each cluster apart; none where there is one.
    """

    learned: str
    diagnosis: Diagnosis
    labeled_share: float
    population_share: float
    shares: tuple[ShareLine, ...]
    clusters: tuple[str, ...]
    headings: ShareLine = HEADINGS
    title: str = "Share of positives"

    @classmethod
    def of(cls, model: FittedModel) -> Summary:
        if model.is_multiclass_:
            from groupshift._diagnosis.class_summary import class_summary

            return class_summary(cast("ClassModel", model))
        found = model.diagnose()
        shares = share_lines(model) if np.any(model.shift_) else ()
        clusters = cluster_lines(found.clusters, model.evidence_.clusters.weight)
        return cls(_learned(model), found, *overall_shares(model), tuple(shares), clusters)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to know before trusting the model: what may cost most."""
        return (*self.diagnosis.assumption[:1], *self.diagnosis.caution[:MAX_CAUTIONS])

    @property
    def more(self) -> tuple[str, ...]:
        """How much more there is to know, if there is."""
        found = self.diagnosis
        count = len(found.assumption) + len(found.caution) - len(self.cautions)
        sentence = f"And {plural(count, 'finding')} more, which may cost less: the report has all."
        return (sentence,) if count else ()

    @property
    def main_sentences(self) -> tuple[str, ...]:
        """The sentences that an answer cannot do without."""
        return (self.diagnosis.verdict, *self.diagnosis.gain[:1], *self.cautions)

    def paragraphs(self, fitted: str) -> list[str]:
        """Blocks of text; `fitted` begins the first sentence: what was fitted on the rows."""
        blocks = [folded(f"{fitted} {self.learned}"), folded(self.diagnosis.verdict)]
        if self.shares:
            blocks.append(f"{self.title}\n" + "\n".join(_aligned([self.headings, *self.shares])))
        if self.clusters:
            blocks.append("Clusters\n" + _bullets(self.clusters))
        return [*blocks, "Before you trust it\n" + _bullets((*self.cautions, *self.more))]


def summary_text(model: FittedModel) -> str:
    """What was learned, is it worth it, what to beware of; a screenful."""
    paragraphs = Summary.of(model).paragraphs(f"{type(model).__name__} on")
    return "\n\n".join([*paragraphs, folded(IN_PYTHON)])


def diagnosis_text(found: Diagnosis) -> str:
    """All sentences of a diagnosis under their three questions."""
    answers = (f"{question}\n{_bullets(sentences)}" for question, sentences in _answers(found))
    return "\n\n".join([folded(found.verdict), *answers])


def summary_html(model: FittedModel) -> str:
    """A box with the verdict, shares and cautions, to stand above scikit-learn's picture of the estimator."""
    summary = Summary.of(model)
    found = summary.diagnosis
    learned = escape(f"{type(model).__name__} on {summary.learned}")
    shares = _table(summary.headings, summary.shares) if summary.shares else ""
    parts = [("Clusters", summary.clusters), *_answers(found)]
    folds = "".join(_fold(title, _list(sentences)) for title, sentences in parts if sentences)
    return f"<div style='{STYLE}'>{_verdict(found)}<div>{learned}</div>{shares}{folds}</div>"


def diagnosis_html(found: Diagnosis) -> str:
    """The sentences of a diagnosis, with its tables by labelled group and cluster folded away."""
    parts = "".join(f"<h4 style='margin:.6em 0 .2em'>{q}</h4>{_list(s)}" for q, s in _answers(found))
    tables = {title: getattr(found, name) for name, title in TABLES.items()}
    folds = "".join(_fold(title, _columns(table)) for title, table in tables.items() if _n_lines(table))
    return f"<div style='{STYLE}'>{_verdict(found)}{parts}{folds}</div>"


def _learned(model: FittedModel) -> str:
    """Rows, groups, clusters and shifts."""
    labeled = f"{int(model.labeled_rows_.sum()):,} labelled rows"
    unlabeled = f"{int(model.rows_.sum()):,} unlabelled rows" if model.rows_.size else "no unlabelled rows"
    if model.has_groups_:
        labeled += f" of {plural(len(model.labeled_groups_), 'group')}"
        unlabeled += f" of {plural(len(model.groups_), 'group')}" if len(model.groups_) else ""
    return f"{labeled} and {unlabeled}: {plural(model.n_clusters_, 'cluster')}; {_shifts_used(model)}."


def _shifts_used(model: FittedModel) -> str:
    """Where the shifts come from."""
    if not np.any(model.shift_):
        return "no shifts"
    if model.shrinkage != "hierarchical":
        return "every cell has a shift of its own"
    if model.shares is None:
        return "shifts by known shares alone" if model.audit_ is None else "shifts by an audit alone"
    return "shifts of groups follow their labels and scores"


def share_lines(model: FittedModel) -> list[ShareLine]:
    """Shares of all rows together, then of the lowest and highest groups."""
    table, labeled = group_level_shares(model, 0.9), labeled_sample(model)[0]
    before, after = overall_shares(model)[0], overall_share(model, 0.9)
    whole = f"{percent(after.low)} to {percent(after.high)}"
    lines = [ShareLine("all", percent(after.share), whole, percent(before), f"{int(model.rows_.sum()):,}")]
    if not model.has_groups_:
        return lines
    order = np.argsort(table["share"], kind="stable").tolist()
    is_long = len(order) > 2 * ENDS
    for g in [*order[:ENDS], *order[-ENDS:]] if is_long else order:
        share, low, high = (percent(table[column][g]) for column in ("share", "low", "high"))
        name, rows = str(model.groups_[g]), f"{int(table['rows'][g]):,}"
        lines.append(ShareLine(name, share, f"{low} to {high}", percent(float(labeled[g])), rows))
    if is_long:
        lines.insert(1 + ENDS, ShareLine("⋮", "", "", "", ""))
    return lines


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


def folded(text: str, first: str = "", rest: str = "") -> str:
    """Text in lines of a screen; a number keeps its unit on its line."""
    whole = text.replace(" %", "\u00a0%")
    return fill(whole, WIDTH, initial_indent=first, subsequent_indent=rest).replace("\u00a0", " ")


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(folded(sentence, "  - ", "    ") for sentence in sentences)


def _aligned(lines: Sequence[ShareLine]) -> list[str]:
    """A table as text: names to the left, numbers to the right."""
    cells = [(short(line.group), *line[1:]) for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = []
    for name, *numbers in cells:
        right = (f"  {number:>{width}}" for number, width in zip(numbers, widths[1:], strict=True))
        shown.append(f"  {name:<{widths[0]}}{''.join(right)}".rstrip())
    return shown


def _answers(found: Diagnosis) -> list[tuple[str, tuple[str, ...]]]:
    answers = [
        ("What will it gain?", found.gain),
        ("Does the assumption hold?", found.assumption),
        ("Where not to trust it", found.caution),
    ]
    return [(question, sentences) for question, sentences in answers if sentences]


def _verdict(found: Diagnosis) -> str:
    verdict = f"{MARK[found.worth]} {escape(found.verdict)}"
    return f"<div style='margin-bottom:.4em'><strong>{verdict}</strong></div>"


def _fold(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<ul style='margin:.2em 0 .4em 1.2em;padding:0'>{items}</ul>"


def _table(headings: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table whose first column names its lines; the others hold numbers."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(_cell(i, value) for i, value in enumerate(line))}</tr>" for line in lines)
    return f"<table style='margin:.4em 0'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(column: int, value: object) -> str:
    shown = "all" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"<td style='text-align:{'right' if column else 'left'}'>{escape(shown)}</td>"


def _columns(table: Table) -> str:
    """The first lines of a table of a diagnosis."""
    n_lines = _n_lines(table)
    rest = f"<div>… and {n_lines - MAX_LINES} more lines</div>" if n_lines > MAX_LINES else ""
    return _table(table, zip(*(column[:MAX_LINES].tolist() for column in table.values()), strict=True)) + rest


def _n_lines(table: Table) -> int:
    return len(next(iter(table.values()))) if table else 0
