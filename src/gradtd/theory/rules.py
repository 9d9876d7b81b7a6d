"""Rules with a linear update, taken apart: x <- x + alpha (J_0 x + sum of L_k (R_k . x + c_k)), x = (theta, w).

The library's own rules say the same in another way; tests compare the two on every step that can happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradtd.core.arrays import Floats
from gradtd.theory.laws import Law

Term = tuple[Floats, Floats, Floats]
"""L_k, R_k (one row a step) and c_k."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A rule taken apart: the constant matrix J_0 and the terms L_k (R_k . x + c_k)."""

    constant: Floats
    terms: tuple[Term, ...]


def _one_vector(make: Callable[[Law], Term]) -> Callable[[Law, float, float], Pieces]:
    def parts(one: Law, eta: float, beta: float) -> Pieces:
        return Pieces(np.zeros((one.n_features,) * 2), (make(one),))

    return parts


def _td(one: Law) -> Term:
    return one.phi, one.d, one.c


def _vtrace(one: Law) -> Term:
    clipped = np.minimum(one.rho, 1.0)
    return one.phi, clipped[:, None] * _y(one), clipped * one.reward


def _residual_gradient(one: Law) -> Term:
    return -_y(one), one.d, one.c


def _y(one: Law) -> Floats:
    """gamma phi' - phi, without ratio."""
    return np.asarray(one.discount[:, None] * one.phi_next - one.phi)


def _gtd(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    return Pieces(
        _second_block(one, -eta),
        ((_join(-one.d, zero), _join(zero, phi), _nothing(one)), (_join(zero, eta * phi), _join(one.d, zero), one.c)),
    )


def _gtd2(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    return Pieces(
        _second_block(one, 0.0),
        (
            (_join(-one.d, -eta * phi), _join(zero, phi), _nothing(one)),
            (_join(zero, eta * phi), _join(one.d, zero), one.c),
        ),
    )


def _tdc(one: Law, eta: float, beta: float) -> Pieces:
    return _tdrc(one, eta, 0.0)


def _tdrc(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    after = (one.rho * one.discount)[:, None] * one.phi_next
    return Pieces(
        _second_block(one, -eta * beta),
        (
            (_join(phi, eta * phi), _join(one.d, zero), one.c),
            (_join(-after, -eta * phi), _join(zero, phi), _nothing(one)),
        ),
    )


def _htd(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero, y = one.phi, np.zeros_like(one.phi), _y(one)
    return Pieces(
        _second_block(one, 0.0),
        (
            (_join(phi, eta * phi), _join(one.d, zero), one.c),
            (_join(-(one.rho - 1.0)[:, None] * y, eta * y), _join(zero, phi), _nothing(one)),
        ),
    )


def _tdc_transposed(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    after = (one.rho * one.discount)[:, None] * one.phi_next
    constant = _second_block(one, 0.0)
    constant[one.n_features :, : one.n_features] = -eta * np.eye(one.n_features)
    return Pieces(
        constant,
        (
            (_join(-one.d, zero), _join(zero, phi), _nothing(one)),
            (_join(zero, eta * phi), _join(after, -phi), one.c),
        ),
    )


def _tdc_transposed_corrected(one: Law, eta: float, beta: float) -> Pieces:
    phi, zero = one.phi, np.zeros_like(one.phi)
    after = (one.rho * one.discount)[:, None] * one.phi_next
    return Pieces(
        _second_block(one, 0.0),
        (
            (_join(-one.d, zero), _join(zero, phi), _nothing(one)),
            (_join(zero, eta * phi), _join(after - phi, -phi), one.c),
        ),
    )


def _join(of_theta: Floats, of_w: Floats) -> Floats:
    return np.hstack([of_theta, of_w])


def _nothing(one: Law) -> Floats:
    return np.zeros(len(one.p))


def _second_block(one: Law, value: float) -> Floats:
    """J_0 with ``value`` on w's diagonal."""
    return np.diag(np.repeat([0.0, value], one.n_features))


RULES: dict[str, Callable[[Law, float, float], Pieces]] = {
    "td": _one_vector(_td),
    "vtrace": _one_vector(_vtrace),
    "residual_gradient": _one_vector(_residual_gradient),
    "gtd": _gtd,
    "gtd2": _gtd2,
    "tdc": _tdc,
    "tdc_transposed": _tdc_transposed,
    "tdc_transposed_corrected": _tdc_transposed_corrected,
    "tdrc": _tdrc,
    "htd": _htd,
}
"""Every algorithm the joint theory covers."""
