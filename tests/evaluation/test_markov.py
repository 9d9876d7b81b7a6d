"""Does the past predict what comes next, given the observation and the action?"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradtd import Machine, evaluate
from gradtd.evaluation.designs.base import Rows, Steps
from gradtd.evaluation.fits import Fit, Solution
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.markov import predicted
from naive.evaluation import moving


def ring(rng, episodes=150, length=12, hidden=True, n=5):
    """Walks on a ring. A hidden switch, turned in place 0 and in place 2, decides the reward of place 3."""
    log = {name: [] for name in ("episode", "obs", "action", "reward", "rho")}
    for e in range(episodes):
        place, switch = int(rng.integers(n)), 0
        for _ in range(length):
            action = int(rng.random() < 0.5)
            reward = (switch if hidden else 0.5) * (place == 3) + 0.1 * rng.normal()
            for name, value in zip(log, (e, place, action, reward, (0.6, 1.4)[action]), strict=True):
                log[name].append(value)
            switch = 1 if place == 0 else 0 if place == 2 else switch
            place = (place + (1 if action else -1) * int(rng.random() < 0.8)) % n
    return {name: np.array(values) for name, values in log.items()}


def as_steps(log, n=5, gamma=0.9):
    """The steps of that log with one feature a place, and any value function."""
    episode = log["episode"]
    begins = np.r_[np.flatnonzero(np.r_[True, np.diff(episode) != 0]), len(episode)]
    after = np.r_[log["obs"][1:], 0]
    after[begins[1:] - 1] = log["obs"][begins[1:] - 1]
    rows = Rows.stored(log["obs"], after, np.eye(n), cell=np.arange(n))
    discount = np.full(len(episode), gamma)
    steps = Steps(rows, log["reward"], discount, log["rho"], begins, action=log["action"])
    columns = np.arange(n)
    theta = np.array([0.3, -0.2, 0.5, 1.0, 0.1])
    left = np.full(n, -1 / len(episode))
    solution = Solution("", columns, theta, left, 1.0, 0.0, n, np.zeros(n))
    psi = 0.2 * np.random.default_rng(0).normal(size=len(begins) - 1)
    return steps, solution, Fit("", 1.0, psi, 0.0, n)


def by_hand(steps, solution, fit, columns):
    """Residuals of dense least squares on the observation and action, and Hotelling's statistic over episodes."""
    from scipy.stats import f

    n, E = len(steps), steps.n_pieces
    y = steps.reward + steps.discount * solution.theta[steps.rows.next_row]
    known = np.eye(10)[steps.rows.row + 5 * steps.action]

    def left(z):
        return z - known @ np.linalg.lstsq(known, z, rcond=None)[0]

    z, e = left(columns), left(y)
    z = z[:, z.std(axis=0) > 1e-3 * columns.std(axis=0)]
    values, vectors = np.linalg.eigh(z.T @ z / n)
    keep = values > 1e-6 * values.max()
    z = z @ (vectors[:, keep] / np.sqrt(values[keep]))
    k = z.shape[1]
    sums = np.array([(z * e[:, None])[a:b].sum(0) for a, b in pairwise(steps.begins)])
    cov = np.cov(sums.T).reshape(k, k) / E
    square = sums.mean(0) @ np.linalg.inv(cov) @ sums.mean(0)
    size = np.sqrt(max((sums.mean(0) ** 2).sum() - np.trace(cov), 0)) * E / n
    horizon = steps.rho.sum() / n
    return f.sf(square * (E - k) / (k * (E - 1)), k, E - k), size * horizon / fit.error


def test_the_step_before_and_the_time_by_hand():
    steps, solution, fit = as_steps(ring(np.random.default_rng(3)))
    found = {one.what: one for one in predicted(steps, solution, fit, steps.n_pieces)}
    n, first = len(steps), np.zeros(len(steps), bool)
    first[steps.begins[:-1]] = True
    ratio, reward = steps.rho / (1 + steps.rho), steps.reward / steps.reward.std()
    now = np.c_[np.eye(5)[steps.rows.row], ratio, reward, ratio * reward, steps.action]
    before = np.r_[np.zeros((1, now.shape[1])), now[:-1]]
    before[first] = 0
    p, effect = by_hand(steps, solution, fit, before)
    assert found["the previous step"].p == pytest.approx(p, rel=1e-6)
    assert found["the previous step"].effect == pytest.approx(effect, rel=1e-6)
    means = []
    for decay in (0.5, 0.9):
        mean = np.zeros_like(now)
        for t in np.flatnonzero(~first):
            mean[t] = decay * mean[t - 1] * (not first[t - 1]) + (1 - decay) * now[t - 1]
        means.append(mean)
    p, effect = by_hand(steps, solution, fit, np.concatenate(means, axis=1))
    assert found["earlier steps"].p == pytest.approx(p, rel=1e-4)
    assert found["earlier steps"].effect == pytest.approx(effect, rel=1e-4)
    time = np.arange(n) % 12
    p, effect = by_hand(steps, solution, fit, np.cos(np.pi * np.arange(1, 5) * time[:, None] / 11))
    assert found["the time since the start"].p == pytest.approx(p, rel=1e-6)
    assert found["the importance ratio"].p == 1.0  # it follows from the action


def test_a_state_that_is_seen_is_found_at_the_stated_rate():
    """120 logs of Markov states: in .3 % a test is significant by chance, so 4 or more of 480 have odds of 1 in 100."""
    rng = np.random.default_rng(11)
    chances, far = [], 0
    for _ in range(120):
        made = predicted(*as_steps(ring(rng, 80, 8, hidden=False)), 80)
        chances += [one.p for one in made if one.what != "the importance ratio"]
        far += any(one.p < DEFAULT.most_chance for one in made)
    assert far <= 4
    assert 0.05 < np.mean(np.array(chances) < 0.1) < 0.16
    assert 0.4 < np.mean(np.array(chances) < 0.5) < 0.6


def test_a_hidden_switch_is_found():
    rng = np.random.default_rng(5)
    found = [predicted(*as_steps(ring(rng)), 150) for _ in range(10)]
    assert all(made[0].is_far(DEFAULT, endless=False) for made in found)
    assert {made[0].what for made in found} <= {"the previous step", "earlier steps"}


def test_a_small_part_of_what_comes_next_is_no_objection():
    steps, solution, fit = as_steps(ring(np.random.default_rng(5)))
    wide = Fit("", 1.0, 1000 * fit.psi, 0.0, 5)
    made = predicted(steps, solution, wide, steps.n_pieces)
    assert made[0].p < DEFAULT.most_chance
    assert not made[0].is_far(DEFAULT, endless=False)


def test_a_hidden_velocity_is_found_and_a_seen_one_is_not():
    hidden = evaluate(moving(np.random.default_rng(2), seen=False), gamma=0.9, features="polynomial:order=2")
    assert hidden.verdict == "not usable"
    assert any("not Markov states" in reason for reason in hidden.reasons), hidden.reasons
    assert hidden.diagnostics.predicted_chance < DEFAULT.most_chance
    shown = evaluate(moving(np.random.default_rng(2)), gamma=0.9, features="polynomial:order=2")
    assert shown.diagnostics.predicted_by is None


@pytest.mark.parametrize("log", [ring(np.random.default_rng(1)), moving(np.random.default_rng(1), seen=False)])
def test_the_same_in_parts_as_in_memory(log, tmp_path):
    table = {name: list(values) if values.ndim > 1 else values for name, values in log.items()}
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    how = {"gamma": 0.9, "features": "one-hot" if log["obs"].ndim == 1 else "polynomial:order=2"}
    one, two = (
        evaluate(tmp_path, machine=Machine(threads=1, in_parts=parts), **how).diagnostics for parts in (False, True)
    )
    assert one.predicted_by is not None
    assert one.predicted_by == two.predicted_by
    assert two.predicted_chance == pytest.approx(one.predicted_chance, rel=1e-6)
    assert two.predicted_effect == pytest.approx(one.predicted_effect, rel=0.05)


def test_values_of_actions_and_single_steps_have_no_test():
    log = ring(np.random.default_rng(1))
    steps, solution, fit = as_steps(log)
    single = Steps(steps.rows, steps.reward, steps.discount, steps.rho, np.arange(len(steps) + 1))
    assert predicted(single, solution, fit, len(steps)) == []
    found = evaluate(log | {"behaviour": np.full(len(log["obs"]), 0.5)}, "uniform", 0.9, value_function="action")
    assert found.diagnostics.predicted_by is None
