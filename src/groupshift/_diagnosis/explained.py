"""What a fitted model says of itself: shares, diagnosis, summary, report."""

from os import PathLike
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from groupshift._data.frames import Features, frame_beside, frame_like, library_of
from groupshift._diagnosis.class_changes import class_share_difference, overall_class_share
from groupshift._diagnosis.class_diagnosis import diagnose_classes
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.class_share_tables import class_shares_by
from groupshift._diagnosis.diagnostics import Diagnosis, diagnose
from groupshift._diagnosis.draws import share_draws
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.identified import importance_of
from groupshift._diagnosis.share_errors import overall_share, share_difference, shares_by
from groupshift._diagnosis.share_tables import ShareDifference, ShareInterval
from groupshift._diagnosis.summary import summary_html, summary_text
from groupshift._shifts.class_scorer import by_class


def _of_classes(model: object) -> ClassModel:
    """A fitted model of more than two classes, by the types of what it holds."""
    return cast("ClassModel", model)


def _is_negative(model: FittedModel, of_class: object) -> bool:
    """Whether the class that is asked for is the other of two: its share is what is left to 1."""
    negative, positive = model.classes_.tolist()
    if of_class not in (None, negative, positive):
        raise ValueError(
            f"The model has no class {of_class!r}. Pass of_class=, one of {negative!r}, {positive!r}; without it, the share is "
            f"that of {positive!r}."
        )
    return of_class is not None and bool(of_class == negative)


class Explained(FittedModel):
    """Methods of a fitted model that change nothing."""

    def group_shares(
        self,
        *,
        by: str = "cell",
        coverage: float = 0.9,
        draws: int | None = None,
        random_state: Any = None,
        common_shift: bool = True,
    ) -> Features:
        """Shares of positives among the population rows, with intervals: the means of their predicted probabilities.

        Parameters
        ----------
        by : {"cell", "group", "overall"}
            One line for each (group, cluster) cell, for each group, clusters weighted by its rows, or one for all rows. Lines
            but those of cells end with the share among labelled rows, NaN where there are none.
        coverage : float
            Probability that an interval holds the share.
        draws : int, optional
            Return so many joint draws of the shares instead of intervals: groups are added, ranked or differenced draw by draw.
        random_state : as in scikit-learn
            Of the draws. The same seed gives the same draws for every `by`.
        common_shift : bool
            Whether draws include a shift of all groups alike that nothing in the data decides, as `overall_share` does.

        Returns
        -------
        frame of the library that X came in, or dict of arrays : (group, cluster,) rows, share, low, high(, labeled_share)
            With more than two classes, a line for each class, named in a column class before rows. With `draws`: (group, cluster,
            class,) rows, weight, draw_0, draw_1, …
        """
        check_is_fitted(self)
        if draws is not None:
            seed = int(check_random_state(random_state).randint(2**31 - 1))
            found = share_draws(
                self.estimate_, self.classes_, by, draws=draws, seed=seed, common_shift=common_shift
            )
            return frame_like(found, self.frame_library_)
        if self.is_multiclass_:
            return frame_like(class_shares_by(_of_classes(self), by, coverage), self.frame_library_)
        return frame_like(shares_by(self, by, coverage), self.frame_library_)

    def overall_share(self, *, coverage: float = 0.9, of_class: object = None) -> ShareInterval:
        """Share of positives among all population rows, by weight, with its interval: `share`, `low`, `high`.

        The interval holds what is not known of each group, the chance of every row and, unless a known rate or random labels
        settle it, what nothing in the data decides: labels of positives that came more often, in all groups alike. With more
        than two classes, `of_class` says whose share it is.
        """
        check_is_fitted(self)
        if self.is_multiclass_:
            return overall_class_share(_of_classes(self), of_class, coverage)
        found = overall_share(self, coverage)
        if _is_negative(self, of_class):
            return found._replace(share=1 - found.share, low=1 - found.high, high=1 - found.low)
        return found

    def share_difference(
        self, group: object, other: object, *, coverage: float = 0.9, of_class: object = None
    ) -> ShareDifference:
        """Share of one group less that of another, with its interval: `difference`, `low`, `high`.

        Errors that groups have in common cancel, so that it may be known better than either share. With more than two classes,
        `of_class` says whose share it is, and errors count as independent.
        """
        check_is_fitted(self)
        if self.is_multiclass_:
            return class_share_difference(_of_classes(self), group, other, of_class, coverage)
        if _is_negative(self, of_class):
            group, other = other, group
        return share_difference(self, group, other, coverage)

    def explain(self, X: Features, groups: ArrayLike | None = None) -> Features:
        """What drives the prediction of each row: a frame like X, or a dict of arrays.

        `plain_probability` is what the row's features say alone, `shift` the log-odds that its group adds, and `probability`
        what both make of it: logit(probability) = logit(plain_probability) + shift. Of more than two classes each has a column
        for every class, and probability ∝ plain_probability · exp(shift).
        """
        check_is_fitted(self)
        parts = self._predicted(X, groups, lambda scorer, rows: scorer.parts(scorer(rows)))
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if self.is_multiclass_ and library_of(X) is not None:
            found = by_class(found, self.classes_)
        return frame_beside(found, X)

    def feature_importance(self) -> Features:
        """How much worse labels that were hidden are predicted when a feature is shuffled: the rise of the log loss.

        Returns
        -------
        frame of the library that X came in, or dict of arrays : feature, loss_rise; the largest first, and no more than the
        twenty features that scores follow most
        """
        check_is_fitted(self)
        if self.is_multiclass_:
            raise ValueError(
                f"feature_importance is for two classes, and this model has {len(self.classes_)}. Fit a model of one class "
                "against the rest, y == that_class, and ask it."
            )
        found = importance_of(self)
        columns = {
            "feature": np.array(list(found), dtype=object),
            "loss_rise": np.array(list(found.values())),
        }
        return frame_like(columns, self.frame_library_)

    def diagnose(self) -> Diagnosis:
        """Is it worth it, does the assumption hold, where not to trust it: a `Diagnosis` in sentences and tables."""
        check_is_fitted(self)
        if self.is_multiclass_:
            return diagnose_classes(_of_classes(self))
        return diagnose(self)

    def summary(self) -> str:
        """What was learned and whether to trust it, as a text that fits a screen."""
        check_is_fitted(self)
        return summary_text(self)

    def report(self, path: str | PathLike[str], *, title: str | None = None, force: bool = False) -> None:
        """Write everything about the fitted model into one HTML file at `path`; `force` replaces an existing one."""
        check_is_fitted(self)
        from groupshift._diagnosis.report import write_report

        write_report(self, path, title=title, force=force)

    def _html_repr(self) -> str:
        """scikit-learn's picture of the estimator; after `fit`, what it found above it."""
        drawn: str = super()._html_repr()  # type: ignore[misc]  # scikit-learn's, beside this class
        if not hasattr(self, "evidence_"):
            return drawn
        return summary_html(self) + drawn
