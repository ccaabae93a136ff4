"""What travels over the network: bytes to and from a worker, for 50 and for 50,000 groups."""

import time

import cloudpickle
import numpy as np

from benchmarks.data import NAMES
from benchmarks.harness import line, run
from groupshift import GroupShiftClassifier, distributed
from groupshift._data.batches import fitted_roles
from groupshift._shifts.counts import batch_counter
from groupshift.datasets import make_grouped_mixture

PARTITION_ROWS = 250_000


def population(n_groups: int, n_rows: int, seed: int = 0):
    """A labelled table of 50 groups, and unlabelled rows of `n_groups`."""
    import pandas as pd

    sample = make_grouped_mixture(
        n_features=16,
        n_clusters=4,
        n_groups=50,
        labeled_per_group=(100, 10),
        unlabeled_per_group=(200, 20),
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    labeled = pd.DataFrame(sample.X[sample.labeled], columns=NAMES)
    labeled = labeled.assign(group=sample.groups[sample.labeled], label=sample.y[sample.labeled])
    pick = rng.choice(np.flatnonzero(~sample.labeled), n_rows)
    unlabeled = pd.DataFrame(sample.X[pick] + rng.normal(0, 0.01, (n_rows, 16)), columns=NAMES)
    return labeled, unlabeled.assign(group=[f"g{g:05d}" for g in rng.integers(0, n_groups, n_rows)])


def sizes(n_groups: int, n_partitions: int) -> dict:
    """Bytes of the function, of one partition's sums, and of the sum of all, measured on real pickles."""
    from dask import dataframe as dd

    labeled, unlabeled = population(n_groups, n_partitions * PARTITION_ROWS)
    frame = dd.from_pandas(unlabeled, npartitions=n_partitions, sort=False)
    model = GroupShiftClassifier(partition=4, random_state=0)
    distributed.fit(model, labeled, frame, target="label", group="group")
    function = batch_counter(model, fitted_roles(model.schema_, model.group, "group"))
    start = time.perf_counter()
    counts = [
        function(unlabeled.iloc[i * PARTITION_ROWS : (i + 1) * PARTITION_ROWS]) for i in range(n_partitions)
    ]
    seconds = time.perf_counter() - start
    return {
        "groups": n_groups,
        "partition_rows": PARTITION_ROWS,
        "partition_bytes": int(unlabeled.iloc[:PARTITION_ROWS][NAMES].to_numpy().nbytes),
        "to_each_worker": len(cloudpickle.dumps(function)),
        "from_a_partition": len(cloudpickle.dumps(counts[0])),
        "from_a_partition_unpacked": len(cloudpickle.dumps((vars(counts[0].scores), vars(counts[0].means)))),
        "in_a_file": len(counts[0].to_bytes()),
        "sum_of_all": len(cloudpickle.dumps(sum(counts))),
        "partitions": n_partitions,
        "rows_per_second": n_partitions * PARTITION_ROWS / seconds,
    }


def measure(quick: bool, repeats: int) -> dict:
    found = [sizes(n_groups, 2 if quick else 8) for n_groups in (50, 50_000)]
    lines = [
        line(
            f"bytes of a partition's sums, {f['groups']:,} groups, {f['partition_rows']:,} rows",
            "bytes of its rows",
            ratio=f["from_a_partition"] / f["partition_bytes"],
            reach="shown",
            met=True,
            accuracy="packed counts equal unpacked ones, in "
            f"{f['from_a_partition'] / f['from_a_partition_unpacked']:.0%} of the bytes",
        )
        for f in found
    ]
    return {"sizes": found, "lines": lines}


if __name__ == "__main__":
    run("dask_traffic", "What travels over the network", measure, repeats=1, quick_repeats=1)
