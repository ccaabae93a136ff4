"""The partition that the settings name, where the judge is not asked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from groupshift._data.frames import some
from groupshift._data.problem import Note, Notes, Pooled, Problem
from groupshift._partitions.kmeans import kmeans_partition, silhouette_partition
from groupshift._partitions.partitions import GivenPartition, Partition

# Kinds of columns that numbers stand for themselves in.
IN_NUMBERS = ("number", "boolean")


def fixed_partition(problem: Problem, pooled: Pooled) -> tuple[Partition | None, Notes]:
    """The partition that the settings name, and what to say of it; None where the judge is to find it."""
    wanted = problem.settings.partition
    if hasattr(wanted, "predict") or isinstance(wanted, (list, tuple)):
        _check_clusterer_sees_table(problem)
    if isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool):
        if wanted < 1:
            raise ValueError(f"partition={wanted} clusters is not possible. Pass 1 or more.")
        seed = problem.seeds.named("fixed partition")
        matrix, weight = pooled.rows.matrix, pooled.rows.weight
        return kmeans_partition(pooled.space, matrix, weight, n_clusters=int(wanted), random_state=seed), ()
    if hasattr(wanted, "predict"):
        return GivenPartition(wanted).fit(pooled.rows), ()
    if wanted == "silhouette":
        return _silhouette(problem, pooled, {})
    if wanted == "validated" and problem.n_labeled_groups < 2:
        partition, notes = _silhouette(problem, pooled, {})
        why = (
            "Fewer than two labelled groups: the partition is chosen by the silhouette, not judged on labels."
        )
        return partition, (Note(why), *notes)
    if isinstance(wanted, Mapping):
        return _silhouette(problem, pooled, dict(wanted))
    if problem.settings.is_left_to_judge:
        return None, ()
    raise ValueError(
        f"partition={wanted!r} is not known. Pass 'validated', 'silhouette', a number of clusters, a fitted clusterer, or a "
        "list of fitted clusterers."
    )


def _check_clusterer_sees_table(problem: Problem) -> None:
    """A clusterer takes the table as it was given, which the default classifier turns into numbers first."""
    encoder = problem.encoder
    coded = [
        name for name, kind in zip(encoder.names_, encoder.kinds_, strict=True) if kind not in IN_NUMBERS
    ]
    if problem.settings.estimator is None and coded:
        raise ValueError(
            f"The clusterer that partition= names would see {some(coded)} as codes and not as you gave it, since the default "
            "classifier turns a table into numbers. Pass an estimator that takes your table, such as a pipeline that encodes it, "
            "or numbers."
        )


def _silhouette(problem: Problem, pooled: Pooled, options: dict[str, Any]) -> tuple[Partition, Notes]:
    partition, scores = silhouette_partition(
        pooled.space,
        pooled.rows.matrix,
        pooled.rows.weight,
        seeds=problem.seeds,
        **options,
    )
    shown = ", ".join(f"K={k}: {v:.3f}" for k, v in scores.items())
    return partition, (Note(f"The silhouette chose {partition.n_clusters} cluster(s) ({shown})."),)
