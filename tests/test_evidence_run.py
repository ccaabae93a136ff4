"""The registered run: what is written down is what is run, and a claim is judged by the draws that are there."""

import json
import math
import tomllib

import pytest

pd = pytest.importorskip("pandas")
evidence = pytest.importorskip("benchmarks.evidence", reason="benchmarks are not installed with the package")
from benchmarks.ablation_draws import KINDS, TABLES, is_generated  # noqa: E402
from benchmarks.evidence_others import OTHERS  # noqa: E402

SPEC = tomllib.loads(evidence.SPEC.read_text(encoding="utf-8"))
REAL = {name for names in TABLES.values() for name in names if not is_generated(name)}


def line(seed, method, auc, kind="random"):
    return {"table": "t", "kind": kind, "rows": 12, "seed": seed, "method": method, "auc_test": auc}


def test_runs_and_claims_name_methods_kinds_and_tables_that_exist():
    named = {"groupshift", "before", *OTHERS, *SPEC["patches"], *SPEC["intercepts"]}
    named |= {name.partition("@")[0] for name in SPEC["settings"]}
    for part in SPEC["runs"]:
        assert set(part["methods"]) <= named
        assert set(part["kinds"]) <= set(KINDS)
        assert all(t in TABLES or t in REAL or is_generated(t) for t in part["tables"])
        assert min(part["seeds"]) >= 9001
    for claim in SPEC["claims"]:
        assert {claim.get("method", "groupshift"), claim.get("than", "plain")} <= named
        assert set(claim.get("kinds", KINDS)) <= set(KINDS)
        assert claim["over"] in ("each kind", "mean of kinds", "worst draw")
        assert {"at_least", "at_most"} & set(claim)


def test_a_method_for_some_kinds_is_run_on_those_alone():
    for draw, names in evidence.planned(SPEC):
        assert not ("random intercept" in names and draw["kind"] not in SPEC["only"]["random intercept"])
    assert any("random intercept" in names for _, names in evidence.planned(SPEC))


def test_without_the_version_before_its_methods_are_left_out():
    found = evidence.methods_of(SPEC, ["groupshift", "plain", "before", "before, trusted"], None)
    assert [method.name for method in found] == ["groupshift", "plain"]


@pytest.mark.parametrize(
    ("over", "bound", "value", "holds"),
    [
        ("mean of kinds", {"at_least": 0.02}, 0.025, True),
        ("each kind", {"at_least": 0.02}, 0.01, False),
        ("worst draw", {"at_least": -0.01}, -0.01, True),
        ("each kind", {"at_most": 0.04}, 0.04, True),
    ],
)
def test_a_claim_is_judged_by_paired_draws(over, bound, value, holds):
    lines = [line(seed, "plain", 0.7) for seed in (1, 2)]
    lines += [line(1, "groupshift", 0.69), line(2, "groupshift", 0.73), line(3, "groupshift", 0.9)]
    lines += [line(seed, "plain", 0.7, "mar") for seed in (1, 2)]
    lines += [line(seed, "groupshift", 0.74, "mar") for seed in (1, 2)]
    claim = {"text": "", "than": "plain", "score": "auc_test", "over": over, **bound}
    found = evidence.claims(pd.DataFrame(lines), {"claims": [claim]}).iloc[0]
    assert found["value"] == pytest.approx(value)
    assert found["holds"] == holds
    assert found["draws"] == 4


def test_a_claim_without_draws_does_not_hold():
    claim = {"text": "", "than": "other", "score": "auc_test", "over": "each kind", "at_least": 0}
    found = evidence.claims(pd.DataFrame([line(1, "groupshift", 0.7)]), {"claims": [claim]}).iloc[0]
    assert math.isnan(found["value"])
    assert not found["holds"]


def test_a_run_goes_on_where_it_was_and_is_summed_up(tmp_path, monkeypatch):
    spec = {
        "settings": {"plain": '{"shares": null, "partition": 1}'},
        "runs": [
            {
                "tables": ["made plain"],
                "kinds": ["random"],
                "rows": 600,
                "seeds": [1],
                "methods": ["groupshift", "plain"],
            }
        ],
        "claims": [],
    }
    options = evidence.argparse.Namespace(
        out=tmp_path, draws=tmp_path, before=None, jobs=1, stop_after=math.inf
    )
    monkeypatch.setattr("paper.origin.described_origin", lambda: {"commit": "abc"})
    evidence.run(spec, options)
    kept = tmp_path / evidence.DRAWS
    whole = kept.read_text().splitlines()
    assert [json.loads(text)["method"] for text in whole] == ["groupshift", "plain"]
    kept.write_text(whole[0] + "\n" + whole[1][:40])
    evidence.run(spec, options)
    assert len(evidence.read(tmp_path)) == 2
    evidence.summarize(spec, tmp_path)
    found = pd.read_csv(tmp_path / evidence.TABLE).set_index("method")
    assert found.loc["plain", "log_loss_test_less"] == 0
    monkeypatch.setattr("paper.origin.described_origin", lambda: {"commit": "other"})
    with pytest.raises(SystemExit, match="another commit or machine"):
        evidence.run(spec, options)
