"""
The assumption in one picture
=============================

Two groups, two clusters: in both groups positives have the same density in a cluster, and so do negatives. Only their shares
differ. In the last panel the densities have moved, and the assumption fails. :doc:`/explanation/assumption` says what follows.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

x = np.linspace(-1, 13, 600)
BLUE, VERMILION = "#0072B2", "#D55E00"
MEANS = (2.0, 3.6), (8.2, 9.8)  # of negatives and positives in each of two clusters
CELLS = {  # for each cluster its share of the rows, and the share of positives in it
    "labeled sample": ((0.5, 0.5), (0.5, 0.5)),
    "population of group A": ((0.6, 0.15), (0.4, 0.7)),
    "population of group B": ((0.35, 0.75), (0.65, 0.1)),
    "a violation: densities have moved": ((0.5, 0.5), (0.5, 0.5)),
}
figure, axes = plt.subplots(2, 2, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
for ax, (title, cells) in zip(axes.flat, CELLS.items(), strict=True):
    moved = 0.9 if "violation" in title else 0.0
    for (weight, share), means in zip(cells, MEANS, strict=True):
        for part, mean, color in zip((1 - share, share), means, (BLUE, VERMILION), strict=True):
            density = weight * part * norm.pdf(x, mean + moved, 0.8)
            ax.fill_between(x, density, color=color, alpha=0.45, linewidth=0)
        ax.text(np.mean(means), 0.29, f"{share:.0%} positive", ha="center", fontsize=8)
    ax.axvline(6, color="#777777", linestyle=":", linewidth=1)
    ax.set_title(title, fontsize=10)
    ax.set(yticks=[], ylim=(0, 0.33))
axes[0, 0].legend(["negatives", "positives"], fontsize=8, loc="center right")
for ax in axes[1]:
    ax.set_xlabel("a feature; the dotted line separates the clusters")
plt.show()
