"""Where numbers come from: the code of the package and of its experiments, the libraries below it, the machine."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import groupshift

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib")
# Both decide numbers: the methods, and what runs them.
SOURCES = (Path(groupshift.__file__).parent, Path(__file__).parent)


@lru_cache(maxsize=1)
def deciding_origin() -> Mapping[str, str]:
    """What could move a number, by name; it is part of the fingerprint of every task."""
    return {
        "source": source_hash(*SOURCES),
        "python": platform.python_version(),
        "groupshift": groupshift.__version__,
        **{package: version(package) for package in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}",
    }


def described_origin() -> dict[str, str]:
    """The deciding origin, and what helps a reader to find the code and the machine again."""
    return {**deciding_origin(), "commit": _commit(SOURCES[0]), "cores": str(os.cpu_count())}


def source_hash(*folders: Path) -> str:
    """Hash of the names and contents of all Python files below the folders, in the order of their names."""
    digest = hashlib.sha256()
    for folder in folders:
        for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")):
            content = (folder / name).read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def differing(before: object, now: object, name: str = "") -> Iterator[str]:
    """What differs between two nested tables of plain values, in words.

    >>> list(differing({"seed": 1, "forest": {"trees": 5}}, {"seed": 1, "forest": {"trees": 9}}))
    ['forest.trees was 5 and is 9']
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            yield from differing(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
    elif before != now:
        yield f"{name} was {_shown(before)} and is {_shown(now)}"


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)


def _commit(folder: Path) -> str:
    """The commit of the code, marked if files were changed since; a copy outside of git has none."""
    # A package installed inside somebody's repository is not a part of it: git must know the file.
    if not _git(folder, "ls-files", "__init__.py"):
        return "none"
    changed = " with changes" if _git(folder, "status", "--porcelain", "--", ".") else ""
    return _git(folder, "rev-parse", "HEAD") + changed


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
