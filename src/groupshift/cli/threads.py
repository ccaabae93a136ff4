"""One thread for small tables: on a busy machine, threads that wait for each other make them far slower."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Boosted trees on fewer labelled rows gain next to nothing from a second thread.
SMALL = 50_000


@contextmanager
def suitable_threads(n_rows: int) -> Iterator[None]:
    """Run a block with one thread for trees and matrices if it works on few rows; the user's OMP_NUM_THREADS is left alone."""
    if n_rows >= SMALL or os.environ.get("OMP_NUM_THREADS"):
        yield
        return
    # Limits reach only what is loaded: the classifier must be.
    import sklearn.ensemble  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
