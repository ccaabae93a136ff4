"""A fit on two Dask workers against one: processes with one thread each, the same partitions."""

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.data import NAMES, labeled_frame, paper_sample, write_population
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier, distributed


def measure(quick: bool, repeats: int) -> dict:
    import pandas as pd

    n_rows = 400_000 if quick else 4_000_000
    sample = paper_sample(100, 1000)
    labeled, test = labeled_frame(sample), sample.testing()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rows = write_population(sample, Path(folder) / "rows.parquet", n_rows, block=n_rows // 16)
        sides = {f"{n} worker(s)": Side(n, labeled, rows, stack) for n in (1, 2)}
        # Both clusters are up all the time, and an idle one waits without work: the two sides take turns.
        found = side_by_side({name: side.update for name, side in sides.items()}, repeats=repeats)
        busy = {name: side.busy() for name, side in sides.items()}
    one, two = sides.values()
    ratio = found["1 worker(s)"]["median"] / found["2 worker(s)"]["median"]
    free = _time_on_free_cores(busy["1 worker(s)"]) / _time_on_free_cores(busy["2 worker(s)"])
    apart = float(np.abs(one.model.group_prior_ - two.model.group_prior_).max())
    X = pd.DataFrame(test.X, columns=NAMES)
    auc = roc_auc_score(test.truth, two.model.predict_proba(X, test.groups)[:, 1])
    accuracy = f"shares differ by {apart:.0e}; test AUC {auc:.4f}"
    what = f"2 Dask workers, shares of {n_rows:,} rows, times faster"
    return {
        "rows": n_rows,
        "cores": os.cpu_count(),
        "details": {name: timing(result) | busy[name] for name, result in found.items()},
        "lines": [
            line(what, "1 worker", ratio=ratio, reach=">= 1.7", met=ratio >= 1.7, accuracy=accuracy),
            line(
                f"{what}, by seconds of the processor",
                "1 worker, were all cores free",
                ratio=free,
                reach="shown",
                met=True,
                accuracy=accuracy,
            ),
        ],
    }


class Side:
    """A cluster of processes with one thread each, and a model fitted on it.

    `update` is timed: reading and scoring the population is what many machines are for.
    """

    def __init__(self, n_workers: int, labeled, rows: Path, stack: ExitStack):
        import dask.dataframe as dd
        from dask.distributed import Client, LocalCluster

        # Workers are told to use one thread for OpenMP, BLAS and Arrow as well; that is Dask's default, too.
        cluster = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", env={"OMP_NUM_THREADS": "1"}
        )
        self.client = stack.enter_context(Client(stack.enter_context(cluster), set_as_default=False))
        with self.client.as_current():
            self.frame = dd.read_parquet(rows, split_row_groups=True)
            model = GroupShiftClassifier(partition=4, random_state=0)
            self.model = distributed.fit(model, labeled, self.frame, target="label", group="group")

    def update(self) -> None:
        with self.client.as_current():
            distributed.update(self.model, self.frame, group="group")

    def busy(self) -> dict:
        """Seconds of the processor that one update takes: here, and in each worker."""
        before, here = self.client.run(time.process_time), time.process_time()
        self.update()
        here = time.process_time() - here
        after = self.client.run(time.process_time)
        return {"cpu_here": here, "cpu_workers": [after[name] - before[name] for name in before]}


def _time_on_free_cores(busy: dict) -> float:
    """The serial part, then the busiest worker: what the clock would show if nothing else ran."""
    return busy["cpu_here"] + max(busy["cpu_workers"])


if __name__ == "__main__":
    run("dask_workers", "Two Dask workers against one", measure, repeats=3, quick_repeats=2)
