"""`groupshift predict` and `groupshift explain`: probabilities for the rows of a file of any size, and what they are made of."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit

from groupshift import GroupShiftClassifier
from groupshift._data.batches import Roles
from groupshift._data.checks import MissingGroupsError
from groupshift._data.frames import is_missing
from groupshift._data.progress import counted
from groupshift._data.workers import map_chunks, workers
from groupshift._diagnosis.wording import percent, plural
from groupshift.cli.errors import InputError
from groupshift.cli.prepared import GROUP, survey_file
from groupshift.cli.recipe import Recipe, load_model
from groupshift.cli.screen import Screen, bold, listed, print_json
from groupshift.cli.shares import evidence_of, table_of
from groupshift.streaming import Columns, Predictor, beside
from groupshift.tables.files import STANDARD_OUTPUT, write_batches
from groupshift.tables.sources import Source

# Classes whose mean probability is told in words, and features that are shown without details.
MOST_CLASSES, MOST_FEATURES = 5, 10


def predict(
    model_path: str,
    data: str,
    out: str,
    keep: Sequence[str],
    *,
    group: str | None,
    coverage: float,
    anyway: bool = False,
    escape_formulas: bool = False,
    **how: bool,
) -> None:
    screen = Screen(out, **how)
    screen.check_table([model_path, data], coverage)
    model, recipe, _ = load_model(model_path, group=group)
    with evidence_of(model_path):
        verdict = model.diagnose().verdict
    source, recipe, keep, notes = _opened(recipe, data, keep, anyway=anyway)
    if clash := [name for name in keep if name in model._scorer().column_types]:
        raise InputError(
            f"--keep {clash[0]} would be in the output twice. Rename the column of {data} first."
        )
    roles = Roles(tuple(recipe.names), None if recipe.group is None else GROUP)
    predictor = Predictor.of(model, roles, coverage, needs_groups=recipe.missing_group != "drop")

    def answered(table: pa.Table) -> tuple[pa.Table, Columns, list[object], dict[str, int]]:
        """Kept columns and answers, groups that the model does not know, and how many values of each column did not fit."""
        batch, lost = recipe.features(table)
        groups = recipe.groups(table, model.groups_)
        if groups is not None:
            batch = batch.append_column(GROUP, pa.array(groups))
        answers, unseen = predictor(batch)
        if groups is not None and not len(model.groups_):
            unseen = groups.tolist()
        return beside(table, keep, answers), answers, unseen, lost

    n_rows = pooled = no_group = 0
    means, unseen, lost = Counter[str](), Counter[str](), Counter[str]()
    try:
        with (
            screen.working(f"Predicting {data}"),
            workers(model.n_jobs),
            write_batches(out, force=screen.force, escape_formulas=escape_formulas) as writer,
        ):
            found = map_chunks(answered, source.batches([*dict.fromkeys([*recipe.read, *keep])]))
            for table, answers, new, misfits in counted(
                found, source.n_rows, "rows", lambda f: f[0].num_rows
            ):
                writer.write(table)
                n_rows += table.num_rows
                pooled += int(answers["pooled"].sum())
                means.update({k: float(v.sum()) for k, v in answers.items() if k.startswith("probability")})
                is_none = is_missing(np.array(new, object))
                no_group += int(is_none.sum())
                unseen.update(str(name) for name, none in zip(new, is_none, strict=True) if not none)
                lost.update(misfits)
            if not n_rows:
                raise InputError(f"{data} has a header but no rows. Nothing was written.")
    except MissingGroupsError:
        # Rows without a group are counted in the whole file before they are refused.
        survey_file(source, group=recipe.group).check(source, recipe.group, None)
        raise
    if screen.quiet:
        said: dict[str, object] = {
            "out": out,
            "rows": n_rows,
            "pooled_rows": pooled,
            "rows_without_group": no_group,
        }
        said |= {f"mean_{name}": total / n_rows for name, total in means.items()} | {"verdict": verdict}
        print_json(said | {"unseen_groups": unseen, "values_that_did_not_fit": +lost, "notes": notes})
        return
    if unseen:
        notes.append(
            f"{plural(sum(unseen.values()), 'row')} belong to groups that had no unlabeled rows at fit ({listed(unseen)}): they "
            "get the shift common to all groups. `groupshift update` estimates their own."
        )
    if no_group:
        notes.append(f"{no_group:,} rows have no {recipe.group!r}: they get the shift common to all groups.")
    notes += [
        f"{count:,} values of {name!r} differ in kind from those at fit and count as missing."
        for name, count in (+lost).items()
    ]
    screen.note(*notes)
    shown = ", ".join(
        f"{percent(total / n_rows)} {'positive' if name == 'probability' else name.removeprefix('probability_')}"
        for name, total in means.most_common(MOST_CLASSES)
    )
    screen.say(f"Wrote {plural(n_rows, 'prediction')} to ", bold(_place(out)), ".")
    screen.say(
        f"Mean probability: {shown}{' …' if len(means) > MOST_CLASSES else ''}. {percent(pooled / n_rows)} of the rows depend on "
        "other groups, because their own has too few."
    )
    screen.say(verdict)


def explain(
    model_path: str, data: str | None, out: str | None, keep: Sequence[str], *, anyway: bool, **how: bool
) -> None:
    screen = Screen(out, **how)
    if (data is None) != (out is None):
        raise InputError(
            "Rows are explained one by one into a file: pass both DATA and --out, or none of them."
        )
    screen.check_table()
    # A name for groups that a model made in Python may lack is not needed for its features.
    model, recipe, _ = load_model(model_path, group=None if data is not None else "group")
    found = table_of(model.feature_importance())
    importance = dict(zip(found["feature"].to_pylist(), found["loss_rise"].to_pylist(), strict=True))
    shifts = (float(model.shift_.min()), float(model.shift_.max())) if np.any(model.shift_) else None
    _show_features(screen, model, importance, shifts)
    answer: dict[str, object] = {"features": importance}
    answer["shifts"] = None if shifts is None else {"lowest": shifts[0], "highest": shifts[1]}
    if data is not None and out is not None:
        rows = _write_parts(screen, model, recipe, data, out, keep, anyway=anyway)
        answer |= {"out": out, "rows": rows}
        screen.say(f"Wrote {plural(rows, 'row')} to ", bold(_place(out)), ".")
    if screen.quiet:
        print_json(answer)


def _show_features(
    screen: Screen, model: GroupShiftClassifier, found: dict[str, float], shifts: tuple[float, float] | None
) -> None:
    if found:
        shown = dict(list(found.items())[: None if screen.details else MOST_FEATURES])
        top = max(max(found.values()), 1e-12)
        lines = [[name, f"{rise:+.4f}", "█" * round(20 * max(rise, 0) / top)] for name, rise in shown.items()]
        screen.say("Importance: how much the log loss on held-out labels rises when a feature is shuffled.")
        screen.table(("feature", ">rise of log loss", ""), lines)
        if len(found) > len(shown):
            screen.say(f"… and {len(found) - len(shown)} more with --details.")
        screen.say("Two features with the same information may both look unimportant.")
    else:
        screen.say("There are too few labeled rows to hold any out, so feature importance is not known.")
    if shifts is not None and not model.is_multiclass_:
        low, high = shifts
        screen.say(
            f"A row's group adds {low:+.2f} to {high:+.2f} to its log-odds: it moves a probability of 50 % to between "
            f"{percent(float(expit(low)))} and {percent(float(expit(high)))}."
        )


def _write_parts(
    screen: Screen,
    model: GroupShiftClassifier,
    recipe: Recipe,
    data: str,
    out: str,
    keep: Sequence[str],
    *,
    anyway: bool,
) -> int:
    """Write what each row's probability is made of; of several classes, a column for each."""
    source, recipe, keep, notes = _opened(recipe, data, keep, anyway=anyway)
    screen.note(*notes)
    kinds = ("plain_probability", "shift", "probability")
    names = [f"{kind}_{name}" for kind in kinds for name in model.classes_.tolist()]
    with (
        screen.working(f"Explaining {data}"),
        write_batches(out, force=screen.force) as writer,
        warnings.catch_warnings(),
    ):
        # Groups that are new to the model get the common shift, as in predict.
        warnings.simplefilter("ignore", UserWarning)
        for table in source.batches([*dict.fromkeys([*recipe.read, *keep])]):
            features, groups = recipe.features(table)[0], recipe.groups(table, model.groups_)
            parts = model.explain(*_as_fitted(model, features, groups))
            columns = names if model.is_multiclass_ else kinds
            writer.write(beside(table, keep, {name: np.asarray(parts[name]) for name in columns}))
    return int(writer.n_rows)


def _as_fitted(
    model: GroupShiftClassifier, features: pa.Table, groups: NDArray[np.generic] | None
) -> tuple[pa.Table, NDArray[np.generic] | None]:
    """Features and groups as the model takes them: one made in Python may want groups among its columns."""
    if model.group is None or model.schema_.by_name:
        return features, groups
    whole = features.append_column(model.group, pa.array(groups))
    return whole.select(model.feature_names_in_.tolist()), None


def _opened(
    recipe: Recipe, data: str, keep: Sequence[str], *, anyway: bool
) -> tuple[Source, Recipe, list[str], list[str]]:
    """A file to predict, its recipe, the columns to keep, and what to say of them."""
    source = recipe.open(data)
    names = list(source.columns if keep == ("all",) else keep)
    recipe, notes = recipe.for_file(source, names, anyway=anyway)
    return source, recipe, names, notes


def _place(out: str) -> str:
    return "standard output" if out == STANDARD_OUTPUT else out
