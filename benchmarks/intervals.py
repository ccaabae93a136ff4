"""Do 90 % intervals hold the truth end to end: classifier, calibration, partition and shifts all learned?"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.harness import line, run
from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture

# (groups, labelled rows of each, unlabelled rows of each, clusters, features, setting)
CASES = {
    "12 large groups": (12, 400, 2_000, 2, 2, 2),
    "30 groups": (30, 200, 1_500, 4, 4, 2),
    "30 groups, few unlabelled rows": (30, 400, 400, 4, 4, 2),
    "50 groups, cells of some 20 rows": (50, 100, 80, 4, 4, 2),
    "100 groups, few labels": (100, 30, 300, 2, 8, 2),
    "no shift": (30, 200, 1_500, 4, 4, 1),
}
# Where the coverage of 90 % intervals should lie.
LOW, HIGH = 0.86, 0.94


def measure(quick: bool, repeats: int) -> dict:
    lines, details = [], {}
    for name, case in CASES.items():
        draws = [one_draw(case, seed) for seed in range(repeats)]
        details[name] = {key: _over_draws([draw[key] for draw in draws]) for key in draws[0]}
        lines += [_claim(name, key, details[name][key]) for key in ("cells told", "groups found")]
    return {"details": details, "lines": lines}


def one_draw(case: tuple, seed: int) -> dict[str, float]:
    """How many intervals hold the truth: of groups with the partition found, and of cells that can be compared.

    The truth is the share that rows were drawn with. Cells have one only if the partition is the one that made
    the data, so the model is told it, and learns the rest.
    """
    groups, labeled, unlabeled, clusters, features, setting = case
    sample = make_grouped_mixture(
        n_features=features,
        n_clusters=clusters,
        n_groups=groups,
        labeled_per_group=(labeled, labeled / 10),
        unlabeled_per_group=(unlabeled, unlabeled / 10),
        setting=setting,
        random_state=1_000 + seed,
    )
    found, told = (_fit(sample, partition) for partition in ("validated", sample.partition))
    by_group, by_cell = found.group_shares(by="group"), told.group_shares(by="cell")
    truth = (sample.shares * sample.cluster_weights).sum(1)[_at(sample, by_group)]
    truth_of_cells = sample.shares[_at(sample, by_cell), by_cell["cluster"]]
    return {
        "groups found": _inside(by_group, truth),
        "cells told": _inside(by_cell, truth_of_cells),
        "width of groups found": float(np.mean(by_group["high"] - by_group["low"])),
        "width of cells told": float(np.mean(by_cell["high"] - by_cell["low"])),
    }


def _fit(sample, partition) -> GroupShiftClassifier:
    rows = sample.training()
    classifier = HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=0)
    model = GroupShiftClassifier(classifier, partition=partition, random_state=0)
    return model.fit(rows.X, rows.y, groups=rows.groups)


def _at(sample, table) -> np.ndarray:
    return np.searchsorted(sample.group_names, table["group"])


def _inside(table, truth: np.ndarray) -> float:
    known = np.isfinite(truth)
    return float(np.mean(((table["low"] <= truth) & (truth <= table["high"]))[known]))


def _over_draws(values: list[float]) -> dict:
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return {"mean": float(np.mean(values)), "std_error": float(error), "draws": values}


def _claim(case: str, what: str, found: dict) -> dict:
    of_cells = what == "cells told"
    rate, error = found["mean"], found["std_error"]
    return line(
        f"90 % intervals of {'cells' if of_cells else 'groups'}, {case}",
        "the share that rows were drawn with",
        ratio=rate,
        # What cells of a group have in common is not known and taken as large, so intervals of groups are wide.
        reach=f"{LOW} to {HIGH}" if of_cells else f"at least {LOW}",
        met=rate >= LOW and (rate <= HIGH or not of_cells),
        accuracy=f"standard error over draws {error:.3f}",
    )


if __name__ == "__main__":
    run("intervals", "Intervals of shares, end to end", measure, repeats=20, quick_repeats=2)
