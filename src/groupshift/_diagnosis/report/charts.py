"""Figures of the page as data: for its script, which draws most of them, and for two squares of SVG."""

from typing import Any

import numpy as np

from groupshift._diagnosis.report.facts import Facts, largest
from groupshift._diagnosis.report.formats import count, percent, points, rounded, texts
from groupshift._diagnosis.report.report_tables import INTERVAL, calibration_table
from groupshift._math.arrays import BoolArray, FloatArray, Table

# Color of the largest shift: deeper, and its number is hard to read in the light or in the dark scheme.
DEEPEST = 0.44
MOST_POINTS = 1_000
ROWS_PER_BIN = 100
# Pixels of a square of shares against shares: its side, and what stands left and above of it.
SIDE, LEFT, TOP = 320, 48, 10

Figure = dict[str, object]


def figures(facts: Facts) -> dict[str, Figure]:
    """Data of the figures that the script draws."""
    found, model = {}, facts.model
    if facts.has_population and not facts.has_classes:
        found["shares"] = _shares(facts.groups, facts.is_last, float(facts.overall["share"][0]))
        if facts.shifted:
            found["shifts"] = _shifts(facts.cells, model.evidence_.labeled_clusters.share[:, 0])
    if facts.held_out is not None and facts.any_gain:
        found["gain"] = _gain(facts.held_out, has_classes=facts.has_classes)
    if model.candidates_ is not None:
        found["candidates"] = _candidates(model.candidates_)
    return found


def _shares(groups: dict[str, Any], is_last: BoolArray, overall: float) -> Figure:
    """Dots and intervals: the share of positives of each group, the labeled sample beside the population."""
    figure = {
        "kind": "dots",
        "label": "Share of positives of each group, with its interval",
        "names": groups["name"],
        "value": rounded(groups["share"]),
        "low": rounded(groups["low"]),
        "high": rounded(groups["high"]),
        "narrowLow": rounded(groups["narrow_low"]),
        "narrowHigh": rounded(groups["narrow_high"]),
        "everyRow": rounded(groups["every_row"]),
        "last": is_last.astype(int).tolist(),
        "rows": rounded(groups["rows"], 0),
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
    if groups["sample_rows"].any():
        figure |= {
            "other": rounded(groups["sample_share"]),
            "otherRows": rounded(groups["sample_rows"], 0),
            "otherLabel": "Labeled sample",
        }
    return figure


def _shifts(cells: dict[str, Any], sample_share: FloatArray) -> Figure:
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


def _gain(held_out: Table, *, has_classes: bool) -> Figure:
    """Dots: how much the shifts lowered the loss of each labeled group whose labels were held out."""
    shares = {
        "Positives, in truth": "share",
        "… predicted with the shift": "mean_model",
        "… predicted without": "mean_global",
    }
    return GAIN | {
        "label": "Gain on the held-out labels of each labeled group",
        "names": held_out["name"].tolist(),
        "value": rounded(held_out["gain"]),
        "rows": rounded(held_out["rows"], 0),
        "rowsLabel": "Labeled rows",
        "searchable": True,
        "more": {}
        if has_classes
        else {key: [percent(v) for v in held_out[of][:, 0]] for key, of in shares.items()},
    }


def _candidates(candidates: Table) -> Figure:
    """Dots with intervals: the gain of every candidate partition."""
    # One cluster is what the others are compared with: it has no error of its own.
    reach = np.where(candidates["gain_error"] > 0, candidates["gain_error"], np.nan)
    return GAIN | {
        "label": "Gain of each candidate partition on held-out labels",
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
    """The shift of full color: nearly the largest, in halves, so that one odd cell does not pale the rest.

    >>> shift_scale(np.array([[0.2, -1.3]])), shift_scale(np.zeros((1, 1)))
    (1.5, 0.5)
    """
    most = float(np.quantile(np.abs(shift), 0.98)) if shift.size else 0.0
    return max(float(np.ceil(2 * most - 1e-9) / 2), 0.5)


def calibration_squares(facts: Facts) -> list[Figure]:
    """Observed shares against predicted ones on held-out labels, by probability and by group, as pixels.

    Points before the shift and after it are joined by lines or loose.
    """
    return [square for square in (_by_probability(facts), _by_group(facts)) if square is not None]


def _by_probability(facts: Facts) -> Figure | None:
    held_out = facts.model.evidence_.held_out
    if held_out is None:
        return None
    n_bins = int(np.clip(held_out.total["rows"] / ROWS_PER_BIN, 4, len(held_out.calibration["model"])))
    plain, shifted = (merged_bins(held_out.calibration[name], n_bins) for name in ("global", "model"))
    errors = (
        points(float(np.average(np.abs(bins[:, 1] - bins[:, 2]), weights=bins[:, 0])))
        for bins in (shifted, plain)
    )
    off = "Off by {} on average with the shift, {} without.".format(*errors)
    what = (
        "rows that are of the class, each class against the rest"
        if facts.has_classes
        else "rows that are positive"
    )
    return {
        "title": "Are the probabilities right?",
        "caption": f"By predicted probability: share of {what}. {off}",
        "label": f"Calibration: share of {what} against predicted probability. {off}",
        "axis": "Predicted probability",
        "before": _pixels(plain[:, 1], plain[:, 2]),
        "after": _pixels(shifted[:, 1], shifted[:, 2]),
        "joined": True,
        "table": calibration_table(shifted),
    }


def _by_group(facts: Facts) -> Figure | None:
    held_out = facts.held_out
    if held_out is None:
        return None
    shown, rows = largest(held_out["rows"], MOST_POINTS), held_out["rows"].astype(float)
    errors = (
        points(float(np.average(np.abs(held_out[name] - held_out["share"]).mean(1), weights=rows)))
        for name in ("mean_model", "mean_global")
    )
    off = "Off by {} on average with the shift, {} without".format(*errors)
    few = "" if len(shown) == len(rows) else f" The {count(len(shown))} largest groups."
    share, plain, model = (held_out[name][shown].ravel() for name in ("share", "mean_global", "mean_model"))
    what = "each class" if facts.has_classes else "rows that are positive"
    return {
        "title": "Are the groups right?",
        "caption": f"By group: share of {what}. {off}; numbers below.{few}",
        "label": f"Share of {what} in each labeled group against its mean prediction. {off}.",
        "axis": "Mean prediction for the group",
        "before": _pixels(plain, share),
        "after": _pixels(model, share),
        "joined": False,
        "table": None,
    }


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
