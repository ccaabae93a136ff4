"""An experiment as data: dataclasses, and the TOML files that they are read from."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from paper.acs import person_files

SPECS = Path(__file__).parent / "specs"
T = TypeVar("T")
# What TOML holds: text, numbers, lists and tables of them.
Toml = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SyntheticData:
    """The article's Gaussian mixtures, for every pair of dimension and number of clusters.

    `pairs`: "uniform" draws them as `groupshift.datasets.make_grouped_mixture` does, their AUCs uniform in `auc_range`; "walk"
    is the generator behind the article's figures (`paper/walk.py`), whose AUCs stop where they enter the range.
    """

    kind: ClassVar[str] = "synthetic"
    name: str = "synthetic"
    settings: tuple[int, ...] = (1, 2)
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
    """`replace`, `batch_size` and `cells` say how biased samples are made: see `groupshift.datasets.bias_groups`.

    `cells` is the number of clusters, by silhouette if None; `setting_1_cells` that of setting 1, if it is another.
    """

    name: str
    path: str
    settings: tuple[int, ...] = (1, 2)
    repetitions: int | None = None
    max_rows: int | None = None
    replace: bool = True
    batch_size: int = 4096
    cells: int | None = None
    setting_1_cells: int | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class AcsData(_RealTable):
    """A Census task; `path` is a file or a folder of person records."""

    kind: ClassVar[str] = "acs"
    task: str


@dataclass(frozen=True, kw_only=True)
class ReviewsData(_RealTable):
    """Reviews by category as embeddings.

    What may explain the article's numbers on other reviews, each by a line: principal `components`, three-star reviews,
    categories `merged` so many at a time, and rows `dealt` to groups at random, so that no group is a region of its own.
    """

    kind: ClassVar[str] = "reviews"
    components: int | None = None
    rating: str | None = None
    drop_three_stars: bool = False
    merged: int = 1
    dealt: bool = False


RealData = AcsData | ReviewsData
DataSpec = SyntheticData | AcsData | ReviewsData
KINDS: Mapping[str, type[DataSpec]] = {kind.kind: kind for kind in (SyntheticData, AcsData, ReviewsData)}


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method by its name in `groupshift.METHODS`, or "bayes", the limit of synthetic data.

    `label` tells variants of one method apart. `repetitions` is for dear methods: only that many draws.
    """

    name: str
    label: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    repetitions: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that decides the numbers of an experiment, besides the code. `classifier` holds settings of the forest."""

    name: str
    title: str
    about: str = ""
    scale: str = "paper"
    seed: int = 0
    repetitions: int = 10
    classifier: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[DataSpec, ...]
    methods: tuple[MethodSpec, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` reads them."""
        return {**asdict(self), "data": [{"kind": d.kind, **asdict(d)} for d in self.data]}

    @classmethod
    def from_dict(cls, plain: Toml) -> "Experiment":
        """The experiment of a table, as `to_dict` or a TOML file has it; what belongs to no experiment is left out."""
        known = {name: plain[name] for name in (f.name for f in fields(cls)) if name in plain}
        methods = [{"name": m} if isinstance(m, str) else m for m in known.get("methods", ())]
        known["methods"] = tuple(_build(MethodSpec, entry, "a method") for entry in methods)
        known["data"] = tuple(_data(entry) for entry in known.get("data", ()))
        experiment = _build(cls, known, "the experiment")
        experiment._check_names()
        return experiment

    def _check_names(self) -> None:
        from groupshift import METHODS

        known = [*METHODS, "bayes"]
        unknown = [m.name for m in self.methods if m.name not in known]
        if unknown:
            raise ValueError(f"Unknown methods {unknown}: expected some of {', '.join(known)}.")
        for what, names in (
            ("data sets", [d.name for d in self.data]),
            ("methods", [m.label for m in self.methods]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if not names or twice:
                found = f"{twice} come twice" if twice else "there are none"
                raise ValueError(f"{what} need distinct names: {found}. Give each a name (methods: a label).")


def load_experiment(
    source: str | Path | Toml, *, scale: str | None = None, data_dir: str | Path | None = None
) -> Experiment:
    """Read an experiment from a TOML file, the name of one in `specs`, or a mapping.

    Parameters
    ----------
    scale : str, optional
        One of the file's `[scales.*]` tables, or "paper" for the file as it stands. By default the file's `scale`.
    data_dir : path, optional
        Folder of the data files.

    Examples
    --------
    >>> experiment = load_experiment("authors_code", scale="paper")
    >>> experiment.data[1].replace, experiment.data[1].batch_size
    (False, 14)
    """
    table = dict(source) if isinstance(source, Mapping) else _read(find_spec(source))
    scales = table.pop("scales", {})
    scale = scale or table.get("scale", "paper")
    if scale != "paper" and scale not in scales:
        known = ", ".join(["paper", *scales])
        raise ValueError(f"There is no scale {scale!r} in experiment {table.get('name')!r}: choose {known}.")
    table = {**_at_scale(table, scales.get(scale, {})), "scale": scale}
    unknown = sorted(set(table) - {f.name for f in fields(Experiment)})
    if unknown:
        raise ValueError(f"Unknown keys {unknown} in the experiment {table.get('name')!r}.")
    table["data"] = [_with_path(entry, Path(data_dir or ".")) for entry in table.get("data", ())]
    return Experiment.from_dict(table)


def find_spec(source: str | Path) -> Path:
    """The file itself, or the one of that name in `specs`, with or without its ending."""
    path = Path(source)
    packaged = SPECS / f"{path.name.removesuffix('.toml')}.toml"
    for found in (path, packaged):
        if found.is_file():
            return found
    known = ", ".join(sorted(p.stem for p in SPECS.glob("*.toml")))
    raise FileNotFoundError(f"There is no file {path}, and no experiment of that name: choose {known}.")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error


def _at_scale(table: Toml, changes: Toml) -> dict[str, Any]:
    """The table with a scale's changes: tables are merged, entries of data by their kind, methods by their label."""
    merged = {
        key: {**table.get(key, {}), **value} if isinstance(value, Mapping) else value
        for key, value in changes.items()
        if key not in ("data", "methods")
    }
    of_kind, of_method = changes.get("data", {}), changes.get("methods", {})
    entries = [{"name": m} if isinstance(m, str) else dict(m) for m in table.get("methods", ())]
    methods = [{**m, **of_method.get(m.get("label", m.get("name")), {})} for m in entries]
    data = [{**entry, **of_kind.get(entry.get("kind"), {})} for entry in table.get("data", ())]
    return {**table, **merged, "data": data, "methods": methods}


def _with_path(entry: Toml, folder: Path) -> Toml:
    if "path" not in entry:
        return entry
    path = folder / entry["path"]
    if entry.get("kind") == "acs" and not path.exists() and person_files(folder):
        # The Census's own files do as well as the one that the experiment names; its note is on that one.
        return {**entry, "path": str(folder), "note": f"Census person files of {folder}."}
    return {**entry, "path": str(path)}


def _data(entry: Toml) -> DataSpec:
    kind = entry.get("kind")
    if kind not in KINDS:
        raise ValueError(f"There is data of kind {kind!r}, expected one of {', '.join(KINDS)}.")
    rest = {name: value for name, value in entry.items() if name != "kind"}
    return _build(KINDS[str(kind)], rest, f"data of kind {kind!r}")


def _build(cls: type[T], table: Toml, where: str) -> T:
    """A dataclass of a table's values, lists as tuples."""
    known = fields(cls)  # type: ignore[arg-type]  # a dataclass, which mypy cannot say
    unknown = sorted(set(table) - {f.name for f in known})
    if unknown:
        raise ValueError(
            f"Unknown keys {unknown} in {where}: expected some of {sorted(f.name for f in known)}."
        )
    needed = {f.name for f in known if f.default is MISSING and f.default_factory is MISSING}
    if absent := sorted(needed - set(table)):
        raise ValueError(f"{where} is not complete: it lacks {', '.join(absent)}.")
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in table.items()})
