"""Groups that draw unequally from Gaussian classes: the paper's synthetic data, and data of more than two classes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax, logsumexp

from groupshift._math.arrays import FloatArray, IntArray
from groupshift.datasets.containers import Seed, Table, hold_out
from groupshift.datasets.sample import GroupedSample
from groupshift.datasets.shares import Counts, draw_shares, plan_rows

# Draws per component behind every simulated AUC: its standard error is then below 0.003.
AUC_DRAWS = 20_000
# Draws per component for overlaps, rates of some tenths of a per cent: standard errors are then below 0.001.
OVERLAP_DRAWS = 4_000
MAX_OVERLAP = 0.02
# Pairs have spreads of about one; they move out in steps of a quarter.
PLACE_STEP = 0.25
CHUNK = 1 << 14

Ratios = Callable[[float], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class GaussianPairs:
    """K clusters, each a Gaussian for negatives and one for positives; the partition that generated a sample.

    `mean` has shape (K, 2, d) and `scale`, the lower Cholesky factors of the covariances, (K, 2, d, d).
    `auc` holds each pair's own AUC.
    """

    mean: FloatArray
    scale: FloatArray
    auc: FloatArray

    def sample(self, cluster: IntArray, y: IntArray, *, rng: np.random.Generator, dtype: type) -> FloatArray:
        """Draw one row for each (cluster, class)."""
        X: FloatArray = np.empty((len(y), self.mean.shape[-1]), dtype=dtype)
        for k, c in np.ndindex(self.mean.shape[:2]):
            rows = np.flatnonzero((cluster == k) & (y == c))
            X[rows] = rng.standard_normal((len(rows), X.shape[1])) @ self.scale[k, c].T + self.mean[k, c]
        return X

    def predict(self, X: Table) -> IntArray:
        """The cluster under which each row is most likely, clusters and classes being equally frequent."""
        X = np.asarray(X)
        cluster = np.empty(len(X), dtype=np.int64)
        for rows, log_density in self._log_densities(X):
            cluster[rows] = np.logaddexp(log_density[..., 0], log_density[..., 1]).argmax(axis=1)
        return cluster

    def posterior(self, X: FloatArray, *, cells: FloatArray, cell_of_row: IntArray) -> FloatArray:
        """p(y=1 | x) of rows whose shares of each (cluster, class) are `cells[cell_of_row]`."""
        with np.errstate(divide="ignore"):
            log_cells = np.log(cells)
        posterior = np.empty(len(X))
        for rows, log_density in self._log_densities(X):
            joint = logsumexp(log_density + log_cells[cell_of_row[rows]], axis=1)
            posterior[rows] = expit(joint[:, 1] - joint[:, 0])
        return posterior

    def _log_densities(self, X: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Log densities (rows, K, 2), a chunk of rows at a time, up to a common constant."""
        shape, d = self.mean.shape[:2], self.mean.shape[-1]
        whiten = np.linalg.inv(self.scale)
        # One product whitens a chunk for all 2K components at once.
        stacked = whiten.reshape(-1, d).T
        centre = np.einsum("kcij,kcj->kci", whiten, self.mean).reshape(-1)
        log_volume = np.log(np.diagonal(self.scale, axis1=-2, axis2=-1)).sum(axis=-1)
        for start in range(0, len(X), CHUNK):
            rows = slice(start, start + CHUNK)
            z = (X[rows] @ stacked - centre).reshape(-1, *shape, d)
            yield rows, -0.5 * np.einsum("nkcj,nkcj->nkc", z, z) - log_volume


def make_grouped_mixture(
    *,
    n_features: int,
    n_clusters: int,
    n_groups: int = 100,
    labeled_per_group: tuple[float, float] = (1000, 100),
    unlabeled_per_group: tuple[float, float] = (10000, 1000),
    setting: int = 2,
    auc_range: tuple[float, float] = (0.75, 0.95),
    pairs: GaussianPairs | None = None,
    test_size: float = 0.2,
    counts: Counts = "rounded",
    dtype: type = np.float64,
    random_state: Seed = None,
) -> GroupedSample:
    """Generate the paper's synthetic data with all that is true about it.

    Each cluster is a pair of Gaussians. Group sizes are normal, (mean, standard deviation), rounded.

    Parameters
    ----------
    setting : {1, 2}
        1: cluster weights and class shares are common to all groups and both samples. 2: each group and
        sample has its own.
    auc_range : (low, high)
        The AUC of each pair is uniform in it. A pair stands as close to those before it as it can with at most 2 % of a
        cluster's rows likelier under another.
    pairs : GaussianPairs, optional
        Clusters drawn elsewhere, such as the `partition` of another sample; `auc_range` is then not read.
    counts : {"rounded", "binomial"}
        Rows of each (group, cluster, class): expected number rounded, as in the paper, or drawn at random.
    dtype : numpy float type
        float32 halves the memory of `X`: 100 groups x 11,000 rows x 64 features are 560 MB in float64.

    Returns
    -------
    GroupedSample
        `shares` and `cluster_weights` are the drawn parameters, `partition` a `GaussianPairs` with each
        cluster's `auc`, and `posterior` the exact p(y=1 | x, g) under the shares of the row's
        own group and sample.

    Examples
    --------
    >>> sample = make_grouped_mixture(n_features=2, n_clusters=3, n_groups=4, labeled_per_group=(50, 5),
    ...                               unlabeled_per_group=(200, 20), random_state=0)
    >>> sample.shares.shape
    (4, 3)
    >>> bool(((sample.partition.auc > 0.75) & (sample.partition.auc < 0.95)).all())
    True
    """
    if min(n_features, n_clusters, n_groups) < 1:
        raise ValueError(f"{n_features=}, {n_clusters=} and {n_groups=}: expected at least 1 of each.")
    rng = np.random.default_rng(random_state)
    partition = pairs or draw_pairs(
        n_clusters=n_clusters, n_features=n_features, auc_range=auc_range, rng=rng
    )
    both = draw_shares(n_groups=n_groups, n_clusters=n_clusters, setting=setting, rng=rng)
    # A group has at least one row: small means must not give empty or negative sizes.
    sizes = [
        np.maximum(np.rint(rng.normal(*spec, size=n_groups)), 1).astype(np.int64)
        for spec in (labeled_per_group, unlabeled_per_group)
    ]
    unlabeled, group, cluster, truth = plan_rows(both, sizes, counts=counts, rng=rng)
    X = partition.sample(cluster, truth, rng=rng, dtype=dtype)
    ids = np.arange(len(X))
    cells = np.concatenate([shares.cells() for shares in both])
    labeled, population = both
    names = np.array([f"g{g:03d}" for g in range(n_groups)])
    return GroupedSample(
        X=X,
        y=np.where(unlabeled, -1, truth),
        groups=names[group],
        truth=truth,
        test=hold_out(ids, among=unlabeled == 1, test_size=test_size, rng=rng),
        example_ids=ids,
        cluster=cluster,
        partition=partition,
        posterior=partition.posterior(X, cells=cells, cell_of_row=unlabeled * n_groups + group),
        shares=population.positive,
        labeled_shares=labeled.positive,
        cluster_weights=population.weights,
        labeled_cluster_weights=labeled.weights,
        group_names=names,
        name=f"mixture d={n_features} K={n_clusters} setting {setting}",
    )


def draw_pairs(
    *, n_clusters: int, n_features: int, auc_range: tuple[float, float], rng: np.random.Generator
) -> GaussianPairs:
    """Draw pairs one after the other, each with its AUC in the range and clear of the others."""
    low, high = auc_range
    if not 0.5 < low <= high < 1:
        raise ValueError(f"auc_range is {auc_range}, expected 0.5 < low <= high < 1, such as (0.75, 0.95).")
    # Aim inside the range by several standard errors of the simulation, so that the true AUC lies in it.
    margin = min(0.01, (high - low) / 4)
    pairs = [_draw_pair(n_features, rng.uniform(low + margin, high - margin), rng) for _ in range(n_clusters)]
    mean, scale = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    _place(mean, scale, rng)
    return GaussianPairs(
        mean, scale, np.array([pair_auc(*pair, rng=rng) for pair in zip(mean, scale, strict=True)])
    )


def pair_auc(mean: FloatArray, scale: FloatArray, *, rng: np.random.Generator, n: int = AUC_DRAWS) -> float:
    """AUC of the likelihood ratio of a pair (negative, positive), by simulation: no score does better.

    >>> mean, scale = np.array([[0.0], [1.0]]), np.ones((2, 1, 1))
    >>> auc = pair_auc(mean, scale, rng=np.random.default_rng(0))
    >>> bool(abs(auc - 0.760) < 0.01)  # Phi(1 / sqrt(2)) = 0.760
    True
    """
    z = rng.standard_normal((2, n, mean.shape[-1]))
    return simulated_auc(*ratios_along(scale, mean[1] - mean[0], z)(1.0))


def _draw_pair(d: int, auc: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Means (2, d) and Cholesky factors (2, d, d) of a pair with this AUC, centred at the origin."""
    base, direction = _root(random_shape(d, rng), size=0.5), random_unit(d, rng)
    twists = [random_shape(d, rng) for _ in range(2)]
    z = rng.standard_normal((2, AUC_DRAWS, d))
    # Shapes alone tell classes apart, the more so the higher d. They may carry half of the AUC above chance
    # at most.
    for perturbation in 0.7 ** np.arange(1, 50):
        scale = np.array([base @ _root(twist, size=perturbation) for twist in twists])
        ratios = ratios_along(scale, direction, z)
        if simulated_auc(*ratios(0.0)) < 0.5 + (auc - 0.5) / 2:
            break
    distance = _distance_for(auc, ratios)
    return np.outer([-distance / 2, distance / 2], direction), np.linalg.cholesky(
        scale @ scale.swapaxes(-1, -2)
    )


def _distance_for(auc: float, ratios: Ratios) -> float:
    """Distance between the means that gives this AUC: double, then bisect."""
    near, far = 0.0, 1.0
    while simulated_auc(*ratios(far)) < auc:
        near, far = far, 2 * far
    while far - near > 1e-3:
        middle = (near + far) / 2
        near, far = (middle, far) if simulated_auc(*ratios(middle)) < auc else (near, middle)
    return far


def ratios_along(scale: FloatArray, direction: FloatArray, z: FloatArray) -> Ratios:
    """Log likelihood ratios of (negative, positive) draws as a function of the distance of the means.

    Log densities are quadratic in that distance, so a new distance costs no matrix product.
    """
    log_volume = np.linalg.slogdet(scale)[1]
    terms = []
    for own, sign in ((0, 1.0), (1, -1.0)):
        other = 1 - own
        seen = z[own] @ np.linalg.solve(scale[other], scale[own]).T
        shift = np.linalg.solve(scale[other], direction)
        constant = (
            0.5 * _squared_norm(z[own]) - 0.5 * _squared_norm(seen) + log_volume[own] - log_volume[other]
        )
        # Seen from the other class's mean, a negative draw lies one distance back and a positive one ahead.
        terms.append((constant, sign * (seen @ shift), shift @ shift))

    def ratios(distance: float) -> tuple[FloatArray, FloatArray]:
        negatives, positives = (c + distance * b - 0.5 * distance**2 * a for c, b, a in terms)
        return negatives, -positives

    return ratios


def draw_rows(mean: FloatArray, scale: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draws of each pair, classes equally frequent: (K, rows, d)."""
    z = rng.standard_normal((*mean.shape[:2], OVERLAP_DRAWS, mean.shape[-1]))
    return np.concatenate(list((z @ scale.swapaxes(-1, -2) + mean[:, :, None]).swapaxes(0, 1)), axis=1)


def _place(mean: FloatArray, scale: FloatArray, rng: np.random.Generator) -> None:
    """Move each pair, in place, along a random ray to the first spot clear of earlier pairs.

    Clear means: at most MAX_OVERLAP of a cluster's rows are likelier under another cluster, classes and
    clusters being equally frequent. Each of the other clusters may take an equal part of that.
    """
    allowed = MAX_OVERLAP / max(len(mean) - 1, 1)
    draws = draw_rows(mean, scale, rng)
    own = [_log_density_along(mean[k], scale[k], draws[k], None)(0.0) for k in range(len(mean))]
    for k in range(1, len(mean)):
        ray = random_unit(mean.shape[-1], rng)
        old_by_new = [_log_density_along(mean[k], scale[k], draws[j], -ray) for j in range(k)]
        new_by_old = [_log_density_along(mean[j], scale[j], draws[k], ray) for j in range(k)]
        distance = PLACE_STEP
        # Asked no further than to the first pair that is in the way: most are looked at only where the pair comes to stand.
        while any(
            np.mean(old_by_new[j](distance) > own[j]) > allowed
            or np.mean(new_by_old[j](distance) > own[k]) > allowed
            for j in range(k)
        ):
            distance += PLACE_STEP
        mean[k] += distance * ray
        draws[k] += distance * ray


def _log_density_along(
    mean: FloatArray, scale: FloatArray, points: FloatArray, ray: FloatArray | None
) -> Callable[[float], FloatArray]:
    """Log density of a pair, classes equally frequent, at `points + distance * ray`, up to a constant."""
    ray = np.zeros(mean.shape[-1]) if ray is None else ray
    terms = []
    for c in (0, 1):
        z = np.linalg.solve(scale[c], (points - mean[c]).T).T
        step = np.linalg.solve(scale[c], ray)
        terms.append((-0.5 * _squared_norm(z) - np.linalg.slogdet(scale[c])[1], z @ step, step @ step))

    def log_density(distance: float) -> FloatArray:
        negative, positive = (c - distance * b - 0.5 * distance**2 * a for c, b, a in terms)
        return np.asarray(np.logaddexp(negative, positive))

    return log_density


def simulated_auc(negatives: FloatArray, positives: FloatArray) -> float:
    """Share of (positive, negative) pairs in the right order; continuous scores have no ties."""
    # Sorting the positives too keeps the search in cache: several times faster.
    return float(np.searchsorted(np.sort(negatives), np.sort(positives)).mean() / len(negatives))


def random_shape(d: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues, of order one whatever d is, and eigenvectors of a random symmetric matrix."""
    a = rng.standard_normal((d, d)) / np.sqrt(d)
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return values, vectors


def _root(shape: tuple[FloatArray, FloatArray], *, size: float) -> FloatArray:
    """Symmetric square root of the covariance whose matrix logarithm is `size` times the shape."""
    values, vectors = shape
    return (vectors * np.exp(size * values / 2)) @ vectors.T


def random_unit(d: int, rng: np.random.Generator) -> FloatArray:
    direction = rng.standard_normal(d)
    return direction / np.linalg.norm(direction)


def _squared_norm(z: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", z, z))


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
        posterior=_class_posterior(classes, X, shares[unlabeled, group]),
        shares=shares[1],
        labeled_shares=shares[0],
        cluster_weights=np.full((n_groups, n_clusters), 1 / n_clusters),
        labeled_cluster_weights=np.full((n_groups, n_clusters), 1 / n_clusters),
        group_names=names,
        name=f"{n_classes} classes d={n_features} K={n_clusters} setting {setting}",
    )


def _class_posterior(classes: GaussianClasses, X: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """p(y | x, g), clusters being equally frequent: (row, class)."""
    joint = classes.log_density(X) + np.log(np.maximum(shares, 1e-300))
    found: FloatArray = np.exp(log_softmax(np.logaddexp.reduce(joint, axis=1), axis=1))
    return found
