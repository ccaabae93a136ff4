"""Random effects of groups and cells: one normal model of all evidence, its variances, and the shifts that follow.

Of each group, with d the shifts of its labelled (L) and population (U) rows, m the misfit of the mixture, and noise e:

    labels            = d_L + e
    labeled scores    = d_L + m + e
    population scores = d_U + m + e, and one more misfit where the group has no labels
    comparison        = d_U − d_L + e

(d_L, d_U) and m are normal and split into an effect of the group and one of each of its cells. The variances are
learned by maximum a posteriori, under two hypotheses: labels are a random sample of the group (d_U = d_L), or they were
chosen. A shift is the mean of its posterior, both hypotheses averaged by their probabilities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from groupshift._math.arrays import BoolArray, FloatArray, IntArray
from groupshift._shifts.evidence import (
    LABELED_SCORES,
    LABELS,
    N_KINDS,
    POPULATION_SCORES,
    Evidence,
    held_within,
)

# How each kind of evidence sees (d_L, d_U), the misfit, and what two samples of a group do not share of it.
LOADING = np.array([[1.0, 0], [1, 0], [0, 1], [-1, 1]])
MISFIT = np.outer([0, 1, 1, 0], [0, 1, 1, 0]).astype(float)
NOT_SHARED = 0.05 * np.diag([0.0, 1, 1, 1])
# Prior of the parameters: log standard deviation of d_L, log of the ratio of d_U's to it, logit of their correlation,
# log standard deviation of the misfit, logit of the cells' part of shifts, and of the misfit, log standard deviation of
# what is added to the misfit of a group without labels.
SPREAD, RATIO, CORRELATION, MISFIT_SPREAD, CELL_PART, MISFIT_PART, UNLABELED = range(7)
MEAN = np.array([np.log(0.3), -0.3, -3.0, np.log(0.2), 0.0, 0.0, np.log(0.2)])
SCALE = np.array([1.0, 0.5, 1.5, 0.8, 1.5, 1.0, 1.0])
# Probability that labels are a random sample of their groups, before anything is seen.
RANDOM = 0.05
# Logit of a correlation of one, and of none.
SAME, APART = 7.0, -7.0
# Approximations of the likelihoods are made again until shifts move by less than this.
STILL, MOST_ROUNDS = 0.02, 8
# No likelihood is approximated farther away than this.
FARTHEST = 6.0
# After so many, probabilities of hypotheses stay as they are, and partitions are compared.
FEW_ROUNDS = 3


@dataclass(frozen=True)
class Hypothesis:
    """Which parameters are learned, and what the others are."""

    prior: float
    fixed: dict[int, float]
    kinds: tuple[int, ...] = tuple(range(N_KINDS))  # of the evidence that is used
    is_random: bool = False


def hypotheses(selection: str) -> tuple[Hypothesis, ...]:
    """What may be true of the choice of labels, as far as the user says."""
    random = Hypothesis(RANDOM, {RATIO: 0.0, CORRELATION: SAME}, is_random=True)
    chosen = Hypothesis(1 - RANDOM, {})
    if selection == "random":
        return (random,)
    if selection == "by_label":
        return (Hypothesis(1.0, {CORRELATION: APART}),)
    return random, chosen


# Labels and scores of labelled rows, to learn how scores tell labels.
LABELED_ALONE = (Hypothesis(1.0, {RATIO: 0.0, CORRELATION: SAME}, kinds=(LABELS, LABELED_SCORES)),)


@dataclass(frozen=True)
class Effects:
    """Posterior of the shifts of population rows, without what all groups have in common."""

    mean: FloatArray  # (n_groups, K, M)
    covariance: FloatArray  # (n_groups, K M, K M)
    unseen: FloatArray  # (K M, K M): covariance of a group that nothing is known of
    random: float  # probability that labels are a random sample
    parameters: FloatArray  # of the likeliest hypothesis
    expected: FloatArray  # (4, n_groups, K, M): shifts that each kind of evidence speaks of
    face_value: FloatArray  # (M,): what scores of all groups together say, which they do not identify


class _Model:
    """Marginal likelihood of the evidence, and posterior of the shifts, for one hypothesis."""

    def __init__(self, evidence: Evidence, hypothesis: Hypothesis, is_unlabeled: BoolArray):
        n_groups, _, self.K, self.M = evidence.response.shape
        KM = self.K * self.M
        self.used = np.array([k in hypothesis.kinds for k in range(N_KINDS)])
        at = np.flatnonzero(np.repeat(self.used, KM))
        self.response = evidence.response.reshape(n_groups, -1)[:, at]
        self.noise = evidence.noise[:, at[:, None], at]
        self.at, self.is_unlabeled = at, is_unlabeled
        self.hypothesis = hypothesis
        self.of_group, self.of_cells, self.eye = np.ones((self.K, self.K)), np.eye(self.K), np.eye(self.M)
        fixed = set(hypothesis.fixed)
        if self.K == 1:
            fixed |= {CELL_PART, MISFIT_PART}
        if not (is_unlabeled.any() and self.used[POPULATION_SCORES]) or MISFIT_SPREAD in fixed:
            fixed.add(UNLABELED)
        self.free: IntArray = np.array([p for p in range(len(MEAN)) if p not in fixed], np.int64)

    def _moments(self, x: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
        """Covariance of (d_L, d_U), misfit, and the cells' parts of both."""
        A, B, correlation = np.exp(x[SPREAD]), np.exp(x[SPREAD] + x[RATIO]), expit(x[CORRELATION])
        D = np.array([[A * A, correlation * A * B], [correlation * A * B, B * B]])
        of_cells, of_misfit = (expit(x[CELL_PART]), expit(x[MISFIT_PART])) if self.K > 1 else (0.0, 0.0)
        return D, np.exp(2 * x[MISFIT_SPREAD]) * MISFIT, of_cells, of_misfit

    def _over_cells(self, moments: FloatArray, part: float) -> FloatArray:
        """Moments of an effect of the group and one of each cell, alike for all contrasts."""
        cells = (1 - part) * self.of_group + part * self.of_cells
        n, m = moments.shape
        found = np.einsum("vw,kj,ab->vkawjb", moments, cells, self.eye)
        result: FloatArray = found.reshape(n * self.K * self.M, m * self.K * self.M)
        return result

    def _signal(self, x: FloatArray) -> FloatArray:
        """Covariance of what the evidence speaks of, (4 K M, 4 K M)."""
        D, misfit, of_cells, of_misfit = self._moments(x)
        not_shared = np.zeros_like(misfit) if MISFIT_SPREAD in self.hypothesis.fixed else NOT_SHARED
        return (
            self._over_cells(LOADING @ D @ LOADING.T, of_cells)
            + self._over_cells(misfit, of_misfit)
            + self._over_cells(not_shared, 1.0)
        )

    def _total(self, x: FloatArray) -> FloatArray:
        S = self._signal(x)[self.at[:, None], self.at] + self.noise
        if UNLABELED in self.free:
            added = np.zeros((N_KINDS, N_KINDS))
            added[POPULATION_SCORES, POPULATION_SCORES] = np.exp(2 * x[UNLABELED])
            S[self.is_unlabeled] += self._over_cells(added, expit(x[MISFIT_PART]))[self.at[:, None], self.at]
        return S

    def loss(self, free: FloatArray, x: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log posterior of the free parameters, and its gradient."""
        x = x.copy()
        x[self.free] = free
        S = self._total(x)
        inverse = np.linalg.inv(S)
        a = np.einsum("gij,gj->gi", inverse, self.response)
        from_prior = (free - MEAN[self.free]) / SCALE[self.free]
        value = 0.5 * (np.linalg.slogdet(S)[1].sum() + (self.response * a).sum() + from_prior @ from_prior)
        ones, eye = self._contracted(inverse.sum(0) - a.T @ a)
        D, misfit, fd, fm = self._moments(x)
        AB, B2 = D[0, 1], D[1, 1]
        of_d = LOADING.T @ ((1 - fd) * ones + fd * eye) @ LOADING
        of_m = (1 - fm) * ones + fm * eye
        gradient = np.zeros(len(MEAN))
        gradient[SPREAD] = (2 * D * of_d).sum()
        gradient[RATIO] = 2 * AB * of_d[0, 1] + 2 * B2 * of_d[1, 1]
        gradient[CORRELATION] = 2 * (1 - expit(x[CORRELATION])) * AB * of_d[0, 1]
        gradient[MISFIT_SPREAD] = 2 * (misfit * of_m).sum()
        gradient[CELL_PART] = fd * (1 - fd) * ((LOADING @ D @ LOADING.T) * (eye - ones)).sum()
        gradient[MISFIT_PART] = fm * (1 - fm) * (misfit * (eye - ones)).sum()
        if UNLABELED in self.free:
            i = self.is_unlabeled
            ones, eye = self._contracted(inverse[i].sum(0) - a[i].T @ a[i])
            part, u = (fm if self.K > 1 else expit(x[MISFIT_PART])), (POPULATION_SCORES, POPULATION_SCORES)
            gradient[UNLABELED] = 2 * np.exp(2 * x[UNLABELED]) * ((1 - part) * ones + part * eye)[u]
            gradient[MISFIT_PART] += part * (1 - part) * np.exp(2 * x[UNLABELED]) * (eye - ones)[u]
        return float(value), 0.5 * gradient[self.free] + from_prior / SCALE[self.free]

    def _contracted(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of W over contrasts and all pairs of cells, and over each cell with itself: (4, 4) each."""
        n = int(self.used.sum())
        by_cell = np.einsum("vkmwjm->vwkj", W.reshape(n, self.K, self.M, n, self.K, self.M))
        ones, eye = np.zeros((N_KINDS, N_KINDS)), np.zeros((N_KINDS, N_KINDS))
        used = np.ix_(self.used, self.used)
        ones[used], eye[used] = by_cell.sum((2, 3)), np.einsum("vwkk->vw", by_cell)
        return ones, eye

    def fit(self, start: FloatArray | None) -> FloatArray:
        """Mode of the parameters."""
        x = MEAN.copy()
        for parameter, value in self.hypothesis.fixed.items():
            x[parameter] = value
        if not len(self.free):
            return x
        mean, scale = MEAN[self.free], SCALE[self.free]
        bounds = list(zip(mean - 4 * scale, mean + 4 * scale, strict=True))
        first = mean if start is None else start[self.free]
        options = {"maxiter": 60}
        x[self.free] = minimize(
            self.loss, first, args=(x,), jac=True, method="L-BFGS-B", bounds=bounds, options=options
        ).x
        return x

    def evidence(self, x: FloatArray) -> float:
        """Logarithm of the evidence for the hypothesis, by Laplace's approximation at the mode of the parameters."""
        mode, scale = x[self.free], SCALE[self.free]
        n, step = len(self.free), 0.05
        H = np.empty((n, n))
        for i, e in enumerate(step * np.eye(n)):
            H[i] = (self.loss(mode + e, x)[1] - self.loss(mode - e, x)[1]) / (2 * step)
        # A prior's curvature is the least that is known.
        values = np.maximum(np.linalg.eigvalsh((H + H.T) / 2), 0.5 / scale.max() ** 2)
        return float(-self.loss(mode, x)[0] - 0.5 * np.log(values).sum() - np.log(scale).sum())

    def posterior(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean and covariance of the shifts of population rows, what each kind of evidence speaks of, and the prior."""
        D, _, of_cells, _ = self._moments(x)
        KM = self.K * self.M
        prior = self._over_cells(D[1:, 1:], of_cells)
        together = self._over_cells(LOADING @ D[:, 1:], of_cells)[self.at]
        S = self._total(x)
        inverse = np.linalg.inv(S)
        a = np.einsum("gij,gj->gi", inverse, self.response)
        mean = a @ together
        covariance = prior - np.einsum("ik,gij,jl->gkl", together, inverse, together)
        signal = self._signal(x)
        spoken = a @ signal[self.at]
        if UNLABELED in self.free:
            u = slice(POPULATION_SCORES * KM, (POPULATION_SCORES + 1) * KM)
            own = np.flatnonzero((self.at >= u.start) & (self.at < u.stop))
            added = np.exp(2 * x[UNLABELED]) * self._over_cells(np.ones((1, 1)), expit(x[MISFIT_PART]))
            spoken[np.ix_(self.is_unlabeled, np.arange(u.start, u.stop))] += (
                a[self.is_unlabeled][:, own] @ added
            )
        shape = (len(a), self.K, self.M)
        by_kind = spoken.reshape(len(a), N_KINDS, self.K, self.M).swapaxes(0, 1)
        return mean.reshape(shape), covariance, by_kind, prior


def learn_effects(
    gather: Callable[[FloatArray], Evidence],
    shape: tuple[int, int, int],
    is_unlabeled: BoolArray,
    tried: tuple[Hypothesis, ...],
    rounds: int = MOST_ROUNDS,
) -> Effects:
    """Fit the model; `gather` approximates the evidence at shifts (4, n_groups, K, M), `shape` is (n_groups, K, M)."""
    at = np.zeros((N_KINDS, *shape))
    modes: list[FloatArray | None] = [None] * len(tried)
    weight = np.array([h.prior for h in tried])
    weight /= weight.sum()
    for n_done in range(rounds):
        evidence = gather(at)
        models = [_Model(evidence, hypothesis, is_unlabeled) for hypothesis in tried]
        fitted = [model.fit(start) for model, start in zip(models, modes, strict=True)]
        modes = list(fitted)
        if len(tried) > 1 and n_done < FEW_ROUNDS:
            evidences = [model.evidence(x) for model, x in zip(models, fitted, strict=True)]
            log_weight = np.log([h.prior for h in tried]) + evidences
            weight = np.exp(log_weight - logsumexp(log_weight))
        found = [model.posterior(x) for model, x in zip(models, fitted, strict=True)]
        spoken = _averaged(weight, [f[2] for f in found])
        moved = spoken + evidence.common[:, None, None] - at
        at = held_within(at + moved, FARTHEST)
        if np.abs(moved).max(initial=0) < STILL:
            break
    mean = _averaged(weight, [f[0] for f in found])
    away = [(f[0] - mean).reshape(len(mean), -1) for f in found]
    spreads = [f[1] + a[:, :, None] * a[:, None, :] for f, a in zip(found, away, strict=True)]
    return Effects(
        mean=mean,
        covariance=_averaged(weight, spreads),
        unseen=_averaged(weight, [f[3] for f in found]),
        random=float(sum(w for w, h in zip(weight, tried, strict=True) if h.is_random)),
        parameters=fitted[int(np.argmax(weight))],
        expected=at,
        face_value=evidence.common[POPULATION_SCORES],
    )


def _averaged(weight: FloatArray, arrays: Sequence[FloatArray]) -> FloatArray:
    result: FloatArray = np.tensordot(weight, np.stack(arrays), 1)
    return result


def learn_labeled(gather: Callable[[FloatArray], Evidence], shape: tuple[int, int, int]) -> Effects:
    """By labels and scores of labelled rows alone."""
    return learn_effects(gather, shape, np.zeros(shape[0], bool), LABELED_ALONE, FEW_ROUNDS)


def labeled_shifts(
    gather: Callable[[FloatArray], Evidence], shape: tuple[int, int, int], parameters: FloatArray
) -> FloatArray:
    """Shifts of labelled rows, (n_groups, K, M), by their labels and scores, given the parameters."""
    known = Hypothesis(1.0, dict(enumerate(parameters.tolist())), kinds=(LABELS, LABELED_SCORES))
    return learn_effects(gather, shape, np.zeros(shape[0], bool), (known,), FEW_ROUNDS).mean


def predict_labels_from_scores(
    gather: Callable[[FloatArray], Evidence], shape: tuple[int, int, int]
) -> tuple[FloatArray, Effects]:
    """Shifts of labelled rows, each group's by the scores of its rows alone, as if its labels were held out: (n_groups, K, M).

    Labels of all groups together tell how scores are to be read: the few variances, and nothing of a single group.
    """
    nowhere = np.zeros(shape[0], bool)
    learned = learn_labeled(gather, shape)
    known = Hypothesis(1.0, dict(enumerate(learned.parameters.tolist())), kinds=(LABELED_SCORES,))
    return learn_effects(gather, shape, nowhere, (known,), FEW_ROUNDS).mean, learned
