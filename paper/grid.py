"""What is to be run: draws of data, and one task for each draw and method."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np

from groupshift.datasets import GroupedSample, bias_groups, make_grouped_mixture, natural_split
from paper.data_sources import load_table
from paper.origin import deciding_origin
from paper.spec import (
    DataSpec,
    Experiment,
    MethodSpec,
    RealData,
    ResamplingSpec,
    Setting,
    SyntheticData,
)

# Neither where the files lie nor how many draws there are changes a draw.
UNDECIDING = ("path", "embeddings", "settings", "repetitions", "dimensions", "clusters", "note")


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
        return np.random.SeedSequence([self.seed, *words, 3 if self.setting == "natural" else self.setting])

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
        return make_grouped_mixture(
            n_features=self.d,
            n_clusters=self.K,
            n_groups=self.data.groups,
            labeled_per_group=self.data.labeled_per_group,
            unlabeled_per_group=self.data.unlabeled_per_group,
            setting=int(self.setting),
            auc_range=self.data.auc_range,
            pairs=self.data.pairs,
            random_state=seed,
        )

    def _resampled(self, data: RealData, seed: int) -> GroupedSample:
        table = load_table(data)
        if self.setting == "natural":
            table = table.some_rows(data.max_rows, random_state=seed)
            return natural_split(
                table.X,
                table.y,
                table.groups,
                example_ids=table.example_ids,
                random_state=seed,
                name=data.name,
            )
        return bias_groups(
            table.X,
            table.y,
            table.groups,
            setting=self.setting,
            n_clusters=self.resampling.setting_1_clusters if self.setting == 1 else None,
            batch_size=self.resampling.batch_size,
            replace=self.resampling.replace,
            example_ids=table.example_ids,
            max_rows=data.max_rows,
            random_state=seed,
            name=data.name,
        )


@dataclass(frozen=True, kw_only=True)
class Task:
    """One method on one draw: the unit that is stored, and never run twice."""

    draw: Draw
    method: MethodSpec
    decided_by: Mapping[str, object]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with everything that decides the numbers of a task, and with nothing else."""
        text = json.dumps(self.decided_by, sort_keys=True, default=list)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def key(self) -> str:
        return f"{self.draw.key}/{self.method.label}-{self.fingerprint}"

    @property
    def labels(self) -> dict[str, str | int | None]:
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


def list_tasks(experiment: Experiment, origin: Mapping[str, str] | None = None) -> list[Task]:
    """All tasks, repetition by repetition: a run that is cut short has something to say about everything.

    `origin` is the code that runs them, by default this one.

    >>> from paper.spec_files import load_experiment
    >>> tasks = list_tasks(load_experiment("paper", scale="paper"))
    >>> tasks[0].draw.key
    'synthetic-d01-K1-s1-r00'
    """
    made_by = {name: (origin or deciding_origin()).get(name) for name in deciding_origin()}
    return [
        Task(draw=draw, method=method, decided_by=_decided_by(experiment, draw, method, made_by))
        for draw in list_draws(experiment)
        for method in experiment.methods
        if applies(method, draw)
    ]


def list_draws(experiment: Experiment) -> list[Draw]:
    """All draws, those of the first repetition first."""
    draws = [
        Draw(
            data=data,
            seed=experiment.seed,
            resampling=experiment.resampling,
            setting=setting,
            repetition=repetition,
            d=d,
            K=K,
        )
        for data in experiment.data
        for repetition in range(experiment.repetitions if data.repetitions is None else data.repetitions)
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


def _decided_by(
    experiment: Experiment, draw: Draw, method: MethodSpec, origin: Mapping[str, str | None]
) -> dict[str, object]:
    """All that decides the numbers of a task, by name."""
    data = {name: value for name, value in asdict(draw.data).items() if name not in UNDECIDING}
    decided: dict[str, object] = {
        "data": {"kind": draw.data.kind, **data},
        "seed": experiment.seed,
        "method": {"name": method.name, **method.params},
        "origin": origin,
    }
    if draw.data.kind != "synthetic":
        decided["resampling"] = asdict(experiment.resampling)
    if method.name != "bayes":
        decided["classifier"] = asdict(experiment.classifier)
        decided["calibration"] = experiment.calibration
    return decided
