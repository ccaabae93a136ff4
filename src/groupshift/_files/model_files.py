"""Models in files, without pickle: a zip of a manifest that people can read and parts that cannot run code.

A `.gshift` file holds `manifest.json` and `model.skops`, and ends in the SHA-256 of all that comes before.
Loading checks, in this order: is it a model, is it of a version that we know, is it complete and unaltered,
does it hold nothing but parts of a groupshift model. Only then are the parts made.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import io
import json
import os
import platform
import stat
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sklearn.base import BaseEstimator

from groupshift._data.extras import need
from groupshift._data.frames import some
from groupshift._files.parts import held_parts, with_present_names, with_stable_names
from groupshift._files.sound import UnsoundError, check_sound, without_unread
from groupshift._files.trial import THE_FILE, is_known, remember, tried
from groupshift.tables.files import AnyPath, check_sizes, kind_of, write_whole

# What a file says about itself, as JSON has it.
Manifest = dict[str, Any]
FORMAT = "groupshift model"
FORMAT_VERSION = 2
PACKAGES = ("groupshift", "numpy", "scipy", "scikit-learn", "skops")
DIGEST_LENGTH = 64
# How a zip archive begins.
MAGIC = b"PK\x03\x04"
# The same bytes for the same content: a zip entry's time of writing says nothing that the manifest does not.
EPOCH = (1980, 1, 1, 0, 0, 0)


# What zipfile raises at archives that are none any more.
DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError, KeyError)


class ModelFileError(ValueError):
    """A file that is no sound groupshift model; the message says why."""


def save(
    model: BaseEstimator,
    path: AnyPath,
    *,
    overwrite: bool = False,
    table: Mapping[str, object] | None = None,
    trusted: Iterable[str] = (),
) -> None:
    """Write a fitted model to a file, whole or not at all.

    Parameters
    ----------
    model : fitted GroupShiftClassifier, or another of `groupshift.METHODS`
    path : str or path
        Customarily ending in ".gshift".
    overwrite : bool
        True replaces an existing file, which is otherwise left alone, with an error.
    table : mapping, optional
        How columns of a file became features, as JSON; the command line keeps it here.
    trusted : iterable of str
        Names of further types that the model may hold, such as a classifier from another package. `load`
        needs them too.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.linear_model import LogisticRegression
    >>> from groupshift import GroupShiftClassifier, load, save
    >>> from groupshift.datasets import make_grouped_mixture
    >>> sample = make_grouped_mixture(n_features=2, n_clusters=1, n_groups=4, labeled_per_group=(50, 0),
    ...                               unlabeled_per_group=(50, 0), random_state=0)
    >>> X, y, groups, _ = sample.training()
    >>> model = GroupShiftClassifier(LogisticRegression(), 1, random_state=0).fit(X, y, groups=groups)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.gshift")
    ...     again = load(f"{folder}/model.gshift")
    >>> bool((again.predict_proba(X, groups) == model.predict_proba(X, groups)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    skops = _skops()
    check_is_fitted(model)
    model = copy.deepcopy(model)
    without_unread(model)
    parts = skops.dumps(model)
    trusted = frozenset(trusted)
    if foreign := held_parts(parts, trusted)[1]:
        raise ValueError(
            f"The model holds {some(sorted(foreign), 5)}, which loading would refuse. Use estimators of "
            f"scikit-learn, or, if you trust these types, pass trusted={sorted(foreign)} to save and to load."
        )
    try:
        check_sound(model, trusted)
    except UnsoundError as error:
        raise ValueError(f"The model cannot be saved: {error}, and loading would refuse it.") from error
    parts = with_stable_names(parts)
    manifest = _manifest(model, table) | {"checksums": {"model.skops": hashlib.sha256(parts).hexdigest()}}
    data = _sealed(manifest, parts)
    write_whole(path, data, force=overwrite)
    remember(data)


def load(path: AnyPath, *, trusted: Iterable[str] = ()) -> BaseEstimator:
    """Read a model that `save` wrote; its predictions are the same bits.

    A file that was cut or altered, that a newer version wrote, or that holds foreign types is refused with a
    `ModelFileError`, and nothing in it runs.
    """
    _skops()
    trusted = frozenset(trusted)
    data = _read(path)
    _opened(data, path)
    # Types that the user trusts may be where no other process finds them.
    is_tried = trusted or is_known(data) or not sys.executable
    if problem := None if is_tried else tried(data):
        raise ModelFileError(problem.replace(THE_FILE, str(path), 1))
    return made(data, path, trusted)


def made(data: bytes, path: AnyPath, trusted: frozenset[str] = frozenset()) -> BaseEstimator:
    """The model of a file's bytes, checked part by part, but not tried."""
    skops = _skops()
    manifest, parts = _opened(data, path)
    try:
        parts = with_present_names(parts)
        known, foreign = held_parts(parts, trusted)
    except Exception as error:
        raise ModelFileError(
            f"{path} is refused: its parts are not described as in a groupshift model ({error}). Fit the model again."
        ) from error
    if foreign:
        raise ModelFileError(
            f"{path} holds {some(sorted(foreign), 5)}, which no groupshift model needs, and is refused. If you know "
            "where the file comes from and trust these types, load it in Python with groupshift.load(path, "
            f"trusted={sorted(foreign)})."
        )
    written_with = _package(manifest, "scikit-learn")
    try:
        with warnings.catch_warnings():
            # Said once below, instead of once for every part.
            warnings.filterwarnings("ignore", message="Trying to unpickle estimator")
            # skops copies the list for every part: all that a model may hold would take it twice as long.
            model = skops.loads(parts, trusted=sorted(known))
    except Exception as error:
        raise ModelFileError(
            f"{path} could not be rebuilt ({type(error).__name__}: {error}). It was written with "
            f"scikit-learn {written_with}; this is {version('scikit-learn')}. Install that version, or fit "
            "the model again."
        ) from error
    # Parts that are no model of ours at all fail in ways that nobody can foresee.
    try:
        check_sound(model, trusted)
    except Exception as error:
        found = error if isinstance(error, UnsoundError) else f"{type(error).__name__}: {error}"
        raise ModelFileError(
            f"{path} is refused: {found}. No fit ends in such a model: fit it again."
        ) from error
    here = version("scikit-learn")
    if written_with.split(".")[:2] != here.split(".")[:2]:
        warnings.warn(
            f"{path} was written with scikit-learn {written_with} and is read with {here}: predictions may differ. "
            "Install the same version, or fit the model again.",
            UserWarning,
            stacklevel=3,
        )
    return model


def _skops() -> Any:
    """skops, which on import looks for estimators in every folder of scikit-learn.

    One of these holds none, but loads Dask where it is installed: that took a command a fifth of a second.
    """
    without = "sklearn.externals.array_api_compat.dask"
    if "skops.io" in sys.modules or without in sys.modules:
        return need("skops.io")
    sys.modules[without] = None  # type: ignore[assignment]  # Python's way to say that there is no such module
    try:
        return need("skops.io")
    finally:
        sys.modules.pop(without, None)


def read_manifest(path: AnyPath) -> Manifest:
    """What a model file says about itself, checked for completeness; no part of the model is made."""
    return _opened(_read(path), path)[0]


def _sealed(manifest: Manifest, parts: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("manifest.json", EPOCH), json.dumps(manifest, indent=1, ensure_ascii=False)
        )
        archive.writestr(zipfile.ZipInfo("model.skops", EPOCH), parts)
        archive.comment = b"0" * DIGEST_LENGTH
    content = buffer.getvalue()[:-DIGEST_LENGTH]
    return content + hashlib.sha256(content).hexdigest().encode()


def _opened(data: bytes, path: AnyPath) -> tuple[Manifest, bytes]:
    """Manifest and parts of a file that is a model, of a known version, complete and unaltered."""
    if not data.startswith(MAGIC):
        raise ModelFileError(
            f"{path} is no groupshift model. Pass a file that `groupshift fit` or groupshift.save wrote."
        )
    damaged = ModelFileError(
        f"{path} was cut short or altered after it was written: its checksum does not fit. Copy it again "
        "from where it came from, or fit the model again."
    )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            check_sizes(archive, len(data))
            manifest = json.loads(archive.read("manifest.json")) if "manifest.json" in names else None
    except (*DAMAGE, ValueError) as error:
        raise damaged from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is a zip archive, but no groupshift model. Pass a file that `groupshift fit` wrote."
        )
    found = manifest.get("format_version")
    if type(found) is not int or found < 1:
        raise ModelFileError(
            f"{path} is refused: its format {found!r} is no number of one. Fit the model again."
        )
    if found < FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by groupshift {_package(manifest, 'groupshift')}, which fitted models in another way "
            f"(format {found}; this reads format {FORMAT_VERSION}). Fit the model again."
        )
    if found > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by a newer groupshift "
            f"({_package(manifest, 'groupshift')}, format {found}); this is "
            f"{version('groupshift')}, which reads format {FORMAT_VERSION}. Update with: pip install "
            "-U groupshift"
        )
    digest = hashlib.sha256(data[:-DIGEST_LENGTH]).hexdigest().encode()
    if digest != data[-DIGEST_LENGTH:] or names != {"manifest.json", "model.skops"}:
        raise damaged
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.read("model.skops")
    except DAMAGE as error:
        raise damaged from error
    if hashlib.sha256(parts).hexdigest() != _entry(manifest, "checksums", "model.skops"):
        raise damaged
    return manifest, parts


def _manifest(model: BaseEstimator, table: Mapping[str, object] | None) -> Manifest:
    encoder = getattr(model, "encoder_", None)
    names, kinds = (encoder.names_, encoder.kinds_) if encoder is not None else ([], [])
    packages = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "packages": packages,
        "model": type(model).__name__,
        "settings": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "features": [{"name": name, "kind": kind} for name, kind in zip(names, kinds, strict=True)],
        "classes": [_plain(value) for value in model.classes_.tolist()],
        "groups": len(getattr(model, "groups_", ())),
        "labeled_groups": len(getattr(model, "labeled_groups_", ())),
        "clusters": int(getattr(model, "n_clusters_", 1)),
        "notes": list(getattr(model, "notes_", [])),
        "table": table,
    }


def _entry(manifest: Manifest, section: str, name: str) -> object:
    found = manifest.get(section)
    return found.get(name) if isinstance(found, dict) else None


def _package(manifest: Manifest, name: str) -> str:
    """The version of a package that a file was written with."""
    return str(_entry(manifest, "packages", name) or "an unknown version")


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def _read(path: AnyPath) -> bytes:
    """The bytes of a model file; of another file no more than the first ones are read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError(
                f"{path} is no file but {kind_of(path)}. Pass a model that `groupshift fit` wrote."
            )
        with open(path, "rb") as file:
            head = file.read(len(MAGIC))
            return head + file.read() if head == MAGIC else head
    except FileNotFoundError as error:
        raise ModelFileError(
            f"There is no file {path}. Pass a model that `groupshift fit` or groupshift.save wrote."
        ) from error
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be read: {error.strerror}. Pass a file that you may read."
        ) from error
