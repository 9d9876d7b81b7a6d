"""Impression GTD for networks: one family of losses whose gradient is the update.

Two batches come from different episodes. v(x) is the network's value, delta = r + discount v(x') - v(x), and k is a
similarity of observations. Batch 2 and k determine the expected error at every x of batch 1, its *impression* h.

    h = K12 rho_2 delta_2 / m2                                not whitened
    h = K12 (K22 + ridge kbar I)^-1 rho_2 delta_2             whitened; kbar is the mean of the diagonal of K22

    d = mean_1 rho h (discount grad v' - grad v)              residual form
    d = mean_1 rho (discount h grad v' - delta grad v)        corrected form: TDC with h from the other batch

With k(x, y) = grad v(x) . grad v(y) and no whitening the residual form is Algorithm 1 of the paper: h = grad v . u with
u = mean_2 rho delta grad v. With whitening, (C + b I)^-1 u replaces u, where C = mean_2 grad v grad v' and
b = ridge kbar / m2: by the push-through identity this is an m2 x m2 system, not one of the network's size.

Let w be u, or (C + b I)^-1 u, of batch 2, so that h = grad v . w. Then the residual form with
``hessian=True`` is the gradient with respect to the parameters, with w held fixed, of

    mean_1 rho delta h                                        not whitened
    mean_1 (rho delta h - h^2 / 2)                            whitened

whose maximum over w is half of NEU, or half of MSPBE. Without the Hessian term, h is treated as constant in the
parameters; with a fixed kernel it is constant. The corrected form is not the gradient of any objective. `docs/deep.md`
describes what each form costs and when it diverges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gradtd.core.checks import number_at_least, one_of
from gradtd.deep.ridge import confirmed, evidence_ridge

Apply = Callable[[Any, Any], Any]
"""``apply(params, x)``: values (m,), or (values, features), where features (m, k) are the input of the last layer."""


class Batch(NamedTuple):
    """Steps from x to next_x. ``discount`` is gamma, 0 where the episode terminated; a truncated step keeps gamma."""

    x: Any
    reward: Any
    next_x: Any
    discount: Any
    rho: Any


def values(apply: Apply, params: Any, x: Any) -> Any:
    """The network's values; features are ignored."""
    made = apply(params, x)
    return made[0] if isinstance(made, tuple) else made


def last_features(apply: Apply, params: Any, x: Any) -> Any:
    """The features of the last layer."""
    made = apply(params, x)
    if not isinstance(made, tuple):
        raise TypeError("similarity='last' needs apply(params, x) to return (values, features): features are missing.")
    return made[1]


def td_errors(apply: Apply, params: Any, batch: Batch) -> Any:
    """delta = r + discount v(x') - v(x)."""
    ahead, here = values(apply, params, batch.next_x), values(apply, params, batch.x)
    return batch.reward + batch.discount * ahead - here


def impression(
    apply: Apply, params: Any, x: Any, second: Batch, *, similarity: Any = "last", whiten: bool = True, ridge: Any = 1.0
) -> Any:
    """h at every x, the expected error according to batch 2. The gradient flows only through x in the similarity."""
    held = jax.lax.stop_gradient(params)
    errors = second.rho * td_errors(apply, held, second)
    rows = None  # rows whose inner products are the similarities of batch 2
    if similarity == "last":
        rows = last_features(apply, held, second.x)
    elif similarity == "gradient" and whiten:
        rows = jax.vmap(lambda one: _gradient(apply, held, one))(second.x)
    if not whiten:
        share = errors / len(errors)
    else:
        share = whitened(similarity(second.x, second.x) if rows is None else rows @ rows.T, errors, ridge)
    if similarity == "last":
        return last_features(apply, params, x) @ (rows.T @ share)  # type: ignore[union-attr]
    if similarity == "gradient":
        along = jax.vjp(lambda p: values(apply, p, second.x), held)[1](share)[0]
        return jax.jvp(lambda p: values(apply, p, x), (params,), (along,))[1]
    return similarity(x, second.x) @ share


def whitened(K: Any, errors: Any, ridge: Any) -> Any:
    """(K + ridge kbar I)^-1 errors; ridge="auto" weights several ridges by the likelihood of the errors."""
    if isinstance(ridge, str):
        return evidence_ridge(K, errors)
    amount = ridge * jnp.mean(jnp.diag(K)) + jnp.finfo(K.dtype).tiny
    return jax.scipy.linalg.solve(K + amount * jnp.eye(len(K), dtype=K.dtype), errors, assume_a="pos")


def impression_loss(
    apply: Apply,
    params: Any,
    first: Batch,
    second: Batch,
    *,
    similarity: Any = "last",
    whiten: bool = True,
    form: str = "corrected",
    hessian: bool = False,
    directions: str = "one",
    ridge: Any = "auto",
) -> Any:
    """A scalar whose gradient with respect to ``params`` is the update's direction. Its value has no meaning.

    Parameters
    ----------
    apply, params
        The network: ``apply(params, x)`` returns values (m,), or (values, features).
    first, second
        Batches from different episodes; their sizes may differ.
    similarity : {"last", "gradient"} or function
        Inner products of last-layer features or of value gradients, or ``k(x, y)`` -> (len(x), len(y)), positive
        definite.
    whiten : bool
        Whether h is a regression (MSPBE) or a mean (NEU, or the K-loss for a fixed k).
    form : {"corrected", "residual"}
        TDC with h from the other batch, or the form of the paper.
    hessian : bool
        Whether to differentiate h, which makes the residual form a true gradient.
    directions : {"one", "both", "averaged"}
        "both" adds the direction with the batches swapped, "averaged" takes half of each.
    ridge : float or "auto"
        Relative to the mean similarity of an x with itself. Near 0 the correction is full, but learning is slow; a
        large ridge gives semi-gradient TD. "auto" estimates it from batch 2, and in the corrected form uses as much of
        h as the errors of batch 1 confirm (`gradtd.deep.ridge`).
    """
    one_of("form", form, ("corrected", "residual"))
    one_of("directions", directions, ("one", "both", "averaged"))
    if isinstance(similarity, str):
        one_of("similarity", similarity, ("last", "gradient"))
    if isinstance(ridge, str):
        one_of("ridge", ridge, ("auto",))
    elif isinstance(ridge, int | float):
        number_at_least("ridge", ridge, 0)

    def one_way(here: Batch, other: Batch) -> Any:
        h = impression(apply, params, here.x, other, similarity=similarity, whiten=whiten, ridge=ridge)
        fixed = jax.lax.stop_gradient(h)
        v, ahead = values(apply, params, here.x), values(apply, params, here.next_x)
        delta = jax.lax.stop_gradient(here.reward + here.discount * ahead - v)
        if form == "residual":
            made = here.rho * fixed * (here.discount * ahead - v)
        else:
            used = confirmed(fixed, here.rho * delta) if whiten and isinstance(ridge, str) else fixed
            made = here.rho * (here.discount * used * ahead - delta * v)
        if hessian:
            made = made + (here.rho * delta - (fixed if whiten else 0.0)) * h
        return jnp.mean(made)

    if directions == "one":
        return one_way(first, second)
    return (one_way(first, second) + one_way(second, first)) * (1.0 if directions == "both" else 0.5)


def impression_direction(apply: Apply, params: Any, first: Batch, second: Batch, **options: Any) -> Any:
    """The gradient of `impression_loss`, with the structure of ``params``; pass it to any optax optimiser."""
    return jax.grad(lambda p: impression_loss(apply, p, first, second, **options))(params)


def _gradient(apply: Apply, params: Any, x: Any) -> Any:
    """grad v at one x, flat."""
    return ravel_pytree(jax.grad(lambda p: values(apply, p, x[None])[0])(params))[0]
