"""Counts: all that an estimate needs of unlabelled rows, as sums that are small, survive a file and add up exactly.

Weights, and their products with features and scores, are rounded to multiples of a step that the model fixes: 2⁻³⁰ of a mean
weight. Sums of such multiples are exact up to 2²³ mean weights in one place (a bin of a cell's scores, a feature of a group),
so that counts add up to the same bits in any order, wherever the rows of each part were counted.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np

from groupshift._data.batches import NO_ROWS, Reader, Roles
from groupshift._data.codes import Codes, same_kind
from groupshift._data.encoder import Space
from groupshift._data.extras import need
from groupshift._data.frames import Features
from groupshift._data.rows import Rows
from groupshift._data.workers import add_up
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._scores.members import standardized
from groupshift._shifts.common import Directions, MeanSums
from groupshift._shifts.sums import Bins, Sums

if TYPE_CHECKING:
    from groupshift._shifts.estimate import Learned

Score: TypeAlias = Callable[[Rows], tuple[FloatArray, IntArray]]
# What bytes of counts say that they are.
FORMAT = "groupshift counts 1"


@dataclass(frozen=True, eq=False)
class Counts:
    """Sums over unlabelled rows by group and cluster, as `GroupShiftClassifier.count` makes them; they are added with ``+``.

    Rows cannot be told from them. 1,000 groups with 8 clusters take less than 10 MB in a file, however many rows there are.

    Attributes
    ----------
    groups : array
        Names of the groups that have rows.
    n_rows : int
    model : str
        A fingerprint of the model that counted: counts of different models are not added.

    Examples
    --------
    >>> model.count(june) + model.count(july)  # doctest: +SKIP
    >>> model.update(counts=Counts.from_bytes(Path("june.counts").read_bytes()))  # doctest: +SKIP
    """

    groups: ValueArray
    scores: Sums  # cell: number of the group · n_clusters + cluster
    means: MeanSums | None
    model: str

    @property
    def n_rows(self) -> int:
        return int(self.scores.rows.sum())

    @property
    def n_clusters(self) -> int:
        return self.scores.n_cells // len(self.groups)

    def __repr__(self) -> str:
        return f"<Counts of {self.n_rows:,} rows in {len(self.groups):,} groups by model {self.model}>"

    def __add__(self, other: "Counts") -> "Counts":
        if not isinstance(other, Counts):
            return NotImplemented
        other.check_model(self.model)
        one = self
        if not np.array_equal(one.groups, other.groups):
            same_kind(one.groups, other.groups, "Groups are named by {} in some counts and by {} in others")
            groups = Codes().fit(np.concatenate([one.groups, other.groups])).values_
            one, other = one.placed(groups), other.placed(groups)
        means = None if one.means is None or other.means is None else one.means + other.means
        return Counts(one.groups, one.scores + other.scores, means, one.model)

    def __radd__(self, other: object) -> "Counts":
        """So that `sum` adds them up."""
        return self if other == 0 else NotImplemented

    def placed(self, groups: ValueArray) -> "Counts":
        """The same counts among those of more groups."""
        if np.array_equal(self.groups, groups):
            return self
        at = Codes.of(groups).transform(self.groups)
        means = None if self.means is None else self.means.placed(at, len(groups))
        return Counts(groups, self.scores.placed(at, self.n_clusters, len(groups)), means, self.model)

    def check_model(self, model: str) -> None:
        if self.model != model:
            raise ValueError(
                f"These counts were made by model {self.model}, and model {model} was expected: their clusters and scores "
                "are not the same. Count the rows again: model.count(rows)."
            )

    def to_bytes(self) -> bytes:
        """The bytes of an Arrow stream, for a file or the way between machines."""
        pa = need("pyarrow")
        arrays, facts = self._packed()
        try:
            columns = {**arrays, "groups": arrays["groups"].tolist()}
            table = pa.table({name: pa.array([values]) for name, values in columns.items()})
        except pa.ArrowException as error:
            raise ValueError(f"Groups cannot be written: {error}. Make their names text.") from error
        sink = pa.BufferOutputStream()
        table = table.replace_schema_metadata({FORMAT: json.dumps(facts)})
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as out:
            out.write_table(table)
        return cast(bytes, sink.getvalue().to_pybytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Counts from what `to_bytes` gave."""
        pa = need("pyarrow")
        try:
            table = pa.ipc.open_stream(data).read_all()
            table.validate(full=True)
            facts = json.loads(table.schema.metadata[FORMAT.encode()])
            arrays = {name: table[name].combine_chunks().flatten() for name in table.column_names}
            return cls._unpacked({n: a.to_numpy(zero_copy_only=False) for n, a in arrays.items()}, facts)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(
                "These bytes are no counts of groupshift, or were damaged on their way. Pass what Counts.to_bytes gave."
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unpacked, self._packed()

    def _packed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Small arrays, cells without rows left out, and facts; scores of a grid are told by its width."""
        sums, step = self.scores, self.scores.step
        cells, width = np.flatnonzero(sums.rows), _grid(sums)
        arrays = {
            "groups": self.groups,
            "cells": _small(cells),
            "points": _small(np.bincount(sums.cell, minlength=sums.n_cells)[cells]),
            "bin": _small(sums.bin),
            "weight": _small((sums.weight / step).astype(np.int64)) if step else sums.weight,
            "rows": _small(sums.rows[cells]),
            "weight_sum": sums.weight_sum[cells],
            "weight_square_sum": sums.weight_square_sum[cells],
        }
        if width is None:
            arrays["score"] = sums.score.ravel()
        if (means := self.means) is not None:
            arrays |= {
                "mean": means.values.ravel(),
                "mean_of": means.weight,
                "mean_square": means.weight_square,
            }
        facts = {"model": self.model, "n_clusters": self.n_clusters, "step": step, "width": width}
        return arrays, facts

    @classmethod
    def _unpacked(cls, arrays: dict[str, Any], facts: dict[str, Any]) -> Self:
        groups, cells, step = arrays["groups"], arrays["cells"].astype(np.int64), float(facts["step"])
        n_cells = len(groups) * int(facts["n_clusters"])
        rows, total, square = np.zeros(n_cells, np.int64), np.zeros(n_cells), np.zeros(n_cells)
        rows[cells], total[cells], square[cells] = (
            arrays[name] for name in ("rows", "weight_sum", "weight_square_sum")
        )
        bins, points, width = arrays["bin"].astype(np.int64), arrays["points"], facts["width"]
        weight = arrays["weight"] * step if step else arrays["weight"]
        if (cells < 0).any() or (points < 0).any() or not points.sum() == len(bins) == len(weight):
            raise ValueError("points without cells")
        cell = np.repeat(cells, points)
        score = arrays["score"].reshape(len(bins), -1) if width is None else (bins * width)[:, None]
        means = None
        if "mean" in arrays:
            of_groups = (arrays[name].reshape(len(groups)) for name in ("mean_of", "mean_square"))
            means = MeanSums(arrays["mean"].reshape(len(groups), -1), *of_groups)
        return cls(
            groups, Sums(cell, bins, weight, score, rows, total, square, step), means, str(facts["model"])
        )


@dataclass(frozen=True)
class CountRows:
    """Counts of a chunk of unlabelled rows; it travels to every machine of a cluster."""

    posterior: Score
    bins: Bins
    space: Space
    directions: Directions | None
    n_clusters: int
    model: str

    @classmethod
    def of(cls, learned: "Learned", *, exact: bool = False) -> Self:
        """`exact`: scores stay as they are, which takes as much memory as the rows have scores."""
        bins = replace(learned.bins, width=0.0) if exact else learned.bins
        parts = learned.posterior, bins, learned.space, learned.directions
        return cls(*parts, learned.n_clusters, fingerprint(learned))

    def __call__(self, rows: Rows, groups: ValueArray) -> Counts:
        """`groups` names the groups that rows are numbered by; those without rows are left out."""
        has_rows = np.bincount(rows.group, minlength=len(groups)) > 0
        group, names = (np.cumsum(has_rows) - 1)[rows.group], groups[has_rows]
        score, cluster = self.posterior(rows)
        cell, n_cells = group * self.n_clusters + cluster, len(names) * self.n_clusters
        sums = Sums.of(score, cell, rows.weight, n_cells, self.bins)
        means = None
        if self.directions is not None:
            features = features_of(self.space, rows, score)
            means = self.directions.sums(features, group, rows.weight, len(names), step=self.bins.step)
        return Counts(names, sums, means, self.model)


def batch_counter(model: Any, roles: Roles) -> Callable[[Features], Counts | None]:
    """What counts a batch of a table whose columns have roles, by a fitted `GroupShiftClassifier`."""
    reader = Reader(model.schema_, roles, unlabeled_value=model.unlabeled_value)
    return partial(_count_batch, reader, CountRows.of(model.learned_))


def _count_batch(reader: Reader, count: CountRows, batch: Features) -> Counts | None:
    found = reader.named(batch)
    return None if found is None else count(*found)


def total_counts(parts: Iterable[Counts | None]) -> Counts:
    """The counts of all parts that have rows."""
    there = [part for part in parts if part is not None]
    if not there:
        raise ValueError(NO_ROWS)
    return add_up(there)


def features_of(space: Space, rows: Rows, score: FloatArray) -> FloatArray:
    """What the means of both samples are compared in: standardized features, and scores."""
    return np.hstack([standardized(space, rows.matrix), score])


def fingerprint(learned: "Learned") -> str:
    """What tells the counts of one model from those of another: its held-out scores, its space, and where scores are counted."""
    digest = blake2b(digest_size=8)
    scores, bins = learned.labeled.scores, learned.bins
    parts = [
        learned.labeled_prior,
        learned.class_rows,
        learned.space.mean_,
        learned.space.scale_,
        learned.typical,
    ]
    parts += [scores.cell, scores.weight, scores.score, np.array([bins.width, bins.step, learned.n_classes])]
    for part in (*parts, *(part for part in (bins.prototypes,) if part is not None)):
        digest.update(np.ascontiguousarray(part, float).tobytes())
    return digest.hexdigest()


def _grid(sums: Sums) -> float | None:
    """The width of the grid that scores lie on; None where they lie on none."""
    if sums.n_contrasts > 1 or not len(sums.bin):
        return None
    at = int(np.abs(sums.bin).argmax())
    width = float(sums.score[at, 0] / sums.bin[at]) if sums.bin[at] else 1.0
    return width if np.array_equal(sums.bin * width, sums.score[:, 0]) else None


def _small(numbers: IntArray) -> IntArray:
    """The same whole numbers in as few bytes as hold them."""
    ends = [int(numbers.min()), int(numbers.max())] if len(numbers) else [0]
    return numbers.astype(np.result_type(np.int16, *map(np.min_scalar_type, ends)))
