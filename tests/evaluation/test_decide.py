"""The checks behind the word usable: what they choose, what they refuse, and what they keep."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradtd import Machine, evaluate, load_evaluation, sample_log
from gradtd.evaluation import decide as decide_module
from gradtd.evaluation.checks import Fits
from gradtd.evaluation.decide import decide
from gradtd.evaluation.designs.base import GIVEN, Ladder
from gradtd.evaluation.fits import Fit
from gradtd.evaluation.history import Remembered
from gradtd.evaluation.intervals import extrapolation, paired_error
from gradtd.evaluation.limits import DEFAULT
from gradtd.evaluation.memory import plan_targets
from gradtd.evaluation.settings import Settings
from gradtd.logs import read_log
from naive.evaluation import real_walk, walk, walk_truth


def judged(log, **how):
    return evaluate(log, **{"gamma": 0.9, "threads": 1} | how)


def test_the_verdict_is_the_word_of_the_checks_where_nothing_else_speaks():
    found = judged(walk(300))
    assert (found.verdict, found.method, found.numbers["refits"]) == ("usable", "auto", 0)
    assert [row.method for row in found.estimates][:2] == ["auto", "lstd"]
    chosen = next(check for check in found.checks if check.chosen)
    assert chosen.value == pytest.approx(found.value)
    assert found.interval[0] <= chosen.low < chosen.high <= found.interval[1]
    assert found.interval[0] < walk_truth() < found.interval[1]


def test_features_are_chosen_for_real_observations():
    """Five places in a plane: six cosines tell them apart, and no richer rung has another direction."""
    found = judged(real_walk(300))
    assert found.verdict == "usable"
    assert found.features.name == "cosines"
    assert found.theta.shape == (found.features.n_features,)
    assert judged(real_walk(300), features="auto").value == found.value
    table = real_walk(300)
    first = np.c_[table["obs_0"], table["obs_1"]][table["t"] == 0]
    assert found(first).mean() == pytest.approx(found.value, rel=1e-6)


def test_poor_features_that_are_named_are_refused_and_auto_is_recommended():
    """One feature for all places left of the start, and one for the rest."""
    poor = judged(walk(1000, 2), features=lambda s: np.c_[s < 2, s >= 2].astype(float))
    assert poor.verdict == "not usable"
    assert any("features='auto'" in reason for reason in poor.reasons)
    assert judged(walk(1000, 2), features="auto").verdict == "usable"


def test_rare_states_share_a_feature_where_states_are_too_many():
    """20 states that most steps are in, 280 that hardly any are; a state's reward is 1 where its number is odd."""
    rng = np.random.default_rng(1)
    episodes, states = 60, 300
    rows = []
    for e in range(episodes):
        s, over = int(rng.integers(20)), False
        while not over:
            over = rng.random() < 0.2
            after = int(rng.integers(20)) if rng.random() < 0.8 else int(rng.integers(states))
            rows.append((e, s, float(rng.normal(s % 2, 0.1)), over, rng.choice([0.5, 1.5])))
            s = after
    names = ("episode", "obs", "reward", "terminated", "rho")
    log = {name: np.array(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    found = judged(log)
    assert found.features.name == "grouped"
    assert any("states are too many for this log" in note for note in found.notes)
    assert found.theta.shape == (found.features.n_features,)
    chosen = next(check for check in found.checks if check.chosen)
    assert chosen.value == pytest.approx(found.value, rel=1e-6)


def test_large_weights_that_met_no_reward_yet():
    """A click in every hundredth step, and 20 ratios of 200: the influences show none of what these could do."""
    rng = np.random.default_rng(0)
    n = 2000
    rho = np.full(n, 0.5)
    rho[::100] = 200.0 * rng.random(20)
    rho /= rho.mean()
    click = rng.random(n) < 0.02
    click[::100] = False
    log = {
        "episode": np.arange(n),
        "obs": np.zeros(n, int),
        "reward": 1.0 * click,
        "rho": rho,
        "terminated": np.ones(n),
    }
    found = judged(log)
    assert found.verdict == "not usable"
    assert found.numbers["effective_pieces"] > 5
    assert any("show no TD error yet" in reason for reason in found.reasons)
    assert judged(log | {"rho": np.ones(n)}).verdict == "usable"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"fewest_effective_pieces": 1e9}, "depends on"),
        ({"most_bias": 0.0}, "refits are biased"),
        ({"most_lacking": -1.0}, ""),
        ({"fewest_surprises": np.inf}, "show no TD error yet"),
        ({"most_dependence": 0.5}, "blocks depend on each other"),
        ({"hull_times": 0.0, "hull_deviations": 0.0}, ""),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("values", ["state", "action"])
def test_the_limits_of_the_settings_decide(change, fault, values):
    made = walk(100)
    made["reward"] = made["reward"] + np.random.default_rng(0).normal(0, 0.3, len(made["t"]))
    log = read_log(made)
    target = np.tile([0.3, 0.7], (5, 1))
    limits = replace(DEFAULT, **change)
    settings = Settings(gamma=0.9, value_function=values, limits=limits)
    plan, found = plan_targets(log, {"it": target}, settings)["it"]
    made = plan.decide(settings, found.rho, None)
    assert any(fault in one for one in made.faults) if fault else not made.faults
    assert made.word == ("usable" if not change or "most_lacking" in change else "not usable")


def test_without_power_nothing_counts_as_passed():
    """Ratios of 5 and 5/9 over walks of ten steps: neither traces nor doubly robust can look ahead."""
    log = walk(200, 1, behaviour=np.array([0.9, 0.1]), target=np.array([0.5, 0.5]))
    found = judged(log)
    assert found.verdict != "usable"
    assert found.reasons
    assert all("Collect" in reason or "Take" in reason or "Check" in reason for reason in found.reasons)


@pytest.mark.slow
def test_a_named_rule_takes_its_interval_from_the_solution_unless_asked():
    log = walk(60, 5)
    auto = judged(log)
    once = judged(log, algorithm="tdrc", alpha=0.05)
    assert once.interval == auto.interval
    assert (once.numbers["refits"], once.verdict) == (0, auto.verdict)
    assert "fitted once" in once.estimates[0].note
    own = judged(log, algorithm="tdrc", alpha=0.05, resamples=6)
    assert own.numbers["refits"] == 6
    assert own.interval != auto.interval


def test_checks_are_kept(tmp_path):
    made = judged(real_walk(60))
    again = load_evaluation(made.save(tmp_path / "it.npz"))
    assert again.checks == made.checks
    assert again.to_dict() == made.to_dict()
    assert len(made.to_dict()["checks"]) == len(made.checks) > 3


def test_blocks_that_depend_have_a_larger_error():
    found = judged(sample_log("baird", steps=3000, seed=1), gamma=0.5, block=30, resamples=0)
    assert found.numbers["dependence"] >= 1


def test_the_report_measures_the_decision():
    """What the log lacks, against half the interval; the bias, in errors; how much longer the checked interval is."""
    log, target = read_log(walk(100)), np.tile([0.3, 0.7], (5, 1))
    settings = Settings(gamma=0.9)
    plan, found = plan_targets(log, {"it": target}, settings)["it"]
    made = plan.decide(settings, found.rho, None)
    told = judged(log, target=target).numbers
    assert made.fit.missed > 0
    assert told["lacking_moves"] == pytest.approx(2 * made.fit.missed / (made.own.high - made.own.low))
    assert told["refit_bias"] == pytest.approx(abs(made.fit.bias) / made.fit.error)
    assert told["hull_times"] == pytest.approx((made.hull.high - made.hull.low) / (made.own.high - made.own.low))
    assert told["hull_of_limit"] == pytest.approx((made.hull.high - made.hull.low) / made.limit)


@pytest.mark.parametrize("way", [-1, 1])
@pytest.mark.parametrize(("noise", "counts"), [(0.2, True), (1.5, True), (2.5, False)])
def test_a_richer_fit_that_is_away_makes_its_side_longer(monkeypatch, way, noise, counts):
    """By sqrt(a^2 - e^2), where it is a away with the paired error e; without power it does not count."""
    rng = np.random.default_rng(0)
    psi, more = rng.normal(size=(2, 400))
    psi, more = psi - psi.mean(), noise * (more - more.mean())
    error = Fit("", 1.0, psi, 0.0, 3).error
    plain = Fit(GIVEN, 1.0, psi, 0.0, 3, spread=100 * error)
    richer = Fit("richer", 1.0 + way * 2 * error, psi + more, 0.0, 9)
    ladder = Ladder({GIVEN: np.arange(3)}, {"richer": np.arange(9)}, (GIVEN,), complete=False, endless=False)
    fits = Fits({GIVEN: plain, "richer": richer}, {}, {}, {}, 0.9)
    monkeypatch.setattr(decide_module, "all_fits", lambda *_: fits)
    found = decide(SimpleNamespace(ladder=ladder, other_lambda=lambda limits: 0.9))
    longer = np.sqrt(max(0.0, 4 * error**2 - paired_error(plain, richer) ** 2)) if counts else 0.0
    assert found.richer == counts
    assert not found.differs
    assert found.hull.low == pytest.approx(found.own.low - (longer if way < 0 else 0.0))
    assert found.hull.high == pytest.approx(found.own.high + (longer if way > 0 else 0.0))


def test_the_limit_of_ever_more_columns():
    assert extrapolation(10, 20) == pytest.approx(2.0)
    assert extrapolation(20, 10) == pytest.approx(-1.0)


def test_threads_make_the_same_numbers():
    """Groups of pieces are read on several threads, and added in one order."""
    for how in ({}, {"features": "identity"}, {"features": "identity", "lam": 0.5}):
        one, two = (evaluate(real_walk(60), gamma=0.9, machine=Machine(threads=threads), **how) for threads in (1, 2))
        assert one.interval == two.interval
        assert one.checks == two.checks
        np.testing.assert_array_equal(one.influences, two.influences)


def test_one_step_logs_need_no_features_of_the_context():
    """Every context is new, so no richer features can check the value; with a constant it is right without them."""
    rng = np.random.default_rng(0)
    n, target = 2000, np.array([0.1, 0.2, 0.3, 0.4])
    action = rng.integers(0, 4, n)
    log = {
        "episode": np.arange(n),
        "obs": np.arange(n),
        "action": action,
        "reward": (rng.random(n) < 0.1 + 0.1 * action).astype(float),
        "terminated": np.ones(n, bool),
        "action_prob": np.full(n, 0.25),
        "target": target[action],
    }
    found = evaluate(log, gamma=1.0)
    assert found.verdict == "usable"
    assert found.interval[0] < target @ (0.1 + 0.1 * np.arange(4)) < found.interval[1]
    without = evaluate(log, gamma=1.0, features=lambda x: np.c_[np.cos(x)])  # no constant: too poor
    assert without.verdict != "usable"


def made_fits(monkeypatch, *fits, past=None, headlines=1):
    """The decision between these fits of real observations; the first ones may be reported."""
    rungs = {fit.name: np.arange(fit.columns) for fit in fits}
    ladder = Ladder(rungs, {}, tuple(rungs)[:headlines], complete=False, endless=True)
    found = Fits({fit.name: fit for fit in fits}, {}, {}, {}, 0.9, past=past or {})
    monkeypatch.setattr(decide_module, "all_fits", lambda *_: found)
    return decide(SimpleNamespace(ladder=ladder, other_lambda=lambda limits: 0.9))


def fit_of(columns, value, noise=0.0, seed=0):
    """A fit with a standard error of 1, or more, whose influences share all but ``noise`` with the others."""
    rng = np.random.default_rng(0)
    psi = rng.normal(size=400)
    more = np.random.default_rng(seed).normal(size=400)
    psi = 20 * (psi - psi.mean()) / psi.std() + 20 * noise * (more - more.mean()) / more.std()
    return Fit(f"{columns} columns", value, psi, 0.0, columns, spread=100.0)


@pytest.mark.parametrize(("noise", "times"), [(0.1, 1.0), (3.0, 2.0)])
def test_a_bias_is_extrapolated_from_the_richest_precise_fit_alone(monkeypatch, noise, times):
    """20 columns are 2 away. 40 are not, so nothing is left to extrapolate, unless they are too imprecise to tell."""
    made = made_fits(monkeypatch, fit_of(10, 0.0), fit_of(20, 2.0, 0.1, 1), fit_of(40, 0.0, noise, 2))
    away = np.sqrt(4 - paired_error(fit_of(10, 0.0), fit_of(20, 2.0, 0.1, 1)) ** 2)
    assert made.hull.high == pytest.approx(made.own.high + times * away)


@pytest.mark.parametrize(
    ("moved", "value", "kind", "refuted"),
    [
        (1.0, 3.0, "past", False),  # near the fit with the past
        (1.0, 6.0, "past", True),  # far from it, and the past shows nothing hidden
        (3.0, 8.0, "past", False),  # it does, and both move the value up
        (3.0, -2.0, "past", True),
        (3.0, -2.0, "time", False),  # no fit with the time
    ],
)
def test_a_value_with_the_past_added_must_agree_with_the_fit_that_has_the_past(
    monkeypatch, moved, value, kind, refuted
):
    plain, past = fit_of(10, 0.0), fit_of(17, moved, 0.5, 3)
    made = made_fits(monkeypatch, plain, past={plain.name: Remembered(plain, past)})
    assert made.hidden == (moved > 2)
    repaired = replace(made, fit=fit_of(90, value, 0.8, 4))
    assert 2 < max(3 * paired_error(repaired.fit, past), repaired.fit.error) < 4
    assert made.refutes(repaired, kind) == refuted


def test_with_a_feature_for_every_state_no_fit_refutes_what_is_added():
    """Then the states with their past have a feature each, too."""
    log = read_log(walk(60))
    plan, found = plan_targets(log, {"it": np.tile([0.3, 0.7], (5, 1))}, Settings(gamma=0.9))["it"]
    assert not plan.decide(Settings(gamma=0.9), found.rho, None).added


@pytest.mark.parametrize(
    ("away", "noise", "chosen"),
    [
        (0.5, 0.3, 10),  # less than two paired errors from the richest fit
        (1.5, 0.3, 20),
        (1.5, 40.0, 10),  # the richest fit is too imprecise to compare with, so 20 columns are
        (3.0, 40.0, 20),
    ],
)
def test_few_columns_are_chosen_where_chance_explains_their_distance(monkeypatch, away, noise, chosen):
    """20 columns have the larger standard error, 1.3."""
    few, more, richest = fit_of(10, away), fit_of(20, 0.0, 0.8, 1), fit_of(40, 0.0, noise, 2)
    made = made_fits(monkeypatch, few, more, richest, headlines=2)
    assert more.error > few.error
    assert made.fit.columns == chosen
