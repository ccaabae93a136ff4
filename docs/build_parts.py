"""Everything on the pages that a program makes: figures and output of the examples, help of the commands."""

import contextlib
import io
import os
import re
import runpy
import time
from pathlib import Path

COMMANDS = ("check", "fit", "predict", "shares", "update", "audit", "report", "serve", "demo")


def make_all(docs: Path) -> None:
    """Fill ``_build/parts``: ``NAME.txt`` with what ``examples/NAME.py`` prints, its figures, and ``cli.md``."""
    parts = docs / "_build" / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for script in sorted((docs / "examples").glob("*.py")):
        start = time.monotonic()
        (parts / f"{script.stem}.txt").write_text(run_example(script, parts), encoding="utf-8")
        print(f"{script.name}: {time.monotonic() - start:.0f} s")
    (parts / "cli.md").write_text(command_pages(), encoding="utf-8")


def run_example(script: Path, folder: Path) -> str:
    """What a script prints; figures that it leaves open are saved as ``NAME.png``, ``NAME-2.png`` and so on."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(script), run_name="__main__")
    for i, number in enumerate(plt.get_fignums()):
        suffix = f"-{i + 1}" if i else ""
        plt.figure(number).savefig(
            folder / f"{script.stem}{suffix}.png", dpi=150, bbox_inches="tight", facecolor="white"
        )
    plt.close("all")
    return printed.getvalue() or "(nothing)\n"


def command_pages() -> str:
    """The help of every command, as the commands themselves give it."""
    from typer.testing import CliRunner

    from groupshift.cli.app import app

    pages = []
    for command in ("", *COMMANDS):
        wanted = f"groupshift {command}".strip()
        result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "88", "NO_COLOR": "1"})
        if result.exit_code != 0:
            raise RuntimeError(f"`{wanted} --help` failed: {result.output}") from result.exception
        pages.append(f"## {wanted}\n\n```text\n{_plain(result.output)}\n```\n")
    return "\n".join(pages)


def _plain(text: str) -> str:
    """Text without colours and trailing blanks; runs of empty lines become one."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip(os.linesep)
