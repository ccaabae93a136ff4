"""Figures of the report as data for its script, and the few that need no script as SVG."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._explain.report.markup import MINUS, Markup, join, percent, rounded, tag

FloatArray = NDArray[np.float64]
# Colour of the largest shift: deeper, and its number is hard to read in the light or in the dark scheme.
DEEPEST = 0.44


def shares_figure(groups: dict[str, Any], *, coverage: float, overall: float) -> dict:
    """Dots and intervals: the share of positives of each group, the labelled sample beside the population."""
    figure = {
        "kind": "dots",
        "label": "Share of positives of each group, with its interval",
        "names": groups["name"],
        "value": rounded(groups["share"]),
        "low": rounded(groups["low"]),
        "high": rounded(groups["high"]),
        "rows": rounded(groups["rows"], 0),
        "format": "percent",
        "axis": "Share of positives",
        "valueLabel": "Population",
        "intervalLabel": f"{percent(coverage, 0)} interval",
        "rowsLabel": "Population rows",
        "reference": round(overall, 4),
        "searchable": True,
        "sort": "value",
        "descending": True,
    }
    if groups["sample_rows"].any():
        figure |= {
            "other": rounded(groups["sample_share"]),
            "otherRows": rounded(groups["sample_rows"], 0),
            "otherLabel": "Labelled sample",
            "otherRowsLabel": "Labelled rows",
        }
    return figure


def shifts_figure(cells: dict[str, Any], sample_share: FloatArray, *, coverage: float) -> dict:
    """The map of shifts: groups down, clusters across."""
    return {
        "kind": "map",
        "label": "Shift of each group in each cluster",
        "names": cells["name"],
        "clusters": [f"cluster {k}" for k in range(len(sample_share))],
        "shift": rounded(cells["shift"], 3),
        "share": rounded(cells["share"], 3),
        "low": rounded(cells["low"], 3),
        "high": rounded(cells["high"], 3),
        "rows": rounded(cells["rows"], 0),
        "borrowed": cells["borrowed"].astype(int).ravel().tolist(),
        "sampleShare": rounded(sample_share),
        "scale": shift_scale(cells["shift"]),
        "deepest": DEEPEST,
        "intervalLabel": f"{percent(coverage, 0)} interval",
        "searchable": True,
        "sort": "name",
    }


def gain_figure(hidden: dict[str, Any]) -> dict:
    """Dots: how much knowing the group lowered the loss of each labelled group whose labels were hidden."""
    return {
        "kind": "dots",
        "label": "Gain on the hidden labels of each labelled group",
        "names": hidden["name"],
        "value": rounded(hidden["gain"]),
        "rows": rounded(hidden["rows"], 0),
        "format": "signed",
        "digits": 3,
        "axis": "Fall of the log loss",
        "valueLabel": "Gain",
        "rowsLabel": "Labelled rows",
        "reference": 0,
        "searchable": True,
        "sort": "value",
        "descending": True,
        "more": {
            "Positives, in truth": [percent(v) for v in hidden["share"]],
            "… predicted with the shift": [percent(v) for v in hidden["mean_model"]],
            "… predicted without": [percent(v) for v in hidden["mean_global"]],
        },
    }


def candidates_figure(candidates: dict[str, Any]) -> dict:
    """Dots with intervals: the gain of every candidate that the judge weighed."""
    error = np.asarray(candidates["std_error"], float)
    # "No shift" is what the others are compared with: it has no error of its own.
    reach = np.where(error > 0, error, np.nan)
    return {
        "kind": "dots",
        "label": "Gain of each candidate partition on hidden labels",
        "what": "candidates",
        "names": [str(name) for name in candidates["name"]],
        "value": rounded(candidates["gain"]),
        "low": rounded(candidates["gain"] - reach),
        "high": rounded(candidates["gain"] + reach),
        "format": "signed",
        "digits": 3,
        "axis": "Fall of the log loss",
        "valueLabel": "Gain",
        "intervalLabel": "± one standard error",
        "reference": 0,
        "given": "order tried",
        "sort": "value",
        "descending": True,
        "marked": np.flatnonzero(candidates["chosen"]).tolist(),
        "more": {
            "Clusters": candidates["n_clusters"].tolist(),
            "Trust": [f"{t:.2f}" for t in candidates["trust"]],
        },
    }


def shift_scale(shift: FloatArray) -> float:
    """The shift of full colour: nearly the largest, in halves, so that one odd cell does not pale the rest.

    >>> shift_scale(np.array([[0.2, -1.3]])), shift_scale(np.zeros((1, 1)))
    (1.5, 0.5)
    """
    largest = float(np.quantile(np.abs(shift), 0.98)) if shift.size else 0.0
    return max(float(np.ceil(2 * largest - 1e-9) / 2), 0.5)


def dots_legend(coverage: float, *, sample: bool, overall: str | None) -> Markup:
    """What the marks of a share plot mean."""
    dot = '<line class="interval" x1="2" x2="26" y1="8" y2="8"/><circle class="dot" cx="14" cy="8" r="4.3"/>'
    diamond = '<path class="other" d="M9 3.4L13.6 8L9 12.6L4.4 8Z"/>'
    line = '<line class="reference" x1="3" x2="3" y1="1" y2="15"/>'
    return _legend(
        (dot, 28, f"population, with {percent(coverage, 0)} interval"),
        (diamond, 18, "labelled sample") if sample else None,
        (line, 6, overall) if overall else None,
    )


def shift_legend(scale: float, *, borrowed: bool, empty: bool) -> Markup:
    """What the colours of the map mean."""
    steps = np.linspace(-1, 1, 7)
    swatches = (
        tag(
            "i",
            class_="more-ground" if s > 0 else "less-ground",
            style=f"opacity:{0.06 + DEEPEST * abs(s):.2f}",
        )
        for s in steps
    )
    ramp = tag(
        "li",
        f"fewer {MINUS}{scale:g}",
        tag("span", *swatches, class_="ramp", aria_hidden="true"),
        f"+{scale:g} more",
    )
    dot = '<circle class="borrowed" cx="4" cy="8" r="2.4"/>'
    box = '<rect class="cell empty" x="1" y="2" width="20" height="12" rx="3"/>'
    marks = _legend_items(
        (dot, 8, "mostly borrowed from other cells") if borrowed else None,
        (box, 22, "no rows: all borrowed") if empty else None,
    )
    return tag("ul", ramp, *marks, class_="legend")


def _legend(*items: tuple[str, int, str] | None) -> Markup:
    return tag("ul", *_legend_items(*items), class_="legend")


def _legend_items(*items: tuple[str, int, str] | None) -> list[Markup]:
    return [
        tag("li", Markup(f'<svg width="{width}" height="16" aria-hidden="true">{mark}</svg>'), words)
        for mark, width, words in filter(None, items)
    ]


def square_svg(
    series: list[tuple[str, FloatArray, FloatArray]], *, label: str, x_axis: str, joined: bool
) -> Markup:
    """Shares against shares on a square with its diagonal; `series` are (class, x, y), joined or loose."""
    grid = join(_grid(t) for t in (0, 0.25, 0.5, 0.75, 1))
    diagonal = Markup(f'<line class="reference" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>')
    marks = [_series(name, x, y, joined) for name, x, y in series]
    axis = tag("text", x_axis, class_="head middle", x=_x(0.5), y=_y(0) + 41)
    size = f"0 0 {LEFT + SIDE + 24} {TOP + SIDE + 48}"
    return tag("svg", grid, diagonal, *marks, axis, viewBox=size, role="img", aria_label=label)


SIDE, LEFT, TOP = 320, 48, 10


def _x(value: float) -> float:
    return round(LEFT + value * SIDE, 1)


def _y(value: float) -> float:
    return round(TOP + (1 - value) * SIDE, 1)


def _grid(t: float) -> Markup:
    return Markup(
        f'<line class="grid" x1="{_x(0)}" x2="{_x(1)}" y1="{_y(t)}" y2="{_y(t)}"/>'
        f'<line class="grid" y1="{_y(0)}" y2="{_y(1)}" x1="{_x(t)}" x2="{_x(t)}"/>'
        f'<text class="tick end" x="{_x(0) - 8}" y="{_y(t) + 4}">{percent(t, 0)}</text>'
        f'<text class="tick" x="{_x(t)}" y="{_y(0) + 19}">{percent(t, 0)}</text>'
    )


def _series(name: str, x: FloatArray, y: FloatArray, joined: bool) -> Markup:
    points = [(_x(a), _y(b)) for a, b in zip(x, y, strict=True) if np.isfinite(a) and np.isfinite(b)]
    line = (
        Markup(f'<path class="{name}" d="M{"L".join(f"{a} {b}" for a, b in points)}"/>')
        if joined and points
        else None
    )
    return join([line, *(_mark(name, a, b) for a, b in points)])


def _mark(name: str, x: float, y: float) -> Markup:
    """A dot after the shift, a hollow diamond before it: shapes differ, not colours alone."""
    if name == "after":
        return Markup(f'<circle class="after-dot" cx="{x}" cy="{y}" r="3.4"/>')
    return Markup(f'<path class="before-dot" d="M{x} {y - 3.8:.1f}l3.8 3.8l-3.8 3.8l-3.8 -3.8Z"/>')


def before_after_legend() -> Markup:
    """With the shift and without, and where truth and prediction agree."""
    dot = '<circle class="after-dot" cx="7" cy="8" r="3.8"/>'
    diamond = '<path class="before-dot" d="M7 4l4 4l-4 4l-4 -4Z"/>'
    line = '<line class="reference" x1="1" x2="15" y1="15" y2="1"/>'
    return _legend(
        (dot, 14, "with the shift"), (diamond, 14, "plain classifier"), (line, 16, "predicted as observed")
    )
