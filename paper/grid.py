"""What is to be run: draws of data, and one task for each draw and method."""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from groupshift.datasets import GroupedSample, LabeledTable, bias_groups, make_grouped_mixture
from paper.acs import acs_task
from paper.reviews import load_reviews
from paper.spec import AcsData, DataSpec, Experiment, MethodSpec, RealData, ReviewsData, SyntheticData
from paper.walk import walked_pairs


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One data set as every method of a repetition sees it."""

    data: DataSpec
    setting: int
    repetition: int
    d: int | None = None
    K: int | None = None
    seed: int = 0

    @property
    def random_state(self) -> np.random.SeedSequence:
        """Depends on what the draw is, not on its place in a grid: a grid that grows keeps its draws.

        Variants of a table have one seed.
        """
        family = self.data.task if isinstance(self.data, AcsData) else self.data.kind
        words = [zlib.crc32(family.encode()), self.d or 0, self.K or 0, self.repetition]
        return np.random.SeedSequence([self.seed, *words, self.setting])

    @property
    def method_seed(self) -> int:
        """One seed for all methods, so that what they share is the same work."""
        return int(self.random_state.generate_state(2)[1] % 2**31)

    def sample(self) -> GroupedSample:
        """Make the data; the same on every call."""
        seed = int(self.random_state.generate_state(1)[0])
        if not isinstance(self.data, SyntheticData):
            return self._resampled(self.data, seed)
        assert self.d is not None
        assert self.K is not None
        rng, walked = np.random.default_rng(seed), None
        if self.data.pairs == "walk":
            auc_range = self.data.auc_range
            walked = walked_pairs(n_clusters=self.K, n_features=self.d, auc_range=auc_range, rng=rng)
        return make_grouped_mixture(
            n_features=self.d,
            n_clusters=self.K,
            n_groups=self.data.groups,
            labeled_per_group=self.data.labeled_per_group,
            unlabeled_per_group=self.data.unlabeled_per_group,
            setting=self.setting,
            auc_range=self.data.auc_range,
            pairs=walked,
            random_state=rng,
        )

    def _resampled(self, data: RealData, seed: int) -> GroupedSample:
        table = load_table(data)
        groups = table.groups
        if isinstance(data, ReviewsData):
            groups = regrouped(groups, merged=data.merged, dealt=data.dealt, seed=seed)
        cells = data.setting_1_cells if self.setting == 1 and data.setting_1_cells else data.cells
        return bias_groups(
            table.X,
            table.y,
            groups,
            setting=self.setting,
            n_clusters=cells,
            batch_size=data.batch_size,
            replace=data.replace,
            example_ids=table.example_ids,
            max_rows=data.max_rows,
            random_state=seed,
            name=data.name,
        )


def regrouped(groups: np.ndarray, *, merged: int, dealt: bool, seed: int) -> np.ndarray:
    """Groups merged so many at a time, in random order; or rows dealt to groups of the same sizes.

    >>> regrouped(np.array(["a", "b", "c", "d"]), merged=2, dealt=False, seed=0)
    array([1, 0, 0, 1])
    """
    rng = np.random.default_rng(seed)
    names, code = np.unique(groups, return_inverse=True)
    code = (rng.permutation(len(names)) // merged)[code]
    return np.asarray(rng.permutation(code) if dealt else code)


@lru_cache(maxsize=4)
def load_table(data: RealData) -> LabeledTable:
    """The table of a data set."""
    if isinstance(data, AcsData):
        table = acs_task(data.task, data.path)
        # A forest of the article's takes no missing values; 0 is what folktables has.
        np.nan_to_num(np.asarray(table.X), copy=False, nan=0.0)
        return table
    return load_reviews(
        data.path,
        rating=data.rating,
        drop_three_stars=data.drop_three_stars,
        n_components=data.components,
        name=data.name,
    )


@dataclass(frozen=True, kw_only=True)
class Task:
    """One method on one draw: the unit that is stored, and never run twice."""

    draw: Draw
    method: MethodSpec

    @property
    def labels(self) -> tuple[str, ...]:
        """What identifies a row of results, besides its metric: data, setting, d, K, repetition, method."""
        d = self.draw
        values = (d.data.name, d.setting, d.d, d.K, d.repetition, self.method.label)
        return tuple("" if value is None else str(value) for value in values)


def list_tasks(experiment: Experiment) -> list[Task]:
    """All tasks, repetition by repetition: a run that is cut short has something to say about everything.

    >>> from paper.spec import load_experiment
    >>> list_tasks(load_experiment("paper", scale="paper"))[0].labels
    ('synthetic', '1', '1', '1', '0', 'global')
    """
    draws = [
        Draw(data=data, seed=experiment.seed, setting=setting, repetition=repetition, d=d, K=K)
        for repetition in range(experiment.repetitions)
        for data in experiment.data
        if data.repetitions is None or repetition < data.repetitions
        for setting in data.settings
        for d, K in _sizes(data)
    ]
    return [
        Task(draw=draw, method=method)
        for draw in draws
        for method in experiment.methods
        if (method.repetitions is None or draw.repetition < method.repetitions)
        and (method.name != "bayes" or draw.data.kind == "synthetic")
    ]


def _sizes(data: DataSpec) -> list[tuple[int | None, int | None]]:
    if isinstance(data, SyntheticData):
        return [(d, K) for d in data.dimensions for K in data.clusters]
    return [(None, None)]
