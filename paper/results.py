"""Results of an experiment, read back for tables and figures: means over draws with their intervals."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from paper.published import NAMES
from paper.spec import Experiment
from paper.store import LABELS, Json, Store, read_csv

# Place of a result in the grid: data, setting, d, K; d and K are "" for real data.
Place = tuple[str, str, str, str]
Values = Mapping[tuple[Place, str, str], Mapping[int, float]]


@dataclass(frozen=True)
class Mean:
    """A mean over n draws, with half the width of its 95 % interval (Student's t; NaN for one draw)."""

    value: float
    half: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Mean":
        """Mean of one value per draw.

        >>> round(Mean.of([0.5, 1.0]).half, 2)  # t = 12.706 for two draws, standard error 0.25
        3.18
        """
        array = np.asarray(list(values), float)
        if len(array) < 2:
            return cls(float(array.mean()) if len(array) else float("nan"), float("nan"), len(array))
        half = stdtrit(len(array) - 1, 0.975) * array.std(ddof=1) / np.sqrt(len(array))
        return cls(float(array.mean()), float(half), len(array))

    def __sub__(self, constant: float) -> "Mean":
        return Mean(self.value - constant, self.half, self.n)


@dataclass(frozen=True)
class Results:
    """Values of each (place, method, metric) by repetition, and what is known about the runs."""

    experiment: Experiment
    tables: Mapping[str, Json]
    values: Values
    runs: list[dict[str, str]]
    bins: list[dict[str, str]]
    expected: set[tuple[str, ...]]
    commit: str = ""

    @property
    def places(self) -> list[Place]:
        return list(dict.fromkeys(place for place, _, _ in self.values))

    @property
    def sets(self) -> dict[tuple[str, str], list[Place]]:
        """The places of each data set and setting: one for real data, one for each d and K for synthetic."""
        found: dict[tuple[str, str], list[Place]] = {}
        for place in self.places:
            found.setdefault(place[:2], []).append(place)
        return found

    @property
    def kinds(self) -> dict[str, str]:
        """The method behind each label."""
        return {method.label: method.name for method in self.experiment.methods}

    @property
    def methods(self) -> list[str]:
        """Methods with any result, in the paper's order, unknown labels last."""
        found = {method for _, method, _ in self.values}
        order = {name: i for i, name in enumerate(NAMES)}
        labels = [label for label in self.kinds if label in found]
        return sorted(labels, key=lambda label: order.get(self.kinds[label], len(order)))

    def title(self, method: str) -> str:
        if method in NAMES:
            return NAMES[method]
        kind = self.kinds.get(method, method)
        return f"{NAMES.get(kind, kind)}: {method}"

    def of(self, place: Place, method: str, metric: str = "auc") -> Mapping[int, float]:
        return self.values.get((place, method, metric), {})

    def mean(self, place: Place, method: str, metric: str = "auc") -> Mean:
        return Mean.of(self.of(place, method, metric).values())

    def total(self, metric: str) -> float:
        """Sum of a metric over all runs."""
        return sum(sum(by_draw.values()) for (_, _, name), by_draw in self.values.items() if name == metric)

    def differences(self, place: Place, method: str, other: str, metric: str = "auc") -> list[float]:
        """Difference to another method on each draw that both have: the same rows, so it is paired."""
        mine, theirs = self.of(place, method, metric), self.of(place, other, metric)
        return [mine[r] - theirs[r] for r in mine if r in theirs]

    def against(self, place: Place, method: str, other: str, metric: str = "auc") -> Mean:
        """Mean difference to another method over the draws that both have."""
        return Mean.of(self.differences(place, method, other, metric))

    def paired(self, data: str, setting: str, method: str, other: str, metric: str = "auc") -> list[float]:
        """Difference to another method on each draw that both have; synthetic sets of all d and K together."""
        places = self.sets.get((data, setting), [])
        return [gap for place in places for gap in self.differences(place, method, other, metric)]

    def by_place(
        self, data: str, setting: str, method: str, other: str, metric: str = "auc"
    ) -> dict[Place, float]:
        """Mean difference to another method at each place of a set where both have a draw."""
        places = self.sets.get((data, setting), [])
        found = {place: self.against(place, method, other, metric).value for place in places}
        return {place: gap for place, gap in found.items() if not math.isnan(gap)}

    def holes(self) -> list[dict[str, str]]:
        """Runs that failed, and runs that are not there."""
        failed = [{**run, "why": run["error"]} for run in self.runs if run["status"] == "failed"]
        there = {tuple(run[c] for c in LABELS) for run in self.runs}
        absent = [dict(zip(LABELS, labels, strict=True)) for labels in sorted(self.expected - there)]
        return failed + [{**labels, "why": "not run yet"} for labels in absent]


def load_results(folder: str | Path) -> Results:
    """Read a folder of results; its tables are made anew where its parts are at hand."""
    store = Store(folder)
    described = store.read_experiment()
    tasks = store.stored_tasks(described)
    # Without its code on record, a folder's parts cannot be told from those of other code.
    if "origin" in described and (store.folder / "parts").is_dir():
        store.combine(tasks)
    values: dict[tuple[Place, str, str], dict[int, float]] = {}
    for row in read_csv(store.folder / "results.csv"):
        place = (row["data"], row["setting"], row["d"], row["K"])
        if row["value"]:
            key = (place, row["method"], row["metric"])
            values.setdefault(key, {})[int(row["repetition"])] = float(row["value"])
    return Results(
        experiment=Experiment.from_dict(described),
        tables=described.get("tables", {}),
        values=values,
        runs=read_csv(store.folder / "runs.csv"),
        bins=read_csv(store.folder / "calibration.csv"),
        expected={tuple("" if v is None else str(v) for v in task.labels.values()) for task in tasks},
        commit=described.get("origin", {}).get("commit", ""),
    )
