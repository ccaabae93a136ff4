"""Class shares of 100 groups of 10,000 rows, against the EM of QuaPy, of mlquantify and of the paper."""

import warnings
from functools import partial

import numpy as np
from scipy.special import expit, logit

from benchmarks.harness import line, run, side_by_side, timing
from groupshift.theory import collect_points, mlls

# Both peers stop when a step moves a share by less than this; 100,000 steps let them get there.
PEER_TOLERANCE, PEER_STEPS = 1e-8, 100_000
PAPER_STEPS = 100
LABELED_PRIOR = 0.5


def draw(n_groups: int, n_rows: int, distance: float, seed: int = 0):
    """Exact posteriors of two normal classes `distance` standard deviations apart; group shares differ."""
    rng = np.random.default_rng(seed)
    share = rng.uniform(0.05, 0.95, n_groups)
    group = np.repeat(np.arange(n_groups), n_rows)
    y = rng.random(len(group)) < share[group]
    x = rng.normal(np.where(y, distance / 2, -distance / 2))
    return distance * x + logit(LABELED_PRIOR), group


def ours(log_odds, group, n_groups, tol=1e-7):
    points = collect_points(log_odds, group, n_cells=n_groups)
    return mlls(points, labeled_prior=LABELED_PRIOR, tol=tol).share


def quapy_shares(posterior, n_groups):
    from quapy.method.aggregative import EMQ

    EMQ.MAX_ITER = PEER_STEPS
    prior = np.array([1 - LABELED_PRIOR, LABELED_PRIOR])
    rows = posterior.reshape(n_groups, -1, 2)
    return np.array([EMQ.EM(prior, part, epsilon=PEER_TOLERANCE)[0][1] for part in rows])


def mlquantify_shares(posterior, n_groups):
    from mlquantify.likelihood import EMQ

    prior = np.array([1 - LABELED_PRIOR, LABELED_PRIOR])
    rows = posterior.reshape(n_groups, -1, 2)
    found = [EMQ.EM(part, prior, tolerance=PEER_TOLERANCE, max_iter=PEER_STEPS)[0][1] for part in rows]
    return np.array(found)


def paper_shares(posterior, n_groups):
    """The paper's loop: 100 steps from the mean posterior."""
    rows = posterior[:, 1].reshape(n_groups, -1)
    shares = np.empty(n_groups)
    for g, p in enumerate(rows):
        alpha = p.mean()
        for _ in range(PAPER_STEPS):
            up = alpha / LABELED_PRIOR * p
            down = (1 - alpha) / (1 - LABELED_PRIOR) * (1 - p)
            alpha = (up / (up + down)).mean()
        shares[g] = alpha
    return shares


def measure(quick: bool, repeats: int) -> dict:
    n_groups, n_rows = (20, 2_000) if quick else (100, 10_000)
    lines, details = [], {}
    for distance, reach in ((0.6, 100), (2.0, 20)):
        log_odds, group = draw(n_groups, n_rows, distance)
        posterior = np.column_stack([1 - expit(log_odds), expit(log_odds)])
        exact = ours(log_odds, group, n_groups, tol=1e-13)
        contenders = {
            "groupshift": partial(ours, log_odds, group, n_groups),
            "QuaPy": partial(quapy_shares, posterior, n_groups),
            "mlquantify": partial(mlquantify_shares, posterior, n_groups),
            "paper": partial(paper_shares, posterior, n_groups),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = side_by_side(contenders, repeats=repeats)
        error = {name: float(np.abs(result["answer"] - exact).max()) for name, result in found.items()}
        details[f"{distance} sd"] = {n: {**timing(r), "error": error[n]} for n, r in found.items()}
        for peer in ("QuaPy", "mlquantify", "paper"):
            ratio = found[peer]["median"] / found["groupshift"]["median"]
            wanted = reach if peer != "paper" else None
            lines.append(
                line(
                    f"class shares, {n_groups} x {n_rows:,} rows, {distance} sd, times faster",
                    {"QuaPy": "QuaPy EMQ.EM at 1e-8", "mlquantify": "mlquantify EMQ.EM at 1e-8"}.get(
                        peer, "the paper's 100 iterations"
                    ),
                    ratio=ratio,
                    reach="shown" if wanted is None else f">= {wanted}",
                    met=error["groupshift"] < 1e-6 and (wanted is None or ratio >= wanted),
                    accuracy=f"largest error {error['groupshift']:.1e} here, {error[peer]:.1e} there",
                )
            )
    return {"groups": n_groups, "rows_per_group": n_rows, "details": details, "lines": lines}


if __name__ == "__main__":
    run("class_shares", "Class shares of many groups", measure)
