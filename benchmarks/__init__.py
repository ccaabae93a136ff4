"""Speed with accuracy beside it: `python -m benchmarks` runs all, `python -m benchmarks predict` one."""
