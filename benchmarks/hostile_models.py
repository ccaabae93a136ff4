"""Model files that were damaged, or forged and sealed again, and a command to meet each of them."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.hostile_files import cut, flip, insert, overwrite
from groupshift._files.model_files import _sealed

MODELS = ("boosted", "forest", "array", "classes")
JUNK = (
    None,
    True,
    -1,
    0,
    2**40,
    -(2**63),
    1e308,
    float("nan"),
    "",
    "none",
    "filename",
    "__class__",
    [],
    {},
    [[[]]],
    "os.system",
    "9" * 400,
)
NUMBERS = (np.nan, np.inf, -np.inf, 0, -1, 2**31 - 1, -(2**31), 1e300)


def _places(node: object) -> Iterator[tuple[object, object]]:
    """Every (container, key) of a JSON document."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield node, key
        yield from _places(value)


def forged_json(rng: np.random.Generator, document: object) -> object:
    """A document in which some values are others, are gone, or stand elsewhere too."""
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(document))
        if not places:
            break
        place, key = places[int(rng.integers(0, len(places)))]
        how = int(rng.integers(0, 4))
        if how == 0 and isinstance(place, dict):
            del place[key]
        elif how == 1:
            other, its_key = places[int(rng.integers(0, len(places)))]
            place[key] = json.loads(json.dumps(other.get(its_key) if isinstance(other, dict) else None))
        else:
            place[key] = JUNK[int(rng.integers(0, len(JUNK)))]
    return document


def forged_array(rng: np.random.Generator, data: bytes) -> bytes:
    """An array with other numbers, another shape or another type."""
    array = np.load(io.BytesIO(data)).copy()
    how = int(rng.integers(0, 5))
    if array.dtype.names:
        field = array.dtype.names[int(rng.integers(0, len(array.dtype.names)))]
        numbers = array[field]
    else:
        numbers = array
    if how < 3 and numbers.size and numbers.dtype.kind in "iuf":
        value = NUMBERS[int(rng.integers(0, len(NUMBERS)))]
        with np.errstate(all="ignore"):
            wanted = np.array(
                value if numbers.dtype.kind == "f" else int(np.nan_to_num(value, posinf=2**31 - 1)) % 2**31
            )
            numbers.flat[int(rng.integers(0, numbers.size))] = wanted.astype(numbers.dtype)
    elif how == 3:
        array = array[: len(array) // 2] if array.ndim else np.zeros(3)
    elif not array.dtype.names:
        array = array.astype("<U8" if rng.random() < 0.5 else np.float32)[..., None]
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def forged_parts(rng: np.random.Generator, parts: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(parts)) as archive:
        return forged_entries(rng, {name: archive.read(name) for name in archive.namelist()})


def forged_entries(rng: np.random.Generator, entries: dict[str, bytes]) -> bytes:
    """An archive of these entries, of which one was forged."""
    arrays = [name for name in entries if name.endswith(".npy")]
    if arrays and rng.random() < 0.5:
        name = arrays[int(rng.integers(0, len(arrays)))]
        forged = forged_array(rng, entries[name])
    else:
        name = "schema.json"
        forged = json.dumps(forged_json(rng, json.loads(entries[name]))).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for entry, content in {**entries, name: forged}.items():
            archive.writestr(entry, content)
    return file.getvalue()


def of_blanks() -> bytes:
    """A file of 1 MB whose manifest unpacks to 1 GB of blanks."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("manifest.json", "w") as manifest:
            for _ in range(1024):
                manifest.write(b" " * 2**20)
        archive.writestr("model.skops", b"")
    return file.getvalue()


def hostile_model(rng: np.random.Generator, world: Path, folder: Path) -> tuple[Path, list[str]]:
    """A damaged or forged model file, and the command that it is given to."""
    data = (world / f"{MODELS[int(rng.integers(0, len(MODELS)))]}.gshift").read_bytes()
    if rng.random() < 0.02:
        data = of_blanks()
    elif rng.random() < 0.3:
        data = (flip, cut, insert, overwrite)[int(rng.integers(0, 4))](rng, data)
    else:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            manifest, parts = json.loads(archive.read("manifest.json")), archive.read("model.skops")
        if rng.random() < 0.8:
            parts = forged_parts(rng, parts)
        manifest["checksums"] = {"model.skops": hashlib.sha256(parts).hexdigest()}
        if rng.random() < 0.3:
            manifest = forged_json(rng, manifest)
        data = _sealed(manifest, parts)
    path = folder / "hostile.gshift"
    path.write_bytes(data)
    commands = (
        ["predict", str(path), f"{world}/new.csv", "--group", "g", "--out", f"{folder}/out.csv"],
        ["shares", str(path), "--out", f"{folder}/shares.csv"],
        ["report", str(path), "--out", f"{folder}/report.html"],
        ["update", str(path), f"{world}/new.csv", "--group", "g", "--out", f"{folder}/out.gshift"],
        ["explain", str(path), f"{world}/new.csv", "--out", f"{folder}/parts.csv"],
        ["compare", f"{world}/boosted.gshift", str(path), "--out", f"{folder}/moved.csv"],
        ["audit", str(path), f"{world}/new.csv", "--group", "g", "--out", f"{folder}/to_label.csv"],
    )
    return path, commands[int(rng.choice(7, p=[0.4, 0.15, 0.1, 0.15, 0.06, 0.07, 0.07]))]
