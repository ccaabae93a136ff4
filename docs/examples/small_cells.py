"""What `small_cells="pooled"` buys, by rows in an unlabelled cell: from results/small_cells.csv."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

RESULTS = Path(__file__).parents[2] / "results" / "small_cells.csv"
found = defaultdict(dict)
with RESULTS.open(encoding="utf-8") as file:
    for row in csv.DictReader(file):
        size = int(row["labeled_rows"]), int(row["cell_rows"])
        found[size, row["method"], row["small_cells"]][int(row["seed"])] = row


def column(key, name):
    """One number a draw."""
    return np.array([float(row[name]) for _, row in sorted(found[key].items())])


def mean(values):
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():+.3f} ± {half:.3f}"


print("Told the generating clusters; pooled less text is a mean over draws, with its 95 % interval.")
print("labelled  rows of    AUC                                      log loss           error of shares")
print("rows       a cell    Global   text  pooled   pooled - text    pooled - text      text  pooled")
for size in sorted({key[0] for key in found}):
    plain = (size, "global", "")
    text, pooled = ((size, "true_clustering", cells) for cells in ("alone", "pooled"))
    auc = [column(key, "auc") for key in (plain, text, pooled)]
    loss = column(pooled, "log_loss") - column(text, "log_loss")
    shares = [column(key, "share_error").mean() for key in (text, pooled)]
    print(
        f"{size[0]:>8,}  {size[1]:>7,}    {'   '.join(f'{a.mean():.3f}' for a in auc)}   {mean(auc[2] - auc[1])}   "
        f"{mean(loss)}     {shares[0]:.3f}   {shares[1]:.3f}"
    )
