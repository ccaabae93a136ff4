"""A fitted model as its explanations read it: settings, what a fit ends in, and what is read from it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from groupshift._audit.found import AuditFound
from groupshift._data.encoder import FeatureEncoder
from groupshift._data.frames import Features
from groupshift._data.reading import Schema
from groupshift._data.rows import Rows
from groupshift._diagnosis.evidence_parts import Evidence
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.points import Points
from groupshift._shifts.common import CommonShift
from groupshift._shifts.estimate import Estimate, Learned
from groupshift._shifts.scorer import AnyScorer

if TYPE_CHECKING:
    from groupshift._diagnosis.diagnostics import Diagnosis


def _read(part: str, name: str) -> Any:
    """A fitted attribute that is read from one of the values that a fit ends in."""
    return property(lambda model: getattr(getattr(model, part), name))


class FittedModel:
    """Attributes that end in an underscore are not there before `fit`; n_groups are those of the population."""

    # Settings that explanations speak of
    partition: object
    shares: str | None
    shrinkage: str
    selection: str

    # What a fit ends in, assigned together. Everything else is read from them. With more than two classes they are
    # a ClassLearned, a ClassEstimate and a ClassEvidence (`ClassModel`), and arrays below have a last axis for the classes.
    schema_: Schema
    learned_: Learned
    estimate_: Estimate
    evidence_: Evidence
    candidates_: dict[str, ValueArray] | None
    notes_: list[str]
    audit_: AuditFound | None

    classes_: ValueArray = _read("schema_", "classes")
    is_multiclass_: bool = _read("schema_", "is_multiclass")
    encoder_: FeatureEncoder = _read("schema_", "encoder")
    has_groups_: bool = _read("schema_", "has_groups")
    frame_library_: str | None = _read("schema_", "library")
    role_names_: dict[str, str | None] = _read("schema_", "role_names")

    # Arrays (n_clusters,)
    n_clusters_: int = _read("learned_", "n_clusters")
    labeled_groups_: ValueArray = _read("learned_", "labeled_groups")
    labeled_prior_: FloatArray = _read("learned_", "labeled_prior")
    labeled_rows_: IntArray = _read("learned_", "labeled_rows")

    # Arrays (n_groups, n_clusters), but for those of unseen groups, which have a number for each cluster
    groups_: ValueArray = _read("estimate_", "groups")
    rows_: IntArray = _read("estimate_", "rows")
    row_weight_: FloatArray = _read("estimate_", "row_weight")
    shift_: FloatArray = _read("estimate_", "shift")
    shift_variance_: FloatArray = _read("estimate_", "variance")
    shared_deviation_: FloatArray = _read("estimate_", "shared_deviation")
    pooling_: FloatArray = _read("estimate_", "pooling")
    group_prior_: FloatArray = _read("estimate_", "share")
    share_error_: FloatArray = _read("estimate_", "share_error")
    unseen_shift_: FloatArray = _read("estimate_", "unseen_shift")
    unseen_variance_: FloatArray = _read("estimate_", "unseen_variance")
    tally_: Points | None = _read("estimate_", "points")
    known_groups_: ValueArray = _read("estimate_", "known_groups")
    known_overall_: tuple[float, float] | None = _read("estimate_", "known_overall")
    common_variance_: FloatArray | float = _read("estimate_", "common_variance")
    unidentified_: float = _read("estimate_", "unidentified")
    share_slope_: FloatArray = _read("estimate_", "slope")
    random_labels_: float = _read("estimate_", "random_labels")
    common_shift_: CommonShift = _read("estimate_", "common")

    if TYPE_CHECKING:
        # What the estimator brings.
        def _predicted(
            self,
            X: Features,
            groups: ArrayLike | None,
            answer: Callable[[AnyScorer, Rows], dict[str, FloatArray]],
        ) -> list[dict[str, FloatArray]]: ...
        def get_params(self, deep: bool = True) -> dict[str, object]: ...
        def diagnose(self) -> "Diagnosis": ...
