"""The partition that the settings name, where the judge is not asked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from groupshift._regions.kmeans import kmeans_partition, silhouette_partition
from groupshift._regions.partitions import GivenPartition


def fixed_partition(fitting: Any) -> Any:
    """The partition that the settings name; None where the judge is to find it."""
    model = fitting.model
    wanted = model.partition
    if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
        if wanted < 1:
            raise ValueError(f"partition={wanted} clusters is not possible. Pass 1 or more.")
        return kmeans_partition(
            fitting.space,
            fitting.pooled.matrix,
            fitting.pooled.weight,
            n_clusters=int(wanted),
            random_state=fitting.small_seed(),
        )
    if hasattr(wanted, "predict"):
        return GivenPartition(wanted).fit(fitting.pooled)
    if wanted == "silhouette" or (wanted == "validated" and fitting.n_labeled_groups < 2):
        if wanted == "validated":
            fitting.note(
                "Fewer than two labelled groups: the partition is chosen by the silhouette, not judged on labels."
            )
        return _silhouette(fitting, {})
    if isinstance(wanted, Mapping):
        return _silhouette(fitting, dict(wanted))
    if wanted == "validated" or isinstance(wanted, (list, tuple)):
        return None
    raise ValueError(
        f"partition={wanted!r} is not known. Pass 'validated', 'silhouette', a number of clusters, a fitted clusterer, or a "
        "list of fitted clusterers."
    )


def _silhouette(fitting: Any, options: dict) -> Any:
    partition, scores = silhouette_partition(
        fitting.space,
        fitting.pooled.matrix,
        fitting.pooled.weight,
        random_state=fitting.small_seed(),
        **options,
    )
    shown = ", ".join(f"K={k}: {v:.3f}" for k, v in scores.items())
    fitting.note(f"The silhouette chose {partition.n_clusters} cluster(s) ({shown}).")
    return partition
