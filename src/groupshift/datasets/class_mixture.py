"""Groups that draw unequally from several Gaussian classes: data of more than two answers with all that is true about them."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from groupshift._math.arrays import FloatArray, IntArray
from groupshift.datasets.containers import Seed, Table
from groupshift.datasets.examples import hold_out
from groupshift.datasets.sample import GroupedSample


@dataclass(frozen=True)
class GaussianClasses:
    """Spherical Gaussians of unit variance, one for each cluster and class; `means` has shape (cluster, class, feature)."""

    means: np.ndarray

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Of each row under each cluster and class, up to a constant: (row, cluster, class)."""
        flat = self.means.reshape(-1, self.means.shape[2])
        squares = (X**2).sum(1)[:, None] - 2 * X @ flat.T + (flat**2).sum(1)
        found: FloatArray = -squares.reshape(len(X), *self.means.shape[:2]) / 2
        return found

    def predict(self, X: Table) -> np.ndarray:
        """The likeliest cluster of each row, clusters and classes being equally frequent."""
        likeliest: IntArray = np.logaddexp.reduce(self.log_density(np.asarray(X, float)), axis=2).argmax(1)
        return likeliest


def make_grouped_classes(
    *,
    n_classes: int = 4,
    n_features: int = 4,
    n_clusters: int = 1,
    n_groups: int = 50,
    labeled_per_group: int = 100,
    unlabeled_per_group: int = 400,
    apart: float = 1.5,
    concentration: float = 1.0,
    setting: int = 2,
    test_size: float = 0.2,
    random_state: Seed = None,
) -> GroupedSample:
    """Generate groups of several classes, with the truth and the Bayes limit.

    Parameters
    ----------
    apart : float
        Standard deviation of the class means in each feature; features have a standard deviation of 1 inside a class.
        Clusters lie six times as far from each other.
    concentration : float
        Class shares of each cell are drawn from a symmetric Dirichlet distribution with this parameter: 1 is uniform over all
        shares, and larger numbers make groups more alike.
    setting : {1, 2}
        1: all groups and both samples have equal shares of classes. 2: each group and sample has its own.

    Returns
    -------
    GroupedSample
        `y` and `truth` are numbers of classes; `shares` and `labeled_shares` have shape (group, cluster, class), and `posterior`
        (row, class): the exact p(y | x, g) under the shares of the row's own group and sample.

    Examples
    --------
    >>> sample = make_grouped_classes(n_classes=3, n_groups=5, random_state=0)
    >>> sample.shares.shape, sample.posterior.shape
    ((5, 1, 3), (2500, 3))
    """
    if n_classes < 2 or setting not in (1, 2):
        raise ValueError(
            f"n_classes={n_classes} and setting={setting} are not possible. Pass at least two classes, and setting 1 or 2."
        )
    rng = np.random.default_rng(random_state)
    corners = rng.normal(size=(n_clusters, 1, n_features)) * (6 * apart if n_clusters > 1 else 0.0)
    classes = GaussianClasses(corners + apart * rng.normal(size=(n_clusters, n_classes, n_features)))
    shape = (2, n_groups, n_clusters)
    shares = rng.dirichlet(np.full(n_classes, concentration), shape)
    if setting == 1:
        shares = np.full((*shape, n_classes), 1 / n_classes)
    n_rows = (labeled_per_group, unlabeled_per_group)
    group = np.concatenate([np.repeat(np.arange(n_groups), n) for n in n_rows])
    unlabeled = np.repeat([0, 1], [n_groups * n for n in n_rows])
    cluster = rng.integers(0, n_clusters, len(group))
    own = shares[unlabeled, group, cluster]
    truth = (rng.random((len(group), 1)) > own.cumsum(1)[:, :-1]).sum(1)
    X = classes.means[cluster, truth] + rng.normal(size=(len(group), n_features))
    names = np.array([f"g{g:03d}" for g in range(n_groups)])
    ids = np.arange(len(group))
    return GroupedSample(
        X=X,
        y=np.where(unlabeled == 1, -1, truth),
        groups=names[group],
        truth=truth,
        test=hold_out(ids, among=unlabeled == 1, test_size=test_size, rng=rng),
        example_ids=ids,
        cluster=cluster,
        partition=classes,
        posterior=_posterior(classes, X, shares[unlabeled, group]),
        shares=shares[1],
        labeled_shares=shares[0],
        cluster_weights=np.full((n_groups, n_clusters), 1 / n_clusters),
        labeled_cluster_weights=np.full((n_groups, n_clusters), 1 / n_clusters),
        group_names=names,
        name=f"{n_classes} classes d={n_features} K={n_clusters} setting {setting}",
    )


def _posterior(classes: GaussianClasses, X: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """p(y | x, g), clusters being equally frequent: (row, class)."""
    joint = classes.log_density(X) + np.log(np.maximum(shares, 1e-300))
    found: FloatArray = np.exp(log_softmax(np.logaddexp.reduce(joint, axis=1), axis=1))
    return found
