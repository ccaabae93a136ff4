"""Answers before anyone trusts a prediction: is it worth it, does the assumption hold, what to beware of."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields

import numpy as np

from groupshift._data.frames import frame_like
from groupshift._diagnosis import assumption_words, verdict
from groupshift._diagnosis.assumption import chance_distance, mixture_distance
from groupshift._diagnosis.audit_words import audit_sentences
from groupshift._diagnosis.caution import Weighed, by_cost, caution_sentences, find_cautions, row_value
from groupshift._diagnosis.class_model import ClassModel
from groupshift._diagnosis.cluster_profile import describe_clusters
from groupshift._diagnosis.evidence_parts import HiddenLabels
from groupshift._diagnosis.expected_gain import coarser, expected_population_gain
from groupshift._diagnosis.fitted_model import FittedModel
from groupshift._diagnosis.identified import identified_in, identifying_of
from groupshift._diagnosis.sensitivity import overall_numbers, selection_cost, sensitivity, undecided
from groupshift._diagnosis.summary import diagnosis_html, diagnosis_text
from groupshift._math.arrays import FloatArray, IntArray, Table
from groupshift._math.label_shift import mlls


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found, in sentences and in tables.

    Attributes
    ----------
    worth : {"yes", "little", "perhaps", "no", "harmful", "unknown"}
        Is it worth it, on labelled groups whose labels were hidden?
    holds : {"yes", "roughly", "no", "unknown"}
        Does the assumption hold: do positives look alike in every group inside a cluster, and negatives too?
        "unknown" where it was not tested, or on too few labelled rows to tell.
    verdict : str
        The first sentence: is it worth it?
    gain, assumption, caution : tuples of str
        Sentences: what it will gain, whether the assumption holds, where not to trust it.
    overview : dict of str to float
        Totals over the labelled groups (`groups`, `rows`, `loss_global`, `loss_model`, `loss_gain`,
        `loss_gain_error`, `auc_global`, `auc_model`, `auc_gain`, `auc_gain_error`), Theorem 1 for the
        population (`expected_auc_without_group`, `expected_auc_gain`, `expected_auc_gain_low`,
        `expected_auc_gain_high`), what its log loss is expected to be lower by than a plain classifier's
        (`expected_loss_gain`, `expected_loss_gain_low`, `expected_loss_gain_high`), the assumption
        (`score_effect`, `score_effect_error`, `feature_effect`, `feature_effect_error`, `mixture_gap`,
        `mixture_gap_by_chance`), `random_labels` (the probability that labels are a random sample), and
        labelled examples (`fewest_examples` of a class, `fewest_examples_rows` that it has, `unmarked_copies`: the part of rows
        that repeat another under another id); the overall `share` with its 90 % interval (`share_low`, `share_high`), under
        other labelling (`share_if_half`, `share_if_twice`, see `sensitivity`) and if all were used that scores say of all
        groups (`share_at_face_value`). What is not known is left out.
    hidden_labels : table by labelled group
        group, rows, share, loss_global, loss_model, auc_global, auc_model, mean_global, mean_model (mean
        probabilities), estimated_shift, observed_shift.
    independence : table by cluster and class
        cluster, label, rows, groups, score_effect, score_error, feature_effect (mean over features),
        strongest_feature, strongest_effect, p_value. An effect is the share of variance that the group
        explains, less what chance explains.
    features : table by feature
        feature, effect, std_error: the effect of the group given cluster and class, over all of them; identifies: how
        surely the feature tells which group a row is of (0 to 1), where it does at all.
    mixture : table by cell
        group, cluster, rows, share, distance (largest gap between observed and fitted distribution of
        scores), best_distance (with the share that fits this cell best), by_chance, excess, row_value (what
        an unlabelled row tells of the share, as a part of what its label would).
    cautions : table
        kind, group, cluster, rows, value.
    clusters : table
        cluster, feature, category, inside, outside, difference, phrase.
    calibration : table
        method ("global", "model"), group (None for all together), bin, weight, probability, share: on hidden labels.
    sensitivity : table by group
        group (None for all together), rows, share, if_half, if_twice: the share if positives were half, or twice, as likely
        to be labelled as negatives, in all groups alike, beyond what the estimates take for it.
    """

    worth: str
    holds: str
    verdict: str
    gain: tuple[str, ...]
    assumption: tuple[str, ...]
    caution: tuple[str, ...]
    overview: dict[str, float]
    hidden_labels: Table = field(repr=False)
    independence: Table = field(repr=False)
    features: Table = field(repr=False)
    mixture: Table = field(repr=False)
    cautions: Table = field(repr=False)
    clusters: Table = field(repr=False)
    calibration: Table = field(repr=False)
    sensitivity: Table = field(repr=False)
    frame_library: str | None = field(default=None, repr=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, then the answers to the three questions."""
        return (self.verdict, *self.gain, *self.assumption, *self.caution)

    def tables(self) -> dict[str, object]:
        """All tables by name: frames of the library that the model was fitted on, or dicts of arrays."""
        return {name: frame_like(getattr(self, name), self.frame_library) for name in TABLES}

    def __str__(self) -> str:
        return diagnosis_text(self)

    def _repr_html_(self) -> str:
        return diagnosis_html(self)


TABLES = tuple(part.name for part in fields(Diagnosis) if part.type is Table)


def diagnose(model: FittedModel) -> Diagnosis:
    """Is the fitted `model` worth it, does its assumption hold, and where should it not be trusted?

    Examples
    --------
    >>> from groupshift import GroupShiftClassifier
    >>> from groupshift.datasets import make_grouped_mixture
    >>> sample = make_grouped_mixture(n_features=2, n_clusters=1, n_groups=20, labeled_per_group=(100, 0),
    ...                               unlabeled_per_group=(200, 0), random_state=0)
    >>> X, y, groups, _ = sample.training()
    >>> model = GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=groups)
    >>> found = diagnose(model)
    >>> found.worth, found.holds
    ('yes', 'yes')
    """
    mixture = _mixture(model)
    tables = {
        "hidden_labels": _hidden_labels(model),
        "independence": _independence(model),
        "features": _features(model),
        "mixture": mixture,
        "cautions": find_cautions(model, mixture),
        "clusters": describe_clusters(model.evidence_.clusters, model.encoder_),
        "calibration": _calibration(model),
        "sensitivity": sensitivity(model),
    }
    shares = overall_numbers(model, tables["sensitivity"])
    overview = _overview(model, tables, shares)
    worth, first = verdict.is_worth_it(model, overview)
    holds, assumption = assumption_words.assumption_holds(model, overview, tables)
    return Diagnosis(
        worth=worth,
        holds=holds,
        verdict=first,
        gain=tuple(verdict.gain_sentences(model, overview)),
        assumption=tuple(assumption),
        caution=(
            *([first_of_all] if (first_of_all := identified_in(model)) else []),
            *by_cost(
                [
                    *verdict.copies_among_labels(overview),
                    *caution_sentences(tables["cautions"], int(model.rows_.sum()), model.n_clusters_),
                    *(Weighed(selection_cost(shares), sentence) for sentence in _common(model, shares)),
                ]
            ),
        ),
        overview=overview,
        frame_library=model.frame_library_,
        **tables,
    )


def _common(model: FittedModel, shares: dict[str, float]) -> Iterator[str]:
    """What all groups have in common: what an audit found of it, or what nothing decides."""
    return undecided(model, shares) if model.audit_ is None else audit_sentences(model, model.audit_)


def _hidden_labels(model: FittedModel) -> Table:
    held_out = model.evidence_.held_out
    columns = [name for name in HiddenLabels.__dataclass_fields__ if name not in ("group", "mean_score")]
    if held_out is None or not model.has_groups_:
        return {"group": model.labeled_groups_[:0], **{name: np.zeros(0) for name in columns}}
    hidden = held_out.by_group
    return {"group": model.labeled_groups_[hidden.group], **{name: getattr(hidden, name) for name in columns}}


def _independence(model: FittedModel) -> Table:
    found, held_out = model.evidence_.independence, model.evidence_.held_out
    score_effect = score_error = np.full(found.rows.shape, np.nan)
    if held_out is not None:
        score_effect, score_error = held_out.score_independence.effect, held_out.score_independence.std_error
    counts = {"rows": found.rows, "groups": found.groups}
    table = strata_table(model, counts, score_effect, score_error, found.effect)
    return table | {"p_value": found.p_value.ravel()}


def strata_table(
    model: FittedModel | ClassModel,
    counts: dict[str, IntArray],
    score_effect: FloatArray,
    score_error: FloatArray,
    effect: FloatArray,
) -> Table:
    """Effects of the group by cluster and class: on the score, (n_clusters, n_classes), and on features, with an axis more."""
    strongest = np.nan_to_num(effect, nan=-np.inf).argmax(-1)
    return {
        "cluster": np.repeat(np.arange(len(effect)), len(model.classes_)),
        "label": np.tile(model.classes_, len(effect)),
        **{name: values.ravel() for name, values in counts.items()},
        "score_effect": score_effect.ravel(),
        "score_error": score_error.ravel(),
        "feature_effect": assumption_words.mean_of_known(effect, axis=-1).ravel(),
        "strongest_feature": np.array(model.encoder_.names_, dtype=object)[strongest.ravel()],
        "strongest_effect": np.take_along_axis(effect, strongest[..., None], -1).ravel(),
    }


def _features(model: FittedModel) -> Table:
    found, told = model.evidence_.independence, identifying_of(model)
    table = features_table(model, found.effect, found.std_error, found.rows)
    return table | {"identifies": np.array([told.get(name, np.nan) for name in table["feature"]])}


def features_table(
    model: FittedModel | ClassModel, effect: FloatArray, error: FloatArray, rows: IntArray
) -> Table:
    """Effects of the group on features over all clusters and classes, the largest first."""
    effect, error = assumption_words.pooled_effect(effect, error, rows)
    order = np.argsort(-np.nan_to_num(effect, nan=-np.inf), kind="stable")
    names = np.array(model.encoder_.names_, dtype=object)
    return {"feature": names[order], "effect": effect[order], "std_error": error[order]}


def _mixture(model: FittedModel) -> Table:
    held_out = model.evidence_.held_out
    if model.tally_ is None or held_out is None or not model.shift_.size:
        return {}
    points = coarser(model.tally_)
    share = model.group_prior_.ravel()
    n_groups, n_clusters = model.shift_.shape
    prior = np.tile(np.clip(model.labeled_prior_, 1e-9, 1 - 1e-9), n_groups)
    own = mlls(points, labeled_prior=prior, tol=1e-4).share
    own = np.where(np.isnan(own), share, own)
    distance = mixture_distance(points, share, held_out.scores)
    best = np.minimum(distance, mixture_distance(points, own, held_out.scores))
    by_chance = chance_distance(points.effective_rows, share, held_out.scores.rows)
    return {
        "group": np.repeat(model.groups_, n_clusters),
        "cluster": np.tile(np.arange(n_clusters), n_groups),
        "rows": model.rows_.ravel(),
        "share": share,
        "distance": distance,
        "best_distance": best,
        "by_chance": by_chance,
        "excess": np.sqrt(np.maximum(best**2 - by_chance**2, 0)),
        "row_value": row_value(points, model),
    }


def _calibration(model: FittedModel) -> Table:
    held_out = model.evidence_.held_out
    if held_out is None:
        return {}
    names = [str(g) for g in model.labeled_groups_[held_out.by_group.group].tolist()]
    parts = []
    for method, found in (("global", held_out.calibration.plain), ("model", held_out.calibration.model)):
        curves: list[tuple[str | None, FloatArray]] = [(None, found.overall)]
        curves += zip(names, found.by_group, strict=True) if model.has_groups_ else []
        parts += [(method, name, i, line) for name, curve in curves for i, line in enumerate(curve)]
    methods, groups, bins, lines = zip(*parts, strict=True)
    numbers = np.array(lines).T
    return {
        "method": np.array(methods, dtype=object),
        "group": np.array(groups, dtype=object),
        "bin": np.array(bins),
        **dict(zip(("weight", "probability", "share"), numbers, strict=True)),
    }


def _overview(model: FittedModel, tables: dict[str, Table], shares: dict[str, float]) -> dict[str, float]:
    evidence, held_out = model.evidence_, model.evidence_.held_out
    overview = asdict(held_out.total) if held_out is not None else {}
    overview |= expected_population_gain(model)
    overview |= assumption_words.assumption_numbers(evidence, tables)
    overview["random_labels"] = model.random_labels_
    overview |= asdict(evidence.examples) | shares
    return {name: float(value) for name, value in overview.items() if np.isfinite(value)}
