"""Compares policies on one log: paired differences, and the probability that each is the best.

Two values from the same episodes have correlated errors. The influence of an episode on their difference is the
difference of its influences, so both evaluations together give the interval. For methods without influences, the
interval comes from the differences of values on the same bootstrap samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, make_frame, plain
from gradtd.core.checks import InputError
from gradtd.evaluation.estimators.bootstrap import interval_from
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.intervals import as_dependent, chance_above_zero, interval
from gradtd.evaluation.report.decision import TargetDecision, decide_among
from gradtd.evaluation.report.result import Evaluation, Summary

if TYPE_CHECKING:
    import pandas
    from rich.console import Group

DRAWS = 20_000
"""Number of joint draws for the probability of being the best."""
WORDS = ("usable", "unchecked", "not usable")
"""The verdicts, the best one first."""


@dataclass(frozen=True)
class Difference:
    """One target's value minus another's, on the same episodes.

    Parameters
    ----------
    first, second
        The names of the targets.
    value
        The first target's value minus the second target's.
    low, high
        The interval of the difference, or None.
    error
        Its standard error.
    unpaired_error
        The standard error if the two values came from different logs.
    verdict
        The worse of the two verdicts.
    reason
        The target that is not usable; empty if both are usable.
    """

    first: str
    second: str
    value: float
    low: float | None
    high: float | None
    error: float | None
    unpaired_error: float | None
    verdict: str
    reason: str


@dataclass(frozen=True)
class Rank:
    """A target's rank: its value, and the probability that it is the best of those compared.

    Parameters
    ----------
    name
        The target.
    value
        Its value.
    best
        The probability that its value is the largest, given the sampling error of the log.
    verdict
        The verdict on its value.
    """

    name: str
    value: float
    best: float
    verdict: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """Targets compared on one log. Made by `Evaluations.compare`.

    Parameters
    ----------
    differences
        One difference per pair, or per target compared with the named one.
    ranking
        The targets, sorted by value, the largest first.
    level
        The level of each single interval.
    decisions
        Which targets are excluded and which may be the best, at this level for all simultaneously.
    """

    differences: tuple[Difference, ...]
    ranking: tuple[Rank, ...]
    level: float
    decisions: tuple[TargetDecision, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values for JSON. Non-finite numbers become None."""
        told = {"level": self.level, "differences": [vars(row) for row in self.differences]}
        told |= {"ranking": [vars(row) for row in self.ranking], "decisions": [vars(row) for row in self.decisions]}
        return dict(plain(told))

    def to_frame(self) -> pandas.DataFrame:
        """The differences as a pandas frame, one row per pair. Needs pandas."""
        return make_frame([vars(row) for row in self.differences])

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the paired differences with their intervals. A notebook shows the plot at once. Returns the axes.

        Parameters
        ----------
        path
            An image file to write: .png, .svg or .pdf.
        """
        from gradtd.output.evaluation_page import differences_figure
        from gradtd.output.plots import show_figure

        return show_figure(differences_figure(self), path)

    def __str__(self) -> str:
        from gradtd.output.evaluation_text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from gradtd.output.evaluation_text import comparison_cell

        return comparison_cell(self)

    def __rich__(self) -> Group:
        from gradtd.output.evaluation_text import comparison_on_terminal

        return comparison_on_terminal(self)


class Evaluations(dict[str, Evaluation]):
    """Evaluations of several targets on one log, by name. Made by `gradtd.evaluate` from a dictionary of targets.

    Parameters
    ----------
    evaluations
        A dictionary, or pairs, of names and evaluations of one log.
    """

    def __init__(self, evaluations: Mapping[str, Evaluation] | Iterable[tuple[str, Evaluation]] = ()) -> None:
        super().__init__(evaluations)
        for name, one in self.items():
            if not isinstance(one, Evaluation):
                raise InputError(f"Evaluations needs results of gradtd.evaluate by name: {name!r} is {one!r:.80}.")

    def compare(self, against: str | None = None) -> Comparison:
        """Paired differences, a ranking, and each target's probability of being the best.

        The evaluations must be of the same log, with the same gamma and level: their episodes are paired by position.

        Parameters
        ----------
        against
            The name of a target that all others are compared with; by default every pair is compared.
        """
        if len(self) < 2:
            raise InputError(f"compare needs at least two targets, got {len(self)}.")
        for setting in ("gamma", "level"):
            given = {name: getattr(one, setting) for name, one in self.items()}
            if len(set(given.values())) > 1:
                raise InputError(f"compare needs evaluations with the same {setting}, got {given}.")
        if against is not None:
            checks.known_name("target", against, self)
            pairs = [(name, against) for name in self if name != against]
        else:
            pairs = list(combinations(self, 2))
        level = next(iter(self.values())).level
        ranked = sorted(self, key=lambda name: -_or_least(self[name].value))
        best = _best(self)
        ranking = tuple(Rank(n, self[n].value, best[n], self[n].verdict) for n in ranked)
        decisions = decide_among(
            {name: self[name].verdict for name in ranked},
            {name: self[name].influences for name in ranked},
            lambda first, second, single: paired_interval(self[first], self[second], single)[:2],
            level,
        )
        return Comparison(tuple(_difference(self, *pair, level) for pair in pairs), ranking, level, decisions)

    def summary(self) -> Summary:
        """The summaries of all targets, and how they compare."""
        parts = [f"{name}: {found.summary()}" for name, found in self.items()]
        return Summary("\n\n".join(parts + [str(self.compare())] * (len(self) > 1)))

    def to_frame(self) -> pandas.DataFrame:
        """One row per target: value, low, high, verdict, method, the behaviour's value and the gain over it."""
        rows = []
        for name, found in self.items():
            low, high = found.interval
            own = found.behaviour
            gain = {"behaviour": None if own is None else own.value, "gain": None if own is None else own.gain}
            head = {"target": name, "value": found.value, "low": low, "high": high, "verdict": found.verdict}
            rows.append(head | {"method": found.method} | gain)
        return make_frame(rows, index="target")

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the paired differences with their intervals. A notebook shows the plot at once. Returns the axes.

        Parameters
        ----------
        path
            An image file to write: .png, .svg or .pdf.
        """
        return self.compare().plot(path)

    def _repr_html_(self) -> str:
        from gradtd.output.evaluation_text import evaluations_cell

        return evaluations_cell(self, self.compare() if len(self) > 1 else None)

    def page(self, path: str | Path) -> Path:
        """Write one self-contained HTML page with every target and the comparison.

        Parameters
        ----------
        path
            The file to write; its name ends in ``.html``.
        """
        from gradtd.output.evaluation_page import write_page

        return write_page(self, path, compared=self.compare() if len(self) > 1 else None)


def _or_least(value: float) -> float:
    return value if np.isfinite(value) else -np.inf


def _difference(found: Mapping[str, Evaluation], first: str, second: str, level: float) -> Difference:
    a, b = found[first], found[second]
    value = a.value_of_influences - b.value_of_influences
    low, high, error = paired_interval(a, b, level)
    verdict = max(a.verdict, b.verdict, key=WORDS.index)
    reason = ", ".join(f"{n} is {found[n].verdict}" for n in (first, second) if found[n].verdict != "usable")
    both = [_error(one) for one in (a, b)]
    unpaired = float(np.hypot(*both)) if None not in both else None  # type: ignore[arg-type]
    if low is None and verdict != "not usable":
        verdict, reason = (
            "not usable",
            "the two methods share neither influences nor bootstrap samples",
        )
    return Difference(first, second, value, low, high, error, unpaired, verdict, reason)


def _error(evaluation: Evaluation) -> float | None:
    psi = evaluation.influences
    if len(psi) > 1:
        return _fit(evaluation.value, psi, _blocks(evaluation)).error
    return evaluation.estimates[0].error


def paired_interval(a: Evaluation, b: Evaluation, level: float) -> tuple[float | None, float | None, float | None]:
    """The interval and error of the difference of two values from the same episodes, or None."""
    value = a.value_of_influences - b.value_of_influences
    if len(a.influences) > 1 and len(a.influences) == len(b.influences):
        fit = _fit(value, a.influences - b.influences, _blocks(a) or _blocks(b))
        if not np.isfinite(fit.error):
            return None, None, None
        return *interval(fit, level), fit.error
    known = _both_known(a.resampled, b.resampled)
    if len(known) < 2 or not np.isfinite(value):
        return None, None, None
    return *interval_from(value, known, level, a.episodes), float(known.std(ddof=1))


def _both_known(a: Floats, b: Floats) -> Floats:
    """Differences of values on the same bootstrap samples, if both are known."""
    if len(a) != len(b):
        return np.zeros(0)
    apart = a - b
    return np.asarray(apart[np.isfinite(apart)])


def _fit(value: float, psi: Floats, blocks: bool) -> Fit:
    fit = Fit("difference", value, psi, 0.0, 0)
    return as_dependent(fit) if blocks else fit


def _blocks(evaluation: Evaluation) -> bool:
    """Whether pieces are neighbouring blocks that were found to depend on each other."""
    dependence = evaluation.diagnostics.dependence
    return dependence is not None and dependence > 1


def _best(found: Mapping[str, Evaluation]) -> dict[str, float]:
    """How often each value is the largest under joint sampling of the episodes."""
    names = list(found)
    values = np.array([_or_least(found[name].value) for name in names])
    psi = [found[name].influences for name in names]
    drawn = [found[name].resampled for name in names]
    if len({len(one) for one in psi}) == 1 and len(psi[0]) > 1:
        E = len(psi[0])
        root = np.linalg.svd(np.array(psi), full_matrices=False)
        spread = root[0] * root[1] / np.sqrt(E * (E - 1))
        rng = np.random.default_rng(0)
        together = values + rng.standard_normal((DRAWS, len(root[1]))) @ spread.T
    elif len({len(one) for one in drawn}) == 1 and len(drawn[0]) > 1:
        together = np.array(drawn).T
        together = together[np.isfinite(together).all(axis=1)]
    else:
        together = np.zeros((0, len(names)))
    if not len(together) or not np.isfinite(values).all():
        return dict.fromkeys(names, float("nan"))
    won = np.bincount(together.argmax(axis=1), minlength=len(names)) / len(together)
    most = np.array([min(_beats(found[name], found[other]) for other in names if other != name) for name in names])
    best = np.minimum(won, most)
    room = most - best  # give the probability that the caps removed to the others
    best += room * (min(1.0, (1 - best.sum()) / room.sum()) if room.sum() > 0 else 0.0)
    return dict(zip(names, best.tolist(), strict=True))


def _beats(a: Evaluation, b: Evaluation) -> float:
    """Upper limit of the probability that one value exceeds another: the level at which the interval ends at zero.

    The draws are normal, while the interval of the difference also accounts for skew and a small effective number of
    episodes. The probability must not be more certain than the interval.
    """
    value = a.value_of_influences - b.value_of_influences
    if len(a.influences) < 2 or len(a.influences) != len(b.influences):
        return 1.0
    fit = _fit(value, a.influences - b.influences, _blocks(a) or _blocks(b))
    if not np.isfinite(fit.error) or fit.error <= 0:
        return 1.0 if value >= 0 else 0.0
    above = chance_above_zero(fit if value >= 0 else _turned(fit))
    return above if value >= 0 else 1 - above


def _turned(fit: Fit) -> Fit:
    """The difference with the opposite sign."""
    return replace(fit, value=-fit.value, psi=-fit.psi)
