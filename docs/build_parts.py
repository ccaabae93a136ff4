"""What a program makes for the pages besides the gallery: tables and figures of scripts, help of the commands."""

import contextlib
import io
import os
import re
import runpy
from pathlib import Path


def make_all(docs: Path) -> None:
    """Fill ``_build/parts``: ``NAME.txt`` with what ``examples/NAME.py`` prints, its figures, and ``cli.md``.

    Scripts of the gallery, ``plot_NAME.py``, are left to sphinx-gallery.
    """
    parts = docs / "_build" / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for script in sorted((docs / "examples").glob("*.py")):
        if not script.stem.startswith("plot_"):
            (parts / f"{script.stem}.txt").write_text(run_example(script, parts), encoding="utf-8")
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


def app_commands() -> list[str]:
    """The commands that the program has."""
    from typer.main import get_command

    from groupshift.cli.app import app

    return [*get_command(app).commands]  # type: ignore[attr-defined]  # an app of several commands is a group


def command_pages() -> str:
    """The help of every command, as the commands themselves give it."""
    from typer.testing import CliRunner

    from groupshift.cli.app import app

    pages = []
    for command in ("", *app_commands()):
        wanted = f"groupshift {command}".strip()
        result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "88", "NO_COLOR": "1"})
        if result.exit_code != 0:
            raise RuntimeError(f"`{wanted} --help` failed: {result.output}") from result.exception
        pages.append(f"## {wanted}\n\n```text\n{_plain(result.output)}\n```\n")
    return "\n".join(pages)


def _plain(text: str) -> str:
    """Text without colors and trailing blanks; runs of empty lines become one."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip(os.linesep)
