"""Further tables and policies as a hurried reader types them: each is right, warned of or refused."""

import numpy as np
import pandas as pd
import pytest

import gradtd


def to_the_right(seen):
    return np.tile([0.2, 0.8], (len(seen), 1))


@pytest.fixture(scope="module")
def walk():
    """Episodes on five states, from the middle to one of the ends; the right end pays 1."""
    rng, rows = np.random.default_rng(2), []
    for episode in range(400):
        state, t, over = 2, 0, False
        while not over and t < 30:
            action = int(rng.random() < 0.5)
            after = state + 2 * action - 1
            over = not 0 <= after <= 4
            rows.append((episode, t, state, action, 0.5, float(after == 5), over))
            state, t = after, t + 1
    return pd.DataFrame(rows, columns=["episode", "t", "state", "action", "behaviour", "reward", "terminated"])


def evaluate(table, target=to_the_right, gamma=0.9):
    return gradtd.evaluate(table, target, gamma, progress=False)


REFUSED = {
    "rewards as text with a currency": (lambda d: d.assign(reward="$" + d.reward.map("{:.2f}".format)), "got text"),
    "a comma for the decimal point": (
        lambda d: d.assign(reward=d.reward.astype(str).str.replace(".", ",")),
        "got text",
    ),
    "probabilities as '50%'": (lambda d: d.assign(behaviour="50%"), "contains text"),
    "probabilities in percent": (lambda d: d.assign(behaviour=50.0), "divide percentages by 100"),
    "newest rows first, without t": (lambda d: d.iloc[::-1].drop(columns="t"), "unique number"),
    "two sites that number episodes alike": (lambda d: pd.concat([d, d], ignore_index=True), "same episode and t"),
    "a flag of beginnings as done": (lambda d: d.drop(columns="terminated").assign(done=d.t == 0), "unique number"),
    "a mask of what goes on as terminated": (lambda d: d.assign(terminated=~d.terminated), "unique number"),
    "one id for all": (lambda d: d.assign(episode=0), "same episode and t"),
    "observation and next observation swapped": (
        lambda d: d.rename(columns={"state": "next_state"}).assign(state=d.state.shift(-1).fillna(0).astype(int)),
        "are swapped",
    ),
    "ids that are lost in some rows": (lambda d: d.assign(episode=d.episode.where(d.index % 9 > 0)), "has no value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(walk, name):
    change, sentence = REFUSED[name]
    with pytest.raises(gradtd.InputError, match=sentence):
        evaluate(change(walk))


def test_logarithms_as_a_policy_are_refused(walk):
    with pytest.raises(gradtd.InputError, match=r"numpy\.exp"):
        evaluate(walk, lambda seen: np.log(to_the_right(seen)))


def test_a_discount_in_percent_is_refused(walk):
    with pytest.raises(gradtd.InputError, match=r"gamma must be a number in \[0, 1\]"):
        evaluate(walk, gamma=90)


RIGHT = {
    "newest rows first, with t": lambda d: d.iloc[::-1],
    "actions as real numbers": lambda d: d.assign(action=d.action.astype(float)),
    "yes and no": lambda d: d.assign(terminated=np.where(d.terminated, "yes", "no")),
    "next states shifted over the ends of episodes": lambda d: d.assign(
        next_state=d.state.shift(-1).fillna(0).astype(int)
    ),
    "t that begins at 1": lambda d: d.assign(t=d.t + 1),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_makes_no_difference(walk, name):
    assert evaluate(RIGHT[name](walk)).value == pytest.approx(evaluate(walk).value, abs=0.01)


WARNED = {
    "probabilities in the order of a sorted table": (
        lambda d: (d, np.where(d.sort_values("action").action == 1, 0.8, 0.2)),
        "unrelated to the observations",
    ),
    "the rows of several devices, by time": (
        lambda d: (d.sort_values(["t", "episode"]).rename(columns={"episode": "device"}).drop(columns="t"), None),
        "several 'device'",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_it_is_warned_of(walk, name):
    change, sentence = WARNED[name]
    table, target = change(walk)
    assert any(sentence in warning for warning in evaluate(table, to_the_right if target is None else target).warnings)


def test_actions_that_count_from_1_in_the_policy_are_not_usable(walk):
    assert evaluate(walk, lambda seen: np.full(len(seen), 2)).verdict == "not usable"
