"""A fitted model and its diagnosis as text for a screen and as HTML for a notebook."""

from html import escape
from textwrap import fill
from typing import Any

import numpy as np

from groupshift._explain.share_tables import group_level_shares, labeled_sample, overall_shares
from groupshift._explain.wording import percent, plural

WIDTH = 88
# Groups named at each end of the list of shares.
ENDS = 3
# Clusters described before the rest are only counted.
MAX_CLUSTERS = 6

STYLE = (
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em 1em;margin:.3em 0;max-width:46em;"
    "line-height:1.4;font-family:system-ui,sans-serif;font-size:.95em"
)
# Shape and word carry the verdict; the colour only repeats it.
MARK = {"yes": "✔", "little": "✔", "perhaps": "?", "no": "-", "harmful": "✘", "unknown": "?", "roughly": "≈"}


def summary_text(model: Any) -> str:
    """What was learned, is it worth it, what to beware of; a screenful."""
    found = model.diagnose()
    parts = [_paragraph(headline(model)), _paragraph(found.verdict)]
    if np.any(model.shift_):
        parts.append("Share of positives\n" + "\n".join(share_lines(model)))
    described = cluster_lines(found, model)
    if described:
        parts.append("Clusters\n" + "\n".join(_bullet(line) for line in described))
    beware = [*found.assumption[:1], *found.caution[:3]]
    parts.append("Before you trust it\n" + "\n".join(_bullet(line) for line in beware))
    parts.append(
        _paragraph("model.diagnose() has all the findings and tables, model.report(path) the pictures.")
    )
    return "\n\n".join(parts)


def diagnosis_text(found: Any) -> str:
    """All sentences of a diagnosis under their three questions."""
    parts = [_paragraph(found.verdict)]
    parts += [
        question + "\n" + "\n".join(_bullet(line) for line in sentences)
        for question, sentences in _answers(found)
    ]
    return "\n\n".join(parts)


def summary_html(model: Any) -> str:
    """A box with the verdict, shares and cautions, to stand above scikit-learn's picture of the estimator."""
    found = model.diagnose()
    shares = "".join(f"<tr>{_cells(row)}</tr>" for row in share_rows(model)) if np.any(model.shift_) else ""
    table = (
        "<table style='margin:.4em 0'><thead><tr><th "
        "style='text-align:left'>group</th><th>share</th><th>90 % interval</th>"
        f"<th>labelled sample</th><th>rows</th></tr></thead><tbody>{shares}</tbody></table>"
        if shares
        else ""
    )
    described = _list(cluster_lines(found, model))
    return (
        f"<div style='{STYLE}'>{_verdict_html(found)}<div>{escape(headline(model))}</div>{table}"
        + (f"<details><summary>Clusters</summary>{described}</details>" if described else "")
        + _details(found)
        + "</div>"
    )


def diagnosis_html(found: Any) -> str:
    """The sentences of a diagnosis, with its tables by labelled group and cluster folded away."""
    parts = "".join(f"<h4 style='margin:.6em 0 .2em'>{q}</h4>{_list(s)}" for q, s in _answers(found))
    tables = "".join(
        f"<details><summary>{escape(title)}</summary>{_table(getattr(found, name))}</details>"
        for name, title in (
            ("hidden_labels", "Hidden labels, by group"),
            ("independence", "Independence of features and group, by cluster and class"),
            ("features", "Effect of the group on each feature"),
            ("cautions", "Cautions"),
        )
        if getattr(found, name) and len(next(iter(getattr(found, name).values())))
    )
    return f"<div style='{STYLE}'>{_verdict_html(found)}{parts}{tables}</div>"


def headline(model: Any) -> str:
    """Rows, groups, clusters and trust in one sentence."""
    labeled = f"{int(model.labeled_rows_.sum()):,} labelled rows"
    unlabeled = f"{int(model.rows_.sum()):,} unlabelled rows" if model.rows_.size else "no unlabelled rows"
    if model.has_groups_:
        labeled += f" of {plural(len(model.labeled_groups_), 'group')}"
        unlabeled += f" of {plural(len(model.groups_), 'group')}" if len(model.groups_) else ""
    return (
        f"{type(model).__name__} on {labeled} and {unlabeled}: {plural(model.n_clusters_, 'cluster')}; "
        f"{_shifts_used(model)}."
    )


def _shifts_used(model: Any) -> str:
    """Where the shifts come from: unlabelled rows, the groups' mean features, rates that the user knows."""
    if not np.any(model.shift_):
        return "no shifts"
    context = model.context_ is not None
    if model.trust_ > 0:
        beside = ", and shifts follow the groups' mean features" if context else ""
        return f"{percent(model.trust_, 0)} of every estimated shift is used{beside}"
    return "shifts follow the groups' mean features alone" if context else "shifts by known shares alone"


def share_rows(model: Any, ends: int = ENDS) -> list[tuple[str, str, str, str, str]]:
    """Group, share, interval, labelled share, rows: of all, then of the lowest and highest groups."""
    table = group_level_shares(model, 0.9)
    labeled, _ = labeled_sample(model)
    before, after = overall_shares(model)
    lines = [("all", percent(after), "", percent(before), f"{int(model.rows_.sum()):,}")]
    order = np.argsort(table["share"], kind="stable")
    if not model.has_groups_:
        return lines
    for place, g in enumerate(order):
        if len(order) > 2 * ends and place == ends:
            lines.append(("⋮", "", "", "", ""))
        if ends <= place < len(order) - ends and len(order) > 2 * ends:
            continue
        share, low, high = (percent(table[column][g]) for column in ("share", "low", "high"))
        lines.append(
            (
                str(model.groups_[g]),
                share,
                f"{low} to {high}",
                percent(float(labeled[g])),
                f"{int(table['rows'][g]):,}",
            )
        )
    return lines


def share_lines(model: Any) -> list[str]:
    """`share_rows` as aligned text."""
    rows = [("group", "share", "90 % interval", "labelled sample", "rows"), *share_rows(model)]
    rows = [(_short(row[0]), *row[1:]) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return [
        (
            "  "
            + row[0].ljust(widths[0])
            + "".join("  " + cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))
        ).rstrip()
        for row in rows
    ]


def cluster_lines(found: Any, model: Any, most: int = 2) -> list[str]:
    """A line for each cluster: its part of the rows and what sets it apart."""
    if model.n_clusters_ == 1:
        return []
    weight = model.evidence_.clusters.weight
    table = found.clusters
    lines = []
    for k in range(min(model.n_clusters_, MAX_CLUSTERS)):
        phrases = table["phrase"][table["cluster"] == k] if table else []
        apart = "; ".join(phrases[:most]) if len(phrases) else "nothing sets it apart in single features"
        lines.append(f"{k} ({percent(weight[k], 0)} of rows): {apart}")
    if model.n_clusters_ > MAX_CLUSTERS:
        lines.append(f"and {model.n_clusters_ - MAX_CLUSTERS} more")
    return lines


def _answers(found: Any) -> list[tuple[str, tuple[str, ...]]]:
    answers = [
        ("What will it gain?", found.gain),
        ("Does the assumption hold?", found.assumption),
        ("Where not to trust it", found.caution),
    ]
    return [(question, sentences) for question, sentences in answers if sentences]


def _verdict_html(found: Any) -> str:
    return (
        f"<div style='margin-bottom:.4em'><strong>{MARK[found.worth]} {escape(found.verdict)}</strong></div>"
    )


def _details(found: Any) -> str:
    return "".join(f"<details><summary>{q}</summary>{_list(s)}</details>" for q, s in _answers(found))


def _list(sentences) -> str:
    if not sentences:
        return ""
    return (
        "<ul style='margin:.2em 0 .4em 1.2em;padding:0'>"
        + "".join(f"<li>{escape(s)}</li>" for s in sentences)
        + "</ul>"
    )


def _table(columns: dict, most: int = 100) -> str:
    """The first lines of a table; a notebook is no place for thousands."""
    n_lines = len(next(iter(columns.values())))
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_value(column[i]))}</td>" for column in columns.values()) + "</tr>"
        for i in range(min(n_lines, most))
    )
    rest = f"<div>… and {n_lines - most} more lines</div>" if n_lines > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cells(row) -> str:
    first, *rest = (escape(cell) for cell in row)
    return f"<td style='text-align:left'>{first}</td>" + "".join(
        f"<td style='text-align:right'>{cell}</td>" for cell in rest
    )


def _value(value: Any) -> str:
    if value is None:
        return "all"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _paragraph(text: str) -> str:
    return _filled(text)


def _bullet(text: str) -> str:
    return _filled(text, first="  - ", rest="    ")


def _filled(text: str, first: str = "", rest: str = "") -> str:
    # A number keeps its unit on its line.
    whole = text.replace(" %", "\u00a0%")
    return fill(whole, WIDTH, initial_indent=first, subsequent_indent=rest).replace("\u00a0", " ")


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
