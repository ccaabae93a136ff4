"""A fitted model as text for a screen and as HTML for a notebook."""

from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from class_samples import draw_table
from groupshift import DegradedWarning, GroupShiftClassifier
from groupshift._data.encoder import FeatureEncoder
from groupshift._diagnosis.features import cluster_profiles, describe_clusters
from groupshift._diagnosis.summary import MAX_CLUSTERS, SCREEN, Summary, cluster_lines
from groupshift.datasets import make_grouped_mixture
from shifted_groups import draw, fit_on


@pytest.fixture(scope="module")
def model():
    sample = make_grouped_mixture(
        n_features=2,
        n_clusters=2,
        n_groups=12,
        labeled_per_group=(100, 0),
        unlabeled_per_group=(200, 0),
        random_state=0,
    )
    X, y, groups, _ = sample.training()
    return GroupShiftClassifier(GaussianNB(), partition=2, random_state=0).fit(X, y, groups=groups)


class Balanced(HTMLParser):
    """Fails on a tag that is closed but not open; keeps what is left open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in ("br", "hr", "meta", "input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def three_classes(n_groups=12):
    X, y, groups, _ = draw_table(n_groups=n_groups, n_classes=3)
    return GroupShiftClassifier(LogisticRegression(), partition=2, random_state=0).fit(X, y, groups=groups)


def without_shift():
    data = draw(np.random.default_rng(8), share=(0.4, 0.4), n_groups=20)
    return fit_on(data)


def few_groups():
    return fit_on(draw(np.random.default_rng(1), n_groups=3, labeled=30, unlabeled=40))


def two_classes():
    return fit_on(draw(np.random.default_rng(0), n_groups=40))


@pytest.mark.parametrize("make", [two_classes, three_classes, without_shift, few_groups])
def test_a_summary_is_twelve_lines_and_a_hundred_words_with_shares_verdict_and_caution(make):
    model = make()
    text, found = model.summary(), Summary.of(model)
    lines, flat = text.split("\n"), " ".join(text.split())
    assert len(lines) <= 12
    assert sum(any(letter.isalpha() for letter in word) for word in text.split()) <= 100
    assert max(map(len, lines)) <= SCREEN
    assert not any(line.endswith(" ") for line in lines)
    assert found.diagnosis.verdict in flat
    assert flat.endswith(f"Caution: {found.diagnosis.main_caution}")
    rows = f"{model.labeled_rows_.sum():,} labeled and {model.rows_.sum():,} unlabeled rows, {len(model.groups_)} groups"
    assert rows in flat


@pytest.mark.parametrize("make", [two_classes, three_classes])
def test_details_are_every_sentence_of_the_diagnosis(make):
    model = make()
    flat = " ".join(model.summary(details=True).split())
    for sentence in model.diagnose().sentences:
        assert sentence in flat
    for line in Summary.of(model).clusters:
        assert line in flat


def test_a_summary_without_a_population_has_no_table_of_shares(rows, quick):
    X, y, groups = rows
    with pytest.warns(DegradedWarning, match="No unlabelled rows"):
        alone = quick().fit(X[y >= 0], y[y >= 0], groups=groups[y >= 0])
    assert Summary.of(alone).lines == ()
    assert "Not known: there are no unlabeled rows yet" in alone.summary()


def test_summary_names_the_groups_of_lowest_and_highest_share(model):
    table = model.group_shares(by="group")
    text = model.summary()
    for at in (table["share"].argmin(), table["share"].argmax()):
        name, share = table["group"][at], table["share"][at]
        assert any(line.split()[:2] == [name, f"{100 * share:.1f}"] for line in text.split("\n"))


def test_one_overall_share_is_told_everywhere(model, tmp_path):
    line = next(line for line in model.summary().split("\n") if line.startswith("all")).split()
    table = model.group_shares(by="overall")
    share, low, high, narrow_low, narrow_high = (
        f"{100 * table[name][0]:.1f}" for name in ("share", "low", "high", "narrow_low", "narrow_high")
    )
    assert line[1:] == [share, f"{low}\u2013{high}", f"{narrow_low}\u2013{narrow_high}"]
    assert f"instead of {share} %" in " ".join(model.diagnose().caution)
    model.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text().replace("\u202f", " ").replace("\u2060", "")
    assert f"{share} % are positive (interval {low}\u2013{high} %; narrow interval {narrow_low}" in page


def test_numbers_keep_their_unit_on_their_line(model):
    assert not any(line.strip().startswith("%") for line in str(model.diagnose()).split("\n"))


def test_a_model_must_be_fitted_before_it_is_summed_up():
    for method in ("summary", "diagnose"):
        with pytest.raises(NotFittedError):
            getattr(GroupShiftClassifier(), method)()


def test_notebook_display_adds_to_scikit_learns(model):
    before, after = GroupShiftClassifier()._repr_html_(), model._repr_html_()
    assert "sk-top-container" in before
    assert "sk-top-container" in after
    assert "Worth" not in before
    assert escape(model.diagnose().verdict)[:30] in after
    assert "text/html" in model._repr_mimebundle_()
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_html_is_balanced_and_escapes_what_users_name():
    rng = np.random.default_rng(0)
    y = np.r_[rng.integers(0, 2, 300), np.full(300, -1)]
    X = rng.normal(size=(600, 2)) + np.c_[np.where(y == 1, 2.0, 0.0), np.zeros(600)]
    groups = np.tile(["<b>bold</b>", "a&b", "c"], 200)
    model = GroupShiftClassifier(GaussianNB(), partition=1, random_state=0).fit(X, y, groups=groups)
    pieces = [model.diagnose()._repr_html_(), model._repr_html_().split("<style>")[0]]
    pieces += [model.overall_share()._repr_html_(), model.share_difference("a&b", "c")._repr_html_()]
    for html in pieces:
        parser = Balanced()
        parser.feed(html)
        assert not parser.open
        assert "<b>bold" not in html
    assert "&lt;b&gt;bold" in model._repr_html_()


def test_clusters_are_described_in_the_features_own_names_and_units():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    cluster = np.repeat([0, 1], 500)
    frame = pandas.DataFrame(
        {
            "age": np.where(cluster == 0, 30, 70) + rng.normal(0, 5, 1000),
            "city": np.where((cluster == 1) & (rng.random(1000) < 0.8), "Oslo", "Rome"),
            "insured": rng.random(1000) < 0.5,
            "noise": rng.normal(size=1000),
            "seen": np.where(cluster == 0, np.datetime64("2020-01-01"), np.datetime64("2024-01-01")),
            "same": 7.0,
        }
    )
    encoder = FeatureEncoder().fit(frame)
    profiles = cluster_profiles(encoder.transform(frame), np.ones(1000), cluster, 2, encoder.is_category)
    assert profiles.inside[:, 0] == pytest.approx([30, 70], abs=1)
    assert profiles.outside[:, 0] == pytest.approx([70, 30], abs=1)
    table = describe_clusters(profiles, encoder, most=6)
    assert set(table["feature"]) == {"age", "city", "seen"}
    phrases = dict(
        zip(zip(table["cluster"].tolist(), table["feature"], strict=True), table["phrase"], strict=True)
    )
    assert phrases[0, "age"].startswith("age is lower (mean 29.8, elsewhere 69.6")
    assert phrases[1, "city"].startswith("city is 'Oslo' in 8")
    assert phrases[1, "city"].endswith("(elsewhere 0 %)")
    assert phrases[1, "seen"] == "seen is later (mean 2024-01-01, elsewhere 2020-01-01)"


def test_one_cluster_has_nothing_to_be_set_apart_from():
    profiles = cluster_profiles(
        np.arange(6.0).reshape(3, 2), np.ones(3), np.zeros(3, int), 1, np.zeros(2, bool)
    )
    assert len(describe_clusters(profiles, FeatureEncoder().fit(np.zeros((1, 2))))["phrase"]) == 0


def test_clusters_beyond_a_screenful_are_counted_with_two_classes_and_with_more(rows, quick):
    lines = cluster_lines({}, np.full(9, 1 / 9))
    assert len(lines) == MAX_CLUSTERS + 1
    assert lines[-1] == "and 3 more"
    X, y, groups = rows
    three = np.where((y == 1) & (X[:, 0] > np.median(X[y == 1, 0])), 2, y)
    model = quick(partition=8, shrinkage="none").fit(X, three, groups=groups)
    assert len(model.classes_) == 3
    assert Summary.of(model).clusters[-1] == "and 2 more"
