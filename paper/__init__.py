"""The paper's protocol as data: read an experiment, run it so that it can be killed, and report on it.

>>> from paper import load_experiment
>>> load_experiment("paper", scale="small").classifier.name
'forest'
"""

from paper.grid import Draw, Task, list_tasks
from paper.run import run_experiment
from paper.spec import Experiment
from paper.spec_files import load_experiment
from paper.store import Store

__all__ = ["Draw", "Experiment", "Store", "Task", "list_tasks", "load_experiment", "run_experiment"]
