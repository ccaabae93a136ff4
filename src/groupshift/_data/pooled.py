"""Rows of both samples together, and the space that clusters are sought in."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._data.keys import design_effect, within
from groupshift._data.problem import Note, Notes, Problem
from groupshift._data.rows import Rows, concatenated
from groupshift._data.space import Space

# k-means moves little beyond this many rows; the published configuration uses all of them.
MAX_CLUSTERING_ROWS = 50_000


@dataclass(frozen=True)
class Pooled:
    """Labelled and unlabelled rows in one, group numbers left out."""

    rows: Rows  # labelled ones first
    n_labeled: int
    space: Space
    group_effect: float  # how many times fewer examples than rows the groups of the population have
    notes: Notes = ()

    def unlabeled(self, n_rows: int) -> Rows:
        """At most so many of the unlabelled rows, from all of their order."""
        step = max(-(-(len(self.rows) - self.n_labeled) // n_rows), 1)
        return self.rows.take(np.arange(self.n_labeled, len(self.rows), step))


def pool_rows(problem: Problem) -> Pooled:
    """All rows for the paper's silhouette, else a sample."""
    limit = np.inf if problem.settings.partition == "silhouette" else MAX_CLUSTERING_ROWS
    labeled, population, seeds = problem.labeled, problem.population, problem.seeds
    notes: Notes = ()
    group_effect = 1.0
    if population is None:
        rows = labeled.at_most(limit, seeds.named("clustering, labelled"))
        n_labeled = len(rows)
    else:
        n_all = len(labeled) + population.n_rows
        if min(limit, n_all) > population.sample_limit:
            limit = population.sample_limit
            sentence = f"Clusters were sought on {limit:,.0f} of {n_all:,} rows: memory is not asked to hold them all."
            notes = (Note(sentence),)
        share = min(1.0, limit / n_all)
        few = labeled.at_most(share * len(labeled), seeds.named("clustering, labelled"))
        n_unlabeled = int(np.ceil(share * population.n_rows))
        unlabeled = problem.sample(n_unlabeled, seeds.named("clustering, population"))
        group_effect = design_effect(within(unlabeled.key, unlabeled.group), unlabeled.weight)
        rows, n_labeled = concatenated([few, unlabeled]), len(few)
    rows = replace(rows, group=np.zeros(len(rows), np.int64))
    space = Space().fit(rows.matrix, rows.weight, problem.encoder.is_category)
    return Pooled(rows, n_labeled, space, group_effect, notes)
