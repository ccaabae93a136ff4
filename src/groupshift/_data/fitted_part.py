"""Parts of a model that are fitted values from their making."""

from typing import Self


class FittedPart:
    """scikit-learn's `clone` hands such a part on as it is."""

    def __sklearn_clone__(self) -> Self:
        return self
