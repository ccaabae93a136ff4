"""What the report shows of a fitted model: groups of the population, cells, hidden labels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from groupshift._diagnosis.diagnostics import Diagnosis
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.share_errors import overall_share
from groupshift._diagnosis.share_tables import (
    ShareInterval,
    cell_shares,
    group_level_shares,
    labeled_sample,
    overall_shares,
)
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray

# Keep the page under 5 MB: a few hundred bytes for each group, some thirty for each cell.
MAX_GROUPS = 6_000
MAX_CELLS = 48_000
LONGEST_NAME = 120
COVERAGE = 0.9
# A cell leans on pooling where more than half of its shift is borrowed, as in `predict_details`.
BORROWED = 0.5


@dataclass(frozen=True)
class Names:
    """What users call the columns, and the positive class; None where nobody said.

    >>> Names(target="late", positive="1", group="dest").title()
    'Share of late = 1 by dest'
    """

    target: str | None = None
    positive: str | None = None
    group: str | None = None

    @classmethod
    def of(cls, model: FittedModel) -> "Names":
        """From the frame or series that the model was fitted on."""
        known = model.role_names_
        return cls(known.get("target"), str(model.classes_[-1]), known.get("group"))

    @property
    def positives(self) -> str:
        """The rows that are counted."""
        return "positives" if self.target is None else f"{self.target} = {self.positive}"

    def title(self) -> str | None:
        """What the report is about, where columns have names."""
        if self.target is None and self.group is None:
            return None
        return f"Share of {self.positives}" + (f" by {self.group}" if self.group is not None else "")


@dataclass(frozen=True)
class GroupLines:
    """The groups of the population, the largest ones where there are too many for a page: arrays (n_groups,)."""

    name: list[str]
    rows: IntArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    sample_share: FloatArray
    sample_rows: IntArray


@dataclass(frozen=True)
class CellLines:
    """One line for each group of the map: arrays (n_groups, n_clusters)."""

    name: list[str]
    rows: IntArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    shift: FloatArray
    borrowed: BoolArray

    @property
    def any_empty(self) -> bool:
        return bool((self.rows == 0).any())

    @property
    def any_borrowed(self) -> bool:
        return bool((self.borrowed & (self.rows > 0)).any())


@dataclass(frozen=True)
class HiddenLines:
    """Labelled groups whose labels were hidden: arrays (n_groups,)."""

    name: list[str]
    rows: IntArray
    gain: FloatArray
    share: FloatArray
    loss_model: FloatArray
    auc_global: FloatArray
    auc_model: FloatArray
    mean_global: FloatArray
    mean_model: FloatArray


@dataclass(frozen=True)
class Facts:
    """A fitted model as the report reads it."""

    model: FittedModel
    diagnosis: Diagnosis
    names: Names

    @classmethod
    def of(cls, model: FittedModel, diagnosis: Diagnosis, names: Names | None = None) -> "Facts":
        return cls(model, diagnosis, Names.of(model) if names is None else names)

    @property
    def n_groups(self) -> int:
        return len(self.model.groups_)

    @property
    def n_clusters(self) -> int:
        return self.model.n_clusters_

    @property
    def has_population(self) -> bool:
        return self.n_groups > 0

    @property
    def shifted(self) -> bool:
        """Whether any probability differs from the plain classifier's."""
        return bool(np.any(self.model.shift_))

    @property
    def any_gain(self) -> bool:
        """Whether any labelled group is better or worse off than with the plain classifier."""
        return self.hidden is not None and bool(np.any(self.hidden.gain))

    @cached_property
    def overall(self) -> ShareInterval:
        """Share of positives of the whole population, over all groups and clusters."""
        return overall_share(self.model, COVERAGE)

    @property
    def labeled_overall(self) -> float:
        """Share of positives of the labelled sample."""
        return overall_shares(self.model)[0]

    @cached_property
    def groups(self) -> GroupLines:
        table = group_level_shares(self.model, COVERAGE)
        shown = largest(table["rows"], MAX_GROUPS)
        share, low, high = (_kept(table[name][shown]) for name in ("share", "low", "high"))
        sample_share, sample_rows = labeled_sample(self.model)
        sample = _kept(sample_share[shown]), sample_rows[shown]
        name, rows = shown_names(self.model.groups_[shown]), table["rows"][shown]
        return GroupLines(name, rows, share, low, high, *sample)

    @cached_property
    def cells(self) -> CellLines:
        model = self.model
        shown = largest(model.rows_.sum(1), max(MAX_CELLS // max(model.n_clusters_, 1), 1))
        table, shape = cell_shares(model, COVERAGE), model.shift_.shape
        share, low, high = (table[name].reshape(shape)[shown] for name in ("share", "low", "high"))
        borrowed = (model.pooling_[shown] > BORROWED) & (model.shift_variance_[shown] > 0)
        name, shift = shown_names(model.groups_[shown]), _kept(model.shift_[shown], 3)
        return CellLines(name, model.rows_[shown], share, low, high, shift, borrowed)

    @cached_property
    def hidden(self) -> HiddenLines | None:
        """None where no group's labels could be hidden."""
        table = self.diagnosis.hidden_labels
        if len(table["group"]) < 2:
            return None
        shown = largest(table["rows"], MAX_GROUPS)
        kept = {name: table[name][shown] for name in HiddenLines.__dataclass_fields__ if name in table}
        gain = _kept((table["loss_global"] - table["loss_model"])[shown])
        return HiddenLines(name=shown_names(table["group"][shown]), gain=gain, **kept)


def shown_names(values: ValueArray) -> list[str]:
    """Names of groups as text of readable length; what UTF-8 cannot write is replaced.

    >>> shown_names(np.array(["Oslo", None, 7], dtype=object))
    ['Oslo', '(missing)', '7']
    """
    names = []
    for value in values.tolist():
        missing = value is None or value != value
        name = "(missing)" if missing else str(value).encode("utf-8", "replace").decode("utf-8")
        name = " ".join(name.split()) or "(empty)"
        names.append(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…")
    return names


def largest(rows: IntArray, most: int) -> IntArray:
    """Numbers of the `most` groups with most rows, in their order.

    >>> largest(np.array([5, 1, 9]), 2).tolist()
    [0, 2]
    """
    if len(rows) <= most:
        return np.arange(len(rows))
    return np.sort(np.argsort(-rows, kind="stable")[:most])


def _kept(values: FloatArray, digits: int = 6) -> FloatArray:
    """Numbers as the page's data keeps them, rounded once: figure and table agree to the last digit."""
    return np.round(values, digits)
