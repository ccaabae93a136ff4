"""Two runs of the experiment `beyond`, draw by draw: python -m benchmarks.beyond_compared BEFORE.csv NOW.csv --out compared.csv

The files are the `results.csv` of both runs. A line is a place (data, setting, dimensions and clusters) and a method: the change
of AUC and of log loss, with half of its 95 % interval over draws. Where classifier and draws are the same, Global's AUC is, too.
"""

import argparse
from pathlib import Path

import pandas as pd

from paper.results import Mean

DRAW = ["data", "setting", "d", "K", "method", "repetition"]
METRICS = ("auc", "log_loss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    compared(_draws(options.before), _draws(options.now)).to_csv(options.out, index=False)


def compared(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Changes from one run to the next, of the draws and methods that both have."""
    change = (now - before).dropna(subset=list(METRICS))
    lines = []
    # What is no synthetic place has neither dimensions nor clusters.
    for where, draws in change.groupby(level=DRAW[:-1], dropna=False):
        line = dict(zip(DRAW, where, strict=False)) | {"draws": len(draws)}
        for metric in METRICS:
            mean = Mean.of(draws[metric])
            line |= {metric: round(mean.value, 5), f"{metric}_half": round(mean.half, 5)}
        lines.append(line)
    return pd.DataFrame(lines)


def _draws(path: Path) -> pd.DataFrame:
    lines = pd.read_csv(path, dtype={"setting": str})
    lines = lines[lines.metric.isin(METRICS)]
    return lines.set_index([*DRAW, "metric"]).value.unstack()


if __name__ == "__main__":
    main()
