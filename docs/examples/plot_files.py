"""
A population in files
=====================

The people without labels are in a file that may be larger than memory. It is read in batches, and the answer is that of a fit in
memory. :doc:`/howto/larger_than_memory` has the same for a cluster.
"""

# %%
# Labeled rows are a frame, and the population is a Parquet file.

import tempfile
from pathlib import Path

from groupshift.datasets import make_survey

survey = make_survey(n_groups=20, labeled_per_group=100, backend="pandas", random_state=0)
table = survey.to_table(group="state", label="in_favor")
labeled = table[table["in_favor"].notna()]
people = table[table["in_favor"].isna()].drop(columns="in_favor")
folder = Path(tempfile.mkdtemp())
people[::2].to_parquet(folder / "may.parquet")
people[1::2].to_parquet(folder / "june.parquet")

# %%
# Is it worth it?
# ---------------
# ``check`` fits to a sample of the rows.

from groupshift import GroupShiftClassifier, streaming

columns = {"target": "in_favor", "group": "state"}
model = GroupShiftClassifier(random_state=0)
print(streaming.check(model, labeled, folder / "may.parquet", **columns).verdict)

# %%
# Fit and predict
# ---------------

streaming.fit(model, labeled, folder / "may.parquet", **columns)
streaming.predict(model, folder / "may.parquet", folder / "answers.parquet", group="state", keep=["state"])

# %%
# Keep the model
# --------------
# The file runs no code when it is loaded. Its manifest says what it is.

from groupshift import load, read_manifest, save

save(model, folder / "may.gshift")
print(list(read_manifest(folder / "may.gshift")))

# %%
# The next month
# --------------
# ``update`` estimates the shares again, without new labels.

from groupshift import share_changes

june = streaming.update(load(folder / "may.gshift"), folder / "june.parquet", group="state")
print(share_changes(model, june).head(3).round(3))

# %%
# Which rows to label
# -------------------

plan = streaming.audit(june, folder / "june.parquet", group="state", budget=30)
print(plan.rows[:5])

# %%
# Shares with a picture:

from groupshift.displays import GroupSharesDisplay

GroupSharesDisplay.from_estimator(june)
