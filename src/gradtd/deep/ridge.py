"""How much to correct, from the errors of one batch and nothing to tune: a ridge by empirical Bayes.

The errors e of batch 2 are modelled as e ~ N(0, s (K / kbar + ridge I)). A part that the similarity explains and a part
that it does not: the more of the errors is explained, the smaller the ridge, and the more is corrected. Where errors
are noise the correction vanishes and the update is semi-gradient TD, which is fast. Where TD diverges, errors grow
along directions of the network, so they are explained, and the correction comes back.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

GRID = tuple(10.0 ** (k / 2) for k in range(-6, 9))
"""Ridges that are compared, from .001 to 10,000."""


def likelihoods(K: Any, errors: Any) -> tuple[Any, Any]:
    """For every ridge of the grid: the log likelihood, its scale at its best, and (K + ridge kbar I)^-1 errors.

    One eigendecomposition serves all ridges.
    """
    K, errors = jax.lax.stop_gradient(K), jax.lax.stop_gradient(errors)
    m, kbar = len(K), jnp.mean(jnp.diag(K)) + jnp.finfo(K.dtype).tiny
    size, Q = jnp.linalg.eigh(K / kbar)
    along = Q.T @ errors
    ridges = jnp.asarray(GRID, K.dtype)
    spread = jnp.clip(size, 0.0)[None] + ridges[:, None]
    quadratic = jnp.sum(along**2 / spread, axis=1)
    fit = -0.5 * (m * jnp.log(quadratic + jnp.finfo(K.dtype).tiny) + jnp.sum(jnp.log(spread), axis=1))
    return fit, (along / spread) @ Q.T / kbar


def evidence_ridge(K: Any, errors: Any) -> Any:
    """(K + ridge kbar I)^-1 errors, averaged over the ridges of the grid by how likely each makes the errors."""
    fit, shares = likelihoods(K, errors)
    return jax.nn.softmax(fit) @ shares
