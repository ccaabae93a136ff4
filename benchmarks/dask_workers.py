"""A fit on two Dask workers against one: processes with one thread each, the same partitions."""

import os
import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.data import NAMES, labeled_frame, paper_sample, write_population
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier, distributed


def measure(quick: bool, repeats: int) -> dict:
    import dask.dataframe as dd
    import pandas as pd
    from dask.distributed import Client, LocalCluster

    n_rows = 400_000 if quick else 4_000_000
    sample = paper_sample(100, 1000)
    labeled, test = labeled_frame(sample), sample.testing()
    with tempfile.TemporaryDirectory() as folder:
        rows = write_population(sample, Path(folder) / "rows.parquet", n_rows, block=n_rows // 16)
        found = {}
        models = {}
        for n_workers in (1, 2):
            with (
                LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster),
            ):
                frame = dd.read_parquet(rows, split_row_groups=True)
                fitted = distributed.fit(
                    GroupShiftClassifier(partition=4, refine=0, random_state=0),
                    labeled,
                    frame,
                    target="label",
                    group="group",
                )
                models[n_workers] = fitted
                # `update` is timed: reading and scoring the population is what many machines are for.
                name = f"{n_workers} worker(s)"
                update = {name: lambda f=frame, m=fitted: distributed.update(m, f, group="group")}
                found |= side_by_side(update, repeats=repeats)
    ratio = found["1 worker(s)"]["median"] / found["2 worker(s)"]["median"]
    apart = float(np.abs(models[1].group_prior_ - models[2].group_prior_).max())
    X = pd.DataFrame(test.X, columns=NAMES)
    auc = roc_auc_score(test.truth, models[2].predict_proba(X, test.groups)[:, 1])
    return {
        "rows": n_rows,
        "free_cores": os.cpu_count(),
        "details": {name: timing(result) for name, result in found.items()},
        "lines": [
            line(
                f"2 Dask workers, shares of {n_rows:,} rows, times faster",
                "1 worker",
                ratio=ratio,
                reach=">= 1.7",
                met=ratio >= 1.7,
                accuracy=f"shares differ by {apart:.0e}; test AUC {auc:.4f}",
            )
        ],
    }


if __name__ == "__main__":
    run("dask_workers", "Two Dask workers against one", measure, repeats=3, quick_repeats=2)
