"""Data to try methods on: generators with a known truth, the paper's protocols, and loaders of real data.

Importing this package is cheap: scikit-learn, pandas and the packages of the extras are loaded where they
are used.
"""

from groupshift.datasets.acs import acs_task
from groupshift.datasets.bias import bias_groups, natural_split
from groupshift.datasets.class_mixture import make_grouped_classes
from groupshift.datasets.election_survey import make_survey
from groupshift.datasets.embedding import embed_reviews
from groupshift.datasets.flights import load_flights
from groupshift.datasets.mixture import make_grouped_mixture
from groupshift.datasets.reviews import load_reviews
from groupshift.datasets.sample import GroupedSample, LabeledTable

__all__ = [
    "GroupedSample",
    "LabeledTable",
    "acs_task",
    "bias_groups",
    "embed_reviews",
    "load_flights",
    "load_reviews",
    "make_grouped_classes",
    "make_grouped_mixture",
    "make_survey",
    "natural_split",
]
