"""Clusters that k-means does not see and gates do: long regions, told apart by how groups mix."""

import matplotlib.pyplot as plt
import numpy as np
from groupshift._regions.gating import composition_clusters, learn_gates
from groupshift._regions.merging import merge_levels
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

rng = np.random.default_rng(1)
n, n_groups = 6000, 25
# Two long bands, one above the other; classes differ along the band.
truth = rng.integers(0, 2, n)
group = rng.integers(0, n_groups, n)
share = rng.uniform(0.05, 0.95, (n_groups, 2))
y = (rng.random(n) < share[group, truth]).astype(int)
X = np.column_stack([rng.normal(0, 2.2, n) + 1.2 * y, rng.normal(np.where(truth == 1, 0.8, -0.8), 0.35)])

kmeans = KMeans(2, n_init=3, random_state=0).fit_predict(X)
cell = KMeans(60, n_init=1, random_state=0).fit_predict(X)
weight = np.ones(n)
start = merge_levels(cell, group, y, weight, levels=(2,))[2]
merged = composition_clusters(cell, group, y, weight, start)[cell]
gates = learn_gates(X, group, y, weight, merged)
gated = gates.predict(X)

names = {"k-means": kmeans, "merged cells": merged, "linear gates": gated}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), sharey=True, layout="constrained")
for ax, (name, cluster) in zip(axes, names.items(), strict=True):
    agreement = max(adjusted_rand_score(truth, cluster), 0.0)
    print(f"{name:13} agreement with the truth (adjusted Rand index): {agreement:.2f}")
    ax.scatter(*X[:2500].T, c=np.array(["#0072B2", "#D55E00"])[cluster[:2500]], s=3)
    ax.set_title(f"{name}: {agreement:.2f}", fontsize=10)
    ax.set_xlabel("first feature")
axes[0].set_ylabel("second feature")
