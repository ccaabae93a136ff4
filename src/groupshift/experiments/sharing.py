"""Work that methods of one draw share, done once: classifiers, their predictions, the k-means partition.

Every lookup is by content, so it does not matter which method comes first or which ones are already done.
The seconds that a lookup saved are added up, so that each method can be charged what it would cost alone.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from groupshift._regions.kmeans import silhouette_partition
from groupshift._regions.space import Space
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.rows import Rows

# A classifier for each of eight clusters and each of six folds, twice, fits in: fewer, and the first ones are
# forgotten before the next method asks for them.
MAX_FITS = MAX_PREDICTIONS = 128

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
        self._kept: dict[str, OrderedDict[Any, tuple[Any, float]]] = {}

    @contextmanager
    def sharing(self, active: bool = True) -> Iterator[None]:
        """Share work inside this block; `borrowed` starts at 0."""
        self.borrowed = 0.0
        token = _current.set(self if active else None)
        try:
            yield
        finally:
            _current.reset(token)

    def recall(self, key: tuple, make: Callable[[], Any], limit: int) -> Any:
        kept = self._kept.setdefault(key[0], OrderedDict())
        if key in kept:
            value, seconds = kept[key]
            kept.move_to_end(key)
            self.hits += 1
            self.borrowed += seconds
            return value
        before, start = self.borrowed, time.perf_counter()
        value = make()
        # What making it borrowed in turn belongs to its price.
        kept[key] = value, time.perf_counter() - start + self.borrowed - before
        if len(kept) > limit:
            kept.popitem(last=False)
        return value


def recall(key: tuple, make: Callable[[], Any], *, limit: int = MAX_FITS) -> Any:
    """The result kept under `key` in the current shared work, or made now."""
    work = _current.get()
    return make() if work is None else work.recall(key, make, limit)


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

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SharedClassifier:
        def make() -> Any:
            weight = {} if sample_weight is None else {"sample_weight": sample_weight}
            return clone(self.estimator).fit(X, y, **weight)

        self.fit_key_ = (
            "fit",
            repr(self.estimator.get_params()),
            _digest(X),
            _digest(y),
            _digest(sample_weight),
        )
        self.fitted_ = recall(self.fit_key_, make)
        self.classes_ = self.fitted_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self._ask("predict_proba", X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        return self._ask("decision_function", X)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _ask(self, what: str, X: Any) -> np.ndarray:
        if _current.get() is None:
            return getattr(self.fitted_, what)(X)
        key = (what, self.fit_key_, _digest(X))
        return recall(key, lambda: getattr(self.fitted_, what)(X), limit=MAX_PREDICTIONS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


class SilhouettePartition:
    """The paper's partition as a clusterer, so that the methods that use it can be given one and the same."""

    def __init__(self, *, random_state: int, **options: Any):
        self.random_state = random_state
        self.options = options

    def fit(self, X: np.ndarray) -> SilhouettePartition:
        self.encoder_ = FeatureEncoder().fit(X)
        matrix, weight = self.encoder_.transform(X), np.ones(len(X))
        self.partition_, self.scores_ = silhouette_partition(
            Space().fit(matrix, weight, self.encoder_.is_category),
            matrix,
            weight,
            random_state=self.random_state,
            **self.options,
        )
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.partition_.predict(plain_rows(X, self.encoder_))


def plain_rows(X: Any, encoder: FeatureEncoder) -> Rows:
    """Rows without groups or weights, as partitions take them."""
    matrix = encoder.transform(X)
    nothing = np.zeros(len(matrix), np.int64)
    return Rows(X, matrix, nothing, np.ones(len(matrix)), nothing.astype(np.uint64))


def _digest(values: Any) -> str:
    if values is None:
        return ""
    array = np.ascontiguousarray(values)
    head = f"{array.dtype}{array.shape}".encode()
    return hashlib.blake2b(array.view(np.uint8).reshape(-1).data, digest_size=16, key=head[:64]).hexdigest()
