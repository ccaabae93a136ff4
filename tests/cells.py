"""What tests of points and shares draw: rows of a few cells, and scores of two Gaussian classes."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logit
from scipy.stats import norm

scores = arrays(float, st.integers(1, 40), elements=st.floats(-8, 8))
priors = st.floats(0.02, 0.98)


@st.composite
def tables(draw):
    """Rows of up to four cells: score, cell, weight, and the labelled prior of each cell."""
    score = draw(scores)
    cell = draw(arrays(np.int64, len(score), elements=st.integers(0, 3)))
    weight = draw(arrays(float, len(score), elements=st.floats(0.1, 10)))
    prior = draw(arrays(float, 4, elements=priors))
    return score, cell, weight, prior


def mixture(share, n, *, seed=0, distance=1.5, prior=0.5):
    """Log-odds under `prior` of n rows of two unit Gaussians, `share` of them positive; and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    x = rng.normal(distance * y)
    return logit(prior) + norm.logpdf(x, distance) - norm.logpdf(x, 0), y
