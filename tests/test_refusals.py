"""Few groups trust nothing fully, no groups do not take a common shift whole, and a refusal names the rule that refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from groupshift._math.trust import FEW_GROUPS, most_trust

from groupshift import DegradedWarning, GroupShiftClassifier
from groupshift._explain.refusals import reasons, why_no_candidate
from shifted_groups import draw, fit_on

TABLE = {
    "name": np.array(["no shift", "one cluster", "k-means 2", "k-means 4", "gate 2"], dtype=object),
    "n_clusters": np.array([1, 1, 2, 4, 2]),
    "gain": np.array([0.0, 0.0039, 0.002, -0.001, 0.01]),
    "std_error": np.array([0.0, 0.001, 0.002, 0.002, 0.001]),
    "trust": np.array([0.0, 0.18, 0.6, 0.6, 0.6]),
    "chosen": np.array([True, False, False, False, False]),
}


def test_each_candidate_has_the_reason_that_decided():
    chosen, weak, noisy, worse, simpler = reasons(TABLE, 30)
    assert chosen == "chosen"
    # A gain of 3.9 standard errors is no noise: what is too small is the trust.
    assert weak == "trust 18 %, below 20 %"
    assert noisy == "gain within noise (1.0 standard errors, 2.5 needed)"
    assert worse == "no gain"
    assert simpler == "no gain beyond one cluster, or through its calibration alone"
    best = TABLE | {"chosen": np.arange(5) == 4, "gain": np.array([0.0, 0.0039, 0.02, 0.004, 0.01])}
    found = reasons(best | {"std_error": np.full(5, 1e-3), "trust": np.full(5, 0.6)}, 30)
    assert found[0] == "a better one was found"
    assert found[2] == "no better, beyond noise, than the chosen one, which is simpler"
    assert found[3] == "the chosen one gains more"


@pytest.mark.parametrize("used", [0, 1])
def test_a_candidate_that_hidden_groups_refuted_is_not_called_worse_than_what_is_used_instead(used):
    refuted = TABLE | {
        "chosen": np.arange(5) == used,
        "refuted": np.arange(5) == 4,
        "gain": np.array([0.0, 0.0039, 0.02, 0.004, 0.01]),
        "std_error": np.full(5, 1e-3),
        "trust": np.full(5, 0.6),
    }
    found = reasons(refuted, 30)
    assert found[used] == "chosen"
    assert found[4] == "chosen first, but refuted where whole groups are hidden from the classifier"
    # The others were left for the one that was chosen first.
    assert found[2] == "no better, beyond noise, than the one chosen first, which is simpler"
    assert found[3] == "the one chosen first gains more"


def test_no_shift_that_hidden_groups_led_to_is_not_called_noise():
    gains = {"gain": np.array([0.0, 0.0, 0.0, 0.0, 0.01]), "refuted": np.arange(5) == 4}
    evidence = SimpleNamespace(held_out=SimpleNamespace(total=SimpleNamespace(groups=30)))
    why = why_no_candidate(SimpleNamespace(candidates_=TABLE | gains, evidence_=evidence))
    assert "'gate 2'" in why
    assert "whole groups are hidden" in why
    assert "noise" not in why


@pytest.mark.parametrize("n_groups", [2, 3, 4])
@pytest.mark.parametrize("settings", [{}, {"shrinkage": "none"}, {"selection": "by_label"}])
def test_few_labelled_groups_trust_nothing_fully(n_groups, settings):
    data = draw(np.random.default_rng(0), n_groups=n_groups, labeled=300, distance=3.0)
    model = fit_on(data, **settings)
    assert model.trust_ <= most_trust(n_groups) < 1
    if model.view_use_ is not None:
        assert model.view_use_.scores <= most_trust(n_groups)
    assert most_trust(FEW_GROUPS) == 1


@pytest.mark.parametrize(("selection", "trust"), [("unknown", 0.5), ("by_label", 0.5), ("random", 0.0)])
def test_without_groups_the_common_shift_is_not_taken_whole(selection, trust):
    X, y, _, truth = draw(np.random.default_rng(1), n_groups=6, distance=3.0)
    model = GroupShiftClassifier(partition=1, refine=0, random_state=0, selection=selection)
    with pytest.warns(DegradedWarning, match="No groups"):
        model.fit(X, y)
    assert model.trust_ == trust
    found = model.overall_share()
    assert found.low < truth[y < 0].mean() < found.high or selection == "random"


def test_the_report_says_why_of_every_candidate(judged):
    from groupshift._explain.report import render_report

    page = render_report(judged)
    assert '<th scope="col" class="w">Why' in page
    assert 'class="w">chosen' in page
