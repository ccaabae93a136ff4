"""Where not to trust it: groups are flagged for a reason, in words that anybody can read, and no others are."""

import numpy as np
import pytest

from groupshift._diagnosis.findings import KINDS, kinds_of_caution
from groupshift._diagnosis.sentences import REASONS, words
from shifted_groups import draw, fit_on


def flagged(model, kind):
    table = model.diagnose().cautions
    return set(table["group"][table["kind"] == kind])


def test_tiny_groups_are_flagged_and_no_others(shifted):
    X, y, groups, truth = shifted[0]
    keep = (y >= 0) | (groups != "g03")
    keep[np.flatnonzero((y < 0) & (groups == "g03"))[:5]] = True
    model = fit_on((X[keep], y[keep], groups[keep], truth[keep]))
    assert flagged(model, "few rows in group") == {"g03"}
    assert any(
        "g03" in sentence and "fewer than 50 rows" in sentence for sentence in model.diagnose().caution
    )


def test_classes_that_look_alike_are_flagged():
    alike = fit_on(draw(np.random.default_rng(13), distance=0.0, n_groups=10))
    assert "classes look alike" in set(alike.diagnose().cautions["kind"])


def with_a_group_of_negatives(n_positive, **settings):
    """Groups whose shares are near a half, and "odd", of 600 rows and next to no positives."""
    rng = np.random.default_rng(14)
    X, y, groups, _ = draw(rng, share=(0.4, 0.6), n_groups=20)
    new = rng.normal(0, 1, (600, 2)) + np.c_[2.0 * (np.arange(600) < n_positive), np.zeros(600)]
    data = np.concatenate([X, new]), np.r_[y, np.full(600, -1)], np.r_[groups, np.full(600, "odd")], None
    return fit_on(data, **settings)


def test_shares_at_the_edge_are_flagged():
    assert flagged(with_a_group_of_negatives(0, shrinkage="none"), "share at the edge") == {"odd"}


def test_groups_beyond_the_labeled_ones_are_flagged():
    assert flagged(with_a_group_of_negatives(40), "scores outside the labeled range") == {"odd"}


def test_labeled_groups_without_unlabeled_rows_are_flagged(shifted):
    X, y, groups, truth = shifted[0]
    keep = (y >= 0) | (groups != "g05")
    assert flagged(fit_on((X[keep], y[keep], groups[keep], truth[keep])), "no unlabeled rows") == {"g05"}


def said_of(n_clusters=1, **columns):
    """The sentences about a table of cautions."""
    n = len(columns["kind"])
    table = {"group": [None] * n, "cluster": [-1] * n, "label": [None] * n, "rows": [0] * n} | columns
    found = kinds_of_caution({name: np.array(v, object) for name, v in table.items()}, 100, n_clusters)
    return [words(one)[0] for one in sorted(found, key=lambda one: -one.cost)]


def test_a_shift_beyond_what_was_checked_is_not_blamed_on_missing_labels():
    (sentence,) = said_of(kind=["shift outside the labeled range"], group=["Oslo"], rows=[90])
    assert sentence.startswith("Group Oslo (90 % of the population): a larger shift than held-out labels")
    assert "labeled group" not in sentence


def test_sentences_are_neither_python_nor_commands(shifted):
    X, y, groups, truth = shifted[0]
    keep = (y >= 0) | (groups != "g05")
    said = " ".join(fit_on((X[keep], y[keep], groups[keep], truth[keep])).diagnose().caution)
    assert "until an update." in said
    assert "give a known rate" in said
    assert "update()" not in said
    assert "known_shares" not in said


def test_a_healthy_model_is_flagged_for_nothing_but_what_nobody_can_check(shifted):
    found = shifted[1].diagnose()
    assert len(found.cautions["kind"]) == 0
    assert len(found.caution) == 1
    assert "labeled data cannot reveal it" in found.caution[0]


def test_known_shares_are_said_to_settle_the_common_shift_of_their_groups(shifted):
    X, y, groups, _ = shifted[0]
    model = fit_on(shifted[0])
    model.update(X[y < 0], groups[y < 0], known_shares={"g00": 0.5, "g01": (0.4, 0.05)})
    assert "Known shares settle it for 2 of 40 groups." in model.diagnose().caution[0]


def test_a_cluster_counts_once_however_many_of_its_classes_are_at_fault():
    kind, rows = ["few labels of one class"] * 4, [30, 30, 30, 50]
    (sentence,) = said_of(2, kind=kind, cluster=[0, 0, 0, 1], label=["a", "b", "c", "a"], rows=rows)
    assert sentence.startswith("Clusters 0 (class a, b, c), 1 (class a) (80 % of the population): ")


@pytest.mark.parametrize(("n_clusters", "named"), [(1, "Cell Oslo ("), (3, "Cell Oslo in cluster 0 (")])
def test_a_cell_is_named_by_its_cluster_too_where_there_are_several(n_clusters, named):
    (sentence,) = said_of(n_clusters, kind=["few rows in cell"], group=["Oslo"], cluster=[0], rows=[12])
    assert sentence.startswith(named)


def test_a_cluster_that_shows_next_to_nothing_of_one_class_is_flagged():
    rng = np.random.default_rng(15)
    X, y, groups, truth = draw(rng, share=(0.3, 0.7), n_groups=20)
    # Labelled positives live on one side of the second feature only.
    X[:, 1] = np.where(truth == 1, 9, rng.choice([-9, 9], len(truth))) + rng.normal(size=len(truth))
    model = fit_on((X, y, groups, truth), partition=2)
    table = model.diagnose().cautions
    assert (
        table["cluster"][table["kind"] == "few labels of one class"].tolist()
        == np.flatnonzero(model.learned_.class_rows.min(1) < 20).tolist()
    )
    assert (model.learned_.class_rows.min(1) < 20).sum() == 1
    assert any("fewer than 20 labels of a class" in sentence for sentence in model.diagnose().caution)


def test_every_kind_of_caution_has_a_reason_and_the_dearest_comes_first():
    assert REASONS.keys() == KINDS.keys()
    kinds = ["share at the edge", "few rows in cell", "classes look alike"]
    found = said_of(2, kind=kinds, group=["a", "b", None], cluster=[0, 0, 1], rows=[60, 30, 20])
    # Classes that look alike in a fifth of the rows cost more than an edge in most of them.
    assert ["tell the classes" in found[0], "fewer than 20" in found[1], "below 2 %" in found[2]] == [
        True
    ] * 3
