"""`judge` against value functions whose error is known."""

import numpy as np
import pandas as pd
import pytest

import gradtd

STATES, ACTIONS, GAMMA = 6, 2, 0.9


@pytest.fixture(scope="module")
def world():
    """A small problem with actions, its exact action values under the target, and a log with probabilities."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS)) * 0.85
    reward = rng.normal(size=(STATES, ACTIONS))
    target = np.tile([0.25, 0.75], (STATES, 1))
    q = np.zeros((STATES, ACTIONS))
    for _ in range(2000):
        q = reward + GAMMA * P @ (target * q).sum(1)
    rows = []
    for episode in range(600):
        s = 0
        for t in range(200):
            a = int(rng.integers(2))
            after = int((rng.random() > P[s, a].cumsum()).sum())
            rows.append((episode, t, s, a, reward[s, a] + 0.3 * rng.normal(), after == STATES))
            if after == STATES:
                break
            s = after
    names = ("episode", "t", "obs", "action", "reward", "terminated")
    log = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    log["behaviour_probability"] = np.full(len(rows), 0.5)
    return log, target, q, (target * q).sum(1)


def test_the_error_of_a_shifted_function_is_its_shift(world):
    log, target, q, v = world
    found = gradtd.judge(log, {"right": q, "high": q + 0.5}, gamma=GAMMA, target=target)
    right, high = found.judged
    assert (right.verdict, high.verdict, found.preferred) == ("acceptable", "off", "right")
    assert right.claimed == pytest.approx(v[0])
    assert high.error == pytest.approx(right.error - 0.5, abs=1e-9)
    assert high.corrected == pytest.approx(right.corrected, abs=1e-9)
    assert high.interval[0] < -0.5 < high.interval[1]


def test_all_forms_of_a_value_function_are_the_same(world):
    log, target, q, v = world
    forms = {
        "table": q,
        "of all actions": lambda seen: q[seen],
        "of one action": lambda seen, actions: q[seen, actions],
        "states": lambda seen: v[seen],
    }
    found = gradtd.judge(log, forms, gamma=GAMMA, target=target)
    claimed = [row.claimed for row in found.judged]
    assert claimed == pytest.approx([v[0]] * 4)
    errors = [row.error for row in found.judged]
    assert errors[:3] == pytest.approx([errors[0]] * 3)
    assert all(row.verdict == "acceptable" for row in found.judged)


def test_a_function_that_is_right_at_the_start_only_is_off(world):
    """The start value is right, the rest is not: Bellman moments see it."""
    log, target, q, _ = world
    wrong = q + np.where(np.arange(STATES) == 0, 0.0, 1.0)[:, None]
    found = gradtd.judge(log, {"right": q, "elsewhere": wrong}, gamma=GAMMA, target=target)
    assert found["elsewhere"].largest_moment > found["elsewhere"].critical
    assert found["elsewhere"].verdict == "off"
    assert found.preferred == "right"


def test_moments_are_means_of_residual_times_instrument(world):
    log, target, q, v = world
    found = gradtd.judge(log, {"high": q + 0.5}, gamma=GAMMA, target=target)["high"]
    s, a, over = log["obs"], log["action"], log["terminated"]
    after = np.r_[v[s[1:]] + 0.5, 0.0]
    residual = log["reward"] + GAMMA * np.where(over, 0.0, after) - (q[s, a] + 0.5)
    instrument = q[s, a]
    products = np.stack([residual, residual * (instrument - instrument.mean()) / instrument.std()])
    assert found.loss == pytest.approx(np.abs(products.mean(1)).max())


def test_probabilities_of_the_behaviour_are_not_needed_for_action_values(world):
    log, target, q, _ = world
    without = {name: column for name, column in log.items() if name != "behaviour_probability"}
    found = gradtd.judge(without, {"right": q, "low": q - 0.5}, gamma=GAMMA, target=target, value_function="action")
    assert [row.verdict for row in found.judged] == ["acceptable", "off"]


def test_it_prints_and_becomes_a_frame(world):
    log, target, q, _ = world
    found = gradtd.judge(log, {"right": q, "high": q + 0.5}, gamma=GAMMA, target=target)
    assert "The log prefers right" in str(found)
    assert list(found.to_frame()["verdict"]) == ["acceptable", "off"]
    assert found.to_dict()["judged"][1]["name"] == "high"
    with pytest.raises(KeyError, match="there is no value function 'low'; the value functions are right, high"):
        found["low"]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "dictionary of value functions"),
        ({"q": lambda seen: 1.0}, "return one number per observation"),
        ({"q": lambda seen: np.zeros((len(seen), 1))}, "values of 1 actions; the log has 2"),
        ({"q": np.zeros((STATES, 3))}, "has values of 3 actions, and the target has probabilities of 2"),
        ({1: np.zeros(STATES)}, "names of candidates must be text, got 1"),
        ({"q": np.zeros((3, 2))}, "must be a row of the table 'q'"),
    ],
)
def test_what_is_no_value_function_is_refused(world, values, sentence):
    log, target, _, _ = world
    with pytest.raises(gradtd.InputError, match=sentence):
        gradtd.judge(log, values, gamma=GAMMA, target=target)


def test_a_function_that_writes_into_its_observations_changes_nothing(world):
    log, target, _, v = world

    def careless(seen):
        seen *= 0
        return seen + 0.5

    given = {"careless": careless, "right": lambda seen: v[seen]}
    found = gradtd.judge(log, given, gamma=GAMMA, target=target)
    alone = gradtd.judge(log, {"right": given["right"]}, gamma=GAMMA, target=target)
    assert found["right"].error == alone["right"].error


def test_a_function_of_actions_is_given_their_labels(world):
    log, target, q, _ = world
    names = np.array(["left", "right"])

    def by_label(seen, actions):
        return np.where(actions == "right", q[seen, 1], q[seen, 0])

    found = gradtd.judge(log | {"action": names[log["action"]]}, {"q": by_label}, gamma=GAMMA, target=target)
    coded = gradtd.judge(log, {"q": q}, gamma=GAMMA, target=target)
    assert found["q"].error == coded["q"].error


@pytest.mark.parametrize("rows", [[[1, 2], [3]], lambda seen: [[1, 2], [3]]])
def test_rows_of_several_lengths_are_refused(world, rows):
    with pytest.raises(gradtd.InputError, match="the value function 'q'"):
        gradtd.judge(world[0], {"q": rows}, gamma=GAMMA, target=world[1])


def test_a_function_that_reuses_its_buffer_keeps_the_values_of_every_action(world):
    log, target, q, _ = world
    buffer = np.empty(10**5)

    def reused(seen, actions):
        buffer[: len(seen)] = q[seen, actions]
        return buffer[: len(seen)]

    found = gradtd.judge(log, {"reused": reused, "table": q}, gamma=GAMMA, target=target)
    assert found["reused"].error == found["table"].error


def test_a_frame_of_values_goes_by_the_names_of_its_columns(world):
    log, target, q, _ = world
    log = log | {"action": np.array(["left", "right"])[log["action"]]}
    frame = pd.DataFrame(q, columns=["left", "right"])
    turned = frame[["right", "left"]]
    forms = {"table": q, "frame": frame, "turned": turned, "of both": lambda seen: turned.loc[seen]}
    found = gradtd.judge(log, forms, gamma=GAMMA, target=target)
    assert {row.error for row in found.judged} == {found["table"].error}
    with pytest.raises(gradtd.InputError, match="The columns of the value function 'q' are up, down, and the actions"):
        gradtd.judge(log, {"q": frame.set_axis(["up", "down"], axis=1)}, gamma=GAMMA, target=target)


def test_values_by_state_need_their_rows_in_the_order_of_the_states(world):
    log, target, q, v = world
    for unsorted in (pd.Series(v).iloc[::-1], pd.DataFrame(q).iloc[::-1], pd.Series(v, index=range(1, STATES + 1))):
        with pytest.raises(gradtd.InputError, match="The index of the value function 'v' is not 0, 1, 2"):
            gradtd.judge(log, {"v": unsorted}, gamma=GAMMA, target=target)
    found = gradtd.judge(log, {"array": v, "series": pd.Series(v)}, gamma=GAMMA, target=target)
    assert found["series"].error == found["array"].error


def test_masked_values_are_refused(world):
    log, target, _, v = world
    masked = np.ma.masked_array(v, np.arange(STATES) == 1)
    for given in (masked, lambda seen: masked[seen]):
        with pytest.raises(gradtd.InputError, match="The value function 'v' has masked values"):
            gradtd.judge(log, {"v": given}, gamma=GAMMA, target=target)
