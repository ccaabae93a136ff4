"""letter, penbased, satimage and generated classes in 50 groups: accuracy, log loss, shares and their intervals.

    python -m benchmarks.multiclass --data DIR [--jobs 16] [--out results/multiclass] [--seeds 2000,2001]

DIR holds the KEEL files (keel_letter_multiclass.parquet and so on), which are not part of the project. Groups have class shares
drawn from Dirichlet(1), anew for labelled and unlabelled rows ("shift"), drawn once for both ("same shift"), or those of the
whole set ("no shift"). All methods share a classifier; EMQ runs per group on Global's posteriors. What is claimed stands in
results/multiclass.toml. Draws that OUT/draws.jsonl holds already are not made again.
"""

import argparse
import csv
import json
import os
import time
import tomllib
import traceback
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_classes

SPEC = Path(__file__).parents[1] / "results" / "multiclass.toml"
N_GROUPS = 50
# QuaPy's settings of EMQ: when a step of EM is small enough, and how many there are at most.
EPSILON, MAX_ROUNDS = 1e-4, 1000


def emq(prior: np.ndarray, posterior: np.ndarray, epsilon: float = EPSILON) -> np.ndarray:
    """Shares by Saerens's EM, step by step as QuaPy's EMQ makes it (`tests/test_benchmarks.py` compares them)."""
    share, before = prior, None
    for step in range(MAX_ROUNDS if epsilon == EPSILON else 100_000):
        moved = (share / prior) * posterior
        share = (moved / moved.sum(1, keepdims=True)).mean(0)
        if before is not None and np.abs(share - before).mean() < epsilon and step > 10:
            break
        before = share
    return share


def draw(data: Path, name: str, kind: str, seed: int):
    """Features, classes as text, groups, which rows have labels, and examples."""
    if name.startswith("generated"):
        return _generated(int(name.split()[1]), kind, seed)
    return _resampled(data / f"keel_{name}_multiclass.parquet", kind, seed)


def _generated(n_classes: int, kind: str, seed: int):
    sample = make_grouped_classes(
        n_classes=n_classes, n_groups=N_GROUPS, setting=1 if kind == "no shift" else 2, random_state=seed
    )
    names = np.array([f"class {c:02d}" for c in range(n_classes)])[sample.truth]
    group = np.unique(sample.groups, return_inverse=True)[1]
    return sample.X, names, group, sample.y >= 0, sample.example_ids


def _resampled(path: Path, kind: str, seed: int):
    """Half of the examples of each class are labelled ones, half are not; rows are drawn from them, again and again."""
    import pyarrow.parquet as pq

    table = pq.read_table(path).to_pandas()
    names = table.iloc[:, -1].astype(str).to_numpy()
    X = table.iloc[:, :-1].to_numpy(float)
    classes, code = np.unique(names, return_inverse=True)
    rng = np.random.default_rng(seed)
    halves = [np.array_split(rng.permutation(np.flatnonzero(code == c)), 2) for c in range(len(classes))]
    overall = np.bincount(code) / len(code)
    shares = rng.dirichlet(np.ones(len(classes)), (N_GROUPS, 2))
    if kind == "same shift":
        shares[:, 1] = shares[:, 0]
    if kind == "no shift":
        shares[:] = overall
    n_rows = len(code) // N_GROUPS // 2
    rows, groups, labeled = [], [], []
    for g in range(N_GROUPS):
        for sample in (0, 1):
            drawn = rng.choice(len(classes), n_rows, p=shares[g, sample])
            rows += [rng.choice(halves[c][sample]) for c in drawn]
            groups += [g] * n_rows
            labeled += [sample == 0] * n_rows
    rows = np.array(rows)
    return X[rows], names[rows], np.array(groups), np.array(labeled), rows


def measure(data: Path, name: str, kind: str, seed: int) -> dict[str, float]:
    X, names, groups, labeled, ids = draw(data, name, kind, seed)
    y = np.where(labeled, names, None).astype(object)
    is_generated = name.startswith("generated")
    classifier = LogisticRegression(max_iter=1000) if is_generated else ExtraTreesClassifier(150)
    common = {"estimator": classifier, "random_state": seed, "n_jobs": 1}
    began = time.perf_counter()
    model = GroupShiftClassifier(**common).fit(X, y, groups=groups, example_ids=ids)
    seconds = time.perf_counter() - began
    plain = GroupShiftClassifier(**common, partition=1, shares=None)
    plain.fit(X, y, groups=groups, example_ids=ids)
    X, truth, groups = X[~labeled], names[~labeled], groups[~labeled]
    before, after = plain.predict_proba(X, groups), model.predict_proba(X, groups)
    real = np.array([[np.mean(truth[groups == g] == c) for c in model.classes_] for g in range(N_GROUPS)])
    table = model.group_shares(by="group")
    share, low, high = (np.asarray(table[name]).reshape(real.shape) for name in ("share", "low", "high"))
    prior = plain.labeled_prior_[0]
    by_em = {
        epsilon: np.array([emq(prior, before[groups == g], epsilon) for g in range(N_GROUPS)])
        for epsilon in (EPSILON, 1e-8)
    }
    rounding = 1e-9
    return {
        "accuracy_global": float(np.mean(model.classes_[before.argmax(1)] == truth)),
        "accuracy": float(np.mean(model.classes_[after.argmax(1)] == truth)),
        "log_loss_global": float(log_loss(truth, before, labels=model.classes_)),
        "log_loss": float(log_loss(truth, after, labels=model.classes_)),
        "share_error_global": _mean_error(before, groups, real),
        "share_error_emq": float(np.abs(by_em[EPSILON] - real).mean()),
        "share_error_emq_converged": float(np.abs(by_em[1e-8] - real).mean()),
        "share_error": float(np.abs(share - real).mean()),
        "coverage_of_90": float(np.mean((low <= real + rounding) & (real <= high + rounding))),
        "width_of_90": float(np.mean(high - low)),
        "n_clusters": int(model.n_clusters_),
        "seconds": seconds,
    }


def _mean_error(p: np.ndarray, groups: np.ndarray, real: np.ndarray) -> float:
    return float(np.abs(np.array([p[groups == g].mean(0) for g in range(len(real))]) - real).mean())


def tried(data: Path, name: str, kind: str, seed: int) -> dict:
    """A draw that fails is a result too, and must not take the others with it."""
    row = {"set": name, "kind": kind, "seed": seed}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return row | measure(data, name, kind, seed)
    except Exception:
        return row | {"error": traceback.format_exc()}


def verdicts(rows: list[dict]) -> list[dict]:
    """Each claim of results/multiclass.toml on each set and kind: its mean, the standard error, and whether it holds."""
    found = []
    for name, kind in dict.fromkeys((row["set"], row["kind"]) for row in rows):
        own = [row for row in rows if (row["set"], row["kind"]) == (name, kind) and "error" not in row]
        if own:
            values = {
                key: np.array([row[key] for row in own]) for key in own[0] if key not in ("set", "kind")
            }
            found += [{"set": name, "kind": kind, "draws": len(own)} | one for one in _claims(kind, values)]
    generated = [row for row in rows if row["set"].startswith("generated") and "error" not in row]
    if generated:
        coverage = np.array([row["coverage_of_90"] for row in generated])
        one = _claim("coverage of 90 % intervals", coverage, bool(0.87 <= coverage.mean() <= 0.95))
        found.append({"set": "generated", "kind": "all", "draws": len(generated)} | one)
    return found


def _claims(kind: str, v: dict[str, np.ndarray]):
    accuracy, loss = v["accuracy"] - v["accuracy_global"], v["log_loss"] - v["log_loss_global"]
    shares = v["share_error"] - v["share_error_emq"]
    if kind == "no shift":
        yield _claim("log loss - Global", loss, bool(loss.mean() <= 5e-4))
    else:
        yield _claim("accuracy - Global", accuracy, bool(accuracy.mean() > 0))
        yield _claim("log loss - Global", loss, bool(loss.mean() < 0))
        yield _claim("error of shares - EMQ", shares, bool(shares.mean() <= 0))
        converged = v["share_error"] - v["share_error_emq_converged"]
        yield _claim("error of shares - EMQ at 1e-8", converged, None)
    yield _claim("coverage of 90 % intervals", v["coverage_of_90"], None)


def _claim(what: str, values: np.ndarray, holds: bool | None) -> dict:
    """None: shown, not claimed."""
    spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
    return {
        "claim": what,
        "mean": float(values.mean()),
        "std_error": spread,
        "holds": "shown" if holds is None else holds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.multiclass", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the KEEL files")
    parser.add_argument("--out", type=Path, default=Path("results/multiclass"))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--sets", help="some of the sets: letter,satimage")
    parser.add_argument("--kinds", help="some of the kinds: shift,no shift")
    parser.add_argument("--seeds", help="other seeds, for development: 2000,2001")
    parser.add_argument("--commit", default="", help="of the code, where the machine has no git")
    options = parser.parse_args()
    spec = tomllib.loads(SPEC.read_text())
    for part in ("sets", "kinds", "seeds"):
        if (wanted := getattr(options, part)) is not None:
            spec[part] = [int(one) if part == "seeds" else one for one in wanted.split(",")]
    options.out.mkdir(parents=True, exist_ok=True)
    _write_origin(options.out, options.commit, spec["seeds"])
    kept = options.out / "draws.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done = {(row["set"], row["kind"], row["seed"]) for row in rows}
    # letter takes longest, so it comes first. Generated groups differ anew in both samples, or not at all.
    tasks = [
        (name, kind, seed)
        for name in spec["sets"]
        for kind in spec["kinds"]
        for seed in spec["seeds"]
        if not (name.startswith("generated") and kind == "same shift")
    ]
    with kept.open("a") as file:
        for row in Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
            delayed(tried)(options.data, *task) for task in tasks if task not in done
        ):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
    _write_verdicts(
        options.out / "verdicts.csv", sorted(rows, key=lambda row: (row["set"], row["kind"], row["seed"]))
    )


def _write_origin(out: Path, commit: str, seeds: list[int]) -> None:
    from paper.origin import deciding_origin

    origin = {"commit": commit, "seeds": seeds, **deciding_origin(), "cores": os.cpu_count()}
    (out / "origin.json").write_text(json.dumps(origin, indent=2) + "\n")


def _write_verdicts(path: Path, rows: list[dict]) -> None:
    found = verdicts(rows)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(found[0]) if found else ["set"])
        table.writeheader()
        table.writerows(
            {key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()}
            for row in found
        )
    for row in found:
        print(*(f"{value:.5f}" if isinstance(value, float) else value for value in row.values()), sep=", ")
    failed = [row for row in rows if "error" in row]
    for row in failed:
        print(row["set"], row["kind"], row["seed"], "failed:", row["error"].splitlines()[-1])


if __name__ == "__main__":
    # Worker processes find functions by the name of their module, which "__main__" is not.
    from benchmarks import multiclass

    multiclass.main()
