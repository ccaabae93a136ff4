"""What explanations read of a fitted model; n_groups are those of the population."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from numpy.typing import ArrayLike

from groupshift._audit.found import AuditFound
from groupshift._explain.evidence_parts import Column, Evidence, FloatArray, IntArray, Table
from groupshift._fit.scorer import Scorer
from groupshift._fit.view_shifts import ViewUse
from groupshift._math.context import Context
from groupshift._math.points import Points
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.frames import Features
from groupshift._rows.rows import Rows

if TYPE_CHECKING:
    from groupshift._explain.diagnostics import Diagnosis


class FittedModel(Protocol):
    """A fitted GroupShiftClassifier, as far as its explanations look at it."""

    # Settings
    partition: object
    shares: str | None
    shrinkage: str
    trust: str | float
    selection: str
    # Names and numbers of what it was fitted on
    classes_: Column
    encoder_: FeatureEncoder
    frame_library_: str | None
    role_names_: Mapping[str, str | None]
    has_groups_: bool
    is_multiclass_: bool
    labeled_groups_: Column
    groups_: Column
    known_groups_: Column
    known_overall_: tuple[float, float] | None
    # What it learned from labelled rows
    n_clusters_: int
    labeled_prior_: FloatArray  # (n_clusters,)
    labeled_rows_: IntArray  # (n_clusters,)
    rarer_class_rows_: FloatArray  # (n_clusters,)
    trust_: float
    left_out_: tuple[str, ...]
    context_: Context | None
    candidates_: Table | None
    notes_: Sequence[str]
    evidence_: Evidence
    # What it estimated from the population: arrays (n_groups, n_clusters)
    tally_: Points | None
    rows_: IntArray
    row_weight_: FloatArray
    group_prior_: FloatArray
    share_error_: FloatArray
    shift_: FloatArray
    shift_variance_: FloatArray
    shared_deviation_: FloatArray
    pooling_: FloatArray
    view_use_: ViewUse | None
    # What an audit found; None before one
    audit_: AuditFound | None
    common_variance_: FloatArray | float  # (n_clusters,)
    unidentified_: float

    def _predicted(
        self, X: Features, groups: ArrayLike | None, answer: Callable[[Scorer, Rows], dict[str, FloatArray]]
    ) -> list[dict[str, FloatArray]]: ...

    def get_params(self, deep: bool = True) -> dict[str, object]: ...

    def diagnose(self) -> "Diagnosis": ...
