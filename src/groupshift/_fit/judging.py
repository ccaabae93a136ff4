"""The judge at work: candidates are proposed, tried on hidden labels, and given classifiers of their own where that helps."""

from typing import Any

import numpy as np

from groupshift._fit.posterior import PerClusterClassifier, probability_edge
from groupshift._fit.selection import (
    LENIENT,
    candidate_table,
    choose,
    gain,
    noise_margin,
    try_partition,
    without_shift,
)
from groupshift._regions.candidates import Candidate, propose_partitions
from groupshift._regions.partitions import WholeSpace


def judge_partitions(fitting: Any) -> None:
    """Choose the partition of a fit, its trial and its classifiers."""
    model = fitting.model
    fitting.candidate = Candidate.fixed("one cluster", WholeSpace(), fitting.labeled)
    if not fitting.can_judge:
        fitting.note(
            "No labels can be hidden (fewer than two labelled groups, or one class has a single example): one cluster is used."
        )
        return
    given = model.partition if isinstance(model.partition, (list, tuple)) else ()
    candidates = propose_partitions(
        fitting.labeled,
        fitting.y,
        fitting.pooled,
        fitting.space,
        given=given,
        random_state=fitting.small_seed(),
    )
    chosen = _judge(fitting, candidates)
    if chosen is None:
        fitting.note("Hidden labels confirm none of the estimated shifts: none of these is used.")
        return
    if _try_per_cluster(fitting, candidates[chosen]):
        # Sharper scores see partitions more clearly: judge them once more, and train anew if another one wins.
        again = _judge(fitting, candidates)
        if again is not None and again != chosen and _try_per_cluster(fitting, candidates[again]):
            chosen = again
        else:
            fitting.trial = fitting.try_candidate(candidates[chosen])
    fitting.candidate = candidates[chosen]
    model.candidates_["chosen"] = np.arange(-1, len(candidates)) == chosen
    stated = "" if model.trust == "learned" else f"; you set it to {model.trust:.2f}"
    fitting.note(
        f"The judge chose {fitting.candidate.name!r} of {len(candidates)} candidates, "
        f"with trust {fitting.trial.trust.value:.2f}{stated}."
    )
    if isinstance(fitting.estimator, PerClusterClassifier):
        fitting.note(
            "A classifier for each cluster predicts hidden labels better than one for all, and is used."
        )


def _judge(fitting: Any, candidates: list[Candidate]) -> int | None:
    """Number of the candidate to use with the current scores, its trial kept; None for no shift."""
    rows = fitting.labeled_rows()
    trials = [try_partition(rows, fitting.labeled_cluster(c), c.n_clusters) for c in candidates]
    chosen = choose(trials, rows)
    fitting.trial = without_shift(trials[0], rows) if chosen is None else trials[chosen]
    fitting.model.candidates_ = candidate_table([c.name for c in candidates], trials, chosen, rows)
    return chosen


def _try_per_cluster(fitting: Any, candidate: Candidate) -> bool:
    """One classifier for each cluster instead of the current ones, if hidden labels confirm it."""
    if candidate.n_clusters == 1 or fitting.sets is None:
        return False
    fitting.step("training a classifier for each cluster")
    before = (fitting.estimator, fitting.models, fitting.edge, fitting.score, fitting.trial)
    plain = fitting.estimator
    plain = plain.estimator if isinstance(plain, PerClusterClassifier) else plain
    fitting.estimator = PerClusterClassifier(plain, candidate.partition, fitting.model.encoder_)
    # Boosted trees that saw a handful of positives speak of log-odds in the thousands: one such cluster would ruin the
    # calibration of all.
    fitting.edge = probability_edge(len(fitting.y))
    sets = fitting.sets
    first = fitting.fit_sets(sets[:1])
    if fitting.promises(first[0], candidate):
        fitting.models = first + fitting.fit_sets(sets[1:])
        fitting.score = fitting.blind_scores(fitting.models[:-1], candidate.cluster)
        fitting.trial = fitting.try_candidate(candidate)
        rows = fitting.labeled_rows()
        mean, error = gain(before[-1].loss, fitting.trial.loss, rows)
        if mean > noise_margin(rows.n_groups, LENIENT) * error:
            return True
    fitting.estimator, fitting.models, fitting.edge, fitting.score, fitting.trial = before
    return False
