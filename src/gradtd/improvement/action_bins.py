"""Continuous actions as a grid of bins, each with an equal share of the log's actions.

No log can evaluate a deterministic policy over continuous actions: the behaviour never takes exactly the same action.
Therefore the policy chooses a bin and draws within it as the behaviour does. For every action in a bin the ratio is
then pi(bin | s) / b(bin | s), and the log with bins as actions contains all that `improve` and `evaluate` need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.logs import Log

BINS = 5
MOST_BINS = 100
POINTS = 65
"""Number of quantiles of the actions in a bin that a policy stores, to draw actions."""


@dataclass(frozen=True, eq=False)
class ActionBins:
    """Bins of a continuous action: below the first edge, between two edges, from the last edge on.

    Parameters
    ----------
    edges
        Edges in ascending order, one fewer than bins.
    quantiles
        Quantiles of the log's actions in every bin, (bins, points).
    """

    edges: Floats
    quantiles: Floats

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each bin."""
        said = [f"{edge:.4g}" for edge in self.edges]
        said = said if len(set(said)) == len(said) else [repr(float(edge)) for edge in self.edges]
        return (f"below {said[0]}", *(f"{low} to {high}" for low, high in pairwise(said)), f"from {said[-1]}")

    def of(self, log: Log) -> Log:
        """The log with every action replaced by its bin. Densities of actions do not apply to bins and are dropped.

        Parameters
        ----------
        log
            A log with one-dimensional continuous actions.
        """
        codes = np.searchsorted(self.edges, _one_number(log), side="right")
        return replace(log, action=codes, action_labels=self.labels, behaviour=None, target=None, rho=None)

    def draw(self, bins: Integers, rng: np.random.Generator) -> Floats:
        """Actions in these bins, distributed as in the log.

        Parameters
        ----------
        bins
            Numbers of bins.
        rng
            A NumPy generator.
        """
        points = np.linspace(0, 1, self.quantiles.shape[1])
        at = rng.random(len(bins))
        return np.array([np.interp(one, points, self.quantiles[b]) for one, b in zip(at, bins, strict=True)])


def make_bins(log: Log, bins: int | Sequence[float] | None) -> ActionBins:
    """Bins of equal shares, or with the given edges."""
    actions = _one_number(log)
    if bins is None or np.ndim(bins) == 0:
        count = checks.whole_number("bins", BINS if bins is None else bins, 2, MOST_BINS)
        edges = np.unique(np.quantile(actions, np.arange(1, count) / count, method="inverted_cdf"))
        edges = edges[edges > actions.min()]
        if not len(edges):
            raise InputError(
                f"nearly all actions of {log.name} are {np.median(actions):g}: gradtd cannot make bins. Give edges."
            )
    else:
        edges = checks.finite_array("bins", bins, 1)
        if not len(edges) or (edges[1:] <= edges[:-1]).any():
            raise InputError("bins needs edges in increasing order, or the number of bins.")
    bin_of = np.searchsorted(edges, actions, side="right")
    counts = np.bincount(bin_of, minlength=len(edges) + 1)
    if (counts == 0).any():
        raise InputError(f"{log.name} has no action in bin {int(counts.argmin())} of bins={edges.tolist()}.")
    points = np.linspace(0, 1, POINTS)
    return ActionBins(edges, np.array([np.quantile(actions[bin_of == b], points) for b in range(len(counts))]))


def _one_number(log: Log) -> Floats:
    assert log.action is not None
    if log.action.ndim == 2 and log.action.shape[1] > 1:
        raise InputError(
            f"an action of {log.name} has {log.action.shape[1]} numbers, but bins are made of one: keep one of the "
            "columns, or give your own codes as discrete actions."
        )
    return np.asarray(log.action, np.float64).reshape(len(log))
