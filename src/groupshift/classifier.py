"""GroupShiftClassifier: calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

import warnings
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from groupshift._explain.evidence import Observed, known_groups, record_evidence
from groupshift._fit.estimation import estimate_shifts
from groupshift._fit.fitting import Fitting
from groupshift._math.odds import in_doubt
from groupshift._rows.checks import (
    DegradedWarning,
    accepts_missing,
    check_coverage,
    check_features,
    check_labels,
    check_matrix,
    check_settings,
    check_weighed_classes,
    check_weights,
    column_name,
    example_keys,
    split_groups,
)
from groupshift._rows.chunks import map_chunks
from groupshift._rows.frames import Codes, FeatureEncoder, frame_like, library_of
from groupshift._rows.rows import InMemory, Population, Rows
from groupshift._rows.unseen import group_numbers


class GroupShiftClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier for grouped data whose labels are a biased sample.

    Learns a posterior from labelled rows, finds regions of feature space (clusters) in which positives look alike in
    every group, estimates the share of positives of each (group, cluster) cell from unlabelled rows, and moves the
    posterior of each cell by an odds ratio. What it cannot confirm on labelled groups whose labels it hides from
    itself, it leaves out; where nothing is confirmed, it is a plain calibrated classifier.

    Parameters
    ----------
    estimator : classifier with `predict_proba`, default None
        None is histogram gradient boosting, which takes missing values and categories as they are.
    partition : "validated", "silhouette", int, fitted clusterer, or list of fitted clusterers
        How feature space is cut into clusters: by the hidden-label judge, by the silhouette (the paper), at a given number
        of k-means clusters, or by a clusterer's `predict`. A list adds clusterers to the judge's candidates.
    calibration : {"crossfit", "holdout"}
        Platt scaling on out-of-fold scores of all labelled rows, or on 20 % of the distinct examples, held out (the paper).
    shares : {"mlls", "em", "bbse-hard", "bbse-soft"} or None
        Estimator of the share of positives of a cell; "em" is the paper's, with 100 iterations. None makes no shift.
    shrinkage : {"hierarchical", "none"}
        Pool shifts over groups and clusters, or leave each cell its own.
    trust : "learned" or float between 0 and 1
        Factor on every shift; learned from labelled groups whose labels are hidden.
    refine : "auto" or int
        Rounds of learning from unlabelled rows; "auto" tries one and keeps it if the judge confirms it.
    per_cluster : bool
        Train one classifier for each cluster (the paper) instead of one for all.
    labeled_prior : {"posterior", "share"}
        α̃ of a cluster: mean posterior of its labelled rows (the authors' code), or their share of positives (the paper). They
        differ where a cluster has next to no labels of one class.
    group : str, optional
        Column of X that holds the groups. With it, `cross_val_predict`, scorers and the like, which never pass groups to
        `predict_proba`, work as they are.
    unlabeled_value : default -1
        Value of y that marks an unlabelled row; missing values of y always do.
    unseen : {"pooled", "error"}
        What a group that `fit` had no unlabelled rows of gets: the shift common to all groups, or an error.
    n_jobs, random_state, verbose : as in scikit-learn

    Attributes
    ----------
    classes_ : array of shape (2,)
    groups_ : array
        The groups of the unlabelled rows, in the order of the arrays below.
    n_clusters_ : int
    group_prior_ : array of shape (n_groups, n_clusters)
        Share of positives of each cell, α_k^g.
    labeled_prior_ : array of shape (n_clusters,)
        Share of positives among labelled rows of each cluster, α̃_k.
    shift_ : array of shape (n_groups, n_clusters)
        Log-odds added to the labelled posterior in each cell.
    trust_ : float
    candidates_ : dict of arrays
        Partitions that the judge weighed: name, number of clusters, hidden-label loss, gain over no shift with its standard
        error, trust, chosen.
    notes_ : list of str
        What was decided on the way, in sentences.

    Examples
    --------
    >>> from groupshift import GroupShiftClassifier
    >>> from groupshift.datasets import make_grouped_mixture
    >>> sample = make_grouped_mixture(n_features=2, n_clusters=2, n_groups=20, labeled_per_group=(100, 0),
    ...                               unlabeled_per_group=(200, 0), random_state=0)
    >>> X, y, groups, _ = sample.training()
    >>> model = GroupShiftClassifier(random_state=0).fit(X, y, groups=groups)
    >>> model.predict_proba(X[:3], groups=groups[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator=None,
        partition="validated",
        calibration="crossfit",
        *,
        shares="mlls",
        shrinkage="hierarchical",
        trust="learned",
        refine="auto",
        per_cluster=False,
        labeled_prior="posterior",
        group=None,
        unlabeled_value=-1,
        unseen="pooled",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.partition = partition
        self.calibration = calibration
        self.shares = shares
        self.shrinkage = shrinkage
        self.trust = trust
        self.refine = refine
        self.per_cluster = per_cluster
        self.labeled_prior = labeled_prior
        self.group = group
        self.unlabeled_value = unlabeled_value
        self.unseen = unseen
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def published(cls, estimator=None, *, partition="silhouette", **params):
        """The paper's configuration, to the letter: a forest per cluster, held-out Platt scaling, EM, no shrinkage.

        >>> GroupShiftClassifier.published().estimator
        RandomForestClassifier(max_depth=10, n_estimators=500)
        """
        if estimator is None:
            estimator = RandomForestClassifier(n_estimators=500, max_depth=10, n_jobs=params.get("n_jobs"))
        settings = {
            "calibration": "holdout",
            "shares": "em",
            "shrinkage": "none",
            "trust": 1.0,
            "refine": 0,
            "per_cluster": True,
            "labeled_prior": "share",
        }
        return cls(estimator, partition, **{**settings, **params})

    def fit(self, X, y, groups=None, *, sample_weight=None, example_ids=None, known_shares=None):
        """Learn from labelled and unlabelled rows together.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels; `unlabeled_value` or missing where unknown.
        groups : array-like of shape (n_rows,), optional
            Group of each row, of any hashable kind.
        sample_weight : array-like, optional
            Row weights, honoured in every step.
        example_ids : array-like, optional
            Equal for rows that are copies of one example (or members of one household); they stay on one side of every split.
        known_shares : mapping of group to share or (share, standard error), optional
            Rates of positives known from elsewhere.
        """
        check_settings(self)
        rows, labels = self._read_fit(X, y, groups, sample_weight, example_ids)
        labeled = np.flatnonzero(labels >= 0)
        unlabeled = np.flatnonzero(labels < 0)
        labeled_rows = _recoded(rows.take(labeled), self._row_groups[labeled], "labeled_groups_", self)
        population = None
        if len(unlabeled):
            population = InMemory(
                _recoded(rows.take(unlabeled), self._row_groups[unlabeled], "groups_", self)
            )
        del self._row_groups
        return self._learn(labeled_rows, labels[labeled], population, known_shares)

    def update(self, X, groups=None, *, sample_weight=None, known_shares=None):
        """Estimate the shares again from new unlabelled rows, everything else kept: the monthly refresh.

        Groups without rows here count as unseen afterwards.
        """
        check_is_fitted(self)
        rows, values = self._read_rows(X, groups, sample_weight, None, reset=False)
        if values is None and self.has_groups_:
            raise ValueError(
                "This model was fitted with groups, but none were given to update. Pass groups=, so that each group gets "
                "shares of its own."
            )
        if values is None:
            values = np.zeros(len(rows), int)
        population = InMemory(_recoded(rows, values, "groups_", self))
        return self._update(population, known_shares)

    def predict_proba(self, X, groups=None):
        """Probabilities of the two classes for rows of the given groups; they depend on the row and its group alone."""
        positive = in_doubt(self._log_odds(X, groups)[0])
        return np.column_stack([1 - positive, positive])

    def predict(self, X, groups=None):
        """The likelier class of each row."""
        positive = self.predict_proba(X, groups)[:, 1] > 0.5
        return self.classes_[positive.astype(int)]

    def predict_details(self, X, groups=None, *, coverage=0.9):
        """Probability of the positive class with its interval, cluster, and whether it leans on pooling.

        The interval reflects what is not known about the shift of the row's cell. A row leans on pooling (`pooled`) where its
        group has no unlabelled rows, or its cell so few that most of its shift is borrowed from others.

        Returns
        -------
        dict of arrays : probability, low, high, cluster, pooled
        """
        log_odds, cluster, group = self._log_odds(X, groups)
        return self._details(log_odds, cluster, group, coverage)

    def _details(self, log_odds, cluster, group, coverage):
        variance, pooled = self.unseen_variance_[cluster], group < 0
        if len(self.groups_):
            variance = np.where(pooled, variance, self.shift_variance_[group, cluster])
            pooled = pooled | (self.pooling_[group, cluster] > 0.5)
        reach = ndtri(0.5 + check_coverage(coverage) / 2) * np.sqrt(variance)
        return {
            "probability": in_doubt(log_odds),
            "low": in_doubt(log_odds - reach),
            "high": in_doubt(log_odds + reach),
            "cluster": cluster,
            "pooled": pooled,
        }

    def group_shares(self, *, by="cell", coverage=0.9):
        """Shares of positives among the population rows, with intervals.

        Parameters
        ----------
        by : {"cell", "group"}
            One line for each (group, cluster) cell, or for each group, clusters weighted by its rows.
            Lines of groups end with the share among the group's labelled rows, to compare.
        coverage : float
            Probability that an interval holds the share.

        Returns
        -------
        frame of the library that X came in, or dict of arrays
            by cell: group, cluster, rows, share, low, high; by group: group, rows, share, low, high,
            labeled_share (NaN for a group without labelled rows).
        """
        check_is_fitted(self)
        from groupshift._explain.share_tables import cell_shares, group_level_shares, labeled_sample

        if by not in ("cell", "group"):
            raise ValueError(f"by={by!r} is not known. Pass 'cell' or 'group'.")
        check_coverage(coverage)
        if by == "cell":
            columns = cell_shares(self, coverage)
        else:
            columns = group_level_shares(self, coverage) | {"labeled_share": labeled_sample(self)[0]}
        return frame_like(columns, self.frame_library_)

    def diagnose(self):
        """Is it worth it, does the assumption hold, where not to trust it: a `Diagnosis` in sentences and tables."""
        check_is_fitted(self)
        from groupshift._explain.diagnostics import diagnose

        return diagnose(self)

    def summary(self) -> str:
        """What was learned and whether to trust it, as a text that fits a screen."""
        check_is_fitted(self)
        from groupshift._explain.summary import summary_text

        return summary_text(self)

    def report(self, path, *, title=None, force=False):
        """Write everything about the fitted model into one HTML file at `path`; `force` replaces an existing one."""
        check_is_fitted(self)
        from groupshift._explain.report import write_report

        return write_report(self, path, title=title, force=force)

    def _html_repr(self):
        """scikit-learn's picture of the estimator; after `fit`, what it found above it."""
        drawn = super()._html_repr()
        if not hasattr(self, "evidence_"):
            return drawn
        from groupshift._explain.summary import summary_html

        return summary_html(self) + drawn

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = accepts_missing(self.estimator)
        return tags

    def _read_fit(self, X, y, groups, sample_weight, example_ids, encoder=None) -> tuple[Rows, np.ndarray]:
        rows, self._row_groups = self._read_rows(
            X, groups, sample_weight, example_ids, reset=True, encoder=encoder
        )
        self.role_names_ = {"target": column_name(y), "group": self.group or column_name(groups)}
        labels, self.classes_ = check_labels(y, self.unlabeled_value, len(rows))
        check_weighed_classes(labels, self.classes_, rows.weight)
        if self._row_groups is None:
            self._row_groups = np.zeros(len(rows), int)
            self.has_groups_ = False
        else:
            self.has_groups_ = True
        return rows, labels

    def _read_rows(self, X, groups, sample_weight, example_ids, *, reset: bool, encoder=None):
        """Checked rows, not yet numbered by group, and the groups as given; `encoder`: one that has seen more than X."""
        allow_nan = accepts_missing(self.estimator)
        X = check_features(X, allow_nan=allow_nan)
        validate_data(self, X, skip_check_array=True, reset=reset)
        n_rows = X.shape[0]
        features, groups = split_groups(X, groups, self.group, n_rows)
        if reset:
            self.encoder_ = FeatureEncoder().fit(features) if encoder is None else encoder
            self.frame_library_ = library_of(X)
        matrix = self.encoder_.transform(features)
        check_matrix(matrix, self.encoder_.names_, None if allow_nan else type(self.estimator).__name__)
        rows = Rows(
            features=matrix if self.estimator is None else features,
            matrix=matrix,
            group=np.zeros(n_rows, np.int64),
            weight=check_weights(sample_weight, n_rows),
            key=example_keys(example_ids, n_rows),
        )
        return rows, groups

    def _learn(self, labeled: Rows, y: np.ndarray, population: Population | None, known_shares=None):
        """Everything after reading: also the way in for populations in files and on clusters."""
        if population is None:
            self.groups_ = np.empty(0, self.labeled_groups_.dtype)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitting = Fitting(self, labeled, y, population, known_shares, seed)
        fitting.run()
        self.evidence_ = record_evidence(_observed(fitting))
        self.known_groups_ = known_groups(self.groups_, known_shares)
        for note in fitting.warnings:
            warnings.warn(note, DegradedWarning, stacklevel=3)
        return self

    def _update(self, population: Population, known_shares=None):
        estimate_shifts(self, population, known_shares)
        self.known_groups_ = known_groups(self.groups_, known_shares)
        return self

    def _log_odds(self, X, groups):
        """Group-aware log-odds, cluster and group number (-1: unseen) of rows."""
        check_is_fitted(self)
        rows, values = self._read_rows(X, groups, None, None, reset=False)
        group = group_numbers(self, values, len(rows))
        numbered = Rows(rows.features, rows.matrix, group, rows.weight, rows.key)
        parts = zip(*map_chunks(self._shifted, numbered.chunks()), strict=True)
        log_odds, cluster = (part[0] if len(part) == 1 else np.concatenate(part) for part in parts)
        return log_odds, cluster, group

    def _shifted(self, rows: Rows):
        """Group-aware log-odds and cluster of rows whose groups are numbered as `groups_`."""
        log_odds, cluster = self.posterior_.score(rows)
        if not len(self.groups_):
            return log_odds, cluster
        shift = np.where(rows.group >= 0, self.shift_[rows.group, cluster], self.unseen_shift_[cluster])
        return log_odds + shift, cluster


def _observed(fitting: Fitting) -> Observed:
    """What evidence is recorded of a finished fit."""
    model = fitting.model
    return Observed(
        labeled=fitting.labeled,
        y=fitting.y,
        n_labeled_groups=len(model.labeled_groups_),
        pooled=fitting.pooled,
        is_category=model.encoder_.is_category,
        partition=fitting.candidate.partition,
        cluster=fitting.candidate.cluster,
        judged=fitting.judged,
        score=fitting.score,
        plain_score=fitting.plain_score,
        fold=fitting.fold,
        design_effect=fitting.design_effect,
        trial=fitting.trial,
        trust=model.trust_,
        trust_is_given=model.trust != "learned",
        context=model.context_,
        shares=model.shares,
        shrinkage=model.shrinkage,
        labeled_prior=model.labeled_prior,
        prediction_rates=model.prediction_rates_ if str(model.shares).startswith("bbse") else None,
        seed=fitting.seed,
    )


def _recoded(rows: Rows, values: np.ndarray, attribute: str, model: Any) -> Rows:
    """Rows numbered by group, the groups kept on the model."""
    codes = Codes().fit(values)
    setattr(model, attribute, codes.values_)
    return Rows(rows.features, rows.matrix, codes.transform(values), rows.weight, rows.key)
