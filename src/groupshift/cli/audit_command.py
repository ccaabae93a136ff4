"""`groupshift audit` as it is typed: its arguments, and which of its two halves they ask for."""

from typing import Annotated

import typer

from groupshift.cli.options import Force, GroupHere, Json, Model, Weight, argument, out_file
from groupshift.cli.typed_names import split_names


def audit(
    model: Model,
    data: Annotated[
        str | None,
        argument("[POPULATION]", "The unlabelled rows; with --labels, to check that they have not changed."),
    ] = None,
    out: Annotated[
        str | None, out_file("Rows to label, such as to_label.csv; with --labels, the new model.")
    ] = None,
    budget: Annotated[int, typer.Option(metavar="N", help="Labels that can be had.")] = 50,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="The file of rows to label, its labels filled in.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns of POPULATION to show beside the label; by default all."),
    ] = None,
    group: GroupHere = None,
    weight: Weight = None,
    seed: Annotated[int, typer.Option(help="The same seed, model and file give the same rows.")] = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Which rows to label, so that a few labels say most of what the model cannot know; and what they say.

    First with POPULATION: writes a file of rows to label, and shows what 25, 50, 100 and 200 labels would
    buy. Then with --labels, as often as you like while labels come in: verdicts, the overall share, and a
    new model that has learned from them.
    """
    from groupshift.cli import audit as work

    if labels is not None:
        work.learn(model, labels, data, out, group=group, weight=weight, force=force, as_json=json)
    elif data is not None:
        shown = list(split_names(keep))
        options = {"budget": budget, "seed": seed}
        work.plan(model, data, out, shown, **options, group=group, weight=weight, force=force, as_json=json)
    else:
        raise typer.BadParameter("Pass POPULATION to plan an audit, or --labels FILE to learn from one.")
