"""What is said of the common shift, in every place: were labels of a class likelier in all groups alike, and what settles it?"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.wording import percent

# A common shift of which it is worth to speak: a tenth of the odds.
WORTH_SAYING = 0.1
# A probability from which on the features are said to agree; what is used is the posterior mean, whatever is said.
LIKELY = 0.5
Code: TypeAlias = Literal["audit", "rate", "random", "by_label", "features", "open"]
# What the user's setting says of it.
SELECTIONS: dict[str, Code] = {"unknown": "open", "random": "random", "by_label": "by_label"}


@dataclass(frozen=True)
class CommonShift:
    """What is known of the common shift.

    Attributes
    ----------
    code : str
        "audit", "rate": the labels of an audit, or a known rate of the population, settle it. "random", "by_label": the user
        says how labels were chosen. "features": they agree that it was by the label. "open": nothing tells.
    used : float
        The common shift in use, in log-odds.
    part : float
        How much of what scores say of all groups together is used, 0 to 1.
    unused : float
        The rest of it, in log-odds; 0 where there is none that one could ask for.
    probability : float
        That features agree.
    rate : str
        The known rate of the population.
    n_known, n_groups : int
        Groups whose rates are known, and all.
    n_classes : int
    """

    code: Code
    used: float = 0.0
    part: float = 0.0
    unused: float = 0.0
    probability: float = np.nan
    rate: str = ""
    n_known: int = 0
    n_groups: int = 0
    n_classes: int = 2

    @property
    def is_settled(self) -> bool:
        """Whether something beyond the labelled sample decides it."""
        return self.code in ("audit", "rate")


def common_shift(model: FittedModel) -> CommonShift:
    """The one place that asks a fitted model of two classes."""
    found = partial(CommonShift, n_known=len(model.known_groups_), n_groups=len(model.groups_))
    if model.audit_ is not None:
        return found("audit")
    if model.known_overall_ is not None:
        share, error = model.known_overall_
        rate = f"{percent(share)} ± {percent(error)}" if error else percent(share)
        return found("rate", rate=rate)
    common, face = model.common_shift_, float(model.estimate_.face_value[0])
    used, probability = float(common.mean[0]), common.probability
    unused = face if abs(face) >= WORTH_SAYING else 0.0
    part = float(np.clip(used / (used + face), 0, 1)) if abs(used + face) >= WORTH_SAYING else 0.0
    if model.selection == "unknown" and probability >= LIKELY and abs(used) >= WORTH_SAYING:
        return found("features", used, part, unused, probability)
    return found(SELECTIONS[model.selection], used, part, unused)


def common_shift_of_classes(model: ClassModel) -> CommonShift:
    """The one place that asks a fitted model of more classes."""
    n_classes, known = len(model.classes_), model.known_overall_
    is_known = known is not None and len(known) >= n_classes - 1
    return CommonShift(
        "rate" if is_known else SELECTIONS[str(model.get_params()["selection"])],
        n_known=len(model.known_groups_),
        n_groups=len(model.groups_),
        n_classes=n_classes,
    )


def statement(found: CommonShift) -> str:
    """Who knows of a common shift, and what is done about it, in a sentence."""
    if found.code == "audit":
        return "The labels of the audit settle what all groups have in common."
    if found.code == "rate":
        known = f"rate of the population, {found.rate}," if found.rate else "shares of the population"
        return f"The known {known} settle{'s' if found.rate else ''} what all groups have in common."
    if found.code == "features":
        way = "over" if found.used < 0 else "under"
        return (
            f"The features agree ({percent(found.probability, 0)}) that positives were {way}-represented among labels in "
            "every group; the estimates include this correction."
        )
    if found.code == "random":
        return (
            "You said that labels are a random sample of each group, so no shift that all groups have in common is used; no "
            "labelled row can check this."
        )
    if found.code == "by_label":
        return (
            "You said that labels were chosen by the label: what scores say of all groups together is used as far as it exceeds "
            "what they are off by in single groups."
        )
    whose = "positives were" if found.n_classes == 2 else "one class was"
    return f"If {whose} over-represented by the same factor in every group, labelled data cannot reveal it."


def if_selected(
    found: CommonShift, share: float, if_half: float, if_twice: float, name: str = "positive"
) -> str:
    """What the share of the population would be under other labelling, in a sentence."""
    whose = "positives were" if found.n_classes == 2 else f"{name} was"
    beyond = " beyond this correction" if found.code in ("features", "by_label") else ""
    return (
        f"If {whose} twice as likely to be labelled{beyond}, {percent(if_twice)} of the population would be {name} instead "
        f"of {percent(share)}; if half as likely, {percent(if_half)}."
    )


def face_value(found: CommonShift, share: float) -> str:
    """What the share would be if all were used that scores say of all groups together."""
    used = f"{percent(found.part, 0) if found.part >= 0.005 else 'none'} of this shift is used"
    why = "" if found.code == "by_label" else "Selection on features would look the same, so "
    return f"Trusting the scores fully would give {percent(share)}. {why}{used}."


def remedy(found: CommonShift) -> str:
    """What would settle it."""
    if found.n_known:
        return (
            f"Known shares settle it for {found.n_known:,} of {found.n_groups:,} groups. The others follow as far as these "
            "agree."
        )
    audit = "; or label a random sample of its rows (`audit` says which)" if found.n_classes == 2 else ""
    return (
        f"To settle this, give the rate of the population or, as known shares, those of some groups{audit}."
    )
