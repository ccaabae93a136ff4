"""Results on disk: one file for each finished task, written whole or not at all, and tables made of them.

A part appears under its name when its bytes are on the disk: killed at any moment, a folder holds finished
parts and nothing that looks like one. Tables are made of parts and can be made again.
"""

import csv
import gzip
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from groupshift._io.files import whole_file
from paper.grid import Task, list_tasks
from paper.origin import deciding_origin, described_origin, differing
from paper.spec import Experiment

LABELS = ("data", "setting", "d", "K", "repetition", "method")
ROW_COLUMNS = (*LABELS, "metric", "value")
RUN_COLUMNS = (*LABELS, "status", "error", "notes", "finished", "host", "versions", "fingerprint")
# What combined tables hold of the values by group; the parts hold the same.
GROUP_COLUMNS = ("group", "rows", "positives", "auc", "log_loss", "brier", "ece")
BIN_COLUMNS = ("bin", "rows", "probability", "share")
DIFFERENCES_SHOWN = 3

# A line of a part, or the whole of experiment.json, as JSON has it.
Json = dict[str, Any]


class Store:
    """The folder of one experiment's results."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def part(self, task: Task) -> Path:
        return self.folder / "parts" / f"{task.key}.jsonl"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep the folder to this process; the system lets go when the process ends, however it does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("a+") as file:
            try:
                _lock(file)
            except OSError:
                raise BlockingIOError(
                    f"Another run is writing to {self.folder}. Wait for it, end it, or pass another --out."
                ) from None
            # What a killed run was writing never became a part.
            for left in (*self.folder.glob("parts/*/.*"), *self.folder.glob(".*.new")):
                left.unlink(missing_ok=True)
            yield

    def write(self, task: Task, lines: Iterable[Mapping[str, object]]) -> None:
        """Store a finished task."""
        write_whole(self.part(task), "".join(_json(line) + "\n" for line in (*lines, {"kind": "end"})))

    def is_done(self, task: Task, *, retry_failed: bool = False) -> bool:
        lines = read_part(self.part(task))
        return lines is not None and not (retry_failed and lines[0]["status"] == "failed")

    def pending(self, tasks: Iterable[Task], *, retry_failed: bool = False) -> list[Task]:
        return [task for task in tasks if not self.is_done(task, retry_failed=retry_failed)]

    def write_experiment(self, experiment: Experiment, tables: Mapping[str, Mapping[str, object]]) -> None:
        """Say what is run here, by which code, and on which tables."""
        described = {**experiment.to_dict(), "origin": described_origin(), "tables": dict(tables)}
        write_whole(self.folder / "experiment.json", _json(described, indent=1))

    def read_experiment(self) -> Json:
        path = self.folder / "experiment.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} holds no experiment.json: it is not a folder of results.")
        described: Json = json.loads(path.read_text())
        return described

    def refuse_other_runs(self, tasks: Iterable[Task], tables: Mapping[str, Mapping[str, object]]) -> None:
        """Refuse a folder with runs of other code, data or settings: one table would hold both."""
        keys = [path.relative_to(self.folder / "parts") for path in self.folder.glob("parts/*/*.jsonl")]
        if not keys:
            return
        before = self.read_experiment()
        made_by, old_tables = before.get("origin", {}), before.get("tables", {})
        changed = list(differing({name: made_by.get(name) for name in deciding_origin()}, deciding_origin()))
        changed += differing({n: old_tables.get(n, tables[n]) for n in tables}, tables, "table")
        if not changed:
            changed += self._other_settings({key.with_suffix("").as_posix() for key in keys}, tasks, before)
        if changed:
            more = len(changed) - DIFFERENCES_SHOWN
            what = ", ".join(changed[:DIFFERENCES_SHOWN]) + (f" and {more} more differ" if more > 0 else "")
            raise ValueError(
                f"{self.folder} holds runs of something else: {what}; pass another --out, or resume with the "
                f"settings and the code (commit {made_by.get('commit', 'not recorded')}) of its experiment.json."
            )

    def _other_settings(self, finished: set[str], tasks: Iterable[Task], before: Json) -> list[str]:
        """How the first task differs whose method has run on the same draw with other settings."""
        names = {key.rpartition("-")[0] for key in finished}
        for task in tasks:
            name = task.key.rpartition("-")[0]
            if name in names and task.key not in finished:
                old = {t.key.rpartition("-")[0]: t for t in self.stored_tasks(before)}.get(name, task)
                return list(differing(old.decided_by, task.decided_by)) or [f"the settings of {name}"]
        return []

    def stored_tasks(self, described: Json | None = None) -> list[Task]:
        """The tasks of the folder's experiment, by the code that ran them."""
        described = self.read_experiment() if described is None else described
        return list_tasks(Experiment.from_dict(described), described.get("origin", {}))

    def combine(self, tasks: Iterable[Task]) -> dict[str, int]:
        """Make the tables of all finished tasks; returns how many rows each has."""
        tables: dict[str, list[tuple[object, ...]]] = {"runs": [], "rows": [], "by_group": [], "bins": []}
        for task in tasks:
            labels = tuple(task.labels[name] for name in LABELS)
            for line in read_part(self.part(task)) or ():
                if line["kind"] == "run":
                    tables["runs"].append(
                        labels + tuple(_cell(line.get(c, "")) for c in RUN_COLUMNS[len(LABELS) :])
                    )
                elif line["kind"] == "row":
                    tables["rows"].append((*labels, line["metric"], _number(line["value"])))
                elif line["kind"] == "by_group":
                    tables["by_group"] += [labels + v for v in _rows(line["columns"], GROUP_COLUMNS)]
                elif line["kind"] == "calibration":
                    tables["bins"] += [labels + v for v in _rows(line["columns"], BIN_COLUMNS)]
        write_csv(self.folder / "results.csv", ROW_COLUMNS, tables["rows"])
        write_csv(self.folder / "runs.csv", RUN_COLUMNS, tables["runs"])
        write_csv(self.folder / "by_group.csv.gz", (*LABELS, *GROUP_COLUMNS), tables["by_group"])
        write_csv(self.folder / "calibration.csv", (*LABELS, *BIN_COLUMNS), tables["bins"])
        return {name: len(rows) for name, rows in tables.items()}


def read_part(path: Path) -> list[Json] | None:
    """Lines of a part; None if it is not there, or was cut short on its way, by a copy say."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        return None
    return lines[:-1] if lines and lines[-1] == {"kind": "end"} else None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, force=True) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if v is None else v for v in row] for row in rows)
    data = text.getvalue().encode()
    # No time stamp: the same rows make the same file.
    write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a table as text; none if it was not written yet."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(io.StringIO(text)))


def _rows(columns: Mapping[str, list[object]], names: Iterable[str]) -> list[tuple[object, ...]]:
    return list(zip(*([_number(v) for v in columns[name]] for name in names), strict=True))


def _number(value: object) -> object:
    """Six significant digits: beyond them is noise, and files stay small."""
    if isinstance(value, float):
        return "" if math.isnan(value) else float(f"{value:.6g}")
    return value


def _cell(value: object) -> object:
    if isinstance(value, list):
        return " | ".join(value)
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, default=_plain, indent=indent)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not go into JSON.")


def _lock(file: IO[str]) -> None:
    """Lock an open file, or raise an OSError if another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # known on Windows only
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
