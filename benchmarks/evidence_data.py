"""Real tables, made small and plain for `evidence`: python -m benchmarks.evidence_data --data DIR --out DIR.

None of the files comes with the project (docs/data.md). Each table becomes one .npz with numbers (categories as codes, NaN
where missing), the label, the group and the household.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

AMOUNTS = ("AGEP", "SCHL", "WKHP", "SPORDER")
PERSON = ["AGEP", "SCHL", "MAR", "NATIVITY", "SEX", "RAC1P", "HHT"]
HEALTH = ["SPORDER", "DIS", "CIT", "MIL", "DEAR", "DEYE", "DREM"]
ACS = {
    "income": [*PERSON, "COW", "OCCP", "WKHP"],
    "employment": [*PERSON, *HEALTH],
    "ipr": [*PERSON, *HEALTH, "ESR", "OCCP", "WKHP"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200_000, help="of each table, at most")
    options = parser.parse_args()
    for name, load in LOADERS.items():
        # Flights have many columns of numbers: half as many rows take as much room as other tables.
        n_rows = options.rows // 2 if name in ("destinations", "carriers") else options.rows
        prepare(name, load(options.data), options.out, n_rows)


def prepare(name: str, arrays: dict, out: Path, n_rows: int) -> None:
    """Write at most so many rows of a table, whole households."""
    out.mkdir(parents=True, exist_ok=True)
    few = _some_households(arrays["household"], n_rows)
    arrays = {key: value if key == "is_category" else value[few] for key, value in arrays.items()}
    np.savez_compressed(out / f"{name}.npz", **arrays)


def _election(data: Path) -> dict:
    d = _read(data, "cces2016_trumpvote_by_state")
    d = d[d.votetrump.notna()]
    features = ["age", "female", "collegeed", "racef", "famincr", "bornagain", "religimp", "churchatd"]
    return _arrays(d[[*features, "prayerfreq"]], d.votetrump == 1, d.state)


def _trial(data: Path) -> dict:
    d = _read(data, "gusto1_30day_mortality_by_region")
    return _arrays(d.drop(columns=["day30", "regl", "grpl", "grps", "tpa", "tx"]), d.day30 == 1, d.grps)


def _pupils(data: Path, levels: Sequence[float] = ()) -> dict:
    d = _read(data, "pisa2003_students_by_country")
    features = ["mother_educ", "father_educ", "gender", "computer", "internet", "desk", "room", "dishwasher"]
    y = np.digitize(d.math, levels) if levels else d.math < 420
    return _arrays(d[[*features, "book", "escs"]], y, d.country)


def _households(data: Path) -> dict:
    d = _read(data, "eusilcA_population_by_district")
    features = ["gender", "eqsize", *d.loc[:, "self_empl":"cap_inv"]]
    return _arrays(d[features], d.eqIncome < 0.6 * d.eqIncome.median(), d.district)


def _provinces(data: Path) -> dict:
    d = _read(data, "spain_income_by_province")
    features = ["gen", "age", "nat", "educ", "labor"]
    return _arrays(d[features], d.income < 6557.143, d.provlab, ("gen", "nat", "labor"))


def _acs(task: str, levels: Sequence[float] = ()) -> Callable[[Path], dict]:
    def load(data: Path) -> dict:
        import pandas as pd

        extra = ["HHID", "STUSAB", "PWGTP", "PINCP", "WKHP", "AGEP", "ESR", "POVPIP"]
        d = _read(data, "acs_2024_1yr_persons", sorted({*ACS[task], *extra}))
        if task == "income":
            d = d[(d.AGEP > 16) & (d.PINCP > 100) & (d.WKHP > 0) & (d.PWGTP >= 1)]
            y = pd.Series(np.digitize(d.PINCP.to_numpy(float), levels)) if levels else d.PINCP > 50_000
        elif task == "employment":
            y = d.ESR == 1
        else:
            d = d[d.POVPIP.notna()]
            y = d.POVPIP < 250
        X = d[ACS[task]].copy()
        if "OCCP" in X:
            X["OCCP"] = X.OCCP // 100  # boosted trees take 255 categories
        categories = [name for name in X if name not in AMOUNTS]
        return _arrays(X, y.fillna(False), d.STUSAB.astype(str), categories, d.HHID)

    return load


def _reviews(data: Path) -> dict:
    from paper.reviews import load_reviews

    d = load_reviews(data / "amazon_reviews_minilm.npz", n_components=50)
    names = [f"component{j}" for j in range(50)]
    return _arrays(_frame(d.X, names), d.y, d.groups, household=d.example_ids)


def _flights(group: str) -> Callable[[Path], dict]:
    def load(data: Path) -> dict:
        from groupshift.datasets import load_flights

        d = load_flights(group=group, min_group_rows=500)
        return _arrays(_frame(d.X, d.feature_names), d.y, d.groups, d.categorical)

    return load


def _keel(name: str) -> Callable[[Path], dict]:
    def load(data: Path) -> dict:
        d = _read(data, f"keel_{name}_multiclass")
        # One group: draws divide it.
        return _arrays(d.drop(columns="label"), np.unique(d.label, return_inverse=True)[1], np.zeros(len(d)))

    return load


# Of more than two classes, for `ablation`.
CLASS_LOADERS: dict[str, Callable[[Path], dict]] = {
    "income in 3": _acs("income", (30_000, 75_000)),
    "pupils in 3": partial(_pupils, levels=(420, 545)),
    **{name: _keel(name) for name in ("satimage", "penbased")},
}
LOADERS: dict[str, Callable[[Path], dict]] = {
    "election survey": _election,
    "trial": _trial,
    "pupils": _pupils,
    "households": _households,
    "provinces": _provinces,
    **{task: _acs(task) for task in ACS},
    "reviews": _reviews,
    "destinations": _flights("dest"),
    "carriers": _flights("carrier"),
}


def _frame(X: np.ndarray, names: Sequence[str]):
    import pandas as pd

    return pd.DataFrame(X, columns=list(names))


def _read(data: Path, name: str, columns: list[str] | None = None):
    import pandas as pd

    return pd.read_parquet(data / f"{name}.parquet", columns=columns)


def _arrays(X, y, group, categories=(), household=None) -> dict:
    import pandas as pd

    is_category = np.array([c in categories or not pd.api.types.is_numeric_dtype(X[c]) for c in X])
    columns = list(_numbers(X, is_category))
    group = np.unique(np.asarray(group).astype(str), return_inverse=True)[1]
    own = np.arange(len(X)) if household is None else np.unique(household, return_inverse=True)[1]
    return {
        "X": np.column_stack(columns).astype(np.float32),
        "y": np.asarray(y).astype(np.int8),
        "group": group.astype(np.int16),
        "household": own.astype(np.int32),
        "is_category": is_category,
    }


def _numbers(X, is_category) -> Iterator[np.ndarray]:
    import pandas as pd

    for name, coded in zip(X, is_category, strict=True):
        if coded:
            # In the order of the values: a draw may take codes for numbers, as the paper does.
            codes = pd.factorize(X[name], sort=True)[0]
            yield np.where(codes < 0, np.nan, codes)
        else:
            yield X[name].to_numpy(float)


def _some_households(household: np.ndarray, n_rows: int) -> np.ndarray:
    """Row numbers of whole households drawn at random, about so many rows; shuffled, since some files are sorted."""
    rng = np.random.default_rng(0)
    size = np.bincount(household)
    order = rng.permutation(len(size))
    chosen = order[np.cumsum(size[order]) <= n_rows]
    return rng.permutation(np.flatnonzero(np.isin(household, chosen)))


if __name__ == "__main__":
    main()
