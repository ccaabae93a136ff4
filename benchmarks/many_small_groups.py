"""Class shares of 100,000 groups of 10 rows, against a loop over groups."""

import numpy as np

from benchmarks.class_shares import LABELED_PRIOR, draw
from benchmarks.harness import line, run, side_by_side, timing
from groupshift.theory import collect_points, mlls

LOOPED = 500


def one_by_one(log_odds, n_rows: int) -> np.ndarray:
    """The same solver, asked for one group at a time."""
    rows = log_odds.reshape(-1, n_rows)
    cell = np.zeros(n_rows, int)
    return np.array(
        [mlls(collect_points(r, cell, n_cells=1), labeled_prior=LABELED_PRIOR).share[0] for r in rows]
    )


def em_loop(log_odds, n_rows: int, tol: float = 1e-8, max_iter: int = 100_000) -> np.ndarray:
    """The usual loop: EM for each group until a step is below `tol`, as QuaPy does it."""
    from quapy.method.aggregative import EMQ
    from scipy.special import expit

    EMQ.MAX_ITER = max_iter
    prior = np.array([1 - LABELED_PRIOR, LABELED_PRIOR])
    p = expit(log_odds).reshape(-1, n_rows)
    return np.array([EMQ.EM(prior, np.column_stack([1 - q, q]), epsilon=tol)[0][1] for q in p])


def measure(quick: bool, repeats: int) -> dict:
    n_groups, n_rows = (10_000 if quick else 100_000), 10
    looped = LOOPED // 5 if quick else LOOPED
    log_odds, group = draw(n_groups, n_rows, 2.0)
    few = log_odds[: looped * n_rows]

    def together():
        return mlls(collect_points(log_odds, group, n_cells=n_groups), labeled_prior=LABELED_PRIOR).share

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = side_by_side(
            {
                "together": together,
                "loop, same solver": lambda: one_by_one(few, n_rows),
                "loop, QuaPy's EM": lambda: em_loop(few, n_rows),
            },
            repeats=repeats,
        )
    lines = []
    for name, reach in (("loop, same solver", None), ("loop, QuaPy's EM", 500)):
        ratio = found[name]["median"] * n_groups / looped / found["together"]["median"]
        error = float(np.abs(found[name]["answer"] - found["together"]["answer"][:looped]).max())
        lines.append(
            line(
                f"class shares, {n_groups:,} groups of {n_rows} rows, times faster",
                f"a {name}, extrapolated from {looped} groups",
                ratio=ratio,
                reach="shown" if reach is None else f">= {reach}",
                met=reach is None or ratio >= reach,
                accuracy=f"largest difference of shares {error:.1e}",
            )
        )
    return {"details": {name: timing(result) for name, result in found.items()}, "lines": lines}


if __name__ == "__main__":
    run("many_small_groups", "Class shares of very many small groups", measure)
