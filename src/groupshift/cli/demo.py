"""`groupshift demo`: every method on data whose truth is known, and files to try every command on."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from groupshift import save
from groupshift._data.frames import take_rows
from groupshift.cli import predict, shares
from groupshift.cli.errors import InputError, check_choice
from groupshift.cli.fit import make_model
from groupshift.cli.screen import Screen, bold, print_json, this_command
from groupshift.cli.training import Roles, Training, read_training
from groupshift.datasets import bias_groups, load_flights, make_survey
from groupshift.datasets.sample import GroupedSample
from groupshift.metrics import evaluate
from groupshift.tables.columns import group_values
from groupshift.tables.files import write_table
from groupshift.tables.sources import open_source

COMPARED = {
    "global": "Global: one classifier, blind to groups",
    "label_shift": "Label shift, group by group",
    "published": "Published: clusters and label shift",
    "groupshift": "groupshift",
}
# Sizes at which all methods together take well under a minute on two cores.
SURVEY = {"n_groups": 40, "labeled_per_group": 80, "unlabeled_per_group": 400}
FLIGHTS_ROWS = 20_000


# Written for every set of data: to learn from, to predict, and the truth about the rows to predict.
FILES = ("labeled.csv", "unlabeled.csv", "new.csv", "new_truth.csv")


# Rows with their truth, of which some have labels and some are to be predicted; the columns of target and group; a story.
DemoData = tuple[pa.Table, GroupedSample, str, str, str]


def demo(data: str, out: str | None, *, seed: int, as_json: bool) -> None:
    check_choice("--data", data, ("survey", "flights"))
    screen = Screen(as_json=as_json)
    if out is None:
        names = ["groupshift-demo", *(f"groupshift-demo-{i}" for i in range(2, 10_000))]
        out = next(name for name in names if not Path(name).exists())
    folder = Path(out)
    if folder.exists():
        raise InputError(f"{folder} exists already and is left as it is. Name a new folder.")
    start = time.monotonic()
    with screen.working(f"Making the {data}"):
        table, sample, target, group, story = _survey(seed) if data == "survey" else _flights(seed)
    screen.say(story)
    with _made(folder):
        write_files(folder, table, sample, target)
        training = read_training([str(folder / name) for name in FILES[:2]], Roles(target, group))
        scores, model = compare(screen, training, str(folder / "new.csv"), sample.truth[sample.test], seed)
        _show(screen, scores)
        _write_answers(screen, folder, model, training)
    if as_json:
        files = sorted(path.name for path in folder.iterdir())
        print_json({"data": data, "scores": scores, "folder": str(folder), "files": files})
        return
    screen.say(
        "\nWrote to ",
        bold(folder),
        ": predictions.csv, shares.csv, report.html, model.gshift, and the data as files\n"
        f"({', '.join(FILES)}) in {time.monotonic() - start:.0f} s. Try them:\n"
        f"  {this_command()} check {folder}/labeled.csv {folder}/unlabeled.csv --target {target} --group {group}",
    )


def compare(
    screen: Screen, training: Training, new: str, truth: NDArray[np.int64], seed: int
) -> tuple[list[dict[str, float | str]], BaseEstimator]:
    """AUC and log loss of every method on new rows, all with one classifier and calibration; and the last model."""
    recipe = training.recipe
    table = open_source(new).read([*recipe.names, str(recipe.group)])
    features, groups = recipe.features(table)[0], group_values(table[recipe.group])
    scores: list[dict[str, float | str]] = []
    for name, title in COMPARED.items():
        start = time.monotonic()
        with screen.working(title), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The paper's method with the classifier and the calibration of the others: only the method differs.
            model = make_model(name, seed).set_params(estimator=None, calibration="crossfit")
            training.fit(model)
            probability = model.predict_proba(features, groups)[:, 1]
        found = evaluate(truth, probability, metrics=["auc", "log_loss"]).overall
        seconds = round(time.monotonic() - start, 1)
        scores.append({"method": title, "seconds": seconds, **{k: float(v) for k, v in found.items()}})
    return scores, model


def write_files(folder: Path, table: pa.Table, sample: GroupedSample, target: str) -> None:
    """The data as an analyst would have them, and the truth about the rows to predict."""
    table = table.add_column(0, "row_id", pa.array([f"{i:06d}" for i in range(len(sample.truth))]))
    known = table.append_column(target, pa.array(sample.truth))
    parts = (
        known.filter(sample.labeled),
        table.filter(~sample.labeled & ~sample.test),
        table.filter(sample.test),
        known.select(["row_id", target]).filter(sample.test),
    )
    for name, part in zip(FILES, parts, strict=True):
        write_table(part, folder / name)


def _write_answers(screen: Screen, folder: Path, model: BaseEstimator, training: Training) -> None:
    """What `groupshift fit`, predict, shares and report write, without the talk."""
    saved, recipe = str(folder / "model.gshift"), training.recipe
    # Commands that run inside this one say nothing.
    silent = Screen.heard_by(lambda kind, text: None)
    with screen.working("Writing model, predictions, shares and report"), silent:
        save(model, saved, table=recipe.to_json())
        keep, names = (
            ("row_id", str(recipe.group)),
            ("new.csv", "predictions.csv", "shares.csv", "report.html"),
        )
        new, predictions, table, page = (str(folder / name) for name in names)
        predict.predict(saved, new, predictions, keep, group=None, coverage=0.9)
        shares.shares(saved, table, by="group", coverage=0.9)
        shares.report(saved, page, force=False)


def _show(screen: Screen, scores: list[dict[str, float | str]]) -> None:
    methods, seconds, auc, loss = (
        [score[name] for score in scores] for name in ("method", "seconds", "auc", "log_loss")
    )
    columns = [[str(method) for method in methods]]
    for losses in ([-float(value) for value in auc], [float(value) for value in loss]):
        columns.append(
            [f"{abs(v):.3f}{'*' if best else ' '}" for v, best in zip(losses, starred(losses), strict=True)]
        )
    columns.append([f"{float(value):.1f}" for value in seconds])
    lines = zip(*columns, strict=True)
    screen.table(("method (same classifier, same calibration)", ">AUC", ">log loss", ">seconds"), lines)
    screen.say(
        "Scores on held-out rows of the population, whose truth no method saw. * marks the best; without a star, no method is "
        "better than Global."
    )


def starred(losses: list[float]) -> list[bool]:
    """Which methods are best to three digits; none if the first, the plain classifier, is as good as another.

    >>> starred([0.594, 0.584, 0.581]), starred([0.5941, 0.62, 0.5939]), starred([0.59, 0.62, 0.61])
    ([False, False, True], [False, False, False], [True, False, False])
    """
    shown = [round(loss, 3) for loss in losses]
    best = [loss == min(shown) for loss in shown]
    return [False] * len(best) if best[0] and sum(best) > 1 else best


def _survey(seed: int) -> DemoData:
    sample = make_survey(**SURVEY, backend="pyarrow", random_state=seed)
    story = (
        f"A survey on a new railway: {sample.labeled.sum():,} volunteers in {SURVEY['n_groups']} states gave their opinion. "
        f"They are younger and more in favor than the {(~sample.labeled).sum():,} people whose opinion we want."
    )
    people: pa.Table = sample.X
    table = people.append_column("state", [sample.groups])
    return table, sample, "in_favour", "state", story


def _flights(seed: int) -> DemoData:
    flights, frame = (
        load_flights(
            group="dest", min_group_rows=300, max_rows=FLIGHTS_ROWS, random_state=seed, as_frame=named
        )
        for named in (False, True)
    )
    sample = bias_groups(
        flights.X, flights.y, flights.groups, setting=2, n_clusters=4, replace=False, random_state=seed
    )
    assert sample.example_ids is not None
    rows = take_rows(frame.X, sample.example_ids)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    story = (
        "Flights out of New York in 2013: will they arrive 15 minutes late? We know it for "
        f"{sample.labeled.sum():,} flights to {len(np.unique(sample.groups))} destinations, each sampled with its own bias "
        "(the paper's protocol, setting 2)."
    )
    return table.append_column("dest", [sample.groups]), sample, "late", "dest", story


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A new folder for a block of work; if that fails, nothing is left to stand in the way of another try."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder {folder}: {error.strerror}. Name another place with --out."
        ) from error
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
