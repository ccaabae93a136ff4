"""Which rows to label: a weighted sample in an order, with tickets that its labels come back by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from groupshift._audit.betting import Bounds
from groupshift._audit.census import Census
from groupshift._audit.common_shift import GRID
from groupshift._audit.purchases import purchases
from groupshift._audit.race import chances, inclusion, race_times
from groupshift._audit.state import State
from groupshift._audit.tickets import Asked, Design, finished, order_uniform, write_tickets
from groupshift._data.frames import Features, frame_like
from groupshift._data.keys import Seeds
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._shifts.estimate import Estimate

# Rows below the ones to label, for those that cannot be labelled: a fifth as many, and a handful at least.
SPARE_PART, FEWEST_SPARE = 0.2, 5
# Columns of a table of labels.
ROW, LABEL, TICKET = "row", "label", "ticket"


@dataclass(frozen=True)
class AuditPlan:
    """Rows to label, in this order, as `GroupShiftClassifier.audit` draws them.

    Attributes
    ----------
    rows : array of shape (budget,)
        Numbers of the rows to label, counted from 0 in the population.
    spares : array
        Rows to take instead, in this order, of those that cannot be labelled.
    inclusion : array of shape (budget,)
        Probability of each of `rows` to be in the sample.
    purchases : dict of arrays
        labels, width (expected, of the 90 % interval of the overall share after so many labels), smallest_error (of the overall
        share, that is found out four times in five).
    notes : tuple of str
    """

    design: Design = field(repr=False)
    asked: Asked = field(repr=False)
    purchases: dict[str, ValueArray]
    notes: tuple[str, ...] = ()
    library: str | None = field(default=None, repr=False)

    @property
    def rows(self) -> IntArray:
        return self.asked.row[: self.design.budget]

    @property
    def spares(self) -> IntArray:
        return self.asked.row[self.design.budget :]

    @property
    def inclusion(self) -> FloatArray:
        budget = self.design.budget
        times = finished(self.asked, self.design)
        following = times[budget] if len(times) > budget else self.design.threshold
        return inclusion(self.asked.chance[:budget], float(following))

    def columns(self) -> dict[str, ValueArray]:
        """row, an empty label, ticket: what a file of rows to label has, spares included."""
        tickets = write_tickets(self.design, self.asked)
        label = np.full(len(tickets), None, object)
        return {ROW: self.asked.row, LABEL: label, TICKET: np.array(tickets, object)}

    def table(self) -> Features:
        """The rows to label, then the spares, as a frame of the library that the model was fitted on, or a dict of arrays."""
        return frame_like(self.columns(), self.library)

    def labeled(self, labels: Mapping[int, object] | Sequence[object]) -> Features:
        """The table with labels filled in, for `learn_audit`: by row number, or in the order of `rows` (None: no label)."""
        known = labels if isinstance(labels, Mapping) else dict(zip(self.rows.tolist(), labels, strict=False))
        columns = self.columns()
        columns[LABEL] = np.array([known.get(row) for row in self.asked.row.tolist()], object)
        strange = sorted(set(known) - set(self.asked.row.tolist()))
        if strange:
            raise ValueError(
                f"Row {strange[0]} was not asked for ({len(strange)} such labels). Label rows of plan.rows, or its spares in "
                "their order where a row cannot be labelled."
            )
        return frame_like(columns, self.library)


def draw_plan(
    census: Census, estimate: Estimate, state: State, *, budget: int, seed: int, library: str | None
) -> AuditPlan:
    """The plan for a population."""
    chance = chances_of(census, estimate, state)
    design, asked = draw(census, state, chance, budget=budget, seed=seed)
    rng = Seeds(seed).generator("audit purchases")
    bought = purchases(census, chance, design, state.prior, rng)
    return AuditPlan(design, asked, bought, tuple(_notes(census, estimate)), library)


def chances_of(census: Census, estimate: Estimate, state: State) -> FloatArray:
    """Chances of rows; a coarser grid of common shifts is as good."""
    few = slice(None, None, 4)
    mass = state.prior.mass[few] / state.prior.mass[few].sum()
    variance = np.append(state.own, estimate.unseen_variance.mean())[census.group]
    return chances(census.log_odds, census.weight, variance, GRID[few], mass)


def draw(census: Census, state: State, chance: FloatArray, *, budget: int, seed: int) -> tuple[Design, Asked]:
    """The sample: rows to label and spares, in their order."""
    budget = check_budget(budget, len(census))
    n_listed = min(budget + max(int(SPARE_PART * budget), FEWEST_SPARE), len(census))
    times = race_times(order_uniform(np.arange(len(census)), seed), chance)
    first = np.argpartition(times, n_listed - 1)[:n_listed]
    first = first[np.argsort(times[first])]
    part = census.part
    design = Design(
        model=state.mark,
        population=census.population,
        n_rows=len(census),
        budget=budget,
        n_listed=n_listed,
        seed=seed,
        bounds=_bounds(expit(census.log_odds), part, chance),
        threshold=float(np.delete(times, first).min(initial=np.inf)),
        curve=census.curve(),
    )
    columns = (first, np.arange(n_listed), census.log_odds[first], part[first], chance[first])
    return design, Asked(*columns, census.group[first], census.cluster[first])


def check_budget(budget: int, n_rows: int) -> int:
    """A number of labels that the population has rows for."""
    if budget != int(budget) or budget < 2:
        raise ValueError(f"budget={budget!r} is no number of labels. Pass a whole number, 2 or more.")
    if budget > n_rows:
        raise ValueError(
            f"budget={budget} asks for more labels than the population has rows ({n_rows}). Pass {n_rows} or fewer."
        )
    return int(budget)


def _bounds(p: FloatArray, part: FloatArray, chance: FloatArray) -> Bounds:
    ratio = part / chance
    return Bounds(
        low=float((ratio * p).max()),
        high=float((ratio * (1 - p)).max()),
        spread=float(np.sqrt((part * ratio * p * (1 - p)).sum())),
    )


def _notes(census: Census, estimate: Estimate) -> list[str]:
    """What users should know about the population that they gave."""
    # Shares are of the rows that weigh something.
    own = census.group[(census.group >= 0) & (census.weight > 0)]
    rows = np.bincount(own, minlength=len(estimate.groups))
    if np.array_equal(rows, estimate.rows.sum(1)):
        return []
    return [
        f"These {len(census):,} rows are not the ones that the model's shares are of ({estimate.rows.sum():,} rows): the audit "
        "speaks of the rows given here. To have both speak of the same rows, update the model with them first."
    ]
