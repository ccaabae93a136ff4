"""An audit by 50 labels on six sets of real rows: how far off the overall share is, and what is found out.

Positives were labelled three times as often as negatives, in all groups alike: what no unlabelled row shows. A draw is one audit;
`FITS` models are fitted to each set, each on labels and a population of its own, and audited `AUDITS` times. Seeds below 1,000
were looked at while the method was made; figures are of the others.

    python -m benchmarks audit --data FOLDER
"""

from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from benchmarks.audit_draws import BUDGET, one_fit
from benchmarks.harness import line, run
from benchmarks.shared_sets import SETS

FITS, AUDITS = 10, 50
FINAL_SEED = 1_000
MOST_ROWS = 40_000


def measure(quick: bool, repeats: int, data: Path) -> dict:
    fits, audits, most_rows = (2, 20, 8_000) if quick else (repeats, AUDITS, MOST_ROWS)
    seed = 0 if quick else FINAL_SEED
    tasks = [(name, seed + k) for name in SETS for k in range(fits)]
    work = (delayed(one_fit)(data, *task, audits, most_rows) for task in tasks)
    found = Parallel(n_jobs=-1)(work)
    draws = {
        name: [d for (own, _), part in zip(tasks, found, strict=True) if own == name for d in part]
        for name in SETS
    }
    by_set = {name: summary(own) for name, own in draws.items()}
    mean = {key: float(np.mean([own[key] for own in by_set.values()])) for key in by_set["trial"]}
    return {
        "seeds": [seed, seed + fits - 1],
        "fits": fits,
        "audits_of_each_fit": audits,
        "labels": BUDGET,
        "by_set": by_set,
        "mean": mean,
        "by_fit": {name: by_fit(own) for name, own in draws.items()},
        "lines": claims(mean, len(tasks) * audits // len(SETS)),
    }


def by_fit(draws: list[dict[str, float]]) -> dict[str, list[float]]:
    """Figures of each model: audits of one model share its luck, and figures vary over models more than over audits."""
    parts = [[d for d in draws if d["fit"] == fit] for fit in sorted({d["fit"] for d in draws})]
    summaries = [summary(part) for part in parts]
    return {
        key: [round(found[key], 4) for found in summaries] for key in ("error_after", "coverage", "found_out")
    }


def summary(draws: list[dict[str, float]]) -> dict[str, float]:
    """One set: root mean squared errors, and rates."""

    def size(key: str) -> float:
        return float(np.sqrt(np.mean([d[key] ** 2 for d in draws])))

    def rate(key: str) -> float:
        return float(np.mean([d[key] for d in draws]))

    return {
        "truth": rate("truth"),
        "error_before": size("before"),
        "error_random": size("random"),
        "error_after": size("after"),
        "error_design": size("design"),
        "ratio": size("after") / size("random"),
        "ratio_design": size("design") / size("random"),
        "coverage": rate("covered"),
        "width": rate("width"),
        "coverage_design": rate("design_covered"),
        "coverage_of_sequence": rate("always_covered"),
        "width_of_sequence": rate("sequence_width"),
        "found_out": rate("found_out"),
        "most_that_any_test_finds_out": rate("bound"),
        "falsely_called_wrong": rate("falsely_called_wrong"),
        "wrong_as_it_is_found_out": rate("as_it_is_found_out"),
        "called_uncalibrated": rate("uncalibrated"),
    }


def claims(mean: dict[str, float], n: int) -> list[dict]:
    """The figures to reach, on the mean of the sets."""
    draws = f"mean of {len(SETS)} sets, {n} draws each"
    return [
        line(
            "error of the overall share after 50 audit labels",
            "50 random labels alone",
            ratio=mean["ratio"],
            reach="at most 0.6",
            met=mean["ratio"] <= 0.6,
            accuracy=draws,
        ),
        line(
            "a share that is off by .05 is found out",
            f"at most {mean['most_that_any_test_finds_out']:.2f} for any test",
            ratio=mean["found_out"],
            reach="at least 0.8",
            met=mean["found_out"] >= 0.8,
            accuracy=draws,
        ),
        line(
            "a right share is called wrong, looking after every label",
            "0.05",
            ratio=mean["falsely_called_wrong"],
            reach="at most 0.05",
            met=mean["falsely_called_wrong"] <= 0.05,
            accuracy=draws,
        ),
        line(
            "90 % interval of the overall share after the audit",
            "the true share",
            ratio=mean["coverage"],
            reach="0.88 to 0.95",
            met=0.88 <= mean["coverage"] <= 0.95,
            accuracy=draws,
        ),
    ]


if __name__ == "__main__":
    run("audit", "An audit by 50 labels", measure, repeats=FITS, quick_repeats=2, needs_data=True)
