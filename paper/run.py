"""Run the tasks of an experiment; what is finished stays finished, whatever happens.

A folder of results holds `experiment.json` (what is run, by which code, on which tables), `runs.jsonl` (a line for each finished
task, from which a run that was stopped goes on) and `results.csv`, made of these lines.
"""

import csv
import hashlib
import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from groupshift.datasets import GroupedSample
from paper.grid import Task, list_tasks, load_table
from paper.methods import forget, run_method
from paper.origin import deciding_origin, described_origin, differing
from paper.spec import Experiment, SyntheticData

LABELS = ("data", "setting", "d", "K", "repetition", "method")
# Neither where the files lie nor how many draws there are changes a draw.
UNDECIDING = ("path", "settings", "repetitions", "dimensions", "clusters", "note")
Json = dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far a run is: finished tasks out of all, how many failed, and the draw that was finished last."""

    done: int
    total: int
    failed: int
    last: str


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    n_jobs: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Run what is not finished yet of an experiment, and make its table. What failed before is run again.

    Parameters
    ----------
    out : path
        Folder of the results.
    n_jobs : int
        Draws that run at the same time, each in a process of one thread.
    on_progress : callable, optional
        Called after every finished draw.
    """
    experiment, absent = without_missing(experiment)
    if absent:
        raise FileNotFoundError(absent)
    folder, tasks = Path(out), list_tasks(experiment)
    finished = finished_runs(experiment, folder)
    pending = [task for task in tasks if task.labels not in finished]
    folder.mkdir(parents=True, exist_ok=True)
    tables = {data.name: _describe(data) for data in experiment.data if not isinstance(data, SyntheticData)}
    described = {**experiment.to_dict(), "origin": described_origin(), "tables": tables}
    (folder / "experiment.json").write_text(json.dumps(described, indent=1) + "\n")
    draws = [list(group) for _, group in groupby(pending, key=lambda task: task.draw)]
    # Of one repetition the largest draws come first, so that none is waited for at the end.
    draws.sort(key=lambda group: (group[0].draw.repetition, -(group[0].draw.d or np.inf)))
    progress = Progress(len(finished), len(tasks), 0, "")
    jobs = (delayed(run_draw)(experiment, group) for group in draws)
    try:
        with (folder / "runs.jsonl").open("a", encoding="utf-8") as log:
            for lines in Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(jobs):
                log.writelines(json.dumps(line) + "\n" for line in lines)
                log.flush()
                failed = sum("error" in line for line in lines)
                last = "-".join(filter(None, lines[0]["labels"][:5]))
                progress = Progress(progress.done + len(lines), len(tasks), progress.failed + failed, last)
                if on_progress is not None:
                    on_progress(progress)
    finally:
        write_results(folder, tasks, finished_runs(experiment, folder))
    return progress


def run_draw(experiment: Experiment, tasks: list[Task]) -> list[Json]:
    """Make a draw and run methods on it: a line for each. One that fails is a hole in a table, not the end of a night's work."""
    forget()
    with threadpool_limits(limits=1):
        try:
            sample = tasks[0].draw.sample()
        except Exception as error:
            return [_line(experiment, task, **_failure(error)) for task in tasks]
        return [_line(experiment, task, **_run_task(experiment, task, sample)) for task in tasks]


def _run_task(experiment: Experiment, task: Task, sample: GroupedSample) -> Json:
    try:
        metrics, notes = run_method(experiment, task, sample)
    except Exception as error:
        return _failure(error)
    return {"metrics": metrics, "notes": notes}


def _failure(error: Exception) -> Json:
    where = "".join(traceback.format_exception(error)[-3:])
    return {"error": f"{type(error).__name__}: {error}", "traceback": where}


def _line(experiment: Experiment, task: Task, **more: object) -> Json:
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    print_ = fingerprint(experiment, task)
    return {"labels": task.labels, "fingerprint": print_, **more, "finished": finished}


def fingerprint(experiment: Experiment, task: Task) -> str:
    """Changes with everything that decides the numbers of a task, besides the code."""
    data = {name: value for name, value in asdict(task.draw.data).items() if name not in UNDECIDING}
    method = {"name": task.method.name, **task.method.params}
    decided = [data, experiment.seed, method, dict(experiment.classifier)]
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:10]


def finished_runs(experiment: Experiment, folder: Path) -> dict[tuple[str, ...], Json]:
    """Lines of finished tasks by their labels; a folder with runs of other code or settings is refused."""
    lines = _read_lines(folder / "runs.jsonl")
    if not lines:
        return {}
    before = json.loads((folder / "experiment.json").read_text())["origin"]
    changed = list(differing({name: before.get(name) for name in deciding_origin()}, deciding_origin()))
    now = {task.labels: fingerprint(experiment, task) for task in list_tasks(experiment)}
    changed += [
        f"the settings of {', '.join(filter(None, labels))}"
        for line in lines
        if (labels := tuple(line["labels"])) in now and now[labels] != line["fingerprint"]
    ]
    if changed:
        raise ValueError(
            f"{folder} holds runs of something else: {', '.join(changed[:3])}. Pass another --out, or resume with the "
            f"settings and the code (commit {before.get('commit') or 'not recorded'}) of its experiment.json."
        )
    return {tuple(line["labels"]): line for line in lines if "error" not in line}


def _read_lines(path: Path) -> list[Json]:
    """Lines of a file that may end in a torn one: its writer may have been killed."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]), encoding="utf-8")
        lines.pop()
    return [json.loads(line) for line in lines]


def write_results(folder: Path, tasks: Iterable[Task], finished: Mapping[tuple[str, ...], Json]) -> None:
    """The table of all finished tasks: a row for each metric, six significant digits."""
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*LABELS, "metric", "value"])
        for task in tasks:
            for metric, value in finished.get(task.labels, {}).get("metrics", {}).items():
                writer.writerow([*task.labels, metric, f"{value:.6g}"])


def without_missing(experiment: Experiment) -> tuple[Experiment, str]:
    """The experiment on the data that is there, and a sentence on the rest ("" if there is none)."""
    there, absent = [], dict[str, list[str]]()
    for data in experiment.data:
        if isinstance(data, SyntheticData) or Path(data.path).exists():
            there.append(data)
        else:
            absent.setdefault(data.path, []).append(data.name)
    if not absent:
        return experiment, ""
    listed = "; ".join(f"{', '.join(names)} ({path} is not there)" for path, names in absent.items())
    what_to_do = (
        f"Not run: {listed}. Name the folder of these files with --data; `python -m paper fetch` downloads the "
        "Census files."
    )
    if not there:
        raise FileNotFoundError(what_to_do)
    return replace(experiment, data=tuple(there)), what_to_do


def _describe(data: Any) -> Json:
    """What was used of a real data set and what was not to be had, for the report."""
    table = load_table(data)
    return {
        "rows": len(table),
        "groups": len(np.unique(table.groups)),
        "positive": round(float(table.y.mean()), 4),
        "features": list(table.feature_names)[:30],
        "n_features": len(table.feature_names),
        "missing_features": list(table.missing),
    }
