"""What a default fit costs beside one fit of the bare classifier, with shifts and without: processor time of one thread."""

import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from benchmarks.data import paper_sample
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier

REACH = {"with shifts": 10, "without shifts": 7}


def measure(quick: bool, repeats: int) -> dict:
    lines, details = [], {}
    for name, (X, y, groups) in _cases(quick).items():
        known = y >= 0

        def ours(X=X, y=y, groups=groups):
            return GroupShiftClassifier(random_state=0, n_jobs=1).fit(X, y, groups=groups)

        def bare(X=X[known], y=y[known]):
            with threadpool_limits(1):
                return HistGradientBoostingClassifier(early_stopping=False, random_state=0).fit(X, y)

        found = side_by_side({"ours": ours, "bare": bare}, repeats=repeats, clock=time.process_time)
        n_fits = _boosted_fits(ours)
        ratio = found["ours"]["median"] / found["bare"]["median"]
        model, plain = found["ours"]["answer"], found["bare"]["answer"]
        losses = [
            log_loss(y[known], p[:, 1])
            for p in (model.predict_proba(X[known], groups[known]), plain.predict_proba(X[known]))
        ]
        details[name] = {side: timing(result) for side, result in found.items()}
        details[name] |= {"boosted_fits": n_fits, "notes": model.notes_, "log_loss_of_labelled_rows": losses}
        lines.append(
            line(
                f"default fit, {known.sum():,} labelled and {(~known).sum():,} unlabelled rows, {name}",
                "one fit of the bare classifier, both on one thread",
                ratio=ratio,
                reach=f"<= {REACH[name]}",
                met=ratio <= REACH[name],
                accuracy=f"{n_fits} boosted fits",
            )
        )
    return {"clock": "processor time", "details": details, "lines": lines}


def _cases(quick: bool) -> dict:
    """The paper's sample in setting 2; and its labelled rows once more as a population, groups dealt out at random."""
    n_labeled, n_unlabeled = (60, 400) if quick else (200, 1640)
    X, y, groups, _ = paper_sample(n_labeled, n_unlabeled).training()
    rng = np.random.default_rng(0)
    known = np.flatnonzero(y >= 0)
    drawn = rng.choice(known, 100 * n_unlabeled)
    # A little noise: copies would count as one example.
    alike = np.vstack([X[known], X[drawn] + rng.normal(0, 0.05, (len(drawn), X.shape[1]))])
    unknown = np.full(len(drawn), -1)
    return {
        "with shifts": (X, y, groups),
        "without shifts": (
            alike,
            np.concatenate([y[known], unknown]),
            rng.integers(0, 100, len(alike)),
        ),
    }


def _boosted_fits(fit) -> int:
    """How often a boosted classifier is trained; it must keep the signature that says whether it takes weights."""
    from functools import wraps

    plain, count = HistGradientBoostingClassifier.fit, 0

    @wraps(plain)
    def counted(*args, **kwargs):
        nonlocal count
        count += 1
        return plain(*args, **kwargs)

    HistGradientBoostingClassifier.fit = counted
    try:
        fit()
    finally:
        HistGradientBoostingClassifier.fit = plain
    return count


if __name__ == "__main__":
    run(
        "fit_cost", "What a default fit costs beside the bare classifier", measure, repeats=5, quick_repeats=1
    )
