"""Data for the benchmarks: the paper's synthetic sample, and the same as files of any length."""

from functools import cache
from pathlib import Path

import numpy as np

from groupshift.datasets import make_grouped_mixture

N_FEATURES, N_CLUSTERS, N_GROUPS = 16, 4, 100
NAMES = [f"x{j}" for j in range(N_FEATURES)]


@cache
def paper_sample(n_labeled: int, n_unlabeled: int, setting: int = 2, seed: int = 0, n_groups: int = N_GROUPS):
    """100 groups with 16 features: rows to fit on and rows to judge on."""
    return make_grouped_mixture(
        n_features=N_FEATURES,
        n_clusters=N_CLUSTERS,
        n_groups=n_groups,
        labeled_per_group=(n_labeled, n_labeled / 10),
        unlabeled_per_group=(n_unlabeled, n_unlabeled / 10),
        setting=setting,
        random_state=seed,
    )


def labeled_frame(sample):
    """The labelled rows as a table."""
    import pandas as pd

    frame = pd.DataFrame(sample.X[sample.labeled], columns=NAMES)
    return frame.assign(group=sample.groups[sample.labeled], label=sample.y[sample.labeled])


def write_population(sample, path: Path, n_rows: int, *, seed: int = 0, block: int = 1_000_000) -> Path:
    """Unlabelled rows drawn again and again, each copy moved a little, until the file has `n_rows`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    source = np.flatnonzero(~sample.labeled)
    writer, written = None, 0
    while written < n_rows:
        rows = rng.choice(source, min(block, n_rows - written))
        X = sample.X[rows] + rng.normal(0, 0.01, (len(rows), N_FEATURES))
        table = pa.table({n: X[:, j] for j, n in enumerate(NAMES)} | {"group": pa.array(sample.groups[rows])})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        written += len(rows)
    writer.close()
    return path
