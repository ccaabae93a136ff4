"""The default fit against the published configuration: time, and AUC beside it."""

from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.data import paper_sample
from benchmarks.harness import line, run, side_by_side, timing
from groupshift import GroupShiftClassifier


def measure(quick: bool, repeats: int) -> dict:
    n_labeled, n_unlabeled, n_trees = (100, 1000, 100) if quick else (1000, 10_000, 500)
    sample = paper_sample(n_labeled, n_unlabeled)
    X, y, groups, _ = sample.training()
    test = sample.testing()

    def published():
        model = GroupShiftClassifier.published(n_jobs=-1, random_state=0)
        model.estimator.set_params(n_estimators=n_trees)
        return model.fit(X, y, groups=groups)

    found = side_by_side(
        {
            "default": lambda: GroupShiftClassifier(random_state=0).fit(X, y, groups=groups),
            "published": published,
        },
        repeats=repeats,
    )
    details = {}
    for name, result in found.items():
        p = result["answer"].predict_proba(test.X, test.groups)[:, 1]
        details[name] = {
            **timing(result),
            "auc": roc_auc_score(test.truth, p),
            "log_loss": log_loss(test.truth, p),
            "notes": result["answer"].notes_,
        }
    ratio = found["default"]["median"] / found["published"]["median"]
    better = details["default"]["auc"] > details["published"]["auc"]
    limit = roc_auc_score(test.truth, sample.posterior[sample.test])
    return {
        "rows": len(y),
        "details": details,
        "bayes_auc": limit,
        "lines": [
            line(
                f"default fit, {len(y):,} rows, d = 16",
                f"published configuration with {n_trees} trees",
                ratio=ratio,
                reach="<= 0.2 of the time, higher AUC",
                met=ratio <= 0.2 and better,
                accuracy=f"test AUC {details['default']['auc']:.4f} against "
                f"{details['published']['auc']:.4f} (Bayes {limit:.4f})",
            )
        ],
    }


if __name__ == "__main__":
    run("default_fit", "The default fit against the published one", measure, repeats=1, quick_repeats=1)
