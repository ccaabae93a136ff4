"""Answers before anyone trusts a prediction: is it worth it, does the assumption hold, what to beware of."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupshift._explain import verdict
from groupshift._explain.assumption import chance_distance, mixture_distance
from groupshift._explain.caution import caution_sentences, find_cautions, row_value
from groupshift._explain.cluster_profile import describe_clusters
from groupshift._explain.expected_gain import coarser, expected_population_gain
from groupshift._math.label_shift import mlls
from groupshift._rows.frames import frame_like

Table = dict[str, NDArray]


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
        `expected_auc_gain_high`), the assumption (`score_effect`, `score_effect_error`, `feature_effect`,
        `feature_effect_error`, `mixture_gap`, `mixture_gap_by_chance`), `trust`, `trust_estimate`,
        `trust_error`, and labelled examples (`fewest_examples` of a class, `fewest_examples_rows` that it has,
        `unmarked_copies`: the part of rows that repeat another under another id). What is not known is left out.
    hidden_labels : table by labelled group
        group, rows, share, loss_global, loss_model, auc_global, auc_model, mean_global, mean_model (mean
        probabilities), estimated_shift, observed_shift.
    independence : table by cluster and class
        cluster, label, rows, groups, score_effect, score_error, feature_effect (mean over features),
        strongest_feature, strongest_effect, p_value. An effect is the share of variance that the group
        explains, less what chance explains.
    features : table by feature
        feature, effect, std_error: the effect of the group given cluster and class, over all of them.
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
    frame_library: str | None = field(default=None, repr=False)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, then the answers to the three questions."""
        return (self.verdict, *self.gain, *self.assumption, *self.caution)

    def tables(self) -> dict[str, Any]:
        """All tables by name: frames of the library that the model was fitted on, or dicts of arrays."""
        return {name: frame_like(getattr(self, name), self.frame_library) for name in TABLES}

    def __str__(self) -> str:
        from groupshift._explain.summary import diagnosis_text

        return diagnosis_text(self)

    def _repr_html_(self) -> str:
        from groupshift._explain.summary import diagnosis_html

        return diagnosis_html(self)


TABLES = ("hidden_labels", "independence", "features", "mixture", "cautions", "clusters", "calibration")


def diagnose(model: Any) -> Diagnosis:
    """Is the fitted `model` worth it, does its assumption hold, and where should it not be trusted?

    Examples
    --------
    >>> from groupshift import GroupShiftClassifier
    >>> from groupshift.datasets import make_grouped_mixture
    >>> sample = make_grouped_mixture(n_features=2, n_clusters=1, n_groups=20, labeled_per_group=(100, 0),
    ...                               unlabeled_per_group=(200, 0), random_state=0)
    >>> X, y, groups, _ = sample.training()
    >>> model = GroupShiftClassifier(partition=1, refine=0, random_state=0).fit(X, y, groups=groups)
    >>> found = diagnose(model)
    >>> found.worth, found.holds
    ('yes', 'yes')
    """
    evidence = getattr(model, "evidence_", None) or {}
    mixture = _mixture(model, evidence)
    tables = {
        "hidden_labels": _hidden_labels(model, evidence),
        "independence": _independence(model, evidence),
        "features": _features(model, evidence),
        "mixture": mixture,
        "cautions": find_cautions(model, evidence, mixture),
        "clusters": _clusters(model, evidence),
        "calibration": _calibration(model, evidence),
    }
    overview = _overview(model, evidence, tables)
    worth, first = verdict.is_worth_it(model, overview)
    holds, assumption = verdict.assumption_holds(model, overview, tables)
    n_rows = int(model.rows_.sum())
    return Diagnosis(
        worth=worth,
        holds=holds,
        verdict=first,
        gain=tuple(verdict.gain_sentences(model, overview)),
        assumption=tuple(assumption),
        caution=(
            *verdict.copies_among_labels(overview),
            *caution_sentences(tables["cautions"], n_rows, model.n_clusters_),
            *verdict.always_true(model),
        ),
        overview=overview,
        frame_library=model.frame_library_,
        **tables,
    )


def _hidden_labels(model, evidence) -> Table:
    columns = (
        "rows",
        "share",
        "loss_global",
        "loss_model",
        "auc_global",
        "auc_model",
        "mean_global",
        "mean_model",
        "estimated_shift",
        "observed_shift",
    )
    hidden = evidence.get("hidden")
    if hidden is None or not model.has_groups_:
        return {"group": model.labeled_groups_[:0], **{name: np.zeros(0) for name in columns}}
    return {"group": model.labeled_groups_[hidden["group"]], **{name: hidden[name] for name in columns}}


def _independence(model, evidence) -> Table:
    found = evidence.get("independence")
    if found is None:
        return {}
    effect = found["effect"]
    shape = effect.shape[:2]
    score = evidence.get(
        "score_independence", {"effect": np.full(shape, np.nan), "std_error": np.full(shape, np.nan)}
    )
    strongest = np.nan_to_num(effect, nan=-np.inf).argmax(-1)
    names = np.array(model.encoder_.names_, dtype=object)
    return {
        "cluster": np.repeat(np.arange(shape[0]), shape[1]),
        "label": np.tile(model.classes_, shape[0]),
        "rows": found["rows"].ravel(),
        "groups": found["groups"].ravel(),
        "score_effect": score["effect"].ravel(),
        "score_error": score["std_error"].ravel(),
        "feature_effect": verdict.mean(effect, axis=-1).ravel(),
        "strongest_feature": names[strongest.ravel()],
        "strongest_effect": np.take_along_axis(effect, strongest[..., None], -1).ravel(),
        "p_value": found["p_value"].ravel(),
    }


def _features(model, evidence) -> Table:
    found = evidence.get("independence")
    if found is None:
        return {}
    n_features = found["effect"].shape[-1]
    rows = np.repeat(found["rows"].reshape(-1, 1), n_features, 1)
    effect, error = verdict.pooled_effect(
        found["effect"].reshape(-1, n_features), found["std_error"].reshape(-1, n_features), rows
    )
    order = np.argsort(-np.nan_to_num(effect, nan=-np.inf), kind="stable")
    names = np.array(model.encoder_.names_, dtype=object)
    return {"feature": names[order], "effect": effect[order], "std_error": error[order]}


def _mixture(model, evidence) -> Table:
    scores = evidence.get("scores")
    if model.tally_ is None or scores is None or not model.shift_.size:
        return {}
    points = coarser(model.tally_)
    share = model.group_prior_.ravel()
    n_groups, n_clusters = model.shift_.shape
    own = mlls(points, labeled_prior=np.tile(model.labeled_prior_, n_groups), tol=1e-4).share
    own = np.where(np.isnan(own), share, own)
    distance = mixture_distance(points, share, scores["grid"], scores["below"])
    best = mixture_distance(points, own, scores["grid"], scores["below"])
    by_chance = chance_distance(points.effective_rows, share, scores["rows"])
    return {
        "group": np.repeat(model.groups_, n_clusters),
        "cluster": np.tile(np.arange(n_clusters), n_groups),
        "rows": model.rows_.ravel(),
        "share": share,
        "distance": distance,
        "best_distance": np.minimum(distance, best),
        "by_chance": by_chance,
        "excess": np.sqrt(np.maximum(np.minimum(distance, best) ** 2 - by_chance**2, 0)),
        "row_value": row_value(points, model),
    }


def _clusters(model, evidence) -> Table:
    return describe_clusters(evidence["clusters"], model.encoder_) if "clusters" in evidence else {}


def _calibration(model, evidence) -> Table:
    found = evidence.get("calibration")
    if found is None:
        return {}
    names = [str(g) for g in model.labeled_groups_[evidence["hidden"]["group"]].tolist()]
    parts: list[tuple[str, list, NDArray]] = []
    for method in ("global", "model"):
        parts.append((method, [None], found[method][None]))
        if model.has_groups_:
            parts.append((method, names, found[f"{method}_by_group"]))
    return {
        "method": np.concatenate([np.full(t[..., 0].size, method, dtype=object) for method, _, t in parts]),
        "group": np.concatenate([np.repeat(np.array(g, dtype=object), t.shape[1]) for _, g, t in parts]),
        "bin": np.concatenate([np.tile(np.arange(t.shape[1]), len(t)) for _, _, t in parts]),
        **{
            name: np.concatenate([t[..., i].ravel() for _, _, t in parts])
            for i, name in enumerate(("weight", "probability", "share"))
        },
    }


def _overview(model, evidence, tables) -> dict[str, float]:
    overview = {name: float(value) for name, value in evidence.get("total", {}).items()}
    expected = expected_population_gain(model)
    if expected:
        overview["expected_auc_without_group"] = expected["auc_without_group"]
        overview["expected_auc_gain"] = expected["auc_gain"]
        overview["expected_auc_gain_low"], overview["expected_auc_gain_high"] = (
            expected["low"],
            expected["high"],
        )
    overview.update(verdict.assumption_numbers(evidence, tables))
    overview["trust"] = float(model.trust_)
    if "trust" in evidence:
        overview["trust_estimate"] = float(evidence["trust"]["estimate"])
        overview["trust_error"] = float(evidence["trust"]["std_error"])
    if "examples" in evidence:
        overview.update({name: float(value) for name, value in evidence["examples"].items()})
    return {name: value for name, value in overview.items() if np.isfinite(value)}
