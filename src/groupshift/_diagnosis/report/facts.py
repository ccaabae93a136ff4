"""What the report shows of a fitted model: sentences of its first screen, groups, cells, held-out labels, data and settings."""

import platform
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from scipy.special import ndtri

from groupshift._diagnosis.diagnosis import Diagnosis
from groupshift._diagnosis.features import describe_clusters
from groupshift._diagnosis.fitted import Model, told_classes
from groupshift._diagnosis.report.formats import count, percent, percent_range, texts
from groupshift._diagnosis.share_tables import (
    COVERAGE,
    labeled_sample,
    shares_by,
    shares_of_all,
    shares_of_every_row,
    shares_of_groups,
)
from groupshift._diagnosis.wording import plural
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, Table, ValueArray

# Keep the page under 5 MB: a few hundred bytes for each group, some thirty for each cell, some hundred for each class.
MAX_GROUPS = 6_000
MAX_CELLS = 48_000
MAX_CLASS_GROUPS = 500
LONGEST_NAME = 120
# A cell leans on pooling where more than half of its shift is borrowed, as in `predict_details`.
BORROWED = 0.5
# The share of a group of fewer rows is mostly chance and the other groups: it comes last, and it is no extreme.
LAST_ROWS, FEW_ROWS = 10, 30
MOST_CLUSTERS, MOST_DIFFERENCES = 24, 5
PACKAGES = ("groupshift", "numpy", "scipy", "scikit-learn", "narwhals")


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
    def of(cls, model: Model) -> "Names":
        """From the frame or series that the model was fitted on."""
        known = model.schema_.role_names
        return cls(known.get("target"), str(model.schema_.classes[-1]), known.get("group"))

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
    """A fitted model as the report reads it."""

    model: Model
    diagnosis: Diagnosis
    names: Names

    @classmethod
    def of(cls, model: Model, diagnosis: Diagnosis, names: Names | None = None) -> "Facts":
        return cls(model, diagnosis, Names.of(model) if names is None else names)

    @property
    def n_groups(self) -> int:
        return len(self.model.estimate_.groups)

    @property
    def n_clusters(self) -> int:
        return self.model.learned_.n_clusters

    @property
    def classes(self) -> list[str]:
        """The told classes by name."""
        return shown_names(told_classes(self.model))

    @property
    def has_classes(self) -> bool:
        return len(self.classes) > 1

    @property
    def has_population(self) -> bool:
        return self.n_groups > 0

    @property
    def shifted(self) -> bool:
        """Whether any probability differs from the plain classifier's, however little."""
        return bool(np.any(self.model.estimate_.shift))

    @property
    def any_gain(self) -> bool:
        """Whether the shifts make any labeled group better or worse off than the plain classifier does."""
        return self.shifted and self.held_out is not None

    @cached_property
    def overall(self) -> Table:
        """Shares of all rows together, a line for each told class."""
        return shares_by(self.model, "overall", COVERAGE)

    @cached_property
    def groups(self) -> dict[str, Any]:
        """The groups of the population, the largest where there are too many for a page: arrays (n_groups,) or (n_groups, C).

        name, rows, share, low, high, narrow_low, narrow_high, every_row (labels counted as they are, predictions for the rest),
        sample_share, sample_rows.
        """
        model, found = self.model, shares_of_groups(self.model)
        shown = largest(found.rows, MAX_CLASS_GROUPS if self.has_classes else MAX_GROUPS)
        sample_share, sample_rows, _ = labeled_sample(model)
        limits = found.limits(model.estimate_.unidentified, COVERAGE)
        every_row = shares_of_every_row(model, found)
        columns = {"share": found.share, **limits, "every_row": every_row, "sample_share": sample_share}
        flat = {name: _kept(values[shown]) for name, values in columns.items()}
        if not self.has_classes:
            flat = {name: values[:, 0] for name, values in flat.items()}
        names = shown_names(model.estimate_.groups[shown])
        return {"name": names, "rows": found.rows[shown], **flat, "sample_rows": sample_rows[shown]}

    @property
    def is_last(self) -> BoolArray:
        """Groups of so few rows that they come after the others."""
        few: BoolArray = self.groups["rows"] < LAST_ROWS
        return few

    @cached_property
    def every_row(self) -> FloatArray:
        """Shares among labeled and unlabeled rows together, (C,)."""
        model, whole = self.model, shares_of_all(self.model).share[0]
        sample = model.evidence_.groups
        counted, weight = sample.weight.sum(), model.estimate_.row_weight.sum()
        found: FloatArray = (counted * sample.overall + weight * whole) / (counted + weight)
        return found

    @cached_property
    def cells(self) -> dict[str, Any]:
        """Of two classes, one line for each group of the map: arrays (n_groups, n_clusters)."""
        estimate = self.model.estimate_
        shown = largest(estimate.rows.sum(1), max(MAX_CELLS // max(self.n_clusters, 1), 1))
        table, shape = shares_by(self.model, "cell", COVERAGE), estimate.shift.shape
        found = {name: table[name].reshape(shape)[shown] for name in ("share", "low", "high")}
        rows = estimate.rows[shown]
        borrowed = (estimate.pooling[shown] > BORROWED) & (estimate.variance[shown] > 0)
        found |= {"rows": rows, "shift": _kept(estimate.shift[shown], 3), "borrowed": borrowed}
        marks = {"any_empty": bool((rows == 0).any()), "any_borrowed": bool((borrowed & (rows > 0)).any())}
        return {"name": shown_names(estimate.groups[shown]), **found, **marks}

    @cached_property
    def held_out(self) -> Table | None:
        """Labeled groups whose labels were held out, the largest of them; None where no group's could be."""
        evidence, groups = self.model.evidence_.held_out, self.model.learned_.labeled_groups
        if evidence is None or not self.model.schema_.has_groups or len(groups) < 2:
            return None
        shown = largest(evidence.by_group["rows"], MAX_CLASS_GROUPS if self.has_classes else MAX_GROUPS)
        found = {name: values[shown] for name, values in evidence.by_group.items()}
        gain = _kept(found["loss_global"] - found["loss_model"])
        return {"name": np.array(shown_names(groups[shown]), object), "gain": gain, **found}

    # ---- the first screen ----------------------------------------------------------------------------------------

    def title(self) -> str:
        if self.has_classes:
            what = (
                f"Shares of {self.names.target}"
                if self.names.target
                else f"Shares of {len(self.classes)} classes"
            )
            return what + (f" by {self.names.group}" if self.names.group else "")
        if not self.has_population:
            return "A calibrated classifier" + (f" of {self.names.positives}" if self.names.target else "")
        if (named := self.names.title()) is not None:
            return named
        if not self.model.schema_.has_groups or self.n_groups == 1:
            return "Share of positives in the population"
        return f"Share of positives in {plural(self.n_groups, 'group')}"

    def tiles(self) -> dict[str, str]:
        """The numbers that everyone asks for first."""
        model, pairs = self.model, {}
        if not self.has_classes:
            pairs["labeled positive"] = percent(float(self.overall["labeled_share"][0]))
            if self.has_population:
                pairs = {"population positive": percent(float(self.overall["share"][0])), **pairs}
        else:
            pairs["classes"] = count(len(self.classes))
        if self.has_population:
            if model.schema_.has_groups:
                pairs["groups"] = count(self.n_groups)
            pairs["population rows"] = count(model.estimate_.rows.sum())
        return pairs | {
            "labeled rows": count(model.learned_.labeled_rows.sum()),
            "clusters": count(self.n_clusters),
        }

    def headline(self) -> str:
        """The answer in a sentence: the share of the population, or its largest classes."""
        whole, every = self.overall, self.every_row
        if not self.has_population:
            if self.has_classes:
                return "A calibrated classifier: there are no unlabeled rows, so there are no shares of a population."
            return f"A calibrated classifier, from labeled rows of which {percent(whole['labeled_share'][0])} are positive."
        rows = count(self.model.estimate_.rows.sum())
        if self.has_classes:
            top = np.argsort(-whole["share"], kind="stable")[:3]
            named = ", ".join(
                f"{self.classes[c]} ({percent(whole['share'][c])}, {percent_range(whole['low'][c], whole['high'][c])})"
                for c in top
            )
            return f"The largest classes among the {rows} unlabeled rows (the population) are {named}."
        share, low, high, narrow_low, narrow_high, sample = (float(v[0]) for v in list(whole.values())[1:])
        return (
            f"Of the {rows} unlabeled rows (the population), {percent(share)} are positive (interval {percent_range(low, high)}; "
            f"narrow interval {percent_range(narrow_low, narrow_high)}), against {percent(sample)} of the labeled sample. "
            f"Of all rows, labels counted as they are, {percent(every[0])} are positive."
        )

    def learned(self) -> list[str]:
        """What the groups of the population look like, in a few sentences."""
        if not self.has_population:
            return []
        found = (self._classes_moved(),) if self.has_classes else (self._extremes(), self._disagreement())
        return [sentence for sentence in found if sentence is not None]

    def _classes_moved(self) -> str:
        after, before = self.overall["share"], self.overall["labeled_share"]
        c = int(np.argmax(np.abs(after - before)))
        return f"Class {self.classes[c]} differs most from the labeled sample: {percent(after[c])} against {percent(before[c])}."

    def _extremes(self) -> str | None:
        """The groups of lowest and highest share; those of a few rows are there by chance and left out."""
        groups = self.groups
        many = np.flatnonzero(groups["rows"] >= FEW_ROWS)
        if len(many) < 2 or not np.ptp(groups["share"][many]):
            return None

        def described(i: int) -> str:
            interval = percent_range(groups["low"][i], groups["high"][i])
            return f"{groups['name'][i]} ({percent(groups['share'][i])}, interval {interval})"

        lowest, highest = (int(many[find(groups["share"][many])]) for find in (np.argmin, np.argmax))
        which = "Groups" if len(many) == len(groups["rows"]) else f"Groups of {FEW_ROWS} rows or more"
        return f"{which} range from {described(lowest)} to {described(highest)}."

    def _disagreement(self) -> str | None:
        """In how many groups the labeled sample misleads, by more than the noise of both."""
        groups = self.groups
        known = np.isfinite(groups["sample_share"])
        n, sample = groups["sample_rows"], np.nan_to_num(groups["sample_share"])
        if known.sum() < 2:
            return None
        margin = ndtri(0.5 + COVERAGE / 2)
        # A row of each class more: the error of a share of 0 or 1 from a handful of rows is not zero.
        drawn_in = (sample * n + 1) / (n + 2)
        variance = (
            drawn_in * (1 - drawn_in) / (n + 2) + ((groups["high"] - groups["low"]) / (2 * margin)) ** 2
        )
        differs = known & (np.abs(sample - groups["share"]) > margin * np.sqrt(variance))
        return (
            f"In {count(differs.sum())} of {plural(int(known.sum()), 'group')} with labeled rows, the labeled sample differs "
            f"from the population by more than chance ({percent(COVERAGE, 0)} confidence)."
        )

    # ---- for the record ------------------------------------------------------------------------------------------

    def cluster_cards(self) -> list[tuple[str, list[str]]]:
        """The first clusters: size and shares in a sentence, and what sets each apart; `n_clusters` may be more."""
        model = self.model
        found = describe_clusters(model.evidence_.clusters, model.schema_.encoder, most=MOST_DIFFERENCES)
        labeled, weight = model.evidence_.labeled_clusters, model.estimate_.row_weight
        cards = []
        for k in range(min(self.n_clusters, MOST_CLUSTERS)):
            sample = plural(int(labeled.rows[k]), "labeled row")
            if not self.has_classes:
                sample += f", {percent(labeled.share[k, 0])} of them positive"
            if self.has_population:
                part = percent(weight[:, k].sum() / max(weight.sum(), 1e-300), 0)
                sample = f"{part} of the population, {sample}"
                if not self.has_classes and weight[:, k].sum():
                    share = (weight[:, k] * model.estimate_.share[:, k]).sum() / weight[:, k].sum()
                    sample += f"; population {percent(share)}"
            cards.append((f"{sample}.", texts(found["phrase"][found["cluster"] == k])))
        return cards

    def data(self) -> dict[str, str]:
        """What the model was fitted on, and by what."""
        model, names, classes = self.model, self.names, self.model.schema_.classes
        named = {"Target column": names.target, "Group column": names.group}
        pairs = {role: name for role, name in named.items() if name is not None}
        if self.has_classes:
            pairs["Classes"] = ", ".join(self.classes)
        else:
            pairs |= {"Positive class": names.positive or str(classes[-1]), "Negative class": str(classes[0])}
        if model.schema_.has_groups:
            pairs["Groups with labeled rows"] = count(len(model.learned_.labeled_groups))
        seed = model.get_params(deep=False)["random_state"]
        pairs["Random seed"] = "none: another fit may differ a little" if seed is None else str(seed)
        return pairs | {"Features": count(len(model.schema_.encoder.names_))}

    def settings(self) -> list[tuple[str, str, bool]]:
        """Every setting: its name, its value, and whether that is the default."""
        usual = type(self.model)().get_params(deep=False)
        given = self.model.get_params(deep=False)

        def is_default(a: object, b: object) -> bool:
            """Equal, where a setting may be an array or estimator that has no plain answer."""
            return a is b or (type(a) is type(b) and isinstance(a, (str, int, float, bool)) and a == b)

        return [(name, " ".join(str(v).split()), is_default(v, usual[name])) for name, v in given.items()]

    def versions(self) -> dict[str, str]:
        found = {"python": platform.python_version()}
        for package in PACKAGES:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "not installed"
        return found


def shown_names(values: ValueArray) -> list[str]:
    """Names of groups as text of readable length; what UTF-8 cannot write is replaced.

    >>> shown_names(np.array(["Oslo", None, 7], dtype=object))
    ['Oslo', '(missing)', '7']
    """
    names = []
    for value in values.tolist():
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


def _kept(values: FloatArray, digits: int = 6) -> FloatArray:
    """Numbers as the page's data keeps them, rounded once: figure and table agree to the last digit."""
    return np.round(values, digits)
