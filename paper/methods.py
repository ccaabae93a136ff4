"""One method on one draw: build it, fit it, predict the test rows, measure. What methods of a draw share is done once."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import adjusted_rand_score, log_loss, roc_auc_score

from groupshift import METHODS
from groupshift.datasets import GroupedSample
from groupshift.datasets.bias import KMeansPartition
from groupshift.datasets.containers import Table
from paper.grid import Task
from paper.spec import Experiment

T = TypeVar("T")
# The article's classifier; an experiment may change its size.
FOREST = {"n_estimators": 500, "max_depth": 10}
# A forest for each group is of no use to any other method, and keeping them all would fill the memory.
UNSHARED = ("coral",)
# These look for clusters as the article does; the others have one, or are told.
CLUSTERED = ("published", "cluster_global")
AGREEMENT_ROWS = 20_000

# Forests, their predictions and the partition of the draw at hand, by content.
_memory: dict[object, object] = {}


def forget() -> None:
    """Drop what methods of the last draw shared."""
    _memory.clear()


def recall(key: object, make: Callable[[], T]) -> T:
    if key not in _memory:
        _memory[key] = make()
    return cast(T, _memory[key])


class SharedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that is fitted once for the same rows, and asked once about the same rows; needs a seed of its own."""

    def __init__(self, estimator: BaseEstimator):
        self.estimator = estimator

    def fit(
        self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> "SharedClassifier":
        self.key_ = (repr(self.estimator.get_params()), joblib.hash((X, y, sample_weight)))
        fitted = recall(self.key_, lambda: clone(self.estimator).fit(X, y, sample_weight=sample_weight))
        self.fitted_, self.classes_ = fitted, fitted.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        key = ("predict", *self.key_, joblib.hash(X))
        return recall(key, lambda: np.asarray(self.fitted_.predict_proba(X)))


def run_method(
    experiment: Experiment, task: Task, sample: GroupedSample
) -> tuple[dict[str, float], list[str]]:
    """Metrics of a method on the test rows, and what it warned of."""
    X, truth, groups = sample.testing()
    if task.method.name == "bayes":
        assert sample.posterior is not None
        return quality(truth, sample.posterior[sample.test]), []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fitted(experiment, task, sample)
        found = quality(truth, model.predict_proba(X, groups)[:, 1])
        found |= partition_facts(model, sample) if task.method.name in CLUSTERED else {}
    return found, sorted({f"{w.category.__name__}: {w.message}" for w in caught})


def quality(truth: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    """AUC, and the log loss of probabilities held off 0 and 1 by a millionth: the article's may reach both."""
    held = np.clip(probability, 1e-6, 1 - 1e-6)
    return {"auc": float(roc_auc_score(truth, probability)), "log_loss": float(log_loss(truth, held))}


def partition_facts(model: Any, sample: GroupedSample) -> dict[str, float]:
    """Clusters that the model used, and their agreement with the generating ones (adjusted Rand index)."""
    assert sample.cluster is not None
    rows = np.flatnonzero(sample.test)[:AGREEMENT_ROWS]
    found = model.partition.predict(np.asarray(sample.X)[rows])
    return {
        "n_clusters": float(model.n_clusters_),
        "true_clusters": float(len(np.unique(sample.cluster))),
        "partition_agreement": float(adjusted_rand_score(sample.cluster[rows], found)),
    }


def found_partition(X: Table, seed: int, *, refit: bool = False, batch_size: int = 4096) -> KMeansPartition:
    """The article's k-means; with `refit`, fitted again from another start after K is chosen, as the authors' code does."""
    found = KMeansPartition(batch_size=batch_size, random_state=seed).fit(X)
    if not refit:
        return found
    return KMeansPartition(found.n_clusters_, batch_size=batch_size, random_state=seed + 1).fit(X)


def _fitted(experiment: Experiment, task: Task, sample: GroupedSample) -> Any:
    X, y, groups, ids = sample.training()
    name, seed, settings = task.method.name, task.draw.method_seed, dict(task.method.params)
    classifier = RandomForestClassifier(**{**FOREST, **experiment.classifier})
    if name == "true_clustering":
        settings["partition"] = sample.partition
    elif name in CLUSTERED:
        options = settings.get("partition", {})
        settings["partition"] = recall(
            ("partition", repr(options)), lambda: found_partition(X, seed, **options)
        )
    shared = classifier if name in UNSHARED else SharedClassifier(classifier)
    model = METHODS[name](shared, random_state=seed, **settings)
    return model.fit(X, y, groups=groups, example_ids=ids)
