"""Files read in batches give the answer that memory gives."""

from copy import copy

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from groupshift import GroupShiftClassifier, streaming
from groupshift._data.workers import add_up, map_chunks
from site_tables import COLUMNS, assert_same_model, fit_in_memory, halves, quick, table_of

BATCH = 700
# That files give the answer of memory holds for any number of trees.
pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of()


@pytest.fixture(scope="module")
def in_memory(table):
    """No test may change it."""
    return fit_in_memory(quick(2), table, COLUMNS)


def fit_in_batches(model, labeled, unlabeled, **columns):
    return streaming.fit(
        model, labeled, unlabeled, target="label", group="site", **{"batch_rows": BATCH, **columns}
    )


@pytest.mark.parametrize("partition", ["validated", "silhouette", 2])
def test_file_in_batches_gives_the_answer_of_memory(table, tmp_path, few_trees, partition):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    # The judge's whole way once, with boosted trees and rounds of learning from unlabelled rows.
    estimator = None if partition == "validated" else LogisticRegression()
    settings = {"estimator": estimator, "partition": partition, "random_state": 3}
    in_memory = fit_in_memory(GroupShiftClassifier(**settings), table, COLUMNS)
    model = fit_in_batches(
        GroupShiftClassifier(**settings), labeled, tmp_path / "rows.parquet", features=COLUMNS
    )
    assert_same_model(model, in_memory)
    np.testing.assert_allclose(
        model.predict_proba(unlabeled[COLUMNS], unlabeled.site),
        in_memory.predict_proba(unlabeled[COLUMNS], unlabeled.site),
        atol=1e-9,
    )


def test_categories_weights_and_copies_of_examples_are_as_in_memory(table, tmp_path, few_trees):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    features = [*COLUMNS, "color"]
    settings = {"partition": 2, "random_state": 0}
    in_memory = fit_in_memory(
        GroupShiftClassifier(**settings), table, features, sample_weight="weight", example_ids="person"
    )
    model = fit_in_batches(
        GroupShiftClassifier(**settings),
        labeled,
        tmp_path / "rows.parquet",
        weight="weight",
        example_id="person",
    )
    assert model.encoder_.categories_[3].tolist() == in_memory.encoder_.categories_[3].tolist()
    assert_same_model(model, in_memory)


def test_folder_of_files_is_one_table_and_its_folder_names_are_columns(table, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled = unlabeled.sort_values("site", kind="stable")
    arrow = pa.Table.from_pandas(unlabeled[[*COLUMNS, "site"]], preserve_index=False)
    pyarrow.parquet.write_to_dataset(arrow, tmp_path / "rows", partition_cols=["site"])
    # Files come in the order of their folders: the rows of memory in that order.
    ordered = pd.concat([labeled, unlabeled], ignore_index=True)
    in_memory = fit_in_memory(quick(1), ordered, COLUMNS)
    model = fit_in_batches(quick(1), labeled[[*COLUMNS, "site", "label"]], tmp_path / "rows")
    assert_same_model(model, in_memory)


def test_labelled_rows_may_lie_among_the_others(table, tmp_path):
    mixed = table.sample(frac=1, random_state=0, ignore_index=True)[[*COLUMNS, "site", "label"]]
    mixed.to_parquet(tmp_path / "rows.parquet")
    in_memory = fit_in_memory(quick(2), mixed, COLUMNS)
    model = fit_in_batches(quick(2), None, tmp_path / "rows.parquet")
    assert_same_model(model, in_memory)


def test_csv_gives_the_answer_of_parquet(table, tmp_path):
    labeled, unlabeled = halves(table)
    labeled, unlabeled = labeled[["a", "b", "color", "site", "label"]], unlabeled[["a", "b", "color", "site"]]
    settings = {"partition": 2, "random_state": 0}
    unlabeled.to_csv(tmp_path / "rows.csv", index=False)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    models = [
        fit_in_batches(GroupShiftClassifier(**settings), labeled, tmp_path / name)
        for name in ("rows.csv", "rows.parquet")
    ]
    assert_same_model(*models)


def test_classifier_that_takes_frames_gets_them_in_every_batch(table, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    estimator = make_pipeline(StandardScaler(), LogisticRegression())
    in_memory = fit_in_memory(GroupShiftClassifier(estimator, 2, random_state=0), table, COLUMNS)
    model = fit_in_batches(
        GroupShiftClassifier(estimator, 2, random_state=0),
        labeled,
        tmp_path / "rows.parquet",
        features=COLUMNS,
    )
    assert_same_model(model, in_memory)


def test_update_from_a_file_is_update_from_memory(in_memory, tmp_path):
    later = halves(table_of(seed=7))[1]
    later.to_parquet(tmp_path / "later.parquet")
    first, second = copy(in_memory), copy(in_memory)
    first.update(later[COLUMNS], later.site)
    streaming.update(second, tmp_path / "later.parquet", group="site", batch_rows=BATCH)
    # Views are rounded to single precision before their parameters are sought: a sum that lies between two such numbers may
    # go to either.
    assert_same_model(second, first, tolerance=1e-7)


def test_predictions_in_a_file_are_those_of_memory_in_the_order_of_the_rows(table, in_memory, tmp_path):
    table.to_parquet(tmp_path / "rows.parquet")
    n = streaming.predict(
        in_memory,
        tmp_path / "rows.parquet",
        tmp_path / "out.parquet",
        group="site",
        keep=["person"],
        batch_rows=BATCH,
    )
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert n == len(out) == len(table)
    assert out.person.tolist() == table.person.tolist()
    expected = in_memory.predict_details(table[COLUMNS], table.site)
    for name, values in expected.items():
        np.testing.assert_allclose(out[name], values, atol=1e-12)


def test_unseen_groups_are_reported_once_for_a_whole_file(table, in_memory, tmp_path):
    table.assign(site=np.where(table.a > 0, "new", table.site)).to_parquet(tmp_path / "rows.parquet")
    with pytest.warns(UserWarning, match="'new'") as caught:
        streaming.predict(
            in_memory, tmp_path / "rows.parquet", tmp_path / "out.csv", group="site", batch_rows=BATCH
        )
    assert len(caught) == 1


def test_nothing_is_written_when_a_batch_fails(table, in_memory, tmp_path):
    model = copy(in_memory).set_params(unseen="error")
    late = table.copy()
    late.loc[len(late) - 1, "site"] = "new"
    late.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="'new'"):
        streaming.predict(
            model, tmp_path / "rows.parquet", tmp_path / "out.parquet", group="site", batch_rows=BATCH
        )
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_frozen_classifier_is_calibrated_and_shifted_but_not_trained(table, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    trained = LogisticRegression().fit(labeled[COLUMNS][::2], labeled.label[::2].astype(int))
    for calibration in ("crossfit", "holdout"):
        model = fit_in_batches(
            GroupShiftClassifier(FrozenEstimator(trained), 1, calibration, random_state=0),
            labeled[1::2].reset_index(drop=True),
            tmp_path / "rows.parquet",
            weight="weight",
            features=COLUMNS,
        )
        assert model.learned_.posterior.scorer.members[0].estimator is trained
        assert np.any(model.shift_ != 0)


def test_missing_columns_and_groups_are_named(table, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.drop(columns="b").to_parquet(tmp_path / "short.parquet")
    unlabeled.assign(site=1).to_parquet(tmp_path / "numbers.parquet")
    options = {"target": "label", "group": "site"}
    with pytest.raises(ValueError, match=r"The unlabelled data has no column \['b'\]"):
        streaming.fit(GroupShiftClassifier(), labeled, tmp_path / "short.parquet", **options)
    with pytest.raises(ValueError, match="holds str in the labelled data and int"):
        streaming.fit(GroupShiftClassifier(), labeled, tmp_path / "numbers.parquet", **options)


def test_rows_without_a_group_are_counted_and_refused_in_the_words_of_memory(in_memory, table, tmp_path):
    labeled, unlabeled = halves(table)
    gaps = unlabeled.assign(site=unlabeled.site.where(unlabeled.index % 100 != 99, None))
    gaps.to_parquet(tmp_path / "gaps.parquet")
    n_missing = int(gaps.site.isna().sum())
    with pytest.raises(ValueError, match="rows have no group") as error:
        in_memory.predict_proba(gaps[COLUMNS], gaps.site)
    said = str(error.value)
    assert said.startswith(f"{n_missing} of {len(gaps):,} rows have no group. ")
    # Small batches, so that no single one has all of them.
    options = {"group": "site", "batch_rows": 250}
    doors = {
        "fit": lambda: fit_in_batches(quick(2), labeled, tmp_path / "gaps.parquet", batch_rows=250),
        "update": lambda: streaming.update(copy(in_memory), tmp_path / "gaps.parquet", **options),
        "predict": lambda: streaming.predict(
            in_memory, tmp_path / "gaps.parquet", tmp_path / "p.csv", **options
        ),
        "audit": lambda: streaming.audit(in_memory, tmp_path / "gaps.parquet", **options),
    }
    for door in doors.values():
        with pytest.raises(ValueError, match="rows have no group") as error:
            door()
        assert str(error.value) == said
    assert not (tmp_path / "p.csv").exists()


def test_rows_that_weigh_nothing_need_no_group_anywhere(table, tmp_path):
    labeled, unlabeled = halves(table)
    is_out = unlabeled.index % 100 == 99
    gaps = unlabeled.assign(
        site=unlabeled.site.where(~is_out, None), weight=unlabeled.weight.where(~is_out, 0.0)
    )
    gaps.to_parquet(tmp_path / "gaps.parquet")
    whole = pd.concat([labeled, gaps], ignore_index=True)
    in_memory = fit_in_memory(quick(2), whole, COLUMNS, sample_weight="weight")
    streamed = fit_in_batches(quick(2), labeled, tmp_path / "gaps.parquet", weight="weight", features=COLUMNS)
    assert_same_model(streamed, in_memory)


def test_batches_have_the_asked_size_whatever_the_row_groups(tmp_path):
    table = pa.table({"x": np.arange(1000.0)})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=70)
    for size in (1, 64, 70, 333, 5000):
        batches = list(streaming.as_source(tmp_path / "rows.parquet", batch_rows=size).batches(["x"]))
        assert {b.num_rows for b in batches[:-1]} <= {size}
        assert pa.concat_tables(batches)["x"].to_pylist() == table["x"].to_pylist()


def test_sample_is_the_same_for_any_batch_size(table, in_memory, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    model = in_memory
    roles = streaming.fitted_roles(model.schema_, model.group, "site", None)
    keys = []
    for size in (100, 1000, 10_000):
        source = streaming.as_source(tmp_path / "rows.parquet", batch_rows=size)
        reader = streaming.Reader(model.schema_, roles, model.groups_)
        population = streaming.Streamed(source, reader, len(unlabeled), len(labeled))
        keys.append(population.sample(200, 5).key.tolist())
    assert keys[0] == keys[1] == keys[2]
    assert 100 < len(keys[0]) < 320


def test_tree_of_sums_is_the_sum_and_keeps_order():
    parts = [[i] for i in range(37)]
    assert add_up(parts) == list(range(37))
    assert list(map_chunks(lambda x: x * 2, range(50))) == list(range(0, 100, 2))


def test_error_in_one_chunk_is_raised_as_it_is():
    def refuse(chunk):
        raise KeyError(chunk)

    with pytest.raises(KeyError, match="0"):
        list(map_chunks(refuse, range(5)))


def test_check_of_a_file_is_the_diagnosis_of_memory(table, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.to_parquet(tmp_path / "rows.parquet")
    expected = fit_in_memory(quick(2), table, COLUMNS).diagnose()
    model = quick(2)
    columns = {"target": "label", "group": "site", "features": COLUMNS, "batch_rows": BATCH}
    found = streaming.check(model, labeled, tmp_path / "rows.parquet", **columns)
    assert found.sentences == expected.sentences
    assert found.overview == pytest.approx(expected.overview)
    assert not hasattr(model, "groups_")


def test_check_draws_the_same_sample_from_any_batches_and_keeps_to_its_groups(table, tmp_path):
    labeled, unlabeled = halves(table)
    few = unlabeled[[*COLUMNS, "site"]].iloc[[0] * 3].assign(site="hamlet")
    rows = pd.concat([unlabeled[[*COLUMNS, "site"]].astype({"site": str}), few], ignore_index=True)
    rows.to_parquet(tmp_path / "rows.parquet")
    labeled = labeled[[*COLUMNS, "site", "label"]].astype({"site": str})
    found = [
        streaming.check(
            quick(2),
            labeled,
            tmp_path / "rows.parquet",
            labeled_rows=300,
            unlabeled_rows=400,
            target="label",
            group="site",
            batch_rows=batch_rows,
        )
        for batch_rows in (BATCH, 10_000)
    ]
    assert found[0].sentences == found[1].sentences
    assert found[0].overview == pytest.approx(found[1].overview)
    assert 300 < found[0].mixture["rows"].sum() < 500
    # A group of three rows is likely not drawn; what was not drawn is not spoken of.
    assert (pd.Series(found[0].mixture["rows"]).groupby(found[0].mixture["group"]).sum() > 0).all()


def test_a_population_of_weight_zero_is_refused(table, in_memory, tmp_path):
    labeled, unlabeled = halves(table)
    unlabeled.assign(weight=0.0).to_parquet(tmp_path / "rows.parquet")
    columns = {"group": "site", "weight": "weight", "batch_rows": BATCH}
    with pytest.raises(ValueError, match="weight 0"):
        streaming.fit(quick(1), labeled, tmp_path / "rows.parquet", target="label", **columns)
    with pytest.raises(ValueError, match="weight 0"):
        streaming.update(in_memory, tmp_path / "rows.parquet", **columns)
