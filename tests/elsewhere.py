"""What tests have other processes do. It imports nothing that takes long: every process that is started reads this file."""

import os
import time
import warnings

# A process that imports this module has another number; the one that it works for hands on its own.
HERE_OF_TEST = int(os.environ.setdefault("GROUPSHIFT_TEST_PROCESS", str(os.getpid())))


def get_ready():
    """All that a process needs for what is here; boosted trees need more, which takes half as long again."""
    import groupshift._data.workers  # noqa: F401


def has_helpers():
    from groupshift._data import workers as spread

    with spread.workers(2, spread.FEWEST_NUMBERS):
        return spread._helpers.get() is not None


def where(_):
    return os.getpid()


def where_after_a_while(_):
    # Long enough for the other process to have its turn.
    time.sleep(0.2)
    return os.getpid()


def square(i):
    time.sleep(0.01 * (i % 3))
    return i**2


def asleep_elsewhere(item):
    if os.getpid() != HERE_OF_TEST:
        time.sleep(600)
    return item


def deadly_elsewhere(_):
    if os.getpid() != HERE_OF_TEST:
        os._exit(1)
    time.sleep(0.2)
    return os.getpid()


def long_elsewhere(_):
    if os.getpid() != HERE_OF_TEST:
        time.sleep(600)
    time.sleep(0.2)
    raise KeyboardInterrupt


def refuse(item):
    raise ValueError(f"{item} is not wanted")


def refuse_after_a_while(item):
    time.sleep(0.1)
    raise ValueError(f"{item} is not wanted")


def warn(item):
    time.sleep(0.1)
    # Late: whoever asks for it has loaded it.
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(f"{item} is not there yet", ConvergenceWarning, stacklevel=1)
