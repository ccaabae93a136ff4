"""GroupShiftClassifier: calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from groupshift._explain.diagnostics import Diagnosis
from groupshift._explain.evidence import Observed, record_evidence
from groupshift._explain.evidence_parts import Evidence
from groupshift._fit.classifiers import Classifier
from groupshift._fit.estimate import Estimate, check_known, estimate
from groupshift._fit.learned import Learned
from groupshift._fit.posterior import LabeledPosterior
from groupshift._fit.problem import KnownRates, Problem, Settings, sentences
from groupshift._fit.scorer import Details, Scored, Scorer, concatenated_details
from groupshift._fit.stages import run
from groupshift._fit.trials import CandidateTable
from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.context import Context
from groupshift._math.odds import in_doubt
from groupshift._math.points import Points
from groupshift._rows.checks import (
    DegradedWarning,
    accepts_missing,
    check_coverage,
    check_features,
    check_labels,
    check_settings,
    check_weights,
    split_groups,
)
from groupshift._rows.chunks import map_chunks
from groupshift._rows.codes import Codes
from groupshift._rows.encoder import FeatureEncoder
from groupshift._rows.frames import Features, frame_like, take_rows
from groupshift._rows.progress import begin, steps
from groupshift._rows.reading import ReadOptions, Training, read_rows, read_training
from groupshift._rows.rows import InMemory, Population, Rows
from groupshift._rows.schema import Schema
from groupshift._rows.seeds import Seeds
from groupshift._rows.unseen import NOT_GIVEN, group_numbers, report_unseen
from groupshift._rows.workers import workers

# What scikit-learn keeps of the columns of X.
COLUMN_ATTRIBUTES = ("n_features_in_", "feature_names_in_")
# Rows that are predicted at a time: with a dozen features, what is made of them stays in the processor's cache.
PREDICTED_ROWS = 32_768
Answer = TypeVar("Answer")


def _read(part: str, name: str) -> Any:
    """A fitted attribute that is read from one of the values that a fit ends in."""
    return property(lambda model: getattr(getattr(model, part), name))


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
    n_jobs : int, optional
        Threads that work at once, on folds, clusters, candidates or chunks of rows; -1 for all cores. None is what
        `joblib.parallel_config` says, or else all cores, but no more than the environment variable OMP_NUM_THREADS. Each fit
        of a classifier has one thread, and the answer does not depend on how many there are.
    random_state : as in scikit-learn
    verbose : int
        1 says on standard error which step is under way, what is done of it and how long the rest will take; at most a line a
        second. 2 says it after each fit and chunk.

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

    # What a fit ends in: four values, assigned together. Everything else is read from them.
    schema_: Schema
    learned_: Learned
    estimate_: Estimate
    evidence_: Evidence
    candidates_: CandidateTable | None
    notes_: list[str]

    classes_: ValueArray = _read("schema_", "classes")
    encoder_: FeatureEncoder = _read("schema_", "encoder")
    has_groups_: bool = _read("schema_", "has_groups")
    frame_library_: str | None = _read("schema_", "library")
    role_names_: dict[str, str | None] = _read("schema_", "role_names")

    posterior_: LabeledPosterior = _read("learned_", "posterior")
    n_clusters_: int = _read("learned_", "n_clusters")
    labeled_groups_: ValueArray = _read("learned_", "labeled_groups")
    labeled_prior_: FloatArray = _read("learned_", "labeled_prior")
    labeled_rows_: IntArray = _read("learned_", "labeled_rows")
    rarer_class_rows_: FloatArray = _read("learned_", "rarer_class_rows")
    trust_: float = _read("learned_", "trust")
    trust_variance_: float = _read("learned_", "trust_variance")
    residual_variance_: float = _read("learned_", "residual_variance")
    context_: Context | None = _read("learned_", "context")
    design_effect_: float = _read("learned_", "design_effect")

    groups_: ValueArray = _read("estimate_", "groups")
    rows_: IntArray = _read("estimate_", "rows")
    row_weight_: FloatArray = _read("estimate_", "row_weight")
    shift_: FloatArray = _read("estimate_", "shift")
    shift_variance_: FloatArray = _read("estimate_", "variance")
    shared_deviation_: FloatArray = _read("estimate_", "shared_deviation")
    pooling_: FloatArray = _read("estimate_", "pooling")
    group_prior_: FloatArray = _read("estimate_", "share")
    share_error_: FloatArray = _read("estimate_", "share_error")
    unseen_shift_: FloatArray = _read("estimate_", "unseen_shift")
    unseen_variance_: FloatArray = _read("estimate_", "unseen_variance")
    tally_: Points | None = _read("estimate_", "points")
    known_groups_: ValueArray = _read("estimate_", "known_groups")

    def __init__(
        self,
        estimator: Classifier | None = None,
        partition: Any = "validated",
        calibration: str = "crossfit",
        *,
        shares: str | None = "mlls",
        shrinkage: str = "hierarchical",
        trust: float | Literal["learned"] = "learned",
        refine: int | Literal["auto"] = "auto",
        per_cluster: bool = False,
        labeled_prior: str = "posterior",
        group: str | None = None,
        unlabeled_value: object = -1,
        unseen: str = "pooled",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
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
    def published(
        cls, estimator: Classifier | None = None, *, partition: Any = "silhouette", **params: Any
    ) -> Self:
        """The paper's configuration, to the letter: a forest per cluster, held-out Platt scaling, EM, no shrinkage.

        >>> GroupShiftClassifier.published().estimator
        RandomForestClassifier(max_depth=10, n_estimators=500)
        """
        if estimator is None:
            estimator = RandomForestClassifier(n_estimators=500, max_depth=10, n_jobs=params.get("n_jobs"))
        settings: dict[str, Any] = {
            "calibration": "holdout",
            "shares": "em",
            "shrinkage": "none",
            "trust": 1.0,
            "refine": 0,
            "per_cluster": True,
            "labeled_prior": "share",
        }
        return cls(estimator, partition, **{**settings, **params})

    def fit(
        self,
        X: Features,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
        known_shares: KnownRates | None = None,
    ) -> Self:
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
        training = read_training(self._read_options(), X, y, groups, sample_weight, example_ids)
        return self._learn(training, known_shares)

    def update(
        self,
        X: Features,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
        known_shares: KnownRates | None = None,
    ) -> Self:
        """Estimate the shares again from new unlabelled rows, everything else kept: the monthly refresh.

        Groups without rows here count as unseen afterwards. With the rows of `fit` it changes nothing; where `fit` was
        given example ids, pass theirs.
        """
        check_is_fitted(self)
        rows, values = self._read_rows(X, groups, sample_weight, example_ids)
        if values is None and self.has_groups_:
            raise ValueError(
                "This model was fitted with groups, but none were given to update. Pass groups=, so that each group gets "
                "shares of its own."
            )
        codes = Codes().fit(np.zeros(len(rows), int) if values is None else values)
        numbers = np.zeros(len(rows), np.int64) if values is None else codes.transform(values)
        return self._update(InMemory(rows.numbered(numbers)), codes.values_, known_shares)

    def predict_proba(self, X: Features, groups: ArrayLike | None = None) -> FloatArray:
        """Probabilities of the two classes for rows of the given groups; they depend on the row and its group alone."""
        parts = self._predicted(X, groups, lambda scorer, scored: in_doubt(scored.log_odds))
        probability = np.empty((sum(map(len, parts)), 2))
        np.concatenate(parts, out=probability[:, 1])
        np.subtract(1, probability[:, 1], out=probability[:, 0])
        return probability

    def predict(self, X: Features, groups: ArrayLike | None = None) -> ValueArray:
        """The likelier class of each row."""
        positive = self.predict_proba(X, groups)[:, 1] > 0.5
        labels: ValueArray = self.classes_[positive.astype(int)]
        return labels

    def predict_details(
        self, X: Features, groups: ArrayLike | None = None, *, coverage: float = 0.9
    ) -> Details:
        """Probability of the positive class with its interval, cluster, and whether it leans on pooling.

        The interval reflects what is not known about the shift of the row's cell. A row leans on pooling (`pooled`) where its
        group has no unlabelled rows, or its cell so few that most of its shift is borrowed from others.

        Returns
        -------
        dict of arrays : probability, low, high, cluster, pooled
        """
        parts = self._predicted(X, groups, lambda scorer, scored: scorer.details(scored, coverage))
        return concatenated_details(parts)

    def score(
        self,
        X: Features,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Accuracy on the labelled rows; rows without a label, as `fit` takes them, are left out."""
        check_is_fitted(self)
        n_rows = check_features(X).shape[0]
        labels, classes = check_labels(y, self.unlabeled_value, n_rows, classes=self.classes_)
        known = np.flatnonzero(labels >= 0)
        predicted = self.predict(X, groups)[known]
        weight = None if sample_weight is None else check_weights(sample_weight, n_rows)[known]
        return float(accuracy_score(classes[labels[known]], predicted, sample_weight=weight))

    def group_shares(self, *, by: str = "cell", coverage: float = 0.9) -> Features:
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

    def diagnose(self) -> Diagnosis:
        """Is it worth it, does the assumption hold, where not to trust it: a `Diagnosis` in sentences and tables."""
        check_is_fitted(self)
        from groupshift._explain.diagnostics import diagnose

        return diagnose(self)

    def summary(self) -> str:
        """What was learned and whether to trust it, as a text that fits a screen."""
        check_is_fitted(self)
        from groupshift._explain.summary import summary_text

        return summary_text(self)

    def report(self, path: Any, *, title: str | None = None, force: bool = False) -> Any:
        """Write everything about the fitted model into one HTML file at `path`; `force` replaces an existing one."""
        check_is_fitted(self)
        from groupshift._explain.report import write_report

        return write_report(self, path, title=title, force=force)

    def _html_repr(self) -> str:
        """scikit-learn's picture of the estimator; after `fit`, what it found above it."""
        drawn: str = super()._html_repr()
        if not hasattr(self, "evidence_"):
            return drawn
        from groupshift._explain.summary import summary_html

        return summary_html(self) + drawn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = accepts_missing(self.estimator)
        return tags

    def _read_options(self) -> ReadOptions:
        needs_values = None if accepts_missing(self.estimator) else type(self.estimator).__name__
        return ReadOptions(self.group, self.unlabeled_value, self.estimator is None, needs_values)

    def _read_rows(
        self,
        X: Features,
        groups: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
    ) -> tuple[Rows, ValueArray | None]:
        """Rows for the fitted model, not yet numbered by group, and their groups as given."""
        return read_rows(self.schema_, self.group, self._checked(X), groups, sample_weight, example_ids)

    def _checked(self, X: Features) -> Features:
        """A table with the columns of fit."""
        X = check_features(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return X

    def _learn(self, training: Training, known_shares: KnownRates | None = None) -> Self:
        """Everything after reading: also the way in for populations in files and on clusters."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        settings = Settings(**{name: getattr(self, name) for name in Settings.__dataclass_fields__})
        problem = Problem.of(
            training.labeled,
            training.y,
            population=training.population,
            labeled_groups=training.labeled_groups,
            groups=training.groups,
            has_groups=training.schema.has_groups,
            encoder=training.schema.encoder,
            settings=settings,
            seeds=Seeds(seed),
            known_shares=check_known(known_shares, training.groups),
        )
        with workers(self.n_jobs), steps():
            finished = run(problem)
            evidence = record_evidence(Observed.of(problem, finished))
        columns = _columns(self, training.head)
        for name in COLUMN_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self.__dict__.update(
            columns,
            schema_=training.schema,
            learned_=finished.settled.learned,
            estimate_=finished.estimate,
            evidence_=evidence,
            candidates_=finished.judged.table,
            notes_=sentences(finished.notes),
        )
        for note in finished.notes:
            if note.degraded:
                warnings.warn(note.sentence, DegradedWarning, stacklevel=3)
        return self

    def _update(
        self, population: Population, groups: ValueArray, known_shares: KnownRates | None = None
    ) -> Self:
        with workers(self.n_jobs), steps():
            begin("estimating shares", self.verbose)
            self.estimate_ = estimate(self.learned_, population, groups, known_shares)
        return self

    def _scorer(self) -> Scorer:
        """What predictions are made by, taken once: an `update` in another thread does not mix into them."""
        return Scorer.of(self.learned_.posterior, self.estimate_)

    def _predicted(
        self, X: Features, groups: ArrayLike | None, answer: Callable[[Scorer, Scored], Answer]
    ) -> list[Answer]:
        """What `answer` makes of the scores of rows, chunk by chunk: encoded, cut and scored while they are in the cache."""
        check_is_fitted(self)
        scorer, schema, has_groups = self._scorer(), self.schema_, self.has_groups_
        X = self._checked(X)
        n_rows = X.shape[0]
        features, values = split_groups(X, groups, self.group, n_rows)
        number = group_numbers(values, Codes.of(scorer.groups), has_groups=has_groups, n_rows=n_rows)
        if has_groups and values is None:
            warnings.warn(NOT_GIVEN, UserWarning, stacklevel=3)
        elif values is not None and len(scorer.groups) and (number < 0).any():
            report_unseen(values[number < 0], unseen=self.unseen, stacklevel=4)

        def of_part(part: slice) -> Answer:
            return answer(scorer, scorer(schema.unweighted(take_rows(features, part), number[part])))

        parts = (slice(start, start + PREDICTED_ROWS) for start in range(0, n_rows, PREDICTED_ROWS))
        with workers(self.n_jobs):
            return list(map_chunks(of_part, parts))


def _columns(model: GroupShiftClassifier, X: Features) -> dict[str, Any]:
    """Names and number of features, as scikit-learn keeps them; a copy is asked, so that a failed fit changes nothing."""
    asked = copy(model)
    validate_data(asked, X, skip_check_array=True, reset=True)
    return {name: getattr(asked, name) for name in COLUMN_ATTRIBUTES if hasattr(asked, name)}
