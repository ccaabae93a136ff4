"""Columns of a data set put together: a float matrix for any estimator, or a pandas frame with categories."""

from __future__ import annotations

from typing import cast

import numpy as np
from narwhals.typing import IntoDataFrame

from groupshift._io.extras import need


def assemble(
    columns: dict[str, np.ndarray], *, categorical: tuple[str, ...], as_frame: bool, extra: str
) -> np.ndarray | IntoDataFrame:
    """Float32 matrix (n, columns), NaN for missing; or a pandas frame in which codes are categories.

    >>> assemble({"age": np.array([31.0, np.nan])}, categorical=(), as_frame=False, extra="files")
    array([[31.], [nan]], dtype=float32)
    """
    if not as_frame:
        # Census codes, ages and hours stay below 2**24, so float32 holds them exactly in half the memory.
        X = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.float32)
        for j, column in enumerate(columns.values()):
            X[:, j] = codes(column)[0] if column.dtype.kind in "OU" else column
        return X
    pandas = need("pandas", extra=extra, what="as_frame=True")
    frame = pandas.DataFrame(columns, copy=False)
    for name in categorical:
        # Whole-number codes read better as 3 than as 3.0.
        whole = frame[name].dtype.kind == "f"
        frame[name] = (frame[name].astype("Int32") if whole else frame[name]).astype("category")
    return cast(IntoDataFrame, frame)


def codes(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct values of a text column in sorted order, NaN for missing; and these values.

    >>> codes(np.array(["JFK", "EWR", None], dtype=object))
    (array([ 1.,  0., nan]), array(['EWR', 'JFK'], dtype=object))
    """
    known = np.array([isinstance(v, str) for v in column])
    values, code = np.unique(np.asarray(column, dtype=object)[known], return_inverse=True)
    numbers = np.full(len(column), np.nan)
    numbers[known] = code
    return numbers, values
