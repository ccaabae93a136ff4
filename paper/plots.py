"""The article's figures, ours beside the medians that the article's show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from groupshift.datasets import make_grouped_mixture
from paper.published import FIGURE_2, NAMES, figure_3
from paper.result_tables import COMPARED, relative_means
from paper.results import Results
from paper.walk import walked_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One colour for one method everywhere; told apart by people who do not see red and green (Okabe and Ito).
COLORS = {
    "coral": "#999999",
    "group_aware_global": "#CC79A7",
    "cluster_global": "#56B4E9",
    "label_shift": "#E69F00",
    "published": "#D55E00",
    "groupshift": "#0072B2",
    "true_clustering": "#009E73",
    "bayes": "#666666",
}
RELATIVE = "AUC relative to Global, %"


def _figure(
    size: tuple[float, float], rows: int, columns: int, share_x: bool = False
) -> tuple[Figure, np.ndarray]:
    # Not pyplot: no window system, no state left behind.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=True)


def illustration() -> Figure:
    """Figure 1: class-conditional densities of two groups in both samples, from generated data (d = 1, K = 2)."""
    rng = np.random.default_rng(5)
    sample = make_grouped_mixture(
        n_features=1,
        n_clusters=2,
        n_groups=2,
        labeled_per_group=(40_000, 0),
        unlabeled_per_group=(40_000, 0),
        pairs=walked_pairs(n_clusters=2, n_features=1, auc_range=(0.75, 0.95), rng=rng),
        random_state=rng,
    )
    x, bins = np.asarray(sample.X)[:, 0], np.histogram_bin_edges(np.asarray(sample.X)[:, 0], 60)
    figure, panels = _figure((9, 4.2), 2, 2, share_x=True)
    for row, (is_labeled, title) in enumerate(((True, "(a) labelled"), (False, "(b) unlabelled"))):
        for column, group in enumerate(np.unique(sample.groups)):
            axes, style = panels[row, column], "-" if is_labeled else "--"
            inside = (sample.labeled == is_labeled) & (sample.groups == group)
            for y, color, name in ((1, "#0072B2", "positives"), (0, "#D55E00", "negatives")):
                density = np.histogram(x[inside & (sample.truth == y)], bins, density=True)[0]
                axes.plot((bins[1:] + bins[:-1]) / 2, density, style, color=color, label=name)
            if not is_labeled:
                density = np.histogram(x[inside], bins, density=True)[0]
                axes.plot((bins[1:] + bins[:-1]) / 2, density, color="#444444", lw=1, label="all rows")
            axes.set_title(f"{title}, group {column + 1}: {sample.truth[inside].mean():.0%} positive")
    panels[1, 1].legend(frameon=False)
    return figure


def relative_figure(results: Results) -> Figure:
    """Figure 2: distribution over (d, K) of the AUC relative to Global."""
    methods = [m for m in NAMES if m in results.methods and m != "global"]
    figure, panels = _figure((9, 0.42 * len(methods) + 1.1), 1, 2)
    for axes, setting in zip(panels[0], ("1", "2"), strict=True):
        for y, method in enumerate(methods):
            _box(axes, y, list(relative_means(results, method, setting).values()), COLORS[method])
            if setting == "2" and method in FIGURE_2:
                axes.plot(FIGURE_2[method], y, "D", mfc="white", mec="#222222", ms=6, zorder=5)
        _methods_axis(axes, methods, f"setting {setting}")
        axes.set_xlabel(RELATIVE)
    return figure


def breakdown_figure(results: Results) -> Figure:
    """Figure 3: setting 2 by d and K."""
    methods = [m for m in (*COMPARED, "groupshift", "bayes") if m in results.methods]
    theirs = figure_3()
    figure, panels = _figure((11, (0.2 * len(methods) + 0.5) * 4 + 0.4), 4, 4, share_x=True)
    for axes, (d, K) in zip(panels.T.flat, theirs, strict=True):
        for y, method in enumerate(methods):
            _box(axes, y, results.relative(("synthetic", "2", d, K), method), COLORS[method])
            if method in theirs[d, K]:
                axes.plot(theirs[d, K][method], y, "D", mfc="white", mec="#222222", ms=5, zorder=5)
        _methods_axis(axes, methods, f"d = {d}, K = {K}")
    for axes in panels[-1]:
        axes.set_xlabel(RELATIVE)
    return figure


def _methods_axis(axes: Axes, methods: Sequence[str], title: str) -> None:
    axes.axvline(0, color="#888888", lw=0.8, zorder=1)
    axes.set_yticks(range(len(methods)), [NAMES[m] for m in methods])
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.grid(axis="x", color="#e6e6e6", zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, loc="left", fontsize=10)


def _box(axes: Axes, y: int, values: list[float], color: str) -> None:
    if not values:
        return
    line = {"color": color, "lw": 1.2}
    axes.boxplot(
        [values],
        positions=[y],
        orientation="horizontal",
        widths=0.6,
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
    axes.plot(values, place, "o", color=color, ms=2, alpha=0.7, zorder=4)
