"""`judge` tests value functions from other programs, and ranks several of them by the log.

The Bellman residual of a value function, r + gamma v(s') - v(s), is a reward like any other. Its value under the target
policy is the true value minus the claimed value. Therefore `evaluate`, with the residual as reward, gives the error of
the claim with an interval and a verdict.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, make_frame
from gradtd.core.checks import InputError
from gradtd.core.quantiles import normal
from gradtd.evaluation.evaluate import evaluate
from gradtd.logs import Log
from gradtd.logs.column_names import listed
from gradtd.logs.given_policies import policy_over, read_beside
from gradtd.logs.ratios import ratios
from gradtd.logs.row_policies import by_name

if TYPE_CHECKING:
    import pandas

ACCEPTABLE, OFF, UNKNOWN = "acceptable", "off", "cannot tell"


@dataclass(frozen=True)
class Judged:
    """The result for one value function.

    Parameters
    ----------
    name
        Its name, as given to `judge`.
    claimed
        The claimed value: its mean over the start states of the log, under the target policy.
    error, interval
        The estimated true value minus the claimed value, and the confidence interval of this error.
    corrected
        ``claimed + error``: the value that the log supports.
    verdict
        "acceptable": the interval of the error contains 0 and no Bellman moment is significant. "off": at least one of
        these fails. "cannot tell": the evaluation of the residual is not usable.
    loss
        The largest standardised Bellman moment with another candidate, the loss of the LSTD-Tournament
        (arXiv 2502.08021). The candidate with the smallest loss is preferred.
    largest_moment
        The largest Bellman moment in standard errors; above ``critical`` the candidate is off.
    reasons
        Why the error cannot be estimated; empty if it can.
    """

    name: str
    claimed: float
    error: float
    interval: tuple[float, float]
    corrected: float
    verdict: str
    loss: float
    largest_moment: float
    critical: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """The comparison of several value functions with a log. Made by `gradtd.judge`.

    Parameters
    ----------
    judged
        One `Judged` for each value function, in the order given.
    preferred
        The name of the value function with the smallest Bellman moments.
    level
        The level of the intervals.
    """

    judged: tuple[Judged, ...]
    preferred: str
    level: float

    def __getitem__(self, name: str) -> Judged:
        found = {row.name: row for row in self.judged}
        if name not in found:
            raise KeyError(f"there is no value function {name!r}; the value functions are {listed(found)}.")
        return found[name]

    def to_dict(self) -> dict[str, Any]:
        return {"preferred": self.preferred, "level": self.level, "judged": [asdict(row) for row in self.judged]}

    def to_frame(self) -> pandas.DataFrame:
        """The results as a pandas frame, one row per value function."""
        return make_frame([asdict(row) for row in self.judged], index="name")

    def __str__(self) -> str:
        width = max(len(row.name) for row in self.judged)
        lines = []
        for row in self.judged:
            low, high = row.interval
            lines.append(
                f"{row.name:{width}s}  claims {row.claimed:.5g}; true value minus claim {row.error:.3g} "
                f"[{low:.3g}, {high:.3g}]; largest Bellman moment {row.largest_moment:.1f} standard errors: "
                f"{row.verdict}"
            )
            lines += [f"{'':{width}s}  {reason}" for reason in row.reasons]
        if len(self.judged) > 1:
            lines.append(f"The log prefers {self.preferred} (smallest Bellman moments with the other candidates).")
        return "\n".join(lines)


def judge(
    log: Any, candidates: Mapping[str, Any], *, gamma: float, target: Any = None, behaviour: Any = None, **how: Any
) -> Judgement:
    """Test value functions from other programs: FQE, a critic, a simulator, a spreadsheet.

    Returns a `Judgement`: the error of every claimed value with an interval, whether the log agrees with it, and which
    value function the log prefers.

    Parameters
    ----------
    log, gamma, target, behaviour
        As for `gradtd.evaluate`.
    candidates
        Value functions by name. A function of observations that returns one number each (state values) or (n, actions)
        (action values), a function of observations and actions that returns one number each, or, for discrete
        observations, a table [states] or [states, actions]. Actions with labels are given as labels.
    **how
        Passed to `gradtd.evaluate`, which estimates the error: for example ``value_function="action"`` if the log has
        no behaviour probabilities, ``level``, ``features``.

    >>> import gradtd
    >>> import numpy as np
    >>> log = gradtd.sample_log("random_walk_tabular", 400, seed=1)
    >>> truth = gradtd.exact("random_walk_tabular").v_pi       # the true value of every state
    >>> found = gradtd.judge(log, {"exact": truth, "optimist": truth + 0.3}, gamma=1.0)
    >>> found["exact"].verdict, found["optimist"].verdict, found.preferred
    ('acceptable', 'off', 'exact')
    """
    if not isinstance(candidates, Mapping) or not candidates:
        raise InputError('candidates must be a dictionary of value functions, such as {"fqe": q}.')
    for name in candidates:
        if not isinstance(name, str):
            raise InputError(f"the names of candidates must be text, got {name!r}: use str(name).")
    gamma = checks.fraction("gamma", gamma)
    read, policies = read_beside(log, {"target": target, "behaviour": behaviour})
    target, behaviour = policies["target"], policies["behaviour"]
    values = {name: _candidate(read, name, given, gamma, target) for name, given in candidates.items()}
    weights = np.ones(len(read))
    if any(candidate.of_states for candidate in values.values()):
        weights = ratios(read, target, behaviour=behaviour).rho
    judged = []
    for name, candidate in values.items():
        made = evaluate(replace(read, reward=candidate.residual), gamma=gamma, **policies, **how)
        error, (low, high) = made.value, made.interval
        moments = _moments(read, candidate, list(values.values()), weights)
        critical = normal(1 - (1 - made.level) / (2 * moments.shape[1]))
        sizes, largest = np.abs(moments[0]), float(np.abs(moments[1]).max())
        verdict = ACCEPTABLE if low <= 0 <= high and largest <= critical else OFF
        judged.append(
            Judged(
                name,
                candidate.claimed,
                error,
                (low, high),
                candidate.claimed + error,
                verdict if made.verdict == "usable" else UNKNOWN,
                float(sizes.max()),
                largest,
                critical,
                () if made.verdict == "usable" else made.reasons,
            )
        )
    return Judgement(tuple(judged), min(judged, key=lambda row: row.loss).name, made.level)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A value function on a log: at the steps and their observations, with its residuals and claimed value."""

    taken: Floats  # q(s, a), or v(s)
    expected: Floats  # v(s)
    residual: Floats
    claimed: float
    of_states: bool


def _candidate(log: Log, name: str, given: Any, gamma: float, target: Any) -> _Candidate:
    table = _table(log, name, given)
    goes_on = ~log.terminated
    if table.ndim == 1:
        here, after, taken = table[log.row], table[log.next_row], table[log.row]
    else:
        policy = policy_over(log, "target", target)
        rows = np.unique(np.r_[log.row, log.next_row[goes_on]])
        expected = np.full(len(table), np.nan)
        chances = policy(rows)
        if table.shape[1] > chances.shape[1]:
            raise InputError(
                f"The value function {name!r} has values of {table.shape[1]} actions, and the target has probabilities "
                f"of {chances.shape[1]}: give both the same actions."
            )
        expected[rows] = (chances[:, : table.shape[1]] * table[rows]).sum(axis=1)
        here, after = expected[log.row], expected[log.next_row]
        taken = table[log.row, np.asarray(log.action)]
    residual = log.reward + gamma * np.where(goes_on, after, 0.0) - taken
    claimed = float(here[log.starts].mean())
    return _Candidate(taken, here, residual, claimed, table.ndim == 1)


def _table(log: Log, name: str, given: Any) -> Floats:
    """The value function at every observation of the log: (rows,) or (rows, actions)."""
    seen = log.observations
    if not callable(given):
        _refuse_other_rows(name, given)
        given = _in_order(log, name, given)
        table = checks.finite_array(f"the value function {name!r}", given, _dimensions(given))
        if not log.discrete_observations:
            raise InputError(
                f"The value function {name!r} is a table, but observations are continuous: give a function."
            )
        outside = (seen < 0) | (seen >= len(table))
        checks.refuse_where("observation", outside, seen, f"must be a row of the table {name!r}, 0 to {len(table) - 1}")
        made = np.asarray(table[seen])
    elif _takes_actions(given):
        actions = log.action_labels or range(log.n_actions)
        # A copy of each answer, since a function may return the same buffer every time.
        made = np.column_stack([_asked(log, name, given(seen.copy(), np.full(len(seen), a))).copy() for a in actions])
    else:
        made = _asked(log, name, given(seen.copy()))  # a copy, since a function may write to its argument
    if made.ndim not in (1, 2) or len(made) != len(seen):
        raise InputError(
            f"The value function {name!r} was given {len(seen)} observations and returned an array of shape "
            f"{made.shape}: return one number per observation, or one per observation and action."
        )
    if made.ndim == 2 and (log.action is None or made.shape[1] < log.n_actions):
        raise InputError(
            f"The value function {name!r} has values of {made.shape[1]} actions; the log "
            + ("has no actions." if log.action is None else f"has {log.n_actions}.")
        )
    return made


def _refuse_other_rows(name: str, table: Any) -> None:
    """Refuse a pandas table whose index is not the number of each state, as its rows are read by position."""
    if type(table).__module__.split(".")[0] == "pandas" and list(table.index) != list(range(len(table))):
        raise InputError(
            f"The index of the value function {name!r} is not 0, 1, 2, ... in order: sort it by state, or use "
            ".reset_index(drop=True) if row i is state i, or give a function of the observations."
        )


def _in_order(log: Log, name: str, values: Any) -> Any:
    """The values with the columns of a frame in the order of the log's actions. Masked values are refused."""
    if np.ma.isMA(values) and np.ma.getmaskarray(values).any():
        raise InputError(
            f"The value function {name!r} has masked values: fill them with numbers, for example .filled(0.0) for "
            "states that the log does not visit."
        )
    columns = list(getattr(values, "columns", ()))
    if not columns or not log.discrete_actions or columns == list(range(len(columns))):
        return values
    places = by_name(log, columns)
    if places is None:
        actions = listed(map(str, log.action_labels or range(log.n_actions)))
        raise InputError(
            f"The columns of the value function {name!r} are {listed(columns)}, and the actions of the log are "
            f"{actions}: name the columns as the actions, or use .to_numpy() if they are in that order."
        )
    return values.to_numpy()[:, places]


def _asked(log: Log, name: str, values: Any) -> Floats:
    values = _in_order(log, name, values)
    dimensions = _dimensions(values)
    return checks.finite_array(
        f"the value function {name!r}", np.atleast_1d(values) if dimensions == 1 else values, dimensions
    )


def _dimensions(values: Any) -> int:
    """Number of dimensions, at least 1; 2 for rows of several lengths, which `checks.finite_array` refuses."""
    try:
        return max(np.ndim(values), 1)
    except ValueError:
        return 2


def _takes_actions(function: Any) -> bool:
    try:
        wanted = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return len(needed) == 2


def _moments(log: Log, mine: _Candidate, candidates: list[_Candidate], rho: Floats) -> Floats:
    """Bellman moments of one candidate: their sizes in units of the reward, and in standard errors.

    They are means of the residual times an instrument, and are 0 for the true value function. The instrument is 1, or a
    standardised candidate value. State values need ratios, and instruments of the observation only. Standard errors
    come from sums by episode.
    """
    columns = [np.ones(len(log))]
    for other in candidates:
        values = other.expected if mine.of_states else other.taken
        deviation = float(values.std())
        if deviation > 1e-12 * (1 + float(np.abs(values).max())):
            columns.append((values - values.mean()) / deviation)
    weighted = mine.residual * (rho if mine.of_states else 1.0)
    products = np.stack(columns) * weighted
    sums = np.add.reduceat(products, log.starts, axis=1)
    mean = products.mean(axis=1)
    lengths = np.diff(np.r_[log.starts, len(log)])
    spread = np.sqrt(((sums - mean[:, None] * lengths) ** 2).sum(axis=1)) / len(log)
    return np.stack([mean, mean / np.maximum(spread, 1e-300)])
