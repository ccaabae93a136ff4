"""The paper's synthetic data: a Gaussian pair per cluster, and groups that draw from them unequally."""

import numpy as np

from groupshift.datasets.class_shares import Counts, draw_shares, plan_rows
from groupshift.datasets.containers import Seed
from groupshift.datasets.examples import hold_out
from groupshift.datasets.gaussians import PairRule, draw_pairs
from groupshift.datasets.sample import GroupedSample


def make_grouped_mixture(
    *,
    n_features: int,
    n_clusters: int,
    n_groups: int = 100,
    labeled_per_group: tuple[float, float] = (1000, 100),
    unlabeled_per_group: tuple[float, float] = (10000, 1000),
    setting: int = 2,
    auc_range: tuple[float, float] = (0.75, 0.95),
    pairs: PairRule = "uniform",
    test_size: float = 0.2,
    counts: Counts = "rounded",
    dtype: type = np.float64,
    random_state: Seed = None,
) -> GroupedSample:
    """Generate the paper's synthetic data with all that is true about it.

    Each cluster is a pair of Gaussians whose own AUC lies in `auc_range`. Group sizes are normal, (mean, standard
    deviation), rounded.

    Parameters
    ----------
    setting : {1, 2}
        1: cluster weights and class shares are common to all groups and both samples. 2: each group and
        sample has its own.
    pairs : {"uniform", "walk"}
        "uniform": the AUC of each pair is uniform in `auc_range`, and a pair stands as close to those before it as it can
        with at most 2 % of a cluster's rows likelier under another. "walk" is the generator behind the paper's figures:
        two equal Gaussians take random steps of length 1 until their AUC enters `auc_range`, so that most pairs lie near
        .76, and pairs jump about until balls that hold 95 % of each are disjoint: far apart where features are many.
    counts : {"rounded", "binomial"}
        Rows of each (group, cluster, class): expected number rounded, as in the paper, or drawn at random.
    dtype : numpy float type
        float32 halves the memory of `X`: 100 groups x 11,000 rows x 64 features are 560 MB in float64.

    Returns
    -------
    GroupedSample
        `shares` and `cluster_weights` are the drawn parameters, `partition` a `GaussianPairs` with each
        cluster's `auc` and `overlap`, and `posterior` the exact p(y=1 | x, g) under the shares of the row's
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
    _check_positive(n_features=n_features, n_clusters=n_clusters, n_groups=n_groups)
    rng = np.random.default_rng(random_state)
    partition = draw_pairs(
        n_clusters=n_clusters, n_features=n_features, auc_range=auc_range, rng=rng, rule=pairs
    )
    both = draw_shares(n_groups=n_groups, n_clusters=n_clusters, setting=setting, rng=rng)
    sizes = [_group_sizes(n_groups, *spec, rng=rng) for spec in (labeled_per_group, unlabeled_per_group)]
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


def _group_sizes(n_groups: int, mean: float, sd: float, *, rng: np.random.Generator) -> np.ndarray:
    # A group has at least one row: small means must not give empty or negative sizes.
    return np.maximum(np.rint(rng.normal(mean, sd, size=n_groups)), 1).astype(np.int64)


def _check_positive(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} is {value}, expected at least 1.")
