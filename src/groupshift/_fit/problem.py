"""What a fit is given: rows, labels, a population, settings and seeds; and the notes that its stages leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from groupshift._fit.classifiers import Classifier
from groupshift._math.arrays import IntArray, ValueArray
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.rows import Population, Rows
from groupshift._rows.seeds import Seeds

# A rate of positives, or the rate and its standard error; with more than two classes, such of each class.
KnownShare: TypeAlias = float | tuple[float, float]
KnownRates: TypeAlias = Mapping[Any, Any]


@dataclass(frozen=True)
class Settings:
    """The settings of a `GroupShiftClassifier` that its fit reads; its docstring says what they mean."""

    estimator: Classifier | None
    partition: Any
    calibration: str
    shares: str | None
    shrinkage: str
    selection: str
    trust: float | Literal["learned"]
    refine: int | Literal["auto"]
    per_cluster: bool
    labeled_prior: str
    verbose: int


@dataclass(frozen=True)
class Note:
    """A sentence about what was decided on the way; `degraded`: the data did not allow what was asked for."""

    sentence: str
    degraded: bool = False


Notes: TypeAlias = tuple[Note, ...]


@dataclass(frozen=True)
class Problem:
    """Everything that a fit may look at."""

    labeled: Rows  # weights in units of their mean, since penalties and sampling errors count rows
    y: IntArray  # numbers of classes, from 0
    population: Population | None  # weights in the units that they came in
    unit: float  # mean weight of a labelled row in those units
    labeled_groups: ValueArray  # names of groups, in the order of their numbers among labelled rows
    groups: ValueArray  # the same for the population
    has_groups: bool
    encoder: FeatureEncoder
    settings: Settings
    seeds: Seeds
    known_shares: KnownRates | None = None

    @classmethod
    def of(cls, labeled: Rows, y: IntArray, **others: Any) -> "Problem":
        """The problem of labelled rows whose weights have any unit."""
        unit = float(labeled.weight.mean())
        return cls(labeled=labeled.in_units(unit), y=y, unit=unit, **others)

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def n_labeled_groups(self) -> int:
        return len(self.labeled_groups) if self.has_groups else 1

    @property
    def fewest_examples(self) -> int:
        """Distinct examples of the class that has fewest."""
        return min(len(np.unique(self.labeled.key[self.y == c])) for c in range(self.n_classes))

    def sample(self, n_rows: int, seed: int) -> Rows:
        """About so many rows of the population, weights in units of a labelled row."""
        assert self.population is not None
        return self.population.sample(n_rows, seed).in_units(self.unit)


def sentences(notes: Sequence[Note]) -> list[str]:
    return [note.sentence for note in notes]
