"""The same rules by the library, in C, and in NumPy as a user would write them: what bench.py times."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradtd.compiled import random
from gradtd.compiled.buffers import SPLITS
from gradtd.compiled.plan import room_for
from gradtd.core.stream import Stream
from gradtd.running.session import Session

HERE = Path(__file__).parent
M = 32
"""Steps of a batch."""


def our_kernel(stream: Stream, name: str, **hyper: Any) -> Callable[[], np.ndarray]:
    """One run of the library over a stream, everything but sampling included."""
    session = Session(name.split()[0], hyper, n_steps=len(stream))
    wanted, start = room_for(np.array([len(stream)]), stream.n_features), np.zeros(stream.n_features)

    def call() -> np.ndarray:
        session.over(stream, start, (0, 0), wanted)
        return wanted.thetas[0]

    return call


def c_kernels(stream: Stream, folder: Path, fixed: int | None) -> dict[str, Callable[[], np.ndarray]]:
    """The C versions, with the number of features fixed when they are compiled, or not."""
    library = folder / f"kernels_{fixed}.so"
    flags = [f"-DD={fixed}"] if fixed else []
    command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", *flags, "-o", library, HERE / "kernels.c", "-lm"]
    subprocess.run(command, check=True)
    c = ctypes.CDLL(str(library))
    n, d = len(stream), stream.n_features
    buffers = SPLITS["odd-even"].buffers(stream, (0, 0))
    x = np.ascontiguousarray(stream.features)

    def at(array: np.ndarray) -> ctypes.c_void_p:
        return array.ctypes.data_as(ctypes.c_void_p)

    integer, real = ctypes.c_int64, ctypes.c_double
    data = (at(stream.steps), integer(n), at(x), integer(d))

    def td() -> np.ndarray:
        theta = np.zeros(d)
        c.td(*data, real(1 / 32), at(theta))
        return theta

    def tdrc() -> np.ndarray:
        theta, w = np.zeros(d), np.zeros(d)
        c.tdrc(*data, real(1 / 32), real(1), real(1), at(theta), at(w))
        return theta

    def impression_gtd() -> np.ndarray:
        theta, u, g, rng = np.zeros(d), np.zeros(d), np.zeros(d), random.seeded(0, 0, random.DRAWS)
        split = (at(buffers.side), at(buffers.members), integer(int(buffers.begin[1])))
        c.impression_gtd(*data, *split, integer(M), real(0.5), at(rng), at(theta), at(u), at(g))
        return theta

    return {"td": td, "tdrc": tdrc, "impression_gtd": impression_gtd}


def plain_numpy(stream: Stream, steps: int) -> dict[str, Callable[[], Any]]:
    """The rules as a user would write them: feature vectors one by one, buffers as lists of transitions."""
    features, d = stream.features, stream.n_features
    log = [(int(s.row), int(s.next_row), s.reward, s.discount, s.rho, s.episode) for s in stream.steps[:steps]]

    def td() -> np.ndarray:
        theta = np.zeros(d)
        for row, next_row, reward, discount, rho, _ in log:
            phi, phi_next = features[row], features[next_row]
            delta = reward + discount * np.dot(phi_next, theta) - np.dot(phi, theta)
            theta = theta + 1 / 32 * rho * delta * phi
        return theta

    def tdrc() -> np.ndarray:
        theta, w = np.zeros(d), np.zeros(d)
        for row, next_row, reward, discount, rho, _ in log:
            phi, phi_next = features[row], features[next_row]
            delta = reward + discount * np.dot(phi_next, theta) - np.dot(phi, theta)
            along = np.dot(phi, w)
            theta = theta + 1 / 32 * rho * (delta * phi - discount * along * phi_next)
            w = w + 1 / 32 * ((rho * delta - along) * phi - w)
        return theta

    def impression_gtd() -> np.ndarray:
        rng, theta = np.random.default_rng(0), np.zeros(d)
        buffers: tuple[list[Any], list[Any]] = ([], [])
        for row, next_row, reward, discount, rho, episode in log:
            buffers[1 - episode % 2].append((features[row], discount * features[next_row], reward, rho))
            if min(map(len, buffers)) > M:
                batch = [buffers[1][k] for k in rng.integers(len(buffers[1]), size=M)]
                phi, phi_next, r, ratio = (np.array(column) for column in zip(*batch, strict=True))
                u = np.mean((ratio * (r + phi_next @ theta - phi @ theta))[:, None] * phi, axis=0)
                batch = [buffers[0][k] for k in rng.integers(len(buffers[0]), size=M)]
                phi, phi_next, _, ratio = (np.array(column) for column in zip(*batch, strict=True))
                theta = theta - 0.5 * np.mean((ratio * (phi @ u))[:, None] * (phi_next - phi), axis=0)
        return theta

    return {"td": td, "tdrc": tdrc, "impression_gtd": impression_gtd}


def vectorised_numpy(stream: Stream, steps: int) -> Callable[[], Any]:
    """Impression GTD by someone who knows NumPy well: the log as arrays, buffers as index arrays."""
    s = stream.steps[:steps]
    phi, phi_next = stream.features[s["row"]], s["discount"][:, None] * stream.features[s["next_row"]]
    y, reward, rho = phi_next - phi, s["reward"].copy(), s["rho"].copy()
    side = 1 - s["episode"] % 2
    members = [np.flatnonzero(side == k) for k in (0, 1)]

    def impression_gtd() -> np.ndarray:
        rng, theta, count = np.random.default_rng(0), np.zeros(stream.n_features), [0, 0]
        for t in range(steps):
            count[side[t]] += 1
            if count[0] > M and count[1] > M:
                i, j = (members[k][rng.integers(count[k], size=M)] for k in (0, 1))
                u = (rho[j] * (reward[j] + y[j] @ theta)) @ phi[j]
                theta -= 0.5 / M**2 * ((rho[i] * (phi[i] @ u)) @ y[i])
        return theta

    return impression_gtd
