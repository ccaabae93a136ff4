"""How each stage of a fit grows with rows, columns, groups and clusters: processor time of one thread, at four sizes."""

import time

import numpy as np
from groupshift._fit import stages

from benchmarks.harness import line, run
from groupshift import GroupShiftClassifier, classifier
from groupshift.datasets import make_grouped_mixture

SIZES = {
    "rows": (20_000, 40_000, 80_000, 160_000),
    "columns": (4, 8, 16, 32),
    "groups": (50, 100, 200, 400),
    "clusters": (2, 4, 8, 16),
}
# Of rows, one in five is labelled.
USUAL = {"rows": 40_000, "columns": 8, "groups": 50, "clusters": 4}
# Functions of a fit, and what the page calls them.
STAGES = {
    (stages, "train"): "training the classifier",
    (stages, "judge"): "judging partitions",
    (stages, "take_fixed"): "judging partitions",
    (stages, "settle"): "settling trust",
    (stages, "estimate"): "estimating shares",
    (stages, "refine"): "learning from unlabelled rows",
    (classifier, "record_evidence"): "evidence",
}
# Stages that take less than this are measured too badly for an exponent.
MIN_SECONDS = 0.1


def measure(quick: bool, repeats: int) -> dict:
    growth, lines = {}, []
    for axis, sizes in SIZES.items():
        sizes = tuple(size // 4 for size in sizes) if quick and axis == "rows" else sizes
        measured = [_median([_measured(axis, size, quick) for _ in range(repeats)]) for size in sizes]
        exponents = _exponents(sizes, measured)
        growth[axis] = {"sizes": sizes, "seconds": measured, "exponents": exponents}
        steepest = max(exponents, key=exponents.get)
        lines.append(
            line(
                f"{axis}: {sizes[0]:,} to {sizes[-1]:,}, the stage that grows fastest ({steepest})",
                f"{axis} to the power of 1",
                ratio=exponents[steepest],
                reach="<= 1.2",
                met=exponents[steepest] <= 1.2,
                accuracy="exponents by least squares on four sizes",
            )
        )
    return {"clock": "processor time", "usual": USUAL, "growth": growth, "lines": lines}


def _measured(axis: str, size: int, quick: bool) -> dict[str, float]:
    """Seconds of each stage of one fit, of prediction, and of the fit as a whole."""
    at = {**USUAL, "rows": USUAL["rows"] // (4 if quick else 1), axis: size}
    per_group = at["rows"] / at["groups"]
    sample = make_grouped_mixture(
        n_features=at["columns"],
        n_clusters=4,
        n_groups=at["groups"],
        labeled_per_group=(0.2 * per_group, 0),
        unlabeled_per_group=(0.8 * per_group, 0),
        setting=2,
        random_state=0,
    )
    X, y, groups, _ = sample.training()
    # The number of clusters is the judge's to choose, unless it is what grows.
    partition = size if axis == "clusters" else "validated"
    model = GroupShiftClassifier(partition=partition, random_state=0, n_jobs=1)
    seconds: dict[str, float] = {}
    with _Watched(seconds):
        start = time.process_time()
        model.fit(X, y, groups=groups)
        seconds["the whole fit"] = time.process_time() - start
    start = time.process_time()
    model.predict_proba(X, groups)
    return seconds | {"predicting": time.process_time() - start}


class _Watched:
    """Inside, the stages of a fit add their processor time up."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds = seconds
        self.plain = {place: getattr(*place) for place in STAGES}

    def __enter__(self) -> None:
        for (module, name), stage in STAGES.items():
            setattr(module, name, self._timed(self.plain[module, name], stage))

    def __exit__(self, *error: object) -> None:
        for (module, name), function in self.plain.items():
            setattr(module, name, function)

    def _timed(self, function, stage: str):
        def timed(*args, **kwargs):
            start = time.process_time()
            answer = function(*args, **kwargs)
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - start
            return answer

        return timed


def _median(repeats: list[dict[str, float]]) -> dict[str, float]:
    return {stage: float(np.median([one.get(stage, 0.0) for one in repeats])) for stage in repeats[0]}


def _exponents(sizes: tuple[int, ...], measured: list[dict[str, float]]) -> dict[str, float]:
    """Slopes of log seconds on log size, of the stages that take long enough at the largest size."""
    found = {}
    for stage, longest in measured[-1].items():
        if longest >= MIN_SECONDS and all(one.get(stage, 0) > 0 for one in measured):
            seconds = [one[stage] for one in measured]
            found[stage] = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return found


if __name__ == "__main__":
    run("growth", "How each stage of a fit grows", measure, repeats=1, quick_repeats=1)
