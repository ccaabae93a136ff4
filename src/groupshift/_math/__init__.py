"""Mathematics on arrays: NumPy and SciPy only."""
