"""An audit of the survey by state: fifty people are asked, and the shares of all states follow."""

# --- data
from groupshift.datasets import make_survey

survey = make_survey(
    n_groups=30, labeled_per_group=100, unlabeled_per_group=400, backend="pandas", random_state=0
)
X, y, states, _ = survey.training()
everybody = X[y == -1].reset_index(drop=True)
their_states = states[y == -1]

# --- fit
from groupshift import GroupShiftClassifier

model = GroupShiftClassifier(random_state=0).fit(X, y, groups=states)
print(model.diagnose().caution[-1])

# --- plan
plan = model.audit(everybody, their_states, budget=50)
print("\nHow precise labels would be (shares of 1):")
for labels, width, error in zip(*plan.precision.values(), strict=True):
    print(f"{labels:4d} labels   interval {width:.3f} wide   error of {error:.3f} found out")
print("\nThe first people to ask:")
print(everybody.iloc[plan.rows[:3]].to_string())

# --- ask
# Somebody asks these people. Here the survey is invented, so that we know what they would say.
opinion = survey.truth[~survey.test][y == -1]
answers = {int(person): int(opinion[person]) for person in plan.rows}

# --- refuse
del answers[int(plan.rows[7])]  # one person does not want to answer,
spare = int(plan.spares[0])
answers[spare] = int(opinion[spare])  # and the first spare one is asked instead

# --- peek
import copy

first_ten = {person: answers[person] for person in list(answers)[:10]}
early = copy.deepcopy(model).learn_audit(plan.labeled(first_ten))
money = early.audit_.verdicts.share_money
print(f"\nAfter ten labels, bets against the share stand at {money[-1]:.1f}; 20 is enough.")

# --- learn
before = model.group_shares(by="group")
model.learn_audit(plan.labeled(answers))
for sentence in model.diagnose().caution[-6:]:
    print("-", sentence)

# --- check
from groupshift.metrics import evaluate

found = model.audit_
low, high = found.posterior.interval(0.9)
print(
    f"\nTruth {opinion.mean():.3f}; claimed {found.claimed_share:.3f}; after the audit {low:.3f} to {high:.3f}"
)
after = model.group_shares(by="group")
truth = [opinion[their_states == state].mean() for state in after["group"]]
for name, shares in {"before": before, "after": after}.items():
    error = (shares["share"] - truth).abs().mean()
    print(
        f"{name:7} mean error of a state's share {error:.3f}, mean width {(shares.high - shares.low).mean():.3f}"
    )
new_X, new_truth, new_states = survey.testing()
p = model.predict_proba(new_X, groups=new_states)[:, 1]
print(f"log loss on new people {evaluate(new_truth, p, groups=new_states).overall['log_loss']:.3f}")
# --- end

import matplotlib.pyplot as plt
import numpy as np

verdicts = found.verdicts
figure, ax = plt.subplots(figsize=(6.4, 3.6))
step = np.arange(1, len(verdicts.low) + 1)
ax.fill_between(step, verdicts.low, verdicts.high, color="#0072B2", alpha=0.25, linewidth=0)
ax.axhline(found.claimed_share, color="#D55E00", linestyle="--", label="as estimated before")
ax.axhline(opinion.mean(), color="#000000", linewidth=0.8, label="truth")
ax.set_ylim(0, 1)
ax.set_xlabel("labels so far")
ax.set_ylabel("overall share that remains possible")
ax.legend(frameon=False)
