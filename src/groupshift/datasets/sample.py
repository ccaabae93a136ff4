"""What generators and splitters return: rows to fit on, rows to test on, and the truth about both."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from groupshift.datasets.containers import Table, frame_of, is_frame, n_rows, named_columns, take_rows


class Partition(Protocol):
    """Anything that knows the cluster of a row."""

    def predict(self, X: Table) -> np.ndarray: ...


class FitRows(NamedTuple):
    """What a method may see: `model.fit(X, y, groups=groups, example_ids=example_ids)`."""

    X: Table
    y: np.ndarray
    groups: np.ndarray
    example_ids: np.ndarray | None


class JudgedRows(NamedTuple):
    """What a method is judged on: its prediction for (X, groups) against `truth`."""

    X: Table
    truth: np.ndarray
    groups: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedSample:
    """A biased labelled sample and an unlabelled population, by group, with everything known about them.

    Parameters
    ----------
    X : array, frame or dict of columns
        Features, one row per example copy.
    y : int array
        0 or 1 where labelled, -1 where not.
    groups : array
        Group of each row.
    truth : int array
        The real label of every row, labelled or not.
    test : bool array
        Unlabelled rows on which methods are judged.
    example_ids : int array, optional
        Rows with one id are the same example (or household): every split must keep them together.
    sample_weight : array, optional
        Survey weights.
    cluster : int array, optional
        Cluster that generated each row.
    partition : object with `predict`, optional
        Gives the generating cluster of any row, for the oracle.
    posterior : array, optional
        The Bayes posterior p(y=1 | x, g) of each row under the shares of its own sample: the limit for
        every method.
    shares, labeled_shares : array (group, cluster), optional
        Share of positives α[g, k] in the unlabelled and in the labelled sample; NaN where a cell is empty.
        Without clusters there is one column, the whole group.
    cluster_weights, labeled_cluster_weights : array (group, cluster), optional
        Share γ[g, k] of the group's rows that lie in the cluster.
    group_names : array, optional
        Order of the groups in these tables.
    name : str
        For reports.

    Examples
    --------
    >>> sample = GroupedSample(
    ...     X=np.array([[0.1], [0.2], [0.3], [0.4]]), y=np.array([1, 0, -1, -1]),
    ...     groups=np.array(list("aabb")), truth=np.array([1, 0, 0, 1]),
    ...     test=np.array([False, False, False, True]),
    ... )
    >>> sample.training().y
    array([ 1,  0, -1])
    >>> sample.testing().truth
    array([1])
    """

    X: Table
    y: np.ndarray
    groups: np.ndarray
    truth: np.ndarray
    test: np.ndarray
    example_ids: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
    cluster: np.ndarray | None = None
    partition: Partition | None = None
    posterior: np.ndarray | None = None
    shares: np.ndarray | None = None
    labeled_shares: np.ndarray | None = None
    cluster_weights: np.ndarray | None = None
    labeled_cluster_weights: np.ndarray | None = None
    group_names: np.ndarray | None = None
    name: str = ""

    _PER_ROW: ClassVar = (
        *("X", "y", "groups", "truth", "test"),
        *("example_ids", "sample_weight", "cluster", "posterior"),
    )

    def __post_init__(self) -> None:
        for field in self._PER_ROW:
            value = getattr(self, field)
            if value is not None and n_rows(value) != len(self.y):
                raise ValueError(
                    f"{field} has {n_rows(value)} rows and y has {len(self.y)}: every per-row field needs "
                    f"one entry for each row."
                )
        if np.any(self.test & (self.y >= 0)):
            raise ValueError(
                f"{np.sum(self.test & (self.y >= 0))} test rows carry a label in y. Test rows are "
                f"unlabelled: set their y to -1 and keep the label in truth."
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def labeled(self) -> np.ndarray:
        """Mask of the labelled rows."""
        return self.y >= 0

    @property
    def fit_rows(self) -> np.ndarray:
        """Mask of the rows that a method may see: all but the test rows."""
        return ~self.test

    def training(self) -> FitRows:
        """Rows for `fit`: (X, y, groups, example_ids)."""
        part = self.take(self.fit_rows)
        return FitRows(part.X, part.y, part.groups, part.example_ids)

    def testing(self) -> JudgedRows:
        """Rows to judge on: (X, truth, groups)."""
        return JudgedRows(take_rows(self.X, self.test), self.truth[self.test], self.groups[self.test])

    def take(self, rows: np.ndarray) -> "GroupedSample":
        """The same sample with only these rows (positions or mask); tables by group stay whole."""
        changed = {f: getattr(self, f) for f in self._PER_ROW if getattr(self, f) is not None}
        return replace(self, **{field: take_rows(value, rows) for field, value in changed.items()})

    def to_table(self, *, group: str = "group", label: str = "label", backend: str | None = None) -> Table:
        """One table as a user would hold it: features, the group, and the label where it is known.

        A frame stays a frame of its library. Arrays and dicts become `backend` ("pandas", "polars"), or a
        dict of columns. An unknown label is null in a frame and NaN in a dict.
        """
        if is_frame(self.X) and backend is None:
            backend = type(self.X).__module__.split(".")[0]
        label_column = np.where(self.labeled, self.y, np.nan)
        columns = {group: np.asarray(self.groups), **named_columns(self.X), label: label_column}
        return frame_of(columns, backend=backend)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabeledTable:
    """A fully labelled real data set with groups, ready for `bias_groups`.

    `feature_names` are the columns of `X` in order, `categorical` those that hold codes rather than
    amounts. Loaders that cannot find a published feature list it in `missing`, and what they used instead
    in `stand_ins`.

    Examples
    --------
    >>> table = LabeledTable(X=np.zeros((2, 1)), y=np.array([0, 1]), groups=np.array(["a", "b"]), name="tiny")
    >>> len(table), table.name
    (2, 'tiny')
    """

    X: Table
    y: np.ndarray
    groups: np.ndarray
    example_ids: np.ndarray | None = None
    sample_weight: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    stand_ins: dict[str, tuple[str, ...]] | None = None
    name: str = ""

    def __len__(self) -> int:
        return len(self.y)
