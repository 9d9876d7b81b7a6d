"""What people look at: the summary with its words, pictures that return axes, cells of a notebook, frames."""

import sys
import types
from dataclasses import replace

import numpy as np
import pytest

import gradtd
from gradtd.evaluation.estimators.least_squares import least_squares
from gradtd.evaluation.report.assumptions import grade
from gradtd.evaluation.report.diagnostics import Diagnostics
from naive.evaluation import walk

ONE = gradtd.Machine(threads=1)


@pytest.fixture(scope="module")
def found():
    return gradtd.evaluate(walk(100), gamma=0.9, machine=ONE)


@pytest.fixture(scope="module")
def both():
    policies = {"<b>left</b>": np.tile([0.6, 0.4], (5, 1)), "uniform": "uniform"}
    return gradtd.evaluate(walk(100), policies, 0.9, machine=ONE)


def test_the_summary_is_what_print_prints(found, capsys):
    print(found)
    printed = capsys.readouterr().out
    assert printed.rstrip("\n") == str(found.summary()) == repr(found.summary())
    lines = printed.splitlines()
    assert lines[0] == f"value {found.value:.5g}, 95% interval {found.interval[0]:.5g} to {found.interval[1]:.5g}"
    assert lines[1].startswith(found.verdict)
    words = [line for line in lines if line.split("  ")[0].strip() in {one.what for one in found.evidence}]
    assert len(words) == len(found.evidence) == 5
    assert any(line.startswith("How the log was read") for line in lines)


def test_the_behaviours_own_value_is_that_of_ratios_one(found):
    own = found.behaviour
    alone = gradtd.evaluate(walk(100), "behaviour", 0.9, machine=ONE, features="one-hot")
    assert own.value == pytest.approx(alone.value)
    assert own.gain == pytest.approx(found.value - own.value)
    assert own.low < own.value < own.high
    assert own.gain_low < own.gain < own.gain_high
    assert alone.behaviour is None


def test_the_gain_is_paired(found):
    """The interval of the gain is that of the difference of two targets on the same episodes."""
    pair = gradtd.evaluate(walk(100), {"new": None, "old": "behaviour"}, 0.9, machine=ONE, features="one-hot")
    (row,) = pair.compare().differences
    own = pair["new"].behaviour
    assert own.gain == pytest.approx(row.value)
    assert own.gain_low <= row.low + 1e-9
    assert own.gain_high >= row.high - 1e-9
    assert own.gain_high - own.gain_low < 2 * (row.high - row.low)


@pytest.mark.parametrize("how", [{"algorithm": "pdis"}, {"algorithm": "wdr"}, {"value_function": "action"}])
def test_beside_other_methods_stand_the_logs_own_returns(how):
    """All episodes of the walk end by themselves."""
    log = walk(100)
    made = gradtd.evaluate(log, np.tile([0.6, 0.4], (5, 1)), 0.9, machine=ONE, **how)
    returns = [
        sum(0.9**k * r for k, r in enumerate(np.asarray(log["reward"])[np.asarray(log["episode"]) == e]))
        for e in np.unique(log["episode"])
    ]
    own = made.behaviour
    assert own.value == pytest.approx(np.mean(returns))
    error = np.std(returns) / 10
    assert own.high - own.low == pytest.approx(4 * error, rel=0.25)
    assert own.gain == pytest.approx(made.value - own.value)
    assert own.gain_low < own.gain < own.gain_high


def test_returns_that_were_cut_off_are_no_value_of_the_behaviour():
    log = walk(100)
    last = np.r_[np.asarray(log["episode"])[1:] != np.asarray(log["episode"])[:-1], True]
    cut = last & (np.asarray(log["episode"]) % 2 == 0)
    log = log | {"truncated": cut, "terminated": last & ~cut}
    for how in ({"algorithm": "wdr"}, {"value_function": "action"}):
        assert gradtd.evaluate(log, np.tile([0.6, 0.4], (5, 1)), 0.9, machine=ONE, **how).behaviour is None


def test_the_gain_is_kept_in_files_and_json(found, tmp_path):
    again = gradtd.load_evaluation(found.save(tmp_path / "it.npz"))
    assert again.behaviour == found.behaviour
    assert again.to_dict()["behaviour"]["gain"] == found.behaviour.gain


@pytest.mark.parametrize(
    ("change", "place", "word"),
    [
        ({"ess_marginal": 1000.0}, 0, "good"),
        ({"ess_marginal": 100.0}, 0, "fair"),
        ({"ess_marginal": 20.0}, 0, "poor"),
        ({"effective_pieces": 1.5}, 1, "poor"),
        ({"mean_ratio_off": 3.0}, 2, "fair"),
        ({"mean_ratio_off": 9.0}, 2, "poor"),
        ({"lacking": 0.15}, 3, "fair"),
        ({"lacking": 0.5, "lacking_moves": 2.0}, 3, "poor"),
        ({"lacking": 0.5, "lacking_moves": 0.1}, 3, "fair"),
        ({"memory_checks": 0}, 4, "poor"),
        ({"hull_of_limit": 0.8}, 4, "fair"),
    ],
)
def test_words_follow_the_limits_of_the_rules(found, change, place, word):
    assert grade(replace(found.diagnostics, **change))[place].word == word


def test_every_method_has_five_lines():
    for how in ({"algorithm": "wis"}, {"algorithm": "lstd"}, {"target": "behaviour"}, {"value_function": "action"}):
        made = gradtd.evaluate(walk(60), **({"gamma": 0.9, "target": "uniform", "machine": ONE} | how))
        assert [line.word in ("good", "fair", "poor") for line in made.evidence] == [True] * 5, how


def test_pictures_return_axes_and_need_no_path(found, both, tmp_path):
    assert found.plot().get_xlabel() == "value from the start states"
    assert both.plot().get_xlabel() == both.compare().plot().get_xlabel()
    assert found.lambda_values.plot().get_xlabel() == "lambda"
    found.plot(tmp_path / "it.png")
    assert (tmp_path / "it.png").stat().st_size > 1000


def test_pictures_are_shown_in_a_notebook(found, monkeypatch):
    shown = []
    shell = type("ZMQInteractiveShell", (), {})()
    display = types.SimpleNamespace(display=shown.append, Image=lambda data: data)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell, display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    found.plot()
    assert shown[0].startswith(b"\x89PNG")


def test_cells_of_a_notebook_escape_what_they_show(both):
    log = gradtd.read_log(walk(30) | {"<i>x</i>": np.zeros(len(walk(30)["t"]))}, keep=["<i>x</i>"])
    for cell in (both._repr_html_(), both.compare()._repr_html_(), log._repr_html_()):
        assert "<b>left</b>" not in cell
        assert "<i>" not in cell
        for tag in ("div", "table", "tr", "ul", "li"):
            assert cell.count(f"<{tag}>") == cell.count(f"</{tag}>")
    assert "&lt;b&gt;left&lt;/b&gt; - uniform" in both.compare()._repr_html_()
    assert log._repr_html_().count("<tr>") == 6


def test_frames(found, both):
    assert list(found.to_frame().index) == [row.method for row in found.estimates]
    frame = both.to_frame()
    assert list(frame.index) == list(both)
    assert frame["value"].tolist() == [one.value for one in both.values()]
    assert len(both.compare().to_frame()) == 1
    log = gradtd.read_log(walk(30))
    steps = log.to_frame()
    assert len(steps) == len(log)
    assert steps["reward"].tolist() == log.reward.tolist()
    assert found.lambda_values.to_frame().index.tolist()[0] == 0.0


def test_the_summary_of_several_ends_with_the_comparison(both):
    text = str(both.summary())
    assert text.count("95% interval ") == 2
    assert "probability of being best" in text


def test_the_probability_of_being_best_says_no_more_than_the_interval():
    """Few episodes carry the difference: the interval holds zero, and the better one is not 99.9 % sure."""
    rng = np.random.default_rng(0)
    rows = {"episode": np.arange(60), "obs": np.zeros(60, int), "reward": np.zeros(60), "terminated": np.ones(60)}
    rows |= {"action": rng.integers(0, 2, 60), "action_prob": np.full(60, 0.5)}
    rows["reward"] = np.where((rows["action"] == 1) & (np.arange(60) < 12), 100.0, rng.normal(size=60))
    targets = {"one": np.array([[0.1, 0.9]]), "zero": np.array([[0.9, 0.1]])}
    pair = gradtd.evaluate(rows, targets, 0.0, machine=ONE, log_format=gradtd.LogFormat(one_step=True))
    for level in (0.5, 0.8, 0.95, 0.99):
        compared = gradtd.Evaluations({name: replace(one, level=level) for name, one in pair.items()}).compare()
        (row,) = compared.differences
        best = {place.name: place.best for place in compared.ranking}
        assert sum(best.values()) == pytest.approx(1)
        assert (row.low > 0) == (best[row.first] > 0.5 + level / 2), (level, row, best)


def test_the_naive_twin_of_the_behaviours_value():
    """All ratios set to 1 before anything is solved."""
    log = gradtd.read_log(walk(80))
    stream = gradtd.log_stream(log, gamma=0.9, features="one-hot", target="behaviour")
    starts = np.asarray(stream.features)[stream.steps["row"][stream.begins[:-1]]]
    wanted = least_squares(stream, starts, stream.begins).value
    assert gradtd.evaluate(log, None, 0.9, features="one-hot", machine=ONE).behaviour.value == pytest.approx(wanted)
    assert isinstance(gradtd.evaluate(log, None, 0.9, machine=ONE).diagnostics, Diagnostics)
