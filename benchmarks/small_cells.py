"""What pooling buys the article's algorithm where rows are few: `published(small_cells="pooled")` against the text.

Generated data of setting 2, four clusters. The unlabelled rows of a cell on average, and the labelled rows in all, are varied;
the number of groups keeps the rows to test many. One line of the file is one draw: AUC, log loss and the mean error of the cells'
shares, of the method told the generating clusters (`true_clustering`) and looking for them (`published`).
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, roc_auc_score

from groupshift import METHODS
from groupshift.datasets import make_grouped_mixture

N_CLUSTERS = 4
# Unlabelled rows of a cell, and groups.
SIZES = ((5, 240), (20, 80), (60, 40), (200, 20), (1000, 8))
LABELED_ROWS = (1_000, 10_000)
COLUMNS = ("cell_rows", "labeled_rows", "seed", "method", "small_cells", "auc", "log_loss", "share_error")


def one_draw(cell_rows: int, n_groups: int, labeled_rows: int, seed: int) -> list[tuple]:
    sample = make_grouped_mixture(
        n_features=4,
        n_clusters=N_CLUSTERS,
        n_groups=n_groups,
        # A fifth of the unlabelled rows is held out as a test.
        unlabeled_per_group=(N_CLUSTERS * cell_rows / 0.8, 0),
        labeled_per_group=(labeled_rows / n_groups, 0),
        counts="binomial",
        random_state=seed,
    )
    X, y, groups, ids = sample.training()
    new, truth, new_groups = sample.testing()
    lines = []
    for method, small_cells in (
        ("global", ""),
        *((m, c) for m in ("true_clustering", "published") for c in ("alone", "pooled")),
    ):
        settings = {"small_cells": small_cells} if small_cells else {}
        if method == "true_clustering":
            settings["partition"] = sample.partition
        forest = RandomForestClassifier(50, max_depth=10)
        model = METHODS[method](forest, random_state=seed, **settings)
        model.fit(X, y, groups=groups, example_ids=ids)
        p = model.predict_proba(new, new_groups)[:, 1]
        error = ""
        if method == "true_clustering":
            error = round(float(np.nanmean(np.abs(model.group_prior_ - sample.shares))), 5)
        # Certain answers that are wrong would cost infinity.
        loss = log_loss(truth, np.clip(p, 1e-6, 1 - 1e-6))
        measured = round(float(roc_auc_score(truth, p)), 5), round(float(loss), 5)
        lines.append((cell_rows, labeled_rows, seed, method, small_cells, *measured, error))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_cells", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="draws of each size")
    parser.add_argument("--out", type=Path, default=Path("results/small_cells.csv"))
    options = parser.parse_args()
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for seed in range(options.seeds):
            for cell_rows, n_groups in SIZES:
                for labeled_rows in LABELED_ROWS:
                    writer.writerows(one_draw(cell_rows, n_groups, labeled_rows, seed))
                    file.flush()


if __name__ == "__main__":
    main()
