"""The strength of the correction, estimated from both batches without tuning.

The errors e of batch 2 are modelled as e ~ N(0, s (K / kbar + ridge I)). One part is explained by the similarity, the
other is noise. The larger the explained part, the smaller the ridge and the stronger the correction. If errors
are noise, the correction vanishes and the update is semi-gradient TD, which is fast. If TD diverges, errors grow along
directions of the network, so they are explained and the correction is strong again.

TD errors are not Gaussian: ratios give them heavy tails, and steps repeat. The likelihood is therefore tempered
(Grünwald 2012), so that one batch does not settle on one ridge. Batch 1 then decides how much of the impression to use:
its errors are regressed on the impression, and the slope, between 0 and 1, multiplies it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

GRID = tuple(10.0 ** (7 * k / 5 - 3) for k in range(6))
"""The ridges that are averaged, from .001 to 10,000."""
TEMPER = 0.3
"""Power of the likelihood."""


def evidence_ridge(K: Any, errors: Any) -> Any:
    """(K + ridge kbar I)^-1 errors, averaged over the ridges of the grid, weighted by tempered likelihood.

    Each ridge has a Cholesky factor. All six cost less than the one eigendecomposition that would serve every ridge.
    """
    K, errors = jax.lax.stop_gradient(K), jax.lax.stop_gradient(errors)
    m, kbar = len(K), jnp.mean(jnp.diag(K)) + jnp.finfo(K.dtype).tiny
    ridges = jnp.asarray(GRID, K.dtype)[:, None, None]
    factor = jnp.linalg.cholesky(K / kbar + ridges * jnp.eye(m, dtype=K.dtype))
    column = jnp.broadcast_to(errors[:, None], (len(GRID), m, 1))
    half = triangular_solve(factor, column, left_side=True, lower=True)
    quadratic = jnp.sum(half**2, axis=(1, 2))
    log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)), axis=1)
    fit = -0.5 * (m * jnp.log(quadratic + jnp.finfo(K.dtype).tiny) + log_determinant)
    shares = triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)[..., 0]
    return jax.nn.softmax(TEMPER * fit) @ shares / kbar


def confirmed(h: Any, errors: Any) -> Any:
    """h times the slope of the other batch's errors on it, between 0 and 1."""
    slope = jnp.sum(h * errors) / (jnp.sum(h**2) + jnp.finfo(h.dtype).tiny)
    return h * jnp.clip(slope, 0.0, 1.0)
