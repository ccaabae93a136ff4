"""`groupshift run`: a whole job from a settings file, as the commands that one would type."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

from groupshift.cli.errors import InputError
from groupshift.cli.options import as_typed
from groupshift.cli.screen import Screen, bold

# Sections in the order in which they run, and the settings of each that are no options but what the command works on.
PLACES = {
    "fit": ("labeled", "unlabeled"),
    "predict": ("data",),
    "shares": (),
    "explain": ("data",),
    "report": (),
}
EXAMPLE = """[fit]
labeled = "labeled.csv"
unlabeled = "unlabeled.parquet"
target = "ill"
group = "hospital"
out = "model.gshift"

[shares]
out = "shares.csv"
"""
Section = Mapping[str, object]


def run_job(path: str, *, force: bool) -> None:
    """Run the commands of a settings file; names of files in it are seen from its folder."""
    from groupshift.cli.app import parsed_app

    screen, commands = Screen(), job_commands(_read(path), force=force)
    with chdir(Path(path).absolute().parent):
        for command in commands:
            screen.say(bold(f"groupshift {command[0]}"))
            parsed_app()(command, prog_name="groupshift", standalone_mode=False)


def job_commands(settings: Section, *, force: bool = False) -> list[list[str]]:
    """What one would type, command by command.

    >>> job_commands({"fit": {"labeled": "a.csv", "target": "y", "out": "m.gshift"}, "shares": {"out": "s.csv"}})
    [['fit', 'a.csv', '--target', 'y', '--out', 'm.gshift'], ['shares', 'm.gshift', '--out', 's.csv']]
    """
    if unknown := [name for name in settings if name not in PLACES]:
        raise InputError(
            f"A settings file has no section [{unknown[0]}]. Its sections are {', '.join(PLACES)}."
        )
    fit = _section(settings, "fit")
    if not {"labeled", "target", "out"} <= fit.keys():
        raise InputError(
            f"A settings file needs a section [fit] with labeled, target and out, such as:\n{EXAMPLE}"
        )
    commands = []
    for name, places in PLACES.items():
        if name not in settings:
            continue
        section = _section(settings, name)
        model = [] if name == "fit" else [str(fit["out"])]
        where = [value for place in places if place in section for value in _texts(section[place])]
        options = [
            part for key, value in section.items() if key not in places for part in _option(key, value)
        ]
        commands.append([name, *model, *where, *options, *(["--force"] if force else [])])
    return commands


def _read(path: str) -> Section:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"There is no settings file {path}. Write one, such as:\n{EXAMPLE}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no settings file in TOML: {error}.") from error


def _section(settings: Section, name: str) -> Section:
    section = settings.get(name, {})
    if not isinstance(section, Mapping):
        raise InputError(f"{name} in a settings file is a section: write [{name}] on a line of its own.")
    return section


def _option(key: str, value: object) -> list[str]:
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    return as_typed(name, _texts(value) if isinstance(value, list) else str(value))


def _texts(value: object) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else [str(value)]
