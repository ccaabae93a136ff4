"""The article's experiments: what is to be run (`specs`), its data, runs that can be stopped, and a report.

>>> from paper import load_experiment
>>> load_experiment("paper", scale="small").classifier["n_estimators"]
25
"""

from paper.grid import list_tasks
from paper.run import run_experiment
from paper.spec import Experiment, load_experiment

__all__ = ["Experiment", "list_tasks", "load_experiment", "run_experiment"]
