"""The assumption in pictures: the same two hills in every group, mixed in other shares."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

x = np.linspace(-1, 13, 600)
# Two clusters (regions of x); in each a hill of negatives and one of positives, the same in every group.
clusters = (((2.0, 3.6), 0.8), ((8.2, 9.8), 0.8))
BLUE, VERMILION = "#0072B2", "#D55E00"
panels = {
    "labelled sample": ((0.5, 0.5), (0.5, 0.5)),
    "population of group A": ((0.6, 0.15), (0.4, 0.7)),
    "population of group B": ((0.35, 0.75), (0.65, 0.1)),
    "a violation: hills have moved": ((0.5, 0.5), (0.5, 0.5)),
}
figure, axes = plt.subplots(2, 2, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
for ax, (title, cells) in zip(axes.flat, panels.items(), strict=True):
    moved = 0.9 if "violation" in title else 0.0
    for k, ((weight, share), (means, sd)) in enumerate(zip(cells, clusters, strict=True)):
        negatives = weight * (1 - share) * norm.pdf(x, means[0] + moved, sd)
        positives = weight * share * norm.pdf(x, means[1] + moved, sd)
        ax.fill_between(
            x, negatives, color=BLUE, alpha=0.45, linewidth=0, label="negatives" if k == 0 else None
        )
        ax.fill_between(
            x, positives, color=VERMILION, alpha=0.45, linewidth=0, label="positives" if k == 0 else None
        )
        ax.text(np.mean(means), 0.29, f"{share:.0%} positive", ha="center", fontsize=8)
    ax.axvline(6, color="#777777", linestyle=":", linewidth=1)
    ax.set_title(title, fontsize=10)
    ax.set_yticks([])
    ax.set_ylim(0, 0.33)
axes[0, 0].legend(fontsize=8, loc="center right")
for ax in axes[1]:
    ax.set_xlabel("a feature; the dotted line parts the two clusters")
