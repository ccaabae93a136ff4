"""What streaming reads: files, folders, datasets or anything that hands out batches, as one table (pyarrow)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from groupshift._data.workers import add_up, map_chunks
from groupshift.tables.arrow import (
    BATCH_ROWS,
    ArrowTable,
    SourceError,
    gives_arrow,
    in_batches,
    pa,
    parquet_table,
    pc,
)
from groupshift.tables.column_facts import (
    NEARLY_ALL,
    ColumnSurvey,
    Surveys,
    decimal_mark,
    plan_in_file,
    plan_of,
    survey_column,
)
from groupshift.tables.columns import ColumnPlan, convert, group_text
from groupshift.tables.csv_cells import MISSING, MISSING_GROUP
from groupshift.tables.databases import is_url
from groupshift.tables.sources import Source, data_files, is_parquet, open_source

Reading: TypeAlias = "Callable[[pa.ChunkedArray], pa.ChunkedArray]"
# Beyond this, numbers that are read as floats are not whole any more.
EXACT = 2**53


@runtime_checkable
class BatchSource(Protocol):
    """Anything that names its columns and hands out Arrow tables, the same ones each time."""

    @property
    def columns(self) -> Sequence[str]: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class CellTable:
    """Files below each other as one table; what a column holds is decided on all its cells in all files.

    Columns are looked through when they are first asked for: those that nobody needs cost nothing.
    """

    parts: tuple[Source, ...]
    batch_rows: int
    kinds: Mapping[str, str]
    group: str | None
    _readings: dict[str, Reading] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        return list(self.parts[0].columns)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Arrow tables of `batch_rows` rows, the last one smaller."""
        names = list(self.columns if columns is None else columns)
        if new := [name for name in names if name not in self._readings]:
            surveys = add_up(map_chunks(self._survey, self._cells(new))).by_name
            mark = decimal_mark(surveys.values(), self.parts[0].separator)
            self._readings.update({name: self._reading(name, found, mark) for name, found in surveys.items()})
        for table in in_batches(self._cells(names), self.batch_rows):
            yield pa.table({name: self._readings[name](table[name]) for name in names})

    def _cells(self, names: Sequence[str]) -> Iterator[pa.Table]:
        for part in self.parts:
            yield from part.batches(names)

    def _survey(self, cells: pa.Table) -> Surveys:
        surveys = {}
        for name in cells.column_names:
            missing = MISSING_GROUP if name == self.group else MISSING
            surveys[name] = survey_column(cells[name], missing=missing, count_distinct=False)
        return Surveys(surveys)

    def _reading(self, name: str, survey: ColumnSurvey, mark: str | None) -> Reading:
        """How cells become values: by a plan, as whole numbers, or as groups."""
        kind = self.kinds.get(name)
        plan = ColumnPlan(name, kind) if kind == "category" else plan_of(name, survey, wanted=True)
        if kind == "number" and plan.kind != "number":
            plan = ColumnPlan(name, kind, decimal=survey.decimal)
        plan = plan_in_file(plan, survey, mark)
        lost = survey.lost(plan)
        if lost > (1 - NEARLY_ALL) * survey.values:
            raise SourceError(
                f"{self.parts[0].path} holds {survey.misfits[plan.decimal]!r} in {name!r}, which is a number in "
                f"the labelled data or in the model; {lost:,} of {survey.values:,} values are none. Empty these cells, "
                "or make the column text on both sides."
            )
        if lost:
            warnings.warn(
                f"{lost:,} values of {name!r} are no {plan.kind} and count as missing.",
                UserWarning,
                stacklevel=2,
            )
        if plan.kind == "number" and survey.is_whole and max(-survey.low, survey.high) < EXACT:
            return lambda cells: pc.cast(convert(cells, plan)[0], pa.int64())
        if name == self.group and plan.kind != "number":
            return group_text
        return lambda cells: convert(cells, plan)[0]


def as_source(
    data: object,
    *,
    batch_rows: int = BATCH_ROWS,
    kinds: Mapping[str, str] | None = None,
    group: str | None = None,
) -> BatchSource:
    """A path, a list of paths or anything that speaks Arrow as a source of batches; a source as it is.

    Parameters
    ----------
    kinds : mapping of column to "number" or "category", optional
        What columns of CSV files must hold; what others hold is decided on their cells.
    group : str, optional
        The column of groups, where a CSV file's "NA" is a name.
    """
    if isinstance(data, BatchSource):
        return data
    if gives_arrow(data):
        return ArrowTable(data, batch_rows)
    if not isinstance(data, (str, PathLike, list, tuple)) or (isinstance(data, (list, tuple)) and not data):
        raise TypeError(
            f"Rows came as a {type(data).__name__}. Pass the path of a file or folder, a query to a database, a list of "
            "paths, or what gives Arrow record batches (a DuckDB relation, a dataset, a reader, a frame)."
        )
    paths = [str(path) for path in data] if isinstance(data, (list, tuple)) else [str(data)]
    if all(_is_parquet(path) for path in paths):
        return parquet_table(paths if isinstance(data, (list, tuple)) else paths[0], batch_rows)
    parts = tuple(open_source(path) for path in paths)
    if other := [part for part in parts if part.format != parts[0].format]:
        raise SourceError(
            f"{parts[0].path} is {parts[0].format}, and {other[0].path} is "
            f"{other[0].format}. Pass files of one kind."
        )
    return CellTable(parts, batch_rows, kinds or {}, group)


def _is_parquet(path: str) -> bool:
    """Whether all files under a path are Parquet, as those are whose address only pyarrow can open."""
    if "://" in path:
        return not is_url(path)
    files = data_files(Path(path)) if Path(path).is_dir() else [Path(path)]
    return all(file.is_file() and is_parquet(file) for file in files)
