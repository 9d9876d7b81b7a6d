"""The checks behind the word usable: their sums against plain loops, their words, and what they keep."""

from dataclasses import replace

import numpy as np
import pytest

from gradtd import evaluate, load_evaluation, sample_log
from gradtd.evaluation.planning import make_plan
from gradtd.evaluation.trust import deciding, enriching
from gradtd.evaluation.trust.checking import all_fits
from gradtd.evaluation.trust.deciding import beyond
from gradtd.evaluation.trust.records import GIVEN, record_of
from gradtd.evaluation.trust.size import inflation
from gradtd.logs import read_log
from naive.evaluation import real_walk, walk, walk_truth


def judged(log, **how):
    return evaluate(log, **{"gamma": 0.9, "threads": 1} | how)


def naive(table, stream, rows, next_rows, lam):
    """LSTD(lambda) by a loop over steps: the value of the start states, minimum norm."""
    d = table.shape[1]
    A, b, z, starts = np.zeros((d, d)), np.zeros(d), np.zeros(d), []
    begins = set(stream.begins[:-1].tolist())
    for t, step in enumerate(stream.steps):
        x, after = table[rows[t]], table[next_rows[t]]
        if t in begins:
            z = np.zeros(d)
            starts.append(x)
        else:
            z = lam * stream.steps[t - 1]["discount"] * z
        z = step["rho"] * (x + z)
        A += np.outer(z, step["discount"] * after - x)
        b += step["reward"] * z
    return float(np.mean(starts, axis=0) @ np.linalg.lstsq(A, -b, rcond=1e-10)[0])


@pytest.mark.parametrize("made", [walk(60, 3, cut=6), real_walk(60, 3)])
def test_fits_from_shared_sums_are_those_of_a_loop(made):
    log = read_log(made)
    features = "one-hot" if log.discrete_observations else "polynomial"
    plan = make_plan(log, features, None, True, checked=True)
    stream = plan.prepared(None).stream(made["target"] / made["action_prob"], 0.9)
    record = record_of(plan.log, log.episode, made["target"] / made["action_prob"], 0.9, plan.wide, False)
    fits = all_fits(record, plan.wide)
    table = plan.wide.rows(np.arange(plan.wide.n_rows))
    for name, columns in (plan.wide.rungs | plan.wide.checkers).items():
        wanted = naive(table[:, columns], stream, record.row, record.next_row, 0.0)
        assert fits.plain[name].value == pytest.approx(wanted, rel=1e-5), name
        assert abs(fits.plain[name].psi.mean()) < 1e-6
    first = next(iter(plan.wide.rungs))
    wanted = naive(table[:, plan.wide.rungs[first]], stream, record.row, record.next_row, fits.lam)
    assert fits.traced[first].value == pytest.approx(wanted, rel=1e-5)


def test_influences_are_those_of_leaving_out_an_episode():
    """(E - 1) (v - v without e) is psi_e to first order; 300 episodes, so within a few percent of their size."""
    made = walk(300, 4)
    log = read_log(made)
    rho = made["target"] / made["action_prob"]
    plan = make_plan(log, None, None, True, checked=True)
    record = record_of(plan.log, log.episode, rho, 0.9, plan.wide, False)
    fit = all_fits(record, plan.wide).plain["the features given"]
    for episode in (0, 17, 123):
        kept = made["episode"] != episode
        without = evaluate({k: v[kept] for k, v in made.items()}, gamma=0.9, algorithm="lstd", resamples=0, threads=1)
        assert 299 * (fit.value - without.value) == pytest.approx(fit.psi[episode], abs=0.1 * fit.psi.std())
    assert fit.error == pytest.approx(judged(made, algorithm="lstd", resamples=0).numbers["sandwich_error"], rel=1e-3)


def test_the_verdict_is_the_word_of_the_checks_where_nothing_else_speaks():
    found = judged(walk(300))
    assert (found.verdict, found.method, found.numbers["refits"]) == ("usable", "auto", 0)
    assert [row.method for row in found.estimates][:3] == ["auto", "impression_gtd", "lstd"]
    chosen = next(check for check in found.checks if check.chosen)
    assert chosen.value == pytest.approx(found.value)
    sound = [check for check in found.checks if not check.fault]
    assert found.interval[0] <= min(check.low for check in sound)
    assert found.interval[1] >= max(check.high for check in sound)
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
    assert any("nothing surprising has happened" in reason for reason in found.reasons)
    assert judged(log | {"rho": np.ones(n)}).verdict == "usable"


def test_a_second_try_with_less_memory(monkeypatch):
    """Where fits with long traces have no power, shorter ones are asked before the word is unchecked."""
    tried = []
    kept = deciding.all_fits

    def fits(record, wide, lam=None):
        found = kept(record, wide, lam)
        tried.append(found.lam)
        return replace(found, traced={}, robust={}) if lam is None else found

    monkeypatch.setattr(deciding, "all_fits", fits)
    assert judged(walk(300)).verdict == "usable"
    assert tried[1] == tried[0] / 2


def test_without_power_nothing_counts_as_passed():
    """Ratios of 5 and 5/9 over walks of ten steps: neither traces nor doubly robust can look ahead."""
    log = walk(200, 1, behaviour=np.array([0.9, 0.1]), target=np.array([0.5, 0.5]))
    found = judged(log)
    assert found.verdict != "usable"
    assert all("collect" in reason or "take" in reason or "check" in reason for reason in found.reasons)


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


def test_blocks_that_depend_on_each_other():
    """An autoregression of .8 has 9 times the variance; independent ones 1, within what 400 of them tell."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4000)
    slow = np.zeros(4000)
    for t in range(1, 4000):
        slow[t] = 0.8 * slow[t - 1] + noise[t]
    assert inflation(noise) < 1.3
    assert 5 < inflation(slow) < 11
    found = judged(sample_log("baird", steps=3000, seed=1), gamma=0.5, block=30, resamples=0)
    assert found.numbers["dependence"] >= 1


def test_richardson():
    assert beyond(10, 20) == pytest.approx(2.0)
    assert beyond(20, 10) == pytest.approx(-1.0)
    assert abs(beyond(100, 101)) <= 3.5


def test_threads_make_the_same_numbers():
    """Groups of pieces are read on several threads, and added in one order."""
    for how in ({}, {"features": "identity"}, {"features": "identity", "lam": 0.5}):
        one, two = (evaluate(real_walk(60), gamma=0.9, threads=threads, **how) for threads in (1, 2))
        assert one.interval == two.interval
        assert one.checks == two.checks
        np.testing.assert_array_equal(one.influences, two.influences)


def test_a_long_log_has_waves_enough_to_check_the_features_given():
    """Work bounds the table there, not the log. A check counts from 1.5 times the columns on: 77 for 51, it were 76."""
    seen = np.random.default_rng(0).normal(size=(500, 50))
    base = np.c_[np.ones(500), seen]
    for steps in (500_000, 2_000_000):
        wide = enriching.real_wide(seen, base, steps, 30_000)
        assert max(map(len, wide.checkers.values())) >= enriching.STEP * 51
        assert wide.waves.frequencies.shape[1] <= enriching.MOST_WAVES
    short = enriching.real_wide(seen, np.c_[base, seen**2], 2000, 60)  # as before where the log bounds it
    assert short.waves.frequencies.shape[1] == 30


def test_columns_of_fits_with_states_and_pairs():
    """Three columns given, then those of four states, then of two pairs."""
    rungs, checkers = enriching.fits_of_states(np.arange(3), 4, 2)
    assert {name: list(columns) for name, columns in (rungs | checkers).items()} == {
        GIVEN: [0, 1, 2],
        "with a feature per state": [0, 1, 2, 3, 4, 5, 6],
        "with states and pairs": [0, 1, 2, 3, 4, 5, 6, 7, 8],
        "with half of the states": [0, 1, 2, 3, 4],
        "with a quarter": [0, 1, 2, 3],
        "with pairs of states": [0, 1, 2, 7, 8],
    }
    behind = enriching.fits_of_states(np.array([1, 2]), 0, 1)  # a shared column stands first
    assert [list(columns) for part in behind for columns in part.values()] == [[1, 2], [1, 2, 3]]
