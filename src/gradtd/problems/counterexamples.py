"""Problems on which TD diverges."""

from __future__ import annotations

import numpy as np

from gradtd.problems.base import FiniteMDP, Problem


def baird(gamma: float = 0.9) -> Problem:
    """Baird's counterexample with seven states (Sutton and Barto 2018, figure 11.1).

    ``dashed`` leads to one of six upper states, ``solid`` to the seventh. The behaviour takes solid
    with probability 1/7, the target always; all rewards are zero, start weights 1 but for a 10 at the
    seventh state's own weight. A and C are singular.

    Parameters
    ----------
    gamma : float
        The discount. That of Sutton and Barto is .99.
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

    The target always moves to the second state, the behaviour to either alike; rewards are zero.
    With both states visited alike TD diverges for gamma > 5/6.

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
