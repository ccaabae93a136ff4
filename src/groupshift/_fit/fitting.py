"""The steps of `fit`, in order: train, cut space, learn trust, estimate shifts, learn from unlabelled rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone

from groupshift._fit.estimation import estimate_nothing, estimate_shifts
from groupshift._fit.judging import judge_partitions
from groupshift._fit.partition_setting import fixed_partition
from groupshift._fit.posterior import (
    FINEST_EDGE,
    LabeledPosterior,
    PerClusterClassifier,
    choose_edge,
    default_classifier,
    fit_classifier,
    fit_sets,
    out_of_fold_scores,
    probability_edge,
    raw_score,
    training_sets,
)
from groupshift._fit.refinement import refine
from groupshift._fit.selection import (
    LabeledRows,
    Trial,
    expected_prior,
    gain,
    labeled_prior,
    noise_margin,
    rarer_class_rows,
    try_partition,
)
from groupshift._math.calibration import PlattScaling, assign_folds
from groupshift._math.context import Context
from groupshift._math.label_shift import prediction_rates
from groupshift._math.odds import log_loss_rows
from groupshift._math.trust import UNCHECKED_TRUST, UNCHECKED_VARIANCE, residual_variance
from groupshift._regions.candidates import Candidate
from groupshift._regions.space import Space
from groupshift._rows.frames import take_rows
from groupshift._rows.progress import begin
from groupshift._rows.rows import Population, Rows, at_most, copy_correlation, design_effect, in_units

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# k-means moves little beyond this many rows; the published configuration uses all of them.
MAX_CLUSTERING_ROWS = 50_000
# A regression over groups learns from the groups it is judged on, each left out in turn: one chance in ten is allowed.
CONTEXT_LEVEL = 0.9
# Fewer groups than this cannot tell a line through them from chance.
MIN_CONTEXT_GROUPS = 20


class Fitting:
    """One run of `fit`; what it learns goes onto the model, what it only needs on the way stays here."""

    models: list
    score: FloatArray
    judged: IntArray

    def __init__(
        self,
        model: Any,
        labeled: Rows,
        y: IntArray,
        population: Population | None,
        known_shares: Any,
        seed: int,
    ):
        self.model = model
        # Weights in units of a mean labelled row: penalties and sampling errors count rows, whatever the weights' scale.
        self.unit = float(labeled.weight.mean())
        self.labeled = in_units(labeled, self.unit)
        self.y = y
        self.population: Any = population
        # Filled by the steps in turn: None where a step had nothing to learn from.
        self.trial: Any = None
        self.candidate: Any = None
        self.fold: Any = None
        self.sets: Any = None
        self.loss: Any = None
        self.population_effect = 1.0
        self.known_shares = known_shares
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.warnings: list[str] = []
        model.notes_ = []
        model.context_ = None
        model.candidates_ = None

    def run(self) -> None:
        model = self.model
        self._describe_data()
        self.estimator = self._estimator()
        self.pooled = self._pooled_rows()
        self.space = Space().fit(self.pooled.matrix, self.pooled.weight, model.encoder_.is_category)
        partition = fixed_partition(self)
        self.partition_judged = partition is None
        if model.per_cluster and partition is not None:
            self.estimator = PerClusterClassifier(self.estimator, partition, model.encoder_)
        self.step("training the classifier")
        self._train(partition)
        self.plain_score = self.score
        judged = self.labeled.take(self.judged)
        alike = copy_correlation(judged.key, judged.weight, self.score)
        self.design_effect = 1 + (design_effect(judged.key, judged.weight) - 1) * alike
        model.design_effect_ = 1 + (self.population_effect - 1) * alike
        if partition is None:
            self.step("judging partitions on hidden labels")
            judge_partitions(self)
        else:
            self.candidate = Candidate.fixed("fixed", partition, self.labeled)
            self.trial = self.try_candidate(self.candidate)
        if self.sets is not None and len(self.models) < len(self.sets):
            # Trained last: where a classifier for each cluster took over, it is not needed.
            self.models = self.models + self.fit_sets(self.sets[-1:])
        self.settle()
        if self.population is None:
            estimate_nothing(model)
            return
        self.step("estimating shares")
        estimate_shifts(model, self.population, self.known_shares)
        refine(self)

    def step(self, name: str) -> None:
        begin(name, self.model.verbose)

    def note(self, sentence: str, *, warn: bool = False) -> None:
        self.model.notes_.append(sentence)
        if warn:
            self.warnings.append(sentence)

    def _describe_data(self) -> None:
        model = self.model
        if self.population is None:
            self.note(
                "No unlabelled rows: no shares to learn, so this is a calibrated classifier.", warn=True
            )
        elif not model.has_groups_:
            self.note(
                "No groups: all unlabelled rows are one group, and its shares are learned as a whole.",
                warn=True,
            )
        self.n_labeled_groups = len(model.labeled_groups_) if model.has_groups_ else 1

    def _estimator(self) -> Any:
        model = self.model
        if model.estimator is None:
            return default_classifier(model.encoder_.is_category, self.seed)
        estimator = clone(model.estimator)
        # One seed governs everything: parts without a seed of their own get one from it.
        free = {
            k: self.seed
            for k, v in estimator.get_params().items()
            if k.endswith("random_state") and v is None
        }
        if free:
            estimator.set_params(**free)
        return estimator

    def _pooled_rows(self) -> Rows:
        """Rows of both samples for clustering: all of them for the paper's silhouette, else a sample."""
        limit = np.inf if self.model.partition == "silhouette" else MAX_CLUSTERING_ROWS
        if self.population is None:
            return at_most(self.labeled, limit, self.seed)
        n_all = len(self.labeled) + self.population.n_rows
        if min(limit, n_all) > self.population.sample_limit:
            limit = self.population.sample_limit
            self.note(
                f"Clusters were sought on {limit:,.0f} of {n_all:,} rows: memory is not asked to hold them all."
            )
        share = min(1.0, limit / n_all)
        labeled = at_most(self.labeled, share * len(self.labeled), self.seed)
        unlabeled = self.population.sample(int(np.ceil(share * self.population.n_rows)), self.seed)
        unlabeled = in_units(unlabeled, self.unit)
        self.population_effect = design_effect(unlabeled.key, unlabeled.weight)
        return labeled.append(unlabeled)

    def small_seed(self) -> int:
        return self.seed % (2**31 - 1000)

    def _strata(self, partition: Any) -> IntArray:
        """Class and cluster of each labelled row, classes first.

        Rows held out for calibration then have each cluster's own share of positives, α̃_k; another share would pass for a
        shift of every group in that cluster.
        """
        if partition is None:
            return self.y
        return self.y * partition.n_clusters + partition.predict(self.labeled)

    def _train(self, partition: Any) -> None:
        """Models and the scores of labelled rows that no model was trained on."""
        edge = probability_edge(len(self.y)) if self.model.calibration == "crossfit" else None
        self.edge = edge
        minority = min(len(np.unique(self.labeled.key[self.y == c])) for c in (0, 1))
        if self.model.calibration == "holdout" and minority >= 2:
            held = assign_folds(self._strata(partition), self.labeled.key, min(5, minority), self.rng) == 0
            train = np.flatnonzero(~held)
            rest = self.labeled.take(train)
            self.models = [fit_classifier(self.estimator, rest.features, self.y[train], rest.weight)]
            self.judged = np.flatnonzero(held)
            own = self.labeled.take(self.judged)
            self.score = raw_score(self.models[0], own.features, edge)
            self.fold = (
                assign_folds(self.y[self.judged], own.key, 2, self.rng) if len(self.judged) > 3 else None
            )
            return
        self.judged = np.arange(len(self.y))
        # Models of two thirds of the rows score as the last one does, if rows are many, of the rarer class too.
        n_folds = min(3 if len(self.y) >= 10_000 and minority >= 1_000 else 5, minority)
        if n_folds < 2:
            self.note(
                "Too few examples of one class to hold any out: scores are calibrated on the rows they were trained on."
            )
            self.models = [fit_classifier(self.estimator, self.labeled.features, self.y, self.labeled.weight)]
            self.score = raw_score(self.models[0], self.labeled.features, edge)
            self.fold = None
            return
        self.fold = assign_folds(self.y, self.labeled.key, n_folds, self.rng)
        self.sets = training_sets(self.fold)
        self.models = self.fit_sets(self.sets[:-1])
        self.score = self._score_at_best_edge() if self.edge is not None else self.blind_scores(self.models)

    def _score_at_best_edge(self) -> FloatArray:
        """Scores of labelled rows by models that did not see them, held where labels say is best."""
        free = out_of_fold_scores(self.models, self.labeled.features, self.fold, FINEST_EDGE)
        self.edge = choose_edge(free, self.y, self.labeled.weight)
        # Mostly no row lies outside the edge, and nothing is to be held.
        return free if np.abs(free).max() <= logit(1 - self.edge) else self.blind_scores(self.models)

    def fit_sets(self, sets: Sequence) -> list:
        """The estimator, trained on each set of labelled rows."""
        return fit_sets(
            self.estimator, self.labeled.features, self.y, self.labeled.weight, sets, self.model.n_jobs
        )

    def blind_scores(self, models: Sequence, cluster: IntArray | None = None) -> FloatArray:
        """Scores of labelled rows by models that did not see them, in the given clusters."""
        return out_of_fold_scores(models, self.labeled.features, self.fold, self.edge, cluster)

    def promises(self, first: Any, candidate: Candidate) -> bool:
        """Whether a model trained without the first fold predicts its hidden labels better than the present one.

        A look at one fold before all of them are trained: most steps that hidden labels reject show it there.
        """
        rows = self.labeled_rows()
        own = np.flatnonzero(rows.fold == 0)
        cluster = candidate.cluster[own]
        part = LabeledRows(
            rows.score[own],
            rows.y[own],
            rows.weight[own],
            np.unique(rows.group[own], return_inverse=True)[1],
            assign_folds(rows.y[own], self.labeled.key[own], 2, np.random.default_rng(self.seed)),
            rows.design_effect,
        )
        features = take_rows(self.labeled.features, own)
        score = out_of_fold_scores([first], features, np.zeros(len(own), np.int64), self.edge, cluster)
        now, then = (
            try_partition(p, cluster, candidate.n_clusters).loss for p in (part, replace(part, score=score))
        )
        return gain(now, then, part)[0] > 0

    def labeled_rows(self) -> LabeledRows:
        """The judge's view of the labelled rows; groups that hold none of them are left out."""
        rows = self.labeled.take(self.judged)
        fold = self.fold if self.fold is not None else np.zeros(len(self.judged), np.int64)
        group = np.unique(rows.group, return_inverse=True)[1]
        # Rows of unequal weight say less than as many equal ones (Kish), and so do copies.
        weight = rows.weight * (rows.weight.sum() / (rows.weight**2).sum()) / self.design_effect
        return LabeledRows(self.score, self.y[self.judged], weight, group, fold, self.design_effect)

    @property
    def can_judge(self) -> bool:
        return self.n_labeled_groups >= 2 and self.fold is not None and self.model.shares is not None

    def labeled_cluster(self, candidate: Candidate) -> IntArray:
        """Cluster of each judged row."""
        return candidate.cluster[self.judged]

    def try_candidate(self, candidate: Candidate) -> Trial | None:
        """How the candidate does on hidden labels, with the current scores; None where nothing depends on it."""
        if not self.can_judge or (self.model.trust != "learned" and not self.partition_judged):
            return None
        return try_partition(self.labeled_rows(), self.labeled_cluster(candidate), candidate.n_clusters)

    def settle(self) -> None:
        """Calibration, trust and context for the chosen partition; everything that shares depend on."""
        model = self.model
        rows = self.labeled.take(self.judged)
        y = self.y[self.judged]
        partition = self.candidate.partition
        cluster = self.labeled_cluster(self.candidate)
        n_clusters = partition.n_clusters
        calibration = PlattScaling().fit(self.score, y, rows.weight, cluster, n_clusters)
        model.posterior_ = LabeledPosterior(self.models[-1], partition, calibration, self.edge)
        model.n_clusters_ = n_clusters
        everyone = self.candidate.cluster
        model.labeled_prior_ = self._labeled_prior(everyone, n_clusters, calibration, cluster)
        model.labeled_rows_ = np.bincount(everyone, minlength=n_clusters)
        model.rarer_class_rows_ = rarer_class_rows(self.y, everyone, n_clusters, self.design_effect)
        if model.shares in ("bbse-hard", "bbse-soft"):
            log_odds = calibration.transform(self.score, cluster)
            model.prediction_rates_ = _rates(
                log_odds, y, rows.weight, cluster, n_clusters, model.shares == "bbse-soft"
            )
        model.space_ = self.space
        self._settle_trust()

    def _labeled_prior(self, cluster, n_clusters, calibration, judged_cluster):
        if self.model.labeled_prior == "share":
            return labeled_prior(self.y, self.labeled.weight, cluster, n_clusters)
        log_odds = calibration.transform(self.score, judged_cluster)
        return expected_prior(log_odds, self.labeled.weight[self.judged], judged_cluster, n_clusters)

    def _settle_trust(self) -> None:
        model, trial = self.model, self.trial
        model.residual_variance_ = model.trust_variance_ = 0.0
        if trial is None and model.trust == "learned":
            # Without any groups, one shift for all is what the user asks for.
            unchecked = UNCHECKED_TRUST, UNCHECKED_VARIANCE
            model.trust_, model.trust_variance_ = unchecked if model.has_groups_ else (1.0, 0.0)
            return
        if trial is None:
            model.trust_ = float(model.trust)
            return
        if model.trust != "learned":
            # A trust that is given holds for the partition that the judge chose; where it chose no shift, there is none.
            model.trust_ = float(model.trust) if trial.trust.value > 0 else 0.0
            self.loss = log_loss_rows(trial.log_odds + model.trust_ * trial.shift, self.y[self.judged])
            return
        model.trust_, model.trust_variance_ = trial.trust.value, trial.trust.variance
        rows = self.labeled_rows()
        self.loss = trial.loss
        left_out = trial.trust.without[rows.group] * trial.shift
        context = self._context(rows, trial.log_odds + left_out)
        model.context_ = context
        if context is not None:
            left_out = left_out + context.left_out_[rows.group]
            self.loss = log_loss_rows(trial.log_odds + left_out, rows.y)
        variance = trial.trust.value**2 * trial.shift_variance
        cell = rows.group * trial.n_clusters + trial.cluster
        spread = np.broadcast_to(variance, (rows.n_groups, trial.n_clusters)).ravel()
        model.residual_variance_ = residual_variance(
            trial.log_odds + left_out, rows.y, rows.weight, cell, spread
        )

    def _context(self, rows: LabeledRows, log_odds: FloatArray) -> Context | None:
        """What group means say about shifts, if hidden labels confirm that they say anything."""
        if (
            rows.n_groups < MIN_CONTEXT_GROUPS
            or self.population is None
            or self.model.shrinkage != "hierarchical"
        ):
            return None
        few = self.rng.permutation(len(rows.y))[:MAX_CLUSTERING_ROWS]
        judged = self.labeled.take(self.judged[np.sort(few)])
        group = rows.group[np.sort(few)]
        context = Context().fit(
            self.space.transform(judged.matrix),
            group,
            judged.weight,
            rows.n_groups,
            design_effect=rows.design_effect,
        )
        p = expit(log_odds)
        curvature = np.bincount(rows.group, weights=rows.weight * p * (1 - p), minlength=rows.n_groups)
        gradient = np.bincount(rows.group, weights=rows.weight * (rows.y - p), minlength=rows.n_groups)
        curvature = np.maximum(curvature, 1e-6)
        context.learn(gradient / curvature, 1 / curvature)
        context.labeled_groups_ = self.model.labeled_groups_[np.unique(self.labeled.group[self.judged])]
        better = log_loss_rows(log_odds + context.left_out_[rows.group], rows.y)
        mean, error = gain(log_loss_rows(log_odds, rows.y), better, rows)
        if mean <= noise_margin(rows.n_groups, CONTEXT_LEVEL) * error or mean <= 0:
            return None
        self.note(
            f"Groups with alike features have alike shifts: this lowers the hidden-label loss by {mean:.4f} ± {error:.4f}."
        )
        return context


def _rates(log_odds, y, weight, cluster, n_clusters, soft):
    overall = prediction_rates(log_odds, y, weight=weight, soft=soft)
    rates = []
    for k in range(n_clusters):
        own = cluster == k
        both = len(np.unique(y[own])) == 2
        rates.append(
            prediction_rates(log_odds[own], y[own], weight=weight[own], soft=soft) if both else overall
        )
    return np.array(rates).T
