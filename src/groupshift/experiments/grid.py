"""What is to be run: draws of data, and one task for each draw and method."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from groupshift.datasets import GroupedSample, bias_groups, make_grouped_mixture, natural_split
from groupshift.experiments.data_sources import load_table
from groupshift.experiments.spec import (
    DataSpec,
    Experiment,
    MethodSpec,
    ResamplingSpec,
    Setting,
    SyntheticData,
)


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One data set as every method of a repetition sees it."""

    data: DataSpec
    setting: Setting
    repetition: int
    d: int | None = None
    K: int | None = None
    seed: int = 0
    resampling: ResamplingSpec = field(default_factory=ResamplingSpec)

    @property
    def key(self) -> str:
        """Name of the draw, fit for a file name."""
        size = "" if self.d is None else f"-d{self.d:02d}-K{self.K}"
        return f"{self.data.name}{size}-s{self.setting}-r{self.repetition:02d}"

    @property
    def random_state(self) -> np.random.SeedSequence:
        """Depends on what the draw is, not on its place in a grid: a grid that grows keeps its draws."""
        words = [zlib.crc32(self.data.name.encode()), self.d or 0, self.K or 0, self.repetition]
        return np.random.SeedSequence([self.seed, *words, _setting_number(self.setting)])

    @property
    def method_seed(self) -> int:
        """One seed for all methods, so that what they share is the same work."""
        return int(self.random_state.generate_state(2)[1] % 2**31)

    def sample(self) -> GroupedSample:
        """Make the data; the same on every call."""
        seed = int(self.random_state.generate_state(1)[0])
        if isinstance(self.data, SyntheticData):
            assert self.d is not None
            assert self.K is not None
            return make_grouped_mixture(
                n_features=self.d,
                n_clusters=self.K,
                n_groups=self.data.groups,
                labeled_per_group=self.data.labeled_per_group,
                unlabeled_per_group=self.data.unlabeled_per_group,
                setting=int(self.setting),
                random_state=seed,
            )
        return self._resampled(load_table(self.data), seed)

    def _resampled(self, table: Any, seed: int) -> GroupedSample:
        assert not isinstance(self.data, SyntheticData)
        options: dict[str, Any] = {"random_state": seed, "name": self.data.name}
        if self.setting == "natural":
            rows = _some_rows(table, self.data.max_rows, seed)
            ids = None if table.example_ids is None else table.example_ids[rows]
            X, y, groups = table.X[rows], table.y[rows], table.groups[rows]
            return natural_split(X, y, groups, example_ids=ids, **options)
        clusters = self.resampling.setting_1_clusters if self.setting == 1 else None
        return bias_groups(
            table.X,
            table.y,
            table.groups,
            setting=int(self.setting),
            n_clusters=clusters,
            batch_size=self.resampling.batch_size,
            replace=self.resampling.replace,
            example_ids=table.example_ids,
            max_rows=self.data.max_rows,
            **options,
        )


@dataclass(frozen=True, kw_only=True)
class Task:
    """One method on one draw: the unit that is stored, and never run twice."""

    draw: Draw
    method: MethodSpec
    fingerprint: str

    @property
    def key(self) -> str:
        return f"{self.draw.key}/{self.method.label}-{self.fingerprint}"

    @property
    def labels(self) -> dict[str, Any]:
        """What identifies a row of results, besides its metric."""
        d = self.draw
        return {
            "data": d.data.name,
            "setting": d.setting,
            "d": d.d,
            "K": d.K,
            "repetition": d.repetition,
            "method": self.method.label,
        }


def list_tasks(experiment: Experiment) -> list[Task]:
    """All tasks, repetition by repetition: a run that is cut short has something to say about everything.

    >>> from groupshift.experiments.spec import load_experiment
    >>> tasks = list_tasks(load_experiment("paper", scale="paper"))
    >>> tasks[0].draw.key
    'synthetic-d01-K1-s1-r00'
    """
    return [
        Task(draw=draw, method=method, fingerprint=_fingerprint(experiment, draw, method))
        for draw in list_draws(experiment)
        for method in experiment.methods
        if applies(method, draw)
    ]


def list_draws(experiment: Experiment) -> list[Draw]:
    """All draws, those of the first repetition first."""
    draws = []
    for data in experiment.data:
        repetitions = experiment.repetitions if data.repetitions is None else data.repetitions
        common: dict[str, Any] = {"data": data, "seed": experiment.seed, "resampling": experiment.resampling}
        draws += [
            Draw(**common, setting=setting, repetition=r, d=d, K=K)
            for r in range(repetitions)
            for setting in data.settings
            for d, K in _sizes(data)
        ]
    return sorted(draws, key=lambda draw: draw.repetition)


def _sizes(data: DataSpec) -> list[tuple[int | None, int | None]]:
    if isinstance(data, SyntheticData):
        return [(d, K) for d in data.dimensions for K in data.clusters]
    return [(None, None)]


def applies(method: MethodSpec, draw: Draw) -> bool:
    """Whether a method can be run on a draw: the oracle needs a truth, and dear methods stop early."""
    if method.repetitions is not None and draw.repetition >= method.repetitions:
        return False
    if method.settings is not None and draw.setting not in method.settings:
        return False
    if method.name == "bayes":
        return draw.data.kind == "synthetic"
    return not (method.name == "true_clustering" and draw.setting == "natural")


def _fingerprint(experiment: Experiment, draw: Draw, method: MethodSpec) -> str:
    """Changes with everything that decides the numbers of a task, and with nothing else."""
    data = {**asdict(draw.data), "kind": draw.data.kind}
    # Neither where the files lie nor how many draws there are changes this one.
    for irrelevant in ("path", "embeddings", "settings", "repetitions", "dimensions", "clusters", "note"):
        data.pop(irrelevant, None)
    decides = [data, experiment.seed, method.name, dict(method.params)]
    if draw.data.kind != "synthetic":
        decides.append(asdict(experiment.resampling))
    if method.name != "bayes":
        decides += [asdict(experiment.classifier), experiment.calibration]
    text = json.dumps(decides, sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _some_rows(table: Any, max_rows: int | None, seed: int) -> np.ndarray:
    from groupshift.datasets.examples import encode_ids, some_examples

    ids = encode_ids(table.example_ids, n_rows=len(table))
    return some_examples(ids, max_rows=max_rows, rng=np.random.default_rng(seed))


def _setting_number(setting: Setting) -> int:
    return 3 if setting == "natural" else int(setting)
