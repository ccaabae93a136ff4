"""Why the judge took one candidate and left the others, by the rule that decided."""

import numpy as np

from groupshift._explain.fitted_model import FittedModel
from groupshift._explain.wording import percent
from groupshift._fit.trials import LENIENT, MIN_TRUST, PARTITION_LEVEL, noise_margin
from groupshift._math.arrays import BoolArray, Table


def reasons(table: Table, n_groups: int) -> list[str]:
    """For each candidate of the judge, in the order of its table, why it was taken or left.

    Every choice needs a trust of a fifth, then a gain beyond noise; among those that have both, the best is taken, or a
    simpler one that is as good within noise.
    """
    lenient, strict = noise_margin(n_groups, LENIENT), noise_margin(n_groups, PARTITION_LEVEL)
    refuted = _refuted(table)
    # The others were left for the one that was chosen first, whatever became of it.
    first = refuted if refuted.any() else table["chosen"]
    it = "the one chosen first" if refuted.any() else "the chosen one"
    is_none, most = bool(first[0]), float(table["gain"][first].max(initial=0.0))
    found = []
    columns = (table[name].tolist() for name in ("n_clusters", "gain", "std_error", "trust", "chosen"))
    for i, (n_clusters, gain, error, trust, chosen) in enumerate(zip(*columns, strict=True)):
        margin = lenient if n_clusters == 1 else strict
        if chosen:
            found.append("chosen")
        elif refuted[i]:
            found.append("chosen first, but refuted where whole groups are hidden from the classifier")
        elif i == 0:
            found.append("a better one was found")
        elif gain <= 0:
            found.append("no gain")
        elif gain <= margin * error:
            found.append(f"gain within noise ({gain / error:.1f} standard errors, {margin:.1f} needed)")
        elif trust < MIN_TRUST:
            found.append(f"trust {percent(trust, 0)}, below {percent(MIN_TRUST, 0)}")
        elif is_none:
            found.append("no gain beyond one cluster, or through its calibration alone")
        elif gain < most:
            found.append(f"{it} gains more")
        else:
            found.append(f"no better, beyond noise, than {it}, which is simpler")
    return found


def _refuted(table: Table) -> BoolArray:
    """Which candidate was chosen first, and then not confirmed; models of older files do not say."""
    none: BoolArray = np.zeros(len(table["name"]), bool)
    return table.get("refuted", none)


def why_no_candidate(model: FittedModel) -> str | None:
    """Why no candidate was taken, by the one that gained most; None where one was, or where none was weighed."""
    table, held_out = model.candidates_, model.evidence_.held_out
    if table is None or held_out is None or not table["chosen"][0] or len(table["gain"]) < 2:
        return None
    refuted = _refuted(table)
    if refuted.any():
        return (
            f"hidden labels confirm the shifts of {table['name'][refuted][0]!r}, but not where whole groups are hidden from the "
            "classifier, as those of most of the population are"
        )
    best = 1 + int(np.argmax(table["gain"][1:]))
    gain, error, trust = (float(table[name][best]) for name in ("gain", "std_error", "trust"))
    margin = noise_margin(held_out.total.groups, LENIENT)
    if gain > margin * error and trust < MIN_TRUST:
        return (
            f"labels confirm {percent(trust, 0)} of the size of the shifts, less a margin for noise. That lowers the "
            f"hidden-label loss by {gain:.4f} ± {error:.4f}, but shifts of which less than {percent(MIN_TRUST, 0)} is confirmed "
            "are mostly the mixture's misfit, and what they gain need not carry over to other groups"
        )
    if gain > 0:
        return (
            f"the best shifts lower the hidden-label loss by {gain:.4f} ± {error:.4f}, which is within noise"
        )
    return None
