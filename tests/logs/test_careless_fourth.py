"""Frames after the joins, sorts, filters and fills of a hurried reader, with a known true value.

Each is right, not usable, warned of or refused. Rows that a filter removed without a trace are in docs/assumptions.md.
"""

import numpy as np
import pandas as pd
import pytest

import gradtd
from evaluation.test_cut_logs import GAMMA, truth, walk


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(walk(1000, 5, 60))


@pytest.fixture(scope="module")
def holes(frame):
    return np.random.default_rng(1).random(len(frame)) < 0.1


def evaluate(table, **how):
    return gradtd.evaluate(table, gamma=GAMMA, progress=False, log_format=gradtd.LogFormat(**how))


def by(frame, name):
    return frame.groupby("episode")[name]


def untimed(frame):
    return frame.drop(columns="t")


def rows_only(frame):
    return frame.drop(columns=["t", "episode"])


def ratio(frame):
    return frame.drop(columns=["target", "behaviour"]).assign(rho=frame.target / frame.behaviour)


RIGHT = {
    "shuffled, with t": lambda d: d.sample(frac=1, random_state=0),
    "each episode a user's, and t beginning anew": lambda d: d.rename(columns={"episode": "user_id"}),
    "labels from pandas.cut": lambda d: d.assign(obs=pd.cut(d.obs, [0, 1, 2, 3, 4, 5], labels=list("abcde"))),
    "two logs, with numbers of their own": lambda d: pd.concat(
        [d[d.episode < 500], d[d.episode >= 500].assign(episode=d.episode + 5000)], ignore_index=True
    ),
    "a row for the last observation": lambda d: pd.concat(
        [
            d.assign(terminated=False),
            d[d.terminated].assign(t=d.t + 1, obs=6 * (d.reward >= 1), action=0, reward=0.0, behaviour=1.0, target=1.0),
        ]
    ),
    "probabilities rounded to two digits": lambda d: d.assign(behaviour=d.behaviour.round(2)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_right(frame, name):
    found = evaluate(RIGHT[name](frame))
    half = (found.interval[1] - found.interval[0]) / 2
    assert found.verdict == "usable"
    assert abs(found.value - truth()) < 1.5 * half


WARNED = {
    "shuffled, without t": (lambda d: rows_only(d).sample(frac=1, random_state=0), "order of its index"),
    "sorted by another column, without t": (lambda d: rows_only(d).sort_values("reward"), "order of its index"),
    "one row for each state of an episode": (
        lambda d: untimed(d).drop_duplicates(["episode", "obs", "action"]),
        "index of the frame jumps",
    ),
    "rows without a reward dropped": (
        lambda d: untimed(d)[(d.index % 9 > 0) | d.terminated],
        "index of the frame jumps",
    ),
    "the dummy row of a reset": (
        lambda d: (
            pd.concat([d[d.t == 0].assign(t=-1, action=0, reward=0.0, behaviour=1.0, target=1.0), d])
            .sort_values(["episode", "t"])
            .assign(terminated=lambda e: e.terminated & (e.t >= 0), t=lambda e: e.t + 1)
        ),
        "seems to be the reset",
    ),
    "the wrong column as target": (lambda d: d.assign(target=d.behaviour), "the value is that of the behaviour"),
    "the last of five rows as terminated": (
        lambda d: d[d.t < 5].assign(terminated=lambda e: by(e, "t").transform("max") == e.t),
        "If 5 is a limit of steps",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_it_is_warned_of(frame, name):
    change, sentence = WARNED[name]
    warnings = gradtd.read_log(change(frame)).understood.warnings
    assert any(sentence in warning for warning in warnings), warnings
    assert not any(sentence in warning for warning in gradtd.read_log(frame).understood.warnings)


def test_missing_rewards_filled_with_the_mean_are_warned_of(frame, holes):
    reward = frame.reward.where(~holes)
    (warning,) = gradtd.read_log(frame.assign(reward=reward.fillna(reward.mean()))).understood.warnings
    assert "the mean of all others" in warning


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_of_a_long_log_some_rows_are_looked_at(share):
    """Whichever rows of its episodes were filled; the same number in fewer rows, or another one, is not warned of."""
    rng, n = np.random.default_rng(1), 50_000
    log = {
        "episode": np.repeat(np.arange(n // 50), 50),
        "obs": rng.integers(0, 3, n),
        "terminated": np.arange(n) % 50 == 49,
    }
    reward = rng.normal(size=n)
    filled = np.arange(n) % 50 < 50 * share
    for number, warned in ((reward[~filled].mean(), True), (0.123456789, False)):
        found = gradtd.read_log(log | {"reward": np.where(filled, number, reward)}).understood.warnings
        assert any("the mean of all others" in warning for warning in found) == warned


def test_missing_ratios_filled_with_1_are_warned_of(frame, holes):
    table = ratio(frame)
    (warning,) = gradtd.read_log(table.assign(rho=table.rho.where(~holes).fillna(1))).understood.warnings
    assert "replaced missing ratios" in warning


NOT_USABLE = {
    "the first three rows of each episode": lambda d: d.groupby("episode").head(3),
    "and without t": lambda d: untimed(d).groupby("episode").head(3),
    "the last three rows, without t": lambda d: untimed(d).groupby("episode").tail(3),
    "rows with likely actions": lambda d: untimed(d)[d.behaviour > 0.48],
    "an inner join that lost a state": lambda d: d[d.obs != 4],
    "ratios of the whole episode on each row": lambda d: ratio(d).assign(rho=lambda e: by(e, "rho").transform("prod")),
    "logarithms without their sign": lambda d: d.assign(behaviour=-np.log(d.behaviour)),
    "ratios so far": lambda d: ratio(d).assign(rho=lambda e: by(e, "rho").cumprod()),
    "ratios rounded to whole numbers": lambda d: ratio(d).assign(rho=lambda e: e.rho.round()),
    "ratios upside down": lambda d: ratio(d).assign(rho=lambda e: 1 / e.rho),
    "both probabilities from a sorted copy": lambda d: d.assign(
        **{name: d.sort_values("action", kind="stable")[name].values for name in ("target", "behaviour")}
    ),
    "z-scores within each episode": lambda d: d.assign(
        obs=(d.obs - by(d, "obs").transform("mean")) / (by(d, "obs").transform("std").fillna(1) + 1e-9)
    ),
    "a centred rolling mean": lambda d: d.assign(obs=d.obs.rolling(3, center=True, min_periods=1).mean()),
    "only success as an end": lambda d: d.assign(terminated=d.reward >= 1),
    "only episodes that succeeded": lambda d: d[by(d, "reward").transform("max") >= 1],
    "every second row": lambda d: untimed(d)[(d.t % 2 == 0) | d.terminated],
    "rewards discounted already": lambda d: d.assign(reward=d.reward * GAMMA**d.t),
    "returns to go as rewards": lambda d: d.assign(reward=by(d, "reward").transform(lambda r: r[::-1].cumsum()[::-1])),
    "the total as the last reward": lambda d: d.assign(reward=by(d, "reward").cumsum().where(d.terminated, 0.0)),
}


@pytest.mark.parametrize("name", NOT_USABLE)
def test_it_is_not_usable(frame, name):
    assert evaluate(NOT_USABLE[name](frame)).verdict == "not usable"


REFUSED = {
    "sorted within episodes": (lambda d: untimed(d).sort_values(["episode", "obs"]), "continues the same episode"),
    "two episodes with one number": (lambda d: untimed(d).assign(episode=d.episode // 2), "unique number"),
    "interleaved by time": (lambda d: untimed(d).iloc[np.argsort(d.t.values, kind="stable")], "rows of other episodes"),
    "sampled with replacement": (lambda d: d.sample(frac=1.2, replace=True, random_state=0), "same episode and t"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(frame, name):
    change, sentence = REFUSED[name]
    with pytest.raises(gradtd.InputError, match=sentence):
        evaluate(change(frame))


def test_a_csv_with_missing_text_is_refused(frame, tmp_path):
    """pandas writes a missing label as nothing; it was an action, or a state, of its own."""
    table = frame.assign(action=np.where(frame.action == 1, "right", "left"), obs="s" + frame.obs.astype(str))
    for name in ("action", "obs"):
        table.assign(**{name: table[name].where(table.index % 9 > 0)}).to_csv(tmp_path / "log.csv", index=False)
        with pytest.raises(gradtd.InputError, match=name):
            gradtd.read_log(tmp_path / "log.csv")
    table.to_csv(tmp_path / "log.csv", index=False)
    assert gradtd.read_log(tmp_path / "log.csv").action_labels == ("left", "right")
