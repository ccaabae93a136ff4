"""How tables are read for one model: in memory, in files and on clusters, the same columns become the same numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from groupshift._data.checks import check_matrix
from groupshift._data.encoder import FeatureEncoder
from groupshift._data.frames import Features, as_column, as_frame, as_texts, in_library, library_of, some
from groupshift._data.rows import Rows
from groupshift._math.arrays import FloatArray, IntArray, KeyArray, ValueArray


@dataclass(frozen=True)
class Schema:
    """What `fit` learned of the columns."""

    encoder: FeatureEncoder
    classes: ValueArray  # (n_classes,)
    has_groups: bool
    library: str | None  # frame library that features came in; None for arrays
    takes_matrix: bool  # whether the classifier takes the encoded matrix; otherwise features as they came
    needs_values: str | None  # name of the classifier, where it does not take missing values
    target_name: str | None = None
    group_name: str | None = None
    # Whether columns are picked from a file by their names, the groups as texts: the rules of the command line.
    by_name: bool = False

    @property
    def is_multiclass(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes) > 2

    @property
    def role_names(self) -> dict[str, str | None]:
        return {"target": self.target_name, "group": self.group_name}

    def picked(self, X: Features, groups: ArrayLike | None) -> tuple[Features, ValueArray | None]:
        """Features and groups of a frame, by name: a file has other columns too, and a program numbers for groups."""
        frame = as_frame(X)
        assert frame is not None
        own = self.group_name if groups is None else None
        wanted = [*self.encoder.names_, *([own] if own is not None else [])]
        if missing := [name for name in wanted if name not in frame.columns]:
            raise ValueError(
                f"X has no column {some(missing)}, which the model was fitted with; its columns are {some(frame.columns)}. Pass "
                "a table with the columns of the file."
            )
        given = frame.get_column(own) if own is not None else groups
        return frame.select(self.encoder.names_).to_native(), None if given is None else as_texts(
            as_column(given)
        )

    def rows(
        self,
        features: Features,
        *,
        weight: FloatArray,
        key: KeyArray,
        has_ids: bool = False,
        group: IntArray | None = None,
    ) -> Rows:
        """Rows of the method from columns of features; every row that the method sees is made here."""
        matrix = self.encoder.transform(features)
        check_matrix(matrix, self.encoder.names_, self.needs_values)
        if self.takes_matrix:
            features = matrix
        elif self.library is not None and self.library != library_of(features):
            features = in_library(features, self.library)
        group = np.zeros(len(matrix), np.int64) if group is None else group
        return Rows(features, matrix, group, weight, key, has_ids)

    def unweighted(self, features: Features, group: IntArray) -> Rows:
        """Rows to predict, each by itself: their weights and keys do not matter."""
        weight, key = np.broadcast_to(1.0, len(group)), np.broadcast_to(np.uint64(0), len(group))
        return self.rows(features, weight=weight, key=key, group=group)
