"""A fitted model of more than two classes, as what explains it sees it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from groupshift._data.encoder import FeatureEncoder
from groupshift._diagnosis.class_evidence import ClassEvidence
from groupshift._math.arrays import FloatArray, Table, ValueArray
from groupshift._shifts.estimate import Estimate, Learned


class ClassModel(Protocol):
    """Read, never changed."""

    classes_: ValueArray
    encoder_: FeatureEncoder
    frame_library_: str | None
    role_names_: Mapping[str, str | None]
    has_groups_: bool
    labeled_groups_: ValueArray
    groups_: ValueArray
    known_groups_: ValueArray
    known_overall_: FloatArray | None  # see `Estimate`
    n_clusters_: int
    candidates_: Table | None
    notes_: Sequence[str]
    learned_: Learned
    estimate_: Estimate
    evidence_: ClassEvidence

    def get_params(self, deep: bool = True) -> dict[str, object]: ...
