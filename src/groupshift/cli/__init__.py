"""The command line: files in, predictions and a report out. `main` is the entry point."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 if all went well, 2 for usage and bad input, 1 for a fault of ours."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write(
            'The command line needs typer and rich. Install them with: pip install "groupshift[cli]"\n'
        )
        sys.exit(2)
    from groupshift.cli.errors import run

    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))
