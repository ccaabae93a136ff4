"""Shifts of groups: sums of scores, evidence, random effects, the common shift, known rates, shares (NumPy, SciPy)."""
