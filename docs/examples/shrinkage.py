"""Shifts of small and large cells, each on its own and pooled, against the truth."""

import matplotlib.pyplot as plt
import numpy as np
from groupshift._math.shrinkage import pool_shifts
from scipy.special import expit, logit

from groupshift.theory import collect_points, mlls

rng = np.random.default_rng(0)
n_groups, prior, distance = 300, 0.5, 1.5
rows = rng.choice([5, 10, 20, 50, 100, 200, 500, 1000], size=n_groups)
print(
    f"{'spread of true shifts':>22} {'rows':>6} {'alone':>7} {'pooled':>7} {'no shift':>9} {'90 % interval holds':>20}"
)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, spread in zip(axes, (0.0, 1.0), strict=True):
    true_shift = rng.normal(0, spread, n_groups)
    cell = np.repeat(np.arange(n_groups), rows)
    positive = rng.random(len(cell)) < expit(logit(prior) + true_shift[cell])
    x = rng.normal(np.where(positive, distance / 2, -distance / 2))
    # The exact labelled posterior of two normal hills, so that estimation is all that can go wrong.
    points = collect_points(distance * x + logit(prior), cell, n_cells=n_groups)
    share = mlls(points, labeled_prior=np.full(n_groups, prior)).share
    edge = 0.5 / (rows + 1)
    alone = logit(np.clip(share, edge, 1 - edge)) - logit(prior)
    pooled = pool_shifts(points, labeled_prior=[prior], n_groups=n_groups)
    inside = np.abs(pooled.shift[:, 0] - true_shift) < 1.645 * np.sqrt(pooled.variance[:, 0])
    for low, high in ((0, 20), (20, 200), (200, 1001)):
        chosen = (rows > low) & (rows <= high)
        error = [
            np.sqrt(np.mean((guess[chosen] - true_shift[chosen]) ** 2))
            for guess in (alone, pooled.shift[:, 0], np.zeros(n_groups))
        ]
        print(
            f"{spread:>22} {f'≤ {high - high % 10}':>6} {error[0]:>7.2f} {error[1]:>7.2f} {error[2]:>9.2f}"
            f" {inside[chosen].mean():>20.0%}"
        )
    jitter = rows * np.exp(rng.normal(0, 0.08, n_groups))
    ax.scatter(jitter, alone - true_shift, s=9, color="#D55E00", alpha=0.6, label="each cell alone")
    ax.scatter(jitter, pooled.shift[:, 0] - true_shift, s=9, color="#0072B2", label="pooled")
    ax.set_xscale("log")
    ax.axhline(0, color="#777777", linewidth=0.8)
    ax.set_title("no group differs" if spread == 0 else "shifts have a spread of 1", fontsize=10)
    ax.set_xlabel("unlabelled rows of the cell")
axes[0].set_ylabel("error of the shift, log-odds")
axes[0].legend(fontsize=8)
