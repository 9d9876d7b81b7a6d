"""`evaluate` against exact values: the mistakes that are easily made, and what must not change a byte."""

import numpy as np
import pytest
from scipy.stats import binom

import gradtd
from gradtd import InputError, evaluate, sample_log, true_value
from naive.evaluation import LEFT, RIGHT, real_walk, walk, walk_truth

TABLE = np.tile(RIGHT, (5, 1))


def lstd(log, gamma=0.9, resamples=0, **how):
    return evaluate(
        log,
        gamma=gamma,
        algorithm="lstd",
        inference=gradtd.Inference(resamples=resamples),
        machine=gradtd.Machine(threads=1),
        **how,
    )


def off(result, truth):
    """How far a value is from the truth, in its own sandwich errors."""
    return abs(result.value - truth) / result.numbers["sandwich_error"]


def same_bytes(one, other):
    for name in ("value", "interval", "theta", "resampled"):
        assert np.asarray(getattr(one, name)).tobytes() == np.asarray(getattr(other, name)).tobytes(), name
    assert one.estimates == other.estimates


# Distances below are in standard errors: 4 of them are exceeded once in 16 000 seeds where the value is right.


def test_ratios_are_applied_once():
    log = walk(2000)
    rho = log["target"] / log["action_prob"]
    assert off(lstd(log), walk_truth()) < 4
    bare = {k: v for k, v in log.items() if k not in ("target", "action_prob")}
    chance = {"action_prob": log["action_prob"]}
    assert off(lstd(bare | chance | {"rho": rho}, target=RIGHT[log["action"]]), walk_truth()) < 4
    assert off(lstd(bare | {"rho": rho}), walk_truth()) < 4
    assert off(lstd(bare | {"rho": rho**2}), walk_truth()) > 10
    assert off(lstd(bare, target="behaviour"), walk_truth(LEFT)) < 4
    assert off(lstd(bare, target="behaviour"), walk_truth()) > 10


@pytest.mark.parametrize("method", ["impression_gtd", "is", "wis", "pdis", "wpdis", "dr", "wdr"])
def test_every_way_finds_the_value(method):
    result = evaluate(
        walk(1000, 3),
        gamma=0.9,
        algorithm=method,
        inference=gradtd.Inference(resamples=30),
        machine=gradtd.Machine(threads=1),
    )
    error = result.estimates[0].error
    assert abs(result.value - walk_truth()) < 4 * error
    assert error < 0.08


def test_the_next_observation_counts_and_not_the_one_before():
    log = walk(2000, 1)
    assert off(lstd(log), walk_truth()) < 4
    assert not any("mixed up" in warning for warning in lstd(log).warnings)
    with pytest.raises(InputError, match="'next_obs' is a copy of 'obs'"):
        lstd({**log, "next_obs": log["obs"]})
    almost = lstd({**log, "next_obs": np.r_[log["next_obs"][:500], log["obs"][500:]]})
    assert any("is not the observation of the following row" in said for said in almost.warnings)
    back = {**log, "obs": log["next_obs"], "next_obs": log["obs"]}
    with pytest.raises(InputError, match="are swapped"):
        lstd(back)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_a_cut_off_episode_is_bootstrapped_and_a_terminated_one_is_not(gamma):
    """Cut after 4 steps, a third of the walks go on; without next observations one step more is lost."""
    truth = walk_truth(gamma=gamma)
    log = walk(2000, 2, cut=4)
    assert 0.2 < log["truncated"].sum() / 2000 < 0.9
    assert off(lstd(log, gamma), truth) < 4
    without = {k: v for k, v in log.items() if k != "next_obs"}
    assert off(lstd(without, gamma), truth) < 4
    ended = {**log, "terminated": log["terminated"] | log["truncated"], "truncated": np.zeros(len(log["t"]), bool)}
    assert off(lstd(ended, gamma), truth) > 8
    never = {**log, "terminated": np.zeros(len(log["t"]), bool), "truncated": log["terminated"] | log["truncated"]}
    assert off(lstd(never, gamma), truth) > 8 or gamma == 1.0


def test_logarithms_of_probabilities_are_recognised():
    log = walk(100)
    plain = lstd(log)
    logs = {k: v for k, v in log.items() if k not in ("action_prob", "target")}
    logs |= {"action_logp": np.log(log["action_prob"]), "target_logp": np.log(log["target"])}
    with pytest.raises(InputError, match="'action_logp' is named as logarithms of probabilities: exponentiate them"):
        lstd(logs)
    converted = lstd(logs, log_probabilities="convert")
    assert converted.value == pytest.approx(plain.value)
    assert any("contained logarithms" in note for note in converted.notes)
    named = {k: v for k, v in log.items() if k != "target"} | {"mine": np.log(log["target"]), "plain": log["target"]}
    with pytest.raises(InputError, match=r"'mine' contains logarithms .* exponentiate them"):
        lstd(named, target="mine")
    both = lstd(named, target={"a": "mine", "b": "plain"}, log_probabilities="convert")
    assert both["a"].value == pytest.approx(plain.value)
    assert both["b"].value == plain.value
    assert both["a"].notes == ("Column 'mine' contained logarithms of probabilities: converted.",)
    with pytest.raises(InputError, match="'action_prob' contains logarithms"):
        lstd({**log, "action_prob": np.log(log["action_prob"])})


@pytest.mark.parametrize("resamples", [0, 100])
def test_the_interval_narrows_with_the_square_root_of_the_episodes(resamples):
    """16 times the episodes, a quarter of the width: 4 within 25 % (each error is known to some 8 %)."""
    widths = [np.diff(lstd(walk(n, 5), resamples=resamples).interval)[0] for n in (100, 1600)]
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.25)


@pytest.mark.parametrize("method", ["lstd", "impression_gtd"])
def test_the_order_of_rows_changes_nothing(method):
    log = walk(60, 6)
    mixed = np.random.default_rng(0).permutation(len(log["t"]))
    one = evaluate(
        log, gamma=0.9, algorithm=method, inference=gradtd.Inference(resamples=20), machine=gradtd.Machine(threads=1)
    )
    other = evaluate(
        {k: v[mixed] for k, v in log.items()},
        gamma=0.9,
        algorithm=method,
        inference=gradtd.Inference(resamples=20),
        machine=gradtd.Machine(threads=1),
    )
    same_bytes(one, other)
    assert any("sorted" in note for note in other.notes)


def test_rows_given_twice_are_found():
    log = walk(60, 7)
    twice = {k: np.r_[v, v[10:20]] for k, v in log.items()}
    with pytest.raises(InputError, match="have the same episode and t"):
        lstd(twice)
    dropped = lstd(twice, duplicates="drop")
    same_bytes(dropped, lstd(log))
    assert any("dropped" in note for note in dropped.notes)


def test_several_targets_at_once_are_each_by_itself():
    log = walk(60, 8)
    targets = {"as logged": "behaviour", "column": "target", "table": TABLE, "function": lambda s: TABLE[s]}
    for method in ("lstd", "impression_gtd"):
        how = {"gamma": 0.9, "algorithm": method, "resamples": 10}
        together = evaluate(log, target=targets, machine=gradtd.Machine(threads=2), **how)
        assert list(together) == list(targets)
        for name, policy in targets.items():
            same_bytes(together[name], evaluate(log, target=policy, machine=gradtd.Machine(threads=1), **how))
            assert together[name].target == name
        assert together["table"].value == together["function"].value == together["column"].value
        assert together["as logged"].value != together["column"].value
    with pytest.raises(InputError, match="at least one policy"):
        evaluate(log, gamma=0.9, target={})


def test_threads_and_seeds():
    log = walk(60, 9)
    for method in ("auto", "impression_gtd"):
        how = {"gamma": 0.9, "resamples": 10, "algorithm": method}
        one = evaluate(log, seed=4, machine=gradtd.Machine(threads=1), **how)
        same_bytes(one, evaluate(log, seed=4, machine=gradtd.Machine(threads=2), **how))
        same_bytes(one, evaluate(log, seed=4, **how))
        assert (evaluate(log, seed=5, machine=gradtd.Machine(threads=1), **how).value == one.value) == (
            method == "auto"
        )


def test_the_log_is_left_as_it_was():
    table = real_walk(40)
    before = {k: v.tobytes() for k, v in table.items()}
    log = gradtd.read_log(table)
    seen = log.observations.tobytes()
    evaluate(log, gamma=0.9, features="identity", algorithm="lstd", machine=gradtd.Machine(threads=1))
    own = np.eye(3)[np.arange(len(log.observations)) % 3]
    evaluate(log, gamma=0.9, features=lambda x: own[: len(x)], algorithm="lstd", machine=gradtd.Machine(threads=1))
    assert own.tobytes() == np.eye(3)[np.arange(len(log.observations)) % 3].tobytes()
    assert log.observations.tobytes() == seen
    assert {k: v.tobytes() for k, v in table.items()} == before


def test_whitening_leaves_the_value_of_least_squares():
    log = real_walk(80, 1)
    for features in ("polynomial", "tiles:tilings=2"):
        one, other = (lstd(log, features=features, whiten=w) for w in (True, False))
        assert one.value == pytest.approx(other.value, rel=1e-4)
        seen = [[0.25, 0.1], [0.5, -0.3]]
        assert one(seen) == pytest.approx(other(seen), rel=1e-2, abs=1e-3)


def test_progress_is_reported():
    heard = []
    how = {"gamma": 0.9, "algorithm": "impression_gtd", "resamples": 5, "threads": 1}
    evaluate(walk(30), progress=lambda *a: heard.append(a), **how)
    assert {what for what, _, _ in heard} == {"reading", "least squares", "refitting"}
    assert [a for a in heard if a[0] == "refitting"] == [("refitting", k, 5) for k in range(1, 6)]


def _covered(problem, logs, episodes, truth, **how):
    found = [
        evaluate(sample_log(problem, episodes, seed=7, run=r), seed=r, machine=gradtd.Machine(threads=1), **how)
        for r in range(logs)
    ]
    return sum(result.interval[0] <= truth <= result.interval[1] for result in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "how"),
    [
        (0.5, {"resamples": 0}),
        (0.95, {"resamples": 0}),
        (0.5, {"resamples": 50}),
        (0.95, {"resamples": 50}),
        (0.5, {"resamples": 200, "interval": "percentile"}),
    ],
)
def test_intervals_of_least_squares_cover_as_often_as_they_say(level, how):
    """120 logs of 80 episodes: outside these bounds once in 1000 seeds, and at 50 % an interval that is half or twice
    as wide as it should be falls outside in more than 9 of 10."""
    truth, _ = true_value("random_walk_tabular")
    count = _covered("random_walk_tabular", 120, 80, truth, gamma=1.0, algorithm="lstd", level=level, **how)
    low, high = binom.ppf([0.0005, 0.9995], 120, level)
    assert low <= count <= high


@pytest.mark.slow
def test_intervals_of_impression_gtd_cover():
    """15 logs at 80 %: fewer than 7 are covered once in 1000 seeds."""
    truth, _ = true_value("random_walk_tabular")
    count = _covered(
        "random_walk_tabular", 15, 60, truth, gamma=1.0, algorithm="impression_gtd", level=0.8, resamples=12
    )
    assert count >= binom.ppf(0.001, 15, 0.8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 1.5}, r"gamma must be a number in \[0, 1\], got 1.5"),
        ({"gamma": float("nan")}, "gamma must be a number"),
        ({"algorithm": "impresion_gtd"}, "did you mean 'impression_gtd'"),
        ({"algorithm": 3}, "algorithm must be a name or an Algorithm, got int"),
        (
            {"algorithm": "wis", "alpha": 1},
            "wis takes no hyper-parameters here, got alpha",
        ),
        ({"algorithm": "lstd", "ridge": 1}, "lstd takes no hyper-parameters here, got ridge"),
        ({"algorithm": "lstd", "updates": 9}, "lstd makes no updates, got n_updates=9: leave it out"),
        ({"algorithm": "td"}, "td needs alpha"),
        ({"alpha": 1}, "auto takes no hyper-parameters here, got alpha"),
        ({"own_refits": 3}, "own_refits must be True or False, got 3"),
        ({"targt": "uniform"}, "evaluate has no argument 'targt': did you mean 'target'"),
        ({"discount": 0.9}, "evaluate has no argument 'discount': did you mean 'gamma'"),
        ({"algorithm": "td", "feature": "rbf"}, "evaluate has no argument 'feature': did you mean 'features'"),
        ({"behaviour": "uniform", "behavior": "uniform"}, "behaviour and behavior are the same argument"),
        ({"algorithm": "impression_gtd", "alhpa": 1}, "unknown hyper-parameter of impression_gtd 'alhpa'"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"level": "much"}, "level must be a number"),
        ({"resamples": -1}, "resamples must be between 0 and 10000, got -1"),
        ({"resamples": 10**9}, "resamples must be between 0 and 10000"),
        ({"interval": "normal"}, "interval_method must be one of student, percentile"),
        ({"updates": 0}, "updates must be at least 1"),
        ({"algorithm": "impression_gtd", "updates": 20}, "needs 75 pairs of batches before its first update"),
        ({"block": 0}, "block_length must be at least 1"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"features": "furier"}, "did you mean 'fourier'"),
        ({"features": lambda s: np.ones((len(s), 2))}, "2 features are constant"),
        ({"features": lambda s: np.ones((len(s), 1))}, "all features are constant"),
        ({"features": lambda s: np.full((len(s), 2), np.nan)}, "does not return features: features must be finite"),
        ({"target": np.tile([0.5, 0.6], (5, 1))}, "must sum to 1"),
        ({"target": "targte"}, "there is no column 'targte'"),
        ({"clip": 0}, "clip must be greater than 0"),
        ({"algorithm": "impression_gtd", "batch_size": 10_000}, "too few for a batch of 10000"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        evaluate(walk(30), **{"gamma": 0.9, "threads": 1, "resamples": 5} | change)


def test_a_sampled_log_is_the_problem():
    """Rewards, ratios and starts of the simulator: mean values within 4 standard errors of the exact ones."""
    log = sample_log("random_walk_tabular", 500, seed=3)
    assert (log.n_episodes, int(log.terminated.sum()), int(log.truncated.sum())) == (500, 500, 0)
    assert set(log.observations[log.row[log.starts]]) == {2}
    assert set(log.rho) == {0.8, 1.2}
    assert off(lstd(log, 1.0), true_value("random_walk_tabular")[0]) < 4
    endless = sample_log("baird", steps=700, seed=1)
    assert (len(endless), endless.n_episodes, int(endless.terminated.sum())) == (700, 1, 0)
    assert endless.truncated.tolist() == [False] * 699 + [True]
    assert sample_log("baird", steps=700, seed=1).reward.tobytes() == endless.reward.tobytes()
    true, fitted = true_value("random_walk_dependent")
    assert true == pytest.approx(true_value("random_walk_tabular")[0])
    assert abs(true - fitted) > 0.01


def test_an_error_in_one_target_stops_the_others():
    """As Ctrl-C does: what is under way ends at its next report."""
    heard = []

    def progress(what, done, total):
        if what != "reading":
            heard.append(what)
            raise KeyboardInterrupt

    targets = {str(k): "behaviour" for k in range(50)}
    with pytest.raises(KeyboardInterrupt):
        evaluate(
            walk(40), gamma=0.9, target=targets, algorithm="lstd", progress=progress, machine=gradtd.Machine(threads=1)
        )
    assert 0 < len(heard) < 50


def test_a_log_with_one_state_is_a_bandit():
    """Its value is the mean of ratio times reward over the mean ratio."""
    rng = np.random.default_rng(0)
    n = 400
    log = {"episode": np.arange(n), "obs": np.zeros(n, int), "reward": rng.normal(1, 1, n), "terminated": np.ones(n)}
    log["rho"] = rng.choice([0.5, 1.5], n)
    found = evaluate(log, gamma=1.0)
    assert found.value == pytest.approx((log["rho"] * log["reward"]).sum() / log["rho"].sum())
    assert found.interval[0] < 1 < found.interval[1]
    assert any("Every observation of the log is the same" in note for note in found.notes)
