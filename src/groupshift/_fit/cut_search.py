"""Partitions that a tree cuts, searched for among the labels that the judge may look at."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from groupshift._fit.problem import Problem
from groupshift._fit.trained import Trained
from groupshift._fit.trials import MIN_CLASS_ROWS, LabeledRows, Tried, try_partition
from groupshift._regions.candidates import MAX_WITH_OTHERS, Candidate
from groupshift._regions.cut_candidates import Cut, ShownLabels, cut_partitions, with_held_out
from groupshift._regions.space import Space
from groupshift._rows.rows import Rows
from groupshift._rows.seeds import Seeds
from groupshift._rows.workers import ahead


@dataclass(frozen=True)
class CutSearch:
    """What cuts are searched for with: it travels to another process, which may be ahead with them."""

    rows: LabeledRows
    labeled: Rows
    shown: ShownLabels
    space: Space
    seeds: Seeds

    @classmethod
    def of(cls, problem: Problem, trained: Trained, space: Space) -> Self:
        rows = trained.labeled_rows(problem)
        whole = np.zeros(len(rows.y), np.int64)
        log_odds = rows.calibrated(whole, 1)
        min_class_rows = MIN_CLASS_ROWS * rows.design_effect
        shown = ShownLabels(trained.judged, rows.y, expit(log_odds), rows.weight, min_class_rows)
        return cls(rows, problem.labeled.in_numbers(), shown, space, problem.seeds)

    def with_losses(self) -> list[tuple[Cut, float]]:
        """Cuts, and the loss of the very labels that they were learned from."""
        cuts = cut_partitions(self.labeled, self.shown, self.space, self.seeds)
        return [(cut, self._loss(cut.candidate)) for cut in cuts]

    def _loss(self, candidate: Candidate) -> float:
        trial = try_partition(self.rows, candidate.cluster[self.shown.rows], candidate.n_clusters)
        return float(self.rows.weight @ trial.loss)


@dataclass(frozen=True)
class BegunCuts:
    """Cuts that others may be ahead with."""

    search: CutSearch
    found: Callable[[], list[tuple[Cut, float]]]  # asked for once, it is waited for

    def promising(self, trials: Sequence[Tried]) -> list[Candidate]:
        """Cuts that predict the labels they were learned from better than any other partition does, to be tried on others."""
        search = self.search
        lowest = min(search.rows.weight @ trial.loss for trial in trials)
        better = [cut for cut, loss in self.found() if loss < lowest]
        return with_held_out(better, search.labeled, search.shown, search.space, search.seeds)


@contextmanager
def begin_cuts(problem: Problem, trained: Trained, space: Space) -> Iterator[BegunCuts]:
    """A block in which others may be ahead with cuts."""
    search = CutSearch.of(problem, trained, space)
    if search.labeled.matrix.size > MAX_WITH_OTHERS:
        yield BegunCuts(search, search.with_losses)
        return
    with ahead(CutSearch.with_losses, [[search]], is_python=True) as batches:
        yield BegunCuts(search, lambda: next(next(batches)))
