"""The page of the method has every number of the code that changes an answer, with the value that it has there."""

import ast
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import groupshift

SOURCE = Path(groupshift.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "method.md"
ROOMS = ("_scores", "_partitions", "_shifts", "_math")
# Names of positions in arrays.
NUMBERED = re.compile(r"= range\(\d\)$")

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the pages are not installed with the package")


def constants():
    """Values of the upper-case names of the method, by file and name."""
    found = {}
    for room in ROOMS:
        for path in sorted((SOURCE / room).glob("*.py")):
            module = importlib.import_module(f"groupshift.{room}.{path.stem}")
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if not isinstance(node, ast.Assign) or NUMBERED.search(ast.unparse(node)):
                    continue
                names = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
                upper = [name for name in names if name.isupper()]
                found |= {f"{path.stem}.{name}": getattr(module, name) for name in upper}
    return found


def rows_of_the_table():
    text = PAGE.read_text(encoding="utf-8")
    return [
        (name, value.strip(), origin.strip())
        for name, value, _, origin in re.findall(r"^\| `(\S+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", text, re.M)
    ]


def as_written(value):
    """A value as the table has it: a diagonal for a diagonal matrix, the ends and the length of a grid."""
    if isinstance(value, dict):
        return value
    array = np.atleast_1d(np.asarray(value, float))
    return np.diag(array) if array.ndim == 2 else array


def test_every_number_that_changes_an_answer_is_on_the_page_with_its_value():
    code = constants()
    text = PAGE.read_text(encoding="utf-8")
    for name, value, _ in rows_of_the_table():
        found = as_written(code[name])
        if isinstance(found, dict):
            assert ast.literal_eval("{" + value + "}") == found, name
        elif "…" in value:
            low, high, n = map(float, re.findall(r"[\d.]+", value))
            assert (len(found), found[0], pytest.approx(found[-1])) == (n, low, high), name
        else:
            wanted = [float(number) for number in value.split(",")]
            np.testing.assert_allclose(found, wanted, atol=5e-4, err_msg=name)
    listed = {name for name, _, _ in rows_of_the_table()}
    without = set(re.findall(r"`([a-z_]+\.[A-Z_]+)`", text)) - listed
    assert set(code) - listed - without == set()
    assert (listed | without) - set(code) == set()


def test_at_most_fifty_numbers_change_an_answer_and_each_says_where_it_comes_from():
    table = rows_of_the_table()
    assert len(table) == len({name for name, _, _ in table}) <= 50
    for name, _, origin in table:
        kind, _, why = origin.partition(": ")
        assert kind in ("derived", "measured", "chosen"), name
        if kind == "measured":
            assert (PAGE.parents[2] / why.strip("`")).exists(), name
        assert bool(why) == (kind != "chosen"), name


def test_the_page_is_a_screen_and_a_half():
    prose = PAGE.read_text(encoding="utf-8").partition("## The numbers")[0]
    assert len(prose.split()) <= 900
