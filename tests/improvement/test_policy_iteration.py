"""Policy iteration: against its naive twin, against exact solutions, and on features."""

import numpy as np
import pytest

import gradtd
from gradtd.improvement.behaviour_model import fit_behaviour
from gradtd.improvement.experience import make_experience
from gradtd.improvement.policy_iteration import learn, moved
from naive.improvement import naive_policy_iteration


def random_log(seed, episodes=60, S=6, A=3, labels=None):
    """Episodes in a random finite world, with the behaviour's probabilities."""
    rng = np.random.default_rng(seed)
    P, R = rng.dirichlet(np.ones(S), (S, A)), rng.standard_normal((S, A))
    b = rng.dirichlet(np.ones(A), S) * 0.8 + 0.2 / A
    columns = {name: [] for name in ("episode", "obs", "action", "action_prob", "reward", "terminated", "next_obs")}
    for e in range(episodes):
        s, over = int(rng.integers(S)), False
        while not over:
            a = int(rng.choice(A, p=b[s]))
            after, over = int(rng.choice(S, p=P[s, a])), rng.random() < 0.2
            row = (e, s, a, b[s, a], R[s, a] + rng.normal(0, 0.3), over, after)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
            s = after
    made = {name: np.array(values) for name, values in columns.items()}
    if labels is not None:
        made["action"] = np.array(labels)[made["action"]]
    return made, P, R, b


@pytest.mark.parametrize("least", [1, 4, 12])
@pytest.mark.parametrize("seed", range(4))
def test_the_table_agrees_with_the_naive_twin(seed, least):
    columns, *_ = random_log(seed)
    log = gradtd.read_log(columns)
    experience = make_experience(log, 0.9, None, None, None)
    found = learn(experience, np.arange(len(log)), least)
    steps = zip(experience.place, experience.action, log.reward, experience.discount, experience.after, strict=True)
    naive = naive_policy_iteration(list(steps), experience.behaviour.tolist(), least)
    assert {s: int(a) for s, a in enumerate(found.best) if a >= 0} == naive


def test_many_steps_lead_to_the_optimal_policy():
    columns, P, R, _ = random_log(0, episodes=4000)
    log = gradtd.read_log(columns)
    q = np.zeros_like(R)
    for _ in range(500):
        q = R + 0.9 * 0.8 * P @ q.max(axis=1)
    found = learn(make_experience(log, 0.9, None, None, None), np.arange(len(log)), 5)
    assert found.best.tolist() == q.argmax(axis=1).tolist()


@pytest.mark.parametrize("caution", [0.0, 2.0])
def test_one_feature_per_state_gives_the_table(caution):
    """The general way, with leverages for counts and least squares for means, on features that are a table."""
    columns, *_ = random_log(1, episodes=200)
    real = columns | {name: np.c_[columns[name], np.zeros(len(columns["obs"]))] for name in ("obs", "next_obs")}
    table = make_experience(gradtd.read_log(columns), 0.9, None, None, None)
    log = gradtd.read_log(real)
    linear = make_experience(log, 0.9, lambda x: np.eye(6)[x[:, 0].astype(int)], None, None)
    assert linear.table is not None
    steps = np.arange(len(log))
    given = table.behaviour[log.observations[:, 0].astype(int)]
    object.__setattr__(linear, "behaviour", given)
    a, b = learn(table, steps, 4, caution), learn(linear, steps, 4, caution)
    assert (b.known[steps] == a.known[table.place]).all()
    same = b.best[steps] == a.best[table.place]
    assert (
        same.all() if caution == 0 else same.mean() > 0.8
    )  # the table has an error for each pair, features for each action


def test_moved_probability_stays_a_distribution_and_leaves_unknown_actions_alone():
    behaviour = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    known = np.array([[True, True, False], [True, False, False]])
    pi = moved(behaviour, known, np.array([1, -1]))
    assert pi.tolist() == [[0.0, 0.8, 0.2], [0.1, 0.2, 0.7]]


def test_caution_keeps_the_usual_action_where_few_steps_speak_for_another():
    rewards = [0.0] * 50 + [0.1, 0.0, 0.2]
    log = {
        "obs": np.zeros(53, int),
        "action": np.r_[np.zeros(50, int), np.ones(3, int)],
        "action_prob": np.r_[np.full(50, 0.9), np.full(3, 0.1)],
        "reward": np.array(rewards) + np.tile([1.0, -1.0], 27)[:53],
        "terminated": np.ones(53, bool),
        "episode": np.arange(53),
    }
    experience = make_experience(gradtd.read_log(log), 1.0, None, None, None)
    every = np.arange(53)
    assert learn(experience, every, 2, 0.0).best.tolist() == [1]
    assert learn(experience, every, 2, 2.0).best.tolist() == [0]


def test_recorded_probabilities_fill_the_table_and_the_rest_goes_to_actions_never_taken():
    log = {"obs": [0, 0, 1], "action": [0, 1, 2], "action_prob": [0.5, 0.3, 0.6], "reward": [0.0, 1.0, 2.0]}
    log |= {"terminated": [1, 1, 1], "episode": [0, 1, 2]}
    experience = make_experience(gradtd.read_log(log), 1.0, None, None, None)
    np.testing.assert_allclose(experience.behaviour, [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])


def test_the_softmax_model_recovers_its_own_weights():
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(20_000), rng.standard_normal(20_000)]
    right = 1 / (1 + np.exp(-(0.5 + 1.5 * x[:, 1])))
    action = (rng.random(len(x)) < right).astype(int)
    columns = {
        "obs": x,
        "action": action,
        "action_prob": np.where(action, right, 1 - right),
        "reward": np.zeros(len(x)),
    }
    log = gradtd.read_log(columns, one_step=True)
    model = fit_behaviour(x, log, None)
    assert np.abs(model(x)[:, 1] - right).max() < 0.03
