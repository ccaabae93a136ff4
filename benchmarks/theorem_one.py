"""Theorem 1 for a million rows, against the sum over all pairs."""

import numpy as np
from scipy.special import expit, logit

from benchmarks.harness import line, run, side_by_side, timing
from groupshift._math.auc_gain import auc_gain, overall_prior

N_GROUPS, N_CLUSTERS = 50, 4


def draw(n_rows: int, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.05, 0.95, (N_GROUPS, N_CLUSTERS))
    group, cluster = rng.integers(0, N_GROUPS, n_rows), rng.integers(0, N_CLUSTERS, n_rows)
    return {"log_odds": rng.normal(0, 1.5, n_rows), "group": group, "cluster": cluster, "group_prior": share}


def all_pairs(log_odds, group, cluster, group_prior, *, block: int = 512) -> float:
    """The second expectation as the paper writes it; without shares of 0 and 1 the first one is empty."""
    prior = overall_prior(group=group, cluster=cluster, group_prior=group_prior)
    s = log_odds + (logit(group_prior) - logit(prior))[group, cluster]
    positive, negative = expit(s) / expit(s).sum(), expit(-s) / expit(-s).sum()
    total = 0.0
    for start in range(0, len(s), block):
        rows = slice(start, start + block)
        ahead = s[None, :] - s[rows, None]
        below = (log_odds[None, :] < log_odds[rows, None]) + 0.5 * (log_odds[None, :] == log_odds[rows, None])
        total += positive[rows] @ (np.where(ahead > 0, np.expm1(ahead), 0.0) * below) @ negative
    return float(total)


def measure(quick: bool, repeats: int) -> dict:
    n_rows, n_pairs = (200_000, 5_000) if quick else (1_000_000, 20_000)
    many, few = draw(n_rows), draw(n_pairs)
    found = side_by_side(
        {
            "n log n": lambda: auc_gain(**many),
            "n log n, few rows": lambda: auc_gain(**few),
            "all pairs, few rows": lambda: all_pairs(**few),
        },
        repeats=repeats,
    )
    error = abs(found["n log n, few rows"]["answer"].gain - found["all pairs, few rows"]["answer"])
    ratio = found["all pairs, few rows"]["median"] * (n_rows / n_pairs) ** 2 / found["n log n"]["median"]
    return {
        "details": {name: timing(result) for name, result in found.items()},
        "lines": [
            line(
                f"Theorem 1, {n_rows:,} rows, times faster",
                f"the sum over all pairs, extrapolated from {n_pairs:,} rows",
                ratio=ratio,
                reach=">= 1000",
                met=ratio >= 1000,
                accuracy=f"the two differ by {error:.0e} on {n_pairs:,} rows",
            )
        ],
    }


if __name__ == "__main__":
    run("theorem_one", "Theorem 1 in O(n log n)", measure)
