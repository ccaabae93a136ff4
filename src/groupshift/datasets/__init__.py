"""Data to try methods on: generators with a known truth, the paper's resampling of any table, and flights.

Importing this package is cheap: scikit-learn, pandas and the packages of the extras are loaded where they
are used.
"""

from groupshift.datasets.bias import bias_groups
from groupshift.datasets.flights import load_flights
from groupshift.datasets.mixture import make_grouped_classes, make_grouped_mixture
from groupshift.datasets.sample import GroupedSample, LabeledTable
from groupshift.datasets.survey import make_survey

__all__ = [
    "GroupedSample",
    "LabeledTable",
    "bias_groups",
    "load_flights",
    "make_grouped_classes",
    "make_grouped_mixture",
    "make_survey",
]
