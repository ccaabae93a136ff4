"""What the tests of the command line share: a small survey as files, and a way to run commands."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.ensemble import HistGradientBoostingClassifier

from groupshift.datasets import make_survey
from groupshift.tables.files import write_table

# Which columns of the survey are what.
ROLES = ["--target", "in_favour", "--group", "state"]


def survey_tables(seed=0):
    """(Labelled, unlabelled, new) tables of a survey, with an id."""
    sample = make_survey(
        n_groups=6, labeled_per_group=60, unlabeled_per_group=80, backend="pyarrow", random_state=seed
    )
    table = sample.X.append_column("state", [sample.groups])
    table = table.add_column(0, "person", pa.array([f"P{i}" for i in range(len(table))]))
    opinion = pa.array(np.where(sample.truth == 1, "yes", "no"))
    return (
        table.append_column("in_favour", opinion).filter(pa.array(sample.labeled)),
        table.filter(pa.array(~sample.labeled & ~sample.test)),
        table.filter(pa.array(sample.test)),
    )


def small(**columns):
    """A stacked table of 400 rows: one feature that tells, four groups, half of the rows labelled."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    target = [str(v) if i // 4 % 2 else None for i, v in enumerate(y)]
    base = {"x": y + rng.normal(size=400), "g": np.tile(list("abcd"), 100), "y": target}
    return pa.table({**base, **columns})


def write_survey(folder: Path):
    labeled, unlabeled, new = survey_tables()
    write_table(labeled, folder / "labeled.csv")
    write_table(unlabeled, folder / "unlabeled.parquet")
    write_table(new, folder / "new.csv")


def fit_survey(folder: Path):
    """The survey's files and a model of it, with the default settings."""
    from groupshift.cli.errors import run

    write_survey(folder)
    files = [f"{folder}/labeled.csv", f"{folder}/unlabeled.parquet"]
    assert run(["fit", *files, *ROLES, "-o", f"{folder}/m.gshift"]) == 0


def make_fits_quick(monkeypatch):
    """A classifier of a few trees, for tests of what goes into a fit and comes out of it."""
    from groupshift import GroupShiftClassifier
    from groupshift.cli import fit
    from groupshift.tables.columns import TableClassifier

    trees = TableClassifier(HistGradientBoostingClassifier(max_iter=5, early_stopping=False))
    monkeypatch.setattr(
        fit,
        "make_model",
        lambda method, seed, classifier=None: GroupShiftClassifier(trees, 1, random_state=seed),
    )


def stacked(labeled, unlabeled):
    blank = unlabeled.append_column("in_favour", pa.nulls(unlabeled.num_rows, pa.string()))
    return pa.concat_tables([labeled, blank])


def run_cli(*arguments, cwd=None, **options):
    """A real process, as a script would start it."""
    return subprocess.run(
        [sys.executable, "-m", "groupshift.cli", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120", "OMP_NUM_THREADS": "1"},
        **options,
    )


def print_peaks():
    """Run jobs, commands with semicolons between them, one after the other; say how far memory rose by the end of each."""
    import resource

    from groupshift.cli.errors import run

    for job in sys.argv[1:]:
        for command in job.split(";"):
            assert run(command.split()) == 0
        sys.stdout.write(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\n")


def peaks_of(code, *jobs):
    """Megabytes that a process of its own had reached by the end of each job; `code` ends in `print_peaks()`."""
    done = subprocess.run(
        [sys.executable, "-c", code, *jobs],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(line.split()[1]) / 1024 for line in done.stdout.splitlines() if line.startswith("peak ")]


def column(table, name):
    return pc.cast(table[name], pa.float64()).to_numpy()
