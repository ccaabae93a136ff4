"""Partitions of feature space into cells inside which classes look alike in every group."""
