"""`Learner`: one policy's values, learned while the data arrive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from gradtd.compiled.online import DONE, FULL, GOES_ON, NEWS, REFUSED, sum_at
from gradtd.core import checks
from gradtd.core.algorithm import Algorithm
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.core.files import Arrays, reading
from gradtd.core.stream import Stream
from gradtd.running.online import saving
from gradtd.running.online.given import checked_column, discount_number, ended, ends_of_many, ratio_number
from gradtd.running.online.online_run import OnlineRun
from gradtd.running.online.queue import StepQueue
from gradtd.running.online.value_interval import intervals_of
from gradtd.running.online.watched_learner import WatchedLearner
from gradtd.running.online.window import Rows

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_ONES = np.zeros(0)
ndarray = np.ndarray


class _Fast:
    """Cached references for the fast path of a step with rows in the stored form."""

    shape: tuple[int, ...]
    __slots__ = (
        *("address", "asked", "dtype", "first", "kernel", "lengths", "room", "second", "shape", "sum", "weights"),
    )

    def __init__(self, queue: StepQueue, sum_rows: Any) -> None:
        rows: Any = queue.rows
        self.sum = sum_rows
        group = queue.groups[0]
        self.kernel, self.address = getattr(group.kernel, "direct", group.kernel), group.packed.address()
        self.weights = queue.runs[0].live
        if isinstance(rows, Rows):
            self.first, self.second, self.dtype = rows.staged[0], rows.staged[1], rows.staged.dtype
            self.shape, self.room, self.lengths = (queue.n_features,), -1, None
        else:
            self.first, self.second = rows.staged.indices
            self.shape, self.room, self.lengths, self.dtype = (), len(self.first), rows.staged.length, _INT64
            self.asked = np.zeros(self.room, np.int64)


class Learner(WatchedLearner):
    """A value estimate that learns step by step, in bounded memory.

    After n steps its weights are bit for bit those of `gradtd.learn` on a stream of these n steps with the same
    ``capacity``. If the rule does not replay steps, it stores only a few. Several threads may use one learner: each
    step is atomic.

    Parameters
    ----------
    n_features : int
        Number of features.
    algorithm : Algorithm or str
        The rule, or its name in `gradtd.ALGORITHMS`.
    **hyper
        The hyper-parameters of the rule, for example ``alpha=0.1``.
    gamma : float, optional
        The default discount of a step.
    sparse : bool
        If True, a row is given as the indices of its features that are 1, as in tile coding, or as a pair (indices,
        values). Otherwise rows are NumPy arrays or SciPy sparse rows.
    whiten : bool
        Learn on whitened features: uncorrelated and equally scaled. The transformation comes from the first thousand
        steps (or five per feature), which are buffered until then. Weights and values refer to the original features.
    capacity : int, optional
        Number of steps that each buffer holds; the oldest are dropped first. None keeps all. The default is bounded,
        since a stream may be endless: batches then come from the latest 2 x 100 000 steps, and more data do not improve
        the estimate.
    intervals : bool
        Store what `interval` needs, 80 bytes per pair of features. This requires dense rows of at most 500 features.
    seed : int
        Fixes the batches that are drawn.
    theta0 : array, optional
        Initial weights, by default zeros.
    compile : bool, optional
        False runs plain Python, which is slow but can be debugged.

    >>> learner = Learner(2, "td", alpha=0.5)
    >>> for _ in range(50):
    ...     learner.update(phi=[1, 0], reward=0, phi_next=[0, 1], discount=0.9)
    ...     learner.update(phi=[0, 1], reward=1, phi_next=[0, 0], discount=0)
    >>> learner.theta.round(3), round(learner.predict([0, 1]), 3)
    (array([0.9, 1. ]), 1.0)
    >>> learner
    Learner(td, 2 features: 100 steps seen, 50 episodes)
    """

    def __init__(
        self,
        n_features: int,
        algorithm: Algorithm | str = "impression_gtd",
        *,
        gamma: float | None = None,
        sparse: bool = False,
        whiten: bool = False,
        intervals: bool = False,
        capacity: int | None = 100_000,
        seed: int = 0,
        theta0: Any = None,
        compile: bool | None = None,
        **hyper: Any,
    ) -> None:
        d = checks.whole_number("n_features", n_features, 1)
        kept = {"capacity": capacity, "seed": seed, "theta0": theta0, "intervals": intervals_of(intervals, sparse)}
        run = OnlineRun(algorithm, hyper, d, compile=compile, **kept)
        more = {"indices": sparse, "gamma": gamma, "whiten": checks.yes_or_no("whiten", whiten)}
        self._begin([run.rule.name], StepQueue(d, [run], 1, compile), more)

    def _begin(self, names: list[str], queue: StepQueue, more: Mapping[str, Any]) -> None:
        WatchedLearner.__init__(self, names, queue, more)
        self._fast: _Fast | None = None  # set by the first step

    def _changed(self) -> None:
        self._fast = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_fast": None}

    def update(
        self,
        phi: Any,
        reward: Any,
        phi_next: Any,
        rho: Any = 1.0,
        discount: Any = None,
        episode: int | None = None,
        *,
        terminated: bool | None = None,
        truncated: bool | None = None,
    ) -> None:
        """Take one step, and learn from it.

        The episode continues until a step terminates (``discount=0`` or ``terminated=True``), is truncated, or
        `new_episode` is called.

        Parameters
        ----------
        phi : array, or SciPy sparse row; with ``sparse=True`` indices
            The features before the step. Rows are stored as float32 (half the memory) as long as all of them are
            float32, else as float64.
        reward : float
            Its reward.
        phi_next : array, or SciPy sparse row; with ``sparse=True`` indices
            The features after the step.
        rho : float
            The target's probability of the action taken, divided by the behaviour's.
        discount : float, optional
            Gamma, and 0 where the episode terminated. By default the learner's ``gamma``.
        episode : int, optional
            A number that is constant within an episode and increases from one to the next.
        terminated : bool, optional
            The episode terminated with this step: its discount is 0.
        truncated : bool, optional
            The episode was cut off after this step: ``phi_next`` is used, and the next step begins a new episode.
        """
        cut = GOES_ON
        if discount is None:
            discount = self._gamma
        if terminated is not None or truncated is not None:
            discount, cut = ended(discount, terminated, truncated)
        with self._lock:
            fast = self._fast
            if (
                fast is not None
                and episode is None
                and type(phi) is ndarray
                and type(phi_next) is ndarray
                and phi.dtype is fast.dtype
                and phi_next.dtype is fast.dtype
                and type(reward) is float
                and type(discount) is float
                and type(rho) is float
            ):
                if fast.lengths is None:
                    fits = phi.shape == fast.shape and phi_next.shape == fast.shape
                    if fits:
                        fast.first[:] = phi
                        fast.second[:] = phi_next
                else:
                    n, m = phi.size, phi_next.size
                    fits = phi.ndim == 1 and phi_next.ndim == 1 and n <= fast.room and m <= fast.room
                    if fits:
                        fast.first[:n], fast.second[:m] = phi, phi_next
                        fast.lengths[0], fast.lengths[1] = -1 - n, -1 - m
                # A signal handler that used the learner since may have moved its arrays.
                if fits and fast is self._fast:
                    try:
                        code = fast.kernel(fast.address, 1, reward, discount, rho, cut)
                    except BaseException as error:
                        self._fast = None
                        self._queue.interrupted(error)
                        raise
                    if code == DONE or self._attend(code, reward, discount, rho, cut):
                        return
            self._put(phi, phi_next, (reward, discount, rho), cut, episode)

    def _attend(self, code: int, reward: float, discount: float, rho: float, cut: int) -> bool:
        """The part of a step done in Python: reserve memory and react to changes. False if the step was refused."""
        queue = self._queue
        self._fast = None  # its address is valid again when this has ended
        if code == FULL:
            self._look()
            queue.make_room(1)
            code = queue.take(reward, discount, rho, cut)
        elif code == NEWS:
            queue.hear()
        elif code != REFUSED:
            queue.work_off()
        self._refresh()
        return code != REFUSED

    def _refresh(self) -> None:
        queue = self._queue
        plain = self._white is None and queue.episodes.label is None and (isinstance(queue.rows, Rows) or self._sparse)
        self._fast = _Fast(queue, self._compiled(sum_at) if self._sparse else None) if plain else None

    def _put(self, phi: Any, phi_next: Any, numbers: tuple[Any, Any, Any], cut: int, episode: Any) -> None:
        """The slow path: check a step in another form, or raise an error that explains its fault."""
        reward, discount = checks.number("reward", numbers[0]), discount_number("discount", numbers[1])
        rho, number = ratio_number("rho", numbers[2]), self._episode(episode)
        self._fast = None  # its address is valid again when the step has been taken
        self._look()
        if self._white is not None:
            self._put_white([phi, phi_next], (reward, discount, rho), bool(cut), number)
            return
        self._stage(phi, phi_next)
        self._queue.episodes.begin_step(number)
        self._queue.take(reward, discount, rho, cut)
        if cut:
            self._queue.episodes.cut()
        self._refresh()

    def update_many(
        self,
        phi: Any,
        reward: Any,
        phi_next: Any,
        rho: Any = 1.0,
        discount: Any = None,
        *,
        terminated: Any = None,
        truncated: Any = None,
    ) -> Learner:
        """Take many steps in order. Returns the learner.

        Rows are tables (steps, features); other arguments have one entry per step or one number for all. A step starts
        in the next observation of the previous step, unless that step ended an episode. With ``sparse=True``, rows are
        lists of rows of indices, or a table of them.

        >>> learner = Learner(2, "td", alpha=0.5, gamma=0.9)
        >>> learner.update_many([[1, 0], [0, 1]], [0, 1], [[0, 1], [0, 0]], terminated=[False, True])
        Learner(td, 2 features: 2 steps seen, 1 episode)
        """
        if self._sparse:
            self._update_each(phi, reward, phi_next, (rho, discount), (terminated, truncated))
        else:
            numbers = {"reward": reward, "discount": discount, "rho": rho}
            self._put_many((phi, phi_next), numbers, (terminated, truncated))
        return self

    def _update_each(self, phi: Any, reward: Any, phi_next: Any, numbers: Any, ends: Any) -> None:
        n = len(phi)
        if len(phi_next) != n:
            raise InputError(f"phi_next needs one row per step ({n}), got {len(phi_next)}.")
        rho, discount = numbers
        discount = discount_number("discount", self._gamma) if discount is None else discount
        given = {"reward": reward, "rho": rho, "discount": discount}
        columns = {name: checked_column(name, name, values, n).tolist() for name, values in given.items()}
        terminated, truncated = (flags.tolist() for flags in ends_of_many(ends[0], ends[1], n))
        with self._lock:
            for t in range(n):
                self.update(
                    phi[t],
                    columns["reward"][t],
                    phi_next[t],
                    columns["rho"][t],
                    columns["discount"][t],
                    terminated=terminated[t],
                    truncated=truncated[t],
                )

    def partial_fit(self, stream: Stream) -> Learner:
        """Take all steps of a stream that is a part of a log. Returns the learner.

        Its first step continues the latest episode unless that ended with discount 0. If the log was cut after a
        truncated episode, call `new_episode` first. Sparse features stay sparse, and so do their traces, unless the
        first step was dense or the rule reads only dense rows. Then up to 4096 columns are stored densely.
        """
        self._put_stream(stream, {})
        return self

    def predict(self, phi: Any) -> Any:
        """The value phi . theta, a number for one row of features and an array for several."""
        fast = self._fast
        if (
            fast is not None
            and fast.weights is not None
            and type(phi) is ndarray
            and phi.shape == fast.shape
            and (phi.dtype is _FLOAT64 or phi.dtype is fast.dtype)
        ):
            with self._lock:
                value = float(phi.dot(fast.weights))
            if value - value == 0.0:  # false for a non-finite value, which is reported
                return value
        indexed = fast is not None and fast.lengths is not None and type(phi) is ndarray and phi.dtype is _INT64
        if fast is not None and indexed and phi.ndim == 1 and phi.size <= fast.room:
            with self._lock:
                row = fast.asked[: phi.size]
                row[:] = phi
                value = float(fast.sum(*self._lagging(self._queue.runs[0], 0), row, _ONES))
            if value - value == 0.0:
                return value
        return self._values(phi)[0]

    @property
    def theta(self) -> Floats:
        """The weights, or their average if the average is reported. Before learning starts, the initial weights."""
        with self._lock:
            return self._thetas()[0]

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return self._queue.runs[0].updates

    @property
    def diverged_at(self) -> int:
        """The step at which the weights diverged, -1 if they did not. From then on they are frozen."""
        return self._queue.runs[0].diverged_at

    def __repr__(self) -> str:
        episodes = self._queue.episodes.number + 1
        ending = "" if episodes == 1 else "s"
        return (
            f"Learner({self._names[0]}, {self.n_features} features: {self.seen} steps seen, {episodes} episode{ending})"
        )

    @classmethod
    def load(cls, path: str | Path, *, compile: bool | None = None) -> Learner:
        """The learner that was saved to a file."""
        return cls._load(path, compile)[0]

    @classmethod
    def _load(cls, path: str | Path, compile: bool | None) -> tuple[Learner, Mapping[str, Any], Arrays]:
        """The learner in a file, and the file's other contents."""
        loaded = saving.load(path, "Learner", 1, compile)
        with reading(path, "a file that Learner.save wrote"):
            return cls.__new__(cls)._take(loaded), *loaded[2:]

    def _take(self, loaded: saving.Loaded) -> Self:
        names, queue, more, arrays = loaded
        self._begin(names, queue, more)
        if self._white is not None:
            self._white.restore(arrays, self.n_features)
        return self

    def _become(self, other: Learner) -> None:
        """Take over the state of another learner with the same settings."""
        with self._lock:
            self.__dict__.update({name: value for name, value in other.__dict__.items() if name != "_lock"})
