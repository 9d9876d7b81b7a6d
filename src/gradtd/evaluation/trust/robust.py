"""Doubly robust as one more check: it needs no features to be right, but products of ratios."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtd.compiled import engine
from gradtd.core.arrays import Floats, Integers, Plain
from gradtd.evaluation.trust.fits import Fit
from gradtd.evaluation.trust.records import Record

MATTERS = 0.05
"""Part of the weight at the start from which on weights of a later time matter."""


def run_products(rho: Any, discount: Any, begins: Integers, w: Floats) -> None:
    """The product of ratios and discounts up to every step of a piece, the step's own ratio with it."""
    for e in range(begins.shape[0] - 1):
        product, g = 1.0, 1.0
        for t in range(begins[e], begins[e + 1]):
            product *= rho[t]
            w[t] = g * product
            g *= discount[t]


def _maker(fingerprint: str) -> Plain:
    def run(rho: Any, discount: Any, begins: Integers, w: Floats) -> None:
        fingerprint  # noqa: B018 (part of the closure, and so of the key of the cache)
        run_products(rho, discount, begins, w)

    return run


def products(record: Record) -> Floats:
    """The weight of every step's surprise in doubly robust; infinite where it overflows."""
    w = np.empty(len(record))
    rho, discount = np.ascontiguousarray(record.rho), np.ascontiguousarray(record.discount)
    engine.kept(_maker)(rho, discount, record.begins, w)
    return w


def effective_products(record: Record, w: Floats) -> float:
    """The least effective number of pieces, over time, among the weights that still matter."""
    since = np.arange(len(record)) - np.repeat(record.begins[:-1], np.diff(record.begins))
    with np.errstate(over="ignore", invalid="ignore"):
        total, square = np.bincount(since, w), np.bincount(since, w**2)
        matters = total > MATTERS * total[0]
        found = total[matters] ** 2 / np.maximum(square[matters], 1e-300)
    return float(found.min()) if len(found) and np.isfinite(found).all() else 0.0


def as_fit(name: str, parts: Floats) -> Fit:
    """Each piece's doubly robust value as a fit."""
    mean = float(parts.mean())
    return Fit(name, mean, parts - mean, 0.0, 0)
