"""`improve` with real actions: bins, the policy over them, its judged value, and the policy as a target."""

import numpy as np
import pytest

import gradtd
from gradtd.improvement.action_bins import make_bins

BANDIT = gradtd.LogFormat(one_step=True)
WANTED = np.array([-0.8, 0.0, 0.9])


def real_bandit(seed, n=900, slope=1.0):
    """Three states; the behaviour draws around a state's own centre, and rewards fall with the distance to WANTED."""
    rng = np.random.default_rng(seed)
    state = rng.integers(3, size=n)
    action = rng.normal(0.2 * (state - 1), 0.7)
    reward = -slope * (action - WANTED[state]) ** 2 + rng.normal(0, 0.3, n)
    return {"obs": state, "action": action, "reward": reward}


def true_gain(policy, slope=1.0):
    """Of the policy that draws inside a bin as the behaviour does, from 200,000 draws of the behaviour in a state."""
    gain = []
    for state in range(3):
        action = np.random.default_rng(state).normal(0.2 * (state - 1), 0.7, 200_000)
        reward = -slope * (action - WANTED[state]) ** 2
        bin_of = np.searchsorted(policy.bins.edges, action, side="right")
        mean = np.bincount(bin_of, reward) / np.bincount(bin_of)
        gain.append(policy([state])[0] @ mean - reward.mean())
    return float(np.mean(gain))


def improved(columns, **more):
    return gradtd.improve(columns, 1.0, log_format=BANDIT, progress=False, **more)


def test_bins_have_equal_shares_and_every_action_has_its_bin():
    log = gradtd.read_log(real_bandit(0), one_step=True)
    bins = make_bins(log, 4)
    binned = bins.of(log)
    np.testing.assert_allclose(np.bincount(binned.action) / len(log), 0.25, atol=0.01)
    low, high = np.r_[-np.inf, bins.edges], np.r_[bins.edges, np.inf]
    assert ((log.action >= low[binned.action]) & (log.action < high[binned.action])).all()
    assert binned.behaviour is None
    assert (binned.reward == log.reward).all()


def test_actions_at_a_bound_share_a_bin():
    """A clipped action has many copies of one number, which quantiles would repeat as edges."""
    columns = real_bandit(0)
    columns["action"] = np.clip(columns["action"], -0.3, 0.3)
    bins = make_bins(gradtd.read_log(columns, one_step=True), 5)
    assert (np.diff(bins.edges) > 0).all()
    assert bins.edges.min() > -0.3
    assert bins.edges.max() == 0.3


def test_a_better_policy_chooses_the_bin_that_pays():
    found = improved(real_bandit(1), bins=[-0.4, 0.4])
    assert found.better
    assert found.policy([0, 1, 2]).argmax(axis=1).tolist() == [0, 1, 2]
    assert found.difference.low < true_gain(found.policy) < found.difference.high
    assert found.changes[0].more in ("below -0.4", "-0.4 to 0.4", "from 0.4")
    drawn = found.policy.act(np.repeat([0, 2], 500), np.random.default_rng(0))
    assert (drawn[:500] < -0.4).mean() > 0.8
    assert (drawn[500:] > 0.4).mean() > 0.8
    assert len(np.unique(drawn)) > 900


def test_real_observations_and_real_actions():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (1500, 1))
    action = rng.normal(0, 0.6, 1500)
    columns = {"obs_0": x[:, 0], "obs_1": rng.normal(size=1500), "action": action}
    columns["reward"] = -((action - np.sign(x[:, 0])) ** 2) + rng.normal(0, 0.3, 1500)
    found = improved(columns, bins=3, features="fourier:order=1", least=20)
    assert found.better
    best = found.policy(np.array([[-0.8, 0.0], [0.8, 0.0]])).argmax(axis=1)
    assert best.tolist() == [0, 2]


def test_saved_and_evaluated_on_another_log(tmp_path):
    found = improved(real_bandit(2))
    again = gradtd.load_policy(found.policy.save(tmp_path / "policy.npz"))
    assert (again([0, 1, 2]) == found.policy([0, 1, 2])).all()
    drawn = [one.act(np.zeros(50, int), np.random.default_rng(3)) for one in (again, found.policy)]
    assert (drawn[0] == drawn[1]).all()
    other = real_bandit(3)
    made = gradtd.evaluate(other, {"new": again, "behaviour": "behaviour"}, 1.0, log_format=BANDIT, progress=False)
    (row,) = made.compare("behaviour").differences
    assert row.low < true_gain(again) < row.high
    assert row.low > 0
    both = {"one": again, "two": improved(other, bins=3).policy}
    with pytest.raises(gradtd.InputError, match="different bins"):
        gradtd.evaluate(other, both, 1.0, log_format=BANDIT, progress=False)


def test_changed_bins_of_a_file_are_refused(tmp_path):
    from gradtd.core.files import read_arrays, write_arrays

    path = improved(real_bandit(2)).policy.save(tmp_path / "policy.npz")
    header, arrays = read_arrays(path)
    write_arrays(path, arrays | {"bins.edges": arrays["bins.edges"][::-1].copy()}, header)
    with pytest.raises(gradtd.InputError, match="damaged"):
        gradtd.load_policy(path)


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        (1, "bins must be between 2 and 100"),
        ([], "bins needs edges in increasing order"),
        ([0.5, 0.1], "bins needs edges in increasing order"),
        ([0.0, 99.0], "has no action in bin 2"),
    ],
)
def test_bins_that_are_refused(bins, message):
    with pytest.raises(gradtd.InputError, match=message):
        improved(real_bandit(0, n=200), bins=bins)


def test_actions_that_cannot_be_binned_are_refused():
    columns = real_bandit(0, n=200)
    with pytest.raises(gradtd.InputError, match="an action of arrays has 2 numbers"):
        improved(columns | {"action": np.stack([columns["action"]] * 2, axis=1)})


@pytest.mark.slow
def test_differences_hold_and_nothing_is_found_where_nothing_is_better():
    """95 % intervals of 60 logs: fewer than 52 that hold have a chance of 1 %; 5 of 60 false finds one of 1.5 %."""
    holds = []
    for seed in range(60):
        found = improved(real_bandit(seed, 400, slope=0.3), threads=1)
        if found.difference is not None and found.difference.low is not None:
            holds.append(found.difference.low <= true_gain(found.policy, 0.3) <= found.difference.high)
    assert len(holds) > 50
    assert np.mean(holds) > 0.86
    false = [improved(real_bandit(seed, 400, slope=0.0), threads=1).better for seed in range(60)]
    assert sum(false) < 5
