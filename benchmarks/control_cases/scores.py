"""Interquartile means of runs on several worlds, with stratified bootstrap intervals (Agarwal et al. 2021)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SAMPLES = 4000


def iqm(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the middle half of the runs of all worlds, (..., worlds, runs) -> (...)."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def resampled(scores: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The interquartile mean of bootstrap samples that draw as many runs of every world as there are."""
    worlds, runs = scores.shape
    drawn = rng.integers(runs, size=(SAMPLES, worlds, runs))
    return iqm(scores[np.arange(worlds)[:, None], drawn])


def interval(samples: NDArray[np.float64]) -> tuple[float, float]:
    """The middle 95 %."""
    low, high = np.quantile(samples, (0.025, 0.975))
    return float(low), float(high)


def difference(one: NDArray[np.float64], other: NDArray[np.float64], seed: int = 0) -> tuple[float, float, float]:
    """Interquartile mean of one agent's scores minus the other's, and its interval."""
    rng = np.random.default_rng(seed)
    return float(iqm(one) - iqm(other)), *interval(resampled(one, rng) - resampled(other, rng))
