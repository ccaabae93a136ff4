"""The house fits in the head: how much code there is, and how much of it one fit walks through.

A figure that is passed is no reason to raise it: ask first which piece the new one replaces.
"""

import ast
import io
import re
import sys
import tokenize
import warnings
from pathlib import Path

import pytest

import groupshift
from groupshift import GroupShiftClassifier
from groupshift.datasets import make_grouped_mixture

SOURCE = Path(groupshift.__file__).parent
MOST = {"code": 19_200, "files": 126, "value classes": 124, "functions": 1_640}
MOST_IN_FIT = {"functions": 292, "files": 38}
MOST_IN_PREDICT = {"functions": 47, "files": 13}
MOST_QUESTIONS = 34
# Where code asks whether there are two classes or more.
QUESTION = re.compile(
    r"(n_classes|n_contrasts|len\((self\.|model\.)?classes_?\)|\bM|shape\[-?1\])\s*(==|>|<|!=|>=|<=)\s*[12]\b|if .*is_multiclass"
)


def without_words(text: str) -> set[int]:
    """Numbers of the lines that hold code: no comments, docstrings or blanks."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
            docstrings |= set(range(first.lineno, first.end_lineno + 1))
    blank = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines - docstrings


def is_value_class(node: ast.ClassDef) -> bool:
    said = [ast.unparse(part) for part in (*node.decorator_list, *node.bases)]
    return any("dataclass" in text or "NamedTuple" in text for text in said)


def test_the_package_grows_no_further():
    found = dict.fromkeys(MOST, 0)
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        found["files"] += 1
        found["code"] += len(without_words(text))
        found["value classes"] += sum(isinstance(n, ast.ClassDef) and is_value_class(n) for n in nodes)
        found["functions"] += sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes)
    assert {name: n for name, n in found.items() if n > MOST[name]} == {}


def test_few_places_ask_for_the_number_of_classes():
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if QUESTION.search(line)
    ]
    assert len(found) <= MOST_QUESTIONS, found


def own_calls(call):
    """How many functions of the package a call runs, and in how many files they lie; and what it returns."""
    seen = set()

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            name = frame.f_code.co_qualname
            if not frame.f_code.co_name.startswith("<"):
                seen.add((frame.f_code.co_filename, name))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        value = call()
    finally:
        sys.setprofile(before)
    return {"functions": len(seen), "files": len({file for file, _ in seen})}, value


@pytest.fixture(scope="module")
def rows():
    sample = make_grouped_mixture(
        n_features=4,
        n_clusters=2,
        n_groups=20,
        labeled_per_group=(100, 0),
        unlabeled_per_group=(200, 0),
        random_state=0,
    )
    X, y, groups, _ = sample.training()
    return X, y, groups


def test_a_default_fit_and_a_prediction_walk_through_few_functions(rows):
    X, y, groups = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit, model = own_calls(
            lambda: GroupShiftClassifier(random_state=0, n_jobs=1).fit(X, y, groups=groups)
        )
        predict, _ = own_calls(lambda: model.predict_proba(X[:10], groups=groups[:10]))
    assert {name: n for name, n in fit.items() if n > MOST_IN_FIT[name]} == {}
    assert {name: n for name, n in predict.items() if n > MOST_IN_PREDICT[name]} == {}
