"""The article's experiments as data: what a file says is what is run, and what it cannot mean is refused."""

from dataclasses import FrozenInstanceError
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from paper import Experiment, list_tasks, load_experiment
from paper.grid import Draw, load_table, regrouped
from paper.spec import SPECS, ReviewsData


@pytest.mark.parametrize("name", ["paper", "authors_code"])
@pytest.mark.parametrize("scale", ["small", "results", "paper"])
def test_both_experiments_load_at_every_scale(name, scale):
    experiment = load_experiment(name, scale=scale)
    assert (experiment.name, experiment.scale) == (name, scale)
    assert {d.name for d in experiment.data} == {"synthetic", "income", "employment", "ipr", "amazon"}
    # 16 synthetic sets and four tables, in two settings.
    draws = [
        2 * n * (d.repetitions or experiment.repetitions)
        for d, n in zip(experiment.data, [16, 1, 1, 1, 1], strict=True)
    ]
    assert len({task.draw for task in list_tasks(experiment)}) == sum(draws)


def test_the_paper_is_as_written_but_for_the_generator_of_its_figures():
    paper = load_experiment("paper", scale="paper")
    synthetic = paper.data[0]
    assert (synthetic.groups, synthetic.labeled_per_group) == (100, (1000, 100))
    assert (synthetic.dimensions, synthetic.clusters) == ((1, 4, 16, 64), (1, 2, 4, 8))
    assert (synthetic.pairs, synthetic.auc_range) == ("walk", (0.75, 0.95))
    assert paper.classifier == {}
    assert all((d.replace, d.batch_size, d.setting_1_cells) == (True, 4096, None) for d in paper.data[1:])
    assert paper.repetitions == 10
    assert {m.name for m in paper.methods} == {
        *("global", "group_aware_global", "cluster_global", "label_shift", "coral"),
        *("published", "true_clustering", "bayes"),
    }
    assert not any(m.params for m in paper.methods)


def test_the_authors_code_is_as_run():
    code = load_experiment("authors_code", scale="paper")
    assert code.data[0] == load_experiment("paper", scale="paper").data[0]
    assert all((d.replace, d.batch_size, d.setting_1_cells) == (False, 14, 1) for d in code.data[1:])
    published = {m.label: m.params for m in code.methods}["published"]
    assert published == {"labeled_prior": "posterior", "partition": {"batch_size": 14, "refit": True}}


def test_scales_change_sizes_and_no_method():
    small, full = (load_experiment("paper", scale=s) for s in ("small", "paper"))
    assert [(m.name, m.params) for m in small.methods] == [(m.name, m.params) for m in full.methods]
    assert small.seed == full.seed
    assert (small.data[0].dimensions, small.data[0].pairs) == (full.data[0].dimensions, full.data[0].pairs)


def test_both_experiments_see_the_same_synthetic_draws():
    one, other = (
        {t.labels[:5]: t.draw.random_state.entropy for t in list_tasks(load_experiment(n, scale="results"))}
        for n in ("paper", "authors_code")
    )
    assert one == other


def test_an_experiment_cannot_be_changed_and_survives_json():
    experiment = load_experiment("authors_code")
    with pytest.raises(FrozenInstanceError):
        experiment.seed = 1
    assert Experiment.from_dict(experiment.to_dict()) == experiment


MINIMAL = {"name": "m", "title": "m", "data": [{"kind": "synthetic"}], "methods": ["global"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sead": 3}, r"Unknown keys \['sead'\]"),
        ({"methods": ["globl"]}, "Unknown methods"),
        ({"methods": ["global", "global"]}, "come twice"),
        ({"methods": []}, "there are none"),
        ({"data": [{"kind": "tarot"}]}, "kind 'tarot'"),
        ({"data": [{"kind": "acs", "name": "x"}]}, "not complete"),
        ({"data": [{"kind": "synthetic", "path": "x"}]}, r"Unknown keys \['path'\]"),
    ],
)
def test_what_a_file_cannot_mean_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        load_experiment({**MINIMAL, **change})


def test_an_unknown_scale_or_file_names_the_known_ones():
    with pytest.raises(ValueError, match="small, results"):
        load_experiment("paper", scale="huge")
    with pytest.raises(FileNotFoundError, match="authors_code"):
        load_experiment("papers.toml")


def test_dear_methods_may_have_fewer_draws_and_the_limit_needs_generated_data():
    tasks = list_tasks(load_experiment("paper", scale="results"))
    assert {t.draw.repetition for t in tasks if t.method.name == "coral"} == {0}
    assert {t.draw.data.kind for t in tasks if t.method.name == "bayes"} == {"synthetic"}


def test_a_file_may_ask_for_either_reading_of_the_generator():
    def pairs(**asked):
        data = [{"kind": "synthetic", "groups": 3, "dimensions": [2], "clusters": [6], **asked}]
        return list_tasks(load_experiment({**MINIMAL, "data": data}))[0].draw.sample().partition

    assert np.median(pairs(pairs="walk").auc) < 0.79
    assert np.median(pairs().auc) > 0.8
    narrow = pairs(auc_range=[0.75, 0.77]).auc
    assert ((narrow > 0.74) & (narrow < 0.78)).all()


def test_variants_of_the_reviews_change_what_they_say_and_see_the_same_draw():
    groups = np.repeat(list("abcdefgh"), [10, 20, 30, 40, 50, 60, 70, 80])
    merged = regrouped(groups, merged=2, dealt=False, seed=0)
    assert len(np.unique(merged)) == 4
    # A category is in one group.
    assert all(
        len(list(runs)) == 1
        for _, runs in groupby(sorted(set(zip(groups, merged, strict=True))), lambda pair: pair[0])
    )
    dealt = regrouped(groups, merged=1, dealt=True, seed=0)
    sizes = [np.sort(np.unique(g, return_counts=True)[1]) for g in (groups, dealt)]
    np.testing.assert_array_equal(*sizes)
    assert len(np.unique(groups[dealt == dealt[0]])) > 1
    one, other = (
        Draw(data=ReviewsData(name=name, path="x", cells=cells), setting=2, repetition=0)
        for name, cells in (("amazon", None), ("two cells", 2))
    )
    assert one.random_state.entropy == other.random_state.entropy


def test_census_files_stand_in_for_the_file_that_an_experiment_names(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "psam_p01.csv").write_text("ST,SERIALNO,AGEP,SEX,ESR\n1,a,40,1,1\n1,a,38,2,6\n2,b,70,,1\n")
    data = {"kind": "acs", "name": "jobs", "task": "employment", "path": "2024.parquet", "note": "Of 2024."}
    (found,) = load_experiment({**MINIMAL, "data": [data]}, data_dir=tmp_path).data
    assert "2024" not in found.note
    table = load_table(found)
    np.testing.assert_array_equal(table.y, [1, 0, 1])
    # What does not apply is 0, as folktables has it.
    np.testing.assert_array_equal(table.X, [[40, 1], [38, 2], [70, 0]])


def test_no_file_names_a_path_outside_the_folder():
    for path in SPECS.parent.rglob("*"):
        if path.suffix in (".py", ".toml"):
            text = path.read_text(encoding="utf-8")
            assert "shared/data" not in text
            assert not [line for line in text.splitlines() if line.startswith("path") and "/" in line], path
    assert {Path(path).stem for path in SPECS.glob("*.toml")} >= {"paper", "authors_code"}
