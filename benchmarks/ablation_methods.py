"""Methods of `ablation`: versions of the package with settings and patches, a prototype, and what needs no shifts.

Two versions of the package live in one process: `loaded` changes which of them is imported.
"""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from benchmarks.evidence_draws import Draw
from benchmarks.evidence_scores import scores

ENOUGH = 20  # rows of a group whose share and interval are scored
PACKAGE = "groupshift"
# Of other versions of the package, while one is loaded.
_others: dict[str, dict[str, ModuleType]] = {}


@dataclass(frozen=True)
class Method:
    """`source` is a folder of the package's code, or the file of the prototype."""

    name: str
    source: str
    kind: str  # a name of FITS
    settings: tuple[tuple[str, Any], ...] = ()
    patches: tuple[tuple[str, str], ...] = ()  # dotted path, expression

    @property
    def code(self) -> str:
        """A digest of everything that the answer follows from but the draw."""
        said = hashlib.sha256(repr((self.kind, self.settings, self.patches)).encode())
        said.update(_digest(self.source).encode())
        return said.hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class Answer:
    """Probabilities of all classes for the rows without labels, and low and high ends of intervals of shares, by name."""

    p: np.ndarray
    groups: Sequence = ()  # with `classes`, whose shares
    classes: Sequence = ()
    intervals: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


def run(method: Method, draw: Draw) -> dict[str, Any]:
    """Scores of one method on one draw."""
    with loaded(method.source), patched(method.patches):
        shared = _stack(draw, method.patches).seconds if method.kind in ("lean", "intercept") else 0.0
        start = process_time()
        answer = FITS[method.kind](method, draw)
        seconds = process_time() - start + shared
    return {**measure(answer, draw), **answer.extra, "seconds": round(seconds, 3)}


def _package(method: Method, draw: Draw) -> Answer:
    from groupshift import GroupShiftClassifier

    fit, hidden = ~draw.test, draw.y < 0
    X, y, group, example = _rows(draw.X, fit), draw.y[fit], draw.group[fit], draw.example[fit]
    model = GroupShiftClassifier(**{"random_state": 0, "n_jobs": 1, **dict(method.settings)})
    copies = len(np.unique(example)) < len(example)
    model.fit(X, y, groups=group, example_ids=example if copies else None)
    p = model.predict_proba(_rows(draw.X, hidden), draw.group[hidden])
    table = {name: list(column) for name, column in model.group_shares(by="group").items()}
    # Version 015ec12 has one interval.
    ends = {"": "narrow_", "_wide": ""} if "narrow_low" in table else {"": ""}
    intervals = {
        end: (np.array(table[f"{kind}low"]), np.array(table[f"{kind}high"])) for end, kind in ends.items()
    }
    extra = {"n_clusters": model.n_clusters_}
    if hasattr(model, "common_shift_"):
        common = model.common_shift_
        extra |= {"common": float(common.mean[0]), "common_probability": common.probability}
        extra |= {"random": float(model.random_labels_)}
    classes = table.get("class", [1] * len(table["group"]))
    return Answer(p, table["group"], classes, intervals, extra)


def _package_intercept(method: Method, draw: Draw) -> Answer:
    """A random intercept on the package's scores; the settings must be such that nothing is shifted."""
    pipeline = importlib.import_module("groupshift.pipeline")
    trained, kept = pipeline.train, []

    def keep(problem: Any, *others: Any) -> Any:
        scores = trained(problem, *others)
        group = problem.labeled_groups[problem.labeled.group[scores.rows]]
        kept.append((scores.score[:, 0], problem.y[scores.rows], group.astype(int)))
        return scores

    _replace(pipeline, "train", trained, keep)
    try:
        answer = _package(method, draw)
    finally:
        _replace(pipeline, "train", keep, trained)
    effect = random_intercepts(*kept[-1], int(draw.group.max()) + 1)
    p = expit(logit(answer.p[:, 1]) + effect[draw.group[draw.y < 0]])
    return Answer(np.column_stack([1 - p, p]))


def _lean(method: Method, draw: Draw) -> Answer:
    import lean

    fit, hidden, X = ~draw.test, draw.y < 0, _numbers(draw.X)
    stack, z, _ = _stack(draw, method.patches)
    model = lean.Lean(**dict(method.settings))
    args = X[fit], draw.y[fit], draw.group[fit], draw.example[fit], stack.labeled, stack.population
    model.fit_shifts(*args, z[fit[hidden]], stack)
    p = expit(model.log_odds(X[hidden], draw.group[hidden], z))
    own = np.isin(model.names, draw.group[fit & hidden])
    intervals = {
        "": (model.low[own], model.high[own]),
        "_wide": (model.low_unseen[own], model.high_unseen[own]),
    }
    extra = {"n_clusters": model.K, "common": model.c, "common_probability": model.c_p}
    names = model.names[own].tolist()
    return Answer(np.column_stack([1 - p, p]), names, [1] * len(names), intervals, extra)


def _intercept(method: Method, draw: Draw) -> Answer:
    """A random intercept for each group, from its own labels, on the prototype's scores."""
    stack, z, _ = _stack(draw, method.patches)
    known = draw.y >= 0
    effect = random_intercepts(stack.labeled, draw.y[known], draw.group[known], int(draw.group.max()) + 1)
    p = expit(z + effect[draw.group[~known]])
    return Answer(np.column_stack([1 - p, p]))


def random_intercepts(log_odds: np.ndarray, y: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    """Posterior modes of normal group effects on a logit, their variance by Laplace's approximation of the likelihood.

    >>> own = np.zeros(400)
    >>> y = np.repeat([1, 0, 0, 1], 100)
    >>> effect = random_intercepts(own, y, np.repeat([0, 1, 1, 0], 100), 3)
    >>> bool(effect[0] > 1 and effect[1] < -1), float(effect[2])
    (True, 0.0)
    """
    best, chosen = -np.inf, np.zeros(n_groups)
    for deviation in np.geomspace(0.01, 3, 25):
        effect = np.zeros(n_groups)
        for _ in range(50):
            p = expit(log_odds + effect[group])
            curvature = np.bincount(group, p * (1 - p), n_groups) + deviation**-2
            step = (np.bincount(group, y - p, n_groups) - effect * deviation**-2) / curvature
            effect += np.clip(step, -1, 1)
            if np.abs(step).max() < 1e-6:
                break
        z = log_odds + effect[group]
        likelihood = np.where(y == 1, log_expit(z), log_expit(-z)).sum()
        likelihood -= (effect**2).sum() / deviation**2 / 2 + np.log(curvature * deviation**2).sum() / 2
        if likelihood > best:
            best, chosen = likelihood, effect
    return chosen


FITS = {"package": _package, "lean": _lean, "intercept": _intercept, "package intercept": _package_intercept}


class Stacked(NamedTuple):
    scores: Any
    z: np.ndarray  # log-odds of the rows without labels
    seconds: float


@lru_cache(maxsize=1)
def _stack(draw: Draw, patches: tuple[tuple[str, str], ...]) -> Stacked:
    """The prototype's scores, once for a draw and what is patched."""
    import lean

    start = process_time()
    fit, X = ~draw.test, _numbers(draw.X)
    scores = lean.Scores.of(X[fit], draw.y[fit], draw.example[fit])
    return Stacked(scores, scores.mean(X[draw.y < 0]), process_time() - start)


def measure(answer: Answer, draw: Draw) -> dict[str, float]:
    """On rows that no fit saw (`_test`) and on the others without labels; intervals of group shares on the latter."""
    hidden = draw.y < 0
    test, truth, group = draw.test[hidden], draw.truth[hidden], draw.group[hidden]
    found = {}
    for end, rows in (("", ~test), ("_test", test)):
        found |= {
            name + end: value
            for name, value in _class_scores(answer.p[rows], truth[rows], group[rows]).items()
        }
    truth, group = truth[~test], group[~test]
    n = np.bincount(group, minlength=draw.group.max() + 1)
    keys = list(zip(answer.groups, answer.classes, strict=True))
    kept = [i for i, (g, _) in enumerate(keys) if isinstance(g, int | np.integer) and n[g] >= ENOUGH]
    share = np.array([(truth[group == g] == c).mean() for g, c in (keys[i] for i in kept)])
    for end, ends in answer.intervals.items():
        if not kept:
            continue
        low, high = (values[kept] for values in ends)
        found[f"coverage{end}"] = float(np.mean((low <= share + 1e-9) & (share <= high + 1e-9)))
        found[f"width{end}"] = float(np.mean(high - low))
    return {name: round(value, 6) for name, value in found.items()}


def _class_scores(p: np.ndarray, y: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Of two classes, of the second; of more, the mean over classes, each against all others; log loss is that of all classes."""
    classes = [1] if p.shape[1] == 2 else [c for c in range(p.shape[1]) if 0 < (y == c).mean() < 1]
    each = [scores(p[:, c], (y == c).astype(int), group, ENOUGH) for c in classes]
    found = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
    found["log_loss"] = float(-np.log(np.clip(p[np.arange(len(y)), y], 1e-12, 1)).mean())
    return found


def _rows(X, mask: np.ndarray):
    return X[mask] if isinstance(X, np.ndarray) else X[mask].reset_index(drop=True)


def _numbers(X) -> np.ndarray:
    """A frame as numbers, -1 where a value is missing."""
    if isinstance(X, np.ndarray):
        return X
    columns = [X[name].cat.codes if X[name].dtype == "category" else X[name].fillna(-1) for name in X]
    return np.column_stack(columns).astype(np.float32)


@contextmanager
def loaded(source: str) -> Iterator[None]:
    """While it lasts, `groupshift` is imported from this folder; or `lean` from this file."""
    path = Path(source)
    if path.suffix == ".py":
        if "lean" not in sys.modules:
            spec = importlib.util.spec_from_file_location("lean", path)
            sys.modules["lean"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        yield
        return
    before = _taken_out()
    sys.modules.update(_others.get(source, {}))
    sys.path.insert(0, source)
    try:
        yield
    finally:
        sys.path.remove(source)
        _others[source] = _taken_out()
        sys.modules.update(before)


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.split(".")[0] == PACKAGE]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def patched(patches: tuple[tuple[str, str], ...]) -> Iterator[None]:
    """While it lasts, names have other values, wherever they were imported to. In an expression `old` is the value before.

    >>> import math
    >>> with patched((("math.pi", "old * 0 + 3"),)):
    ...     math.pi
    3.0
    >>> round(math.pi, 2)
    3.14
    """
    done = []
    try:
        for path, expression in patches:
            owner, name = _owner(path)
            old = getattr(owner, name)
            new = _value(expression, old)
            _replace(owner, name, old, new)
            done.append((owner, name, old, new))
        yield
    finally:
        for owner, name, old, new in reversed(done):
            _replace(owner, name, new, old)


def _owner(path: str) -> tuple[Any, str]:
    """The module or class that a dotted path ends in, and the last name.

    >>> _owner("collections.OrderedDict.popitem")[0].__name__
    'OrderedDict'
    """
    *parts, name = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            owner = getattr(owner, part)
        return owner, name
    raise ModuleNotFoundError(f"There is no module in {path!r}. Give module.name or module.Class.name.")


def _value(expression: str, old: Any) -> Any:
    try:
        return ast.literal_eval(expression)
    except (ValueError, SyntaxError):
        return eval(expression, {"np": np, "old": old})


def _replace(owner: Any, name: str, old: Any, new: Any) -> None:
    setattr(owner, name, new)
    package = getattr(owner, "__module__", None) or owner.__name__
    for module in list(sys.modules.values()):
        same = getattr(module, "__name__", "").split(".")[0] == package.split(".")[0]
        if same and name in vars(module) and vars(module)[name] is old:
            setattr(module, name, new)


@lru_cache
def _digest(source: str) -> str:
    path = Path(source)
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
