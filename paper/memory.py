"""Peak memory of this process, between two moments where the system allows it."""

import contextlib
import sys
from pathlib import Path


def reset_peak_memory() -> float:
    """Let the peak start anew, at the memory in use, which is returned in MB.

    Only Linux can; elsewhere the peak stays that of the process so far.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory_mb()


def peak_memory_mb() -> float:
    """Largest resident memory since the reset, in MB, the data included; NaN where it cannot be known.

    >>> peak_memory_mb() > 1
    True
    """
    with contextlib.suppress(OSError, IndexError):
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    with contextlib.suppress(ImportError):  # on Windows
        import resource

        # Bytes on a Mac, kilobytes elsewhere.
        unit = 1024**2 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return float("nan")
