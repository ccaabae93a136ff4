"""GroupShiftClassifier: calibrated, group-aware probabilities from a biased labelled sample and an unlabelled population."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from groupshift import pipeline
from groupshift._audit.found import AuditFound, check_population, learn_from, learned_again
from groupshift._audit.plan import AuditPlan, check_auditable, plan_audit, read_labels, score_population
from groupshift._data.batches import check_columns, fitted_roles
from groupshift._data.checks import (
    DegradedWarning,
    accepts_missing,
    check_features,
    check_labels,
    check_length,
    check_settings,
    check_weights,
)
from groupshift._data.codes import NOT_GIVEN, Codes, group_numbers, report_unseen, same_kind
from groupshift._data.encoder import FeatureEncoder
from groupshift._data.extras import need
from groupshift._data.frames import (
    Features,
    as_column,
    as_frame,
    frame_beside,
    frame_like,
    library_of,
    take_rows,
)
from groupshift._data.keys import Seeds
from groupshift._data.problem import Classifier, KnownRates, KnownShare, Problem, Settings, sentences
from groupshift._data.progress import begin, steps
from groupshift._data.reading import (
    COLUMN_ATTRIBUTES,
    ReadOptions,
    Samples,
    Schema,
    column_attributes,
    numbered,
    read_rows,
    read_samples,
    split_fitted,
)
from groupshift._data.rows import InMemory, Rows
from groupshift._data.workers import map_chunks, workers
from groupshift._diagnosis.diagnosis import Diagnosis, diagnose
from groupshift._diagnosis.draws import share_draws
from groupshift._diagnosis.features import importance_table
from groupshift._diagnosis.fitted import Evidence
from groupshift._diagnosis.record import record_evidence
from groupshift._diagnosis.share_tables import (
    ShareDifference,
    ShareInterval,
    overall_share,
    share_difference,
    shares_by,
)
from groupshift._diagnosis.summary import Summary, summary_text
from groupshift._math.arrays import BoolArray, FloatArray, IntArray, ValueArray
from groupshift._shifts.common import CommonShift
from groupshift._shifts.counts import CountRows, Counts, fingerprint, total_counts
from groupshift._shifts.estimate import Estimate, Learned, estimate_from_counts
from groupshift._shifts.known import known_of
from groupshift._shifts.prediction_sets import set_thresholds, sets_of
from groupshift._shifts.scorer import Scorer, by_class, concatenated_details, detail_columns
from groupshift.tables.arrow import BATCH_ROWS, arrow_batches, is_stream

# Rows that are predicted at a time: with a dozen features, what is made of them stays in the processor's cache.
PREDICTED_ROWS = 32_768
Answer = TypeVar("Answer")


def _read(part: str, name: str) -> Any:
    """A fitted attribute that is read from one of the values that a fit ends in; before `fit` it is not there."""
    return property(lambda model: getattr(getattr(model, part), name))


class GroupShiftClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier for grouped data whose labels are a biased sample.

    Learns a posterior from labelled rows, finds regions of feature space (clusters) in which positives look alike in
    every group, estimates the share of positives of each (group, cluster) cell from unlabelled rows, and moves the
    posterior of each cell by an odds ratio. The less the data support a shift, the closer it is to none.

    Parameters
    ----------
    estimator : classifier with `predict_proba`, list of classifiers, default None
        None stacks boosted trees and a linear model, which take missing values and categories. A list is stacked
        in the same way; one classifier is used alone. Scores are calibrated on held-out labels.
    partition : "validated", "silhouette", int, fitted clusterer, or list of fitted clusterers
        How feature space is cut into clusters: by held-out labels of whole groups, by the silhouette (the paper), at a given
        number of k-means clusters, or by a clusterer's `predict`. A list adds clusterers to the candidates.
    calibration : {"crossfit", "holdout"}
        On out-of-fold scores of all labelled rows, or Platt scaling on a random 20 % of the distinct examples, held out (the
        paper).
    shares : {"mlls", "em", "bbse-hard", "bbse-soft"} or None
        Estimator of the share of positives of a cell; "em" is the paper's, with 100 iterations. None makes no shift.
    shrinkage : {"hierarchical", "none", "small_cells"}
        Pool shifts over groups and clusters, or leave each cell its own. "small_cells" is "none" but for the smallest cells, see
        `published`.
    selection : {"unknown", "random", "by_label"}
        How labels were chosen within a group. "random": a random sample given x, so that a group's own labels count fully and
        nothing shifts all groups alike. "by_label": by the label itself, so that they never move its share. "unknown": as far
        as scores of labelled and unlabelled rows show it.
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
        Workers at once, on folds, clusters, candidates or chunks of rows; -1 for all cores. None is what
        `joblib.parallel_config` says, or else all cores, but no more than OMP_NUM_THREADS. The answer does not depend on it.
        They are threads.
    random_state : as in scikit-learn
    verbose : int
        1 says on standard error which step is under way and how long the rest will take, 2 after each fit and chunk.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    groups_ : array
        The groups of the unlabelled rows, in the order of the arrays below.
    n_clusters_ : int
    group_prior_ : array of shape (n_groups, n_clusters)
        Share of positives of each cell, α_k^g. With more than two classes this and the next two have a last axis for the classes.
    labeled_prior_ : array of shape (n_clusters,)
        Share of positives among labelled rows of each cluster, α̃_k.
    shift_ : array of shape (n_groups, n_clusters)
        Log-odds added to the labelled posterior in each cell; with more than two classes, added to log-probabilities.
    random_labels_ : probability that the labels of each group are a random sample of its rows
    common_shift_ : the shift of all groups alike, as log-odds: `mean`, `covariance`, `probability` that there is one
    candidates_ : dict of arrays
        Partitions that were tried: candidate, n_clusters, loss (of held-out labels), gain over one cluster, gain_error, chosen.
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

    # What a fit ends in, assigned together. Everything else is read from it.
    schema_: Schema
    learned_: Learned
    estimate_: Estimate
    evidence_: Evidence
    candidates_: dict[str, ValueArray] | None
    notes_: list[str]
    audit_: AuditFound | None

    classes_: ValueArray = _read("schema_", "classes")
    is_multiclass_: bool = _read("schema_", "is_multiclass")
    encoder_: FeatureEncoder = _read("schema_", "encoder")
    has_groups_: bool = _read("schema_", "has_groups")
    frame_library_: str | None = _read("schema_", "library")
    role_names_: dict[str, str | None] = _read("schema_", "role_names")
    n_clusters_: int = _read("learned_", "n_clusters")
    labeled_groups_: ValueArray = _read("learned_", "labeled_groups")
    labeled_prior_: FloatArray = _read("learned_", "labeled_prior")
    labeled_rows_: IntArray = _read("learned_", "labeled_rows")
    groups_: ValueArray = _read("estimate_", "groups")
    rows_: IntArray = _read("estimate_", "rows")
    row_weight_: FloatArray = _read("estimate_", "row_weight")
    shift_: FloatArray = _read("estimate_", "shift")
    shift_variance_: FloatArray = _read("estimate_", "variance")
    group_prior_: FloatArray = _read("estimate_", "share")
    share_error_: FloatArray = _read("estimate_", "share_error")
    unseen_shift_: FloatArray = _read("estimate_", "unseen_shift")
    unseen_variance_: FloatArray = _read("estimate_", "unseen_variance")
    known_groups_: ValueArray = _read("estimate_", "known_groups")
    known_overall_: FloatArray | tuple[float, float] | None = _read("estimate_", "known_overall")
    random_labels_: float = _read("estimate_", "random_labels")
    common_shift_: CommonShift = _read("estimate_", "common")

    def __init__(
        self,
        estimator: Classifier | Sequence[Classifier] | None = None,
        partition: Any = "validated",
        calibration: str = "crossfit",
        *,
        shares: str | None = "mlls",
        shrinkage: str = "hierarchical",
        selection: str = "unknown",
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
        self.selection = selection
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
        cls,
        estimator: Classifier | None = None,
        *,
        partition: Any = "silhouette",
        small_cells: str = "alone",
        **params: Any,
    ) -> Self:
        """The algorithm of the article's text: a forest per cluster, held-out Platt scaling, EM, no shrinkage.

        `small_cells="pooled"` differs from the text where rows are few: Platt lines of clusters are pulled towards a common
        line, no share is nearer to 0 or 1 than half a row, and the held-out rows have every cluster's own share of positives.

        >>> GroupShiftClassifier.published().estimator
        RandomForestClassifier(max_depth=10, n_estimators=500)
        """
        if small_cells not in ("alone", "pooled"):
            raise ValueError(
                f"small_cells={small_cells!r} is not known. Pass 'alone' (the text) or 'pooled'."
            )
        if estimator is None:
            estimator = RandomForestClassifier(n_estimators=500, max_depth=10, n_jobs=params.get("n_jobs"))
        settings: dict[str, Any] = {
            "calibration": "holdout",
            "shares": "em",
            "shrinkage": "none" if small_cells == "alone" else "small_cells",
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
        known_overall: KnownShare | None = None,
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
            Equal for copies of one example (or members of one household), which stay on one side of every split.
        known_shares : mapping of group to share or (share, standard error), optional
            Rates of positives of some groups' unlabelled rows, known from elsewhere. They move the other groups too, through what
            all groups have in common. With more than two classes, mappings of class to share.
        known_overall : share or (share, standard error), optional
            Rate of positives (or of classes, by name) of all unlabelled rows together, by weight: it settles what no unlabelled
            row can tell, a shift of all groups alike. Without a standard error, the predictions of these rows average to it.
        """
        check_settings(self)
        training = read_samples(self._read_options(), X, y, groups, sample_weight, example_ids)
        return self._learn(training, known_shares, known_overall)

    def count(
        self,
        X: Features,
        groups: ArrayLike | str | None = None,
        *,
        sample_weight: ArrayLike | str | None = None,
    ) -> Counts:
        """Sums over unlabelled rows, all that `update` needs of them: small, and exact to add with ``+`` in any order.

        Parameters
        ----------
        X : array, frame, Arrow table or record batch, or what has ``__arrow_c_stream__``, which is read a batch at a time
            Columns that `fit` did not learn from, such as labels, are not looked at.
        groups, sample_weight : array-like of shape (n_rows,), or the name of a column
            Default: the column of groups that the model knows, and 1.
        """
        check_is_fitted(self)
        if is_stream(X):
            parts = self._batches(X, groups, sample_weight)
            return total_counts(self._count_batch(*part) for part in parts)
        frame = as_frame(X := check_features(X))
        if frame is not None:
            group = groups if isinstance(groups, str) else None
            if groups is None or group is not None:
                group = fitted_roles(self.schema_, self.group, group).group
            weight = sample_weight if isinstance(sample_weight, str) else None
            names = list(getattr(self, "feature_names_in_", self.encoder_.names_))
            check_columns(
                frame.columns, [*names, *(name for name in (group, weight) if name is not None)], "X"
            )
            X = frame.select(names).to_native()
            if group is not None:
                # A column that the setting `group` names is read where it is.
                groups = None if self.group is not None else frame.get_column(group).to_numpy()
            sample_weight = sample_weight if weight is None else frame.get_column(weight).to_numpy()
        with workers(self.n_jobs), steps():
            begin("counting rows", self.verbose)
            return self._counted(*self._read_numbered(X, groups, sample_weight), exact=False)

    def update(
        self,
        X: Features = None,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
        known_shares: KnownRates | None = None,
        known_overall: KnownShare | None = None,
        counts: Counts | None = None,
    ) -> Self:
        """Estimate the shares again from new unlabelled rows, everything else kept: the monthly refresh.

        Groups without rows here count as unseen afterwards. With the rows (and example ids) of `fit` it changes nothing. Known
        rates are those of the new rows. `counts` stand for rows that `count` has seen, wherever that was.
        """
        check_is_fitted(self)
        if (X is None) == (counts is None):
            raise ValueError("update takes rows or counts of rows. Pass X or counts=, one of them.")
        with workers(self.n_jobs), steps():
            begin("estimating shares", self.verbose)
            if counts is None and is_stream(X):
                counts = self.count(X, groups, sample_weight=sample_weight)
            elif counts is None:
                read = self._read_numbered(X, groups, sample_weight, example_ids)
                counts = self._counted(*read, exact=self.learned_.is_text)
            counts.check_model(fingerprint(self.learned_))
            same_kind(self.labeled_groups_, counts.groups, "Groups were of type {} at fit and are {} now")
            known = known_of(known_shares, known_overall, counts.groups, self.classes_)
            fresh = estimate_from_counts(self.learned_, counts, known)
        self.__dict__.update(zip(("audit_", "estimate_"), learned_again(self.audit_, fresh), strict=True))
        return self

    def _batches(self, X: Features, *others: Any) -> Iterator[tuple[Any, ...]]:
        """A stream batch by batch, each with its part of what was given for all rows; a table is one batch."""
        if not is_stream(X):
            yield X, *others
            return
        first = 0
        columns = [one if one is None or isinstance(one, str) else as_column(one) for one in others]
        for batch in arrow_batches(X, BATCH_ROWS):
            table, rows = need("pyarrow").table(batch), slice(first, first := first + batch.num_rows)
            yield table, *(one[rows] if isinstance(one, np.ndarray) and one.ndim else one for one in columns)
        if not first:
            raise ValueError("X is a stream that gave no rows; at least one is required. Pass one with rows.")
        for one in columns:
            if isinstance(one, np.ndarray) and one.ndim:
                check_length("What was given beside X", one, first)

    def _count_batch(self, X: Features, groups: Any, sample_weight: Any) -> Counts | None:
        """Counts of a batch; None where no row of it weighs anything."""
        weight = sample_weight
        if isinstance(weight, str) and weight in X.column_names:
            weight = X[weight].to_numpy()
        has_weight = weight is None or isinstance(weight, str) or np.asarray(weight).any()
        return self.count(X, groups, sample_weight=sample_weight) if has_weight else None

    def _counted(self, rows: Rows, names: ValueArray, *, exact: bool) -> Counts:
        """Of rows in memory, numbered by their groups."""
        return InMemory(rows).sum(partial(CountRows.of(self.learned_, exact=exact), groups=names))

    def _read_numbered(
        self,
        X: Features,
        groups: ArrayLike | None,
        sample_weight: ArrayLike | None,
        example_ids: ArrayLike | None = None,
    ) -> tuple[Rows, ValueArray]:
        """Rows that weigh something, numbered by their groups, and these."""
        rows, values = self._read_rows(X, groups, sample_weight, example_ids)
        if values is None and self.has_groups_:
            raise ValueError(
                "This model was fitted with groups, but none were given. Pass groups=, so that each group gets shares of its own."
            )
        return numbered(rows, values, np.flatnonzero(rows.weight))

    def audit(
        self,
        X: Features,
        groups: ArrayLike | None = None,
        *,
        budget: int = 50,
        sample_weight: ArrayLike | None = None,
        seed: int = 0,
    ) -> AuditPlan:
        """Which rows of the population to label, so that their labels say most of what the model cannot know.

        Unlabelled rows cannot tell whether positives were, in every group alike, more likely to be labelled. A few new labels
        can. The rows are a random sample with known probabilities, weighted towards rows whose label is open and cells whose
        shift is least known; what follows from their labels is valid whatever the model.

        Parameters
        ----------
        X, groups, sample_weight : the population, as `update` takes it
        budget : int
            Labels that can be had.
        seed : int
            The same seed, model and population give the same rows in the same order.

        Returns
        -------
        AuditPlan
            `rows` to label, in this order; `spares` for those that cannot be; `precision`, by number of labels.

        Examples
        --------
        >>> from groupshift import GroupShiftClassifier
        >>> from groupshift.datasets import make_grouped_mixture
        >>> sample = make_grouped_mixture(n_features=2, n_clusters=1, n_groups=10, labeled_per_group=(50, 0),
        ...                               unlabeled_per_group=(100, 0), random_state=0)
        >>> X, y, groups, _ = sample.training()
        >>> model = GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=groups)
        >>> plan = model.audit(X[y < 0], groups[y < 0], budget=20)
        >>> truth = sample.truth[~sample.labeled & ~sample.test]  # a person looks at these rows
        >>> model.learn_audit(plan.labeled(truth[plan.rows])).audit_.labels
        20
        """
        check_is_fitted(self)
        check_auditable(self)
        population = score_population(self, X, groups, sample_weight)
        return plan_audit(self, population, budget=budget, seed=seed)

    def learn_audit(
        self,
        labels: Features,
        X: Features | None = None,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the labels of an audit: verdicts, a design-based share, and shifts that fit the labels.

        May be called again after every label, with all labels so far: the verdicts allow it, and what an earlier call learned
        from the same audit is not counted twice. A call that fails leaves the model as it was.

        Parameters
        ----------
        labels : frame or dict of columns
            The table of the plan with its labels filled in: ``plan.labeled(labels)``, or the file of rows to label, read.
            Classes are those of `fit`; an empty cell or "refused" is no label.
        X, groups, sample_weight : optional
            The population once more, to check that it is still the one that rows were drawn from.

        Returns
        -------
        model, with what was found in `audit_`; predictions, shares and intervals follow it
        """
        check_is_fitted(self)
        check_auditable(self)
        returned = read_labels(labels, self.classes_, self.unlabeled_value)
        if X is not None:
            check_population(returned, score_population(self, X, groups, sample_weight))
        return cast("Self", learn_from(self, returned))

    def assuming(
        self,
        selection: str,
        *,
        known_shares: KnownRates | None = None,
        known_overall: KnownShare | None = None,
    ) -> Self:
        """A copy of the fitted model whose shares are estimated again under another answer to how labels were chosen.

        Nothing is trained: the copy shares everything else with the model. Known rates are not carried over.

        Parameters
        ----------
        selection : {"unknown", "random", "by_label"}
            See the parameter of the same name.
        """
        check_is_fitted(self)
        other = copy(self)
        other.selection = selection
        check_settings(other)
        if self.estimate_.counts is None:
            raise ValueError(
                "This model was fitted without unlabelled rows, so there are no shares to estimate again. Give it a population "
                "with update()."
            )
        groups, learned = self.estimate_.groups, replace(self.learned_, selection=selection)
        known = known_of(known_shares, known_overall, groups, self.classes_)
        fresh = estimate_from_counts(learned, self.estimate_.counts, known)
        other.__dict__.update(learned_=learned, estimate_=fresh, audit_=None)
        return other

    def predict_proba(self, X: Features, groups: ArrayLike | None = None) -> FloatArray:
        """Probabilities of the classes for rows of the given groups; they depend on the row and its group alone."""
        parts = self._predicted(X, groups, lambda scorer, rows: scorer.probability(scorer(rows)))
        if parts[0].ndim == 2:
            return np.concatenate(parts)
        probability = np.empty((sum(map(len, parts)), 2))
        np.concatenate(parts, out=probability[:, 1])
        np.subtract(1, probability[:, 1], out=probability[:, 0])
        return probability

    def predict(self, X: Features, groups: ArrayLike | None = None) -> ValueArray:
        """The likeliest class of each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X, groups).argmax(1)])

    def predict_details(self, X: Features, groups: ArrayLike | None = None, *, coverage: float = 0.9) -> Any:
        """Probability of the positive class with its interval (low, high), cluster, pooled: a frame like X, or a dict of arrays.

        Of more than two classes the first three have a column for each. The interval reflects what is not known about the shift
        of the row's cell. A row leans on pooling (`pooled`) where its group has no unlabelled rows, or its cell so few that most
        of its shift is borrowed from others.
        """
        parts = self._predicted(X, groups, lambda scorer, rows: scorer.details(scorer(rows), coverage))
        return frame_beside(detail_columns(concatenated_details(parts), self.classes_, library_of(X)), X)

    def predict_sets(
        self, X: Features, groups: ArrayLike | None = None, *, coverage: float = 0.9
    ) -> BoolArray:
        """Sets of classes that hold the true one at the rate `coverage` in every group: booleans (n_rows, n_classes).

        Weighted conformal prediction under the estimated shifts: held-out labelled rows of a class stand for as many rows as the
        class has in the cell. The rate holds where rows of one class look alike in all groups, on average over what is not known
        of the shares.
        """
        check_is_fitted(self)
        thresholds = set_thresholds(self.learned_, self.estimate_, coverage)
        parts = self._predicted(X, groups, lambda scorer, rows: sets_of(scorer, scorer(rows), thresholds))
        return np.concatenate(parts)

    def score(
        self,
        X: Features,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Accuracy on the labelled rows; those without a label are left out."""
        check_is_fitted(self)
        n_rows = check_features(X).shape[0]
        labels, classes = check_labels(y, self.unlabeled_value, n_rows, classes=self.classes_)
        known = np.flatnonzero(labels >= 0)
        predicted = self.predict(X, groups)[known]
        weight = None if sample_weight is None else check_weights(sample_weight, n_rows)[known]
        return float(accuracy_score(classes[labels[known]], predicted, sample_weight=weight))

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
            but those of cells end with the share among labeled rows, NaN where there are none.
        coverage : float
            Probability that an interval holds the share. The narrow one inside it allows for no shift of all groups alike.
        draws : int, optional
            Return so many joint draws of the shares instead of intervals: groups are added, ranked or differenced draw by draw.
        random_state : as in scikit-learn
            Of the draws. The same seed gives the same draws for every `by`.
        common_shift : bool
            Whether draws include a shift of all groups alike that nothing in the data decides, as `overall_share` does.

        Returns
        -------
        frame of the library that X came in, or dict of arrays : (group, cluster,) rows, share, low, high, narrow_low,
            narrow_high(, labeled_share)
            With more than two classes, a line for each class, named in a column class before rows. With `draws`: (group, cluster,
            class,) rows, weight, draw_0, draw_1, …
        """
        check_is_fitted(self)
        if draws is not None:
            seed = int(check_random_state(random_state).randint(2**31 - 1))
            found = share_draws(
                self.estimate_, self.classes_, by, draws=draws, seed=seed, common_shift=common_shift
            )
            return frame_like(found, self.schema_.library)
        return frame_like(shares_by(self, by, coverage), self.schema_.library)

    def overall_share(self, *, coverage: float = 0.9, of_class: object = None) -> ShareInterval:
        """Share of positives among all population rows, by weight, with its interval: `share`, `low`, `high`.

        The interval holds what is not known of each group, the chance of every row and, unless a known rate or random labels
        settle it, what nothing in the data decides: labels of positives that came more often, in all groups alike. With more
        than two classes, `of_class` says whose share it is.
        """
        check_is_fitted(self)
        return overall_share(self, coverage, of_class)

    def share_difference(
        self, group: object, other: object, *, coverage: float = 0.9, of_class: object = None
    ) -> ShareDifference:
        """Share of one group less that of another, with its interval: `difference`, `low`, `high`.

        Errors that groups have in common cancel, so that it may be known better than either share. With more than two classes,
        `of_class` says whose share it is.
        """
        check_is_fitted(self)
        return share_difference(self, group, other, coverage, of_class)

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
        """How much worse held-out labels are predicted when a feature is shuffled: the rise of the log loss.

        Returns
        -------
        frame of the library that X came in, or dict of arrays : feature, loss_rise; the largest first, and no more than the
        twenty features that scores follow most
        """
        check_is_fitted(self)
        return frame_like(importance_table(self), self.schema_.library)

    def diagnose(self) -> Diagnosis:
        """Is it worth it, does the assumption hold, where not to trust it: a `Diagnosis` in sentences and tables."""
        check_is_fitted(self)
        return diagnose(self)

    def summary(self, *, details: bool = False) -> str:
        """The answer on a screen: shares, the verdict and the caution that costs most; with `details`, all that is known."""
        check_is_fitted(self)
        return summary_text(self, details=details)

    def report(self, path: str | PathLike[str], *, title: str | None = None, force: bool = False) -> None:
        """Write everything about the fitted model into one HTML file at `path`; `force` replaces an existing one."""
        check_is_fitted(self)
        from groupshift._diagnosis.report import write_report

        write_report(self, path, title=title, force=force)

    def _html_repr(self) -> str:
        """scikit-learn's picture of the estimator; after `fit`, what it found above it."""
        drawn: str = super()._html_repr()
        return Summary.of(self)._repr_html_() + drawn if hasattr(self, "evidence_") else drawn

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
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
        if not self.schema_.by_name or as_frame(X) is None:
            validate_data(self, X, skip_check_array=True, reset=False)
        return X

    def _learn(
        self,
        training: Samples,
        known_shares: KnownRates | None = None,
        known_overall: KnownShare | None = None,
    ) -> Self:
        """Everything after reading: also the way in for populations in files and on clusters."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        problem = Problem.of(
            training.labeled,
            training.y,
            population=training.population,
            labeled_groups=training.labeled_groups,
            groups=training.groups,
            has_groups=training.schema.has_groups,
            encoder=training.schema.encoder,
            settings=Settings(**{name: getattr(self, name) for name in Settings.__dataclass_fields__}),
            seeds=Seeds(seed),
            known=known_of(known_shares, known_overall, training.groups, training.schema.classes),
        )
        with workers(self.n_jobs), steps():
            found = pipeline.fit(problem)
            evidence = record_evidence(problem, found)
        columns = column_attributes(self, training.head)
        for name in COLUMN_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self.__dict__.update(
            columns,
            schema_=training.schema,
            learned_=found.learned,
            estimate_=found.estimate,
            evidence_=evidence,
            audit_=None,
            candidates_=found.candidates,
            notes_=sentences(found.notes),
        )
        for note in found.notes:
            if note.degraded:
                warnings.warn(note.sentence, DegradedWarning, stacklevel=3)
        return self

    def _scorer(self) -> Scorer:
        """What predictions are made by, taken once: an `update` in another thread does not mix into them."""
        return Scorer(self.learned_.posterior, replace(self.estimate_, counts=None), self.classes_)

    def _predicted(
        self, X: Features, groups: ArrayLike | None, answer: Callable[[Any, Rows], Answer]
    ) -> list[Answer]:
        """What `answer` makes of the scores of rows, chunk by chunk: encoded, cut and scored while they are in the cache."""
        check_is_fitted(self)
        scorer, schema, has_groups = self._scorer(), self.schema_, self.has_groups_
        codes, found, unseen = Codes.of(scorer.groups), list[Answer](), dict[object, None]()
        for batch, of_batch in self._batches(X, groups):
            table = self._checked(batch)
            features, values = split_fitted(schema, self.group, table, of_batch)
            n_rows = table.shape[0]
            with workers(self.n_jobs):
                number = group_numbers(values, codes, has_groups=has_groups, n_rows=n_rows)
            if has_groups and values is None and not found:
                warnings.warn(NOT_GIVEN, UserWarning, stacklevel=3)
            elif values is not None and len(scorer.groups) and (number < 0).any():
                unseen |= dict.fromkeys(values[number < 0].tolist())
                if self.unseen == "error":
                    break
            answer_part = partial(_answered, answer, scorer, schema, features, number)
            parts = (slice(start, start + PREDICTED_ROWS) for start in range(0, n_rows, PREDICTED_ROWS))
            with workers(self.n_jobs):
                found += map_chunks(answer_part, parts)
        if unseen:
            report_unseen(unseen, unseen=self.unseen, stacklevel=4)
        return found


def _answered(
    answer: Callable[[Any, Rows], Answer],
    scorer: Scorer,
    schema: Schema,
    X: Features,
    number: IntArray,
    part: slice,
) -> Answer:
    return answer(scorer, schema.unweighted(take_rows(X, part), number[part]))
