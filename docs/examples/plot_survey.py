"""
A survey by state
=================

Volunteers in each state told us whether they favor a new railway. They are younger and keener than their state. For many more
people we know everything but the opinion. What share of each state is in favor?
"""

# %%
# One row is a person. The label ``in_favor`` is 1, 0, or -1 where it is unknown. Categories and missing values stay as they are.

from groupshift.datasets import make_survey

survey = make_survey(n_groups=30, labeled_per_group=100, backend="pandas", random_state=0)
X, y, states, _ = survey.training()
print(X.assign(state=states, in_favor=y).head())

# %%
# Fit
# ---
# The summary has the shares and says whether the correction is worth it.

from groupshift import GroupShiftClassifier

model = GroupShiftClassifier(random_state=0).fit(X, y, groups=states)
print(model.summary())

# %%
# Shares of states
# ----------------
# The picture shows the estimated share of each state with its interval, and the share among its volunteers.

from groupshift.displays import GroupSharesDisplay

print(model.group_shares(by="group").head().round(2))
GroupSharesDisplay.from_estimator(model)

# %%
# The shift of a cell (a state and a cluster) is what is added to the log-odds of its rows.

from groupshift.displays import ShiftsDisplay

ShiftsDisplay.from_estimator(model)

# %%
# Check
# -----
# The survey is invented, so we can compare with the truth. The rival is the same classifier without shifts.

from groupshift.metrics import evaluate

new_X, truth, new_states = survey.testing()
plain = GroupShiftClassifier(partition=1, shares=None, shrinkage="none", random_state=0).fit(
    X, y, groups=states
)
for name, fitted in {"plain": plain, "groupshift": model}.items():
    found = evaluate(truth, fitted.predict_proba(new_X, new_states)[:, 1], groups=new_states).overall
    print(f"{name:11} AUC {found['auc']:.3f}   log loss {found['log_loss']:.3f}")

# %%
# With your own data, held-out labels take the place of the truth: each labeled state is predicted without its labels.

from groupshift.displays import CalibrationByGroupDisplay

CalibrationByGroupDisplay.from_estimator(model)

# %%
# Next: :doc:`update the model each month </howto/monthly_refresh>`, :doc:`use survey weights </howto/weights>`,
# :doc:`read the diagnosis </howto/reading_the_diagnosis>`.
