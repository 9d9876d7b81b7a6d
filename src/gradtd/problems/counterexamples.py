"""Problems on which TD diverges: Baird's, the two-state ones, and random stars with Baird's dynamics."""

from __future__ import annotations

import numpy as np

from gradtd.core import checks
from gradtd.core.arrays import Floats
from gradtd.core.checks import InputError
from gradtd.problems.base import MOST_STATES, FiniteMDP, Problem


def baird(gamma: float = 0.9) -> Problem:
    """Baird's counterexample with seven states (Sutton and Barto 2018, figure 11.1).

    ``dashed`` leads to one of six upper states, ``solid`` to the seventh. The behaviour takes solid
    with probability 1/7, the target always; all rewards are zero; initial weights are 1, except 10 for the seventh
    state's own weight. A and C are singular.

    Parameters
    ----------
    gamma : float
        The discount; .99 in Sutton and Barto.
    """
    n = 7
    transition = np.zeros((n, 2, n))
    transition[:, 0, : n - 1] = 1 / (n - 1)
    transition[:, 1, n - 1] = 1.0
    features = np.zeros((n, n + 1))
    features[:, :n] = 2.0 * np.eye(n)
    features[:, n] = 1.0
    features[n - 1, n - 1], features[n - 1, n] = 1.0, 2.0
    theta0 = np.ones(n + 1)
    theta0[n - 1] = 10.0
    return Problem(
        name="baird" if gamma == 0.9 else f"baird_{gamma}",
        mdp=FiniteMDP(transition, np.zeros((n, 2, n)), np.zeros(n, bool), np.full(n, 1 / n)),
        behaviour=np.tile([(n - 1) / n, 1 / n], (n, 1)),
        target=np.tile([0.0, 1.0], (n, 1)),
        features=features,
        gamma=gamma,
        theta0=theta0,
        source="Sutton and Barto (2018)",
        block=50,
    )


def two_state(gamma: float = 0.95) -> Problem:
    """Tsitsiklis and Van Roy's two states with features 1 and 2 (1997), as an off-policy problem.

    The target always moves to the second state, the behaviour to each with probability 1/2; rewards are zero. With both
    states visited equally often, TD diverges for gamma > 5/6.

    Parameters
    ----------
    gamma : float
        The discount.
    """
    transition = np.zeros((2, 2, 2))
    transition[:, 0, 0] = transition[:, 1, 1] = 1.0
    return Problem(
        name="two_state" if gamma == 0.95 else f"two_state_{gamma}",
        mdp=FiniteMDP(transition, np.zeros((2, 2, 2)), np.zeros(2, bool), np.full(2, 0.5)),
        behaviour=np.full((2, 2), 0.5),
        target=np.tile([0.0, 1.0], (2, 1)),
        features=np.array([[1.0], [2.0]]),
        gamma=gamma,
        theta0=np.ones(1),
        source="Tsitsiklis and Van Roy (1997)",
        block=50,
    )


def star(n: int = 6, n_features: int = 5, gamma: float = 0.9, seed: int = 0) -> Problem:
    """``n`` upper states and a centre: the target always goes to the centre, the behaviour with probability 1/(n+1).

    Otherwise the behaviour goes to one of the upper states, so all states are visited equally often, as in Baird's
    counterexample. Features are a common vector of length one plus normal numbers of deviation 1/2, rewards are
    standard normal. The features of the centre are scaled up until an eigenvalue of A has a real part above a tenth of
    the largest eigenvalue of C, so TD diverges. With more features than states A is singular.

    Parameters
    ----------
    n : int
        Number of upper states.
    n_features : int
        Number of features.
    gamma : float
        The discount.
    seed : int
        A different seed gives a different problem.
    """
    n = checks.whole_number("n", n, 2, MOST_STATES)
    n_features = checks.whole_number("n_features", n_features, 1, MOST_STATES)
    gamma = checks.fraction("gamma", gamma)
    rng = np.random.default_rng(checks.seed_number(seed))
    transition = np.zeros((n + 1, 2, n + 1))
    transition[:, 0, :n] = 1 / n
    transition[:, 1, n] = 1.0
    reward = np.repeat(rng.standard_normal((n + 1, 2, 1)), n + 1, axis=2)
    features = _features(rng, n, n_features, gamma)
    return Problem(
        name=f"star_{n}_{n_features}_{gamma:g}_{seed}",
        mdp=FiniteMDP(transition, reward, np.zeros(n + 1, bool), np.full(n + 1, 1 / (n + 1))),
        behaviour=np.tile([n / (n + 1), 1 / (n + 1)], (n + 1, 1)),
        target=np.tile([0.0, 1.0], (n + 1, 1)),
        features=features,
        gamma=gamma,
        source=f"random, after Baird (1995), seed {seed}",
        block=50,
    )


def _features(rng: np.random.Generator, n: int, n_features: int, gamma: float) -> Floats:
    for _ in range(20):
        features: Floats = 1 / np.sqrt(n_features) + 0.5 * rng.standard_normal((n + 1, n_features))
        for _ in range(8):
            if _unstable(features, gamma):
                return features
            features[n] *= 1.25
    raise InputError(f"found no features that make TD diverge with n={n} and gamma={gamma:g}: use larger ones.")


def _unstable(features: Floats, gamma: float) -> bool:
    """Whether TD diverges clearly; every state has probability 1/(n+1), and the next state is the last one."""
    C = features.T @ features / len(features)
    A = gamma * np.outer(features.mean(axis=0), features[-1]) - C
    return bool(np.linalg.eigvals(A).real.max() > 0.1 * np.linalg.eigvalsh(C)[-1])
