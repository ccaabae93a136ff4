"""How the trust falls as the assumption breaks, and what that saves."""

import matplotlib.pyplot as plt
import numpy as np
from groupshift._fit.trials import LabeledRows, gain, log_loss_rows, try_partition
from scipy.special import expit, logit

rng = np.random.default_rng(0)
n_groups, rows_per_group, distance = 60, 150, 1.5
group = np.repeat(np.arange(n_groups), rows_per_group)
fold = rng.integers(0, 5, len(group))
violations = np.array([0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8])
print(f"{'violation':>9} {'trust':>6} {'gain, trusted':>14} {'gain, raw':>10}")
found = []
for violation in violations:
    share = expit(rng.normal(0, 0.7, n_groups))
    y = (rng.random(len(group)) < share[group]).astype(int)
    # Hills of both classes move together in each group: unlabelled rows cannot tell this from another share.
    x = rng.normal(np.where(y == 1, 1, -1) * distance / 2 + rng.normal(0, violation, n_groups)[group])
    score = distance * x + logit(y.mean())
    rows = LabeledRows(score, y, np.ones(len(y)), group, fold)
    trial = try_partition(rows, np.zeros(len(y), int), 1)
    plain = log_loss_rows(trial.log_odds, y)
    trusted = gain(plain, trial.loss, rows)[0]
    raw = gain(plain, log_loss_rows(trial.log_odds + trial.shift, y), rows)[0]
    found.append((trial.trust.value, trusted, raw))
    print(f"{violation:>9} {trial.trust.value:>6.2f} {trusted:>14.4f} {raw:>10.4f}")
value, trusted, raw = np.array(found).T
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(violations, value, "o-", color="#0072B2")
left.set(ylim=(0, 1.05), ylabel="learned trust", xlabel="spread of the hills between groups")
right.plot(violations, trusted, "o-", color="#0072B2", label="with learned trust")
right.plot(violations, raw, "s--", color="#D55E00", label="raw shifts (trust 1)")
right.axhline(0, color="#777777", linewidth=0.8)
right.set(ylabel="fall of the log loss on hidden labels", xlabel="spread of the hills between groups")
right.legend(fontsize=8)
