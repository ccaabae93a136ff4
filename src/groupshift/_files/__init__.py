"""Model files: our values as arrays and JSON, scikit-learn's parts by skops; what is not written down is not loaded."""
