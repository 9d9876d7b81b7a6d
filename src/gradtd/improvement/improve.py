"""`improve` learns a better policy from a log and reports the evidence for it, or that there is none.

The episodes are split into two halves. A policy is learned from each half and evaluated on the other half; the returned
policy is the mean of the two. Every step enters the equations of the value with the ratio of the policy that was not
trained on its episode, so the estimate is not optimistic to first order. The errors of the two halves may be
correlated, because each half is used both for learning and for evaluation. The interval assumes full correlation, so
its error is the sum of both (at most 1.41 times that of independent episodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.progress import StageProgress
from gradtd.core.quantiles import level_of
from gradtd.evaluation.evaluate import evaluate
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import inflation, interval
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.options import Inference, LogFormat, Machine, record_of
from gradtd.evaluation.report.comparison import WORDS, Difference, Evaluations
from gradtd.evaluation.report.decision import simultaneous_level
from gradtd.evaluation.report.result import Evaluation
from gradtd.improvement.action_bins import make_bins
from gradtd.improvement.changes import list_changes
from gradtd.improvement.experience import Experience, make_experience
from gradtd.improvement.policy import ImprovedPolicy
from gradtd.improvement.policy_iteration import MOST_ITERATIONS, Learned, learn
from gradtd.improvement.result import BETTER, CANNOT_TELL, NO_EVIDENCE, Candidate, Improvement
from gradtd.logs import Probabilities
from gradtd.logs.given_policies import read_beside
from gradtd.logs.policies import GivenPolicy

LEAST = {"states": (1, 2, 5, 20, 80), "features": (5, 20, 80, 320)}
"""Default values of ``least``; each gives a candidate."""
ITERATIONS = {"states": (MOST_ITERATIONS,), "features": (1, MOST_ITERATIONS)}
"""Default numbers of policy iterations. Features extrapolate poorly to policies that the log does not follow: one
iteration often gains more."""
CAUTION = 2.0
POWER = 0.84
"""Normal quantile for a power of 80 %."""
BEHAVIOUR = "behaviour"
MOST_NEEDED = 1e9
"""Larger numbers of episodes are not reported."""


@dataclass(frozen=True, eq=False)
class _Trial:
    """A candidate: the policies of both halves, and its probabilities at every place and for every step."""

    least: float
    iterations: int
    halves: tuple[Learned, ...]
    table: Floats
    judged: Floats
    moved: float


def improve(
    log: Any,
    gamma: float,
    *,
    behaviour: GivenPolicy | None = None,
    features: Any = None,
    bins: int | Sequence[float] | None = None,
    least: float | Sequence[float] | None = None,
    iterations: int | Sequence[int] | None = None,
    caution: float = CAUTION,
    level: float = 0.95,
    block_length: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    log_format: LogFormat | None = None,
    progress: StageProgress | bool | None = None,
) -> Improvement:
    """Learn a better policy from the log of another one, and report the evidence for it.

    gradtd uses least-squares policy iteration on action values. Probability moves only between actions that are
    frequent enough in similar states of the log; elsewhere the policy equals the behaviour. The policy learned from
    each half of the episodes is evaluated on the other half.

    Parameters
    ----------
    log
        A file, a frame, a dictionary of arrays or a `Log`: anything that `gradtd.read_log` reads.
    gamma
        The discount factor, 0 to 1.
    behaviour
        The behaviour policy, if the log does not contain its probabilities, in the forms of `gradtd.evaluate`;
        "estimate" fits one.
    features
        The features, in the forms of `gradtd.evaluate`. By default discrete states have one value each, and continuous
        observations the default features.
    bins
        For continuous actions: the number of bins with equal shares of the log's actions, by default 5, or the edges
        between bins. The policy chooses a bin and draws within it as the behaviour does. ``behaviour`` then refers to
        bins, and is by default "estimate".
    least
        How often the log must have taken an action in a state for its probability to change: a number, or several
        numbers, each of which gives a candidate. By default 1, 2, 5, 20 and 80; with features other than one per state
        it is an effective number of steps, by default 5, 20, 80 and 320.
    iterations
        Number of policy iterations, or several numbers, each of which gives a candidate for every ``least``. 1 takes
        the best actions under the behaviour's action values; 20 usually iterates until the policy no longer changes. By
        default 20; with features other than one per state, both 1 and 20.
    caution
        Number of standard errors subtracted from every action value before the best action is chosen.
    level
        The simultaneous level of the intervals of all candidates.
    block_length
        Number of steps that count as one independent piece, for logs of one long episode.
    seed
        Seed of the split into two halves.
    threads
        Number of threads that evaluate candidates; by default one for each core.
    log_format
        How the log is read: a `LogFormat`.
    progress
        As in `gradtd.evaluate`.

    >>> import gradtd
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(2, size=400)                      # random actions; action 1 earns 0.3 more
    >>> log = {"obs": rng.integers(3, size=400), "action": action, "action_prob": np.full(400, 0.5),
    ...        "reward": 0.3 * action + rng.normal(0, 0.5, 400)}
    >>> found = gradtd.improve(log, 1, log_format=gradtd.LogFormat(one_step=True))
    >>> found.answer, found.policy([0, 1, 2]).argmax(axis=1).tolist()
    ('better', [1, 1, 1])
    """
    checks.fraction("gamma", gamma)
    thresholds = None if least is None else _thresholds(least)
    counts = None if iterations is None else _counts(iterations)
    caution = checks.number_at_least("caution", caution, 0)
    if block_length is not None:
        checks.whole_number("block_length", block_length, 1)
    reading = vars(record_of(LogFormat, "log_format", log_format, {}))
    read, policies = read_beside(log, {BEHAVIOUR: behaviour}, **reading)
    behaviour = policies[BEHAVIOUR]
    grid = None
    if read.action is not None and not read.discrete_actions:
        grid = make_bins(read, bins)
        read, behaviour = grid.of(read), "estimate" if behaviour is None else behaviour
    elif bins is not None:
        raise InputError(f"bins are for continuous actions, but those of {read.name} are discrete.")
    experience = make_experience(read, gamma, features, behaviour, block_length)
    kind = "features" if experience.states is None else "states"
    settings = [(one, count) for one in thresholds or LEAST[kind] for count in counts or ITERATIONS[kind]]
    half = _halves(int(experience.episode[-1]) + 1, seed)
    trials = [_learn_candidate(experience, half[experience.episode], *one, caution) for one in settings]
    distinct = _distinct(trials)
    targets: dict[str, Any] = {_name(t): Probabilities(t.judged, order="steps") for t in distinct}
    common: dict[str, Any] = {"behaviour": behaviour, "seed": seed, "progress": progress, "level": level_of(level)}
    common |= {"inference": Inference(block_length=block_length), "machine": Machine(threads=threads)}
    common |= {"gamma": gamma, "target": targets | {BEHAVIOUR: BEHAVIOUR}, "value_function": "state"}
    found: Evaluations = evaluate(read, features=features, **common)
    if found[BEHAVIOUR].verdict != WORDS[0] and features is None and experience.states is not None:
        # features that depend only on the behaviour, so they add no optimism
        found = evaluate(read, features="one-hot", **common)
    judged = dict(zip(map(_name, distinct), _compare(distinct, found, half, level), strict=True))
    head: dict[str, Any] = {
        "candidates": tuple(Candidate(t.least, t.iterations, t.moved, _of_same(t, distinct, judged)) for t in trials),
        "evaluations": found,
        "behaviour_value": found[BEHAVIOUR].value,
        "behaviour_interval": found[BEHAVIOUR].interval,
        "level": level,
        "episodes": len(half),
        "steps": len(read),
        "log": read.name,
    }
    if not distinct:
        return _nothing_moved(experience, settings[0][0], head)
    chosen = max(distinct, key=lambda trial: _preference(judged[_name(trial)]))
    labels = tuple(read.action_labels) if read.action_labels else tuple(range(read.n_actions))
    return Improvement(
        policy=replace(_policy(experience, chosen, labels), components=read.observation_names, bins=grid),
        changes=list_changes(read, experience, chosen.table, labels),
        **_answer(judged[_name(chosen)], found[_name(chosen)], half, head),
        **head,
    )


def _thresholds(least: Any) -> list[float]:
    given = [least] if np.ndim(least) == 0 else list(least)
    if not given:
        raise InputError("least needs at least one number, got an empty list.")
    return sorted({checks.number_at_least("least", one, 1) for one in given})


def _counts(iterations: Any) -> list[int]:
    given = [iterations] if np.ndim(iterations) == 0 else list(iterations)
    if not given:
        raise InputError("iterations needs at least one number, got an empty list.")
    return sorted({checks.whole_number("iterations", one, 1) for one in given})


def _halves(episodes: int, seed: int) -> Integers:
    """The half, 0 or 1, of every episode."""
    return np.asarray(np.random.default_rng(checks.seed_number(seed)).permutation(episodes) % 2)


def _name(trial: _Trial) -> str:
    return f"{trial.least:g} times, {trial.iterations} iterations"


def _learn_candidate(experience: Experience, half: Integers, least: float, iterations: int, caution: float) -> _Trial:
    halves = tuple(learn(experience, np.flatnonzero(half == k), least, caution, iterations) for k in (0, 1))
    tables = [one.probabilities(experience.behaviour) for one in halves]
    judged = np.where((half == 0)[:, None], tables[1][experience.place], tables[0][experience.place])
    moved = np.abs(judged - experience.behaviour[experience.place]).sum(axis=1).mean() / 2
    return _Trial(
        least, iterations, halves, (tables[0] + tables[1]) / 2, judged, float(moved) if moved > 1e-12 else 0.0
    )


def _distinct(trials: list[_Trial]) -> list[_Trial]:
    """Candidates that differ from the behaviour and from candidates with a lower threshold."""
    kept: list[_Trial] = []
    for trial in trials:
        if trial.moved > 0 and not any(np.array_equal(trial.judged, other.judged) for other in kept):
            kept.append(trial)
    return kept


def _of_same(trial: _Trial, distinct: list[_Trial], judged: dict[str, Difference]) -> Difference | None:
    """The difference of the distinct candidate with the same policy, or None if the policy equals the behaviour."""
    return next((judged[_name(one)] for one in distinct if np.array_equal(one.judged, trial.judged)), None)


def _compare(trials: list[_Trial], found: Evaluations, half: Integers, level: float) -> list[Difference]:
    """The difference of every candidate from the behaviour, with simultaneous intervals."""
    base = found[BEHAVIOUR]
    apart = [found[_name(trial)].influences - base.influences for trial in trials]
    single = simultaneous_level(np.array(apart), level) if len(apart) > 1 else level
    made = []
    for trial, psi in zip(trials, apart, strict=True):
        one = found[_name(trial)]
        verdict = max(_verdict(one), base.verdict, key=WORDS.index)
        both = (("improved", one), (BEHAVIOUR, base))
        reason = ", ".join(f"{name} is {each.verdict}" for name, each in both if each.verdict != "usable")
        fit = Fit("difference", one.value - base.value, psi, 0.0, 0, error_factor=halves_factor(psi, half))
        low, high = interval(fit, single) if np.isfinite(fit.error) else (None, None)
        alone = [Fit("unpaired", 0.0, each.influences, 0.0, 0).error for _, each in both]
        made.append(
            Difference(
                "improved", BEHAVIOUR, fit.value, low, high, fit.error, float(np.linalg.norm(alone)), verdict, reason
            )
        )
    return made


def _verdict(one: Evaluation) -> str:
    """The verdict on a candidate. Without intervals, as in a deterministic problem, the difference still counts."""
    exact = Fit("value", one.value, one.influences, 0.0, 0).error <= DEFAULT.no_error * max(abs(one.value), 1e-300)
    return "unchecked" if exact and len(one.reasons) == 1 else one.verdict


def halves_factor(psi: Floats, half: Integers) -> float:
    """The factor of the error if both halves are fully correlated: (a + b) / sqrt(a^2 + b^2).

    >>> round(halves_factor(np.array([1.0, -1.0, 1.0, -1.0]), np.array([0, 0, 1, 1])), 3)
    1.414
    """
    a, b = (float(np.sqrt((psi[half == k] ** 2).sum())) for k in (0, 1))
    both = float(np.hypot(a, b))
    return (a + b) / both * float(np.sqrt(inflation(psi))) if both > 0 else 1.0


def _preference(row: Difference) -> tuple[bool, float]:
    """Sort key: the lower end of the interval, largest first; differences that are not usable come last."""
    return row.verdict != WORDS[-1], -np.inf if row.low is None else row.low


def _answer(row: Difference, one: Evaluation, half: Integers, head: dict[str, Any]) -> dict[str, Any]:
    """The answer for the chosen candidate."""
    answer = NO_EVIDENCE
    if row.verdict == WORDS[-1] or row.low is None:
        answer = CANNOT_TELL
    elif row.low > 0:
        answer = BETTER
    wider, (low, high) = halves_factor(one.influences, half), one.interval
    return {
        "answer": answer,
        "value": one.value,
        "interval": (one.value - wider * (one.value - low), one.value + wider * (high - one.value)),
        "difference": row,
        "reasons": tuple(dict.fromkeys((*one.reasons, *head["evaluations"][BEHAVIOUR].reasons))),
        "episodes_needed": None if answer == BETTER else _episodes_needed(row, len(half)),
    }


def _episodes_needed(row: Difference, episodes: int) -> int | None:
    """Number of episodes for a power of 80 % at a difference of this size, with two digits."""
    if row.low is None or row.error is None or row.value <= 0:
        return None
    times = ((row.value - row.low) / row.value + POWER * row.error / row.value) ** 2
    count = episodes * times
    if not episodes < count < MOST_NEEDED:  # more episodes would not help, or too many are needed
        return None
    unit = 10 ** max(int(np.log10(count)) - 1, 0)
    return int(np.ceil(count / unit) * unit)


def _nothing_moved(experience: Experience, least: float, head: dict[str, Any]) -> Improvement:
    """The answer if no candidate differs from the behaviour."""
    places = np.arange(experience.n_places)
    again = learn(experience, np.arange(len(experience.place)), least).known
    reason = (
        f"no state has two actions that each half of the episodes took at least {least:g} times. Collect episodes in "
        "which the behaviour varies its actions."
        if not (again.sum(axis=1) > 1)[places].any()
        else "where actions were taken often enough to be compared, the behaviour's most frequent ones look best."
    )
    base = {"value": head["behaviour_value"], "interval": head["behaviour_interval"], "difference": None}
    answer = CANNOT_TELL if reason.startswith("no state") else NO_EVIDENCE
    return Improvement(answer, None, reasons=(reason,), episodes_needed=None, changes=(), **base, **head)


def _policy(experience: Experience, trial: _Trial, labels: tuple[Any, ...]) -> ImprovedPolicy:
    if experience.states is None:
        made: dict[str, Any] = {"features": experience.features, "used": experience.used, "model": experience.model}
        return ImprovedPolicy(labels, halves=trial.halves, **made)
    share = np.bincount(experience.action, minlength=experience.n_actions) / len(experience.action)
    return ImprovedPolicy(labels, experience.states, trial.table, share, halves=trial.halves)
