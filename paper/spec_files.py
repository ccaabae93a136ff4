"""Experiments read from TOML files, at one of several scales."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paper.acs_files import person_files
from paper.spec import AcsData, Experiment, FlightsData, ReviewsData, SyntheticData
from paper.typed_tables import build

SPECS = Path(__file__).parent / "specs"
KINDS = tuple(data.kind for data in (SyntheticData, AcsData, ReviewsData, FlightsData))
# What TOML holds: text, numbers, lists and tables of them.
Toml = dict[str, Any]


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
    scales, own_scale, own_folder = (
        table.pop(key, default) for key, default in (("scales", {}), ("scale", "paper"), ("data_dir", "."))
    )
    scale = scale or own_scale
    if scale != "paper" and scale not in scales:
        known = ", ".join(["paper", *scales])
        raise ValueError(f"There is no scale {scale!r} in experiment {table.get('name')!r}: choose {known}.")
    table = _at_scale(table, scales.get(scale, {}))
    classifier = dict(table.get("classifier", {}))
    named = {"name": classifier.pop("name", "forest"), "params": classifier}
    folder = Path(data_dir if data_dir is not None else own_folder)
    data = [_with_paths(entry, folder) for entry in table["data"]]
    whole = {**table, "scale": scale, "classifier": named, "data": data}
    experiment = build(Experiment, whole, "the experiment")
    _check_names(experiment)
    return experiment


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


def _read(path: Path) -> Toml:
    try:
        return {**tomllib.loads(path.read_text(encoding="utf-8")), "source": path.name}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error


def _at_scale(table: Toml, overlay: Mapping[str, Any]) -> Toml:
    """The table with a scale's changes: plain keys replace, kinds of data and methods change entries."""
    changes = dict(overlay)
    by_kind, by_method = changes.pop("data", {}), changes.pop("methods", {})
    unknown = sorted(set(by_kind) - set(KINDS))
    if unknown:
        raise ValueError(f"A scale changes data of kind {unknown}, expected {', '.join(KINDS)}.")
    merged = {
        key: {**table.get(key, {}), **value} if isinstance(value, Mapping) else value
        for key, value in changes.items()
    }
    entries = [{"name": m} if isinstance(m, str) else dict(m) for m in table.get("methods", [])]
    methods = [{**m, **by_method.get(m.get("label", m.get("name")), {})} for m in entries]
    data = [{**entry, **by_kind.get(entry.get("kind"), {})} for entry in table.get("data", [])]
    return {**table, **merged, "data": data, "methods": methods}


def _with_paths(entry: Toml, folder: Path) -> Toml:
    paths = {key: str(folder / entry[key]) for key in ("path", "embeddings") if entry.get(key)}
    if entry.get("kind") == "acs" and not Path(paths.get("path", "")).exists() and person_files(folder):
        # The Census's own files do as well as the one that the experiment names; its note is on that one.
        return {**entry, "path": str(folder), "note": f"Census person files of {folder}."}
    return {**entry, **paths}


def _check_names(experiment: Experiment) -> None:
    from groupshift import METHODS

    known = [*METHODS, "bayes"]
    unknown = [m.name for m in experiment.methods if m.name not in known]
    if unknown:
        raise ValueError(f"Unknown methods {unknown}: expected some of {', '.join(known)}.")
    for what, names in (
        ("data sets", [d.name for d in experiment.data]),
        ("methods", [m.label for m in experiment.methods]),
    ):
        twice = sorted({n for n in names if names.count(n) > 1})
        if not names or twice:
            found = f"{twice} come twice" if twice else "there are none"
            raise ValueError(f"{what} need distinct names: {found}. Give each a name (methods: a label).")
