"""What an audit needs to know of a fitted model: its own doubt about shifts, and what it thinks of the common one."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from groupshift._audit.common_shift import CommonPrior
from groupshift._math.arrays import BoolArray, FloatArray
from groupshift._shifts.estimate import UNIDENTIFIED, Estimate

# A group's own shift is never known for sure: this variance moves no share by more than a thousandth.
LEAST_VARIANCE = 1e-4
# How far what scores say of all groups together is off, where it is right at all.
FACE_ERROR = 0.3


@dataclass(frozen=True)
class State:
    """Of one estimate, before the labels of an audit are looked at."""

    mark: bytes  # what tells this estimate from another
    prior: CommonPrior
    common: float  # the variance of what all shifts have in common, as the estimate's variances count it
    own: FloatArray  # (n_groups,): variance of what the shifts of one group have in common besides
    is_known: BoolArray  # (n_groups,): groups whose share the user knows

    @classmethod
    def of(cls, estimate: Estimate, *, is_settled: bool = False) -> "State":
        """`is_settled`: the estimate has learned from an audit already."""
        common = float(np.mean(estimate.common_variance))
        shared = np.minimum(estimate.shared_deviation**2, estimate.variance)
        lowest = shared.min(1, initial=np.inf) if shared.size else np.zeros(len(shared))
        if is_settled or estimate.known_overall is not None:
            prior = CommonPrior.normal(common + estimate.unidentified)
        else:
            prior = CommonPrior.of(UNIDENTIFIED, float(estimate.face_value[0]), FACE_ERROR)
        return cls(
            mark=_mark(estimate),
            prior=prior,
            common=common,
            own=np.maximum(lowest - common, LEAST_VARIANCE),
            is_known=np.isin(estimate.groups, estimate.known_groups),
        )


def _mark(estimate: Estimate) -> bytes:
    """Eight bytes that other groups, shifts or rows would change; shifts to six digits, as any machine computes them."""
    digest = blake2b(digest_size=8)
    digest.update(repr(estimate.groups.tolist()).encode())
    for values in (estimate.shift, estimate.unseen_shift, estimate.row_weight):
        digest.update(np.char.mod("%.6e", values.ravel()).tobytes())
    return digest.digest()
