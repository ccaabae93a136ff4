"""Which rows to label: a weighted sample in an order, and what so many labels would show."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit

from groupshift._audit.betting import LEVEL, terms_of, wealth
from groupshift._audit.common_shift import (
    GRID,
    LabeledSample,
    learn_common_shift,
    mark_of,
    own_variance,
    prior_of,
)
from groupshift._audit.sampling import (
    CURVE,
    KEY,
    LABEL,
    ROW,
    Design,
    SampledRows,
    arrival_times,
    chances,
    inclusion,
    write_keys,
)
from groupshift._data.chunks import map_chunks
from groupshift._data.codes import Codes
from groupshift._data.frames import Features, frame_like
from groupshift._data.keys import content_keys, hash_keys
from groupshift._data.rows import Rows
from groupshift._data.seeds import Seeds
from groupshift._data.unseen import group_numbers
from groupshift._data.workers import workers
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._shifts.estimate import Estimate

# A fitted GroupShiftClassifier: the estimator is above this folder.
Model = Any
# Rows that are scored at a time.
CHUNK = 65_536
# Rows below the ones to label, for those that cannot be labelled: a fifth as many, and a handful at least.
SPARE_PART, FEWEST_SPARE = 0.2, 5
BUDGETS = (25, 50, 100, 200)
# Audits that are simulated for each budget: widths and errors to about a tenth.
SIMULATED_WIDTHS, SIMULATED_ERRORS = 20, 100
POWER = 0.8
COVERAGE = 0.9


@dataclass(frozen=True)
class ScoredPopulation:
    """Rows of a population as an audit looks at them: arrays of shape (n_rows,)."""

    log_odds: FloatArray
    weight: FloatArray
    group: IntArray
    cluster: IntArray
    check: bytes  # what tells this population from another

    def __len__(self) -> int:
        return len(self.log_odds)

    @property
    def part(self) -> FloatArray:
        """Of the whole weight, row by row."""
        part: FloatArray = self.weight / self.weight.sum()
        return part


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
    precision : dict of arrays
        By budget: labels, width (expected, of the 90 % interval of the overall share after so many labels), smallest_error (of
        the overall share, that is found out four times in five).
    notes : tuple of str
    """

    design: Design = field(repr=False)
    sampled: SampledRows = field(repr=False)
    precision: dict[str, ValueArray]
    notes: tuple[str, ...] = ()
    library: str | None = field(default=None, repr=False)

    @property
    def rows(self) -> IntArray:
        return self.sampled.row[: self.design.budget]

    @property
    def spares(self) -> IntArray:
        return self.sampled.row[self.design.budget :]

    @property
    def inclusion(self) -> FloatArray:
        budget, sampled = self.design.budget, self.sampled
        times = arrival_times(sampled.row, sampled.chance, self.design.seed)
        following = times[budget] if len(times) > budget else self.design.threshold
        return inclusion(sampled.chance[:budget], float(following))

    def columns(self) -> dict[str, ValueArray]:
        """row, an empty label, sample_key: what a file of rows to label has, spares included."""
        keys = write_keys(self.design, self.sampled)
        return {ROW: self.sampled.row, LABEL: np.full(len(keys), None, object), KEY: np.array(keys, object)}

    def table(self) -> Features:
        """The rows to label, then the spares, as a frame of the library that the model was fitted on, or a dict of arrays."""
        return frame_like(self.columns(), self.library)

    def labeled(self, labels: Mapping[int, object] | Sequence[object]) -> Features:
        """The table with labels filled in, for `learn_audit`: by row number, or in the order of `rows` (None: no label)."""
        known = labels if isinstance(labels, Mapping) else dict(zip(self.rows.tolist(), labels, strict=False))
        listed = self.sampled.row.tolist()
        if strange := sorted(set(known) - set(listed)):
            raise ValueError(
                f"Row {strange[0]} was not asked for ({len(strange)} such labels). Label rows of plan.rows, or its spares in "
                "their order where a row cannot be labelled."
            )
        return frame_like(
            self.columns() | {LABEL: np.array([known.get(row) for row in listed], object)}, self.library
        )

    def _repr_html_(self) -> str:
        """The budget, and what it and others would show, as a table."""
        columns = (self.precision[name].tolist() for name in ("labels", "width", "smallest_error"))
        lines = "".join(
            f"<tr><td>{n}</td><td>{100 * width:.1f} points</td><td>{100 * error:.1f} points</td></tr>"
            for n, width, error in zip(*columns, strict=True)
        )
        notes = "".join(f"<p>{note}</p>" for note in self.notes)
        return (
            f"<p>{len(self.rows)} rows to label, {len(self.spares)} spare ones.</p><table><tr><th>labels</th><th>width of the "
            f"90 % interval</th><th>smallest error found out</th></tr>{lines}</table>{notes}"
        )


def check_auditable(model: Model) -> None:
    """A model of two classes with a population."""
    if len(model.classes_) > 2:
        raise ValueError(
            f"An audit asks for labels of two classes, and the model has {len(model.classes_)}. Fit a model of one class against "
            "the rest, y == that_class (on the command line: --positive THAT_CLASS), and audit that."
        )
    if model.estimate_.counts is None or not len(model.estimate_.groups):
        raise ValueError(
            "This model was fitted without unlabelled rows, so it claims no share that labels could check. Give it a population "
            "with update()."
        )


def score_population(
    model: Model, X: Features, groups: ArrayLike | None, sample_weight: ArrayLike | None
) -> ScoredPopulation:
    """A population in memory, scored by a fitted model."""
    rows, values = model._read_rows(X, groups, sample_weight)
    known = Codes.of(model.estimate_.groups)
    number = group_numbers(values, known, has_groups=model.has_groups_, n_rows=len(rows))
    if model.has_groups_ and values is None:
        raise ValueError(
            "This model was fitted with groups, but none were given. Pass groups=, so that each row is scored as its group's."
        )
    rows = rows.numbered(number)
    chunks = (rows.take(slice(start, start + CHUNK)) for start in range(0, len(rows), CHUNK))
    return score_batches(model, lambda chunk, _: chunk, chunks)


def score_batches(
    model: Model, reader: Callable[[Features, int], Rows], batches: Iterable[Features]
) -> ScoredPopulation:
    """A population that is read in batches; `reader` takes a batch and the number of its first row."""
    scorer = model._scorer()

    def numbered() -> Iterator[tuple[Features, int]]:
        first = 0
        for batch in batches:
            yield batch, first
            first += len(batch)

    def of_batch(part: tuple[Features, int]) -> tuple[Any, ...]:
        rows, first = reader(*part), part[1]
        scored = scorer(rows)
        place = np.arange(first, first + len(rows)).astype(np.uint64)
        content = content_keys(rows.matrix) ^ hash_keys(scored.group.astype(np.uint64), 5)
        check = int(hash_keys(content ^ hash_keys(place, 6), 7).sum(dtype=np.uint64))
        return scored.score, np.asarray(rows.weight, float), scored.group, scored.cluster, check

    with workers(model.n_jobs):
        *columns, checks = zip(*map_chunks(of_batch, numbered()), strict=True)
    check = (sum(checks) % 2**64).to_bytes(8, "little")
    log_odds, weight, group, cluster = map(np.concatenate, columns)
    return ScoredPopulation(log_odds, weight, group, cluster, check)


def plan_audit(model: Model, population: ScoredPopulation, *, budget: int, seed: int) -> AuditPlan:
    """The plan of a fitted model for a population."""
    check_auditable(model)
    if budget != int(budget) or budget < 2:
        raise ValueError(f"budget={budget!r} is no number of labels. Pass a whole number, 2 or more.")
    if budget > len(population):
        raise ValueError(
            f"budget={budget} asks for more labels than the population has rows ({len(population)}). Pass {len(population)} or "
            "fewer."
        )
    estimate, prior = model.estimate_, prior_of(model.estimate_, settled=model.audit_ is not None)
    variance = np.append(own_variance(estimate), estimate.unseen_variance.mean())[population.group]
    # A coarser grid of common shifts is as good.
    few = slice(None, None, 4)
    chance = chances(
        population.log_odds, population.weight, variance, GRID[few], prior[few] / prior[few].sum()
    )
    design, sampled = draw(population, chance, mark_of(estimate), budget=int(budget), seed=seed)
    rng = Seeds(seed).generator("audit precision")
    precision = precision_by_budget(population, chance, design, prior, rng)
    return AuditPlan(design, sampled, precision, _notes(population, estimate), model.frame_library_)


def draw(
    population: ScoredPopulation, chance: FloatArray, mark: bytes, *, budget: int, seed: int
) -> tuple[Design, SampledRows]:
    """The sample: rows to label and spares, in their order."""
    n_listed = min(budget + max(int(SPARE_PART * budget), FEWEST_SPARE), len(population))
    times = arrival_times(np.arange(len(population)), chance, seed)
    first = np.argpartition(times, n_listed - 1)[:n_listed]
    first = first[np.argsort(times[first])]
    z, part = population.log_odds, population.part
    p, ratio = expit(z), part / chance
    design = Design(
        model=mark,
        population=population.check,
        n_rows=len(population),
        budget=budget,
        n_listed=n_listed,
        seed=seed,
        low=float((ratio * p).max()),
        high=float((ratio * (1 - p)).max()),
        spread=float(np.sqrt((part * ratio * p * (1 - p)).sum())),
        threshold=float(np.delete(times, first).min(initial=np.inf)),
        curve=np.array([part @ expit(z + shift) for shift in CURVE]),
    )
    columns = (first, np.arange(n_listed), z[first], part[first], chance[first])
    return design, SampledRows(*columns, population.group[first], population.cluster[first])


def _notes(population: ScoredPopulation, estimate: Estimate) -> tuple[str, ...]:
    """What users should know about the population that they gave."""
    # Shares are of the rows that weigh something.
    own = population.group[(population.group >= 0) & (population.weight > 0)]
    if np.array_equal(np.bincount(own, minlength=len(estimate.groups)), estimate.rows.sum(1)):
        return ()
    return (
        f"These {len(population):,} rows are not the ones that the model's shares are of ({estimate.rows.sum():,} rows): the "
        "audit speaks of the rows given here. To have both speak of the same rows, update the model with them first.",
    )


class ShareCurve:
    """Overall share as a function of the common shift: a smooth curve in log-odds through the shares at CURVE."""

    def __init__(self, shares: FloatArray):
        self.spline = CubicSpline(CURVE, logit(np.clip(shares, 1e-12, 1 - 1e-12)))

    def __call__(self, shift: FloatArray | float) -> FloatArray:
        share: FloatArray = expit(self.spline(np.clip(shift, CURVE[0], CURVE[-1])))
        return share


def precision_by_budget(
    population: ScoredPopulation,
    chance: FloatArray,
    design: Design,
    prior: FloatArray,
    rng: np.random.Generator,
) -> dict[str, ValueArray]:
    """A table: labels, width of the overall share's interval, smallest error of the share found out four times in five.

    By simulation: labels are drawn from the model itself.
    """
    share, z, part = ShareCurve(design.curve), population.log_odds, population.part

    def width(n: int) -> float:
        """Expected, after an audit; a common shift is drawn from its prior."""
        widths = []
        for shift in rng.choice(GRID, SIMULATED_WIDTHS, p=prior):
            drawn = rng.choice(len(chance), n, p=chance)
            y = (rng.random(n) < expit(z[drawn] + shift)).astype(np.int64)
            rows = LabeledSample(z[drawn], y, np.full(n, -1), part[drawn] / chance[drawn])
            found = learn_common_shift(rows, prior, own_variance=np.zeros(0))
            low, high = (found.quantile(level) for level in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
            widths.append(float(share(high) - share(low)))
        return float(np.mean(widths))

    def smallest_error(n: int) -> float:
        """Of the overall share, up or down, that bets on so many labels find out with probability 0.8."""
        drawn = rng.choice(len(chance), (SIMULATED_ERRORS, n), p=chance)
        uniform, log_odds, claimed = rng.random(drawn.shape), z[drawn], float(share(0.0))

        def power(error: float) -> float:
            found = []
            for truth in (claimed - error, claimed + error):
                if 0 < truth < 1:
                    # The common shift at which the share is this; the nearest there is, beyond what shifts reach.
                    shift = float(np.interp(truth, share(GRID), GRID))
                    residual = part[drawn] * ((uniform < expit(log_odds + shift)) - expit(log_odds))
                    # Rows come again hardly ever: each draw is from all of them.
                    terms = terms_of(residual, chance[drawn], design, earlier=False)
                    money = wealth(terms, np.zeros(len(drawn)), spread=design.spread, planned=n)
                    found.append((money.max(-1) >= 1 / LEVEL).mean())
            return float(np.mean(found))

        low, high = 0.0, max(claimed, 1 - claimed)
        for _ in range(7):
            middle = (low + high) / 2
            low, high = (middle, high) if power(middle) < POWER else (low, middle)
        return high

    lines = [(n, width(n), smallest_error(n)) for n in BUDGETS if n < len(population)]
    labels, widths, errors = np.array(lines).reshape(-1, 3).T
    return {"labels": labels.astype(np.int64), "width": widths, "smallest_error": errors}
