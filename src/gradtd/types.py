"""The records that the rest of the library passes around: small, frozen, NumPy only.

Signs are fixed here once: ``A = E[rho phi (gamma phi' - phi)']``, ``b = E[rho r phi]``,
and the TD solution solves ``A theta + b = 0``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradtd import checks
from gradtd.checks import InputError

if TYPE_CHECKING:
    import scipy.sparse

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Plain = Callable[..., Any]
"""A plain Python function that the engine can compile."""
Words = NDArray[np.uint64]
Batch = NDArray[np.uint32]
Index = Any
"""An index of a step or a row: a Python or NumPy integer, unsigned in compiled code."""
State = Any
"""What a rule keeps: a record with ``theta`` and the arrays of the rule's ``init``."""
Hyper = Any
"""A record of the numbers among an algorithm's hyper-parameters."""

STEP = np.dtype(
    [
        ("row", np.uint32),
        ("next_row", np.uint32),
        ("reward", np.float64),
        ("discount", np.float64),
        ("rho", np.float64),
        ("episode", np.int64),
    ],
    align=True,
)
"""One step of experience; ``row`` and ``next_row`` point into the stream's features.

``discount`` is per step: gamma, and 0 where the episode *terminated*. Where an episode was only
cut off (*truncated*) it stays gamma and ``next_row`` is the observation that followed, so the
update bootstraps as it should."""


class SparseRows(NamedTuple):
    """A sparse feature matrix in compressed rows, the form compiled code reads; columns increase along a row."""

    data: Floats
    indices: NDArray[np.uint32]
    begin: NDArray[np.int64]
    n_columns: int


class StreamView(NamedTuple):
    """What a rule sees of a stream: ``stream.features`` and ``stream.steps[t].reward`` and so on."""

    features: Any
    steps: Any


class Now(NamedTuple):
    """What a rule is told about the present time step.

    ``t`` is the index of the latest step, ``side`` the buffer it went to (0 for buffer 1, 1 for
    buffer 2), ``first`` and ``second`` the step indices drawn from the two buffers, ``seen`` the
    number of steps seen so far, ``alpha`` the step-size of this update.
    """

    t: np.uint64
    side: int
    seen: int
    alpha: float
    first: NDArray[np.uint32]
    second: NDArray[np.uint32]


class Plan(NamedTuple):
    """The numbers that steer the loop.

    The step-size of update n = 0, 1, ... is alpha / (1 + n / t0)^p; alpha is 1 where the rule chooses
    its step-size itself. Learning starts after ``start`` steps and when the buffers hold more than
    ``fill_1`` and ``fill_2``. From step ``average_from`` on (-1: never) the iterates are averaged, the n-th
    with weight (power + 1) / (n + power). A run whose weights leave [-limit, limit] has diverged.
    """

    alpha: float
    t0: float
    p: float
    start: int
    fill_1: int
    fill_2: int
    replacement: bool
    average_from: int
    average_power: float
    limit: float


@dataclass(frozen=True, eq=False)
class Stream:
    """Experience in the order it happened: features, and steps that point into them.

    Make one with `Stream.from_arrays` or `gradtd.sample`.
    """

    features: Floats | scipy.sparse.csr_array
    steps: np.recarray[Any, Any]
    name: str = "stream"

    @classmethod
    def from_arrays(
        cls,
        *,
        features: Any,
        row: Any,
        next_row: Any,
        reward: Any,
        discount: Any,
        episode: Any,
        rho: Any = 1.0,
        name: str = "stream",
    ) -> Stream:
        """Build a stream from arrays, one entry a step, and check every one of them.

        ``features`` has one row an observation, dense or SciPy-sparse; ``row`` and ``next_row`` say
        which row a step started from and which it led to. ``discount`` is gamma, 0 where the episode
        terminated, gamma where it was only cut off. ``rho`` is the target's probability of the
        action taken over the behaviour's. ``episode`` numbers the episodes; each must be in one piece.
        Dense features are not copied.

        >>> import numpy as np
        >>> stream = Stream.from_arrays(
        ...     features=np.eye(3), row=[0, 1, 0], next_row=[1, 2, 1], reward=[0, 1, 0],
        ...     discount=[0.9, 0, 0.9], rho=[1, 1, 0.5], episode=[7, 7, 8])
        >>> stream
        Stream(stream: 3 steps, 2 episodes, 3 features, dense)
        """
        table = checks.feature_table(features)
        rows = checks.whole_numbers("row", row)
        n_steps = len(rows)
        if n_steps == 0:
            raise InputError("a stream needs at least one step, got row of length 0.")
        columns: dict[str, NDArray[Any]] = {
            "next_row": checks.whole_numbers("next_row", next_row),
            "reward": checks.number_a_step("reward", reward, n_steps),
            "discount": checks.number_a_step("discount", discount, n_steps),
            "rho": checks.number_a_step("rho", rho, n_steps),
        }
        episodes = checks.whole_numbers("episode", episode)
        for label, values in [*columns.items(), ("episode", episodes)]:
            if len(values) != n_steps:
                raise InputError(f"every column needs one entry a step: row has {n_steps}, {label} has {len(values)}.")
        for label, values in (("row", rows), ("next_row", columns["next_row"])):
            outside = (values < 0) | (values >= table.shape[0])
            checks.refuse_where(label, outside, values, f"must be a row of features, 0 to {table.shape[0] - 1}")
        discounts, ratios = columns["discount"], columns["rho"]
        checks.refuse_where("discount", (discounts < 0) | (discounts > 1), discounts, "must lie in [0, 1]")
        checks.refuse_where("rho", ratios < 0, ratios, "must not be negative")
        steps = np.zeros(n_steps, STEP)
        steps["row"] = rows
        for label in ("next_row", "reward", "discount", "rho"):
            steps[label] = columns[label]
        steps["episode"] = checks.consecutive_episodes(episodes)
        return cls(table, steps.view(np.recarray), name)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        kind = "dense" if isinstance(self.features, np.ndarray) else "sparse"
        return f"Stream({self.name}: {len(self)} steps, {self.n_episodes} episodes, {self.n_features} features, {kind})"

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_episodes(self) -> int:
        return int(self.steps["episode"][-1]) + 1

    @property
    def view(self) -> StreamView:
        """The stream in the form that rules and compiled code read."""
        return StreamView(compiled_features(self.features), self.steps)


def compiled_features(features: Floats | scipy.sparse.csr_array) -> Floats | SparseRows:
    """A feature table as compiled code reads it."""
    if isinstance(features, np.ndarray):
        return features
    return SparseRows(
        np.ascontiguousarray(features.data, dtype=np.float64),
        np.ascontiguousarray(features.indices, dtype=np.uint32),
        np.ascontiguousarray(features.indptr, dtype=np.int64),
        int(features.shape[1]),
    )


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """Dynamics of a finite Markov decision process, written once.

    ``transition[s, a, s']`` and ``reward[s, a, s']``; ``terminal[s]`` marks states in which an
    episode is over (their rows of ``transition`` do not matter); ``start[s]`` is the law of the first
    state. The simulator and the exact matrices both derive from these arrays.
    """

    transition: Floats
    reward: Floats
    terminal: NDArray[np.bool_]
    start: Floats

    def __post_init__(self) -> None:
        self._loop_terminal_states()
        for label, check, ndim in (
            ("transition", checks.probabilities, 3),
            ("start", checks.probabilities, 1),
            ("reward", checks.finite_array, 3),
            ("terminal", checks.numeric_array, 1),
        ):
            object.__setattr__(self, label, check(label, getattr(self, label), ndim))
        object.__setattr__(self, "terminal", self.terminal.astype(bool))
        n_states, _, n_next = self.transition.shape
        if n_states != n_next or self.reward.shape != self.transition.shape:
            raise InputError(
                "transition and reward need shape (states, actions, states), got "
                f"{self.transition.shape} and {self.reward.shape}."
            )
        if self.terminal.shape != (n_states,) or self.start.shape != (n_states,):
            raise InputError(f"terminal and start need one entry a state ({n_states}).")
        if self.terminal.all() or self.start[self.terminal].sum() > 0:
            raise InputError("an episode must start in a state that is not terminal.")

    def _loop_terminal_states(self) -> None:
        """Whatever is given for them, terminal states stay where they are."""
        transition, terminal = checks.numeric_array("transition", self.transition, 3), np.asarray(self.terminal)
        if terminal.shape == transition.shape[:1] == transition.shape[2:]:
            over = np.flatnonzero(terminal)
            transition = transition.astype(np.float64)
            transition[over] = 0.0
            transition[over, :, over] = 1.0
            object.__setattr__(self, "transition", transition)

    @property
    def n_states(self) -> int:
        return int(self.transition.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.transition.shape[1])


@dataclass(frozen=True, eq=False)
class Problem:
    """A policy-evaluation problem: dynamics, two policies, features and a discount.

    ``behaviour[s, a]`` makes the data, ``target[s, a]`` is evaluated. ``block`` is the number of
    steps that count as one episode where the problem has no end of its own. ``source`` says whose
    version of the problem this is.
    """

    name: str
    mdp: FiniteMDP
    behaviour: Floats
    target: Floats
    features: Floats
    gamma: float
    theta0: Floats = None  # type: ignore[assignment]  # zeros, once made
    source: str = "a user"
    block: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mdp, FiniteMDP):
            raise InputError(f"mdp must be a FiniteMDP, got {type(self.mdp).__name__}.")
        if self.block is not None:
            checks.whole_number("block", self.block, 1)
        n, shape = self.mdp.n_states, (self.mdp.n_states, self.mdp.n_actions)
        for label in ("behaviour", "target"):
            policy = checks.probabilities(label, getattr(self, label), 2)
            if policy.shape != shape:
                raise InputError(f"{label} needs shape {shape}, got {policy.shape}.")
            object.__setattr__(self, label, policy)
        features = checks.finite_array("features", self.features, 2)
        if 0 in features.shape:
            raise InputError(f"features needs at least one row and one column, got shape {features.shape}.")
        theta0 = np.zeros(features.shape[1]) if self.theta0 is None else checks.finite_array("theta0", self.theta0, 1)
        if features.shape[0] != n:
            raise InputError(f"features needs one row a state ({n}), got {features.shape}.")
        if theta0.shape[0] != features.shape[1]:
            raise InputError(f"theta0 needs {features.shape[1]} entries, got {theta0.shape[0]}.")
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "theta0", theta0)
        object.__setattr__(self, "gamma", checks.fraction("gamma", self.gamma))
        alive = ~self.mdp.terminal[:, None]
        uncovered = (self.target > 0) & (self.behaviour == 0) & alive
        if uncovered.any():
            s, a = np.argwhere(uncovered)[0]
            raise InputError(
                f"the target takes action {a} in state {s}, which the behaviour never takes: "
                "its importance ratio would be infinite."
            )

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def continuing(self) -> bool:
        return not bool(self.mdp.terminal.any())

    def __repr__(self) -> str:
        kind = "continuing" if self.continuing else "episodic"
        return (
            f"Problem({self.name}: {self.mdp.n_states} states, {self.n_features} features, "
            f"gamma {self.gamma:g}, {kind}; {self.source})"
        )


REQUIRED = object()
"""Default of a parameter that has to be given."""


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter: its default and what it may be."""

    default: Any = REQUIRED
    help: str = ""
    check: Callable[[str, Any], Any] = checks.number


@dataclass(frozen=True)
class Algorithm:
    """A learning rule and what the engine has to do for it.

    ``update(state, stream, now, hyper)`` changes ``state.theta`` in place; ``observe`` has the same
    arguments and sees every step, also those before learning starts; ``read(state, stream, now, hyper)``
    runs before a snapshot is taken. ``init(n_features, hyper)`` returns a dictionary of the arrays
    the rule keeps besides ``theta``; ``hyper["n_steps"]`` is the length of the stream, for tables with an entry
    a stored step. ``draws`` says which batches the rule receives:

    * ``"nothing"``: it uses the latest step;
    * ``"new batch"``: ``now.first``, the m latest steps, every m steps;
    * ``"one batch"``: ``now.first``, from all steps so far;
    * ``"other batch"``: ``now.first``, from the buffer that the latest step did not go to;
    * ``"two buffers"``: no batches, but ``now.side``, and it starts when both buffers are filled;
    * ``"two batches"``: ``now.first`` and ``now.second``, from the two buffers.

    A rule that chooses its step-size itself says what it used last in ``chosen(state)``: 0 while it only
    watches, as it does for its first ``watches`` batches; ``now.alpha`` is then a factor, 1 unless it decays.
    ``dense_only`` says that the rule reads whole feature rows, ``stream.features[row]``; ``stored``, that it reads
    stored steps by their number, so it needs the whole stream in memory and takes one pass over it.
    ``parameters`` maps names to `Parameter` (or just to a default number). Where a parameter changes
    the code of the rule, ``choose(hyper)`` returns the algorithm that is meant.
    """

    name: str
    update: Callable[..., Any]
    init: Callable[[int, Any], Mapping[str, NDArray[Any]]] = lambda n_features, hyper: {}
    observe: Callable[..., Any] | None = None
    read: Callable[..., Any] | None = None
    draws: str = "nothing"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    step_size: bool = True
    chosen: Callable[..., Any] | None = None
    watches: int = 0
    dense_only: bool = False
    stored: bool = False
    choose: Callable[[Mapping[str, Any]], Algorithm] | None = None

    DRAWS = ("nothing", "new batch", "one batch", "other batch", "two buffers", "two batches")

    def __post_init__(self) -> None:
        if self.draws not in self.DRAWS:
            raise InputError(f"draws must be one of {', '.join(self.DRAWS)}; got {self.draws!r}.")
        wrapped = {
            name: value if isinstance(value, Parameter) else Parameter(value) for name, value in self.parameters.items()
        }
        object.__setattr__(self, "parameters", wrapped)

    @property
    def summary(self) -> str:
        """The first line of the rule's docstring."""
        return (self.update.__doc__ or self.name).strip().splitlines()[0]


@dataclass(frozen=True, eq=False)
class Exact:
    """A problem's exact quantities under the behaviour's stationary law ``d_mu``.

    ``A``, ``b`` and ``C = E[phi phi']`` (no ratio in C); ``v_pi`` the target's true values;
    ``theta_star`` the TD solution (minimum norm where ``A`` is singular: see ``notes``);
    ``states`` the states an episode can be in; ``p_pi`` and ``r_pi`` the target's transition
    matrix, discount included, and mean reward, over all states, zero in terminal ones.
    """

    problem: Problem
    A: Floats
    b: Floats
    C: Floats
    d_mu: Floats
    v_pi: Floats
    theta_star: Floats
    states: NDArray[np.int64]
    p_pi: Floats
    r_pi: Floats
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run leaves: weights at the snapshots, and what is needed to run it again.

    ``thetas`` has shape (runs, snapshots, features), for `gradtd.learn` (snapshots, features);
    ``steps`` the step numbers of the snapshots; ``diverged_at`` for each run the step at which it
    was found diverged, -1 where it was not. From then on the run is frozen. (With d >= 1000 features the
    weights are looked at every 1 + d // 1000 steps and after the last one.) ``alphas`` has shape (runs,
    snapshots), for `gradtd.learn` (snapshots,): the step-size of the latest update, NaN before the first
    and for an algorithm without one. ``hyper`` holds every hyper-parameter, ``given`` the names of those
    that were not left at their default.
    """

    thetas: Floats
    steps: Integers
    diverged_at: Integers
    problem: str
    algorithm: str
    hyper: Mapping[str, Any]
    given: tuple[str, ...]
    seed: int
    versions: Mapping[str, str]
    source: Problem | Stream
    alphas: Floats

    @property
    def theta(self) -> Floats:
        """The weights at the last snapshot."""
        return np.asarray(self.thetas[..., -1, :])

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return int((self.diverged_at >= 0).sum())

    def __repr__(self) -> str:
        return (
            f"Result({self.label} on {self.problem}, seed {self.seed}: "
            f"thetas {self.thetas.shape}, {self.diverged} diverged)"
        )

    @property
    def label(self) -> str:
        """The algorithm and the hyper-parameters that were given."""
        shown = {name: self.hyper.get(name) for name in self.given}
        settings = ", ".join(f"{k}={'...' if isinstance(v, np.ndarray) else v}" for k, v in shown.items())
        return f"{self.algorithm}({settings})" if settings else self.algorithm
