"""Adds whitening, monitoring, status and plots to a learner of one policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays
from gradtd.core.stream import Stream
from gradtd.running.online import learner_curve
from gradtd.running.online.monitor import Monitor
from gradtd.running.online.online_learner import OnlineLearner
from gradtd.running.online.queue import RECENT, StepQueue
from gradtd.running.online.standing import Standing, standing_of
from gradtd.running.online.value_interval import ValueInterval
from gradtd.running.online.whitening import Whitening


class WatchedLearner(OnlineLearner):
    """A learner with one monitored run."""

    def __init__(self, names: list[str], queue: StepQueue, more: Mapping[str, Any]) -> None:
        OnlineLearner.__init__(self, names, queue, more.get("indices", False), more.get("gamma"))
        self._monitor = Monitor(self.n_features)
        queue.pause_at = self._monitor.look_at
        self._white = Whitening(self.n_features) if more.get("whiten") is True else None
        if self._white is not None and self._sparse:
            raise InputError("whiten=True takes rows of numbers: leave sparse=True out.")
        window = queue.runs[0].window
        if not window.has_buffers:
            window.recent = min(RECENT, 2**19 // self.n_features)

    def _look(self) -> None:
        """Run the monitor if it is due."""
        queue = self._queue
        if queue.seen >= queue.pause_at:
            try:
                self._monitor.look(queue, self._white is not None)
            finally:  # a warning may be an error
                queue.pause_at = self._monitor.look_at

    def _look_at_end(self) -> None:
        """No more steps follow: warn where the learner has not converged."""
        with self._lock:
            self._monitor.look_at_end(self._queue, self._white is not None)

    def _put_white(self, rows: list[Any], numbers: tuple[float, float, float], cut: bool, episode: int | None) -> None:
        if episode is not None:
            raise InputError("a learner with whiten=True counts episodes itself: give truncated=True where one is cut.")
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
                raise InputError("whiten=True takes dense features, and the stream's are sparse.")
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
        """End the episode as truncated: the next step begins another one."""
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
        """The value where episodes start, by least squares on all finished episodes, with its confidence interval.

        The learner must have been made with ``intervals=True``. It takes a solution of the equations, the cube of the
        features.

        Parameters
        ----------
        phi : array, optional
            A row of features whose value is asked for instead.
        level : float
            The level of the interval.
        anytime : bool
            It holds at all looks at once, however often you look and whenever you stop: about 1.6 times as wide.
        """
        with self._lock:
            return self._interval(0, phi, level, anytime)

    def _interval_row(self, phi: Any) -> Floats:
        row = super()._interval_row(phi)
        return row if self._white is None or self._white.W is None else row @ self._white.W

    def standing(self, steps: int | None = None) -> Standing:
        """The status of the learner: updates, buffers, step-size, and distance from least squares on its stored steps.

        The cost is that of least squares, steps times the square of the features; ``steps`` limits it to the latest
        ones.
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
