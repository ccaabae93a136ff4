"""Regions of feature space: partitions and the candidates for them."""
