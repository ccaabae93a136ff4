"""The doors on the estimator: `audit` says which rows to label, `learn_audit` takes their labels."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from groupshift._audit.answers import Answers, read_answers
from groupshift._audit.census import Census, whole_census
from groupshift._audit.found import AuditFound, learn
from groupshift._audit.plan import AuditPlan, draw_plan
from groupshift._audit.state import State
from groupshift._data.codes import Codes, group_numbers
from groupshift._data.frames import Features
from groupshift._data.rows import Rows
from groupshift._data.workers import map_chunks, workers
from groupshift._math.arrays import ValueArray
from groupshift._shifts.estimate import Estimate
from groupshift._shifts.scorer import AnyScorer

# Rows that are scored at a time.
CHUNK = 65_536


class Auditable(Protocol):
    """A fitted GroupShiftClassifier, as far as an audit looks at it."""

    estimate_: Estimate
    audit_: AuditFound | None
    n_jobs: int | None
    unlabeled_value: object

    @property
    def classes_(self) -> ValueArray: ...
    @property
    def has_groups_(self) -> bool: ...
    @property
    def frame_library_(self) -> str | None: ...

    def _scorer(self) -> AnyScorer: ...
    def _read_rows(
        self,
        X: Features,
        groups: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
        example_ids: ArrayLike | None = None,
    ) -> tuple[Rows, ValueArray | None]: ...


Model = TypeVar("Model", bound=Auditable)


def check_auditable(model: Auditable) -> None:
    check_is_fitted(model)
    if len(model.classes_) > 2:
        raise ValueError(
            f"An audit asks for labels of two classes, and the model has {len(model.classes_)}. Fit a model of one class against "
            "the rest, y == that_class (on the command line: --positive THAT_CLASS), and audit that."
        )


def still_audited(audit: AuditFound | None, fresh: object) -> tuple[AuditFound | None, object]:
    """An estimate of new rows, moved by what an audit found; there are none of more than two classes."""
    return (None, fresh) if audit is None or not isinstance(fresh, Estimate) else audit.applied(fresh)


class Audited:
    """Methods of a fitted model that ask for a few labels, and learn from them."""

    audit_: AuditFound | None = None

    def audit(
        self: Auditable,
        X: Features,
        groups: ArrayLike | None = None,
        *,
        budget: int = 50,
        sample_weight: ArrayLike | None = None,
        seed: int = 0,
    ) -> AuditPlan:
        """Which rows of the population to label, so that their labels say most of what the model cannot know.

        Unlabelled rows cannot tell whether positives were, in every group alike, more likely to be labelled. A few new labels
        can. The rows are a random sample with known probabilities, weighted towards rows whose label is open and cells whose
        shift is least known; what follows from their labels is valid whatever the model.

        Parameters
        ----------
        X, groups, sample_weight : the population, as `update` takes it
        budget : int
            Labels that can be had.
        seed : int
            The same seed, model and population give the same rows in the same order.

        Returns
        -------
        AuditPlan
            `rows` to label, in this order; `spares` for those that cannot be; `purchases`, what 25, 50, 100 and 200 labels buy.

        Examples
        --------
        >>> from groupshift import GroupShiftClassifier
        >>> from groupshift.datasets import make_grouped_mixture
        >>> sample = make_grouped_mixture(n_features=2, n_clusters=1, n_groups=10, labeled_per_group=(50, 0),
        ...                               unlabeled_per_group=(100, 0), random_state=0)
        >>> X, y, groups, _ = sample.training()
        >>> model = GroupShiftClassifier(partition=1, random_state=0).fit(X, y, groups=groups)
        >>> plan = model.audit(X[y < 0], groups[y < 0], budget=20)
        >>> truth = sample.truth[~sample.labeled & ~sample.test]  # a person looks at these rows
        >>> model.learn_audit(plan.labeled(truth[plan.rows])).audit_.labels
        20
        """
        check_auditable(self)
        return plan_audit(self, census_of(self, X, groups, sample_weight), budget=budget, seed=seed)

    def learn_audit(
        self: Model,
        labels: Features,
        X: Features | None = None,
        groups: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> Model:
        """Learn from the labels of an audit: verdicts, a design-based share, and shifts that fit the labels.

        May be called again after every label, with all labels so far: the verdicts allow it, and what an earlier call learned
        from the same audit is not counted twice. A call that fails leaves the model as it was.

        Parameters
        ----------
        labels : frame or dict of columns
            The table of the plan with its labels filled in: ``plan.labeled(labels)``, or the file of rows to label, read.
            Classes are those of `fit`; an empty cell or "refused" is no label.
        X, groups, sample_weight : optional
            The population once more, to check that it is still the one that rows were drawn from.

        Returns
        -------
        model, with what was found in `audit_`; predictions, shares and intervals follow it
        """
        check_auditable(self)
        answers = read_answers(labels, self.classes_, self.unlabeled_value)
        if X is not None:
            check_population(answers, census_of(self, X, groups, sample_weight))
        return take_answers(self, answers)


def plan_audit(model: Auditable, census: Census, *, budget: int, seed: int) -> AuditPlan:
    """The plan of a fitted model for a population."""
    check_has_population(model.estimate_)
    library = model.frame_library_
    return draw_plan(census, model.estimate_, now(model), budget=budget, seed=seed, library=library)


def take_answers(model: Model, answers: Answers) -> Model:
    """Learn from checked answers; everything is assigned at the end."""
    estimate, state = _asked_by(model, answers)
    found, moved = learn(answers, estimate, state)
    model.audit_, model.estimate_ = found, moved
    return model


def now(model: Auditable) -> State:
    """What an audit of the model as it is would begin with."""
    return State.of(model.estimate_, is_settled=model.audit_ is not None)


def check_has_population(estimate: Estimate) -> None:
    if estimate.points is None or not len(estimate.groups):
        raise ValueError(
            "This model was fitted without unlabelled rows, so it claims no share that labels could check. Give it a population "
            "with update()."
        )


def check_population(answers: Answers, census: Census) -> None:
    """Whether a population is the one that an audit was drawn from."""
    design = answers.design
    if len(census) != design.n_rows:
        raise ValueError(
            f"The population has changed: rows were drawn from {design.n_rows:,} rows, and these are {len(census):,}. Pass the "
            "file that the audit was made with; for a new population, update the model and plan a new audit."
        )
    if census.population != design.population:
        raise ValueError(
            "The population has changed: it has as many rows as the one that rows were drawn from, but other values or another "
            "order. Pass the file that the audit was made with; for a new population, update the model and plan a new audit."
        )


def _asked_by(model: Auditable, answers: Answers) -> tuple[Estimate, State]:
    """The estimate that asked for these labels: the model's own, or the one before it learned from an earlier part of them."""
    check_has_population(model.estimate_)
    state, found = now(model), model.audit_
    if state.mark == answers.design.model:
        return model.estimate_, state
    if found is not None and found.state.mark == answers.design.model:
        return replace(found.before, counts=model.estimate_.counts), found.state
    raise ValueError(
        "These labels were asked for by another model, or by this one before it was fitted or updated again. Pass the model that "
        "the audit was made with, or plan a new audit with this one."
    )


def census_of(
    model: Auditable, X: Features, groups: ArrayLike | None, sample_weight: ArrayLike | None
) -> Census:
    rows, values = model._read_rows(X, groups, sample_weight)
    known = Codes.of(model.estimate_.groups)
    number = group_numbers(values, known, has_groups=model.has_groups_, n_rows=len(rows))
    if model.has_groups_ and values is None:
        raise ValueError(
            "This model was fitted with groups, but none were given. Pass groups=, so that each row is scored as its group's."
        )
    rows = rows.numbered(number)
    chunks = (rows.take(slice(start, start + CHUNK)) for start in range(0, len(rows), CHUNK))
    return census_of_batches(model, lambda chunk, _: chunk, chunks)


def census_of_batches(
    model: Auditable, reader: Callable[[Features, int], Rows], batches: Iterable[Features]
) -> Census:
    """Of rows that are read in batches."""
    scorer = model._scorer()

    def numbered() -> Iterator[tuple[Features, int]]:
        first = 0
        for batch in batches:
            yield batch, first
            first += len(batch)

    def of_batch(part: tuple[Features, int]) -> Census:
        rows = reader(*part)
        return Census.of(rows, scorer(rows), part[1])

    with workers(model.n_jobs):
        return whole_census(list(map_chunks(of_batch, numbered())))
