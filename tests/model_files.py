"""What tests of saved models share: a file taken apart, altered and sealed again."""

import hashlib
import io
import json
import zipfile

import skops.io

from groupshift import save
from groupshift._files.model_files import _sealed
from groupshift._files.parts import with_stable_names
from groupshift._files.sound import without_unread


def parts_of(path):
    """(Manifest, skops file) of a model file."""
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json")), archive.read("model.skops")


def seal(path, manifest, parts):
    """Write a model file whose checksums fit."""
    manifest["checksums"] = {"model.skops": hashlib.sha256(parts).hexdigest()}
    path.write_bytes(_sealed(manifest, parts))
    return path


def with_schema(parts, change):
    """The same skops file with another schema, as earlier versions or somebody with bad intentions would make it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(parts)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            new.writestr(name, content)
    return buffer.getvalue()


def forged(path, model, spoil):
    """A file of a model that was spoilt after its fit, sealed by somebody who knows how; `model` is of the test's own."""
    save(model, path)
    manifest = parts_of(path)[0]
    path.unlink()
    # What save leaves out anyway would be the reason of every refusal.
    without_unread(model)
    spoil(model)
    return seal(path, manifest, with_stable_names(skops.io.dumps(model)))
