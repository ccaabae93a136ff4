"""Memory, files and Dask give one answer at sizes where a fit samples: above every limit, which are lowered here."""

import dask.dataframe as dd
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, distributed, pipeline, streaming
from groupshift._data import problem
from groupshift._diagnosis import record
from site_tables import COLUMNS, assert_same_model, fit_in_memory, halves, table_of


@pytest.fixture
def low_limits(monkeypatch):
    """Every sample that a fit takes of many rows is taken of a few hundred."""
    monkeypatch.setattr(problem, "MAX_CLUSTERING_ROWS", 900)
    monkeypatch.setattr(pipeline, "ALIGNED_ROWS", 400)
    monkeypatch.setattr(record, "MAX_VALUES", 1_500)


@pytest.mark.parametrize("settings", [{}, {"partition": 2}], ids=str)
def test_files_and_dask_give_the_answer_of_memory_where_rows_are_sampled(low_limits, tmp_path, settings):
    table = table_of()
    labeled, unlabeled = halves(table)
    assert len(unlabeled) > 900

    def model():
        return GroupShiftClassifier(LogisticRegression(), random_state=3, **settings)

    in_memory = fit_in_memory(model(), table, COLUMNS)
    unlabeled.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    columns = {"target": "label", "group": "site", "features": COLUMNS}
    from_files = streaming.fit(model(), labeled, tmp_path / "rows.parquet", batch_rows=700, **columns)
    on_dask = distributed.fit(model(), labeled, dd.from_pandas(unlabeled, npartitions=5), **columns)
    for other in (from_files, on_dask):
        assert_same_model(other, in_memory)
        np.testing.assert_array_equal(other.labeled_rows_, in_memory.labeled_rows_)
