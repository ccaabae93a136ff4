"""Fitting to a file read in batches against fitting to the same rows in memory."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.data import NAMES, labeled_frame, paper_sample, write_population
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier, streaming


def measure(quick: bool, repeats: int) -> dict:
    import pandas as pd

    n_rows = 300_000 if quick else 2_000_000
    sample = paper_sample(100 if quick else 300, 1000)
    labeled, test = labeled_frame(sample), sample.testing()
    with tempfile.TemporaryDirectory() as folder:
        path = write_population(sample, Path(folder) / "rows.parquet", n_rows)

        def in_memory():
            """Reading counts: rows in a file are where both begin."""
            table = pd.concat([labeled, pd.read_parquet(path)], ignore_index=True)
            y = table["label"].fillna(-1).astype(int)
            return GroupShiftClassifier(random_state=0).fit(table[NAMES], y, table["group"])

        def in_batches():
            model = GroupShiftClassifier(random_state=0)
            return streaming.fit(model, labeled, path, target="label", group="group")

        found = side_by_side({"memory": in_memory, "streaming": in_batches}, repeats=repeats)
    models = {name: result["answer"] for name, result in found.items()}
    ratio = found["streaming"]["median"] / found["memory"]["median"]
    apart = float(np.abs(models["streaming"].group_prior_ - models["memory"].group_prior_).max())
    X = pd.DataFrame(test.X, columns=NAMES)
    auc = {
        name: roc_auc_score(test.truth, m.predict_proba(X, test.groups)[:, 1]) for name, m in models.items()
    }
    return {
        "rows": n_rows,
        "details": {name: timing(result) for name, result in found.items()},
        "auc": auc,
        "lines": [
            line(
                f"streaming fit, {n_rows:,} unlabelled rows",
                "in-memory fit (both from the file)",
                ratio=ratio,
                reach="<= 1.2",
                met=ratio <= 1.2,
                accuracy=f"shares differ by {apart:.0e} at most; test AUC {auc['streaming']:.4f} "
                f"against {auc['memory']:.4f}",
            )
        ],
    }


if __name__ == "__main__":
    run("streaming_fit", "Fitting to a file in batches", measure, repeats=3, quick_repeats=1)
