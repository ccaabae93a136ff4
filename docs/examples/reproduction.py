"""Gains over Global: published, and in our run of the paper's text."""

from pathlib import Path

from paper.published import NAMES, published_auc
from paper.results import Mean, load_results
from paper.table_text import place_title, signed

RESULTS = Path(__file__).parents[2] / "paper" / "results"
runs = {name: load_results(RESULTS / name) for name in ("paper",)}
METHODS = ("group_aware_global", "label_shift", "published", "true_clustering")
print(f"{'AUC less that of Global':<26} {'':<26} {'published':>10} {'as written':>14}")
for data in ("income", "employment", "ipr", "amazon"):
    for setting in ("1", "2"):
        base = published_auc("global", data, setting)
        for method in METHODS:
            gains = [signed(Mean.of(run.paired(data, setting, method, "global"))) for run in runs.values()]
            name = place_title(data, setting) if method == METHODS[0] else ""
            paper = signed(published_auc(method, data, setting) - base)
            print(f"{name:<26} {NAMES[method]:<26} {paper:>10} {gains[0]:>14}")
