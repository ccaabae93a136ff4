"""The paper's tables in our hand, and those it does not have: text for people, records for machines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from groupshift.experiments.published import RELATIVE_AUC, published_auc
from groupshift.experiments.results import Mean, Place, Results
from groupshift.experiments.table_text import (
    MINUS,
    NOTHING,
    TITLES,
    Table,
    percent,
    place_title,
    share,
    signed,
)

ACS = ("income", "employment", "ipr")


def all_tables(results: Results) -> list[Table]:
    """Every table that the results have anything to say to."""
    makers: tuple[Callable[[Results], Table | None], ...] = (
        lambda r: published_table(r, "table1", "Table 1: setting 1", [(d, "1") for d in ACS]),
        lambda r: published_table(r, "table2", "Table 2: setting 2", [(d, "2") for d in ACS]),
        lambda r: published_table(
            r, "table_amazon", "Appendix: reviews, settings 1 and 2", [("amazon", "1"), ("amazon", "2")]
        ),
        lambda r: published_table(
            r, "table_natural", "Natural shift, not in the paper", [(d, "natural") for d in ACS]
        ),
        gain_table,
        relative_table,
        bayes_table,
        partition_table,
        quality_table,
        effort_table,
    )
    return [table for table in (make(results) for make in makers) if table is not None]


def published_table(
    results: Results, name: str, title: str, columns: Sequence[tuple[str, str]]
) -> Table | None:
    """AUC beside the published number, the difference, and the gain over Global on the same draws."""
    places: list[Place] = [(d, s, "", "") for d, s in columns if (d, s, "", "") in results.places]
    if not places:
        return None
    records, body = [], []
    for method in results.methods:
        cells = [_record(results, place, method) for place in places]
        if any(cell["n"] for cell in cells):
            records += cells
            body.append([results.title(method), *(text for cell in cells for text in _texts(cell))])
    header = ["Method"]
    for data, setting, *_ in places:
        what = TITLES.get(data, data) + ("" if len({p[1] for p in places}) == 1 else f" s{setting}")
        header += [f"{what}: this run", "published", "difference", "vs Global (published)"]
    note = (
        "Mean test AUC ± half of its 95 % interval over draws (Student's t); the published number has no "
        "interval, so that of the difference is this run's. The last column of a data set is the gain over "
        "Global on the same draws, paired, and in brackets the gain between the published means."
    )
    return Table(name, title, note, header, body, records)


def _record(results: Results, place: Place, method: str) -> dict[str, Any]:
    data, setting, *_ = place
    mean, gain = results.mean(place, method), results.against(place, method, "global")
    paper, base = published_auc(method, data, setting), published_auc("global", data, setting)
    return {
        "data": data,
        "setting": setting,
        "method": method,
        "auc": mean.value,
        "half_width": mean.half,
        "n": mean.n,
        "published": paper,
        "difference": None if paper is None else mean.value - paper,
        "gain_over_global": gain.value,
        "gain_half_width": gain.half,
        "published_gain": None if paper is None or base is None else paper - base,
    }


def _texts(cell: dict[str, Any]) -> list[str]:
    if not cell["n"]:
        return [NOTHING, share(cell["published"]), NOTHING, NOTHING]
    mean = Mean(cell["auc"], cell["half_width"], cell["n"])
    gain = Mean(cell["gain_over_global"], cell["gain_half_width"], cell["n"])
    difference = "" if cell["published"] is None else signed(mean - cell["published"])
    in_paper = "" if cell["published_gain"] is None else f" ({signed(cell['published_gain'])})"
    own = "" if cell["method"] == "global" else signed(gain) + in_paper
    return [share(mean), share(cell["published"]), difference, own]


GAINS = (("auc", "AUC"), ("log_loss", "log loss"), ("ece", "calibration error"), ("ece_macro", "by group"))


def gain_table(results: Results) -> Table | None:
    """Every method against Global on the same draws, whatever the data."""
    records, body = [], []
    for data, setting in dict.fromkeys(p[:2] for p in results.places):
        for method in results.methods:
            if method in ("global", "bayes"):
                continue
            pairs = {metric: results.paired(data, setting, method, "global", metric) for metric, _ in GAINS}
            gains = {metric: Mean.of(found) for metric, found in pairs.items()}
            if not gains["auc"].n:
                continue
            worst = min(pairs["auc"])
            record = {"data": data, "setting": setting, "method": method, "draws": gains["auc"].n}
            for metric, gain in gains.items():
                record |= {metric: gain.value, f"{metric}_half_width": gain.half}
            records.append({**record, "worst_auc": worst})
            texts = [signed(gain, 4) for gain in gains.values()]
            row = [place_title(data, setting), results.title(method), str(gains["auc"].n)]
            body.append([*row, *texts, signed(worst, 4)])
    if not body:
        return None
    header = ["Data", "Method", "draws", *(title for _, title in GAINS), "AUC, worst draw"]
    note = (
        "Differences to Global on the same draws, ± half of their 95 % interval (Student's t over draws; synthetic: "
        "all d and K together). More AUC is better, less of the others. By group: the calibration error of each group, averaged."
    )
    return Table("gains", "Against Global, draw by draw", note, header, body, records)


def relative_auc(results: Results, method: str, setting: str, *, to: str = "global") -> dict[Place, float]:
    """Percent by which the mean AUC of a method exceeds another's, for each (d, K)."""
    places = [p for p in results.places if p[0] == "synthetic" and p[1] == setting]
    found = {}
    for place in places:
        mine, theirs = results.of(place, method), results.of(place, to)
        both = [r for r in mine if r in theirs]
        if both:
            found[place] = 100 * (sum(mine[r] for r in both) / sum(theirs[r] for r in both) - 1)
    return found


def relative_table(results: Results) -> Table | None:
    """Figure 2 in numbers."""
    records, body = [], []
    for method in results.methods:
        if method == "global":
            continue
        row = [results.title(method)]
        for setting in ("1", "2"):
            values = np.array(list(relative_auc(results, method, setting).values()))
            paper = RELATIVE_AUC.get((method, int(setting)))
            if len(values):
                low, mid, high = np.quantile(values, [0, 0.5, 1])
                record = {"setting": setting, "method": method, "median": mid, "min": low, "max": high}
                records.append({**record, "pairs": len(values), "published_median": paper})
                row += [
                    percent(mid),
                    f"{percent(low)} to {percent(high)}",
                    "" if paper is None else percent(paper),
                ]
            else:
                row += [NOTHING, NOTHING, "" if paper is None else percent(paper)]
        if row.count(NOTHING) < 4:
            body.append(row)
    if not body:
        return None
    header = ["Method"]
    for setting in ("setting 1", "setting 2"):
        header += [f"{setting}: median", "range over (d, K)", "published, by eye"]
    note = (
        "AUC relative to Global in percent, averaged over draws first, then over the (d, K) pairs. "
        "Published medians are read off a picture; its setting 1 shows all methods about 0."
    )
    return Table("figure2_numbers", "Synthetic data relative to Global", note, header, body, records)


def bayes_table(results: Results) -> Table | None:
    """How far each method stays from the best that any method could do."""
    records, body = [], []
    for method in results.methods:
        if method == "bayes":
            continue
        row = [results.title(method)]
        for setting in ("1", "2"):
            places = [p for p in results.places if p[:2] == ("synthetic", setting)]
            auc = [results.against(p, "bayes", method).value for p in places]
            loss = [results.against(p, method, "bayes", "log_loss").value for p in places]
            auc, loss = ([v for v in values if not math.isnan(v)] for values in (auc, loss))
            if auc:
                record = {"setting": setting, "method": method, "auc_below_bayes": float(np.mean(auc))}
                records.append({**record, "worst": max(auc), "log_loss_above_bayes": float(np.mean(loss))})
                row += [f"{np.mean(auc):.4f}", f"{max(auc):.4f}", f"{np.mean(loss):.4f}"]
            else:
                row += [NOTHING] * 3
        body.append(row)
    if not records:
        return None
    header = ["Method"]
    for setting in ("setting 1", "setting 2"):
        header += [f"{setting}: AUC below Bayes", "worst (d, K)", "log loss above Bayes"]
    note = (
        "Mean over (d, K) of the distance to the exact posterior under the true shares, on the same "
        "test rows."
    )
    return Table("bayes", "Distance to the Bayes limit on synthetic data", note, header, body, records)


def partition_table(results: Results) -> Table | None:
    """What not knowing the partition costs."""
    records, body = [], []
    for data, setting in dict.fromkeys(p[:2] for p in results.places):
        places = [p for p in results.places if p[:2] == (data, setting)]
        for method in ("published", "groupshift"):
            gaps = [results.against(p, "true_clustering", method).value for p in places]
            gaps = [g for g in gaps if not math.isnan(g)]
            if not gaps:
                continue
            agreement = [v for p in places for v in results.of(p, method, "partition_agreement").values()]
            exact = [
                n == results.of(p, method, "true_clusters").get(r)
                for p in places
                for r, n in results.of(p, method, "n_clusters").items()
            ]
            values = (float(np.mean(gaps)), float(np.mean(agreement)), float(np.mean(exact)))
            body.append(
                [
                    *(place_title(data, setting), results.title(method)),
                    *(
                        f"{values[0]:+.4f}".replace("-", MINUS),
                        f"{values[1]:.2f}",
                        f"{100 * values[2]:.0f} %",
                    ),
                ]
            )
            names = ("auc_below_oracle", "adjusted_rand", "share_with_true_K")
            record = {"data": data, "setting": setting, "method": method}
            records.append({**record, **dict(zip(names, values, strict=True))})
    if not body:
        return None
    header = [
        "Data",
        "Method",
        "AUC below True Clustering",
        "agreement (adjusted Rand)",
        "draws with the true K",
    ]
    note = (
        "True Clustering is the paper's method told the generating partition. Below 0: better than "
        "this oracle."
    )
    return Table("partition", "Effect of the partition", note, header, body, records)


QUALITY = (
    ("auc", "AUC"),
    ("auc_macro", "AUC, mean of groups"),
    ("auc_worst_group", "AUC, worst group"),
    ("log_loss", "log loss"),
    ("brier", "Brier"),
    ("ece", "calibration error"),
    ("share_error_group", "share error of groups"),
    ("share_error_cell", "share error of cells"),
)


def quality_table(results: Results) -> Table | None:
    """Everything else that was measured of predictions and shares."""
    return _overview(
        results,
        name="quality",
        title="Beyond AUC",
        metrics=QUALITY,
        write=lambda value: f"{value:.3f}",
        note="Means over draws (synthetic: over all d and K too). Share error of groups: what a group's "
        "predictions add up to, against its share of positives; of cells: the estimated share of each "
        "(group, cluster), "
        "weighted by rows.",
    )


EFFORT = (
    ("seconds", "seconds"),
    ("seconds_borrowed", "of which shared"),
    ("peak_memory_mb", "peak memory, MB"),
    ("added_memory_mb", "of which added, MB"),
)


def effort_table(results: Results) -> Table | None:
    return _overview(
        results,
        name="effort",
        title="What it costs",
        metrics=EFFORT,
        write=lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.2f}",
        note="Mean per draw on one thread, prediction of the test rows included. Seconds are those of the "
        "method alone; the shared part was done once for several methods of a draw. Memory is that of the "
        "process, data "
        "included.",
    )


def _overview(
    results: Results,
    *,
    name: str,
    title: str,
    metrics: Sequence[tuple[str, str]],
    write: Callable[[float], str],
    note: str,
) -> Table | None:
    records, body = [], []
    for data, setting in dict.fromkeys(p[:2] for p in results.places):
        for method in results.methods:
            values = {}
            for metric, _ in metrics:
                places = [p for p in results.places if p[:2] == (data, setting)]
                found = [results.mean(p, method, metric).value for p in places]
                values[metric] = float(np.mean([v for v in found if not math.isnan(v)] or [math.nan]))
            if not math.isnan(values[metrics[0][0]]):
                records.append({"data": data, "setting": setting, "method": method, **values})
                texts = ["" if math.isnan(v) else write(v) for v in values.values()]
                body.append([place_title(data, setting), results.title(method), *texts])
    return (
        Table(name, title, note, ["Data", "Method", *(t for _, t in metrics)], body, records)
        if body
        else None
    )
