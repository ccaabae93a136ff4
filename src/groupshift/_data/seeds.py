"""Random draws of a fit, each from a stream of its own.

Two draws from one stream look independent and are not: a sample taken by a hash and folds taken by the same hash put
the whole sample into one fold. So every draw has a name, and a name belongs to one draw.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np


@dataclass(frozen=True)
class Seeds:
    """Seeds of all streams of one fit.

    >>> seeds = Seeds(0)
    >>> seeds.named("soft rows") == seeds.named("soft folds"), seeds.named("soft rows") == Seeds(0).named("soft rows")
    (False, True)
    """

    root: int

    def named(self, stream: str) -> int:
        """The seed of a stream: below 2³¹ − 1000, so that scikit-learn takes it and a few numbers beyond it."""
        digest = blake2b(f"{self.root}/{stream}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % (2**31 - 1000)

    def generator(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(self.named(stream))
