"""What a fit is given: rows, labels, a population, settings and seeds; and the notes that its stages leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from groupshift._data.encoder import FeatureEncoder, Space
from groupshift._data.frames import Features
from groupshift._data.keys import Seeds, design_effect, within
from groupshift._data.rows import Population, Rows, concatenated
from groupshift._math.arrays import FloatArray, IntArray, ValueArray

# k-means moves little beyond this many rows; the published configuration uses all of them.
MAX_CLUSTERING_ROWS = 50_000
# A rate of positives, or the rate and its standard error; by class, such of each class.
Rate: TypeAlias = float | tuple[float, float]
KnownShare: TypeAlias = Rate | Mapping[Any, Rate]
KnownRates: TypeAlias = Mapping[Any, Any]


class Classifier(Protocol):
    """What scikit-learn calls a classifier."""

    def fit(self, X: Features, y: IntArray, **weights: FloatArray) -> Self: ...

    def predict_proba(self, X: Features) -> FloatArray: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


@dataclass(frozen=True)
class KnownRate:
    """A rate of positives in the whole population; a standard error of 0: it is exact."""

    share: float
    std_error: float = 0.0


@dataclass(frozen=True)
class Known:
    """Rates of positives that the user knows: of groups, and of the whole population."""

    shares: Mapping[Any, KnownRate]  # by group
    overall: KnownRate | None = None
    classes: ValueArray | None = None  # of more than two, each rate is a mapping of class to share

    @property
    def any(self) -> bool:
        return bool(self.shares) or self.overall is not None

    def among(self, groups: ValueArray) -> ValueArray:
        """Those of the groups whose rates are known."""
        known: ValueArray = groups[np.array([g in self.shares for g in groups.tolist()], bool)]
        return known

    def check_rows(self) -> None:
        """Refuse what is known of a population that is not there."""
        if self.overall is not None:
            raise ValueError(
                "known_overall is a rate of unlabelled rows, and there are none. Add them, or leave it out."
            )


NOTHING_KNOWN = Known({})


@dataclass(frozen=True)
class Settings:
    """The settings of a `GroupShiftClassifier` that its fit reads; its docstring says what they mean."""

    estimator: Classifier | Sequence[Classifier] | None
    partition: Any
    calibration: str
    shares: str | None
    shrinkage: str
    selection: str
    per_cluster: bool
    labeled_prior: str
    verbose: int

    @property
    def is_left_to_judge(self) -> bool:
        """Whether the partition is not given: the judge finds it, if there are labels to hide."""
        wanted = self.partition
        return isinstance(wanted, (list, tuple)) or (isinstance(wanted, str) and wanted == "validated")


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
    known: Known = NOTHING_KNOWN

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


@dataclass(frozen=True)
class Pooled:
    """Labelled and unlabelled rows in one, group numbers left out."""

    rows: Rows  # labelled ones first
    n_labeled: int
    space: Space
    group_effect: float  # how many times fewer examples than rows the groups of the population have
    notes: Notes = ()

    def unlabeled(self, n_rows: int) -> Rows:
        """At most so many of the unlabelled rows, from all of their order."""
        step = max(-(-(len(self.rows) - self.n_labeled) // n_rows), 1)
        return self.rows.take(np.arange(self.n_labeled, len(self.rows), step))


def pool_rows(problem: Problem) -> Pooled:
    """All rows for the paper's silhouette, else a sample."""
    limit = np.inf if problem.settings.partition == "silhouette" else MAX_CLUSTERING_ROWS
    labeled, population, seeds = problem.labeled, problem.population, problem.seeds
    notes: Notes = ()
    group_effect = 1.0
    if population is None:
        rows = labeled.at_most(limit, seeds.named("clustering, labelled"))
        n_labeled = len(rows)
    else:
        n_all = len(labeled) + population.n_rows
        if min(limit, n_all) > population.sample_limit:
            limit = population.sample_limit
            sentence = f"Clusters were sought on {limit:,.0f} of {n_all:,} rows: memory is not asked to hold them all."
            notes = (Note(sentence),)
        share = min(1.0, limit / n_all)
        few = labeled.at_most(share * len(labeled), seeds.named("clustering, labelled"))
        n_unlabeled = int(np.ceil(share * population.n_rows))
        unlabeled = problem.sample(n_unlabeled, seeds.named("clustering, population"))
        group_effect = design_effect(within(unlabeled.key, unlabeled.group), unlabeled.weight)
        rows, n_labeled = concatenated([few, unlabeled]), len(few)
    rows = replace(rows, group=np.zeros(len(rows), np.int64))
    space = Space().fit(rows.matrix, rows.weight, problem.encoder.is_category)
    return Pooled(rows, n_labeled, space, group_effect, notes)
