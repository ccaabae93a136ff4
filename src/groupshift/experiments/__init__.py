"""The paper's protocol as data: read an experiment, run it so that it can be killed, and report on it.

>>> from groupshift.experiments import load_experiment
>>> load_experiment("paper", scale="small").classifier.name
'forest'
"""

from groupshift.experiments.grid import Draw, Task, list_tasks
from groupshift.experiments.run import run_experiment
from groupshift.experiments.spec import Experiment
from groupshift.experiments.spec_files import load_experiment
from groupshift.experiments.store import Store

__all__ = ["Draw", "Experiment", "Store", "Task", "list_tasks", "load_experiment", "run_experiment"]
