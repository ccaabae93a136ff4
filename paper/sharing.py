"""Work that methods of one draw share, done once: classifiers, their predictions, the k-means partition.

Every lookup is by content, so it does not matter which method comes first or which ones are already done.
The seconds that a lookup saved are added up, so that each method can be charged what it would cost alone.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Protocol, TypeVar, cast

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if

from groupshift._regions.kmeans import silhouette_partition
from groupshift._regions.space import Space
from groupshift._rows.rows import Rows
from groupshift._rows.seeds import Seeds

# Results of each kind. A classifier for each of eight clusters and each of six folds, twice, fits in: fewer, and the first ones
# are forgotten before the next method asks for them.
MAX_KEPT = 128

T = TypeVar("T")
# What was asked for comes first; whatever tells two of its kind apart follows.
Key = tuple[object, ...]


class Classifier(Protocol):
    """What is asked of a classifier, besides `get_params`."""

    classes_: np.ndarray

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = ...) -> Classifier: ...
    def predict_proba(self, X: np.ndarray) -> np.ndarray: ...


_current: ContextVar[SharedWork | None] = ContextVar("groupshift_shared_work", default=None)


class SharedWork:
    """A memory of results by content, with what each one cost.

    >>> work = SharedWork()
    >>> with work.sharing():
    ...     [recall(("square", 3), lambda: 9) for _ in range(2)]
    [9, 9]
    >>> work.hits
    1
    """

    def __init__(self) -> None:
        self.hits = 0
        self.borrowed = 0.0
        self._kept: dict[object, OrderedDict[Key, tuple[object, float]]] = {}

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Share work inside this block; `borrowed` starts at 0."""
        self.borrowed = 0.0
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def recall(self, key: Key, make: Callable[[], T]) -> T:
        kept = self._kept.setdefault(key[0], OrderedDict())
        if key in kept:
            value, seconds = kept[key]
            kept.move_to_end(key)
            self.hits += 1
            self.borrowed += seconds
            return cast(T, value)
        before, start = self.borrowed, time.perf_counter()
        made = make()
        # What making it borrowed in turn belongs to its price.
        kept[key] = made, time.perf_counter() - start + self.borrowed - before
        if len(kept) > MAX_KEPT:
            kept.popitem(last=False)
        return made


def recall(key: Key, make: Callable[[], T]) -> T:
    """The result kept under `key` in the current shared work, or made now."""
    work = _current.get()
    return make() if work is None else work.recall(key, make)


class SharedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that asks the current `SharedWork` before it fits or predicts.

    Parameters
    ----------
    estimator : classifier
        With a seed of its own, or one set through `estimator__random_state`: without, no two fits agree.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    >>> work = SharedWork()
    >>> with work.sharing():
    ...     for _ in range(2):
    ...         model = SharedClassifier(DecisionTreeClassifier(random_state=0)).fit(X, y)
    >>> work.hits
    1
    """

    def __init__(self, estimator: BaseEstimator):
        self.estimator = estimator

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> SharedClassifier:
        def make() -> Classifier:
            weight = {} if sample_weight is None else {"sample_weight": sample_weight}
            fitted: Classifier = clone(self.estimator).fit(X, y, **weight)
            return fitted

        params = repr(self.estimator.get_params())
        self.fit_key_ = ("fit", params, joblib.hash((X, y, sample_weight)))
        self.fitted_ = recall(self.fit_key_, make)
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self._ask("predict_proba", X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return self._ask("decision_function", X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _ask(self, what: str, X: np.ndarray) -> np.ndarray:
        ask: Callable[[np.ndarray], np.ndarray] = getattr(self.fitted_, what)
        if _current.get() is None:
            return ask(X)
        return recall((what, self.fit_key_, joblib.hash(X)), lambda: ask(X))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


class SilhouettePartition:
    """The paper's partition as a clusterer, so that the methods that use it can be given one and the same."""

    def __init__(
        self,
        *,
        random_state: int,
        batch_size: int = 4096,
        choices: tuple[int, ...] = (1, 2, 4, 8),
        n_rows: int = 25_000,
    ):
        self.choose = partial(
            silhouette_partition,
            seeds=Seeds(random_state),
            batch_size=batch_size,
            choices=choices,
            n_rows=n_rows,
        )

    def fit(self, X: np.ndarray) -> SilhouettePartition:
        weight = np.ones(len(X))
        space = Space().fit(X, weight, np.zeros(X.shape[1], bool))
        self.partition_, _ = self.choose(space, X, weight)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        nothing = np.zeros(len(X), np.int64)
        return self.partition_.predict(Rows(X, X, nothing, np.ones(len(X)), nothing.astype(np.uint64)))
