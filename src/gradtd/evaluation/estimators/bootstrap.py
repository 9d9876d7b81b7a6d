"""The bootstrap over episodes: samples shared by all estimates, and intervals from the values on them.

gradtd resamples *episodes*, because the steps of one episode depend on each other. With more than `MOST_GROUPS`
episodes, it draws groups of neighbouring ones. That limits the work, and a variance from 2,000 pieces is precise
enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.traces import keep_traces, kept_traces, traces_at
from gradtd.core.arrays import Floats, Integers
from gradtd.core.quantiles import student
from gradtd.core.stream import Stream

MOST_GROUPS = 2000


@dataclass(frozen=True, eq=False)
class Resamples:
    """``counts[r, g]`` is how often bootstrap sample r contains group g, the episodes ``begins[g]`` to ``begins[g +
    1]``.
    """

    counts: NDArray[np.int32]
    begins: Integers

    def __len__(self) -> int:
        return len(self.counts)

    def of_episodes(self, r: int) -> Integers:
        """How often bootstrap sample r contains each episode."""
        return np.repeat(self.counts[r].astype(np.int64), np.diff(self.begins))


def draw_resamples(n_episodes: int, resamples: int, seed: int) -> Resamples:
    """Draw as many groups as there are, with replacement, ``resamples`` times."""
    groups = min(n_episodes, MOST_GROUPS)
    begins = np.linspace(0, n_episodes, groups + 1).round().astype(np.int64)
    rng = np.random.default_rng([seed, 20231])
    counts = rng.multinomial(groups, np.full(groups, 1 / groups), resamples).astype(np.int32)
    return Resamples(counts, begins)


def resampled(stream: Stream, begins: Integers, counts: Integers) -> tuple[Stream, Integers]:
    """The stream with each episode ``counts`` times, and the number of the original episode of each step.

    Features are shared, not copied, and a step keeps its trace. Copies of an episode are dependent and must stay in the
    same buffer, so the original numbers are returned.
    """
    taken = np.repeat(np.arange(len(counts)), counts)
    lengths = np.diff(begins)[taken]
    ends = np.cumsum(lengths)
    rows = np.repeat(begins[taken] - ends + lengths, lengths) + np.arange(ends[-1])
    unit = np.asarray(stream.steps["episode"][rows], np.int64)
    starts = None if stream.starts is None else stream.starts[taken]
    again = stream.taken(rows, np.repeat(np.arange(len(taken)), lengths), starts)
    kept = kept_traces(stream)
    if kept is not None:
        keep_traces(again, kept[0], traces_at(kept[1], rows))
    return again, unit


def poisson_weights(pieces: Floats, resamples: int, seed: int) -> Floats:
    """Poisson(1) weights of groups with these numbers of episodes. Samples without any episode are drawn again."""
    rng = np.random.default_rng([seed, 20231])
    weights = rng.poisson(1.0, (resamples, len(pieces))).astype(np.float64)
    while (empty := weights @ pieces == 0.0).any():
        weights[empty] = rng.poisson(1.0, (int(empty.sum()), len(pieces)))
    return weights


def of_influences(value: float, psi: Floats, resamples: Resamples) -> Floats:
    """First-order estimates on every bootstrap sample, from the influences of episodes."""
    of_group = np.add.reduceat(psi, resamples.begins[:-1])
    taken = resamples.counts @ np.diff(resamples.begins)
    return np.asarray(value + (resamples.counts @ of_group) / np.maximum(taken, 1))


def student_interval(value: float, error: float, level: float, freedom: int) -> tuple[float, float]:
    """value -+ t error, where t is Student's quantile for ``freedom`` degrees of freedom."""
    half = student(0.5 + level / 2, max(freedom, 1)) * error
    return value - half, value + half


def interval_from(
    value: float, values: Floats, level: float, n_episodes: int, kind: str = "student"
) -> tuple[float, float]:
    """The interval from bootstrap values: ``student`` (value -+ t times their standard deviation) or ``percentile``."""
    if kind == "percentile":
        low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
        return float(low), float(high)
    return student_interval(value, float(values.std(ddof=1)), level, min(n_episodes, len(values)) - 1)
