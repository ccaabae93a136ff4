"""Exit codes, and errors as one readable paragraph."""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from groupshift.cli.screen import Screen
from groupshift.tables.arrow import SourceError
from groupshift.tables.files import STANDARD_OUTPUT, OutputError, check_output, table_format

OK, INTERNAL, BAD_INPUT, STOPPED = 0, 1, 2, 130
STOPPED_SAID = "Stopped. An output that was not complete is not written."


class InputError(ValueError):
    """Something in the command or its files that the user can put right."""


def check_answer(
    out: str | None, *, force: bool, as_json: bool, inputs: Sequence[str] = (), coverage: float = 0.9
) -> None:
    """Refuse options that cannot be answered, before any work is done: of a table, if `out` names one."""
    if not 0 < coverage < 1:
        raise InputError(
            f"--coverage {coverage} is no probability. Pass a number between 0 and 1, such as 0.9."
        )
    if as_json and out == STANDARD_OUTPUT:
        raise InputError("--json and --out - both want standard output. Name a file for one of them.")
    if out is not None:
        check_output(out, force=force, inputs=inputs)
        table_format(out)


def check_model_output(out: str, *, force: bool, inputs: Sequence[str] = ()) -> None:
    """The same for a model."""
    if out == STANDARD_OUTPUT:
        raise InputError("A model is no text: name a file for it, such as --out model.gshift.")
    check_output(out, force=force, inputs=inputs)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; what goes wrong is said on standard error."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    from groupshift.cli.app import parsed_app

    with warnings.catch_warnings():
        # What the library warns of is said as a note; what others warn of is no business of an analyst's.
        if not debug:
            warnings.simplefilter("ignore")
        command = partial(parsed_app(), arguments, prog_name="groupshift", standalone_mode=False)
        return guarded(command, debug=debug)


def guarded(command: Callable[[], object], *, debug: bool = False) -> int:
    """The exit code of a command, its errors said."""
    try:
        code = command()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        return _closed_pipe(error)
    except (KeyboardInterrupt, EOFError):
        code = STOPPED
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _report(error)
    if code == STOPPED:  # typer turns Ctrl-C into this code
        Screen().error(STOPPED_SAID)
    return code if isinstance(code, int) else OK


def _closed_pipe(error: BaseException) -> int:
    """The reader of a pipe has seen enough; typer and rich turn that into an exit."""
    if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
        return error.code if isinstance(error.code, int) else INTERNAL
    # Python would complain once more when it closes the pipe.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + signal.SIGPIPE


def _report(error: Exception) -> int:
    screen = Screen()
    if type(error).__name__ == "Exit" and hasattr(error, "exit_code"):
        return int(error.exit_code)
    if type(error).__name__ == "Abort":
        screen.error(STOPPED_SAID)
        return STOPPED
    if hasattr(error, "format_message"):  # typer's, whichever click it is built on
        screen.error(f"{error.format_message()} {_help_hint(error)}")
        return BAD_INPUT
    if (sentence := for_user(error)) is not None:
        screen.error(sentence)
        return BAD_INPUT
    screen.error(
        f"This should not have happened: {type(error).__name__}: {error}. Run the command again with "
        "--debug and report what it shows. Outputs are written whole or not at all: look whether yours is there."
    )
    return INTERNAL


def _help_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"Try '{context.command_path if context else 'groupshift'} --help'."


def for_user(error: Exception) -> str | None:
    """What to say of an error that is no fault of ours; None where it is one."""
    if isinstance(error, MemoryError):
        return (
            "There is not enough memory for this. Close other programs, leave columns out (--features, --exclude), or use a "
            "larger machine. Nothing was written."
        )
    # pyarrow names the type, and mostly the column, that it cannot do with what was asked for.
    if type(error).__module__.startswith("pyarrow") and type(error).__name__.startswith("Arrow"):
        found = (str(error).splitlines() or [type(error).__name__])[0][:200]
        return (
            f"A column is of a type that cannot be used here ({found}). Write it as numbers, text or dates, or leave it out with "
            "--exclude."
        )
    return str(error) if is_users(error) else None


def is_users(error: Exception) -> bool:
    """Whether the message was written for the user: raised in our own code, or about a file."""
    if isinstance(error, (InputError, SourceError, OutputError, ImportError)):
        return True
    if isinstance(error, OSError):
        return error.errno is not None
    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(__file__).parents[1]
    return (
        isinstance(error, (ValueError, TypeError))
        and bool(frames)
        and Path(frames[-1].filename).is_relative_to(ours)
    )
