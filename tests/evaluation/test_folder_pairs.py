"""What `evaluate` says of values of actions in parts: what it says in memory, of states and of real numbers."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gradtd
from gradtd.evaluation import part_sums

pytestmark = pytest.mark.usefixtures("small_parts")
EPISODES, ACTIONS = 125, 3


def made(kind, ids, seed=0):
    """Episodes of 2 to 20 steps; a state, or two real numbers, that the action moves; some are cut off."""
    rng = np.random.default_rng(seed)
    length = rng.integers(2, 21, EPISODES)
    n, ends = int(length.sum()), np.cumsum(length) - 1
    last = np.zeros(n, bool)
    last[ends] = True
    cut = last & np.repeat(rng.random(EPISODES) < 0.2, length)
    action = rng.integers(0, ACTIONS, n)
    real = rng.uniform(-1, 1, n)
    seen = np.zeros((n, 2))
    for t in range(1, n):
        moved = (real[t - 1] if kind == "real actions" else action[t - 1] - 1) * 0.5
        seen[t] = 0.0 if last[t - 1] else 0.8 * seen[t - 1] + moved
        seen[t] += 0.3 * rng.standard_normal(2)
    columns = {"episode": np.repeat(ids, length), "terminated": last & ~cut, "truncated": cut}
    columns["action"] = real if kind == "real actions" else action
    if kind == "states":
        columns["obs"] = np.clip(np.round(3 * seen[:, 0]), -4, 4).astype(int) * 2 + 11
        rare = (columns["obs"] == 19) & (action == 2)
        columns["action"] = np.where(rare, 1, action)  # never taken there
    else:
        columns |= {"obs_0": seen[:, 0], "obs_1": seen[:, 1]}
    columns["reward"] = seen[:, 0] + columns["action"] + rng.standard_normal(n)
    columns |= {f"pi_{a}": np.full(n, (a + 1) / 6) for a in range(ACTIONS)}
    return pa.table(columns)


def leaning(observations):
    """A policy that prefers one action the more, the larger the observation is."""
    x = np.asarray(observations, float).reshape(len(observations), -1)[:, 0] / 10
    up = 1 / (1 + np.exp(-x))
    return np.c_[0.5 * (1 - up), np.full(len(x), 0.5), 0.5 * up]


def steering(observations):
    """A policy of real actions."""
    return np.tanh(np.asarray(observations)[:, 0]) * 0.8


@pytest.fixture(scope="module")
def paths(ids_apart, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    found = {}
    for kind in ("states", "real observations", "real actions"):
        found[kind] = folder / f"{kind}.parquet"
        groups = {} if kind == "states" else {"groups": EPISODES}
        pq.write_table(made(kind, ids_apart(EPISODES, **groups)), found[kind], row_group_size=700)
    return found


def _evaluate(log, target, **more):
    given = {"in_parts": True, "progress": False, "threads": 1, "values": "action"} | more
    return gradtd.evaluate(str(log), gamma=0.9, target=target, **given)


@pytest.mark.parametrize("target", [leaning, "uniform"])
def test_of_states_they_are_what_they_are_in_memory(paths, evaluate_both, target):
    """All fits of the checks, too, and what is said of pairs that the log never took."""
    ours, memory = evaluate_both(paths["states"], target=target, values="action")
    assert ours.value == pytest.approx(memory.value, rel=1e-9)
    assert ours.interval == pytest.approx(memory.interval, rel=1e-7)
    assert (ours.verdict, ours.steps, ours.episodes) == (memory.verdict, memory.steps, memory.episodes)
    s, a = np.repeat([3, 9, 11, 19], ACTIONS), np.tile(np.arange(ACTIONS), 4)
    np.testing.assert_allclose(ours(s, a), memory(s, a), rtol=1e-7, atol=1e-9)
    exact = ("never_taken", "never_taken_effect", "ess_marginal", "sandwich_error", "unseen_mass")
    for name in (*exact, "features_used", "lacking", "ess_marginal_episodes"):
        assert ours.numbers.get(name) == pytest.approx(memory.numbers.get(name), rel=1e-6, abs=1e-12), name
    assert 0 < ours.numbers["never_taken"] < 0.2
    found, other = ({(check.kind, check.name): check for check in one.checks} for one in (ours, memory))
    assert set(found) == set(other)
    for key, check in found.items():
        assert (check.value, check.low) == pytest.approx((other[key].value, other[key].low), rel=1e-5), key


@pytest.mark.parametrize(
    ("kind", "target", "more"),
    [
        ("real observations", leaning, {}),
        ("real observations", ["pi_0", "pi_1", "pi_2"], {}),
        ("real observations", leaning, {"action_features": "polynomial:order=2"}),
        ("real actions", steering, {}),
    ],
)
def test_of_real_numbers_they_are_what_they_are_in_memory(paths, evaluate_both, monkeypatch, kind, target, more):
    """Given the same features of observations: the value, its error, the values of pairs."""
    for name in ("FEWEST_GROUPS", "MOST_GROUPS"):
        monkeypatch.setattr(part_sums, name, EPISODES)
    path = paths[kind]
    known = gradtd.make_features("polynomial:order=2").fit(gradtd.read_log(str(path)).observations)
    if kind == "real actions":
        more = {"action_features": gradtd.make_features("polynomial:order=2").fit(np.array([[-1.0], [1.0]]))}
    ours, memory = evaluate_both(path, target=target, values="action", features=known, **more)
    assert ours.value == pytest.approx(memory.value, rel=1e-8)
    assert ours.diagnostics.sandwich_error == pytest.approx(memory.diagnostics.sandwich_error, rel=1e-6)
    assert ours.features.n_features == memory.features.n_features
    assert ours.numbers.get("unseen_mass") == pytest.approx(memory.numbers.get("unseen_mass"))
    pairs = np.array([[0.3, -0.1], [-1.0, 0.4]]), np.array([0, 1] if kind != "real actions" else [[0.3], [-0.2]])
    np.testing.assert_allclose(ours(*pairs), memory(*pairs), rtol=1e-6)
    for name in ("ess_marginal", "ess_marginal_episodes", "beyond_cuts", "refit_bias", "lacking"):
        assert ours.numbers[name] == pytest.approx(memory.numbers[name], rel=1e-6), name
    found, other = ({(check.kind, check.name): check for check in one.checks} for one in (ours, memory))
    for key in (("rung", "the features given"), ("memory", "the features given"), ("time", "the features given")):
        assert found[key].value == pytest.approx(other[key].value, rel=1e-5), key


@pytest.mark.parametrize("kind", ["states", "real observations"])
def test_the_behaviours_own_value_is_the_mean_return(paths, tmp_path, evaluate_both, same_behaviour, monkeypatch, kind):
    """As in memory: of logs whose episodes all terminated; others have none."""
    for name in ("FEWEST_GROUPS", "MOST_GROUPS"):
        monkeypatch.setattr(part_sums, name, part_sums.MOST_GROUPS if kind == "states" else EPISODES)
    table = pq.read_table(paths[kind])
    ends = pa.array(np.logical_or(table["terminated"].to_numpy(), table["truncated"].to_numpy()))
    pq.write_table(table.drop_columns("truncated").set_column(1, "terminated", ends), tmp_path / "log.parquet")
    features = None if kind == "states" else "identity"
    given = {"target": leaning, "value_function": "action", "features": features}
    ours, memory = evaluate_both(tmp_path / "log.parquet", **given)
    if kind == "states":
        same_behaviour(ours, memory)
    assert ours.behaviour.value == pytest.approx(memory.behaviour.value, rel=1e-9)
    assert ours.behaviour.low == pytest.approx(memory.behaviour.low, rel=1e-6)
    assert evaluate_both(paths[kind], **given)[0].behaviour is None


def test_neither_order_nor_cuts_matter(paths, tmp_path):
    """And features that are chosen, of real observations; the same bytes for two threads."""
    table = pq.read_table(paths["real observations"])
    ids = table["episode"].to_numpy()
    order = np.random.default_rng(1).permutation(np.unique(ids))
    other = pa.concat_tables([table.filter(pa.array(ids == one)) for one in order])
    for k, (low, high) in enumerate([(0, 434), (434, 435), (435, len(table))]):
        pq.write_table(other.slice(low, high - low), tmp_path / f"part-{k}.parquet", row_group_size=333)
    whole, cut = _evaluate(paths["real observations"], leaning), _evaluate(tmp_path, leaning)
    assert cut.value == pytest.approx(whole.value, rel=1e-9)
    assert cut.interval == pytest.approx(whole.interval, rel=1e-7)
    assert cut.verdict == whole.verdict
    assert cut.to_dict() == _evaluate(tmp_path, leaning, threads=2).to_dict()


def test_targets_are_compared_and_the_behaviour_keeps_values_of_observations(paths):
    found = gradtd.evaluate(
        str(paths["states"]),
        gamma=0.9,
        target={"leaning": leaning, "own": "behaviour"},
        value_function="action",
        progress=False,
        machine=gradtd.Machine(in_parts=True, threads=1),
    )
    assert found["own"].numbers.get("values") is None
    assert found["leaning"].numbers["values"] == "action"
    assert found["leaning"].theta.shape == (found["leaning"].features.n_features,)


def test_what_cannot_be_done_in_parts_is_said(paths, tmp_path):
    table = pq.read_table(paths["states"])
    text = table.set_column(3, "action", pa.array(np.array(["a", "b", "c"])[table["action"].to_numpy()]))
    pq.write_table(text, tmp_path / "text.parquet")
    bare = tmp_path / "bare.parquet"
    pq.write_table(table, bare, write_statistics=False)
    states, real, acts = (paths[kind] for kind in ("states", "real observations", "real actions"))
    refused = [
        (states, "pi_0", {}, "probabilities of every action"),
        (states, ["pi_0", "pi_1", "pi_2"], {}, "need a target that is a function of the state"),
        (states, leaning, {"lam": 0.5, "trace": "tree"}, "need the log in memory"),
        (
            real,
            leaning,
            {"action_features": lambda s, a: s},
            "action_features as a function of observations",
        ),
        (
            acts,
            lambda s, rng: rng.normal(size=len(s)),
            {},
            "a target that samples continuous actions needs the log",
        ),
        (real, leaning, {"features": "rbf:n=400"}, "at most 1000 features"),
        (states, leaning, {"features": "polynomial:order=2"}, "need one feature per state"),
        (tmp_path / "text.parquet", leaning, {}, "actions that are numbered 0, 1, ..., got labels such as 'a'"),
        (bare, leaning, {}, "have no statistics of it"),
    ]
    for log, target, more, sentence in refused:
        with pytest.raises(gradtd.InputError, match=sentence.replace(".", r"\.")):
            _evaluate(log, target, **more)
