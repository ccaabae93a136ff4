"""The core needs nothing but what scikit-learn brings; imports point down; importing is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import groupshift

SOURCE = Path(groupshift.__file__).parent

# What `pip install groupshift` brings; cloudpickle comes with joblib, threadpoolctl with scikit-learn.
CORE = {"groupshift", "numpy", "scipy", "sklearn", "joblib", "narwhals", "threadpoolctl", "cloudpickle"}

BLOCKER = f"""
import sys

CORE = {CORE!r}

def is_extra(name):
    return name not in CORE and name not in sys.stdlib_module_names and name[0] != "_"

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if is_extra(name.partition(".")[0]):
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked)", name=name)

sys.meta_path.insert(0, Blocker())
"""

FLOW = """
import numpy as np
from sklearn.linear_model import LogisticRegression
import groupshift
from groupshift import GroupShiftClassifier
from groupshift.theory import auc_gain
from groupshift.datasets import make_grouped_mixture

sample = make_grouped_mixture(n_features=2, n_clusters=2, n_groups=10, labeled_per_group=(50, 5),
                              unlabeled_per_group=(100, 10), random_state=0)
X, y, groups, ids = sample.training()
model = GroupShiftClassifier(LogisticRegression(), random_state=0).fit(X, y, groups=groups, example_ids=ids)
default = GroupShiftClassifier(random_state=0, partition=2).fit(X, y, groups=groups)
for fitted in (model, default):
    assert fitted.predict_proba(X, groups).shape == (len(X), 2)
    assert {"group", "cluster", "rows", "share", "low", "high"} <= set(fitted.group_shares())
    fitted.predict_details(X, groups)
    fitted.update(X[y < 0], groups[y < 0])
rng = np.random.default_rng(0)
gain = auc_gain(rng.normal(size=500), group=rng.integers(0, 3, 500), cluster=rng.integers(0, 2, 500),
                group_prior=rng.uniform(0.1, 0.9, (3, 2)))
assert np.isfinite(float(gain))
print("core works")
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300
    )


def test_the_core_works_without_any_extra():
    done = run(BLOCKER + FLOW)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "core works"


def test_the_blocker_blocks():
    # Without this, the test above could pass by not looking.
    for name in ("pandas", "matplotlib.pyplot"):
        assert "blocked" in run(BLOCKER + f"import {name}").stderr


def test_importing_brings_nothing_that_scikit_learn_does_not():
    listing = "import sys; {}; print(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    ours = set(run(listing.format("import groupshift")).stdout.split())
    theirs = set(
        run(
            listing.format("import sklearn.ensemble, sklearn.cluster, sklearn.pipeline, narwhals")
        ).stdout.split()
    )
    outside = {
        name for name in ours - theirs if not (name in sys.stdlib_module_names or name.startswith("_"))
    }
    assert outside == {"groupshift"}


# From the bottom up. What a line holds may import from its own line and the lines before it, wherever in a file the
# import stands.
LAYERS = [
    "_math theory _article",
    "_data metrics",
    "tables",
    "_scores",
    "_shifts",
    "_partitions",
    "pipeline",
    "_audit",
    "_diagnosis displays",
    "_files",
    "classifier baselines streaming distributed datasets prior_correction",
    "cli serve",
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer.split()}


def imported(path):
    """First names below groupshift of everything that a file may import, at its head or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "groupshift":
            found |= {alias.name for alias in node.names if alias.name in RANK}
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("groupshift.")}
    return found


@pytest.mark.parametrize("name", RANK)
def test_imports_point_down(name):
    above = {
        f"{path.name} imports {other}"
        for path in sorted((SOURCE / name).rglob("*.py")) or [SOURCE / f"{name}.py"]
        for other in imported(path)
        if RANK[other] > RANK[name]
    }
    assert not above


def test_every_part_has_its_layer():
    found = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert found - {"__init__"} == set(RANK)


def test_the_root_holds_what_users_import():
    assert len(list(SOURCE.glob("*.py"))) <= 12


def packages(nodes):
    """Packages outside the standard library that import statements among `nodes` name."""
    names = {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
    names |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", sorted((SOURCE / "_math").glob("*.py")), ids=lambda p: p.stem)
def test_the_mathematics_is_numpy_and_scipy_only(path):
    assert packages(list(ast.walk(ast.parse(path.read_text())))) <= {"numpy", "scipy", "groupshift"}


# The command line and its page are extras themselves: nothing else imports them.
LIBRARY = [
    path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in ("cli", "serve")
]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: str(p.relative_to(SOURCE)))
def test_extras_are_imported_where_they_are_used(path):
    assert packages(ast.parse(path.read_text()).body) <= CORE
