"""The versions that pyproject.toml promises are those that `make test-lowest` tests."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Pinned for another package's sake: no dependency of ours. polars is in no extra; tests install it beside them.
FOREIGN = {"pyparsing", "polars"}


def floors():
    """Lowest version of every requirement that has one; a name with two floors keeps both."""
    project = PROJECT["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    wanted = [*project["dependencies"], *extras, *PROJECT["dependency-groups"]["test"]]
    found = {}
    for requirement in wanted:
        if match := re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement):
            found.setdefault(match[1], set()).add(match[2])
    return found


def pins():
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def same(floor, pin):
    return re.fullmatch(re.escape(floor) + r"(\.0)*", pin) is not None


def test_every_pin_is_the_floor_of_its_package():
    for name, pin in pins().items():
        if name not in FOREIGN:
            assert all(same(floor, pin) for floor in floors()[name]), f"{name}: {floors()[name]} is not {pin}"


def test_everything_the_core_and_the_tested_extras_need_is_pinned():
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    tested = ("files", "save", "plot", "report", "cli")
    needed = [*project["dependencies"], *(wanted for extra in tested for wanted in extras[extra])]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in needed} - {"groupshift"}
    assert names <= set(pins())
