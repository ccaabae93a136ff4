"""Census tasks: filters, targets and stand-ins, from every kind of file the Census has published."""

import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper.acs import TASKS, acs_task

PARQUET = Path(__file__).parents[2] / "shared" / "data" / "acs_2024_1yr_persons.parquet"
needs_census = pytest.mark.skipif(not PARQUET.is_file(), reason=f"needs {PARQUET}")
pytest.importorskip("pyarrow")

HEADER_2018 = "RT,SERIALNO,ST,PWGTP,AGEP,COW,SCHL,MAR,OCCP,POBP,RELP,WKHP,SEX,RAC1P,PINCP,ESR,POVPIP"
ROWS_2018 = """\
P,2018GQ0000049,01,75,40,1,16,1,0010,001,00,40,1,1,60000,1,300
P,2018GQ0000049,01,75,38,,16,1,,001,01,,2,1,0,6,300
P,2018HU0000002,01,75,70,,12,2,,001,00,10,2,2,000020000,1,100
P,2018HU0000003,01,75,05,,01,5,,001,02,,1,1,,,
"""


def _write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def csv_2018(tmp_path):
    return _write(tmp_path, "psam_p01.csv", f"{HEADER_2018}\n{ROWS_2018}")


def test_income_keeps_adults_who_work_and_earn(csv_2018):
    task = acs_task("income", csv_2018)
    np.testing.assert_array_equal(task.y, [1, 0])
    np.testing.assert_array_equal(task.groups, ["AL", "AL"])
    assert task.feature_names == TASKS["income"].features
    assert task.missing == ()
    assert task.X[0].tolist() == [40, 1, 16, 1, 10, 1, 0, 40, 1, 1]
    assert np.isnan(task.X[1, 1])  # class of worker not applicable
    np.testing.assert_array_equal(task.sample_weight, [75, 75])


def test_employment_keeps_everybody_and_households_together(csv_2018):
    task = acs_task("employment", csv_2018)
    np.testing.assert_array_equal(task.y, [1, 0, 1, 0])
    assert task.example_ids[0] == task.example_ids[1]
    assert len(np.unique(task.example_ids)) == 3


def test_poverty_ratio_drops_the_unknown_or_counts_them_as_folktables_does(csv_2018):
    np.testing.assert_array_equal(acs_task("ipr", csv_2018).y, [0, 0, 1])
    np.testing.assert_array_equal(acs_task("ipr", csv_2018, keep_unknown=True).y, [0, 0, 1, 0])


def test_zip_folder_list_and_frame_read_the_same(csv_2018, tmp_path):
    expected = acs_task("employment", csv_2018)
    archive = tmp_path / "zipped" / "csv_pal.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as out:
        out.write(csv_2018, "psam_p01.csv")
        out.writestr("ACS2018_readme.pdf", "not a table")
    frame = pd.read_csv(csv_2018, dtype={"SERIALNO": str})
    for source in (archive, archive.parent, tmp_path, [str(csv_2018)], frame):
        task = acs_task("employment", source)
        np.testing.assert_array_equal(task.X, expected.X)
        np.testing.assert_array_equal(task.y, expected.y)
        np.testing.assert_array_equal(task.example_ids, expected.example_ids)


def test_newer_files_with_relshipp_and_state_read_as_relp_and_st(tmp_path):
    header = HEADER_2018.replace("RELP", "RELSHIPP").replace(",ST,", ",STATE,")
    path = _write(tmp_path, "psam_p72.csv", f"{header}\nP,2023HU1,72,9,30,1,20,5,20,1,25,40,1,1,10,1,100\n")
    task = acs_task("employment", path)
    assert task.groups.tolist() == ["PR"]
    assert task.X[0, task.feature_names.index("RELP")] == 2  # a child: 25 in the new codes
    assert "RELP" not in task.missing


def test_early_five_year_files_give_occupation_by_vintage(tmp_path):
    header = HEADER_2018.replace("OCCP", "OCCP10,OCCP12").replace("POBP", "POBP05,POBP12")
    rows = (
        "P,1,1,9,30,1,20,5,0110,N.A.,001,,0,40,1,1,70000,1,100\n"
        "P,2,1,9,30,1,20,5,N.A.,0220,,002,0,40,1,1,70000,1,100\n"
    )
    task = acs_task("income", _write(tmp_path, "ss14pal.csv", f"{header}\n{rows}"))
    assert task.X[:, task.feature_names.index("OCCP")].tolist() == [110, 220]
    assert task.X[:, task.feature_names.index("POBP")].tolist() == [1, 2]


def test_files_of_several_states_are_stacked(csv_2018, tmp_path):
    other = _write(
        tmp_path,
        "psam_p02.csv",
        f"{HEADER_2018}\n{ROWS_2018.replace(',01,75', ',02,75').replace('U0', 'U1')}",
    )
    task = acs_task("income", [csv_2018, other])
    assert task.groups.tolist() == ["AL", "AL", "AK", "AK"]


def test_frame_has_categories_for_codes_and_numbers_for_amounts(csv_2018):
    X = acs_task("income", csv_2018, as_frame=True).X
    assert X["OCCP"].dtype == "category"
    assert X["AGEP"].dtype == np.float32
    assert X["OCCP"].iloc[0] == 10


def test_a_missing_feature_is_named_and_stood_in_for(csv_2018):
    frame = pd.read_csv(csv_2018).drop(columns=["POBP", "RELP"]).assign(NATIVITY=1, HHT=2)
    task = acs_task("income", frame)
    assert task.missing == ("POBP", "RELP")
    assert task.stand_ins == {"POBP": ("NATIVITY",), "RELP": ("HHT",)}
    assert task.feature_names[-2:] == ("NATIVITY", "HHT")
    assert acs_task("income", frame, stand_ins=False).X.shape[1] == 8


def test_housing_records_are_refused(tmp_path):
    path = _write(tmp_path, "psam_h01.csv", "RT,SERIALNO,ST,NP\nH,1,1,2\n")
    with pytest.raises(ValueError, match="not housing records"):
        acs_task("income", path)


def test_without_files_and_folktables_it_says_which_file_and_where(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "folktables", None)
    monkeypatch.setitem(sys.modules, "folktables.load_acs", None)
    with pytest.raises(ImportError, match=r"psam_p06\.csv.*csv_pca\.zip.*pip install folktables"):
        acs_task("income", data_dir=tmp_path, states=["CA"], year=2018, horizon="1-Year")
    with pytest.raises(ImportError, match=r"ss16pca\.csv"):
        acs_task("income", data_dir=tmp_path, states=["CA"], year=2016, horizon="5-Year")


def test_files_that_folktables_left_are_found_again(csv_2018, tmp_path):
    folder = tmp_path / "2018" / "5-Year"
    folder.mkdir(parents=True)
    csv_2018.rename(folder / "psam_p01.csv")
    assert len(acs_task("income", data_dir=tmp_path, states=["AL"])) == 2


def test_a_download_that_fails_says_what_to_do(tmp_path, monkeypatch):
    import types

    broken = types.ModuleType("folktables.load_acs")
    broken.initialize_and_download = lambda *args, **kw: None
    monkeypatch.setitem(sys.modules, "folktables", types.ModuleType("folktables"))
    monkeypatch.setitem(sys.modules, "folktables.load_acs", broken)
    with pytest.raises(FileNotFoundError, match="Its download failed"):
        acs_task("income", data_dir=tmp_path, states=["CA"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"name": "wealth"}, ValueError, "no ACS task 'wealth'"),
        ({"name": "income", "source": "nowhere.csv"}, FileNotFoundError, r"no file nowhere\.csv"),
        ({"name": "income", "year": 2010}, ValueError, "2014 or later"),
        ({"name": "income", "states": ["XX"]}, ValueError, r"Unknown states \['XX'\]"),
    ],
)
def test_errors_name_what_was_found(call, error, message):
    with pytest.raises(error, match=message):
        acs_task(**call)


@needs_census
@pytest.mark.parametrize(
    ("name", "rows", "positive", "found"),
    [("income", 1_399_926, 0.491, 8), ("employment", 2_736_891, 0.457, 12), ("ipr", 2_611_012, 0.327, 15)],
)
def test_the_2024_file_gives_the_published_counts(name, rows, positive, found):
    task = acs_task(name, PARQUET)
    assert len(task) == rows
    assert round(task.y.mean(), 3) == positive
    assert len(set(TASKS[name].features) & set(task.feature_names) - set(task.missing)) >= found
    assert len(TASKS[name].features) - len(task.missing) == found
    assert len(np.unique(task.groups)) == 49


@needs_census
def test_max_rows_takes_whole_households_and_a_seed_fixes_them():
    one, two = (acs_task("employment", PARQUET, max_rows=20_000, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.X, two.X)
    assert 19_900 < len(one) <= 20_000
    everybody = acs_task("employment", PARQUET)
    size = np.bincount(everybody.example_ids)
    ids, found = np.unique(one.example_ids, return_counts=True)
    np.testing.assert_array_equal(found, size[ids])
