"""A survey by state: opinions of volunteers, and everybody else."""

# --- data
from groupshift.datasets import make_survey

survey = make_survey(
    n_groups=30, labeled_per_group=100, unlabeled_per_group=400, backend="pandas", random_state=0
)
X, y, states, _ = survey.training()
print(X.assign(state=states, in_favour=y).head(4).to_string(index=False))

# --- fit
from groupshift import GroupShiftClassifier

model = GroupShiftClassifier(random_state=0).fit(X, y, groups=states)
print(model.summary())

# --- shares
print(model.group_shares(by="group").head(5).round(3).to_string(index=False))

# --- predict
new_X, truth, new_states = survey.testing()
probability = model.predict_proba(new_X, groups=new_states)[:, 1]

# --- compare
from groupshift.metrics import evaluate

# The same boosted trees, blind to states.
plain = GroupShiftClassifier(partition=1, shares=None, shrinkage="none", random_state=0)
plain.fit(X, y, groups=states)
for name, p in {"plain": plain.predict_proba(new_X, new_states)[:, 1], "groupshift": probability}.items():
    found = evaluate(truth, p, groups=new_states).overall
    print(f"{name:11} AUC {found['auc']:.3f}   log loss {found['log_loss']:.3f}")

# --- draw
from groupshift.displays import CalibrationByGroupDisplay, GroupSharesDisplay, ShiftsDisplay

GroupSharesDisplay.from_estimator(model)
ShiftsDisplay.from_estimator(model)
CalibrationByGroupDisplay.from_estimator(model)
# --- end

import matplotlib.pyplot as plt
import numpy as np

# What the judge weighed, for the page about it.
table = model.candidates_
order = np.argsort(table["loss"])[::-1]
figure, ax = plt.subplots(figsize=(6.4, 4.2))
color = np.where(table["chosen"][order], "#D55E00", "#0072B2")
place = np.arange(len(order))
ax.hlines(
    place,
    table["gain"][order] - table["std_error"][order],
    table["gain"][order] + table["std_error"][order],
    color=color,
)
ax.scatter(table["gain"][order], place, color=color, zorder=3)
ax.set_yticks(place, table["name"][order], fontsize=8)
ax.axvline(0, color="#777777", linewidth=0.8)
ax.set_xlabel("fall of the log loss on hidden labels, ± one standard error over states")
