"""Fills the block of docs/explanation/performance.md that shows measurements.

    python docs/make_performance_page.py [results/benchmarks/growth.json]

The numbers are those of the file, which `python -m benchmarks growth` writes. Nothing but what stands between the comments
changes.
"""

import json
import sys
from pathlib import Path

from make_results_rows import filled, markdown

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explanation" / "performance.md"
GROWTH = ROOT / "results" / "benchmarks" / "growth.json"
ABSENT = "The measurements of this table have not been made yet: `python -m benchmarks growth`."


def main(source: str | None = None) -> None:
    PAGE.write_text(current(PAGE.read_text(), Path(source) if source else GROWTH))


def current(text: str, source: Path = GROWTH) -> str:
    """The page with its block as the file has it now."""
    return filled(text, "growth", block(source))


def block(source: Path) -> str:
    """Seconds of each stage at each size, one table for rows, columns, groups and clusters."""
    if not source.is_file():
        return ABSENT
    report = json.loads(source.read_text())
    usual = ", ".join(f"{size:,} {axis}" for axis, size in report["usual"].items())
    said = (
        f"Seconds of {report['clock']} on {report['machine']}, made by `{report['command']}`. What a table does not vary: "
        f"{usual}, one row in five labelled. The exponent is the slope of log seconds on log size: 1 is linear; it is left "
        "out where a stage takes less than a tenth of a second."
    )
    return "\n\n".join([said, *(_table(axis, growth) for axis, growth in report["growth"].items())])


def _table(axis: str, growth: dict) -> str:
    sizes, seconds, exponents = growth["sizes"], growth["seconds"], growth["exponents"]
    stages = list(dict.fromkeys(stage for one in seconds for stage in one))
    body = [
        [stage, *(f"{one.get(stage, 0.0):.2f}" for one in seconds), _exponent(exponents.get(stage))]
        for stage in stages
    ]
    return markdown([axis, *(f"{size:,}" for size in sizes), "exponent"], body)


def _exponent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main(*sys.argv[1:2])
