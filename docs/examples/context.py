"""What a group's make-up says about its shift, and what it does not say."""

import matplotlib.pyplot as plt
import numpy as np
from groupshift._math.context import Context

rng = np.random.default_rng(0)
n_groups, rows_per_group = 50, 80
group = np.repeat(np.arange(n_groups), rows_per_group)
make_up = rng.normal(0, 0.5, (n_groups, 3))
X = make_up[group] + rng.normal(size=(len(group), 3))
variance = np.full(n_groups, 0.15)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (title, slope) in zip(
    axes, {"alike groups, alike shifts": 1.0, "no relation": 0.0}.items(), strict=True
):
    # What is left of each labelled group's true shift after its estimated one.
    left = slope * make_up[:, 0] + rng.normal(0, 0.25, n_groups)
    observed = left + rng.normal(0, np.sqrt(variance))
    context = Context().fit(X, group, np.ones(len(group)), n_groups).learn(observed, variance)
    guess = context.left_out_
    explained = 1 - np.mean((left - guess) ** 2) / np.mean(left**2)
    print(f"{title:28} {explained:6.0%} of the rest explained, each group left out in turn")
    ax.scatter(left, guess, s=14, color="#0072B2")
    ax.axline((0, 0), slope=1, color="#777777", linewidth=0.8)
    ax.set(title=title, xlabel="what is left of the true shift")
axes[0].set_ylabel("predicted from the other groups")
