"""Which policies can be excluded and which are tied with the best, at a stated error rate.

All paired differences hold simultaneously: the quantile of the largest t value is simulated from the correlations of
the influences (a max-t, or Tukey, procedure). This corrects for choosing the best of many policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np

from gradtd.core.arrays import Floats

DRAWS = 20_000
BEST, TIED, EXCLUDED, NOT_JUDGED = "best", "tied with the best", "excluded", "not judged"
Interval = Callable[[str, str, float], tuple[float | None, float | None]]
"""A function that returns the interval of the first target's value minus the second's, at a level."""


@dataclass(frozen=True)
class TargetDecision:
    """The decision on one target among several.

    Parameters
    ----------
    name
        The target.
    decision
        "excluded": another target is better. "best": all others are excluded. "tied with the best": it may be the best.
        "not judged": its value is unchecked or not usable.
    by
        The target that excludes it by the widest margin; empty if none does.
    low, high
        The interval of that target's value minus its own.
    """

    name: str
    decision: str
    by: str = ""
    low: float | None = None
    high: float | None = None


def decide_among(
    verdicts: Mapping[str, str], psi: Mapping[str, Floats], interval: Interval, level: float
) -> tuple[TargetDecision, ...]:
    """A decision about every target. The probability that the best usable target is excluded is at most 1 - level.

    Only usable targets are compared. ``psi`` are the influences of the episodes on every value, empty for a value
    without influences; ``interval`` returns the interval of a paired difference.
    """
    usable = [name for name, verdict in verdicts.items() if verdict == "usable"]
    single = _level_of_pairs(usable, psi, level)
    beaten: dict[str, TargetDecision] = {}
    for first, second in combinations(usable, 2):
        low, high = interval(first, second, single)
        if low is None or high is None:
            continue
        if low > 0:
            _exclude(beaten, TargetDecision(second, EXCLUDED, first, low, high))
        elif high < 0:
            _exclude(beaten, TargetDecision(first, EXCLUDED, second, -high, -low))
    left = [name for name in usable if name not in beaten]
    word = BEST if len(left) == 1 and len(usable) > 1 else TIED
    return tuple(beaten.get(name) or TargetDecision(name, word if name in usable else NOT_JUDGED) for name in verdicts)


def _exclude(beaten: dict[str, TargetDecision], found: TargetDecision) -> None:
    before = beaten.get(found.name)
    if before is None or (before.low or 0.0) < (found.low or 0.0):
        beaten[found.name] = found


def _level_of_pairs(names: Sequence[str], psi: Mapping[str, Floats], level: float) -> float:
    """The level of a single pair: from the influences, or by Bonferroni without them."""
    pairs = list(combinations(names, 2))
    if not pairs:
        return level
    if len({len(psi[name]) for name in names}) == 1 and len(psi[names[0]]) > 1:
        return simultaneous_level(np.array([psi[a] - psi[b] for a, b in pairs]), level)
    return 1 - (1 - level) / len(pairs)


def simultaneous_level(psi: Floats, level: float) -> float:
    """The level of each single interval at which all hold simultaneously with the requested level.

    Parameters
    ----------
    psi
        Influences of the episodes on each quantity, (quantities, episodes). Rows of zeros are ignored.
    level
        The simultaneous level of all intervals.

    >>> rng = np.random.default_rng(0)
    >>> one = rng.standard_normal(500)
    >>> round(simultaneous_level(np.array([one, one]), 0.95), 2)         # the same quantity twice
    0.95
    >>> 0.97 < simultaneous_level(rng.standard_normal((2, 500)), 0.95) < 0.98
    True
    """
    size = np.sqrt((psi**2).sum(axis=1))
    rows = psi[size > 0] / size[size > 0, None]
    if len(rows) < 2:
        return level
    root = np.linalg.svd(rows, full_matrices=False)
    drawn = np.random.default_rng(0).standard_normal((DRAWS, len(root[1]))) @ (root[0] * root[1]).T
    largest = np.quantile(np.abs(drawn).max(axis=1), level)
    return float(max(level, 2 * NormalDist().cdf(float(largest)) - 1))
