"""What a fit keeps for its diagnosis says what it claims to: by weight, by the labels."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from groupshift import GroupShiftClassifier
from groupshift._diagnosis.report import render_report
from groupshift._diagnosis.report.formats import percent
from report_pages import Page
from shifted_groups import draw, fit_on


def test_without_shares_nothing_is_said_to_have_been_confirmed_or_not():
    found = fit_on(draw(np.random.default_rng(25), n_groups=6, labeled=60, unlabeled=60), shares=None)
    assert "shares were not asked for" in found.diagnose().verdict
    assert "confirm" not in found.diagnose().verdict


@pytest.fixture(scope="module")
def weighted():
    """`(y, weight, model)`: groups of many positives whose rows weigh little, and of few whose rows weigh much."""
    rng = np.random.default_rng(26)
    parts = [
        draw(rng, n_groups=6, labeled=80, unlabeled=100, share=share) for share in ((0.8, 0.9), (0.1, 0.2))
    ]
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    groups = np.concatenate([np.char.add(prefix, part[2]) for prefix, part in zip("ab", parts, strict=True)])
    weight = np.where(np.char.startswith(groups, "a"), 1.0, 40.0)
    model = GroupShiftClassifier(partition=2, random_state=0)
    return y, weight, model.fit(X, y, groups=groups, sample_weight=weight)


def test_the_overall_share_of_the_labeled_sample_counts_weights(weighted):
    y, weight, model = weighted
    labeled = y >= 0
    truth = np.average(y[labeled], weights=weight[labeled])
    assert abs(truth - y[labeled].mean()) > 0.2
    assert model.group_shares(by="overall")["labeled_share"][0] == pytest.approx(truth)
    whole = next(line for line in model.summary(details=True).split("\n") if line.startswith("all"))
    assert f"{100 * truth:.1f} of " in whole
    page = Page(render_report(model)).text.replace("\u202f", " ")
    assert f"against {100 * truth:.1f} % of the labeled sample" in page


def test_shares_among_the_labelled_rows_of_a_cluster_are_those_of_the_labels():
    # Some of eight clusters have a handful of labelled rows: their mean posterior borrows from the others.
    X, y, groups, truth = draw(np.random.default_rng(16), n_groups=6, labeled=50, unlabeled=60)
    model = fit_on((X, y, groups, truth), estimator=LogisticRegression(), partition=8, shrinkage="none")
    labeled = y >= 0
    rows = model._read_rows(X[labeled], groups[labeled])[0]
    cluster = model.learned_.posterior.partition.predict(rows)
    count = np.bincount(cluster)
    share = np.bincount(cluster, weights=y[labeled]) / count
    assert np.abs(model.labeled_prior_ - share).max() > 0.005  # printed to a tenth of a percent
    page = Page(render_report(model))
    for k in range(8):
        said = f"{count[k]} labeled rows, {percent(share[k])} of them positive"
        assert " ".join(said.split()) in page.text
    assert page.figures["shifts"]["sampleShare"] == pytest.approx(share, abs=1e-6)


def numbers(part):
    """Every number and array in the evidence."""
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from numbers(value)
        elif isinstance(value, dict):
            yield from value.values()
        elif value is not None:
            yield value


def test_evidence_is_small_and_made_of_plain_numbers(shifted):
    found = [np.asarray(value) for value in numbers(shifted[1].evidence_)]
    assert all(array.dtype.kind in "fi" for array in found)
    assert sum(array.nbytes for array in found) < 100_000
    assert max(array.size for array in found) < len(shifted[0][1]) / 5
