"""Writes golden.gshift and golden.csv: a model, and what it predicts. Run it only to change the format.

    python tests/data/make_golden.py

Once a version is released, its files must stay readable: a new format then gets a golden file beside the old one.
"""

from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from groupshift import GroupShiftClassifier, save
from groupshift._data.frames import take_rows
from groupshift.datasets import make_survey
from groupshift.tables.columns import TableClassifier

HERE = Path(__file__).parent


def survey(backend="pyarrow"):
    sample = make_survey(
        n_groups=8, labeled_per_group=100, unlabeled_per_group=100, backend=backend, random_state=0
    )
    return sample.X, sample.y, sample.groups


def main():
    X, y, groups = survey()
    trees = HistGradientBoostingClassifier(max_iter=20, early_stopping=False, categorical_features=[1, 4])
    model = GroupShiftClassifier(TableClassifier(trees), 2, random_state=0).fit(X, y, groups=groups)
    save(model, HERE / "golden.gshift", overwrite=True)
    rows = np.arange(50)
    np.savetxt(HERE / "golden.csv", model.predict_proba(take_rows(X, rows), groups[rows])[:, 1], fmt="%.17g")


if __name__ == "__main__":
    main()
