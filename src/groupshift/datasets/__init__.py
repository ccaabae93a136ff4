"""Data to try methods on: generators with a known truth, the paper's protocols for any table, and flights.

Importing this package is cheap: scikit-learn, pandas and the packages of the extras are loaded where they
are used.
"""

from groupshift.datasets.bias import bias_groups, natural_split
from groupshift.datasets.class_mixture import make_grouped_classes
from groupshift.datasets.election_survey import make_survey
from groupshift.datasets.flights import load_flights
from groupshift.datasets.mixture import make_grouped_mixture
from groupshift.datasets.sample import GroupedSample, LabeledTable

__all__ = [
    "GroupedSample",
    "LabeledTable",
    "bias_groups",
    "load_flights",
    "make_grouped_classes",
    "make_grouped_mixture",
    "make_survey",
    "natural_split",
]
