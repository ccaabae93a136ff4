"""
One survey, eight methods
=========================

The same survey with the labels of volunteers, and with as many labels drawn at random. :doc:`/explanation/which` says which
method to use when. One draw shows how the methods are called and what can go wrong; it does not measure them.
"""

# %%
# Twenty states; the plain classifier is boosted trees.

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from groupshift import GroupShiftClassifier
from groupshift.datasets import make_survey
from groupshift.theory import collect_points, mlls, shift_posterior

survey = make_survey(
    n_groups=20, labeled_per_group=80, unlabeled_per_group=200, backend="pandas", random_state=0
)
X, groups, truth = survey.X, np.asarray(survey.groups), np.asarray(survey.truth)
names, group = np.unique(groups, return_inverse=True)
volunteers = np.asarray(survey.y) >= 0
numbers = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
trees = make_pipeline(
    make_column_transformer((numbers, make_column_selector(dtype_exclude="number")), remainder="passthrough"),
    HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=8, random_state=0),
)


# %%
# Plain classifier
# ----------------
# Its scores are the start of most of the others.


def plain(known):
    """Log-odds of all rows; those of labeled rows by models that did not see them."""
    p = trees.fit(X[known], truth[known]).predict_proba(X)[:, 1]
    p[known] = cross_val_predict(trees, X[known], truth[known], method="predict_proba")[:, 1]
    return np.log(p / (1 - p))


# %%
# Mixed model
# -----------
# One number for each group, learned from the group's labels. Right for random labels.


def random_intercept(known, score):
    """A mixed model: one number for each group, drawn toward zero."""
    one_hot = OneHotEncoder(sparse_output=False).fit(group[:, None])
    columns = np.column_stack([score, one_hot.transform(group[:, None])])
    model = LogisticRegression(C=1.0, max_iter=1000)  # the penalty is a normal prior of the numbers
    return model.fit(columns[known], truth[known]).predict_proba(columns)[:, 1]


# %%
# Reweighting
# -----------
# Right if features alone decided who has a label.


def reweighted(known, _):
    """Labeled rows weighted as if they were the population, by their features and their group."""
    rows = X.assign(group=group)
    chance = cross_val_predict(trees, rows, known, method="predict_proba")[:, 1]
    weight = (1 - chance) / chance
    step = trees.steps[-1][0]
    trees.fit(X[known], truth[known], **{f"{step}__sample_weight": weight[known]})
    return trees.predict_proba(X)[:, 1]


# %%
# Quantification
# --------------
# Label shift in each group, by maximum likelihood. QuaPy's EMQ computes the same shares.


def label_shift(known, score):
    """The share of each group by maximum likelihood, and its posterior moved to that share."""
    prior = truth[known].mean()
    points = collect_points(score[~known], group[~known], n_cells=len(names))
    share = mlls(points, labeled_prior=prior).share
    return shift_posterior(1 / (1 + np.exp(-score)), source_prior=prior, target_prior=share[group])


# %%
# Calibration by group
# --------------------
# Right for random labels, if each group has many.


def calibrated_by_group(known, score):
    """Each group calibrated on its own labels: multicalibration for one family of groups."""
    score, p = score[:, None], np.empty(len(truth))
    for g in range(len(names)):
        own = group == g
        p[own] = (
            LogisticRegression().fit(score[own & known], truth[own & known]).predict_proba(score[own])[:, 1]
        )
    return p


# %%
# Domain adaptation
# -----------------
# CORAL; skada has many others.


def coral(known, _):
    """Labeled features moved to the mean and the covariance of the population (CORAL)."""
    Z = np.nan_to_num(np.asarray(trees[0].fit_transform(X), dtype=float))
    mine, theirs = Z[known], Z[~known]
    whiten = np.linalg.inv(np.linalg.cholesky(np.cov(mine.T) + np.eye(Z.shape[1]))).T
    color = np.linalg.cholesky(np.cov(theirs.T) + np.eye(Z.shape[1])).T
    moved = (mine - mine.mean(axis=0)) @ whiten @ color + theirs.mean(axis=0)
    return clone(trees[-1]).fit(moved, truth[known]).predict_proba(Z)[:, 1]


# %%
# groupshift
# ----------
# ``selection`` says how labels were chosen.


def groupshift(known, _, selection="unknown"):
    model = GroupShiftClassifier(selection=selection, random_state=0)
    model.fit(X, np.where(known, truth, -1), groups=groups)
    return model.predict_proba(X, groups=groups)[:, 1]


# %%
# Comparison
# ----------
# With volunteers, methods that use a group's own labels are misled. With random labels, they win.

HOW = {True: "random", False: "by_label"}
ROUTES = {
    "plain classifier": lambda _, score: 1 / (1 + np.exp(-score)),
    "random intercept": random_intercept,
    "reweighting": reweighted,
    "label shift by group": label_shift,
    "calibrated by group": calibrated_by_group,
    "CORAL": coral,
    "groupshift": groupshift,
    "groupshift, told how": lambda known, _: groupshift(known, _, HOW[known is at_random]),
}
at_random = np.random.default_rng(0).permutation(volunteers)
errors = {}
for title, known in {"volunteers": volunteers, "random sample": at_random}.items():
    print(f"{title:22} log loss  error of group shares")
    score = plain(known)
    for name, route in ROUTES.items():
        p = np.clip(route(known, score), 1e-6, 1 - 1e-6)
        off = [abs((p - truth)[~known & (group == g)].mean()) for g in range(len(names))]
        errors[title, name] = np.mean(off)
        print(f"  {name:20} {log_loss(truth[~known], p[~known]):8.3f}  {np.mean(off):8.3f}")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharex=True, sharey=True, layout="constrained")
for ax, title in zip(axes, ("volunteers", "random sample"), strict=True):
    ax.barh(list(ROUTES), [errors[title, name] for name in ROUTES], color="#0072B2")
    ax.set(title=title, xlabel="mean error of a group's share")
axes[0].invert_yaxis()
plt.show()

# %%
# Prediction-powered inference
# ----------------------------
# Two hundred random labels of the population check the overall share, whatever the model.

p = ROUTES["plain classifier"](volunteers, plain(volunteers))
population = np.flatnonzero(~volunteers)
asked = np.random.default_rng(1).choice(population, 200, replace=False)
correction = truth[asked] - p[asked]
share, error = p[population].mean() + correction.mean(), correction.std() / np.sqrt(len(asked))
print(f"overall share {share:.3f} ± {1.645 * error:.3f}; truth {truth[population].mean():.3f}")
