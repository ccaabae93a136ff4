"""The same bits, as far as the libraries below give them."""

import numpy as np

# Last bits of sums of NumPy before 2.2 were seen to differ between two equal computations of one process.
ROUNDING = 1e-12 if np.lib.NumpyVersion(np.__version__) < "2.2.0" else 0.0


def assert_same_numbers(left, right):
    left, right = np.asarray(left), np.asarray(right)
    if ROUNDING and left.dtype.kind == "f":
        np.testing.assert_allclose(left, right, rtol=ROUNDING, atol=ROUNDING)
    else:
        np.testing.assert_array_equal(left, right)
