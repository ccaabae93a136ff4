"""The command line: files in, predictions and a report out. `main` is the entry point."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

NEEDED = ("typer", "rich", "pyarrow", "skops", "jinja2")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 if all went well, 2 for usage and bad input, 1 for a fault of ours."""
    # Looked for and not imported: help should not wait for pyarrow.
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        sys.stderr.write(
            f'The command line needs {", ".join(missing)}. Install it with: pip install "groupshift[cli]"\n'
        )
        sys.exit(2)
    from groupshift.cli.errors import run

    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))
