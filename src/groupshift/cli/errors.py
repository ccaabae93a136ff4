"""Exit codes, and errors as one readable paragraph."""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from groupshift.cli.screen import Screen
from groupshift.tables.arrow import SourceError
from groupshift.tables.files import OutputError

OK, INTERNAL, BAD_INPUT, STOPPED = 0, 1, 2, 130
STOPPED_SAID = "Stopped. An output that was not complete is not written."


class InputError(ValueError):
    """Something in the command or its files that the user can put right."""


def check_choice(option: str, value: str, choices: Collection[str]) -> None:
    """Refuse a value that is none of those that an option takes."""
    if value not in choices:
        raise InputError(f"{option} {value!r} is not known. Choose one of {', '.join(choices)}.")


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
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "groupshift"
        screen.error(f"{error.format_message()} Try '{command} --help'.")
        return BAD_INPUT
    if (sentence := for_user(error)) is not None:
        screen.error(sentence)
        return BAD_INPUT
    screen.error(
        f"This should not have happened: {type(error).__name__}: {error}. Run the command again with "
        "--debug and report what it shows. Outputs are written whole or not at all: look whether yours is there."
    )
    return INTERNAL


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
    is_users = isinstance(error, (InputError, SourceError, OutputError, ImportError))
    if isinstance(error, OSError):
        is_users |= error.errno is not None
    elif isinstance(error, (ValueError, TypeError)):
        # Written for the user where it was raised in our own code.
        frames = traceback.extract_tb(error.__traceback__)
        is_users |= bool(frames) and Path(frames[-1].filename).is_relative_to(Path(__file__).parents[1])
    return str(error) if is_users else None
