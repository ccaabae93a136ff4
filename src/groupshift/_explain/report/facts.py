"""What the report shows of a fitted model: groups of the population, cells, hidden labels."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._explain.diagnostics import Diagnosis
from groupshift._explain.share_tables import cell_shares, group_level_shares, labeled_sample, overall_shares

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Keep the page under 5 MB: a few hundred bytes for each group, some thirty for each cell.
MAX_GROUPS = 6_000
MAX_CELLS = 48_000
LONGEST_NAME = 120
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
    def of(cls, model: Any) -> "Names":
        """From the frame or series that the model was fitted on."""
        known = getattr(model, "role_names_", {})
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
class Facts:
    """A fitted model as the report reads it.

    Attributes
    ----------
    groups : dict of name, rows, share, low, high, sample_share, sample_rows
        The groups of the population, the largest ones where there are too many for a page.
    cells : dict of name, shift, share, low, high, rows, borrowed
        One line for each group of the map; arrays of shape (n_groups, n_clusters).
    hidden : dict of name, rows, gain, share, mean_global, mean_model, auc_global, auc_model
        Labelled groups whose labels were hidden; empty where nothing could be hidden.
    """

    model: Any
    diagnosis: Diagnosis
    coverage: float
    groups: dict[str, Any]
    cells: dict[str, Any]
    hidden: dict[str, Any] = field(default_factory=dict)
    names: Names = Names()

    @classmethod
    def of(
        cls, model: Any, diagnosis: Diagnosis, *, coverage: float = 0.9, names: Names | None = None
    ) -> "Facts":
        return cls(
            model,
            diagnosis,
            coverage,
            _groups(model, coverage),
            _cells(model, coverage),
            _hidden(diagnosis),
            Names.of(model) if names is None else names,
        )

    @property
    def n_groups(self) -> int:
        return len(self.model.groups_)

    @property
    def n_clusters(self) -> int:
        return int(self.model.n_clusters_)

    @property
    def has_population(self) -> bool:
        return self.n_groups > 0

    @property
    def shifted(self) -> bool:
        """Whether any probability differs from the plain classifier's."""
        return bool(np.any(self.model.shift_))

    @property
    def overall(self) -> float:
        """Share of positives of the whole population, over all groups and clusters."""
        return overall_shares(self.model)[1]

    @property
    def labeled_overall(self) -> float:
        """Share of positives of the labelled sample."""
        return overall_shares(self.model)[0]


def shown_names(values: Any) -> list[str]:
    """Names of groups as text of readable length; what UTF-8 cannot write is replaced.

    >>> shown_names(np.array(["Oslo", None, 7], dtype=object))
    ['Oslo', '(missing)', '7']
    """
    names = []
    for value in np.asarray(values).tolist():
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


def _kept(values: Any, digits: int = 6) -> NDArray:
    """Numbers as the page's data keeps them, rounded once: figure and table agree to the last digit."""
    return np.round(np.asarray(values), digits)


def _groups(model: Any, coverage: float) -> dict[str, Any]:
    table = group_level_shares(model, coverage)
    shown = largest(table["rows"], MAX_GROUPS)
    groups: dict[str, Any] = {name: _kept(table[name][shown]) for name in ("rows", "share", "low", "high")}
    groups["name"] = shown_names(model.groups_[shown])
    share, rows = labeled_sample(model)
    groups["sample_share"], groups["sample_rows"] = _kept(share[shown]), rows[shown]
    return groups


def _cells(model: Any, coverage: float) -> dict[str, Any]:
    shown = largest(model.rows_.sum(1), max(MAX_CELLS // max(model.n_clusters_, 1), 1))
    table = cell_shares(model, coverage)
    share, low, high = (table[name].reshape(model.shift_.shape)[shown] for name in ("share", "low", "high"))
    return {
        "name": shown_names(model.groups_[shown]),
        "shift": _kept(model.shift_[shown], 3),
        "share": share,
        "low": low,
        "high": high,
        "rows": model.rows_[shown],
        "borrowed": (model.pooling_[shown] > BORROWED) & (model.shift_variance_[shown] > 0),
    }


def _hidden(diagnosis: Diagnosis) -> dict[str, Any]:
    table = diagnosis.hidden_labels
    if len(table["group"]) < 2:
        return {}
    shown = largest(table["rows"], MAX_GROUPS)
    hidden: dict[str, Any] = {name: np.asarray(values)[shown] for name, values in table.items()}
    hidden["name"] = shown_names(hidden["group"])
    hidden["gain"] = _kept(hidden["loss_global"] - hidden["loss_model"])
    return hidden
