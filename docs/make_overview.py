"""Draws docs/images/overview.png: labeled sample, population, and groups with their shares corrected.

    python docs/make_overview.py

The data are the paper's synthetic data with two features and two clusters. Every number in the picture comes from the
fitted model, beside the truth that it never saw. The two groups are median ones: half of the others are misled more.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from groupshift import METHODS, GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture

TARGET = Path(__file__).parent / "images" / "overview.png"
# Of Okabe and Ito's palette, as in groupshift.displays: color-blind readers can tell them apart.
BLUE, VERMILION, GRAY, INK = "#0072B2", "#D55E00", "#9a9a9a", "#222222"
SCALE = LinearSegmentedColormap.from_list("share", [BLUE, "#cfcfcf", VERMILION])
SHOWN_LABELED, SHOWN_UNLABELED = 250, 500


def main():
    sample = make_grouped_mixture(
        n_features=2,
        n_clusters=2,
        n_groups=30,
        labeled_per_group=(250, 0),
        unlabeled_per_group=(1000, 0),
        test_size=0.0,
        random_state=12,
    )
    X, y, groups = sample.X, sample.y, sample.groups
    model = GroupShiftClassifier(random_state=0).fit(X, y, groups=groups)
    plain = METHODS["global"](random_state=0).fit(X, y, groups=groups)
    figure, axes = plt.subplots(2, 3, figsize=(10, 6.1), sharex=True, sharey=True)
    for row, name, group in zip(axes, "AB", median_groups(sample), strict=True):
        draw_group(row, group, sample, model, plain)
        row[0].set_ylabel(f"group {name}", fontsize=10.5, color=INK)
    titles = (
        ("Labeled sample", "labels known, for a biased choice of rows"),
        ("Population", "features and group known, labels not"),
        ("Corrected groups", "probability of each row of the population"),
    )
    for axis, (title, words) in zip(axes[0], titles, strict=True):
        write(axis, title, height=1.25, fontsize=11.5, fontweight="bold")
        write(axis, words, height=1.16)
    legend(figure)
    figure.subplots_adjust(left=0.05, right=0.985, top=0.84, bottom=0.1, wspace=0.06, hspace=0.2)
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=150, facecolor="white", metadata={"Software": None})


def median_groups(sample):
    """Of the groups whose labeled sample has too many positives the one in the middle, and so for too few."""
    excess = {g: share(sample, g, labeled=True) - share(sample, g, labeled=False) for g in sample.group_names}
    ordered = sorted(excess, key=excess.get)
    too_few = [g for g in ordered if excess[g] < 0]
    too_many = [g for g in ordered if excess[g] >= 0]
    return too_many[len(too_many) // 2], too_few[len(too_few) // 2]


def share(sample, group, *, labeled):
    rows = (sample.groups == group) & ((sample.y >= 0) == labeled)
    return sample.truth[rows].mean()


def draw_group(row, group, sample, model, plain):
    rng = np.random.default_rng(0)
    mine = sample.groups == group
    known = np.flatnonzero(mine & (sample.y >= 0))
    population = np.flatnonzero(mine & (sample.y < 0))
    some = rng.permutation(known)[:SHOWN_LABELED]
    many = rng.permutation(population)[:SHOWN_UNLABELED]
    probability = model.predict_proba(sample.X[many], sample.groups[many])[:, 1]
    dots(row[0], sample.X[some], np.where(sample.y[some] == 1, VERMILION, BLUE), size=16)
    dots(row[1], sample.X[many], GRAY, size=9)
    dots(row[2], sample.X[many], SCALE(probability), size=9)
    uncorrected = plain.predict_proba(sample.X[population], sample.groups[population])[:, 1].mean()
    shares = model.group_shares(by="group")
    at = list(shares["group"]).index(group)
    low, mid, high = (100 * shares[name][at] for name in ("low", "share", "high"))
    write(row[0], f"{100 * sample.y[known].mean():.0f} % positive")
    write(row[1], f"a plain classifier: {100 * uncorrected:.0f} % positive")
    truth = 100 * sample.truth[population].mean()
    write(row[2], f"groupshift: {mid:.0f} % ({low:.0f} to {high:.0f}); truth {truth:.0f} %")


def dots(axis, points, colors, *, size):
    axis.scatter(points[:, 0], points[:, 1], c=colors, s=size, alpha=0.75, linewidths=0, rasterized=True)
    axis.set(xticks=[], yticks=[])
    for side in axis.spines.values():
        side.set_color("#cccccc")


def write(axis, text, *, height=1.025, fontsize=9.5, **font):
    axis.text(0, height, text, transform=axis.transAxes, fontsize=fontsize, color=INK, va="bottom", **font)


def legend(figure):
    entries = ((VERMILION, "positive"), (BLUE, "negative"), (GRAY, "label unknown"))
    marks = [
        plt.Line2D([], [], marker="o", linestyle="", color=color, markersize=6, label=name)
        for color, name in entries
    ]
    figure.legend(
        handles=marks, loc="lower left", bbox_to_anchor=(0.04, 0.015), ncols=3, frameon=False, fontsize=9.5
    )
    bar = figure.add_axes((0.69, 0.036, 0.2, 0.018))
    bar.imshow(np.linspace(0, 1, 256)[None], aspect="auto", cmap=SCALE, extent=(0, 1, 0, 1))
    bar.set(xticks=[], yticks=[], frame_on=False)
    bar.text(-0.03, 0.5, "0", ha="right", va="center", fontsize=9.5)
    bar.text(1.03, 0.5, "1   probability", va="center", fontsize=9.5)


if __name__ == "__main__":
    main()
