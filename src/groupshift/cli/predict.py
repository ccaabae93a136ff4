"""`groupshift predict`: score a file of any size, batch by batch."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groupshift._explain.wording import percent
from groupshift._io.files import STANDARD_OUTPUT, check_output, table_format, write_batches
from groupshift._io.table_files import Source, open_source
from groupshift._rows import progress
from groupshift.cli.errors import InputError
from groupshift.cli.models import check_columns, load_model, native, unseen_place_holder
from groupshift.cli.recipe import Recipe
from groupshift.cli.screen import Screen, bold, listed, print_json

ANSWERS = ("probability", "low", "high", "cluster", "pooled")


@dataclass
class Tally:
    """What was met on the way, over all batches."""

    rows: int = 0
    probability: float = 0.0
    pooled: int = 0
    no_group: int = 0
    unseen: Counter = field(default_factory=Counter)
    lost: Counter = field(default_factory=Counter)

    def answer(self, model: Any, out: str) -> dict[str, Any]:
        return {
            "out": out,
            "rows": self.rows,
            "mean_probability": self.probability / self.rows if self.rows else None,
            "pooled_rows": self.pooled,
            "rows_without_group": self.no_group,
            "unseen_groups": dict(self.unseen),
            "values_that_did_not_fit": {name: count for name, count in self.lost.items() if count},
        }


def predict(
    model_path: str, data: str, out: str, keep: list[str], *, group, coverage, force, as_json
) -> None:
    if not 0 < coverage < 1:
        raise InputError(
            f"--coverage {coverage} is no probability. Pass a number between 0 and 1, such as 0.9."
        )
    if as_json and out == STANDARD_OUTPUT:
        raise InputError("--json and --out - both want standard output. Name a file for the predictions.")
    screen = Screen(answers_to_stderr=out == STANDARD_OUTPUT, quiet=as_json)
    check_output(out, force=force)
    table_format(out)
    model, recipe, _ = load_model(model_path, group=group)
    source = open_source(data)
    keep = list(source.columns) if keep == ["all"] else keep
    if clash := [name for name in keep if name in ANSWERS]:
        raise InputError(
            f"--keep {clash[0]} would stand twice in the output. Rename the column of {data} first."
        )
    columns = check_columns(recipe, source, keep)
    tally = Tally()
    with screen.working(f"Predicting {data}"), write_batches(out, force=force) as writer:
        for table in source.batches(columns):
            writer.write(score_table(model, recipe, table, keep, coverage, tally))
            progress.begin(f"Predicting {data}: {tally.rows:,} rows")
        if not tally.rows:
            raise InputError(f"{data} has a header but no rows. Nothing was written.")
    _finish(screen, model, recipe, source, out, tally, as_json)


def score_table(
    model: Any, recipe: Recipe, table: Any, keep: list[str], coverage: float, tally: Tally
) -> Any:
    """Kept columns and answers for the rows of one table."""
    features, lost = recipe.features(table)
    groups = recipe.groups(table, model.groups_)
    if groups is not None:
        groups, gaps = unseen_place_holder(groups)
        _count_groups(model, groups, gaps, tally)
    X, given = native(features, groups, model)
    details = model.predict_details(X, given, coverage=coverage)
    tally.rows += table.num_rows
    tally.probability += float(details["probability"].sum())
    tally.pooled += int(np.sum(details["pooled"]))
    tally.lost.update(lost)
    answer = table.select(keep)
    for name in ANSWERS:
        answer = answer.append_column(name, [np.asarray(details[name])])
    return answer


def _count_groups(model: Any, groups: np.ndarray, gaps: np.ndarray, tally: Tally) -> None:
    tally.no_group += int(gaps.sum())
    unseen = (
        ~np.isin(groups.astype(model.groups_.dtype if groups.dtype.kind == "f" else object), model.groups_)
        & ~gaps
    )
    tally.unseen.update(map(str, groups[unseen].tolist()))


def _finish(
    screen: Screen, model: Any, recipe: Recipe, source: Source, out: str, tally: Tally, as_json: bool
) -> None:
    if as_json:
        print_json(tally.answer(model, out))
        return
    if tally.unseen:
        screen.note(
            f"{sum(tally.unseen.values()):,} rows are of groups that had no unlabelled rows at fit "
            f"({listed(tally.unseen)}): they get "
            "the shift common to all groups. `groupshift update` learns shifts of their own."
        )
    if tally.no_group:
        screen.note(
            f"{tally.no_group:,} rows have no {recipe.group!r}: they get the shift common to all groups."
        )
    for name, count in tally.lost.items():
        if count:
            screen.note(
                f"{count:,} values of {name!r} are not what the model was fitted with and count as missing."
            )
    where = "standard output" if out == STANDARD_OUTPUT else out
    screen.say(
        f"Wrote {tally.rows:,} predictions to ",
        bold(where),
        ": on average "
        f"{percent(tally.probability / tally.rows)} "
        f"positive; {percent(tally.pooled / tally.rows)} of the rows lean on pooling.",
    )
