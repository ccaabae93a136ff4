"""What differs between an experiment and the paper, in sentences: found by comparing, not remembered."""

from collections.abc import Iterator
from dataclasses import fields

from groupshift._explain.wording import plural
from paper.results import Results
from paper.spec import Experiment, ReviewsData, SyntheticData
from paper.spec_files import load_experiment

# The paper's Table 3.
PAPER_ROWS = {"income": 8_116_931, "employment": 15_949_380, "ipr": 15_949_380}
PAPER_DIMENSIONS = 384


def against_paper(results: Results) -> list[str]:
    """Sentences on sizes, protocol and data that are not the paper's."""
    ours, paper = results.experiment, load_experiment("paper", scale="paper")
    return [*_protocol(ours, paper), *_synthetic(ours, paper), *_tables(results)]


def _protocol(ours: Experiment, paper: Experiment) -> Iterator[str]:
    if ours.repetitions != paper.repetitions:
        yield f"{plural(ours.repetitions, 'draw')} of each data set where the paper has at least {paper.repetitions}."
    for method in ours.methods:
        if method.repetitions is not None and method.repetitions < ours.repetitions:
            yield f"{method.label} has {plural(method.repetitions, 'draw')} only, for its cost."
    if ours.classifier != paper.classifier:
        yield f"Classifier: {ours.classifier} where the paper has {paper.classifier}."
    if ours.calibration != paper.calibration:
        yield (
            f"Calibration: {ours.calibration} (Platt scaling on out-of-fold scores) where the paper "
            "holds out 20 %."
        )
    for f in fields(paper.resampling):
        mine, theirs = getattr(ours.resampling, f.name), getattr(paper.resampling, f.name)
        if mine != theirs:
            yield f"Resampling: {f.name} is {mine}, {theirs} in the paper's text."
    for method in ours.methods:
        if method.params:
            changed = ", ".join(f"{k} = {v}" for k, v in method.params.items())
            yield f"{method.label} runs with {changed}."


def _synthetic(ours: Experiment, paper: Experiment) -> Iterator[str]:
    theirs = next(d for d in paper.data if isinstance(d, SyntheticData))
    for mine in ours.data:
        if not isinstance(mine, SyntheticData):
            continue
        yield (
            "Synthetic sets have d in {1, 4, 16, 64} and K in {1, 2, 4, 8}, as in the paper's Figure 3; "
            "its text swaps them."
            if (mine.dimensions, mine.clusters) == (theirs.dimensions, theirs.clusters)
            else f"Synthetic sets: d in {list(mine.dimensions)}, K in {list(mine.clusters)}."
        )
        for name in ("groups", "labeled_per_group", "unlabeled_per_group"):
            if getattr(mine, name) != getattr(theirs, name):
                what = name.replace("_", " ").replace("labeled", "labelled")
                yield (
                    f"Synthetic {what}: {_size(getattr(mine, name))} where the paper has "
                    f"{_size(getattr(theirs, name))}."
                )


def _size(value: int | tuple[float, float]) -> str:
    return f"N({value[0]:g}, {value[1]:g}²)" if isinstance(value, tuple) else f"{value:,}"


def _tables(results: Results) -> Iterator[str]:
    for data in results.experiment.data:
        if isinstance(data, SyntheticData):
            continue
        facts = results.tables.get(data.name, {})
        used = min(data.max_rows or facts.get("rows", 0), facts.get("rows", 0))
        sentence = f"{data.name}: {used:,} rows a draw"
        if facts:
            sentence += (
                f" out of {facts['rows']:,} in {facts['groups']} groups, {len(facts['features'])} features"
            )
        if data.name in PAPER_ROWS:
            sentence += f"; the paper has {PAPER_ROWS[data.name]:,} rows"
        if isinstance(data, ReviewsData) and data.components:
            sentence += f" (principal components of {PAPER_DIMENSIONS} in the paper)"
        sentence += f". {data.note}" if data.note else "."
        if facts.get("missing_features"):
            sentence += f" Not in the file: {', '.join(facts['missing_features'])}."
        yield sentence
