"""Adds whitening, monitoring, status and plots to a learner of one policy.

The monitor runs at growing intervals, when memory is reorganised anyway, so that it costs a few percent of the learning
time. With whitening (C = mean of x x' becomes I) the first steps are buffered; then the map is fixed, the learner
processes those steps, and every later row is mapped on arrival. Reported weights refer to the original features.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd.compiled.online import CUT, GOES_ON
from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays
from gradtd.core.stream import Stream
from gradtd.running.online import learner_curve
from gradtd.running.online.online_learner import OnlineLearner, put_many
from gradtd.running.online.queue import RECENT, StepQueue
from gradtd.running.online.standing import BADLY_SCALED, FAR_PART, Standing, standing_of
from gradtd.running.online.value_interval import ValueInterval
from gradtd.running.online.window import Rows


class WatchedLearner(OnlineLearner):
    """A learner with one monitored run."""

    def __init__(self, names: list[str], queue: StepQueue, more: Mapping[str, Any]) -> None:
        OnlineLearner.__init__(self, names, queue, more.get("indices", False), more.get("gamma"))
        self._monitor = Monitor(self.n_features)
        queue.pause_at = self._monitor.look_at
        self._white = Whitening(self.n_features) if more.get("whiten") is True else None
        if self._white is not None and self._sparse:
            raise InputError("whiten=True needs rows of numbers: leave sparse=True out.")
        window = queue.runs[0].window
        if not window.has_buffers:
            window.recent = min(RECENT, 2**19 // self.n_features)

    def _look(self) -> None:
        """Run the monitor if a check is due."""
        queue = self._queue
        if queue.seen >= queue.pause_at:
            try:
                self._monitor.look(queue, self._white is not None)
            finally:  # a warning may be raised as an error
                queue.pause_at = self._monitor.look_at

    def _look_at_end(self) -> None:
        """Called after the last step: warn if the learner has not converged."""
        with self._lock:
            self._monitor.look_at_end(self._queue, self._white is not None)

    def _put_white(self, rows: list[Any], numbers: tuple[float, float, float], cut: bool, episode: int | None) -> None:
        if episode is not None:
            raise InputError(
                "a learner with whiten=True counts episodes itself: give truncated=True if one is cut off."
            )
        white: Any = self._white
        found = [self._queue.dense_features(name, row) for name, row in zip(("phi", "phi_next"), rows, strict=True)]
        white.take(self._queue, found, numbers, cut)

    def _learn_many(self, tables: list[NDArray[Any]], numbers: Floats, over: NDArray[np.bool_]) -> None:
        self._look()
        if self._white is None:
            super()._learn_many(tables, numbers, over)
        else:
            self._white.take_many(self._queue, tables, numbers, over)
        self._changed()

    def _learn_stream(self, stream: Stream, numbers: Floats) -> None:
        self._look()
        if self._white is None:
            super()._learn_stream(stream, numbers)
        else:
            if not isinstance(stream.features, np.ndarray):
                raise InputError("whiten=True takes dense features, but the stream's are sparse.")
            steps = stream.steps
            over = np.r_[steps.episode[1:] != steps.episode[:-1], numbers[1, -1, 0] == 0]
            self._white.take_many(self._queue, [stream.features[steps[e]] for e in ("row", "next_row")], numbers, over)
        self._changed()

    def _thetas(self) -> list[Floats]:
        found = super()._thetas()
        return found if self._white is None else [self._white.given(found[0])]

    def _read_only(self) -> list[Floats]:
        return super()._read_only() if self._white is None else self._thetas()

    def new_episode(self) -> None:
        """End the episode as truncated: the next step begins a new one."""
        super().new_episode()
        if self._white is not None:
            self._white.cut()

    @property
    def seen(self) -> int:
        """Number of steps so far."""
        return self._queue.seen + (0 if self._white is None else self._white.waiting)

    def _more(self) -> dict[str, Any]:
        return super()._more() | ({} if self._white is None else {"whiten": True})

    def _arrays(self) -> Arrays:
        return {} if self._white is None else self._white.arrays()

    def interval(self, phi: Any = None, *, level: float = 0.95, anytime: bool = False) -> ValueInterval:
        """The value at the start of episodes, by least squares on all finished episodes, with its confidence interval.

        The learner must have been made with ``intervals=True``. It solves the equations, which takes the cube of the
        number of features.

        Parameters
        ----------
        phi : array, optional
            A row of features whose value is returned instead.
        level : float
            The level of the interval.
        anytime : bool
            Whether the interval is valid at all looks simultaneously, for any number of looks and any stopping time. It
            is about 1.6 times as wide.
        """
        with self._lock:
            return self._interval(0, phi, level, anytime)

    def _interval_row(self, phi: Any) -> Floats:
        row = super()._interval_row(phi)
        return row if self._white is None or self._white.W is None else row @ self._white.W

    def standing(self, steps: int | None = None) -> Standing:
        """The status of the learner: updates, buffers, step-size, and how far its predictions are from the
        least-squares solution on its stored steps.

        The cost is that of least squares, steps times the square of the number of features; ``steps`` limits it to the
        latest steps.
        """
        with self._lock:
            found = standing_of(self._queue, 0, None if steps is None else checks.whole_number("steps", steps, 2))
            if self._white is None or found.least_squares is None:
                return found
            return replace(found, least_squares=self._white.given(found.least_squares))

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot the start value over time, next to least squares: a figure, or a file of one."""
        with self._lock:
            return learner_curve.write(self._figure(self.standing()), path)

    def _figure(self, standing: Standing) -> Any:
        start = learner_curve.start_row(self._queue)
        steps, values = self._monitor.curve(np.zeros(self.n_features) if start is None else start)
        return learner_curve.draw(steps, values, standing, repr(self))

    def _repr_html_(self) -> str:
        with self._lock:
            standing = self.standing()
            figure = self._figure(standing) if self._monitor.kept else None
            return learner_curve.page(repr(self), standing, figure)


FIRST_LOOK, GROWTH = 1000, 1.25
FIRST_STANDING, LATER = 20_000, 2
SURE_PART = 0.08
"""Relative distance at which the monitor warns: below a tenth, because weights change between two checks."""
MOST_PRODUCTS = 2 * 10**8
"""Maximum cost of the final check: steps times the square of the number of features."""
MOST_KEPT = 10_000
"""With more features, no weights are recorded for a curve."""


class Kept(NamedTuple):
    """The weights after a number of steps."""

    seen: int
    theta: Floats


class Monitor:
    """Monitors one run. ``look_at`` is the step of the next check."""

    def __init__(self, n_features: int) -> None:
        self.kept: list[Kept] = []
        self.look_at = FIRST_LOOK
        self.standing_at = max(FIRST_STANDING, n_features**3 // 5)
        self.scaled: bool | None = None
        self.warned = False

    def look(self, queue: StepQueue, whitened: bool) -> None:
        """Record the weights, and warn once about each problem."""
        seen = queue.seen
        if queue.n_features <= MOST_KEPT:
            self.kept.append(Kept(seen, queue.thetas()[0]))
        due = seen >= self.standing_at
        self.standing_at = LATER * seen if due else self.standing_at
        self.look_at = min(int(seen * GROWTH) + 1, self.standing_at)
        if queue.runs[0].diverged_at >= 0 or not isinstance(queue.rows, Rows):
            return
        if self.scaled is None:
            self.scaled = not _badly_scaled(queue)
            if not self.scaled and not whitened:
                warnings.warn(
                    "features are badly scaled: some are a hundred times larger than others or nearly redundant, "
                    "so gradient rules need many steps for the small ones. Pass whiten=True, or scale them.",
                    stacklevel=5,
                )
        if due:
            d = queue.n_features
            self._compare(queue, whitened, int(FIRST_STANDING * min(1.0, 25 / d**2)), SURE_PART)

    def look_at_end(self, queue: StepQueue, whitened: bool) -> None:
        """Called after the last step: warn if the current weights have not converged."""
        if queue.seen >= FIRST_STANDING:
            self._compare(queue, whitened, MOST_PRODUCTS // queue.n_features**2, FAR_PART)

    def _compare(self, queue: StepQueue, whitened: bool, most: int, part: float) -> None:
        if self.warned:
            return
        found = standing_of(queue, 0, max(20 * queue.n_features, most))
        if found.is_within(part) is False and found.distance is not None and found.part is not None:
            self.warned = True
            advice = "take more steps, another step-size or average='polynomial'"
            advice += "" if whitened else ", or whiten=True"
            warnings.warn(
                f"after {found.seen} steps, predictions are {found.distance:.0f} standard errors ({found.part:.0%} of "
                f"their size) from least squares on the latest {found.used} steps: the learner has not converged. "
                f"See learner.standing(); {advice}.",
                stacklevel=6,
            )

    def curve(self, start: Floats) -> tuple[Any, Floats]:
        """The steps at which weights were recorded, and their values of a row of features."""
        return np.array([kept.seen for kept in self.kept]), np.array([start @ kept.theta for kept in self.kept])


def _badly_scaled(queue: StepQueue) -> bool:
    """Whether the second moments of the latest rows have a large condition number; with many features, whether their
    sizes differ greatly."""
    rows: Any = queue.rows
    window = queue.runs[0].window
    some = window.steps["row"][max(0, window.size - FIRST_LOOK) : window.size]
    x = np.asarray(rows.table[some], np.float64)
    size: Any = (x**2).mean(axis=0) if x.shape[1] > 50 else np.linalg.eigvalsh(x.T @ x / max(len(x), 1))
    size = size[size > 1e-10 * max(float(size.max(initial=0.0)), 1e-300)]
    return len(size) > 1 and float(size.max() / size.min()) > BADLY_SCALED


MOST_FEATURES = 2000
"""Maximum number of features; the cost of a row is its square."""
NEVER_SEEN = 1e-10
"""Directions with a smaller share of the largest second moment are not scaled up, since they may be larger in later
steps.
"""
_PENDING = ("phi", "phi_next", "numbers", "over")


class Whitening:
    """Maps rows to whitened features z = x W after ``wait`` steps; W is symmetric, and theta = W theta_z."""

    def __init__(self, n_features: int) -> None:
        if n_features > MOST_FEATURES:
            raise InputError(f"whiten=True takes at most {MOST_FEATURES} features, got {n_features}: scale them.")
        self.W: Floats | None = None
        self.wait = max(1000, 5 * n_features)
        self.pending: list[tuple[NDArray[Any], ...]] = []

    @property
    def waiting(self) -> int:
        """Number of buffered steps."""
        return sum(len(part[0]) for part in self.pending)

    def take(self, queue: StepQueue, rows: list[Floats], numbers: tuple[float, float, float], cut: bool) -> None:
        """Take one step: buffer it, or learn from it in whitened features."""
        if self.W is None:
            over = np.array([cut or numbers[1] == 0])
            self.take_many(queue, [row[None] for row in rows], np.array(numbers).reshape(3, 1, 1), over)
            return
        queue.stage(rows[0] @ self.W, rows[1] @ self.W)
        queue.episodes.begin_step(None)
        queue.take(*numbers, CUT if cut else GOES_ON)

    def take_many(self, queue: StepQueue, rows: list[Floats], numbers: Floats, over: NDArray[np.bool_]) -> None:
        """Take many steps; once enough are buffered, fix the map and learn from all of them."""
        if self.W is not None:
            put_many(queue, [table @ self.W for table in rows], numbers, over)
            return
        self.pending.append((*(np.array(table, np.float64) for table in rows), numbers, over.copy()))
        if self.waiting >= self.wait:
            first, after, waited, ends = self.release()
            self.fix(first)
            run = queue.runs[0]
            run.weights[0] = self.weights(run.weights[0])
            put_many(queue, [first @ self.W, after @ self.W], waited, ends)

    def cut(self) -> None:
        """Mark the end of an episode after the latest buffered step."""
        if self.pending:
            self.pending[-1][3][-1] = True

    def release(self) -> tuple[NDArray[Any], ...]:
        """The buffered steps."""
        parts = list(zip(*self.pending, strict=True))
        self.pending = []
        return tuple(np.concatenate(part, axis=1 if i == 2 else 0) for i, part in enumerate(parts))

    def fix(self, rows: Floats) -> None:
        """Compute the map to whitened features from these rows."""
        size, basis = np.linalg.eigh(rows.T @ rows / len(rows))
        if size[-1] <= 0:
            raise InputError("whiten=True needs features that are not all 0 in the first steps.")
        self.W = (basis / np.sqrt(np.where(size > NEVER_SEEN * size[-1], size, size[-1]))) @ basis.T

    def given(self, theta: Floats) -> Floats:
        """The weights of the original features."""
        found: Floats = theta if self.W is None else self.W @ theta
        return found

    def weights(self, theta: Floats) -> Floats:
        """Weights of whitened features with the same predictions."""
        return theta if self.W is None else np.asarray(np.linalg.solve(self.W, theta), np.float64)

    def arrays(self) -> Arrays:
        """The arrays to save in a file."""
        if self.W is not None:
            return {"whiten.W": self.W}
        if not self.pending:
            return {}
        self.pending = [self.release()]
        return {f"whiten.{name}": part for name, part in zip(_PENDING, self.pending[0], strict=True)}

    def restore(self, arrays: Arrays, n_features: int) -> None:
        """Restore from a file."""
        if "whiten.W" in arrays:
            self.W = _checked(arrays["whiten.W"], (n_features, n_features))
        elif "whiten.phi" in arrays:
            phi = arrays["whiten.phi"]
            n = len(phi) if phi.ndim == 2 else 0
            shapes = ((n, n_features), (n, n_features), (3, n, 1))
            found = [_checked(arrays[f"whiten.{name}"], shape) for name, shape in zip(_PENDING, shapes, strict=False)]
            over = arrays["whiten.over"]
            if over.shape != (n,) or over.dtype != bool or (found[2][1:] < 0).any() or (found[2][1] > 1).any():
                raise InputError("the file's buffered steps are damaged.")
            self.pending = [(*found, over)]


def _checked(array: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise InputError(f"the file's whitening has type {array.dtype} and shape {array.shape}, expected {shape}.")
    return array
