"""value_function="auto": when the value is that of action values, and what is then reported."""

from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from cli.test_evaluate import as_json, typed  # noqa: F401 (a fixture)
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.settings import Settings
from gradtd.evaluation.value_functions import agreement, choosable, lacking_pairs
from gradtd.logs import Probabilities

S, GAMMA = 6, 0.9
BEHAVIOUR, TARGET = np.tile([0.5, 0.5], (S, 1)), np.tile([0.2, 0.8], (S, 1))
ONE = gradtd.Machine(threads=1)


def walk(episodes=300, slip=0.0, start=None, never=(), seed=0):
    """Action 0 leads one state back, action 1 one forth and from the last state to the end; a slip swaps them.

    ``never`` are states where action 1 is never taken. The reward is the state's number.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        s = int(rng.integers(S)) if start is None else start
        for t in range(30):
            a = 0 if s in never else int(rng.random() < BEHAVIOUR[s, 1])
            moved = a if rng.random() >= slip else 1 - a
            over = moved == 1 and s == S - 1
            after = s if over else max(s + 2 * moved - 1, 0)
            rows.append((e, s, after, a, float(s), over, t == 29 and not over, 1.0 if s in never else BEHAVIOUR[s, a]))
            if over:
                break
            s = after
    names = ("episode", "observation", "next_observation", "action", "reward", "terminated", "truncated", "behaviour")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def truth(start=None):
    """The exact value of TARGET without slips."""
    back, forth = np.maximum(np.arange(S) - 1, 0), np.arange(S) + 1
    P = np.zeros((S, S + 1))
    P[np.arange(S), back] += TARGET[:, 0]
    P[np.arange(S), forth] += TARGET[:, 1]
    v = np.linalg.solve(np.eye(S) - GAMMA * P[:, :S], np.arange(S, dtype=float))
    return v.mean() if start is None else v[start]


def evaluate(log, target=TARGET, **how):
    return gradtd.evaluate(log, target, GAMMA, progress=False, **({"machine": ONE} | how))


@pytest.fixture(scope="module")
def fixed():
    """A log whose episodes start in one state, so that action values have no error at all."""
    return walk(start=2)


def test_action_values_where_a_pair_determines_the_next_state():
    log = walk()
    auto, state, action = (evaluate(log, value_function=how) for how in ("auto", "state", "action"))
    assert auto.value == pytest.approx(action.value, rel=1e-12)
    assert auto.value != pytest.approx(state.value, rel=1e-6)
    assert (auto.verdict, state.verdict) == ("usable", "usable")
    assert auto.interval == state.interval
    assert auto.diagnostics.action_error < 0.7 * state.estimates[0].error
    assert auto.diagnostics.action_error >= action.estimates[0].error > 0


def test_the_interval_keeps_its_width_if_action_values_have_none(fixed):
    auto, state, action = (evaluate(fixed, value_function=how) for how in ("auto", "state", "action"))
    assert action.interval[1] - action.interval[0] < 1e-6
    assert action.verdict == "not usable"
    assert auto.value == pytest.approx(truth(2), rel=1e-6)
    assert abs(state.value - truth(2)) > 1e-3
    assert (auto.interval, auto.verdict) == (state.interval, "usable")


def test_state_values_where_chance_decides():
    log = walk(slip=0.3)
    auto, state = evaluate(log), evaluate(log, value_function="state")
    assert (auto.value, auto.interval, auto.value_function) == (state.value, state.interval, "")
    assert auto.diagnostics.action_error is None
    assert agreement(gradtd.read_log(log)) < DEFAULT.least_agreement < agreement(gradtd.read_log(walk(slip=0.03)))


def test_state_values_where_the_log_lacks_pairs():
    log = walk(never=(3,))
    assert evaluate(log).value == evaluate(log, value_function="state").value
    assert lacking_pairs(gradtd.read_log(log), TARGET) > DEFAULT.most_lacking_pairs
    assert lacking_pairs(gradtd.read_log(walk()), TARGET) == 0


def test_the_share_of_lacking_pairs_by_hand():
    log = {"episode": [0, 0, 1], "obs": [0, 1, 0], "action": [0, 0, 1], "reward": [1.0, 0.0, 1.0]}
    log |= {"terminated": [False, True, True]}  # choices: two starts in 0, one next observation 1, where 1 is lacking
    assert lacking_pairs(gradtd.read_log(log), [[0.5, 0.5], [0.7, 0.3]]) == pytest.approx(0.3 / 3)


@pytest.mark.parametrize(
    "limits",
    [{"most_error_of_pairs": 1e-12}, {"most_contradiction": 1e-12}, {"most_compared_steps": 100}],
)
def test_each_limit_keeps_state_values(limits, fixed, monkeypatch):
    assert evaluate(fixed).value_function
    monkeypatch.setattr(
        import_module("gradtd.evaluation.evaluate"), "Settings", partial(Settings, limits=replace(DEFAULT, **limits))
    )
    assert evaluate(fixed).value == evaluate(fixed, value_function="state").value


@pytest.mark.parametrize(
    "how",
    [
        {"value_function": "state"},
        {"features": "one-hot"},
        {"algorithm": "lstd"},
        {"inference": gradtd.Inference(lam=0.5)},
        {"inference": gradtd.Inference(block_length=50)},
        {"inference": gradtd.Inference(with_time=True)},
    ],
)
def test_what_was_asked_for_stays(how, fixed):
    made = evaluate(fixed, **how)
    assert (made.value_function, made.diagnostics.values) == ("", None)
    assert evaluate(fixed, value_function="action").diagnostics.values == "action"


def test_several_targets_keep_state_values(fixed):
    both = evaluate(fixed, {"new": TARGET, "old": "behaviour"})
    assert both["new"].value == evaluate(fixed, value_function="state").value
    assert not both["new"].value_function


@pytest.mark.parametrize("target", ["column", "of the actions taken"])
def test_a_target_without_the_probabilities_of_every_action(target, fixed):
    taken = TARGET[fixed["observation"], fixed["action"]]
    log, given = (fixed | {"pi": taken}, "pi") if target == "column" else (fixed, Probabilities(taken))
    assert not evaluate(log, given).value_function


@pytest.mark.parametrize("given", ["function", "rows"])
def test_forms_of_the_target(given, fixed):
    now, after = (TARGET[fixed[name]] for name in ("observation", "next_observation"))
    target = (lambda s: TARGET[np.asarray(s)]) if given == "function" else Probabilities(now, after)
    assert evaluate(fixed, target).value == pytest.approx(evaluate(fixed).value, rel=1e-9)
    assert evaluate(fixed, target).value_function


def test_a_target_that_does_not_know_a_next_observation_keeps_state_values(fixed):
    assert not evaluate(fixed, TARGET[fixed["observation"]]).value_function  # 125 truncated ones are not rows
    unknown = fixed | {"next_observation": np.where(fixed["truncated"], S, fixed["next_observation"])}
    assert not evaluate(unknown, lambda s: TARGET[np.asarray(s)]).value_function
    over = fixed | {"next_observation": np.where(fixed["terminated"], S, fixed["next_observation"])}
    assert evaluate(over, lambda s: TARGET[np.asarray(s)]).value_function


def test_one_step_episodes_keep_state_values():
    log = walk()
    alone = {name: log[name] for name in ("observation", "action", "reward", "behaviour")}
    made = evaluate(alone, log_format=gradtd.LogFormat(one_step=True))
    assert not made.value_function
    assert choosable(gradtd.read_log(alone, one_step=True), TARGET, Settings(gamma=0.9, chooses_values=True)) is None


def test_a_value_outside_the_interval_extends_it(fixed, monkeypatch):
    state = evaluate(fixed, value_function="state")
    memory = import_module("gradtd.evaluation.memory")
    monkeypatch.setattr(memory, "evaluate_plan", lambda *given, made=memory.evaluate_plan: _narrow(made(*given)))
    made = evaluate(fixed)
    assert made.value_function
    assert min(made.interval) <= made.value <= max(made.interval)
    assert made.interval != _narrow(state).interval


def _narrow(found):
    """The same evaluation with an interval of a hundredth of an error."""
    row = found.estimates[0]
    low, high = row.value - 0.005 * row.error, row.value + 0.005 * row.error
    row = replace(row, low=low, high=high)
    return replace(found, interval=(low, high), estimates=(row, *found.estimates[1:]))


def test_the_log_in_parts_makes_the_same_choice(fixed, tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(fixed), path, row_group_size=500)
    ask = lambda states: TARGET[np.asarray(states).ravel()]  # noqa: E731
    memory = evaluate(fixed, ask)
    parts = evaluate(path, ask, machine=gradtd.Machine(threads=1, in_parts=True))
    assert (parts.value, *parts.interval) == pytest.approx((memory.value, *memory.interval), rel=1e-9)
    assert parts.value_function == memory.value_function != ""
    slipped = tmp_path / "slipped.parquet"
    pq.write_table(pa.table(walk(slip=0.3)), slipped, row_group_size=500)
    assert not evaluate(slipped, ask, machine=gradtd.Machine(threads=1, in_parts=True)).value_function


def test_paired_differences_are_those_of_state_values(fixed):
    other = np.tile([0.3, 0.7], (S, 1))
    alone = gradtd.Evaluations({"a": evaluate(fixed), "b": evaluate(fixed, other)}).compare()
    assert evaluate(fixed).value_function
    together = evaluate(fixed, {"a": TARGET, "b": other}).compare()
    assert alone.differences[0].value == pytest.approx(together.differences[0].value, rel=1e-9)
    assert alone.differences[0].low == pytest.approx(together.differences[0].low, rel=1e-9)


def test_what_is_shown_and_saved(fixed, tmp_path):
    made = evaluate(fixed)
    sentence = made.value_function
    assert sentence.startswith("Value function: action values (standard error ")
    assert sentence.endswith("). The interval is that of the state values.")
    assert sentence in str(made)
    assert sentence in made._repr_html_()
    assert sentence in made.page(tmp_path / "it.html").read_text()
    assert made.to_dict()["value_function"] == sentence
    assert "action values" in repr(made)
    again = gradtd.load_evaluation(made.save(tmp_path / "it.npz"))
    assert (again.value, again.value_function) == (made.value, sentence)
    values = evaluate(fixed, value_function="state")
    np.testing.assert_array_equal(made(np.arange(S)), values(np.arange(S)))


def test_scikit_learns_estimator(fixed):
    fitted = gradtd.PolicyEvaluator(GAMMA, target=TARGET, machine=ONE).fit(fixed)
    assert fitted.evaluation_.value_function
    assert fitted.value_ == pytest.approx(truth(2), rel=1e-6)
    assert fitted.predict(np.arange(S)).shape == (S,)


def test_command(typed, tmp_path, fixed):  # noqa: F811
    columns = {f"pi_{a}": TARGET[fixed["observation"], a] for a in (0, 1)}
    after = {f"next_{a}": TARGET[fixed["next_observation"], a] for a in (0, 1)}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(fixed | columns | after), path)
    asked = [str(path), "--gamma", "0.9", "--target-probabilities", "pi_0,pi_1"]
    asked += ["--next-target-probabilities", "next_0,next_1"]
    assert "Value function: action values (standard error " in typed(*asked)
    state = as_json(typed(*asked, "--value-function", "state", "--json"))
    auto = as_json(typed(*asked, "--json"))
    assert "value_function" not in state
    assert auto["value"] == pytest.approx(truth(2), rel=1e-6)
    assert auto["interval"] == state["interval"]
