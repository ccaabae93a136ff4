"""Results on disk: one file for each finished task, written whole or not at all, and tables made of them.

A part appears under its name by a rename, after its bytes are on the disk: killed at any moment, a folder
holds finished parts and nothing that looks like one. Tables are made of parts and can be made again.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from groupshift.experiments.grid import Task
from groupshift.experiments.spec import Experiment

LABELS = ("data", "setting", "d", "K", "repetition", "method")
ROW_COLUMNS = (*LABELS, "metric", "value")
RUN_COLUMNS = (*LABELS, "status", "error", "notes", "finished", "host", "versions", "fingerprint")
# What combined tables hold of the values by group; the parts hold the same.
GROUP_COLUMNS = ("group", "rows", "positives", "auc", "log_loss", "brier", "ece")
BIN_COLUMNS = ("bin", "rows", "probability", "share")


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
            if not _try_lock(file):
                raise BlockingIOError(
                    f"Another run is writing to {self.folder}. Wait for it, end it, or pass another --out."
                )
            # What a killed run was writing never became a part.
            for left in self.folder.glob("parts/*/.*.tmp"):
                left.unlink(missing_ok=True)
            yield

    def write(self, task: Task, lines: Iterable[Mapping[str, Any]]) -> None:
        """Store a finished task."""
        text = "".join(
            json.dumps(line, default=_plain, allow_nan=True) + "\n" for line in (*lines, {"kind": "end"})
        )
        write_whole(self.part(task), text.encode())

    def is_done(self, task: Task, *, retry_failed: bool = False) -> bool:
        part = self.part(task)
        if not part.is_file():
            return False
        lines = read_part(part)
        return lines is not None and not (retry_failed and lines[0]["status"] == "failed")

    def pending(self, tasks: Iterable[Task], *, retry_failed: bool = False) -> list[Task]:
        return [task for task in tasks if not self.is_done(task, retry_failed=retry_failed)]

    def write_experiment(self, experiment: Experiment, extra: Mapping[str, Any]) -> None:
        text = json.dumps({**experiment.to_dict(), **extra}, indent=1, default=_plain)
        write_whole(self.folder / "experiment.json", text.encode())

    def read_experiment(self) -> dict[str, Any]:
        path = self.folder / "experiment.json"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} holds no experiment.json: it is not a folder of results.")
        return json.loads(path.read_text())

    def combine(self, tasks: Iterable[Task]) -> dict[str, int]:
        """Make the tables of all finished tasks; returns how many rows each has."""
        runs: list[tuple] = []
        rows: list[tuple] = []
        groups: list[tuple] = []
        bins: list[tuple] = []
        for task in tasks:
            lines = read_part(self.part(task)) if self.part(task).is_file() else None
            if lines is None:
                continue
            labels = tuple(task.labels[name] for name in LABELS)
            for line in lines:
                if line["kind"] == "run":
                    runs.append(labels + tuple(_cell(line.get(c, "")) for c in RUN_COLUMNS[len(LABELS) :]))
                elif line["kind"] == "row":
                    rows.append((*labels, line["metric"], _number(line["value"])))
                elif line["kind"] == "by_group":
                    groups += [labels + values for values in _transposed(line["columns"], GROUP_COLUMNS)]
                elif line["kind"] == "calibration":
                    bins += [labels + values for values in _transposed(line["columns"], BIN_COLUMNS)]
        write_csv(self.folder / "results.csv", ROW_COLUMNS, rows)
        write_csv(self.folder / "runs.csv", RUN_COLUMNS, runs)
        write_csv(self.folder / "by_group.csv.gz", (*LABELS, *GROUP_COLUMNS), groups)
        write_csv(self.folder / "calibration.csv", (*LABELS, *BIN_COLUMNS), bins)
        return {"runs": len(runs), "rows": len(rows), "by_group": len(groups), "bins": len(bins)}


def read_part(path: Path) -> list[dict[str, Any]] | None:
    """Lines of a part; None if it was cut short on its way, by a copy say."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    except (OSError, ValueError):
        return None
    return lines[:-1] if lines and lines[-1] == {"kind": "end"} else None


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there as a whole or not at all, even if the power fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if v is None else v for v in row] for row in rows)
    data = text.getvalue().encode()
    # No time stamp: the same rows make the same file.
    write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_csv(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(io.StringIO(text)))


def _transposed(columns: Mapping[str, list], names: Iterable[str]) -> list[tuple]:
    return list(zip(*([_number(v) for v in columns[name]] for name in names), strict=True))


def _number(value: Any) -> Any:
    """Six significant digits: beyond them is noise, and files stay small."""
    if isinstance(value, float):
        return "" if math.isnan(value) else float(f"{value:.6g}")
    return value


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return " | ".join(value)
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} does not go into JSON.")


def _try_lock(file: Any) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
