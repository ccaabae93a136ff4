"""What a fitted model says of itself: shares, diagnosis, summary, report."""

from os import PathLike
from typing import cast

from sklearn.utils.validation import check_is_fitted

from groupshift._explain.class_model import ClassModel
from groupshift._explain.diagnostics import Diagnosis
from groupshift._explain.fitted_attributes import FittedAttributes
from groupshift._explain.fitted_model import FittedModel
from groupshift._rows.frames import Features, frame_like


def _of_classes(model: object) -> ClassModel:
    """A fitted model of more than two classes, by the types of what it holds."""
    return cast("ClassModel", model)


class Explained(FittedAttributes):
    """Methods of a fitted model that change nothing."""

    def group_shares(self: FittedModel, *, by: str = "cell", coverage: float = 0.9) -> Features:
        """Shares of positives among the population rows, with intervals: the means of their predicted probabilities.

        Parameters
        ----------
        by : {"cell", "group"}
            One line for each (group, cluster) cell, or for each group, clusters weighted by its rows. Lines of groups end
            with the share among the group's labelled rows, NaN where it has none.
        coverage : float
            Probability that an interval holds the share.

        Returns
        -------
        frame of the library that X came in, or dict of arrays : group, (cluster,) rows, share, low, high(, labeled_share)
            With more than two classes, a line for each class, named in a column class before rows.
        """
        check_is_fitted(self)
        if self.is_multiclass_:
            from groupshift._explain.class_share_tables import class_shares_by

            return frame_like(class_shares_by(_of_classes(self), by, coverage), self.frame_library_)
        from groupshift._explain.share_tables import shares_by

        return frame_like(shares_by(self, by, coverage), self.frame_library_)

    def diagnose(self: FittedModel) -> Diagnosis:
        """Is it worth it, does the assumption hold, where not to trust it: a `Diagnosis` in sentences and tables."""
        check_is_fitted(self)
        if self.is_multiclass_:
            from groupshift._explain.class_diagnosis import diagnose_classes

            return diagnose_classes(_of_classes(self))
        from groupshift._explain.diagnostics import diagnose

        return diagnose(self)

    def summary(self: FittedModel) -> str:
        """What was learned and whether to trust it, as a text that fits a screen."""
        check_is_fitted(self)
        from groupshift._explain.summary import summary_text

        return summary_text(self)

    def report(
        self: FittedModel, path: str | PathLike[str], *, title: str | None = None, force: bool = False
    ) -> None:
        """Write everything about the fitted model into one HTML file at `path`; `force` replaces an existing one."""
        check_is_fitted(self)
        from groupshift._explain.report import write_report

        write_report(self, path, title=title, force=force)

    def _html_repr(self) -> str:
        """scikit-learn's picture of the estimator; after `fit`, what it found above it."""
        drawn: str = super()._html_repr()  # type: ignore[misc]  # scikit-learn's, beside this class
        if not hasattr(self, "evidence_"):
            return drawn
        from groupshift._explain.summary import summary_html

        return summary_html(cast("FittedModel", self)) + drawn
