"""Takes pieces of the method away, on many tables and in many kinds of label choice; compares versions on the same draws.

    python -m benchmarks.ablation prepare --data DIR --out TABLES      once; the rest needs these files alone
    python benchmarks/ablation.py run --draws TABLES --out found.jsonl --methods new,old,lean,plain,nocommon \
        --src new=src --src old=../old/src --lean lean.py --patch nocommon=groupshift._shifts.common.BY_LABEL=0
    python benchmarks/ablation.py summary found.jsonl --base plain

A method is a name of --src; lean, one or plain (the prototype, without cells, without shifts) or intercept (a random intercept on
its scores); or a variant that --settings or --patch gives a name to: of the first --src, or, as NAME@BASE, of another base. Names
joined by "+" go together. --intercept NAME=BASE is a random intercept on the scores of a variant that shifts nothing.
A line of the file is a draw and a method. The same command goes on where it was; a method whose code or settings have changed
since is run again, and a summary takes the last line. In the Python of a patch, `old` is the value before.
"""

import argparse
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import time

# Before NumPy is loaded: as many processes as cores, one thread each.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
ROOT = Path(__file__).resolve().parent.parent
# Called as a file, from any folder; the code of this tree makes the draws.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np  # noqa: E402
from joblib import Parallel, delayed  # noqa: E402

from benchmarks.ablation_draws import KINDS, TABLES, file_of, is_generated, list_draws, make_draw  # noqa: E402
from benchmarks.ablation_methods import Method, loaded, run  # noqa: E402

PROTOTYPES = {
    "lean": {},
    "one": {"partition": "one"},
    "plain": {"partition": "one", "model": False, "common": False},
}
KEY = ("table", "kind", "rows", "seed")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    prepare = commands.add_parser("prepare")
    prepare.add_argument("--data", type=Path, required=True)
    prepare.add_argument("--out", type=Path, required=True)
    prepare.add_argument("--rows", type=int, default=120_000, help="of each table, at most")
    go = commands.add_parser("run")
    go.add_argument("--tables", type=_words, default=[t for names in TABLES.values() for t in names])
    go.add_argument("--kinds", type=_words, default=list(KINDS))
    go.add_argument("--rows", type=_numbers, default=[12_000])
    go.add_argument("--seeds", type=_numbers, default=[1])
    go.add_argument("--methods", type=_words, required=True)
    go.add_argument("--src", action="append", default=[], metavar="NAME=FOLDER")
    go.add_argument("--lean", type=Path, help="file of the prototype")
    go.add_argument("--settings", action="append", default=[], metavar="NAME[@BASE]=JSON")
    go.add_argument("--patch", action="append", default=[], metavar="NAME[@BASE]=PATH=PYTHON")
    go.add_argument("--intercept", action="append", default=[], metavar="NAME=BASE")
    go.add_argument("--draws", type=Path, default=ROOT / ".draws")
    go.add_argument("--jobs", type=int, default=os.cpu_count())
    go.add_argument("--out", type=Path, required=True)
    go.add_argument("--stop-after", type=float, default=float("inf"), help="seconds; then no fit begins")
    summed = commands.add_parser("summary")
    summed.add_argument("files", type=Path, nargs="+")
    summed.add_argument("--base", default="plain")
    summed.add_argument("--by", default="kind", choices=KEY)
    for name in ("tables", "kinds", "methods"):
        summed.add_argument(f"--{name}", type=_words)
    summed.add_argument("--rows", type=_numbers)
    differences = ["auc_test", "log_loss_test", "share_error"]
    summed.add_argument("--scores", type=_words, default=differences, help="printed less the base's")
    summed.add_argument("--worst", type=int, default=8)
    options = parser.parse_args()
    {"prepare": _prepare, "run": _run, "summary": _summary}[options.command](options)


def _words(text: str) -> list[str]:
    return [word for name in text.split(",") for word in TABLES.get(name, [name])]


def _numbers(text: str) -> list[int]:
    """Numbers, and ranges without their end: "1,5:8" are 1, 5, 6 and 7."""
    parts = [[int(n) for n in part.split(":")] for part in text.split(",")]
    return [n for first, *end in parts for n in range(first, end[0] if end else first + 1)]


def _prepare(options: argparse.Namespace) -> None:
    from benchmarks.evidence_data import CLASS_LOADERS, LOADERS, prepare

    loaders = {**LOADERS, **CLASS_LOADERS}
    for name in TABLES["real"] + TABLES["classes"]:
        prepare(name, loaders[name](options.data), options.out, options.rows)


def _run(options: argparse.Namespace) -> None:
    methods = list_methods(options)
    _check(options)
    done = {
        (*_place(line), line["method"], line["code"])
        for line in read_lines([options.out])
        if "error" not in line
    }
    _finish_line(options.out)
    deadline = time() + options.stop_after
    tasks = []
    for draw in list_draws(options.tables, options.kinds, options.rows, options.seeds):
        left = [m for m in methods if (*_place(draw), m.name, m.code) not in done]
        if left:
            tasks.append(delayed(run_draw)(draw, left, options.draws, options.out, deadline))
    print(f"{len(tasks)} draws are left", flush=True)
    Parallel(n_jobs=options.jobs, pre_dispatch="n_jobs", batch_size=1)(tasks)


def _check(options: argparse.Namespace) -> None:
    for name in options.tables:
        if not is_generated(name) and not (options.draws / file_of(name)).exists():
            raise SystemExit(
                f"{options.draws} has no table {name!r}: run `python -m benchmarks.ablation prepare`."
            )
    for name in options.kinds:
        if name not in KINDS:
            raise SystemExit(f"There is no kind {name!r}. There are {', '.join(KINDS)}.")


def list_methods(options: argparse.Namespace) -> list[Method]:
    sources = dict(said.split("=", 1) for said in options.src)
    bases = {name: Method(name, str(Path(folder).resolve()), "package") for name, folder in sources.items()}
    if options.lean:
        path = str(options.lean.resolve())
        bases |= {
            name: Method(name, path, "lean", tuple(given.items())) for name, given in PROTOTYPES.items()
        }
        bases["intercept"] = Method("intercept", path, "intercept")
    variants: dict[str, tuple[str, dict, list]] = {}
    for said, is_patch in [(s, False) for s in options.settings] + [(p, True) for p in options.patch]:
        name, value = said.split("=", 1)
        name, _, base = name.partition("@")
        _, settings, patches = variants.setdefault(name, (base or next(iter(bases)), {}, []))
        if is_patch:
            path, expression = value.split("=", 1)
            patches.append((path, expression))
        else:
            settings |= json.loads(value)
    intercepts = dict(said.split("=", 1) for said in options.intercept)
    found = [_method(intercepts.get(name, name), bases, variants) for name in options.methods]
    return [
        replace(method, name=name, kind="package intercept" if name in intercepts else method.kind)
        for name, method in zip(options.methods, found, strict=True)
    ]


def _method(name: str, bases: dict[str, Method], variants: dict[str, tuple[str, dict, list]]) -> Method:
    parts = name.split("+")
    unknown = [part for part in parts if part not in variants and part not in bases]
    if unknown:
        raise SystemExit(f"There is no method {unknown[0]!r}. There are {', '.join([*bases, *variants])}.")
    named = [part for part in parts if part in bases and part not in variants]
    wanted = named[0] if named else variants[parts[0]][0]
    if wanted not in bases:
        raise SystemExit(f"{name} is to be a variant of {wanted!r}, which is no --src.")
    base = bases[wanted]
    settings, patches = dict(base.settings), []
    for part in parts:
        if part in variants:
            settings |= variants[part][1]
            patches += variants[part][2]
    return Method(name, base.source, base.kind, tuple(settings.items()), tuple(patches))


def run_draw(task: dict, methods: list[Method], folder: Path, out: Path, deadline: float) -> None:
    """A line for each method is written as soon as it is there. A method that fails is a result too."""
    if time() > deadline:
        return
    warnings.simplefilter("ignore")
    try:
        with loaded(str(ROOT / "src")):
            draw = make_draw(folder, **task)
    except Exception:
        print(f"{task} could not be drawn:\n{traceback.format_exc()}", file=sys.stderr)
        return
    if draw is None:
        return
    fit = ~draw.test
    same = {
        **task,
        "draw": sha256(np.concatenate([draw.y, draw.truth, draw.group]).tobytes()).hexdigest()[:8],
        "fitted": int(fit.sum()),
        "labeled": int((draw.y >= 0).sum()),
        "groups": int(draw.group.max() + 1),
    }
    for method in methods:
        if time() > deadline:
            return
        if draw.truth.max() > 1 and method.kind != "package":
            continue  # the prototype knows two classes
        try:
            found = run(method, draw)
        except Exception:
            found = {"error": traceback.format_exc()[-1500:]}
        with out.open("a") as file:
            # In one piece: other processes write to the same file.
            file.write(
                json.dumps({**same, "method": method.name, "code": method.code, **found}, default=_plain)
                + "\n"
            )


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)


def read_lines(paths: list[Path]) -> list[dict]:
    """Of each draw and method the last. What was killed while it wrote is half a line, and does not count."""
    found = {}
    for path in paths:
        for text in path.read_text().splitlines() if path.exists() else []:
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            found[(*_place(line), line["method"])] = line
    return list(found.values())


def _finish_line(path: Path) -> None:
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a") as file:
            file.write("\n")


def _place(line: dict) -> tuple:
    return tuple(line[name] for name in KEY)


def _summary(options: argparse.Namespace) -> None:
    lines = read_lines(options.files)
    for name, wanted in (
        ("table", options.tables),
        ("kind", options.kinds),
        ("rows", options.rows),
        ("method", options.methods),
    ):
        lines = [line for line in lines if not wanted or line[name] in wanted or line[name] == options.base]
    for line in lines:
        if "error" in line:
            print(f"failed: {line['method']} on {_place(line)}: {line['error'].splitlines()[-1]}")
    for text in summary([line for line in lines if "error" not in line], options):
        print(text)


# Scores as they are, with the unit in which they are printed. Intervals have names of their own: "coverage_wide".
PLAIN = {"share_error": 1000, "coverage": 100, "width": 100, "n_clusters": 1, "seconds": 1}


def summary(lines: list[dict], options: argparse.Namespace) -> Iterator[str]:
    """Tables of methods by kinds, for each number of rows. Means are of the columns; ± is a standard error over draws."""
    import pandas as pd

    # Of all methods the same draws: those of the base.
    there = {_place(line) for line in lines if line["method"] == options.base}
    if not there:
        raise SystemExit(f"No draw was measured with {options.base!r}. Choose another --base.")
    every = pd.DataFrame([line for line in lines if _place(line) in there])
    for size, found in every.groupby("rows"):
        yield f"\n# {size} rows, {len(found.groupby(list(KEY)))} draws"
        for name in options.scores:
            less = _less(found, name, options.base)
            sign = 1 if name.startswith("auc") else -1
            yield f"\n{name} less {options.base}, .0001\n{_table(less, options.by, sign)}"
        for start, unit in PLAIN.items():
            for name in (name for name in found if name.startswith(start) and not name.endswith("_test")):
                values = unit * found.set_index([*KEY, "method"])[name].unstack()
                yield f"\n{name}{f', 1/{unit}' * (unit > 1)}\n{_table(values, options.by)}"
        for name, sign in (("auc_test", 1), ("log_loss_test", -1)):
            worst = (sign * _less(found, name, options.base)).stack().dropna().nsmallest(options.worst)
            yield f"\nworst {name}"
            for (table, kind, _, seed, method), value in worst.items():
                yield f"  {sign * value:+7.0f}  {method}: {kind}, {table}, seed {seed}"


def _less(found, name: str, base: str):
    """Draws by methods: a score less the base's, where both were measured on the same draw."""
    wide = found.set_index([*KEY, "draw", "method"])[name].unstack()
    less = 1e4 * wide.sub(wide[base], axis=0).drop(columns=base)
    return less.droplevel("draw").dropna(how="all")


def _table(values, by: str, sign: int = 0) -> str:
    """Methods by kinds; of differences, with their errors and how often they have this sign."""
    import pandas as pd

    values = values.dropna(how="all", axis=1)
    cells = values.groupby(by, sort=False)
    mean, error = cells.mean().T, cells.sem().T
    total, total_error = (
        mean.mean(axis=1),
        (error**2).sum(axis=1, skipna=False) ** 0.5 / mean.notna().sum(axis=1),
    )
    if sign:
        text = mean.map("{:+.0f}".format) + error.map(" ±{:.0f}".format)
        text["mean"] = total.map("{:+.0f}".format) + total_error.map(" ±{:.0f}".format)
        text["better %"] = (100 * (sign * values > 0).sum() / values.notna().sum()).map("{:.0f}".format)
    else:
        text = pd.concat([mean, total.rename("mean")], axis=1).map("{:.3g}".format)
    text["draws"] = values.notna().sum().astype(str)
    return text.replace({" ±nan": "", r"\+nan": "", "nan": ""}, regex=True).to_string()


if __name__ == "__main__":
    # Worker processes find functions by the name of their module, which "__main__" is not.
    from benchmarks import ablation

    ablation.main()
