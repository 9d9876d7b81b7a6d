"""The ridge of the correction, estimated by empirical Bayes from the errors of one batch, without tuning.

The errors e of batch 2 are modelled as e ~ N(0, s (K / kbar + ridge I)). One part is explained by the similarity, the
other is noise. The larger the explained part, the smaller the ridge and the stronger the correction. If errors
are noise, the correction vanishes and the update is semi-gradient TD, which is fast. If TD diverges, errors grow along
directions of the network, so they are explained and the correction is strong again.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.lax.linalg import triangular_solve

GRID = tuple(10.0 ** (7 * k / 5 - 3) for k in range(6))
"""The ridges that are averaged, from .001 to 10,000."""


def evidence_ridge(K: Any, errors: Any) -> Any:
    """(K + ridge kbar I)^-1 errors, averaged over the ridges of the grid, weighted by likelihood.

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
    return jax.nn.softmax(fit) @ shares / kbar
