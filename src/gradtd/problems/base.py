"""A policy-evaluation problem: the dynamics of a finite Markov decision process, two policies, features, a discount."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError

MOST_STATES = 2**15
"""Maximum number of states: the dynamics are dense arrays (states, actions, states)."""


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """Dynamics of a finite Markov decision process, written once.

    The simulator and the exact matrices both derive from these arrays.

    Parameters
    ----------
    transition : array
        ``transition[s, a, t]`` is the probability that action a leads from state s to state t.
    reward : array
        ``reward[s, a, t]`` is the reward of that transition.
    terminal : array of bool
        Marks the terminal states. Their rows of ``transition`` are ignored.
    start : array
        ``start[s]`` is the probability that an episode starts in state s.
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
            raise InputError(f"terminal and start need one entry per state ({n_states}).")
        if self.terminal.all() or self.start[self.terminal].sum() > 0:
            raise InputError("an episode must start in a state that is not terminal.")

    def _loop_terminal_states(self) -> None:
        """Make terminal states absorbing, ignoring their given rows."""
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

    Parameters
    ----------
    name : str
        A name for tables and pictures.
    mdp : FiniteMDP
        The dynamics.
    behaviour : array
        ``behaviour[s, a]`` is the probability of action a in state s under the behaviour policy.
    target : array
        The same for the target policy.
    features : array
        One row per state.
    gamma : float
        The discount.
    theta0 : array, optional
        Initial weights, by default zeros.
    source : str
        The reference of this version of the problem.
    block : int, optional
        The number of steps that count as one episode, if the problem is continuing.
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
            raise InputError(f"features needs one row per state ({n}), got {features.shape}.")
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
