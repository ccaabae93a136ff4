"""Rows of the method from batches of a table: what files and clusters share."""

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from groupshift._rows.checks import accepts_missing, example_keys
from groupshift._rows.frames import (
    Codes,
    FeatureEncoder,
    concat_rows,
)
from groupshift._rows.roles import Roles, row_weights, unlabeled_rows
from groupshift._rows.rows import Rows, sampled


@dataclass(frozen=True)
class Reader:
    """Rows of the method from batches of a table.

    Attributes
    ----------
    groups : array or None
        Groups in their order; None where the model knows no groups.
    library : str or None
        Frame library that the classifier's features come in; None where it takes the encoded matrix.
    """

    roles: Roles
    encoder: FeatureEncoder
    groups: NDArray | None
    library: str | None
    allow_nan: bool
    unlabeled_value: Any = None

    @classmethod
    def of(cls, model: Any, roles: Roles) -> "Reader":
        return cls(
            roles,
            model.encoder_,
            model.groups_ if model.has_groups_ else None,
            None if model.estimator is None else model.frame_library_,
            accepts_missing(model.estimator),
            model.unlabeled_value,
        )

    def __call__(self, batch: Any, first: int = 0) -> Rows:
        """Unlabelled rows of a batch; `first` is the number of its first row in the whole table."""
        at, frame = unlabeled_rows(batch, self.roles, self.unlabeled_value)
        features = frame.select(self.roles.features)
        matrix = self.encoder.transform(features.to_native())
        if not self.allow_nan and np.isnan(matrix).any():
            raise ValueError(
                "Unlabelled rows have missing values, which the classifier does not take. Impute them, put "
                "an imputer before the classifier, or use estimator=None, which takes them."
            )
        return Rows(
            matrix if self.library is None else in_library(features, self.library),
            matrix,
            self._group_numbers(frame),
            row_weights(frame, self.roles),
            self._keys(frame, at, first),
        )

    def _group_numbers(self, frame: nw.DataFrame) -> NDArray[np.int64]:
        if self.groups is None or self.roles.group is None:
            return np.full(len(frame), 0 if self.groups is None else -1, np.int64)
        values = frame.get_column(self.roles.group).to_numpy()
        return Codes.of(self.groups).transform(values)

    def _keys(self, frame: nw.DataFrame, at: NDArray[np.int64], first: int) -> NDArray[np.uint64]:
        if self.roles.example_id is None:
            return (at + first).astype(np.uint64)
        return example_keys(frame.get_column(self.roles.example_id).to_numpy(), len(frame))


def picked(reader: Reader, batch: Any, first: int, fraction: float, random_state: int) -> Rows | None:
    """The rows of a batch that belong to the sample of the given fraction; None where there are none."""
    rows = reader(batch, first) if len(batch) else None
    if rows is None or fraction >= 1:
        return rows if rows is not None and len(rows) else None
    keep = np.flatnonzero(sampled(rows.key, fraction, random_state))
    return rows.take(keep) if len(keep) else None


def in_library(frame: nw.DataFrame, library: str) -> Any:
    """A narwhals frame as a native one of the named library."""
    if frame.implementation.value == library:
        return frame.to_native()
    return {"pandas": frame.to_pandas, "polars": frame.to_polars, "pyarrow": frame.to_arrow}[library]()


def concatenated(parts: list[Rows]) -> Rows:
    """Rows of several chunks below each other; group numbers are kept."""
    if len(parts) == 1:
        return parts[0]
    matrix = np.concatenate([part.matrix for part in parts])
    own = parts[0].features is not parts[0].matrix
    return Rows(
        concat_rows([part.features for part in parts]) if own else matrix,
        matrix,
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.key for part in parts]),
    )
