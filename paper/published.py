"""The article's numbers: mean test AUC of its tables, and the medians that its figures show."""

import csv
from collections.abc import Mapping
from pathlib import Path

# Methods in the order of the article's tables, by the names of `groupshift.METHODS`, and the limit of synthetic data.
NAMES: Mapping[str, str] = {
    "coral": "CORAL",
    "global": "Global",
    "group_aware_global": "Group-Aware Global",
    "cluster_global": "Cluster Global",
    "label_shift": "Label Shift",
    "published": "The article's method",
    "groupshift": "groupshift (default)",
    "true_clustering": "True Clustering",
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
# Rows and columns of its data sets (its Table 3).
SIZES: Mapping[str, tuple[int, int]] = {
    "income": (8_116_931, 10),
    "employment": (15_949_380, 16),
    "ipr": (15_949_380, 20),
}
# Its Figure 2, setting 2: median over all sets of the AUC relative to Global, in percent. Setting 1 shows all about 0.
FIGURE_2: Mapping[str, float] = {
    "coral": -8.2,
    "group_aware_global": -11.4,
    "cluster_global": 0.46,
    "label_shift": 5.9,
    "published": 15.0,
}


def published_auc(method: str, data: str, setting: object) -> float | None:
    """The article's mean AUC, where it has one.

    >>> published_auc("published", "ipr", 2)
    0.85
    >>> published_auc("groupshift", "ipr", 2) is None
    True
    """
    place = {(d, str(s)): i for i, (d, s) in enumerate(_COLUMNS)}.get((data, str(setting)))
    return None if place is None or method not in _AUC else _AUC[method][place]


def figure_3() -> dict[tuple[str, str], dict[str, float]]:
    """Medians of the article's Figure 3 by (d, K) and method: AUC relative to Global in percent, setting 2.

    Read from the boxes of the figure, which is vector graphics, so to a tenth.

    >>> figure_3()["64", "8"]["true_clustering"]
    24.8
    """
    with (Path(__file__).parent / "figure3.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row.pop("d"), row.pop("K")): {m: float(v) for m, v in row.items()} for row in rows}
