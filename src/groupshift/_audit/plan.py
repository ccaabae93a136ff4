r"""Which rows to label: a weighted sample in an order, what so many labels would show, and how the labels come back.

Row i arrives at ``T_i = E_i / s_i``, with E_i standard exponential and s_i its chance; those that arrive first are sampled (order
sampling). Three things follow. The next row is each time drawn among the others in proportion to their chances, so that every
prefix of the order is a sample, and a row that cannot be had is replaced by the next. Given when the first row that was *not*
sampled arrives (τ), each row had arrived before with probability ``1 − exp(−s_i τ)``, on its own: sums that are weighted by the
inverse are unbiased, and their terms uncorrelated (Cohen and Kaplan's rank conditioning). And E_i is a hash of the row's number:
the same seed gives the same order.

A file of labels comes back after weeks, from a spreadsheet that sorts lines, drops comments and rewrites numbers. So nothing is
read back from its numbers: each key carries the whole design besides its row, and a checksum.
"""

import base64
import binascii
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit

from groupshift._audit import inference
from groupshift._audit.inference import GRID, LEVEL, LabeledSample
from groupshift._data.checks import check_labels
from groupshift._data.codes import Codes, group_numbers
from groupshift._data.frames import Features, as_column, as_frame, frame_like, is_missing_value, some
from groupshift._data.keys import Seeds, content_keys, hash_keys, uniform_keys
from groupshift._data.rows import Rows
from groupshift._data.workers import map_chunks, workers
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray

# A row that hardly says anything keeps this part of a mean row's chance: the assumption is tested everywhere, and no single
# label could overturn the share. Smaller values save next to no labels, and leave bets on the share without force: no bet may be
# larger than the most surprising label allows.
LEAST_CHANCE = 0.75
# Log-odds at which the variance of a label is tabled; beyond them it is as good as none.
TABLED = np.arange(-16.0, 16.1, 0.125)
# Common shifts at which the overall share is carried along; a smooth curve goes through them.
CURVE = np.arange(-6.0, 6.5, 1.0)
# What people write where a row could not be labelled; anything else that is no class is an error.
REFUSED = ("", "refused", "missing", "unknown", "na", "n/a", "none", "nan", "?", "-")
# Columns of a table of labels.
ROW, LABEL, KEY = "row", "label", "sample_key"
PACKED_DESIGN = struct.Struct(f"<8s8sQIIQ4d{len(CURVE)}d")
# Rows of the population in the order in which they were drawn: number and place from 0, log-odds as predicted, part of the
# population's weight, chance, and group in the model's order (-1: unseen).
SAMPLED = np.dtype(
    {
        "names": ["row", "place", "log_odds", "part", "chance", "group"],
        "formats": ["<i8", "<i4", "<f8", "<f8", "<f8", "<i4"],
    }
)
SampledRows: TypeAlias = Any
# A letter in front: no spreadsheet takes a key for a number or a formula.
MARK = "A1."
CHECKSUM = 6
# A fitted GroupShiftClassifier: the estimator is above this folder.
Model: TypeAlias = Any
# Rows that are scored at a time.
CHUNK = 65_536
# Rows below the ones to label, for those that cannot be labelled: a fifth as many, and a handful at least.
SPARE_PART, FEWEST_SPARE = 0.2, 5
BUDGETS = (25, 50, 100, 200)
# Audits that are simulated for each budget: widths and errors to about a tenth.
SIMULATED_WIDTHS, SIMULATED_ERRORS = 20, 100
POWER = 0.8
COVERAGE = 0.9


def chances(
    log_odds: FloatArray, weight: FloatArray, variance: FloatArray, shift: FloatArray, mass: FloatArray
) -> FloatArray:
    """Chances of rows, adding up to 1: in proportion to how far a label is expected to lie from its prediction.

    For a given number of labels this makes the error of a difference estimator smallest. A label is far from its prediction
    where both classes are likely, and where the shift of the row's cell is not well known.

    Parameters
    ----------
    log_odds, weight, variance : arrays of shape (n_rows,)
        Predictions, weights of rows, and the variance of the shift of each row's own cell.
    shift, mass : arrays of shape (n_values,)
        What the shift of all groups may be, and how likely.
    """
    q = expit(TABLED[:, None] + shift)
    of_label, square = (q * (1 - q)) @ mass, (q * (1 - q)) ** 2 @ mass
    expected = np.interp(log_odds, TABLED, of_label) + variance * np.interp(log_odds, TABLED, square)
    size = np.sqrt(np.maximum(expected, 0))
    size = weight * np.maximum(size, LEAST_CHANCE * np.average(size, weights=weight))
    # A row without weight says nothing of the share, but a chance of 0 has no time to arrive at.
    size = np.maximum(size, 1e-9 * size.max(initial=1e-300))
    found: FloatArray = size / size.sum()
    return found


def arrival_times(rows: IntArray, chance: FloatArray, seed: int) -> FloatArray:
    """When rows of these numbers arrive, by row number and seed alone."""
    uniform = uniform_keys(rows.astype(np.uint64), Seeds(seed).named("audit order"))
    return times_of(uniform, chance)


def times_of(uniform: FloatArray, chance: FloatArray) -> FloatArray:
    """When each row arrives, from a uniform number for each.

    >>> times_of(np.array([0.5, 0.5]), np.array([1.0, 2.0])).round(3).tolist()
    [0.693, 0.347]
    """
    return -np.log1p(-uniform) / chance


def inclusion(chance: FloatArray, threshold: float) -> FloatArray:
    """Probability that a row arrives before the first row that was not sampled.

    >>> inclusion(np.array([0.1, 0.2]), 5.0).round(3).tolist()
    [0.393, 0.632]
    """
    return -np.expm1(-chance * threshold)


@dataclass(frozen=True)
class Design:
    """What all rows of one audit have in common."""

    model: bytes  # of the estimate that is audited
    population: bytes  # of its rows
    n_rows: int
    budget: int
    n_listed: int  # rows to label and spares
    seed: int
    # What is known of the terms before any label: w̃ (y − p) / s lies between −low and high, with this standard deviation.
    low: float
    high: float
    spread: float
    threshold: float  # when the first row arrives that is not in the file
    curve: FloatArray  # overall share if all log-odds were moved by CURVE

    @property
    def share(self) -> float:
        """Overall share as predicted."""
        return float(self.curve[len(CURVE) // 2])


def write_keys(design: Design, sampled: SampledRows) -> list[str]:
    """A text for each row, by which `read_key` finds both."""
    *head, curve = astuple(design)
    packed = PACKED_DESIGN.pack(*head, *curve.tolist())
    bodies = [packed + line.tobytes() for line in sampled]
    return [MARK + base64.urlsafe_b64encode(body + _checksum(body)).decode() for body in bodies]


def read_key(key: str) -> tuple[bytes, bytes] | None:
    """The design and the row, both packed; None for what is no key."""
    if not key.startswith(MARK):
        return None
    try:
        data = base64.urlsafe_b64decode(key[len(MARK) :].encode())
    except (binascii.Error, ValueError):
        return None
    body, n = data[:-CHECKSUM], PACKED_DESIGN.size
    if len(body) != n + SAMPLED.itemsize or _checksum(body) != data[-CHECKSUM:]:
        return None
    return body[:n], body[n:]


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECKSUM).digest()


@dataclass(frozen=True)
class ScoredPopulation:
    """Rows of a population as an audit looks at them: arrays of shape (n_rows,)."""

    log_odds: FloatArray
    weight: FloatArray
    group: IntArray
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
    def rows(self) -> Any:
        return self.sampled.row[: self.design.budget]

    @property
    def spares(self) -> Any:
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
        """The budget, and how precise the share would be after it and others, as a table."""
        head = ("labels", "width of the 90 % interval", "smallest error found out")
        columns = (self.precision[name] for name in ("labels", "width", "smallest_error"))
        lines = [(f"{n}", f"{w:.1%}", f"{error:.1%}") for n, w, error in zip(*columns, strict=True)]
        asked = f"{len(self.rows)} rows to label, {len(self.spares)} spare ones."
        return "".join(f"<p>{text}</p>" for text in (asked, *self.notes)) + html_table([head, *lines])


def html_table(lines: Sequence[Sequence[str]]) -> str:
    rows = ("".join(f"<td>{cell}</td>" for cell in line) for line in lines)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


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
        return scored.score, np.asarray(rows.weight, float), scored.group, check

    with workers(model.n_jobs):
        *columns, checks = zip(*map_chunks(of_batch, numbered()), strict=True)
    check = (sum(checks) % 2**64).to_bytes(8, "little")
    log_odds, weight, group = map(np.concatenate, columns)
    return ScoredPopulation(log_odds, weight, group, check)


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
    estimate, prior = model.estimate_, inference.prior_of(model.estimate_, settled=model.audit_ is not None)
    variance = np.append(inference.own_variance(estimate), estimate.unseen_variance.mean())[population.group]
    # A coarser grid of common shifts is as good.
    few, mass = GRID[::4], prior[::4] / prior[::4].sum()
    chance = chances(population.log_odds, population.weight, variance, few, mass)
    design, sampled = draw(population, chance, inference.mark_of(estimate), budget=int(budget), seed=seed)
    rng = Seeds(seed).generator("audit precision")
    precision = precision_by_budget(population, chance, design, prior, rng)
    # Shares are of the rows that weigh something.
    own = population.group[(population.group >= 0) & (population.weight > 0)]
    is_same = np.array_equal(np.bincount(own, minlength=len(estimate.groups)), estimate.rows.sum(1))
    note = (
        f"These {len(population):,} rows are not the ones that the model's shares are of ({estimate.rows.sum():,} rows): the "
        "audit speaks of the rows given here. To have both speak of the same rows, update the model with them first."
    )
    return AuditPlan(design, sampled, precision, () if is_same else (note,), model.frame_library_)


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
    columns = first, np.arange(n_listed), z[first], part[first], chance[first], population.group[first]
    return design, np.rec.fromarrays(columns, dtype=SAMPLED)


def share_curve(shares: FloatArray) -> Callable[[Any], Any]:
    """Overall share as a function of the common shift: a smooth curve in log-odds through the shares at CURVE."""
    spline = CubicSpline(CURVE, logit(np.clip(shares, 1e-12, 1 - 1e-12)))
    return lambda shift: expit(spline(np.clip(shift, CURVE[0], CURVE[-1])))


def precision_by_budget(
    rows: ScoredPopulation, chance: FloatArray, design: Design, prior: FloatArray, rng: np.random.Generator
) -> dict[str, ValueArray]:
    """A table: labels, width of the overall share's interval, smallest error of the share found out four times in five.

    By simulation: labels are drawn from the model itself.
    """
    share, z, part = share_curve(design.curve), rows.log_odds, rows.part

    def width(n: int) -> float:
        """Expected, after an audit; a common shift is drawn from its prior."""
        widths = []
        for shift in rng.choice(GRID, SIMULATED_WIDTHS, p=prior):
            drawn = rng.choice(len(chance), n, p=chance)
            y = (rng.random(n) < expit(z[drawn] + shift)).astype(np.int64)
            labeled = LabeledSample(z[drawn], y, np.full(n, -1), part[drawn] / chance[drawn])
            found = inference.learn_common_shift(labeled, prior, own_variance=np.zeros(0))
            tails = (1 - COVERAGE) / 2, (1 + COVERAGE) / 2
            widths.append(float(np.ptp([share(found.quantile(level)) for level in tails])))
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
                    limits = design.low, design.high
                    terms = inference.terms_of(residual, chance[drawn], *limits, earlier=False)
                    money = inference.wealth(terms, np.zeros(len(drawn)), spread=design.spread, planned=n)
                    found.append((money.max(-1) >= 1 / LEVEL).mean())
            return float(np.mean(found))

        low, high = 0.0, max(claimed, 1 - claimed)
        for _ in range(7):
            middle = (low + high) / 2
            low, high = (middle, high) if power(middle) < POWER else (low, middle)
        return high

    lines = [(n, width(n), smallest_error(n)) for n in BUDGETS if n < len(rows)]
    labels, widths, errors = np.array(lines).reshape(-1, 3).T
    return {"labels": labels.astype(np.int64), "width": widths, "smallest_error": errors}


@dataclass(frozen=True)
class ReturnedLabels:
    """Labels of sampled rows in the order of the draw, up to the last one that has a label.

    A row without a label that stands before one with a label was refused, or is missing; those that come after the last label
    were not reached yet.
    """

    design: Design
    sampled: SampledRows  # those up to the last label
    y: IntArray  # 0, 1, or -1: missing
    threshold: float  # when the first row that was not reached arrives
    n_reached: int  # rows up to the last label, those included whose lines are gone

    @property
    def has_label(self) -> BoolArray:
        return self.y >= 0

    @property
    def n_labels(self) -> int:
        return int(self.has_label.sum())

    @property
    def n_missing(self) -> int:
        """Rows without a label: refused among those before the last label, or planned and not done."""
        return max(self.n_reached, self.design.budget) - self.n_labels


def read_labels(labels: Features, classes: ValueArray, unlabeled_value: object) -> ReturnedLabels:
    """What a table of labels says; every way in which it can be wrong has its sentence."""
    columns = _columns(labels)
    label, row = columns[LABEL], columns.get(ROW)
    names = set(classes.tolist())

    def is_label(value: object) -> bool:
        if value in names:
            return True
        text = value.strip().casefold() if isinstance(value, str) else None
        return not (is_missing_value(value) or text in REFUSED or value == unlabeled_value)

    has_label = np.array([is_label(value) for value in label.tolist()])
    found = [None if is_missing_value(key) else read_key(str(key).strip()) for key in columns[KEY].tolist()]
    if strange := [i for i, key in enumerate(found) if key is None and has_label[i]]:
        where = f"line {strange[0] + 1}" if row is None else f"row {row[strange[0]]}"
        raise ValueError(
            f"{len(strange)} labels are of rows that were not asked for (the first is {where}): they have no sample key, or one "
            "that was altered. Rows that one chooses oneself say nothing certain of the others: take these lines out."
        )
    own = np.array([i for i, key in enumerate(found) if key is not None], np.int64)
    known = [key for key in found if key is not None]
    if not known:
        raise ValueError(
            "No line has a sample key of an audit. Pass the file that `audit` wrote, with its labels filled in."
        )
    if not has_label[own].any():
        raise ValueError(
            f"None of {len(label)} rows has a label. Fill in the column {LABEL!r}, with {some(classes.tolist())}, and pass the "
            "table again."
        )
    designs = {packed for packed, _ in known}
    if len(designs) > 1:
        raise ValueError(
            f"The labels belong to {len(designs)} different audits. Pass those of one audit at a time."
        )
    numbers = PACKED_DESIGN.unpack(known[0][0])
    entries: list[Any] = [*numbers[: -len(CURVE)], np.array(numbers[-len(CURVE) :])]
    design = Design(*entries)
    sampled = np.frombuffer(b"".join(line for _, line in known), SAMPLED).view(np.recarray)
    if row is not None:
        _check_places(row[own], sampled.row)
    y = np.full(len(own), -1, np.int64)
    filled = np.flatnonzero(has_label[own])
    values = np.array(label[own[filled]].tolist())
    if classes.dtype.kind in "biuf" and values.dtype.kind in "US":
        # Tables with empty cells turn whole numbers into 1.0, or into text.
        with suppress(ValueError):
            values = values.astype(float)
    y[filled] = check_labels(values, unlabeled_value, len(filled), classes)[0]
    return _in_order(design, sampled, y)


def _columns(labels: Features) -> dict[str, ValueArray]:
    table = labels if isinstance(labels, dict) else as_frame(labels)
    if table is None:
        raise TypeError(
            f"labels is a {type(labels).__name__}. Pass the table that plan.labeled(...) makes, or the file of rows to label, "
            "read as a frame."
        )
    names = list(table) if isinstance(table, dict) else table.columns
    if missing := [name for name in (LABEL, KEY) if name not in names]:
        raise ValueError(
            f"The table of labels has no column {missing[0]!r}; it has {some(names)}. Keep the columns of the file that `audit` "
            "wrote."
        )
    return {name: as_column(table[name]) for name in (ROW, LABEL, KEY) if name in names}


def _check_places(written: ValueArray, of_key: IntArray) -> None:
    """Whether the row number beside each key is the key's: in a spreadsheet, a column can be sorted alone."""
    for number, row in zip(written.tolist(), of_key.tolist(), strict=True):
        if not is_missing_value(number) and str(number).removesuffix(".0") != str(row):
            raise ValueError(
                f"The line of row {number} has the sample key of row {row}: cells were moved apart. Sort whole lines, or fill "
                "the labels into the file as it was written."
            )


def _in_order(design: Design, sampled: SampledRows, y: IntArray) -> ReturnedLabels:
    """Each row once, in the order of the draw, up to the last label."""
    first: dict[int, int] = {}
    for i, row in enumerate(sampled.row.tolist()):
        before = first.setdefault(row, i)
        if y[before] >= 0 and y[i] >= 0 and y[before] != y[i]:
            raise ValueError(
                f"Row {row} is labelled twice, with different answers. Decide which one is right, and take the other line out."
            )
        y[before] = max(y[before], y[i])
    once = np.array(sorted(first.values(), key=lambda i: sampled.place[i]))
    sampled, y = sampled[once], y[once]
    last = int(np.flatnonzero(y >= 0)[-1])
    place, times = sampled.place, arrival_times(sampled.row, sampled.chance, design.seed)
    if last + 1 < len(times) and place[last + 1] == place[last] + 1:
        threshold = float(times[last + 1])
    elif last + 1 == len(times) == design.n_listed:
        threshold = design.threshold
    else:
        # The next line is gone: the mean time until the next row arrives stands in for it.
        threshold = float(times[last] + 1 / max(1 - sampled.chance[: last + 1].sum(), 1e-12))
    return ReturnedLabels(design, sampled[: last + 1], y[: last + 1], threshold, int(place[last]) + 1)
