"""Many 3 x 3 matrices at once, entry by entry: arrays of matrices take several times as long (NumPy)."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from groupshift._math.arrays import FloatArray

# The entries of many matrices, each an array; of a symmetric one, which of six entries stand where.
Entries: TypeAlias = list[list[FloatArray]]
UPPER = [(i, j) for i in range(3) for j in range(i, 3)]
PLACES = ((0, 1, 2), (1, 3, 4), (2, 4, 5))


def dot(a: Sequence[FloatArray], b: Sequence[FloatArray]) -> FloatArray:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def symmetric(entry: Callable[[int, int], FloatArray]) -> Entries:
    """Entries of a symmetric matrix, each computed once."""
    return _placed([entry(i, j) for i, j in UPPER])


def _placed(upper: Sequence[FloatArray]) -> Entries:
    return [[upper[place] for place in row] for row in PLACES]


def transposed(a: Entries) -> Entries:
    return [list(column) for column in zip(*a, strict=True)]


def product(a: Entries, b: Entries) -> Entries:
    """Of two matrices whose product is symmetric, as the second is."""
    return symmetric(lambda i, j: dot(a[i], b[j]))


def adjugate(a: Entries) -> tuple[Entries, FloatArray]:
    """As `cofactors`, of a symmetric matrix: six entries instead of nine."""
    (p, q, r), (_, t, u), (_, _, x) = a
    first, second, third = t * x - u * u, r * u - q * x, q * u - r * t
    rows = _placed([first, second, third, p * x - r * r, q * r - p * u, p * t - q * q])
    return rows, p * first + q * second + r * third


def cofactors(a: Entries) -> tuple[Entries, FloatArray]:
    """Entries of the adjugate of a 3 x 3 matrix, each an array, and the determinant: their ratio is the inverse."""
    (p, q, r), (s, t, u), (v, w, x) = a
    rows = [
        [t * x - u * w, r * w - q * x, q * u - r * t],
        [u * v - s * x, p * x - r * v, r * s - p * u],
        [s * w - t * v, q * v - p * w, p * t - q * s],
    ]
    return rows, p * rows[0][0] + q * rows[1][0] + r * rows[2][0]
