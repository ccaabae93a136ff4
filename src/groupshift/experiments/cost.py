"""What an experiment will cost, said before it starts: rows, fits, seconds and memory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from groupshift.experiments.grid import Draw, Task
from groupshift.experiments.spec import AcsData, Experiment, FlightsData, RealData, SyntheticData

# Rows and features of the tables at hand, for data sets that do not say how many rows to use.
TABLE_ROWS = {
    "income": 1_400_000,
    "employment": 2_737_000,
    "ipr": 2_611_000,
    "reviews": 26_000,
    "flights": 327_000,
}
FEATURES = {"income": 10, "employment": 16, "ipr": 20, "reviews": 384, "flights": 16}
# Effort that does not grow with rows, mostly of the judge.
FIXED_SECONDS = {"groupshift": 0.5}
SOFT_ROWS = 7
MEAN_CLUSTERS = 4
TIMED_ROWS, TIMED_COLUMNS = (500, 4000), 4
STATES = 50
CATEGORIES = 14
FLIGHT_GROUPS = {"carrier": 16, "dest": 104}


@dataclass(frozen=True)
class Speed:
    """Seconds that the classifier takes for a fit of no rows, and for each value (row x column looked at)."""

    per_fit: float
    per_value: float


@dataclass(frozen=True)
class Cost:
    """Estimates for a list of tasks."""

    draws: int
    tasks: int
    rows: int
    fits: int
    seconds: float
    memory_mb: float
    n_jobs: int

    def __str__(self) -> str:
        return (
            f"{_count(self.draws, 'draw')} with {self.rows:,} rows in all, {_count(self.tasks, 'run')} of a "
            f"method, {_count(self.fits, 'classifier')} to fit: about {duration(self.seconds)} on "
            f"{_count(self.n_jobs, 'process', 'es')}, {self.memory_mb / 1024:.1f} GB of memory."
        )


def _count(n: int, what: str, ending: str = "s") -> str:
    return f"{n:,} {what}{'' if n == 1 else ending}"


def estimate_cost(experiment: Experiment, tasks: Iterable[Task], *, n_jobs: int = 1) -> Cost:
    """Estimate what tasks cost on this machine, after timing a small classifier on it.

    Right within a factor of two or three; the progress of a run then says better.
    """
    tasks = list(tasks)
    draws = {task.draw.key: task.draw for task in tasks}
    speed = measure_speed(experiment)
    largest = sorted((draw_memory_mb(experiment, draw) for draw in draws.values()), reverse=True)[:n_jobs]
    return Cost(
        draws=len(draws),
        tasks=len(tasks),
        rows=sum(draw_rows(draw) for draw in draws.values()),
        fits=sum(n_fits(experiment, task) for task in tasks),
        seconds=sum(task_seconds(experiment, task, speed) for task in tasks) / n_jobs,
        memory_mb=sum(largest),
        n_jobs=n_jobs,
    )


def duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration(90), duration(8000), duration(400_000)
    ('2 minutes', '2.2 hours', '4.6 days')
    """
    for size, name in ((86_400, "days"), (3600, "hours")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def draw_rows(draw: Draw) -> int:
    data = draw.data
    if isinstance(data, SyntheticData):
        return int(data.groups * (data.labeled_per_group[0] + data.unlabeled_per_group[0]))
    rows = TABLE_ROWS[_table_name(data)]
    return min(rows, *(n for n in (data.max_rows, getattr(data, "table_rows", None)) if n), rows)


def n_labeled(draw: Draw) -> int:
    if isinstance(draw.data, SyntheticData):
        return int(draw.data.groups * draw.data.labeled_per_group[0])
    return draw_rows(draw) // 2


def n_features(draw: Draw) -> int:
    if isinstance(draw.data, SyntheticData):
        return draw.d or 1
    return getattr(draw.data, "components", None) or FEATURES[_table_name(draw.data)]


def n_groups(draw: Draw) -> int:
    if isinstance(draw.data, SyntheticData):
        return draw.data.groups
    if isinstance(draw.data, FlightsData):
        return FLIGHT_GROUPS[draw.data.group]
    return STATES if isinstance(draw.data, AcsData) else CATEGORIES


def _table_name(data: RealData) -> str:
    return data.task if isinstance(data, AcsData) else data.kind


def n_fits(experiment: Experiment, task: Task) -> int:
    """Classifiers that a method trains on a draw, beyond those that another method of it trains anyway."""
    return int(np.ceil(_trainings(task) * (_folds(experiment, task) + 1)))


def _trainings(task: Task) -> int:
    """How often a method trains the calibrated classifier anew; of two rounds of refinement one is usual."""
    per_group = {"coral": n_groups(task.draw) + 1}
    # Label Shift corrects Global, the paper's method Cluster Global: they share its classifiers.
    shared = {"bayes": 0, "label_shift": 0, "published": 0, "groupshift": 1}
    return {**per_group, **shared}.get(task.method.name, 1)


def _folds(experiment: Experiment, task: Task) -> int:
    """Classifiers that calibration takes besides the last one: none if rows are held out."""
    if task.method.params.get("calibration", experiment.calibration) == "holdout":
        return 0
    return 5 if n_labeled(task.draw) < 10_000 else 3


def task_seconds(experiment: Experiment, task: Task, speed: Speed) -> float:
    """Seconds of a task on one core."""
    draw = task.draw
    labeled, rows, columns = n_labeled(draw), draw_rows(draw), n_features(draw)
    if task.method.name == "bayes":
        return 1e-7 * rows
    if task.method.name == "group_aware_global":
        columns += n_groups(draw) // 4
    folds = _folds(experiment, task)
    # Rounds of refinement train on each soft row twice, up to three of them for each labelled row.
    trained = labeled * (SOFT_ROWS if task.method.name == "groupshift" else 1)
    values = _trainings(task) * max(folds, 1) * trained * _looked(experiment, columns)
    # Classifiers of clusters see few rows each, but each has its own start.
    clusters = MEAN_CLUSTERS if task.method.name in ("cluster_global", "true_clustering") else 1
    # A prediction goes down each tree once: about a sixteenth of a training row's way, whatever the columns.
    passes = 1 + (2 * folds if task.method.name == "groupshift" else 0)
    training = speed.per_fit * clusters * n_fits(experiment, task) + speed.per_value * values
    predicting = speed.per_value * passes * rows / 16
    fixed = FIXED_SECONDS.get(task.method.name, 0.05)
    return fixed + training + predicting + _partition_seconds(task, rows, columns)


def _looked(experiment: Experiment, columns: int) -> float:
    """Columns that a split looks at: √d of them in a forest, all of them in boosting."""
    return float(np.sqrt(columns)) if experiment.classifier.name == "forest" else float(columns)


def _partition_seconds(task: Task, rows: int, columns: int) -> float:
    """k-means four times, and distances between all of 25,000 rows; the judged method has its candidates."""
    if task.method.name == "groupshift":
        return 1e-6 * min(rows, 50_000) * np.sqrt(columns) * 20
    if task.method.name != "cluster_global":
        return 0.0
    sampled = min(rows, 25_000)
    return 3e-9 * sampled**2 + 2e-6 * rows * np.sqrt(columns)


def draw_memory_mb(experiment: Experiment, draw: Draw) -> float:
    """Data in float64 with its copies on the way, and the classifiers of CORAL, which all live at once."""
    data = draw_rows(draw) * (n_features(draw) + 8) * 8 * 4 / 1e6
    trees = experiment.classifier.params.get(
        "n_estimators", 500 if experiment.classifier.name == "forest" else 0
    )
    kept = n_groups(draw) if any(m.name == "coral" for m in experiment.methods) else 24
    leaves = min(2**10, n_labeled(draw) / 4)
    # Python and its libraries, a real table, and the distances of the silhouette: measured.
    return 900 + data + kept * trees * leaves * 2 * 90 / 1e6


def measure_speed(experiment: Experiment) -> Speed:
    """Time the experiment's classifier on noise of two sizes: what a fit costs anyway, and what a value adds."""
    from groupshift.experiments.methods import make_classifier

    classifier, share = make_classifier(experiment.classifier), 1.0
    if experiment.classifier.name == "forest":
        trees = classifier.get_params()["n_estimators"]
        share = min(1.0, 10 / trees)
        classifier.set_params(n_estimators=max(1, round(trees * share)))
    # A task runs on one thread; two that wait for each other on a busy machine would say twenty times too much.
    with threadpool_limits(limits=1):
        small, large = (_fit_seconds(classifier, n) / share for n in TIMED_ROWS)
    per_row = max(large - small, 0.1 * large) / (TIMED_ROWS[1] - TIMED_ROWS[0])
    return Speed(
        per_fit=max(small - per_row * TIMED_ROWS[0], 0.0),
        per_value=per_row / _looked(experiment, TIMED_COLUMNS),
    )


def _fit_seconds(classifier: Any, n_rows: int) -> float:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, TIMED_COLUMNS)), rng.integers(0, 2, n_rows)
    times = []
    # The faster of two: the first one loads code, and a busy machine only ever slows one down.
    for _ in range(2):
        start = time.perf_counter()
        classifier.fit(X, y)
        times.append(time.perf_counter() - start)
    return min(times)
