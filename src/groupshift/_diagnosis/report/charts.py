"""Figures of the page as data: for its script, which draws most of them, and for two squares of SVG."""

from dataclasses import dataclass

import numpy as np

from groupshift._diagnosis.report.facts import CellLines, Facts, GroupLines, HiddenLines, largest
from groupshift._diagnosis.report.formats import count, percent, points, rounded, texts
from groupshift._diagnosis.report.report_tables import INTERVAL, TableView, calibration_table
from groupshift._math.arrays import FloatArray, Table

# Colour of the largest shift: deeper, and its number is hard to read in the light or in the dark scheme.
DEEPEST = 0.44
MOST_POINTS = 1_000
ROWS_PER_BIN = 100
# Pixels of a square of shares against shares: its side, and what stands left and above of it.
SIDE, LEFT, TOP = 320, 48, 10

Figure = dict[str, object]


def figures(facts: Facts) -> dict[str, Figure]:
    """Data of the figures that the script draws."""
    found, model = {}, facts.model
    if facts.has_population:
        found["shares"] = _shares(facts.groups, facts.overall.share)
        if facts.shifted:
            found["shifts"] = _shifts(facts.cells, model.evidence_.labeled_clusters.share)
    if facts.hidden is not None and facts.any_gain:
        found["gain"] = _gain(facts.hidden)
    if model.candidates_ is not None:
        found["candidates"] = _candidates(model.candidates_)
    return found


def _shares(groups: GroupLines, overall: float) -> Figure:
    """Dots and intervals: the share of positives of each group, the labelled sample beside the population."""
    figure = {
        "kind": "dots",
        "label": "Share of positives of each group, with its interval",
        "names": groups.name,
        "value": rounded(groups.share),
        "low": rounded(groups.low),
        "high": rounded(groups.high),
        "rows": rounded(groups.rows, 0),
        "format": "percent",
        "axis": "Share of positives",
        "valueLabel": "Population",
        "intervalLabel": INTERVAL,
        "rowsLabel": "Population rows",
        "reference": round(overall, 4),
        "searchable": True,
        "sort": "value",
        "descending": True,
    }
    if groups.sample_rows.any():
        figure |= {
            "other": rounded(groups.sample_share),
            "otherRows": rounded(groups.sample_rows, 0),
            "otherLabel": "Labelled sample",
            "otherRowsLabel": "Labelled rows",
        }
    return figure


def _shifts(cells: CellLines, sample_share: FloatArray) -> Figure:
    """The map of shifts: groups down, clusters across."""
    return {
        "kind": "map",
        "label": "Shift of each group in each cluster",
        "names": cells.name,
        "clusters": [f"cluster {k}" for k in range(len(sample_share))],
        "shift": rounded(cells.shift, 3),
        "share": rounded(cells.share, 3),
        "low": rounded(cells.low, 3),
        "high": rounded(cells.high, 3),
        "rows": rounded(cells.rows, 0),
        "borrowed": cells.borrowed.astype(int).ravel().tolist(),
        "sampleShare": rounded(sample_share),
        "scale": shift_scale(cells.shift),
        "deepest": DEEPEST,
        "intervalLabel": INTERVAL,
        "searchable": True,
        "sort": "name",
    }


# Gains, of groups or of candidates, look alike.
GAIN = {
    "kind": "dots",
    "format": "signed",
    "digits": 3,
    "axis": "Fall of the log loss",
    "valueLabel": "Gain",
    "reference": 0,
    "sort": "value",
    "descending": True,
}


def _gain(hidden: HiddenLines) -> Figure:
    """Dots: how much knowing the group lowered the loss of each labelled group whose labels were hidden."""
    return GAIN | {
        "label": "Gain on the hidden labels of each labelled group",
        "names": hidden.name,
        "value": rounded(hidden.gain),
        "rows": rounded(hidden.rows, 0),
        "rowsLabel": "Labelled rows",
        "searchable": True,
        "more": {
            "Positives, in truth": [percent(v) for v in hidden.share],
            "… predicted with the shift": [percent(v) for v in hidden.mean_model],
            "… predicted without": [percent(v) for v in hidden.mean_global],
        },
    }


def _candidates(candidates: Table) -> Figure:
    """Dots with intervals: the gain of every candidate partition."""
    # One cluster is what the others are compared with: it has no error of its own.
    reach = np.where(candidates["gain_error"] > 0, candidates["gain_error"], np.nan)
    return GAIN | {
        "label": "Gain of each candidate partition on hidden labels",
        "what": "candidates",
        "names": texts(candidates["candidate"]),
        "value": rounded(candidates["gain"]),
        "low": rounded(candidates["gain"] - reach),
        "high": rounded(candidates["gain"] + reach),
        "intervalLabel": "± one standard error",
        "given": "order tried",
        "marked": np.flatnonzero(candidates["chosen"]).tolist(),
        "more": {"Clusters": candidates["n_clusters"].tolist()},
    }


def shift_scale(shift: FloatArray) -> float:
    """The shift of full colour: nearly the largest, in halves, so that one odd cell does not pale the rest.

    >>> shift_scale(np.array([[0.2, -1.3]])), shift_scale(np.zeros((1, 1)))
    (1.5, 0.5)
    """
    most = float(np.quantile(np.abs(shift), 0.98)) if shift.size else 0.0
    return max(float(np.ceil(2 * most - 1e-9) / 2), 0.5)


@dataclass(frozen=True)
class Square:
    """Observed shares against predicted ones, as pixels: before the shift and after it, joined by lines or loose."""

    title: str
    caption: str
    label: str
    axis: str
    before: list[tuple[float, float]]
    after: list[tuple[float, float]]
    joined: bool
    table: TableView | None = None


def calibration_squares(facts: Facts) -> list[Square]:
    """Predicted against observed shares on labels that were hidden: by probability, and by group."""
    return [square for square in (_by_probability(facts), _by_group(facts)) if square is not None]


def _by_probability(facts: Facts) -> Square | None:
    held_out = facts.model.evidence_.held_out
    if held_out is None:
        return None
    found = held_out.calibration
    n_bins = int(np.clip(held_out.total.rows / ROWS_PER_BIN, 4, len(found.model.overall)))
    plain, shifted = (merged_bins(method.overall, n_bins) for method in (found.plain, found.model))
    errors = (
        points(float(np.average(np.abs(bins[:, 1] - bins[:, 2]), weights=bins[:, 0])))
        for bins in (shifted, plain)
    )
    off = "Off by {} on average with the shift, {} without.".format(*errors)
    return Square(
        title="Are the probabilities right?",
        caption=f"By predicted probability: share of rows that are positive. {off}",
        label=f"Calibration: share of positives against predicted probability. {off}",
        axis="Predicted probability",
        before=_pixels(plain[:, 1], plain[:, 2]),
        after=_pixels(shifted[:, 1], shifted[:, 2]),
        joined=True,
        table=calibration_table(shifted),
    )


def _by_group(facts: Facts) -> Square | None:
    hidden = facts.hidden
    if hidden is None:
        return None
    shown = largest(hidden.rows, MOST_POINTS)
    errors = (
        points(float(np.average(np.abs(mean - hidden.share), weights=hidden.rows)))
        for mean in (hidden.mean_model, hidden.mean_global)
    )
    off = "Off by {} on average with the shift, {} without".format(*errors)
    few = "" if len(shown) == len(hidden.name) else f" The {count(len(shown))} largest groups."
    return Square(
        title="Are the groups right?",
        caption=f"By group: share of rows that are positive. {off}; numbers below.{few}",
        label=f"Share of positives of each labelled group against its mean prediction. {off}.",
        axis="Mean prediction for the group",
        before=_pixels(hidden.mean_global[shown], hidden.share[shown]),
        after=_pixels(hidden.mean_model[shown], hidden.share[shown]),
        joined=False,
    )


def merged_bins(bins: FloatArray, n_bins: int) -> FloatArray:
    """Neighbouring (weight, predicted, observed) bins joined to `n_bins`: few rows make many bins noise.

    >>> merged_bins(np.array([[1, 0.1, 0.0], [3, 0.3, 0.4]]), 1).round(2).tolist()
    [[4.0, 0.25, 0.3]]
    """
    parts = [part for part in np.array_split(bins[bins[:, 0] > 0], n_bins) if len(part)]
    return np.array(
        [[part[:, 0].sum(), *np.average(part[:, 1:], axis=0, weights=part[:, 0])] for part in parts]
    )


def _pixels(x: FloatArray, y: FloatArray) -> list[tuple[float, float]]:
    return [
        (round(LEFT + a * SIDE, 1), round(TOP + (1 - b) * SIDE, 1))
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
        if np.isfinite(a) and np.isfinite(b)
    ]
