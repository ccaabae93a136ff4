"""What a fit did not note yet when older models were saved, and what these are taken to have learned."""

from typing import Any

import numpy as np

# Copies were not counted, clusters not marked for labels of one class, and trust was held to be known.
NOT_NOTED = {"design_effect_": 1.0, "rarer_class_rows_": np.inf, "trust_variance_": 0.0}


def noted(model: Any, name: str) -> Any:
    """An attribute of a fitted model, or what models from before it have in its place.

    >>> noted(object(), "trust_variance_")
    0.0
    """
    return getattr(model, name, NOT_NOTED[name])
