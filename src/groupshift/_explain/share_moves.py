"""What moved between two tables of shares: before and after an update, in numbers and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groupshift._explain.evidence_parts import FloatArray, Table
from groupshift._explain.fitted_model import FittedModel
from groupshift._explain.share_tables import group_level_shares, overall_shares
from groupshift._explain.wording import percent, plural

COVERAGE = 0.9
# Groups that a sentence names.
NAMED = 3


@dataclass(frozen=True)
class ShareState:
    """Shares of a model at one time: of all groups together, and of each with its interval."""

    overall: float
    groups: Table

    @classmethod
    def of(cls, model: FittedModel) -> ShareState:
        return cls(overall_shares(model)[1], group_level_shares(model, COVERAGE))


@dataclass(frozen=True)
class Moved:
    """Shares before and after, of the groups that have one after; NaN before for those that are new.

    `outside` marks groups whose new share lies outside their old interval.
    """

    overall: tuple[float, float]
    group: Sequence[str]
    before: FloatArray
    after: FloatArray
    outside: NDArray[np.bool_]

    @classmethod
    def between(cls, before: ShareState, after: ShareState) -> Moved:
        places = {name: place for place, name in enumerate(before.groups["group"].tolist())}
        names = after.groups["group"].tolist()
        at = np.array([places.get(name, -1) for name in names], np.int64)

        def earlier(column: str) -> FloatArray:
            # The last place is for groups that are new.
            return np.append(before.groups[column].astype(float), np.nan)[at]

        share = after.groups["share"]
        outside = (share < earlier("low")) | (share > earlier("high"))
        overall = before.overall, after.overall
        return cls(overall, [str(name) for name in names], earlier("share"), share, outside)

    @property
    def sentences(self) -> list[str]:
        """What moved: all together, the groups that moved most, and those that moved beyond what was thought likely."""
        if not np.isfinite(self.before).any():
            return []
        before, after = map(percent, self.overall)
        found = [f"All groups together: {before} positive before, {after} now."]
        change = np.nan_to_num(np.abs(self.after - self.before))
        most = np.argsort(-change, kind="stable")[:NAMED]
        if named := [self._one(g) for g in most.tolist() if change[g] >= 0.0005]:
            found.append(f"Moved most: {'; '.join(named)}.")
        beyond = int(self.outside.sum())
        known = int(np.isfinite(self.before).sum())
        found.append(
            f"{plural(beyond, 'group')} of {known:,} moved out of {'its' if beyond == 1 else 'their'} earlier "
            f"{percent(COVERAGE, 0)} interval."
            if beyond
            else f"No group moved out of its earlier {percent(COVERAGE, 0)} interval."
        )
        return found

    def _one(self, g: int) -> str:
        return f"{self.group[g]!r} from {percent(self.before[g])} to {percent(self.after[g])}"
