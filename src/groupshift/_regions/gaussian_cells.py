"""Cells of feature space with curved boundaries: the components of a Gaussian mixture of all rows.

A mixture looks at features alone, so it learns from the unlabelled rows too, of which there are many. Boundaries between
clusters of different covariance are curved: components follow them, straight lines do not.
"""

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from groupshift._math.arrays import FloatArray, IntArray
from groupshift._math.fitted_part import FittedPart
from groupshift._regions.space import Space
from groupshift._rows.rows import Rows
from groupshift._rows.seeds import Seeds
from groupshift._rows.workers import even_unconverged

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

# Above this number of features rows are too few for a covariance matrix: leading directions take their place.
MAX_FEATURES = 64
N_DIRECTIONS = 32
# Numbers of components to consider, fewest first; the density of held-out rows says when to stop.
COMPONENTS = (4, 8, 16)
MAX_MIXTURE_ROWS = 15_000
# In units of a feature's variance: a column that is constant within a component must not decide alone.
MIN_VARIANCE = 1e-3
# Small enough that the distances of these rows to all components stay in the cache.
BLOCK = 8192


class GaussianPartition(FittedPart):
    """Clusters made of Gaussian components: a row belongs to the cluster of its likeliest component.

    Parameters
    ----------
    space : Space
    whiten : array of shape (n_dimensions, n_components * n_directions)
        For each component, the map of standardised rows to where its covariance is the identity.
    center : array of shape (n_components * n_directions,)
        The components' means there.
    log_weight : array of shape (n_components,)
        Log-density of each component at its mean, its share of rows included, up to a constant.
    cluster_of : array of shape (n_components,)
        Cluster of each component.
    """

    def __init__(
        self,
        space: Space,
        whiten: NDArray[np.float32],
        center: NDArray[np.float32],
        log_weight: FloatArray,
        cluster_of: IntArray,
    ):
        self.space = space
        self.whiten = whiten
        self.center = center
        self.log_weight = log_weight
        self.cluster_of = cluster_of

    @property
    def n_clusters(self) -> int:
        return int(self.cluster_of.max()) + 1

    def joined(self, cluster_of: IntArray) -> Self:
        """The same components, put together to other clusters."""
        return type(self)(self.space, self.whiten, self.center, self.log_weight, cluster_of)

    def predict(self, rows: Rows) -> IntArray:
        return self.cluster_of[self.cell(rows.matrix)]

    def cell(self, matrix: NDArray[np.floating]) -> IntArray:
        """The likeliest component of each row."""
        found = np.empty(len(matrix), np.int64)
        n_components = len(self.log_weight)
        for start in range(0, len(matrix), BLOCK):
            embedded = self.space.transform(matrix[start : start + BLOCK]).astype(np.float32)
            difference = embedded @ self.whiten - self.center
            difference = difference.reshape(len(embedded), n_components, -1)
            distance = np.einsum("ijk,ijk->ij", difference, difference)
            found[start : start + len(embedded)] = np.argmax(self.log_weight - distance / 2, axis=1)
        return found


def gaussian_cells(space: Space, rows: Rows, seeds: Seeds) -> GaussianPartition | None:
    """A mixture with as many components as held-out rows ask for, each a cluster; None where rows are too few.

    Rows count by their weight: they are drawn by it.
    """
    from sklearn.mixture import GaussianMixture

    n_rows = min(len(rows), MAX_MIXTURE_ROWS)
    share = rows.weight / rows.weight.sum()
    drawn = seeds.generator("Gaussian rows").choice(
        len(rows), n_rows, replace=bool(np.ptp(rows.weight)), p=share
    )
    embedded = space.transform(rows.matrix[drawn])
    directions = _directions(embedded, seeds.named("Gaussian directions"))
    embedded = embedded @ directions
    train, held = embedded[n_rows // 4 :], embedded[: n_rows // 4]
    best, best_density = None, -np.inf
    for n in COMPONENTS:
        # Each component needs more rows than it has numbers in a covariance's row.
        if len(train) < 10 * n * embedded.shape[1]:
            break
        seed = seeds.named(f"Gaussian mixture {n}")
        mixture = GaussianMixture(n, max_iter=15, tol=1e-2, reg_covar=MIN_VARIANCE, random_state=seed)
        # Components are cells to be joined: the last digits of their means do not matter.
        with even_unconverged():
            mixture.fit(train)
        density = mixture.score(held)
        if density <= best_density:
            break
        best, best_density = mixture, density
    return None if best is None else _partition(space, directions, best)


def _directions(embedded: FloatArray, random_state: int) -> FloatArray:
    """Leading directions of the rows as columns, or all dimensions where these are few."""
    from sklearn.decomposition import PCA

    d = embedded.shape[1]
    if d <= MAX_FEATURES:
        return np.eye(d)
    components: FloatArray = PCA(N_DIRECTIONS, random_state=random_state).fit(embedded).components_
    return components.T


def _partition(space: Space, directions: FloatArray, mixture: "GaussianMixture") -> GaussianPartition:
    whiten = mixture.precisions_cholesky_
    center = np.einsum("mi,mij->mj", mixture.means_, whiten)
    log_weight = np.log(mixture.weights_) + np.log(np.einsum("mii->mi", whiten)).sum(1)
    stacked = np.concatenate([directions @ w for w in whiten], axis=1)
    return GaussianPartition(
        space,
        stacked.astype(np.float32),
        center.ravel().astype(np.float32),
        log_weight,
        np.arange(len(log_weight)),
    )
