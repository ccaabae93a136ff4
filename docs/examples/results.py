"""Mean AUC and log loss of every method on draws that all of them ran, from results/beyond/results.csv."""

from pathlib import Path

import pandas as pd

METHODS = {
    "global": "Global",
    "label_shift": "Label Shift",
    "published": "published",
    "groupshift": "groupshift",
    "true_clustering": "oracle",
}
table = pd.read_csv(Path(__file__).parents[2] / "results" / "beyond" / "results.csv", dtype={"setting": str})
table = table[table["method"].isin(METHODS)]
for metric in ("auc", "log_loss"):
    wide = table[table["metric"] == metric].pivot_table(
        index=["data", "setting", "d", "K", "repetition"], columns="method", values="value", dropna=False
    )
    wide = wide.dropna(how="all")[list(METHODS)].rename(columns=METHODS)
    # A natural shift has no generating partition, hence no oracle.
    complete = wide.drop(columns="oracle").dropna().index
    means = wide.loc[complete].groupby(["data", "setting"])
    shown = means.mean().round(3).assign(draws=means.size())
    print({"auc": "AUC", "log_loss": "Log loss"}[metric])
    print(shown.to_string(na_rep="-"), end="\n\n")
