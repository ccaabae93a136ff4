"""What group-awareness costs: the published configuration's fit, less what the forest itself takes."""

import threading
import time

from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.data import paper_sample
from benchmarks.harness import line, run
from groupshift import GroupShiftClassifier


class Watch:
    """Seconds during which at least one call was under way: chunks are scored side by side, and count once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.spent, self.active, self.since = 0.0, 0, 0.0

    def __enter__(self) -> None:
        with self.lock:
            if self.active == 0:
                self.since = time.perf_counter()
            self.active += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.active -= 1
            if self.active == 0:
                self.spent += time.perf_counter() - self.since


WATCH = Watch()


class TimedForest(RandomForestClassifier):
    """A forest whose seconds are counted."""

    def fit(self, *args, **kwargs):
        with WATCH:
            return super().fit(*args, **kwargs)

    def predict_proba(self, X):
        with WATCH:
            return super().predict_proba(X)


def measure(quick: bool, repeats: int) -> dict:
    n_labeled, n_unlabeled, n_trees = (100, 1000, 100) if quick else (1000, 10_000, 500)
    sample = paper_sample(n_labeled, n_unlabeled)
    X, y, groups, _ = sample.training()
    test = sample.testing()
    runs = []
    for seed in range(repeats):
        forest = TimedForest(n_estimators=n_trees, max_depth=10, n_jobs=-1)
        model = GroupShiftClassifier.published(forest, random_state=seed)
        WATCH.reset()
        start = time.perf_counter()
        model.fit(X, y, groups=groups)
        total = time.perf_counter() - start
        auc = roc_auc_score(test.truth, model.predict_proba(test.X, test.groups)[:, 1])
        runs.append({"fit": total, "forest": WATCH.spent, "clusters": model.n_clusters_, "auc": auc})
    share = sorted((r["fit"] - r["forest"]) / r["forest"] for r in runs)[len(runs) // 2]
    return {
        "rows": len(y),
        "trees": n_trees,
        "runs": runs,
        "lines": [
            line(
                f"everything but the forest, published fit, {len(y):,} rows, {n_trees} trees",
                "the forest's own time",
                ratio=share,
                reach="<= 0.05",
                met=share <= 0.05,
                accuracy=f"test AUC {runs[-1]['auc']:.4f}",
            )
        ],
    }


if __name__ == "__main__":
    run("group_cost", "What group-awareness costs", measure, repeats=1, quick_repeats=2)
