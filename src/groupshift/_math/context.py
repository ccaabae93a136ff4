"""What a group's make-up says about its shift, learned where labels are known (an area-level model).

Beside its estimated shift, a group shows the mean of its features. Where labelled groups with similar means have similar true
shifts, unlabelled groups can borrow from them. In small-area estimation this is the model of Fay and Herriot (1979).
"""

from typing import Self

import numpy as np

from groupshift._math.arrays import FloatArray, IntArray, ValueArray
from groupshift._math.fitted_part import FittedPart
from groupshift._math.sums import sum_by

# One covariate for every five labelled groups: the usual rule against a regression that explains noise.
GROUPS_PER_COVARIATE = 5


def group_sums(values: FloatArray, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
    """Weighted sums of the columns of `values`, of shape (n_rows, d), by group: (n_groups, d)."""
    columns = [sum_by(group, weight * column, n_groups) for column in values.T]
    return np.stack(columns, 1) if columns else np.zeros((n_groups, 0))


class Context(FittedPart):
    """Ridge regression of the shifts of labelled groups on the leading components of their mean features.

    Variances of coefficients and residuals maximise the marginal likelihood. A prediction for a group that has labels
    itself uses the other groups alone: its own labels are the biased ones. Predictions fade for groups whose features
    lie outside the range of the labelled ones, and with their own uncertainty.
    """

    labeled_groups_: ValueArray
    basis_: FloatArray
    covariance_: FloatArray
    coefficient_variance_: float
    usual_spread_: float

    def fit(
        self,
        embedded: FloatArray,
        group: IntArray,
        weight: FloatArray,
        n_groups: int,
        *,
        design_effect: float = 1.0,
    ) -> Self:
        """Learn the covariates: the directions in which labelled groups differ most."""
        rows = np.bincount(group, minlength=n_groups).astype(float)
        total = np.maximum(sum_by(group, weight, n_groups), 1e-300)
        mean = group_sums(embedded, group, weight, n_groups) / total[:, None]
        # Where examples have copies a mean is less certain than its rows would make it.
        within = design_effect * ((embedded - mean[group]) ** 2).mean(0)
        shrunk, between = _reliable_means(mean, rows, within)
        scale = 1 / np.maximum(np.sqrt(between), 1e-6 * np.sqrt(within) + 1e-12)
        # A feature whose group means differ by chance alone has no spread to be scaled up.
        scale[between <= 1e-6 * within] = 0.0
        n_covariates = min(n_groups // GROUPS_PER_COVARIATE, embedded.shape[1])
        directions = np.linalg.svd(shrunk * scale, full_matrices=False)[2][:n_covariates]
        self.basis_ = (scale[:, None] * directions.T) / np.sqrt(max(embedded.shape[1], 1))
        projected = embedded @ self.basis_
        projected_mean = mean @ self.basis_
        self.within_ = design_effect * ((projected - projected_mean[group]) ** 2).mean(0)
        self.covariate_ = _reliable_means(projected_mean, rows, self.within_)[0]
        return self

    def learn(self, error: FloatArray, variance: FloatArray) -> Self:
        """Regress what the labelled groups' shifts leave unexplained on the covariates.

        Parameters
        ----------
        error, variance : arrays of shape (n_groups,)
            What is left to explain, and its sampling variance.
        """
        a = self.covariate_
        size = max(float(np.average(error**2, weights=1 / (variance + np.median(variance)))), 1e-8)
        candidates = [
            (_marginal_likelihood(error, variance, a, tau, rest), tau, rest)
            for tau in np.r_[0, size * np.logspace(-2, 1, 10)]
            for rest in np.r_[0, size * np.logspace(-2.5, 0.5, 10)]
        ]
        _, self.coefficient_variance_, self.residual_variance_ = max(candidates)
        if self.coefficient_variance_ == 0:
            self.without_ = np.zeros_like(a)
            self.coefficient_ = np.zeros(a.shape[1])
            self.left_out_ = np.zeros(len(a))
            return self
        weight = 1 / (variance + self.residual_variance_)
        self.covariance_ = np.linalg.inv((a.T * weight) @ a + np.eye(a.shape[1]) / self.coefficient_variance_)
        self.coefficient_ = self.covariance_ @ (a.T @ (weight * error))
        spread = self._spread(a)
        influence = np.minimum(weight * spread, 1 - 1e-9)
        residual = weight * (error - a @ self.coefficient_) / (1 - influence)
        # Coefficients without each group, by the rank-one update of a regression that leaves a row out.
        self.without_ = self.coefficient_ - residual[:, None] * (a @ self.covariance_)
        left_out = spread / (1 - influence)
        self.usual_spread_ = float(np.quantile(left_out, 0.9))
        self.left_out_ = self._faded((a * self.without_).sum(1), a, left_out)
        return self

    def project(self, embedded: FloatArray) -> FloatArray:
        return embedded @ self.basis_

    def predict(self, mean: FloatArray, rows: FloatArray, labeled_group: IntArray) -> FloatArray:
        """Effect on the shift of groups with the given mean covariates and numbers of rows.

        Parameters
        ----------
        labeled_group : array of int
            Number of each group among the labelled ones; -1 if it is none of them.
        """
        if self.coefficient_variance_ == 0:
            return np.zeros(len(mean))
        # Centred among the groups to predict: labelled groups cannot tell what all groups have in common.
        a = _reliable_means(mean, rows, self.within_)[0]
        coefficient = np.where((labeled_group >= 0)[:, None], self.without_[labeled_group], self.coefficient_)
        return self._faded((a * coefficient).sum(1), a, self._spread(a))

    def _spread(self, a: FloatArray) -> FloatArray:
        """Variance of the effect of each row of covariates."""
        spread: FloatArray = np.einsum("gp,pq,gq->g", a, self.covariance_, a)
        return spread

    def _faded(self, effect: FloatArray, a: FloatArray, spread: FloatArray) -> FloatArray:
        """Effects of groups with covariates `a`, less where their variance `spread` is unusual or near that of the prior."""
        usual = np.minimum(1, self.usual_spread_ / np.maximum(spread, 1e-300))
        prior = self.coefficient_variance_ * (a**2).sum(1)
        certain = np.clip(1 - spread / np.maximum(prior, 1e-300), 0, 1)
        faded: FloatArray = usual * certain * effect
        return faded


def _reliable_means(mean: FloatArray, rows: FloatArray, within: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Deviations of group means from their average, each shrunk by its sampling error, and their true variance.

    Shapes are (n_groups, d) for `mean`, (n_groups,) for `rows` and (d,) for `within`, the variance of rows in a group.
    """
    weight = np.maximum(rows, 1e-12)
    deviation = mean - np.average(mean, axis=0, weights=weight)
    noise = within * len(rows) / weight.sum()
    between = np.maximum(np.average(deviation**2, axis=0, weights=weight) - noise, 0)
    reliability = between / np.maximum(between + within / np.maximum(rows, 1)[:, None], 1e-300)
    return deviation * reliability, between


def _marginal_likelihood(
    error: FloatArray,
    variance: FloatArray,
    a: FloatArray,
    coefficient_variance: float,
    residual_variance: float,
) -> float:
    """Twice the log-likelihood of the errors, coefficients integrated out, up to a constant."""
    weight = 1 / (variance + residual_variance)
    value = np.log(weight).sum() - (weight * error**2).sum()
    if coefficient_variance > 0:
        precision = (a.T * weight) @ a + np.eye(a.shape[1]) / coefficient_variance
        moment = a.T @ (weight * error)
        value -= np.linalg.slogdet(precision)[1] + a.shape[1] * np.log(coefficient_variance)
        value += moment @ np.linalg.solve(precision, moment)
    return float(value)
