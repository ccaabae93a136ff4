"""The default with one part taken away at a time, from results/ablation/results.csv."""

from pathlib import Path

from paper.results import Mean, load_results
from paper.table_text import place_title, signed

results = load_results(Path(__file__).parents[2] / "results" / "ablation")
COLUMNS = {
    "global": "Global",
    "silhouette instead of the judge": "silhouette",
    "no shrinkage": "no shrinkage",
    "full trust": "full trust",
    "no refinement": "no refinement",
}
for metric, title in (("auc", "AUC"), ("log_loss", "Log loss")):
    print(f"{title + ' less the default':<24}" + "".join(f"{name:>15}" for name in COLUMNS.values()))
    for data, setting in dict.fromkeys(place[:2] for place in results.places):
        gains = [Mean.of(results.paired(data, setting, m, "groupshift", metric)) for m in COLUMNS]
        cells = [signed(gain, 4).replace(" ± ", " ±") for gain in gains]
        print(f"{place_title(data, setting):<24}" + "".join(f"{cell:>15}" for cell in cells))
    print()
