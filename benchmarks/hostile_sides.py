"""Small files beside the data that were damaged: known shares, answers of an audit, settings of a job; and their commands."""

from pathlib import Path

import numpy as np

from benchmarks.hostile_files import OF_TEXT

KNOWN_SHARES = b"group,share,std_error\na,0.3,\nb,0.55,0.02\nc,1,0.1\n"
SETTINGS = """[fit]
labeled = "{world}/t.csv"
target = "y"
group = "g"
seed = 3
out = "{folder}/out.gshift"

[predict]
data = "{world}/new.csv"
out = "{folder}/out.csv"

[shares]
out = "{folder}/shares.csv"
"""


def hostile_side(rng: np.random.Generator, world: Path, folder: Path) -> tuple[Path, list[str]]:
    """A damaged small file, and the command that it is given to."""
    fit = ["fit", f"{world}/t.csv", "--target", "y", "--group", "g", "--out", f"{folder}/out.gshift"]
    update = ["update", f"{world}/boosted.gshift", f"{world}/new.csv", "--out", f"{folder}/out.gshift"]
    model = f"{world}/boosted.gshift"
    kinds = (
        ("shares.csv", KNOWN_SHARES, [*fit, "--known-shares"]),
        ("shares.csv", KNOWN_SHARES, [*update, "--group", "g", "--known-shares"]),
        ("answers.csv", (world / "answers.csv").read_bytes(), ["audit", model, "--group", "g", "--labels"]),
        ("job.toml", SETTINGS.format(world=world, folder=folder).encode(), ["run"]),
    )
    name, data, command = kinds[int(rng.integers(0, len(kinds)))]
    for _ in range(int(rng.integers(1, 4))):
        if data:
            data = OF_TEXT[int(rng.integers(0, len(OF_TEXT)))](rng, data)
    path = folder / f"hostile_{name}"
    path.write_bytes(data)
    return path, [*command, str(path)]
