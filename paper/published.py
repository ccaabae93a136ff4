"""The paper's numbers: mean test AUC of its tables, and what its figures show (METHOD.md, section 3)."""

from collections.abc import Mapping

# Methods in the order of the paper's tables, by the names of `groupshift.METHODS`, and what we add to them.
NAMES: Mapping[str, str] = {
    "coral": "CORAL",
    "global": "Global",
    "group_aware_global": "Group-Aware Global",
    "cluster_global": "Cluster Global",
    "label_shift": "Label Shift",
    "published": "The paper's method",
    "groupshift": "groupshift (ours)",
    "true_clustering": "True Clustering (oracle)",
    "bayes": "Bayes limit",
}

_COLUMNS = (
    *(("income", 1), ("employment", 1), ("ipr", 1), ("income", 2), ("employment", 2), ("ipr", 2)),
    *(("amazon", 1), ("amazon", 2)),
)
_AUC = {
    "coral": (0.865, 0.883, 0.792, 0.853, 0.851, 0.760, 0.744, 0.709),
    "global": (0.879, 0.903, 0.825, 0.870, 0.897, 0.816, 0.745, 0.718),
    "group_aware_global": (0.870, 0.897, 0.812, 0.846, 0.865, 0.768, 0.745, 0.674),
    "cluster_global": (0.879, 0.903, 0.828, 0.871, 0.898, 0.820, 0.759, 0.745),
    "label_shift": (0.873, 0.900, 0.812, 0.876, 0.904, 0.831, 0.695, 0.702),
    "published": (0.874, 0.898, 0.812, 0.884, 0.916, 0.850, 0.706, 0.751),
    "true_clustering": (0.873, 0.900, 0.812, 0.900, 0.927, 0.862, 0.696, 0.791),
}

# Figure 2, read off by eye: median over (d, K) of the AUC relative to Global, in percent. Setting 1: all
# about 0, with no value of its own for any method.
RELATIVE_AUC: Mapping[tuple[str, int], float] = {
    ("published", 2): 15.0,
    ("label_shift", 2): 6.0,
    ("cluster_global", 2): 1.5,
    ("coral", 2): -8.0,
    ("group_aware_global", 2): -11.0,
}


def published_auc(method: str, data: str, setting: object) -> float | None:
    """The paper's mean AUC, where it has one.

    >>> published_auc("published", "ipr", 2)
    0.85
    >>> published_auc("groupshift", "ipr", 2) is None
    True
    """
    if method not in _AUC:
        return None
    place = {(d, str(s)): i for i, (d, s) in enumerate(_COLUMNS)}.get((data, str(setting)))
    return None if place is None else _AUC[method][place]
