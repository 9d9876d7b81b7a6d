"""From a log to the stream that is learned from: features, ratios, discounts, independent pieces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradtd.checks import InputError
from gradtd.evaluation.diagnostics import condition
from gradtd.evaluation.products import chunk_rows, chunks
from gradtd.evaluation.whitening import original, second_moments, whiten
from gradtd.features import Features, Function, Transformer, default_features, make_features
from gradtd.logs import Log
from gradtd.types import STEP, Floats, Integers, Stream


@dataclass(frozen=True, eq=False)
class Prepared:
    """A log in features: the fitted map, the table of all its observations, and the episodes as they are resampled.

    ``log`` is without its observations, which may be as large as the table: they go when their owner lets them go.
    """

    log: Log
    features: Features
    table: Any
    W: Floats | None
    condition_C: float | None
    episode: Integers
    notes: tuple[str, ...]

    def weights(self, theta: Floats) -> Floats:
        """Weights of the features as they were, from those of the whitened ones."""
        return original(self.W, theta)

    def stream(self, rho: Floats, gamma: float) -> Stream:
        """The steps with their ratios and discounts; the table of features is shared, not copied."""
        log = self.log
        steps = np.zeros(len(log), STEP)
        for name in ("row", "next_row", "reward"):
            steps[name] = getattr(log, name)
        steps["discount"] = np.where(log.terminated, 0.0, gamma)
        steps["rho"] = rho
        steps["episode"] = self.episode
        return Stream(self.table, steps.view(np.recarray), log.name)


def prepare_log(log: Log, features: Any, block: int | None, whitened: bool = True) -> Prepared:
    """Fit the features to the log's observations and compute them, once for all targets."""
    chosen = default_features(log.observations) if features is None else make_features(features)
    fitted = chosen if chosen.fitted else chosen.fit(log.observations)
    table = fitted.transform(log.observations)
    refuse_useless(fitted, table)
    W = None
    C = second_moments(table, log.row)
    if whitened:
        if isinstance(fitted, (Function, Transformer)):
            table = table.copy()  # it may be the user's own array
        table, W = whiten(table, C)
    notes = list(log.notes)
    episode = log.episode
    if block is not None:
        episode = cut_into_blocks(episode, block)
        notes.append(
            f"every {block} steps of an episode count as one independent piece, and the value is that of the states at "
            "which a piece begins."
        )
    if episode[-1] == 0:
        raise InputError(
            f"{log.name} has a single episode ({len(log)} steps), and episodes are what is resampled: give block=T0 to "
            "count every T0 steps as one, with T0 long enough that pieces hardly depend on each other."
        )
    narrow = replace(log, observations=log.observations[:0].copy())
    condition_C = condition(C) if isinstance(C, np.ndarray) else None
    return Prepared(narrow, fitted, table, W, condition_C, episode, tuple(notes))


def cut_into_blocks(episode: Integers, block: int) -> Integers:
    """Number the pieces of ``block`` steps, which do not reach over the end of an episode.

    >>> cut_into_blocks(np.array([0, 0, 0, 1, 1]), 2)
    array([0, 0, 1, 2, 2])
    """
    begins = np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])
    since = np.arange(len(episode)) - np.repeat(begins, np.diff(np.r_[begins, len(episode)]))
    return np.cumsum(since % block == 0) - 1


def refuse_useless(features: Features, table: Any) -> None:
    """Two constant features say the same thing, and only constant ones say nothing at all."""
    if not isinstance(table, np.ndarray):
        return
    varies = np.zeros(table.shape[1], bool)
    for part in chunks(len(table), chunk_rows(table)):
        varies |= (table[part] != table[0]).any(axis=0)
        if (
            varies.any() and varies[1:].all()
        ):  # all but, perhaps, a bias: the rest of the log cannot change what follows
            break
    constant = [int(k) for k in np.flatnonzero(~varies & (table[0] != 0))]
    if len(constant) > 1:
        labels = ", ".join(features.label(k) for k in constant[:5])
        raise InputError(f"{len(constant)} features are constant ({labels}): leave out all but one of them.")
    if not varies.any():
        raise InputError("all features are constant: they cannot tell one observation from another.")
