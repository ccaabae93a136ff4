"""What tests of experiments share: a grid that runs in a moment, and its numbers."""

from pathlib import Path

from paper import load_experiment
from paper.store import read_csv

# Wall times and memory differ between runs; everything else must not.
EFFORT = ("seconds", "seconds_borrowed", "peak_memory_mb", "added_memory_mb")


def tiny(**changes):
    table = {
        "name": "tiny",
        "title": "tiny",
        "seed": 3,
        "repetitions": 1,
        "classifier": {"name": "forest", "n_estimators": 5, "max_depth": 4},
        "data": [
            {
                "kind": "synthetic",
                "dimensions": [2],
                "clusters": [2],
                "settings": [2],
                "groups": 6,
                "labeled_per_group": [40, 4],
                "unlabeled_per_group": [100, 10],
            }
        ],
        "methods": ["global", "label_shift", "cluster_global", "published", "bayes"],
    }
    return load_experiment({**table, **changes})


def measured(folder):
    rows = read_csv(Path(folder) / "results.csv")
    return {tuple(r.values())[:-1]: r["value"] for r in rows if r["metric"] not in EFFORT}
