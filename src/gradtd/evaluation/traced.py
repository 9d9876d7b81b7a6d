"""Traces of a log: where lam is above 0 they stand for the features in the left factor of its equations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradtd.compiled.traces import Tracing, keep_traces, traces_of
from gradtd.core.arrays import Floats, Integers
from gradtd.core.stream import Stream, begins_episode


def trace_rows(stream: Stream, tracing: Tracing | None, episode: Integers | None = None) -> Any:
    """The traces of a log, one row per step, dense or sparse as its features are; None where they are the features.

    ``episode`` numbers the episodes that traces run through, where those of the stream are pieces of them.
    """
    if tracing is None or tracing.lam == 0:
        return None
    if episode is not None:
        keep_traces(stream, tracing, traces_of(_through(stream, episode), tracing))
    made = traces_of(stream, tracing)
    if isinstance(made, np.ndarray):
        return made
    from scipy.sparse import csr_array

    return csr_array((made.data, made.indices, made.begin), shape=(len(stream), stream.n_features))


def decays(tracing: Tracing, rho: Floats, discount: Floats, episode: Integers, target: Floats | None) -> Floats:
    """d of every step in z_t = rho_t (x_t + d_t z_{t-1}), for z = rho e with the trace e; 0 where an episode begins."""
    ratio = tracing.ratios({"rho": rho}, target, "the log")
    share = np.divide(ratio, rho, out=np.zeros(len(rho)), where=rho > 0)
    decay = np.zeros(len(rho))
    decay[1:] = tracing.lam * discount[:-1] * share[:-1]
    decay[begins_episode(episode)] = 0.0
    return decay


def _through(stream: Stream, episode: Integers) -> Stream:
    """The stream with these episodes."""
    steps: Any = stream.steps.copy()
    steps["episode"] = episode
    return replace(stream, steps=steps)
