"""`groupshift explain`: which features drive the predictions, and how much of a row's answer is its group's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.features import importance_table
from groupshift._diagnosis.wording import percent
from groupshift.cli.errors import InputError, check_answer
from groupshift.cli.recipe import Recipe, columns_to_read, load_model
from groupshift.cli.screen import Screen, bold, print_json
from groupshift.streaming import beside
from groupshift.tables.files import STANDARD_OUTPUT, write_batches


def explain(
    model_path: str,
    data: str | None,
    out: str | None,
    keep: Sequence[str],
    *,
    anyway: bool,
    force: bool,
    as_json: bool,
) -> None:
    if (data is None) != (out is None):
        raise InputError(
            "Rows are explained one by one into a file: pass both DATA and --out, or none of them."
        )
    check_answer(out, force=force, as_json=as_json)
    # A name for groups that a model made in Python may lack is not needed for its features.
    model, recipe, _ = load_model(model_path, group=None if data is not None else "group")
    screen = Screen(data_to=out, quiet=as_json)
    _show_features(screen, model)
    answer: dict[str, object] = {"features": _features(model), "shifts": _spread(model)}
    if data is not None and out is not None:
        answer |= {
            "out": out,
            "rows": _write_rows(screen, model, recipe, data, out, keep, anyway=anyway, force=force),
        }
    if as_json:
        print_json(answer)


def _show_features(screen: Screen, model: GroupShiftClassifier) -> None:
    found = _features(model)
    if found:
        top = max(max(found.values()), 1e-12)
        lines = [[name, f"{rise:+.4f}", "█" * round(20 * max(rise, 0) / top)] for name, rise in found.items()]
        screen.say(
            "Features by what their shuffling costs: the rise of the log loss on labels that the classifier did not see. "
            "What is near zero is hardly used; of two features that say the same, each may look unneeded."
        )
        screen.table({"feature": "left", "rise of log loss": "right", "": "left"}, lines)
    else:
        screen.say("Labelled rows are too few to hide any, so features cannot be weighed.")
    if (spread := _spread(model)) is not None and not model.is_multiclass_:
        low, high = spread["lowest"], spread["highest"]
        screen.say(
            f"Beside its features, a row's group moves its probability: shifts go from {low:+.2f} to {high:+.2f} in log-odds; "
            f"a row at 50 % would be at {percent(_moved(low))} to {percent(_moved(high))}."
        )


def _features(model: GroupShiftClassifier) -> dict[str, float]:
    found = importance_table(model)
    return dict(zip(found["feature"].tolist(), found["loss_rise"].tolist(), strict=True))


def _columns(model: GroupShiftClassifier) -> list[str]:
    """What is written of each row; of several classes, a column for each."""
    kinds = ("plain_probability", "shift", "probability")
    if not model.is_multiclass_:
        return list(kinds)
    return [f"{kind}_{name}" for kind in kinds for name in model.classes_.tolist()]


def _spread(model: GroupShiftClassifier) -> dict[str, float] | None:
    if not np.any(model.shift_):
        return None
    return {"lowest": float(model.shift_.min()), "highest": float(model.shift_.max())}


def _moved(shift: float) -> float:
    return float(1 / (1 + np.exp(-shift)))


def _as_fitted(
    model: GroupShiftClassifier, features: pa.Table, groups: NDArray[np.generic] | None
) -> tuple[pa.Table, NDArray[np.generic] | None]:
    """Features and groups as the model takes them: one made in Python may want groups among its columns."""
    if model.group is None or model.schema_.by_name:
        return features, groups
    whole = features.append_column(model.group, pa.array(groups))
    return whole.select(model.feature_names_in_.tolist()), None


def _write_rows(
    screen: Screen,
    model: GroupShiftClassifier,
    recipe: Recipe,
    data: str,
    out: str,
    keep: Sequence[str],
    *,
    anyway: bool,
    force: bool,
) -> int:
    source = recipe.open(data)
    keep = list(source.columns if keep == ("all",) else keep)
    columns = columns_to_read(recipe, source, keep)
    recipe, notes = recipe.for_file(source, anyway=anyway)
    screen.note(*notes)
    with (
        screen.working(f"Explaining {data}"),
        write_batches(out, force=force) as writer,
        warnings.catch_warnings(),
    ):
        # Groups that are new to the model get the common shift, as in predict.
        warnings.simplefilter("ignore", UserWarning)
        for table in source.batches(columns):
            parts = model.explain(
                *_as_fitted(model, recipe.features(table)[0], recipe.groups(table, model.groups_))
            )
            writer.write(beside(table, keep, {name: np.asarray(parts[name]) for name in _columns(model)}))
    screen.say(
        f"Wrote {writer.n_rows:,} rows to ", bold("standard output" if out == STANDARD_OUTPUT else out), "."
    )
    return writer.n_rows
