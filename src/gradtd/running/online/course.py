"""The course of a learner: the start value step by step, and the returns."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.files import reading
from gradtd.output.svg import svg
from gradtd.running.online import learner_curve, saving
from gradtd.running.online.learner import Learner


class Course:
    """The curve of a learner, made by `gradtd.run_online`.

    ``steps`` and ``values`` are the points of the curve: steps seen, and the mean prediction where episodes start.
    ``returns`` are the undiscounted returns of the behaviour's episodes, ``stopped`` says whether the callback ended
    it.

    Parameters
    ----------
    learner : Learner
        The learner.
    seed : int
        Fixes an environment and the actions taken in it.
    """

    MOST_STARTS: ClassVar[int] = 256
    """Number of episode starts that are averaged."""

    def __init__(self, learner: Learner, seed: int) -> None:
        self.learner, self.seed = learner, seed
        self.steps: list[int] = []
        self.values: list[float] = []
        self.returns: list[float] = []
        self.starts: Any = None
        self.done = 0  # finished episodes of an environment, or steps of a stream
        self.stopped = False
        self.may_save = False
        self._handle: Any = None

    def begin_episode(self, phi: Any) -> None:
        """Record that an episode starts in this row."""
        if self.starts is None:
            self.starts = []
        if isinstance(self.starts, list) and len(self.starts) < self.MOST_STARTS:
            self.starts.append(phi)

    def end_episode(self, total: float) -> None:
        """Record a finished episode with its return."""
        self.returns.append(total)
        self.done += 1

    def is_due(self, every: int) -> bool:
        """Whether a new point is due."""
        return self.learner.seen // every > (self.steps[-1] // every if self.steps else 0)

    def add(self) -> None:
        """Add a point to the curve."""
        starts = self.starts
        if isinstance(starts, list):
            values = [self.learner.predict(row) for row in starts]
        else:
            values = starts @ self.learner.theta
        self.steps.append(self.learner.seen)
        self.values.append(float(np.mean(values)))

    @property
    def value(self) -> float:
        """The latest point, NaN if there is none."""
        return self.values[-1] if self.values else float("nan")

    def plot(self, path: str | Path | None = None) -> Any:
        """The curve, beside least squares on the learner's own steps: a figure, or a file of one."""
        return learner_curve.write(self._figure(), path)

    def _figure(self) -> Any:
        values: Floats = np.array(self.values)
        return learner_curve.draw(np.array(self.steps), values, self.learner.standing(), repr(self.learner))

    def show(self, plot: bool | str | Path) -> None:
        """Draw the current curve, if requested."""
        if plot is False or plot is None:
            return
        if plot is not True:
            self.plot(plot)
            return
        try:
            shown: Any = import_module("IPython.display")
        except ImportError:
            raise InputError("plot=True draws in a notebook: give plot= a file, or leave it out.") from None
        page = shown.HTML(svg(self._figure()))
        if self._handle is None:
            self._handle = shown.display(page, display_id=True)
        else:
            self._handle.update(page)

    def __repr__(self) -> str:
        return (
            f"Course({self.learner.seen} steps, value where episodes start {self.value:.4g}, {len(self.steps)} points)"
        )

    def _repr_html_(self) -> str:
        figure = self._figure() if self.steps else None
        return learner_curve.page(repr(self), self.learner.standing(), figure)

    # The file contains the learner and the course

    def save(self, path: Path) -> None:
        """Write learner and course, only between episodes, so that an environment can continue from there."""
        starts = np.array([] if self.starts is None else self.starts, np.int64 if self.learner._sparse else np.float64)
        arrays = {
            "course.steps": np.array(self.steps, np.int64),
            "course.values": np.array(self.values),
            "course.returns": np.array(self.returns),
            "course.starts": starts.reshape(len(starts), -1),
        }
        self.learner._save(path, {"course": {"seed": self.seed, "done": self.done}}, arrays)

    def restore(self, path: Path) -> None:
        """Continue from a file, replacing the given learner, which must have the same settings."""
        loaded, header, arrays = Learner._load(path, self.learner._queue.compile)
        told = header.get("course")
        if not isinstance(told, dict) or told.get("seed") != self.seed:
            raise InputError(
                f"{str(path)!r} is no checkpoint of a course of this seed: name another file, or remove it."
            )
        if saving.settings_of(loaded._queue) != saving.settings_of(self.learner._queue):
            raise InputError(f"{str(path)!r} is of a learner with other settings: name another file, or remove it.")
        with reading(path, "a checkpoint that run_online wrote"):
            done = checks.whole_number("done", told["done"], 0)
            points = {name: arrays[f"course.{name}"] for name in ("steps", "values", "returns")}
            starts = arrays["course.starts"]
            if any(found.ndim != 1 for found in points.values()) or starts.ndim != 2:
                raise KeyError("course")
        self.learner._become(loaded)
        self.done, self.starts, self.may_save = done, list(starts), True
        self.steps, self.values, self.returns = (found.tolist() for found in points.values())
