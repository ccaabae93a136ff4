"""Rows: frames to numbers, checks of what came in, chunks."""
