"""Networks that learn the values of a log, half of its episodes at a time, for `gradtd.evaluate`.

The last layers become features (`gradtd.features.network.NetworkFeatures`), with the same least squares, influences,
checks and verdict as any other features. The networks' own values are reported without an interval.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradtd.core.arrays import Floats, Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_begins
from gradtd.deep.impression import Batch
from gradtd.deep.mlp import Mlp
from gradtd.deep.training import Sides, train
from gradtd.features.network import NetworkFeatures
from gradtd.logs import Log

UPDATES, BATCH, SEEDS = 2000, 32, 2
OPTIMISER = optax.adam(1e-3)
FEWEST_EPISODES = 20


class LearnedLog(NamedTuple):
    """The feature maps of the log, one per training seed, and the networks' own values of the start states."""

    maps: tuple[NetworkFeatures, ...]
    own: Floats


def learn_features(log: Log, rho: Floats, gamma: float, seed: int = 0) -> LearnedLog:
    """Train two networks, each on one half of the episodes, for every training seed."""
    if log.discrete_observations:
        raise InputError("features='network' is for continuous observations, but those of this log are discrete.")
    if log.n_episodes < FEWEST_EPISODES:
        raise InputError(f"features='network' needs at least {FEWEST_EPISODES} episodes, got {log.n_episodes}.")
    seen = np.asarray(log.observations, np.float64)
    center, sd = seen.mean(axis=0), seen.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    x = ((seen - center) / sd).astype(np.float32)
    scale = _scale(log, rho, gamma)
    discount = np.where(log.terminated, 0.0, gamma).astype(np.float32)
    reward, ratio = (log.reward / scale).astype(np.float32), rho.astype(np.float32)
    steps = Batch(*map(jnp.asarray, (x[log.row], reward, x[log.next_row], discount, ratio)))
    half = np.random.default_rng(seed).permutation(log.n_episodes) % 2
    net = Mlp(x.shape[1], hidden=(64, last_width(log.n_episodes)), activation="tanh")
    sides = _sides(log.episode, half, seed)
    keys = jax.vmap(jax.random.key)(seed * SEEDS + jnp.arange(SEEDS))
    learn = jax.vmap(partial(_learn, net, steps), (None, 0))
    both = jax.vmap(learn, (0, None))(sides, keys)  # (halves, seeds)
    x_starts = jnp.asarray(x[log.row[log.starts]])
    served_by = np.zeros(len(seen), np.int64)
    for rows in (log.next_row, log.row):
        served_by[rows] = 1 - half[log.episode]  # the network that learned on the other half
    maps, own = [], []
    for k in range(SEEDS):
        nets = [jax.tree.map(lambda a, i=i, k=k: a[i, k], both) for i in (0, 1)]
        values = np.stack([np.asarray(net.apply(p, x_starts)[0], np.float64) for p in nets])
        own.append(scale * float(values[1 - half, np.arange(len(half))].mean()))
        weights = np.concatenate([_flat(p) for p in nets])
        learned = {"center": center, "sd": sd, "widths": np.array(net.hidden, np.int64), "weights": weights}
        maps.append(NetworkFeatures.of_log(log.observations, served_by, learned))
    return LearnedLog(tuple(maps), np.array(own))


def last_width(n_episodes: int) -> int:
    """The number of units in the last layer, 4 to 32, depending on the number of episodes in a half."""
    return int(np.clip(n_episodes // 20, 4, 32))


def _learn(net: Mlp, steps: Batch, sides: Sides, key: Any) -> Any:
    start, go = jax.random.split(key)
    sizes = (BATCH, BATCH)
    return train(net.init(start), go, steps, sides, apply=net.apply, optimiser=OPTIMISER, updates=UPDATES, sizes=sizes)[
        0
    ]


def _sides(episode: Integers, half: Integers, seed: int) -> Sides:
    """The steps of two batches for each half, as lists of equal length. Entries of shorter lists are repeated."""
    rng = np.random.default_rng([seed, 1])
    turn = np.zeros(len(half), np.int64)
    for side in (0, 1):
        members = np.flatnonzero(half == side)
        turn[members] = np.arange(len(members)) % 2
    lists = [[np.flatnonzero((half[episode] == s) & (turn[episode] == t)) for s in (0, 1)] for t in (0, 1)]
    longest = max(len(a) for pair in lists for a in pair)
    made = [jnp.asarray(np.stack([np.resize(rng.permutation(a), longest) for a in pair])) for pair in lists]
    return Sides(*made)


def _scale(log: Log, rho: Floats, gamma: float) -> float:
    """The scale of a return, so that scaled values are about 1."""
    begins = episode_begins(log.episode)
    since = np.arange(len(log)) - np.repeat(begins[:-1], np.diff(begins))
    returns = np.add.reduceat(log.reward * gamma**since, begins[:-1])
    return float(np.sqrt(np.mean(returns**2))) or 1.0


def _flat(params: Any) -> Floats:
    """The weights in the form that `gradtd.features.network.layers` reads, without the output layer."""
    parts = [np.asarray(a, np.float64).ravel() for one in params["hidden"] for a in (one["weights"], one["bias"])]
    return np.concatenate(parts)
