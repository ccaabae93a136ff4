"""Names for arrays, by what they hold."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
KeyArray: TypeAlias = NDArray[np.uint64]
# Values of users: group names, labels, ids, of any hashable kind.
ValueArray: TypeAlias = NDArray[Any]
# Columns by name: numbers, or values of users.
Table: TypeAlias = dict[str, ValueArray]
