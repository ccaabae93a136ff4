"""The paper's figures in our hand, and those it does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from groupshift._io.extras import need
from paper.published import RELATIVE_AUC, published_auc
from paper.result_tables import relative_auc
from paper.results import Place, Results
from paper.table_text import place_title

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Key = TypeVar("Key")
# One colour for one method everywhere; told apart by people who do not see red and green (Okabe and Ito).
COLORS = {
    "coral": "#999999",
    "global": "#000000",
    "group_aware_global": "#CC79A7",
    "cluster_global": "#56B4E9",
    "label_shift": "#E69F00",
    "published": "#D55E00",
    "groupshift": "#0072B2",
    "true_clustering": "#009E73",
    "bayes": "#666666",
}
# A bin with fewer test rows shows chance, not calibration.
MIN_BIN_ROWS = 50
STYLE: dict[str, object] = {
    **{"font.size": 9, "axes.titlesize": 10, "axes.titlelocation": "left"},
    **{"axes.spines.top": False, "axes.spines.right": False},
}


@dataclass(frozen=True)
class Figure:
    """A picture with the words that go with it."""

    name: str
    title: str
    caption: str
    picture: Canvas


def all_figures(results: Results) -> list[Figure]:
    """Every figure that the results have anything to say to."""
    need("matplotlib", extra="plot", what="A report with figures (tables alone need figures=False)")
    from matplotlib import style

    with style.context(STYLE):
        figures = (
            real_figure(results),
            relative_figure(results),
            breakdown_figure(results),
            bayes_figure(results),
            partition_figure(results),
            calibration_figure(results),
        )
        return [figure for figure in figures if figure is not None]


def _panels(
    n_rows: int, n_columns: int, *, size: tuple[float, float], share_x: bool = False, share_y: bool = False
) -> tuple[Canvas, np.ndarray]:
    # Not pyplot: no window system, no state left behind.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, sharex=share_x, sharey=share_y)


def _color(results: Results, method: str) -> str:
    return COLORS.get(results.kinds.get(method, method), "#444444")


def _rows_of_methods(
    results: Results,
    methods: Sequence[str],
    grid: Sequence[Sequence[tuple[str, Key]]],
    draw: Callable[[Axes, int, str, Key], None],
    *,
    label: str,
    size: tuple[float, float],
    zero: bool = True,
    share_x: bool = False,
) -> Canvas:
    """Panels with a row for each method, drawn by `draw(axes, row, method, key)`; `grid` holds (title, key)."""
    figure, panels = _panels(len(grid), len(grid[0]), size=size, share_x=share_x, share_y=True)
    for axes, (title, key) in zip(panels.flat, (panel for row in grid for panel in row), strict=True):
        for y, method in enumerate(methods):
            draw(axes, y, method, key)
        if zero:
            axes.axvline(0, color="#888888", lw=0.8, zorder=1)
        axes.set_yticks(range(len(methods)), [results.title(m) for m in methods])
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.grid(axis="x", color="#e6e6e6", zorder=0)
        axes.tick_params(axis="y", length=0)
        axes.set_title(title)
    for axes in panels[-1]:
        axes.set_xlabel(label)
    return figure


def real_figure(results: Results) -> Figure | None:
    """Tables 1 and 2 and the appendix as dots: with intervals, the published number beside them."""
    places = [p for p in results.places if p[0] != "synthetic"]
    if not places:
        return None
    settings = [s for s in ("1", "2", "natural") if any(p[1] == s for p in places)]
    data = list(dict.fromkeys(p[0] for p in places))
    methods = [m for m in results.methods if any(results.of(p, m) for p in places)]

    def draw(axes: Axes, y: int, method: str, place: Place) -> None:
        mean, paper = results.mean(place, method), published_auc(method, *place[:2])
        color = _color(results, method)
        if paper is not None:
            axes.plot(paper, y, "D", mfc="white", mec=color, ms=5, zorder=2)
        if mean.n:
            half = 0 if math.isnan(mean.half) else mean.half
            axes.errorbar(mean.value, y, xerr=half, fmt="o", color=color, ms=5, lw=1.2, zorder=3)
        if place not in places:
            axes.set_axis_off()

    grid = [[(place_title(name, setting), (name, setting, "", "")) for name in data] for setting in settings]
    size = max(2.6 * len(data) + 1.4, 5.5), 0.26 * len(settings) * (len(methods) + 3)
    figure = _rows_of_methods(results, methods, grid, draw, label="test AUC", size=size, zero=False)
    _explain_markers(figure, "this run, with the 95 % interval over draws", "published")
    caption = (
        "Mean test AUC over draws with its 95 % interval (filled), and the paper's number (hollow diamond), "
        "which was measured on other data: see what differs."
    )
    return Figure("real_data", "Real data: this run beside the paper", caption, figure)


def _explain_markers(figure: Canvas, filled: str, hollow: str) -> None:
    from matplotlib.lines import Line2D

    dark = "#222222"
    handles = [
        Line2D([], [], ls="none", ms=5, mec=dark, marker=marker, mfc=face, label=label)
        for marker, face, label in (("o", dark, filled), ("D", "white", hollow))
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)


def relative_figure(results: Results) -> Figure | None:
    """Figure 2: distribution over (d, K) of AUC relative to Global."""
    methods = [m for m in results.methods if m != "global"]
    return _distribution(
        results,
        "figure2",
        "Figure 2: AUC relative to Global on synthetic data",
        methods,
        lambda method, setting: relative_auc(results, method, setting),
        "AUC relative to Global, %",
        "Each dot is one (d, K), averaged over draws; boxes show quartiles and the median. Hollow diamonds: "
        "the paper's medians, read off its figure by eye (it shows setting 1 as about 0).",
        published=True,
    )


def bayes_figure(results: Results) -> Figure | None:
    """How far from the best possible, on the same rows."""

    def below(method: str, setting: str) -> dict[Place, float]:
        gaps = results.by_place("synthetic", setting, "bayes", method)
        return {place: 100 * gap for place, gap in gaps.items()}

    return _distribution(
        results,
        "bayes",
        "Distance to the Bayes limit",
        [m for m in results.methods if m != "bayes"],
        below,
        "AUC points below the Bayes limit",
        "Each dot is one (d, K). The limit is the exact posterior under the true shares of each group: no "
        "method can be better on average. Left is better.",
    )


def _distribution(
    results: Results,
    name: str,
    title: str,
    methods: list[str],
    values_of: Callable[[str, str], dict[Place, float]],
    label: str,
    caption: str,
    *,
    published: bool = False,
) -> Figure | None:
    found = {(m, s): list(values_of(m, s).values()) for m in methods for s in ("1", "2")}
    settings = [s for s in ("1", "2") if any(found[m, s] for m in methods)]
    methods = [m for m in methods if any(found[m, s] for s in settings)]
    if not methods:
        return None

    def draw(axes: Axes, y: int, method: str, setting: str) -> None:
        _box(axes, y, found[method, setting], _color(results, method))
        paper = RELATIVE_AUC.get((method, int(setting))) if published else None
        if paper is not None:
            axes.plot(paper, y, "D", mfc="white", mec="#222222", ms=6, zorder=5)

    size = 4.0 * len(settings) + 1, 0.42 * len(methods) + 1.1
    grid = [[(f"setting {setting}", setting) for setting in settings]]
    figure = _rows_of_methods(results, methods, grid, draw, label=label, size=size)
    if published:
        _explain_markers(figure, "one (d, K), mean over draws", "published median, by eye")
    return Figure(name, title, caption, figure)


def _box(axes: Axes, y: int, values: list[float], color: str) -> None:
    if not values:
        return
    line = {"color": color, "lw": 1.2}
    axes.boxplot(
        [values],
        positions=[y],
        orientation="horizontal",
        widths=0.55,
        showfliers=False,
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": color, "alpha": 0.2, "edgecolor": color},
        whiskerprops=line,
        capprops=line,
        medianprops={"color": color, "lw": 2},
    )
    # Spread by rank, the same on every run.
    place = y + 0.3 * (((np.arange(len(values)) * 7) % 11) / 11 - 0.5)
    axes.plot(values, place, "o", color=color, ms=2.5, alpha=0.7, zorder=4)


def breakdown_figure(results: Results) -> Figure | None:
    """Figure 3: setting 2 by d and K."""
    places = [p for p in results.places if p[:2] == ("synthetic", "2")]
    if not places:
        return None
    dimensions, clusters = (sorted({int(p[i]) for p in places}) for i in (2, 3))
    methods = [m for m in results.methods if m != "global" and any(results.of(p, m) for p in places)]

    def draw(axes: Axes, y: int, method: str, place: Place) -> None:
        own, base, color = results.of(place, method), results.of(place, "global"), _color(results, method)
        values = [100 * (own[r] / base[r] - 1) for r in own if r in base]
        axes.plot(values, [y] * len(values), "o", color=color, ms=3, alpha=0.6, zorder=3)
        if values:
            axes.plot(float(np.mean(values)), y, "|", color=color, ms=11, mew=2.2, zorder=4)

    grid = [[(f"d = {d}, K = {K}", ("synthetic", "2", str(d), str(K))) for d in dimensions] for K in clusters]
    size = 2.1 * len(dimensions) + 1.6, (0.2 * len(methods) + 0.5) * len(clusters) + 0.4
    label = "AUC relative to Global, %"
    figure = _rows_of_methods(results, methods, grid, draw, label=label, size=size, share_x=True)
    caption = (
        "Setting 2. Dots are draws, the bar is their mean, each relative to Global on the same draw. The "
        "Bayes limit shows how much there was to gain."
    )
    return Figure("figure3", "Figure 3: AUC relative to Global by d and K", caption, figure)


def partition_figure(results: Results) -> Figure | None:
    """AUC lost against the oracle, by how well the partition was found."""
    figure, grid = _panels(1, 1, size=(6.0, 3.8))
    axes, empty = grid[0, 0], True
    for method, marker in (("published", "o"), ("groupshift", "s")):
        points = [
            (results.of(p, method, "partition_agreement")[r], 100 * (oracle - results.of(p, method)[r]))
            for p in results.places
            if p[1] == "2"
            for r, oracle in results.of(p, "true_clustering").items()
            if r in results.of(p, method) and r in results.of(p, method, "partition_agreement")
        ]
        if points:
            empty = False
            x, y = np.array(points).T
            axes.plot(
                x, y, marker, color=_color(results, method), ms=4, alpha=0.6, label=results.title(method)
            )
    if empty:
        return None
    axes.axhline(0, color="#888888", lw=0.8)
    axes.set_xlabel("agreement with the generating partition (adjusted Rand index)")
    axes.set_ylabel("AUC points below True Clustering")
    axes.grid(color="#eeeeee", zorder=0)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    caption = (
        "Setting 2, one dot per draw. 1 is the generating partition, 0 chance. Dots under the line are "
        "better than the paper's method told the true partition."
    )
    return Figure("partition", "Effect of the partition", caption, figure)


def calibration_figure(results: Results) -> Figure | None:
    """Share of positives against predicted probability."""
    panels = list(dict.fromkeys((b["data"], b["setting"]) for b in results.bins))
    if not panels:
        return None
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = 2.5 * columns, 2.6 * rows + 0.5
    figure, grid = _panels(rows, columns, size=size, share_x=True, share_y=True)
    handles: dict[str, Artist] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", lw=0.8)
        for method in results.methods:
            curve = _calibration_curve(results, panel, method)
            if len(curve):
                line = axes.plot(*curve.T, "-", color=_color(results, method), lw=1.2, marker="o", ms=2)[0]
                handles.setdefault(results.title(method), line)
        axes.set_title(place_title(*panel))
        axes.set_aspect("equal")
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel("share of positives")
    for i, axes in enumerate(grid.flat[: len(panels)]):
        # The last panel of a column carries the scale, whether or not its row is the last.
        if i + columns >= len(panels):
            axes.set_xlabel("predicted probability")
            axes.tick_params(labelbottom=True)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    caption = (
        "Test rows of all draws, in 15 bins of equal width. On the diagonal, a probability means "
        "what it says."
    )
    return Figure("calibration", "Calibration", caption, figure)


def _calibration_curve(results: Results, panel: tuple[str, str], method: str) -> np.ndarray:
    sums: dict[int, np.ndarray] = {}
    for b in results.bins:
        if (b["data"], b["setting"]) == panel and b["method"] == method:
            rows = float(b["rows"])
            part = rows * np.array([1.0, float(b["probability"]), float(b["share"])])
            sums[int(b["bin"])] = sums.get(int(b["bin"]), np.zeros(3)) + part
    return np.array([[p / n, s / n] for _, (n, p, s) in sorted(sums.items()) if n >= MIN_BIN_ROWS])
