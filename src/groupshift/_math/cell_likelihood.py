"""Likelihood of every cell's share of positives, and what its rows tell about it (NumPy, SciPy)."""

import numpy as np
from scipy.special import expit

from groupshift._math.arrays import FloatArray
from groupshift._math.odds import MAX_LOG_ODDS
from groupshift._math.points import Points
from groupshift._math.segments import Segments


class CellLikelihood:
    """Log-likelihoods of all cells, prepared once and asked at many shares.

    Scores were learned under shares ``expit(base)``, one for each cell. Weights count as effective rows, so that everything
    is on the scale of one observation per row.

    Attributes
    ----------
    log_ratio, excess, weight : arrays of shape (n_points,)
        ``log(r⁺/r⁻)``; ``v = r⁺/r⁻ − 1``, since a row's likelihood at share α is 1 + α v, up to a factor; and effective rows.
    cells : Segments

    Examples
    --------
    >>> from groupshift._math.points import collect_points
    >>> likelihood = CellLikelihood(collect_points([0.0, 0.0], [0, 0], n_cells=1), np.array([0.0]))
    >>> likelihood.log_likelihood(np.array([1.0])).tolist()
    [0.0]
    """

    def __init__(self, points: Points, base: FloatArray):
        self.cells = Segments(points.cell, points.n_cells)
        self.log_ratio = np.clip(points.score - self.cells.spread(base), -MAX_LOG_ODDS, MAX_LOG_ODDS)
        self.excess = np.expm1(self.log_ratio)
        self.weight = points.information_weight

    def log_likelihood(self, eta: FloatArray) -> FloatArray:
        """Log-likelihood of every cell at shares ``expit(eta)``."""
        value = self.cells.spread(expit(eta))
        value *= self.excess
        np.log1p(value, out=value)
        value *= self.weight
        return self.cells.sum(value)

    def information(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First derivative of each cell's log-likelihood in ``η = logit α`` and the information about η.

        The information is the sum of squared row scores ``Σ w (q − α)²``: equal to minus the second derivative at the
        optimum, and never negative away from it.
        """
        share = expit(eta)
        slope = self.excess / (1 + self.cells.spread(share) * self.excess)
        weighted = self.weight * slope
        # q − α = α (1 − α) v / (1 + α v)
        scale = share * expit(-eta)
        return scale * self.cells.sum(weighted), scale**2 * self.cells.sum(weighted * slope)

    def std_error(self, share: FloatArray) -> FloatArray:
        """Standard error of each share from the observed information in α, which is defined at 0 and 1 too."""
        slope = self.excess / (1 + self.cells.spread(np.where(np.isnan(share), 0.5, share)) * self.excess)
        information = self.cells.sum(self.weight * slope**2)
        error = np.full(len(share), np.inf)
        np.divide(1, np.sqrt(information), out=error, where=information > 0)
        return error
