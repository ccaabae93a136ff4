"""Why one candidate partition was taken and the others left, by the rule that decided."""

import numpy as np

from groupshift._math.arrays import Table
from groupshift._partitions.choice import margin


def reasons(table: Table, n_groups: int) -> list[str]:
    """For each candidate, in the order of its table, why it was taken or left."""
    needed, found = margin(n_groups), []
    most = float(np.max(table["gain"][table["chosen"]], initial=0.0))
    columns = (table[name].tolist() for name in ("n_clusters", "gain", "gain_error", "chosen"))
    for n_clusters, gain, error, chosen in zip(*columns, strict=True):
        if chosen:
            found.append("chosen")
        elif n_clusters == 1:
            found.append("a better one was found")
        elif gain <= 0:
            found.append("no gain over one cluster")
        elif gain <= needed * error:
            found.append(f"gain within noise ({gain / error:.1f} standard errors, {needed:.1f} needed)")
        else:
            found.append("the chosen one gains more" if gain < most else "no better than the chosen one")
    return found
