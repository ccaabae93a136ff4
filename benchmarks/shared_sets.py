"""Sets of /work/shared/data that the audit is measured on, read from the folder given with --data; none is in the project."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class SharedSet:
    """Features, 0/1 labels and groups of all rows."""

    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray

    def sampled(self, n_rows: int, rng: np.random.Generator) -> "SharedSet":
        few = rng.permutation(len(self.y))[:n_rows]
        return SharedSet(self.X.iloc[few].reset_index(drop=True), self.y[few], self.groups[few])


def election_survey(folder: Path) -> SharedSet:
    features = [
        "age",
        "female",
        "collegeed",
        "racef",
        "famincr",
        "bornagain",
        "religimp",
        "churchatd",
        "prayerfreq",
    ]
    return _read(folder, "cces2016_trumpvote_by_state", features, "state", lambda t: t["votetrump"])


def trial(folder: Path) -> SharedSet:
    left_out = {"day30", "regl", "grpl", "grps", "tx", "tpa"}
    table = _table(folder, "gusto1_30day_mortality_by_region")
    features = [name for name in table if name not in left_out]
    return _of(table, features, "grps", lambda t: t["day30"])


def eu_silc(folder: Path) -> SharedSet:
    table = _table(folder, "eusilcA_population_by_district")
    columns = list(table)
    first, last = columns.index("self_empl"), columns.index("cap_inv")
    features = ["gender", "eqsize", *columns[first : last + 1]]
    return _of(table, features, "district", lambda t: t["eqIncome"] < 0.6 * t["eqIncome"].median())


def spain(folder: Path) -> SharedSet:
    features = ["gen", "age", "nat", "educ", "labor"]
    return _read(folder, "spain_income_by_province", features, "provlab", lambda t: t["income"] < 6557.143)


def acs_income(folder: Path) -> SharedSet:
    features = ["AGEP", "COW", "SCHL", "MAR", "OCCP", "HHT", "WKHP", "SEX", "RAC1P", "NATIVITY"]
    kept = ["PINCP", "PWGTP", "ST"]
    table = _table(folder, "acs_2024_1yr_persons", features + kept)
    table = table[(table.AGEP > 16) & (table.PINCP > 100) & (table.WKHP > 0) & (table.PWGTP >= 1)]
    return _of(table, features, "ST", lambda t: t["PINCP"] > 50_000)


def acs_employment(folder: Path) -> SharedSet:
    features = [
        "AGEP",
        "SCHL",
        "MAR",
        "HHT",
        "SPORDER",
        "DIS",
        "CIT",
        "MIL",
        "NATIVITY",
        "DEAR",
        "DEYE",
        "DREM",
        "SEX",
        "RAC1P",
    ]
    table = _table(folder, "acs_2024_1yr_persons", [*features, "ESR", "ST"])
    return _of(table, features, "ST", lambda t: (t["ESR"] == 1).fillna(False))


SETS: dict[str, Callable[[Path], SharedSet]] = {
    "election survey": election_survey,
    "trial": trial,
    "EU-SILC": eu_silc,
    "Spain": spain,
    "ACS income": acs_income,
    "ACS employment": acs_employment,
}


def _read(
    folder: Path, name: str, features: list[str], group: str, label: Callable[[pd.DataFrame], pd.Series]
) -> SharedSet:
    return _of(_table(folder, name), features, group, label)


def _of(
    table: pd.DataFrame, features: list[str], group: str, label: Callable[[pd.DataFrame], pd.Series]
) -> SharedSet:
    y = label(table)
    known = (y.notna() & table[group].notna()).to_numpy()
    X = table.loc[known, features].reset_index(drop=True)
    for name in X.select_dtypes(["object", "string", "bool"]):
        X[name] = X[name].astype("category")
    return SharedSet(X, y[known].to_numpy().astype(int), table.loc[known, group].astype(str).to_numpy())


def _table(folder: Path, name: str, columns: list[str] | None = None) -> pd.DataFrame:
    # A machine without pyarrow reads the same tables as CSV.
    if (text := folder / f"{name}.csv.gz").exists():
        return pd.read_csv(text, usecols=columns)
    return pd.read_parquet(folder / f"{name}.parquet", columns=columns)
