"""Targets as users have them: every form gives the same ratios, whatever rows the reader drops or sorts."""

import numpy as np
import pandas as pd
import pytest

import gradtd
from gradtd.core.checks import InputError
from gradtd.logs import Probabilities, ratios, read_log

RNG = np.random.default_rng(11)
EPISODES, LENGTH, A = 60, 6, 3
N = EPISODES * LENGTH
STATE = RNG.integers(0, 4, N)
BEHAVIOUR, TARGET = RNG.dirichlet(np.ones(A) * 3, 4), RNG.dirichlet(np.ones(A) * 3, 4)
ACTION = np.array([RNG.choice(A, p=BEHAVIOUR[s]) for s in STATE])
REWARD = RNG.normal(size=N)
LAST = np.arange(N) % LENGTH == LENGTH - 1


def table(**changes):
    """Half of the episodes terminate; the last row of each of the others is dropped, as nothing follows it."""
    made = {
        "episode": np.arange(N) // LENGTH,
        "t": np.arange(N) % LENGTH,
        "obs": STATE,
        "action": ACTION,
        "reward": REWARD,
        "terminated": LAST & (np.arange(N) // LENGTH % 2 == 0),
        "truncated": LAST & (np.arange(N) // LENGTH % 2 == 1),
        "action_prob": BEHAVIOUR[STATE, ACTION],
    }
    return {name: column for name, column in (made | changes).items() if column is not None}


def shuffled(columns, seed=3):
    order = np.random.default_rng(seed).permutation(N)
    return {name: np.asarray(column)[order] for name, column in columns.items()}, order


EVERY = TARGET[STATE]
TAKEN = EVERY[np.arange(N), ACTION]
NAMES = ["pi_0", "pi_1", "pi_2"]
COLUMNS = dict(zip(NAMES, EVERY.T, strict=True))


def value(log, target, **options):
    return gradtd.evaluate(
        log, gamma=0.9, target=target, algorithm="lstd", inference=gradtd.Inference(resamples=0), **options
    ).value


def test_every_form_of_a_target_says_the_same_of_a_log_that_loses_rows():
    given = table(**COLUMNS)
    wanted = value(given, lambda states: TARGET[states])
    assert len(read_log(given)) == N - EPISODES // 2
    for target in (TARGET, EVERY, TAKEN, NAMES, tuple(NAMES), Probabilities(EVERY), Probabilities(NAMES)):
        assert value(given, target) == wanted
    sorted_later, order = shuffled(given)
    for target in (EVERY[order], TAKEN[order], NAMES, Probabilities(EVERY[order]), lambda states: TARGET[states]):
        assert value(sorted_later, target) == pytest.approx(wanted, rel=1e-9)


def test_arrays_beside_a_log_that_was_read_have_its_rows_or_those_of_its_table():
    log = read_log(table())
    kept = log.given[: len(log)]
    wanted = ratios(log, TARGET).rho
    for target in (TAKEN, TAKEN[kept], EVERY, EVERY[kept], Probabilities(EVERY), Probabilities(EVERY[kept])):
        np.testing.assert_allclose(ratios(log, target).rho, wanted, rtol=1e-12)
    np.testing.assert_allclose(ratios(log, Probabilities(EVERY[kept], order="steps")).rho, wanted, rtol=1e-12)


def test_behaviour_may_be_a_table_of_probabilities_too():
    given = table(action_prob=None)
    wanted = ratios(read_log(table()), TARGET).rho
    assert np.allclose(ratios(read_log(given), TARGET, behaviour=BEHAVIOUR[STATE]).rho, wanted, rtol=1e-12)
    assert value(given, TARGET, behaviour=BEHAVIOUR[STATE]) == pytest.approx(value(table(), TARGET), rel=1e-12)


def test_uniform_is_over_the_actions_of_the_log():
    assert value(table(), "uniform") == value(table(), np.full((4, A), 1 / A))
    assert ratios(read_log(table()), "uniform").unseen_mass == 0


def test_a_function_may_return_actions():
    best = TARGET.argmax(axis=1)
    assert value(table(), lambda states: best[states]) == value(table(), np.eye(A)[best])
    words = np.array(["left", "stay", "up"])
    named = table(action=words[ACTION])
    assert value(named, lambda states: words[best[states]]) == value(table(), np.eye(A)[best])
    signs = table(action=ACTION - 1)
    assert value(signs, lambda states: best[states] - 1) == value(table(), np.eye(A)[best])


def test_a_table_of_probabilities_counts_what_the_log_never_took():
    never = np.where(STATE == 2, 0, ACTION)  # in state 2 the log always takes 0
    log = read_log(table(action=never, action_prob=np.full(N, 0.5)))
    by_state, by_row = ratios(log, TARGET), ratios(log, EVERY[log.given[: len(log)]])
    assert by_state.unseen_pairs == pytest.approx(by_row.unseen_pairs)
    rows = log.observations[log.row]
    assert by_state.unseen_pairs == pytest.approx((rows == 2).mean() * TARGET[2, 1:].sum())


def test_behaviour_beside_other_targets():
    found = gradtd.evaluate(table(), gamma=0.9, target={"new": TARGET, "old": "behaviour", "any": "uniform"})
    assert found["old"].diagnostics.on_policy
    assert list(found) == ["new", "old", "any"]


def test_densities_on_both_sides_keep_working():
    rng = np.random.default_rng(4)
    seen, noise = rng.normal(size=(N, 1)), rng.normal(size=N)
    acted = 0.5 * seen[:, 0] + noise
    density = lambda s, a: np.exp(-((a - 0.7 * s[:, 0]) ** 2) / 2) / np.sqrt(2 * np.pi)  # noqa: E731
    given = table(obs=seen, action=acted, action_prob=np.exp(-(noise**2) / 2) / np.sqrt(2 * np.pi))
    log = read_log(given)
    wanted = density(seen, acted)[log.given[: len(log)]] / log.behaviour
    np.testing.assert_allclose(ratios(log, density).rho, wanted)
    assert value(given, density(seen, acted)) == pytest.approx(value(given, density), rel=1e-12)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (EVERY[:-1], "has 359 rows: a table .* would need about 4, and one row per row of the log 360"),
        (TARGET[:2], "must be a row of the table target, 0 to 1"),
        (EVERY[:, :2] / EVERY[:, :2].sum(axis=1, keepdims=True), "at least 3 actions"),
        (EVERY * 0.9, "must sum to 1 over the actions: row 0 sums to 0.9"),
        (-EVERY, "must not be negative"),
        (np.where(EVERY > 0.9, np.nan, EVERY) * np.nan, "must be finite"),
        (TAKEN[:-1], r"one probability or action per step \(330\), or per row of the table \(360\), got 359"),
        (["pi_0", "pi_9"], "there is no column 'pi_9'"),
        (["pi_0", "pi_1"], "at least 3 actions"),
        (Probabilities(EVERY[:7]), r"one row of probabilities per row of the log \(360\), got 7"),
        (Probabilities(EVERY, order="rows"), "order must be one of table, steps"),
        (Probabilities(EVERY, after=EVERY[:, :2]), "has 3 actions, and 2 at the next observations"),
        ("pi_0", "is one of several that sum to 1"),
        (lambda states: np.full(len(states), 9), None),
        (lambda states: np.full(len(states), -1), "must be actions, 0 to 2"),
        (lambda states: np.full(len(states), "left"), "must return whole numbers for actions"),
        (
            lambda states: np.full(len(states), 0.5),
            r"returned numbers of shape \(330,\) from 0.5 to 0.5. Return the probabilities of all actions",
        ),
    ],
)
def test_targets_that_are_refused(target, sentence):
    given = table(**COLUMNS)
    if sentence is None:  # an action that the log never took: told by the verdict, not refused
        found = gradtd.evaluate(
            given, gamma=0.9, target=target, algorithm="lstd", inference=gradtd.Inference(resamples=0)
        )
        assert found.diagnostics.unseen_mass == 1.0
        assert found.verdict == "not usable"
        return
    with pytest.raises(InputError, match=sentence) as caught:
        value(given, target)
    assert str(caught.value).endswith(".")


def test_an_unknown_label_is_refused():
    named = table(action=np.array(["left", "stay", "up"])[ACTION])
    with pytest.raises(InputError, match="'down', which is not in the log; the log's actions are left, stay, up"):
        value(named, lambda states: np.full(len(states), "down"))


def test_an_array_that_could_be_in_either_order_is_refused():
    mixed, order = shuffled(table(terminated=LAST, truncated=None))
    log = read_log(mixed)
    with pytest.raises(InputError, match="may be in the order before or after"):
        ratios(log, TAKEN[order])
    assert value(mixed, TAKEN[order]) == pytest.approx(value(table(terminated=LAST, truncated=None), TAKEN), rel=1e-9)


def test_as_many_states_as_rows_is_refused_where_it_matters():
    small = {"episode": [0, 0, 1, 1], "obs": [0, 1, 3, 2], "action": [0, 1, 0, 1], "reward": [1, 0, 2, 0]}
    log = read_log(small | {"terminated": [0, 1, 0, 1], "action_prob": [0.5] * 4})
    rows = np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]])
    with pytest.raises(InputError, match="may be one per state or one per row"):
        ratios(log, rows)
    assert ratios(log, Probabilities(rows)).rho.tolist() == [0.2, 1.6, 0.6, 1.2]
    assert ratios(log, lambda states: rows[states]).rho.tolist() == [0.2, 1.6, 0.8, 1.4]


def test_columns_of_one_policy_reach_the_rows_that_are_no_steps():
    """The last row of an episode that was cut off is no step, but its observation is where the step before leads."""
    log = read_log(table(**COLUMNS), keep=NAMES)
    beyond = log.given[len(log) :]
    assert sorted(beyond) == sorted(np.flatnonzero(LAST & (np.arange(N) // LENGTH % 2 == 1)))
    np.testing.assert_array_equal(log.extra_beyond["pi_1"], EVERY[beyond, 1])


# Bandit logs


def bandit(**changes):
    rng = np.random.default_rng(8)
    state, action = rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    made = {"obs": state, "action": action, "reward": (action == state) * 1.0 + rng.normal(size=400) * 0.1}
    return made | {"pscore": np.full(400, 1 / 3)} | changes


def test_rows_without_time_or_ends_are_one_step_each_and_that_is_said():
    found = gradtd.evaluate(bandit(), gamma=0, target=np.array([[1.0, 0, 0], [0, 1.0, 0]]))
    assert found.episodes == found.steps == 400
    assert found.interval[0] < 1 < found.interval[1]
    assert found.verdict == "usable"
    assert any("no column says where episodes end, and rows have no time" in note for note in found.notes)


def test_with_a_discount_it_has_to_be_said():
    target = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    found = gradtd.evaluate(bandit(), gamma=0.9, target=target)
    assert found.verdict == "unchecked"
    assert "one_step=True" in found.reasons[0]
    said = gradtd.evaluate(bandit(), gamma=0.9, target=target, log_format=gradtd.LogFormat(one_step=True))
    assert said.verdict == "usable"
    assert (said.value, said.interval) == (found.value, found.interval)


def test_what_would_say_otherwise_is_not_read():
    more = {"t": np.zeros(400), "episode": np.zeros(400), "terminated": np.zeros(400), "next_obs": np.zeros(400)}
    log = read_log(bandit(**more), one_step=True)
    assert log.n_episodes == 400
    assert log.terminated.all()
    assert log.ends_known
    assert "not read: episode, t, terminated, next_obs" in log.notes[0]


@pytest.mark.parametrize("column", ["t", "next_obs"])
def test_rows_with_a_time_or_a_successor_are_no_bandit(column):
    with pytest.raises(InputError, match=r"cannot see where episodes end.*one_step=True"):
        read_log(bandit(**{column: np.arange(400)}))
    assert not read_log(table()).rows_alone


def test_one_step_can_be_ruled_out():
    with pytest.raises(InputError, match="cannot see where episodes end"):
        read_log(bandit(), one_step=False)
    with pytest.raises(InputError, match="one_step must be True or False"):
        read_log(bandit(), one_step="perhaps")


def test_a_frame_by_state_needs_its_rows_in_the_order_of_the_states():
    log, frame = read_log(table()), pd.DataFrame(TARGET)
    assert np.array_equal(ratios(log, frame).rho, ratios(log, TARGET).rho)
    assert np.array_equal(ratios(log, frame.iloc[::-1].sort_index()).rho, ratios(log, TARGET).rho)
    for unsorted in (frame.iloc[::-1], frame.set_axis([2, 0, 1, 3]), frame.set_axis(list("abcd"))):
        with pytest.raises(InputError, match="target has one row per state, and its index is not 0, 1, 2"):
            ratios(log, unsorted)
