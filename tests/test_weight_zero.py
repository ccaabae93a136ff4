"""Rows of weight zero are left out: in every step, in memory, in files and on a cluster."""

import numpy as np
import pytest

from groupshift import GroupShiftClassifier, distributed, streaming
from site_tables import COLUMNS, assert_same_model, fit_in_memory, halves, quick, table_of

FEATURES = [*COLUMNS, "color"]


@pytest.fixture(scope="module")
def table():
    """A third of the rows weighs nothing, and so does every row of two sites, one of them labelled."""
    table = table_of(n_groups=8, labeled=40, unlabeled=60)
    table.loc[np.random.default_rng(0).random(len(table)) < 1 / 3, "weight"] = 0.0
    sites = sorted(table.site.unique())
    table.loc[(table.site == sites[0]) & table.label.isna(), "weight"] = 0.0
    table.loc[(table.site == sites[1]) & table.label.notna(), "weight"] = 0.0
    # A category that only such rows have.
    table.loc[table.index[table.weight == 0][::5], "color"] = "green"
    return table


def weighed(table):
    return table[table.weight > 0].reset_index(drop=True)


@pytest.mark.parametrize("estimator", ["trees", "logistic"])
def test_rows_of_weight_zero_change_nothing(few_trees, table, estimator):
    def fitted(rows):
        model = quick("validated") if estimator == "logistic" else GroupShiftClassifier(random_state=0)
        return fit_in_memory(
            model, rows, COLUMNS if estimator == "logistic" else FEATURES, sample_weight="weight"
        )

    whole, part = fitted(table), fitted(weighed(table))
    assert_same_model(whole, part, tolerance=0)
    assert whole.summary() == part.summary()


def test_more_than_two_classes_have_no_rows_of_weight_zero_either(few_trees, table):
    classes = table.label.where(table.label.isna() | (table.a < 0.3), 2.0)

    def fitted(rows):
        return fit_in_memory(
            GroupShiftClassifier(random_state=0), rows, COLUMNS, sample_weight="weight"
        ).predict_proba(rows[COLUMNS][:50], rows.site[:50])

    rows = table.assign(label=classes)
    rows = rows.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
    # The first 50 rows all weigh something; sites of no weight are not among the population's.
    rows = rows[rows.site != rows.site.min()].reset_index(drop=True)
    np.testing.assert_array_equal(fitted(rows), fitted(weighed(rows)))


def test_a_site_without_weight_has_no_share(table):
    model = fit_in_memory(quick(1), table, COLUMNS, sample_weight="weight")
    lost = min(table.site)
    assert lost not in model.groups_
    assert (model.group_shares(by="group")["share"] > 0).all()
    rows = table[table.label.isna()]
    before = model.shift_
    model.update(rows[COLUMNS], rows.site, sample_weight=rows.weight)
    assert lost not in model.groups_
    np.testing.assert_array_equal(model.shift_, before)


def test_files_and_clusters_leave_them_out_too(table, tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    labeled, unlabeled = halves(table)
    # One batch and one partition weigh nothing as a whole.
    unlabeled.loc[100:199, "weight"] = 0.0
    known = table.label.notna()
    whole = table.copy()
    whole.loc[whole.index[~known], "weight"] = unlabeled.weight.to_numpy()
    memory = fit_in_memory(quick(2), weighed(whole), COLUMNS, sample_weight="weight")
    unlabeled.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    columns = {"target": "label", "group": "site", "weight": "weight", "features": COLUMNS}
    streamed = streaming.fit(quick(2), labeled, tmp_path / "rows.parquet", batch_rows=100, **columns)
    assert_same_model(memory, streamed)
    parts = dask.from_pandas(unlabeled, npartitions=len(unlabeled) // 50, sort=False)
    assert_same_model(memory, distributed.fit(quick(2), labeled, parts, **columns))
    again = {"group": "site", "weight": "weight"}
    assert_same_model(memory, streaming.update(streamed, tmp_path / "rows.parquet", batch_rows=100, **again))
    assert_same_model(memory, distributed.update(streamed, parts, **again))


def test_an_audit_keeps_the_numbers_of_rows(table):
    model = fit_in_memory(quick(1), table, COLUMNS, sample_weight="weight")
    rows = table[table.label.isna()].reset_index(drop=True)
    plan = model.audit(rows[COLUMNS], rows.site, sample_weight=rows.weight, budget=30)
    assert (rows.weight[plan.rows] > 0).all()
    # It is the population of the model's shares.
    assert not plan.notes


def test_labelled_rows_that_all_weigh_nothing_are_refused_in_files_too(table, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="sample_weight is zero in every row"):
        streaming.fit(
            quick(1),
            labeled.assign(weight=0.0),
            tmp_path / "rows.parquet",
            target="label",
            group="site",
            weight="weight",
        )
