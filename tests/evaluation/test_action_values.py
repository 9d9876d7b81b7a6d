"""Values of actions: against slow twins and exact values, over every kind of target, of features and of refusal."""

import numpy as np
import pytest

import gradtd
from gradtd.core.checks import InputError
from gradtd.logs import Probabilities
from naive.action_values import exact, lstdq

S, A, GAMMA = 5, 3, 0.9
FAST = {"algorithm": "lstd", "resamples": 0, "threads": 1}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.full(S, 0.5), (S, A)) * 0.85
    r, start = rng.normal(size=(S, A)), rng.dirichlet(np.ones(S))
    behaviour, target = rng.dirichlet(np.full(A, 4.0), S), rng.dirichlet(np.ones(A), S)
    return P, r, start, behaviour, target


def sampled(world, episodes=300, seed=0, limit=6):
    """A table with next observations; episodes that go on for too long are cut off."""
    P, r, start, behaviour, _ = world
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        s = rng.choice(S, p=start)
        for t in range(limit):
            a = rng.choice(A, p=behaviour[s])
            u = rng.choice(S + 1, p=np.r_[P[s, a], 1 - P[s, a].sum()])
            over, cut = u == S, u < S and t == limit - 1
            after = s if over else u
            rows.append((e, t, s, after, a, r[s, a] + rng.normal() * 0.3, over, cut))
            if over:
                break
            s = after
    names = ("episode", "t", "obs", "next_obs", "action", "reward", "terminated", "truncated")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def evaluate(log, target, **options):
    return gradtd.evaluate(log, gamma=GAMMA, target=target, value_function="action", **{**FAST, **options})


def test_it_is_lstdq_and_its_error_is_the_sandwich(world):
    log = sampled(world, 60)
    found = evaluate(log, world[4])
    value, theta, error = lstdq(log, GAMMA, np.eye(S), world[4])
    assert found.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-7, atol=1e-9)
    assert found.diagnostics.sandwich_error == pytest.approx(error, rel=1e-9)
    s, a = np.repeat(np.arange(S), A), np.tile(np.arange(A), S)
    np.testing.assert_allclose(found(s, a), theta, rtol=1e-7, atol=1e-9)


def test_shared_features_of_observations_times_actions(world):
    base = np.random.default_rng(9).normal(size=(S, 2))
    log = sampled(world, 60)
    found = evaluate(log, world[4], features=lambda s: base[np.asarray(s)])
    value, theta, _ = lstdq(log, GAMMA, base, world[4])
    assert found.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-7)


@pytest.mark.slow
def test_the_truth_is_inside_and_the_word_is_usable(world):
    """20 logs at 95 %: fewer than 16 inside has a chance of 0.3 %. No probabilities of the behaviour are given."""
    truth, Q = exact(world[0], world[1], world[2], world[4], GAMMA)
    inside = usable = 0
    for seed in range(20):
        found = evaluate(sampled(world, 200, seed + 1), world[4], algorithm="auto")
        low, high = found.interval
        inside += low < truth < high
        usable += found.verdict == "usable"
    assert inside >= 16
    assert usable >= 15
    s, a = np.repeat(np.arange(S), A), np.tile(np.arange(A), S)
    assert np.abs(found(s, a).reshape(S, A) - Q).max() < 1.0


def test_every_form_of_a_target_gives_the_same_value(world):
    log, target = sampled(world), world[4]
    wanted = evaluate(log, target).value
    now, after = target[log["obs"]], target[log["next_obs"]]
    names = [f"pi_{a}" for a in range(A)]
    both = dict(zip(names, now.T, strict=True)) | {f"next_{name}": p for name, p in zip(names, after.T, strict=True)}
    order = np.random.default_rng(4).permutation(len(now))
    mixed = {name: column[order] for name, column in log.items()}
    for given, policy in (
        (log, lambda states: target[states]),
        (log, Probabilities(now, after)),
        (log | both, Probabilities(names, [f"next_{name}" for name in names])),
        (mixed, Probabilities(now[order], after[order])),
        (mixed, target),
    ):
        assert evaluate(given, policy).value == pytest.approx(wanted, rel=1e-8)
    assert evaluate(log, "uniform").value == pytest.approx(evaluate(log, np.full((S, A), 1 / A)).value, rel=1e-12)
    greedy = target.argmax(axis=1)
    assert evaluate(log, lambda s: greedy[s]).value == pytest.approx(evaluate(log, np.eye(A)[greedy]).value, rel=1e-12)


def test_rows_of_the_log_have_the_probabilities_of_the_next_observation(world):
    """Without a column of next observations these are rows of the table, the last of a cut episode among them."""
    log, target = sampled(world), world[4]
    plain = {name: column for name, column in log.items() if name != "next_obs"}
    wanted = evaluate(plain, target)
    assert wanted.steps < len(log["obs"])
    assert evaluate(plain, target[plain["obs"]]).value == pytest.approx(wanted.value, rel=1e-8)
    names = [f"pi_{a}" for a in range(A)]
    columns = plain | dict(zip(names, target[plain["obs"]].T, strict=True))
    assert evaluate(columns, names).value == pytest.approx(wanted.value, rel=1e-8)


def test_pairs_that_the_log_never_took_are_counted_and_refused(world):
    log = sampled(world)
    kept = ~((log["obs"] == 1) & (log["action"] == 2))
    for name in log:
        log[name] = log[name][kept]
    log["episode"] = np.cumsum(np.r_[True, log["episode"][1:] != log["episode"][:-1]]) - 1
    log["t"] = np.arange(len(log["t"]))
    del log["t"]
    target = np.full((S, A), 1 / A)
    target[1] = [0.05, 0.05, 0.9]
    found = evaluate(log, target)
    goes_on = ~log["terminated"]
    first = np.r_[True, log["episode"][1:] != log["episode"][:-1]]
    share = (0.9 * (log["next_obs"][goes_on] == 1).sum() + 0.9 * (log["obs"][first] == 1).sum()) / (
        goes_on.sum() + first.sum()
    )
    assert found.diagnostics.never_taken == pytest.approx(share)
    assert found.diagnostics.never_taken_effect > 0.5
    assert found.verdict == "not usable"
    assert any("depends on actions that the log never took" in reason for reason in found.reasons)
    assert evaluate(log, np.full((S, A), 1 / A)).diagnostics.never_taken > 0


def test_actions_that_no_row_has_are_refused(world):
    found = evaluate(sampled(world), np.c_[world[4] * 0.5, np.full(S, 0.5)])
    assert found.diagnostics.unseen_mass == pytest.approx(0.5)
    assert found.verdict == "not usable"


def test_a_function_of_pairs_is_checked_by_a_feature_for_every_pair(world):
    log, target = sampled(world), world[4]
    every = lambda s, a: np.eye(S * A)[np.asarray(s) * A + np.asarray(a)]  # noqa: E731
    assert evaluate(log, target, inference=gradtd.Inference(action_features=every)).value == pytest.approx(
        evaluate(log, target).value, rel=1e-9
    )
    poor = evaluate(
        log,
        target,
        algorithm="auto",
        inference=gradtd.Inference(action_features=lambda s, a: np.c_[np.ones(len(s)), np.asarray(a)]),
    )
    rows = {row.name: row for row in poor.checks if row.kind == "rung"}
    assert rows["the features given"].columns == 2
    assert rows["a feature per pair"].value == pytest.approx(evaluate(log, target).value, rel=1e-6)
    assert poor.verdict != "usable" or poor.interval[0] < rows["a feature per pair"].value < poor.interval[1]


def test_a_map_of_discrete_actions(world):
    found = evaluate(sampled(world), world[4], inference=gradtd.Inference(action_features="identity"))
    assert found.features.n_features == S * 2
    assert "times 2 features of the action" in found.features.describe()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "hyper"), [("impression_gtd", {}), ("expected_gtd", {"alpha": 0.02}), ("tdrc", {"alpha": 0.003})]
)
def test_rules_of_the_library_run_on_it(world, rule, hyper):
    log = sampled(world)
    found = gradtd.evaluate(
        log,
        gamma=GAMMA,
        target=world[4],
        value_function="action",
        algorithm=rule,
        machine=gradtd.Machine(threads=1),
        **hyper,
    )
    wanted = evaluate(log, world[4])
    assert found.value == pytest.approx(wanted.value, abs=wanted.diagnostics.sandwich_error)


def test_the_behaviour_beside_it_has_values_of_observations(world):
    found = gradtd.evaluate(
        sampled(world), gamma=GAMMA, target={"new": world[4], "old": "behaviour"}, value_function="action", **FAST
    )
    assert found["old"].diagnostics.values is None
    (row,) = found.compare().differences
    truth = exact(*world[:3], world[4], GAMMA)[0] - exact(*world[:3], world[3], GAMMA)[0]
    assert row.low - 0.2 < truth < row.high + 0.2


def test_no_estimates_that_need_ratios_stand_beside_it(world):
    found = evaluate(sampled(world), world[4], algorithm="auto", resamples=20)
    assert {row.method for row in found.estimates} <= {"auto", "lstd", "drl"}


def test_it_is_kept_with_its_features(world, tmp_path):
    found = evaluate(sampled(world), world[4])
    kept = gradtd.load_evaluation(found.save(tmp_path / "it.npz"))
    assert np.array_equal(kept([0, 1], [2, 0]), found([0, 1], [2, 0]))
    assert kept.verdict == found.verdict
    with pytest.raises(InputError, match="give both"):
        kept([0, 1])
    with pytest.raises(InputError, match="must be 0 to 2"):
        kept([0], [3])
    state = gradtd.evaluate(sampled(world), gamma=GAMMA, target="behaviour", **FAST)
    with pytest.raises(InputError, match="leave the actions out"):
        state([0], [1])


# Real observations and real actions


def tracking(episodes=200, seed=0, length=8, noise=0.6):
    """s' = 0.8 s + a + noise, reward -(s + a)^2: the target a = -0.5 s is deterministic."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        s = rng.normal()
        for t in range(length):
            a = -0.4 * s + noise * rng.normal()
            after = 0.8 * s + a + 0.3 * rng.normal()
            rows.append((e, t, s, after, a, -((s + a) ** 2), False, t == length - 1))
            s = after
    names = ("episode", "t", "obs", "next_obs", "action", "reward", "terminated", "truncated")
    made = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    return made | {name: made[name][:, None] for name in ("obs", "next_obs")}


def tracked(gamma=0.9, gain=0.5, spread=0.0):
    """The value of a = -gain s + spread noise from s ~ N(0, 1): quadratic, v = p s^2 + q."""
    c, left = 0.8 - gain, 1 - gain
    p = -(left**2) / (1 - gamma * c**2)
    q = (-(spread**2) + gamma * p * (spread**2 + 0.09)) / (1 - gamma)
    return p + q


def test_a_deterministic_target_over_real_actions():
    asked = {"gamma": 0.9, "target": lambda s: -0.5 * s[:, 0], "values": "action", "threads": 1}
    found = gradtd.evaluate(tracking(), features="polynomial:order=2", **asked)
    assert found.interval[0] < tracked() < found.interval[1]
    assert found.value == pytest.approx(tracked(), abs=3 * found.diagnostics.sandwich_error)
    assert found.diagnostics.outside_range < 0.05
    chosen = gradtd.evaluate(tracking(), **asked)
    assert chosen.interval[0] < tracked() < chosen.interval[1]
    assert chosen.verdict == "usable"


def test_a_random_target_over_real_actions_by_samples():
    def target(s, rng):
        return -0.5 * s[:, 0] + 0.2 * rng.normal(size=len(s))

    asked = {"gamma": 0.9, "target": target, "values": "action", "features": "polynomial:order=2", **FAST}
    found = gradtd.evaluate(tracking(), inference=gradtd.Inference(action_samples=40), **asked)
    low, high = found.diagnostics.hull_low, found.diagnostics.hull_high
    assert low < tracked(spread=0.2) < high
    assert gradtd.evaluate(tracking(), inference=gradtd.Inference(action_samples=40), **asked).value == found.value
    assert (
        gradtd.evaluate(tracking(), seed=1, inference=gradtd.Inference(action_samples=40), **asked).value != found.value
    )


def test_real_actions_with_a_function_of_pairs():
    def features(s, a):
        x, u = s[:, 0], np.asarray(a).reshape(len(s))
        return np.c_[np.ones(len(s)), x * x, x * u, u * u]

    found = gradtd.evaluate(
        tracking(),
        gamma=0.9,
        target=lambda s: -0.5 * s[:, 0],
        value_function="action",
        inference=gradtd.Inference(action_features=features),
        machine=gradtd.Machine(threads=1),
    )
    assert found.interval[0] < tracked() < found.interval[1]


def test_actions_beyond_those_of_the_log_are_refused():
    found = gradtd.evaluate(tracking(), gamma=0.9, target=lambda s: 0 * s[:, 0] + 9, value_function="action", **FAST)
    assert found.diagnostics.outside_range == 1
    assert found.verdict == "not usable"
    assert any("outside the range of the log's" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        (None, {}, "needs the target's probabilities of every action"),
        (np.ones(3), {}, "needs one probability or action per step"),
        ("uniform", {"clip": 2.0}, "so clip has no effect"),
        ("uniform", {"algorithm": "dr"}, "does not use ratios, but dr does"),
        ("uniform", {"clip": 2.0, "lam": 0.5, "trace": "tree"}, "so clip has no effect"),
        ("uniform", {"lam": 0.5}, "choose trace='tree', which needs only the target's probabilities"),
        ("uniform", {"lam": 0.5, "trace": "clipped"}, "needs the behaviour's probability of every action"),
        ("uniform", {"samples": 0}, "samples must be at least 1"),
        ("uniform", {"values": "both"}, "value_function must be one of auto, state, action"),
        ("uniform", {"values": "state", "action_features": "identity"}, "add value_function='action'"),
        ("uniform", {"action_features": lambda s, a: np.ones(3)}, "does not return features"),
    ],
)
def test_refusals(world, target, options, sentence):
    with pytest.raises(InputError, match=sentence):
        gradtd.evaluate(sampled(world, 30), gamma=GAMMA, target=target, **{**FAST, "values": "action", **options})


def traced_case(world, seed=0, episodes=80):
    """A log with the behaviour's probabilities, its ratios, and the target's probability of every action taken."""
    log = sampled(world, episodes, seed)
    at = (log["obs"], log["action"])
    log["action_prob"] = world[3][at]
    return log, world[4][at] / world[3][at], world[4][at]


@pytest.mark.parametrize("kind", ["tree", "clipped"])
def test_traces_are_lstdq_with_the_share_of_this_very_action(world, kind):
    """Richer by nothing but the trace: the same number as the loops, and their sandwich error."""
    log, rho, chance = traced_case(world)
    share = {"tree": chance, "clipped": np.minimum(rho, 1)}[kind]
    base = np.random.default_rng(9).normal(size=(S, 2))
    value, theta, error = lstdq(log, GAMMA, base, world[4], 0.7, share)
    if kind == "tree":
        del log["action_prob"]  # nobody wrote down probabilities
    found = evaluate(
        log, world[4], features=lambda s: base[np.asarray(s)], inference=gradtd.Inference(lam=0.7, trace=kind)
    )
    assert found.value == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-6)
    assert found.diagnostics.sandwich_error == pytest.approx(error, rel=1e-8)
    plain = lstdq(log, GAMMA, base, world[4])[0]
    assert next(row.value for row in found.estimates if row.method == "lstd_without_traces") == pytest.approx(plain)
    assert abs(plain - value) > 1e-3


@pytest.mark.slow
def test_with_traces_and_a_feature_for_every_pair_the_truth_is_inside(world):
    """10 logs at 95 %: fewer than 7 inside has a chance of 0.1 %."""
    truth, _ = exact(world[0], world[1], world[2], world[4], GAMMA)
    inside = usable = 0
    for seed in range(10):
        found = evaluate(
            sampled(world, 200, seed + 40),
            world[4],
            algorithm="auto",
            inference=gradtd.Inference(lam=0.8, trace="tree"),
        )
        inside += found.interval[0] < truth < found.interval[1]
        usable += found.verdict == "usable"
    assert inside >= 7
    assert usable >= 6


@pytest.mark.slow
def test_a_rule_with_traces_gets_there(world):
    log, _, _ = traced_case(world, episodes=200)
    found = evaluate(
        log, world[4], algorithm="impression_gtd", inference=gradtd.Inference(resamples=None, lam=0.5, trace="tree")
    )
    assert found.value == pytest.approx(
        evaluate(log, world[4], inference=gradtd.Inference(lam=0.5, trace="tree")).value, abs=0.02
    )


def test_traces_beside_the_behaviours_own_value(world):
    log, _, _ = traced_case(world)
    found = gradtd.evaluate(
        log,
        gamma=GAMMA,
        target={"new": world[4], "old": "behaviour"},
        value_function="action",
        inference=gradtd.Inference(lam=0.5, trace="tree"),
        **FAST,
    )
    own = gradtd.evaluate(log, gamma=GAMMA, target="behaviour", inference=gradtd.Inference(lam=0.5), **FAST)
    assert found["old"].value == pytest.approx(own.value, rel=1e-12)
    assert found["new"].value == pytest.approx(
        evaluate(log, world[4], inference=gradtd.Inference(lam=0.5, trace="tree")).value, rel=1e-12
    )


def test_what_was_never_taken_is_judged_with_the_same_traces(world):
    """The value without those choices by the loops, with the traces that the value itself has."""
    log, _, chance = traced_case(world, episodes=60)
    kept = ~((log["obs"] == 1) & (log["action"] == 2))
    log, chance = {name: column[kept] for name, column in log.items() if name != "t"}, chance[kept]
    log["episode"] = np.cumsum(np.r_[True, log["episode"][1:] != log["episode"][:-1]]) - 1
    found = evaluate(log, world[4], inference=gradtd.Inference(lam=0.6, trace="tree"))
    other = world[4].copy()
    other[1] = [*other[1, :2] / other[1, :2].sum(), 0.0]
    effect = abs(lstdq(log, GAMMA, np.eye(S), other, 0.6, chance)[0] - found.value)
    assert found.diagnostics.never_taken_effect == pytest.approx(effect / found.diagnostics.sandwich_error, rel=1e-6)


def test_next_observations_that_are_no_rows_need_probabilities_of_their_own(world):
    log = sampled(world, 30)
    with pytest.raises(InputError, match=r"next observations are not rows of it.*Probabilities\(now, after\)"):
        evaluate(log, world[4][log["obs"]])


def test_traces_over_real_actions_are_refused():
    with pytest.raises(InputError, match=r"for continuous actions.*Leave lam out"):
        gradtd.evaluate(
            tracking(),
            gamma=0.9,
            target=lambda s: -s[:, 0],
            value_function="action",
            inference=gradtd.Inference(lam=0.5, trace="tree"),
        )


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("uniform", "actions are continuous: with value_function='action' give the target"),
        (lambda s: np.zeros((len(s), 2)), "must return one action per observation"),
        (lambda s: np.full(len(s), np.nan), "must be finite"),
    ],
)
def test_refusals_of_real_actions(target, sentence):
    with pytest.raises(InputError, match=sentence):
        gradtd.evaluate(tracking(30), gamma=0.9, target=target, value_function="action", **FAST)


def test_a_log_without_actions_is_refused(world):
    log = sampled(world, 30)
    del log["action"]
    with pytest.raises(InputError, match="needs the log's actions"):
        evaluate(log, world[4])


def test_many_actions_without_checks_are_told_so():
    """A feature for every action of every cosine: too many for richer fits, so the default features stand unchecked."""
    n, actions = 200, 100
    rng = np.random.default_rng(0)
    log = {"obs": rng.normal(size=(n, 1)), "action": np.arange(n) % actions, "reward": rng.normal(size=n)}
    log |= {"episode": np.arange(n), "terminated": np.ones(n, bool)}
    found = evaluate(log, lambda x: np.full((len(x), actions), 1 / actions))
    assert "features of pairs are too many for a check" in found.diagnostics.not_checked
    assert found.verdict != "usable"
    assert "too many for a check" in str(found)
