"""Baselines for Impression GTD in the same form: losses whose gradient is the update's direction."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from gradtd.deep.impression import Apply, Batch, last_features, td_errors, values

held = jax.lax.stop_gradient


def joined(first: Batch, second: Batch) -> Batch:
    """Join two batches for methods that need one, so that all methods use the same number of samples."""
    return Batch(*(jnp.concatenate(pair) for pair in zip(first, second, strict=True)))


def semi_gradient_loss(apply: Apply, params: Any, batch: Batch, target_params: Any = None) -> Any:
    """Semi-gradient TD: d = -mean rho delta grad v. ``target_params`` are those of a target network."""
    ahead = values(apply, params if target_params is None else target_params, batch.next_x)
    v = values(apply, params, batch.x)
    delta = held(batch.reward + batch.discount * ahead - v)
    return -jnp.mean(batch.rho * delta * v)


def residual_loss(apply: Apply, params: Any, batch: Batch, next_x: Any = None, reward: Any = None) -> Any:
    """Residual gradient: d = mean rho delta (discount grad v' - grad v), the gradient of mean rho delta^2 / 2.

    ``next_x`` and ``reward`` are a second, independent draw of the transition from x. With them, d is the gradient of
    the mean squared Bellman error. Without, the objective also penalises the variance of the target.
    """
    delta = td_errors(apply, params, batch)
    if next_x is None:
        return 0.5 * jnp.mean(batch.rho * delta**2)
    other = td_errors(apply, params, batch._replace(next_x=next_x, reward=batch.reward if reward is None else reward))
    return jnp.mean(batch.rho * held(other) * delta)


def correction_loss(
    apply: Apply, params: Any, head: Any, batch: Batch, *, beta: float = 1.0, regularised: bool = True
) -> Any:
    """TDC, or TDRC with ``beta`` on its second head w: h = features . w. Differentiate with respect to ``(params,
    head)``.

    d = mean rho (discount h grad v' - delta grad v) for the network. For the head, d = mean (h - rho delta) features,
    plus beta w if regularised (Ghiassian et al. 2020); no gradient flows through its features.
    """
    features = held(last_features(apply, params, batch.x))
    h = features @ head
    v, ahead = values(apply, params, batch.x), values(apply, params, batch.next_x)
    delta = held(batch.reward + batch.discount * ahead - v)
    network = jnp.mean(batch.rho * (batch.discount * held(h) * ahead - delta * v))
    second = 0.5 * jnp.mean((h - batch.rho * delta) ** 2)
    return network + second + (0.5 * beta * jnp.sum(head**2) if regularised else 0.0)


def k_loss(apply: Apply, params: Any, batch: Batch, kernel: Any) -> Any:
    """K-loss (Feng, Li and Liu 2019): half the mean over pairs i != j of e_i k(x_i, x_j) e_j, with e = rho delta."""
    errors = batch.rho * td_errors(apply, params, batch)
    K, m = kernel(batch.x, batch.x), len(errors)
    off = K - jnp.diag(jnp.diag(K))
    return 0.5 * errors @ off @ errors / (m * (m - 1))


def gaussian_kernel(width: float) -> Any:
    """k(x, y) = exp(-|x - y|^2 / (2 width^2)), for `k_loss` and as a similarity."""

    def kernel(x: Any, y: Any) -> Any:
        x, y = (a.reshape(len(a), -1) for a in (x, y))
        far = jnp.sum((x[:, None] - y[None]) ** 2, axis=-1)
        return jnp.exp(-far / (2 * width**2))

    return kernel
