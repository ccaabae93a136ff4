"""The article's method and its baselines, written from its text with NumPy and scikit-learn; nothing of groupshift is used.

Zeiberg, Jain, Radivojac: Leveraging Structure for Improved Classification of Grouped Biased Data, AAAI 2023. Tests compare
`published()` and `METHODS` with this. Where the text is silent, a comment that begins with "Not said:" names the choice; each is
a line of docs/explanation/differences.md.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import StandardScaler


@dataclass
class Task:
    """Labelled rows, unlabelled rows, rows to predict; what the methods share."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    unlabeled: np.ndarray
    unlabeled_groups: np.ndarray
    new: np.ndarray
    new_groups: np.ndarray
    held: np.ndarray  # labelled rows of the validation set
    partition: object  # has `predict`: the cluster of each row
    make_forest: object  # a call returns an unfitted classifier


def validation_set(examples, rng):
    """20 % of the unique examples, all rows of each."""
    unique, example = np.unique(examples, return_inverse=True)
    chosen = rng.permutation(len(unique))[: round(0.2 * len(unique))]
    return np.isin(example, chosen)


class KMeansPartition:
    """Mini-batch k-means on all rows, K in {1, 2, 4, 8} by the silhouette on 25,000 rows; K = 1 has silhouette 0."""

    def __init__(self, X, seed):
        # Not said: features have mean 0 and variance 1, so that no unit of measurement decides.
        self.scaler = StandardScaler().fit(X)
        Z = self.scaler.transform(X)
        rows = np.random.default_rng(seed).permutation(len(Z))[:25_000]
        best, self.kmeans = 0.0, None
        for n_clusters in (2, 4, 8):
            model = MiniBatchKMeans(n_clusters, batch_size=4096, n_init=3, random_state=seed).fit(Z)
            silhouette = silhouette_score(Z[rows], model.predict(Z[rows]))
            if silhouette > best:
                best, self.kmeans = silhouette, model

    def predict(self, X):
        return np.zeros(len(X), int) if self.kmeans is None else self.kmeans.predict(self.scaler.transform(X))


class OneCluster:
    def predict(self, X):
        return np.zeros(len(X), int)


def platt(score, y):
    """Slope and intercept of log-odds by Platt (1999): likelihood of targets that are a little less sure than the labels."""
    positives, negatives = (y == 1).sum(), (y == 0).sum()
    target = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    # A target of t is a positive of weight t and a negative of weight 1 - t.
    center, scale = score.mean(), score.std()
    if scale == 0:
        return 0.0, np.log(target.mean() / (1 - target.mean()))
    standard = (np.tile(score, 2)[:, None] - center) / scale
    labels, weight = np.repeat([1, 0], len(y)), np.append(target, 1 - target)
    line = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-14, max_iter=200)
    line.fit(standard, labels, sample_weight=weight)
    slope = line.coef_[0, 0] / scale
    return slope, line.intercept_[0] - slope * center


def has_both(y):
    return len(np.unique(y)) == 2


class LabeledPosterior:
    """Step 2: a forest in each cluster of the training rows, calibrated on the cluster's rows of the validation set."""

    def __init__(self, make_forest, X, y, cluster, held, n_clusters):
        everyone = np.ones(len(y), bool)
        # Not said: a cluster whose training rows lack a class has the classifier of all training rows.
        self.forests = []
        for k in range(n_clusters):
            own = ~held & (cluster == k)
            own = own if has_both(y[own]) else ~held & everyone
            self.forests.append(make_forest().fit(X[own], y[own]))
        score = self.scores(X, cluster)
        # Not said: a cluster without validation rows has the line of all of them.
        own = [held & (cluster == k) for k in range(n_clusters)]
        own = [rows if rows.any() else held for rows in own]
        self.lines = np.array([platt(score[rows], y[rows]) for rows in own])

    def scores(self, X, cluster):
        score = np.zeros(len(X))
        for k in np.unique(cluster):
            score[cluster == k] = self.forests[k].predict_proba(X[cluster == k])[:, 1]
        return score

    def __call__(self, X, cluster):
        slope, intercept = self.lines[cluster].T
        return 1 / (1 + np.exp(-(slope * self.scores(X, cluster) + intercept)))


def odds_ratio(p, q):
    """OR(p, q); 1 where p = q = 0 or p = q = 1."""
    if p == q and p in (0, 1):
        return 1.0
    with np.errstate(divide="ignore"):
        return np.divide(p, 1 - p) / np.divide(q, 1 - q)


def theorem_2(rho, labeled_share, share):
    return 1 / (1 + odds_ratio(labeled_share, share) * (1 - rho) / rho)


def em(rho, labeled_share):
    """Step 4 for one cell: MLLS, 100 iterations that start with the mean of the posterior."""
    share = rho.mean()
    for _ in range(100):
        share = min(theorem_2(rho, labeled_share, share).mean(), 1.0)
    return share


def the_method(task, partition=None, corrected=True):
    """Steps 1 to 5; without the correction it is Cluster Global."""
    partition = task.partition if partition is None else partition
    cluster, of_unlabeled, of_new = (partition.predict(X) for X in (task.X, task.unlabeled, task.new))
    n_clusters = max(cluster.max(), of_unlabeled.max(), of_new.max()) + 1
    posterior = LabeledPosterior(task.make_forest, task.X, task.y, cluster, task.held, n_clusters)
    rho, rho_new = posterior(task.unlabeled, of_unlabeled), posterior(task.new, of_new)
    if not corrected:
        return rho_new
    answer = rho_new.copy()
    for k in range(n_clusters):
        labels = task.y[cluster == k]
        # Not said: a cluster whose labels are of one class, or that has none, is left uncorrected.
        if not has_both(labels):
            continue
        labeled_share = labels.mean()
        for g in np.unique(task.new_groups):
            cell = rho[(of_unlabeled == k) & (task.unlabeled_groups == g)]
            # Not said: so is a cell without unlabelled rows.
            if len(cell) == 0:
                continue
            rows = (of_new == k) & (task.new_groups == g)
            answer[rows] = theorem_2(rho_new[rows], labeled_share, em(cell, labeled_share))
    return answer


def true_clustering(task):
    """The method, told the partition that generated the data."""
    return the_method(task)


def cluster_global(task):
    return the_method(task, corrected=False)


def global_(task):
    return the_method(task, OneCluster(), corrected=False)


def label_shift(task):
    return the_method(task, OneCluster())


def one_classifier(task, X, new):
    """Train, calibrate, predict; no clusters, no correction."""
    everyone, of_new = np.zeros(len(X), int), np.zeros(len(new), int)
    return LabeledPosterior(task.make_forest, X, task.y, everyone, task.held, 1)(new, of_new)


def group_aware_global(task):
    """The features beside a one-hot vector of the group."""
    names = np.unique(task.groups)
    X = np.hstack([task.X, task.groups[:, None] == names])
    return one_classifier(task, X, np.hstack([task.new, task.new_groups[:, None] == names]))


def matrix_power(matrix, power):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**power) @ vectors.T


def aligned(task, group):
    """Labelled rows with the second moments of the group's unlabelled rows (Sun et al., 2016).

    Not said: features are as they are, and a covariance has the identity added to it.
    """
    own = task.unlabeled[task.unlabeled_groups == group]
    # Not said: where the group has fewer than two unlabelled rows, they stay as they are.
    if len(own) < 2:
        return task.X
    source, target = (np.atleast_2d(np.cov(X.T)) + np.eye(X.shape[1]) for X in (task.X, own))
    return task.X @ matrix_power(source, -0.5) @ matrix_power(target, 0.5)


def coral(task):
    """A classifier for each group, of labelled rows aligned to it."""
    answer = np.zeros(len(task.new))
    for g in np.unique(task.new_groups):
        rows = task.new_groups == g
        answer[rows] = one_classifier(task, aligned(task, g), task.new[rows])
    return answer


METHODS = {
    "published": the_method,
    "global": global_,
    "group_aware_global": group_aware_global,
    "cluster_global": cluster_global,
    "label_shift": label_shift,
    "coral": coral,
    "true_clustering": true_clustering,
}
