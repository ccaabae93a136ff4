"""Pictures of a fitted model in scikit-learn's style: `SomeDisplay.from_estimator(model)` (extra `plot`).

A display holds the numbers of its picture; `plot` draws them again on other axes or with other options. After
drawing, `ax_` and `figure_` are matplotlib's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from groupshift._data.codes import Codes
from groupshift._data.extras import need
from groupshift._data.frames import some
from groupshift._diagnosis.fitted import Model
from groupshift._diagnosis.share_tables import shares_by
from groupshift._diagnosis.wording import short
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.sums import mean_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

Groups = Sequence[object] | None
Values = TypeVar("Values")

# Of Okabe and Ito's palette, which colour-blind readers can tell apart; shapes differ as well.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#777777"
# More lines than these cannot be read by name: names give way to the shape of the whole.
MAX_NAMED = 60
# More marks than these hide each other.
MAX_MARKED = 150


class _Display:
    """What was drawn, and where."""

    ax_: "Axes"
    figure_: "Figure | SubFigure | None"

    def _drawn(self, ax: "Axes") -> Self:
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(kw_only=True, eq=False)
class GroupSharesDisplay(_Display):
    """Share of positives of each group with its interval, beside the share in the labelled sample.

    Parameters
    ----------
    groups : array (n_groups,)
    share, low, high : arrays (n_groups,)
        Share of positives in the population, and its interval.
    labeled_share : array (n_groups,)
        Share among labelled rows; NaN for groups without any.
    coverage : float
        Probability that an interval holds the share.
    """

    groups: ValueArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    labeled_share: FloatArray
    coverage: float

    @classmethod
    def from_estimator(
        cls,
        model: Model,
        *,
        groups: Groups = None,
        coverage: float = 0.9,
        ax: "Axes | None" = None,
        sort: bool = True,
        max_named: int = MAX_NAMED,
    ) -> Self:
        """Draw the shares of a fitted model's groups, or of some of them; see `plot` for more options.

        Parameters
        ----------
        groups : list of groups, optional
            The groups to show, all by default.
        """
        check_is_fitted(model)
        shown = _chosen(model.estimate_.groups, groups, "unlabelled")
        table = _of_two(model, shares_by(model, "group", coverage))
        display = cls(
            groups=model.estimate_.groups[shown],
            share=table["share"][shown],
            low=table["low"][shown],
            high=table["high"][shown],
            labeled_share=table["labeled_share"][shown],
            coverage=coverage,
        )
        return display.plot(ax, sort=sort, max_named=max_named)

    def plot(self, ax: "Axes | None" = None, *, sort: bool = True, max_named: int = MAX_NAMED) -> Self:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        sort : bool
            Order groups by share, else as they are.
        max_named : int
            Up to this many groups are named; more are shown as a nameless, sorted line of intervals.
        """
        order = np.argsort(self.share, kind="stable") if sort else np.arange(len(self.share))[::-1]
        named = len(order) <= max_named
        ax = _axes(ax, height=_height(len(order) if named else 25))
        place = np.arange(len(order))
        share, low, high = self.share[order], self.low[order], self.high[order]
        interval = f"{100 * self.coverage:.0f} % interval"
        if named:
            ax.hlines(place, low, high, color=BLUE, linewidth=2, label=interval)
        else:
            ax.fill_betweenx(place, low, high, color=BLUE, alpha=0.35, linewidth=0, label=interval)
        # Dots of thousands of groups run into each other: they shrink with their number.
        size = 6.0 if named else max(1.0, 25 / np.sqrt(len(order)))
        ax.plot(share, place, "o", color=BLUE, markersize=size, label="population")
        labeled = self.labeled_share[order]
        if np.isfinite(labeled).any():
            ax.plot(
                labeled,
                place,
                "D",
                markerfacecolor="none",
                markeredgecolor=VERMILION,
                markersize=size * 0.9,
                markeredgewidth=1.2 if named else 0.5,
                label="labeled sample",
            )
        _name_groups(ax, self.groups[order], named)
        ax.set_xlabel("share of positives")
        ax.set_xlim(0, 1)
        _in_percent(ax.xaxis)
        ax.grid(axis="x", alpha=0.3)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, markerscale=6 / size)
        return self._drawn(ax)


@dataclass(kw_only=True, eq=False)
class ShiftsDisplay(_Display):
    """Map of the log-odds that each (group, cluster) cell adds to the labelled posterior.

    Parameters
    ----------
    groups : array (n_groups,)
    shift : array (n_groups, n_clusters)
        NaN where a cell has no rows.
    """

    groups: ValueArray
    shift: FloatArray

    @classmethod
    def from_estimator(
        cls,
        model: Model,
        *,
        groups: Groups = None,
        ax: "Axes | None" = None,
        sort: bool = True,
        max_named: int = MAX_NAMED,
        cmap: str = "PuOr_r",
    ) -> Self:
        """Draw the shifts of a fitted model; see `plot` for options."""
        check_is_fitted(model)
        shown = _chosen(model.estimate_.groups, groups, "unlabelled")
        shift = np.where(
            model.estimate_.rows[shown] > 0, _of_two(model, model.estimate_.shift)[shown], np.nan
        )
        display = cls(groups=model.estimate_.groups[shown], shift=shift)
        return display.plot(ax, sort=sort, max_named=max_named, cmap=cmap)

    def plot(
        self, ax: "Axes | None" = None, *, sort: bool = True, max_named: int = MAX_NAMED, cmap: str = "PuOr_r"
    ) -> Self:
        """Draw on `ax`, or on a new figure; grey marks cells without rows.

        Parameters
        ----------
        sort : bool
            Order groups by their mean shift, else as they are.
        max_named : int
            Up to this many groups are named.
        cmap : str
            A diverging colour map; its middle is no shift.
        """
        n_groups, n_clusters = self.shift.shape
        known = np.isfinite(self.shift)
        mean = np.where(known, self.shift, 0).sum(1) / np.maximum(known.sum(1), 1)
        order = np.argsort(mean, kind="stable") if sort else np.arange(n_groups)[::-1]
        named = n_groups <= max_named
        ax = _axes(ax, height=_height(n_groups if named else 25), width=max(5.0, 3.5 + 0.6 * n_clusters))
        reach = max(float(np.abs(self.shift[known]).max(initial=0)), 1e-3)
        ax.set_facecolor("#cccccc")
        image = ax.imshow(
            np.ma.masked_invalid(self.shift[order]),
            aspect="auto",
            origin="lower",
            cmap=cmap,
            vmin=-reach,
            vmax=reach,
            interpolation="nearest",
        )
        _name_groups(ax, self.groups[order], named)
        ax.set_xticks(np.arange(n_clusters))
        ax.set_xlabel("cluster")
        bar = ax.figure.colorbar(image, ax=ax)
        bar.set_label("shift (log-odds): fewer positives ← 0 → more positives")
        return self._drawn(ax)


@dataclass(kw_only=True, eq=False)
class CalibrationByGroupDisplay(_Display):
    """Predicted against observed shares of labelled groups whose labels were held out: plain classifier
    and model.

    Parameters
    ----------
    groups : array (n_groups,)
    rows : array (n_groups,)
    observed : array (n_groups,)
        Share of positives by the labels.
    plain, model : arrays (n_groups,)
        Mean probability by the plain classifier and by the model.
    curves : dict of str to array (n_groups, n_bins, 3)
        For "global" and "model": weight, mean probability and share of positives of each bin of probability.
    """

    groups: ValueArray
    rows: IntArray
    observed: FloatArray
    plain: FloatArray
    model: FloatArray
    curves: dict[str, FloatArray]

    @classmethod
    def from_estimator(
        cls, model: Model, *, groups: Groups = None, ax: "Axes | None" = None, kind: str = "groups"
    ) -> Self:
        """Draw the calibration of a fitted model on (some) labelled groups; see `plot` for options."""
        check_is_fitted(model)
        held_out = model.evidence_.held_out
        if held_out is None:
            raise ValueError(
                "No labels could be held out from this model (too few labelled examples of a class), so its calibration "
                "is not known. Fit it with more labelled examples of both classes."
            )
        by_group, curves = _of_two(model, held_out.by_group), held_out.calibration_by_group
        known = model.learned_.labeled_groups
        shown = _chosen(known, groups, "labelled")
        display = cls(
            groups=known[shown],
            rows=by_group["rows"][shown],
            observed=by_group["share"][shown, 0],
            plain=by_group["mean_global"][shown, 0],
            model=by_group["mean_model"][shown, 0],
            curves={name: curve[shown] for name, curve in curves.items()},
        )
        return display.plot(ax, kind=kind)

    def plot(self, ax: "Axes | None" = None, *, kind: str = "groups") -> Self:
        """Draw on `ax`, or on a new figure.

        Parameters
        ----------
        kind : {"groups", "bins"}
            A mark for each group at its mean probability (beyond 150 groups, for each twentieth of them); or
            reliability curves over bins of probability, the groups shown taken together.
        """
        if kind not in ("groups", "bins"):
            raise ValueError(f"kind={kind!r} is not known. Pass 'groups' or 'bins'.")
        ax = _axes(ax, height=5.0, width=5.0)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="perfect")
        marked = kind == "groups" and len(self.rows) <= MAX_MARKED
        if marked:
            ax.hlines(self.observed, self.plain, self.model, color=GREY, linewidth=0.5, alpha=0.5)
        for name, mean, color, marker, label in (
            ("global", self.plain, VERMILION, "D", "plain classifier"),
            ("model", self.model, BLUE, "o", "model"),
        ):
            face = "none" if marker == "D" else color
            if marked:
                size = np.clip(1.5 * np.sqrt(self.rows), 10, 120)
                ax.scatter(
                    mean, self.observed, size, marker=marker, facecolors=face, edgecolors=color, label=label
                )
            else:
                # The share of a small group is mostly chance: groups of alike probability are taken together.
                x, y = self._binned(mean) if kind == "groups" else _curve(self.curves[name])
                ax.plot(x, y, marker=marker, color=color, markerfacecolor=face, label=label)
        ax.set_xlabel(f"mean probability of the {'group' if kind == 'groups' else 'bin'}")
        ax.set_ylabel("share of positives by the held-out labels")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        _in_percent(ax.xaxis, ax.yaxis)
        ax.grid(alpha=0.3)
        ax.legend(loc="upper left", frameon=False)
        return self._drawn(ax)

    def _binned(self, probability: FloatArray, n_bins: int = 20) -> tuple[FloatArray, FloatArray]:
        """Mean probability and share of positives of twentieths of the groups, ordered by probability."""
        order = np.argsort(probability, kind="stable")
        part, rows = np.arange(len(order)) * n_bins // len(order), self.rows[order].astype(float)
        x, y = (mean_by(part, values[order], rows, n_bins) for values in (probability, self.observed))
        return x, y


def _of_two(model: Model, values: Values) -> Values:
    """Values of a model of two classes; a picture of more would need an axis that it does not have."""
    if (n := len(model.schema_.classes)) > 2:
        raise ValueError(
            f"This picture is for two classes, and the model has {n}. Call model.report(path), which shows all of them."
        )
    return values


def _curve(bins: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean probability and share of positives of each bin that holds any rows, over all groups."""
    weight, probability, share = np.moveaxis(np.nan_to_num(bins), -1, 0)
    total = weight.sum(0)
    seen = total > 0
    return (weight * probability).sum(0)[seen] / total[seen], (weight * share).sum(0)[seen] / total[seen]


def _chosen(known: ValueArray, wanted: Groups, kind: str) -> IntArray:
    """Numbers of the groups to show."""
    if len(known) == 0:
        raise ValueError(f"The model has no {kind} groups to show. Fit it with {kind} rows.")
    if wanted is None:
        return np.arange(len(known))
    values = np.empty(len(wanted), object)
    values[:] = list(wanted)
    number = Codes.of(known).transform(values)
    if (number < 0).any():
        raise ValueError(
            f"Groups {values[number < 0].tolist()[:5]} have no {kind} rows in this model. Pass some of its own, "
            f"such as {some(known.tolist(), 5)}."
        )
    return number


def _axes(ax: "Axes | None", *, height: float, width: float = 6.4) -> "Axes":
    if ax is not None:
        return ax
    made: Axes = need("matplotlib.pyplot").subplots(figsize=(width, height), layout="constrained")[1]
    return made


def _in_percent(*axes: "Axis") -> None:
    from matplotlib.ticker import PercentFormatter

    for axis in axes:
        axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))


def _height(n_lines: int) -> float:
    return float(np.clip(1.6 + 0.2 * n_lines, 2.6, 14))


def _name_groups(ax: "Axes", names: ValueArray, named: bool) -> None:
    if named:
        ax.set_yticks(np.arange(len(names)), [short(str(name)) for name in names])
    else:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names):,} groups")
    ax.set_ylim(-0.5, len(names) - 0.5)
