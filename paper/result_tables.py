"""The paper's tables in our hand, and those it does not have: text for people, records for machines."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from groupshift._explain.wording import percent
from paper.published import RELATIVE_AUC, published_auc
from paper.results import Mean, Place, Results
from paper.table_text import (
    NOTHING,
    TITLES,
    Record,
    Table,
    place_title,
    relative,
    share,
    signed,
)

ACS = ("income", "employment", "ipr")
# What the published tables hold, by their names here.
PUBLISHED = {
    "table1": ("Table 1: setting 1", [(d, "1") for d in ACS]),
    "table2": ("Table 2: setting 2", [(d, "2") for d in ACS]),
    "table_amazon": ("Appendix: reviews, settings 1 and 2", [("amazon", "1"), ("amazon", "2")]),
    "table_natural": ("Natural shift, not in the paper", [(d, "natural") for d in ACS]),
}
# The records of one line of a table, and its cells.
Line = tuple[Sequence[Record], Sequence[str]]


def all_tables(results: Results) -> list[Table]:
    """Every table that the results have anything to say to."""
    tables = [
        *(published_table(results, name, *what) for name, what in PUBLISHED.items()),
        gain_table(results),
        relative_table(results),
        bayes_table(results),
        partition_table(results),
        quality_table(results),
        effort_table(results),
    ]
    return [table for table in tables if table is not None]


def _table(name: str, title: str, note: str, header: Sequence[str], lines: Iterable[Line]) -> Table | None:
    """A table of lines; none if there are no lines."""
    found = list(lines)
    records = [record for several, _ in found for record in several]
    return Table(name, title, note, header, [cells for _, cells in found], records) if found else None


def published_table(
    results: Results, name: str, title: str, columns: Sequence[tuple[str, str]]
) -> Table | None:
    """AUC beside the published number, the difference, and the gain over Global on the same draws."""
    places: list[Place] = [(d, s, "", "") for d, s in columns if (d, s, "", "") in results.places]
    one_setting = len({setting for _, setting, *_ in places}) == 1
    header = ["Method"]
    for data, setting, *_ in places:
        what = TITLES.get(data, data) + ("" if one_setting else f" s{setting}")
        header += [f"{what}: this run", "published", "difference", "vs Global (published)"]

    def lines() -> Iterator[Line]:
        for method in results.methods:
            cells = [_published_cell(results, place, method) for place in places]
            if any(record["n"] for record, _ in cells):
                texts = [text for _, several in cells for text in several]
                yield [record for record, _ in cells], [results.title(method), *texts]

    note = (
        "Mean test AUC ± half of its 95 % interval over draws (Student's t); the published number has no "
        "interval, so that of the difference is this run's. The last column of a data set is the gain over "
        "Global on the same draws, paired, and in brackets the gain between the published means."
    )
    return _table(name, title, note, header, lines())


def _published_cell(results: Results, place: Place, method: str) -> tuple[Record, list[str]]:
    data, setting, *_ = place
    mean, gain = results.mean(place, method), results.against(place, method, "global")
    paper, base = published_auc(method, data, setting), published_auc("global", data, setting)
    paper_gain = None if paper is None or base is None else paper - base
    record: Record = {
        **{"data": data, "setting": setting, "method": method},
        **{"auc": mean.value, "half_width": mean.half, "n": mean.n, "published": paper},
        "difference": None if paper is None else mean.value - paper,
        **{"gain_over_global": gain.value, "gain_half_width": gain.half, "published_gain": paper_gain},
    }
    if not mean.n:
        return record, [NOTHING, share(paper), NOTHING, NOTHING]
    difference = "" if paper is None else signed(mean - paper)
    in_paper = "" if paper_gain is None else f" ({signed(paper_gain)})"
    return record, [
        share(mean),
        share(paper),
        difference,
        "" if method == "global" else signed(gain) + in_paper,
    ]


GAINS = {"auc": "AUC", "log_loss": "log loss", "ece": "calibration error", "ece_macro": "by group"}


def gain_table(results: Results) -> Table | None:
    """Every method against Global on the same draws, whatever the data."""

    def lines() -> Iterator[Line]:
        for data, setting in results.sets:
            for method in (m for m in results.methods if m not in ("global", "bayes")):
                pairs = {metric: results.paired(data, setting, method, "global", metric) for metric in GAINS}
                if not pairs["auc"]:
                    continue
                gains = {metric: Mean.of(found) for metric, found in pairs.items()}
                draws, worst = gains["auc"].n, min(pairs["auc"])
                record: Record = {"data": data, "setting": setting, "method": method, "draws": draws}
                for metric, gain in gains.items():
                    record |= {metric: gain.value, f"{metric}_half_width": gain.half}
                texts = [*(signed(gain, 4) for gain in gains.values()), signed(worst, 4)]
                cells = [place_title(data, setting), results.title(method), str(draws), *texts]
                yield [{**record, "worst_auc": worst}], cells

    header = ["Data", "Method", "draws", *GAINS.values(), "AUC, worst draw"]
    note = (
        "Differences to Global on the same draws, ± half of their 95 % interval (Student's t over draws; synthetic: "
        "all d and K together). More AUC is better, less of the others. By group: the calibration error of each group, averaged."
    )
    return _table("gains", "Against Global, draw by draw", note, header, lines())


def relative_auc(results: Results, method: str, setting: str) -> dict[Place, float]:
    """Percent by which the mean AUC of a method exceeds Global's, for each (d, K)."""
    found = {}
    for place in results.sets.get(("synthetic", setting), []):
        mine, theirs = results.of(place, method), results.of(place, "global")
        both = [r for r in mine if r in theirs]
        if both:
            found[place] = 100 * (sum(mine[r] for r in both) / sum(theirs[r] for r in both) - 1)
    return found


# What a table by settings says of a method in a setting: a record, if there is anything to record, and its cells.
Described = tuple[Record | None, list[str]]


def _by_setting(
    results: Results, without: str, columns: Sequence[str], describe: Callable[[str, str], Described]
) -> tuple[list[str], list[Line]]:
    """A line for each method, with the same columns for setting 1 and setting 2 of synthetic data."""
    header, lines = ["Method"], list[Line]()
    for setting in ("1", "2"):
        header += [f"setting {setting}: {columns[0]}", *columns[1:]]
    for method in (m for m in results.methods if m != without):
        described = [describe(method, setting) for setting in ("1", "2")]
        records = [record for record, _ in described if record is not None]
        if records:
            lines.append(
                (records, [results.title(method), *(text for _, texts in described for text in texts)])
            )
    return header, lines


def relative_table(results: Results) -> Table | None:
    """Figure 2 in numbers."""

    def describe(method: str, setting: str) -> Described:
        values = list(relative_auc(results, method, setting).values())
        paper = RELATIVE_AUC.get((method, int(setting)))
        in_paper = "" if paper is None else relative(paper)
        if not values:
            return None, [NOTHING, NOTHING, in_paper]
        low, mid, high = min(values), float(np.median(values)), max(values)
        record: Record = {"setting": setting, "method": method, "median": mid, "min": low, "max": high}
        record |= {"pairs": len(values), "published_median": paper}
        return record, [relative(mid), f"{relative(low)} to {relative(high)}", in_paper]

    note = (
        "AUC relative to Global in percent, averaged over draws first, then over the (d, K) pairs. "
        "Published medians are read off a picture; its setting 1 shows all methods about 0."
    )
    columns = ("median", "range over (d, K)", "published, by eye")
    parts = _by_setting(results, "global", columns, describe)
    return _table("figure2_numbers", "Synthetic data relative to Global", note, *parts)


def bayes_table(results: Results) -> Table | None:
    """How far each method stays from the best that any method could do."""

    def describe(method: str, setting: str) -> Described:
        auc = list(results.by_place("synthetic", setting, "bayes", method).values())
        loss = list(results.by_place("synthetic", setting, method, "bayes", "log_loss").values())
        if not auc:
            return None, [NOTHING] * 3
        values = {"auc_below_bayes": float(np.mean(auc)), "worst": max(auc)}
        values["log_loss_above_bayes"] = float(np.mean(loss))
        return {"setting": setting, "method": method, **values}, [f"{v:.4f}" for v in values.values()]

    note = "Mean over (d, K) of the distance to the exact posterior under the true shares, on the same test rows."
    columns = ("AUC below Bayes", "worst (d, K)", "log loss above Bayes")
    parts = _by_setting(results, "bayes", columns, describe)
    return _table("bayes", "Distance to the Bayes limit on synthetic data", note, *parts)


def partition_table(results: Results) -> Table | None:
    """What not knowing the partition costs."""

    def lines() -> Iterator[Line]:
        for (data, setting), places in results.sets.items():
            for method in ("published", "groupshift"):
                gaps = results.by_place(data, setting, "true_clustering", method)
                if not gaps:
                    continue
                agreement = [v for p in places for v in results.of(p, method, "partition_agreement").values()]
                exact = [
                    n == results.of(p, method, "true_clusters").get(r)
                    for p in places
                    for r, n in results.of(p, method, "n_clusters").items()
                ]
                below, agrees, right = (float(np.mean(v)) for v in (list(gaps.values()), agreement, exact))
                record: Record = {"data": data, "setting": setting, "method": method}
                record |= {"auc_below_oracle": below, "adjusted_rand": agrees, "share_with_true_K": right}
                texts = [signed(below, 4), f"{agrees:.2f}", percent(right, 0)]
                yield [record], [place_title(data, setting), results.title(method), *texts]

    columns = ["AUC below True Clustering", "agreement (adjusted Rand)", "draws with the true K"]
    note = "True Clustering is the paper's method told the generating partition. Below 0: better than this oracle."
    return _table("partition", "Effect of the partition", note, ["Data", "Method", *columns], lines())


QUALITY = {
    "auc": "AUC",
    "auc_macro": "AUC, mean of groups",
    "auc_worst_group": "AUC, worst group",
    "log_loss": "log loss",
    "brier": "Brier",
    "ece": "calibration error",
    "share_error_group": "share error of groups",
    "share_error_cell": "share error of cells",
}
EFFORT = {
    "seconds": "seconds",
    "seconds_borrowed": "of which shared",
    "peak_memory_mb": "peak memory, MB",
    "added_memory_mb": "of which added, MB",
}


def quality_table(results: Results) -> Table | None:
    """Everything else that was measured of predictions and shares."""
    note = (
        "Means over draws (synthetic: over all d and K too). Share error of groups: what a group's predictions "
        "add up to, against its share of positives; of cells: the estimated share of each (group, cluster), "
        "weighted by rows."
    )
    header = ["Data", "Method", *QUALITY.values()]
    lines = _means(results, QUALITY, lambda value: f"{value:.3f}")
    return _table("quality", "Beyond AUC", note, header, lines)


def effort_table(results: Results) -> Table | None:
    note = (
        "Mean per draw on one thread, prediction of the test rows included. Seconds are those of the method "
        "alone; the shared part was done once for several methods of a draw. Memory is that of the process, "
        "data included."
    )
    header = ["Data", "Method", *EFFORT.values()]
    lines = _means(results, EFFORT, lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.2f}")
    return _table("effort", "What it costs", note, header, lines)


def _means(results: Results, metrics: Iterable[str], write: Callable[[float], str]) -> Iterator[Line]:
    for (data, setting), places in results.sets.items():
        for method in results.methods:
            values: dict[str, float] = {}
            for metric in metrics:
                found = [results.mean(place, method, metric).value for place in places]
                values[metric] = float(np.mean([v for v in found if not math.isnan(v)] or [math.nan]))
            if not math.isnan(next(iter(values.values()))):
                texts = ["" if math.isnan(v) else write(v) for v in values.values()]
                record: Record = {"data": data, "setting": setting, "method": method, **values}
                yield [record], [place_title(data, setting), results.title(method), *texts]
