"""Runs a learner in an environment under a behaviour policy, or on a recorded stream, with a curve and a checkpoint.

    course = gradtd.run_online(learner, "CartPole-v1", 25_000, behaviour=explore, target=balance, features=rows)

The environment and the policy's random actions get a new seed for every episode, so a course that continues from its
checkpoint is identical to one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats, dense
from gradtd.core.checks import InputError
from gradtd.core.files import reading
from gradtd.core.progress import progress_bar
from gradtd.core.stream import Stream
from gradtd.logs.collect import World, observed, open_world
from gradtd.logs.policies import GivenPolicy, Policy, as_policy
from gradtd.output.svg import svg
from gradtd.running.online import learner_curve, saving
from gradtd.running.online.learner import Learner


def run_online(
    learner: Learner,
    source: Any,
    steps: int | None = None,
    *,
    behaviour: GivenPolicy | None = None,
    target: GivenPolicy | None = None,
    features: Any = None,
    seed: int = 0,
    max_steps: int | None = None,
    every: int = 1000,
    callback: Callable[[Course], Any] | None = None,
    progress: Any = None,
    plot: bool | str | Path = False,
    checkpoint: str | Path | None = None,
) -> Course:
    """Run a learner in an environment or on a stream for a number of steps. Returns the learner's course.

    Parameters
    ----------
    learner : Learner
        The learner, with ``gamma=`` if the source is an environment.
    source : Gymnasium environment, id of one, or Stream
        The source of steps. Actions of an environment must be Discrete.
    steps : int, optional
        Total number of steps of the learner at the end, including earlier ones. A stream ends when it has no more
        steps.
    behaviour, target : policy
        The policy that acts, and the one whose value is learned (by default the same), in the forms of
        `gradtd.collect`.
    features : callable or Features, optional
        Computes the row of features of an observation. By default its numbers, or one feature per Discrete observation.
    seed : int
        Seed of the environment and of the actions.
    max_steps : int, optional
        An episode of an environment is truncated after this number of steps.
    every : int
        Number of steps between points of the curve and calls of ``callback``.
    callback : callable, optional
        ``callback(course)``; learning stops if it returns True.
    progress
        None shows a bar after a second, True at once, False never. A function is called as ``progress(done, total)``.
    plot : bool or path
        True draws the growing curve below the notebook's cell; a path draws it to that file.
    checkpoint : path, optional
        A file for learner and course, written after the first episode that ends after ``every`` steps (for a stream:
        after every ``every`` steps). If the file exists, the course continues from it.

    >>> learner = Learner(5, "td", alpha=0.05, compile=False)
    >>> import gradtd
    >>> run_online(learner, gradtd.sample("random_walk_tabular", 3000), every=1000)
    Course(3000 steps, start value 0.5358, 3 points)
    """
    if not isinstance(learner, Learner):
        raise InputError(f"run_online takes a Learner, got {type(learner).__name__}.")
    stream = isinstance(source, Stream)
    course, path = (
        Course(learner, checks.seed_number(seed)),
        None if checkpoint is None else Path(checkpoint),
    )
    if path is not None and path.exists():
        course.restore(path)
    if stream and steps is None:
        steps = learner.seen + max(1, len(source) - course.done)
    told = _Told(checks.whole_number("steps", steps, 1), checks.whole_number("every", every, 1), callback, plot, path)
    if stream:
        return _drive(course, told, progress, _from_stream(course, source, told))
    if behaviour is None:
        raise InputError("run_online needs the behaviour policy that acts in the environment: behaviour=.")
    if learner.gamma is None:
        raise InputError("an environment has no discount: give the learner gamma=, for example gamma=0.99.")
    world = open_world(source)
    try:
        policies = [
            as_policy(name, policy, world.n_actions, world.discrete)
            for name, policy in (("behaviour", behaviour), ("target", behaviour if target is None else target))
        ]
        limit = None if max_steps is None else checks.whole_number("max_steps", max_steps, 1)
        player = _Player(world, policies[0], policies[1], _rows(features, world, learner), limit)
        return _drive(course, told, progress, _from_world(course, player, told))
    finally:
        if world.mine:
            world.env.close()


class _Told(NamedTuple):
    """The user's settings."""

    end: int
    every: int
    callback: Callable[[Course], Any] | None
    plot: bool | str | Path
    checkpoint: Path | None


def _drive(course: Course, told: _Told, progress: Any, pieces: Iterator[bool]) -> Course:
    """Process the source in pieces. Points of the curve, callbacks and files come between the pieces."""
    own = (lambda what, done, total: progress(done, total)) if callable(progress) else progress
    saved = course.learner.seen
    with progress_bar("learning", what=True, progress=own) as report:
        for may_save in pieces:
            seen = course.learner.seen
            if report:
                label = "learning" if not course.values else f"learning, value {course.values[-1]:.4g}"
                report(label, seen, told.end)
            due = course.is_due(told.every)
            if due:
                course.add()
                course.show(told.plot)
            if told.checkpoint is not None and may_save and seen - saved >= told.every:
                course.save(told.checkpoint)
                saved = seen
            if due and told.callback is not None and told.callback(course) is True:
                course.stopped = True
                break
    if told.checkpoint is not None and course.may_save:
        course.save(told.checkpoint)
    course.learner._look_at_end()
    return course


def _from_stream(course: Course, stream: Stream, told: _Told) -> Iterator[bool]:
    """Learn from a recorded stream in pieces, each up to the next point of the curve."""
    learner = course.learner
    episode = stream.steps.episode
    first = np.flatnonzero(np.r_[True, episode[1:] != episode[:-1]])[: course.MOST_STARTS]
    course.starts = np.asarray(stream.features[stream.steps.row[first]].mean(axis=0), np.float64).reshape(1, -1)
    done, end = course.done, min(len(stream), course.done + max(0, told.end - learner.seen))
    while done < end:
        size = min(told.every - learner.seen % told.every, end - done)
        if done and episode[done] != episode[done - 1]:
            learner.new_episode()
        learner.partial_fit(stream.with_steps(stream.steps[done : done + size]))
        done += size
        course.done = done
        course.may_save = True
        yield True


class _Player(NamedTuple):
    """An environment with its behaviour and target policies, and the map from observations to rows."""

    world: World
    behaviour: Policy
    target: Policy
    rows: Callable[[Any], Any]
    limit: int | None


def _from_world(course: Course, player: _Player, told: _Told) -> Iterator[bool]:
    """Run episodes. A point of the curve may be due within an episode, a checkpoint only after it."""
    learner, world = course.learner, player.world
    while learner.seen < told.end:
        key = np.random.SeedSequence([course.seed, course.done])
        dice = np.random.default_rng(key.spawn(1)[0])
        seen, _ = world.env.reset(seed=int(key.generate_state(1)[0]))
        now = observed(world, seen)
        phi = player.rows(now)
        course.begin_episode(phi)
        over, t, total = False, 0, 0.0
        while not over and learner.seen < told.end:
            batch = np.array([now])
            chances = player.behaviour(batch)[0]
            summed = np.cumsum(chances)
            action = int(np.searchsorted(summed, dice.random() * summed[-1], "right"))
            wanted = chances if player.target is player.behaviour else player.target(batch)[0]
            seen, reward, terminated, truncated, _ = world.env.step(action + world.first_action)
            now, t = observed(world, seen), t + 1
            cut = bool(truncated) or t == player.limit or learner.seen + 1 == told.end
            over = bool(terminated) or cut
            after = player.rows(now)
            ratio = float(wanted[action]) / float(chances[action])
            learner.update(phi, float(reward), after, ratio, terminated=bool(terminated), truncated=cut)
            phi, total = after, total + float(reward)
            course.may_save = over and not (cut and learner.seen == told.end and not truncated)
            if over:
                course.end_episode(total)
            yield course.may_save


def _rows(features: Any, world: World, learner: Learner) -> Callable[[Any], Any]:
    """A function that computes the row of features of an observation."""
    if features is None and world.discrete:
        states = int(world.env.observation_space.n)
        if learner.n_features != states:
            raise InputError(
                f"{world.name} has {states} states, with one feature each, but the learner has {learner.n_features} "
                "features: "
                "make the learner with that number, or give features=."
            )
        table = np.eye(states)
        begin = int(world.env.observation_space.start)
        return lambda seen: table[seen - begin]
    if features is None:
        return lambda seen: seen
    transform = getattr(features, "transform", None)
    if transform is not None:

        def row(seen: Any) -> Floats:
            return np.asarray(dense(transform(np.array([seen])))[0])

        return row
    if not callable(features):
        raise InputError(f"features must be a function of an observation or a feature map, got {features!r}.")
    function: Callable[[Any], Any] = features
    return function


class Course:
    """The curve of a learner, made by `gradtd.run_online`.

    ``steps`` and ``values`` are the points of the curve: steps seen, and the mean prediction where episodes start.
    ``returns`` are the undiscounted returns of the behaviour's episodes; ``stopped`` is True if the callback ended the
    course.

    Parameters
    ----------
    learner : Learner
        The learner.
    seed : int
        Seed of the environment and of the actions.
    """

    MOST_STARTS: ClassVar[int] = 256
    """Number of episode starts that are averaged."""

    def __init__(self, learner: Learner, seed: int) -> None:
        self.learner, self.seed = learner, seed
        self.steps: list[int] = []
        self.values: list[float] = []
        self.returns: list[float] = []
        self.starts: Any = None
        self.done = 0  # number of finished episodes of an environment, or of steps of a stream
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
        """Draw the curve next to least squares on the learner's own steps. Returns a figure, or writes a file."""
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
        return f"Course({self.learner.seen} steps, start value {self.value:.4g}, {len(self.steps)} points)"

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
                f"{str(path)!r} is not a checkpoint of a run with this seed: give another file, or remove it."
            )
        if saving.settings_of(loaded._queue) != saving.settings_of(self.learner._queue):
            raise InputError(
                f"{str(path)!r} belongs to a learner with other settings: give another file, or remove it."
            )
        with reading(path, "a checkpoint that run_online wrote"):
            done = checks.whole_number("done", told["done"], 0)
            points = {name: arrays[f"course.{name}"] for name in ("steps", "values", "returns")}
            starts = arrays["course.starts"]
            if any(found.ndim != 1 for found in points.values()) or starts.ndim != 2:
                raise KeyError("course")
        self.learner._become(loaded)
        self.done, self.starts, self.may_save = done, list(starts), True
        self.steps, self.values, self.returns = (found.tolist() for found in points.values())
