"""What an unrecorded cause could do: bounds against robust dynamic programming, tipping points, refusals."""

import json
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

import gradtd
from gradtd import Inference, Machine
from gradtd.cli.app import app
from gradtd.core.stream import Stream
from gradtd.evaluation.estimators.least_squares import start_features
from gradtd.evaluation.sensitivity import Bounded, Conditioning, regress_quantile
from naive.sensitivity import robust_values, worst_mean

GAMMA, STATES, ACTIONS = 0.9, 4, 2
GIVEN = {"gamma": GAMMA, "progress": False, "machine": Machine(threads=1)}


def _evaluate(log, target=None, value_function="state", **inference):
    """An evaluation whose other options are those of inference."""
    return gradtd.evaluate(log, target, value_function=value_function, inference=Inference(**inference), **GIVEN)


def _log(seed, episodes=300, noise=0.0):
    """A log of a random problem with an end, as columns; rewards are drawn from few numbers where there is no noise."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(STATES + 1), (STATES, ACTIONS))
    R = rng.integers(0, 5, (STATES, ACTIONS, STATES + 1)).astype(float)
    behaviour = rng.dirichlet(4 * np.ones(ACTIONS), STATES)
    rows = []
    for e in range(episodes):
        s = int(rng.integers(STATES))
        for t in range(60):
            a = int(rng.random() < behaviour[s, 1])
            then = int(rng.choice(STATES + 1, p=P[s, a]))
            reward = R[s, a, then] + noise * rng.standard_normal()
            rows.append((e, t, s, a, reward, then == STATES, behaviour[s, a]))
            if then == STATES:
                break
            s = then
    table = np.array(rows)
    table = table[table[:, 1] < 60]
    names = ("episode", "t", "obs", "action", "reward", "terminated", "action_prob")
    whole = ("episode", "t", "obs", "action", "terminated")
    columns = {n: table[:, k].astype(int) if n in whole else table[:, k] for k, n in enumerate(names)}
    return columns, behaviour, rng.dirichlet(4 * np.ones(ACTIONS), STATES)


def _bounded(columns, target, halves):
    s, a, episode = columns["obs"], columns["action"], columns["episode"]
    then = np.where(columns["terminated"] == 1, s, np.r_[s[1:], 0])
    stream = Stream.from_arrays(
        features=np.eye(STATES),
        row=s,
        next_row=then,
        reward=columns["reward"],
        discount=np.where(columns["terminated"] == 1, 0.0, GAMMA),
        rho=target[s, a] / columns["action_prob"],
        episode=episode,
    )
    given = Conditioning(s * ACTIONS + a, episode % 2 if halves else np.zeros(len(s), int))
    starts = start_features(stream, stream.begins)
    return Bounded(stream, starts, stream.begins, None, columns["action_prob"], given, 1e-9)


def _empirical(columns):
    """The log's own frequencies as a problem."""
    seen = [[Counter() for _ in range(ACTIONS)] for _ in range(STATES)]
    s, a, r, ended = (columns[n].tolist() for n in ("obs", "action", "reward", "terminated"))
    for k in range(len(s)):
        seen[s[k]][a[k]][(r[k], None if ended[k] else s[k + 1])] += 1
    return [[[(n / sum(c.values()), *o) for o, n in c.items()] for c in row] for row in seen]


@pytest.mark.parametrize("strength", [1.2, 2.0, 6.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_are_those_of_robust_dynamic_programming_on_the_logs_own_frequencies(strength, sign):
    columns, behaviour, target = _log(1)
    # With probabilities that are the log's own frequencies, ratios have mean one in every state, as in the program.
    taken = np.zeros((STATES, ACTIONS))
    np.add.at(taken, (columns["obs"], columns["action"]), 1)
    behaviour = taken / taken.sum(axis=1, keepdims=True)
    columns["action_prob"] = behaviour[columns["obs"], columns["action"]]
    log = _bounded(columns, target, halves=False)
    made = log.solve(strength, sign, log.nominal(sign))
    values = robust_values(_empirical(columns), target, behaviour, GAMMA, strength, sign)
    first = columns["obs"][columns["t"] == 0]
    assert sign * made.value == pytest.approx(np.mean([values[s] for s in first]), rel=1e-6)


def test_the_worst_mean_by_hand():
    """Two outcomes alike likely, L = 3, b = .5: factors 2/3 to 2, of which the worse takes 4/3 more weight share."""
    assert worst_mean([(0.5, 0.0), (0.5, 1.0)], 0.5, 3.0) == pytest.approx(1 / 3)
    assert worst_mean([(0.5, 0.0), (0.5, 1.0)], 1.0, 3.0) == pytest.approx(0.5)


def test_quantiles_of_the_other_half_give_wider_bounds_and_close_ones():
    columns, _, target = _log(2, 2000, noise=0.3)
    inner, outer = (_bounded(columns, target, halves) for halves in (False, True))
    tight, wide = (log.solve(2.0, 1, log.nominal(1)).value for log in (inner, outer))
    assert wide < tight
    assert wide == pytest.approx(tight, rel=0.01)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_quantile_regression_leaves_the_share_below_in_every_direction(share):
    rng = np.random.default_rng(3)
    x = np.c_[np.ones(4000), rng.standard_normal((4000, 2))]
    y = x @ [1.0, 2.0, -1.0] + (1 + 0.3 * np.abs(x[:, 1])) * rng.standard_normal(4000)
    below = y < x @ regress_quantile(x, y, share)
    assert below.mean() == pytest.approx(share, abs=0.005)
    assert np.abs(((below - share)[:, None] * x).mean(axis=0)).max() < 0.01


@pytest.mark.parametrize("values", ["state", "action"])
def test_the_interval_widens_with_the_strength_and_tips_where_it_reaches_the_value(values, tmp_path):
    columns, _, target = _log(4, noise=0.5)
    log = gradtd.read_log(columns)
    plain = _evaluate(log, target, values)
    aim = plain.interval[0] - 0.5
    made = _evaluate(log, target, values, confounding=1.5, against=aim)
    found = made.confounding
    assert made.interval == plain.interval
    assert found.curve[0][1:] == pytest.approx(plain.interval, rel=1e-6)
    lows, highs = [row[1] for row in found.curve], [row[2] for row in found.curve]
    assert lows == sorted(lows, reverse=True)
    assert highs == sorted(highs)
    assert found.low < found.bounds[0] < made.value < found.bounds[1] < found.high
    again = _evaluate(log, target, values, confounding=found.tipping, against=aim)
    assert again.confounding.low == pytest.approx(aim, abs=0.03)
    assert gradtd.load_evaluation(made.save(tmp_path / "e.npz")).confounding == found


def test_what_it_is_held_against():
    columns, _, target = _log(5)
    log = gradtd.read_log(columns)
    mean = np.mean(
        [
            sum(GAMMA**t * r for t, r in zip(columns["t"][m], columns["reward"][m], strict=True))
            for m in (columns["episode"] == e for e in range(300))
        ]
    )
    made = _evaluate(log, target, confounding=2.0).confounding
    assert (made.against_name, made.against) == ("the behaviour's value", pytest.approx(mean, rel=0.02))
    never = _evaluate(log, target, confounding=2.0, against=-1.0)
    assert never.confounding.tipping == float("inf")
    assert never.to_dict()["confounding"]["tipping"] is None
    inside = _evaluate(log, target, confounding=2.0, against=never.value)
    assert inside.confounding.tipping == 1


def test_without_probabilities_transitions_are_bounded_and_the_bounds_are_wider():
    columns, _, target = _log(6)
    with_chances = _evaluate(columns, target, confounding=1.5).confounding
    rho = target[columns["obs"], columns["action"]] / columns["action_prob"]
    ratios_only = {n: v for n, v in columns.items() if n != "action_prob"} | {"rho": rho}
    without = _evaluate(ratios_only, confounding=1.5).confounding
    assert (with_chances.each, without.each) == ("action", "transition")
    assert without.low < with_chances.low
    assert without.high > with_chances.high


def test_real_observations_give_nearly_the_bounds_of_the_states_behind_them():
    """Observations are points of the plane, one for each state: regression in place of groups."""
    columns, _, target = _log(7, 800, noise=0.5)
    states = _evaluate(columns, target, confounding=1.5).confounding
    points = np.array([[0.0, 0.0], [1.0, 0.2], [0.1, 1.0], [1.2, 1.1]])[columns["obs"]]
    real = {n: v for n, v in columns.items() if n != "obs"} | {"obs_0": points[:, 0], "obs_1": points[:, 1]}
    chances = target[columns["obs"]]
    made = _evaluate(real, chances, confounding=1.5).confounding
    width = states.bounds[1] - states.bounds[0]
    assert made.bounds == pytest.approx(states.bounds, abs=0.1 * width)


def test_the_own_policy_of_the_log_needs_no_probabilities():
    columns, _, _ = _log(8)
    assert _evaluate(columns, "behaviour", confounding=1.5).confounding is None


def test_what_has_no_bounds_is_refused(tmp_path):
    columns, _, _ = _log(9, 50)
    log = gradtd.read_log(columns)
    for more, said in (
        ({"confounding": 1.0}, "confounding must be"),
        ({"confounding": 2, "lam": 0.5}, "without traces"),
        ({"against": 1.0}, "give confounding"),
        ({"confounding": 2, "against": "behaviour", "value_function": "action"}, "needs state values"),
    ):
        with pytest.raises(gradtd.InputError, match=said):
            _evaluate(log, "uniform", **more)
    with pytest.raises(gradtd.InputError, match="needs the influences"):
        gradtd.evaluate(log, "uniform", algorithm="wis", inference=Inference(confounding=2), **GIVEN)
    path = gradtd.write_log(log, tmp_path / "log.parquet")
    with pytest.raises(gradtd.InputError, match="in_parts=False"):
        gradtd.evaluate(
            str(path), "uniform", inference=Inference(confounding=2), **(GIVEN | {"machine": Machine(in_parts=True)})
        )


def test_the_command_says_and_draws_it(tmp_path):
    columns, _, _ = _log(10)
    path = gradtd.write_log(gradtd.read_log(columns), tmp_path / "log.parquet")
    given = ["evaluate", str(path), "--gamma", ".9", "--target", "uniform", "--confounding", "1.5", "--threads", "1"]
    page = tmp_path / "page.html"
    outcome = CliRunner().invoke(app, [*given, "--page", str(page)])
    assert "Unrecorded cause: if it changes the odds of every action by a factor of up to 1.5" in outcome.output
    assert "strength of the unrecorded cause" in page.read_text()
    told = json.loads(CliRunner().invoke(app, [*given, "--against", "0", "--json"]).output)["confounding"]
    assert told["against"] == 0


def test_a_deterministic_policy_of_real_actions_has_bounds_too():
    """It is evaluated with action values, whose ratios are 1; that does not make it the log's own policy."""
    rng = np.random.default_rng(11)
    n = 1500
    x, action = rng.standard_normal(n), rng.uniform(-1, 1, n)
    log = {"episode": np.arange(n), "obs": x, "action": action, "reward": x - action**2 + rng.normal(0, 0.2, n)}
    log |= {"terminated": np.ones(n, int)}
    made = _evaluate(log, lambda seen: np.zeros(len(seen)), confounding=1.5).confounding
    assert made.each == "transition"
    assert made.low < made.bounds[0] < made.bounds[1] < made.high
    assert made.against == 0


def test_the_interval_contains_that_without_a_cause_also_where_every_action_has_one_outcome():
    # The action decides the next observation here, so no cause can move the value, and the error of the log remains.
    log = gradtd.sample_log("random_walk_tabular", 100, seed=1)
    given = {name: getattr(log, name) for name in ("observations", "row", "next_row", "reward", "terminated")}
    given |= {"truncated": log.truncated, "episode": log.episode, "action": (log.rho > 1).astype(int)}
    walk = gradtd.Log(**given, behaviour=np.full(len(log), 0.5))
    target = np.tile([0.4, 0.6], (7, 1))
    found = gradtd.evaluate(walk, gamma=1.0, target=target, inference=gradtd.Inference(confounding=2.0))
    cause = found.confounding
    assert cause.low <= found.interval[0] + 1e-6
    assert cause.high >= found.interval[1] - 1e-6
    widths = [high - low for _, low, high in cause.curve]
    assert widths == sorted(widths)
