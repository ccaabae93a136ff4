"""Results of experiments, read back for tables and figures: means over draws with their intervals."""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from paper.published import NAMES

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
    """Values of each (place, method, metric) by repetition; `described` is what experiment.json says."""

    described: Mapping[str, Any]
    values: Values

    @property
    def places(self) -> list[Place]:
        return list(dict.fromkeys(place for place, _, _ in self.values))

    @property
    def methods(self) -> list[str]:
        """Methods with any result, in the article's order, other labels last."""
        found = dict.fromkeys(method for _, method, _ in self.values)
        return sorted(found, key=lambda label: [*NAMES, label].index(label))

    def of(self, place: Place, method: str, metric: str = "auc") -> Mapping[int, float]:
        return self.values.get((place, method, metric), {})

    def mean(self, place: Place, method: str, metric: str = "auc") -> Mean:
        return Mean.of(self.of(place, method, metric).values())

    def differences(self, place: Place, method: str, other: str, metric: str = "auc") -> list[float]:
        """Difference to another method on each draw that both have: the same rows, so it is paired."""
        mine, theirs = self.of(place, method, metric), self.of(place, other, metric)
        return [mine[r] - theirs[r] for r in mine if r in theirs]

    def paired(self, data: str, setting: str, method: str, other: str, metric: str = "auc") -> list[float]:
        """Difference to another method on each draw that both have; synthetic sets of all d and K together."""
        places = [place for place in self.places if place[:2] == (data, setting)]
        return [gap for place in places for gap in self.differences(place, method, other, metric)]

    def relative(self, place: Place, method: str) -> list[float]:
        """Percent by which the AUC of a method exceeds Global's, on each draw that both have."""
        mine, base = self.of(place, method), self.of(place, "global")
        return [100 * (mine[r] / base[r] - 1) for r in mine if r in base]


def load_results(folder: str | Path) -> Results:
    """Read a folder of results."""
    folder = Path(folder)
    described = folder / "experiment.json"
    if not described.is_file():
        raise FileNotFoundError(f"{folder} holds no experiment.json: it is not a folder of results.")
    values: dict[tuple[Place, str, str], dict[int, float]] = {}
    with (folder / "results.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["value"]:
                place = (row["data"], row["setting"], row["d"], row["K"])
                key = (place, row["method"], row["metric"])
                values.setdefault(key, {})[int(row["repetition"])] = float(row["value"])
    return Results(json.loads(described.read_text()), values)
