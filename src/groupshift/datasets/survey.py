"""A small invented survey that a person can read: states, everyday columns, missing values, and the truth."""

import numpy as np
from scipy.special import expit, logsumexp

from groupshift._math.arrays import FloatArray, IntArray
from groupshift.datasets.containers import Seed, Table, frame_of, hold_out, named_columns
from groupshift.datasets.sample import GroupedSample
from groupshift.datasets.shares import Shares, plan_rows

REGIONS = ("students", "working families", "retired")
STATES = (
    *("Alabama", "Alaska", "Arizona", "Arkansas", "California", "Colorado", "Connecticut", "Delaware"),
    *("Florida", "Georgia", "Hawaii", "Idaho", "Illinois", "Indiana", "Iowa", "Kansas"),
    *("Kentucky", "Louisiana", "Maine", "Maryland", "Massachusetts", "Michigan", "Minnesota", "Mississippi"),
    *("Missouri", "Montana", "Nebraska", "Nevada", "New Hampshire", "New Jersey", "New Mexico", "New York"),
    *("North Carolina", "North Dakota", "Ohio", "Oklahoma", "Oregon", "Pennsylvania", "Rhode Island"),
    *("South Carolina", "South Dakota", "Tennessee", "Texas", "Utah", "Vermont", "Virginia", "Washington"),
    *("West Virginia", "Wisconsin", "Wyoming"),
)

# Every answer is one of these levels.
LEVELS: dict[str, np.ndarray] = {
    "age": np.arange(18, 96).astype(float),
    "education": np.array(["school", "apprenticeship", "college", "degree"]),
    "urban": np.array([0.0, 1.0]),
    "income_band": np.arange(1.0, 8.0),
    "work": np.array(["studies", "works", "home", "retired"]),
    "hours_online": np.arange(0.0, 41.0),
}


def _bell(levels: FloatArray, mean: list[list[float]], sd: float) -> FloatArray:
    """Probabilities of levels in the shape of a normal density, for every mean."""
    return _table(np.exp(-0.5 * ((levels - np.array(mean)[..., None]) / sd) ** 2))


def _table(likely: FloatArray | list[list[list[float]]]) -> FloatArray:
    """Probabilities in the proportions given."""
    p = np.array(likely, dtype=float)
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


# p(answer | region, class), class 0 (against) then 1 (for): all that is ever drawn from. No state appears
# in it, which is the assumption of the method. Age and work tell the regions apart; the rest tells the
# classes apart, in each region in its own way: supporters among students are online, among the retired they
# are urban and well-off.
ANSWERS: dict[str, FloatArray] = {
    "age": _bell(LEVELS["age"], [[22, 23], [43, 41], [74, 72]], 4.0),
    "education": _table(
        [[[4, 3, 2, 1], [2, 1, 4, 3]], [[4, 4, 1, 1], [1, 3, 3, 4]], [[4, 3, 2, 1], [3, 3, 2, 2]]]
    ),
    "urban": _table([[[5, 5], [3, 7]], [[6, 4], [4, 6]], [[7, 3], [3, 7]]]),
    "income_band": _bell(LEVELS["income_band"], [[1.5, 2.0], [3.8, 5.2], [2.6, 4.2]], 1.4),
    "work": _table(
        [
            [[90, 8, 2, 0.1], [90, 8, 2, 0.1]],
            [[1, 85, 13, 1], [1, 88, 10, 1]],
            [[0.1, 4, 6, 90], [0.1, 5, 5, 90]],
        ]
    ),
    "hours_online": _bell(LEVELS["hours_online"], [[24, 31], [14, 16], [5, 6]], 5.0),
}


class SurveyRegions:
    """The partition that generated the survey: the most likely region of each respondent."""

    def predict(self, X: Table) -> IntArray:
        return np.asarray(logsumexp(self.log_likelihood(X), axis=2).argmax(axis=1))

    def log_likelihood(self, X: Table) -> FloatArray:
        """log p(answers | region, class), shape (n, 3, 2); a missing answer says nothing."""
        total: np.ndarray | float = 0.0
        for name, column in named_columns(X).items():
            code = _codes(column, LEVELS[name])
            log_p = np.log(ANSWERS[name])[:, :, code]
            total = total + np.where(code >= 0, log_p, 0.0)
        return np.moveaxis(np.asarray(total), -1, 0)


def make_survey(
    *,
    n_groups: int = 50,
    labeled_per_group: int = 200,
    unlabeled_per_group: int = 1000,
    missing: float = 0.05,
    test_size: float = 0.2,
    backend: str | None = None,
    random_state: Seed = None,
) -> GroupedSample:
    """Make a survey on a new railway: some people of each state answered, and they are not like the others.

    People fall into three regions (students, working families, retired). Given region and opinion, answers
    look alike in every state; states differ a lot in how many people each region has and how many of them
    are in favour, and those who were asked for their opinion are a biased choice.

    Parameters
    ----------
    labeled_per_group, unlabeled_per_group : int
        People of each state whose opinion is known, and not known.
    missing : float
        Share of the answers on education and income that are missing, at random.
    backend : {None, "pandas", "polars", "pyarrow"}
        What `X` is: a dict of arrays (missing text is None), which needs no library, or a frame of that
        library, which `fit` takes.

    Returns
    -------
    GroupedSample
        `X` has the features; `sample.to_table(group="state", label="in_favour")` is the table as a user
        would hold it.

    Examples
    --------
    >>> sample = make_survey(n_groups=3, random_state=0)
    >>> list(sample.X), sample.group_names.tolist()
    (['age', 'education', 'urban', 'income_band', 'work', 'hours_online'], ['Alabama', 'Alaska', 'Arizona'])
    """
    if n_groups < 1:
        raise ValueError(f"n_groups is {n_groups}, expected at least 1.")
    rng = np.random.default_rng(random_state)
    labeled, population = _draw_opinions(n_groups, rng)
    sizes = [np.full(n_groups, n) for n in (labeled_per_group, unlabeled_per_group)]
    unlabeled, group, region, truth = plan_rows((labeled, population), sizes, counts="binomial", rng=rng)
    answers = _draw_answers(region, truth, missing=missing, rng=rng)
    log_cells = np.log(np.stack([labeled.cells(), population.cells()]))[unlabeled, group]
    joint = logsumexp(SurveyRegions().log_likelihood(answers) + log_cells, axis=1)
    names = np.array([STATES[g] if g < len(STATES) else f"State {g + 1}" for g in range(n_groups)])
    ids = np.arange(len(truth))
    return GroupedSample(
        X=frame_of(answers, backend=backend),
        y=np.where(unlabeled, -1, truth),
        groups=names[group],
        truth=truth,
        test=hold_out(ids, among=unlabeled == 1, test_size=test_size, rng=rng),
        example_ids=ids,
        cluster=region,
        partition=SurveyRegions(),
        posterior=expit(joint[:, 1] - joint[:, 0]),
        shares=population.positive,
        labeled_shares=labeled.positive,
        cluster_weights=population.weights,
        labeled_cluster_weights=labeled.weights,
        group_names=names,
        name="survey",
    )


def _draw_opinions(n_groups: int, rng: np.random.Generator) -> tuple[Shares, Shares]:
    """(Labelled, population) shares: volunteers are younger, and more in favour, than their state."""
    shape = (n_groups, len(REGIONS))
    logit = rng.normal([-0.4, 0.2, -0.2], 1.6, size=shape)
    weights = rng.dirichlet([3.0, 5.0, 3.0], size=n_groups)
    volunteers = weights * np.array([2.0, 1.0, 0.5])
    volunteers /= volunteers.sum(axis=1, keepdims=True)
    # Volunteers' opinions follow their state's only in part: the labelled sample cannot simply be read off.
    their_logit = 0.8 + 0.3 * logit + rng.normal(0, 0.8, size=shape)
    return Shares(volunteers, expit(their_logit)), Shares(weights, expit(logit))


def _draw_answers(
    region: np.ndarray, opinion: np.ndarray, *, missing: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    answers = {}
    for name, levels in LEVELS.items():
        cumulative = ANSWERS[name].cumsum(axis=-1)[region, opinion]
        level = (rng.random(len(region))[:, None] > cumulative[:, :-1]).sum(axis=1)
        answers[name] = levels[level]
    for name in ("education", "income_band"):
        is_missing = rng.random(len(region)) < missing
        is_text = answers[name].dtype.kind == "U"
        answers[name] = answers[name].astype(object) if is_text else answers[name]
        answers[name][is_missing] = None if is_text else np.nan
    return answers


def _codes(column: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Position of each answer among the levels, -1 for a missing one."""
    code = np.full(len(column), -1)
    for i, level in enumerate(levels):
        code[column == level] = i
    return code
