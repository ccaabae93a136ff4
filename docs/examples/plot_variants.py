"""
Variants by gene
================

Labs have classified some variants of each gene as harmful or not. They looked at patients, so harmful variants in folded domains
are over-represented. Which of the other variants are harmful? Genes differ in how much they tolerate, and differently in each
region of the protein.
"""

# %%
# The genes are invented. Given region and class, a variant looks alike in every gene: this is
# :doc:`the assumption </explanation/assumption>`.

import numpy as np
import pandas as pd


def make_variants(n_genes=40, seed=0):
    """Variants of invented genes, harmful in a share that differs by gene and by region of the protein."""
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(n_genes):
        tolerance = rng.normal(0, 1.2, size=2)  # of the gene's folded domains, and of its loose ends
        for labeled in (True, False):
            # Labs publish what they were asked about: harmful variants of folded domains, above all.
            n = int(rng.lognormal(3.8 if labeled else 5.0, 0.6)) + 5
            domain = rng.random(n) < (0.7 if labeled else 0.4)
            log_odds = np.where(domain, 0.2, -1.2) + tolerance[(~domain).astype(int)] + 0.9 * labeled
            harmful = rng.random(n) < 1 / (1 + np.exp(-log_odds))
            parts.append(
                pd.DataFrame(
                    {
                        "gene": f"GENE{number + 1}",
                        "conservation": rng.normal(np.where(domain, 2.2, -1.8) + 0.9 * harmful, 0.9),
                        "size_change": rng.normal(np.where(domain, 1.1, 0.3) * harmful, 1.0),
                        "charge_change": rng.normal(np.where(domain, 0.2, 1.0) * harmful, 1.0),
                        "in_domain": np.where(domain, "yes", "no"),
                        "harmful": harmful.astype(float) if labeled else np.nan,
                        "truth": harmful,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


variants = make_variants()

# %%
# Fit
# ---
# ``group="gene"`` names the column of the groups. A missing label marks an unlabeled row.

from groupshift import GroupShiftClassifier

features = variants.drop(columns=["harmful", "truth"])
model = GroupShiftClassifier(group="gene", random_state=0).fit(features, variants["harmful"])
print("\n".join(model.notes_))

# %%
# Unclassified variants
# ---------------------
# ``low`` and ``high`` allow for what is unknown about the gene's share. ``pooled`` is true where other genes count for more
# than the gene's own variants.

unknown = variants["harmful"].isna()
details = model.predict_details(features[unknown])
print(pd.concat([features[unknown], details], axis=1).head().round(2).to_string(index=False))

# %%
# Genes
# -----
# Small genes have wide intervals.

from groupshift.displays import GroupSharesDisplay

print(model.group_shares(by="group").sort_values("rows").iloc[[0, 1, -2, -1]].round(2).to_string(index=False))
GroupSharesDisplay.from_estimator(model)

# %%
# Check
# -----
# The rival is the same classifier without shifts.

from groupshift.metrics import evaluate

plain = GroupShiftClassifier(group="gene", partition=1, shares=None, shrinkage="none", random_state=0).fit(
    features, variants["harmful"]
)
for name, fitted in {"plain": plain, "groupshift": model}.items():
    p = fitted.predict_proba(features[unknown])[:, 1]
    found = evaluate(variants.loc[unknown, "truth"].astype(int), p).overall
    print(f"{name:11} AUC {found['auc']:.3f}   log loss {found['log_loss']:.3f}")

# %%
# Before you use it on patients: give copies of one variant the same id (:doc:`/howto/households`).
