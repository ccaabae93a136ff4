"""Do 90 % sets of classes hold the true one in every group: weighted by the estimated shifts, and split conformal without any?"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.harness import line, run
from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_classes

COVERAGE = 0.9
# (classes, how far apart, groups, labelled rows of each group, unlabelled rows of each, clusters, setting)
CASES = {
    "2 classes": (2, 0.5, 20, 100, 1_500, 1, 2),
    "4 classes": (4, 0.8, 20, 100, 1_500, 1, 2),
    "4 classes, 3 clusters": (4, 0.8, 20, 200, 3_000, 3, 2),
    "8 classes, 3 clusters, few labels": (8, 0.8, 40, 25, 1_500, 3, 2),
    "4 classes, no shift": (4, 0.8, 20, 100, 1_500, 1, 1),
}
# How far the coverage of a group may fall short of what was asked for, on average over groups.
REACH = 0.015


def measure(quick: bool, repeats: int) -> dict:
    lines, details = [], {}
    for name, case in CASES.items():
        draws = [one_draw(case, seed) for seed in range(repeats)]
        found = {
            method: {key: float(np.mean([draw[method][key] for draw in draws])) for key in draws[0][method]}
            for method in draws[0]
        }
        details[name] = found
        ours, split = found["groupshift"], found["split"]
        lines.append(
            line(
                f"{name}: how far a group's coverage falls short of {COVERAGE:.0%}",
                "split conformal without shifts",
                ratio=split["short"] / max(ours["short"], 1e-9),
                reach=f"short by <= {REACH}",
                met=ours["short"] <= REACH,
                accuracy=f"coverage {ours['coverage']:.3f} ({split['coverage']:.3f}), short by {ours['short']:.3f} "
                f"({split['short']:.3f}), lowest group {ours['lowest']:.3f} ({split['lowest']:.3f}), classes in a set "
                f"{ours['size']:.2f} ({split['size']:.2f})",
            )
        )
    return {"details": details, "lines": lines}


def one_draw(case: tuple, seed: int) -> dict[str, dict[str, float]]:
    """What the sets of both methods hold in groups of one generated population."""
    n_classes, apart, n_groups, labeled, unlabeled, clusters, setting = case
    sample = make_grouped_classes(
        n_classes=n_classes,
        n_groups=n_groups,
        labeled_per_group=labeled,
        unlabeled_per_group=unlabeled,
        n_clusters=clusters,
        apart=apart,
        test_size=0.5,
        setting=setting,
        random_state=2_000 + seed,
    )
    X, y, groups, _ = sample.training()
    new, truth, new_groups = sample.testing()
    classifier = LogisticRegression(max_iter=2_000)
    model = GroupShiftClassifier(classifier, partition=clusters, random_state=seed).fit(X, y, groups=groups)
    sets = model.predict_sets(new, new_groups, coverage=COVERAGE)
    known = np.flatnonzero(y >= 0)
    plain = split_conformal(X[known], y[known], new, n_classes, seed)
    return {
        name: summary(found, truth, new_groups) for name, found in (("groupshift", sets), ("split", plain))
    }


def split_conformal(X, y, new, n_classes: int, seed: int) -> np.ndarray:
    """One threshold, from the half of the labelled rows that the classifier has not seen; the likeliest class is in every set."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, held = order[: len(y) // 2], order[len(y) // 2 :]
    model = LogisticRegression(max_iter=2_000).fit(X[train], y[train])
    p = np.zeros((len(new), n_classes))
    p[:, model.classes_] = model.predict_proba(new)
    of_held = np.zeros((len(held), n_classes))
    of_held[:, model.classes_] = model.predict_proba(X[held])
    unusual = 1 - of_held[np.arange(len(held)), y[held]]
    level = min(np.ceil((len(held) + 1) * COVERAGE) / len(held), 1)
    found = 1 - p <= np.quantile(unusual, level, method="inverted_cdf")
    found[np.arange(len(p)), p.argmax(1)] = True
    return found


def summary(sets: np.ndarray, truth: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    held = sets[np.arange(len(truth)), truth]
    coverage = np.array([held[groups == g].mean() for g in np.unique(groups)])
    return {
        "coverage": coverage.mean(),
        "short": np.maximum(COVERAGE - coverage, 0).mean(),
        "lowest": coverage.min(),
        "size": sets.sum(1).mean(),
    }


if __name__ == "__main__":
    run("prediction_sets", __doc__, measure, repeats=5, quick_repeats=2)
