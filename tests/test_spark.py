"""Real Spark counts rows where they lie, and predicts there: the answer is that of memory."""

import os
import shutil
import sys
from copy import copy

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="Spark is in the dependency group spark")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

from pyspark.sql import SparkSession

from groupshift import Counts
from site_tables import COLUMNS, assert_same_model, fit_in_memory, halves, quick, table_of

# What Spark and pandas say to each other, and sockets that Spark closes late.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("spark"),
]


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]").appName("groupshift").config("spark.ui.enabled", "false")
    )
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.adaptive.enabled", "false").config(
        "spark.sql.shuffle.partitions", "2"
    )
    session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "300").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table():
    return table_of()


@pytest.fixture(scope="module")
def model(table):
    return fit_in_memory(quick(2), table, COLUMNS)


def counter(model):
    def count(batches):
        counts = [model.count(batch) for batch in batches]
        if counts:
            yield pd.DataFrame({"counts": [sum(counts).to_bytes()]})

    return count


def risk(model):
    def predict(batches):
        for batch in batches:
            probability = model.predict_proba(batch[COLUMNS], groups=batch["site"])[:, 1]
            yield batch[["row"]].assign(probability=probability)

    return predict


def test_an_update_and_predictions_on_spark_are_those_of_memory(spark, model):
    later = halves(table_of(seed=7))[1][[*COLUMNS, "site"]]
    rows = spark.createDataFrame(later.assign(row=np.arange(len(later)))).repartition(2)
    counted = rows.mapInPandas(counter(model), "counts binary")
    counts = sum(Counts.from_bytes(bytes(row.counts)) for row in counted.toLocalIterator())
    assert counts.n_rows == len(later)
    first, second = copy(model), copy(model)
    first.update(later[COLUMNS], later.site)
    second.update(counts=counts)
    assert_same_model(second, first)
    found = rows.mapInPandas(risk(second), "row long, probability double").toPandas().sort_values("row")
    expected = first.predict_proba(later[COLUMNS], later.site)[:, 1]
    np.testing.assert_allclose(found.probability, expected, atol=1e-9)


def test_a_frame_of_spark_given_to_fit_is_answered_by_what_to_use(spark, model, table):
    rows = spark.createDataFrame(table[COLUMNS].head(5))
    with pytest.raises(TypeError, match=r"X is a Spark DataFrame, .* Call mapInPandas"):
        model.predict_proba(rows)
