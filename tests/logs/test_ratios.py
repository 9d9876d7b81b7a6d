"""Ratios of a log: every form a policy comes in, what is estimated, what is refused."""

import sys

import numpy as np
import pytest

from gradtd.core.checks import InputError
from gradtd.logs import ratios, read_log
from gradtd.logs.policies import CHUNK

RNG = np.random.default_rng(5)
N = 600
EPISODE = np.arange(N) // 10
STATE = RNG.integers(0, 4, N)
BEHAVIOUR = RNG.dirichlet(np.ones(3) * 2, 4)
TARGET = RNG.dirichlet(np.ones(3) * 2, 4)
ACTION = np.array([RNG.choice(3, p=BEHAVIOUR[s]) for s in STATE])
BASE = {"episode": EPISODE, "reward": np.ones(N), "terminated": np.arange(N) % 10 == 9}


def discrete(**changes):
    table = {**BASE, "obs": STATE, "action": ACTION, "behaviour": BEHAVIOUR[STATE, ACTION], **changes}
    return {name: values for name, values in table.items() if values is not None}


def expected(behaviour=BEHAVIOUR):
    """One step at a time."""
    return np.array([TARGET[s, a] / behaviour[s, a] for s, a in zip(STATE, ACTION, strict=True)])


def test_every_form_of_a_target_gives_the_same_ratios():
    wanted = TARGET[STATE, ACTION]
    log = read_log(discrete(pi=wanted), keep="pi")
    own = read_log(discrete(target=wanted))
    for found in [
        *(ratios(log, target) for target in ("pi", wanted, wanted.tolist(), TARGET, TARGET.tolist())),
        *(ratios(log, lambda states: TARGET[states]), ratios(log, lambda states: TARGET[states].astype(np.float32))),
        *(ratios(own), ratios(read_log(discrete(behaviour=None)), TARGET, behaviour=BEHAVIOUR)),
        ratios(log, TARGET, behaviour=lambda states: BEHAVIOUR[states]),
    ]:
        np.testing.assert_allclose(found.rho, expected(), rtol=1e-6)
        assert (found.notes, found.unseen, found.estimated) == ((), None, False)
    np.testing.assert_allclose(ratios(log, TARGET).rho * ratios(log, TARGET).behaviour, wanted, rtol=1e-14)
    assert ratios(log, "behaviour").rho.tolist() == [1.0] * N
    given = read_log(discrete(behaviour=None, rho=expected()))
    assert np.array_equal(ratios(given).rho, expected())


def test_a_function_sees_the_observations_of_the_steps_in_order_and_in_chunks():
    n = CHUNK + 10
    table = {"episode": np.zeros(n, int), "obs": np.arange(2.0 * n).reshape(n, 2), "reward": np.ones(n)}
    table |= {"action": np.zeros(n, int), "behaviour": np.ones(n), "terminated": np.arange(n) == n - 1}
    heard = []

    def policy(observations):
        heard.append(observations)
        return np.tile([0.5, 0.5], (len(observations), 1))

    found = ratios(read_log(table), policy)
    assert [len(h) for h in heard] == [3, 1, CHUNK, 10]  # a few rows first
    assert np.array_equal(np.concatenate(heard[2:]), table["obs"])
    assert (found.rho == 0.5).all()
    assert found.unseen_mass == 0.5


def test_densities_of_real_actions():
    action = RNG.standard_normal(N)

    def normal(mean):
        return lambda seen, acted: np.exp(-((acted - mean * seen[:, 0]) ** 2) / 0.02) / np.sqrt(0.02 * np.pi)

    seen = action[:, None] + 0.1 * RNG.standard_normal((N, 1))
    log = read_log({**BASE, "obs": seen, "action": action, "action_prob": normal(1.0)(seen, action)})
    assert log.behaviour.max() > 1
    np.testing.assert_allclose(ratios(log, normal(1.0)).rho, 1.0)
    with pytest.raises(InputError, match="give target as a function"):
        ratios(log, np.ones((3, 3)) / 3)
    with pytest.raises(InputError, match="has continuous actions"):
        ratios(log, normal(1.0), behaviour="estimate")


def test_actions_the_log_never_took_are_named():
    two = np.where(ACTION == 2, 0, ACTION)
    log = read_log(discrete(action=two, behaviour=np.full(N, 0.5)))
    found = ratios(log, TARGET)
    mass = TARGET[STATE][:, 2].mean()
    assert found.unseen_mass == pytest.approx(mass, rel=1e-12)
    assert f"2 ({mass:.1%})" in found.unseen
    assert found.unseen in found.notes
    assert ratios(read_log(discrete()), TARGET).unseen_mass == 0.0
    words = read_log(discrete(action=np.array(["a", "b", "c"])[ACTION]))
    four = np.c_[TARGET * 0.75, np.full(4, 0.25)]
    assert "25.0% of the time: 3 (25.0%)" in ratios(words, four).unseen


def test_clipping():
    log = read_log(discrete())
    limit = float(np.quantile(expected(), 0.9))
    found = ratios(log, TARGET, clip=limit)
    np.testing.assert_array_equal(found.rho, np.minimum(ratios(log, TARGET).rho, limit))
    over = int((expected() > limit).sum())
    assert found.notes[0] == f"Ratios clipped to {limit:g}: {over}."
    assert ratios(log, TARGET, clip=1e9).notes == ()


def naive_frequencies(fold_of):
    """Add-one counts over the other folds, one step at a time."""
    chance = np.empty(N)
    for i in range(N):
        others = [j for j in range(N) if fold_of[EPISODE[j]] != fold_of[EPISODE[i]] and STATE[j] == STATE[i]]
        chance[i] = (sum(ACTION[j] == ACTION[i] for j in others) + 1) / (len(others) + 3)
    return chance


def test_estimated_frequencies_never_saw_the_episode():
    log = read_log(discrete(behaviour=None))
    found = ratios(log, TARGET, behaviour="estimate", seed=7)
    fold = np.random.default_rng(7).permutation(log.n_episodes) % 5
    np.testing.assert_allclose(found.behaviour, naive_frequencies(fold), rtol=1e-14)
    assert found.estimated
    assert any("estimated (frequencies, 5 folds" in note for note in found.notes)
    assert np.array_equal(found.rho, ratios(log, TARGET, behaviour="estimate", seed=7).rho)


def test_estimated_regression_finds_a_logistic_behaviour():
    """True softmax policy on badly scaled observations: mean error of log p below 0.1 at 4000 steps (0.03 seen)."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(2)
    n = 4000
    seen = rng.standard_normal((n, 2)) * [1000.0, 0.01] + [0, 5]
    score = np.c_[np.zeros(n), seen[:, 0] / 1000, (seen[:, 1] - 5) / 0.01]
    true = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    action = np.array([rng.choice(3, p=p) for p in true])
    table = {"episode": np.arange(n) // 20, "obs": seen, "action": action * 2, "reward": np.ones(n)}
    log = read_log({**table, "terminated": np.arange(n) % 20 == 19})
    target = lambda observations: np.full((len(observations), 5), 0.2)  # noqa: E731
    found = ratios(log, target, behaviour="estimate")
    assert np.abs(np.log(found.behaviour) - np.log(true[np.arange(n), action])).mean() < 0.1
    assert "1 (20.0%), 3 (20.0%)" in found.unseen


def test_an_action_of_one_episode_only_gets_a_small_chance_and_no_zero():
    pytest.importorskip("sklearn")
    action = np.where(EPISODE == 3, 1, 0)
    seen = np.c_[RNG.standard_normal((N, 2)), np.ones(N)]  # one number never changes
    log = read_log({**BASE, "obs": seen, "action": action})
    found = ratios(log, np.ones(N), behaviour="estimate")
    assert (found.behaviour > 0).all()
    assert found.behaviour[EPISODE == 3].max() < 0.01
    assert found.behaviour[EPISODE != 3].mean() > 0.95


@pytest.mark.parametrize(
    ("changes", "target", "options", "sentence"),
    [
        ({}, None, {}, "there is no target policy"),
        ({"behaviour": None}, TARGET, {}, "behaviour='estimate'"),
        ({"action": None}, TARGET, {}, "no action column"),
        ({}, "pi", {}, "'uniform' or the name of a kept column, got 'pi'"),
        ({}, np.ones(3), {}, rf"one probability or action per step \({N}\), got 3"),
        ({}, TARGET[:2], {}, "must be a row of the table target, 0 to 1"),
        ({}, TARGET[:, :2] / TARGET[:, :2].sum(axis=1, keepdims=True), {}, r"at least 3 actions\), got shape"),
        ({}, TARGET * 0.9, {}, "must sum to 1 over the actions: row 0 sums to 0.9"),
        ({}, lambda states: TARGET[states][:5], {}, r"given 600 observations and returned numbers of shape \(5, 3\)"),
        ({}, np.full(N, -0.5), {}, "must be at least 0: row 0"),
        ({}, np.full(N, 1.5), {}, "must be at most 1: row 0"),
        ({}, np.full(N, 50), {}, "divide percentages by 100"),
        ({"obs": STATE[:, None] + 0.5}, TARGET, {}, "a table for target needs discrete observations"),
        ({}, TARGET, {"behaviour": np.eye(4, 3) + np.eye(4, 3, -3)}, "since the action was taken: row"),
        ({}, TARGET, {"behaviour": np.full(N, 1e-320)}, "because smaller numbers lose digits: row 0"),
        ({}, TARGET, {"clip": 0}, "clip must be greater than 0"),
        ({"episode": [0] * N, "terminated": [0] * N}, np.ones(N), {"behaviour": "estimate"}, "at least 2 episodes"),
    ],
)
def test_bad_input_is_one_sentence(changes, target, options, sentence):
    log = read_log(discrete(**changes))
    if isinstance(target, np.ndarray) and target.shape == (N,):
        target = target[: len(log)]
    with np.errstate(over="ignore"), pytest.raises(InputError, match=sentence) as caught:
        ratios(log, target, **options)
    assert str(caught.value).endswith(".")


def test_missing_scikit_learn_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    log = read_log({**BASE, "obs": RNG.standard_normal((N, 2)), "action": ACTION})
    with pytest.raises(InputError, match=r"pip install gradtd\[sklearn\]"):
        ratios(log, np.ones(N), behaviour="estimate")


def test_actions_never_taken_in_a_state_are_counted_there():
    """Both actions occur in the log, but in state 1 only action 0 does; a third of the steps are in state 1."""
    log = read_log({
        "episode": np.repeat(np.arange(4), 3), "obs": np.tile([0, 1, 2], 4), "reward": np.zeros(12),
        "action": [0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0], "terminated": np.tile([0, 0, 1], 4),
        "action_prob": np.full(12, 0.5),
    })  # fmt: skip
    table = np.array([[0.5, 0.5], [0.6, 0.4], [0.5, 0.5]])
    found = ratios(log, table)
    assert found.unseen_mass == 0
    assert found.unseen_pairs == pytest.approx(0.4 / 3)
    assert ratios(log, lambda states: table[states]).unseen_pairs == found.unseen_pairs
    assert ratios(log, np.full(12, 0.5)).unseen_pairs is None


def test_probabilities_too_small_to_have_all_digits_are_refused():
    small = np.where(np.arange(N) == 7, np.exp(-744.4), BEHAVIOUR[STATE, ACTION])  # its ratio with exp(-744.9) is not 1
    with pytest.raises(
        InputError, match=r"must be at least 2.23e-308, because smaller .*row 7 .*exp\(log target - log beh"
    ):
        read_log(discrete(behaviour=small))
    with pytest.raises(InputError, match="because smaller numbers lose digits"):
        ratios(read_log(discrete(behaviour=None)), TARGET, behaviour=small)
    with pytest.raises(InputError, match="above 0 since the action was taken: row 7"):
        read_log(discrete(behaviour=np.where(np.arange(N) == 7, 0.0, small)))
