"""Spark counts ten million rows on two workers where they lie; the answer beside that of a stream of the same file."""

import os
import sys
import tempfile
import time
from copy import copy
from pathlib import Path

import numpy as np

from benchmarks.data import NAMES, labeled_frame, paper_sample, write_population
from benchmarks.harness import line, run
from groupshift import Counts, GroupShiftClassifier, streaming

N_ROWS, N_QUICK = 10_000_000, 200_000


def measure(quick: bool, repeats: int) -> dict:
    n_rows = N_QUICK if quick else N_ROWS
    sample = paper_sample(100, 1000)
    with tempfile.TemporaryDirectory() as folder:
        path = write_population(sample, Path(folder) / "rows.parquet", n_rows, block=n_rows // 20)
        few = write_population(sample, Path(folder) / "few.parquet", 100_000)
        model = GroupShiftClassifier(partition=4, random_state=0)
        streaming.fit(model, labeled_frame(sample), few, target="label", group="group")
        on_spark, streamed = copy(model), copy(model)
        with session() as spark:
            rows = spark.read.parquet(str(path))
            # The workers are started, and have loaded what they need.
            count(spark, rows.limit(1_000), model)
            start = time.perf_counter()
            counts = count(spark, rows, model)
            seconds = time.perf_counter() - start
        on_spark.update(counts=counts)
        start = time.perf_counter()
        streaming.update(streamed, path)
        in_a_stream = time.perf_counter() - start
    apart = float(np.abs(on_spark.group_prior_ - streamed.group_prior_).max())
    return {
        "rows": n_rows,
        "workers": 2,
        "cores": os.cpu_count(),
        "seconds": seconds,
        "seconds_of_a_stream": in_a_stream,
        "bytes_of_counts": len(counts.to_bytes()),
        "lines": [
            line(
                f"counts of {n_rows:,} rows by Spark, two workers, seconds",
                "a stream of the file on as many threads",
                ratio=seconds / in_a_stream,
                reach="shown",
                met=apart < 1e-9,
                accuracy=f"shares differ by {apart:.0e} at most",
            )
        ],
    }


def session():
    """Spark with two workers."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A worker of Spark's is a process: one thread in each.
    os.environ["OMP_NUM_THREADS"] = "1"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
    return builder.config("spark.sql.files.maxPartitionBytes", str(64 * 2**20)).getOrCreate()


def count(spark, rows, model) -> Counts:
    import pandas as pd

    carried = spark.sparkContext.broadcast(model)

    def of_partition(batches):
        counts = [carried.value.count(batch) for batch in batches]
        if counts:
            yield pd.DataFrame({"counts": [sum(counts).to_bytes()]})

    found = rows.select(*NAMES, "group").mapInPandas(of_partition, "counts binary")
    return sum(Counts.from_bytes(bytes(row.counts)) for row in found.toLocalIterator())


if __name__ == "__main__":
    run("spark", "Counting on Spark", measure, repeats=1, quick_repeats=1)
