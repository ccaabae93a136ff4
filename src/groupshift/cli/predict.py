"""`groupshift predict`: score a file of any size, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from groupshift import GroupShiftClassifier
from groupshift._data.batches import Roles
from groupshift._data.checks import MissingGroupsError
from groupshift._data.frames import is_missing
from groupshift._data.progress import counted
from groupshift._data.workers import map_chunks, workers
from groupshift._diagnosis.wording import percent
from groupshift.cli.columns_read import FileSurveyor, survey_file
from groupshift.cli.errors import InputError, check_answer
from groupshift.cli.prepared import GROUP
from groupshift.cli.recipe import Recipe, columns_to_read, load_model
from groupshift.cli.screen import Screen, bold, listed, print_json
from groupshift.streaming import Columns, Predictor, beside
from groupshift.tables.files import STANDARD_OUTPUT, write_batches
from groupshift.tables.sources import Source


@dataclass(frozen=True)
class Answered:
    """Kept columns and answers of a batch, and what to say of it."""

    table: pa.Table
    answers: Columns
    unseen: list[object]  # groups of rows whose group the model does not know
    lost: dict[str, int]  # values of each column that did not fit


@dataclass
class Tally:
    """What was met on the way, over all batches."""

    rows: int = 0
    probability: Counter[str] = field(default_factory=Counter)  # sums, by the name of the column
    pooled: int = 0
    no_group: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, found: Answered) -> None:
        self.rows += found.table.num_rows
        names = (name for name in found.answers if name.startswith("probability"))
        self.probability.update({name: float(found.answers[name].sum()) for name in names})
        self.pooled += int(found.answers["pooled"].sum())
        no_group = is_missing(np.array(found.unseen, object))
        self.no_group += int(no_group.sum())
        self.unseen.update(
            str(name) for name, is_none in zip(found.unseen, no_group, strict=True) if not is_none
        )
        self.lost.update(found.lost)

    def to_json(self) -> dict[str, object]:
        return {
            "rows": self.rows,
            **{f"mean_{name}": total / self.rows for name, total in self.probability.items()},
            "pooled_rows": self.pooled,
            "rows_without_group": self.no_group,
            "unseen_groups": dict(self.unseen),
            "values_that_did_not_fit": dict(+self.lost),
        }


@dataclass(frozen=True)
class Scorer:
    """Answers for the rows of one table, as it stands in a file."""

    recipe: Recipe
    keep: list[str]
    groups: NDArray[np.generic]  # those of the model
    predictor: Predictor

    @classmethod
    def of(cls, model: GroupShiftClassifier, recipe: Recipe, keep: list[str], coverage: float) -> Scorer:
        roles = Roles(tuple(recipe.names), None if recipe.group is None else GROUP)
        needs_groups = recipe.missing_group != "drop"
        return cls(
            recipe, keep, model.groups_, Predictor.of(model, roles, coverage, needs_groups=needs_groups)
        )

    def __call__(self, table: pa.Table) -> Answered:
        batch, lost = self.recipe.features(table)
        groups = self.recipe.groups(table, self.groups)
        if groups is not None:
            batch = batch.append_column(GROUP, pa.array(groups))
        answers, unseen = self.predictor(batch)
        if groups is not None and not len(self.groups):
            unseen = groups.tolist()
        return Answered(beside(table, self.keep, answers), answers, unseen, lost)


def predict(
    model_path: str,
    data: str,
    out: str,
    keep: Sequence[str],
    *,
    group: str | None,
    coverage: float,
    anyway: bool = False,
    force: bool,
    as_json: bool,
    escape_formulas: bool = False,
) -> None:
    check_answer(out, force=force, as_json=as_json, inputs=[model_path, data], coverage=coverage)
    screen = Screen(data_to=out, quiet=as_json)
    model, recipe, _ = load_model(model_path, group=group)
    source = recipe.open(data)
    keep = list(source.columns if keep == ("all",) else keep)
    if clash := [name for name in keep if name in model._scorer().column_types]:
        raise InputError(
            f"--keep {clash[0]} would stand twice in the output. Rename the column of {data} first."
        )
    columns = columns_to_read(recipe, source, keep)
    recipe, notes = recipe.for_file(source, anyway=anyway)
    screen.note(*notes)
    tally = Tally()
    with (
        _groups_counted(source, recipe),
        screen.working(f"Predicting {data}"),
        workers(model.n_jobs),
        write_batches(out, force=force, escape_formulas=escape_formulas) as writer,
    ):
        answered = map_chunks(Scorer.of(model, recipe, keep, coverage), source.batches(columns))
        for found in counted(answered, source.n_rows, "rows", lambda found: found.table.num_rows):
            writer.write(found.table)
            tally.add(found)
        if not tally.rows:
            raise InputError(f"{data} has a header but no rows. Nothing was written.")
    if as_json:
        print_json({"out": out, **tally.to_json(), "notes": notes})
    else:
        _say(screen, tally, recipe.group, "standard output" if out == STANDARD_OUTPUT else out)


@contextmanager
def _groups_counted(source: Source, recipe: Recipe) -> Iterator[None]:
    """Where a batch has rows without a group, those of the whole file are counted before they are refused."""
    try:
        yield
    except MissingGroupsError:
        survey_file(source, FileSurveyor((), group=recipe.group)).check(source, recipe.group, None)
        raise


def _say(screen: Screen, tally: Tally, group: str | None, where: str) -> None:
    if tally.unseen:
        screen.note(
            f"{sum(tally.unseen.values()):,} rows are of groups that had no unlabelled rows at fit "
            f"({listed(tally.unseen)}): they get the shift common to all groups. `groupshift update` learns shifts of "
            "their own."
        )
    if tally.no_group:
        screen.note(f"{tally.no_group:,} rows have no {group!r}: they get the shift common to all groups.")
    for name, count in (+tally.lost).items():
        screen.note(
            f"{count:,} values of {name!r} are not what the model was fitted with and count as missing."
        )
    screen.say(
        f"Wrote {tally.rows:,} predictions to ",
        bold(where),
        f": on average {_means(tally)}; {percent(tally.pooled / tally.rows)} of the rows lean on pooling.",
    )


def _means(tally: Tally, most: int = 5) -> str:
    """Mean probabilities in words: of the positive class, or of the likeliest of several."""
    if set(tally.probability) == {"probability"}:
        return f"{percent(tally.probability['probability'] / tally.rows)} positive"
    common = tally.probability.most_common(most)
    shown = [f"{percent(total / tally.rows)} {name.removeprefix('probability_')}" for name, total in common]
    return ", ".join(shown) + (" …" if len(tally.probability) > most else "")
