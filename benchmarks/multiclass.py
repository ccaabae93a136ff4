"""letter, penbased and satimage in 50 groups: accuracy, log loss and shares against Global and QuaPy's EMQ.

    python -m benchmarks.multiclass --data DIR [--draws 10] [--sets letter,penbased,satimage] [--out FILE]

DIR holds the KEEL files (keel_letter_multiclass.parquet and so on), which are not part of the project. Groups have class shares
drawn from Dirichlet(1), anew for labelled and unlabelled rows ("shift"), drawn once for both ("same shift"), or those of the
whole set ("no shift"). All methods share a forest of extremely randomised trees; EMQ runs per group on Global's posteriors.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import log_loss

from groupshift import GroupShiftClassifier

# Never used while the method was made; 1 and 2100 to 2102 were.
SEEDS = tuple(range(3100, 3110))
SETS = ("letter", "penbased", "satimage")
KINDS = ("shift", "same shift", "no shift")
N_GROUPS = 50


def draw(path: Path, kind: str, seed: int):
    """Features, classes as text, groups, which rows have labels, and examples; halves of the set are labelled or not."""
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


def emq_shares(posterior, groups, prior):
    from quapy.method.aggregative import EMQ

    return np.array([EMQ.EM(prior, posterior[groups == g])[0] for g in range(N_GROUPS)])


def measure(path: Path, kind: str, seed: int) -> dict[str, float]:
    X, names, groups, labeled, ids = draw(path, kind, seed)
    y = np.where(labeled, names, None).astype(object)
    common = {"estimator": ExtraTreesClassifier(150), "random_state": seed, "n_jobs": 1}
    began = time.perf_counter()
    model = GroupShiftClassifier(**common).fit(X, y, groups=groups, example_ids=ids)
    seconds = time.perf_counter() - began
    plain = GroupShiftClassifier(**common, partition=1, shares=None, trust=1.0)
    plain.fit(X, y, groups=groups, example_ids=ids)
    X, truth, groups = X[~labeled], names[~labeled], groups[~labeled]
    before, after = plain.predict_proba(X, groups), model.predict_proba(X, groups)
    real = np.array([[np.mean(truth[groups == g] == c) for c in model.classes_] for g in range(N_GROUPS)])
    table = model.group_shares(by="group")
    share, low, high = (np.asarray(table[name]).reshape(real.shape) for name in ("share", "low", "high"))
    quapy = emq_shares(before, groups, plain.labeled_prior_[0])
    return {
        "accuracy_global": float(np.mean(model.classes_[before.argmax(1)] == truth)),
        "accuracy": float(np.mean(model.classes_[after.argmax(1)] == truth)),
        "log_loss_global": float(log_loss(truth, before, labels=model.classes_)),
        "log_loss": float(log_loss(truth, after, labels=model.classes_)),
        "share_error_quapy": float(np.abs(quapy - real).mean()),
        "share_error": float(np.abs(share - real).mean()),
        "coverage_of_90": float(np.mean((low <= real) & (real <= high))),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.multiclass", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the KEEL files")
    parser.add_argument("--draws", type=int, default=len(SEEDS))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/multiclass.json"))
    options = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    if options.out.exists():
        found = json.loads(options.out.read_text())
    for name in options.sets.split(","):
        for kind in options.kinds.split(","):
            path = options.data / f"keel_{name}_multiclass.parquet"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                draws = [measure(path, kind, seed) for seed in SEEDS[: options.draws]]
            mean = {key: float(np.mean([one[key] for one in draws])) for key in draws[0]}
            command = f"python -m benchmarks.multiclass --data DIR --draws {options.draws} --sets {name} --kinds '{kind}'"
            found[f"{name}, {kind}"] = {"mean": mean, "draws": draws, "command": command}
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")
            print(name, kind, {key: round(value, 5) for key, value in mean.items()}, flush=True)


if __name__ == "__main__":
    main()
