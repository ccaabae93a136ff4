"""One method on one draw: build it, fit it, predict the test rows, measure."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from sklearn.base import BaseEstimator

from groupshift import METHODS
from groupshift.datasets import GroupedSample
from paper.grid import Task
from paper.measure import Measured, measure, partition_facts, share_facts
from paper.memory import peak_memory_mb, reset_peak_memory
from paper.sharing import SharedClassifier, SharedWork, SilhouettePartition, recall
from paper.spec import ClassifierSpec, Experiment, MethodSpec

# A classifier for each group is of no use to any other method, and keeping them all would fill the memory.
UNSHARED = ("coral",)


class FittedMethod(Protocol):
    """What is asked of every method; what else it tells of itself is looked up where it is measured."""

    def predict_proba(self, X: np.ndarray, groups: np.ndarray) -> np.ndarray: ...


def make_classifier(spec: ClassifierSpec) -> BaseEstimator:
    """The classifier that all methods of an experiment are given.

    >>> make_classifier(ClassifierSpec(name="forest"))
    RandomForestClassifier(max_depth=10, n_estimators=500)
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    kinds: dict[str, tuple[type[BaseEstimator], Mapping[str, object]]] = {
        "forest": (RandomForestClassifier, {"n_estimators": 500, "max_depth": 10}),
        # Early stopping would hold out copies of training examples.
        "boosting": (HistGradientBoostingClassifier, {"early_stopping": False}),
    }
    if spec.name not in kinds:
        raise ValueError(f"There is no classifier {spec.name!r}: choose one of {', '.join(kinds)}.")
    kind, defaults = kinds[spec.name]
    return kind(**{**defaults, **spec.params})


def run_method(experiment: Experiment, task: Task, sample: GroupedSample, work: SharedWork) -> Measured:
    """Fit and judge one method; what it shares with others of the draw comes from `work`."""
    X, truth, groups = sample.testing()
    in_use = reset_peak_memory()
    start = time.perf_counter()
    model, borrowed, notes = None, 0.0, list[str]()
    if task.method.name == "bayes":
        assert sample.posterior is not None
        probability = sample.posterior[sample.test]
    else:
        with work.sharing(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = _fitted(experiment, task, sample)
            probability = model.predict_proba(np.asarray(X), groups)[:, 1]
            borrowed = work.borrowed
        notes = [*getattr(model, "notes_", []), *_sentences(caught)]
    spent, peak = time.perf_counter() - start, peak_memory_mb()
    measured = measure(truth, probability, groups)
    # `seconds` is what the method costs alone; what other methods of the draw had already done is part of it.
    effort = {"seconds": spent + borrowed, "seconds_borrowed": borrowed, "peak_memory_mb": peak}
    effort["added_memory_mb"] = peak - in_use
    metrics = {**measured.metrics, **share_facts(model, sample), **partition_facts(model, sample), **effort}
    return replace(measured, metrics=metrics, notes=notes)


def _fitted(experiment: Experiment, task: Task, sample: GroupedSample) -> FittedMethod:
    X, y, groups, ids = sample.training()
    classifier = make_classifier(experiment.classifier)
    if task.method.name not in UNSHARED:
        classifier = SharedClassifier(classifier)
    settings = {"calibration": experiment.calibration, **_settings(task, sample, np.asarray(X))}
    model = METHODS[task.method.name](classifier, random_state=task.draw.method_seed, **settings)
    fitted: FittedMethod = model.fit(X, y, groups=groups, example_ids=ids)
    return fitted


def _settings(task: Task, sample: GroupedSample, X: np.ndarray) -> dict[str, object]:
    settings = dict(task.method.params)
    if task.method.name == "true_clustering":
        settings["partition"] = sample.partition
    elif _by_silhouette(task.method):
        settings["partition"] = _silhouette(settings.get("partition"), task.draw.method_seed, X)
    return settings


def _by_silhouette(method: MethodSpec) -> bool:
    default = "silhouette" if method.name in ("published", "cluster_global") else None
    partition = method.params.get("partition", default)
    return partition == "silhouette" or isinstance(partition, Mapping)


def _silhouette(options: object, seed: int, X: np.ndarray) -> SilhouettePartition:
    given = dict(options) if isinstance(options, Mapping) else {}
    key = ("partition", seed, repr(sorted(given.items())))
    return recall(key, lambda: SilhouettePartition(random_state=seed, **given).fit(X))


def _sentences(caught: list[warnings.WarningMessage]) -> list[str]:
    return sorted({f"{w.category.__name__}: {w.message}" for w in caught})[:5]
