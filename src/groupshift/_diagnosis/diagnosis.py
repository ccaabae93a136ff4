"""Answers before anyone trusts a prediction: is it worth it, does the assumption hold, what to beware of."""

from dataclasses import dataclass, field, fields

import numpy as np

from groupshift._data.frames import frame_like
from groupshift._diagnosis.assumption import chance_distance, mixture_distance
from groupshift._diagnosis.features import describe_clusters
from groupshift._diagnosis.findings import WORTH_SAYING, Finding, find_all, find_cautions, what_settles_it
from groupshift._diagnosis.fitted import Model, has_classes, pooled_effect
from groupshift._diagnosis.gain import coarser, expected_population_gain
from groupshift._diagnosis.sentences import brief, words
from groupshift._diagnosis.share_tables import overall_share, sensitivity, shares_if_selected
from groupshift._diagnosis.wording import MARK, bullets, details, folded, listed, rows_of, table_html, titled
from groupshift._math.arrays import FloatArray, Table
from groupshift._math.label_shift import mlls
from groupshift._math.points import Points
from groupshift._math.sums import ratio

# Second moment of Kolmogorov's distribution over the square of its mean.
GAP_MOMENT = (np.pi**2 / 12) / 0.87**2
QUESTIONS = {
    "gain": "What will it gain?",
    "assumption": "Does the assumption hold?",
    "caution": "Where not to trust it",
}
# Tables that a notebook shows, and what they are called there.
SHOWN = {
    "held_out": "Held-out labels, by group",
    "independence": "Independence of features and group, by cluster and class",
    "features": "Effect of the group on each feature",
    "cautions": "Cautions",
    "sensitivity": "Shares if a class were half or twice as likely to be labeled",
}


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found, in sentences and in tables.

    Attributes
    ----------
    worth : {"yes", "little", "perhaps", "no", "harmful", "unknown"}
        Is it worth it? By labeled groups whose labels were held out, and what the population is expected to gain.
    holds : {"yes", "roughly", "no", "unknown"}
        Does the assumption hold: does a class look alike in every group inside a cluster?
        "unknown" where it was not tested, or on too few labeled rows to tell.
    verdict : str
        The first sentence: is it worth it?
    gain, assumption, caution : tuples of str
        Sentences: what it will gain, whether the assumption holds, where not to trust it (what may cost most first).
    findings : tuple of Finding
        What the sentences say, as values: topic, code, values, cost.
    overview : dict of str to float
        Totals over the labeled groups (`groups`, `rows`, `loss_global`, `loss_model`, `loss_gain`, `loss_gain_error`; of two
        classes `auc_global`, `auc_model`, `auc_gain`, `auc_gain_error`, of more the same of `accuracy`), what the log loss of
        the population is expected to be lower by than a plain classifier's (`expected_loss_gain`, `expected_loss_gain_low`,
        `expected_loss_gain_high`, and that loss, `expected_loss`), the assumption (`score_effect`, `score_effect_error`,
        `feature_effect`, `feature_effect_error`), `random_labels` (the probability that labels are a random sample), and
        labeled examples (`fewest_examples` of a class, `fewest_examples_rows` that it has, `unmarked_copies`: the part of rows
        that repeat another under another id). Of two classes also Theorem 1 for the population (`expected_auc_without_group`,
        `expected_auc_gain` with `_low` and `_high`), `mixture_gap` and `mixture_gap_by_chance`, the `labeled_share` and the
        overall `share` with its 90 % interval (`share_low`, `share_high`), under other labeling (`share_if_half`,
        `share_if_twice`, see `sensitivity`) and if all were used that scores say of all groups (`share_at_face_value`). What is
        not known is left out.
    held_out : table by labeled group
        group, rows, (class,) share, loss_global, loss_model, auc_global, auc_model (of several classes accuracy), mean_global,
        mean_model (mean probabilities).
    independence : table by cluster and class
        cluster, label, rows, groups, score_effect, score_error, feature_effect (mean over features),
        strongest_feature, strongest_effect, p_value. An effect is the share of variance that the group
        explains, less what chance explains.
    features : table by feature
        feature, effect, std_error: the effect of the group given cluster and class, over all of them; identifies: how
        surely the feature tells which group a row is of (0 to 1), where it does at all.
    mixture : table by cell, of two classes
        group, cluster, rows, share, distance (largest gap between observed and fitted distribution of
        scores), best_distance (with the share that fits this cell best), by_chance, excess.
    cautions : table
        kind, group, cluster, label, rows, value.
    clusters : table
        cluster, feature, category, inside, outside, difference, phrase.
    calibration : table
        method ("global", "model"), group (None for all together), bin, weight, probability, share: on held-out labels.
    sensitivity : table by group
        group (None for all together), (class,) rows, share, if_half, if_twice: the share if the class were half, or twice, as
        likely to be labeled, in all groups alike, beyond what the estimates take for it.
    """

    worth: str
    holds: str
    findings: tuple[Finding, ...] = field(repr=False)
    overview: dict[str, float]
    held_out: Table = field(repr=False)
    independence: Table = field(repr=False)
    features: Table = field(repr=False)
    mixture: Table = field(repr=False)
    cautions: Table = field(repr=False)
    clusters: Table = field(repr=False)
    calibration: Table = field(repr=False)
    sensitivity: Table = field(repr=False)
    frame_library: str | None = field(default=None, repr=False)

    def _said(self, topic: str) -> tuple[str, ...]:
        return tuple(said for finding in self.findings if finding.topic == topic for said in words(finding))

    @property
    def verdict(self) -> str:
        return self._said("verdict")[0]

    @property
    def gain(self) -> tuple[str, ...]:
        return self._said("gain")

    @property
    def assumption(self) -> tuple[str, ...]:
        return self._said("assumption")

    @property
    def caution(self) -> tuple[str, ...]:
        return self._said("caution")

    @property
    def main_caution(self) -> str:
        """What may cost most, in two or three lines of a screen."""
        return next((brief(finding) for finding in self.findings if finding.topic == "caution"), "")

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, then the answers to the three questions."""
        return (self.verdict, *self.gain, *self.assumption, *self.caution)

    def tables(self) -> dict[str, object]:
        """All tables by name: frames of the library that the model was fitted on, or dicts of arrays."""
        return {name: frame_like(getattr(self, name), self.frame_library) for name in TABLES}

    def __str__(self) -> str:
        answers = (
            f"{question}\n{bullets(self._said(topic))}"
            for topic, question in QUESTIONS.items()
            if self._said(topic)
        )
        return "\n\n".join([folded(self.verdict), *answers])

    def _repr_html_(self) -> str:
        parts = [(question, self._said(topic)) for topic, question in QUESTIONS.items()]
        said = "".join(f"<h4 style='margin:.6em 0 .2em'>{title}</h4>{listed(s)}" for title, s in parts if s)
        tables = {title: getattr(self, name) for name, title in SHOWN.items()}
        folds = "".join(
            details(title, table_html(table, rows_of(table))) for title, table in tables.items() if table
        )
        return titled(f"{MARK[self.worth]} {self.verdict}", said + folds)


TABLES = tuple(part.name for part in fields(Diagnosis) if part.type is Table)


def diagnose(model: Model) -> Diagnosis:
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
        "held_out": _held_out(model),
        "independence": _independence(model),
        "features": _features(model),
        "mixture": mixture,
        "cautions": find_cautions(model, mixture),
        "clusters": describe_clusters(model.evidence_.clusters, model.schema_.encoder),
        "calibration": _calibration(model),
        "sensitivity": sensitivity(model),
    }
    overview = _overview(model, tables)
    worth, holds, findings = find_all(model, overview, tables)
    return Diagnosis(worth, holds, findings, overview, **tables, frame_library=model.schema_.library)


def _held_out(model: Model) -> Table:
    held_out, classes, groups = model.evidence_.held_out, model.schema_.classes, model.learned_.labeled_groups
    kinds = ("accuracy" if has_classes(model) else "auc", "mean")
    names = ["share", *(f"{kind}_{method}" for kind in ("loss", *kinds) for method in ("global", "model"))]
    if held_out is None or not model.schema_.has_groups:
        return {"group": groups[:0], "rows": np.zeros(0, np.int64), **{name: np.zeros(0) for name in names}}
    found, n_told = held_out.by_group, held_out.by_group["share"].shape[1]
    table = {"group": np.repeat(groups, n_told), "rows": np.repeat(found["rows"], n_told)}
    if n_told > 1:
        table["class"] = np.tile(classes, len(groups))
    flat = {
        name: found[name].ravel() if found[name].ndim > 1 else np.repeat(found[name], n_told)
        for name in names
    }
    return table | flat


def _independence(model: Model) -> Table:
    """Effects of the group by cluster and class: on the score and on features."""
    found, held_out, classes = model.evidence_.independence, model.evidence_.held_out, model.schema_.classes
    score_effect = score_error = np.full(found.rows.shape, np.nan)
    if held_out is not None:
        score_effect, score_error = held_out.score_effect, held_out.score_error
    strongest = np.nan_to_num(found.effect, nan=-np.inf).argmax(-1)
    return {
        "cluster": np.repeat(np.arange(len(found.rows)), len(classes)),
        "label": np.tile(classes, len(found.rows)),
        "rows": found.rows.ravel(),
        "groups": found.groups.ravel(),
        "score_effect": score_effect.ravel(),
        "score_error": score_error.ravel(),
        "feature_effect": _mean_of_known(found.effect, axis=-1).ravel(),
        "strongest_feature": np.array(model.schema_.encoder.names_, dtype=object)[strongest.ravel()],
        "strongest_effect": np.take_along_axis(found.effect, strongest[..., None], -1).ravel(),
        "p_value": found.p_value.ravel(),
    }


def _features(model: Model) -> Table:
    """Effects of the group on features over all clusters and classes, the largest first."""
    found = model.evidence_.independence
    effect, error = pooled_effect(found.effect, found.std_error, found.rows)
    order = np.argsort(-np.nan_to_num(effect, nan=-np.inf), kind="stable")
    names = np.array(model.schema_.encoder.names_, dtype=object)[order]
    return {
        "feature": names,
        "effect": effect[order],
        "std_error": error[order],
        "identifies": model.evidence_.identifying[order],
    }


def _mixture(model: Model) -> Table:
    """Do scores of the population look like mixtures of those of labeled positives and negatives?"""
    held_out, estimate, learned = model.evidence_.held_out, model.estimate_, model.learned_
    every = estimate.points
    if (
        held_out is None
        or held_out.scores is None
        or not isinstance(every, Points)
        or not estimate.shift.size
    ):
        return {}
    points, share = coarser(every), estimate.share.ravel()
    n_groups, n_clusters = estimate.shift.shape
    prior = np.tile(np.clip(learned.labeled_prior, 1e-9, 1 - 1e-9), n_groups)
    own = mlls(points, labeled_prior=prior, tol=1e-4).share
    own = np.where(np.isnan(own), share, own)
    distance = mixture_distance(points, share, held_out.scores)
    best = np.minimum(distance, mixture_distance(points, own, held_out.scores))
    by_chance = chance_distance(points.effective_rows, share, held_out.scores.rows)
    return {
        "group": np.repeat(estimate.groups, n_clusters),
        "cluster": np.tile(np.arange(n_clusters), n_groups),
        "rows": estimate.rows.ravel(),
        "share": share,
        "distance": distance,
        "best_distance": best,
        "by_chance": by_chance,
        "excess": np.sqrt(np.maximum(best**2 - by_chance**2, 0)),
    }


def _calibration(model: Model) -> Table:
    held_out = model.evidence_.held_out
    if held_out is None:
        return {}
    names = [str(g) for g in model.learned_.labeled_groups.tolist()] if model.schema_.has_groups else []
    parts = []
    for method, overall in held_out.calibration.items():
        curves: list[tuple[str | None, FloatArray]] = [(None, overall)]
        curves += zip(names, held_out.calibration_by_group[method], strict=True) if names else []
        parts += [(method, name, i, line) for name, curve in curves for i, line in enumerate(curve)]
    methods, groups, bins, lines = zip(*parts, strict=True)
    return {
        "method": np.array(methods, dtype=object),
        "group": np.array(groups, dtype=object),
        "bin": np.array(bins),
        **dict(zip(("weight", "probability", "share"), np.array(lines).T, strict=True)),
    }


def _overview(model: Model, tables: dict[str, Table]) -> dict[str, float]:
    evidence, held_out = model.evidence_, model.evidence_.held_out
    overview = {} if held_out is None else dict(held_out.total)
    overview |= expected_population_gain(model)
    if held_out is not None:
        effect, error = pooled_effect(held_out.score_effect, held_out.score_error, held_out.score_rows)
        effect, error = (_mean_of_known(values) for values in (effect, error))
        overview |= {"score_effect": float(effect), "score_effect_error": float(error)}
    for name, column in (("feature_effect", "effect"), ("feature_effect_error", "std_error")):
        overview[name] = float(_mean_of_known(tables["features"][column]))
    if mixture := tables["mixture"]:
        known = np.isfinite(mixture["best_distance"]) & (mixture["rows"] > 0)
        if known.any():
            rows = mixture["rows"][known]
            square = np.average(mixture["best_distance"][known] ** 2, weights=rows)
            chance = np.average(mixture["by_chance"][known] ** 2, weights=rows) * GAP_MOMENT
            overview |= {
                "mixture_gap": float(np.sqrt(square)),
                "mixture_gap_by_chance": float(np.sqrt(chance)),
            }
    overview["random_labels"] = model.estimate_.random_labels
    for name in ("fewest_examples", "fewest_examples_rows", "unmarked_copies"):
        overview[name] = getattr(evidence, name)
    overview |= _overall_numbers(model, tables["sensitivity"])
    return {name: float(value) for name, value in overview.items() if np.isfinite(value)}


def _mean_of_known(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Mean of the values that are not NaN; NaN, without a warning, where there are none."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis), known.sum(axis))


def _overall_numbers(model: Model, table: Table) -> dict[str, float]:
    """Of two classes: the overall share, its 90 % interval, and what it would be under other labeling or at face value."""
    if has_classes(model):
        return {}
    found, face = overall_share(model), float(model.estimate_.face_value[0])
    half, twice = (float(table[name][0]) if table else np.nan for name in ("if_half", "if_twice"))
    is_open = abs(face) >= WORTH_SAYING and what_settles_it(model) not in ("audit", "rate")
    return {
        "labeled_share": float(model.evidence_.groups.overall[0]),
        "share": found.share,
        "share_low": found.low,
        "share_high": found.high,
        "share_if_half": half,
        "share_if_twice": twice,
        "share_at_face_value": float(shares_if_selected(model, float(np.exp(-face)))[0][0])
        if is_open
        else np.nan,
    }
