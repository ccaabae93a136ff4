"""`groupshift demo`: every method on data whose truth is known, and files to try every command on."""

import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from groupshift._io.columns import group_values
from groupshift._io.files import write_table
from groupshift._io.model_files import save
from groupshift._io.table_files import open_source
from groupshift.cli.errors import InputError
from groupshift.cli.fit import make_model
from groupshift.cli.predict import predict as predict_command
from groupshift.cli.prepared import GROUP, TARGET
from groupshift.cli.screen import Screen, bold, print_json, this_command
from groupshift.cli.share_commands import report as report_command
from groupshift.cli.share_commands import shares as shares_command
from groupshift.cli.threads import suitable_threads
from groupshift.cli.training import Roles, Training, read_training

COMPARED = {
    "global": "Global: one classifier, blind to groups",
    "group_aware_global": "Group as one-hot columns",
    "label_shift": "Label shift, group by group",
    "published": "Published: clusters and label shift",
    "groupshift": "groupshift",
}
# Sizes at which all methods together take well under a minute on two cores.
SURVEY = {"n_groups": 40, "labeled_per_group": 80, "unlabeled_per_group": 400}
FLIGHTS_ROWS = 20_000


def demo(data: str, out: str | None, *, seed: int, as_json: bool) -> None:
    if data not in ("survey", "flights"):
        raise InputError(f"--data {data!r} is not known. Choose survey or flights.")
    screen = Screen(quiet=as_json)
    folder = _new_folder(out)
    start = time.monotonic()
    with screen.working(f"Making the {data}"):
        table, y, test, target, group, story = _survey(seed) if data == "survey" else _flights(seed)
    screen.say(story)
    with _made(folder):
        files = write_files(folder, table, y, test, target, group)
        training = read_training([str(folder / name) for name in files[:2]], Roles(target, group))
        with suitable_threads(len(training.numbers)):
            scores, model = compare(screen, training, str(folder / "new.csv"), y[test["mask"]], seed)
        if not as_json:
            _show(screen, scores)
        _write_answers(screen, folder, model, training)
    if as_json:
        print_json(
            {
                "data": data,
                "scores": scores,
                "folder": str(folder),
                "files": sorted(p.name for p in folder.iterdir()),
            }
        )
        return
    screen.say(
        "\nWrote to ",
        bold(folder),
        ": predictions.csv, shares.csv, report.html, model.gshift, and the data as files",
    )
    screen.say(f"({', '.join(files)}) in {time.monotonic() - start:.0f} s. Try them:")
    screen.say(
        f"  {this_command()} check {folder}/labeled.csv {folder}/unlabeled.csv --target {target} "
        f"--group {group}"
    )


def compare(
    screen: Screen, training: Training, new: str, truth: np.ndarray, seed: int
) -> tuple[list[dict[str, Any]], Any]:
    """AUC and log loss of every method on new rows, all with one classifier and calibration; and the last model."""
    from groupshift.metrics import evaluate

    recipe = training.recipe
    table = open_source(new).read([*recipe.names, str(recipe.group)])
    features, groups = recipe.features(table)[0], group_values(table[recipe.group])
    scores = []
    for name, title in COMPARED.items():
        start = time.monotonic()
        with screen.working(title), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = _fitted(name, training, seed)
            p = model.predict_proba(features, groups)[:, 1]
        found = evaluate(truth, p, metrics=["auc", "log_loss"]).overall
        scores.append(
            {"method": title, "seconds": round(time.monotonic() - start, 1)}
            | {k: float(v) for k, v in found.items()}
        )
    return scores, model


def _fitted(name: str, training: Training, seed: int) -> Any:
    """A method with the classifier and the calibration of the default, so that only the method differs."""
    from groupshift import METHODS
    from groupshift._rows.encoder import FeatureEncoder

    if name == "groupshift":
        return training.fit(make_model(name, seed))
    table = _all_rows(training)
    features = table.select(training.recipe.names)
    model = METHODS[name](calibration="crossfit", random_state=seed)
    # What stands for boosted trees in the default; the one-hot method has no default of its own.
    one_hot = name == "group_aware_global"
    model.set_params(estimator=_boosted_trees(FeatureEncoder().fit(features), seed) if one_hot else None)
    return model.fit(features, table[TARGET].to_numpy(), groups=group_values(table[GROUP]))


def _all_rows(training: Training) -> Any:
    """Labelled rows with the others below them, as `training.fit` numbers them."""
    import pyarrow as pa

    names = [*training.recipe.names, TARGET, GROUP]
    assert training.population is not None
    return pa.concat_tables([training.labeled.select(names), *training.population.batches(names)])


def _boosted_trees(encoder: Any, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # By number, not by mask: the one-hot method adds columns at the end.
    return HistGradientBoostingClassifier(
        early_stopping=False, categorical_features=np.flatnonzero(encoder.is_category), random_state=seed
    )


def write_files(folder: Path, table: Any, y: np.ndarray, test: dict, target: str, group: str) -> list[str]:
    """The data as an analyst would have them, and the truth about the rows to predict."""
    import pyarrow as pa

    labeled, held_out = test["labeled"], test["mask"]
    ids = pa.array([f"{i:06d}" for i in range(len(y))])
    table = table.add_column(0, "row_id", ids)
    known = table.append_column(target, pa.array(y))
    write_table(known.filter(pa.array(labeled)), folder / "labeled.csv")
    write_table(table.filter(pa.array(~labeled & ~held_out)), folder / "unlabeled.csv")
    write_table(table.filter(pa.array(held_out)), folder / "new.csv")
    write_table(known.select(["row_id", target]).filter(pa.array(held_out)), folder / "new_truth.csv")
    return ["labeled.csv", "unlabeled.csv", "new.csv", "new_truth.csv"]


def _write_answers(screen: Screen, folder: Path, model: Any, training: Training) -> None:
    """What `groupshift fit`, predict, shares and report write, without the talk."""
    saved = str(folder / "model.gshift")
    quiet = {"force": False, "as_json": False}
    recipe = training.recipe
    with screen.working("Writing model, predictions, shares and report"), Screen.muted():
        save(model, saved, overwrite=False, table=recipe.to_json())
        predict_command(
            saved,
            str(folder / "new.csv"),
            str(folder / "predictions.csv"),
            ["row_id", str(recipe.group)],
            group=None,
            coverage=0.9,
            **quiet,
        )
        shares_command(saved, str(folder / "shares.csv"), by="group", coverage=0.9, **quiet)
        report_command(saved, str(folder / "report.html"), force=False)


def _show(screen: Screen, scores: list[dict[str, Any]]) -> None:
    marked = {
        "auc": starred([-s["auc"] for s in scores]),
        "log_loss": starred([s["log_loss"] for s in scores]),
    }
    lines = [
        [
            s["method"],
            *(f"{s[k]:.3f}{'*' if marked[k][i] else ' '}" for k in ("auc", "log_loss")),
            f"{s['seconds']:.1f}",
        ]
        for i, s in enumerate(scores)
    ]
    screen.table(
        {
            "method (same classifier, same calibration)": "left",
            "AUC": "right",
            "log loss": "right",
            "seconds": "right",
        },
        lines,
    )
    screen.say(
        "On held-out rows of the population, whose truth no method saw; * is best, and no star means that none "
        "is better than Global."
    )


def starred(losses: list[float]) -> list[bool]:
    """Which methods are best to three digits; none if the first, the plain classifier, is as good as another.

    >>> starred([0.594, 0.584, 0.581]), starred([0.5941, 0.62, 0.5939]), starred([0.59, 0.62, 0.61])
    ([False, False, True], [False, False, False], [True, False, False])
    """
    shown = [round(loss, 3) for loss in losses]
    best = [loss == min(shown) for loss in shown]
    return [False] * len(best) if best[0] and sum(best) > 1 else best


def _survey(seed: int) -> tuple:
    from groupshift.datasets import make_survey

    sample = make_survey(**SURVEY, backend="pyarrow", random_state=seed)
    table = sample.X.append_column("state", [sample.groups])
    story = (
        f"A survey on a new railway: {sample.labeled.sum():,} volunteers of {SURVEY['n_groups']} states "
        "said what they think. They are "
        f"younger and more in favour than the {(~sample.labeled).sum():,} people whose opinion is wanted."
    )
    return table, sample.truth, {"mask": sample.test, "labeled": sample.labeled}, "in_favour", "state", story


def _flights(seed: int) -> tuple:
    import pyarrow as pa

    from groupshift.datasets import bias_groups, load_flights

    flights, frame = (
        load_flights(
            group="dest", min_group_rows=300, max_rows=FLIGHTS_ROWS, random_state=seed, as_frame=named
        )
        for named in (False, True)
    )
    sample = bias_groups(
        flights.X, flights.y, flights.groups, setting=2, n_clusters=4, replace=False, random_state=seed
    )
    table = pa.Table.from_pandas(frame.X.iloc[sample.example_ids], preserve_index=False)
    table = table.append_column("dest", [sample.groups])
    story = (
        "Flights out of New York in 2013: will they arrive 15 minutes late? It is known for "
        f"{sample.labeled.sum():,} flights to "
        f"{len(np.unique(sample.groups))} destinations, chosen with a bias of its own in each (the paper's "
        "protocol, setting 2)."
    )
    return table, sample.truth, {"mask": sample.test, "labeled": sample.labeled}, "late", "dest", story


def _new_folder(out: str | None) -> Path:
    if out is None:
        out = next(
            n
            for n in ("groupshift-demo", *(f"groupshift-demo-{i}" for i in range(2, 10_000)))
            if not Path(n).exists()
        )
    folder = Path(out)
    if folder.exists():
        raise InputError(f"{folder} exists already and is left as it is. Name a new folder.")
    return folder


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
