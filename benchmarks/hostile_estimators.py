"""Forged models of every estimator that a model file may hold: each is altered, sealed again, loaded, asked and reported.

An alteration ends well if the file is refused in a sentence, or loads and answers. What ends the process where a file is tried
is counted apart: `load` says it in a sentence, and a check would be better. A trial stands for the process that `load` starts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import Binarizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

from benchmarks.hostile_models import forged_entries
from groupshift._files.parts import attributes_of
from paper.origin import described_origin

GOOD = ("refused", "answered")
# Alterations of each estimator before the next one has its turn.
A_ROUND = 20
KEPT = Path(__file__).parent.parent / "results" / "hostile_models.json"
# Estimators that need more than no arguments, or other columns than three numbers.
FEW = {
    "n_estimators": 2,
    "max_depth": 2,
    "max_iter": 3,
    "random_state": 0,
    "n_init": 1,
    "n_clusters": 2,
    "n_components": 2,
}
OWN = {"MLPClassifier": {"hidden_layer_sizes": (3,)},
       "KBinsDiscretizer": {"n_bins": 2, "quantile_method": "averaged_inverted_cdf"},
       "OneHotEncoder": {"min_frequency": 0.4, "handle_unknown": "infrequent_if_exist"},
       "OrdinalEncoder": {"handle_unknown": "use_encoded_value", "unknown_value": -1}, "SelectKBest": {"k": 2},
       "SimpleImputer": {"add_indicator": True},
       "QuantileTransformer": {"n_quantiles": 5}, "BaggingClassifier": {"max_features": 0.7},
       "HashingVectorizer": {"n_features": 8}, "HistGradientBoostingClassifier": {"categorical_features": [2]},
       "SGDClassifier": {"loss": "log_loss"}, "Nystroem": {"n_components": 4}, "RBFSampler": {"n_components": 4},
       "QuadraticDiscriminantAnalysis": {"reg_param": 0.1}}  # fmt: skip
# They hold other estimators, and are made of some.
HOLDERS = {
    "ColumnTransformer": lambda: make_pipeline(
        make_column_transformer((StandardScaler(), [0, 1]), remainder="passthrough"), LogisticRegression()
    ),
    "FrozenEstimator": lambda: FrozenEstimator(LogisticRegression().fit(*_labeled())),
    "GaussianMixture": LogisticRegression,
    "FeatureUnion": lambda: make_pipeline(FeatureUnion([("a", StandardScaler()), ("b", Binarizer())]), LogisticRegression()),
    "Pipeline": lambda: make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2)),
}  # fmt: skip
NUMBERS_OF_WORDS = ("CategoricalNB", "ComplementNB", "MultinomialNB")
# They take texts, or what is counted of these; or learn no classes: they stand in a test of the command or inside others.
INSIDE_OTHERS = ("DecisionTreeRegressor", "LabelBinarizer", "LabelEncoder", "MissingIndicator")
TEXTS = ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer")


def _labeled() -> tuple[Any, Any]:
    X, y, _ = sample(False)
    return X[y >= 0], y[y >= 0]


def estimators() -> dict[str, BaseEstimator]:
    """One small classifier for each estimator of scikit-learn on the list."""
    found: dict[str, BaseEstimator] = {}
    for name, kind in all_estimators():
        if attributes_of(kind.__module__, name) is None or name in INSIDE_OTHERS:
            continue
        if name in HOLDERS:
            found[name] = HOLDERS[name]()
            continue
        settings = {
            key: value for key, value in FEW.items() if key in kind.__init__.__code__.co_varnames
        } | OWN.get(name, {})
        if name in ("StackingClassifier", "VotingClassifier"):
            settings = {
                "estimators": [("a", LogisticRegression()), ("b", DecisionTreeClassifier(max_depth=2))]
            }
            settings |= {"voting": "soft"} if name == "VotingClassifier" else {"cv": 2}
        if name in ("LinearDiscriminantAnalysis", "LogisticRegression", "LogisticRegressionCV", "LinearSVC"):
            settings.pop("max_iter", None)
            settings.pop("n_components", None)
        one = kind(**settings)
        if name in TEXTS:
            one = make_pipeline(make_column_transformer((one, "text")), LogisticRegression())
        elif name in NUMBERS_OF_WORDS:
            one = make_pipeline(make_column_transformer(("passthrough", [2])), one)
        elif not hasattr(kind, "predict") or name in ("KMeans", "MiniBatchKMeans", "GaussianMixture"):
            part = (
                make_column_transformer((one, [2])) if "Encoder" in name and name != "TargetEncoder" else one
            )
            last = LogisticRegression(max_iter=1000)
            one = make_pipeline(part, last) if hasattr(kind, "transform") else None
        if one is not None:
            found[name] = one
    return found


def sample(has_text: bool) -> tuple[Any, Any, Any]:
    """Rows, labels and groups that all models are fitted to."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 160)
    X = np.c_[rng.normal(size=160) + truth, rng.normal(size=160), np.arange(160) % 3]
    y, groups = np.where(np.arange(160) % 3 > 0, truth, -1), np.arange(160) % 4
    if not has_text:
        return X, y, groups
    import pandas as pd

    words = np.array(["red dress", "blue coat", "red coat shoe", "green dress"])
    return pd.DataFrame({"text": words[(truth + rng.integers(0, 3, 160)) % 4], "a": X[:, 0]}), y, groups


def sealed_model(name: str) -> bytes:
    """A model file with this estimator."""
    from groupshift import GroupShiftClassifier, save

    X, y, groups = sample(name in TEXTS)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        partition = GaussianMixture(2, random_state=0).fit(X) if name == "GaussianMixture" else 1
        model = GroupShiftClassifier(estimators()[name], partition, random_state=0).fit(X, y, groups=groups)
        save(model, f"{folder}/m.gshift")
        return Path(f"{folder}/m.gshift").read_bytes()


def altered(data: bytes) -> Callable[[int], bytes]:
    """By number: the file with a few numbers, texts or parts exchanged, and checksums that fit."""
    from groupshift._files.model_files import _sealed

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest, parts = json.loads(archive.read("manifest.json")), archive.read("model.skops")
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}

    def alter(number: int) -> bytes:
        forged = forged_entries(np.random.default_rng(number), entries)
        return _sealed({**manifest, "checksums": {"model.skops": hashlib.sha256(forged).hexdigest()}}, forged)

    return alter


def attempt(name: str, data: bytes, say: Any, number: int = 0) -> None:
    """Load, predict and report; `say` hears what is about to happen, and how it ended."""
    from groupshift._files.model_files import THE_FILE, ModelFileError, made
    from groupshift._files.trial import try_model

    X, _, groups = sample(name in TEXTS)
    say("trial")
    try:
        # As `load` does, whose second process this one stands for.
        model = made(data, THE_FILE)
        try_model(model)
    except (ModelFileError, Exception):
        say("refused")
        return
    say("use")
    try:
        answer = model.predict_proba(X[:40], groups=groups[:40])
        if number % 10 == 0:
            # All of its parts were asked for in the trial.
            model.report("report.html", force=True)
    except Exception as error:
        say(f"raw error: {type(error).__name__}: {error}"[:300])
        return
    is_sound = np.isfinite(answer).all() and (answer >= 0).all() and (answer <= 1).all()
    say("answered" if is_sound else "wrong answer")


def run_some(name: str, data: bytes, first: int, last: int, lines: IO[str]) -> None:
    """Alterations in this process; what is about to happen and how it ended go to `lines`."""
    warnings.simplefilter("ignore")
    alter = altered(data)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number in range(first, last):

            def say(what: str, number: int = number) -> None:
                lines.write(json.dumps([number, what]) + "\n")
                lines.flush()

            signal.alarm(60)
            attempt(name, alter(number), say, number)
            signal.alarm(0)


def in_another_process(work: Callable[[], None]) -> int:
    """The number of a copy of this process that does some work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def exit_code(process: int) -> int:
    """Of a process, once it ends; minus a signal's number where one ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def fuzz(name: str, data: bytes, first: int, last: int) -> list[list[Any]]:
    """[number, outcome] of alterations of one estimator's model."""
    found: list[list[Any]] = []
    while first < last:
        with tempfile.TemporaryFile("w+") as lines:
            code = exit_code(in_another_process(partial(run_some, name, data, first, last, lines)))
            lines.seek(0)
            said = [json.loads(line) for line in lines]
        found += [[number, what] for number, what in said if what not in ("trial", "use")]
        if code == 0:
            break
        if not said or said[-1][1] not in ("trial", "use"):
            raise RuntimeError(f"{name}: alteration {first + len(said) // 2} could not be made.")
        number, stage = said[-1]
        found.append([number, f"{'ended the trial' if stage == 'trial' else 'signal'}: {code}"])
        first = number + 1
    return found


def _written(path: Path, work: Callable[[], Any]) -> None:
    path.write_text(json.dumps(work()))


def fuzz_all(n: int, minutes: float, jobs: int) -> dict[str, Any]:
    """So many alterations for every estimator on the list, or fewer, and equally many of each, if time is short."""
    until = time.monotonic() + 60 * minutes
    names = list(estimators())
    found: dict[str, list[list[Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        # Threads of a fit do not survive a copy of their process: a copy fits, and this process only tries a model,
        # so that later copies have imported what a trial needs.
        data = {}
        for name in names:
            path = Path(folder) / name
            if exit_code(in_another_process(lambda at=path, of=name: at.write_bytes(sealed_model(of)))):  # type: ignore[misc]
                raise RuntimeError(f"{name}: no model could be made.")
            data[name] = path.read_bytes()
        attempt("LogisticRegression", data["LogisticRegression"], lambda _: None, 1)
        done = 0
        while done < n:
            began, last = time.monotonic(), min(done + A_ROUND, n)
            # Copies that end early wait for none: each takes the next estimator that nobody has begun.
            running: dict[int, str] = {}
            for name in names:
                if len(running) == jobs:
                    _gather(running, found, folder)
                work = partial(fuzz, name, data[name], done, last)
                running[in_another_process(partial(_written, Path(folder) / f"{name}.json", work))] = name
            while running:
                _gather(running, found, folder)
            done = last
            print(f"{done:,} of each, faults: {_faults(found)}", flush=True)
            # A round that would end too late is not begun.
            if time.monotonic() + (time.monotonic() - began) > until:
                break
    by_name = {
        name: dict(sorted(Counter(what.partition(":")[0] for _, what in some).items()))
        for name, some in found.items()
    }
    total: Counter[str] = sum((Counter(counts) for counts in by_name.values()), Counter())
    return {
        "asked_of_each": n,
        "done_of_each": done,
        "attempts": sum(total.values()),
        "origin": described_origin(),
        "outcomes": dict(sorted(total.items())),
        "by_estimator": by_name,
        "faults": _faults(found),
    }


def _gather(running: dict[int, str], found: dict[str, list[list[Any]]], folder: str) -> None:
    """Wait for one of the copies, and take what it found."""
    process, status = os.wait()
    name = running.pop(process)
    if status:
        raise RuntimeError(f"{name}: its alterations could not be tried.")
    found[name] += json.loads((Path(folder) / f"{name}.json").read_text())


def _faults(found: dict[str, list[list[Any]]]) -> list[dict[str, Any]]:
    return [
        {"estimator": name, "number": number, "outcome": what}
        for name, some in found.items()
        for number, what in some
        if what not in GOOD
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=2_000, help="of the model of each estimator")
    parser.add_argument("--minutes", type=float, default=600.0, help="at most, for all estimators together")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--quick", action="store_true", help="five of each, nothing kept")
    parser.add_argument("--repeats", type=int, help="not used: an alteration is made from its number")
    parser.add_argument("--out", type=Path, default=KEPT)
    options = parser.parse_args()
    found = fuzz_all(5 if options.quick else options.mutations, options.minutes, options.jobs)
    print(found["outcomes"], f"{found['done_of_each']} of each estimator")
    if not options.quick:
        # `python -m benchmarks` names a folder.
        out = KEPT if options.out.is_dir() else options.out
        command = f"python -m benchmarks.hostile_estimators --minutes {options.minutes:g}"
        out.write_text(json.dumps({"command": command, **found}, indent=1) + "\n")
    return int(bool(found["faults"]))


if __name__ == "__main__":
    sys.exit(main())
