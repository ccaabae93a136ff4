"""Rows of both samples together, and the space that clusters are sought in."""

from dataclasses import dataclass, replace

import numpy as np

from groupshift._fit.identifying import identifying_features
from groupshift._fit.problem import Note, Notes, Problem
from groupshift._math.arrays import IntArray
from groupshift._regions.space import Space
from groupshift._rows.codes import Codes
from groupshift._rows.keys import design_effect, within
from groupshift._rows.rows import Rows, concatenated

# k-means moves little beyond this many rows; the published configuration uses all of them.
MAX_CLUSTERING_ROWS = 50_000


@dataclass(frozen=True)
class Pooled:
    """Labelled and unlabelled rows in one, group numbers left out."""

    rows: Rows  # labelled ones first
    n_labeled: int
    space: Space
    population_effect: float  # how many times fewer examples than rows the population has
    group_effect: float  # the same within its groups: copies in another group are not counted
    without_labels: float  # the part of the population's rows that lie in groups without labels
    identifying: dict[str, float]  # features that tell which group a row is of, and how well, 0 to 1
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
    effect, group_effect, without = 1.0, 1.0, 0.0
    if population is None:
        rows = labeled.at_most(limit, seeds.named("clustering, labelled"))
        group, n_labeled = rows.group, len(rows)
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
        effect = design_effect(unlabeled.key, unlabeled.weight)
        group_effect = design_effect(within(unlabeled.key, unlabeled.group), unlabeled.weight)
        without = _without_labels(problem, unlabeled)
        rows = concatenated([few, unlabeled])
        group, n_labeled = _same_numbers(problem, few, unlabeled), len(few)
    identifying = _identifying(problem, rows, group) if problem.has_groups else {}
    rows = replace(rows, group=np.zeros(len(rows), np.int64))
    space = Space().fit(rows.matrix, rows.weight, problem.encoder.is_category)
    return Pooled(rows, n_labeled, space, effect, group_effect, without, identifying, notes)


def _without_labels(problem: Problem, unlabeled: Rows) -> float:
    is_labeled = Codes.of(problem.labeled_groups).transform(problem.groups) >= 0
    return (
        float(np.average(~is_labeled[unlabeled.group], weights=unlabeled.weight)) if len(unlabeled) else 0.0
    )


def _same_numbers(problem: Problem, labeled: Rows, unlabeled: Rows) -> IntArray:
    """Groups of both samples by one numbering."""
    codes = Codes().fit(np.concatenate([problem.labeled_groups, problem.groups]))
    sides = (problem.labeled_groups, labeled), (problem.groups, unlabeled)
    return np.concatenate([codes.transform(names)[rows.group] for names, rows in sides])


def _identifying(problem: Problem, rows: Rows, group: IntArray) -> dict[str, float]:
    return identifying_features(
        rows.matrix,
        group,
        rows.key,
        names=problem.encoder.names_,
        is_category=problem.encoder.is_category,
        seed=problem.seeds.named("identifying features"),
    )
