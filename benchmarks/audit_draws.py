"""One model of a set of rows whose labels are enriched, and its audits."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from groupshift._audit.answers import Answers, read_answers
from groupshift._audit.census import Census
from groupshift._audit.doors import census_of, now
from groupshift._audit.state import State
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from benchmarks.shared_sets import SETS
from groupshift import GroupShiftClassifier
from groupshift._audit.found import learn, verdicts
from groupshift._audit.plan import AuditPlan, chances_of, draw

BUDGET = 50
# Positives are this many times as likely to be labelled as negatives, of which this part is.
ENRICHED, LABELED = 3, 0.2
WRONG_BY = 0.05


@dataclass(frozen=True)
class Case:
    """A fitted model and the population that it is audited on, whose labels are known to us alone."""

    model: GroupShiftClassifier
    census: Census
    chance: np.ndarray
    y: np.ndarray


def one_fit(data: Path, name: str, seed: int, audits: int, most_rows: int) -> list[dict[str, float]]:
    """All audits of one model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = make_case(data, name, seed, most_rows)
    rng = np.random.default_rng([seed, 1])
    bound = best_power(case)
    return [one_audit(case, rng) | {"bound": bound, "fit": seed} for _ in range(audits)]


def make_case(data: Path, name: str, seed: int, most_rows: int) -> Case:
    """Half of the rows are the population; of the others, positives are labelled three times as often."""
    rng = np.random.default_rng([seed, 0])
    rows = SETS[name](data).sampled(most_rows, rng)
    half = len(rows.y) // 2
    is_population = np.arange(len(rows.y)) < half
    chance = LABELED * np.where(rows.y == 1, ENRICHED, 1)
    used = is_population | (rng.random(len(rows.y)) < chance)
    X = rows.X[used].reset_index(drop=True)
    y = np.where(is_population, -1, rows.y)[used]
    model = GroupShiftClassifier(random_state=seed, n_jobs=1).fit(X, y, groups=rows.groups[used])
    census = census_of(model, rows.X[:half], rows.groups[:half], None)
    return Case(model, census, chances_of(census, model.estimate_, now(model)), rows.y[:half])


def one_audit(case: Case, rng: np.random.Generator) -> dict[str, float]:
    model, truth = case.model, case.y.mean()
    state = now(model)
    answers = drawn(case.census, state, case.chance, case.y, rng)
    found, moved = learn(answers, model.estimate_, state)
    after = float((moved.row_weight * moved.share).sum() / moved.row_weight.sum())
    low, high = found.posterior.interval(0.9)
    design_low, design_high = found.design.interval(0.9)
    sign = rng.choice([-1, 1])
    # Where there is no room below for a share that is off by so much, it is off above.
    sign = 1 if truth <= WRONG_BY else sign
    return {
        "truth": truth,
        "before": case.census.part @ expit(case.census.log_odds) - truth,
        "random": rng.choice(case.y, BUDGET, replace=False).mean() - truth,
        "after": after - truth,
        "design": found.design.share - truth,
        "covered": low <= truth <= high,
        "width": high - low,
        "design_covered": design_low <= truth <= design_high,
        "always_covered": bool(((found.verdicts.low <= truth) & (truth <= found.verdicts.high)).all()),
        "sequence_width": found.verdicts.high[-1] - found.verdicts.low[-1],
        "found_out": is_called_wrong(case, truth + sign * WRONG_BY, rng),
        "falsely_called_wrong": is_called_wrong(case, truth, rng),
        "as_it_is_found_out": found.verdicts.share_is_wrong,
        "uncalibrated": found.verdicts.is_miscalibrated,
    }


def is_called_wrong(case: Case, claimed: float, rng: np.random.Generator) -> bool:
    """Whether an audit calls a share wrong that the model was moved to claim."""
    census, state = case.census, now(case.model)
    census = replace(census, log_odds=census.log_odds + shift_to(census, claimed))
    chance = chances_of(census, case.model.estimate_, state)
    return verdicts(drawn(census, state, chance, case.y, rng)).share_is_wrong


def drawn(
    census: Census, state: State, chance: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> Answers:
    """An audit whose rows all get their label, by way of the table that people fill in."""
    design, asked = draw(census, state, chance, budget=BUDGET, seed=int(rng.integers(2**31)))
    plan = AuditPlan(design, asked, {})
    return read_answers(plan.labeled(y[plan.rows].tolist()), np.array([0, 1]), -1)


def shift_to(census: Census, share: float) -> float:
    """The common shift at which the mean prediction is this share."""
    return brentq(lambda c: census.part @ expit(census.log_odds + c) - share, -12, 12)


def best_power(case: Case) -> float:
    """What no test of 50 labels at the 5 % level can exceed.

    It is told the shift in log-odds that makes the share wrong, looks once, on one side, and asks the rows that tell most.
    """
    right, wrong = (shift_to(case.census, case.y.mean() + error) for error in (0.0, WRONG_BY))
    z = np.quantile(case.census.log_odds, np.linspace(0.001, 0.999, 200))
    p0, p1 = expit(z + wrong), expit(z + right)
    reach = np.abs(p1 - p0) * np.sqrt(BUDGET) - 1.645 * np.sqrt(p0 * (1 - p0))
    return float(ndtr(reach / np.sqrt(p1 * (1 - p1))).max())
