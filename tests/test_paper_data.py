"""The article's data: Census tasks from every kind of file the Census has published, and reviews as embeddings."""

import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paper.acs import TASKS, acs_task, download_persons
from paper.reviews import load_reviews

SHARED = Path(__file__).parents[2] / "shared" / "data"
PARQUET = SHARED / "acs_2024_1yr_persons.parquet"
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


def test_employment_keeps_everybody_and_households_together(csv_2018):
    task = acs_task("employment", csv_2018)
    np.testing.assert_array_equal(task.y, [1, 0, 1, 0])
    assert task.example_ids[0] == task.example_ids[1]
    assert len(np.unique(task.example_ids)) == 3


def test_poverty_ratio_drops_the_unknown_or_counts_them_as_folktables_does(csv_2018):
    np.testing.assert_array_equal(acs_task("ipr", csv_2018).y, [0, 0, 1])
    np.testing.assert_array_equal(acs_task("ipr", csv_2018, keep_unknown=True).y, [0, 0, 1, 0])


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


def test_housing_records_are_refused(tmp_path):
    path = _write(tmp_path, "psam_h01.csv", "RT,SERIALNO,ST,NP\nH,1,1,2\n")
    with pytest.raises(ValueError, match="not housing records"):
        acs_task("income", path)


def test_zip_and_folder_read_the_same(csv_2018, tmp_path):
    expected = acs_task("employment", csv_2018)
    archive = tmp_path / "zipped" / "csv_pal.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as out:
        out.write(csv_2018, "psam_p01.csv")
        out.writestr("ACS2018_readme.pdf", "not a table")
    for source in (archive, archive.parent, tmp_path, str(csv_2018)):
        task = acs_task("employment", source)
        np.testing.assert_array_equal(task.X, expected.X)
        np.testing.assert_array_equal(task.y, expected.y)
        np.testing.assert_array_equal(task.example_ids, expected.example_ids)


def test_files_of_several_states_are_stacked(csv_2018, tmp_path):
    text = f"{HEADER_2018}\n{ROWS_2018.replace(',01,75', ',02,75').replace('U0', 'U1')}"
    _write(tmp_path, "psam_p02.csv", text)
    assert acs_task("income", tmp_path).groups.tolist() == ["AL", "AL", "AK", "AK"]


def test_a_missing_feature_is_named_and_stood_in_for(csv_2018, tmp_path):
    frame = pd.read_csv(csv_2018).drop(columns=["POBP", "RELP"]).assign(NATIVITY=1, HHT=2)
    frame.to_parquet(tmp_path / "people.parquet")
    task = acs_task("income", tmp_path / "people.parquet")
    assert task.missing == ("POBP", "RELP")
    assert task.stand_ins == {"POBP": ("NATIVITY",), "RELP": ("HHT",)}
    assert task.feature_names[-2:] == ("NATIVITY", "HHT")


def test_errors_of_census_files_name_what_was_found(csv_2018, tmp_path):
    with pytest.raises(ValueError, match="no ACS task 'wealth'"):
        acs_task("wealth", csv_2018)
    with pytest.raises(FileNotFoundError, match=r"no person records at nowhere\.csv"):
        acs_task("income", "nowhere.csv")


def download(tmp_path, **asked):
    settings = {"year": 2018, "horizon": "1-Year", "states": ["CA"], "data_dir": tmp_path}
    return download_persons(**{**settings, **asked})


def test_without_files_and_folktables_it_says_which_file_and_where(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "folktables", None)
    monkeypatch.setitem(sys.modules, "folktables.load_acs", None)
    with pytest.raises(ImportError, match=r"psam_p06\.csv.*csv_pca\.zip.*pip install folktables"):
        download(tmp_path)
    with pytest.raises(ImportError, match=r"ss16pca\.csv"):
        download(tmp_path, year=2016, horizon="5-Year")


def test_files_that_folktables_left_are_found_again(csv_2018, tmp_path):
    folder = tmp_path / "2018" / "5-Year"
    folder.mkdir(parents=True)
    csv_2018.rename(folder / "psam_p01.csv")
    assert download(tmp_path, horizon="5-Year", states=["AL"]) == [folder / "psam_p01.csv"]


def test_a_download_that_fails_says_what_to_do(tmp_path, monkeypatch):
    broken = types.ModuleType("folktables.load_acs")
    broken.initialize_and_download = lambda *args, **kw: None
    monkeypatch.setitem(sys.modules, "folktables", types.ModuleType("folktables"))
    monkeypatch.setitem(sys.modules, "folktables.load_acs", broken)
    with pytest.raises(FileNotFoundError, match="Its download failed"):
        download(tmp_path)


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"year": 2010}, "2014 or later"), ({"states": ["XX"]}, r"Unknown states \['XX'\]")],
)
def test_errors_of_downloads_name_what_was_found(asked, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        download(tmp_path, **asked)


@needs_census
@pytest.mark.parametrize(
    ("name", "rows", "positive", "found"),
    [("income", 1_399_926, 0.491, 8), ("employment", 2_736_891, 0.457, 12), ("ipr", 2_611_012, 0.327, 15)],
)
def test_the_2024_file_gives_the_published_counts(name, rows, positive, found):
    task = acs_task(name, PARQUET)
    assert len(task) == rows
    assert round(task.y.mean(), 3) == positive
    assert len(TASKS[name].features) - len(task.missing) == found
    assert len(np.unique(task.groups)) == 49


REVIEWS = pd.DataFrame(
    {
        "text": ["aab", "bb", "a", "aab", "b"],
        "stars": [5, 1, 3, 4, 2],
        "category": ["toys", "toys", "books", "books", "books"],
    }
)


class Letters:
    """Counts the letters a and b."""

    def encode(self, sentences):
        return [[s.count("a"), s.count("b")] for s in sentences]


@pytest.fixture
def reviews(tmp_path):
    REVIEWS.to_parquet(tmp_path / "reviews.parquet")
    return tmp_path / "reviews.parquet"


def test_more_than_three_stars_are_positive_and_copies_are_one_example(reviews):
    table = load_reviews(reviews, rating="stars", encoder=Letters())
    np.testing.assert_array_equal(table.y, [1, 0, 0, 1, 0])
    np.testing.assert_array_equal(table.X, [[2, 1], [0, 2], [1, 0], [2, 1], [0, 1]])
    assert table.example_ids[0] == table.example_ids[3]
    assert len(np.unique(table.example_ids)) == 4


def test_three_star_reviews_are_dropped_before_anything_else(reviews):
    table = load_reviews(reviews, rating="stars", drop_three_stars=True, encoder=Letters())
    np.testing.assert_array_equal(table.y, [1, 0, 1, 0])


def test_components_are_of_the_embeddings(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 5)) * [9, 3, 1, 1, 1]
    np.savez(tmp_path / "r.npz", embedding=X, label=np.arange(40) % 2, category=np.repeat(["a", "b"], 20))
    whole, reduced = (load_reviews(tmp_path / "r.npz", n_components=n).X for n in (None, 2))
    centred = whole - whole.mean(0)
    np.testing.assert_allclose(np.var(reduced, axis=0)[0], np.linalg.svd(centred)[1][0] ** 2 / 40, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"category": None}, {}, "lacks category"),
        ({"label": [0, 1, 2, 1, 0]}, {}, r"holds \[0, 1, 2\]"),
        ({"label": [0, 1, 1, 1, 0]}, {"drop_three_stars": True}, "needs the stars"),
    ],
)
def test_errors_of_reviews_name_what_was_found(change, settings, message, tmp_path):
    REVIEWS.assign(**change).dropna(axis=1).to_parquet(tmp_path / "r.parquet")
    with pytest.raises(ValueError, match=message):
        load_reviews(tmp_path / "r.parquet", encoder=Letters(), **settings)
