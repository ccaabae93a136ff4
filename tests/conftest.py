"""What all tests share: reproducible hypothesis runs, small grouped samples and models of them."""

import os
from copy import deepcopy

# Before NumPy loads: a thread per core in every library makes small problems slower, not faster.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier, save
from groupshift._scores.members import default_members
from groupshift.datasets import make_grouped_mixture
from shifted_groups import draw, fit_on

# A helper that asserts says as much as a test does when it fails. Before anything imports it.
pytest.register_assert_rewrite("site_tables")

# The same examples on every machine, and no deadline: a slow machine is not a bug.
settings.register_profile(
    "suite", derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# Of the default classifier, where a claim holds for any number of them, and for any number of bins: where rows have weights,
# scikit-learn looks for the border of each of 255 bins anew, which takes ten times as long as five trees.
FEW_TREES = {"max_iter": 5, "max_bins": 32}

# Files that take longest, in their order: of two processes, none begins one of them when the other is nearly done.
FIRST = [
    "serve_browser",
    "docs",
    "distributed",
    "readme",
    "helpers",
    "contract",
    "swapped_classes",
    "cli_hostile",
    "cli_batches",
    "workers",
]


def pytest_configure(config):
    # Else pytest-xdist hands out files by their numbers of tests, and the few of a browser, which take longest, come last.
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    places = {f"test_{name}.py": place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(scope="session")
def sample():
    """Twelve groups with shares of their own, two clusters; every group has labelled and unlabelled rows."""
    return make_grouped_mixture(
        n_features=2,
        n_clusters=2,
        n_groups=12,
        labeled_per_group=(60, 5),
        unlabeled_per_group=(150, 20),
        counts="binomial",
        random_state=3,
    )


@pytest.fixture(scope="session")
def rows(sample):
    """`(X, y, groups)` of the sample, as `fit` takes them."""
    X, y, groups, _ = sample.training()
    return X, y, groups


@pytest.fixture
def quick():
    """A model that is fitted in a tenth of a second and still takes every step that it is asked for."""
    return make_quick


def make_quick(**params):
    settings = {"estimator": LogisticRegression(), "partition": 2, "random_state": 0}
    return GroupShiftClassifier(**settings | params)


def small_boosting(**settings):
    """Whatever number of trees is asked for."""
    return HistGradientBoostingClassifier(**settings | FEW_TREES)


def small_members(is_category, seed):
    trees, linear = default_members(is_category, seed)
    return [trees.set_params(**FEW_TREES), linear]


def grow_few_trees(monkeypatch):
    monkeypatch.setattr("groupshift.pipeline.default_members", small_members)


@pytest.fixture
def few_trees(monkeypatch):
    """The default classifier grows a handful of trees: for claims that hold for any number of them."""
    grow_few_trees(monkeypatch)


@pytest.fixture(scope="session")
def fitted(rows):
    """A fitted quick model that no test may change."""
    X, y, groups = rows
    return make_quick().fit(X, y, groups=groups)


@pytest.fixture
def fitted_copy(fitted):
    """A fitted quick model that a test may change."""
    return deepcopy(fitted)


@pytest.fixture(scope="session")
def judged(rows):
    """A fitted model whose partition held-out labels chose; no test may change it."""
    X, y, groups = rows
    return make_quick(partition="validated").fit(X, y, groups=groups)


@pytest.fixture(scope="session")
def shifted():
    """`(data, model)` of forty groups whose shares differ; no test may change them."""
    data = draw(np.random.default_rng(0))
    return data, fit_on(data)


@pytest.fixture(scope="session")
def saved(fitted, tmp_path_factory):
    """The file of the fitted model."""
    path = tmp_path_factory.mktemp("saved") / "model.gshift"
    save(fitted, path)
    return path


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A folder with a survey's files and a default model of it with few trees, for commands; no test may change it."""
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    from cli_files import fit_survey

    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as monkeypatch:
        grow_few_trees(monkeypatch)
        fit_survey(folder)
    return folder


@pytest.fixture
def quick_fits(world, monkeypatch):
    """Commands fit a few trees. The folder comes first: its model has the default settings."""
    from cli_files import make_fits_quick

    make_fits_quick(monkeypatch)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The same code on less data, with fewer trees and draws: a page is tested for whether it runs, not for its numbers."""

    import groupshift.datasets

    def at_most(make, **limits):
        def made(**settings):
            for name, limit in limits.items():
                settings[name] = min(settings.get(name, limit), limit)
            return make(**settings)

        return made

    sizes = {"n_groups": 8, "labeled_per_group": 30, "unlabeled_per_group": 50}
    monkeypatch.setattr(groupshift.datasets, "make_survey", at_most(groupshift.datasets.make_survey, **sizes))
    mixture = at_most(groupshift.datasets.make_grouped_mixture, n_groups=8, unlabeled_per_group=(60, 0))
    monkeypatch.setattr(groupshift.datasets, "make_grouped_mixture", mixture)
    classes = at_most(groupshift.datasets.make_grouped_classes, **sizes)
    monkeypatch.setattr(groupshift.datasets, "make_grouped_classes", classes)
    grow_few_trees(monkeypatch)
    # Pages show how a classifier of the user's own is handed over.
    monkeypatch.setattr("sklearn.ensemble.HistGradientBoostingClassifier", small_boosting)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def client():
    """A Dask client with two workers, each a process of its own."""
    dask = pytest.importorskip("dask.distributed", reason="clusters need the extra dask")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with dask.LocalCluster(**settings) as cluster, dask.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by playwright."""
    from browsers import ARGUMENTS, CHROMIUM

    playwright = pytest.importorskip("playwright.sync_api", reason="playwright for Python drives the browser")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


# Warnings are errors here; the housekeeping of a cluster (sockets closed late, ports taken) is not ours.
CLUSTER_MARKS = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Port .* is already in use"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def finite_and_in_doubt(probability):
    """No NaN, and nothing taken for certain."""
    return bool(np.isfinite(probability).all() and (probability > 0).all() and (probability < 1).all())


def probability(model, X, groups):
    """The probability of the second class, which predictions are about."""
    return model.predict_proba(X, groups)[:, 1]
