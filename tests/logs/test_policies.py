"""Policies of many kinds: each works, or is refused with the line that would work. Messages stand in messages.txt."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gradtd
from gradtd.core.checks import InputError
from gradtd.logs import ratios, read_log
from gradtd.logs.policies import several
from logs.test_careless import ACTION, BEST, OBS, WORDS, N, clean, frame, golden, policy, softmax

pd = pytest.importorskip("pandas")
linear_model = pytest.importorskip("sklearn.linear_model")

LOG = read_log(clean())
NAMED = read_log(frame(action=WORDS[ACTION]), actions=list(WORDS))
STATES = np.arange(N) % 4
TABLE = np.array([[0.2, 0.3, 0.5], [1.0, 0, 0], [0, 0.5, 0.5], [0.1, 0.1, 0.8]])
OF_STATES = read_log(clean(obs_0=None, obs_1=None, obs=STATES))
OF_TEXT = read_log(clean(obs_0=None, obs_1=None, obs=np.array(list("abcd"))[STATES]))
REAL = read_log(clean(action=OBS[:, 0] + 0.5 * ACTION))
STOCHASTIC, GREEDY = ratios(LOG, policy).rho, ratios(LOG, np.eye(3)[BEST]).rho


class Tensor:
    """As much of torch.Tensor as is needed."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def to(self, dtype, device=None):
        return Tensor(self.values.astype(dtype))

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values

    def exp(self):
        return Tensor(np.exp(self.values))


@pytest.fixture
def torch(monkeypatch):
    """Stands in for torch, which is never imported."""
    made = ModuleType("torch")
    made.as_tensor, made.no_grad, made.int64, made.float32 = Tensor, nullcontext, np.int64, np.float32
    monkeypatch.setitem(sys.modules, "torch", made)


class Network:
    __module__ = "torch.nn.modules.module"
    training = True

    def __init__(self, act):
        self.act, self.seen = act, []

    def parameters(self):
        return iter([SimpleNamespace(dtype=np.float32, device="cpu")])

    def eval(self):
        self.training = False

    def train(self, mode):
        self.training = mode

    def __call__(self, seen):
        assert isinstance(seen, Tensor)
        assert not self.training
        return Tensor(self.act(seen.numpy()))


class Agent:
    """An agent of Stable-Baselines3."""

    def __init__(self, probabilities=None, density=None):
        def distribution(seen):
            found = SimpleNamespace(log_prob=lambda acts: Tensor(np.log(density(seen.numpy(), acts.numpy()))))
            found.distribution = SimpleNamespace() if density else SimpleNamespace(probs=Tensor(policy(seen.numpy())))
            return found

        self.policy = SimpleNamespace(obs_to_tensor=lambda seen: (Tensor(seen), True))
        if probabilities or density:
            self.policy.get_distribution = distribution

    def predict(self, seen, deterministic=False):
        assert deterministic
        return policy(seen).argmax(axis=1), None


class Algorithm:
    """An algorithm of d3rlpy."""

    def predict(self, seen):
        assert seen.dtype == np.float32
        return policy(seen).argmax(axis=1)


def classifier(columns=None, labels=None):
    x = OBS if columns is None else pd.DataFrame({"obs_0": OBS[:, 0], "obs_1": OBS[:, 1]})[columns]
    return linear_model.LogisticRegression().fit(x, ACTION if labels is None else labels)


def one_state(row):
    return int(softmax(row[None] @ gradtd_scores())[0].argmax())


def gradtd_scores():
    from logs.test_careless import SCORES

    return SCORES[1]


WORKING = {
    "a function of all observations": (LOG, policy, STOCHASTIC),
    "a function that returns actions": (LOG, lambda s: policy(s).argmax(axis=1), GREEDY),
    "a function that returns actions as floats": (LOG, lambda s: policy(s).argmax(axis=1) * 1.0, GREEDY),
    "a function that returns a list": (LOG, lambda s: policy(s).tolist(), STOCHASTIC),
    "a function that returns a frame": (
        NAMED,
        lambda s: pd.DataFrame(policy(s), columns=WORDS)[["low", "none", "high"]],
        STOCHASTIC,
    ),
    "a function that returns labels": (NAMED, lambda s: list(WORDS[policy(s).argmax(axis=1)]), GREEDY),
    "a function of one observation, an action": (LOG, one_state, GREEDY),
    "a function of one observation, probabilities": (LOG, lambda s: policy(s[None])[0].tolist(), STOCHASTIC),
    "a function of one observation, a dictionary": (
        NAMED,
        lambda s: dict(zip(WORDS, policy(s.reshape(1, 2))[0], strict=True)),
        STOCHASTIC,
    ),
    "a function that writes to its observations": (LOG, lambda s: policy(np.multiply(s, 1, out=s)), STOCHASTIC),
    "a dictionary of actions": (OF_STATES, {0: 2, 1: 0, 2: 1, 3: 2}, TABLE.argmax(axis=1)),
    "a dictionary of probabilities": (OF_STATES, dict(enumerate(TABLE.tolist())), TABLE),
    "a dictionary of dictionaries": (OF_STATES, {k: dict(enumerate(TABLE[k])) for k in range(4)}, TABLE),
    "a dictionary of texts": ("text", dict(zip("abcd", TABLE.tolist(), strict=True)), TABLE),
    "one action": (OF_STATES, 1, np.ones(4, int)),
    "one label": (NAMED, "high", np.eye(3)[np.full(N, 2)]),
    "a table": (OF_STATES, TABLE, TABLE),
    "an agent with probabilities": (LOG, Agent(probabilities=True), STOCHASTIC),
    "an agent with a best action": (LOG, Agent(), GREEDY),
    "an algorithm of d3rlpy": (LOG, Algorithm(), GREEDY),
    "a network that ends in a softmax": (LOG, Network(policy), STOCHASTIC),
    "a function that returns a distribution": (LOG, lambda s: SimpleNamespace(probs=Tensor(policy(s))), STOCHASTIC),
}


@pytest.mark.parametrize("name", WORKING)
@pytest.mark.usefixtures("torch")
def test_policies_that_work(name):
    log, given, wanted = WORKING[name]
    if isinstance(log, str):
        log = OF_TEXT
    if wanted.ndim == 2 and len(wanted) == N:
        wanted = wanted[np.arange(N), ACTION] / log.behaviour
    elif len(wanted) == 4:
        chances = TABLE if wanted is TABLE else np.eye(3)[wanted]
        wanted = chances[STATES, ACTION] / log.behaviour
    before = log.observations.copy()
    np.testing.assert_allclose(ratios(log, given).rho, wanted, rtol=1e-5)
    assert np.array_equal(log.observations, before)


def test_a_classifier_by_columns_and_by_labels():
    wanted = classifier().predict_proba(OBS)[np.arange(N), ACTION] / LOG.behaviour
    for given, log in (
        (classifier(), LOG),
        (classifier(["obs_1", "obs_0"]), LOG),  # by name, whatever the order
        (classifier(labels=WORDS[ACTION]), NAMED),  # its classes are in alphabetical order
    ):
        np.testing.assert_allclose(ratios(log, given).rho, wanted, rtol=1e-4)
    ridge = linear_model.RidgeClassifier().fit(OBS, ACTION)
    chosen = np.eye(3)[ridge.predict(OBS)][np.arange(N), ACTION]
    np.testing.assert_allclose(ratios(LOG, ridge).rho, chosen / LOG.behaviour)


def test_an_agent_of_real_actions_has_densities(torch):
    density = lambda s, a: np.exp(-((a[:, 0] - s[:, 0]) ** 2) / 2)  # noqa: E731
    log = read_log(clean(action=OBS[:, 0] + 0.5 * ACTION, action_prob=np.full(N, 0.4)))
    wanted = density(OBS.astype(np.float32), log.action[:, None].astype(np.float32)) / 0.4
    np.testing.assert_allclose(ratios(log, Agent(density=density)).rho, wanted, rtol=1e-5)


def test_several_policies_have_names():
    def careful(seen):
        return policy(seen)

    assert list(several([careful, "uniform", lambda s: s])) == ["careful", "uniform", "policy 3"]
    assert list(several(["uniform", "behavior"]).values()) == ["uniform", "behaviour"]
    assert list(several([classifier(), classifier()])) == ["LogisticRegression 1", "LogisticRegression 2"]
    for one in (["pi_0", "pi_1"], TABLE.tolist(), [0.5, 0.5], {0: 1}, None, policy, "uniform"):
        assert several(one) is None


@pytest.mark.parametrize("given", [0.3, "regressor", "agent"])
def test_real_actions_of_a_deterministic_policy_need_action_values_and_get_them(given):
    regressor = linear_model.LinearRegression().fit(OBS, OBS[:, 0])
    act = {"regressor": regressor, "agent": SimpleNamespace(predict=lambda s: s[:, 0] * 1.0)}.get(given, given)
    found = gradtd.evaluate(clean(action=OBS[:, 0] + 0.5 * ACTION), act, 0.9, features="identity")
    function = (lambda s: np.full((len(s), 1), 0.3)) if given == 0.3 else (lambda s: s[:, :1])
    wanted = gradtd.evaluate(
        clean(action=OBS[:, 0] + 0.5 * ACTION), function, 0.9, features="identity", value_function="action"
    )
    assert found.value == pytest.approx(wanted.value, rel=1e-4)
    assert any("returns one continuous action per observation and no density" in one for one in found.warnings)


DRAWS = np.random.default_rng(5)
REFUSED = {
    "a function that returns one number for all": (LOG, lambda s: 0.5 + 0 * s.sum()),
    "a function that returns nothing": (LOG, lambda s: None),
    "a function that returns scores": (LOG, lambda s: s @ gradtd_scores()),
    "a function that returns logarithms": (LOG, lambda s: np.log(policy(s))),
    "a function that returns percent": (LOG, lambda s: 100 * policy(s)),
    "a function that returns (actions, n)": (LOG, lambda s: policy(s).T),
    "a function that returns two of three actions": (LOG, lambda s: softmax(s)),
    "a function that returns one number each": (LOG, lambda s: policy(s)[:, 1]),
    "a function that draws its action": (LOG, lambda s: DRAWS.integers(0, 3, len(s))),
    "a function that draws its action, of one observation": (LOG, lambda s: int(DRAWS.integers(0, 3 + 0 * len(s[:2])))),
    "a function that returns lists of several lengths": (LOG, lambda s: [[0.5, 0.5], [1.0]]),
    "a function that uses the mean of what it is asked about": (LOG, lambda s: policy(s - s.mean(axis=0))),
    "a function that fails": (LOG, lambda s: s["obs_0"]),
    "a function that returns labels of a log with numbers": (LOG, lambda s: ["high"] * len(s)),
    "a function that returns an unknown label": (NAMED, lambda s: ["stop"] * len(s)),
    "a class": (LOG, linear_model.LogisticRegression),
    "a model that was not fitted": (LOG, linear_model.LogisticRegression()),
    "a model of fewer columns": (LOG, linear_model.LogisticRegression().fit(OBS[:, :1], ACTION)),
    "a model of columns with other names": (
        LOG,
        linear_model.LogisticRegression().fit(pd.DataFrame(OBS, columns=["x", "v"]), ACTION),
    ),
    "a regressor, discrete actions": (LOG, linear_model.LinearRegression().fit(OBS, OBS[:, 0])),
    "a dictionary that lacks a state": (OF_STATES, {0: 1, 1: 1}),
    "a dictionary with an unknown action": (OF_STATES, {k: {9: 1.0} for k in range(4)}),
    "a dictionary of real observations": (LOG, {(0.0, 0.0): 1}),
    "one label of a log with numbers": (LOG, "high"),
    "one probability": (LOG, 0.7),
    "a table, real observations": (LOG, TABLE),
    "a table of fewer states": (OF_STATES, TABLE[:2]),
    "real actions by row": (REAL, OBS[:, 0]),
    "a function of observations, real actions": (REAL, lambda s: s[:, 0]),
    "a table, real actions": (REAL, TABLE),
}


def refusal(name):
    log, given = REFUSED[name]
    try:
        ratios(log, given)
    except InputError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize("name", REFUSED)
def test_policies_that_are_refused(name):
    assert refusal(name) == golden("Policies")[name]
    assert refusal(name) != "taken"


def shown():
    return "\n".join(f"## {name}\n{refusal(name)}\n" for name in REFUSED)


if __name__ == "__main__":
    print(shown())
