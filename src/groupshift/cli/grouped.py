"""Groups of rows in files: of one column or several, and what becomes of rows that have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from groupshift.cli.errors import InputError
from groupshift.tables.columns import group_text
from groupshift.tables.sources import Source, no_column

# Between the names of the columns that make a group, and between their values.
OF_NAMES, OF_VALUES = ", ", " × "  # noqa: RUF001
# What --missing-group takes, and the group that rows without one then have.
MISSING_GROUPS = ("error", "drop", "own")
NO_GROUP = "(no group)"


def group_name(columns: Sequence[str]) -> str | None:
    """What groups of several columns are called.

    >>> group_name(("state", "age_band")), group_name(())
    ('state, age_band', None)
    """
    return OF_NAMES.join(columns) or None


def columns_of(group: str | None, source: Source) -> tuple[str, ...]:
    """The columns that --group names: one, which may have a comma in its name, or several with commas between."""
    if group is None or group in source.columns:
        return () if group is None else (group,)
    return tuple(part.strip() for part in group.split(",") if part.strip())


def parts_of(group: str, n_columns: int) -> list[str]:
    """The values that make a group.

    >>> parts_of("Ohio × 18-29", 2), parts_of("(no group)", 2)
    (['Ohio', '18-29'], ['(no group)', '(no group)'])
    """
    parts = group.split(OF_VALUES)
    return parts if len(parts) == n_columns else [group] * n_columns


@dataclass(frozen=True)
class Grouped:
    """The tables of a source with the column of groups that several columns make, or without rows that have none."""

    source: Source
    columns: tuple[str, ...]
    missing: str

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        name = str(group_name(self.columns))
        inside = [column for column in names if column in self.source.columns]
        for table in self.source.batches(list(dict.fromkeys([*inside, *self.columns]))):
            groups = self._groups(table)
            table = table.drop_columns([name]) if name in table.column_names else table
            table = table.append_column(name, groups)
            if self.missing == "drop":
                table = table.filter(groups.is_valid())
            yield table.select(list(names))

    def _groups(self, table: pa.Table) -> pa.ChunkedArray:
        parts = [group_text(table[column]) for column in self.columns]
        groups = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, OF_VALUES)
        return pc.fill_null(groups, NO_GROUP) if self.missing == "own" else groups


def with_groups(source: Source, columns: Sequence[str], missing: str = "error") -> Source:
    """A source that has the group as one column, named by `group_name`."""
    if missing not in MISSING_GROUPS:
        raise InputError(
            f"--missing-group {missing!r} is not known. Choose one of {', '.join(MISSING_GROUPS)}."
        )
    if unknown := [column for column in columns if column not in source.columns]:
        raise InputError(no_column(unknown, source))
    if not columns or (len(columns) == 1 and missing == "error"):
        return source
    name = str(group_name(columns))
    others = [column for column in source.columns if column != name]
    schema = pa.schema([(column, source.type_of(column)) for column in others] + [(name, pa.string())])
    return replace(
        source,
        columns=(*others, name),
        n_rows=None if missing == "drop" else source.n_rows,
        schema=schema,
        tables=Grouped(source, tuple(columns), missing),
        known={},
    )
