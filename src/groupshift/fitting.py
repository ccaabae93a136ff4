"""The steps of `fit`, in order: train, cut space, learn trust, estimate shifts, learn from unlabelled rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone

from groupshift.calibration import PlattScaling, assign_folds
from groupshift.candidates import propose_partitions
from groupshift.context import Context, group_sums
from groupshift.label_shift import BIN_WIDTH, Points, bbse, collect_points, em, mlls, prediction_rates
from groupshift.partition import GivenPartition, Space, WholeSpace, kmeans_partition, silhouette_partition
from groupshift.posterior import (
    LabeledPosterior,
    PerClusterClassifier,
    crossfit_models,
    default_classifier,
    fit_classifier,
    out_of_fold_scores,
    probability_edge,
    raw_score,
    weight_argument,
)
from groupshift.progress import begin
from groupshift.refinement import memorised, n_soft_rows, refine_models
from groupshift.rows import Population, Rows, fold_of, sampled
from groupshift.selection import (
    LabeledRows,
    Trial,
    choose,
    gain,
    labeled_prior,
    log_loss_rows,
    noise_margin,
    try_partition,
)
from groupshift.shrinkage import KnownShares, PooledShifts, condition_group, pool_shifts
from groupshift.trust import residual_variance

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# k-means moves little beyond this many rows; the published configuration uses all of them.
MAX_CLUSTERING_ROWS = 50_000
# A classifier that gives back more than this part of a row's own soft label would count its shift twice.
MAX_MEMORISED = 0.25
MAX_ROUNDS = 2
# One standard error, with Student's honesty for few groups, for steps that have little to learn and shrink by themselves.
LENIENT = 0.84


class Fitting:
    """One run of `fit`; what it learns goes onto the model, what it only needs on the way stays here."""

    def __init__(
        self, model: Any, labeled: Rows, y: IntArray, population: Population | None, known_shares: Any, seed: int
    ):
        self.model = model
        # Weights in units of a mean labelled row: penalties and sampling errors count rows, whatever the weights' scale.
        self.unit = float(labeled.weight.mean())
        self.labeled = _in_units(labeled, self.unit)
        self.y = y
        self.population = population
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
        partition = self._fixed_partition()
        if model.per_cluster and partition is not None:
            self.estimator = PerClusterClassifier(self.estimator, partition, model.encoder_)
        self._step("training the classifier")
        self._train()
        self.plain_score = self.score
        if partition is None:
            self._step("judging partitions on hidden labels")
            partition = self._judged_partition()
        else:
            self.trial = self._trial(partition)
        self._settle(partition)
        if self.population is None:
            estimate_nothing(model)
            return
        self._step("estimating shares")
        estimate_shifts(model, self.population, self.known_shares)
        self._refine()

    def _step(self, name: str) -> None:
        begin(name, self.model.verbose)

    def _note(self, sentence: str, *, warn: bool = False) -> None:
        self.model.notes_.append(sentence)
        if warn:
            self.warnings.append(sentence)

    def _describe_data(self) -> None:
        model = self.model
        if self.population is None:
            self._note("No unlabelled rows: no shares to learn, so this is a calibrated classifier.", warn=True)
        elif not model.has_groups_:
            self._note("No groups: all unlabelled rows are one group, and its shares are learned as a whole.", warn=True)
        self.n_labeled_groups = len(model.labeled_groups_) if model.has_groups_ else 1

    def _estimator(self) -> Any:
        model = self.model
        if model.estimator is None:
            return default_classifier(model.encoder_.is_category, self.seed)
        estimator = clone(model.estimator)
        # One seed governs everything: parts without a seed of their own get one from it.
        free = {k: self.seed for k, v in estimator.get_params().items() if k.endswith("random_state") and v is None}
        if free:
            estimator.set_params(**free)
        return estimator

    def _pooled_rows(self) -> Rows:
        """Rows of both samples for clustering: all of them for the paper's silhouette, else a sample."""
        limit = np.inf if self.model.partition == "silhouette" else MAX_CLUSTERING_ROWS
        if self.population is None:
            return _at_most(self.labeled, limit, self.seed)
        n_all = len(self.labeled) + self.population.n_rows
        if min(limit, n_all) > self.population.sample_limit:
            limit = self.population.sample_limit
            self._note(f"Clusters were sought on {limit:,.0f} of {n_all:,} rows: memory is not asked to hold them all.")
        share = min(1.0, limit / n_all)
        labeled = _at_most(self.labeled, share * len(self.labeled), self.seed)
        unlabeled = self.population.sample(int(np.ceil(share * self.population.n_rows)), self.seed)
        unlabeled = _in_units(unlabeled, self.unit)
        return labeled.append(unlabeled)

    def _fixed_partition(self) -> Any:
        """The partition that the settings name; None where the judge is to find it."""
        model = self.model
        wanted = model.partition
        if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
            if wanted < 1:
                raise ValueError(f"partition={wanted} clusters is not possible. Pass 1 or more.")
            return kmeans_partition(
                self.space, self.pooled.matrix, self.pooled.weight, n_clusters=int(wanted), random_state=self._small_seed()
            )
        if hasattr(wanted, "predict"):
            return GivenPartition(wanted).fit(self.pooled)
        if wanted == "silhouette" or (wanted == "validated" and self.n_labeled_groups < 2):
            if wanted == "validated":
                self._note("Fewer than two labelled groups: the partition is chosen by the silhouette, not judged on labels.")
            return self._silhouette({})
        if isinstance(wanted, Mapping):
            return self._silhouette(dict(wanted))
        if wanted == "validated" or isinstance(wanted, (list, tuple)):
            return None
        raise ValueError(
            f"partition={wanted!r} is not known. Pass 'validated', 'silhouette', a number of clusters, a fitted clusterer, or a "
            "list of fitted clusterers."
        )

    def _silhouette(self, options: dict) -> Any:
        partition, scores = silhouette_partition(
            self.pooled.matrix,
            self.pooled.weight,
            self.model.encoder_.is_category,
            random_state=self._small_seed(),
            **options,
        )
        shown = ", ".join(f"K={k}: {v:.3f}" for k, v in scores.items())
        self._note(f"The silhouette chose {partition.n_clusters} cluster(s) ({shown}).")
        return partition

    def _small_seed(self) -> int:
        return self.seed % (2**31 - 1000)

    def _train(self) -> None:
        """Models and the scores of labelled rows that no model was trained on."""
        edge = probability_edge(len(self.y)) if self.model.calibration == "crossfit" else None
        self.edge = edge
        minority = min(len(np.unique(self.labeled.key[self.y == c])) for c in (0, 1))
        if self.model.calibration == "holdout" and minority >= 2:
            held = assign_folds(self.y, self.labeled.key, min(5, minority), self.rng) == 0
            train = np.flatnonzero(~held)
            rest = self.labeled.take(train)
            self.models = [fit_classifier(self.estimator, rest.features, self.y[train], rest.weight)]
            self.judged = np.flatnonzero(held)
            own = self.labeled.take(self.judged)
            self.score = raw_score(self.models[0], own.features, edge)
            self.fold = assign_folds(self.y[self.judged], own.key, 2, self.rng) if len(self.judged) > 3 else None
            return
        self.judged = np.arange(len(self.y))
        n_folds = min(5 if len(self.y) < 10_000 else 3, minority)
        if n_folds < 2:
            self._note("Too few examples of one class to hold any out: scores are calibrated on the rows they were trained on.")
            self.models = [fit_classifier(self.estimator, self.labeled.features, self.y, self.labeled.weight)]
            self.score = raw_score(self.models[0], self.labeled.features, edge)
            self.fold = None
            return
        self.fold = assign_folds(self.y, self.labeled.key, n_folds, self.rng)
        self.models = crossfit_models(
            self.estimator, self.labeled.features, self.y, self.labeled.weight, self.fold, self.model.n_jobs
        )
        self.score = out_of_fold_scores(self.models[:-1], self.labeled.features, self.fold, edge)

    def _labeled_rows(self, score: FloatArray) -> LabeledRows:
        """The judge's view of the labelled rows; groups that hold none of them are left out."""
        rows = self.labeled.take(self.judged)
        fold = self.fold if self.fold is not None else np.zeros(len(self.judged), np.int64)
        group = np.unique(rows.group, return_inverse=True)[1]
        # Rows of unequal weight say less than as many equal ones (Kish).
        weight = rows.weight * (rows.weight.sum() / (rows.weight**2).sum())
        return LabeledRows(score, self.y[self.judged], weight, group, fold)

    @property
    def _can_judge(self) -> bool:
        return self.n_labeled_groups >= 2 and self.fold is not None and self.model.shares is not None

    def _trial(self, partition: Any) -> Trial | None:
        if not (self._can_judge and self.model.trust == "learned"):
            return None
        cluster = partition.predict(self.labeled.take(self.judged))
        return try_partition(self._labeled_rows(self.score), cluster, partition.n_clusters)

    def _judged_partition(self) -> Any:
        model = self.model
        given = model.partition if isinstance(model.partition, (list, tuple)) else ()
        if not self._can_judge:
            self._note("Too few labelled rows to hide any: one cluster is used.")
            self.trial = None
            return WholeSpace()
        rows = self._labeled_rows(self.score)
        candidates = propose_partitions(
            self.labeled, self.y, self.pooled, self.space, given=given, random_state=self._small_seed()
        )
        judged = self.labeled.take(self.judged)
        trials = [try_partition(rows, p.predict(judged), p.n_clusters) for _, p in candidates]
        chosen = choose(trials, rows)
        model.candidates_ = candidate_table([name for name, _ in candidates], trials, chosen, rows)
        if chosen is None:
            self._note("No shift was confirmed on hidden labels: probabilities are those of the plain classifier.")
            self.trial = _without_shift(trials[0], rows)
            return WholeSpace()
        self.trial = trials[chosen]
        name, partition = candidates[chosen]
        self._note(f"The judge chose {name!r} of {len(candidates)} candidates, with trust {self.trial.trust.value:.2f}.")
        return partition

    def _settle(self, partition: Any) -> None:
        """Calibration, trust and context for the chosen partition; everything that shares depend on."""
        model = self.model
        rows = self.labeled.take(self.judged)
        y = self.y[self.judged]
        cluster = partition.predict(rows)
        n_clusters = partition.n_clusters
        calibration = PlattScaling().fit(self.score, y, rows.weight, cluster, n_clusters)
        model.posterior_ = LabeledPosterior(self.models[-1], partition, calibration, self.edge)
        model.n_clusters_ = n_clusters
        everyone = partition.predict(self.labeled)
        model.labeled_prior_ = self._labeled_prior(everyone, n_clusters, calibration, cluster)
        model.labeled_rows_ = np.bincount(everyone, minlength=n_clusters)
        if model.shares in ("bbse-hard", "bbse-soft"):
            log_odds = calibration.transform(self.score, cluster)
            model.prediction_rates_ = _rates(log_odds, y, rows.weight, cluster, n_clusters, model.shares == "bbse-soft")
        model.space_ = self.space
        self._settle_trust()

    def _labeled_prior(self, cluster, n_clusters, calibration, judged_cluster):
        if self.model.labeled_prior == "share":
            return labeled_prior(self.y, self.labeled.weight, cluster, n_clusters)
        rows = self.labeled.take(self.judged)
        posterior = expit(calibration.transform(self.score, judged_cluster))
        return labeled_prior(posterior, rows.weight, judged_cluster, n_clusters)

    def _settle_trust(self) -> None:
        model, trial = self.model, self.trial
        model.residual_variance_ = 0.0
        if trial is None:
            model.trust_ = 1.0 if model.trust == "learned" else float(model.trust)
            return
        model.trust_ = trial.trust.value
        rows = self._labeled_rows(self.score)
        self.loss = trial.loss
        left_out = trial.trust.without[rows.group] * trial.shift
        context = self._context(rows, trial.log_odds + left_out)
        model.context_ = context
        if context is not None:
            left_out = left_out + context.left_out_[rows.group]
            self.loss = log_loss_rows(trial.log_odds + left_out, rows.y)
        variance = trial.trust.value**2 * trial.shift_variance
        cell = rows.group * trial.n_clusters + trial.cluster
        model.residual_variance_ = residual_variance(
            trial.log_odds + left_out, rows.y, rows.weight, cell, np.broadcast_to(variance, (rows.n_groups, trial.n_clusters)).ravel()
        )

    def _context(self, rows: LabeledRows, log_odds: FloatArray) -> Context | None:
        """What group means say about shifts, if hidden labels confirm that they say anything."""
        if rows.n_groups < 10 or self.population is None or self.model.shrinkage != "hierarchical":
            return None
        few = self.rng.permutation(len(rows.y))[:MAX_CLUSTERING_ROWS]
        judged = self.labeled.take(self.judged[np.sort(few)])
        group = rows.group[np.sort(few)]
        context = Context().fit(self.space.transform(judged.matrix), group, judged.weight, rows.n_groups)
        p = expit(log_odds)
        curvature = np.bincount(rows.group, weights=rows.weight * p * (1 - p), minlength=rows.n_groups)
        gradient = np.bincount(rows.group, weights=rows.weight * (rows.y - p), minlength=rows.n_groups)
        curvature = np.maximum(curvature, 1e-6)
        context.learn(gradient / curvature, 1 / curvature)
        context.labeled_groups_ = self.model.labeled_groups_[np.unique(self.labeled.group[self.judged])]
        better = log_loss_rows(log_odds + context.left_out_[rows.group], rows.y)
        mean, error = gain(log_loss_rows(log_odds, rows.y), better, rows)
        if mean <= noise_margin(rows.n_groups, LENIENT) * error or mean <= 0:
            return None
        self._note(
            f"Groups with alike features have alike shifts: this lowers the hidden-label loss by {mean:.4f} ± {error:.4f}."
        )
        return context

    def _refine(self) -> None:
        """Rounds of learning from unlabelled rows, each kept only if hidden labels confirm it."""
        model = self.model
        rounds = MAX_ROUNDS if model.refine == "auto" else int(model.refine)
        if not rounds or len(self.models) < 3 or weight_argument(self.estimator) is None:
            return
        if model.refine == "auto" and (self.trial is None or not np.any(model.shift_)):
            return
        n_soft = n_soft_rows(len(self.y))
        for number in range(1, rounds + 1):
            self._step(f"learning from unlabelled rows, round {number}")
            if not self._refine_once(n_soft):
                self._note(f"Round {number} of learning from unlabelled rows was not confirmed and is left out.")
                break
            self._note(f"Round {number} of learning from unlabelled rows was kept.")

    def _refine_once(self, n_soft: int) -> bool:
        model = self.model
        sample = _in_units(self.population.sample(n_soft, self.seed), self.unit)
        posterior = model.posterior_
        before = (self.models, self.score, self.trial, getattr(self, "loss", None), model.context_, list(model.notes_))
        log_odds, cluster = posterior.score(sample)
        models = refine_models(
            self.estimator,
            self.labeled,
            self.y,
            self.fold,
            self.models,
            posterior,
            sample,
            model.shift_,
            seed=self.seed,
            n_jobs=model.n_jobs,
        )
        if memorised(models, posterior, sample, log_odds + model.shift_[sample.group, cluster], self.seed) > MAX_MEMORISED:
            return False
        self.models = models
        self.score = out_of_fold_scores(models[:-1], self.labeled.features, self.fold, self.edge)
        self.trial = self._trial(posterior.partition)
        if self.trial is not None and model.trust_ == 0:
            self.trial = _without_shift(self.trial, self._labeled_rows(self.score))
        old_loss = before[3]
        self._settle(posterior.partition)
        if model.refine == "auto" and self.trial is not None:
            rows = self._labeled_rows(self.score)
            mean, error = gain(old_loss, self.loss, rows)
            if mean <= noise_margin(rows.n_groups, LENIENT) * error:
                self.models, self.score, self.trial, self.loss, model.context_, model.notes_ = before
                self._settle(posterior.partition)
                model.notes_ = before[-1]
                return False
        estimate_shifts(model, self.population, self.known_shares, score=self._blind_score(n_soft))
        return True

    def _blind_score(self, n_soft: int) -> Callable[[Rows], tuple[FloatArray, IntArray]]:
        """A scorer that asks, of rows that were trained on, the model that did not see them."""
        posterior, models, seed = self.model.posterior_, self.models, self.seed
        share = n_soft / self.population.n_rows

        def score(rows: Rows) -> tuple[FloatArray, IntArray]:
            cluster = posterior.partition.predict(rows)
            fold = np.where(sampled(rows.key, share, seed), fold_of(rows.key, len(models) - 1, seed), len(models) - 1)
            raw = out_of_fold_scores(models, rows.features, fold, posterior.edge)
            return posterior.calibration.transform(raw, cluster), cluster

        return score


Score = Callable[[Rows], tuple[FloatArray, IntArray]]


@dataclass(frozen=True)
class Tally:
    """What is summed over the population: points of the cells, and covariate sums of the groups."""

    points: Points
    covariates: FloatArray

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.points + other.points, self.covariates + other.covariates)


@dataclass(frozen=True)
class TallyRows:
    """The sums of a chunk of unlabelled rows: one pass for cluster, score and covariates.

    It carries what a chunk needs and no more, since it travels to every machine of a cluster.
    """

    score: Score
    n_groups: int
    n_clusters: int
    space: Space
    context: Context | None

    def __call__(self, rows: Rows) -> Tally:
        log_odds, cluster = self.score(rows)
        points = collect_points(
            log_odds,
            rows.group * self.n_clusters + cluster,
            n_cells=self.n_groups * self.n_clusters,
            weight=rows.weight,
            bin_width=BIN_WIDTH,
        )
        if self.context is None:
            return Tally(points, np.zeros((self.n_groups, 0)))
        projected = self.context.project(self.space.transform(rows.matrix))
        return Tally(points, group_sums(projected, rows.group, rows.weight, self.n_groups))


def estimate_shifts(
    model: Any,
    population: Population,
    known_shares: Any = None,
    score: Score | None = None,
) -> None:
    """Shares and shifts of every cell of the population, onto the model."""
    if score is None:
        score = model.posterior_.score if model.shares is not None else _cluster_only(model)
    n_groups, n_clusters = len(model.groups_), model.n_clusters_
    sums = population.sum(TallyRows(score, n_groups, n_clusters, model.space_, model.context_))
    points = sums.points
    model.rows_ = points.rows.reshape(n_groups, n_clusters)
    model.row_weight_ = points.weight_sum.reshape(n_groups, n_clusters)
    known = _known(model, known_shares)
    pooled = _pooled(model, points, known).scaled(model.trust_, model.residual_variance_)
    if model.context_ is not None:
        pooled = replace(pooled, shift=pooled.shift + _context_effect(model, sums.covariates)[:, None])
    if known is not None:
        pooled = _conditioned(pooled, known, logit(model.labeled_prior_))
    set_shifts(model, pooled)
    model.tally_ = points


def _cluster_only(model: Any) -> Score:
    """Without shifts the scores of the population are not needed, only how many rows each cell has."""
    partition = model.posterior_.partition
    return lambda rows: (np.zeros(len(rows)), partition.predict(rows))


def set_shifts(model: Any, pooled: PooledShifts) -> None:
    base = logit(model.labeled_prior_)
    model.shift_ = pooled.shift
    model.shift_variance_ = pooled.variance
    model.shared_deviation_ = pooled.shared_deviation
    model.pooling_ = pooled.pooling
    model.unseen_shift_ = pooled.cluster_shift
    model.unseen_variance_ = pooled.unseen_variance
    model.group_variance_ = pooled.group_variance
    model.cell_variance_ = pooled.cell_variance
    model.group_prior_ = expit(base + pooled.shift)


def estimate_nothing(model: Any) -> None:
    """No population: no groups to shift."""
    empty = np.zeros((0, model.n_clusters_))
    model.rows_ = empty.astype(np.int64)
    model.row_weight_ = empty
    model.shift_ = model.shift_variance_ = model.group_prior_ = model.shared_deviation_ = model.pooling_ = empty
    model.unseen_shift_ = model.unseen_variance_ = np.zeros(model.n_clusters_)
    model.group_variance_ = model.cell_variance_ = 0.0
    model.tally_ = None


def candidate_table(names: list[str], trials: list[Trial], chosen: int | None, rows: LabeledRows) -> dict[str, NDArray]:
    """The judge's scores of all candidates, "no shift" (Global) first."""
    plain = log_loss_rows(trials[0].log_odds, rows.y)
    gains = [gain(plain, t.loss, rows) for t in trials]
    total = rows.weight.sum()
    return {
        "name": np.array(["no shift", *names], dtype=object),
        "n_clusters": np.array([1] + [t.n_clusters for t in trials]),
        "loss": np.array([rows.weight @ plain / total] + [rows.weight @ t.loss / total for t in trials]),
        "gain": np.array([0.0] + [g for g, _ in gains]),
        "std_error": np.array([0.0] + [e for _, e in gains]),
        "trust": np.array([0.0] + [t.trust.value for t in trials]),
        "chosen": np.arange(-1, len(trials)) == (-1 if chosen is None else chosen),
    }


def _without_shift(trial: Trial, rows: LabeledRows) -> Trial:
    nothing = replace(trial.trust, value=0.0, without=np.zeros(rows.n_groups))
    return replace(trial, trust=nothing, loss=log_loss_rows(trial.log_odds, rows.y))


def _pooled(model: Any, points: Points, known: KnownShares | None) -> PooledShifts:
    n_groups, n_clusters = model.rows_.shape
    if model.shares is None:
        return _unpooled(np.zeros((n_groups, n_clusters)), np.zeros((n_groups, n_clusters)), model)
    if model.shrinkage == "hierarchical":
        return pool_shifts(points, labeled_prior=model.labeled_prior_, n_groups=n_groups, known=known)
    prior = np.tile(model.labeled_prior_, n_groups)
    if model.shares == "em":
        found, _ = em(points, labeled_prior=prior, n_iter=100)
    elif model.shares == "mlls":
        found = mlls(points, labeled_prior=prior)
    else:
        tpr, fpr = (np.tile(rate, n_groups) for rate in model.prediction_rates_)
        found = bbse(points, true_positive_rate=tpr, false_positive_rate=fpr, soft=model.shares == "bbse-soft")
    # A share of exactly 0 or 1 from n rows is doubted by half a row; a cell without rows is left uncorrected.
    edge = 0.5 / (points.effective_rows + 1)
    share = np.clip(found.share, edge, 1 - edge)
    shift = np.where(np.isnan(share), 0.0, logit(np.where(np.isnan(share), 0.5, share)) - logit(prior))
    error = np.where(np.isfinite(found.std_error), found.std_error, 0.5) / np.maximum(share * (1 - share), 1e-6)
    variance = np.where(np.isnan(share), 4.0, np.minimum(error, 10.0) ** 2)
    return _unpooled(shift.reshape(n_groups, n_clusters), variance.reshape(n_groups, n_clusters), model)


def _unpooled(shift: FloatArray, variance: FloatArray, model: Any) -> PooledShifts:
    """Cells each on their own; an unseen group gets the average shift of its cluster, weighted by rows."""
    weight = model.row_weight_
    total = np.maximum(weight.sum(0), 1e-300)
    return PooledShifts(
        shift=shift,
        variance=variance,
        cluster_shift=(weight * shift).sum(0) / total,
        cluster_variance=np.zeros(shift.shape[1]),
        group_effect=np.zeros(len(shift)),
        group_variance=0.0,
        cell_variance=float(np.average((shift - (weight * shift).sum(0) / total) ** 2, weights=weight + 1e-300)),
        shared_deviation=np.zeros_like(shift),
    )


def _context_effect(model: Any, sums: FloatArray) -> FloatArray:
    from groupshift.tables import Codes

    total = np.maximum(model.row_weight_.sum(1), 1e-300)
    labeled_group = Codes.of(model.context_.labeled_groups_).transform(model.groups_)
    return model.context_.predict(sums / total[:, None], model.rows_.sum(1).astype(float), labeled_group)


def _known(model: Any, known_shares: Mapping | None) -> KnownShares | None:
    if not known_shares:
        return None
    groups, shares, errors = [], [], []
    numbers = {g: i for i, g in enumerate(model.groups_.tolist())}
    for group, value in dict(known_shares).items():
        if group not in numbers:
            raise ValueError(
                f"known_shares names group {group!r}, which has no unlabelled rows. Leave it out, or add rows of it."
            )
        share, error = value if isinstance(value, (tuple, list)) else (value, 0.0)
        if not (0 <= share <= 1 and error >= 0):
            raise ValueError(
                f"known_shares of group {group!r} is {value!r}. Pass a share between 0 and 1, or (share, standard error)."
            )
        groups.append(numbers[group])
        shares.append(share)
        errors.append(error)
    weight = model.row_weight_[groups]
    weight = weight / np.maximum(weight.sum(1, keepdims=True), 1e-300)
    return KnownShares(np.array(groups), np.array(shares, float), np.array(errors, float), weight)


def _conditioned(pooled: PooledShifts, known: KnownShares, base: FloatArray) -> PooledShifts:
    """Trusted shifts of groups with known rates, moved to agree with them: a known rate needs no trust."""
    shift, variance = pooled.shift.copy(), pooled.variance.copy()
    shared = pooled.shared_deviation.copy()
    for g, share, error, weight in zip(known.group, known.share, known.std_error, known.weight, strict=True):
        prior = np.diag(variance[g] + 1e-3) + pooled.group_variance + pooled.cluster_variance.mean() + 0.1
        shift[g], covariance = condition_group(shift[g], prior, share, error, weight, base)
        variance[g] = np.minimum(variance[g], np.maximum(np.diag(covariance), 0))
        shared[g] = 0.0
    return replace(pooled, shift=shift, variance=variance, shared_deviation=shared)


def _rates(log_odds, y, weight, cluster, n_clusters, soft):
    overall = prediction_rates(log_odds, y, weight=weight, soft=soft)
    rates = []
    for k in range(n_clusters):
        own = cluster == k
        both = len(np.unique(y[own])) == 2
        rates.append(prediction_rates(log_odds[own], y[own], weight=weight[own], soft=soft) if both else overall)
    return np.array(rates).T


def _in_units(rows: Rows, unit: float) -> Rows:
    return rows if unit == 1 else replace(rows, weight=rows.weight / unit)


def _at_most(rows: Rows, n_rows: float, seed: int) -> Rows:
    return rows if len(rows) <= n_rows else rows.take(sampled(rows.key, n_rows / len(rows), seed))
