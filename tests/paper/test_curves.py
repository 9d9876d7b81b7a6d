"""Learning curves against a second simulation: dynamics and rules written again here, in NumPy, over all runs at once.

Two means of 100 runs each, compared at six steps: they may differ by 4 combined standard errors. With 6 problems and
algorithms and 6 steps each, a right pair fails somewhere about twice in a thousand seeds.
"""

import numpy as np
import pytest

import gradtd

pytestmark = pytest.mark.slow

RUNS, STEPS, AT = 100, 600, [50, 100, 200, 300, 450, 600]


def boyan(rng, state):
    """States 12 to 1 as integers, 0 is the end: (next, reward, ratio, ended)."""
    jump = np.where((state >= 2) & (rng.random(RUNS) < 0.5), 2, 1)
    after = state - jump
    return after, np.where(state == 1, -2.0, -3.0), np.ones(RUNS), after == 0


def walk(rng, state):
    """States 0 to 4; the target goes right with .6, the behaviour with .5."""
    right = rng.random(RUNS) < 0.5
    after = state + np.where(right, 1, -1)
    ended = (after < 0) | (after > 4)
    reward = np.where(after > 4, 1.0, np.where(after < 0, -1.0, 0.0))
    return np.clip(after, 0, 4), reward, np.where(right, 1.2, 0.8), ended


def star(rng, state):
    """Baird: the target always goes to state 6, the behaviour with 1/7."""
    solid = rng.random(RUNS) < 1 / 7
    after = np.where(solid, 6, rng.integers(0, 6, RUNS))
    return after, np.zeros(RUNS), np.where(solid, 7.0, 0.0), np.zeros(RUNS, bool)


def boyan_features():
    corner = np.eye(4)
    rows = [np.zeros(4)]
    for i in range(1, 13):
        k, rest = divmod(12 - i, 4)
        rows.append((1 - rest / 4) * corner[k] + (rest / 4 * corner[k + 1] if rest else 0))
    return np.array(rows)


def star_features():
    x = np.hstack([2 * np.eye(7), np.ones((7, 1))])
    x[6] = [0, 0, 0, 0, 0, 0, 1, 2]
    return x


WALK_VALUES = np.array([-0.26917293, 0.21804511, 0.54285714, 0.7593985, 0.90375940])
INVERTED = (1 - np.eye(5)) / 2
DEPENDENT = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], float)
DEPENDENT /= np.sqrt((DEPENDENT**2).sum(axis=1, keepdims=True))
# problem: dynamics, start, features, gamma, theta0, states that count, their values
PROBLEMS = {
    "boyan_chain": (boyan, 12, boyan_features(), 1.0, np.zeros(4), np.arange(1, 13), -2.0 * np.arange(1, 13)),
    "random_walk_tabular": (walk, 2, np.eye(5), 1.0, np.zeros(5), np.arange(5), WALK_VALUES),
    "random_walk_inverted": (walk, 2, INVERTED, 1.0, np.zeros(5), np.arange(5), WALK_VALUES),
    "random_walk_dependent": (walk, 2, DEPENDENT, 1.0, np.zeros(3), np.arange(5), WALK_VALUES),
    "baird": (star, None, star_features(), 0.9, np.array([1, 1, 1, 1, 1, 1, 10, 1.0]), np.arange(7), np.zeros(7)),
}


def simulated(problem, rule, **hyper):
    """RMSVE of all runs at the steps AT, shape (runs, steps)."""
    dynamics, start, features, gamma, theta0, states, truth = PROBLEMS[problem]
    rng = np.random.default_rng(77)
    state = rng.integers(0, 7, RUNS) if start is None else np.full(RUNS, start)
    theta, memory, errors = np.tile(theta0, (RUNS, 1)), {}, []
    log = {key: np.zeros((STEPS, RUNS, *shape)) for key, shape in {"x": theta0.shape, "y": theta0.shape}.items()}
    log |= {"r": np.zeros((STEPS, RUNS)), "rho": np.zeros((STEPS, RUNS)), "unit": np.zeros((STEPS, RUNS), int)}
    episode = np.zeros(RUNS, int)
    for t in range(STEPS):
        after, reward, rho, ended = dynamics(rng, state)
        x = features[state]
        y = gamma * features[after] * ~ended[:, None] - x
        unit = episode.copy() if start is not None else np.full(RUNS, t // 50)
        for key, value in zip(log, (x, y, reward, rho, unit), strict=True):
            log[key][t] = value
        memory["t"] = t
        theta = rule(theta, memory, x, y, reward, rho, log, rng, **hyper)
        episode += ended
        state = np.where(ended, start if start is not None else after, after)
        if t + 1 in AT:
            errors.append(np.sqrt(((theta @ features[states].T - truth) ** 2).mean(axis=1)))
    return np.array(errors).T


def td(theta, memory, x, y, reward, rho, log, rng, alpha):
    delta = reward + (y * theta).sum(axis=1)
    return theta + alpha * (rho * delta)[:, None] * x


def tdrc(theta, memory, x, y, reward, rho, log, rng, alpha):
    w = memory.setdefault("w", np.zeros_like(theta))
    delta, along = reward + (y * theta).sum(axis=1), (x * w).sum(axis=1)
    memory["w"] = w + alpha * ((rho * delta - along)[:, None] * x - w)
    return theta + alpha * rho[:, None] * (delta[:, None] * x - along[:, None] * (y + x))


def impression(theta, memory, x, y, reward, rho, log, rng, alpha, m):
    """Algorithm 1: odd episodes give the gradient, even ones the TD error; both must hold more than m steps."""
    held = memory.setdefault("held", np.zeros((2, RUNS, STEPS), int))  # the steps in even and in odd episodes
    count = memory.setdefault("count", np.zeros((2, RUNS), int))
    runs, side = np.arange(RUNS), log["unit"][memory["t"]] % 2
    held[side, runs, count[side, runs]] = memory["t"]
    count[side, runs] += 1
    runs = np.flatnonzero(count.min(axis=0) > m)[:, None]
    j, i = (held[s, runs, rng.integers(0, count[s, runs], (len(runs), m))] for s in (0, 1))
    delta = log["rho"][j, runs] * (log["r"][j, runs] + (log["y"][j, runs] * theta[runs]).sum(axis=2))
    u = (delta[:, :, None] * log["x"][j, runs]).mean(axis=1)
    along = log["rho"][i, runs] * (log["x"][i, runs] * u[:, None]).sum(axis=2)
    new = theta.copy()
    new[runs[:, 0]] -= alpha * (along[:, :, None] * log["y"][i, runs]).mean(axis=1)
    return new


@pytest.mark.parametrize(
    ("problem", "name", "rule", "hyper"),
    [
        ("boyan_chain", "td", td, {"alpha": 1 / 16}),
        ("boyan_chain", "impression_gtd", impression, {"alpha": 5.0, "m": 8}),
        ("random_walk_tabular", "tdrc", tdrc, {"alpha": 1 / 32}),
        ("random_walk_inverted", "td", td, {"alpha": 1 / 8}),
        ("random_walk_dependent", "impression_gtd", impression, {"alpha": 0.5, "m": 8}),
        ("baird", "tdrc", tdrc, {"alpha": 1 / 32}),
    ],
)
def test_mean_curves_agree_with_an_independent_simulation(problem, name, rule, hyper):
    theirs = simulated(problem, rule, **hyper)
    ours = {"alpha": hyper["alpha"]} | ({"batch_size": hyper["m"]} if "m" in hyper else {})
    result = gradtd.run(problem, name, runs=RUNS, steps=STEPS, snapshots=AT, **ours)
    values = gradtd.measure(result, "rmsve")
    error = np.sqrt(values.var(axis=0, ddof=1) / RUNS + theirs.var(axis=0, ddof=1) / RUNS)
    assert (np.abs(values.mean(axis=0) - theirs.mean(axis=0)) < 4 * error).all()
