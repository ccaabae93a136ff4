"""The default with one part taken away at a time, from results/ablation/results.csv."""

from pathlib import Path

from groupshift.experiments.results import Mean, load_results
from groupshift.experiments.table_text import place_title, signed

results = load_results(Path(__file__).parents[2] / "results" / "ablation")
variants = [method for method in results.methods if method not in ("global", "groupshift")]
names = {method: method.replace(" instead of the judge", "") for method in variants}
for metric, title in (("auc", "AUC"), ("log_loss", "Log loss")):
    print(f"{title + ', against the default':<30} {'Global':>16}" + "".join(f" {names[m]:>16}" for m in variants))
    for data, setting in dict.fromkeys(place[:2] for place in results.places):
        cells = [
            signed(Mean.of(results.paired(data, setting, method, "groupshift", metric)), 4)
            for method in ("global", *variants)
        ]
        print(f"{place_title(data, setting):<30}" + "".join(f" {cell:>16}" for cell in cells))
    print()
