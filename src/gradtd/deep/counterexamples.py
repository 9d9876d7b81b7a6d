"""Counterexamples on which semi-gradient TD diverges, with networks as value functions: which methods diverge, and
which do not.

All rewards are 0, so every true value is 0, and the error is the distance from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradtd.deep import baselines
from gradtd.deep.impression import Apply, Batch, impression_loss, values
from gradtd.deep.mlp import Mlp

UPDATES, M, PERIOD = 2000, 8, 100
DIVERGED = 10.0
"""A run counts as diverged when its error exceeds this multiple of the initial error."""


class World(NamedTuple):
    """A problem: its states, a network, random initial parameters, and independent draws of steps."""

    states: Any
    apply: Apply
    init: Callable[[Any], Any]
    draw: Callable[[Any, int], Batch]


def spiral() -> World:
    """Three states whose values spiral out with one parameter (Tsitsiklis and Van Roy 1997), on-policy."""
    a, b = jnp.array([10.0, -7.0, -3.0]), jnp.array([2.3094, -9.815, 7.5056])
    turn, growth, gamma = 0.866, 0.05, 0.9

    def value(theta: Any, s: Any) -> Any:
        return (a[s] * jnp.cos(turn * theta) - b[s] * jnp.sin(turn * theta)) * jnp.exp(growth * theta)

    def apply(theta: Any, s: Any) -> Any:
        slope = jax.vmap(jax.grad(value), (None, 0))(theta, s)
        return value(theta, s), slope[:, None]

    def draw(key: Any, m: int) -> Batch:
        one, two = jax.random.split(key)
        s = jax.random.randint(one, (m,), 0, 3)
        after = jnp.where(jax.random.bernoulli(two, 0.5, (m,)), s, (s + 2) % 3)  # P = [[1,0,1],[1,1,0],[0,1,1]] / 2
        return Batch(s, jnp.zeros(m), after, jnp.full(m, gamma), jnp.ones(m))

    return World(jnp.arange(3), apply, lambda key: jax.random.uniform(key, (), minval=-1.0), draw)


def baird() -> World:
    """Baird's star, whose seven rows of features are the inputs of a network with 32 ReLU units. gamma = .99, ratios 0
    and 7."""
    rows = np.zeros((7, 8), np.float32)
    rows[:6, :6], rows[:6, 7] = 2 * np.eye(6), 1.0
    rows[6, 6], rows[6, 7] = 1.0, 2.0
    table = jnp.asarray(rows)
    net = Mlp(8, hidden=(32,))

    def draw(key: Any, m: int) -> Batch:
        one, two, three = jax.random.split(key, 3)
        s, solid = jax.random.randint(one, (m,), 0, 7), jax.random.bernoulli(two, 1 / 7, (m,))
        after = jnp.where(solid, 6, jax.random.randint(three, (m,), 0, 6))
        return Batch(table[s], jnp.zeros(m), table[after], jnp.full(m, 0.99), jnp.where(solid, 7.0, 0.0))

    return World(table, net.apply, partial(_random_start, net), draw)


def w_2w(hidden: tuple[int, ...] = ()) -> World:
    """A problem with a single step, from the state with feature 1 to the state with feature 2. gamma = .99."""
    net = Mlp(1, hidden=hidden)

    def linear(w: Any, x: Any) -> Any:
        return x[:, 0] * w, x

    def draw(key: Any, m: int) -> Batch:
        return Batch(jnp.ones((m, 1)), jnp.zeros(m), jnp.full((m, 1), 2.0), jnp.full(m, 0.99), jnp.ones(m))

    states = jnp.array([[1.0], [2.0]])
    if not hidden:
        return World(states, linear, lambda key: jax.random.uniform(key, (), minval=0.5), draw)
    return World(states, net.apply, partial(_random_start, net), draw)


def _random_start(net: Mlp, key: Any) -> Any:
    """A network with nonzero initial values."""
    one, two = jax.random.split(key)
    params = net.init(one)
    return params | {"head": jax.random.normal(two, params["head"].shape) / net.hidden[-1] ** 0.5}


WORLDS: dict[str, Callable[[], World]] = {
    "spiral": spiral,
    "Baird, network": baird,
    "w-2w, linear": w_2w,
    "w-2w, network": partial(w_2w, (32,)),
}


def same_state(x: Any, y: Any) -> Any:
    """1 if two observations are the same state: the identity kernel."""
    x, y = (a.reshape(len(a), -1) for a in (x, y))
    return jnp.all(x[:, None] == y[None], axis=-1).astype(jnp.float32)


_RESIDUAL = {"form": "residual", "similarity": "gradient"}
METHODS: dict[str, Mapping[str, Any] | str] = {
    "TD": "td",
    "TD, target network": "target",
    "residual gradient, two draws": "residual",
    "TDRC": "tdrc",
    "NEU": {**_RESIDUAL, "whiten": False},
    "NEU, Hessian": {**_RESIDUAL, "whiten": False, "hessian": True},
    "MSPBE": {**_RESIDUAL, "ridge": 1.0},
    "MSPBE, Hessian": {**_RESIDUAL, "ridge": 1.0, "hessian": True},
    "identity kernel": {"form": "residual", "similarity": same_state, "whiten": False},
    "corrected, gradient, ridge 1": {"similarity": "gradient", "ridge": 1.0},
    "corrected, last, ridge 1": {"similarity": "last", "ridge": 1.0},
    "corrected, gradient, auto": {"similarity": "gradient"},
    "corrected, last, auto (default)": {"similarity": "last"},
}
"""The methods compared: baselines by name, and variants of Impression GTD by their options."""


def run(world: World, method: str, steps: Any, seeds: Any, updates: int = UPDATES) -> Any:
    """Errors relative to the initial ones, (seeds, step-sizes, 101), with plain SGD and alpha = step / gradient scale.

    The scale is the mean of |grad v|^2 at the start, and its square for NEU, whose direction is a product of four
    gradients.
    """
    asked = METHODS[method]
    power = 2 if not isinstance(asked, str) and _four_gradients(asked) else 1
    every = jax.vmap(jax.vmap(partial(_one_run, world, asked, power, updates), (0, None)), (None, 0))
    return jax.jit(every)(jnp.asarray(steps), jax.vmap(jax.random.key)(jnp.asarray(seeds)))


def _four_gradients(options: Mapping[str, Any]) -> bool:
    return options.get("whiten") is False and options["similarity"] == "gradient"


def _one_run(world: World, asked: Any, power: int, updates: int, step: Any, key: Any) -> Any:
    key, start = jax.random.split(key)
    params = world.init(start)
    slopes = jax.jacobian(lambda p: values(world.apply, p, world.states))(params)
    scale = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slopes)) / len(world.states)
    alpha = step / scale**power
    n_features = world.apply(params, world.states)[1].shape[1]
    begin = {"params": params, "target": params, "head": jnp.zeros(n_features)}

    def error(p: Any) -> Any:
        return jnp.sqrt(jnp.mean(values(world.apply, p, world.states) ** 2))

    def update(now: Any, at: Any) -> tuple[Any, None]:
        number, key = at
        one, two = jax.random.split(key)
        loss = partial(_loss, world, asked, now["target"], world.draw(one, M), world.draw(two, M))
        slope, head = jax.grad(loss, (0, 1))(now["params"], now["head"])
        moved = jax.tree.map(lambda p, g: p - alpha * g, now["params"], slope)
        copied = (number + 1) % PERIOD == 0
        target = jax.tree.map(lambda t, p: jnp.where(copied, p, t), now["target"], moved)
        return {"params": moved, "target": target, "head": now["head"] - alpha * head}, None

    def stretch(now: Any, at: Any) -> tuple[Any, Any]:
        now, _ = jax.lax.scan(update, now, at)
        return now, error(now["params"])

    at = (jnp.arange(updates).reshape(100, -1), jax.random.split(key, (100, updates // 100)))
    _, seen = jax.lax.scan(stretch, begin, at)
    return jnp.concatenate([jnp.ones(1), seen / error(params)])


def _loss(world: World, asked: Any, target: Any, first: Batch, second: Batch, params: Any, head: Any) -> Any:
    """The loss of one method. Methods that use one batch get all samples."""
    if not isinstance(asked, str):
        return impression_loss(world.apply, params, first, second, **asked)
    both = baselines.joined(first, second)
    if asked == "tdrc":
        return baselines.correction_loss(world.apply, params, head, both)
    if asked == "residual":  # the second draw starts from the same states, which only a simulator allows
        return baselines.residual_loss(world.apply, params, first, next_x=_again(world, first, second))
    return baselines.semi_gradient_loss(world.apply, params, both, target if asked == "target" else None)


def _again(world: World, first: Batch, second: Batch) -> Any:
    """A second draw of the transitions of batch 1. Except in the spiral, transitions are deterministic."""
    if jnp.ndim(first.x) > 1:
        return first.next_x  # given state and action, the transition is deterministic
    stays = second.next_x == second.x
    return jnp.where(stays, first.x, (first.x + 2) % 3)


def counts(errors: Any) -> tuple[int, float]:
    """The number of runs that diverged, and the median error at the end."""
    last = np.asarray(errors)[..., -1]
    bad = ~np.isfinite(last) | (last > DIVERGED)
    return int(bad.sum()), float(np.median(np.where(np.isfinite(last), last, np.inf)))
